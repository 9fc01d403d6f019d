"""HDF5: which chunk is where, and which numbers are whole bytes. What h5py reads is what vfs shows."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import arranged, check_boxes, frames_of, one_line, same

h5py = pytest.importorskip("h5py")

Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int | None, ...], str | None]


def cases() -> Iterator[Case]:
    """(shape, chunk, limits, compression) of data sets with one axis without a limit, and of others."""
    yield (4, 6), (2, 3), (4, None), None
    yield (4, 6), (2, 3), (9, None), "gzip"
    yield (1, 7), (1, 3), (9, None), None
    yield (8, 6, 4), (1, 6, 4), (8, 6, None), "gzip"
    yield (4, 6), (2, 3), (None, 12), None
    yield (4, 6), (2, 3), (9, 12), None
    rng = random.Random(5)
    for _ in range(30):
        shape = tuple(rng.randint(1, 7) for _ in range(rng.randint(1, 4)))
        limits: list[int | None] = [rng.choice((n, n, n + rng.randint(0, 9))) for n in shape]
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            limits[rng.randrange(len(shape))] = None
        yield shape, tuple(rng.randint(1, min(3, n)) for n in shape), tuple(limits), rng.choice((None, "gzip"))


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_every_kind_of_index_says_where_chunks_are(tmp_path: Path, version: str) -> None:
    """Of one that grows along an axis that is not the slowest, libhdf5 says wrong places."""
    rng = random.Random(3)
    path = tmp_path / "set.h5"
    with h5py.File(path, "w", libver=version) as file:
        for n, (shape, chunk, limits, compression) in enumerate(cases()):
            data = file.create_dataset(
                f"{n}/data", shape, "i4", chunks=chunk, maxshape=limits, compression=compression, fillvalue=-1
            )
            part = rng.choice((1.0, 0.5, 0.1))
            for at in np.ndindex(*(-(-length // k) for length, k in zip(shape, chunk, strict=True))):
                if rng.random() < part:
                    data[tuple(slice(a * k, (a + 1) * k) for a, k in zip(at, chunk, strict=True))] = rng.randrange(
                        1 << 30
                    )
    with h5py.File(path) as file:
        twins = {f"{name}/data": file[name]["data"][...] for name in file}
    group = vfs.open_group(path)
    assert set(group) == set(twins)
    for name, twin in twins.items():
        same(group[name][...], twin)


def test_an_index_that_names_what_cannot_be_is_an_error(tmp_path: Path) -> None:
    """A chunk outside of the shape was left away without a word."""
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "data", data=frames_of((0x6661, 4), "u2"), chunks=(0x6660, 4), maxshape=(None, 4), compression="gzip"
        )
    whole = path.read_bytes()
    assert whole.count((0x6661).to_bytes(8, "little")) == 1  # of the shape: the limit is another number
    path.write_bytes(whole.replace((0x6661).to_bytes(8, "little"), (0x6660).to_bytes(8, "little")))
    with pytest.raises(
        vfs.FormatError, match=r"data: its index (names a chunk at \[26208, 0\]|of chunks has more entries)"
    ) as caught:
        vfs.open(path)
    assert str(path) in one_line(caught.value)


@pytest.fixture
def unfiltered_edges() -> Any:
    """Sets the option of a plan that h5py does not pass on."""
    function = ctypes.CDLL(h5py.h5d.__file__).H5Pset_chunk_opts
    function.argtypes = [ctypes.c_int64, ctypes.c_uint]
    return lambda plan: function(plan.id, 2)


@pytest.mark.parametrize("limit", [9, h5py.h5s.UNLIMITED])
def test_chunks_at_edges_that_went_through_no_filter(tmp_path: Path, unfiltered_edges: Any, limit: int) -> None:
    twin = frames_of((7, 9), "u2").astype(">u2")
    path = tmp_path / "set.h5"
    with h5py.File(path, "w", libver="latest") as file:
        for name in ("data", "usual"):
            plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plan.set_chunk((4, 4))
            plan.set_shuffle()
            plan.set_deflate(4)
            if name == "data":
                assert unfiltered_edges(plan) >= 0
            space = h5py.h5s.create_simple(twin.shape, (7, limit))
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_U16BE, space, plan).write(
                h5py.h5s.ALL, h5py.h5s.ALL, twin
            )
    for name in ("data", "usual"):
        check_boxes(path, twin, path=name, count=10)


def _integer(bits: int, offset: int) -> Any:
    made = h5py.h5t.STD_I16LE.copy()
    made.set_precision(bits)
    made.set_offset(offset)
    return made


def _bfloat16() -> Any:
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_fields(15, 7, 8, 0, 7)
    made.set_precision(16)
    made.set_size(2)
    made.set_ebias(127)
    return made


def _other_bias() -> Any:
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_ebias(126)
    return made


def _pair() -> Any:
    made = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
    for at, name in ((0, b"r"), (4, b"i")):
        made.insert(name, at, _other_bias())
    return made


def _enum() -> Any:
    made = h5py.h5t.enum_create(_integer(12, 0))
    made.enum_insert(b"one", 1)
    return made


OTHERS = {
    "precision": (lambda: _integer(12, 0), "12 of 16 bits, from bit 0"),
    "offset": (lambda: _integer(12, 4), "12 of 16 bits, from bit 4"),
    "bfloat16": (_bfloat16, "floats of 16 bits of another kind"),
    "bias": (_other_bias, "floats of 32 bits of another kind"),
    "pair": (_pair, "floats of 32 bits of another kind"),
    "enum": (_enum, "12 of 16 bits"),
}


def test_numbers_that_do_not_fill_their_bytes_are_left_out_by_name(tmp_path: Path) -> None:
    """libhdf5 converts them when it reads; the bytes themselves are other numbers."""
    with h5py.File(tmp_path / "set.h5", "w") as file:
        space = h5py.h5s.create_simple((1, 3))
        for name, (make, _) in OTHERS.items():
            h5py.h5d.create(file.id, name.encode(), make(), space)
        file["whole"] = np.arange(3.0)
        file["flag"] = np.array([True, False])
        file["named"] = np.zeros(2, h5py.enum_dtype({"a": 0, "b": 1}, "u2"))
    group = vfs.open_group(tmp_path / "set.h5")
    assert set(group) == {"whole", "flag", "named"}
    left = group.attrs["vfs"]["root"]["left_out"]
    assert set(left) == set(OTHERS)
    for name, (_, words) in OTHERS.items():
        assert words in left[name]


@pytest.mark.parametrize("more", [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((14, 5, 6), (4, 5, 6)),
        ((14, 5, 6), (5, 3, 4)),
        ((14, 5, 6), (14, 5, 6)),
        ((3, 5, 4, 3), (2, 3, 4, 3)),
        ((3, 5, 4, 3), (3, 5, 1, 2)),
    ],
)
def test_chunks_of_several_positions_take_any_scan(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], more: dict[str, Any]
) -> None:
    twin = frames_of(shape, "u2")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=twin, chunks=chunks, **more)
    arranged(tmp_path / "a.h5", twin.reshape(-1, *shape[-2:]))
    array = vfs.open(tmp_path / "a.h5", nav_shape=(2, 6), line_skip=1)
    same(array[...], twin.reshape(-1, *shape[-2:])[[0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]].reshape(2, 6, *shape[-2:]))
    same(np.asarray(array.zarr()[...]), array[...])
