"""Passes whose partitions executors work on: pools of threads and processes, a cluster of dask."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.reduce import spread
from tests.reduce.spread import Broken, Deadly, FrameMean, Slow, Where
from tests.waiting import eventually
from vfs.backends import choice
from vfs.outputs import executors
from vfs.outputs.executors import AHEAD, UNDER_WAY, in_order
from vfs.reduce import partitions
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_npy, write_raw

distributed = pytest.importorskip("distributed")

MANY: dict[str, vfs.Reduction] = {
    "sum": vfs.Sum(),
    "mean": vfs.Mean(),
    "std": vfs.Std(),
    "min": vfs.Min(),
    "each": vfs.FrameSum(),
    "centre": vfs.CenterOfMass(),
    "masks": vfs.Masks(np.random.default_rng(0).random((2, 40, 50))),
    "counts": vfs.Histogram(16, (0, 65536)),
    "tiles": FrameMean(),
    "where": Where(),
}
HOW: dict[str, Any] = {"format": "raw", "dtype": "u2", "sig_shape": (40, 50), "frame_header": 10}
CONVERTED = HOW | {"dtype": "f4", "stored_dtype": "u2"}
READ: dict[str, vfs.Reduction] = {"a": vfs.Max(), "b": vfs.Disk(20, 20, 9), "c": vfs.CenterOfMass()}


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 60000, (300, 40, 50)).astype("u2")


@pytest.fixture
def array(tmp_path: Path, frames: np.ndarray) -> vfs.VirtualArray:
    return vfs.open(write_raw(tmp_path, frames, frame_header=10, files=3), nav_shape=(15, 20), **HOW)


@pytest.fixture(autouse=True)
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut 300 frames of 4 kB into some twenty partitions."""
    monkeypatch.setattr(partitions, "PARTITION", 1 << 16)
    monkeypatch.setattr(partitions, "RETURNED", 0)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, frames: np.ndarray) -> None:
    """Compile kernels once, and not in each of four processes at the same time."""
    paths = write_raw(tmp_path_factory.mktemp("compiled"), frames, frame_header=10, files=3)
    for how in (HOW, CONVERTED):
        vfs.open(paths, **how, backend="buffered").reduce(**MANY, **READ, workers=0)


@pytest.fixture(scope="module")
def cluster(compiled: None) -> Iterator[Any]:
    """A cluster of four processes."""
    with (
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=":0", memory_limit=0
        ) as local,
        distributed.Client(local) as made,
    ):
        yield made


@pytest.fixture
def client(cluster: Any) -> Any:
    """A client of that cluster, all workers of which are there: a test before may have killed one."""
    cluster.wait_for_workers(4)
    return cluster


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(params=["client", "threads", "processes"])
def executor(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


# results


class _EnoughError(Exception):
    """Two partitions were made."""


class _Here:
    """Makes two partitions in the caller's thread."""

    made = 0

    def submit(self, work: Callable[..., Any], *task: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*task))
        self.made += 1
        if self.made == 2:
            raise _EnoughError
        return future


def test_a_huge_scan_takes_no_memory_for_each_frame(tmp_path: Path) -> None:
    with open(tmp_path / "a.raw", "wb") as file:
        file.truncate(1 << 38)  # sparse: 2 ** 31 frames
    array = vfs.open(tmp_path / "a.raw", format="raw", dtype="u2", sig_shape=(8, 8), backend="buffered")
    tracemalloc.start()
    try:
        with pytest.raises(_EnoughError):
            array.reduce(most=vfs.Max(), executor=_Here(), workers=1)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("roi", [None, np.random.default_rng(1).permutation(300)[:170]], ids=["all", "roi"])
def test_results_are_those_of_one_thread(
    array: vfs.VirtualArray, executor: Any, threads: ThreadPoolExecutor, roi: Any
) -> None:
    one = array.reduce(**MANY, roi=roi, workers=0)
    many = array.reduce(**MANY, roi=roi, executor=executor)
    others = array.reduce(**MANY, roi=roi, executor=threads, workers=1)
    for name, result in many.items():
        if result.dtype.kind in "iu" or result.kind == "nav":
            np.testing.assert_array_equal(result.data, one[name].data)
        else:
            np.testing.assert_allclose(result.data, one[name].data, rtol=1e-12)
        np.testing.assert_array_equal(result.data, others[name].data)  # to the last digit, whoever does it
        np.testing.assert_array_equal(result.valid, one[name].valid)
        assert (result.dims, result.units, result.kind) == (one[name].dims, one[name].units, one[name].kind)


