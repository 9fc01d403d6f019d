"""Kernels that libfuse calls, and the tables of words that they share with Python (`tables`).
`vfs.fuse` fills these.
"""
