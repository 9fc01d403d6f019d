"""Compiles decoding kernels that other kernels call by their addresses.

With them a read needs the interpreter only at its beginning and end. A *step* is a C function of
seven int64:

- the address of a table of ranges (see `vfs.kernels.columns`), and its number of rows;
- the address of bytes of a file, their number, and the byte of the file that is the first;
- the address of the output, and its bytes.

It puts the elements of the ranges into their places in the output.

A step is compiled when it is first asked for and kept on disk as every kernel. Its dtype or width
is a variable outside of the function, which the compiler takes as a constant. Such variables must
pickle alike in every process, or each process compiles anew: dtypes and numbers do.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

import vfs.kernels.gather as gather
import vfs.kernels.unpack as unpack
from vfs.kernels.columns import COLUMNS
from vfs.kernels.compiled import callback, kernel

_WORD = ir.IntType(64)
_STEP = types.void(*[types.int64] * 7)


@intrinsic
def _pointer(typing_context, address):
    """Make a pointer from an address, as numba's `carray` takes it."""

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


@kernel
def decode(step, ranges, data, base, out):
    """Run a step on C-contiguous arrays.

    Args:
        step: address of the step.
        ranges: int64[n, 11].
        data: uint8[m], a file's bytes from `base` on.
        out: uint8[k], the memory of the output.
    """
    call(
        step, ranges.ctypes.data, ranges.shape[0], data.ctypes.data, data.shape[0], base, out.ctypes.data, out.shape[0]
    )


_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_kept: list[Any] = []


def _compiled(function: Any) -> int:
    made = callback(_STEP)(function)
    _kept.append(made)  # its address is valid only as long as it exists
    return int(made.address)


@cache
def placing(width: int, parts: int, swapped: bool) -> int:
    """Return the address of a step that does what `gather.place` or `gather.place_swapped` does.

    Args:
        width: bytes of a word.
        parts: words of an element.
        swapped: True if the words are stored in the other byte order.
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
    """Return the address of a step that does what `gather.place_as` or `gather.place_swapped_as` does.

    Args:
        stored: dtype of the integers in the file, given in native byte order.
        swapped: True if they are stored in the other byte order.
        made: dtype of the output, floats.
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
    """Return the address of a step that unpacks pixels with a kernel of `vfs.kernels.unpack`.

    Args:
        depth: bits of a pixel: 4; or 1, 6, 12 or 24 in big-endian words.
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
