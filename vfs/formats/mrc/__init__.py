"""Reads MRC and MRC2014, images and volumes of electron microscopes.

Specification: https://www.ccpem.ac.uk/mrc_format/mrc2014.php

    1024 bytes header | NSYMBT bytes extended header | section 0 | section 1 | …
    section: NX × NY pixels, x fastest

Row 0 is at the bottom, as IMOD's 3dmod shows it. The sections are the first axis (left out for a single
image with ISPG 0). In stacks of volumes (ISPG
401 to 630) they are the second axis, behind `volume`. Bytes of mode 0 are signed in MRC2014, unsigned
in older files; IMOD's stamp says which, else minimum and maximum in the header, if they fit the first
frame. IMOD also has files with two pixels of 4 bits per byte: mode 101, whose NX counts pixels, and a
flag for mode 0, whose NX counts bytes. A row begins with a new byte, and the low half comes first in
either byte order. See https://bio3d.colorado.edu/imod/doc/mrc_format.txt. Old files have no `MAP `
mark: they are recognised by their name and a plausible header. The byte order is that of the
machine stamp, or the one in which the header is plausible (if both are, as with mode 0, the one
with the smaller image). Extended headers of FEI and of SerialEM hold a record for each section
(`vfs.formats.mrc.extended`), and so does a `.mdoc` beside the file (`vfs.formats.serialem`): their fields are
companions, and sections with a tilt of their own are the axis `tilt`. Movies of Direct Electron's server
(`NAME_movie.mrc`) have files beside them that say where each frame is in a scan: see
`vfs.formats.direct_electron`. A file that ends before its last section is an error; a file that goes on behind it
gives a warning.

`.mrc.gz` and `.mrc.bz2` decode only as a whole: the first read of any part unpacks everything, which
stays in the cache if it fits. So unpack large files once with gunzip.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from vfs.errors import FormatError, OptionError, TruncatedSourceError, VfsError
from vfs.formats import Format, serialem
from vfs.formats.direct_electron import (
    MovieScan,
    calibration,
    coordinates,
    info_of,
    info_of_another_run,
    scan_of,
    side_files,
)
from vfs.formats.headers import fields, read_at
from vfs.formats.mrc.extended import Extended, extended_of
from vfs.formats.mrc.header import HEADER, MAX_EXTENDED, is_marked, order_of
from vfs.formats.mrc.pixels import NibbleDecoder, Pixels, flags_of, pixels_of, row_bytes, signed_bytes
from vfs.formats.mrc.said import TERMS
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Layout, altered, whole_frame
from vfs.model.sources import Sources
from vfs.model.stored import BOTTOM_FIRST, Absence, StoredArray
from vfs.model.written import Written
from vfs.sources.packed import bare

_VOLUME_STACKS = range(401, 631)  # space groups that say so; MZ is the number of sections in each volume
_LEAST_EXTENDED = 80  # bytes of an extended header that has a type
_SAMPLE = 1 << 20  # most bytes of a frame that are looked at
_ENDINGS = (".mrc", ".mrcs", ".map", ".st", ".ali", ".preali", ".rec", ".ccp4")


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    if is_marked(first_bytes):
        return order_of(first_bytes) is not None
    return path.lower().endswith(_ENDINGS) and len(first_bytes) >= 1024 and order_of(first_bytes) is not None


def _layout(pixels: Pixels, held: int, start: int, scan: MovieScan) -> tuple[Layout, Decoder | BlockDecoder]:
    """Lay out the pixels as sections [*scan.nav, *sig], of which `held` are stored."""
    if pixels.stored is None:
        layout = FrameLayout.of(
            FrameRecord(
                pixels.sig,
                1,
                2,
                payload=pixels.nbytes,
                pieces=whole_frame(pixels.sig, [2 * row_bytes(pixels.sig[1]), 1]),
            ),
            [held],
            file_header=start,
        )
        return scan.shown(layout), NibbleDecoder()
    layout = FrameLayout.of(FrameRecord(pixels.sig, pixels.stored.itemsize), [held], file_header=start)
    return scan.shown(layout), PlainDecoder(pixels.stored)


@dataclass(frozen=True)
class _Extent:
    """Where the sections of a file lie.

    Attributes:
        start: byte of the first section.
        count: number of sections that the file should have.
        held: number of them that are whole.
        absent: what the file lacks, or has besides.
    """

    start: int
    count: int
    held: int
    absent: tuple[Absence, ...] = ()


def _extent(header: np.void, pixels: Pixels, path: str, size: int) -> _Extent:
    """Find the sections of a file of so many bytes.

    The size of the file decides where the header is wrong: about the extended header (NSYMBT) if whole
    sections fill the file without one, or if it has a type (EXTTYP) and no length; and about the number of
    sections if that is 0.

    Raises:
        FormatError, TruncatedSourceError: there is no whole section.
    """
    count, extended = int(header["nz"]), int(header["nsymbt"])
    start, lines = 1024 + extended, list[str]()
    room, over = divmod(size - 1024, pixels.nbytes)
    settled = room == count if count else extended % pixels.nbytes or not 0 <= extended < MAX_EXTENDED
    if extended and room > 0 and not over and settled:
        start, count = 1024, room
        lines.append(
            f"{path}: the header says {extended:,} bytes of extended header (NSYMBT), but its {count:,} sections fill"
            " the file without one: they are read from byte 1,024 on"
        )
    elif not 0 <= extended < MAX_EXTENDED:
        raise FormatError(f"{path}: the header says {extended:,} bytes of extended header (NSYMBT); it looks garbled")
    longer = size - count * pixels.nbytes - 1024
    typed = re.fullmatch(rb"[A-Z0-9]{4}", bytes(header["exttyp"])) is not None
    if typed and count and not extended and longer >= _LEAST_EXTENDED and not longer % 4:
        start = 1024 + longer
        kind = bytes(header["exttyp"]).decode()
        lines.append(
            f"{path}: the header says an extended header of type {kind} and 0 bytes (NSYMBT), the file has {longer:,}"
            f" bytes more than its {count:,} sections: these are read from byte {start:,} on"
        )
    if not int(header["nz"]):
        count = max(0, size - start) // pixels.nbytes
        lines.append(f"{path}: the header says 0 sections (NZ), the file has room for {count:,}: they are shown")
    end = start + count * pixels.nbytes
    ny, nx = pixels.sig[:2]
    said = (
        f"{path}: {count:,} sections of {nx:,} × {ny:,} pixels (mode {int(header['mode'])}) end at byte {end:,}, the"
        f" file has {size:,}; {'it looks truncated' if size < end else 'the bytes after them are not shown'}"
    )
    held = min(count, max(0, size - start) // pixels.nbytes)
    if not held:
        raise TruncatedSourceError(
            said if count else f"{path}: the header says 0 sections (NZ), and the file holds no whole one"
        )
    absent = tuple([Absence(line) for line in lines])
    if held < count:
        allowed = "shows the sections that are not whole as blank"
        lost = {"frames_missing": count - held}
        absent += (Absence(said, TruncatedSourceError, allowed, lost, to_come=True),)
    elif size > end:
        absent += (Absence(said, counts={"bytes_left_over": size - end}),)
    return _Extent(start, count, held, absent)


def _navigation(
    header: np.void, files: Files, extent: _Extent, info: dict[str, str], sections: str | None
) -> tuple[MovieScan, str]:
    """Return (the axes of sections, a line for people if they are uncertain)."""
    path = files.paths[0]
    space_group, per_volume, count = int(header["ispg"]), int(header["m"][2]), extent.count
    if count == 1 and space_group == 0:
        return MovieScan((), ()), ""
    if info:
        scan = scan_of(files.sources, bare(path), info, count)
        return scan if scan.said or not sections else replace(scan, dims=(sections,)), ""
    if space_group in _VOLUME_STACKS:
        if per_volume > 0 and count % per_volume == 0:
            return MovieScan((count // per_volume, per_volume), ("volume", sections or "z")), ""
        uncertain = (
            f"space group {space_group} says stacked volumes, of MZ {per_volume} sections each: {count} are none"
        )
        return MovieScan((count,), (sections or "z",)), uncertain
    volume = space_group != 0 and not bare(path).lower().endswith(".mrcs")
    return MovieScan((count,), (sections or ("z" if volume else "frame"),)), ""


def _bytes_as_meant(
    header: np.void, pixels: Pixels, files: Files, extent: _Extent, mode0: str | None
) -> tuple[Pixels, str]:
    """Return the pixels of mode 0 as signed or unsigned bytes, and a line for people if that is uncertain."""
    if mode0 is not None:
        signed, uncertain = mode0 == "signed", ""
    else:
        size = min(pixels.nbytes, _SAMPLE)
        try:
            sample = read_at(files.sources, files.paths[0], size, extent.start)
        except VfsError:  # reading the pixels will raise it
            sample = b""
        signed, uncertain = signed_bytes(header, sample, extent.count * pixels.nbytes == len(sample))
    return replace(pixels, stored=np.dtype("i1" if signed else "u1")), uncertain


def _sections(sources: Sources, path: str, mode0: str | None, sections: str | None) -> list[StoredArray]:
    files = Files.stat(sources, [path])
    raw = read_at(sources, path, 1024)
    order = order_of(raw)
    if order is None:
        values = np.frombuffer(raw, "<i4", 4).tolist()
        raise FormatError(
            f"{path}: expected an MRC header; sizes and mode {values} are not plausible in either byte order"
        )
    header = np.frombuffer(raw, HEADER.newbyteorder(order))[0].copy()
    labels = [raw[224 + 80 * n : 304 + 80 * n].decode("latin1").strip("\0 ") for n in range(10)]
    attrs = {**fields(header), "byte_order": "big" if order == ">" else "little", "labels": [x for x in labels if x]}
    pixels = pixels_of(header, order, labels[0])
    extent = _extent(header, pixels, path, int(files.sizes[0]))
    header["nsymbt"], header["nz"] = extent.start - 1024, extent.count
    unsure = ""
    if header["mode"] == 0 and pixels.stored is not None:
        pixels, unsure = _bytes_as_meant(header, pixels, files, extent, mode0)
    named = bare(path)  # the files beside it are called so
    info = info_of(sources, named)
    scan, unsure_of_axes = _navigation(header, files, extent, info, sections)
    beside, mdoc = extended_of(header, files, order), serialem.mdoc_of(sources, named)
    scan, tilts = _tilted(scan, extent.count, beside, mdoc, sections)
    layout, decoder = _layout(pixels, extent.held, extent.start, scan)
    if flags := flags_of(header):
        attrs["imod_flags"] = flags
    if uncertain := "; ".join(filter(None, (unsure, unsure_of_axes))):
        attrs["uncertain"] = uncertain
    attrs["calibration"] = (
        (beside.scales if beside else {}) | _scales(header) | calibration(info, scanned=bool(scan.said)) | tilts
    )
    attrs |= (beside.attributes if beside else {}) | ({"mdoc": mdoc.attributes()} if mdoc else {})
    if pixels.dims[:2] == ("y", "x"):
        attrs["rows"] = BOTTOM_FIRST
    if info:
        attrs["info"] = info
    if scan.said:
        attrs["scan_order"] = scan.said
    dims = (*scan.dims, *pixels.dims)
    main = StoredArray("data", files, layout, decoder, scan.nav + pixels.sig, dims, len(scan.nav), attrs=attrs)
    main = altered(main, written=Written(int(header["nz"]) or None))
    absent = extent.absent + scan.absent + info_of_another_run(path, info, pixels.sig[:2])
    absent += _axes_of_no_order(path, header)
    each = {one.path: one for one in beside.companions(scan)} if beside else {}
    if mdoc is not None and len(scan.nav) == 1:
        each |= {one.path: one for one in serialem.companions(sources, mdoc, extent.count, scan.dims[0])}
    return [altered(one, absent=absent) for one in (main, *each.values(), *coordinates(sources, named, extent.count))]


def _tilted(
    scan: MovieScan, count: int, beside: Extended | None, mdoc: serialem.Mdoc | None, sections: str | None
) -> tuple[MovieScan, dict[str, Any]]:
    """Return the axes of sections, one `tilt` where each has a tilt of its own, and the calibration of this axis."""
    if sections or scan.dims not in (("frame",), ("z",)) or scan.said:
        return scan, {}
    values = serialem.TILT if mdoc is not None and mdoc.tilts(count) else beside.tilts if beside else ""
    calibrated = {serialem.TILT: {"values": values, "unit": "deg"}}
    return (replace(scan, dims=(serialem.TILT,)), calibrated) if values else (scan, {})


def _axes_of_no_order(path: str, header: np.void) -> tuple[Absence, ...]:
    """Report a header that assigns one axis to two of columns, rows and sections."""
    axes = header["map_axes"].tolist()
    if any(axes) and sorted(axes) != [1, 2, 3]:
        return (Absence(f"{path}: expected the axes 1, 2 and 3 in some order, found {axes}: steps are not shown"),)
    return ()


def _scales(header: np.void) -> dict[str, dict[str, Any]]:
    """Return the scales of x (columns), y (rows) and z (sections).

    They come from the unit cell, along the axis that the header assigns to each; there are none where it assigns one
    axis twice.
    """
    found: dict[str, dict[str, Any]] = {}
    if _axes_of_no_order("", header):
        return found
    for dim, axis in zip(("x", "y", "z"), header["map_axes"].tolist(), strict=True):
        k = axis - 1 if 1 <= axis <= 3 else ("x", "y", "z").index(dim)
        length, samples = float(header["cell"][k]), int(header["m"][k])
        if samples > 0 and 0 < length < math.inf:
            found[dim] = {"scale": length / samples, "offset": 0.0, "unit": "angstrom"}
    return found


def open(
    paths: Sequence[str],
    sources: Sources,
    *,
    mode0: Literal["signed", "unsigned"] | None = None,
    sections: str | None = None,
) -> list[StoredArray]:
    """Open an MRC file.

    Args:
        mode0: signed or unsigned: the meaning of the bytes in mode 0; by default what IMOD's stamp, or
            minimum and maximum in the header say, else signed (MRC2014)
        sections: name of the axis of sections; by default z for volumes, frame for images, tilt where
            each has a tilt of its own

    Raises:
        FormatError, TruncatedSourceError: the file is garbled or cut.
        OptionError: several files are named.
    """
    if len(paths) > 1 and not {*paths[1:]} <= side_files(sources, bare(paths[0])):
        raise OptionError(
            f"{paths[1]}: an MRC set is one file; open each separately, or stack them with a description (*.vfs.json)"
        )
    return _sections(sources, paths[0], mode0, sections)


FORMAT = Format(
    "mrc",
    _ENDINGS,
    "https://www.ccpem.ac.uk/mrc_format/mrc2014.php",
    "MRC2014 images, stacks and volumes",
    sniff,
    open,
    terms=TERMS,
)
