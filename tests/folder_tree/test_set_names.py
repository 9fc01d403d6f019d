"""Names of the sets of a folder: given once, taken back with all that hangs on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folder_tree.support import RULES
from vfs.faces.face import FOLDER
from vfs.folder_tree.records import Record
from vfs.folder_tree.set_names import SetNames
from vfs.folder_tree.watched_folder import WatchedFolder


@pytest.fixture
def names(tmp_path: Path) -> SetNames:
    for name in ("a.hdr", "a1.mib", "a2.mib", "b.npy", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder.zarr").mkdir()
    folder = WatchedFolder(str(tmp_path), RULES)
    folder.check(lambda changes: None)
    return SetNames(folder)


def record(*members: str) -> Record:
    return Record(None, 0, faces=((".zarr", FOLDER), (".npy", FOLDER)), members=members)


def listed(names: SetNames) -> list[str]:
    return names.entries.some(0)


def test_a_name_is_given_once(names: SetNames) -> None:
    assert names.give("b.npy", "b", record())
    assert not names.give("a.hdr", "b", record())
    assert not names.give("a.hdr", "folder", record())  # a subfolder has that name
    assert (names.base, names.mains, names.taken) == (
        {"b.npy": "b"},
        {"b.zarr": "b.npy"},
        {"b.zarr": "b.npy", "b.npy": "b.npy"},
    )
    assert listed(names) == ["b.zarr", "b.npy"]


def test_a_set_that_loses_its_name_and_its_files_are_opened_again(names: SetNames) -> None:
    found = record("a1.mib", "a2.mib", "elsewhere.mib", "notes.txt")
    names.claim("a.hdr", found)
    assert names.give("a.hdr", "a", found)
    assert names.owner == {"a1.mib": "a.hdr", "a2.mib": "a.hdr", "notes.txt": "a.hdr"}
    assert [names.settled(name) for name in ("a.hdr", "a1.mib", "b.npy")] == [True, True, False]
    names.take_back("a.hdr")
    assert (names.base, names.mains, names.taken, names.owner, names.taken_back) == ({}, {}, {}, {}, 4)
    assert listed(names) == ["/", "/"]
    assert list(names.pending) == ["a.hdr", "a1.mib", "a2.mib"]  # what is no candidate is not opened


def test_a_set_that_becomes_a_member_of_another_loses_its_names(names: SetNames) -> None:
    names.give("a1.mib", "a1", record())
    names.claim("a.hdr", record("a1.mib"))
    assert (names.taken, names.owner, list(names.pending)) == ({}, {"a1.mib": "a.hdr"}, ["a1.mib"])
