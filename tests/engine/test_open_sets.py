"""Sets that a worker keeps open between its tasks."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import eventually
from vfs.engine import open_sets
from vfs.engine.open_sets import MAX_SETS, OpenSets
from vfs.model.open_options import OpenOptions
from vfs.sets.live_set import for_workers
from vfs.sets.opening import open_set
from vfs.testing.writers import write_npy


@pytest.fixture
def openings(tmp_path: Path) -> list[bytes]:
    """Of more sets than are kept."""
    made = []
    for k in range(MAX_SETS + 2):
        (tmp_path / str(k)).mkdir()
        path = write_npy(tmp_path / str(k), np.full((3, 4, 5), k, "u2"))
        made.append(for_workers(open_set(path, OpenOptions(), {}).opening))
    return made


def test_the_sets_used_last_are_kept(openings: list[bytes]) -> None:
    sets = OpenSets()
    first = sets.array(openings[0], "data")
    assert first[0, 0, 0] == 0
    seen = [weakref.ref(sets.array(opening, "data")) for opening in openings[1:MAX_SETS]]
    assert sets.array(openings[0], "data") is first  # and is the last one used
    seen += [weakref.ref(sets.array(opening, "data")) for opening in openings[MAX_SETS:]]
    gc.collect()
    assert [kept() is not None for kept in seen] == [False] * 2 + [True] * (MAX_SETS - 1)
    assert sets.array(openings[0], "data") is first
    sets.close()
    gc.collect()
    assert not any(kept() for kept in seen)


def test_sets_that_nobody_uses_are_closed(openings: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_sets, "IDLE", 0.05)
    kept = weakref.ref(OpenSets().array(openings[0], "data"))
    assert eventually(lambda: gc.collect() >= 0 and kept() is None)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_while_a_set_is_opened(openings: list[bytes]) -> None:
    """The child does not wait for a lock that a thread of its parent holds."""
    sets = OpenSets()
    sets.array(openings[0], "data")
    with sets._lock:
        child = os.fork()
        if child == 0:
            status = 3
            try:
                status = int(sets.array(openings[1], "data")[0, 0, 0])
            finally:
                os._exit(status)
    sets.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
