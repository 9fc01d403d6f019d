"""Reductions as text: `bf=disk(cy=128, cx=128, r=20)`, as the command line, descriptions and attributes have them.

A kind is the name of a class in lower case; upper case and underscores make no difference. What takes no arguments may
stand alone, and is its own name: `bf` is `bf=bf()`, the bright field of the disk that is found in frames. Arguments
are those of the class, by name or by place. They are numbers, tuples of numbers, and, of `masks` and
for `dtype=`, words: no code is run. Axes that a reduction goes over are words by themselves, or names with a range:
`max(z)`, `mean(t, z=3:9)`.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.naming import unusable
from vfs.model.result_values import ResultValues
from vfs.model.wording import shown
from vfs.reduce import CLASSES
from vfs.reduce.in_frames import Masks
from vfs.reduce.projections import over_of
from vfs.reduce.reduction import Reduction, dtype_of

_SHORT = {
    "com": "centerofmass",
    "bf": "brightfield",
    "abf": "annularbrightfield",
    "adf": "annulardarkfield",
    "haadf": "highangledarkfield",
}
KINDS: dict[str, type[Reduction]] = {
    name.lower(): getattr(import_module(f"vfs.reduce.{home}"), name) for name, home in CLASSES.items()
}
KINDS |= {short: KINDS[name] for short, name in _SHORT.items()}
"""Name of a kind -> its class."""
WORDS = ("array", "dtype", "static", "dynamic")
"""Arguments that are words: the file of masks, a dtype, and what is done with backgrounds."""

FLAGS = ("masked", "skipna")
"""Arguments that are true or false."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_RANGE = re.compile(r"(-?\d{1,18})?:(-?\d{1,18})?")
_EXAMPLE = "expected NAME=KIND(…), as in bf=disk(cy=128, cx=128, r=20)"


