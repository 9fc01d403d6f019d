"""Reads K2 IS, raw streams of Gatan K2 In-Situ cameras.

There is no public specification; the layout is known from LiberTEM and py4DSTEM. A set is eight
files `NAME1.bin` to `NAME8.bin`, one for each sector of the camera, and `NAME.gtg`, a tag file (see
`vfs.formats.gatan_tags`) without pixels. A file holds blocks of 22,360 bytes, 32 for each frame. A
frame is 1860 × 2048 pixels of 12 bits, with the sectors side by side::

    block:  header, 40 bytes | 930 rows of 16 pixels
    sector: rows 0 to 929, 16 blocks from right to left | rows 930 to 1859, the same

Each file begins and ends at another place within a frame. Blocks are counted: the sectors are
aligned at the first and the last count that all of them have, then at whole frames (one frame id).
The header of every block is checked when the block is read: a damaged, foreign or missing block is
an error, and never reads as zeros. If a whole sector is missing, it is blank with
`allow_incomplete`.

In a scan (whose size is in the .gtg) the camera begins to record before the scan starts. Each block
has a flag that the shutter is open, which is set one frame late, so the scan starts with the frame
before the first flag. A time series has no scan and starts with the first frame.

The image is in the first 1792 rows and 1920 columns: `crop=true` shows only these. The area beyond
is not part of the image (rows from 1792 on hold readout noise that py4DSTEM subtracts).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from vfs import kernels
from vfs.errors import DecodeError, FormatError, MissingSourceError, OptionError
from vfs.formats import Format, gatan_said, series
from vfs.formats.gatan_tags import Tags, is_tag_file, plain, read_tags
from vfs.formats.gatan_tags import original as all_tags
from vfs.formats.headers import exists, numbered
from vfs.formats.k2is.sectors import HEADER, SectorFile, aligned, counts_frames, first_with_open_shutter
from vfs.formats.recorded import left_over
from vfs.kernels import k2is_blocks as k2is
from vfs.kernels.columns import NO_LIMIT
from vfs.model.decode import Elements
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, whole_frame
from vfs.model.name_order import natural
from vfs.model.region import Region
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, scan_array
from vfs.model.wording import are, format_option
from vfs.model.written import Written
from vfs.sources.names import basename, splitext

_SYNC = b"\xff\xff\x00\x55"
_FRAME = k2is.BLOCKS * k2is.BYTES  # bytes of a frame in a file
_FULL = (k2is.BANDS * k2is.HEIGHT, k2is.SECTORS * 256)
_IMAGE = (0, 1792, 0, 1920)  # y and x that hold the image
_MAX_SCAN = 1 << 32  # positions
_WRONG = {
    k2is.BAD_SYNC: "the sync word FF FF 00 55",
    k2is.BAD_SIZE: "a block of 22,360 bytes of a sector of 1860 × 256 pixels",
    k2is.BAD_PLACE: "the block of this place in the frame",
    k2is.BAD_ID: "a block of this frame",
}


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    if path.lower().endswith(".gtg"):
        return is_tag_file(first_bytes)
    return first_bytes.startswith(_SYNC) and first_bytes[36:40] == k2is.BYTES.to_bytes(4, "big")


@dataclass(frozen=True, eq=False)
class SectorLayout(FrameLayout):
    """Lays out frames that are spread over eight files, with 32 blocks in each.

    The attributes of FrameLayout describe the first existing file.

    Attributes:
        starts: int64[8], byte of the first frame in each file; -1 if the file is missing.
        first_id: frame id of the first frame; -1 if ids do not count frames.
        origin: y and x, in the full frame, of the first pixel of the array.
    """

    periodic = False

    starts: np.ndarray = field(default_factory=lambda: np.zeros(k2is.SECTORS, np.int64))
    first_id: int = -1
    origin: tuple[int, int] = (0, 0)

    def read_ranges(self, region: Region, most: int = NO_LIMIT) -> tuple[np.ndarray, int]:
        nav = self.shape[:-2]
        lists = (region.start, region.stop, region.step, nav, self.origin)
        arrays = [np.array(values, np.int64) for values in lists]
        found: tuple[np.ndarray, int] = kernels.k2is.plan(*arrays, *self.how, self.starts, self.first_id, most)
        return found

    @property
    def patches(self) -> tuple[Region, ...]:
        """The bands of each sector: their blocks follow one another in a file."""
        (y, x), (height, width) = self.origin, self.sig_shape
        rows, columns = _cut(y, height, k2is.HEIGHT), _cut(x, width, _FULL[1] // k2is.SECTORS)
        return tuple(Region.box((a, c), (b, d)) for c, d in columns for a, b in rows)


def _cut(origin: int, length: int, step: int) -> list[tuple[int, int]]:
    """Cut `length` pixels, the first of which is pixel `origin`, at multiples of `step`."""
    return list(pairwise([0, *range(step - origin % step, length, step), length]))


@dataclass(frozen=True)
class SectorDecoder(Elements):
    """Decodes blocks of 12-bit pixels and checks their headers.

    Args:
        paths: the eight files, for messages.
    """

    paths: tuple[str, ...]
    word_bytes: int = 24
    word_pixels: int = 16

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint16)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        row, wrong = kernels.k2is.unpack(ranges, data, base, out)
        if row < 0:
            return
        file, start = ranges[row, :2].tolist()
        found = np.frombuffer(data[start - base : start - base + k2is.HEADER].tobytes(), HEADER)[0]
        says = f"{found['sync']:#010x}"
        if wrong == k2is.BAD_SIZE:
            says = f"{found['size']:,} bytes, {found['height']} × {found['width']}"
        elif wrong == k2is.BAD_PLACE:
            says = f"the one at y = {found['start'][1]}, x = {found['start'][0]} of the sector"
        elif wrong == k2is.BAD_ID:
            says = f"frame {found['frame_id']} instead of {ranges[row, k2is.ID]}"
        raise DecodeError(
            f"{self.paths[file]}: bytes {start:,} to {start + k2is.BYTES:,}: expected {_WRONG[wrong]}, found {says};"
            " blocks are damaged or missing"
        )


def _members(sources: Sources, paths: Sequence[str]) -> tuple[str | None, list[str], list[int]]:
    """Find the files of a set, given one of them or all.

    Returns: (the tag file or None, the eight sectors, numbers, from 0 on, of missing ones).

    Raises:
        OptionError: several files are given, but not eight sectors.
        MissingSourceError: there is no sector.
    """
    tags = [p for p in paths if p.lower().endswith(".gtg")]
    if len(paths) > 1:
        sectors = sorted((p for p in paths if p not in tags), key=natural)
        if len(tags) > 1 or len(sectors) != k2is.SECTORS:
            raise OptionError(
                f"{paths[0]}: expected eight .bin files and at most one .gtg, found {len(sectors)} and {len(tags)}"
            )
        return (tags[0] if tags else None), sectors, []
    stem = splitext(paths[0])[0]
    if not tags:
        stem = stem[:-1] if stem[-1:] in set("12345678") else stem
        tags = [f"{stem}.gtg"] if exists(sources, f"{stem}.gtg") else []
    found = dict(numbered(sources, stem, ".bin"))
    members = [found.get(k, f"{stem}{k}.bin") for k in range(1, k2is.SECTORS + 1)]
    missing = [k for k in range(k2is.SECTORS) if k + 1 not in found]
    if len(missing) == k2is.SECTORS:
        raise MissingSourceError(
            f"{paths[0]}: expected the sectors {basename(stem)}1.bin to 8.bin beside it, found none"
        )
    return (tags[0] if tags else None), members, missing


def _absences(
    named: str, files: Files, missing: Sequence[int], behind: tuple[str, int], scan: tuple[int, ...], stored: int
) -> tuple[Absence, ...]:
    """Return what a set lacks.

    Args:
        missing: numbers of the missing sectors, from 0 on.
        behind: see `aligned`.
        stored: number of frames from the first one shown on.
    """
    found = []
    if missing:
        lost = series.Lost(len(missing), tuple([files.paths[k] for k in missing]))
        said = f"{named}: expected eight sectors, {lost}{' or empty' * bool((files.sizes == 0).any())}"
        found.append(
            Absence(
                said,
                MissingSourceError,
                "shows these parts of the frames as blank",
                {"files_missing": len(missing)},
                lost.paths,
            )
        )
    rests = np.where(files.sizes > 0, files.sizes % k2is.BYTES, 0)
    if rests.any():
        cut = files.paths[int(np.argmax(rests > 0))]
        found.append(left_over(cut, "blocks", int(rests.sum()), refused=False, to_come=True))
    short, more = behind
    if more:
        said = f"{short}: ends before other sectors do: {are(more, 'frame')} not shown"
        found.append(Absence(said, counts={"frames_left_out": more}, to_come=True))
    less = math.prod(scan) - stored if scan else 0
    if less > 0:
        shown = " × ".join(map(str, scan))
        said = f"{named}: says a scan of {shown}, {stored:,} frames are stored from its start on: {are(less)} missing"
        found.append(Absence(said, counts={"frames_missing": less}, to_come=True))
    return tuple(found)


def _scan(path: str, tags: Tags) -> tuple[int, ...]:
    """Return the shape of the scan; () for a time series.

    It includes the positions that are recorded while the beam flies back.
    """
    pairs = (
        ("SI Dimensions/Size Y", "SI Dimensions/Size X"),
        tuple(f"{_SAMPLING}/{side} (pixels)" for side in ("Height", "Width")),
    )
    for names in pairs:
        values = [tags.get(name) for name in names]
        if all(v is None for v in values):
            continue
        if (
            not all(isinstance(v, int | float) and 1 <= v < _MAX_SCAN for v in values)
            or values[0] * values[1] > _MAX_SCAN
        ):
            raise FormatError(
                f"{path}: expected the size of a scan in {names[0]!r} and {names[1]!r}, found {str(values)[:60]}"
            )
        return tuple(int(v) for v in values)
    return ()


_SAMPLING = "SI Image Tags/SI/Acquisition/Spatial Sampling"


def _crop(crop: bool | str | Sequence[int]) -> tuple[int, int, int, int]:
    """Return (first row, row after the last, first column, column after the last) of the image."""
    if isinstance(crop, bool) or (isinstance(crop, str) and crop.lower() in ("true", "false")):
        return _IMAGE if str(crop).lower() == "true" else (0, _FULL[0], 0, _FULL[1])
    parts = crop.split(",") if isinstance(crop, str) else crop if isinstance(crop, Sequence) else ()
    box = tuple(int(part) if re.fullmatch(r" *[0-9]{1,4} *", str(part)) else -1 for part in parts)
    if len(box) != 4 or not (min(box) >= 0 and box[0] < box[1] <= _FULL[0] and box[2] < box[3] <= _FULL[1]):
        raise OptionError(
            f"{format_option(crop=crop)}: expected true, false, or four numbers y0,y1,x0,x1 within"
            f" 0,{_FULL[0]},0,{_FULL[1]}"
        )
    return box[0], box[1], box[2], box[3]


def _start_of_scan(tag_file: str, opened: int, frames: int) -> int:
    """Return the frame at which a scan starts: the one before the first that the open shutter marks.

    Raises:
        FormatError: no frame is marked (`opened` is the number of frames).
    """
    if opened == frames:
        raise FormatError(
            f"{tag_file}: a scan, but none of its {frames:,} frames was recorded with an open shutter;"
            f" {format_option(first_frame=0)} shows them nevertheless"
        )
    return max(0, opened - 1)


def open(
    paths: Sequence[str],
    sources: Sources,
    *,
    crop: bool | str | Sequence[int] = False,
    first_frame: int | None = None,
    check_ids: bool = True,
) -> list[StoredArray]:
    """Open a set by its .gtg file, by one of its .bin files, or by all of them.

    Args:
        crop: true to show only the image, without the area beyond it; or rows and columns as
            y0,y1,x0,x1.
        first_frame: number of the first frame to show. By default the frame at which the scan
            starts, or the first one of a time series.
        check_ids: require that frames are numbered without gaps in all sectors, so that the loss
            of a frame in one sector is an error.

    Raises:
        MissingSourceError: all sectors are missing.
        FormatError: the files are not a K2 IS set, or their sectors have no frames in common.
        OptionError: an option does not fit.
    """
    box = _crop(crop)
    tag_file, members, missing = _members(sources, paths)
    tags = read_tags(sources, tag_file) if tag_file else None
    scan = _scan(tag_file, tags) if tag_file and tags else ()
    files = Files.stat(sources, members, missing_ok=bool(missing))
    empty = [k for k in np.flatnonzero(files.sizes == 0).tolist() if files.sizes.any()]
    missing = sorted({*missing, *empty})
    sized = enumerate(zip(files.paths, files.sizes.tolist(), strict=True))
    sectors = [SectorFile(sources, path, size) for k, (path, size) in sized if k not in missing]
    blocks, frames, first_id, behind = aligned(sectors)
    counted = check_ids and counts_frames(sectors, blocks, frames, first_id)
    if first_frame is None:
        start = _start_of_scan(str(tag_file), first_with_open_shutter(sectors, blocks, frames), frames) if scan else 0
    elif not isinstance(first_frame, int) or not 0 <= first_frame < frames:
        raise OptionError(f"{format_option(first_frame=first_frame)}: expected a number from 0 to {frames - 1}")
    else:
        start = first_frame
    shape, origin, stored = (box[1] - box[0], box[3] - box[2]), (box[0], box[2]), frames - start
    begins = np.insert(blocks * k2is.BYTES + start * _FRAME, np.array(missing, np.int64) - np.arange(len(missing)), -1)
    there = next(k for k in range(k2is.SECTORS) if k not in missing)
    stream = np.array([[0, stored * _FRAME, begins[there], there]], np.int64)
    layout = SectorLayout(
        scan or (stored,),
        shape,
        stream,
        _FRAME,
        0,
        stored,
        24,
        16,
        whole_frame(shape),
        starts=begins,
        first_id=first_id + start if counted else -1,
        origin=origin,
    )
    absent = _absences(tag_file or files.paths[there], files, missing, behind, scan, stored)
    attrs: dict[str, Any] = {"frames": frames, "first_frame": start, "frame_id": (first_id + start) & 0xFFFFFFFF}
    attrs |= {"crop": list(box)} | ({} if tags is None else {"tags": plain(tags.root)})
    decoder, written = SectorDecoder(files.paths), Written(math.prod(scan) if scan else None)
    return [scan_array(files, layout, decoder, attrs=attrs, absent=absent, written=written)]


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return all tags of the .gtg file; {} if there is none.

    Raises: what `open` raises of files that are missing or garbled.
    """
    tag_file, _, _ = _members(sources, paths)
    return all_tags([tag_file], sources) if tag_file else {}


FORMAT = Format(
    "k2is",
    (".gtg",),
    "https://www.gatan.com/K2",
    "Gatan K2 In-Situ raw streams, eight sectors",
    sniff,
    open,
    terms=(*gatan_said.terms("tags"), *gatan_said.terms("tags:SI Image Tags")),
    index_extensions=(".gtg",),
    original=original,
)
