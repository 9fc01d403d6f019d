"""The adapter to zarr-python: the store, the codec pipeline, export."""
