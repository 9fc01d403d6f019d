"""Imaris files against the reader of napari's plugin: every version of the image, cropped, and its steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, same
from tests.formats.hdf5_sets import write_ims

ims = pytest.importorskip("imaris_ims_file_reader.ims").ims


@pytest.mark.parametrize("shape", [(2, 3, 5, 12, 16), (1, 2, 1, 13, 7), (3, 1, 4, 9, 9)])
def test_levels(tmp_path: Path, shape: tuple[int, ...]) -> None:
    twin = frames_of(shape, "u2")
    path = write_ims(
        tmp_path / "a.ims", twin, halved="yx zyx", padded=(8, 16, 16), chunks=(4, 8, 8), compression="gzip"
    )
    theirs, group = ims(str(path), squeeze_output=False), vfs.open_group(path)
    for level, name in enumerate(["data", "level_1/data", "level_2/data"]):
        theirs.change_resolution_lock(level)
        same(group[name][...], theirs[:].reshape(group[name].shape))
        steps = dict(zip("zyx", theirs.resolution, strict=True))
        known = {dim: axis["scale"] for dim, axis in group[name].calibration.items() if dim in steps}
        assert known == pytest.approx({dim: np.float64(steps[dim]) for dim in known}, abs=1e-3)
