"""Compiles decoding kernels that other kernels call by their addresses: a read needs the
interpreter only at its beginning and end.

A *step* is a C function of seven int64: where a table of ranges is (see `vfs.kernels.ranges`), its
rows; where bytes of a file are, how many, which byte of the file is the first; where the output is,
its bytes. It puts the elements of the ranges into their places.

A step is compiled when it is first asked for and kept on disk as every kernel. What tells one from
others of its kind, a dtype or a width, the compiler takes as constants from around the function.
These must pickle alike in every process, or each compiles anew: dtypes and numbers do.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from vfs.kernels import gather, unpack
from vfs.kernels.ranges import COLUMNS

_WORD = ir.IntType(64)
_STEP = types.void(*[types.int64] * 7)


@intrinsic
def _pointer(typing_context, address):
    """Make a pointer of an address, as numba's `carray` takes it."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@intrinsic
def call(typing_context, step, ranges, rows, data, size, base, out, length):
    """Call a step by its address."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.VoidType(), [_WORD] * 7)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), generate


@njit(nogil=True, cache=True)
def decode(step, ranges, data, base, out):
    """Run a step on arrays: int64[n, 11], uint8[m], uint8[k], C-contiguous."""
    call(
        step, ranges.ctypes.data, ranges.shape[0], data.ctypes.data, data.shape[0], base, out.ctypes.data, out.shape[0]
    )


_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_kept: list[Any] = []


def _compiled(function: Any) -> int:
    made = cfunc(_STEP, cache=True)(function)
    _kept.append(made)  # its address is good for as long as it lives
    return int(made.address)


@cache
def placing(width: int, parts: int, swapped: bool) -> int:
    """Return the address of `gather.place` or `place_swapped` for words of `width` bytes, `parts`
    of them an element.
    """
    word = _WORDS[width]

    def place(ranges, rows, data, size, base, out, length):
        table = carray(_pointer(ranges), (rows, COLUMNS), np.int64)
        source = carray(_pointer(data), size, np.uint8)
        target = carray(_pointer(out), length // width, word)
        if swapped:
            gather.place_swapped(table, source, base, target, parts)
        else:
            gather.place(table, source, base, target, parts)

    return _compiled(place)


@cache
def placing_as(stored: np.dtype, swapped: bool, made: np.dtype) -> int:
    """Return the address of `gather.place_as` or `place_swapped_as`.

    Args:
        stored: integers, in native order; made: floats.
    """
    source, target, width = stored.type, made.type, made.itemsize

    def place_as(ranges, rows, data, size, base, out, length):
        table = carray(_pointer(ranges), (rows, COLUMNS), np.int64)
        given = carray(_pointer(data), size, np.uint8)
        placed = carray(_pointer(out), length // width, target)
        if swapped:
            gather.place_swapped_as(table, given, base, np.empty(0, source), placed)
        else:
            gather.place_as(table, given, base, np.empty(0, source), placed)

    return _compiled(place_as)


@cache
def unpacking(depth: int) -> int:
    """Return the address of the kernel of `vfs.kernels.unpack` for pixels of 4 bits, or of 1, 6, 12
    or 24 bits in big-endian words.
    """
    word = {1: np.uint8, 4: np.uint8, 6: np.uint8, 12: np.uint16, 24: np.uint32}[depth]
    width = np.dtype(word).itemsize

    def unpacked(ranges, rows, data, size, base, out, length):
        table = carray(_pointer(ranges), (rows, COLUMNS), np.int64)
        source = carray(_pointer(data), size, np.uint8)
        target = carray(_pointer(out), length // width, word)
        if depth == 1:
            unpack.place_bits(table, source, base, target)
        elif depth == 4:
            unpack.place_nibbles(table, source, base, target)
        elif depth == 24:
            unpack.place_halves(table, source, base, target)
        else:
            unpack.place_lanes(table, source, base, target)

    return _compiled(unpacked)
