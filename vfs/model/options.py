"""Checks values of options against their annotations, and makes values from the texts of the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from numbers import Real
from operator import index
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin

from vfs.errors import OptionError
from vfs.model.wording import format_option, option

if TYPE_CHECKING:
    import numpy as np

MAX_VALUES = 1 << 20
"""Values of an option that takes several, at most: a range may have 10 ** 18."""

MAX_AXES = 32
"""Axes of a shape that is given: more than numpy and zarr know."""

_NAMES: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Any: "text"}
_SEVERAL: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "texts"}
_ORIGINS: dict[Any, str] = {Sequence: "a list of them", os.PathLike: "a path"}
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@cache
def kinds(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an annotation allows besides None; the values of a `Literal`.

    Types that accept fewer texts come first: bool, int, float, others, str.
    """
    if get_origin(annotation) in (Union, UnionType):
        members = [kind for member in get_args(annotation) if member is not NoneType for kind in kinds(member)]
    else:
        members = [annotation] if get_origin(annotation) is not Literal else list(get_args(annotation))
    order = [bool, int, float]
    return tuple(sorted(members, key=lambda kind: order.index(kind) if kind in order else len(order) + (kind is str)))


def named(annotation: Any) -> str:
    """Describe in words what an annotation allows, for messages."""
    allowed = kinds(annotation)
    if len(allowed) == 1 and get_origin(allowed[0]) is Sequence:
        return f"a list of {_SEVERAL.get(get_args(allowed[0])[0], 'values')}"
    return " or ".join(
        _NAMES.get(kind) or _ORIGINS.get(get_origin(kind)) or str(getattr(kind, "__name__", kind)) for kind in allowed
    )


def few(annotation: Any) -> list[str]:
    """Return the texts that an annotation allows, where these are few: true, false, and values of a `Literal`."""
    return [
        text
        for kind in kinds(annotation)
        for text in (("true", "false") if kind is bool else (kind,) if isinstance(kind, str) else ())
    ]


def from_text(text: str, annotation: Any) -> Any:
    """Convert text to a value of the first type of an annotation that accepts it.

    Raises:
        ValueError: no type accepts the text.
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
            return text  # formats parse some texts themselves: shapes, names
        except (KeyError, ValueError):
            continue
    raise ValueError(text)


def fitting(name: str, value: Any, annotation: Any, write: Callable[..., str] = option) -> Any:
    """Check the value of an option, and return it as one of the types that the option takes.

    Numbers of numpy become numbers of Python.

    Args:
        write: writes the option for a message: `option`, or `format_option`.

    Raises:
        OptionError: the value is of none of these types.
    """
    if value is None and NoneType in get_args(annotation):
        return None
    for kind in kinds(annotation):
        try:
            return _as(value, kind)
        except (TypeError, ValueError, OverflowError):  # the last of whole numbers that no float holds
            continue
    raise OptionError(f"{write(**{name: value})}: expected {named(annotation)}")


def whole_number(value: Any) -> int | None:
    """Return a whole number of Python or numpy as an int; None for anything else, also True and False.

    `operator.index` of numpy 1.26 takes a bool of numpy, and warns.
    """
    if type(value) is int:
        return value
    try:
        return None if _is_bool(value) else index(value)
    except TypeError:
        return None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or (
        getattr(getattr(value, "dtype", None), "kind", "") == "b" and getattr(value, "ndim", 1) == 0
    )


def _as(value: Any, kind: Any) -> Any:
    """Return the value as a value of type `kind`. Raise TypeError or ValueError if it is not one."""
    if type(value) is kind:
        return value
    if get_origin(kind) is Sequence and (isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) == 1):
        one = get_args(kind)[0]
        if len(value) > MAX_VALUES:
            raise ValueError
        return tuple([item if type(item) in kinds(one) else fitting("", item, one) for item in value])
    boolean = _is_bool(value)
    if kind is bool and boolean:
        return bool(value)
    if kind is int and not boolean:
        return index(value)
    if kind is float and isinstance(value, Real) and not boolean:
        return float(value)
    if kind is str and isinstance(value, str):
        return str.__str__(value)  # not the name of a member of an Enum
    fits = (kind is Any or kind not in _NAMES) and get_origin(kind) is not Sequence and _is(value, kind)
    if not fits:
        raise TypeError
    return value


def _is(value: Any, kind: Any) -> bool:
    """Return True if a value is of type `kind`, or if that cannot be checked.

    `kind` is not bool, int, float or str.
    """
    plain = get_origin(kind) or kind
    if plain is Any or kind is Any:
        return True
    if not isinstance(plain, type):  # a value of a Literal
        return type(value) is type(kind) and value == kind
    try:
        return isinstance(value, plain)
    except TypeError:  # a protocol
        return True


def shape_option(
    value: int | str | Sequence[int], name: str, write: Callable[..., str] = format_option
) -> tuple[int, ...]:
    """Read a shape given as numbers, as "256,256" or as "256x256".

    Args:
        name: name of the option, for the error.
        write: writes it: `format_option`, or `option` for one that every format has.

    Raises:
        OptionError: the value is not a shape.
    """
    if isinstance(value, str):
        parts: Sequence[object] = re.split(r"[x,]", value.strip("() ").removesuffix(","), maxsplit=MAX_AXES)
    else:
        alone = not isinstance(value, Iterable) or isinstance(value, bytes) or getattr(value, "ndim", None) == 0
        # Arrays are iterable, also those of no axes
        parts = [value] if alone else list(islice(cast(Sequence[int], value), MAX_AXES + 1))
    try:
        shape = tuple(int(str(part)) for part in parts)
    except ValueError:
        shape = ()
    if not 0 < len(shape) <= MAX_AXES or any(n < 1 for n in shape):
        raise OptionError(f"{write(**{name: value})}: expected one or more positive numbers such as 256,256")
    return shape


def dtype_option(value: Any, write: Callable[..., str] = option, name: str = "dtype") -> np.dtype:
    """Read a dtype given in any way that numpy takes.

    Args:
        write, name: see `shape_option`.

    Raises:
        OptionError: the value is not a dtype.
    """
    import numpy as np  # which `vfs --help` does without

    try:
        dtype: np.dtype = np.dtype(value)
    except (TypeError, ValueError, SyntaxError):  # ValueError: text that is not UTF-8; SyntaxError: "f4,,"
        raise OptionError(f"{write(**{name: value})}: not a numpy dtype") from None
    return dtype
