"""Writes tiny valid files of scanning electron microscopes: Oxford's .ebsp, EDAX .up1, .up2 and .spd, NORDIF.

Each function takes numpy arrays, writes the files of a set, and returns the path that names the
set. It is the shortest counterpart of its reader.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vfs.testing.writers import Folder


def write_ebsp(
    folder: Folder,
    patterns: np.ndarray,
    *,
    name: str = "map.ebsp",
    version: int = 2,
    order: Sequence[int] | None = None,
    beams: bool = True,
    step: float | tuple[float, float] = 1.5,
    turned: float = 0.0,
    lone: Mapping[int, tuple[bool, bool]] | None = None,
    compressed: int = 0,
) -> Path:
    """Write patterns uint8 or uint16 [scan_y, scan_x, y, x] as an .ebsp file.

    Args:
        order: positions of the map in the order in which their patterns are stored, by default all, the last
            one first; those left out are holes.
        beams: from version 2 on, store beam positions; version 1 always does.
        step: µm between positions, or between rows and columns.
        turned: angle of the scan, rad.
        lone: position of the map -> whether its pattern has beam_x, and beam_y, from version 2 on.
    """
    rows, columns = patterns.shape[2:]
    steps = step if isinstance(step, tuple) else (step, step)
    cos, sin = math.cos(turned), math.sin(turned)
    flat = patterns.reshape(-1, rows, columns)
    stored = list(range(len(flat)))[::-1] if order is None else list(order)
    head = b"" if version == 0 else struct.pack("<q", -version) + bytes(version > 3)
    table = np.zeros(len(flat), "<i8")
    body = bytearray()
    for k in stored:
        table[k] = len(head) + table.nbytes + len(body)
        y, x = divmod(k, patterns.shape[1])
        body += struct.pack("<2i", x, y) if version > 4 else b""
        pixels = flat[k].astype(flat.dtype.newbyteorder("<")).tobytes()
        body += struct.pack("<4i", compressed, rows, columns, len(pixels)) + pixels
        down, along = y * steps[0], x * steps[1]
        at = (along * cos - down * sin, along * sin + down * cos)
        if version == 1:
            body += struct.pack("<2d", *at)
        elif version:
            for said, place in zip((lone or {}).get(k, (beams, beams)), at, strict=True):
                body += struct.pack("<?d", True, place) if said else bytes(1)
    path = Path(folder) / name
    path.write_bytes(head + table.tobytes() + body)
    return path


def write_up(
    folder: Folder,
    patterns: np.ndarray,
    *,
    name: str = "map",
    version: int = 3,
    hexagonal: bool = False,
    map_shape: tuple[int, int] | None = None,
) -> Path:
    """Write patterns uint8 or uint16 [scan_y, scan_x, y, x] as NAME.up1 or NAME.up2.

    20 bytes 0xAB are between header and patterns.

    Args:
        map_shape: rows and columns of the map in the header, by default those of the patterns.
    """
    rows, columns = map_shape or patterns.shape[:2]
    height, width = patterns.shape[2:]
    first = 36 if version == 1 else 62
    head = struct.pack("<4I", version, width, height, first)
    if version > 1:
        head += struct.pack("<BIIBdd", 1, columns, rows, hexagonal, 0.5, 0.25)
    path = Path(folder) / f"{name}.up{patterns.itemsize}"
    path.write_bytes(head.ljust(first, b"\xab") + patterns.astype(patterns.dtype.newbyteorder("<")).tobytes())
    return path


def write_spd(folder: Folder, spectra: np.ndarray, *, map_shape: tuple[int, int] | None = None) -> Path:
    """Write spectra uint8, uint16 or uint32 [scan_y, scan_x, energy] as map.spd, with map.spc and image.ipr.

    10 eV a channel from -0.2 keV on, 20 kV, 12.5 s of live time, 0.5 µm from column to column and 0.25 µm from row
    to row.

    Args:
        map_shape: rows and columns of the map in the header, by default those of the spectra.
    """
    rows, columns = map_shape or spectra.shape[:2]
    sizes = (1, rows * columns, columns, rows, spectra.shape[2], spectra.itemsize, 1100, 1)
    head = struct.pack("<16s8i120s", b"MAPSPECTRA_DATA", *sizes, b"C:\\data\\image.bmp").ljust(1100, b"\0")
    path = Path(folder) / "map.spd"
    path.write_bytes(head + spectra.astype(spectra.dtype.newbyteorder("<")).tobytes())
    # live time, tilt, resolution, azimuth, elevation, voltage
    said = struct.pack("<2f8xf32x2f16xf", 12.5, 3, 130, 45, 35, 20) + struct.pack("<102xh48H", 2, 13, 8, *[0] * 46)
    path.with_suffix(".spc").write_bytes(bytes(384) + struct.pack("<i60xf", 10, -0.2) + bytes(4) + said)
    (Path(folder) / "image.ipr").write_bytes(bytes(64) + struct.pack("<2f", 0.5, 0.25) + bytes(180))
    return path


def write_nordif(
    folder: Folder,
    patterns: np.ndarray,
    *,
    map_shape: tuple[int, int] | None = None,
    points: Mapping[tuple[int, int], np.ndarray] | None = None,
    backgrounds: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Write patterns uint8 [scan_y, scan_x, y, x] as Pattern.dat and Setting.txt.

    Args:
        map_shape: rows and columns of the map in the settings, by default those of the patterns.
        points: (x, y) -> uint8[y, x], the calibration patterns.
        backgrounds: "acquisition" or "calibration" -> uint8[y, x], the static background of these patterns.
    """
    folder = Path(folder)
    rows, columns = map_shape or patterns.shape[:2]
    height, width = patterns.shape[2:]
    lines = [
        "[NORDIF]",
        "Software version\t3.1.2\t",
        "",
        "[Microscope]",
        "Tilt angle\t70\t°",
        "",
        "[Acquisition settings]",
    ]
    lines += [f"Resolution\t{width}x{height}\tpx", "", "[Area]", "Step size\t1.500\tµm"]
    lines += [f"Number of samples\t{rows}x{columns}\t#", "", "[Calibration patterns]"]
    for (x, y), pattern in (points or {}).items():
        lines.append(f"Calibration ({x},{y})\t{x},{y}\tpx")
        write_bitmap(folder / f"Calibration ({x},{y}).bmp", pattern)
    for kind, pattern in (backgrounds or {}).items():
        write_bitmap(folder / f"Background {kind} pattern.bmp", pattern)
    (folder / "Pattern.dat").write_bytes(patterns.tobytes())
    path = folder / "Setting.txt"
    path.write_bytes("\r\n".join(lines).encode("latin1"))
    return path


def write_bitmap(path: Path, image: np.ndarray, upright: bool = False) -> None:
    """Write uint8[y, x] as a grey bitmap.

    Args:
        upright: store the top row first.
    """
    height, width = image.shape
    rows = np.zeros((height, -(-width // 4) * 4), "u1")
    rows[:, :width] = image if upright else image[::-1]
    palette = b"".join(bytes([n, n, n, 0]) for n in range(256))
    sizes = (40, width, -height if upright else height, 1, 8, 0, rows.size, 0, 0, 256, 256)
    head = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 1078 + rows.size, 0, 1078, *sizes)
    path.write_bytes(head + palette + rows.tobytes())
