"""What an option takes, read from its annotation: whether a value is that, and a text as such a value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from numbers import Real
from operator import index
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from vfs.errors import OptionError

_NAMES: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_ORIGINS: dict[Any, str] = {Sequence: "a list of them", os.PathLike: "a path"}
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_LONG = 80  # characters of a value in a message


@cache
def kinds(annotation: Any) -> tuple[Any, ...]:
    """The types that an option may have besides None, those first that take the fewest texts; for `Literal` its values."""
    if get_origin(annotation) in (Union, UnionType):
        members = [kind for member in get_args(annotation) if member is not NoneType for kind in kinds(member)]
    else:
        members = [annotation] if get_origin(annotation) is not Literal else list(get_args(annotation))
    order = [bool, int, float]
    return tuple(sorted(members, key=lambda kind: order.index(kind) if kind in order else len(order) + (kind is str)))


def named(annotation: Any) -> str:
    """What an option takes, in words."""
    return " or ".join(_NAMES.get(kind) or _ORIGINS.get(get_origin(kind)) or str(getattr(kind, "__name__", repr(kind))) for kind in kinds(annotation))


def from_text(text: str, annotation: Any) -> Any:
    """The text of an option as one of its types.

    Raises:
        ValueError: it is none of them.
    """
    for kind in kinds(annotation):
        try:
            if kind is bool:
                return _WORDS[text.lower()]
            if kind is int:
                return int(text, 0)
            if kind is float:
                return float(text)
            if not isinstance(kind, type) and get_origin(kind) is None:  # a value of a Literal
                if text == str(kind):
                    return kind
                continue
            return text  # formats parse texts of their own kind: shapes, names
        except (KeyError, ValueError):
            continue
    raise ValueError(text)


def fitting(name: str, value: Any, annotation: Any) -> Any:
    """The value of an option as one of the types that it takes; numpy's numbers as Python's.

    Raises:
        OptionError: it is none of them.
    """
    if value is None and NoneType in get_args(annotation):
        return None
    for kind in kinds(annotation):
        try:
            return _as(value, kind)
        except (TypeError, ValueError):
            continue
    raise OptionError(f"{name}={shown(value)}: expected {named(annotation)}")


def shown(value: object) -> str:
    """A value in a message, cut off where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _as(value: Any, kind: Any) -> Any:
    """The value as one of a type. Raises TypeError or ValueError where it is none."""
    boolean = isinstance(value, bool) or (getattr(getattr(value, "dtype", None), "kind", "") == "b" and getattr(value, "ndim", 1) == 0)
    if kind is bool and boolean:
        return bool(value)
    if kind is int and not boolean:
        return index(value)
    if kind is float and isinstance(value, Real) and not boolean:
        return float(value)
    if kind is str and isinstance(value, str):
        return str(value)
    if get_origin(kind) is Sequence and (isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) == 1):
        one = get_args(kind)[0]
        return tuple([item if type(item) in kinds(one) else fitting("", item, one) for item in value])
    fits = kind not in _NAMES and get_origin(kind) is not Sequence and _is(value, kind)
    if not fits:
        raise TypeError
    return value


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a type that is none of the plain ones; True where nobody can tell."""
    plain = get_origin(kind) or kind
    if plain is Any or kind is Any:
        return True
    if not isinstance(plain, type):  # a value of a Literal
        return type(value) is type(kind) and value == kind
    try:
        return isinstance(value, plain)
    except TypeError:  # a protocol
        return True
