"""Numba kernels: arrays and integers in, arrays out. Nothing else in vfs imports numba.

Every kernel stands at module level (only then it reaches numba's disk cache), releases the GIL and runs on one thread.
"""
