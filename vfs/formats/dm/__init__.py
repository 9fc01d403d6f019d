"""Reads DM3 and DM4, files of Gatan DigitalMicrograph (GMS).

There is no public specification; the layout is known from programs that read it. The tags (see
`vfs.formats.gatan_tags`) hold a list of images; each says where its pixels are::

    ImageList/k/ImageData/{Data, DataType, Dimensions/0,1,…, PixelDepth,
    Calibrations/Dimension/0,1,…}
    ImageList/k/ImageTags/…

Dimensions come fastest first, so the array has them reversed. Thumbnails (named in `Thumbnails`, or
the first image if it is coloured and others follow) are left out. One image is `data`, several are
`image_0/data`, `image_1/data` …; the largest is the main one. Several files with one image each,
all of one shape and type, are a stack in the given order; a gap in the numbers of their names means
a missing file, which is an error (see `vfs.formats.numbering`).

The last two axes are `y, x`; the axis of spectra is `energy`. Maps of spectra keep the order of the
file, which stores a map for each energy (`energy, scan_y, scan_x`); `signal_first=True` shows them
as `scan_y, scan_x, energy`. 4D-STEM is always shown as `scan_y, scan_x, y, x`. Newer software
stores it so and says `Data Order Swapped` = 1. Older files store a map of the scan for each
detector pixel, and reading one frame takes a pixel from each map: chunks hold whole maps.

Colours are stored as B, G, R, alpha and shown as a last axis `channel` of R, G, B, alpha. Of the
Fourier transform of a real image (y, x) only the columns 0 to x / 2 are stored, backwards, since
the others follow from them. These columns are shown in their order, and the attribute `half_of` has
the whole shape. That is how RosettaSciIO reads types 27 and 28; no such file was at hand. An older
way of packing (type 5) is refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vfs.boundary import open_file
from vfs.errors import FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.gatan_tags import StoredTag, Tags, find, is_tag_file, plain, read_tags
from vfs.formats.headers import read_at
from vfs.formats.numbering import joined
from vfs.kernels.ranges import COLUMNS, NO_LIMIT, NO_ROWS
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout, mirrored, whole_frame
from vfs.model.region import Region
from vfs.model.stored import Absence, Files, StoredArray, nav_dims

_DTYPES = {
    1: "i2",
    2: "f4",
    3: "c8",
    6: "u1",
    7: "i4",
    8: "u1",
    9: "i1",
    10: "u2",
    11: "u4",
    12: "f8",
    13: "c16",
    14: "?",
    23: "u1",
    27: "c8",
    28: "c16",
}
_COLOURS = (8, 23)  # four bytes a pixel
_HALVES = (27, 28)  # complex, half of the columns
_PACKED = 5  # complex, half of the pixels, some of them squeezed into places that are free
_ENERGY = ("eV", "keV", "meV")
_MARK_BEFORE = 192  # bytes that hold the name and the type of any values
_MARK_BEHIND = 1024  # bytes that hold the dimensions of an image
_MAPS = 2 << 20  # most bytes of maps in the block that is cheapest to read, for files that store maps
_MOST_AXES = 8


def sniff(path: str, head: bytes) -> bool:
    return is_tag_file(head) and not path.lower().endswith(".gtg")


@dataclass(frozen=True, eq=False)
class MapLayout(FrameLayout):
    """Lays out frames whose pixels lie far apart: for each pixel of a frame, a map of the scan.

    This equals a FrameLayout with a stride of one element and these strides as `pieces`, but read
    ranges run along the scan, as the elements lie in the file (maps follow each other in C order of
    the pixels). So there is one range for each pixel and line of the scan, instead of one for each
    element.
    """

    periodic = False

    @classmethod
    def at(cls, nav_shape: tuple[int, ...], sig_shape: tuple[int, ...], offset: int, itemsize: int) -> MapLayout:
        """Make the layout of maps that follow each other from byte `offset` of file 0 on."""
        count = math.prod(nav_shape)
        steps = [count * math.prod(sig_shape[k + 1 :]) for k in range(len(sig_shape))]
        stream = np.array([[0, count * math.prod(sig_shape) * itemsize, offset, 0]], np.int64)
        return cls(nav_shape, sig_shape, stream, itemsize, 0, count, itemsize, 1, whole_frame(sig_shape, steps))

    def read_ranges(self, region: Region, most: int = NO_LIMIT) -> tuple[np.ndarray, int]:
        k = len(self.shape) - len(self.sig_shape)
        scan, frame = (
            Region(region.start[part], region.stop[part], region.step[part]) for part in (slice(k), slice(k, None))
        )
        pixels = frame.flat(self.sig_shape)
        place = self.locate(scan.flat(self.shape[:k]))[:, 1]
        shown = np.flatnonzero(place >= 0)
        if not len(shown) or not len(pixels):
            return NO_ROWS, 0
        begins = np.concatenate(
            [[0], np.flatnonzero((np.diff(place[shown]) != self.word_bytes) | (np.diff(shown) != 1)) + 1]
        )
        if len(begins) * len(pixels) > most:
            return NO_ROWS, -1
        counts = np.diff(np.append(begins, len(shown)))
        begins = shown[begins]
        order = np.argsort(place[begins], kind="stable")  # in file order, as all plans are
        begins, counts = begins[order], counts[order]
        rows = np.zeros((len(pixels), len(begins), COLUMNS), np.int64)
        rows[..., 0] = self.stream[0, 3]
        rows[..., 1] = place[begins] + pixels[:, None] * self.stored * self.word_bytes
        rows[..., 2] = rows[..., 1] + counts * self.word_bytes
        rows[..., 3] = begins * len(pixels) + np.arange(len(pixels))[:, None]
        rows[..., 4] = np.where(counts == 1, 1, len(pixels))
        rows[..., 6] = counts
        return rows.reshape(-1, COLUMNS), len(shown) * len(pixels)


@dataclass(frozen=True)
class _Image:
    """An image of a file: where its pixels are, and what they are.

    Attributes:
        tags: its group in the tags.
        offset: byte of the first pixel.
        dtype: of a pixel as stored; of one component if it is coloured.
        shape: slowest axis first, without colours; as stored.
        coloured: True if a pixel has four components.
        calibrations: scale, offset and unit of each axis.
        half_of: the shape that the file says if half of the columns are stored; else ().
    """

    tags: Mapping[str, Any]
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    coloured: bool
    calibrations: tuple[dict[str, Any], ...]
    half_of: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize * (4 if self.coloured else 1)

    @property
    def energy(self) -> int | None:
        """The axis with energies: by its unit, else by what the file says it is. None if there is none."""
        units = [c["unit"] for c in self.calibrations]
        found = [k for k, unit in enumerate(units) if unit in _ENERGY]
        says = str(find(self.tags, "ImageTags/Meta Data/Format", "")).lower()
        if len(found) == 1:
            return found[0]
        if not says.startswith("spectrum"):
            return None
        return 0 if says.startswith("spectrum image") or len(self.shape) == 1 else len(self.shape) - 1


def _image(path: str, number: int, tags: Mapping[str, Any], order: Literal["<", ">"]) -> _Image | None:
    """Parse an entry of the list of images; None if it has no pixels.

    Raises:
        FormatError: it is not an image, or one of a kind that is not supported.
    """
    of = find(tags, "ImageData")
    data = find(tags, "ImageData/Data")
    if not isinstance(of, dict) or not isinstance(data, StoredTag):
        return None
    where = f"{path}: image {number}"
    kind, depth, sizes = find(of, "DataType"), find(of, "PixelDepth"), find(of, "Dimensions")
    if kind == _PACKED:
        raise FormatError(
            f"{where} has pixels of type {kind} (packed complex, half of a Fourier transform), which is not supported;"
            " save it as complex"
        )
    if kind not in _DTYPES:
        raise FormatError(
            f"{where} has pixels of type {str(kind)[:20]!r}; expected one of {', '.join(map(str, _DTYPES))}"
        )
    values = list(sizes.values())[::-1] if isinstance(sizes, dict) else []
    if not 1 <= len(values) <= _MOST_AXES or not all(isinstance(n, int) and n > 0 for n in values):
        raise FormatError(f"{where} has dimensions {str(values)[:60]}; expected one to {_MOST_AXES} positive numbers")
    half_of = tuple(values) if kind in _HALVES else ()
    if half_of:
        if len(values) != 2 or values[1] % 2:
            raise FormatError(
                f"{where} is half of a Fourier transform of dimensions {values}; expected two, and an even number of"
                " columns"
            )
        values[1] = values[1] // 2 + 1
    dtype = np.dtype(_DTYPES[kind]).newbyteorder(order)
    coloured = kind in _COLOURS
    itemsize = 4 if coloured else dtype.itemsize
    if depth is not None and depth != itemsize:
        raise FormatError(
            f"{where} has pixels of type {kind}, which take {itemsize} bytes, but says that they take {str(depth)[:20]}"
        )
    if math.prod(values) * itemsize > data.nbytes:
        raise FormatError(
            f"{where} has dimensions {values}, {math.prod(values) * itemsize:,} bytes, but only {data.nbytes:,} bytes"
            " of pixels"
        )
    groups = find(of, "Calibrations/Dimension")
    given = list(groups.values()) if isinstance(groups, dict) else []
    calibrations = tuple(_calibration(given[k] if k < len(given) else None) for k in range(len(values)))[::-1]
    return _Image(tags, data.offset, dtype, tuple(values), coloured, calibrations, half_of)


def _calibration(group: Any) -> dict[str, Any]:
    """Return scale, offset of the first element, and unit of an axis."""
    found = [
        find(group, name, default) if isinstance(group, dict) else default
        for name, default in (("Scale", 1.0), ("Origin", 0.0), ("Units", ""))
    ]
    scale, origin = (float(v) if isinstance(v, int | float) else d for v, d in zip(found, (1.0, 0.0), strict=False))
    return {
        "scale": scale,
        "offset": -origin * scale if origin else 0.0,
        "unit": found[2] if isinstance(found[2], str) else "",
    }


def _images(path: str, tags: Tags) -> list[_Image]:
    """Return the images of a file in their order, without thumbnails.

    Raises:
        FormatError: there is none.
    """
    entries = tags.get("ImageList")
    named = tags.get("Thumbnails")
    thumbs = (
        {find(t, "ImageIndex") for t in named.values() if isinstance(t, dict)} if isinstance(named, dict) else set()
    )
    groups = [g for g in entries.values() if isinstance(g, dict)] if isinstance(entries, dict) else []
    with_pixels = [k for k, g in enumerate(groups) if isinstance(find(g, "ImageData/Data"), StoredTag)]
    if len(with_pixels) > 1 and not thumbs:
        first = groups[with_pixels[0]]
        if find(first, "ImageData/DataType") == 23 and len(find(first, "ImageData/Dimensions", {}) or ()) == 2:
            thumbs = {with_pixels[0]}
    wanted = [k for k in with_pixels if k not in thumbs] or with_pixels
    found = [image for k in wanted if (image := _image(path, k, groups[k], tags.order)) is not None]
    if not found:
        raise FormatError(f"{path}: expected an image in its tags, found none")
    return found


def _axes(image: _Image, signal_first: bool | None) -> tuple[tuple[str, ...], int, bool]:
    """Name the stored axes.

    Returns: (a name per stored axis, how many of them are signal axes, True if those come first and
        are shown last).
    """
    nd, energy = len(image.shape), image.energy
    swapped = find(image.tags, "ImageTags/Meta Data/Data Order Swapped")
    if energy == nd - 1:
        return (*nav_dims(nd - 1), "energy"), 1, False
    if energy == 0:
        return ("energy", *nav_dims(nd - 1)), 1 if signal_first else nd - 1, bool(signal_first)
    if nd == 1:
        return ("x",), 1, False
    first = nd == 4 and not swapped if signal_first is None else signal_first
    if first and nd > 2 and not image.coloured:
        return ("y", "x", *nav_dims(nd - 2)), 2, True
    return (*nav_dims(nd - 2), "y", "x"), 2, False


def _coloured_pieces(sig: tuple[int, ...], order: str) -> np.ndarray:
    """Return the pieces of a frame [y, x, 4] that is stored as B, G, R, alpha.

    In big-endian files the order is alpha, R, G, B.
    """
    steps = [4 * math.prod(sig[k + 1 :]) for k in range(len(sig))]
    colour, alpha = ((-1, 2), (1, 3)) if order == "<" else ((1, 1), (1, 0))
    zeros = [0] * len(sig)
    return np.array([[*zeros, 0, *sig, 3, *steps, *colour, 0], [*zeros, 3, *sig, 1, *steps, *alpha, 0]], np.int64)


def _dataset(
    path: str,
    files: Files,
    offsets: Sequence[int],
    image: _Image,
    order: str,
    signal_first: bool | None,
    attrs: dict[str, Any],
) -> StoredArray:
    """Make the array of an image; with several files, of equal images stacked."""
    names, sig_ndim, first = _axes(image, signal_first)
    calibration = dict(zip(names, image.calibrations, strict=True))
    said = {
        "name": image.tags.get("Name", ""),
        "tags": plain(find(image.tags, "ImageTags", {})),
        "calibration": calibration,
        **attrs,
    }
    decoder = PlainDecoder(image.dtype)
    if first:
        if len(files) > 1:
            raise FormatError(
                f"{files.paths[0]}: stores a map of the scan for each pixel; files of this kind cannot be stacked, open"
                " them one by one"
            )
        sig, nav = image.shape[:sig_ndim], image.shape[sig_ndim:]
        layout: FrameLayout = MapLayout.at(nav, sig, offsets[0], image.dtype.itemsize)
        dims = names[sig_ndim:] + names[:sig_ndim]
        lines = max(1, min(nav[0], _MAPS // (math.prod(nav[1:]) * image.dtype.itemsize)))
        block = (lines, *nav[1:]) + (1,) * sig_ndim
        return StoredArray(
            path,
            files,
            layout,
            decoder,
            nav + sig,
            dims,
            len(nav),
            block=block,
            attrs={**said, "stored_order": list(names)},
        )
    nd = len(image.shape)
    nav, sig = image.shape[: nd - sig_ndim], image.shape[nd - sig_ndim :]
    pieces = _coloured_pieces(sig, order) if image.coloured else None
    if image.coloured:
        sig, names = (*sig, 4), (*names, "channel")
    if image.half_of:
        pieces = mirrored(whole_frame(sig), 1)
        said["half_of"] = list(image.half_of)
    count = math.prod(nav)
    row = joined(files.paths, [count] * len(files))
    held = np.clip((files.sizes - offsets) // (math.prod(sig) * image.dtype.itemsize), 0, count)
    layout = FrameLayout.of(
        sig, held, word_bytes=image.dtype.itemsize, file_header=offsets, first=row.first, pieces=pieces
    )
    if len(files) > 1:
        nav = (row.frames,) if len(nav) < 2 else (row.frames // math.prod(nav[1:]), *nav[1:])
        names = nav_dims(len(nav)) + names[nd - sig_ndim :]
    return StoredArray(
        path,
        files,
        layout.arranged(nav),
        decoder,
        nav + sig,
        names,
        len(nav),
        attrs=said,
        absent=row.absent + _cut(files, image, held, count),
    )


def _cut(files: Files, image: _Image, held: np.ndarray, count: int) -> tuple[Absence, ...]:
    """Return what is absent in a stack whose files end too early: `held` of `count` frames are there.

    All files must have their pixels where the first one has them.
    """
    short = np.flatnonzero(held < count)
    if not len(short):
        return ()
    first, stop = int(short[0]), image.offset + image.nbytes
    said = (
        f"{files.paths[first]}: expected pixels from byte {image.offset:,} to {stop:,} as in the first file, it has"
        f" {int(files.sizes[first]):,}"
    )
    said += "; it looks truncated" + f", and {len(short) - 1:,} more" * (len(short) > 1)
    gone = {"frames_missing": int((count - held).sum())}
    return (Absence(said, TruncatedSourceError, "shows the frames that are not whole as blank", gone),)


@dataclass(frozen=True)
class _Marks:
    """Words around the pixels of an image that say what they are. They recognise files that are alike.

    Files of a stack mostly differ in values only. Take a file that is as long as another one and
    has the same words at the same places around its pixels (name, type and number of the values
    before them; data type, dimensions and bytes a pixel behind them). It holds an image of the same
    type and shape there, and the rest of its tags need not be read: 15 µs instead of 200 µs and
    more.

    Attributes:
        size: bytes of the file.
        start, stop: first byte of the pixels, and first byte behind them.
        before: the words that end at `start`.
        behind: the words that begin at `stop`.
    """

    size: int
    start: int
    stop: int
    before: bytes
    behind: bytes

    @classmethod
    def of(cls, path: str, size: int, image: _Image, version: int) -> _Marks | None:
        """Read the marks of an image; None if its tags are not in the order of Gatan's software."""
        start, stop = image.offset, image.offset + image.nbytes
        before = read_at(path, _MARK_BEFORE, start - _MARK_BEFORE) if start > _MARK_BEFORE else b""
        behind = read_at(path, _MARK_BEHIND, stop, short_ok=True)
        first, depth = before.rfind(b"\x15\x00\x04Data"), behind.find(b"PixelDepth")
        last = depth + (26 if version == 3 else 42)  # the end of its value
        if first < 0 or not -1 < behind.find(b"DataType") < behind.find(b"Dimensions") < depth or last > len(behind):
            return None
        return cls(size, start, stop, before[first:], behind[:last])

    def fit(self, path: str, size: int) -> bool:
        """Return True if a file has the same marks.

        Raises:
            SourceError: it cannot be opened.
        """
        if size != self.size:
            return False
        fd = open_file(path)
        try:
            before = os.pread(fd, len(self.before), self.start - len(self.before))
            return before == self.before and os.pread(fd, len(self.behind), self.stop) == self.behind
        except OSError:
            return False  # reading its tags then says what is wrong
        finally:
            os.close(fd)


