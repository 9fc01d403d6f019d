"""Virtual arrays behave like numpy's, belong to whoever asked, and say what is wrong with a source."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.engine.support import failing, in_memory
from tests.model.strategies import Case, cases, indices, some
from vfs import kernels
from vfs.backends import Backend, make_backend
from vfs.buffers import MemoryPool
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.chunk_access import Chunks
from vfs.engine.reader import INTO_PLACE
from vfs.errors import (
    MissingSourceError,
    OptionError,
    RegionError,
    SourceChangedError,
    SourceError,
    TruncatedSourceError,
)
from vfs.model.as_scan import as_scan
from vfs.model.codecs import CodecDecoder
from vfs.model.decode import PlainDecoder
from vfs.model.layout import BlockLayout, BlockTable, Scan
from vfs.model.region import Region
from vfs.model.stored import StoredArray
from vfs.testing.backends import CountingBackend, MemoryBackend, local_files, memory_files
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_npy, write_raw

BACKENDS = ["mmap", "buffered"]


@pytest.fixture
def numbers() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 60_000, (6, 5, 8, 7)).astype("<u2")


@pytest.fixture(params=BACKENDS)
def array(request: pytest.FixtureRequest, tmp_path: Path, numbers: np.ndarray) -> vfs.VirtualArray:
    """`numbers` in three files with headers everywhere."""
    paths = write_raw(tmp_path, numbers.reshape(30, 8, 7), file_header=5, frame_header=3, frame_footer=2, files=3)
    options: dict[str, Any] = {"file_header": 5, "frame_header": 3, "frame_footer": 2}
    return vfs.open(
        paths, format="raw", dtype="<u2", sig_shape=(8, 7), nav_shape=(6, 5), backend=request.param, **options
    )


# like numpy


@given(st.data())
def test_indexing_is_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=4)))
    nav = data.draw(st.integers(0, len(shape)))
    if math.prod(shape[nav:]) == 0:
        shape = (*shape[:nav], *(max(1, n) for n in shape[nav:]))
    values = some(np.dtype("<u2"), shape, 0)
    array = in_memory(
        values,
        data.draw(st.sampled_from(["<u2", ">u2"])),
        nav,
        data.draw(st.integers(0, 3)),
        copies=data.draw(st.booleans()),
    )
    key = data.draw(indices(shape))
    got, expected = array[key], values[key]
    assert type(got) is type(expected)
    np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize(
    "key", [None, True, [1, 2], 1.0, np.array([1]), (0, None), "a", slice(0.5, 1), slice(0, 1, 0), (0,) * 5, 6, -7]
)
def test_what_numpy_would_take_otherwise_is_refused(array: vfs.VirtualArray, key: Any) -> None:
    with pytest.raises(RegionError):
        array[key]


def test_shape_and_friends(array: vfs.VirtualArray, numbers: np.ndarray) -> None:
    assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes) == (
        numbers.shape,
        numbers.dtype,
        4,
        numbers.size,
        numbers.nbytes,
    )
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert [Path(f).name for f in array.files] == ["part0.bin", "part1.bin", "part2.bin"]
    assert "scan_y: 6" in repr(array)
    assert "of 3 files" in repr(array)


def test_length_and_iteration(array: vfs.VirtualArray, numbers: np.ndarray) -> None:
    assert len(array) == 6
    for got, expected in zip(array, numbers, strict=True):
        np.testing.assert_array_equal(got, expected)
    bare = in_memory(np.array(5, "u2"), nav_ndim=0)
    assert bare[()] == 5
    for act in (len, iter, list):
        with pytest.raises(TypeError):
            act(bare)


def test_becoming_a_numpy_array(array: vfs.VirtualArray, numbers: np.ndarray) -> None:
    np.testing.assert_array_equal(np.asarray(array), numbers, strict=True)
    np.testing.assert_array_equal(np.asarray(array, np.float32), numbers.astype(np.float32), strict=True)
    np.testing.assert_array_equal(np.add(array, 1), numbers + 1)
    assert np.sum(array[...], dtype=int) == numbers.sum(dtype=int)


def test_a_copy_is_ones_own(tmp_path: Path, numbers: np.ndarray) -> None:
    array = vfs.open(write_npy(tmp_path, numbers))
    assert not array[...].flags.writeable
    for copy in (np.array(array), np.array(array, np.uint16)):
        copy[0] = 0  # not the map
    np.testing.assert_array_equal(array[...], numbers)


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="numpy 1 does not ask for arrays that are no copy"
)
def test_no_array_without_a_copy(array: vfs.VirtualArray) -> None:
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(array, copy=False)


# read(region, out)


def test_regions_may_be_slices_or_a_region(array: vfs.VirtualArray, numbers: np.ndarray) -> None:
    cut = (slice(1, 6, 2), slice(None), slice(2, 5))
    np.testing.assert_array_equal(array.read(cut), numbers[cut])
    np.testing.assert_array_equal(array.read(Region.of(cut, array.shape)), numbers[cut])
    np.testing.assert_array_equal(array.read(), numbers)
    np.testing.assert_array_equal(array.read(slice(1, 2)), numbers[1:2])
    np.testing.assert_array_equal(array.read(()), numbers)


@pytest.mark.parametrize(
    "region",
    [
        (0,),
        (slice(None, None, -1),),
        (slice(None),) * 5,
        Region((0,), (1,), (1,)),
        Region((0,) * 4, (7, 1, 1, 1), (1,) * 4),
    ],
)
def test_regions_that_are_none(array: vfs.VirtualArray, region: Any) -> None:
    with pytest.raises(RegionError):
        array.read(region)


def test_out_is_filled_and_returned(array: vfs.VirtualArray, numbers: np.ndarray) -> None:
    cut = (slice(1, 4), slice(0, 5, 2))
    expected = numbers[cut]
    for out in (
        np.zeros(expected.shape, "<u2"),
        np.zeros(expected.shape, "<u2", order="F"),
        np.zeros((*expected.shape, 2), "<u2")[..., 0],
        np.zeros(expected.shape, "<u2")[::-1, :, ::-1],
        # At an odd address
        np.frombuffer(bytearray(expected.nbytes + 1), np.uint8)[1:].view("<u2").reshape(expected.shape),
    ):
        assert array.read(cut, out) is out
        np.testing.assert_array_equal(out, expected)


def test_out_that_does_not_fit(array: vfs.VirtualArray) -> None:
    cut = (slice(0, 2),)
    fits = np.zeros((2, 5, 8, 7), np.uint16)
    read_only = fits.copy()
    read_only.flags.writeable = False
    for out in (
        fits[:1],
        fits.astype("u4"),
        fits.astype(">u2"),
        fits.reshape(-1),
        read_only,
        np.broadcast_to(fits[0, 0], fits.shape),
        fits.tolist(),
        fits.data,
    ):
        with pytest.raises(OptionError, match="out"):
            array.read(cut, out)  # type: ignore[arg-type]


def test_out_on_a_corrected_and_converted_array(tmp_path: Path, numbers: np.ndarray) -> None:
    array = vfs.open(write_npy(tmp_path, numbers), dtype="f8", dark=np.ones((8, 7)))
    out = np.zeros((7, 8, 5, 6)).T
    array.read(out=out)
    np.testing.assert_array_equal(out, numbers.astype("f8") - 1)


# views of the file


def shares(array: vfs.VirtualArray, got: np.ndarray) -> bool:
    backend = reader_of(array).backend
    return any(
        np.shares_memory(got, backend.span(n, 0, int(size), np.empty(0, np.uint8)))
        for n, size in enumerate(reader_of(array).dataset.files.sizes)
    )


STRAIGHT = [
    (...,),
    (0,),
    (slice(2, 5),),
    (3, 2),
    (3, 2, slice(2, 5)),
    (3, 2, 4),
    (3, 2, 4, slice(1, 5)),
    (slice(0, 1), slice(1, 3)),
]
NOT_STRAIGHT = [(slice(0, 6, 2),), (slice(None), 0), (0, 0, slice(None), slice(0, 5)), (slice(0, 2), slice(0, 3))]


@pytest.mark.parametrize("key", [*STRAIGHT, (0, 0, 0, slice(None, None, 2)), (slice(3, 1, -1),)])
def test_native_contiguous_bytes_are_a_view(tmp_path: Path, numbers: np.ndarray, key: Any) -> None:
    array = vfs.open(write_npy(tmp_path, numbers))
    got = array[key]
    np.testing.assert_array_equal(got, numbers[key])
    assert shares(array, got)
    assert not got.flags.writeable


@pytest.mark.parametrize("key", NOT_STRAIGHT)
def test_what_lies_apart_is_not(tmp_path: Path, numbers: np.ndarray, key: Any) -> None:
    array = vfs.open(write_npy(tmp_path, numbers))
    got = array[key]
    np.testing.assert_array_equal(got, numbers[key])
    assert not shares(array, got)
    got[...] = 0
    np.testing.assert_array_equal(array[key], numbers[key])


@pytest.mark.parametrize(
    "options",
    [{"dtype": "u4"}, {"dtype": ">u2"}, {"backend": "buffered"}, {"dark": np.zeros((8, 7))}, {"sync_offset": -1}],
)
def test_what_must_be_changed_is_not(tmp_path: Path, numbers: np.ndarray, options: Any) -> None:
    array = vfs.open(write_npy(tmp_path, numbers), **options)
    got = array[...]
    native = options.get("dtype") == ">u2"  # an array has native byte order whatever was asked for
    assert got.flags.writeable != native


def test_what_is_longer_than_the_file_is_not_even_planned(tmp_path: Path, numbers: np.ndarray) -> None:
    """Reading all of an array of 10 ** 12 blank frames fails for want of memory, at once, and not
    after planning them one by one.
    """
    array = vfs.open(write_npy(tmp_path, numbers), nav_shape=10**12, allow_incomplete=True)
    assert reader_of(array).straight(Region.whole(array.shape)) is None
    assert shares(array, array[3])
    assert not array[10**12 - 1].any()


def test_swapped_bytes_are_not(tmp_path: Path, numbers: np.ndarray) -> None:
    array = vfs.open(write_npy(tmp_path, numbers.astype(">u2")))
    np.testing.assert_array_equal(array[...], numbers, strict=True)
    assert array[...].flags.writeable


def test_fortran_order_is_a_view_where_it_can_be(tmp_path: Path) -> None:
    values = np.asfortranarray(np.arange(20, dtype="<u4").reshape(5, 4))
    array = vfs.open(write_npy(tmp_path, values))
    np.testing.assert_array_equal(array[...], values)
    assert array[...].flags.writeable
    np.testing.assert_array_equal(array[:, 2], values[:, 2])
    assert shares(array, array[:, 2])


# conversion

PLAIN = [np.dtype(t) for t in ("?", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8", "c8", "c16")]


def conversions() -> Iterator[Any]:
    """Each pair of types; by day each type as both, thrice: a pair compiles kernels of its own."""
    for (k, stored), (n, to) in product(enumerate(PLAIN), repeat=2):
        by_day = (n - k) % len(PLAIN) in (1, 4, 9)
        yield pytest.param(stored, to, id=f"{stored}-{to}", marks=() if by_day else pytest.mark.thorough)


@pytest.mark.parametrize(("stored", "to"), list(conversions()))
def test_conversion_is_numpy_astype(stored: np.dtype, to: np.dtype) -> None:
    values = some(stored, (3, 4, 5), 1)
    if stored.kind in "if":
        values[0] = -values[0]
    if stored.kind == "f":
        values[1] += np.array(0.75, stored)
    for order in "<>":
        if stored.kind == "c" and to.kind != "c":
            with pytest.raises(OptionError, match="cannot convert"):
                in_memory(values, stored.newbyteorder(order), dtype=to)
            continue
        for copies in (False, True):
            array = in_memory(values, stored.newbyteorder(order), header=1, dtype=to, copies=copies)
            with np.errstate(all="ignore"):
                expected = values.astype(to)
            np.testing.assert_array_equal(array[...], expected, strict=True)
            np.testing.assert_array_equal(array[:, ::2, 1], expected[:, ::2, 1], strict=True)
            np.testing.assert_array_equal(array[2, 3, 4], expected[2, 3, 4])


@pytest.mark.parametrize("to", ["S3", "O", "U1", "M8[s]", "V4", "nonsense", "longdouble", "clongdouble", [("a", "u1")]])
def test_dtypes_that_are_no_numbers(to: Any) -> None:
    with pytest.raises(OptionError, match="dtype"):
        in_memory(np.zeros((2, 3), "u1"), dtype=to)


def test_floats_of_sixteen_bytes_are_refused() -> None:
    for long in (np.longdouble, np.clongdouble):
        with pytest.raises(OptionError, match="expected bool, integers or floats"):
            PlainDecoder(np.dtype(long))


def test_a_conversion_in_many_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfs.engine.reader.TILE", 1 << 17)
    monkeypatch.setattr("vfs.engine.reader.CACHED", 1 << 17)
    # 186 kB a frame: tiles are single frames and less
    values = np.random.default_rng(0).integers(0, 60_000, (9, 300, 310)).astype(">u2")
    array = vfs.open(write_npy(tmp_path, values), dtype="f4")
    np.testing.assert_array_equal(array[...], values.astype("f4"), strict=True)
    np.testing.assert_array_equal(array[1:, 5:290:3, ::-2], values.astype("f4")[1:, 5:290:3, ::-2], strict=True)
    one = in_memory(values.reshape(-1), dtype="f8", nav_ndim=0)
    np.testing.assert_array_equal(one[:-7:3], values.reshape(-1).astype("f8")[:-7:3], strict=True)


def test_an_array_without_axes_is_converted() -> None:
    array = in_memory(np.array(7, ">i4"), ">i4", nav_ndim=0, dtype="f8")
    assert array[()] == 7.0
    np.testing.assert_array_equal(array.read(), np.array(7.0), strict=True)
    np.testing.assert_array_equal(Chunks(array).make(()), np.array(7.0), strict=True)


def test_what_is_blank_is_converted_too() -> None:
    values = np.arange(6, dtype="f4").reshape(2, 3)
    array = in_memory(values)
    for fill, to in ((np.nan, "f8"), (np.nan, "u2"), (-1, "i2"), (7, "c8")):
        shown = as_scan(replace(array.dataset, fill=fill), Scan((4,)))
        blank = ArrayReader(shown, array.backend, dtype=to)
        with np.errstate(all="ignore"):
            expected = np.float32(fill).astype(to)
        np.testing.assert_array_equal(blank[3], np.full(3, expected))
        np.testing.assert_array_equal(blank.fill, expected)
        assert blank.fill.dtype == np.dtype(to)


# in other processes and threads


def test_pickles_are_small_and_equal(array: vfs.VirtualArray, numbers: np.ndarray) -> None:
    array[0]
    small = pickle.dumps(array)
    assert len(small) < 4000
    again = pickle.loads(small)
    assert type(again) is vfs.VirtualArray
    assert (again.dims, again.chunks, type(reader_of(again).backend)) == (
        array.dims,
        array.chunks,
        type(reader_of(array).backend),
    )
    np.testing.assert_array_equal(again[...], numbers, strict=True)
    group = pickle.loads(pickle.dumps(array.group))
    np.testing.assert_array_equal(group["data"][...], numbers, strict=True)


def test_pickles_keep_how_an_array_was_opened(tmp_path: Path, numbers: np.ndarray) -> None:
    roi = np.zeros((6, 5), bool)
    roi[2, 1:4] = True
    np.save(tmp_path / "dark.npy", np.ones((8, 7), np.float32))
    array = vfs.open(
        write_npy(tmp_path, numbers),
        roi=roi,
        sync_offset=2,
        dtype="f8",
        chunks="1,4,-1",
        dark=tmp_path / "dark.npy",
        backend="buffered",
    )
    again = pickle.loads(pickle.dumps(array))
    assert (again.shape, again.dtype, again.chunks) == ((3, 8, 7), np.float64, (1, 4, 7))
    np.testing.assert_array_equal(again[...], array[...], strict=True)


def test_pickles_find_relative_files_from_elsewhere(
    tmp_path: Path, numbers: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npy(tmp_path, numbers)
    monkeypatch.chdir(tmp_path)
    array = vfs.open("array.npy")
    (tmp_path / "pickle").write_bytes(pickle.dumps(array))
    script = "import pickle, sys; a = pickle.load(open(sys.argv[1], 'rb')); print(a[3, 2, 1].tolist())"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "pickle")], capture_output=True, text=True, cwd="/", timeout=250
    )
    assert done.stdout.strip() == str(numbers[3, 2, 1].tolist()), done.stderr


def _sum(array: vfs.VirtualArray, n: int) -> int:
    return int(array[n].sum(dtype=int))


def test_forked_workers(array: vfs.VirtualArray, numbers: np.ndarray) -> None:
    array[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking while there are threads is what users do
        with multiprocessing.get_context("fork").Pool(2) as pool:
            results = [pool.apply_async(_sum, (array, n)) for n in range(6)]
            assert [r.get(60) for r in results] == [numbers[n].sum(dtype=int) for n in range(6)]


def test_a_child_of_a_fork_uses_what_it_inherited(array: vfs.VirtualArray, numbers: np.ndarray) -> None:
    """Not a pickle but the very object: handles, maps, scratch memory, cache. Parent and child read at once."""
    Chunks(reader_of(array)).cached((0,) * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    rng = np.random.default_rng(child == 0)
    good = True
    for _ in range(100):
        n = int(rng.integers(6))
        good &= np.array_equal(array[n], numbers[n]) and np.array_equal(
            array[:, n % 5, 1:, 2], numbers[:, n % 5, 1:, 2]
        )
    good &= np.array_equal(Chunks(reader_of(array)).cached((0,) * 4), Chunks(reader_of(array)).make((0,) * 4))
    if child == 0:
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert good


class PoisonedPool(MemoryPool):
    """Scratch memory that is full of junk before and after each use."""

    @contextmanager
    def borrow(self, size: int) -> Iterator[np.ndarray]:
        with super().borrow(size) as buffer:
            buffer[:] = 0xDB
            try:
                yield buffer
            finally:
                buffer[:] = 0xBD


@dataclass(frozen=True)
class ViewDecoder:
    """Blocks that decode to a view of what they are given, as uncompressed blocks do."""

    dtype: np.dtype
    word_bytes: int = 0
    decode_into = None
    decode_run = None

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        return data.view(self.dtype).reshape(shape)


def random_reads(array: ArrayReader, twin: np.ndarray, seed: int, n: int) -> bool:
    rng = np.random.default_rng(seed)
    kept = []
    for _ in range(n):
        ends = [np.sort(rng.integers(0, m + 1, 2)) for m in twin.shape]
        cut = tuple(
            slice(int(a), int(b), int(s)) for (a, b), s in zip(ends, rng.integers(1, 3, twin.ndim), strict=True)
        )
        kept.append((array.read(cut), cut))
        flat = np.sort(rng.integers(0, twin.size + 1, 2)).tolist()
        kept.append((Chunks(array).run(*(end * twin.itemsize for end in flat)).view(twin.dtype), flat))
    return all(
        np.array_equal(got, twin[cut] if isinstance(cut, tuple) else twin.reshape(-1)[slice(*cut)]) for got, cut in kept
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["native", "swapped", "converted", "corrected", "blocks", "view blocks", "few rows"])
def test_eight_threads_read_what_they_asked_for(
    tmp_path: Path, kind: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no view shows another read's bytes: scratch memory is junk as soon as it is given back."""
    for module in ("reader", "stored_reader"):
        monkeypatch.setattr(f"vfs.engine.{module}.scratch", PoisonedPool())
    twin = np.random.default_rng(0).integers(0, 60_000, (6, 5, 8, 7)).astype("<u2")
    if "blocks" in kind:
        import zlib

        blocks = [(n, y) for n in range(6) for y in range(0, 8, 3)]
        raw = [twin[n, :, y : y + 3].tobytes() for n, y in blocks]
        parts = raw if kind == "view blocks" else [zlib.compress(part) for part in raw]
        (tmp_path / "blocks").write_bytes(b"".join(parts))
        sizes = np.array([len(part) for part in parts])
        layout = BlockLayout.of(
            (6, 5, 8, 7),
            BlockTable(
                np.array([(n, 0, y, 0) for n, y in blocks]),
                np.array([(1, 5, min(3, 8 - y), 7) for _, y in blocks]),
                np.zeros(len(parts)),
                np.cumsum(sizes) - sizes,
                sizes,
            ),
        )
        decoder: Any = ViewDecoder(twin.dtype) if kind == "view blocks" else CodecDecoder(twin.dtype, {"id": "zlib"})
        files = local_files([tmp_path / "blocks"])
        dataset = StoredArray("data", files, layout, decoder, twin.shape, tuple("abcd"), 1)
        array = ArrayReader(dataset, make_backend(backend, files), cache=ChunkCache(2000))
    else:
        stored = twin if kind == "native" else twin.astype(">u2")
        write_raw(tmp_path, stored.reshape(30, 8, 7), file_header=5, frame_header=3, files=3)
        options: dict[str, Any] = {
            "file_header": 5,
            "frame_header": 3,
            "stored_dtype": stored.dtype.str,
            "sig_shape": (8, 7),
            "nav_shape": (6, 5),
        }
        if kind == "converted":
            twin, options["dtype"] = twin.astype("f8"), "f8"
        if kind == "corrected":
            twin, options["dark"] = twin.astype("f4") - 1, np.ones((8, 7))
        if kind == "few rows":
            monkeypatch.setattr("vfs.engine.stored_reader.ROWS", 3)
            monkeypatch.setattr("vfs.engine.reader.ROWS", 3)
        opened = vfs.open(str(tmp_path / "*.bin"), format="raw", backend=backend, chunks=(2, 3, 8, 4), **options)
        array = reader_of(opened)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda seed: random_reads(array, twin, seed, 25), range(8)))