def test_blank_frames_and_options_of_opening(tmp_path: Path, frames: np.ndarray, executor: Any) -> None:
    paths = write_raw(tmp_path, frames, frame_header=10, files=3)
    array = vfs.open(paths, **CONVERTED, nav_shape=(20, 20), sync_offset=-40)
    one, many = array.reduce(**MANY, workers=0), array.reduce(**MANY, executor=executor)
    for name, result in many.items():
        np.testing.assert_allclose(result.data, one[name].data, rtol=1e-12)
        np.testing.assert_array_equal(result.valid, one[name].valid)
    assert many["each"].valid.sum() == 300


def test_blocks_that_span_frames(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    h5py = pytest.importorskip("h5py")
    data = np.random.default_rng(5).integers(0, 999, (18, 22, 8, 9)).astype("u2")
    with h5py.File(tmp_path / "blocks.h5", "w") as file:
        file.create_dataset("data", data=data, chunks=(4, 5, 8, 3), compression="gzip")
    array = vfs.open(tmp_path / "blocks.h5")
    for roi in (None, np.arange(300)[::-3]):
        one = array.reduce(x=vfs.Sum(), y=Where(), z=vfs.FrameSum(), roi=roi, workers=0)
        many = array.reduce(x=vfs.Sum(), y=Where(), z=vfs.FrameSum(), roi=roi, executor=threads)
        for name, result in many.items():
            np.testing.assert_array_equal(result.data, one[name].data)
    part = partitions.PartOfPass(reader_of(array), {"z": vfs.FrameSum()}, None, 2, 4)  # of 5 units
    assert (part.origin, part.done.shape) == (8 * 22, (8 * 22,))


def test_partial_results(array: vfs.VirtualArray, frames: np.ndarray, executor: Any) -> None:
    shares, told = [], []
    given = array.reduce_partial(**MANY, parts=5, executor=executor, progress=lambda *at: told.append(at))
    for results in given:
        done = results["each"].valid.reshape(-1)
        shares.append(int(done.sum()))
        np.testing.assert_array_equal(results["sum"].data, frames[done].sum(0, dtype="u8"))
        np.testing.assert_array_equal(results["each"].selected[done], frames[done].sum((1, 2)))
    assert len(shares) == 5
    assert shares == sorted(set(shares))
    assert shares[-1] == 300
    assert (told[0], told[-1]) == ((0, 300), (300, 300))
    assert told == sorted(told)


# what is sent, opened and read


def test_what_is_sent_is_small(array: vfs.VirtualArray) -> None:
    sizes = []

    class Weighing:
        def submit(self, work: Callable[[Any], Any], task: Any) -> Future[Any]:
            sent = pickle.dumps((work, task))
            sizes.append(len(sent))
            future = Future[Any]()
            work, task = pickle.loads(sent)
            future.set_result(work(task))
            return future

    result = array.reduce(x=vfs.Sum(), executor=Weighing())
    assert result["x"].valid.all()
    assert len(sizes) > 10
    assert max(sizes) < 3000


def test_masks_that_a_relative_name_says_are_those_of_the_caller(
    tmp_path: Path, array: vfs.VirtualArray, monkeypatch: pytest.MonkeyPatch, processes: ProcessPoolExecutor
) -> None:
    processes.submit(os.getpid).result()  # has begun in another folder
    monkeypatch.chdir(tmp_path)
    np.save("m.npy", np.ones((40, 50), bool))
    result = array.reduce(x=vfs.Masks("m.npy"), y=vfs.FrameSum(), executor=processes)
    np.testing.assert_array_equal(result["x"].data, result["y"].data)


def test_a_mask_is_sent_small() -> None:
    chosen = np.flatnonzero(np.random.default_rng(0).random((1000, 1000)).cumsum() % 1000 < 700)
    packed = partitions._packed(chosen)
    assert len(packed) < chosen.nbytes / 50
    np.testing.assert_array_equal(partitions._unpacked(packed), chosen)


def test_each_worker_opens_the_set_once(array: vfs.VirtualArray, client: Any) -> None:
    client.run(spread.count_opening)
    array.reduce(**MANY, executor=client)
    array.reduce(x=vfs.Max(), executor=client)
    counts = client.run(spread.opened).values()
    assert len(counts) == 4
    assert 1 <= max(counts) == 1


def test_every_byte_is_read_once_and_none_is_mapped(tmp_path: Path, client: Any) -> None:
    frames = np.random.default_rng(3).integers(0, 60000, (256, 256, 256)).astype("u2")
    path = str(write_npy(tmp_path, frames))
    client.run(spread.reduced, path, {"backend": "buffered"}, READ)  # which loads kernels
    before, pages = client.run(spread.read_so_far), client.run(spread.mapped)
    vfs.open(path).reduce(**READ, executor=client)
    after, now = client.run(spread.read_so_far), client.run(spread.mapped)
    read = sum(after[worker] - before[worker] for worker in before)
    assert frames.nbytes <= read <= 1.05 * frames.nbytes
    assert sum(now[worker] - pages[worker] for worker in pages) < frames.nbytes / 4


def test_files_are_mapped_where_nobody_weighs_the_process(client: Any) -> None:
    assert choice("auto")[0] == "mmap"
    assert client.submit(choice, "auto").result()[0] == "buffered"
    assert client.submit(choice, "mmap").result()[0] == "mmap"


# what ends a pass


def taken(log: Path, executor: Any) -> int:
    """Frames that were taken. A pool was waited for; a cluster has workers that still have tasks."""
    if isinstance(executor, distributed.Client):
        assert eventually(lambda: not any(executor.run(spread.is_busy).values()))
    return log.stat().st_size


def test_who_leaves_partial_results_stops_the_workers(array: vfs.VirtualArray, executor: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    for _ in array.reduce_partial(x=Slow(log), parts=15, executor=executor):
        break
    assert 20 <= taken(log, executor) < 250


def test_what_progress_raises_stops_the_workers(array: vfs.VirtualArray, executor: Any, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    log = tmp_path / "log"
    log.touch()
    with pytest.raises(KeyboardInterrupt):
        array.reduce(x=Slow(log), executor=executor, progress=stop)
    assert taken(log, executor) < 250
    assert array.reduce(x=vfs.FrameSum(), executor=executor)["x"].valid.all()


def test_a_task_that_runs_is_stopped(
    array: vfs.VirtualArray, threads: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two partitions, one short and one long: it does not go on to its end, nor does the pool."""
    monkeypatch.setattr(partitions.SharedPass, "_edges", lambda self: [0, 5, 300])
    log = tmp_path / "log"
    log.touch()
    for _ in array.reduce_partial(x=Slow(log), parts=2, executor=threads):
        break
    assert taken(log, threads) < 150


def test_a_killed_worker_is_made_up_for(
    array: vfs.VirtualArray, client: Any, frames: np.ndarray, tmp_path: Path
) -> None:
    marker = tmp_path / "killed"
    result = array.reduce(x=Deadly(marker, 155), y=vfs.Sum(), executor=client)
    assert marker.exists()
    np.testing.assert_allclose(result["x"].selected, frames.mean((1, 2)))
    np.testing.assert_array_equal(result["y"].data, frames.sum(0, dtype="u8"))


def test_large_masks_go_to_dask_once_and_outlive_a_worker(
    array: vfs.VirtualArray, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "LARGE", 10_000)
    masks, roi, sizes, submit = (
        vfs.Masks(np.random.default_rng(0).random((2, 40, 50))),
        [*range(280)],
        [],
        client.submit,
    )

    def weighed(work: Any, *given: Any) -> Any:
        sizes.append(len(pickle.dumps([one for one in given if not isinstance(one, distributed.Future)])))
        return submit(work, *given)

    monkeypatch.setattr(client, "submit", weighed)
    result = array.reduce(m=masks, x=Deadly(tmp_path / "killed", 155), roi=roi, executor=client)
    assert (tmp_path / "killed").exists()
    np.testing.assert_allclose(result["m"].selected, array.reduce(m=masks, roi=roi)["m"].selected)
    assert [size > masks.array.nbytes for size in sizes] == [True] + [False] * (len(sizes) - 1)
    assert len(sizes) > 10
    assert max(sizes[1:]) < 1000


def test_a_pool_with_a_killed_process_says_so(array: vfs.VirtualArray, tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(vfs.ExecutorError, match=r"ended while it worked on part \d+:\d+ of data .* make a new one"):
            array.reduce(x=Deadly(tmp_path / "killed", 15), executor=pool)
        with pytest.raises(vfs.ExecutorError, match="takes no tasks"):
            array.reduce(x=vfs.Sum(), executor=pool)


def test_a_source_that_breaks_is_one_error(array: vfs.VirtualArray, executor: Any) -> None:
    array.reduce(x=vfs.Sum(), executor=executor)
    os.truncate(array.files[1], 5000)
    with pytest.raises(vfs.SourceError, match=rf"part1\.bin.* \[in process \d+ of {socket.gethostname()}\]") as caught:
        array.reduce(**MANY, executor=executor)
    assert caught.value.errno == errno.EIO


def test_a_worker_of_another_version_is_refused(
    array: vfs.VirtualArray, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its part was merged with those of this version."""
    monkeypatch.setattr("vfs.outputs.executors.code_key", lambda: "other")
    with pytest.raises(vfs.ExecutorError, match=r"a worker has other code of vfs than what merges the results \[in"):
        array.reduce(s=vfs.FrameSum(), executor=threads)


def test_a_set_that_changed_before_a_worker_opens_it(
    array: vfs.VirtualArray, executor: Any, tmp_path: Path, frames: np.ndarray
) -> None:
    assert len(array.files) == 3  # is opened here
    write_raw(tmp_path, frames[:200], frame_header=10, files=3)
    with pytest.raises(vfs.SourceChangedError, match=r"part\d\.bin"):
        array.reduce(x=vfs.Sum(), executor=executor)


def test_an_error_of_a_reduction_comes_out(array: vfs.VirtualArray, executor: Any) -> None:
    with pytest.raises(ZeroDivisionError, match="no"):
        array.reduce(x=Broken(), y=vfs.Sum(), executor=executor)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": 5}, "executor=5: expected something with `submit`, such as a pool of concurrent.futures or a Cl"),
        ({"executor": ThreadPoolExecutor}, "expected something with `submit`"),
        ({"executor": ThreadPoolExecutor(1), "workers": "2"}, "workers='2'"),
        ({"executor": ThreadPoolExecutor(1), "x": vfs.Disk(99, 99, 1)}, "^x: Disk"),
    ],
)
def test_options_that_do_not_fit(array: vfs.VirtualArray, options: dict[str, Any], message: str) -> None:
    with pytest.raises(vfs.OptionError, match=message):
        array.reduce(**{"x": vfs.Sum(), **options})


# executors


class ByHand:
    """Runs tasks when the test says so."""

    def __init__(self) -> None:
        self.futures: list[tuple[Future[int], Callable[[], int]]] = []

    def submit(self, work: Callable[[int], int], task: int) -> Future[int]:
        future = Future[int]()
        self.futures.append((future, lambda: work(task)))
        return future

    def run(self, k: int) -> None:
        future, work = self.futures[k]
        assert future.set_running_or_notify_cancel()
        future.set_result(work())


def test_tasks_that_wait_are_few() -> None:
    """A first task that takes long: the others are done meanwhile, but not all of them."""
    executor, seen = ByHand(), []
    given = in_order(executor, lambda k: seen.append(k) or k * k, range(100), 2, lambda: None)
    limit = 2 * UNDER_WAY
    with ThreadPoolExecutor(1) as aside:
        first = aside.submit(next, given)
        for k in range(1, AHEAD * limit):
            assert eventually(lambda k=k: len(executor.futures) > k)  # type: ignore[misc]
            under_way = [one for one, _ in executor.futures if not one.done()]
            assert len(under_way) <= limit
            executor.run(k)
        assert not first.done()
        assert len(executor.futures) == AHEAD * limit
        executor.run(0)
        assert first.result() == 0
    assert [next(given) for _ in range(5)] == [1, 4, 9, 16, 25]
    given.close()
    assert all(one.done() for one, _ in executor.futures)


def test_of_several_errors_the_first_comes_out() -> None:
    executor, stopped = ByHand(), []

    class Lazy(ByHand):
        def submit(self, work: Callable[[int], int], task: int) -> Future[int]:
            future = executor.submit(work, task)
            if task == 3:
                for k in (3, 1):
                    executor.futures[k][0].set_exception(ZeroDivisionError(k))
            return future

    given = in_order(Lazy(), lambda k: k, range(4), 2, lambda: stopped.append(True))
    with pytest.raises(ZeroDivisionError, match="1"):
        next(given)
    assert stopped
    assert [one.cancelled() for one, _ in executor.futures] == [True, False, True, False]


def test_how_many_an_executor_runs_at_once(threads: ThreadPoolExecutor, client: Any) -> None:
    assert executors.workers_of(threads, None) == 3
    assert executors.workers_of(client, None) == 4
    assert executors.workers_of(client, 2) == 2
    assert executors.workers_of(ByHand(), None) == os.cpu_count()
