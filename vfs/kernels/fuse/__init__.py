"""Kernels that libfuse calls, and the tables of words that they share with Python.

`tables` declares these tables, and `vfs.fuse` fills them.
"""
