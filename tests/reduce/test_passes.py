"""The pass: threads, partial results, progress, what is read, what ends it, what is refused."""

from __future__ import annotations

import errno
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.reduce.twins import FrameMean, opened
from vfs.backends.buffered import BufferedBackend
from vfs.reduce import passes
from vfs.testing.backends import CountingBackend, FailingBackend
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_mib, write_npy

MANY: dict[str, vfs.Reduction] = {
    "sum": vfs.Sum(),
    "mean": vfs.Mean(),
    "std": vfs.Std(),
    "max": vfs.Max(),
    "each": vfs.FrameSum(),
    "disk": vfs.Disk(20, 30, 9),
    "centre": vfs.CenterOfMass(),
    "masks": vfs.Masks(np.random.default_rng(0).random((2, 40, 50))),
    "rings": vfs.RadialSum(20, 30),
    "counts": vfs.Histogram(16, (0, 65536)),
}


@pytest.mark.parametrize("workers", [1, 2, 3, 7, None])
def test_threads_equal_one(array: vfs.VirtualArray, workers: int | None) -> None:
    one, many = array.reduce(**MANY, workers=0), array.reduce(**MANY, workers=workers)
    again = array.reduce(**MANY, workers=workers)
    for name, result in many.items():
        if result.dtype.kind in "iu" or result.kind == "nav":
            np.testing.assert_array_equal(result.data, one[name].data)
        else:
            np.testing.assert_allclose(result.data, one[name].data, rtol=1e-12)
        np.testing.assert_array_equal(result.data, again[name].data)  # to the last digit


def test_nobody_waits_for_a_slow_thread(array: vfs.VirtualArray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "STRETCH", 1)
    half, taken = array.valid.size // 2, threading.Event()

    class Slow(FrameMean):
        def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
            super().process(tile, region, buffers)
            if region.start[0] == 0:
                assert taken.wait(100), "the other thread leaves half of the frames to this one"
            elif region.stop[0] <= half:
                taken.set()

    found = array.reduce(x=Slow(), workers=2)["x"].data
    np.testing.assert_array_equal(found, array.reduce(x=FrameMean(), workers=0)["x"].data)


def test_sums_of_floats_do_not_depend_on_which_thread_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "STRETCH", 1)
    array = vfs.open(write_npy(tmp_path, np.random.default_rng(2).random((500, 8, 8))))
    work: dict[str, vfs.Reduction] = {"sum": vfs.Sum(), "std": vfs.Std(), "each": vfs.FrameSum()}
    first = array.reduce(**work, workers=3)
    for _ in range(5):
        for name, result in array.reduce(**work, workers=3).items():
            np.testing.assert_array_equal(result.data, first[name].data)


def test_many_in_one_pass_equal_each_by_itself(array: vfs.VirtualArray) -> None:
    together = array.reduce(**MANY)
    assert list(together) == list(MANY)
    for name, reduction in MANY.items():
        np.testing.assert_allclose(array.reduce(x=reduction)["x"].data, together[name].data, rtol=1e-12)


def test_one_pass_reads_every_byte_once(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames, backend="buffered")
    for reductions in (MANY, {**MANY, "tiles": FrameMean()}):
        array.reduce(**reductions)  # which loads kernels, and that counts
        counting = CountingBackend(BufferedBackend(reader_of(array).dataset.files))
        reader_of(array).backend = counting
        array.reduce(**reductions, workers=2)
        assert frames.nbytes <= counting.nbytes <= frames.nbytes + 10 * len(frames)  # with the headers between frames


def test_only_the_rows_of_a_mask_are_read(tmp_path: Path) -> None:
    frames = np.random.default_rng(3).integers(0, 60000, (50, 256, 256)).astype("u2")
    array = vfs.open(write_npy(tmp_path, frames), backend="buffered")
    reductions = {"x": vfs.Rectangle(100, 3, 120, 90), "y": vfs.Point(99, 3)}
    array.reduce(**reductions)  # which loads kernels, and that counts
    reader_of(array).backend = counting = CountingBackend(BufferedBackend(reader_of(array).dataset.files))
    result = array.reduce(**reductions)
    assert (result["x"].data == frames[:, 100:120, 3:90].sum((1, 2))).all()
    assert (result["y"].data == frames[:, 99, 3]).all()
    assert counting.nbytes == 50 * 21 * 256 * 2


def read_so_far() -> int:
    """Bytes that this process has read, from files or memory of the kernel."""
    return int(re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())[1])  # type: ignore[index]