@given(cases, st.data())
def test_what_was_read_stays_what_it_was(case: Case, data: st.DataObject) -> None:
    """Poisoned scratch memory, and other reads in between."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("reader", "stored_reader"):
            patch.setattr(f"vfs.engine.{module}.scratch", PoisonedPool())
        array = case.memory(copies=True, window=data.draw(st.sampled_from([5, 64, 1 << 19])))
        first = array.read()
        key = data.draw(indices(array.shape))
        second = array[key]
        array.read()
        assert first.tobytes() == case.twin.tobytes()
        assert np.asarray(second).tobytes() == case.twin[key].tobytes()


def test_arrays_that_share_a_cache_do_not_share_chunks(tmp_path: Path) -> None:
    cache = ChunkCache()
    for n in range(50):  # each gone before the next is made, so that ids come back
        array = in_memory(np.full((4, 3), n, "u2"), cache=cache)
        assert Chunks(array).cached((0, 0)).tolist() == [[n] * 3] * 4
    wide, narrow = (
        in_memory(np.arange(12, dtype="u2").reshape(4, 3), cache=cache, chunks=c, dtype=t)
        for c, t in (((2, 3), "u4"), ((4, 1), None))
    )
    assert Chunks(wide).cached((0, 0)).shape == (2, 3)
    assert Chunks(narrow).cached((0, 0)).tolist() == [[0], [3], [6], [9]]


def test_tiles_of_two_selections_are_their_own(tmp_path: Path, numbers: np.ndarray) -> None:
    array = vfs.open(write_npy(tmp_path, numbers), chunks="scan")
    for n in range(20):
        ((_, tile),) = array.tiles((1, 8, 7), roi=[n])
        np.testing.assert_array_equal(tile[0], numbers.reshape(30, 8, 7)[n])


def test_a_block_is_decoded_once_whatever_it_is_cast_to() -> None:
    """Also where it does not fit into the cache: no tile of the output decodes it anew."""
    import zlib

    values = np.arange(1 << 20, dtype="<u2").reshape(1 << 10, 1 << 10)  # as u4 that is 16 tiles
    content = zlib.compress(values.tobytes(), 1)
    layout = BlockLayout.of(
        values.shape,
        BlockTable(np.zeros((1, 2)), np.array([values.shape]), np.zeros(1), np.zeros(1), np.array([len(content)])),
    )
    dataset = StoredArray(
        "data", memory_files([content]), layout, CodecDecoder(values.dtype, {"id": "zlib"}), values.shape, ("y", "x"), 0
    )
    backend = CountingBackend(MemoryBackend([content], copies=True))
    array = ArrayReader(dataset, backend, dtype="f4", cache=ChunkCache(0))
    np.testing.assert_array_equal(array[...], values.astype("f4"), strict=True)
    assert len(backend.reads) == 1


# bytes read


def counted(folder: Path, values: np.ndarray, header: int, **more: Any) -> tuple[ArrayReader, CountingBackend]:
    """An array in a file; all of it, and a piece of each frame, was read before: that loads kernels."""
    inner = in_memory(values, header=header).backend
    assert isinstance(inner, MemoryBackend)
    backend = CountingBackend(on_disk(folder, inner.contents[0].tobytes()))
    array = in_memory(values, header=header, backend=backend, **more)
    array[...], array[:, 10:12]
    backend.reads.clear()
    return array, backend


def on_disk(folder: Path, content: bytes) -> Backend:
    """A file, read with pread."""
    path = folder / "source.bin"
    path.write_bytes(content)
    return make_backend("buffered", local_files([path]))


def test_frames_are_read_without_their_headers_where_these_are_long(tmp_path: Path) -> None:
    values = np.zeros((20, 64, 64), "<u2")
    for header, factor in ((0, 1.0), (100, 1.02), (384, 1.06), (100_000, 1.0)):
        array, backend = counted(tmp_path, values, header)
        array[...]
        assert backend.nbytes <= factor * values.nbytes, header
        backend.reads.clear()
        array[7]
        assert backend.nbytes == values[7].nbytes
        backend.reads.clear()
        array[7, 10:20]
        assert backend.nbytes == values[7, 10:20].nbytes


def test_every_frame_is_read_once_for_a_chunk(tmp_path: Path) -> None:
    array, backend = counted(tmp_path, np.zeros((40, 64, 64), "<u2"), 256, chunks=(16, 64, 64))
    Chunks(array).make((1, 0, 0))
    assert backend.nbytes <= 1.04 * 16 * 64 * 64 * 2
    backend.reads.clear()
    Chunks(array).make((2, 0, 0))  # half of it sticks out
    assert backend.nbytes <= 1.04 * 8 * 64 * 64 * 2


def test_columns_read_no_more_than_their_pages(tmp_path: Path) -> None:
    """A few pixels of many frames: what lies far apart is read piece by piece, not with all between."""
    values = np.zeros((50, 128, 128), "<u2")  # 32 kB a frame
    array, backend = counted(tmp_path, values, 64)
    array[:, 60:62]  # 512 bytes of each
    assert backend.nbytes == 50 * 2 * 128 * 2
    backend.reads.clear()
    array[:, 60, 5]
    assert backend.nbytes == 50 * 2
    backend.reads.clear()
    array[:, 60:70, 5:9]  # rows 256 bytes apart are taken together
    assert backend.nbytes <= 50 * (9 * 256 + 8)


def test_blocks_are_read_as_they_lie(tmp_path: Path) -> None:
    side, n = 32, 8
    corners = [(y, x) for y in range(0, side * n, side) for x in range(0, side * n, side)]
    values = np.arange((side * n) ** 2, dtype="<u4").reshape(side * n, side * n)
    content = b"".join(values[y : y + side, x : x + side].tobytes() for y, x in corners)
    size = side * side * 4
    layout = BlockLayout.of(
        values.shape,
        BlockTable(np.array(corners), np.full((n * n, 2), side), np.zeros(n * n), np.arange(n * n) * size),
        word_bytes=4,
    )
    backend = CountingBackend(on_disk(tmp_path, content))
    array = ArrayReader(
        StoredArray(
            "data", memory_files([content]), layout, PlainDecoder(np.dtype("<u4")), values.shape, ("y", "x"), 0
        ),
        backend,
    )
    np.testing.assert_array_equal(array[...], values)
    np.testing.assert_array_equal(array[30:34, 62:66], values[30:34, 62:66])  # this, too, loads kernels
    backend.reads.clear()
    np.testing.assert_array_equal(array[...], values)
    assert backend.nbytes == values.nbytes
    backend.reads.clear()
    np.testing.assert_array_equal(array[32:64, 64:96], values[32:64, 64:96])
    assert backend.nbytes == size
    backend.reads.clear()
    np.testing.assert_array_equal(array[30:34, 62:66], values[30:34, 62:66])  # the corner of four
    assert backend.nbytes <= 16 * 4 + 4 * 4096


# what fails says so, and is never filled in


@pytest.mark.parametrize("copies", [False, True], ids=["views", "copies"])
@pytest.mark.parametrize("dtype", [None, "f4"])
def test_a_failing_backend_is_an_error_everywhere(copies: bool, dtype: Any) -> None:
    values = np.arange(120, dtype="<u2").reshape(10, 4, 3)
    array, backend = failing(values, copies, header=2, dtype=dtype, chunks=(3, 4, 3))
    backend.fails = lambda file, start, stop: start < 140 <= stop
    for act in (
        lambda: array[...],
        lambda: array[5],
        lambda: array.read((slice(4, 7),), np.empty((3, 4, 3), array.dtype)),
        lambda: Chunks(array).make((1, 0, 0)),
        lambda: Chunks(array).cached((1, 0, 0)),
        lambda: Chunks(array).run(55 * array.dtype.itemsize, 70 * array.dtype.itemsize),
        lambda: np.asarray(array),
        lambda: list(array.tiles()),
        lambda: list(array),
    ):
        with pytest.raises(
            SourceError, match=r"file 0: bytes [\d,]+ to [\d,]+ .*\[reading data\[\d+:\d+, \d:\d, \d:\d\]\]"
        ):
            act()
    backend.fails = lambda file, start, stop: False
    np.testing.assert_array_equal(array[...], values)
    np.testing.assert_array_equal(Chunks(array).cached((1, 0, 0)), values[3:6])


@pytest.fixture
def three(tmp_path: Path) -> tuple[list[Path], np.ndarray]:
    """Twelve frames in three files, each frame longer than what is read at once when pixels of it are wanted."""
    values = np.random.default_rng(0).integers(0, 60_000, (12, 64, 128)).astype("<u2")
    return write_raw(tmp_path, values, frame_header=10, files=3), values


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "key",
    [(5,), (slice(4, 8),), (slice(None), 3, 5), (slice(None), slice(3, 60, 20), slice(0, 2)), (5, slice(60, 64))],
    ids=str,
)
def test_a_file_that_is_gone_and_comes_back(three: tuple[list[Path], np.ndarray], backend: str, key: Any) -> None:
    paths, values = three
    array = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10, backend=backend)
    away = paths[1].rename(paths[1].with_suffix(".away"))
    with pytest.raises(MissingSourceError) as caught:
        array[key]
    message = str(caught.value)
    assert str(paths[1]) in message
    assert "[reading data[" in message
    assert " to " in message
    np.testing.assert_array_equal(array[:4], values[:4])
    away.rename(paths[1])
    np.testing.assert_array_equal(array[key], values[key])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "key",
    [(7,), (slice(4, 8),), (slice(None), 60, 5), (slice(None), slice(3, 64, 20), slice(0, 2)), (7, slice(60, 64))],
    ids=str,
)
def test_a_file_that_is_cut_and_comes_back(three: tuple[list[Path], np.ndarray], backend: str, key: Any) -> None:
    paths, values = three
    array = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10, backend=backend)
    content, times = paths[1].read_bytes(), paths[1].stat()
    os.truncate(paths[1], len(content) - 5000)
    with pytest.raises(TruncatedSourceError) as caught:
        array[key]
    assert str(paths[1]) in str(caught.value)
    assert f"the file has {len(content) - 5000:,}" in str(caught.value)
    assert "[reading data[" in str(caught.value)
    with pytest.raises(SourceChangedError):  # what is left of it is not trusted either
        array[4, 0]
    paths[1].write_bytes(content)
    os.utime(paths[1], ns=(times.st_atime_ns, times.st_mtime_ns))
    np.testing.assert_array_equal(array[key], values[key])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("read_before", [False, True])
def test_a_file_that_is_replaced(three: tuple[list[Path], np.ndarray], backend: str, read_before: bool) -> None:
    paths, values = three
    array = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10, backend=backend)
    accepting = vfs.open(
        paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10, backend=backend, accept_changes=True
    )
    if read_before:
        np.testing.assert_array_equal(accepting[9], values[9])
    if read_before:
        np.testing.assert_array_equal(array[9], values[9])
    other = paths[2].with_name("new")
    other.write_bytes(bytes(paths[2].stat().st_size))
    os.utime(other, ns=(1, 1))
    os.replace(other, paths[2])
    with pytest.raises(SourceChangedError, match=r"part2.bin.*open it again.*\[reading data"):
        array[9]
    np.testing.assert_array_equal(array[0], values[0])
    again = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10, backend=backend)
    assert not again[9].any()
    assert not accepting[9].any()
    paths[2].unlink()
    with pytest.raises(MissingSourceError, match=r"part2\.bin"):
        accepting[9]


@pytest.mark.parametrize("backend", [*BACKENDS, "direct"])
def test_a_file_that_changes_may_be_accepted(three: tuple[list[Path], np.ndarray], backend: str) -> None:
    paths, values = three
    options: dict[str, Any] = {
        "format": "raw",
        "dtype": "<u2",
        "sig_shape": (64, 128),
        "frame_header": 10,
        "backend": backend,
    }
    array = vfs.open(paths, accept_changes=True, **options)
    strict = vfs.open(paths, **options)
    content = paths[1].read_bytes()
    os.truncate(paths[1], len(content) - 5000)
    np.testing.assert_array_equal(array[4], values[4])  # mapped while it is short
    with pytest.raises(TruncatedSourceError, match=r"part1.bin: expected bytes .* it looks truncated"):
        array[7]
    changed = bytearray(content)
    changed[10:12] = int(values[4, 0, 0] ^ 1).to_bytes(2, "little")
    paths[1].write_bytes(changed + b"more")
    np.testing.assert_array_equal(array[5:8], values[5:8])
    assert array[4, 0, 0] == values[4, 0, 0] ^ 1
    with pytest.raises(SourceChangedError, match="open it again, or with accept_changes"):
        strict[4]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(three: tuple[list[Path], np.ndarray]) -> None:
    paths, _ = three
    array = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10)
    paths[0].chmod(0)
    with pytest.raises(SourceError, match=r"part0.bin: cannot be opened: Permission denied"):
        array[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_file_that_cannot_be_opened(
    three: tuple[list[Path], np.ndarray], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, _ = three
    array = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10, backend=backend)

    def refused(*args: Any, **more: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(
        SourceError,
        match=r"part0.bin: cannot be opened: Permission denied \(bytes 10 to 16,394 are needed\) \[reading data",
    ):
        array[0]


def test_whole_frames_are_read_to_their_places(
    three: tuple[list[Path], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs no decoding passes through no other memory; short rows and other byte orders do."""
    paths, frames = three
    for name in ("decode", "step"):
        monkeypatch.setattr(PlainDecoder, name, lambda *args: pytest.fail("was decoded"))
    options = {"format": "raw", "sig_shape": (64, 128), "frame_header": 10, "backend": "buffered"}
    array = vfs.open(paths, dtype="<u2", **options)
    np.testing.assert_array_equal(array[...], frames)
    np.testing.assert_array_equal(array[1::3, 8:40], frames[1::3, 8:40])
    for short in (lambda: array[:, 3, 5:9], lambda: vfs.open(paths, dtype=">u2", **options)[0]):
        with pytest.raises(pytest.fail.Exception, match="was decoded"):
            short()


