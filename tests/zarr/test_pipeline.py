"""The codec pipeline gives what the default one gives, on every kind of selection, and leaves other stores alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.storage import MemoryStore

import vfs
from vfs.engine.array import ArrayReader
from vfs.testing.writers import write_raw
from vfs.zarr.pipeline import NAME, DirectArray, Pipeline

TWIN = np.random.default_rng(5).integers(0, 60000, (4, 5, 6, 7)).astype("u2")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The same numbers through our pipeline: v3 and v2, and as `a.zarr()` gives them, two backends."""
    paths = write_raw(tmp_path_factory.mktemp("pipe"), TWIN.reshape(20, 6, 7), frame_header=5, files=3)
    found = []
    for backend in ("mmap", "buffered"):
        array = vfs.open(
            paths,
            format="raw",
            dtype="<u2",
            sig_shape=(6, 7),
            frame_header=5,
            nav_shape=(4, 5),
            chunks=(2, 2, 4, 3),
            backend=backend,
        )
        with zarr.config.set({"codec_pipeline.path": NAME}):
            found += [zarr.open_array(array.store(v), path="data", mode="r") for v in (3, 2)]
        found.append(array.zarr())
    return found


def test_a_zarr_uses_it_and_nothing_else_does(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", TWIN)
    array = vfs.open(tmp_path / "a.npy")
    assert type(array.zarr()._async_array.codec_pipeline) is Pipeline
    assert type(zarr.open_array(array.store(), path="data", mode="r")._async_array.codec_pipeline) is not Pipeline
    assert zarr.config.get("codec_pipeline.path") != NAME


@given(data=st.data())
def test_basic_selections(arrays: list[Any], data: st.DataObject) -> None:
    index = []
    for n in TWIN.shape:
        if data.draw(st.booleans()):
            index.append(data.draw(st.integers(-n, n - 1)))
        else:
            a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
            index.append(slice(min(a, b), max(a, b), data.draw(st.sampled_from([None, 1, 2, 3]))))
    key = tuple(index[: data.draw(st.integers(0, 4))])
    for z in arrays:
        got = z[key]
        assert np.array_equal(got, TWIN[key])
        assert np.shape(got) == TWIN[key].shape


@given(data=st.data())
def test_other_selections(arrays: list[Any], data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 9999)))
    rows = [rng.integers(0, n, rng.integers(1, 5)) for n in TWIN.shape]
    mixed = tuple(
        r if rng.random() < 0.5 else slice(0, n, int(rng.integers(1, 3))) if rng.random() < 0.7 else int(r[0])
        for r, n in zip(rows, TWIN.shape, strict=True)
    )
    mask = rng.random(TWIN.shape) < 0.05
    points = tuple(rng.integers(0, n, 6) for n in TWIN.shape)
    reference = zarr.create_array(MemoryStore(), data=TWIN, chunks=(2, 2, 4, 3))
    for z in arrays:
        assert np.array_equal(z.oindex[mixed], reference.oindex[mixed])
        assert np.array_equal(z.get_mask_selection(mask), TWIN[mask])
        assert np.array_equal(z.vindex[points], TWIN[points])
        assert np.array_equal(z.blocks[1, 0:2], reference.blocks[1, 0:2])


def test_large_reads_are_shared_among_threads(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 60000, (101, 256, 256)).astype(">u2")
    array = vfs.open(
        write_raw(tmp_path, frames, frame_header=9, files=4),
        format="raw",
        dtype=">u2",
        sig_shape=(256, 256),
        frame_header=9,
    )
    z = array.zarr()
    assert (z[...] == frames).all()
    assert (z[3:98, 10:200:3, 7:] == frames[3:98, 10:200:3, 7:]).all()


def test_a_failing_read_raises(tmp_path: Path) -> None:
    frames = np.zeros((40, 64, 64), "u2")
    array = vfs.open(
        write_raw(tmp_path, frames, files=2), format="raw", dtype="u2", sig_shape=(64, 64), chunks=(1, -1, -1)
    )
    z = array.zarr()
    Path(array.files[1]).unlink()
    assert (z[3] == 0).all()
    with pytest.raises(vfs.SourceError, match="part1"):
        z[...]
    with pytest.raises(vfs.SourceError, match="part1"):
        z.oindex[[1, 39]]


