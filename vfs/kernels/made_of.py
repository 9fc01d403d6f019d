"""Digests what a kernel is compiled of: code and constants as this process has them, whatever the files hold by now.

The compiler takes a kernel's code, the functions that it calls, and the constants that both name, out of modules that
are loaded. After an update of the package a process that began before has the old ones, so neither names, times nor
contents of files say what a kernel that it compiles is made of. A kernel of equal digest is the same kernel, in every
process and under every path.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, EnumType
from functools import cache
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.extending import overload

_VERSIONED = {"numba", "llvmlite", "numpy", *sys.builtin_module_names, *sys.stdlib_module_names}
"""Packages whose functions and types a name tells apart, because their versions are in every digest."""

_VERSIONS = repr(
    (
        (numba.__version__, llvmlite.__version__, np.__version__, sys.version_info[:2]),
        (int(config.OPT), config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT),
    )
)

_overloads: dict[Callable[..., Any], Callable[..., Any]] = {}


class UntoldError(TypeError):
    """A kernel is made of something of a kind that no digest can tell from another one of its kind."""


def overloaded(function: Callable[..., Any], **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Do what `numba.extending.overload` does, and have digests know by what kernels call instead of the function."""

    def decorate(instead: Callable[..., Any]) -> Callable[..., Any]:
        _overloads[function] = instead
        return overload(function, **options)(instead)  # type: ignore[no-any-return]

    return decorate


def digest(function: FunctionType, options: Mapping[str, Any], *more: Any) -> bytes:
    """Return a digest of 16 bytes of a kernel.

    Args:
        function: what is compiled.
        options: how, as `numba.njit` takes them.
        more: what else decides which code is made: types of arguments, the processor.

    Raises:
        UntoldError: see there.
    """
    walk = _Telling()
    walk.tell(_VERSIONS, ())
    walk.tell(dict(options), ())
    for one in more:
        walk.tell(repr(one), ())
    walk.tell(function, ())
    return blake2b(repr(walk.said).encode(), digest_size=16).digest()


class _Telling:
    """Walks through all that a function refers to, each function once.

    Attributes:
        said: words and numbers, in an order that depends on nothing else.
    """

    def __init__(self) -> None:
        self.said: list[object] = []
        self._met: dict[int, int] = {}  # by `id`: all that is met lives as long as the function

    def _say(self, *words: object) -> None:
        self.said.append(words)

    def tell(self, value: Any, names: tuple[str, ...]) -> None:
        """Say what tells a value from any other.

        Args:
            names: attributes of it that the code may name.
        """
        kind = type(value)
        if isinstance(value, (Dispatcher, _Intrinsic, FunctionType)):
            self._tell_callable(value, names)
        elif value is None or value is ... or kind in (bool, int, float, complex, str, bytes, range):
            self._say(kind.__name__, value)
        elif kind in (tuple, list):
            self._tell_each(kind.__name__, value, names)
        elif kind in (set, frozenset):
            self._tell_each("set", sorted(value, key=repr), names)
        elif kind is dict:
            self._tell_each("dict", [part for item in value.items() for part in item], names)
        elif isinstance(value, (np.ndarray, np.generic)):
            self._say(kind.__name__, repr(value.dtype), value.shape, value.tobytes())
        elif isinstance(value, np.dtype):
            self._say("dtype", repr(value))
        elif isinstance(value, Enum):
            self._say("member", type(value).__qualname__, value.name, value.value)
        elif isinstance(value, EnumType):
            self._say("enum", _enumeration(value))
        elif isinstance(value, types.ExternalFunction):
            self._say("external", value.symbol, repr(value.sig))
        elif isinstance(value, (types.Type, ir.Type)):
            self._say(kind.__name__, _without_address(repr(value)))
        elif isinstance(value, ModuleType):
            self._tell_module(value, names)
        else:
            self._tell_callable(value, names)

    def _tell_each(self, kind: str, values: list[Any], names: tuple[str, ...]) -> None:
        self._say(kind, len(values))
        for value in values:
            self.tell(value, names)

    def _tell_module(self, module: ModuleType, names: tuple[str, ...]) -> None:
        self._say("module", module.__name__)
        if not _versioned(module.__name__):
            for name in names:
                if name in vars(module):
                    self._say(name)
                    self.tell(vars(module)[name], names)

    def _tell_callable(self, value: Any, names: tuple[str, ...]) -> None:
        if isinstance(value, Dispatcher):
            self._say("kernel")
            self.tell(value.targetoptions, names)
            self.tell(value.py_func, names)
        elif isinstance(value, _Intrinsic):
            self._say("intrinsic", value._prefer_literal)
            self.tell(value._defn, names)
        elif isinstance(value, (FunctionType, BuiltinFunctionType, type, np.ufunc)) and _versioned(
            getattr(value, "__module__", None) or "numpy"
        ):
            self._say("named", value.__module__ if hasattr(value, "__module__") else "numpy", value.__name__)
        elif isinstance(value, FunctionType):
            self._tell_function(value)
        else:
            raise UntoldError(f"expected a function or a constant, found {value!r}")

    def tell_code(self, code: CodeType) -> None:
        self._say("code", code.co_code, code.co_exceptiontable, code.co_flags, code.co_names, code.co_varnames)
        self._say(code.co_freevars, code.co_cellvars, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.tell_code(constant)
            else:
                self.tell(constant, ())
        self._say("end")

    def _tell_function(self, function: FunctionType) -> None:
        new = id(function) not in self._met
        self._say("function", function.__qualname__, self._met.setdefault(id(function), len(self._met)))
        if not new:
            return
        told, names = _code(function.__code__)
        self._say(told)
        self.tell(function.__defaults__, names)
        self.tell(function.__kwdefaults__, names)
        for cell in function.__closure__ or ():
            self.tell(cell.cell_contents, names)
        for name in names:
            if name in function.__globals__:
                self._say(name)
                self.tell(function.__globals__[name], names)
        if function in _overloads:
            self.tell(_overloads[function], names)


@cache
def _enumeration(kind: EnumType) -> str:
    """Return the names and values of an enumeration."""
    members: Mapping[str, Enum] = kind.__members__
    return repr((kind.__qualname__, {name: member.value for name, member in members.items()}))


_codes: dict[int, tuple[CodeType, bytes, tuple[str, ...]]] = {}
"""Of code that was met, by its `id`: to hash a code object takes it as long."""


def _code(code: CodeType) -> tuple[bytes, tuple[str, ...]]:
    """Return a digest of code, and the globals and attributes that it names. Where its lines stand does not count."""
    if id(code) not in _codes:
        made = _Telling()
        made.tell_code(code)
        told = blake2b(repr(made.said).encode(), digest_size=16).digest()
        _codes[id(code)] = code, told, tuple(sorted(set(_names(code))))
    return _codes[id(code)][1:]


def _names(code: CodeType) -> Iterator[str]:
    """Yield the globals and attributes that code names, and what is defined in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _versioned(module: str) -> bool:
    return module.partition(".")[0] in _VERSIONED


def _without_address(text: str) -> str:
    if " at 0x" in text:
        raise UntoldError(f"expected a type that its text tells, found {text}")
    return text
