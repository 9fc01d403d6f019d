"""Adapts vfs to zarr-python: the store, the codec pipeline, and export."""
