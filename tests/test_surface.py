"""What users meet: names, signatures, what is said to options of wrong types."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import vfs
from vfs.testing.writers import write_npy


def test_only_public_names_are_shown(tmp_path: Path) -> None:
    vfs.open(write_npy(tmp_path, np.zeros((4, 5))))  # which loads modules of the package
    assert set(dir(vfs)) == {*vfs.__all__, "__doc__", "__version__"}
    assert all(hasattr(vfs, name) for name in dir(vfs))
