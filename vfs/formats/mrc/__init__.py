"""Reads MRC and MRC2014, images and volumes of electron microscopes.

Specification: https://www.ccpem.ac.uk/mrc_format/mrc2014.php

    1024 bytes header | NSYMBT bytes extended header | section 0 | section 1 | …
    section: NX × NY pixels, x fastest

The sections are the first axis (left out for a single image with ISPG 0). Old files have no `MAP `
mark: they are recognised by their name and a plausible header. The byte order is that of the
machine stamp, or the one in which the header is plausible (if both are, as with mode 0, the one
with the smaller image). Extended headers of type FEI1 and FEI2 hold a record for each section, whose
fields are companions. Movies of Direct Electron's server (`NAME_movie.mrc`) have files beside them that
say where each frame is in a scan: see `vfs.formats.direct_electron`. A file that ends before its last section is
an error; a file that goes on behind it gives a warning.

`.mrc.gz` and `.mrc.bz2` decode only as a whole: the first read of any part unpacks everything, which
stays in the cache if it fits. So unpack large files once with gunzip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from vfs import kernels
from vfs.errors import FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.direct_electron import MovieScan, calibration, coordinates, info_of, scan_of
from vfs.formats.headers import fields, read_at
from vfs.formats.mrc.packed import MARKS, opener_of, read_unpacked, unpacked_block
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.layout import FrameLayout, Layout, altered, whole_frame
from vfs.model.stored import Absence, Files, StoredArray

HEADER = np.dtype(
    [
        ("nx", "<i4"),  # columns, rows, sections
        ("ny", "<i4"),
        ("nz", "<i4"),
        ("mode", "<i4"),  # see MODES
        ("nstart", "<i4", 3),  # first column, row, section in the unit cell
        ("m", "<i4", 3),  # samples along the unit cell
        ("cell", "<f4", 3),  # size of the unit cell, Å
        ("angles", "<f4", 3),  # degrees
        ("map_axes", "<i4", 3),  # axes (1 x, 2 y, 3 z) of columns, rows, sections
        ("min", "<f4"),
        ("max", "<f4"),
        ("mean", "<f4"),
        ("ispg", "<i4"),  # 0 images, 1 a volume, 401 a stack of volumes
        ("nsymbt", "<i4"),  # bytes of the extended header
        ("_extra", "V8"),
        ("exttyp", "S4"),  # type of the extended header
        ("nversion", "<i4"),
        ("_more", "V84"),
        ("origin", "<f4", 3),
        ("_map", "S4"),  # "MAP "
        ("_stamp", "V4"),  # 44 44 or 44 41: little endian, 11 11: big endian
        ("rms", "<f4"),
        ("nlabl", "<i4"),
        ("_labels", "V800"),  # ten of 80 characters
    ]
)
# 3: pairs (re, im); 101, not in this table: two pixels of 4 bits per byte
MODES = {0: "i1", 1: "i2", 2: "f4", 3: "i2", 4: "c8", 6: "u2", 12: "f2"}
_FEI = np.dtype(
    {  # a record of an extended header FEI1 or FEI2: the fields that become companions, in bytes from its start
        "names": [
            "timestamp",
            "high_tension",
            "alpha_tilt",
            "beta_tilt",
            "stage_x",
            "stage_y",
            "stage_z",
            "pixel_size_x",
            "pixel_size_y",
            "defocus",
        ],
        "formats": ["f8"] * 10,
        "offsets": [12, 84, 100, 108, 116, 124, 132, 156, 164, 220],
        "itemsize": 768,
    }
)
_UNITS = {
    "timestamp": "days since 1899-12-30",
    "high_tension": "V",
    "alpha_tilt": "degrees",
    "beta_tilt": "degrees",
    "stage_x": "m",
    "stage_y": "m",
    "stage_z": "m",
    "pixel_size_x": "m",
    "pixel_size_y": "m",
    "defocus": "m",
}
_MOST_AXIS = 1 << 26  # pixels or sections: a header with more is garbled
_ENDINGS = (".mrc", ".mrcs", ".map", ".st", ".ali", ".rec")
_PACKED = tuple(e + z for e in (".mrc", ".map", ".mrcs") for z in (".gz", ".bz2"))


def sniff(path: str, head: bytes) -> bool:
    if len(head) >= 1024 and head[208:212] in (b"MAP ", b"MAP\0"):
        return _order(head) is not None
    named = path.lower()
    if named.endswith(_PACKED):
        return head.startswith(MARKS)
    return named.endswith(_ENDINGS) and len(head) >= 1024 and _order(head) is not None


def _order(head: bytes) -> Literal["<", ">"] | None:
    """Return the byte order in which a header is plausible; None if there is none.

    If both are plausible, the machine stamp decides; without a stamp, the order with the smaller
    image.
    """
    stamps: dict[bytes, Literal["<", ">"]] = {b"\x11\x11": ">", b"\x44\x44": "<", b"\x44\x41": "<"}
    found: dict[Literal["<", ">"], int] = {}
    orders: tuple[Literal["<", ">"], ...] = ("<", ">")
    for order in orders:
        header = np.frombuffer(head[:1024], HEADER.newbyteorder(order))[0]
        sizes = [int(header[name]) for name in ("nx", "ny", "nz")]
        if (
            all(1 <= n <= _MOST_AXIS for n in sizes)
            and int(header["mode"]) in (*MODES, 101)
            and 0 <= header["nsymbt"] < 1 << 30
        ):
            found[order] = math.prod(sizes)
    stamp = stamps.get(head[212:214])
    if stamp in found:
        return stamp
    return min((count, order) for order, count in found.items())[1] if found else None


@dataclass(frozen=True)
class NibbleDecoder:
    """Decodes pixels of 4 bits, two per byte, the low half first (mode 101).

    Every row starts with a new byte.
    """

    word_bytes: int = 1
    word_pixels: int = 2
    accumulates: bool = False
    straight: bool = False
    takes_lines: bool = True

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint8)

    def converts(self, dtype: np.dtype) -> bool:
        return False

    def step(self, dtype: np.dtype) -> int:
        return kernels.steps.unpacking(4)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        kernels.steps.decode(kernels.steps.unpacking(4), ranges, data, base, out.view(np.uint8))


def _layout(
    header: np.void, files: Files, stored: np.dtype | None, start: int, opener: Any, scan: MovieScan
) -> tuple[Layout, Decoder | BlockDecoder, tuple[Absence, ...]]:
    """Lay out the pixels as sections [nz, ny, nx] (pairs: [nz, ny, nx, 2])."""
    nx, ny, nz, mode = (int(header[name]) for name in ("nx", "ny", "nz", "mode"))
    path, size = files.paths[0], int(files.sizes[0])
    sig = (ny, nx, 2) if mode == 3 else (ny, nx)
    if opener is not None:
        if stored is None:
            raise FormatError(f"{path}: packed files with pixels of 4 bits are not supported; unpack it first")
        return *unpacked_block(files, opener, stored, (*scan.nav, *sig), start), ()
    nbytes = ny * -(-nx // 2) if stored is None else math.prod(sig) * stored.itemsize
    held = min(nz, max(0, size - start) // nbytes)
    if not held:
        raise TruncatedSourceError(_end_message(path, header, start + nz * nbytes, size))
    if stored is None:
        layout = FrameLayout.of(
            sig,
            [held],
            word_bytes=1,
            word_pixels=2,
            payload=nbytes,
            file_header=start,
            pieces=whole_frame(sig, [-(-nx // 2) * 2, 1]),
        )
    else:
        layout = FrameLayout.of(sig, [held], word_bytes=stored.itemsize, file_header=start)
    return (
        scan.shown(layout),
        NibbleDecoder() if stored is None else PlainDecoder(stored),
        _absent(header, files, layout, start),
    )


def _end_message(path: str, header: np.void, end: int, size: int) -> str:
    nx, ny, nz, mode = (int(header[name]) for name in ("nx", "ny", "nz", "mode"))
    looks = "it looks truncated" if size < end else "the bytes behind them are left out"
    return (
        f"{path}: {nz:,} sections of {nx:,} × {ny:,} pixels (mode {mode}) end at byte {end:,}, the file has {size:,};"
        f" {looks}"
    )


def _absent(header: np.void, files: Files, layout: FrameLayout, start: int) -> tuple[Absence, ...]:
    """Report bytes that an unpacked file lacks, or has behind its sections."""
    nz, size = int(header["nz"]), int(files.sizes[0])
    end = start + nz * layout.stride
    said = _end_message(files.paths[0], header, end, size)
    if layout.stored < nz:
        return (
            Absence(
                said,
                TruncatedSourceError,
                "shows the sections that are not whole as blank",
                {"frames_missing": nz - layout.stored},
            ),
        )
    return (Absence(said, counts={"bytes_left_over": size - end}),) if size > end else ()


def _sections(path: str, mode0: str, sections: str | None) -> list[StoredArray]:
    files = Files.stat([path])
    path = files.paths[0]
    opener = opener_of(path)
    raw = read_unpacked(path, 1024, 0, opener)
    order = _order(raw)
    if order is None:
        values = np.frombuffer(raw, "<i4", 4).tolist()
        raise FormatError(
            f"{path}: expected an MRC header; sizes and mode {values} are not plausible in either byte order"
        )
    header = np.frombuffer(raw, HEADER.newbyteorder(order))[0]
    mode, start, nz = int(header["mode"]), 1024 + int(header["nsymbt"]), int(header["nz"])
    kind = "u1" if mode == 0 and mode0 == "unsigned" else MODES.get(mode)
    stored = None if kind is None else np.dtype(kind).newbyteorder(order)
    info = info_of(path)
    volume = int(header["ispg"]) != 0 and not info and not path.lower().endswith((".mrcs", ".mrcs.gz", ".mrcs.bz2"))
    scan = MovieScan((nz,), (sections or ("z" if volume else "frame"),))
    if nz == 1 and int(header["ispg"]) == 0:
        scan = MovieScan((), ())
    elif info:
        scan = scan_of(path, info, nz)
        scan = scan if opener is None else scan.as_recorded(path, nz)
        scan = scan if scan.said or not sections else replace(scan, dims=(sections,))
    layout, decoder, absent = _layout(header, files, stored, start, opener, scan)
    absent += scan.absent
    dims = (*scan.dims, "y", "x") + (("component",) if mode == 3 else ())
    labels = [raw[224 + 80 * n : 304 + 80 * n].decode("latin1").strip("\0 ") for n in range(10)]
    attrs = {**fields(header), "byte_order": "big" if order == ">" else "little", "labels": [x for x in labels if x]}
    if opener is not None:
        attrs["note"] = "packed: the first read of anything unpacks the whole file; unpack it once if you read it often"
    attrs["calibration"] = (
        _fei_scales(header, files, order, opener) | _scales(header) | calibration(info, scanned=bool(scan.said))
    )
    if info:
        attrs["info"] = info
    if scan.said:
        attrs["scan_order"] = scan.said
    main = StoredArray("data", files, layout, decoder, layout.shape, dims, len(scan.nav), attrs=attrs)
    return [
        altered(one, absent=absent)
        for one in (main, *_extended(header, files, scan, order, opener), *coordinates(path, nz))
    ]


def _scales(header: np.void) -> dict[str, dict[str, Any]]:
    """Return the scales of x (columns), y (rows) and z (sections).

    They come from the unit cell, along the axis that the header assigns to each.
    """
    found = {}
    for dim, axis in zip(("x", "y", "z"), header["map_axes"].tolist(), strict=True):
        k = axis - 1 if 1 <= axis <= 3 else ("x", "y", "z").index(dim)
        length, samples = float(header["cell"][k]), int(header["m"][k])
        if samples > 0 and 0 < length < math.inf:
            found[dim] = {"scale": length / samples, "offset": 0.0, "unit": "angstrom"}
    return found


def _fei_record(header: np.void, files: Files, order: str, opener: Any) -> int:
    """Return the bytes of a record of an extended header FEI1 or FEI2; 0 if there is none."""
    nz, room = int(header["nz"]), int(header["nsymbt"])
    if bytes(header["exttyp"]) not in (b"FEI1", b"FEI2") or opener is not None or room < nz * _FEI.itemsize:
        return 0
    size = int.from_bytes(read_at(files.paths[0], 4, 1024), "little" if order == "<" else "big")
    return size if _FEI.itemsize <= size <= room // nz else 0


def _fei_scales(header: np.void, files: Files, order: str, opener: Any) -> dict[str, dict[str, Any]]:
    """Return the scales of x and y that the record of the first section holds."""
    if not _fei_record(header, files, order, opener):
        return {}
    first = np.frombuffer(read_at(files.paths[0], _FEI.itemsize, 1024), _FEI.newbyteorder(order))[0]  # type: ignore[arg-type]
    steps = {axis: float(first[f"pixel_size_{axis}"]) for axis in "yx"}
    return {axis: {"scale": step, "offset": 0.0, "unit": "m"} for axis, step in steps.items() if step > 0}


def _extended(header: np.void, files: Files, scan: MovieScan, order: str, opener: Any) -> list[StoredArray]:
    """Make companions from the records of an extended header FEI1 or FEI2."""
    nz, size = int(header["nz"]), _fei_record(header, files, order, opener)
    if not size:
        return []
    found = []
    for name in _FEI.names or ():
        at = _FEI.fields[name][1] if _FEI.fields else 0
        layout = scan.shown(
            FrameLayout.of((), [nz], word_bytes=8, file_header=1024, frame_header=at, frame_footer=size - at - 8)
        )
        units = {"units": _UNITS[name]}
        found.append(
            StoredArray(
                name,
                files,
                layout,
                PlainDecoder(np.dtype(f"{order}f8")),
                scan.nav,
                scan.dims,
                len(scan.nav),
                conventions=units,
                companion=True,
            )
        )
    return found


def open(paths: Sequence[str], *, mode0: str = "signed", sections: str | None = None) -> list[StoredArray]:
    """Open an MRC file.

    Args:
        mode0: signed (MRC2014) or unsigned: the meaning of the bytes in mode 0
        sections: name of the first axis; by default z for volumes, frame for images

    Raises:
        FormatError, TruncatedSourceError: the file is garbled or cut.
        OptionError: `mode0` has another value, or several files are named.
    """
    if mode0 not in ("signed", "unsigned"):
        raise OptionError(f"mode0={mode0!r}: expected signed or unsigned")
    if len(paths) > 1:
        raise OptionError(
            f"{paths[1]}: an MRC set is one file; open each separately, or stack them with a description (*.vfs.json)"
        )
    return _sections(paths[0], mode0, sections)


FORMAT = Format(
    "mrc",
    (*_ENDINGS, *_PACKED),
    "https://www.ccpem.ac.uk/mrc_format/mrc2014.php",
    "MRC2014 images, stacks and volumes, also packed",
    sniff,
    open,
)