def _stack(paths: Sequence[str], same_offset: bool, signal_first: bool | None) -> list[StoredArray]:
    """Make one array of the largest images of several files."""
    files = Files.stat(paths)
    tags = read_tags(files.paths[0])
    image = max(_images(files.paths[0], tags), key=lambda i: i.nbytes)
    offsets = [image.offset]
    marks = None if same_offset else _Marks.of(files.paths[0], int(files.sizes[0]), image, tags.version)
    for path, size in zip(files.paths[1:], files.sizes[1:].tolist(), strict=True):
        if same_offset:
            offsets.append(image.offset)
            continue
        if marks is not None and marks.fit(path, size):
            offsets.append(image.offset)
            continue
        other = read_tags(path)
        found = max(_images(path, other), key=lambda i: i.nbytes)
        if (found.shape, found.dtype, found.coloured, found.half_of) != (
            image.shape,
            image.dtype,
            image.coloured,
            image.half_of,
        ):
            raise FormatError(
                f"{path}: holds {found.dtype} {list(found.shape)}, {files.paths[0]} holds {image.dtype}"
                f" {list(image.shape)}; they are no stack"
            )
        offsets.append(found.offset)
    return [_dataset("data", files, offsets, image, tags.order, signal_first, {"version": tags.version})]


def open(paths: Sequence[str], *, signal_first: bool | None = None, same_offset: bool = False) -> list[StoredArray]:
    """Open the images of a file, or a stack of files.

    Args:
        signal_first: true if the file stores a map of the scan for each energy or detector pixel:
            scan axes are then shown first. By default this holds for 4D-STEM data unless their tags
            say otherwise; spectra are shown as they are stored.
        same_offset: trust that all files of a stack hold their pixels at the same place as the
            first one; their tags are not read.

    Raises:
        FormatError, TruncatedSourceError: a file is garbled or cut, or the files cannot be stacked.
    """
    for value, name in ((signal_first, "signal_first"), (same_offset, "same_offset")):
        if not isinstance(value, bool | None):
            raise OptionError(f"{name}={value!r}: expected true or false")
    if len(paths) > 1:
        return _stack(paths, same_offset, signal_first)
    files = Files.stat(paths)
    tags = read_tags(files.paths[0])
    images = _images(files.paths[0], tags)
    made = [
        _dataset(
            f"image_{n}/data" if len(images) > 1 else "data",
            files,
            [image.offset],
            image,
            tags.order,
            signal_first,
            {"version": tags.version},
        )
        for n, image in enumerate(images)
    ]
    return sorted(made, key=lambda d: -math.prod(d.shape) * d.dtype.itemsize)


FORMAT = Format(
    "dm",
    (".dm3", ".dm4"),
    "https://www.gatan.com/products/tem-analysis/gatan-microscopy-suite-software",
    "Gatan DigitalMicrograph 3 and 4",
    sniff,
    open,
)
