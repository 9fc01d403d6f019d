"""A folder that is watched: which changes of its names are told, when, and how often it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.folder_tree.support import RULES
from vfs.errors import SourceError
from vfs.folder_tree import watched_folder
from vfs.folder_tree.watched_folder import NameChanges, WatchedFolder


def look(folder: WatchedFolder) -> list[NameChanges]:
    """Look at a folder now. Returns the changes that were told."""
    told: list[NameChanges] = []
    folder.trust.end()
    folder.check(told.append)
    return told


def test_names_that_come_and_go_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_folder, "FRESH", -1)
    (tmp_path / "a.npy").touch()
    (tmp_path / "old").mkdir()
    os.utime(tmp_path, (1, 1))
    folder = WatchedFolder(str(tmp_path), RULES)
    assert look(folder) == [NameChanges(new_files=frozenset({"a.npy"}), new_folders=frozenset({"old"}))]
    assert look(folder) == []  # not even read
    (tmp_path / "a.npy").unlink()
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "b.npy").touch()
    os.utime(tmp_path, (2, 2))
    assert [[sorted(names) for names in changes] for changes in look(folder)] == [
        [["a.npy"], ["b.npy"], ["old"], ["new"], []]
    ]
    assert (folder.changes, folder.appeared, list(folder.candidates.order)) == (2, {"b.npy": 2}, ["b.npy"])


def test_a_folder_that_changed_just_now_is_read_again(tmp_path: Path) -> None:
    """Another change within the same tick of the clock leaves its time as it is."""
    folder = WatchedFolder(str(tmp_path), RULES)
    os.utime(tmp_path)
    assert look(folder) == [NameChanges()]
    assert look(folder) == [NameChanges()]
    assert folder.changes == 0


def test_a_folder_that_could_not_be_read_is_looked_at_at_once(tmp_path: Path) -> None:
    folder = WatchedFolder(str(tmp_path), RULES)
    tmp_path.rmdir()
    with pytest.raises(SourceError, match="cannot be listed"):
        folder.check(lambda changes: None)
    tmp_path.mkdir()
    told: list[NameChanges] = []
    folder.check(told.append)  # an error is not trusted
    assert told == [NameChanges()]
