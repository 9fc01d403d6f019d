"""The comparison with peers runs for those that are here; who is not is named. How large the
figures are is not asserted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scripts.benchmarks import peers
from scripts.benchmarks.rows import TINY

pytestmark = pytest.mark.filterwarnings("default")  # theirs are not ours to mend


def test_every_peer_is_compared_or_named(tmp_path: Path) -> None:
    lines = list(peers.found(tmp_path, TINY, ("tiff", "hdf5 contiguous", "hdf5 chunks of 8", "mrc")))
    absent = peers.missing()
    assert all(absent.values())
    assert set(absent) <= set(peers.PEERS)
    for name in ("tifffile", "h5py"):
        assert (name in absent) != any(line.peer.startswith(name) for line in lines)
    for line in lines:
        assert not line.note, line
        assert line.ours.clock > 0
        assert line.theirs.clock > 0


@pytest.mark.thorough
def test_reductions_are_those_of_dask(tmp_path: Path) -> None:
    lines = [line for line in peers.found(tmp_path, TINY, ("raw u16",)) if line.peer == "dask of our zarr"]
    assert [line.case.did for line in lines] == [
        "disk of 8 %",
        "4 float32 masks",
        "sum over frames",
        "maximum over frames",
    ]
    assert not any(line.note for line in lines)


def test_a_peer_that_fails_or_differs_gets_a_line_of_its_own(tmp_path: Path) -> None:
    def fails() -> peers.Call:
        raise ValueError("no such thing")

    case = peers.Case(
        "file",
        "read",
        lambda: lambda: np.zeros(3),
        {"a": fails, "b": lambda: lambda: np.ones(3), "c": lambda: lambda: np.zeros(3)},
    )
    lines = {line.peer: line for line in peers.measure(case, TINY)}
    assert lines["a"].note == "fails: ValueError: no such thing"
    assert lines["b"].note.startswith("returns something else")
    assert lines["c"].note == ""
    assert lines["c"].theirs.clock < float("inf")
