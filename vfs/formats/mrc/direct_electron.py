"""Reads the files that Direct Electron's server puts beside a movie `NAME_movie.mrc`.

`NAME_info.txt` says how the movie was taken and the size of its scan; `NAME_scan_coordinates.csv`
lists the position of every frame, for movies that were not taken on a raster.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import DecodeError
from vfs.formats.headers import read_side_file
from vfs.model.layout import BlockLayout
from vfs.model.stored import Files, StoredArray


def _base(path: str) -> str | None:
    """Return the beginning of the names of a Direct Electron movie's side files; None for other files."""
    hit = re.fullmatch(r"(.*)_movie\.mrcs?", path, re.I)
    return hit[1] if hit else None


def info_of(path: str) -> dict[str, str]:
    """Read the `key = value` lines of the `_info.txt` beside a movie; empty if there is none."""
    base = _base(path)
    if base is None or not os.path.isfile(f"{base}_info.txt"):
        return {}
    lines = read_side_file(f"{base}_info.txt").decode("utf-8", "replace").splitlines()
    return {key.strip(): value.strip() for key, mark, value in (line.partition("=") for line in lines) if mark}


def scan_shape(info: dict[str, str]) -> tuple[int, ...]:
    """Return (rows, columns) of the scan; (0,) if the file describes no raster.

    If only a part of the raster was recorded, this is the shape of that part.
    """
    for size in ("Scan - ROI Size", "Scan - Size"):
        found = [info.get(f"{size} {axis}", "") for axis in "YX"]
        if all(re.fullmatch(r"\d{1,9}", text) and int(text) > 0 for text in found):
            return int(found[0]), int(found[1])
    return (0,)


def calibration(info: Mapping[str, str], scanned: bool) -> dict[str, dict[str, Any]]:
    """Return the calibration of the axes of a movie; a size of -1 is one that the server does not know.

    Args:
        scanned: True if the frames are a scan: then they are diffraction patterns.
    """
    specimen = {axis: _positive(info, f"Specimen Pixel Size {axis.upper()} (nanometers)") for axis in "yx"}
    diffraction = {axis: _positive(info, f"Diffraction Pixel Size {axis.upper()}") for axis in "yx"}
    diffracted = scanned or _positive(info, "Instrument Project Camera Length (centimeters)") > 0
    frames, unit = (diffraction, "1/nm") if diffracted else (specimen, "nm")
    found = {axis: {"scale": step, "unit": unit} for axis, step in frames.items() if step}
    if scanned:
        return found | {f"scan_{axis}": {"scale": step, "unit": "nm"} for axis, step in specimen.items() if step}
    if rate := _positive(info, "Frames Per Second"):
        found["frame"] = {"scale": (_positive(info, "Autosave Movie Sum Count") or 1) / rate, "unit": "s"}
    return found


def _positive(info: Mapping[str, str], key: str) -> float:
    """Return a number; 0 if there is none, or one that is not positive."""
    try:
        return max(0.0, float(info.get(key, "")))
    except ValueError:
        return 0.0


@dataclass(frozen=True)
class _PositionTable:
    """Decodes the positions of a scan from lines "y,x", as one block."""

    word_bytes: int = 0
    decode_into = None

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64)

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        try:
            rows = [[int(float(cell)) for cell in line.split(",")] for line in data.tobytes().decode("ascii").split()]
            return np.array(rows, np.int64).reshape(shape)
        except (ValueError, OverflowError) as error:
            raise DecodeError(f"expected {shape[0]:,} lines of two numbers: {error}") from None


def coordinates(path: str, frames: int) -> list[StoredArray]:
    """Make a companion with the scan position of every frame, for movies not recorded on a raster."""
    base = _base(path)
    name = f"{base}_scan_coordinates.csv"
    if base is None or not os.path.isfile(name):
        return []
    files = Files.stat([name])
    rows = len(read_side_file(name).split())
    if rows == 0:
        return []
    shape = (rows, 2)
    one = np.zeros(1, int)
    layout = BlockLayout.of(shape, np.zeros((1, 2), int), np.array([shape]), one, one, files.sizes, whole=True)
    return [
        StoredArray(
            "scan_coordinates",
            files,
            layout,
            _PositionTable(),
            shape,
            ("point", "axis"),
            0,
            attrs={"frames": frames},
            companion=True,
        )
    ]