def test_the_process_reads_every_byte_once(tmp_path: Path) -> None:
    frames = np.random.default_rng(3).integers(0, 60000, (128, 256, 256)).astype("u2")
    array = vfs.open(write_mib(tmp_path, frames), backend="buffered")
    reductions = {"a": vfs.Sum(), "b": vfs.Disk(128, 128, 40), "c": vfs.CenterOfMass()}
    array.reduce(**reductions)  # which loads kernels
    before = read_so_far()
    array.reduce(**reductions)
    assert frames.nbytes <= read_so_far() - before <= 1.02 * frames.nbytes


# while it runs


def test_partial_results(array: vfs.VirtualArray, frames: np.ndarray) -> None:
    shares, final = [], None
    for results in array.reduce_partial(**MANY, tiles=FrameMean(), parts=5, workers=2):
        done = results["disk"].valid.reshape(-1)
        shares.append(int(done.sum()))
        np.testing.assert_array_equal(results["sum"].data, frames[done].sum(0, dtype="u8"))
        np.testing.assert_allclose(results["mean"].data, frames[done].mean(0))
        np.testing.assert_array_equal(results["each"].selected[done], frames[done].sum((1, 2)))
        assert np.isnan(results["centre"].selected[~done]).all()
        if final is None:
            first, kept = results["sum"], results["sum"].data.copy()
        final = results
    assert shares == [60, 120, 180, 240, 300]
    assert final is not None
    np.testing.assert_array_equal(first.data, kept)  # what was given is not written to
    whole = array.reduce(**MANY)
    for name in MANY:
        np.testing.assert_allclose(final[name].data, whole[name].data, rtol=1e-12)


@pytest.mark.parametrize("workers", [0, 3])
def test_results_are_the_callers_own(array: vfs.VirtualArray, frames: np.ndarray, workers: int) -> None:
    first = array.reduce(a=vfs.Sum(), b=vfs.Sum(), c=vfs.Max(), workers=workers)
    for name in ("a", "c"):
        first[name].data[...] = 0
    again = array.reduce(a=vfs.Sum(), c=vfs.Max(), workers=workers)
    for name, result in (("first", first["b"]), ("again", again["a"])):
        np.testing.assert_array_equal(result.data, frames.sum(0, dtype="u8"), err_msg=name)
    np.testing.assert_array_equal(again["c"].data, frames.max(0))


def test_leaving_partial_results_ends_the_reading(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames, backend="buffered")
    reader_of(array).backend = counting = CountingBackend(BufferedBackend(reader_of(array).dataset.files))
    for _ in array.reduce_partial(x=vfs.Sum(), parts=10, workers=2):
        break
    assert counting.nbytes <= frames.nbytes * 0.11
    assert not workers_left()


@pytest.mark.parametrize("workers", [0, 2])
def test_progress(array: vfs.VirtualArray, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "TOLD", 0.0)
    seen: list[tuple[int, int]] = []
    array.reduce(x=vfs.Sum(), y=FrameMean(), workers=workers, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 300)
    assert seen[-1] == (300, 300)
    assert seen == sorted(seen)


def test_progress_counts_only_what_is_stored(array: vfs.VirtualArray, tmp_path: Path, frames: np.ndarray) -> None:
    seen: list[tuple[int, int]] = []
    opened(tmp_path, frames, sync_offset=-40).reduce(
        x=vfs.Sum(), roi=range(30, 50), progress=lambda *at: seen.append(at)
    )
    assert (seen[0], seen[-1]) == ((0, 10), (10, 10))


def workers_left() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("vfs-reduce")]


class Slow(FrameMean):
    """Takes its time."""

    tile_bytes = 4000

    def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
        time.sleep(0.002)
        super().process(tile, region, buffers)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_progress_raises_ends_the_pass(array: vfs.VirtualArray, workers: int) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        array.reduce(x=Slow(), workers=workers, progress=stop)
    assert not workers_left()


