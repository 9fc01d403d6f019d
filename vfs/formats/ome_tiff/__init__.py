"""Reads OME-TIFF: https://docs.openmicroscopy.org/ome-model/latest/ome-tiff/specification.html

The description of a file's first page is an XML document. For every plane of every image it names
the page and the file that hold it. It may be in every file of a set, in one of them (`BinaryOnly`
files name it), or in a file of its own (`companion.ome`).

Every image is an array `t, c, z, y, x`, also with axes of length 1, and has a last axis `s` if
pixels have several samples. Smaller versions of it (in sub-directories) are arrays beside it,
`level_1/data`, …. A single image is `data`, several are `image_0/data`, ….

A missing file is an error. So are planes without a page: the document assigns them to no page, or to
a page that its file does not have. If they are the last planes in the document's order, the
acquisition was stopped, and there is only a warning. With `allow_incomplete` all these are blank.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from vfs.errors import FormatError, OptionError, VfsError
from vfs.formats import Format
from vfs.formats.ome_said import TERMS
from vfs.formats.ome_tiff.absent import damaged_files, lost_files, pages_in_no_image, pixels_in_text
from vfs.formats.ome_tiff.document import Image, dtype_of
from vfs.formats.ome_tiff.members import document_at, members, told_of
from vfs.formats.ome_tiff.per_plane import companions
from vfs.formats.ome_tiff.placed import OmeSet, PlacedPlanes, place_planes
from vfs.formats.tiff_structure.colour_maps import colours_of
from vfs.formats.tiff_structure.headers import described_as_ome, header_of
from vfs.formats.tiff_structure.kinds import Kind
from vfs.formats.tiff_structure.nodata import fill_of
from vfs.formats.tiff_structure.original import original
from vfs.formats.tiff_structure.planes import arrange
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.metadata import Told
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.model.wording import option
from vfs.model.written import Written

_DIMS = ("t", "c", "z", "y", "x")
_BESIDE = re.compile(r"(label|macro|overview|thumbnail)( image)?", re.I)  # images of a slide scanner, by name
_LOOK = 1 << 20  # bytes of OME-XML that say where its pixels are


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    if header_of(first_bytes) is None:
        if not first_bytes.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"<"):
            return False
        text = first_bytes.decode("utf-16" if first_bytes[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "ignore")
        return (
            text.lstrip("\ufeff \t\r\n").startswith("<")
            and re.search(r"<(\w+:)?OME\s", text) is not None
            and "openmicroscopy.org" in text
            and not _holds_pixels(sources, path)
        )
    try:
        return described_as_ome(sources, path)
    except VfsError:
        return False


def _holds_pixels(sources: Sources, path: str) -> bool:
    """Return True for OME-XML that has pixels in its text (BinData), and names no page: it is another format."""
    text = sources.read(path, 0, _LOOK).replace(b"\0", b"")
    return b"BinData" in text and not (b"TiffData" in text or b"BinaryOnly" in text)


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open an OME-TIFF set by one of its files, or by its companion file.

    Raises:
        FormatError: a file or the document is garbled.
        TruncatedSourceError: a file is shorter than its pages.
        MissingSourceError: the named file, or the file that describes the set, does not exist.
        OptionError: the files do not belong to one set.
    """
    document, holder = document_at(sources, paths[0])
    places, strange = members(sources, document, holder)
    found = OmeSet(sources, places)
    for path in paths[1:]:
        if path not in found.paths and path != holder:
            raise OptionError(
                f"{path}: does not belong to the set that {holder} describes ({len(found.paths)} files); open sets one"
                " by one"
            )
    out: list[StoredArray] = []
    absent: list[Absence] = []
    lost = damaged = 0
    told = Told(partial(told_of, sources, holder))
    named: list[np.ndarray] = []
    for k, image in enumerate(document.images):
        if image.runs:
            above = f"image_{k}/" if len(document.images) > 1 else ""
            placed, arrays = _arrays(found, image, above, holder)
            arrays[0] = altered(arrays[0], told=told.of(str(k)))
            arrays += companions(sources, holder, k, image, arrays[0])
            beside = _BESIDE.fullmatch(str(image.attrs.get("name", "")).strip()) is not None
            out += [altered(one, main=False) for one in arrays] if beside else arrays
            says = f"{holder}: its OME-XML says" + f" of image {k}" * bool(above)
            absent += [*placed.absent(says, found.cut), *placed.unlike]
            named += [placed.row, placed.odd]
            lost += int(np.count_nonzero(found.files.sizes[placed.file] < 0))
            damaged += int(np.count_nonzero(np.isin(placed.file, list(found.errors))))
    if not out:
        raise FormatError(f"{holder}: its OME-XML has no image with TiffData, which says where planes are")
    absent += pixels_in_text(document.images, holder)
    gone = (*lost_files(found, holder, lost, strange), *damaged_files(found, damaged), *absent)
    gone += tuple(one for made in out for one in made.absent)
    gone += pages_in_no_image(found, holder, named)
    gone += tuple(one for structure in found.structures.values() for one in structure.without_values())
    shown = next((one for one in out if one.main is not False), None)  # the first image, as its programs show it
    out = [altered(one, main=True if one is shown else one.main if shown else None) for one in out]
    return [altered(d, absent=gone) for d in sorted(out, key=lambda d: -math.prod(d.shape) * d.dtype.itemsize)]