def check_name(name: object) -> str:
    """Return the name of a result, which is also that of a file or an array.

    Raises:
        OptionError: it cannot be one.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            f"{shown(name)}: expected a name of up to 100 letters, digits, _, - and ., which does not begin with - or ."
        )
    if reason := unusable(name):
        raise OptionError(f"{name}: {reason}; give another name")
    return name


def read_all(texts: Iterable[str]) -> dict[str, Reduction]:
    """Read reductions that are each written as NAME=KIND(…).

    Returns: name -> reduction.

    Raises:
        OptionError: a text cannot be read, or a name is taken.
    """
    found: dict[str, Reduction] = {}
    for text in texts:
        name, reduction = read(text)
        if name in found:
            raise OptionError(f"{text}: the name {name} is taken, by {spelled(found[name])}; give another one")
        found[name] = reduction
    return found


def read(text: str) -> tuple[str, Reduction]:
    """Read a reduction that is written as NAME=KIND(…), or as KIND where it takes no arguments.

    Returns: its name, and the reduction.

    Raises:
        OptionError: there is no such kind, or it does not take these arguments, or the text is
            something else; the message says what is possible.
    """
    name, equals, call = (part.strip() for part in text.partition("="))
    said = " ".join(text.split())
    alone = not equals and _kind(name) is not None
    if alone:
        call = name
    elif not equals or not name or "(" in name:
        word = name.partition("(")[0]
        near = _near(word) if word and _kind(word) is None else ""
        raise OptionError(f"{said}: {_EXAMPLE}{near}")
    try:
        return check_name(name), read_call(call)
    except OptionError as error:
        raise OptionError(f"{said}: {error}") from None


def read_call(text: str) -> Reduction:
    """Read a reduction that is written as KIND(…), or as KIND where it takes no arguments.

    Raises:
        OptionError: see `read`.
    """
    word, bracket, rest = text.strip().partition("(")
    kind = _kind(word)
    if kind is None:
        raise OptionError(f"no kind {word.strip()!r}{_near(word)}; there are {', '.join(KINDS)}")
    if bracket and not rest.endswith(")"):
        raise OptionError(f"the bracket after {word.strip()} does not end; {_EXAMPLE}")
    places: list[Any] = []
    named: dict[str, Any] = {}
    takes = list(inspect.signature(kind).parameters)
    over: dict[str, slice] = {}
    for piece in _pieces(rest[:-1]):
        key, value = _argument(piece)
        if "over" in takes and (axis := _axis(key, value)) is not None:
            over |= axis
        elif key is None:
            key = takes[len(places)] if len(places) < len(takes) else ""
            places.append(_value(key, value))
        elif key in named:
            raise OptionError(f"{key} is given twice; {_possible(kind)}")
        else:
            named[key] = _value(key, value)
    if over:
        named["over"] = over
    try:
        inspect.signature(kind).bind(*places, **named)
    except TypeError as error:
        raise OptionError(f"{error}; {_possible(kind)}") from None
    return kind(*places, **named)


def _axis(key: str | None, value: str) -> dict[str, slice] | None:
    """Return the axis that an argument names, with the positions along it that count; None: it names none."""
    if key is None:
        named = value.isidentifier() and (len(value) == 1 or dtype_of(value).kind not in "iufc")  # "p" is a dtype, too
        return {value: slice(None)} if named else None
    found = _RANGE.fullmatch(value)
    return {key: slice(*(int(end) if end else None for end in found.groups()))} if found else None


def _kind(word: str) -> type[Reduction] | None:
    """Return the class that a word names; None: it names none."""
    return KINDS.get(_plain(word))


def _near(word: str) -> str:
    """Return a proposal for a word that names no kind; "" if no kind is called like it."""
    near = difflib.get_close_matches(_plain(word), KINDS, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _plain(word: str) -> str:
    return word.strip().replace("_", "").lower()


def spelled(reduction: Reduction) -> str:
    """Write a reduction as `read_call` reads it. Arrays, and reductions of other classes, are only named."""
    kind = type(reduction).__name__
    said: list[str] = []
    own: Any = reduction
    for each in fields(own) if is_dataclass(own) else ():
        value = getattr(reduction, each.name)
        if each.name == "over":
            said[:0] = [_axis_written(name, part) for name, part in over_of(value).items()]
        elif each.init and (each.default is MISSING or value is not each.default):
            said.append(f"{each.name}={_written(each.name, value)}")
    return f"{kind.lower()}({', '.join(said)})"


def attributes(result: ResultValues) -> dict[str, Any]:
    """Describe a result for the metadata of the array that holds it."""
    made = {"reduction": result.reduction, "kind": result.kind, "of": result.of}
    return made | ({"calibration": dict(result.calibration)} if result.calibration else {})


def _axis_written(name: str, part: slice) -> str:
    if part == slice(None):
        return name
    return f"{name}={'' if part.start is None else part.start}:{'' if part.stop is None else part.stop}"


def _written(name: str, value: Any) -> str:
    """Write an argument."""
    if name == "dtype":
        return str(dtype_of(value))
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, np.generic | int | float):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, tuple | list):
        return f"({', '.join(_written('', one) for one in value)})"
    shape = ", ".join(str(n) for n in np.shape(value))
    return f"{getattr(value, 'dtype', type(value).__name__)}[{shape}]"


def _pieces(text: str) -> Iterator[str]:
    """Cut arguments at the commas that are neither in brackets nor in quotes.

    Raises:
        OptionError: an argument is empty, or brackets or quotes do not end.
    """
    if not text.strip():
        return
    depth, quote, piece = 0, "", ""
    for letter in f"{text},":
        if quote:
            escaped = (len(piece) - len(piece.rstrip("\\"))) % 2
            quote = "" if letter == quote and not escaped else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            if not piece.strip():
                raise OptionError(f"found an empty argument; {_EXAMPLE}")
            yield piece.strip()
            piece = ""
            continue
        piece += letter
    if depth or quote or piece:
        raise OptionError(f"brackets or quotes do not end; {_EXAMPLE}")


def _argument(piece: str) -> tuple[str | None, str]:
    """Split NAME=VALUE; the name is None where there is only a value."""
    key, equals, value = piece.partition("=")
    if equals and key.strip().isidentifier():
        return key.strip(), value.strip()
    return None, piece


def _value(name: str, text: str) -> Any:
    """Read the value of an argument.

    Raises:
        OptionError: it is neither a number, nor several, nor a word where one is expected.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = text
    if name in WORDS and isinstance(value, str) and value:
        if name == "dtype" and dtype_of(value).kind not in "iufc":
            raise OptionError(f"dtype={text}: expected a dtype of numbers, as in dtype=f4")
        return value
    if name in FLAGS:
        if (flag := str(value).lower()) not in ("true", "false"):
            raise OptionError(f"{name}={text}: expected true or false")
        return flag == "true"
    numbers = value if isinstance(value, tuple | list) else (value,)
    if not text or (value is not None and not all(type(one) in (int, float) for one in numbers)):
        raise OptionError(f"{name}{'=' * bool(name)}{text}: expected a number; {_EXAMPLE}")
    return value


def _possible(kind: type[Reduction]) -> str:
    """Say which arguments a kind takes."""
    takes = []
    for name, parameter in inspect.signature(kind).parameters.items():
        usual = parameter.default
        takes.append(name if usual is parameter.empty else f"{name}={usual}")
    word = "FILE.npy" if kind is Masks else ""
    said = ", ".join(word if name == "array" else name for name in takes)
    return f"expected {kind.__name__.lower()}({said})"
