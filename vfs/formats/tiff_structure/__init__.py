"""Reads the structure of TIFF files, for the formats that are TIFF."""
