"""Answers requests of a mount without the interpreter: libfuse calls the functions of `serve` and `names`.

`tables` declares the tables of words that they share with Python, and `vfs.fuse` fills them. `state` is the table from
which all others are found.
"""
