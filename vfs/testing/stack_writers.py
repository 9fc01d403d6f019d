"""Writes tiny valid files of formats that store images one after the other or by a table: MRC and SER."""

from __future__ import annotations

import bz2
import gzip
import os
import struct
from pathlib import Path

import numpy as np

Folder = str | os.PathLike[str]


def write_ser(
    folder: Folder,
    elements: np.ndarray,
    *,
    sig_ndim: int = 2,
    version: int = 0x0220,
    valid: int | None = None,
    short_tables: bool = False,
    name: str = "set_1",
) -> Path:
    """Write elements [scan …, y, x] or [scan …, energy] as NAME.ser.

    Between elements is a gap of 3 bytes; they have time and position tags.

    Args:
        valid: number of elements that are written, by default all.
        short_tables: True for tables that are only as long as the number of valid elements.

    Returns: path of the .ser.
    """
    nav, sig = elements.shape[: elements.ndim - sig_ndim], elements.shape[elements.ndim - sig_ndim :]
    flat = elements.reshape(-1, *sig)
    total = len(flat)
    count = total if valid is None else valid
    code = {"u1": 1, "u2": 2, "u4": 3, "i1": 4, "i2": 5, "i4": 6, "f4": 7, "f8": 8, "c8": 9, "c16": 10}[
        elements.dtype.str[1:]
    ]
    width = "q" if version >= 0x0220 else "i"
    head = struct.pack("<3H4I", 0x4949, 0x0197, version, 0x4122 if sig_ndim == 2 else 0x4120, 0x4142, total, count)
    scan = b"".join(
        struct.pack("<i2d2i", n, 10.0, 0.5, 2, 8) + b"Position" + struct.pack("<i", 6) + b"meters"
        for n in (nav or (1,))[::-1]
    )
    at = len(head) + struct.calcsize(f"<{width}") + 4 + len(scan)
    body, places = bytearray(), []
    for image in flat[:count]:
        places.append(at + len(body))
        lead = struct.pack("<ddi", 1.0, 0.25, 0) * sig_ndim + struct.pack(f"<h{sig_ndim}i", code, *sig[::-1])
        rows = image[::-1] if sig_ndim == 2 else image
        body += lead + rows.astype(elements.dtype.newbyteorder("<")).tobytes() + b"gap"
    tags = []
    for k in range(count):
        tags.append(at + len(body))
        body += struct.pack("<2HI2d", 0x4142, 0, 1_600_000_000 + k, k * 0.5, -k * 0.5)
    fill = [0] * (0 if short_tables else total - count)
    table = struct.pack(f"<{2 * (count + len(fill))}{width}", *places, *fill, *tags, *fill)
    path = Path(folder) / f"{name}.ser"
    path.write_bytes(head + struct.pack(f"<{width}i", at + len(body), max(1, len(nav))) + scan + body + table)
    return path


def write_emi(folder: Folder, name: str = "set") -> Path:
    """Write the metadata beside `NAME_1.ser`, …"""
    path = Path(folder) / f"{name}.emi"
    entry = "<Data><Label>High tension</Label><Value>200</Value><Unit>kV</Unit></Data>"
    text = (
        f"<ObjectInfo><Uuid>1</Uuid><AcceleratingVoltage>200000</AcceleratingVoltage><Root>{entry}</Root></ObjectInfo>"
    )
    path.write_bytes(b"JK\0\2" + bytes(60) + text.encode() + bytes(20))
    return path


def write_mrc(
    folder: Folder,
    sections: np.ndarray,
    mode: int,
    *,
    order: str = "<",
    ispg: int = 0,
    extended: int = 0,
    fei: bool = False,
    mark: bool = True,
    imod: int | None = None,
    limits: tuple[float, float] = (0, 1),
    name: str = "set.mrc",
) -> Path:
    """Write sections [z, y, x] (mode 3: [z, y, x, 2]) as an MRC file, packed if NAME ends so.

    Args:
        extended: bytes of an extended header.
        fei: True writes a record of FEI1 for every section instead.
        mark: True writes `MAP ` and the machine stamp.
        imod: flags of IMOD, which are written with its stamp; with 16, mode 0 has pixels of 4 bits.
        limits: minimum and maximum.
    """
    nz, ny, nx = sections.shape[:3]
    columns = nx // 2 if (imod or 0) & 16 else nx
    record = 768
    extra = bytes(extended)
    if fei:
        rows = [
            struct.pack(f"{order}2iId", record, 1, 0, 44000.5 + k).ljust(100, b"\0") + struct.pack(f"{order}d", 0.1 * k)
            for k in range(nz)
        ]
        extra = b"".join(row.ljust(record, b"\0") for row in rows)
    size = (columns, ny, nz)
    lengths = (2.0 * columns, 3.0 * ny, 4.0 * nz)
    # Size, mode, start, sampling, lengths and angles of the cell, order of the axes, limits and mean, space group
    values = (*size, mode, 0, 0, 0, *size, *lengths, 90, 90, 90, 1, 2, 3, *limits, 0.5, ispg, len(extra))
    head = struct.pack(f"{order}10i6f3i3f2i", *values)
    head = head.ljust(104, b"\0") + (b"FEI1" if fei else bytes(4))
    if imod is not None:
        head = head.ljust(152, b"\0") + struct.pack(f"{order}2i", 1146047817, imod)
    head = head.ljust(208, b"\0") + (
        b"MAP " + (b"\x44\x44\0\0" if order == "<" else b"\x11\x11\0\0") if mark else bytes(8)
    )
    head = (head.ljust(220, b"\0") + struct.pack(f"{order}i", 1) + b"a label").ljust(1024, b"\0")
    if mode == 101 or (imod or 0) & 16:
        wide = np.zeros((nz, ny, nx + nx % 2), np.uint8)
        wide[..., :nx] = sections
        pixels = (wide[..., ::2] | wide[..., 1::2] << 4).tobytes()
    else:
        pixels = sections.astype(sections.dtype.newbyteorder("<" if order == "<" else ">")).tobytes()
    path = Path(folder) / name
    pack = gzip.compress if name.endswith(".gz") else bz2.compress if name.endswith(".bz2") else bytes
    path.write_bytes(pack(head + extra + pixels))
    return path
