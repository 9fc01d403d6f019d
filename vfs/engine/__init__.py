"""Turns a region of an array into its elements: reader, array, computed blocks, chunking, corrections, cache."""
