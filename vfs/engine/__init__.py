"""Turns a region of an array into its elements: reader, array, chunking, corrections, cache."""
