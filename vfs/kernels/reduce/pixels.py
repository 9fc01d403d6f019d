"""Load pixels into registers, whatever their byte order and wherever they lie; and add up with a check."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from vfs.kernels.made_of import overloaded


def _loaded(context, builder, kind, swapped, address, index, keep=None):
    """Load a pixel as a word, AND it with one of a mask, swap its bytes, then take it for what it is."""
    word = ir.IntType(kind.bitwidth)
    value = builder.load(builder.gep(builder.inttoptr(address, word.as_pointer()), [index]), align=1)
    if keep is not None:
        value = builder.and_(
            value, builder.load(builder.gep(builder.inttoptr(keep, word.as_pointer()), [index]), align=1)
        )
    if swapped and kind.bitwidth > 8:
        value = builder.bswap(value)
    return builder.bitcast(value, context.get_value_type(kind)) if isinstance(kind, types.Float) else value


@intrinsic
def pixel(typing_context, address, index, like, order):
    """Load pixel `index` of a frame that begins at `address`, see `vfs.kernels.reduce`."""
    kind, swapped = like.dtype, not isinstance(order, types.NoneType)

    def generate(context, builder, signature, args):
        return _loaded(context, builder, kind, swapped, args[0], args[1])

    return kind(types.intp, types.intp, like, order), generate


@intrinsic
def kept_pixel(typing_context, address, index, like, order, words):
    """Load a pixel, or 0 where a mask says so: an AND of bits, so that not even a NaN gets through.

    Args:
        words: address of the mask: a word for each pixel, as wide as these, all bits of which are
            set where the pixel is kept.
    """
    kind, swapped = like.dtype, not isinstance(order, types.NoneType)

    def generate(context, builder, signature, args):
        return _loaded(context, builder, kind, swapped, args[0], args[1], args[4])

    return kind(types.intp, types.intp, like, order, types.intp), generate


def plus(total, value, like, overflow):
    """Return `total + value` in kernels. Where pixels are integers of 8 bytes, `overflow` (uint8[1])
    becomes 1 if the sum does not fit.
    """
    raise NotImplementedError("for kernels only")


@overloaded(plus, inline="always")
def _plus(total, value, like, overflow):
    wide = isinstance(like.dtype, types.Integer) and like.dtype.bitwidth == 64 and isinstance(total, types.Integer)
    if wide and total.signed:

        def signed(total, value, like, overflow):
            made = total + value
            if ((made ^ total) & (made ^ value)) < 0:
                overflow[0] = 1
            return made

        return signed
    if wide:

        def unsigned(total, value, like, overflow):
            made = total + value
            if made < total:
                overflow[0] = 1
            return made

        return unsigned

    def plain(total, value, like, overflow):
        return total + value

    return plain
