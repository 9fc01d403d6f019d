"""Exports: what is written, in which order, and what is left when one is interrupted."""

from __future__ import annotations

import math
import os
import pickle
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numcodecs
import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import assume, given
from hypothesis import strategies as st

import vfs
from tests.cli.support import run
from tests.zarr.support import StoppedError, content, exported_scan, stop_after
from vfs.buffers import scratch
from vfs.engine.cache import ChunkCache
from vfs.model.region import ChunkGrid, Region
from vfs.testing.backends import CountingBackend
from vfs.testing.inside import reader_of
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_npy, write_raw
from vfs.zarr.export import plan as planning
from vfs.zarr.export.arrays import shard_shape
from vfs.zarr.export.beside import UnnamedFile
from vfs.zarr.export.codecs import codec
from vfs.zarr.export.files import UnitFiles
from vfs.zarr.export.plan import plan
from vfs.zarr.verify import verify

pytestmark = pytest.mark.zarr


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make units and batches so small that a few frames are many of them."""
    monkeypatch.setattr(planning, "UNIT", 1 << 11)
    monkeypatch.setattr(planning, "BATCH", 1 << 10)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return exported_scan(tmp_path)


def by_tensorstore(store: Path, path: str, version: int) -> np.ndarray:
    spec = {"driver": "zarr3" if version == 3 else "zarr", "kvstore": {"driver": "file", "path": f"{store}/{path}/"}}
    return np.asarray(tensorstore.open(spec).result().read().result())


# plans


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Any, ...]:
    shape = draw(st.lists(st.integers(0, 300), max_size=4).map(tuple))
    chunks = tuple(draw(st.integers(1, max(1, n))) for n in shape)
    times = draw(st.none() | st.tuples(*(st.integers(1, 5) for _ in shape)))
    shards = times and tuple(c * t for c, t in zip(chunks, times, strict=True))
    block = draw(st.just(()) | st.tuples(*(st.integers(1, max(1, n)) for n in shape)))
    return shape, chunks, shards, draw(st.sampled_from([1, 2, 8])), draw(st.integers(0, len(shape))), block


@given(cuts(), st.sampled_from([1 << 12, planning.LARGE]))
def test_batches_of_units_hold_every_chunk_once_and_little_memory(cut: Any, most: int) -> None:
    shape, chunks, shards, itemsize, nav_ndim, block = cut
    with patch.object(planning, "LARGE", most):
        made = plan(shape, chunks, shards, itemsize, nav_ndim, block)
    assert all(u % s == 0 for u, s in zip(made.unit, made.shards, strict=True))
    assert all(b % c == 0 for b, c in zip(made.batch, chunks, strict=True))
    bound = max(planning.DECODED if block else planning.WIDE, math.prod(chunks) * itemsize)
    assert math.prod(made.batch) * itemsize <= bound
    units = [made.units.region(position) for position in made.units.touched(Region.whole(shape))]
    assume(math.prod(made.grid.counts) <= 5000)
    seen = [place for unit in units for box in made.batches(unit) for place in made.grid.touched(box)]
    assert len(seen) == len(set(seen)) == math.prod(made.grid.counts)
    assert all(Region.box(a.start, a.stop) == a for a in units)


def test_plans_take_whole_frames() -> None:
    frames = plan((1000, 256, 256), (1, 256, 256), None, 2, 1)
    assert (frames.batch, frames.unit) == ((64, 256, 256), (512, 256, 256))
    parts = plan((1000, 250, 256), (64, 64, 64), (256, 64, 64), 2, 1)
    assert parts.unit == (256, 256, 256), "all shards of the same frames are written together"
    assert parts.batch == (64, 256, 256)
    assert plan((9, 9000, 9000), (1, 64, 64), (1, 64, 64), 2, 1).unit == (1, 64, 64), "too many files at once"
    image = plan((1, 9000, 9000), (1, 512, 512), (1, 512, 9216), 2, 1)
    assert image.unit == (1, 512, 9216), "a large image is several units"
    assert plan((1, 9000, 9000), (1, 512, 512), (1, 1024, 1024), 2, 1).unit == (1, 1024, 9216), "of whole lines"
    tiled = plan((1, 9000, 9000), (1, 512, 512), (1, 1024, 1024), 2, 1, (1, 256, 256))
    assert (tiled.unit, tiled.batch) == ((1, 1024, 1024), (1, 1024, 1024)), "of whole tiles"
    rows = plan((64, 128, 256, 256), (64, 128, 1, 256), (64, 128, 256, 256), 2, 2)
    assert rows.batch == (64, 128, 8, 256), "frames are cut: as many of their rows as may be are read at once"


@pytest.mark.parametrize("shards", [None, (1, 512, 512), (1, 3072, 19968), (1, 1024, 1024)])
def test_plans_decode_blocks_once(shards: Any) -> None:
    """Of large images in tiles, and of blocks that hold parts of several frames."""
    for shape, chunks, block in [
        ((2, 16384, 19584), (1, 512, 512), (1, 4096, 4096)),
        ((256, 512, 512), (1, 512, 512), (96, 128, 512)),
    ]:
        boxes = shards if shape[0] == 2 else None
        made = plan(shape, chunks, boxes, 2, 1, block)
        stored = ChunkGrid(shape, block)
        units = [made.units.region(position) for position in made.units.touched(Region.whole(shape))]
        seen = [place for unit in units for box in made.batches(unit) for place in stored.touched(box)]
        assert len(seen) == math.prod(stored.counts), "a block is decoded for several batches"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, None),
        ("none", None),
        ("auto", (24, 8, 16)),
        (4096, (16, 8, 16)),
        (1, (2, 8, 8)),
        ((4, -1, -1), (4, 8, 16)),
        ((-1, -1, 8), (24, 8, 8)),
    ],
)
def test_shards(tmp_path: Path, spec: Any, expected: Any) -> None:
    array = reader_of(
        vfs.open(
            write_raw(tmp_path, np.zeros((23, 8, 16), np.uint16)),
            stored_dtype="u2",
            sig_shape=(8, 16),
            chunks=(2, 8, 8),
        )
    )
    assert shard_shape(spec, array) == expected


# what is written


@pytest.mark.parametrize("version", [3, 2])
@pytest.mark.parametrize("spec", ["none", "zstd", "zstd:19", "blosc:lz4:0:noshuffle", "blosc"])
@pytest.mark.usefixtures("small")
def test_readers_of_others_read_the_same(scan: Path, tmp_path: Path, spec: str, version: int) -> None:
    for shards in (None, "auto", (2, 4, -1, 8)) if version == 3 else (None,):
        target = tmp_path / f"{shards}.zarr"
        g = vfs.open_group(scan, chunks=(1, 4, 8, 8))
        vfs.export(g, target, codec=spec, shards=shards, zarr_format=version, verify=True)
        made = zarr.open_group(target, mode="r", zarr_format=version)
        for path, array in g.items():
            np.testing.assert_array_equal(made[path][...], array[...])
            np.testing.assert_array_equal(by_tensorstore(target, path, version), array[...])
            assert made[path].attrs["vfs"] == g.zarr()[path].attrs["vfs"]
        assert made["data"].chunks == (1, 4, 8, 8)
        if version == 3:
            assert made["data"].shards == {None: None, "auto": (4, 8, 8, 16)}.get(shards, shards and (2, 4, 8, 8))  # type: ignore[call-overload]
        assert sorted(os.listdir(tmp_path)) == sorted(["in", target.name, f"{target.name}.sums"])
        for name in (target, Path(f"{target}.sums")):
            name.rename(tmp_path / "in" / f"{shards}{name.name}")


def test_zstd_of_blosc_has_long_blocks() -> None:
    values = np.random.default_rng(1).poisson(3, 1 << 20).astype("u2")
    ours, theirs = codec("blosc", 2), numcodecs.Blosc("zstd", 3, numcodecs.Blosc.BITSHUFFLE)
    encoded = ours.encode(values)
    assert int.from_bytes(encoded[8:12], "little") == ours.v3[0]["configuration"]["blocksize"] == 1 << 20
    assert len(encoded) < len(theirs.encode(values))
    np.testing.assert_array_equal(np.frombuffer(theirs.decode(encoded), "u2"), values)


@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "f4", "f8", "c8", "c16", "u8"])
def test_elements_keep_their_bits(tmp_path: Path, dtype: str) -> None:
    values = np.zeros((3, 5), dtype)
    if values.dtype.kind in "fc":
        values[0, 0] = -0.0
        values[1, 1] = np.nan
    values[2, 2] = 1
    for n, shape in enumerate([(3, 5), (15,), (), (0, 4)]):
        source = write_npy(tmp_path, values.reshape(-1)[: math.prod(shape)].reshape(shape), name=f"{n}.npy")
        chunks = {"chunks": (1, 2)} if n == 0 else {}
        for version in (3, 2):
            target = tmp_path / f"{n}-{version}.zarr"
            vfs.export(source, target, zarr_format=version, verify=True, **chunks)
            got = zarr.open_group(target, mode="r")["data"][...]
            assert np.asarray(got).tobytes() == np.load(source).tobytes()


def test_what_lies_in_a_mapped_file_is_encoded_as_it_lies(tmp_path: Path) -> None:
    """Where elements begin at odd bytes, too."""
    frames = np.random.default_rng(0).integers(0, 99, (8, 16, 16)).astype(np.uint16)
    source = write_raw(tmp_path, frames, file_header=1)
    how: dict[str, Any] = {"stored_dtype": "u2", "sig_shape": (16, 16), "file_header": 1, "chunks": (2, 16, 16)}
    with patch.object(scratch, "borrow", side_effect=AssertionError("it was copied")):
        vfs.export(vfs.open(source, **how), tmp_path / "o.zarr")
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "o.zarr", mode="r")["data"][:], frames)


@pytest.mark.usefixtures("small")
def test_each_byte_of_the_sources_is_read_once(tmp_path: Path) -> None:
    """Also where chunks and shards take only parts of frames."""
    frames = np.random.default_rng(0).integers(0, 99, (64, 64, 64)).astype(np.uint16)
    source = write_raw(tmp_path, frames)
    for shards in (None, (16, 16, 32), (16, 64, 64)):
        a = vfs.open(source, stored_dtype="u2", sig_shape=(64, 64), chunks=(8, 16, 32), backend="buffered")
        reader = reader_of(a)
        reader.backend = counting = CountingBackend(reader.backend)
        vfs.export(a, tmp_path / "o.zarr", shards=shards)
        reads = [(read.start, read.stop) for read in counting.reads]
        assert counting.nbytes == frames.nbytes
        assert sorted(reads) == reads or len(os.sched_getaffinity(0)) > 1
        np.testing.assert_array_equal(zarr.open_group(tmp_path / "o.zarr", mode="r")["data"][:], frames)
        (tmp_path / "o.zarr").rename(tmp_path / f"{shards}")


@pytest.mark.parametrize(("shards", "rounds"), [(None, 1), ((64, 4, 16), 1), ((64, 4, 16), 3), (None, 16)])
def test_blocks_are_decoded_once_where_each_chunk_has_a_little_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: Any, rounds: int
) -> None:
    """Each was decoded for each batch."""
    for name, nbytes in (("DECODED", 1 << 12), ("WIDE", 1 << 12), ("BATCH", 1 << 10), ("UNIT", 1 << 12)):
        monkeypatch.setattr(planning, name, nbytes)
    frames = np.random.default_rng(0).integers(0, 99, (64, 16, 24)).astype(np.uint16)
    source = write_tiff(tmp_path / "s.tif", list(frames), compression=8, encode=zlib.compress)
    # of this, what chunks may need is left, or a quarter; with none, each batch is read by itself
    whole = {1: 2 * frames.nbytes, 3: frames.nbytes, 16: 0}[rounds]
    monkeypatch.setattr(UnnamedFile, "room", whole)
    a = vfs.open(source, chunks=(64, 2, 8), backend="buffered")
    reader = reader_of(a)
    reader.backend = counting = CountingBackend(reader.backend)
    reader.cache = ChunkCache(0)
    told: list[int] = []
    vfs.export(a, tmp_path / "o.zarr", shards=shards, progress=lambda done, total, stored: told.append(done))
    packed = sum(len(zlib.compress(frame.tobytes())) for frame in frames)
    alone = rounds == 16  # two threads may then decode a block together
    assert counting.nbytes == rounds * packed or alone
    assert told == sorted(told)
    assert told[-1] == frames.nbytes
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "o.zarr", mode="r")["data"][:], frames)
    expected = content(tmp_path / "o.zarr")
    for stop in (frames.nbytes // 4, frames.nbytes * 3 // 4):
        with pytest.raises(StoppedError):
            vfs.export(a, tmp_path / "p.zarr", shards=shards, resume=True, progress=stop_after(stop))
    with ThreadPoolExecutor(2) as pool:
        vfs.export(a, tmp_path / "q.zarr", shards=shards, executor=pool)
    vfs.export(a, tmp_path / "p.zarr", shards=shards, resume=True, verify=True)
    assert content(tmp_path / "p.zarr") == content(tmp_path / "q.zarr") == expected
    before = counting.nbytes
    found = verify(tmp_path / "o.zarr", {"data": reader})
    assert (found.bad, found.nbytes) == (0, frames.nbytes)
    assert counting.nbytes - before == rounds * packed or alone
    with monkeypatch.context() as patch:
        patch.setattr(UnnamedFile, "room", 1 << 20)
        patch.setattr(UnnamedFile, "write", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(vfs.OptionError, match="No space left on device; TMPDIR names"):
            verify(tmp_path / "o.zarr", {"data": reader})
    chunk = next(path for path in (tmp_path / "p.zarr/data/c").rglob("*") if path.is_file())
    chunk.unlink()
    assert verify(tmp_path / "p.zarr", {"data": reader}).bad
    Path(source).write_bytes(source.read_bytes()[: -packed // 2])
    with pytest.raises(vfs.SourceError):
        verify(tmp_path / "o.zarr", {"data": reader})


@pytest.mark.usefixtures("small")
def test_parts_of_frames_do_not_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory does not hold whole frames, it filled the cache and spared no read."""
    monkeypatch.setattr(planning, "WIDE", 1 << 16)
    source = write_raw(tmp_path, np.ones((64, 64, 64), np.uint16))
    a = vfs.open(source, format="raw", stored_dtype="u2", sig_shape=(64, 64), chunks=(64, 1, 64))
    monkeypatch.setattr(reader_of(a).cache, "limit", 1 << 20)
    vfs.export(a, tmp_path / "o.zarr", shards=(64, 64, 64), verify=True)
    assert reader_of(a).cache.held == 0


