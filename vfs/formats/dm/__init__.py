"""Reads DM3 and DM4, files of Gatan DigitalMicrograph (GMS).

There is no public specification; the layout is known from programs that read it. The tags (see
`vfs.formats.gatan_tags`) hold a list of images, each with the place of its pixels::

    ImageList/k/ImageData/{Data, DataType, Dimensions/0,1,…, PixelDepth,
    Calibrations/Dimension/0,1,…}
    ImageList/k/ImageTags/…

Dimensions come fastest first, so the array has them reversed. Thumbnails (named in `Thumbnails`, or
the first image if it is coloured and others follow) are left out. One image is `data`, several are
`image_0/data`, `image_1/data` …; the largest is the main one. Several files with one image each,
all of one shape and type, are a stack in the given order; a gap in the numbers of their names means
a missing file, which is an error (see `vfs.formats.numbering`).

The last two axes are `y, x`; the axis of spectra is `energy` or `wavelength`, as its unit and the tags
say (see `vfs.formats.dm.axes`). Spectrum images are shown as `scan_y, scan_x, energy`, 4D-STEM as
`scan_y, scan_x, y, x`. Files of spectrum images store a map of the scan for each energy. Newer
software stores 4D-STEM in the order shown and sets `Data Order Swapped` = 1; older files store a map
of the scan for each detector pixel. Without that tag the units say which axes are the detector
(`1/nm`, `mrad`). Of maps, reading one frame or spectrum takes a pixel from each, so chunks hold whole
maps; `signal_first=False` shows the axes as they are stored.

Some microscopes store a scan as one row of frames and its shape in tags (`4D STEM Tags/Scan shape X`, or
`Series/nimagesx`, as the TitanX of NCEM does): these are shown as `scan_y, scan_x, y, x` if the shape fits the
frames. The tags are those that py4DSTEM and the notebooks of openNCEM take.

Colours are stored as B, G, R, alpha and shown as a last axis `s` of R, G, B, alpha. Of the
Fourier transform of a real image about half is stored; it is shown whole, and decodes as a whole
(`vfs.formats.dm.transforms`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vfs.errors import FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format, gatan_said
from vfs.formats.dm.alike import TagsAround
from vfs.formats.dm.axes import ShownAxes, axes_of
from vfs.formats.dm.images import DmImage, images_of
from vfs.formats.dm.maps import MapLayout
from vfs.formats.dm.transforms import HalvesDecoder
from vfs.formats.gatan_tags import find, is_tag_file, original, plain, read_tags
from vfs.formats.numbering import joined
from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.model import colours
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered, whole_frame
from vfs.model.metadata import Term
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, nav_dims, scan_dims
from vfs.model.wording import format_option

_SCAN_TAGS = (("4D STEM Tags/Scan shape Y", "4D STEM Tags/Scan shape X"), ("Series/nimagesy", "Series/nimagesx"))
_COLOURS = {"<": "BGRA", ">": "ARGB"}
"""Byte order of a file -> order of the colours of a pixel."""
_MAPS = 2 << 20  # for files that store maps: most bytes of maps in the block that is cheapest to read


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return is_tag_file(first_bytes) and not path.lower().endswith(".gtg")


def _tagged_scan(image: DmImage, nav: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the shape of the scan in the tags of a row of frames; None if there is none that fits them."""
    for y, x in _SCAN_TAGS:
        scan = [find(image.tags, f"ImageTags/{name}") for name in (y, x)]
        if len(nav) == 1 and all(isinstance(n, int | float) and n == int(n) and n > 0 for n in scan):
            rows, columns = int(scan[0]), int(scan[1])
            if rows * columns == nav[0]:
                return rows, columns
    return None


