"""Names in a folder of a tree, without files: which may be data sets, and their places in a listing."""

from __future__ import annotations

from tests.folder_tree.support import RULES
from vfs.folder_tree.candidates import Candidates
from vfs.folder_tree.entries import MANY, Entries


def test_names_that_only_name_sets_are_taken_first() -> None:
    found = Candidates.among({"s10.npy", "s9.npy", "a.hdr", "z.vfs.json", "notes.md"}, RULES)
    assert list(found.order) == ["z.vfs.json", "a.hdr", "s9.npy", "s10.npy"]
    assert found.index_files == ["z.vfs.json", "a.hdr"]


def test_a_face_is_looked_for_behind_its_label() -> None:
    found = Candidates.among({"a.npy", "a-2.npy", "b.npy"}, RULES)
    assert list(found.behind("a.zarr")) == ["a.npy"]
    assert list(found.behind("a-2.v2.zarr")) == ["a-2.npy", "a.npy"]
    assert list(found.behind("a-1.npy")) == []


def test_a_name_keeps_its_place_and_gaps_are_closed_when_there_are_many() -> None:
    entries = Entries()
    for k in range(MANY + 1):
        entries.show(f"n{k}")
    entries.show("n0")
    assert len(entries) == MANY + 1
    for k in range(MANY // 2):
        entries.hide(f"n{k}")
        entries.hide(f"n{k}")
    entries.close_gaps()  # half of them are gaps, not more
    assert [entries.some(0)[0], entries.some(MANY)[0]] == ["/", f"n{MANY}"]
    entries.hide(f"n{MANY // 2}")
    entries.close_gaps()
    assert [entries.some(0)[0], len(entries)] == [f"n{MANY // 2 + 1}", MANY // 2]
    entries.show("new")
    assert entries.some(MANY // 2)[0] == "new"
