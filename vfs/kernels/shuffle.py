"""Helps to decode compressed chunks: reverses HDF5's shuffle filter, and finds the end of chains of blocks.

A shuffled chunk holds all first bytes of its elements, then all second bytes, and so on.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import kernel


@kernel
def unshuffle2(raw, out):
    """Join the shuffled bytes of `raw`, uint8[2 n], to elements of `out`, uint16[n]."""
    n = out.shape[0]
    for i in range(n):
        out[i] = np.uint16(raw[i]) | np.uint16(raw[n + i]) << np.uint16(8)


@kernel
def unshuffle4(raw, out):
    """Join the shuffled bytes of `raw`, uint8[4 n], to elements of `out`, uint32[n]."""
    n = out.shape[0]
    for i in range(n):
        low = np.uint32(raw[i]) | np.uint32(raw[n + i]) << np.uint32(8)
        out[i] = low | np.uint32(raw[2 * n + i]) << np.uint32(16) | np.uint32(raw[3 * n + i]) << np.uint32(24)


@kernel
def unshuffle8(raw, out):
    """Join the shuffled bytes of `raw`, uint8[8 n], to elements of `out`, uint64[n]."""
    n = out.shape[0]
    for i in range(n):
        value = np.uint64(0)
        for k in range(8):
            value |= np.uint64(raw[k * n + i]) << np.uint64(8 * k)
        out[i] = value


@kernel
def end_of_blocks(data, at, count):
    """Find the end of `count` blocks that follow one another from byte `at` on.

    Each block begins with its size in bytes (4 bytes, big-endian), which does not count these 4.

    Returns: byte behind the last block; -1 if that lies beyond the end of `data`.
    """
    for _ in range(count):
        if at + 4 > data.shape[0]:
            return -1
        at += 4 + (
            np.int64(data[at]) << 24
            | np.int64(data[at + 1]) << 16
            | np.int64(data[at + 2]) << 8
            | np.int64(data[at + 3])
        )
    return at if at <= data.shape[0] else -1


@kernel
def address(memory):
    """Return the address of the first byte of an array.

    It takes a seventh of the time that `memory.ctypes.data` takes in the interpreter.
    """
    return memory.ctypes.data
