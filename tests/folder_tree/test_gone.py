"""Names of a tree of folders that were read from stay errors when their files go: zarr clients take
what is absent for blank.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import eventually
from vfs.errors import SourceError
from vfs.folder_tree import FolderTree, seen
from vfs.folder_tree.plans import folder_tree
from vfs.folder_tree.seen import Seen
from vfs.model.open_options import OpenOptions

KEYS = ("a.zarr/data/c/1/0/0", "a.zarr/data/zarr.json", "a.zarr", "a.v2.zarr/data/1/0/0", "a.npy")
GOING: dict[str, Callable[[Path], object]] = {
    "deleted": lambda run: (run / "a.npy").unlink(),
    "renamed": lambda run: (run / "a.npy").rename(run / "b.npy"),
    "folder renamed": lambda run: run.rename(run.parent / "other"),
    "folder deleted": shutil.rmtree,
    "folder above renamed": lambda run: run.parent.rename(run.parent.parent / "other"),
    "a folder in its place": lambda run: (
        (run / "a.npy").unlink(),
        (run / "a.zarr").mkdir(),
        (run / "a.v2.zarr").mkdir(),
    ),
}


def fails(shown: FolderTree, path: str) -> bool:
    """Whether a path is an error. That it is absent, at any time, is false data."""
    try:
        assert shown.at(path).node() is not None, path
    except SourceError:
        return True
    return False


def read(shown: FolderTree, run: str) -> None:
    for key in KEYS:
        if shown.at(f"{run}/{key}").node() is not None and key != "a.zarr":
            assert shown.at(f"{run}/{key}").get() is not None


@pytest.mark.parametrize("how", GOING)
def test_names_that_were_read_are_errors_while_their_files_are_gone(tmp_path: Path, how: str) -> None:
    run = tmp_path / "day" / "run"
    run.mkdir(parents=True)
    np.save(run / "a.npy", np.ones((4, 8, 8), "u2"))
    shown = folder_tree(tmp_path, OpenOptions(chunks="frames"))
    read(shown, "day/run")
    shutil.copytree(tmp_path / "day", copy := tmp_path.parent / f"{tmp_path.name}-copy")
    GOING[how](run)
    gone = [key for key in KEYS if not ("in its place" in how and key == "a.zarr")]
    for key in gone:
        assert eventually(lambda key=key: fails(shown, f"day/run/{key}")), key  # type: ignore[misc]
    for folder in ("day", "day/run"):
        assert fails(shown, folder) is not (tmp_path / folder).is_dir()
    if run.is_dir():
        assert set(shown.at("day/run").children()) - {"/"} == (
            {"b.npy", "b.zarr", "b.v2.zarr", "b.ome.zarr", "b.ome.v2.zarr"}
            if how == "renamed"
            else set(os.listdir(run))
        )
    assert shown.at("day/run/never.zarr/zarr.json").node() is None
    assert fails(shown, "day/run/never.zarr/data/c/0/0/0")  # it looks like a chunk
    if "in its place" not in how:
        shutil.copytree(copy, tmp_path / "day", dirs_exist_ok=True)
        for key in KEYS:
            assert eventually(lambda key=key: not fails(shown, f"day/run/{key}")), key  # type: ignore[misc]


def test_chunks_of_what_a_set_was_before_are_errors(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((4, 8, 8), "u2"))
    shown = folder_tree(tmp_path, OpenOptions(chunks="frames"))
    assert shown.at("a.zarr/data/c/3/0/0").get() is not None
    assert shown.at("a.v2.zarr/data/3/0/0").get() is not None
    assert fails(shown, "a.zarr/data/c/4/0/0")
    np.save(tmp_path / "a.npy", np.ones((2, 8, 8), "u2"))
    for key in ("a.zarr/data/c/3/0/0", "a.v2.zarr/data/3/0/0"):
        assert eventually(lambda key=key: fails(shown, key))  # type: ignore[misc]
    assert shown.at("a.zarr/data/c/1/0/0").get() is not None
    assert shown.at("a.zarr/data/.zarray").node() is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "MAX_FACES", 3)
    kept = Seen()
    for n in (0, 1, 2, 0, 3):
        kept.add(f"day/{n}/a.npy")
    assert [n for n in range(4) if kept.knows(f"day/{n}")] == [0, 2, 3]
    assert kept.knows("day")
    assert not kept.knows("day/1/a.npy")
