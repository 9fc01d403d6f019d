"""Makes what zarr tools and `ls` see of a data set: metadata documents, faces."""
