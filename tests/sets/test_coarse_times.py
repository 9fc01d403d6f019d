"""Where a disk notes times of writing in coarse steps, opening says so once."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.sets import set_sources
from vfs.testing.writers import write_raw


@pytest.mark.parametrize(("kind", "told"), [("vfat", 1), ("ext4", 0)])
def test_a_disk_with_steps_of_two_seconds_is_told(
    kind: str, told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_raw(tmp_path, np.zeros((4, 2, 3), "u1"), files=2)
    monkeypatch.setattr(set_sources, "file_system", lambda path: kind)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", vfs.IncompleteWarning)
        vfs.open(paths, format="raw", stored_dtype="u1", sig_shape=(2, 3))
    assert [str(one.message).partition(" (FAT)")[0] for one in said] == [f"{paths[0]}: its disk"] * told
