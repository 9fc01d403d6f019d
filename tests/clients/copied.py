"""Compares copies of what is served or mounted with the scan that it is of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr

FACES = {"scan.zarr": "data", "scan.v2.zarr": "data", "scan.ome.zarr": "0", "scan.ome.v2.zarr": "0"}
RCLONE = ["rclone", "--config", ""]


def check_equal(folder: Path, expected: Path) -> None:
    for face, name in FACES.items():
        found = zarr.open(str(folder / face), mode="r")[name][...]
        np.testing.assert_array_equal(found.reshape(np.load(expected).shape), np.load(expected), face)
