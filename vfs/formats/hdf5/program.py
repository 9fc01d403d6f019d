"""Defines what vfs knows of a program that writes HDF5; each program has a file in `vfs.formats.hdf5.programs`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.small import read_small
from vfs.h5.facts import Survey
from vfs.model.files import Files
from vfs.model.stored import Absence, StoredArray

DEEPEST = 20  # levels of metadata: more are left out
_EVEN = 1e-3  # most distance, in steps, of an element of an even vector from its place
_NO_NAME = {"none", "_none_", "undefined", "t.undefined", "<undefined>", "[]"}

Found = Mapping[str, StoredData]
"""The arrays of a file that are shown, by their paths."""


@dataclass(frozen=True)
class Axis:
    """Holds name ("" if unknown) and calibration (known ones of scale, offset, unit, values) of an axis."""

    name: str = ""
    calibration: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Axes:
    """Holds the axes of a data set, slowest first.

    Attributes:
        nav_ndim: number of navigation axes; None if the file does not say.
        picture: axes without a name are those of a picture, beside others that have one.
    """

    axes: tuple[Axis, ...]
    nav_ndim: int | None = None
    picture: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names, if all axes have one and all are different; else (). Of a picture, "" for its axes."""
        names = tuple(axis.name for axis in self.axes)
        return names if self.picture or (all(names) and len(set(names)) == len(names)) else ()


class Numbered(NamedTuple):
    """How a program numbers data sets that are pieces of one array.

    Attributes:
        find: returns the path of the array -> number -> path of the piece, in the order of the numbers, given the path
            of the file and the names of its data sets.
        path: returns the path of the piece of a number, given that of another one.
        begin: number of the first piece. If it is 1, those before the first one that is there are lost, unless that
            would be most.
        beside: returns the path of what is shown of a piece only where it stands alone.
        first_image: returns the number that a piece gives its first image, if it gives one.
        in_raster: returns the array of a path in the shape of its scan.
    """

    find: Callable[[str, Iterable[str], Survey], dict[str, dict[int, str]]]
    path: Callable[[int, str], str]
    begin: int = 1
    beside: Callable[[str], str] = lambda piece: ""
    first_image: Callable[[StoredData], int | None] = lambda piece: None
    in_raster: Callable[[str, StoredData, Survey], StoredData] = lambda whole, made, survey: made


class Program(NamedTuple):
    """What vfs knows of a program, or of a convention that several follow.

    Each function recognises what the program wrote by itself, and answers with nothing for any other file. What a
    program does not say is left out.

    Attributes:
        first: returns the names of the arrays that the program shows first.
        axes: returns the axes of the array of a name and shape.
        about: returns array -> attributes, which the program keeps beside it.
        never: pattern of names of what nobody wants to see first, in a file of any program: masks, thumbnails, tables.
        encoded: returns the names of arrays that mean nothing as they are stored; they are never shown first.
        mask_bits: returns what `StoredArray.mask_bits` says of an array of integers of a name.
        computed: makes arrays that are counted from what is stored, given the files of an array; returns them, and
            reasons why others are not there.
        in_scan: returns an array in the shape of its scan.
        numbered: how pieces of an array are numbered.
        joined: joins pieces that have several numbers, given the path of the file; changes the arrays that are shown,
            and the reasons for which others are not; returns what is absent.
        declared: returns how many frames the joined array of a path will hold, and by which words the file says it.
    """

    first: Callable[[Found, Survey], list[str]] | None = None
    axes: Callable[[str, tuple[int, ...], Found, Survey], Axes | None] | None = None
    about: Callable[[Found, Survey], dict[str, dict[str, Any]]] | None = None
    never: str = ""
    encoded: Callable[[Found], set[str]] | None = None
    mask_bits: Callable[[str, Survey], int] | None = None
    computed: Callable[[Found, Survey, Callable[[str], Files]], tuple[list[StoredArray], dict[str, str]]] | None = None
    in_scan: Callable[[StoredArray, Found, Survey], StoredArray] | None = None
    numbered: Numbered | None = None
    joined: Callable[[str, dict[str, StoredData], dict[str, str], Survey], list[Absence]] | None = None
    declared: Callable[[str, Survey], tuple[int, str] | None] | None = None


