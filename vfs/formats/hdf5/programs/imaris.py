"""Imaris (`.ims`): an array of times, channels and planes, and its smaller versions, joined of a data set for each.

The facts come from https://imaris.oxinst.com and files of Imaris 5.5 and later, which its converter writes::

    DataSet/ResolutionLevel R/TimePoint T/Channel C/Data       z, y, x, padded to whole chunks
        attributes of the group: ImageSizeX, ImageSizeY, ImageSizeZ, pixels that are meant
    DataSet/ResolutionLevel R/TimePoint T/Channel C/Histogram  counts of all numbers of `Data`, also Histogram1024
    DataSetInfo/Image      X, Y, Z, ExtMin0 … ExtMax2 (edges of the volume along x, y, z), Unit, Name, RecordingDate
    DataSetInfo/Channel C  Name, Color (red, green, blue from 0 to 1), ColorRange, LSMEmissionWavelength (nm)
    DataSetInfo/TimeInfo   TimePoint1, TimePoint2, …: dates and times

All attributes are texts, as arrays of single characters. The array is `data`, smaller versions are `level_1/data`, …,
along z, too, and what was counted is `histogram` beside each. Axes of one element are not shown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from itertools import count, takewhile
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError
from vfs.formats.hdf5.pieces import Blocks, StoredData, merged
from vfs.formats.hdf5.program import Axes, Axis, Found, Program
from vfs.h5.facts import LeftOutError, Survey
from vfs.model.channels import Channel, real
from vfs.model.stored import Absence

_PIECE = re.compile(
    r"DataSet/ResolutionLevel (\d{1,3})/TimePoint (\d{1,7})/Channel (\d{1,5})/(Data|Histogram(?:1024)?)"
)
_JOINED = re.compile(r"(?:level_(\d+)/)?(data|histogram(?:_1024)?)")
_NAMES = {"Data": "data", "Histogram": "histogram", "Histogram1024": "histogram_1024"}
_IMAGE, _TIMES, _SMALL = "DataSetInfo/Image", "DataSetInfo/TimeInfo", "Thumbnail/Data"
_MAX_GONE = 10  # most missing pieces for each that is there
_EVEN = 2e-3  # s, most distance of a time from its place: the file has milliseconds
_UNNAMED = re.compile(r"\(\w+ not specified\)", re.IGNORECASE)


class _ImarisExtent(NamedTuple):
    """How many times and channels there are."""

    times: int
    channels: int

    @property
    def shown(self) -> tuple[int, ...]:
        """Those of more than one."""
        return tuple(n for n in self if n > 1)

    def place(self, time: int, channel: int) -> tuple[int, ...]:
        return tuple(at for at, n in zip((time, channel), self, strict=True) if n > 1)


def _said(group: str, survey: Survey) -> dict[str, str]:
    """Return the attributes of a group, whose characters are apart."""
    found = {}
    for name, value in survey.groups.get(group, {}).items():
        text = "".join(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value
        if isinstance(text, str) and text.strip() and not _UNNAMED.fullmatch(text.strip()):
            found[name] = text.strip()
    return found


def _sizes(group: str, survey: Survey, ends: str = "ZYX", start: str = "ImageSize") -> tuple[int, ...]:
    """Return the sizes that a group says; () if it says not all."""
    said = _said(group, survey)
    texts = [said.get(f"{start}{end}", "") for end in ends]
    return tuple(map(int, texts)) if all(re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII) for text in texts) else ()


def _join(path: str, found: dict[str, StoredData], left: dict[str, str], survey: Survey) -> list[Absence]:
    """Replace the data sets of Imaris by one for each version of the image and its histograms."""
    if _IMAGE not in survey.groups:
        return []
    pieces: dict[tuple[int, str], dict[tuple[int, int], str]] = defaultdict(dict)
    for name in survey.data:
        if piece := _PIECE.fullmatch(name):
            pieces[int(piece[1]), _NAMES[piece[4]]][int(piece[2]), int(piece[3])] = name
    of_all = pieces.get((0, "data"), {})
    if not of_all:
        return []
    if found.pop(_SMALL, None) is not None:
        left[_SMALL] = "a small picture of the image, for lists"
    extent = _ImarisExtent(*(1 + max(place[k] for place in of_all) for k in (0, 1)))
    absent: list[Absence] = []
    for (level, name), names in sorted(pieces.items()):
        whole = f"level_{level}/{name}" if level else name
        there = {place: found[one] for place, one in names.items() if one in found}
        if not there or whole in {*found, *left, *survey.groups}:
            continue
        try:
            if extent.times * extent.channels > (1 + _MAX_GONE) * len(names):
                raise LeftOutError(f"most of its {extent.times:,} × {extent.channels:,} pieces are missing")
            made = _joined(there, {place: names[place].rpartition("/")[0] for place in there}, extent, survey)
        except LeftOutError as reason:
            absent.append(Absence(f"{path}: the pieces of {whole} stay apart: {reason}"))
            continue
        for one in names.values():
            found.pop(one, None)
        found[whole] = made
        all_of = extent.times * extent.channels
        if len(there) < all_of and name == "data":
            said = (
                f"{path}: {whole}: expected data sets of {extent.times:,} times × {extent.channels:,} channels, found"
            )
            lost = (all_of - len(there)) * (made.shape[-3] if made.dims[-3:] == ("z", "y", "x") else 1)
            counts = {"frames_missing": lost} if not level else {}
            absent.append(Absence(f"{said} {len(there):,}", FormatError, "shows others as blank", counts))
    return absent


def _joined(
    there: Mapping[tuple[int, int], StoredData],
    groups: Mapping[tuple[int, int], str],
    extent: _ImarisExtent,
    survey: Survey,
) -> StoredData:
    """Join data sets of one version, each cropped to what is meant.

    Args:
        there: (time, channel) -> data set; groups: where their sizes are.

    Raises:
        LeftOutError: they are not alike.
    """
    place, first = next(iter(there.items()))
    size = first.shape
    if len(first.shape) == 3:
        said = _sizes(groups[place], survey)
        size = said if said and all(a <= b for a, b in zip(said, first.shape, strict=True)) else first.shape
    if any(one.shape != first.shape for one in there.values()):
        raise LeftOutError(f"they differ in shape ({', '.join({str(list(one.shape)) for one in there.values()})})")
    flat = len(size) == 3 and size[0] == 1
    shape = (*extent.shown, *size[flat:])
    places = []
    for at, one in sorted(there.items()):
        if one.blocks is not None:
            blocks = _cropped(one.blocks, size)
            places.append((one, _behind(_flat(blocks) if flat else blocks, extent.place(*at))))
    if not places:
        return replace(first, shape=shape, chunk=(), dims=_dims(extent, len(size), flat))
    made = merged(shape, places, first.fill)
    chunk = tuple(min(n, most) for n, most in zip(first.chunk[flat:], size[flat:], strict=True)) if first.chunk else ()
    return replace(
        made, chunk=(*(1,) * len(extent.shown), *chunk) if chunk else (), dims=_dims(extent, len(size), flat)
    )


def _dims(extent: _ImarisExtent, ndim: int, flat: bool) -> tuple[str, ...]:
    lead = [name for name, n in zip("tc", extent, strict=True) if n > 1]
    return (*lead, *("z", "y", "x")[flat:]) if ndim == 3 else (*lead, "bin")


def _cropped(blocks: Blocks, size: tuple[int, ...]) -> Blocks:
    """Return the parts of blocks that lie within a size from the first element on."""
    shapes = np.minimum(blocks.shapes, np.array(size) - blocks.origins)
    kept = np.flatnonzero((shapes > 0).all(axis=1))
    columns = ("origins", "box_starts", "files", "offsets", "sizes", "masks")
    return replace(blocks, shapes=shapes[kept], **{name: getattr(blocks, name)[kept] for name in columns})


def _flat(blocks: Blocks) -> Blocks:
    """Return blocks of one plane without the axis of planes: rows of the planes of a stored block follow each other."""
    _, rows, columns = blocks.pitch
    starts = np.stack([blocks.box_starts[:, 0] * rows + blocks.box_starts[:, 1], blocks.box_starts[:, 2]], axis=1)
    pitch = (blocks.pitch[0] * rows, columns)
    return replace(blocks, origins=blocks.origins[:, 1:], shapes=blocks.shapes[:, 1:], box_starts=starts, pitch=pitch)


def _behind(blocks: Blocks, place: tuple[int, ...]) -> Blocks:
    """Return blocks behind axes of length 1, at a place along these."""

    def ahead(values: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
        return np.concatenate([np.broadcast_to(np.array(lead, np.int64), (len(values), len(lead))), values], axis=1)

    ones, zeros = (1,) * len(place), (0,) * len(place)
    return replace(
        blocks,
        origins=ahead(blocks.origins, place),
        shapes=ahead(blocks.shapes, ones),
        box_starts=ahead(blocks.box_starts, zeros),
        pitch=(*ones, *blocks.pitch),
    )


def _made(name: str, found: Found, survey: Survey) -> bool:
    """Return True if an array was joined here."""
    return _IMAGE in survey.groups and name in found and name not in survey.data and bool(_JOINED.fullmatch(name))


def _first(found: Found, survey: Survey) -> list[str]:
    if _made("data", found, survey):
        return ["data"]
    apart = [name for name in found if (piece := _PIECE.fullmatch(name)) and (int(piece[1]), piece[4]) == (0, "Data")]
    return apart if _IMAGE in survey.groups else []


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    if not _made(name, found, survey):
        return None
    image, dims = _said(_IMAGE, survey), found[name].dims
    known: dict[str, dict[str, Any]] = {}
    for k, dim in enumerate("xyz"):
        low, high = real(image.get(f"ExtMin{k}")), real(image.get(f"ExtMax{k}"))
        if dim in dims and low is not None and high is not None and high > low:
            step = (high - low) / shape[dims.index(dim)]
            known[dim] = {"scale": step, "offset": low + step / 2, "unit": image.get("Unit", "")}
    if "t" in dims and (apart := _step(_said(_TIMES, survey), shape[dims.index("t")])):
        known["t"] = {"scale": apart, "offset": 0.0, "unit": "s"}
    nav_ndim = len(dims) - (2 if dims[-1] == "x" else 1)
    return Axes(tuple(Axis(dim, known.get(dim)) for dim in dims), nav_ndim)


def _step(said: Mapping[str, str], times: int) -> float | None:
    """Return the seconds from a time to the next, where they are even."""
    try:
        seconds = [datetime.fromisoformat(said[f"TimePoint{k}"]).timestamp() for k in range(1, times + 1)]
    except (KeyError, ValueError, OverflowError):
        return None
    step = (seconds[-1] - seconds[0]) / (times - 1)
    even = all(abs(at - seconds[0] - k * step) <= _EVEN for k, at in enumerate(seconds))
    return step if step > 0 and even else None


def _about(found: Found, survey: Survey) -> dict[str, dict[str, Any]]:
    if not _made("data", found, survey):
        return {}
    groups = {part: _said(f"DataSetInfo/{part}", survey) for part in ("Image", "Imaris", "ImarisDataSet", "CustomData")}
    numbered = takewhile(lambda group: group in survey.groups, (f"DataSetInfo/Channel {k}" for k in count()))
    channels = [_channel(_said(group, survey)) for group in numbered]
    begun = {key: text for key, text in _said(_TIMES, survey).items() if key == "TimePoint1"}
    about = {part: said for part, said in {**groups, "TimeInfo": begun}.items() if said}
    made: dict[str, dict[str, Any]] = {"data": {"imaris": about}}
    if any(channels):
        made["data"]["channels"] = channels
    for name in found:
        if _made(name, found, survey) and (joined := _JOINED.fullmatch(name)) and joined[1]:
            made[name] = {"level": int(joined[1])}
    return made


def _channel(said: Mapping[str, str]) -> Channel:
    made = Channel()
    if name := said.get("Name"):
        made["name"] = name
    parts = [real(part) for part in said.get("Color", "").split()]
    if len(parts) == 3 and all(part is not None and 0 <= part <= 1 for part in parts):
        made["colour"] = "#" + "".join(f"{round(255 * (part or 0)):02x}" for part in parts)
    window = [real(part) for part in said.get("ColorRange", "").split()]
    if len(window) == 2 and window[0] is not None and window[1] is not None:
        made["window"] = (window[0], window[1])
    for key, name in (("emission", "LSMEmissionWavelength"), ("excitation", "LSMExcitationWavelength")):
        if number := real(said.get(name), 1e-9):
            made[key] = number  # type: ignore[literal-required]
    return made


PROGRAM = Program(first=_first, axes=_axes, about=_about, joined=_join)
