"""From a region of an array to its elements: reader, array, chunking, corrections, cache."""
