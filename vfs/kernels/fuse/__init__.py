"""What libfuse calls, and the tables of words that it reads: see `vfs.fuse`."""