INTERRUPTED = """
import os, sys, threading, time
import numpy as np
import vfs

class Endless(vfs.Reduction):
    tile_bytes = 1
    def buffers(self, frames):
        return {"x": ("nav", "f8", ())}
    def process(self, tile, region, buffers):
        os.write(1, b"go" + bytes([10]))  # in one piece, also of two threads
        time.sleep(0.02)

array = vfs.open(sys.argv[1])
try:
    array.reduce(x=Endless(), workers=int(sys.argv[2]))
except KeyboardInterrupt:
    print("left", [t.name for t in threading.enumerate()], flush=True)
    array.reduce(x=vfs.Sum())
    print("fine", flush=True)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_leaves_nothing_running(tmp_path: Path, workers: int) -> None:
    path = write_npy(tmp_path, np.zeros((4000, 300, 300), "u1"))
    command = [sys.executable, "-c", INTERRUPTED, str(path), str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGINT)
        rest = [line for line in process.stdout.read().splitlines() if line != "go"]
    assert rest == ["left ['MainThread']", "fine"]
    assert process.returncode == 0


# what fails


@pytest.mark.parametrize("reductions", [{"x": vfs.Sum()}, {"x": vfs.Sum(), "y": FrameMean()}])
@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_a_read_that_fails_is_an_error(
    tmp_path: Path, frames: np.ndarray, reductions: dict[str, vfs.Reduction], workers: int, backend: str
) -> None:
    array = opened(tmp_path, frames, backend=backend)
    os.truncate(array.files[1], 5000)
    with pytest.raises(vfs.SourceError, match=r"part1\.bin") as caught:
        array.reduce(**reductions, workers=workers)
    assert re.search(r"\d[\d,]*", str(caught.value))
    assert re.search(r"reading (selected )?frames of data\[", str(caught.value))
    assert caught.value.errno == errno.EIO
    assert not workers_left()


def test_an_error_of_the_storage_is_one(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames, backend="buffered")
    inner = BufferedBackend(reader_of(array).dataset.files)
    reader_of(array).backend = FailingBackend(inner, lambda file, start, stop: file == 2)
    for workers in (0, 2):
        with pytest.raises(vfs.SourceError):
            array.reduce(**MANY, workers=workers)
    assert array.reduce(x=vfs.FrameSum(), roi=np.arange(200))["x"].valid.sum() == 200


def test_an_error_of_a_reduction_comes_out(array: vfs.VirtualArray) -> None:
    class Broken(FrameMean):
        def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
            raise ZeroDivisionError("no")

    for workers in (0, 2):
        with pytest.raises(ZeroDivisionError, match="no"):
            array.reduce(x=Broken(), workers=workers)
    assert not workers_left()


def test_no_frames_at_all(tmp_path: Path) -> None:
    array = vfs.open(write_npy(tmp_path, np.zeros((0, 4, 5), "u2")))
    (last,) = array.reduce_partial(x=vfs.Sum(), each=vfs.FrameSum(), mean=vfs.Mean())
    assert [last[name].data.shape for name in last] == [(4, 5), (0,), (4, 5)]
    assert not last["x"].valid.any()
    assert np.isnan(last["mean"].data).all()
    assert last["each"].inner == last["each"].bounding == (slice(0, 0),)


def test_any_name_but_those_of_the_arguments(array: vfs.VirtualArray, frames: np.ndarray) -> None:
    names = ("self", "array", "reductions", "parts", "my name", "a/b", "")
    results = array.reduce(**dict.fromkeys(names, vfs.Point(0, 0)))
    assert list(results) == list(names)
    assert all((results[name].selected == frames[:, 0, 0]).all() for name in names)


def test_tiles_cannot_be_written_to(array: vfs.VirtualArray) -> None:
    class Writes(FrameMean):
        def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
            tile[:] = 0

    with pytest.raises(ValueError, match="read-only"):
        array.reduce(x=Writes(), y=vfs.Sum())


def test_more_parts_than_frames(array: vfs.VirtualArray) -> None:
    assert len(list(array.reduce_partial(x=vfs.Sum(), parts=10**12))) == 300


def test_only_blocks_with_frames_that_are_wanted_are_gone_through(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "set.h5", "w") as file:
        data = file.create_dataset("data", (40, 50, 300, 300), "u2", chunks=(2, 3, 300, 300))
        for k in (3, 17, 39):
            data[k, k] = k
    array = vfs.open(tmp_path / "set.h5")
    every, some = {"s": vfs.FrameSum()}, [17 * 50 + 17, 0, 3 * 50 + 3, 17 * 50 + 17]
    for roi, units in ((None, 3), (some, 2), ([0], 0)):
        assert passes.Pass(reader_of(array), every, roi).supply.units == units
    found = array.reduce(**every, roi=some)["s"]
    assert (found.selected // 300**2).tolist() == [17, 0, 3, 17]
    assert array.reduce(**every)["s"].data.sum() // 300**2 == 3 + 17 + 39


def test_frames_of_few_pixels(tmp_path: Path) -> None:
    """So many that what is held for each of them must not grow with what is taken at once."""
    frames = np.random.default_rng(0).integers(0, 9, (100_000, 1, 3)).astype("u1")
    array = vfs.open(write_npy(tmp_path, frames))
    results = array.reduce(
        each=vfs.FrameSum(), m=vfs.Masks(np.array([[[1.5, 0, 2]], [[0, 0, 3]]])), sum=vfs.Sum(), tiles=FrameMean()
    )
    assert (results["each"].data == frames.sum((1, 2))).all()
    np.testing.assert_allclose(results["m"].data, frames[:, 0] @ np.array([[1.5, 0], [0, 0], [2, 3]]))
    np.testing.assert_allclose(results["tiles"].data, frames.mean((1, 2)))


# results


def test_a_result_is_an_array(array: vfs.VirtualArray, frames: np.ndarray) -> None:
    result = array.reduce(
        image=vfs.Disk(20, 30, 9), rings=vfs.RadialSum(20, 30, 4), mean=vfs.Mean(), h=vfs.Histogram(8, (0, 64))
    )
    image = result["image"]
    assert (image.kind, image.dims, image.shape, image.dtype, image.ndim, len(image)) == (
        "nav",
        ("scan_y", "scan_x"),
        (15, 20),
        np.dtype("u8"),
        2,
        15,
    )
    assert np.asarray(image) is image.data
    assert np.asarray(image, "f4").dtype == "f4"
    assert image[3, 4] == image.data[3, 4]
    assert image.bounding == image.inner == (slice(0, 15), slice(0, 20))
    assert repr(image) == "<vfs.Result image (nav) (scan_y: 15, scan_x: 20) uint64>"
    rings = result["rings"]
    assert (rings.dims, rings.shape) == (("scan_y", "scan_x", "ring"), (15, 20, 4))
    assert rings.calibration["ring"] == {"scale": 1.0, "offset": 0.5, "unit": "px"}
    assert rings.masked.shape == (15, 20, 4)
    assert (result["mean"].kind, result["mean"].dims) == ("sig", ("y", "x"))
    assert result["h"].calibration["value"] == {"scale": 8.0, "offset": 4.0, "unit": ""}
    again = pickle.loads(pickle.dumps(image))
    assert (again.data == image.data).all()


def test_reductions_can_be_sent() -> None:
    for reduction in MANY.values():
        again = pickle.loads(pickle.dumps(reduction))
        assert type(again) is type(reduction)


def test_calibration_and_units(tmp_path: Path, frames: np.ndarray) -> None:
    (tmp_path / "x.vfs.json").write_text(
        '{"vfs": 1, "dtype": "<u2", "shape": [15, 20, 40, 50], "dims": ["scan_y", "scan_x", "y", "x"],'
        ' "sig_ndim": 2, "files": ["x.raw"],'
        ' "conventions": {"units": "counts"},'
        ' "attributes": {"calibration": {"scan_y": {"scale": 2.0, "unit": "nm"},'
        ' "x": {"scale": 0.5, "offset": -3, "unit": "mrad"}}},'
        ' "blocks": [{"file": 0, "offset": 0, "origin": [0, 0, 0, 0], "shape": [15, 20, 40, 50]}]}'
    )
    frames.tofile(tmp_path / "x.raw")
    array = vfs.open(tmp_path / "x.vfs.json")
    results = array.reduce(sum=vfs.Sum(), image=vfs.Disk(20, 30, 9), centre=vfs.CenterOfMass())
    assert results["sum"].calibration == {"x": {"scale": 0.5, "offset": -3.0, "unit": "mrad"}}
    assert results["image"].calibration == {"scan_y": {"scale": 2.0, "offset": 0.0, "unit": "nm"}}
    assert [result.units for result in results.values()] == ["counts", "counts", "px"]


# reductions of one's own


class Largest(vfs.Reduction):
    """Merges in a way of its own, and wants tiles of about three frames."""

    kind = "single"
    tile_bytes = 3 * 40 * 50 * 2

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def buffers(self, frames: Any) -> Mapping[str, Any]:
        assert (frames.shape, frames.dtype, frames.count) == ((40, 50), np.dtype("u2"), 300)
        return {"most": ("single", frames.dtype, ())}

    def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
        self.lengths.append(len(tile))
        buffers["most"][...] = max(buffers["most"], tile.max())

    def merge(self, into: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> None:
        into["most"][...] = max(into["most"], other["most"])


def test_tiles_of_the_size_that_was_asked_for(array: vfs.VirtualArray, frames: np.ndarray) -> None:
    largest = Largest()
    assert array.reduce(x=largest, workers=2)["x"].data == frames.max()
    assert max(largest.lengths) == 3
    assert sum(largest.lengths) == 300