def _dataset(
    path: str,
    files: Files,
    offsets: Sequence[int],
    image: DmImage,
    order: str,
    signal_first: bool | None,
    attrs: dict[str, Any],
) -> StoredArray:
    """Make the array of an image, or of a stack of equal images in several files."""
    axes = axes_of(image, signal_first)
    if axes.maps and len(files) > 1 and signal_first is None and axes.sig_ndim == 1:
        axes = axes_of(image, False)  # maps of several files do not follow on each other as spectra do
    names, sig_ndim = axes.names, axes.sig_ndim
    calibration = dict(zip(names, image.calibrations, strict=True))
    said = {
        "name": image.tags.get("Name", ""),
        "tags": plain(find(image.tags, "ImageTags", {})),
        "image_data": {"Calibrations": plain(find(image.tags, "ImageData/Calibrations", {}))},
        "calibration": calibration,
        **attrs,
    }
    decoder = PlainDecoder(image.dtype)
    if image.halves is not None:
        return _transforms(path, files, offsets, image, image.halves, said)
    if axes.maps:
        return _maps(path, files, offsets[0], image, axes, said)
    nd = len(image.shape)
    nav, sig = image.shape[: nd - sig_ndim], image.shape[nd - sig_ndim :]
    pieces = None
    if image.coloured:
        sig, names = (*sig, 4), (*names, colours.AXIS)
        pieces = colours.in_order(whole_frame(sig), len(sig) - 1, _COLOURS[order])
    count = math.prod(nav)
    row = joined(files.sources, files.paths, [count] * len(files))
    held = np.clip((files.sizes - offsets) // (math.prod(sig) * image.dtype.itemsize), 0, count)
    layout = FrameLayout.of(
        FrameRecord(sig, image.dtype.itemsize, pieces=pieces), held, file_header=offsets, first=row.first
    )
    if scan := _tagged_scan(image, nav) if len(files) == 1 and sig_ndim == 2 else None:
        nav, names = scan, scan_dims(("", "")) + names[nd - sig_ndim :]
    if len(files) > 1:
        nav = (row.frames,) if len(nav) < 2 else (row.frames // math.prod(nav[1:]), *nav[1:])
        names = nav_dims(len(nav)) + names[nd - sig_ndim :]
    return StoredArray(
        path,
        files,
        layout.arranged(Scan(nav)),
        decoder,
        nav + sig,
        names,
        len(nav),
        attrs=said,
        absent=row.absent + _cut(files, image, held, count),
    )


def _maps(path: str, files: Files, offset: int, image: DmImage, axes: ShownAxes, attrs: dict[str, Any]) -> StoredArray:
    """Make the array of an image that stores a map of the scan for each pixel of a frame.

    Raises:
        FormatError: there are several files.
    """
    if len(files) > 1:
        raise FormatError(
            f"{files.paths[0]}: stores a map of the scan for each pixel; files of this kind cannot be stacked, open"
            " them one by one"
        )
    sig, nav, width = image.shape[: axes.sig_ndim], image.shape[axes.sig_ndim :], image.dtype.itemsize
    lines = max(1, min(nav[0], _MAPS // (math.prod(nav[1:]) * width)))
    return StoredArray(
        path,
        files,
        MapLayout.at(nav, sig, offset, width),
        PlainDecoder(image.dtype),
        nav + sig,
        axes.shown,
        len(nav),
        block=(lines, *nav[1:]) + (1,) * axes.sig_ndim,
        attrs={**attrs, "stored_order": list(axes.names)},
    )


def _transforms(
    path: str, files: Files, offsets: Sequence[int], image: DmImage, halves: HalvesDecoder, attrs: dict[str, Any]
) -> StoredArray:
    """Make the array of a Fourier transform, or of one of each file."""
    row = joined(files.sources, files.paths, [1] * len(files))
    nav = (row.frames,) if len(files) > 1 else ()
    nbytes = np.full(len(files), image.nbytes)
    table = PlaneTable(np.arange(len(files)), np.array(offsets, np.int64), row.first, files.paths[0], nbytes)
    dims = (*nav_dims(len(nav)), "y", "x")
    made = table.array(path, files, nav, StoredPlane(halves.shape, image.dtype, decoder=halves), dims, attrs)
    told = tuple(absence for absence in made.absent if absence.refused is not None)  # missing files are told by `row`
    return altered(made, absent=row.absent + told)


def _cut(files: Files, image: DmImage, held: np.ndarray, count: int) -> tuple[Absence, ...]:
    """Report the frames that a stack lacks because files end too early.

    All files must have their pixels at the same place as the first one.

    Args:
        held: number of whole frames in each file.
        count: number of frames that each file should have.
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


def _stack(sources: Sources, paths: Sequence[str], same_offset: bool, signal_first: bool | None) -> list[StoredArray]:
    """Make one array of the largest images of several files."""
    files = Files.stat(sources, paths)
    tags = read_tags(sources, files.paths[0])
    image = max(images_of(files.paths[0], tags), key=lambda i: i.nbytes)
    offsets = [image.offset]
    around = None if same_offset else TagsAround.of(sources, files.paths[0], int(files.sizes[0]), image, tags.version)
    for path, size in zip(files.paths[1:], files.sizes[1:].tolist(), strict=True):
        if same_offset:
            offsets.append(image.offset)
            continue
        if around is not None and around.fit(sources, path, size):
            offsets.append(image.offset)
            continue
        other = read_tags(sources, path)
        found = max(images_of(path, other), key=lambda i: i.nbytes)
        if (found.shape, found.dtype, found.coloured, found.halves) != (
            image.shape,
            image.dtype,
            image.coloured,
            image.halves,
        ):
            raise FormatError(f"{path}: holds {found.said}, {files.paths[0]} holds {image.said}; they are no stack")
        offsets.append(found.offset)
    return [_dataset("data", files, offsets, image, tags.order, signal_first, {"version": tags.version})]


def open(
    paths: Sequence[str], sources: Sources, *, signal_first: bool | None = None, same_offset: bool = False
) -> list[StoredArray]:
    """Open the images of a file, or a stack of files.

    Args:
        signal_first: true if the file stores a map of the scan for each energy or detector pixel;
            scan axes are then shown first. By default units and tags say it; else it is true for
            4D-STEM data
        same_offset: assume that all files of a stack hold their pixels at the same place as the
            first one; their tags are not read.

    Raises:
        FormatError, TruncatedSourceError: a file is garbled or cut, or the files cannot be stacked.
    """
    for value, name in ((signal_first, "signal_first"), (same_offset, "same_offset")):
        if not isinstance(value, bool | None):
            raise OptionError(f"{format_option(**{name: value})}: expected true or false")
    if len(paths) > 1:
        return _stack(sources, paths, same_offset, signal_first)
    files = Files.stat(sources, paths)
    tags = read_tags(sources, files.paths[0])
    images = images_of(files.paths[0], tags)
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
    terms=(Term("title", "name"), *gatan_said.terms("tags")),
    original=original,
)
