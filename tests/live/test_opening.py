"""Sets that are still being written: when they open, and when they end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vfs
from tests.live.conftest import rest
from tests.live.swmr_writer import SwmrRecording
from vfs.cli.flags import Settings
from vfs.cli.opening import open_set
from vfs.model.open_options import OpenOptions

pytestmark = pytest.mark.usefixtures("looks_each_time")
NEVER = 1e9  # seconds: nothing counts because nobody writes


def test_a_file_is_followed_until_its_writer_closes_it(tmp_path: Path) -> None:
    """HDF5 with SWMR cannot be opened as a finished file before."""
    pytest.importorskip("h5py")
    frames = np.random.default_rng(8).integers(1, 99, (3, 8, 8), "u2")
    made = SwmrRecording(tmp_path / "set.h5", frames, fixed=True)
    with pytest.raises(vfs.FormatError, match="follow=True shows it as it grows"):
        vfs.open(made.path)
    made.write(3)
    scan = vfs.open(made.path, follow=True, settle=0.0)
    assert (scan.head, scan.complete) == (3, True)
    assert "entry/time" not in scan.group
    made.close()
    assert scan.wait(timeout=0)
    assert not scan._live.stopped
    assert "entry/time" in scan._live.current.arrays


def test_chunks_placed_before_they_are_written_cannot_be_followed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    frames = np.ones((3, 8, 8), "u2")
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    made = SwmrRecording(tmp_path / "set.h5", frames, fixed=True, dcpl=plan)
    made.write(2)
    with pytest.raises(vfs.FormatError, match="chunks got their places before that"):
        vfs.open(made.path, follow=True)
    made.close()
    assert not vfs.open(made.path)[2].any()


def test_a_file_without_frames_opens_when_nobody_writes_it(tmp_path: Path) -> None:
    """The arrays of a half-written master would be shown instead of the frames that it will lead to."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "scan_master.h5"
    with h5py.File(path, "w") as file:
        file["entry/instrument/detector/detectorSpecific/nimages"] = np.uint32(7)
    with pytest.raises(vfs.NotYetError, match="no array in it has frames yet"):
        vfs.open(path, follow=True, settle=NEVER, give_up=NEVER)
    for how in ({"settle": 0.0}, {"settle": NEVER, "give_up": 0.0}):
        assert vfs.open(path, follow=True, **how)[()] == 7
    with h5py.File(path, "a") as file:  # it names files that are to come
        for k in (1, 2):
            file[f"entry/data/data_{k:06}"] = h5py.ExternalLink(f"scan_data_{k:06}.h5", "/entry/data/data")
    with pytest.raises(vfs.NotYetError, match="no array in it has frames yet"):
        vfs.open_group(path, follow=True, settle=0.0, give_up=NEVER)
    with path.open("r+b") as file:
        file.truncate(1 << 20)
    with pytest.raises(vfs.NotYetError, match="no array in it has frames yet"):
        vfs.open(path, follow=True, settle=0.0)


def test_frames_that_end_with_zeros_count_when_nobody_writes(tmp_path: Path) -> None:
    """Also those that are stored in blocks, of which nothing else changes any more."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "scan_master.h5"
    frames = np.random.default_rng(2).integers(1, 99, (4, 8, 8), "u2")  # the last byte of a file is 0
    with h5py.File(path, "w") as master:
        master["entry/instrument/detector/detectorSpecific/nimages"] = np.uint32(4)
        master["entry/instrument/detector/detectorSpecific/ntrigger"] = np.uint32(1)
        for k in (1, 2):
            with h5py.File(tmp_path / f"scan_data_{k:06}.h5", "w") as file:
                file.create_dataset("entry/data/data", data=frames[2 * k - 2 : 2 * k], chunks=(1, 8, 8))
            master[f"entry/data/data_{k:06}"] = h5py.ExternalLink(f"scan_data_{k:06}.h5", "/entry/data/data")
    last = tmp_path / "scan_data_000002.h5"
    whole = last.read_bytes()
    last.unlink()
    rest(tmp_path.iterdir())
    scan = vfs.open(path, follow=True, settle=600.0, give_up=NEVER)
    last.write_bytes(whole)
    assert scan.head < 4
    rest(tmp_path.iterdir())
    assert scan.wait(timeout=0)
    np.testing.assert_array_equal(scan[...], frames)


def test_a_set_that_cannot_be_opened_any_more_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "movie.npy"
    np.save(path, np.ones((4, 8, 8), "u2"))
    whole = path.read_bytes()
    path.write_bytes(whole[:600])
    scan = vfs.open(path, follow=True, settle=NEVER, give_up=NEVER)
    scan._live._give_up = 0.0
    with path.open("r+b") as file:
        file.write(b"garbled")
    with pytest.warns(vfs.IncompleteWarning, match="movie.npy"):
        assert not scan.wait(timeout=5)
    assert scan._live.ended


def when_it_waits(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something while a command waits for a set that it cannot open yet."""
    monkeypatch.setattr("vfs.cli.opening.time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: do()))


def test_commands_wait_for_a_set_that_cannot_be_opened_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "movie.npy"
    options = OpenOptions(follow=True, settle=0.0, give_up=30.0)
    when_it_waits(monkeypatch, lambda: np.save(path, np.ones((4, 8, 8), "u2")))
    assert open_set([str(path)], Settings(options, {}, None)).main.shape == (4, 8, 8)
    assert "movie.npy: no such file; waits until it can be opened (--give-up 30)" in capsys.readouterr().err
    with pytest.raises(vfs.MissingSourceError):
        open_set([str(tmp_path / "other.npy")], Settings(replace(options, give_up=0.0), {}, None))


def test_commands_wait_for_a_file_that_is_locked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5's own lock: a helper reads the file, so its writer is another process."""
    h5py = pytest.importorskip("h5py")
    writer = h5py.File(tmp_path / "scan.h5", "w", locking=True)
    writer["entry/data/data"] = np.ones((4, 8, 8), "u2")
    writer.flush()
    for follow in (False, True):
        with pytest.raises(vfs.SourceError, match="has it open for writing"):
            vfs.open(tmp_path / "scan.h5", follow=follow)
    when_it_waits(monkeypatch, writer.close)
    how = Settings(OpenOptions(follow=True, settle=0.0, give_up=30.0), {}, None)
    assert open_set([str(tmp_path / "scan.h5")], how).main.shape == (4, 8, 8)
    assert "has it open for writing, and may hold elements" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "how", "waits"),
    [
        (None, {}, True),
        (b"", {}, True),
        (bytes(9000), {}, True),
        (b"\x93NUMPY", {}, True),
        (b"words that nobody calls a detector's", {}, False),
        (b"words that nobody calls a detector's", {"settle": 30.0}, True),  # its header may come
        (b"\x93NUMPY\1\0v\0{'descr': '<u2'", {"format": "mib"}, False),
        (b"", {"format": "none"}, False),
    ],
)
def test_commands_wait_for_nothing_that_cannot_come(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    how: dict[str, Any],
    waits: bool,
) -> None:
    path = tmp_path / "movie.npy"
    if content is not None:
        path.write_bytes(content)
    clock = [0.0]
    slept = SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda _: clock.__setitem__(0, clock[0] + 20.0))
    monkeypatch.setattr("vfs.cli.opening.time", slept)
    with pytest.raises(vfs.VfsError):
        open_set([str(path)], Settings(OpenOptions(follow=True, give_up=30.0, **{"settle": 0.0} | how), {}, None))
    assert ("waits until it can be opened" in capsys.readouterr().err) == waits
