"""What a zarr tool or `ls` sees of a set: metadata documents, faces, whole chunks."""
