"""Arrays of sets that are still being written, in Python: head, waiting, passes, the end."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.live.conftest import SCAN, SIDE, Instrument, instrument_of
from vfs.testing.counted import counted
from vfs.testing.detector_writers import write_sls
from vfs.testing.plane_writers import write_ndtiff
from vfs.testing.range_server import RangeServer
from vfs.testing.stack_writers import write_mrc, write_ser

pytestmark = pytest.mark.usefixtures("looks_each_time")
NEVER = 1e9  # seconds: nothing counts because nobody writes
SOON = 0.05  # seconds, after which the last frame of a file counts that came at once


def followed(instrument: Instrument, **how: Any) -> vfs.VirtualArray:
    return vfs.open(instrument.path, **{"follow": True, "settle": NEVER, "give_up": NEVER} | how)


def test_shape_is_that_of_the_finished_scan_and_frames_come(instrument: Instrument) -> None:
    with pytest.raises(vfs.VfsError):
        followed(instrument)
    instrument.write_frames(10)
    scan = followed(instrument)
    assert (scan.shape, scan.head, scan.complete) == ((*SCAN, SIDE, SIDE), 10, False)
    assert scan.group.attrs["vfs"]["live"] == {"frames": 10, "of": 48, "complete": False}
    np.testing.assert_array_equal(scan[1, 1], instrument.frames[1, 1])
    with pytest.raises(vfs.NotYetError, match=r"frame 10 of 48 is not written yet: 10 are there") as caught:
        scan[1, 2]
    assert isinstance(caught.value, OSError)
    assert caught.value.head == 10
    with pytest.raises(vfs.NotYetError):
        scan[0:2]
    instrument.write_frames(1)
    assert scan.head == 11
    np.testing.assert_array_equal(scan[1, 2], instrument.frames[1, 2])
    assert scan.refresh().shape == scan.shape


def test_a_look_needs_no_kernel(instrument: Instrument) -> None:
    """Kernels that are not compiled yet would delay the first event by seconds."""
    instrument.write_frames(4)
    code = "import sys, vfs; print(vfs.open(sys.argv[1], follow=True).head, 'numba' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code, instrument.path], capture_output=True, text=True, check=True)
    assert ran.stdout == "4 False\n"


def test_a_frame_counts_when_the_next_one_begins(instrument: Instrument) -> None:
    instrument.write_frames(4)
    scan = followed(instrument)
    instrument.recording.write(784 + 112 - 100)  # the rest of the fifth, to its last byte
    assert scan.head == 4
    instrument.recording.write(1)
    assert scan.head == 5


def test_the_last_frame_counts_when_nobody_writes_for_a_while(instrument: Instrument) -> None:
    instrument.write_frames(4)
    instrument.recording.write(784 + 112 - 100)
    assert followed(instrument).head == 4
    assert followed(instrument, settle=0.0).head == 5


def test_it_ends_as_the_finished_scan(instrument: Instrument) -> None:
    instrument.write_frames(4)
    scan = followed(instrument)
    instrument.finish(lambda: scan.head)
    assert scan.wait(timeout=0)
    assert scan.complete
    assert scan.head == 48
    again = followed(instrument, settle=0.0)
    again.head  # noqa: B018 (a look, after which it is not followed any more)
    assert "live" not in again.group.attrs["vfs"]
    for array in (scan, again):
        np.testing.assert_array_equal(array[...], instrument.frames)
    finished = vfs.open(instrument.finished)
    assert set(scan.group) == set(finished.group)
    np.testing.assert_array_equal(scan.group["timestamp"][...], finished.group["timestamp"][...])


def test_a_set_that_nobody_writes_any_more_is_stopped(instrument: Instrument) -> None:
    instrument.write_frames(9)
    with pytest.warns(vfs.IncompleteWarning, match="stopped: 9 of 48 frames are there"):
        scan = followed(instrument, give_up=0.0, settle=0.0)
    assert not scan.wait(timeout=5)
    assert (scan.head, scan.complete) == (9, False)
    np.testing.assert_array_equal(scan[1, 0], instrument.frames[1, 0])
    assert not scan[5, 7].any()  # as of any scan that was stopped
    assert int(scan.valid.sum()) == 9
    assert scan.group.attrs["vfs"]["incomplete"]["frames_missing"] == 39
    assert not scan.wait(48)


def test_waiting_ends(instrument: Instrument) -> None:
    instrument.write_frames(4)
    scan = followed(instrument)
    assert scan.wait(4, timeout=0)
    assert not scan.wait(5, timeout=0)
    assert not scan.wait(timeout=0)
    finished = vfs.open(instrument.finished)
    assert finished.wait()
    assert finished.wait(48)
    assert not finished.wait(49)
    assert finished.complete
    assert finished.head == 48
    assert finished.refresh() is finished


def test_an_acquisition_that_is_begun_anew_is_another_one(instrument: Instrument) -> None:
    instrument.write_frames(9)
    scan = followed(instrument)
    assert scan.head == 9
    instrument.recording.begin_anew()
    instrument.recording.write(2000)
    with pytest.raises(vfs.SourceChangedError, match=r"restarted|is gone"):
        scan[0, 0]


def test_the_first_axis_grows_where_nothing_says_how_long_it_will_be(tmp_path: Path) -> None:
    frames = np.random.default_rng(2).integers(1, 99, (12, 8, 8), dtype="u1")
    whole = frames.tobytes()
    path = tmp_path / "movie.raw"
    how: dict[str, Any] = {"stored_dtype": "u1", "sig_shape": (8, 8), "follow": True, "settle": NEVER}
    path.write_bytes(whole[: 64 * 5 + 3])
    movie = vfs.open(path, **how)
    assert movie.shape == (5, 8, 8)
    assert not movie.complete
    scan = vfs.open(path, **how, nav_shape=(3, 4))
    assert scan.shape == (3, 4, 8, 8)
    assert scan.head == 5
    with path.open("ab") as file:
        file.write(whole[64 * 5 + 3 : 64 * 9 + 1])
    assert movie.shape == (5, 8, 8)
    longer = movie.refresh()
    assert longer.shape == (9, 8, 8)
    assert longer.head == 9
    np.testing.assert_array_equal(longer[...], frames[:9])
    np.testing.assert_array_equal(movie[...], frames[:5])
    np.testing.assert_array_equal(scan[1], frames[4:8])
    with pytest.raises(vfs.NotYetError):
        scan[2]


@pytest.mark.parametrize("nav", [(3, 4), (12,)])
def test_a_ser_file_is_followed_by_the_count_in_its_header(tmp_path: Path, nav: tuple[int, ...]) -> None:
    frames = np.random.default_rng(4).integers(1, 99, (*nav, 5, 7), dtype="u2")
    path = write_ser(tmp_path, frames, valid=3)
    scan = vfs.open(path, follow=True, settle=NEVER, give_up=NEVER)
    assert (scan.shape, scan.head, scan.complete) == (frames.shape, 3, False)
    for valid in (5, 12):
        write_ser(tmp_path, frames, valid=valid)
        assert scan.head == valid
        for number, at in enumerate(np.ndindex(*nav)):
            if number < valid:
                np.testing.assert_array_equal(scan[at], frames[at])
            else:
                with pytest.raises(vfs.NotYetError, match=f"frame {number} of 12"):
                    scan[at]
    assert scan.complete


def test_a_header_that_says_the_shape_says_how_many_frames_there_will_be(tmp_path: Path) -> None:
    frames = np.random.default_rng(7).integers(1, 99, (3, 4, 8, 8), dtype="u1")
    path = tmp_path / "scan.npy"
    np.save(path, frames)
    whole = path.read_bytes()
    path.write_bytes(whole[:-300])
    scan = vfs.open(path, follow=True, settle=NEVER)
    assert scan.group.attrs["vfs"]["live"] == {"frames": 7, "of": 12, "complete": False}
    with path.open("ab") as file:
        file.write(whole[-300:])
    assert scan.wait(timeout=0)


def test_a_glob_finds_files_that_come(tmp_path: Path) -> None:
    frames = np.random.default_rng(3).integers(1, 99, (4, 8, 8), dtype="u2")
    for n in range(2):
        np.save(tmp_path / f"tilt_{n}.npy", frames[n])
    stack = vfs.open(str(tmp_path / "tilt_*.npy"), follow=True, settle=0.0)
    assert stack.shape == (2, 8, 8)
    np.save(tmp_path / "tilt_2.npy", frames[2])
    np.testing.assert_array_equal(stack.refresh()[...], frames[:3])


@pytest.mark.parametrize("kind", [vfs.Sum(), vfs.Mean(), vfs.Max(), vfs.Disk(cy=8, cx=8, r=4), vfs.CenterOfMass()])
def test_a_pass_goes_on_as_frames_come(instrument: Instrument, kind: Any) -> None:
    instrument.write_frames(9)
    scan = followed(instrument, settle=SOON)
    with pytest.raises(vfs.NotYetError, match="follow=True continues"):
        scan.reduce(made=kind)
    seen = []
    for results in scan.reduce_partial(follow=True, made=kind):
        made = results["made"]
        seen.append(int(made.valid.sum()) if made.kind == "nav" else scan.head)
        instrument.write_frames(10)
    assert len(seen) > 3
    assert seen == sorted(seen)
    wanted = vfs.open(instrument.finished).reduce(made=kind)["made"]
    np.testing.assert_array_equal(made.data, wanted.data)
    assert made.dtype == wanted.dtype
    with pytest.raises(vfs.OptionError, match="takes no executor"):
        scan.reduce(follow=True, executor=object(), made=kind)


def test_tiles_come_when_they_are_whole(instrument: Instrument) -> None:
    instrument.write_frames(9)
    scan = followed(instrument, settle=SOON)
    out = np.zeros(scan.shape, scan.dtype)
    for region, tile in scan.tiles((1, -1, -1, -1), follow=True, workers=0):
        assert region.start[0] < 5 or instrument.recording.left < 900
        out[tuple(slice(a, b) for a, b in zip(region.start, region.stop, strict=True))] = tile
        instrument.write_frames(8)
    np.testing.assert_array_equal(out, instrument.frames)


def test_a_pass_reads_each_byte_once(tmp_path: Path) -> None:
    for name in ("before", "counted"):  # before, so that modules which a pass needs are loaded: that is reading, too
        (tmp_path / name).mkdir()
        instrument = instrument_of(tmp_path / name)
        instrument.write_frames(9)
        scan = followed(instrument, backend="buffered", settle=SOON)

        def follow(scan: Any = scan, instrument: Instrument = instrument) -> int:
            rounds = 0
            for _ in scan.reduce_partial(follow=True, workers=1, total=vfs.Sum()):
                instrument.write_frames(10)
                rounds += 1
            return rounds

        written = instrument.recording.left
        rounds, nbytes = counted(follow)
    frames = instrument.frames.nbytes
    opening = 10 * 4 * 1024  # headers, each time that the set is opened again
    assert rounds >= 4
    assert nbytes - written < 1.1 * frames + rounds * opening


def test_zarr_reads_what_is_there_and_fails_behind(instrument: Instrument) -> None:
    instrument.write_frames(17)
    scan = followed(instrument, chunks="1,-1,-1,-1")
    array = zarr.open_array(scan.store(), path="data", mode="r")
    np.testing.assert_array_equal(array[1], instrument.frames[1])
    with pytest.raises(vfs.NotYetError):
        array[2]
    instrument.write_frames(10)
    np.testing.assert_array_equal(array[2], instrument.frames[2])


def test_derived_arrays_obey_the_head(instrument: Instrument) -> None:
    instrument.write_frames(17)
    scan = followed(instrument, derive={"total": vfs.FrameSum(), "mean": vfs.Mean()})
    group = scan.group
    with pytest.raises(vfs.NotYetError):
        group["derived/total"][0]
    with pytest.raises(vfs.NotYetError):
        group["derived/mean"][...]
    instrument.finish(lambda: scan.head)
    np.testing.assert_array_equal(group["derived/total"][...], instrument.frames.sum((2, 3)))


def test_files_of_a_server_grow(instrument: Instrument) -> None:
    pytest.importorskip("obstore")
    instrument.write_frames(17)
    with RangeServer(instrument.path.parent) as server:
        scan = vfs.open(f"{server.url}/scan.hdr", follow=True, settle=NEVER, give_up=NEVER)
        assert scan.head == 17
        with pytest.raises(vfs.NotYetError, match="frame 25 of 48"):
            scan[3, 1]
        instrument.write_frames(10)
        np.testing.assert_array_equal(scan[3, 1], instrument.frames[3, 1])
        instrument.finish(lambda: scan.head)
        assert scan.wait(timeout=0)
        np.testing.assert_array_equal(scan[...], instrument.frames)
        instrument.recording.begin_anew()
        instrument.recording.write(2000)
        with pytest.raises(vfs.SourceError):
            scan[0, 0]


def test_pickles_follow_on_their_own(instrument: Instrument) -> None:
    instrument.write_frames(9)
    again = pickle.loads(pickle.dumps(followed(instrument)))
    instrument.write_frames(10)
    assert again.head == 19
    np.testing.assert_array_equal(again[2, 2], instrument.frames[2, 2])


def test_dask_reads_each_block_as_the_set_is_then(instrument: Instrument) -> None:
    pytest.importorskip("dask.array")
    instrument.write_frames(17)
    blocks = followed(instrument).dask(block=(1, -1, -1, -1))
    np.testing.assert_array_equal(blocks[1].compute(scheduler="threads"), instrument.frames[1])
    with pytest.raises(vfs.NotYetError):
        blocks[2].compute(scheduler="threads")
    instrument.write_frames(10)
    np.testing.assert_array_equal(blocks[2].compute(scheduler="processes"), instrument.frames[2])


def test_blank_shows_zeros_and_says_so(instrument: Instrument) -> None:
    instrument.write_frames(9)
    scan = followed(instrument, follow_blank=True)
    assert not scan[5, 7].any()
    assert scan.valid.sum() == 9
    assert scan.group.attrs["vfs"]["live"]["frames"] == 9
    instrument.write_frames(1)
    assert scan.valid.sum() == 10
    np.testing.assert_array_equal(scan[1, 1], instrument.frames[1, 1])


def test_a_writer_beside_never_makes_a_wrong_frame(instrument: Instrument) -> None:
    instrument.write_frames(2)
    scan = followed(instrument, settle=SOON)
    end = threading.Event()

    def write() -> None:
        while instrument.recording.write(97):
            pass
        end.set()

    def rounds() -> Iterator[int]:
        n = 0
        while not end.is_set() and n < 200:
            yield n
            n += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in rounds():
            for n in range(48):
                try:
                    frame = scan[divmod(n, SCAN[1])]
                except vfs.NotYetError:
                    break
                np.testing.assert_array_equal(frame, instrument.frames[divmod(n, SCAN[1])])
    finally:
        writer.join()
    assert scan.wait(timeout=250)


@pytest.mark.parametrize("frames", [1, 7, 20, 33])
def test_preallocated_files_have_no_frames_that_nobody_wrote(tmp_path: Path, frames: int) -> None:
    """Opened without `follow`: what was not written is said, and is never a frame of zeros."""
    made = instrument_of(tmp_path, preallocate=True)
    made.write_frames(frames)
    with pytest.warns(vfs.IncompleteWarning, match="given its full size at once"):
        scan = vfs.open(made.path)
    # The last one that was begun is not counted, since nothing tells that it is whole
    held = int(scan.valid.sum())
    assert frames - 2 <= held <= frames
    np.testing.assert_array_equal(scan[...].reshape(48, -1)[:held], made.frames.reshape(48, -1)[:held])


def _raw(path: Path, frames: np.ndarray) -> dict[str, Any]:
    path.write_bytes(frames.tobytes())
    return {"format": "raw", "stored_dtype": "<u2", "sig_shape": frames.shape[1:], "nav_shape": frames.shape[:1]}


def _npy(path: Path, frames: np.ndarray) -> dict[str, Any]:
    np.save(path.with_suffix(".npy"), frames)
    path.with_suffix(".npy").rename(path)
    return {"format": "npy"}


def _mrc(path: Path, frames: np.ndarray) -> dict[str, Any]:
    write_mrc(path.parent, frames, 6).rename(path)
    return {"format": "mrc"}


@pytest.mark.parametrize("filled", ["hole", "zeros"])
@pytest.mark.parametrize("write", [_raw, _npy, _mrc], ids=["raw", "npy", "mrc"])
def test_a_writer_that_rests_in_a_file_of_full_size_proves_nothing(
    tmp_path: Path, write: Callable[[Path, np.ndarray], dict[str, Any]], filled: str
) -> None:
    """However long it rests: what was not written is not there. Frames have no headers that would tell."""
    frames = np.random.default_rng(5).integers(1, 4000, (12, 64, 64), dtype="u2")
    frames[:, -1] = 0  # pixels at the end of each frame
    frames[4:6] = 0  # frames in which nothing was counted
    path = tmp_path / "scan.bin"
    how = write(path, frames) | {"follow": True, "settle": 0.0, "give_up": NEVER}
    whole, size = path.read_bytes(), frames[0].nbytes
    first = len(whole) - 12 * size

    def written(nbytes: int) -> None:
        path.write_bytes(whole[: first + nbytes])
        if filled == "hole":
            os.truncate(path, len(whole))
        else:
            with path.open("ab") as file:
                file.write(bytes(len(whole) - first - nbytes))

    def put(nbytes: int) -> None:
        with path.open("r+b") as file:
            file.write(whole[: first + nbytes])

    written(0)
    with pytest.raises(vfs.NotYetError, match="count as not written"):
        vfs.open(path, **how)
    put(3 * size + 100)
    scan = vfs.open(path, **how)
    assert scan.head == vfs.open(path, **how).head == 3
    heads = []
    for nbytes in (5 * size, 7 * size + 100, 11 * size + 100, 11 * size + 200):
        put(nbytes)
        heads.append(scan.head)
        np.testing.assert_array_equal(scan[: heads[-1]], frames[: heads[-1]])
        with pytest.raises(vfs.NotYetError):
            scan[heads[-1]]
    # Zeros that somebody wrote prove nothing, but the disk knows which of the holes were filled
    assert heads == ([3, 7, 11, 11] if filled == "hole" else [3] * 4)
    put(12 * size)
    assert scan.head == heads[-1]  # its last pixels are 0: what is not 0 could be the beginning of it
    last = vfs.open(path, **{**how, "give_up": 0.0})
    assert last.complete
    np.testing.assert_array_equal(last[...], frames)


def test_a_file_that_is_written_anew_past_its_size_is_another_acquisition(tmp_path: Path) -> None:
    frames = np.random.default_rng(6).integers(1, 99, (2, 12, 8, 8), dtype="u1")
    path = tmp_path / "movie.raw"
    path.write_bytes(frames[0, :5].tobytes() + b"1")
    how: dict[str, Any] = {"stored_dtype": "u1", "sig_shape": (8, 8), "nav_shape": (12,)}
    scan = vfs.open(path, **how, follow=True, settle=NEVER)
    assert scan.head == 5
    with path.open("r+b") as file:  # the same file, longer by the time that somebody looks
        file.truncate(0)
        file.write(frames[1, :9].tobytes())
    with pytest.raises(vfs.SourceChangedError, match="restarted"):
        scan[0]
    with pytest.raises(vfs.SourceChangedError, match="restarted"):
        scan.head  # noqa: B018


@pytest.mark.parametrize("left_out", [(4, 5), (1,)])
def test_planes_without_a_place_yet_are_not_blank(tmp_path: Path, left_out: tuple[int, ...]) -> None:
    """An index names planes in the order in which they are recorded, so that they may be missing between others."""
    planes = np.arange(1, 6 * 64 + 1, dtype="u2").reshape(2, 3, 8, 8)
    index = write_ndtiff(tmp_path, planes, {"time": (0, 1), "z": (0, 1, 2)}, left_out=left_out)
    array = vfs.open(index, follow=True, settle=600.0)
    assert array.head == left_out[0]
    for number, position in enumerate(np.ndindex(2, 3)):
        if number < left_out[0]:
            np.testing.assert_array_equal(array[position], planes[position])
        else:
            with pytest.raises(vfs.NotYetError):
                array[position]
    stopped = vfs.open(index, follow=True, settle=0.0, give_up=0.0)
    stopped.head  # noqa: B018 (a look, after which it is not followed any more)
    np.testing.assert_array_equal(stopped[0, 0], planes[0, 0])
    assert not stopped[divmod(left_out[0], 3)].any()  # as of any set that was stopped


def test_an_ndtiff_is_over_when_its_files_are_cut(tmp_path: Path) -> None:
    """Micro-Manager gives them more room than they need, and cuts them in the end: that is no other acquisition."""
    planes = np.arange(1, 6 * 64 + 1, dtype="u2").reshape(2, 3, 8, 8)
    index = write_ndtiff(tmp_path, planes, {"time": (0, 1), "z": (0, 1, 2)}, files=2, left_out=(4,))
    files = [index, *sorted(tmp_path.glob("*.tif"))]
    whole = {path: path.read_bytes() for path in files}
    index.write_bytes(whole[index][: len(whole[index]) // 5 * 2] + bytes(1000))
    for path in files:
        os.truncate(path, 1 << 20)
    array = vfs.open(index, follow=True, settle=0.0, give_up=NEVER)
    shown = vfs.open(index, follow=True, settle=0.0, give_up=NEVER, nav_shape=(6,))
    assert shown.head == 2
    with index.open("r+b") as file:
        file.write(whole[index])
    assert (shown.head, array.refresh().head, array.complete) == (4, 4, False)
    for path, content in whole.items():
        os.truncate(path, len(content))
    assert (shown.wait(timeout=0), array.wait(timeout=0), array.complete) == (True, True, True)
    last = array.refresh()
    assert last.valid.tolist() == [[True] * 3, [True, False, True]]
    np.testing.assert_array_equal(last[1, ::2], planes[1, ::2])
    np.testing.assert_array_equal(shown[:4], planes.reshape(6, 8, 8)[:4])


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
@pytest.mark.parametrize("modules", [(1, 1), (2, 2)])
def test_frames_that_a_module_dropped_hold_nothing_up(tmp_path: Path, modules: tuple[int, int]) -> None:
    """A module that has a later one will not write them any more."""
    frames = np.random.default_rng(3).integers(1, 99, (12, 8, 16), dtype="u2") * 257
    lost = {0: [3, 7]} if modules == (1, 1) else {0: [2], 1: [2, 5], 3: [9]}
    master = write_sls(tmp_path, frames, modules, dropped=lost)
    twin = np.asarray(vfs.open(master)[...])
    whole = {path: path.read_bytes() for path in tmp_path.glob("*.raw")}
    size = max(map(len, whole.values())) // 5
    for path in whole:
        path.unlink()
    heads = []
    for number in range(2, 25):  # half frames of each module, whichever file they belong to
        for path, content in whole.items():
            begin = int(path.name.split("_f")[1].split("_")[0]) * 5 * size
            if number * size // 2 > begin:
                path.write_bytes(content[: number * size // 2 - begin])
        scan = vfs.open(master, follow=True, settle=NEVER, give_up=NEVER)
        heads.append(scan.head)
        for n in range(12):
            if n < heads[-1]:
                np.testing.assert_array_equal(scan[n], twin[n])
            else:
                with pytest.raises(vfs.NotYetError):
                    scan[n]
    assert heads == sorted(heads)
    assert heads[8:10] == [6 if modules == (1, 1) else 5] * 2
    ended = vfs.open(master, follow=True, settle=0.0, give_up=NEVER)
    assert ended.wait(timeout=0)
    np.testing.assert_array_equal(ended[...], twin)


def test_a_text_that_comes_first_says_how_many_planes_there_will_be(tmp_path: Path) -> None:
    planes = np.random.default_rng(6).integers(1, 99, (6, 8, 8), dtype="u1")
    path = tmp_path / "stack.tif"
    pytest.importorskip("tifffile").imwrite(path, planes, imagej=True)
    whole = path.read_bytes()
    end = whole.index(planes[3].tobytes())
    path.write_bytes(whole[: end + 1])
    stack = vfs.open(path, follow=True, settle=NEVER, give_up=NEVER)
    assert (stack.shape, stack.head) == ((6, 8, 8), 3)
    assert stack.group.attrs["vfs"]["live"] == {"frames": 3, "of": 6, "complete": False}
    np.testing.assert_array_equal(stack[:3], planes[:3])
    with pytest.raises(vfs.NotYetError):
        stack[3]
    path.write_bytes(whole)
    ended = vfs.open(path, follow=True, settle=0.0, give_up=NEVER)
    assert ended.wait(timeout=0)
    for one in (stack, ended):
        np.testing.assert_array_equal(one[...], planes)
