"""Holds the table that all callbacks of this process use, and calls libfuse and Python by address."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from vfs.kernels.native.fuse.tables import StateWord
from vfs.kernels.native.words import TABLE_WORDS, TableWord

_WORD = ir.IntType(64)

STATE = np.zeros(len(StateWord), np.int64)
"""The table that all callbacks of this process use, see `StateWord`.

They find it by the name of a symbol: compiled, they are kept on disk, and may hold no address of
this process."""
_NO_SOURCES, _NO_PLACE = np.zeros(TABLE_WORDS, np.int64), np.zeros(1, np.int64)
_NO_SOURCES[TableWord.PLACES], _NO_SOURCES[TableWord.COUNT] = _NO_PLACE.ctypes.data, 1
STATE[StateWord.SOURCES] = _NO_SOURCES.ctypes.data  # until a mount has some
_NAME = "vfs_mount_state"
llvm.add_symbol(_NAME, STATE.ctypes.data)


@intrinsic
def state(typing_context):
    """Return the address of `STATE`."""

    def generate(context, builder, signature, args):
        return builder.ptrtoint(_external(builder.module), _WORD)

    return types.int64(), generate


def _external(module):
    known = module.globals.get(_NAME)
    return known if known is not None else ir.GlobalVariable(module, _WORD, _NAME)


@intrinsic
def call(typing_context, function, a, b, c, d, e, f):
    """Call one of libfuse's operations by its address, with six integers or pointers.

    Arguments that it does not take do no harm.
    """
    word = types.int64

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [_WORD] * 6)
        found = builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return builder.sext(found, _WORD)

    return word(word, word, word, word, word, word, word), generate


@intrinsic
def call_word(typing_context, function):
    """Call a function by its address that takes no arguments and returns a word."""

    def generate(context, builder, signature, args):
        return builder.call(builder.inttoptr(args[0], ir.FunctionType(_WORD, []).as_pointer()), [])

    return types.int64(types.int64), generate


@intrinsic
def call_fill(typing_context, function, buffer, name, attributes, offset, flags):
    """Call libfuse's function that receives an entry of a folder.

    libfuse 2 takes no flags: one argument more does no harm.
    """
    word = types.int64

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [_WORD, _WORD, _WORD, _WORD, ir.IntType(32)])
        found = builder.call(
            builder.inttoptr(args[0], kind.as_pointer()), [*args[1:5], builder.trunc(args[5], ir.IntType(32))]
        )
        return builder.sext(found, _WORD)

    return word(word, word, word, word, word, word), generate