@pytest.mark.parametrize(("unit", "batch"), [(7, 2), (5, 3), (8, 3), (3, 2), (6, 4), (1, 2)])
def test_units_need_not_be_whole_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: int, batch: int
) -> None:
    """Every second batch then reaches into the box of two groups: frames were copies of their neighbours."""
    frames = np.random.default_rng(2).integers(0, 4000, (47, 8, 16)).astype(np.uint16)
    path = write_npy(tmp_path, frames)
    monkeypatch.setattr(planning, "UNIT", unit * frames[0].nbytes)
    monkeypatch.setattr(planning, "BATCH", batch * frames[0].nbytes)
    for number, chunks in enumerate(("frames", "1,4,-1", "auto")):
        vfs.export(path, tmp_path / f"{number}.zarr", chunks=chunks, codec="none")
        made = next(zarr.open_group(tmp_path / f"{number}.zarr", mode="r").array_values())
        assert np.array_equal(made[:], frames), chunks


@pytest.mark.parametrize(
    "spec",
    ["gzip", "none:1", "zstd:0", "zstd:23", "zstd:x", "blosc:lzma", "blosc:zstd:10", "blosc:zstd:3:x", "", "zstd:１"],
)
def test_other_codecs_are_refused(spec: str) -> None:
    with pytest.raises(vfs.OptionError, match="codec="):
        codec(spec, 2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shards": "auto", "zarr_format": 2}, "zarr version 2 has no shards"),
        ({"shards": (2, 3, 4)}, "no array has 3 axes"),
        ({"shards": (3, 4, -1, -1), "chunks": (2, 4, -1, -1)}, r"multiples of the chunks, \(2, 4, 8, 16\)"),
        ({"shards": "frames"}, "expected none, auto, a size"),
        ({"resume": True, "accept_changes": True}, "the sources may change"),
        ({"zarr_format": 4}, "expected 3 or 2"),
    ],
)
def test_what_does_not_fit_is_refused(scan: Path, tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(vfs.OptionError, match=said):
        vfs.export(scan, tmp_path / "o.zarr", **given)
    assert os.listdir(tmp_path) == ["in"]


def test_an_open_set_takes_no_options_for_opening(scan: Path, tmp_path: Path) -> None:
    with pytest.raises(vfs.OptionError, match="nav_shape: has no effect on a data set that is open"):
        vfs.export(vfs.open(scan), tmp_path / "o.zarr", nav_shape=(6, 4))


# interrupted


HOW: dict[str, Any] = {"chunks": (1, 2, -1, -1), "shards": (1, 4, -1, -1), "codec": "zstd:1"}


@pytest.fixture
def stopped(scan: Path, tmp_path: Path, small: None) -> Path:
    """An export that was interrupted after some units; the name it was to have."""
    target = tmp_path / "o.zarr"
    with pytest.raises(StoppedError):
        vfs.export(scan, target, progress=stop_after(5000), **HOW)
    assert sorted(os.listdir(tmp_path)) == ["in", "o.zarr.part", "o.zarr.part.marks"]
    assert not list((tmp_path / "o.zarr.part").rglob("zarr.json")), "it looks like a store"
    return target


def test_resuming_does_the_rest_and_gives_the_same_bytes(scan: Path, tmp_path: Path, stopped: Path) -> None:
    vfs.export(scan, tmp_path / "whole.zarr", **HOW)
    files = [path for path in Path(f"{stopped}.part").rglob("*") if path.is_file() and path.suffix != ".part"]
    before = {path.relative_to(f"{stopped}.part"): path.stat().st_ino for path in files}
    told: list[int] = []
    vfs.export(scan, stopped, resume=True, progress=lambda done, total, stored: told.append(done), **HOW)
    assert content(stopped) == content(tmp_path / "whole.zarr")
    assert sorted(os.listdir(tmp_path)) == sorted(["in", "o.zarr", "o.zarr.sums", "whole.zarr", "whole.zarr.sums"])
    assert told[0] > 2000, "it began anew"
    assert sum((stopped / path).stat().st_ino == number for path, number in before.items()) >= 2


@pytest.mark.parametrize("name", ["o.zarr", "o.zarr.zip"])
def test_one_that_is_complete_stays(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A command that is given again and again until it is done ends well, and does nothing."""
    target, sums = tmp_path / name, tmp_path / f"{name}.sums"
    command = ["export", scan, target, "--chunks", "1,2,-1,-1", "--resume"]
    assert run(*command) == 0
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert run(*command) == 0
    said, again = capsys.readouterr().out.splitlines()
    assert again == said.replace(f"{name}: ", f"{name}: was complete: ")
    assert run(*command, "--codec", "none") == 2
    assert run(*command[:-1]) == 2
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    sums.write_text("precious\n")
    assert run(*command) == 2
    sums.unlink()
    assert run(*command) == 2
    assert [line.split(": ")[-1].split(";")[0] for line in capsys.readouterr().err.splitlines()] == [
        "exists already, and was written from other files, with other options, or by other code of vfs",
        "exists already",
        *[f"exists already, and {sums} does not say what it was written from"] * 2,
    ]


def test_workers_of_an_executor_write_the_same_bytes(scan: Path, tmp_path: Path) -> None:
    """Units are sent to them, never data; and what was interrupted goes on, by them or without them."""
    vfs.export(scan, tmp_path / "whole.zarr", **HOW)
    target, sent = tmp_path / "o.zarr", []

    class Counting(ThreadPoolExecutor):
        def submit(self, *task: Any) -> Any:
            sent.append(len(pickle.dumps(task)))
            return super().submit(*task)

    with Counting(2) as pool:
        with pytest.raises(StoppedError):
            vfs.export(scan, target, progress=stop_after(2000), executor=pool, **HOW)
        begun = len(sent)
        vfs.export(scan, target, resume=True, executor=pool, **HOW)
        assert content(target) == content(tmp_path / "whole.zarr")
        wanted = len(Path(f"{target}.sums").read_bytes().splitlines()) - 1
        assert len(sent) - begun < wanted, "units that were done are done again"
        assert max(sent) < 4000
        with pytest.raises(vfs.OptionError, match="one process writes a zip file"):
            vfs.export(scan, tmp_path / "o.zarr.zip", executor=pool)
        with pytest.MonkeyPatch.context() as patch:  # as on a worker that has a disk of its own
            patch.setattr("vfs.zarr.export.spread.has_unit", lambda *of: False)
            with pytest.raises(vfs.ExecutorError, match="on the same disk"):
                vfs.export(scan, tmp_path / "p.zarr", executor=pool, **HOW)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vfs.outputs.executors.code_key", lambda: "other")
            with pytest.raises(vfs.ExecutorError, match="a worker has other code of vfs"):
                vfs.export(scan, tmp_path / "p.zarr", executor=pool, **HOW)
    assert "p.zarr" not in os.listdir(tmp_path)


def test_what_is_not_the_same_does_not_go_on(scan: Path, stopped: Path) -> None:
    with pytest.raises(vfs.OptionError, match="an export that was interrupted; resume=True"):
        vfs.export(scan, stopped, **HOW)
    for other in ({"codec": "zstd:2"}, {"shards": (2, 4, -1, -1)}, {"chunks": (1, 1, -1, -1)}):
        with pytest.raises(vfs.OptionError, match=r"had another codec, chunks, shards|of other files"):
            vfs.export(scan, stopped, resume=True, **HOW | other)
    with pytest.raises(vfs.OptionError, match="opened with other options"):
        vfs.export(scan, stopped, resume=True, sync_offset=1, **HOW)
    with pytest.MonkeyPatch.context() as patch:  # as after an update, or in a checkout that was edited
        patch.setattr("vfs.own_code.contents", lambda: b"other")
        with pytest.raises(vfs.OptionError, match="or code of vfs; give the same again"):
            vfs.export(scan, stopped, resume=True, **HOW)
    part = scan.parent / "scan002.mib"
    os.utime(part, ns=(0, part.stat().st_mtime_ns + 10**9))
    with pytest.raises(vfs.OptionError, match="these were changed since"):
        vfs.export(scan, stopped, resume=True, **HOW)
    assert not stopped.exists()


@pytest.mark.parametrize("spoil", ["cut", "gone", "journal", "folder"])
def test_files_and_marks_that_were_spoilt_are_made_again(scan: Path, tmp_path: Path, stopped: Path, spoil: str) -> None:
    vfs.export(scan, tmp_path / "whole.zarr", **HOW)
    part, marks = Path(f"{stopped}.part"), Path(f"{stopped}.part.marks")
    first = min(path for path in part.rglob("*") if path.is_file() and path.suffix != ".part")
    if spoil == "cut":
        os.truncate(first, first.stat().st_size - 1)
    elif spoil == "gone":
        first.unlink()
    elif spoil == "journal":
        os.truncate(marks, marks.stat().st_size - 3)
    else:
        part.rename(tmp_path / "elsewhere")
    vfs.export(scan, stopped, resume=True, **HOW)
    assert content(stopped) == content(tmp_path / "whole.zarr")


def test_marks_are_not_written_anew(scan: Path, tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a process that is killed meanwhile would lose them."""
    marks = Path(f"{stopped}.part.marks")
    before, time = marks.read_bytes(), marks.stat().st_mtime_ns
    monkeypatch.setattr(UnitFiles, "add", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        vfs.export(scan, stopped, resume=True, **HOW)
    assert (marks.read_bytes(), marks.stat().st_mtime_ns) == (before, time)
    assert before.count(b"\n") > 1


def test_two_exports_of_one_name_do_not_meet(scan: Path, tmp_path: Path, small: None) -> None:
    refused = []

    def again(done: int, total: int, stored: int) -> None:
        if not refused:
            with pytest.raises(vfs.OptionError, match="another export of this name is running"):
                vfs.export(scan, tmp_path / "o.zarr", resume=True, **HOW)
            refused.append(done)

    vfs.export(scan, tmp_path / "o.zarr", progress=again, verify=True, **HOW)
    assert refused


def test_what_is_in_the_way_stays(scan: Path, tmp_path: Path) -> None:
    for name in ("o.zarr.part", "o.zarr.part.marks", "o.zarr.sums"):
        there = tmp_path / name
        there.write_text("precious\n")
        with pytest.raises(vfs.OptionError, match=rf"{name}.*(from an interrupted|no journal|exists already)"):
            vfs.export(scan, tmp_path / "o.zarr", resume=True)
        assert there.read_text() == "precious\n"
        there.unlink()


@pytest.mark.usefixtures("small")
def test_a_source_that_changes_meanwhile_is_an_error(scan: Path, tmp_path: Path) -> None:
    first = scan.parent / "scan001.mib"

    def touch(done: int, total: int, stored: int) -> None:
        if done == total:  # everything was read
            os.utime(first, ns=(0, first.stat().st_mtime_ns + 10**9))

    with pytest.raises(vfs.SourceChangedError, match=r"scan001\.mib"):
        vfs.export(scan, tmp_path / "o.zarr", progress=touch, **HOW)
    assert not (tmp_path / "o.zarr").exists()
    assert not list((tmp_path / "o.zarr.part").rglob("zarr.json")), "it looks like a store"


@pytest.mark.usefixtures("small")
def test_a_folder_that_vanishes_is_an_error(scan: Path, tmp_path: Path) -> None:
    moved = []

    def move(done: int, total: int, stored: int) -> None:
        if not moved and done > 3000:
            moved.append((tmp_path / "o.zarr.part").rename(tmp_path / "elsewhere"))

    with pytest.raises(
        vfs.OptionError, match=r"o\.zarr.*(removed or (replaced|changed) while|cannot be written: No such file)"
    ):
        vfs.export(scan, tmp_path / "o.zarr", progress=move, **HOW)
    assert not (tmp_path / "o.zarr").exists()


def test_a_full_disk_is_one_line_and_the_rest_can_follow(
    scan: Path, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, added = UnitFiles.add, []

    def full(files: UnitFiles, position: Any, data: bytes) -> None:
        added.append(position)
        if len(added) > 7:
            raise OSError(28, "No space left on device")
        real(files, position, data)

    monkeypatch.setattr(UnitFiles, "add", full)
    with pytest.raises(vfs.OptionError, match=r"o\.zarr: cannot be written: No space left on device"):
        vfs.export(scan, tmp_path / "o.zarr", **HOW)
    monkeypatch.undo()
    monkeypatch.setattr(planning, "UNIT", 1 << 11)
    monkeypatch.setattr(planning, "BATCH", 1 << 10)
    vfs.export(scan, tmp_path / "o.zarr", resume=True, verify=True, **HOW)


def test_a_journal_without_its_store_is_of_no_use(scan: Path, tmp_path: Path, stopped: Path) -> None:
    shutil.rmtree(f"{stopped}.part")
    vfs.export(scan, stopped, codec="none", verify=True)
    assert sorted(os.listdir(tmp_path)) == ["in", "o.zarr", "o.zarr.sums"]
