"""Reads the header of an MRC file, and finds its byte order."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

HEADER = np.dtype(
    [
        ("nx", "<i4"),  # columns, rows, sections
        ("ny", "<i4"),
        ("nz", "<i4"),
        ("mode", "<i4"),  # see vfs.formats.mrc.pixels
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
        ("_more", "V40"),
        ("_imod_stamp", "<i4"),  # IMOD_STAMP, else there are no flags
        ("_imod_flags", "<i4"),
        ("_unused", "V36"),
        ("origin", "<f4", 3),
        ("_map", "S4"),  # "MAP "
        ("_stamp", "V4"),  # 44 44 or 44 41: little endian, 11 11: big endian
        ("rms", "<f4"),
        ("nlabl", "<i4"),
        ("_labels", "V800"),  # ten of 80 characters
    ]
)
IMOD_STAMP = 1146047817
"""Says that flags follow, as IMOD writes them: https://bio3d.colorado.edu/imod/doc/mrc_format.txt"""
MODES = {0: "i1", 1: "i2", 2: "f4", 3: "i2", 4: "c8", 6: "u2", 7: "i4", 12: "f2", 16: "u1"}
"""dtype of each mode. Not in this table is 101: two pixels of 4 bits per byte. A pixel of mode 3 is a pair
(re, im), one of mode 16 red, green and blue. Mode 7 is none of the standard, but some programs write it."""
MAX_EXTENDED = 1 << 30  # bytes of an extended header: more are garbled
_MAX_SIZES = (1 << 26, 1 << 26, 1 << 31)  # columns, rows, sections: a header with more is garbled


def is_marked(first_bytes: bytes) -> bool:
    """Return True if the first bytes of a file have the mark of an MRC file."""
    return len(first_bytes) >= 1024 and first_bytes[208:212] in (b"MAP ", b"MAP\0")


def order_of(first_bytes: bytes) -> Literal["<", ">"] | None:
    """Return the byte order in which a header is plausible; None if there is none.

    If both are plausible, the machine stamp decides; without a stamp, the order with the smaller
    image.
    """
    stamps: dict[bytes, Literal["<", ">"]] = {b"\x11\x11": ">", b"\x44\x44": "<", b"\x44\x41": "<"}
    marked = is_marked(first_bytes)
    found: dict[Literal["<", ">"], int] = {}
    orders: tuple[Literal["<", ">"], ...] = ("<", ">")
    for order in orders:
        header = np.frombuffer(first_bytes[:1024], HEADER.newbyteorder(order))[0]
        sizes = [int(header[name]) for name in ("nx", "ny", "nz")]
        if (
            all(
                least <= n <= most for n, most, least in zip(sizes, _MAX_SIZES, (1, 1, 0 if marked else 1), strict=True)
            )
            and int(header["mode"]) in (*MODES, 101)
            and (marked or 0 <= header["nsymbt"] < MAX_EXTENDED)
        ):
            found[order] = math.prod(sizes)
    stamp = stamps.get(first_bytes[212:214])
    if stamp in found:
        return stamp
    return min((count, order) for order, count in found.items())[1] if found else None
