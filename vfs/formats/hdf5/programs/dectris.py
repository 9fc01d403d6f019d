"""Dectris: masters of EIGER, ARINA and others, and what detectors of other makers write in this form (NXmx).

    entry/data/data_000001 …            numbered pieces, mostly in files of their own, are one array, `entry/data/data`.
                                        It is shown first, where the groups say no NX_class
    image_nr_low                        attribute of a piece: the number of its first image
    entry/instrument/detector           frame_time (s), y_pixel_size, x_pixel_size (m)
    …/detectorSpecific                  flat field, masks, tables of corrections; nimages, ntrigger

Dectris numbers pieces from 1 with six digits. Other programs use fewer digits: pieces with other numbers of digits are
joined only if each lies in another file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.program import Axes, Axis, Found, Numbered, Program, elsewhere, number
from vfs.formats.headers import read_at
from vfs.h5.facts import Survey

_DIGITS = 6
_MAX_FRAMES = 1 << 40  # a number of images is taken for garbled from there on
_ARRAY = re.compile(r"data(_\d{6})?", re.ASCII)
_PIECE = re.compile(r"data_\d{6}", re.ASCII)


def first(found: Found, survey: Survey) -> list[str]:
    """Return what was joined of numbered pieces that hold frames; else such pieces, which stay apart."""
    numbered = {name for name in {**survey.data, **found} if _PIECE.fullmatch(name.rpartition("/")[2])}
    wholes = {f"{name.rpartition('/')[0]}/data".lstrip("/") for name in numbered} - survey.data.keys()
    names = [name for name in found if name in wholes] or sorted(numbered & found.keys())
    return [name for name in names if len(found[name].shape) > 1]


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    group, _, own = name.rpartition("/")
    if len(shape) != 3 or not _ARRAY.fullmatch(own):
        return None
    detector = f"{group.rpartition('/')[0]}/instrument/detector".lstrip("/")
    axes = []
    for path in (f"{detector}/{about}" for about in ("frame_time", "y_pixel_size", "x_pixel_size")):
        value = number(path, found, survey)
        unit = survey.data[path].attrs.get("units") if value > 0 else None
        axes.append(Axis("", {"scale": value, "offset": 0.0, "unit": unit} if value > 0 else None))
    return Axes(tuple(axes)) if any(axis.calibration for axis in axes) else None


def _pieces(path: str, names: Iterable[str], survey: Survey) -> dict[str, dict[int, str]]:
    """Return the pieces of each array: its path -> number -> path of the piece, in the order of the numbers."""
    series: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        above, _, last = name.rpartition("/")
        digits = re.fullmatch(r"data_(\d{1,9})", last, re.ASCII)
        if digits and (len(digits[1]) == _DIGITS or elsewhere(path, name, survey)):
            series.setdefault(f"{above}/data".lstrip("/"), []).append((int(digits[1]), name))
    made = {whole: dict(sorted(pieces)) for whole, pieces in series.items()}
    return {whole: pieces for whole, pieces in made.items() if len(pieces) == len(series[whole])}


def _path(number: int, other: str) -> str:
    """Return the path of a piece, with as many digits as another one."""
    start = other.rstrip("0123456789")
    return f"{start}{number:0{len(other) - len(start)}d}"


def _first_image(piece: StoredData) -> int | None:
    """Return the number that a piece gives its first image; None if it gives none."""
    low = np.asarray(piece.attrs.get("image_nr_low"))
    return int(low) if low.dtype.kind in "iu" and low.size == 1 else None


def _declared(whole: str, survey: Survey) -> tuple[int, str] | None:
    """Return how many images a master says, and its words for it."""
    about = whole.rpartition("/")[0].rpartition("/")[0]
    count = 1
    for name in ("nimages", "ntrigger"):  # images for each trigger, and triggers
        data = survey.data.get(f"{about}/instrument/detector/detectorSpecific/{name}".lstrip("/"))
        if data is None or data.shape or data.offset < 0 or np.dtype(data.dtype).kind not in "iu":
            return None
        dtype = np.dtype(data.dtype)
        count *= int(np.frombuffer(read_at(survey.origin, data.file, dtype.itemsize, data.offset), dtype)[0])
    return (count, "nimages times ntrigger") if count < _MAX_FRAMES else None


PROGRAM = Program(
    first=first,
    axes=_axes,
    never=r"(.*/)?detectorSpecific/.*",
    numbered=Numbered(_pieces, _path, first_image=_first_image),
    declared=_declared,
)