def test_a_read_error_of_the_system(three: tuple[list[Path], np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    paths, _ = three
    array = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10, backend="buffered")

    def broken(*args: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    monkeypatch.setattr(kernels.fetch, "read_places", lambda *args: 0)  # the first range cannot be read
    with pytest.raises(
        SourceError, match=r"part0.bin: bytes 10 to 16,394 cannot be read: Input/output error \[reading data"
    ) as caught:
        array[0]
    assert caught.value.errno == 5


def test_errors_of_an_error(three: tuple[list[Path], np.ndarray]) -> None:
    """What a mount and a store need of it: an errno, and that it can be pickled."""
    paths, _ = three
    array = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(64, 128), frame_header=10)
    paths[0].unlink()
    with pytest.raises(FileNotFoundError) as caught:
        array[0]
    assert caught.value.errno == 2
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is MissingSourceError
    assert str(again) == str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("stored", "to"), [(">u2", "f4"), ("<i2", "f4"), (">i4", "f4"), ("<f4", "f8"), ("<u8", "f4")])
def test_converted_boxes_with_blank_frames(tmp_path: Path, backend: str, stored: str, to: str) -> None:
    """In one pass or in tiles, from odd places, with steps, into strided memory; blank frames at both ends."""
    rng = np.random.default_rng(5)
    values = (rng.random((12, 9, 10)) * 60_000 - (0 if "u" in stored else 30_000)).astype(stored)
    paths = write_raw(tmp_path, values, frame_header=3, files=3)
    twin = np.zeros((16, 9, 10), to)
    twin[3:15] = values
    array = vfs.open(
        paths,
        format="raw",
        stored_dtype=stored,
        sig_shape="9,10",
        frame_header=3,
        dtype=to,
        sync_offset=-3,
        nav_shape=16,
        backend=backend,
    )
    assert (reader_of(array).way in INTO_PLACE) == (stored not in ("<f4", "<u8"))
    for box in (np.s_[:], np.s_[1:5], np.s_[2:16:5, 3:, 1:7:2], np.s_[4:9, 8], np.s_[0:2]):
        np.testing.assert_array_equal(array[box], twin[box])
        assert array[box].dtype == to
    out = np.full((16, 9, 20), 5, to)
    array.read(None, out[:, :, ::2])
    np.testing.assert_array_equal(out[:, :, ::2], twin)
    assert (out[:, :, 1::2] == 5).all()


@given(
    shape=st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(lambda shape: 0 in shape),
    spec=st.sampled_from(["auto", "frames", "scan", "balanced", 1, "4MiB"]),
)
def test_arrays_without_elements(tmp_path_factory: pytest.TempPathFactory, shape: list[int], spec: Any) -> None:
    path = tmp_path_factory.mktemp("empty") / "a.npy"
    np.save(path, np.zeros(shape, "u2"))
    array = vfs.open(path, chunks=spec)
    assert array[...].shape == array.zarr()[...].shape == tuple(shape)
    assert list(array.tiles()) == list(array.tiles(spec)) == []
    assert all(1 <= c <= max(1, n) for c, n in zip(array.chunks, shape, strict=True))
