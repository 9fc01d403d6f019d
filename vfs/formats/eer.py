"""Reads `.eer`, the electron events of Falcon cameras, as frames of counts.

The facts come from the decoders in imagecodecs and tifffile (https://github.com/cgohlke/imagecodecs), which name EER's
description 3.0, and from the reader of RELION (https://github.com/3dem/relion). A file is a BigTIFF, a page a frame of
the camera. The compression says how many bits a record has, from the lowest bit of the first byte on::

    pixels to skip (7 bits; 65000: 8; 65002: tag 65007) | place in the pixel: x, y (2 bits each; tags 65008, 65009)

All ones in the first part skip so many pixels without an event, and no second part follows. Strips of a page are parts
of one stream. Pages that are not compressed are the sum of all frames, which the camera may add: the array
`final_image`. Tag 65001 holds metadata in XML, `<item name="exposureTime" unit="s">…</item>`.

Events are counted in the pixel in which they were found, or with `super_resolution` in the part of it: the highest bits
of their place say which, the first one turned over. Frames that are counted together are one block, which decodes as a
whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vfs.errors import DecodeError, DependencyError, FormatError, OptionError, SourceError, TruncatedSourceError, extra
from vfs.formats import Format
from vfs.formats.headers import parse_xml
from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.formats.tiff_structure.headers import COMPRESSION, EER, EER_METADATA, Field, Reader, header_of, holds_events
from vfs.formats.tiff_structure.original import original
from vfs.model.decode import IntoBlocks
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable, altered
from vfs.model.metadata import Term
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.model.wording import format_option, option

_WIDTH, _HEIGHT, _BITS, _SAMPLE_FORMAT = 256, 257, 258, 339
_OFFSETS, _SIZES = 273, 279
_SKIP_BITS, _X_BITS, _Y_BITS = 65007, 65008, 65009
_TYPES = {1: "u", 2: "i", 3: "f"}  # TIFF's SampleFormat
_MAX_PAGES = 1 << 20
_MAX_SIDE = 1 << 16  # pixels
_MAX_STRIPS = 1 << 16  # of a page
_MAX_XML = 1 << 20  # bytes
_MAX_SUM = (1 << 16) - 1  # frames: one event a pixel and frame, counted in 16 bits
_MAX_FILE_BYTES = 1 << 60  # bytes of a file
_GAP = 1 << 20  # bytes between two pages that are read with them

Tags = dict[int, tuple[Field, bytes]]


class _Page(NamedTuple):
    """A page: its size, the bits of a record (skipped pixels, x, y) or the dtype of plain pixels, and its strips."""

    height: int
    width: int
    bits: tuple[int, int, int] | None
    stored: str
    offsets: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True, eq=False)
class EventDecoder(IntoBlocks):
    """Counts the events of some frames in the pixels of one.

    Attributes:
        events: True: a frame has few counts, and people look at sums of many.
        dtype: uint8 or uint16.
        bits: bits of a record: skipped pixels, x, y.
        fine: bits of a place that are used.
        frame: rows and columns that are shown.
        first: int64[blocks, pages + 1], the first strip of each page of a block, and the one behind the last.
        start, size: int64[strips], first byte of each strip from the first of its block on, and its bytes.
    """

    events: ClassVar[bool] = True
    dtype: np.dtype
    bits: tuple[int, int, int]
    fine: int
    frame: tuple[int, int]
    first: np.ndarray
    start: np.ndarray
    size: np.ndarray

    @property
    def parts(self) -> int:
        """Parts of a pixel of the camera along each axis, which frames have as pixels."""
        return 1 << self.fine

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        import imagecodecs

        counts = out.reshape(self.frame)
        counts[:] = 0
        pages = self.first[block].tolist()
        for n, (begin, end) in enumerate(pairwise(pages)):
            strips = [data[self.start[k] : self.start[k] + self.size[k]] for k in range(begin, end)]
            if sum(map(len, strips)) % 2:
                strips.append(np.zeros(1, np.uint8))  # the codec takes pairs of bytes
            stream: Any = strips[0] if len(strips) == 1 else np.concatenate(strips)
            try:
                if out.dtype == np.uint8 and n == 0:
                    imagecodecs.eer_decode(stream, self.frame, *self.bits, superres=self.fine, out=counts)
                else:  # newer versions of the codec add to `out`, older ones do not
                    counts += imagecodecs.eer_decode(stream, self.frame, *self.bits, superres=self.fine)
            except Exception as error:  # a codec may fail in any way
                raise DecodeError(
                    f"block {block}: the events of frame {block * (len(pages) - 1) + n} do not decode:"
                    f" {str(error)[:120] or type(error).__name__}"
                ) from None


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return first_bytes[:2] in (b"II", b"MM") and header_of(first_bytes) is not None and holds_events(sources, path)


def _number(reader: Reader, tags: Tags, tag: int, default: int | None = None) -> int:
    """Return a tag of one number.

    Raises:
        FormatError: there is none, and no default.
    """
    if tag not in tags or tags[tag][0].length < 1:
        if default is None:
            raise FormatError(f"{reader.path}: expected tag {tag} in every page, found none")
        return default
    return reader.number(*tags[tag])


def _values(reader: Reader, tags: Tags, tag: int) -> np.ndarray:
    """Return a tag of places of strips: int64[n]."""
    if tag not in tags or not 1 <= tags[tag][0].length <= _MAX_STRIPS:
        raise FormatError(f"{reader.path}: expected 1 to {_MAX_STRIPS:,} strips in tag {tag} of every page")
    return reader.numbers(tags[tag][0])


def _page(reader: Reader, tags: Tags, at: int) -> _Page:
    """Read what one directory says.

    Raises:
        FormatError: it is garbled, or neither events nor plain pixels.
    """
    height, width = _number(reader, tags, _HEIGHT), _number(reader, tags, _WIDTH)
    offsets, sizes = _values(reader, tags, _OFFSETS), _values(reader, tags, _SIZES)
    packed = _number(reader, tags, COMPRESSION, 1)
    where = f"{reader.path}: the page at byte {at:,}"
    if not 0 < height < _MAX_SIDE or not 0 < width < _MAX_SIDE:
        raise FormatError(f"{where}: expected a frame of fewer than {_MAX_SIDE:,} rows, found {height:,} × {width:,}")
    if (
        len(offsets) != len(sizes)
        or (offsets < 1).any()
        or (sizes < 1).any()
        or max(offsets.max(), sizes.max()) > _MAX_FILE_BYTES
    ):
        raise FormatError(f"{where}: expected places and sizes of its strips, found such as no file of this size has")
    if packed in EER:
        skip = _number(reader, tags, _SKIP_BITS, 7) if packed == EER[2] else (8, 7)[packed - EER[0]]
        more = [_number(reader, tags, tag, 2) if packed == EER[2] else 2 for tag in (_X_BITS, _Y_BITS)]
        if not 1 < skip < 15 or not all(0 < n < 5 for n in more) or not 8 < skip + sum(more) < 17:
            raise FormatError(f"{where}: expected records of 9 to 16 bits, found {skip} + {more[0]} + {more[1]}")
        return _Page(height, width, (skip, more[0], more[1]), "", offsets, sizes)
    bits, kind = _number(reader, tags, _BITS, 1), _number(reader, tags, _SAMPLE_FORMAT, 1)
    stored = f"{reader.order}{_TYPES.get(kind, '?')}{bits // 8}"
    if packed != 1 or bits not in (8, 16, 32, 64) or kind not in _TYPES or (kind == 3 and bits == 8):
        raise FormatError(
            f"{where}: expected events, or an image that is not compressed; found compression {packed:,}, {bits:,} bits"
        )
    return _Page(height, width, None, stored, offsets, sizes)


def _pages(reader: Reader, lost: list[Absence]) -> tuple[list[_Page], dict[str, Any]]:
    """Read all directories, and the metadata of the first that has some; add what was cut off to `lost`.

    Raises:
        FormatError: a directory is garbled.
        TruncatedSourceError: the file ends before the end of the first one.
    """
    pages: list[_Page] = []
    metadata: dict[str, Any] = {}
    at, seen = reader.first, set[int]()
    while at:
        if at in seen or len(seen) >= _MAX_PAGES:
            raise FormatError(f"{reader.path}: the directories run in a circle at byte {at:,}; the file is garbled")
        seen.add(at)
        try:
            if at < 0:
                raise TruncatedSourceError(f"{reader.path}: the file ends within a directory; it looks truncated")
            data, begin, after = reader.directory(at)
            tags: Tags = {tag: (field, value) for tag, field, value in reader.entries(data, begin)}
            pages.append(_page(reader, tags, at))
            if not metadata and EER_METADATA in tags:
                metadata = _metadata(reader, tags[EER_METADATA][0])
        except TruncatedSourceError as error:
            if not pages:
                raise
            counts = {"frames_missing": 1}
            lost.append(Absence(str(error), TruncatedSourceError, "shows the frames before it", counts))
            break
        at = after
    return pages, metadata


def _metadata(reader: Reader, field: Field) -> dict[str, Any]:
    """Read the metadata in XML: name -> number, or text; {} if they cannot be understood."""
    size = field.length
    try:
        if field.type not in (1, 2, 7) or size > _MAX_XML:
            return {}
        root = parse_xml(reader.read(field.at, size).rstrip(b"\0"), reader.path)
    except (FormatError, SourceError):
        return {}
    found: dict[str, Any] = {}
    for item in root.iter("item"):
        name, text = item.get("name"), (item.text or "").strip()
        if name:
            try:
                found[name] = float(text) if "." in text or "e" in text.lower() else int(text)
            except ValueError:
                found[name] = text
            if item.get("unit"):
                found[f"{name}.unit"] = item.get("unit")
    return found


def _calibration(metadata: dict[str, Any], each: int, parts: int = 1) -> dict[str, Any]:
    """Return the calibration of axes: the size of a pixel in metres, and of `each` frames in seconds.

    Args:
        parts: parts of a pixel along each axis; the first one lies before the middle of its pixel.
    """
    found: dict[str, Any] = {}
    for dim, key in (("y", "sensorPixelSize.height"), ("x", "sensorPixelSize.width")):
        if isinstance(metadata.get(key), int | float):
            scale = float(metadata[key]) / parts
            offset = -scale * (parts - 1) / 2 if parts > 1 else 0.0
            found[dim] = {"scale": scale, "offset": offset, "unit": metadata.get(f"{key}.unit", "m")}
    seconds, frames = metadata.get("exposureTime"), metadata.get("numberOfFrames")
    if isinstance(seconds, int | float) and isinstance(frames, int) and frames > 0:
        unit = metadata.get("exposureTime.unit", "s")
        found["frame"] = {"scale": float(seconds) / frames * each, "offset": 0.0, "unit": unit}
    return found


def open(
    paths: Sequence[str], sources: Sources, *, frames_per_sum: int = 1, super_resolution: int = 1
) -> list[StoredArray]:
    """Open a movie of electron events.

    Args:
        frames_per_sum: frames of the camera whose events are counted together in one frame; those at the end that are
            too few for one are not shown
        super_resolution: parts of a pixel along each axis in which events are counted: 1, 2, or 4 where the file says
            their places so finely

    Raises:
        FormatError: a page is garbled, pages differ, or there are no events.
        TruncatedSourceError: no frame is whole.
        OptionError: there are fewer frames than are to be summed, or places in pixels are less fine.
        DependencyError: imagecodecs is not installed.
    """
    try:
        import imagecodecs  # noqa: F401
    except ImportError:
        raise DependencyError(f"reading electron events needs imagecodecs: {extra('tiff')}") from None
    path, files, lost = paths[0], Files.stat(sources, paths), list[Absence]()
    pages, metadata = _pages(Reader(sources, path), lost)
    events = [page for page in pages if page.bits is not None]
    if not events:
        raise FormatError(
            f"{path}: expected pages of electron events, found none; {option(format='tiff')} opens images"
        )
    for n, page in enumerate(events):
        if page[:3] != events[0][:3]:
            raise FormatError(
                f"{path}: expected frames of {events[0].height:,} × {events[0].width:,} pixels as the first one,"
                f" frame {n:,} has {page.height:,} × {page.width:,}, or records of other bits"
            )
    if not 1 <= frames_per_sum <= min(_MAX_SUM, len(events)):
        raise OptionError(
            f"{path}: {format_option(frames_per_sum=frames_per_sum)}: expected 1 to {min(_MAX_SUM, len(events)):,}"
            f" of its {len(events):,} frames"
        )
    _check_parts(path, events[0], super_resolution)
    attrs: dict[str, Any] = {"metadata": metadata, "frames": len(events), "frames_per_sum": frames_per_sum}
    attrs["calibration"] = _calibration(metadata, frames_per_sum, super_resolution)
    data = _movie(files, events, frames_per_sum, super_resolution, attrs)
    made = [altered(data, absent=(*lost, *data.absent))]
    plain = [page for page in pages if page.bits is None]
    for k, page in enumerate(plain):
        name = "final_image" if len(plain) == 1 else f"final_image_{k}"
        made += _image(name, files, page, {"calibration": _calibration(metadata, 1)})
    return made


def _check_parts(path: str, page: _Page, parts: int) -> None:
    """Check that events can be counted in so many parts of a pixel along each axis.

    Raises:
        OptionError: the file says places less finely, or the codec does not take frames of this size.
    """
    _, x, y = page.bits or (7, 2, 2)
    finest = 1 << min(x, y)
    if parts < 1 or parts & (parts - 1) or parts > finest:
        raise OptionError(f"{path}: {format_option(super_resolution=parts)}: expected a power of 2 up to {finest}")
    if parts > 1 and (page.height * parts % (1 << y) or page.width * parts % (1 << x)):
        raise OptionError(
            f"{path}: {format_option(super_resolution=parts)}: expected frames of a multiple of {1 << y} × {1 << x}"
            f" parts, found {page.height * parts:,} × {page.width * parts:,}"
        )


def _movie(files: Files, pages: Sequence[_Page], each: int, parts: int, attrs: dict[str, Any]) -> StoredArray:
    """Make the array of frames, of so many pages each, with so many parts of a pixel along each axis."""
    count, path = len(pages) // each, files.paths[0]
    strips = np.array([0, *(len(page.offsets) for page in pages[: count * each])]).cumsum()
    offsets = np.concatenate([page.offsets for page in pages[: count * each]])
    sizes = np.concatenate([page.sizes for page in pages[: count * each]])
    first = strips[np.arange(count)[:, None] * each + np.arange(each + 1)]
    begin = np.minimum.reduceat(offsets, first[:, 0])
    end = np.maximum.reduceat(offsets + sizes, first[:, 0])
    span = end - begin
    if (span > np.add.reduceat(sizes, first[:, 0]) + np.diff(first[:, [0, -1]])[:, 0] * _GAP).any():
        raise FormatError(
            f"{path}: expected pages of one sum after each other, found them scattered over the file;"
            f" {format_option(frames_per_sum=1)} shows single frames"
        )
    decoder = EventDecoder(
        np.dtype(np.uint8 if each < 1 << 8 else np.uint16),
        pages[0].bits or (7, 2, 2),
        parts.bit_length() - 1,
        (pages[0].height * parts, pages[0].width * parts),
        first,
        offsets - np.repeat(begin, first[:, -1] - first[:, 0]),
        sizes,
    )
    here = np.flatnonzero(end <= files.sizes[0])
    absent = _absent(files, end, len(pages) - count * each, each)
    shape = (count, *decoder.frame)
    origin = np.zeros((len(here), 3), np.int64)
    origin[:, 0] = here
    boxes = np.broadcast_to((1, *decoder.frame), origin.shape)
    which = np.zeros(len(here), np.int64)
    layout = BlockLayout.of(shape, BlockTable(origin, boxes, which, begin[here], span[here], numbers=here))
    return StoredArray(
        "data",
        files,
        layout,
        decoder,
        shape,
        ("frame", "y", "x"),
        1,
        block=(1, *decoder.frame),
        attrs=attrs,
        absent=absent,
        main=True,
    )


def _absent(files: Files, end: np.ndarray, left: int, each: int) -> tuple[Absence, ...]:
    """Report sums that are not whole, and frames that are too few for one.

    Args:
        end: int64[n], the byte behind each sum.
        left: number of frames behind the last sum.
        each: frames of a sum.

    Raises:
        TruncatedSourceError: no sum is whole.
    """
    absent: list[Absence] = []
    path, size = files.paths[0], int(files.sizes[0])
    if left:
        said = f"{path}: {left + len(end) * each:,} frames are {len(end):,} sums of {each:,}; {left:,} are not shown"
        absent.append(Absence(said, counts={"frames_left_out": left}))
    if cut := int((end > size).sum()):
        said = (
            f"{path}: expected events of a frame up to byte {int(end[end > size][0]):,}, the file has {size:,} bytes;"
            f" it looks truncated; frames that are not whole: {cut:,}"
        )
        if cut == len(end):
            raise TruncatedSourceError(said)
        absent.append(Absence(said, TruncatedSourceError, "shows them as blank", {"frames_missing": cut}))
    return tuple(absent)


def _image(name: str, files: Files, page: _Page, attrs: dict[str, Any]) -> list[StoredArray]:
    """Make the array of a plain page; none if its strips do not follow on each other, or are not all there."""
    stored = np.dtype(page.stored)
    together = (page.offsets[1:] == page.offsets[:-1] + page.sizes[:-1]).all()
    size = page.height * page.width * stored.itemsize
    if not together or page.sizes.sum() != size or page.offsets[0] + size > files.sizes[0]:
        return []
    table = PlaneTable(np.zeros(1, np.int64), page.offsets[:1], np.zeros(1, np.int64), files.paths[0])
    made = table.array(name, files, (), StoredPlane((page.height, page.width), stored), ("y", "x"), attrs)
    return [altered(made, main=False)]


def _pixel(metadata: Any) -> Any:
    """Return height and width of a pixel, where they are in m."""
    keys = [f"sensorPixelSize.{side}" for side in ("height", "width")]
    known = isinstance(metadata, Mapping) and all(metadata.get(f"{key}.unit", "m") == "m" for key in keys)
    return [metadata.get(key) for key in keys] if known else None


TERMS = (
    Term("serial_number", "metadata:serialNumber"),
    Term("exposure_time", "metadata:exposureTime", zero=False, given=("metadata:exposureTime.unit", "s")),
    Term("detector", "metadata:commercialName"),
    Term("pixel_size", "metadata", take=_pixel),
)
"""What the XML says, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "eer",
    (".eer",),
    "https://github.com/cgohlke/imagecodecs",
    "EER, the electron events of Falcon cameras, counted into frames",
    sniff,
    open,
    terms=TERMS,
    original=original,
    single=True,
)
