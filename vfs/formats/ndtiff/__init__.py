"""Reads NDTiff, which Micro-Manager and Pycro-Manager write: `NDTiff.index`, and the TIFF files that it names.

The index says where each plane lies, so that no TIFF directory is read. The facts come from NDTiff's description and
from its reader (https://github.com/micro-manager/NDStorage), versions 2 and 3. All numbers are little endian::

    index: entry | entry | …  (behind the last one are zeros while it is written; and if the program was stopped)
    entry: length (uint32) | axes as JSON | length (uint32) | name of the TIFF file | `PLACE`

Axes are numbers or names: `{"time": 3, "channel": "DAPI"}`. The TIFF file begins with the summary of the
acquisition, as JSON: its length is at byte 24 (version 2: 20), behind a mark. Pixels are one plane of
rows, never compressed; those of colour images are three bytes. A TIFF file has 4 GiB while it is written; in the end it
is cut behind the metadata of its last plane, which says that the acquisition is over (`_cut_at_end`).

Planes of other sizes, types or axes are other arrays: `image_0/data`, …. Axes come as NDTiff's reader sorts them: rows
and columns of a mosaic, positions, times, channels, z; others beside the channels. Where an axis counts from another
number than 0, or has names, the attribute `axes` holds them. `display_settings.txt` beside the index, which is JSON,
says as what channels are drawn: `{"DAPI": {"Color": -13421569}}`, a signed number of opacity, red, green and blue.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError, SourceError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import read_at
from vfs.formats.ndtiff.per_plane import companions
from vfs.formats.ndtiff.said import TERMS, channels_of, same_for_all
from vfs.formats.planes import PlaneTable, StoredPlane, along
from vfs.formats.series import of_another_run
from vfs.model.colours import AXIS
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.metadata import Told
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.model.written import Written
from vfs.sources.names import basename, split

PLACE = np.dtype(
    [
        ("offset", "<u4"),  # first byte of the pixels
        ("width", "<u4"),  # pixels
        ("height", "<u4"),
        ("pixel_type", "<u4"),  # see `_PIXELS`
        ("compression", "<u4"),  # 0: none
        ("metadata_offset", "<u4"),
        ("metadata_bytes", "<u4"),
        ("metadata_compression", "<u4"),  # 0: none
    ]
)
_PIXELS = {0: "u1", 1: "<u2", 2: "u1", 3: "<u2", 4: "<u2", 5: "<u2", 6: "<u2"}  # 8, 16 bit, RGB, 10, 12, 14, 11 bit
_RGB = 2
_INDEX, _SETTINGS = "ndtiff.index", "display_settings.txt"
_ORDER = {"row": 0, "column": 1, "position": 2, "time": 3, "channel": 5, "z": 6}
_OTHERS = 4  # place of axes that the reader does not know
_DIMS = {"time": "t", "channel": "c"}
_SUMMARY = 2_355_492  # mark before the length of the summary
_MAX_INDEX = 1 << 30  # bytes: eight million planes
_MAX_CHANNELS = 256  # of which the metadata of a plane are read
_MAX_SHOWN = 1024  # planes whose metadata `original` reads
_MAX_TEXT = 16 << 20  # bytes of the metadata of a plane


class _PlaneKind(NamedTuple):
    """What planes of one array have in common: names of axes, pixels, code of the pixel type."""

    axes: tuple[str, ...]
    height: int
    width: int
    pixel_type: int


class _Plane(NamedTuple):
    axes: dict[str, int | str]
    file: str
    place: tuple[int, ...]  # the fields of `PLACE`


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for an index that begins with an entry."""
    if basename(path).lower() != _INDEX or len(first_bytes) < 5:
        return False
    return 2 <= int.from_bytes(first_bytes[:4], "little") < 1 << 16 and first_bytes[4:5] == b"{"


def _piece(data: bytes, at: int) -> tuple[bytes, int]:
    """Return (text, byte behind it) of a length and so many bytes.

    Raises:
        EOFError: the index ends before.
    """
    end = at + 4 + int.from_bytes(data[at : at + 4], "little")
    if at + 4 > len(data) or end > len(data):
        raise EOFError
    return data[at + 4 : end], end


def _entries(data: bytes, path: str) -> tuple[list[_Plane], tuple[Absence, ...]]:
    """Read the entries of an index.

    Raises:
        FormatError: an entry is garbled.
    """
    planes: list[_Plane] = []
    at, place = 0, struct.Struct("<8I")
    while data[at : at + 4].strip(b"\0"):
        try:
            axes, behind = _piece(data, at)
            name, behind = _piece(data, behind)
            if behind + place.size > len(data):
                raise EOFError
            known = json.loads(axes)
            file = name.decode()
        except EOFError:
            said = (
                f"{path}: expected a whole entry at byte {at:,}, the index has {len(data):,} bytes; it looks truncated"
            )
            lost = {"bytes_left_over": len(data) - at}
            return planes, (Absence(said, TruncatedSourceError, "shows the planes before it", lost),)
        except (ValueError, RecursionError):
            known, file = None, ""
        if (
            not isinstance(known, dict)
            or not all(type(value) in (int, str) for value in known.values())
            or not file
            or "\0" in file
        ):
            raise FormatError(
                f"{path}: expected axes such as {{'time': 0}} and the name of a file in entry {len(planes):,} at byte"
                f" {at:,}, found {axes[:40]!r} and {name[:40]!r}"
            )
        planes.append(_Plane(known, file, place.unpack_from(data, behind)))
        at = behind + place.size
    return planes, ()


