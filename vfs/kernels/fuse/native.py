"""Memory by its address, atomically where threads share it, and functions by theirs: for kernels that C code calls.

Addresses are plain integers. All atomic operations are sequentially consistent.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from vfs.kernels.intrinsics import memcpy

_WORD = ir.IntType(64)

STATE_WORDS = 64
STATE = np.zeros(STATE_WORDS, np.int64)
"""What native callbacks of this process know: they have no other way to it than a name, and a compiled one is kept on disk."""
_NAME = "vfs_mount_state"
llvm.add_symbol(_NAME, STATE.ctypes.data)


@intrinsic
def state(typing_context):
    """Address of `STATE`."""

    def generate(context, builder, signature, args):
        return builder.ptrtoint(_external(builder.module), _WORD)

    return types.int64(), generate


def _external(module):
    known = module.globals.get(_NAME)
    return known if known is not None else ir.GlobalVariable(module, _WORD, _NAME)


def _pointer(builder, address, kind=_WORD):
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def poke(typing_context, address, value):
    """Store an int64."""

    def generate(context, builder, signature, args):
        builder.store(args[1], _pointer(builder, args[0]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def peek32(typing_context, address):
    """The uint32 at an address, as int64."""

    def generate(context, builder, signature, args):
        return builder.zext(builder.load(_pointer(builder, args[0], ir.IntType(32))), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def peek8(typing_context, address):
    """The uint8 at an address, as int64."""

    def generate(context, builder, signature, args):
        return builder.zext(builder.load(_pointer(builder, args[0], ir.IntType(8))), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def poke32(typing_context, address, value):
    """Store the low 32 bits."""

    def generate(context, builder, signature, args):
        builder.store(builder.trunc(args[1], ir.IntType(32)), _pointer(builder, args[0], ir.IntType(32)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def poke8(typing_context, address, value):
    """Store the low 8 bits."""

    def generate(context, builder, signature, args):
        builder.store(builder.trunc(args[1], ir.IntType(8)), _pointer(builder, args[0], ir.IntType(8)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def room(words):
    """A function for kernels: the address of so many int64 on the stack, whatever is in them, there until the kernel that calls it returns.

    The memory of an array would be freed as soon as the array is not named any more, whoever still has its address.
    """

    @intrinsic
    def address(typing_context):
        def generate(context, builder, signature, args):
            return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(_WORD, words)), _WORD)

        return types.int64(), generate

    return address


@intrinsic
def atomic_load(typing_context, address):
    """The int64 at an address."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_pointer(builder, args[0]), "seq_cst", 8)

    return types.int64(types.int64), generate


@intrinsic
def atomic_store(typing_context, address, value):
    """Store an int64."""

    def generate(context, builder, signature, args):
        builder.store_atomic(args[1], _pointer(builder, args[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def atomic_add(typing_context, address, value):
    """Add to an int64. Returns what it was before."""

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def atomic_swap(typing_context, address, value):
    """Put another int64 there. Returns what it was before."""

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("xchg", _pointer(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


def _memory(kind):
    @intrinsic
    def memory(typing_context, address):
        def generate(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(kind).as_pointer())

        return types.CPointer(kind)(types.int64), generate

    return memory


memory16, memory32, memory64 = map(_memory, (types.uint16, types.uint32, types.uint64))
"""Pointers to words of 16, 32 and 64 bits at an address: what numba's `carray` takes."""


@intrinsic
def call(typing_context, function, a, b, c, d, e, f):
    """Call a function of libfuse's operations by its address, with up to six integers or pointers. Those that it does not take do no harm."""
    word = types.int64

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [_WORD] * 6)
        found = builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return builder.sext(found, _WORD)

    return word(word, word, word, word, word, word, word), generate


@intrinsic
def call_word(typing_context, function):
    """Call a function by its address that takes nothing and returns a word."""

    def generate(context, builder, signature, args):
        return builder.call(builder.inttoptr(args[0], ir.FunctionType(_WORD, []).as_pointer()), [])

    return types.int64(types.int64), generate


@intrinsic
def call_fill(typing_context, function, buffer, name, attributes, offset, flags):
    """Call libfuse's function that takes an entry of a folder. libfuse 2 knows no flags: a further argument does no harm to it."""
    word = types.int64

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [_WORD, _WORD, _WORD, _WORD, ir.IntType(32)])
        found = builder.call(builder.inttoptr(args[0], kind.as_pointer()), [*args[1:5], builder.trunc(args[5], ir.IntType(32))])
        return builder.sext(found, _WORD)

    return word(word, word, word, word, word, word), generate


@njit(nogil=True, cache=True)
def read_word(address):
    """`atomic_load` for the interpreter."""
    return atomic_load(address)


@njit(nogil=True, cache=True)
def write_word(address, value):
    """`atomic_store` for the interpreter."""
    atomic_store(address, value)


@njit(nogil=True, cache=True)
def copy(to, start, count):
    """memcpy for the interpreter, which meanwhile goes on."""
    memcpy(to, start, count)


statx = types.ExternalFunction("statx", types.int32(types.int32, types.intp, types.int32, types.uint32, types.intp))
"""In the C library since 2018, laid out alike on all machines, where struct stat is not."""

clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
"""Seconds and nanoseconds to an address, where these are words of 64 bits each."""