def test_scalars_and_empty_selections(tmp_path: Path) -> None:
    np.save(tmp_path / "zero.npy", np.float64(2.5))
    assert vfs.open(tmp_path / "zero.npy").zarr()[()] == 2.5
    np.save(tmp_path / "some.npy", TWIN)
    z = vfs.open(tmp_path / "some.npy").zarr()
    assert z[1, 2, 3, 4] == TWIN[1, 2, 3, 4]
    assert z[2:2].shape == (0, 5, 6, 7)


def test_other_stores_are_left_alone(tmp_path: Path) -> None:
    with zarr.config.set({"codec_pipeline.path": NAME}):
        z = zarr.create_array(MemoryStore(), shape=TWIN.shape, chunks=(3, 3, 3, 3), dtype=TWIN.dtype)
        assert isinstance(z._async_array.codec_pipeline, BatchedCodecPipeline)
        z[...] = TWIN
        z[1, 2] = 7
        want = TWIN.copy()
        want[1, 2] = 7
        assert np.array_equal(z[...], want)
        assert np.array_equal(z[::2, 1:3, 4], want[::2, 1:3, 4])


ODD = (
    0,
    -1,
    np.int16(2),
    np.uint64(1),
    4,
    -5,
    slice(None),
    slice(3, 1),
    slice(-2, 99),
    slice(0, 4, 2),
    slice(None, None, -1),
    slice(1.5),
    ...,
    None,
    True,
)
ODDER = (np.True_, 1.5, "x", [0, 2], np.array([1]), np.array(1), np.array(False), [True, False, True, False])


def outcome(act: Callable[[], Any]) -> tuple[Any, ...]:
    try:
        got = act()
    except Exception as error:
        return type(error), str(error)
    return type(got), np.shape(got), np.asarray(got).tolist(), getattr(getattr(got, "flags", None), "writeable", None)


@given(key=st.lists(st.sampled_from(ODD + ODDER), max_size=6))
def test_an_index_means_what_it_means_to_zarr(arrays: list[Any], key: list[Any]) -> None:
    """Results with their type and shape, and errors with their words, are those of a zarr.Array
    that is none of ours.
    """
    reference = zarr.create_array(MemoryStore(), data=TWIN, chunks=(2, 2, 4, 3))
    asked = key[0] if len(key) == 1 else tuple(key)
    for z in arrays:
        assert outcome(lambda z=z: z[asked]) == outcome(lambda: reference[asked]), asked


def test_what_a_zarr_gives_is_a_zarr_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", TWIN)
    z = vfs.open(tmp_path / "a.npy", chunks=(2, 5, 6, 7)).zarr()
    assert isinstance(z, zarr.Array)
    again = pickle.loads(pickle.dumps(z))
    assert type(again) is DirectArray
    assert again == z
    assert np.array_equal(again[1:3, 2], TWIN[1:3, 2])
    assert type(again._async_array.codec_pipeline) is Pipeline
    got = z[1]
    got[...] = 0  # what is handed out is the caller's
    assert np.array_equal(z[1], TWIN[1])
    with pytest.raises(ValueError, match="read"):
        z[0] = 1


def test_chunks_of_a_batch_are_read_as_one_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", TWIN)
    array = vfs.open(tmp_path / "a.npy", chunks=(2, 2, 4, 3))
    with zarr.config.set({"codec_pipeline.path": NAME}):
        z = zarr.open_array(array.store(), path="data", mode="r")
    reads = []
    read = ArrayReader.read
    monkeypatch.setattr(
        ArrayReader, "read", lambda self, region=None, out=None: (reads.append(region), read(self, region, out))[1]
    )
    for key in (
        (slice(None),),
        (slice(1, 4), 3),
        (2, slice(1, 5), slice(None), 1),
        (slice(0, 3), slice(2, 4), slice(1, 6), slice(2, 7)),
    ):
        reads.clear()
        assert np.array_equal(z[key], TWIN[key])
        assert len(reads) == 1, key


@pytest.mark.parametrize("key", [3, -1, (3,), np.int64(2), (2, 1), (slice(1, 3), 2), (..., 4), slice(None)])
def test_boxes_do_not_go_through_zarr(arrays: list[Any], monkeypatch: pytest.MonkeyPatch, key: Any) -> None:
    """A `DirectArray` reads them itself, at a quarter of the time that zarr's way takes."""
    direct = [z for z in arrays if type(z) is DirectArray]
    assert direct
    monkeypatch.setattr(zarr.Array, "__getitem__", lambda self, selection: pytest.fail("went through zarr"))
    for z in direct:
        assert np.array_equal(z[key], TWIN[key])
