"""Decodes chunks of HDF5 that were shuffled, or bitshuffled, which takes a library of C functions.

A shuffled chunk holds all first bytes of its elements, then all second bytes, and so on. A
bitshuffled one holds all first bits, then all second bits, and so on, of a block of elements after
the other; blocks are mostly compressed.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from vfs.kernels.columns import COUNT, DEST, START, STOP
from vfs.kernels.compiled import inner, kernel


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


@inner
def _number(data, at):
    """Return the 4 bytes from `at` on as a number, big-endian."""
    return (
        np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16 | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])
    )


@kernel
def end_of_blocks(data, at, count):
    """Find the end of `count` blocks that follow one another from byte `at` on.

    Each block begins with its size in bytes (4 bytes, big-endian), which does not count these 4.

    Returns: byte behind the last block; -1 if that lies beyond the end of `data`.
    """
    for _ in range(count):
        if at + 4 > data.shape[0]:
            return -1
        at += 4 + _number(data, at)
    return at if at <= data.shape[0] else -1


@intrinsic
def _call(typing_context, function, data, out, count, width, block):
    """Call a function of the library of bitshuffle by its address."""

    def generate(context, builder, signature, args):
        word = ir.IntType(64)
        return builder.call(builder.inttoptr(args[0], ir.FunctionType(word, [word] * 5).as_pointer()), args[1:])

    return types.int64(*[types.int64] * 6), generate


OTHER_ELEMENTS, OTHER_SIZE, OTHER_BLOCKS, TOO_SHORT = 1, 2, 3, 4
"""Why `unbitshuffle` does not call the library: a chunk has no whole elements of this width, or not its size,
cannot have blocks of that length, or ends before its last block does."""


@kernel
def unbitshuffle(how, data, out):
    """Undo bitshuffle, and the compression of its blocks, in one chunk.

    The library trusts the sizes that it finds in compressed data, so they are checked before.
    These begin with the size of the chunk (8 bytes, big-endian) and that of a block (4 bytes); then
    come the blocks (see `end_of_blocks`), and elements that fill no group of 8, as they are.

    Args:
        how: (address of the library's function, 1 if blocks are compressed else 0, bytes of an
            element, elements of a block where none are compressed).
        data: uint8[m], as it is stored; out: uint8[n], written to.

    Returns: 0; a number above it, see `OTHER_ELEMENTS`; one below it, which the library returned.
    """
    function, compressed, width, block = how
    n, at = out.shape[0], 0
    if n % width != 0:
        return OTHER_ELEMENTS
    count = n // width
    if compressed != 0:
        if data.shape[0] < 12 or _number(data, 0) << 32 | _number(data, 4) != n:
            return OTHER_SIZE
        block, at = _number(data, 8) // width, 12
        if block < 8 or block % 8 != 0:
            return OTHER_BLOCKS
        rest = count % block
        end = end_of_blocks(data, at, count // block + (1 if rest >= 8 else 0))
        if end < 0 or end + rest % 8 * width > data.shape[0]:
            return TOO_SHORT
    elif data.shape[0] != n:
        return OTHER_SIZE
    return min(0, _call(function, data.ctypes.data + at, out.ctypes.data, count, width, block))


@kernel
def unbitshuffle_blocks(how, ranges, data, base, out, itemsize):
    """Do what `unbitshuffle` does for one block after the other, without the interpreter for each.

    Args:
        how: see there.
        ranges: int64[n, 11], one for each block, whose elements lie side by side in the output.
        data: uint8[m], a file's bytes from `base` on.
        out: uint8[k], the memory of the output; itemsize: bytes of one of its elements.

    Returns: how many of the first blocks are decoded: the next one is not as it should be.
    """
    for r in range(ranges.shape[0]):
        to = ranges[r, DEST] * itemsize
        made = out[to : to + ranges[r, COUNT] * itemsize]
        if unbitshuffle(how, data[ranges[r, START] - base : ranges[r, STOP] - base], made) != 0:
            return r
    return ranges.shape[0]