def _arrays(found: OmeSet, image: Image, above: str, holder: str) -> tuple[PlacedPlanes, list[StoredArray]]:
    """Return (places of the planes of an image, its arrays: the image and its smaller versions)."""
    kind = _kind(found, image)
    samples = image.samples if kind is None else kind.shaped[0] * kind.shaped[4]
    if image.sizes["C"] % samples:
        raise FormatError(
            f"{holder}: its OME-XML says SizeC={image.sizes['C']}, its pages have {samples} samples a pixel"
        )
    nav = image.sizes["T"], image.sizes["C"] // samples, image.sizes["Z"]
    size = image.sizes["Y"], image.sizes["X"]
    if kind is not None and (kind.shaped[1] != 1 or kind.shaped[2:4] != size):
        raise FormatError(
            f"{holder}: its OME-XML says an image of {size}, its pages are {kind.shape}; open with"
            f" {option(format='tiff')} to see the pages"
        )
    dtype = declared = dtype_of(image.type)
    if kind is not None and (kind.signed or dtype is None or dtype.itemsize != kind.dtype.itemsize):
        dtype = kind.dtype  # the document decides only if pages do not tell if their numbers are signed
    if dtype is None:
        raise FormatError(
            f"{holder}: its OME-XML says pixels of type {image.type[:40]!r}, and no page of the image exists"
        )
    if math.prod(nav) * math.prod(size) * samples * dtype.itemsize >= 1 << 62:
        raise FormatError(f"{holder}: its OME-XML says an image of {image.sizes}, which is absurd")
    placed = place_planes(found, image, nav, samples, holder)
    if kind is not None:
        placed = placed.without(found, kind)
    attrs = {**image.attrs, **placed.attrs(found), **({} if kind is None else kind.facts)}
    if kind is not None:
        attrs |= colours_of(found.table, [placed.row.reshape(-1)], kind.facts)
    if kind is None or not (placed.row >= 0).any():
        sig = size + ((samples,) if samples > 1 else ())
        layout = FrameLayout.of(FrameRecord(sig, dtype.itemsize), []).arranged(Scan(nav))
        return placed, [
            StoredArray(
                above + "data",
                found.files,
                layout,
                PlainDecoder(dtype),
                nav + sig,
                _DIMS + ("s",) * (samples > 1),
                3,
                attrs=attrs,
            )
        ]
    main = _array(found, above + "data", placed, placed.row, nav, dtype, attrs)
    if declared is not None and dtype.newbyteorder("=") != declared.newbyteorder("="):
        said = f"{holder}: its OME-XML says pixels of type {image.type}, its pages hold {dtype.name}: shown as these"
        main = altered(main, absent=(*main.absent, Absence(said)))
    out = [main]
    for level, rows in enumerate(_smaller(found, placed), 1):
        out.append(_array(found, f"{above}level_{level}/data", placed, rows, nav, dtype, {"level": level}))
    return placed, out


def _kind(found: OmeSet, image: Image) -> Kind | None:
    """Return the kind of the pages of an image; None if no page exists.

    Raises:
        FormatError: the first page of each of its runs cannot be read.
    """
    size = image.sizes["Y"], image.sizes["X"]
    structures = [(found.structures.get(found.number[run.file]), run.ifd) for run in image.runs]
    rows = [one.rows[ifd] for one, ifd in structures if one is not None and ifd < len(one.rows)]
    kinds = {number: found.table.kinds[number] for number in dict.fromkeys(found.table.kind[row] for row in rows)}
    good = [kind for kind in kinds.values() if isinstance(kind, Kind)]
    if rows and not good:
        return found.kind(rows[0])
    return next((kind for kind in good if kind.shaped[2:4] == size), good[0] if good else None)


def _array(
    found: OmeSet,
    path: str,
    placed: PlacedPlanes,
    rows: np.ndarray,
    nav: tuple[int, ...],
    dtype: np.dtype,
    attrs: dict[str, Any],
) -> StoredArray:
    """Make the array of pages, one for each of the planes of `placed`."""
    kind = found.kind(int(rows[rows >= 0][0]))
    shown = (2, 3, 0) if kind.shaped[0] > 1 else (2, 3, 4) if kind.shaped[4] > 1 else (2, 3)
    planes = found.table.planes(rows, kind.shaped[0] == 1)
    layout, decoder, block = arrange(planes.parts, placed.index, nav, kind, shown, dtype)
    fill, absent = fill_of(found.table, rows, planes.parts, dtype)
    dims = _DIMS + ("s",) * (len(shown) - 2)
    shape = nav + tuple(kind.shaped[k] for k in shown)
    gone, said = (*planes.absent(), *absent), math.prod(nav)
    made = StoredArray(path, found.files, layout, decoder, shape, dims, 3, fill=fill, block=block, attrs=attrs)
    return altered(made, absent=gone, written=Written(said))


def _smaller(found: OmeSet, placed: PlacedPlanes) -> Iterator[np.ndarray]:
    """Yield the pages of smaller versions, as `PlacedPlanes.row`, if every page that exists has one."""
    there = placed.row >= 0
    pairs = list(zip(placed.file[there].tolist(), placed.row[there].tolist(), strict=True))
    levels = len(found.structures[pairs[0][0]].subs.get(pairs[0][1], ())) if pairs else 0
    if not levels:
        return
    subs = [found.structures[file].subs.get(row, []) for file, row in pairs]
    for level in range(levels):
        rows = np.full(len(placed.row), -1)
        rows[there] = [s[level] if level < len(s) else -1 for s in subs]
        if (rows[there] >= 0).all() and not found.unlike(rows, found.kind(int(rows[there][0]))).any():
            yield rows


FORMAT = Format(
    "ome_tiff",
    (".ome.tif", ".ome.tiff", ".ome.btf", ".ome.tf2", ".ome.tf8", ".companion.ome", ".ome"),
    "https://docs.openmicroscopy.org/ome-model/latest/ome-tiff/specification.html",
    "OME-TIFF: one or many files, planes in any order",
    sniff,
    open,
    index_extensions=(".companion.ome", ".ome"),
    original=original,
    terms=TERMS,
)
