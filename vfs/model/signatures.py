"""Gives a function the options of a dataclass as keyword arguments, for people, for `inspect`, and for type checkers.

`vfs.open`, `vfs.open_group` and `vfs.mount` take the same options, each of which is spelled once, as a field of
`OpenOptions`. Python has no syntax for "the fields of this class, and whatever options the format has", so:

- `inspect.signature`, `help()` and IPython see every option with its type and default (`__signature__`), and what it
  does (`__doc__`).
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

from vfs.model.open_options import About, OpenOptions, known

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


def opens(options: Callable[P, OpenOptions]) -> Callable[[Callable[..., R]], Opens[P, R]]:
    """Have a function that opens data sets take the fields of `options` as keyword arguments.

    They are put into its signature, and into its docstring where that says `{options}`.
    """
    return lambda function: _spelled(function, options)


def mounts(options: Callable[P, OpenOptions]) -> Callable[[Callable[..., R]], Mounts[P, R]]:
    """The same for a function that also takes a mount point."""
    return lambda function: _spelled(function, options)


def _spelled(function: Any, options: Any) -> Any:
    signature = inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    kind, rest = (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD, annotation="Any"),
    )
    taken = [inspect.Parameter(each.name, kind, default=each.default, annotation=each.type) for each in fields(options)]
    function.__signature__ = signature.replace(parameters=[*own, *taken, rest])
    lines = [_documented(name, option.about) for name, option in known(options).items()]
    lines.append(f"{_MARGIN}options: the format's own options; `vfs formats` lists them.")
    function.__doc__ = (function.__doc__ or "").replace(f"{_MARGIN}{{options}}", "\n".join(lines))
    return function


@cache
def _documented(name: str, about: About) -> str:
    """The lines of a docstring on an option."""
    text = f"{name}: {about.help} {about.more}"
    return textwrap.fill(text, 100, initial_indent=_MARGIN, subsequent_indent=_MARGIN + "    ")


_MARGIN = " " * 8
