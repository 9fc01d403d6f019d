"""Kernels that make results of frames, wherever these lie in memory.

All of them take frames the same way. `places` says at which address the first pixel of each frame
is (int64[n]; rows that a kernel does not look at need not be there), `like` is an empty array of
the dtype of its pixels in native byte order, and `order` is None where they are stored in that
order, True where their bytes are swapped: the compiler makes a kernel for each, so that bytes are
swapped in registers, which is nearly free.
"""
