"""Adds functions to numba that kernels need and numba lacks.

They swap bytes, access words at addresses, and unpack 12-bit pixels with vectors.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def swap_bytes(typing_context, word):
    """Reverse the bytes of an unsigned word of 2, 4 or 8 bytes (LLVM's bswap, which vectorises)."""
    if not isinstance(word, types.Integer):
        return None

    def generate(context, builder, signature, args):
        return builder.bswap(args[0])

    return word(word), generate


@intrinsic
def pixel(typing_context, word, pixels):
    """Return a word of a file as an element of the array `pixels`.

    A word of the dtype of the array is one already. The bytes of a word of another dtype, as long as that one, are
    reversed: one kernel does so for both byte orders, and is compiled for each.
    """
    to = pixels.dtype

    def generate(context, builder, signature, args):
        if word == to:
            return args[0]
        return builder.bitcast(builder.bswap(args[0]), context.get_value_type(to))

    return to(word, pixels), generate


_WORD = ir.IntType(64)


@intrinsic
def get(typing_context, table, word):
    """Return an int64 word of the table at an address."""

    def generate(context, builder, signature, args):
        return builder.load(builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [args[1]]))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def get_word(typing_context, address, index):
    """Return the word of 8 bytes with this index, counted from `address`, which need not be aligned.

    With an address no array has to be made and passed on.
    """

    def generate(context, builder, signature, args):
        return builder.load(builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [args[1]]), align=1)

    return types.uint64(types.intp, types.intp), generate


@intrinsic
def set_word(typing_context, address, index, word):
    """Store the word of 8 bytes with this index, counted from `address`, which need not be aligned."""

    def generate(context, builder, signature, args):
        builder.store(args[2], builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [args[1]]), align=1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.uint64), generate


@intrinsic
def unpack_12(typing_context, dst, src):
    """Unpack 16 little-endian pixels of 12 bits: 24 bytes at `src` become 16 uint16 at `dst`.

    Both are addresses, which need not be aligned. This uses vectors, because LLVM makes code from a
    loop over pixels or words that takes twice as long as memcpy. One shuffle picks the two bytes of
    each pixel, which are shifted by 0 or 4 bits and masked. `vfs.kernels.k2is` gives the speed.
    """
    if not isinstance(dst, types.Integer) or not isinstance(src, types.Integer):
        return None

    def generate(context, builder, signature, args):
        byte, word, number = ir.IntType(8), ir.IntType(16), ir.IntType(32)
        half, pixels = ir.VectorType(byte, 8), ir.VectorType(word, 16)

        def at(address, kind):
            return builder.inttoptr(address, kind.as_pointer())

        def order(places):
            return ir.Constant(ir.VectorType(number, len(places)), places)

        low = builder.load(at(args[1], ir.VectorType(byte, 16)), align=1)
        rest = builder.load(at(builder.add(args[1], ir.Constant(args[1].type, 16)), half), align=1)
        high = builder.shuffle_vector(rest, ir.Constant(half, ir.Undefined), order([*range(8), *range(8)]))
        pairs = builder.shuffle_vector(low, high, order([3 * k + j for k in range(8) for j in (0, 1, 1, 2)]))
        shifted = builder.lshr(builder.bitcast(pairs, pixels), ir.Constant(pixels, [0, 4] * 8))
        builder.store(builder.and_(shifted, ir.Constant(pixels, [0xFFF] * 16)), at(args[0], pixels), align=2)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate
