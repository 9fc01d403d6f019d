"""Gives a function the options of a dataclass as keyword arguments.

People, `inspect` and type checkers all see them. `vfs.open`, `vfs.open_group`, `vfs.mount` and
`vfs.serve` take the same options, and each option is spelled once, as a field of `OpenOptions`. Python has no syntax
for "the fields of this class, and the options of the format", so:

- `inspect.signature`, `help()` and IPython see every option with its type and default
  (`__signature__`), and its description (`__doc__`).
- Type checkers and editors see two overloads. The first has the options with their types, taken from the dataclass by
  a `ParamSpec`. The second takes any keyword, for the options of formats. So a call with a value of a wrong type
  passes the type checker; `OpenOptions` refuses it when it runs.

A `TypedDict` with `Unpack` would check the types, but refuse the options of formats: a TypedDict cannot be open
(PEP 728 is neither in Python 3.11 nor in mypy).
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import About, known

Path = str | os.PathLike[str]
Paths = Path | Sequence[Path]
Several = Paths | Sequence[Paths]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Opens(Protocol[P, R]):
    """A function that opens a data set."""

    @overload
    def __call__(self, paths: Paths, *args: P.args, **options: P.kwargs) -> R: ...

    @overload
    def __call__(self, paths: Paths, **options: Any) -> R: ...


class Mounts(Protocol[P, R]):
    """A function that shows data sets at a mount point."""

    @overload
    def __call__(self, paths: Several, mountpoint: Path, *args: P.args, **options: P.kwargs) -> R: ...

    @overload
    def __call__(self, paths: Several, mountpoint: Path, **options: Any) -> R: ...


class Serves(Protocol[P, R]):
    """A function that serves data sets over HTTP."""

    @overload
    def __call__(self, paths: Several, *args: P.args, **options: P.kwargs) -> R: ...

    @overload
    def __call__(self, paths: Several, **options: Any) -> R: ...


class Exports(Protocol[P, R]):
    """A function that writes a data set under another name."""

    @overload
    def __call__(self, data: Any, target: Path, *args: P.args, **options: P.kwargs) -> R: ...

    @overload
    def __call__(self, data: Any, target: Path, **options: Any) -> R: ...


def opens(options: Callable[P, OpenOptions]) -> Callable[[Callable[..., R]], Opens[P, R]]:
    """Return a decorator for functions that open data sets.

    It adds the fields of `options` to the function's signature, and to its docstring in place of `{options}`.
    """
    return lambda function: _spelled(function, options)


def mounts(options: Callable[P, OpenOptions]) -> Callable[[Callable[..., R]], Mounts[P, R]]:
    """Do the same as `opens`, for a function that also takes a mount point."""
    return lambda function: _spelled(function, options)


def serves(options: Callable[P, OpenOptions]) -> Callable[[Callable[..., R]], Serves[P, R]]:
    """Do the same as `opens`, for a function that takes several data sets."""
    return lambda function: _spelled(function, options)


def exports(options: Callable[P, OpenOptions]) -> Callable[[Callable[..., R]], Exports[P, R]]:
    """Do the same as `opens`, for a function that writes a data set."""
    return lambda function: _spelled(function, options)


def _spelled(function: Any, options: Any) -> Any:
    signature = inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    kind = inspect.Parameter.KEYWORD_ONLY
    rest = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD, annotation="Any")
    taken = [inspect.Parameter(each.name, kind, default=each.default, annotation=each.type) for each in fields(options)]
    function.__signature__ = signature.replace(parameters=[*own, *taken, rest])
    lines = [_documented(name, option.about) for name, option in known(options).items()]
    lines.append(f"{_MARGIN}options: the format's own options; `vfs formats` lists them.")
    function.__doc__ = (function.__doc__ or "").replace(f"{_MARGIN}{{options}}", "\n".join(lines))
    return function


@cache
def _documented(name: str, about: About) -> str:
    """Return the lines that describe an option in a docstring."""
    text = f"{name}: {about.help} {about.more}"
    rest = _MARGIN + "    "
    return textwrap.fill(text, 100, initial_indent=_MARGIN, subsequent_indent=rest, break_on_hyphens=False)


_MARGIN = " " * 8
