"""The few things kernels need that numba does not offer by itself: byte swap, memcpy, pread, preadv."""

from __future__ import annotations

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


# Symbols of the C library, looked up by name when a kernel is loaded: unlike ctypes pointers they may be cached on disk.
memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
pread = types.ExternalFunction("pread", types.intp(types.int32, types.intp, types.intp, types.int64))
preadv = types.ExternalFunction("preadv", types.intp(types.int32, types.intp, types.int32, types.int64))
