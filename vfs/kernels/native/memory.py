"""Loads and stores by address, for native code.

Addresses are plain integers. `put` and the atomic operations work on a word of a table (see
`vfs.kernels.native.words`), `peek` and `poke` on a field of a C struct, given by its address. All
atomic operations are sequentially consistent.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vfs.kernels.clib import memcpy
from vfs.kernels.compiled import inner, kernel
from vfs.kernels.native.words import WORD

_WORD = ir.IntType(64)


def _pointer(builder, address, kind=_WORD):
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def peek(typing_context, address):
    """Return the int64 at an address."""

    def generate(context, builder, signature, args):
        return builder.load(_pointer(builder, args[0]))

    return types.int64(types.int64), generate


@intrinsic
def poke(typing_context, address, value):
    """Store an int64 at an address."""

    def generate(context, builder, signature, args):
        builder.store(args[1], _pointer(builder, args[0]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def peek32(typing_context, address):
    """Return the uint32 at an address, as int64."""

    def generate(context, builder, signature, args):
        return builder.zext(builder.load(_pointer(builder, args[0], ir.IntType(32))), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def peek8(typing_context, address):
    """Return the uint8 at an address, as int64."""

    def generate(context, builder, signature, args):
        return builder.zext(builder.load(_pointer(builder, args[0], ir.IntType(8))), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def poke32(typing_context, address, value):
    """Store the low 32 bits of a word at an address."""

    def generate(context, builder, signature, args):
        builder.store(builder.trunc(args[1], ir.IntType(32)), _pointer(builder, args[0], ir.IntType(32)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def poke8(typing_context, address, value):
    """Store the low 8 bits of a word at an address."""

    def generate(context, builder, signature, args):
        builder.store(builder.trunc(args[1], ir.IntType(8)), _pointer(builder, args[0], ir.IntType(8)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def room(words):
    """Make a function for kernels that returns the address of `words` int64 on the stack, with any content.

    The memory is valid until the kernel that calls the function returns. An array would not do: its
    memory is freed after the last use of the array's name, even if its address is still used.
    """

    @intrinsic
    def address(typing_context):
        def generate(context, builder, signature, args):
            return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(_WORD, words)), _WORD)

        return types.int64(), generate

    return address


def _word(builder, table, word):
    return builder.gep(_pointer(builder, table), [word])


@intrinsic
def put(typing_context, table, word, value):
    """Store a word of a table."""

    def generate(context, builder, signature, args):
        builder.store(args[2], _word(builder, *args[:2]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def atomic_get(typing_context, table, word):
    """Return a word of a table that another thread may be storing at the same time."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_word(builder, *args), "seq_cst", WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def atomic_put(typing_context, table, word, value):
    """Store a word of a table that another thread may be reading at the same time."""

    def generate(context, builder, signature, args):
        builder.store_atomic(args[2], _word(builder, *args[:2]), "seq_cst", WORD)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def atomic_add(typing_context, table, word, value):
    """Add to a word of a table. Return its value before."""

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("add", _word(builder, *args[:2]), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def atomic_swap(typing_context, table, word, value):
    """Store a word of a table. Return its value before."""

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("xchg", _word(builder, *args[:2]), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def atomic_replace(typing_context, table, word, old, new):
    """Store a word of a table if its value is `old`. Return True if it was."""

    def generate(context, builder, signature, args):
        done = builder.cmpxchg(_word(builder, *args[:2]), args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(done, 1)

    return types.boolean(types.int64, types.int64, types.int64, types.int64), generate


@inner
def address(table, word):
    """Return the address of a word of a table."""
    return table + WORD * word


def _memory(kind):
    @intrinsic
    def memory(typing_context, address):
        def generate(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(kind).as_pointer())

        return types.CPointer(kind)(types.int64), generate

    return memory


memory16, memory32, memory64 = map(_memory, (types.uint16, types.uint32, types.uint64))
"""Make pointers to words of 16, 32 and 64 bits from an address, as numba's `carray` takes them."""


@kernel
def read_word(table, word):
    """Do what `atomic_get` does; Python code calls this one."""
    return atomic_get(table, word)


@kernel
def write_word(table, word, value):
    """Do what `atomic_put` does; Python code calls this one."""
    atomic_put(table, word, value)


@kernel
def copy(to, start, count):
    """Copy `count` bytes between two addresses. Python code calls this; other threads run meanwhile."""
    memcpy(to, start, count)