def _kind(plane: _Plane, path: str) -> _PlaneKind:
    """Return what a plane has in common with others of its array.

    Raises:
        FormatError: it has a size or type that nobody knows.
    """
    _, width, height, pixel_type, compression, *_ = plane.place
    if pixel_type not in _PIXELS or compression or not 0 < width < 1 << 24 or not 0 < height < 1 << 24:
        raise FormatError(
            f"{path}: expected planes that are not compressed, of pixel types 0 to 6; found {height:,} × {width:,}"
            f" pixels of type {pixel_type:,}, compression {compression:,}, for {json.dumps(plane.axes)[:80]}"
        )
    names = sorted(plane.axes, key=lambda name: (_ORDER.get(name, _OTHERS), name))
    return _PlaneKind(tuple(names), height, width, pixel_type)


def _json(sources: Sources, path: str, at: int, nbytes: int) -> dict[str, Any]:
    """Read metadata; {} if they cannot be understood, for the pixels do not need them."""
    if not 0 < nbytes <= _MAX_TEXT:
        return {}
    try:
        found = json.loads(read_at(sources, path, nbytes, at))
    except (SourceError, FormatError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _summary(sources: Sources, path: str) -> dict[str, Any]:
    """Read the summary of the acquisition at the start of a TIFF file; {} if it is not there."""
    try:
        head = np.frombuffer(read_at(sources, path, 28), "<u4")
    except (SourceError, FormatError):
        return {}
    at = next((k for k in (4, 5) if head[k] == _SUMMARY), None)
    return {} if at is None else _json(sources, path, 4 * at + 8, int(head[at + 1]))


def _cut_at_end(sources: Sources, files: Files, planes: Sequence[_Plane], number: Mapping[str, int]) -> int | None:
    """Return the index of the last TIFF file if it ends behind its last plane, and no other one is there; else None.

    Args:
        number: index in `files` of each file by the name that the index gives it.
    """
    last = planes[-1].file
    end = max(sum(plane.place[5:7]) for plane in planes if plane.file == last)
    if files.sizes.item(number[last]) != end:
        return None
    # A program that begins the next file has cut the one before
    start = f"{last.rpartition('NDTiffStack')[0]}NDTiffStack"
    there = sources.names(split(files.paths[-1])[0])
    others = any(name.startswith(start) and name.endswith(".tif") and name not in number for name in there)
    return None if others else number[last]


def _of_another_run(sources: Sources, files: Files) -> tuple[Absence, ...]:
    """Report TIFF files whose summary is another one than most of them have."""
    said = {path: _summary(sources, path) for path in files.paths[:-1]}
    texts = {path: json.dumps(summary, sort_keys=True) for path, summary in said.items() if summary}
    usual = Counter(texts.values()).most_common(1)[0][0] if texts else ""
    strange = []
    for path, text in texts.items():
        if text != usual:
            known = json.loads(usual)
            keys = [key for key in {**known, **said[path]} if known.get(key) != said[path].get(key)]
            strange.append(f"{path}: its summary differs from that of the other files ({', '.join(keys)[:80]})")
    return of_another_run(strange)


def _calibration(plane: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """Return the calibration of axes: the size of a pixel, and the step in z."""
    found: dict[str, Any] = {}
    for dims, step in (("yx", plane.get("PixelSizeUm")), ("z", summary.get("z-step_um"))):
        if isinstance(step, int | float) and step:
            found |= {dim: {"scale": float(step), "offset": 0.0, "unit": "um"} for dim in dims}
    return found


def _drawn(sources: Sources, folder: str) -> dict[str, Any]:
    """Return as what channels are drawn, by their names, as the settings of the program say."""
    try:
        path = sources.join(folder, _SETTINGS)
        return _json(sources, path, 0, sources.state(path).size)
    except SourceError:
        return {}


def _told(
    sources: Sources, settings: str, kind: _PlaneKind, planes: Mapping[Any, tuple[str, int, int]], attrs: dict[str, Any]
) -> dict[str, Any]:
    """Return what is said of channels, and of all planes.

    Args:
        settings: folder of the settings of the program.
        planes: path of the file, first byte and bytes of the metadata of a plane of each channel.
        attrs: attributes of the array.
    """
    each = [_json(sources, path, at, size) for path, at, size in islice(planes.values(), _MAX_CHANNELS)]
    drawn = _drawn(sources, settings)
    channels = channels_of([*planes], attrs["summary"], drawn, each) if "channel" in kind.axes else []
    same = same_for_all(attrs["first_plane"], kind.axes, channels)
    return {"channels": channels, "same_for_all": same}


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open an NDTiff data set.

    Raises:
        FormatError: the index is garbled.
        MissingSourceError, TruncatedSourceError: no plane is there.
        OutsideError: the index names a file outside of its folder.
    """
    index = paths[0]
    size = sources.state(index).size
    if size > _MAX_INDEX:
        raise FormatError(f"{index}: expected an index of at most {_MAX_INDEX:,} bytes, found {size:,}")
    planes, cut = _entries(sources.read(index, 0, size), index)
    if not planes:
        raise (TruncatedSourceError if cut else FormatError)(f"{index}: expected entries of planes, found none")
    named = list(dict.fromkeys(plane.file for plane in planes))
    places = [sources.join(split(index)[0], name) for name in named]
    files = Files.stat(sources, [*places, index], missing_ok=True)
    number = {name: k for k, name in enumerate(named)}
    written = Written(cut_at_end=_cut_at_end(sources, files, planes, number))
    summary = _summary(sources, places[0])
    absent = (*cut, *_of_another_run(sources, files))
    kinds: dict[_PlaneKind, list[_Plane]] = {}
    for plane in planes:
        kinds.setdefault(_kind(plane, index), []).append(plane)
    made = []
    for k, (kind, some) in enumerate(kinds.items()):
        first = files.paths[number[some[0].file]]
        known = _json(sources, first, *some[0].place[5:7])
        attrs = {"calibration": _calibration(known, summary), "summary": summary, "first_plane": known}
        path = f"image_{k}/data" if len(kinds) > 1 else "data"
        array, *beside = _arrays(path, files, kind, some, number, attrs)
        made.append(altered(array, absent=absent + array.absent, written=written))
        made += [altered(one, written=written) for one in beside]
    return made


def _arrays(
    path: str,
    files: Files,
    kind: _PlaneKind,
    planes: list[_Plane],
    number: dict[str, int],
    attrs: dict[str, Any],
) -> list[StoredArray]:
    """Make the array of planes of one kind, and its companions.

    Args:
        number: index in `files` of each file by the name that the index gives it.
    """
    labels = {name: along([plane.axes[name] for plane in planes]) for name in kind.axes}
    nav = tuple(len(values) for values, _ in labels.values())
    position = np.zeros(len(planes), np.int64)
    for values, at in labels.values():
        position = position * len(values) + at
    said = {name: values for name, (values, _) in labels.items() if values != [*range(len(values))]}
    colours = (3,) if kind.pixel_type == _RGB else ()
    dims = (*(_DIMS.get(name, name) for name in kind.axes), "y", "x", *(AXIS for _ in colours))
    table = PlaneTable(
        np.array([number[plane.file] for plane in planes], np.int64),
        np.array([plane.place[0] for plane in planes], np.int64),
        position,
        files.paths[-1],
    )
    stored = StoredPlane((kind.height, kind.width, *colours), np.dtype(_PIXELS[kind.pixel_type]))
    attrs = {**attrs, "axes": said}
    first: dict[Any, _Plane] = {}
    for plane in planes:
        first.setdefault(plane.axes.get("channel"), plane)
    of_each = {
        value: (files.paths[number[first[value].file]], first[value].place[5], first[value].place[6])
        for value in along(list(first))[0]
    }
    told = Told(partial(_told, files.sources, split(files.paths[-1])[0], kind, of_each, attrs))
    made = altered(table.array(path, files, nav, stored, dims, attrs), told=told)
    at, nbytes = (np.array([plane.place[k] for plane in planes], np.int64) for k in (5, 6))
    return [made, *companions(made, replace(table, offset=at, nbytes=nbytes), attrs["first_plane"])]


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return the summary, the settings of the program, and axes and metadata of the first planes.

    Raises:
        FormatError, SourceError: the index is garbled or cannot be read.
    """
    folder, index = split(paths[0])[0], paths[0]
    planes = _entries(sources.read(index, 0, sources.state(index).size), index)[0]
    made: dict[str, Any] = {"summary": _summary(sources, sources.join(folder, planes[0].file))} if planes else {}
    said = [
        {"axes": one.axes, "metadata": _json(sources, sources.join(folder, one.file), *one.place[5:7])}
        for one in planes[:_MAX_SHOWN]
    ]
    more = len(planes) - len(said)
    left = {"left_out": [f"metadata of {more:,} more planes"]} if more else {}
    return {**made, "display_settings": _drawn(sources, folder), "planes": said, **left}


FORMAT = Format(
    "ndtiff",
    (_INDEX,),
    "https://github.com/micro-manager/NDStorage",
    "NDTiff of Micro-Manager and Pycro-Manager: NDTiff.index and the files that it names",
    sniff,
    open,
    index_extensions=(_INDEX,),
    single=True,
    terms=TERMS,
    original=original,
)