def named(pattern: re.Pattern[str]) -> Callable[[Found, Survey], list[str]]:
    """Return what finds the arrays whose whole names match a pattern."""
    return lambda found, survey: [name for name in found if pattern.fullmatch(name)]


def elsewhere(path: str, name: str, survey: Survey) -> bool:
    """Return True if a data set should lie in another file than `path`."""
    data = survey.data.get(name)
    return data is not None and (data.absent or data.file or path) != path


def axis_name(value: Any) -> str:
    """Return the name of an axis; "" for what programs write where there is none."""
    text = str(value).strip() if isinstance(value, str) else ""
    return "" if text.lower() in _NO_NAME or not text.isprintable() else text


def axis_of(path: str, length: int, found: Found, survey: Survey, short: bool = False) -> Axis:
    """Make an axis from a vector of its positions, or of the edges between them.

    It has a scale and an offset (of element 0) if the vector is even; of an uneven one the calibration names the
    array, `values`.

    Args:
        short: True if a vector of two elements is allowed, which determine all others.
    """
    attrs = survey.data[path].attrs
    known: dict[str, Any] = {"unit": attrs.get("units")}
    if path in found and len(found[path].shape) == 1:
        values = read_small(survey.origin, found[path])
        line = None if values is None else _line(np.asarray(values, "f8"), length, short)
        known = {"values": path, **known} if line is None else {"scale": line[0], "offset": line[1], **known}
    return Axis(axis_name(attrs.get("name")), known)


def _line(values: np.ndarray, length: int, short: bool) -> tuple[float, float] | None:
    """Return (scale, offset) of an even vector; None for any other."""
    n = len(values)
    if not np.isfinite(values).all() or n < 2 or n not in (length, length + 1, 2 if short else length):
        return None
    scale = float(values[-1] - values[0]) / (n - 1)
    if scale == 0 or np.abs(values - values[0] - scale * np.arange(n)).max() > _EVEN * abs(scale):
        return None
    return scale, float(values[0]) + (scale / 2 if n == length + 1 and not (short and n == 2) else 0.0)


def number(path: str, found: Found, survey: Survey) -> float:
    """Return the only number of an array; 0 if it has none, or several."""
    return float(_only(path, found, survey) or 0)


def entries(group: str, names: Iterable[str], found: Found, survey: Survey) -> dict[str, Any]:
    """Return what is said in a group: name -> text, number, or {"value", "unit"} of a number that has one.

    Args:
        names: data sets of one element in it, or below it; those that are not there are left out.
    """
    said: dict[str, Any] = {}
    for name in names:
        data = survey.data.get(f"{group}/{name}".strip("/"))
        if data is None:
            continue
        if data.text.strip():
            said[name] = data.text.strip()
        elif (value := _only(f"{group}/{name}".strip("/"), found, survey)) is not None:
            unit = data.attrs.get("units", data.attrs.get("Unit"))
            said[name] = {"value": value, "unit": unit} if isinstance(unit, str) and unit else value
    return said


def _only(path: str, found: Found, survey: Survey) -> float | int | None:
    """Return the only number of an array; None if it has none, or several."""
    values = read_small(survey.origin, found[path]) if path in found and math.prod(found[path].shape) == 1 else None
    number = None if values is None else values[0].item()
    return number if isinstance(number, int | float) and math.isfinite(number) else None


def json_of(path: str, survey: Survey) -> dict[str, Any]:
    """Return the object in the text of a data set; {} where there is none."""
    data = survey.data.get(path)
    return json_object(data.text.encode()) if data is not None and data.text else {}


def json_object(text: bytes) -> dict[str, Any]:
    """Return the object that a text holds; {} if it holds none, or one of too many levels."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) and _within(said, DEEPEST) else {}


def _within(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_within(one, levels - 1) for one in inner)
