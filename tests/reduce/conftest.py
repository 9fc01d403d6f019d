"""A scan of 15 × 20 frames in three files, with headers between the frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.reduce.twins import opened


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 60000, (300, 40, 50)).astype("u2")


@pytest.fixture
def array(tmp_path: Path, frames: np.ndarray) -> vfs.VirtualArray:
    return opened(tmp_path, frames)
