"""Whether a file is the one that was opened, and what is said where it is not."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from vfs.model.file_state import UNKNOWN, FileState
from vfs.model.files import Files
from vfs.sources.local import LocalSources

SECOND = 1_000_000_000
DISK = FileState(1000, 5 * SECOND, 7)
STORE = FileState(1000, 5 * SECOND, 0, "abc")

SAME = {
    "itself": (DISK, DISK),
    "touched": (DISK, DISK._replace(changed=8)),
    "any, where it was missing": (UNKNOWN, DISK),
    "in a store without tags": (FileState(9, SECOND), FileState(9, SECOND)),
    "copied within a store": (STORE, STORE._replace(written=6 * SECOND)),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_file(case: str) -> None:
    before, now = SAME[case]
    assert before.same(now)


ANOTHER = {
    "longer": (DISK, DISK._replace(size=2000), "it had 1,000 bytes, now 2,000"),
    "gone": (DISK, UNKNOWN, "it had 1,000 bytes, now -1"),
    "written": (
        DISK,
        DISK._replace(written=65 * SECOND + 5),
        "it was written on 1970-01-01 00:00:05 UTC, now on 1970-01-01 00:01:05 UTC",
    ),
    "written in the same second": (
        DISK,
        DISK._replace(written=5 * SECOND + 5),
        "it was written on 1970-01-01 00:00:05.000000000 UTC, now on 1970-01-01 00:00:05.000000005 UTC",
    ),
    "another tag": (STORE, STORE._replace(tag="abd"), "its tag was abc, now abd"),
    "a tag at last": (DISK, STORE, "its tag was none, now abc"),
    "a tag no more": (STORE, DISK, "its tag was abc, now none"),
}


@pytest.mark.parametrize("case", ANOTHER)
def test_another_file_and_what_differs(case: str) -> None:
    before, now, said = ANOTHER[case]
    assert not before.same(now)
    assert before.difference(now) == said


def test_the_state_of_a_file_on_a_disk(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    found = path.stat()
    state = FileState.of(found)
    assert state == FileState(3, found.st_mtime_ns, found.st_ctime_ns, "", found.st_ino, found.st_dev)
    os.utime(path, ns=(0, 5))
    assert not state.same(FileState.of(path.stat()))


def test_files_note_that_one_was_touched_and_keep_what_was_opened() -> None:
    files = Files.of(["/a", "/b"], [DISK, STORE], LocalSources())
    assert [files.state(0), files.state(1)] == [DISK, STORE]
    assert files.same(0, DISK)
    assert not files.moves.item()
    assert files.same(0, DISK._replace(changed=8))
    assert files.moves.item()
    assert files.state(0) == DISK._replace(changed=8)
    assert not files.same(0, DISK._replace(size=1, changed=9))
    assert files.state(0).changed == 8


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"changed": 8}, "ctime .*, now .*"),
        ({"inode": 9}, "inode 5, now 9"),
        ({"device": 3}, "device 2, now 3"),
        ({"inode": 0}, ""),  # nobody knows
    ],
)
def test_files_say_what_moved(now: dict[str, int], said: str) -> None:
    known = DISK._replace(inode=5, device=2)
    files = Files.of(["/a"], [known], LocalSources())
    before = files.identity()
    assert files.same(0, known._replace(**now))
    assert bool(files.moves.item()) == bool(said)
    assert re.fullmatch(said, "".join(files.moved[1:]))
    assert (files.identity() != before) == ("device" not in now)


def test_inodes_of_64_bits(tmp_path: Path) -> None:
    found = tmp_path.stat()
    fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
    state = FileState.of(cast(os.stat_result, SimpleNamespace(**fields | {"st_ino": (1 << 64) - 3})))
    files = Files.of(["/a"], [state], LocalSources())
    assert files.state(0) == state
    assert files.same(0, state)
    assert not files.moves.item()


def test_the_first_look_at_an_unpickled_set_is_no_touch() -> None:
    files = pickle.loads(pickle.dumps(Files.of(["/a", "/b"], [DISK, STORE], LocalSources())))
    assert [files.state(0), files.state(1)] == [DISK._replace(changed=0), STORE]
    assert files.same(0, DISK)
    assert files.same(1, STORE)
    assert not files.moves.item()
    assert not files.same(1, STORE._replace(tag="other"))


def test_files_that_may_change_still_tell_their_set_that_they_were_touched() -> None:
    files = Files.of(["/a"], [STORE], LocalSources())
    lax = files.unremembered()
    assert lax.state(0) == UNKNOWN
    assert lax.same(0, DISK)
    assert lax.same(0, DISK._replace(size=5, changed=9))
    assert files.moves.item()
    assert files.state(0) == STORE


@pytest.mark.parametrize("tagged", [(False, False), (True, False), (False, True)])
def test_files_behind_others(tagged: tuple[bool, bool]) -> None:
    first, second = ([STORE if one else DISK] for one in tagged)
    both = Files.of(["/a"], first, LocalSources()).joined(Files.of(["/b"], second, LocalSources()))
    assert both.paths == ("/a", "/b")
    assert [both.state(0), both.state(1)] == [*first, *second]
    assert bool(both.tags) == any(tagged)
