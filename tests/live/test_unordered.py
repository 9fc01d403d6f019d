"""Sets written in no order, by other clocks, or copied again and again: what nobody has written is not shown."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vfs
from tests.waiting import PATIENCE
from vfs.live import doubts
from vfs.live.file_watch import SEEN
from vfs.model.open_options import OpenOptions
from vfs.sources.holes import tells_holes
from vfs.sources.local import LocalSources
from vfs.testing.tiff_writers import write_tiff

pytestmark = pytest.mark.usefixtures("looks_each_time")
NEVER = 1e9  # seconds: nothing counts because nobody writes
COUNT, SIDE = 12, 64
FRAMES = np.random.default_rng(3).integers(1, 4000, (COUNT, SIDE, SIDE)).astype("<u2")
SIZE = FRAMES[0].nbytes
RAW: dict[str, Any] = {"format": "raw", "stored_dtype": "<u2", "sig_shape": (SIDE, SIDE), "nav_shape": (COUNT,)}
HOW: dict[str, Any] = RAW | {"follow": True, "settle": NEVER, "give_up": NEVER, "chunks": "frames"}


def room(path: Path, way: str, size: int = FRAMES.nbytes) -> None:
    """Make a file that has its full size before it is written."""
    with path.open("wb") as file:
        if way == "kept":
            os.posix_fallocate(file.fileno(), 0, size)
        elif way == "hole":
            file.truncate(size)
        else:
            file.write(bytes(size))


def put(path: Path, first: int, stop: int, content: bytes = FRAMES.tobytes()) -> None:
    with path.open("r+b") as file:
        file.seek(first)
        file.write(content[first:stop])


def readable(array: vfs.VirtualArray) -> list[int]:
    """Return the frames that can be read, each of which must be right."""
    found = []
    for number in range(COUNT):
        try:
            frame = array[number]
        except vfs.NotYetError:
            continue
        np.testing.assert_array_equal(frame, FRAMES[number])
        found.append(number)
    return found


@pytest.mark.parametrize("behind", [3600, -3600, 3e7])
@pytest.mark.parametrize("way", ["hole", "kept", "zeros", "grow"])
def test_the_clock_of_a_file_proves_nothing(tmp_path: Path, way: str, behind: float) -> None:
    path, seen = tmp_path / "a.raw", []
    room(path, way, 0 if way == "grow" else FRAMES.nbytes)
    array = None
    for stop in (3 * SIZE + 100, 5 * SIZE + 8, FRAMES.nbytes):
        put(path, 0, stop)
        os.utime(path, (time.time() - behind,) * 2)
        array = array or vfs.open(path, **HOW | {"give_up": 600.0})
        seen.append((array.head, array.complete))
        assert readable(array) == [*range(array.head)]
    assert seen[:2] == [(3, False), (5, False)]
    assert vfs.open(path, **HOW | {"settle": 0.0}).wait(timeout=0)


@pytest.mark.parametrize("way", ["grow", "hole", "kept", "zeros"])
def test_frames_between_two_parts_that_are_written_at_once_are_not_there(tmp_path: Path, way: str) -> None:
    path = tmp_path / "a.raw"
    room(path, way, 0 if way == "grow" else FRAMES.nbytes)
    middle = 6 * SIZE + 1000  # of a frame
    put(path, middle, middle + SIZE * 3)
    put(path, 0, 2 * SIZE + 10)
    array = vfs.open(path, **HOW)
    assert (array.head, readable(array)) == (2, [0, 1])
    put(path, 0, 5 * SIZE)
    assert readable(array)[-1] == 4
    for stop in (middle - 2500, middle - 100):  # a gap that is less than a block, in the middle of a frame
        put(path, 0, stop)
        assert 6 not in readable(array)
        assert 6 not in readable(vfs.open(path, **HOW))
    put(path, 0, middle)
    assert 6 in readable(array)


def test_of_a_set_that_stopped_what_nobody_has_written_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    room(path, "hole", FRAMES.nbytes)
    put(path, 0, 2 * SIZE + 10)
    put(path, 6 * SIZE, 8 * SIZE)
    if not tells_holes(LocalSources(), str(path)):
        pytest.skip("this file system does not tell holes")
    array = vfs.open(path, **HOW | {"give_up": 0.05})
    with pytest.warns(vfs.IncompleteWarning, match="stopped: 2 of 12 frames are there"):
        array.wait(timeout=20)
    array = array.refresh()
    assert not array.complete
    assert np.flatnonzero(~array.valid).tolist() == [3, 4, 5, *range(8, 12)]  # of the third, a page was written
    np.testing.assert_allclose(array.reduce(m=vfs.Mean())["m"].data[0, 0], array[:, 0, 0].sum() / 5)
    assert vfs.open(path, **HOW | {"give_up": 0.0}).valid.all()  # the caller says that nobody writes it


def test_a_file_of_a_series_that_is_finished_after_the_next_has_begun(tmp_path: Path) -> None:
    half = FRAMES.nbytes // 2
    for k in range(2):
        room(tmp_path / f"s{k}.raw", "kept", half)
        put(tmp_path / f"s{k}.raw", 0, 4 * SIZE + 100, FRAMES.tobytes()[k * half :])
    array = vfs.open(str(tmp_path / "s*.raw"), **HOW)
    assert (array.head, readable(array)) == (4, [0, 1, 2, 3])
    put(tmp_path / "s0.raw", 0, half)
    assert readable(array) == [*range(10)]


@pytest.mark.parametrize("chunks", [None, (1, SIDE, SIDE)])
@pytest.mark.parametrize("way", ["kept", "zeros"])
def test_an_hdf5_file_whose_end_came_first(tmp_path: Path, way: str, chunks: tuple[int, ...] | None) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "whole.h5", "w") as file:
        file.create_dataset("entry/data/data", data=FRAMES, chunks=chunks)
    whole, path = (tmp_path / "whole.h5").read_bytes(), tmp_path / "a.h5"
    room(path, way, len(whole))
    first = whole.index(FRAMES[2].tobytes())
    put(path, 0, first, whole)
    put(path, first + 4 * SIZE + 30, len(whole), whole)
    how: dict[str, Any] = {"follow": True, "settle": 0.0, "give_up": NEVER, "chunks": "frames"}
    with suppress(vfs.NotYetError):  # its index may be there
        assert not {2, 3, 4, 5} & {*readable(vfs.open(path, **how))}
    put(path, 0, len(whole), whole)
    array = vfs.open(path, **how)
    assert array.wait(timeout=0)
    np.testing.assert_array_equal(array[...], FRAMES)


def test_a_page_of_a_tiff_whose_directory_is_half_written(tmp_path: Path) -> None:
    """The place of its pixels was there in part, and what is at that place was shown."""
    whole = write_tiff(tmp_path / "whole.tif", list(FRAMES)).read_bytes()
    directory, path = whole.index(FRAMES[3].tobytes()) + SIZE, tmp_path / "a.tif"
    after = whole.index(FRAMES[4].tobytes())
    how: dict[str, Any] = {"follow": True, "nav_shape": (COUNT,), "settle": NEVER, "give_up": NEVER, "chunks": "frames"}
    for stop in range(directory, after):
        path.write_bytes(whole[:stop] + bytes(len(whole) - stop))
        for more in (how, {"nav_shape": (COUNT,), "allow_incomplete": True}):
            with suppress(vfs.NotYetError, vfs.FormatError, vfs.TruncatedSourceError):
                found = vfs.open(path, **more)[3]
                assert not found.any() or np.array_equal(found, FRAMES[3]), stop
                assert "follow" not in more or found.any(), stop


def test_a_copy_made_again_as_its_source_grows_is_the_same_acquisition(tmp_path: Path) -> None:
    path, hidden = tmp_path / "a.raw", tmp_path / ".a.raw.Xy12"

    def copied(nbytes: int, content: np.ndarray) -> None:
        hidden.write_bytes(content.tobytes()[:nbytes])
        hidden.replace(path)

    copied(3 * SIZE + 10, FRAMES)
    array = vfs.open(path, **HOW)
    for count in (3, 6, 9):
        copied(count * SIZE + 10, FRAMES)
        assert (array.head, readable(array)) == (count, [*range(count)])
    copied(10 * SIZE + 10, FRAMES[::-1])
    with pytest.raises(vfs.SourceChangedError, match="restarted"):
        array.head  # noqa: B018


def test_dark_frames_wait_for_a_proof_or_the_end(tmp_path: Path) -> None:
    dark, path = FRAMES.copy(), tmp_path / "a.raw"
    dark[4] = 0
    path.write_bytes(dark.tobytes())
    array = vfs.open(path, **HOW | {"settle": 0.0})
    with pytest.raises(vfs.NotYetError, match=r"not written yet|nothing proves yet"):
        array[4]
    with pytest.raises(vfs.NotYetError):
        array.reduce(s=vfs.FrameSum())
    assert not array.complete
    SEEN.forget((str(path),))
    whole = vfs.open(path, **HOW | {"give_up": 0.0})
    np.testing.assert_array_equal(whole[...], dark)
    assert whole.complete
    np.testing.assert_array_equal(vfs.open(path, **RAW)[...], dark)


def test_a_file_that_hangs_holds_up_no_other_set(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends = threading.Event(), threading.Event()

    def hangs(path: str, start: int, count: int) -> bytes:
        begun.set()
        assert ends.wait(PATIENCE)
        return bytes(count)

    def doubts_of(read: Any) -> Any:
        dataset: Any = SimpleNamespace(written=SimpleNamespace(head=9), shape=(9, 4, 4), nav_ndim=1)
        files: Any = SimpleNamespace(paths=["a"], sources=SimpleNamespace(read=read))
        return doubts.Doubts(dataset, files, OpenOptions())

    monkeypatch.setattr(doubts, "places", lambda dataset, number: [(0, number * 16, number * 16 + 16)])
    slow, other = doubts_of(hangs), doubts_of(lambda path, start, count: b"\1" * count)
    threads = [threading.Thread(target=one._in_others, args=(0, 0, 16)) for one in (slow, other)]
    threads[0].start()
    try:
        assert begun.wait(PATIENCE)
        threads[1].start()
        threads[1].join(60.0)
        assert not threads[1].is_alive()
    finally:
        ends.set()
        for thread in threads:
            thread.join()
