"""Whole chunks the short way: the same bytes as the engine's, planned once, in memory that nobody else has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.engine.support import in_memory
from vfs.buffers import MemoryLender
from vfs.engine import chunk_access as module
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.chunk_access import Chunks, ChunkView
from vfs.errors import RegionError, SourceError
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout, FrameRecord, Scan
from vfs.model.stored import StoredArray
from vfs.testing.backends import MemoryBackend, memory_files
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_raw


def expected(array: ArrayReader, position: tuple[int, ...]) -> bytes:
    return Chunks(array).make(position).tobytes()


@given(st.data())
def test_every_chunk_is_that_of_the_engine(data: st.DataObject) -> None:
    """Frames in files of any length with holes, headers and footers, scans that begin before or
    after them, chunks of any shape.
    """
    draw = data.draw
    sig = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    dtype = np.dtype(draw(st.sampled_from(["<u2", ">u2", "u1"])))
    counts = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    header, footer, before = (draw(st.integers(0, 3)) for _ in range(3))
    holes = np.cumsum([draw(st.integers(0, 2)) for _ in counts])
    first = np.cumsum(counts) - counts + holes
    layout = FrameLayout.of(
        FrameRecord(sig, dtype.itemsize, header=header, footer=footer), counts, file_header=before, first=first
    )
    rng = np.random.default_rng(0)
    files = [rng.integers(0, 255, before + n * layout.stride, np.uint8).tobytes() for n in counts]
    nav = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    layout = layout.arranged(Scan(nav, draw(st.integers(-2, 3))))
    shape = nav + sig
    dataset = StoredArray(
        "data", memory_files(files), layout, PlainDecoder(dtype), shape, tuple("abcd"[: len(shape)]), len(nav), fill=7
    )
    cut = tuple(draw(st.integers(1, n)) for n in nav) + (
        sig if draw(st.booleans()) else tuple(draw(st.integers(1, n)) for n in sig)
    )
    array = ArrayReader(dataset, MemoryBackend(files, copies=draw(st.booleans())), chunks=cut)
    chunks = Chunks(array)
    for _ in range(2):
        for position in np.ndindex(array.grid.counts):
            got = chunks.get(position)
            assert (got.dtype, got.shape, got.flags.writeable) == (np.uint8, (array.chunk_bytes,), False)
            assert got.tobytes() == expected(array, position)


@pytest.mark.parametrize("cut", [(1, 6, 7), (2, 6, 7), (20, -1, -1)])
@pytest.mark.parametrize("stored", ["<u2", ">u2"])
def test_chunks_of_whole_frames_are_planned_once(
    stored: str, cut: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).integers(0, 60_000, (40, 6, 7)).astype("<u2")
    array = in_memory(values, stored, header=6, chunks=cut)
    chunks = Chunks(array)
    wanted = [expected(array, position) for position in np.ndindex(array.grid.counts)]
    planned: list[Any] = []
    plan = FrameLayout.read_ranges
    monkeypatch.setattr(FrameLayout, "read_ranges", lambda *given: planned.append(given) or plan(*given))  # type: ignore[func-returns-value]
    assert [chunks.get(position).tobytes() for position in np.ndindex(array.grid.counts)] == wanted
    assert 0 < len(planned) <= 2, "a chunk, and a frame where a chunk is read in pieces"


def indices(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    def part(n: int) -> st.SearchStrategy[Any]:
        ends = st.integers(0, n)
        steps = st.sampled_from([None, 1, 1, 2, -1])
        return st.one_of(
            st.integers(-n, n - 1), st.just(slice(None)), st.slices(n), st.builds(slice, ends, ends, steps)
        )

    lists = st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=4).map(lambda chosen: (np.array(chosen),))
    masks = st.lists(st.booleans(), min_size=shape[0], max_size=shape[0]).map(lambda mask: (np.array(mask),))
    basic = st.tuples(*map(part, shape)).flatmap(lambda parts: st.integers(0, len(parts)).map(lambda n: parts[:n]))
    return st.one_of(basic, basic.map(lambda parts: (*parts, ...)), lists, masks, st.integers(0, shape[0] - 1))


@given(st.data())
def test_a_view_is_the_chunk(data: st.DataObject) -> None:
    """As bytes, as elements and in its shape, whole or any part of it, once and again."""
    nav = data.draw(st.sampled_from([(13,), (3, 5), (1, 4)]))
    values = np.random.default_rng(0).integers(0, 60_000, (*nav, 3, 4)).astype("<u2")
    cut = data.draw(
        st.sampled_from([c for c in [(4,), (1,), (1, 1), (1, 5), (2, 5), (1, 4), (1, 2)] if len(c) == len(nav)])
    )
    stored = data.draw(st.sampled_from(["<u2", ">u2"]))
    array = in_memory(values, stored, len(nav), 6, chunks=(*cut, 3, 4))
    chunks = Chunks(array)
    for position in np.ndindex(array.grid.counts):
        view = chunks.view(position)
        twin = Chunks(array).make(position)
        whole = all(p * c + c <= n for p, c, n in zip(position, array.chunks, array.shape, strict=True))
        assert (view is not None) == (whole and not (stored == "<u2" and cut in ((1,), (1, 1))))
        if view is None:
            continue
        assert (view.dtype, view.shape, view.ndim, view.size, view.nbytes, len(view)) == (
            np.uint8,
            (twin.nbytes,),
            1,
            twin.nbytes,
            twin.nbytes,
            twin.nbytes,
        )
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, twin.nbytes)] * 2)))
        assert np.asarray(view).tobytes() == twin.tobytes()
        assert np.asarray(view[first:last]).tobytes() == twin.tobytes()[first:last]
        elements = view.view("<u2")
        shaped = elements.reshape(array.chunks)
        np.testing.assert_array_equal(np.asarray(elements), twin.reshape(-1), strict=True)
        np.testing.assert_array_equal(np.asarray(elements[1:5]), twin.reshape(-1)[1:5], strict=True)
        np.testing.assert_array_equal(np.asarray(shaped), twin, strict=True)
        for _ in range(3):
            key = data.draw(indices(array.chunks))
            np.testing.assert_array_equal(np.asarray(shaped[key]), twin[key], strict=True)


def test_a_view_is_an_array_to_who_wants_one() -> None:
    array = in_memory(np.arange(4 * 6, dtype="<u2").reshape(4, 2, 3), ">u2", chunks=(2, 2, 3))
    view = Chunks(array).view((1, 0, 0))
    assert view is not None
    shaped, twin = view.view("<u2").reshape((2, 2, 3)), Chunks(array).make((1, 0, 0))
    assert isinstance(shaped, ChunkView)
    for act in (
        lambda a: a.astype("f4"),
        lambda a: a.copy(),
        lambda a: a.transpose((1, 0, 2)),
        lambda a: a.ravel(),
        lambda a: a.all(),
        lambda a: a == twin,
        lambda a: a.reshape(3, 4),
        lambda a: a.reshape(-1, order="F"),
        lambda a: a.tolist(),
        lambda a: a.sum(),
        lambda a: np.asarray(a, "f8"),
        lambda a: a.T,
        lambda a: np.add(a, 1),
        list,
    ):
        np.testing.assert_array_equal(act(shaped), act(twin), strict=True)  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="read-only"):
        shaped[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        shaped.fill(1)
    with pytest.raises(IndexError):
        shaped[2]
    for name in ("__array_interface__", "__array_struct__", "__cuda_array_interface__", "nothing"):
        assert not hasattr(shaped, name)
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises(ValueError, match="without a copy"):
            np.asarray(shaped, copy=False)


def test_only_what_is_looked_at_is_read(tmp_path: Path) -> None:
    """One frame of a chunk of sixteen: an unreadable one beside it does not matter, and memory is one frame's."""
    lent: list[int] = []

    class Counting(MemoryLender):
        def lend(self, size: int) -> np.ndarray:
            lent.append(size)
            return super().lend(size)

    array = in_memory(np.arange(16 * 64, dtype="<u2").reshape(16, 8, 8), ">u2", header=4, chunks=(16, 8, 8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "lender", Counting())
        view = Chunks(array).view((0, 0, 0))
        assert view is not None
        assert lent == []
        shaped = view.view("<u2").reshape((16, 8, 8))
        np.testing.assert_array_equal(shaped[5, 2:4], array[5, 2:4])
        np.testing.assert_array_equal(shaped[5:7, 2:4, 1], array[5:7, 2:4, 1])
        assert sum(lent) <= 128 + 2 * 2 * 8 * 2


@pytest.mark.parametrize("change", ["gone", "short", "other"])
def test_a_view_of_another_file_is_none(tmp_path: Path, change: str) -> None:
    path = write_raw(tmp_path, np.zeros((4, 8, 8), "<u2"), frame_header=16)[0]
    array = vfs.open(path, format="raw", stored_dtype="<u2", sig_shape=(8, 8), frame_header=16, chunks=(2, -1, -1))
    chunks = Chunks(reader_of(array))
    assert chunks.view((1, 0, 0)) is not None
    if change == "gone":
        Path(path).unlink()
    else:
        with Path(path).open("r+b") as file:
            file.truncate(100 if change == "short" else 10_000)
    with pytest.raises(SourceError, match=r"part0\.bin: .*\[reading data\["):
        chunks.view((1, 0, 0))


def test_no_chunk_where_there_is_none() -> None:
    chunks = Chunks(in_memory(np.zeros((4, 3, 3), "<u2"), header=1, chunks=(2, 3, 3)))
    for position in [(2, 0, 0), (-1, 0, 0), (0, 1, 0)]:
        with pytest.raises(RegionError):
            chunks.get(position)


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("cut", [1, 3])
def test_what_cannot_be_read_says_so_as_always(tmp_path: Path, backend: str, cut: int) -> None:
    paths = write_raw(tmp_path, np.zeros((12, 64, 64), "<u2"), frame_header=16, files=2)
    array = vfs.open(
        paths,
        format="raw",
        stored_dtype="<u2",
        sig_shape=(64, 64),
        frame_header=16,
        chunks=(cut, -1, -1),
        backend=backend,
    )
    chunks = Chunks(reader_of(array))
    held = chunks.get((0, 0, 0))
    with Path(paths[1]).open("r+b") as file:
        file.truncate(20)
    for _ in range(2):
        with pytest.raises(SourceError, match=r"part1\.bin: .*truncated.*\[reading data\["):
            chunks.get((reader_of(array).grid.counts[0] - 1, 0, 0))
    assert not held.any()
    assert chunks.get((1, 0, 0)).size == cut * 8192


def test_a_chunk_asked_for_again_is_there(tmp_path: Path) -> None:
    array = in_memory(np.arange(4 * 9, dtype=">u2").reshape(4, 3, 3), ">u2", chunks=(2, 3, 3))
    chunks = Chunks(array)
    assert not chunks.in_memory((0, 0, 0))
    first = chunks.get((0, 0, 0))
    assert chunks.in_memory((0, 0, 0))
    assert np.shares_memory(first, chunks.get((0, 0, 0)))


class PoisonedLender(MemoryLender):
    """Memory is full of junk when it is lent, and whoever looks at it after it came back sees other junk."""

    def lend(self, size: int) -> np.ndarray:
        memory = super().lend(size)
        memory[:] = 0xDB
        return memory

    def _back(self, memory: Any) -> None:
        np.frombuffer(memory, np.uint8)[:] = 0xBD
        super()._back(memory)


@pytest.mark.parametrize("kind", ["planned", "in parts", "converted", "at the edge"])
def test_no_chunk_shows_the_bytes_of_another(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads hold chunks for a while, as views of every kind, while the memory of others is
    used again and again.
    """
    monkeypatch.setattr(module, "lender", PoisonedLender(keep=3))
    frames = np.random.default_rng(0).integers(0, 60_000, (31, 128, 128)).astype("<u2")
    paths = write_raw(tmp_path, frames.astype(">u2"), frame_header=16, files=3)
    options: dict[str, Any] = {
        "in parts": {"chunks": (3, 100, 128)},
        "converted": {"chunks": (4, -1, -1), "dtype": "f4"},
        "at the edge": {"chunks": (4, -1, 100)},
    }
    array = vfs.open(
        paths,
        format="raw",
        stored_dtype=">u2",
        sig_shape=(128, 128),
        frame_header=16,
        **({"chunks": (4, -1, -1)} | options.get(kind, {})),
    )
    reader_of(array).cache = ChunkCache(1 << 20)
    wanted = {position: expected(reader_of(array), position) for position in np.ndindex(reader_of(array).grid.counts)}
    assert reader_of(array).chunk_bytes > 1 << 16
    chunks = Chunks(reader_of(array))

    def work(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        held: list[tuple[Any, bytes]] = []
        good = True
        for _ in range(60):
            position = list(wanted)[int(rng.integers(len(wanted)))]
            got = chunks.get(position)
            held.append((memoryview(got) if rng.random() < 0.5 else got.view(array.dtype), wanted[position]))
            del got
            if len(held) > rng.integers(1, 6):
                view, bytes_ = held.pop(int(rng.integers(len(held))))
                good &= view.tobytes() == bytes_
        return good and all(view.tobytes() == bytes_ for view, bytes_ in held)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))
