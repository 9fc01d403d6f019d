"""HDF5: data sets whose elements are elsewhere. What h5py reads of them is what vfs shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import BACKENDS, check_boxes, frames_of, incomplete, same
from tests.formats.hdf5_sets import written

h5py = pytest.importorskip("h5py")

Layout = Any
WHOLE = (5, 6, 8)


def some_frames(layout: Layout, source: Callable[[int], Any]) -> None:
    layout[1:3] = source(0)[1:3]
    layout[4:] = source(1)[0:2]


def every_other(layout: Layout, source: Callable[[int], Any]) -> None:
    layout[0:6:2] = source(0)[0:3]
    layout[1:6:2] = source(1)[2:5]


def every_other_of_the_source(layout: Layout, source: Callable[[int], Any]) -> None:
    layout[0:3] = source(0)[0:5:2]
    layout[3:5] = source(1)[1:5:2]


def a_corner(layout: Layout, source: Callable[[int], Any]) -> None:
    layout[0:5, 1:4, 2:7] = source(0)[:, 2:5, 3:8]


def side_by_side(layout: Layout, source: Callable[[int], Any]) -> None:
    layout[0:5, :, 0:4] = source(0)[:, :, 4:8]
    layout[0:5, :, 4:8] = source(1)[:, :, 0:4]


def a_frame_of_each(layout: Layout, source: Callable[[int], Any]) -> None:
    layout[0] = source(0)[3]
    layout[1] = source(1)[4]


def rows_and_columns_with_gaps(layout: Layout, source: Callable[[int], Any]) -> None:
    layout[0:2, 0:6:3, 1:8:2] = source(0)[3:5, 0:4:2, 0:4]


def nothing(layout: Layout, source: Callable[[int], Any]) -> None:
    pass


MAPPINGS = [
    some_frames,
    every_other,
    every_other_of_the_source,
    a_corner,
    side_by_side,
    a_frame_of_each,
    rows_and_columns_with_gaps,
    nothing,
]
STORED: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (2, 4, 3)},
    "gzip": {"chunks": (2, 4, 3), "compression": "gzip"},
    "frames": {"chunks": (1, 6, 8), "compression": "gzip", "shuffle": True},
}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_virtual_data_sets_that_take_parts(
    tmp_path: Path, mapping: Callable[[Layout, Callable[[int], Any]], None], stored: str
) -> None:
    for k in range(2):
        written(tmp_path, f"part{k}.h5", data=(frames_of(WHOLE, "i4", seed=k), STORED[stored]))
    layout = h5py.VirtualLayout((6, 6, 8), "i4")
    mapping(layout, lambda k: h5py.VirtualSource(f"part{k}.h5", "data", WHOLE))
    with h5py.File(tmp_path / "set.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("data", layout, fillvalue=-7)
    with h5py.File(tmp_path / "set.h5") as file:
        twin = file["data"][...]
    check_boxes(tmp_path / "set.h5", twin, count=12)
    assert (twin == -7).any() != (mapping is every_other)


@pytest.mark.parametrize("stored", STORED)
def test_parts_of_a_source_as_fewer_axes(tmp_path: Path, stored: str) -> None:
    data = frames_of((3, 5, 6, 8), "u2")
    chunks = {"chunks": (2, 2, 4, 3)} if stored != "contiguous" else {}
    written(tmp_path, "part.h5", data=(data, {**STORED[stored], **chunks}))
    source = h5py.VirtualSource(tmp_path / "part.h5", "data", data.shape)
    frame, line, wide = (
        h5py.VirtualLayout((6, 8), "u2"),
        h5py.VirtualLayout((2, 8), "u2"),
        h5py.VirtualLayout((1, 2, 5, 1, 6, 8), "u2"),
    )
    frame[...] = source[1, 3]
    line[1] = source[2, 4, 5]
    wide[0, 1, :, 0] = source[2]
    with h5py.File(tmp_path / "set.h5", "w", libver="latest") as file:
        for name, layout in (("frame", frame), ("line", line), ("wide", wide)):
            file.create_virtual_dataset(name, layout)
    with h5py.File(tmp_path / "set.h5") as file:
        twins = {name: file[name][...] for name in file}
    for name, twin in twins.items():
        assert twin.any()
        check_boxes(tmp_path / "set.h5", twin, path=name, count=10)


def test_virtual_data_sets_of_virtual_data_sets_and_open_ends(tmp_path: Path) -> None:
    for k in range(3):
        with h5py.File(tmp_path / f"part{k}.h5", "w") as file:
            file.create_dataset(
                "data",
                data=frames_of((2, 4, 5), "u2", seed=k),
                chunks=(1, 4, 5),
                maxshape=(None, 4, 5),
                compression="gzip",
            )
    inner = h5py.VirtualLayout((4, 4, 5), "u2")
    for k in range(2):
        inner[2 * k : 2 * k + 2] = h5py.VirtualSource(f"part{k}.h5", "data", (2, 4, 5))
    outer = h5py.VirtualLayout((3, 4, 5), "u2")
    outer[1:3] = h5py.VirtualSource(".", "inner", (4, 4, 5))[1:3]
    with h5py.File(tmp_path / "set.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("inner", inner)
        file.create_virtual_dataset("outer", outer)
        for name, source in (("growing", b"part1.h5"), ("series", b"part%b.h5")):
            plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            space = h5py.h5s.create_simple((6, 4, 5), (h5py.h5s.UNLIMITED, 4, 5))
            of = h5py.h5s.create_simple((2, 4, 5), (h5py.h5s.UNLIMITED, 4, 5))
            if name == "series":
                space.select_hyperslab((0, 0, 0), (h5py.h5s.UNLIMITED, 1, 1), (2, 1, 1), (2, 4, 5))
            else:
                space.select_hyperslab((0, 0, 0), (h5py.h5s.UNLIMITED, 1, 1), None, (1, 4, 5))
                of.select_hyperslab((0, 0, 0), (h5py.h5s.UNLIMITED, 1, 1), None, (1, 4, 5))
            plan.set_virtual(space, source, b"data", of)
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_U16LE, space, plan)
    with h5py.File(tmp_path / "set.h5") as file:
        twins = {name: file[name][...] for name in file}
    assert twins["series"].shape == (6, 4, 5)
    group = vfs.open_group(tmp_path / "set.h5")
    assert set(group) == set(twins), group.main.attrs["root"].get("left_out")
    for name, twin in twins.items():
        same(group[name][...], twin)


def test_virtual_data_sets_that_cannot_be_shown(tmp_path: Path) -> None:
    data = frames_of((4, 6), "i4")
    written(tmp_path, "part.h5", data=(data, {}), other=(data.astype("f4"), {}))
    with h5py.File(tmp_path / "part.h5", "a") as file:
        file.create_dataset("never", shape=(4, 6), dtype="i4", fillvalue=3)
    source = h5py.VirtualSource("part.h5", "data", (4, 6))
    sets = {
        name: h5py.VirtualLayout((4, 6), "i4") for name in ("own", "column", "shape", "type", "gone", "fill", "twice")
    }
    sets["own"][...] = source
    sets["column"] = h5py.VirtualLayout((4,), "i4")
    sets["column"][...] = source[:, 3]
    sets["shape"] = h5py.VirtualLayout((2, 12), "i4")
    sets["shape"][...] = source
    sets["type"][...] = h5py.VirtualSource("part.h5", "other", (4, 6))
    sets["gone"][...] = h5py.VirtualSource("missing.h5", "data", (4, 6))
    sets["fill"][...] = h5py.VirtualSource("part.h5", "never", (4, 6))
    sets["twice"][0:3] = source[0:3]
    sets["twice"][2:4] = source[0:2]
    with h5py.File(tmp_path / "set.h5", "w", libver="latest") as file:
        for name, layout in sets.items():
            file.create_virtual_dataset(name, layout)
    with pytest.warns(vfs.IncompleteWarning, match=r"gone links to missing\.h5, which is missing$"):
        group = vfs.open_group(tmp_path / "set.h5")
    left = group.main.attrs["root"]["left_out"]
    assert list(group) == ["own"]
    for name, word in {
        "column": "fastest axis",
        "shape": "another shape",
        "type": "another type",
        "gone": "missing",
        "fill": "fill value",
        "twice": "overlap",
    }.items():
        assert word in left[name], name


def external(folder: Path, twin: np.ndarray, parts: list[tuple[str, int, int]]) -> Path:
    """A data set whose elements are in raw files beside it: (name, first byte, bytes)."""
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    raw = twin.tobytes()
    with h5py.File(folder / "set.h5", "w") as file:
        for name, at, size in parts:
            plan.set_external(name.encode(), at, size)
            if (folder / name).parent.exists() and "missing" not in name:
                (folder / name).write_bytes(bytes(at) + raw[:size] + b"more")
            raw = raw[size:]
        h5py.h5d.create(file.id, b"data", h5py.h5t.py_create(twin.dtype), h5py.h5s.create_simple(twin.shape), plan)
        file["own"] = twin[:1, :1]
    return folder / "set.h5"


@pytest.mark.parametrize("dtype", ["<u2", ">f4"])
def test_elements_in_raw_files(tmp_path: Path, dtype: str) -> None:
    twin = frames_of((5, 6, 7), "u2").astype(dtype)
    path = external(tmp_path, twin, [("a.raw", 0, 400), ("b.raw", 12, 4), ("c.raw", 100, twin.nbytes - 404)])
    check_boxes(path, twin)
    assert [Path(name).name for name in vfs.open(path).files] == ["a.raw", "b.raw", "c.raw"]
    opened = [vfs.open(path, backend=backend) for backend in BACKENDS]
    os.truncate(tmp_path / "c.raw", 110)
    for array in opened:
        with pytest.raises(vfs.SourceError, match=r"c\.raw"):
            array[4]


@pytest.mark.parametrize("dtype", ["<u2", ">f4"])
@pytest.mark.parametrize(
    ("share", "which", "gone"),
    [
        (0.9, "a", [1]),
        (0.1, "a", [0, 1]),
        (0, "a", [0, 1]),
        (0.9, "b", [2]),
        (0.2, "b", [1, 2]),
        (0.4, "c", [3, 4]),
        (0.7, "c", [4]),
    ],
)
def test_raw_files_that_were_cut(tmp_path: Path, dtype: str, share: float, which: str, gone: list[int]) -> None:
    """Frames that they do not hold as a whole are blank, also where one lies in two files; the others are shown."""
    twin = np.arange(1, 5 * 6 * 7 + 1).reshape(5, 6, 7).astype(dtype)
    third = twin[:3].nbytes
    at = twin[0].nbytes + 20  # in the second frame
    path = external(tmp_path, twin, [("a.raw", 0, at), ("b.raw", 12, third - at), ("c.raw", 100, twin.nbytes - third)])
    head, size = {"a": (0, at), "b": (12, third - at), "c": (100, twin.nbytes - third)}[which]
    os.truncate(tmp_path / f"{which}.raw", head + int(share * size))
    array = incomplete(path, f"{which}.raw: expected", "it looks truncated", kind=vfs.TruncatedSourceError)
    twin[gone] = 0
    same(array[...], twin)
    assert array.valid.tolist() == [k not in gone for k in range(5)]


def test_a_raw_file_without_a_whole_frame_is_an_error(tmp_path: Path) -> None:
    path = external(tmp_path, frames_of((5, 6), "u2"), [("a.raw", 0, 60)])
    os.truncate(tmp_path / "a.raw", 31)
    with pytest.raises(vfs.TruncatedSourceError, match=r"a\.raw: expected bytes"):
        vfs.open(path, array="data", allow_incomplete=True)[...]


@pytest.mark.parametrize("stored", [{}, {"chunks": (1, 4, 5)}, {"compression": "gzip", "chunks": (1, 4, 5)}])
@pytest.mark.parametrize("gap", [False, True])
def test_pieces_of_a_virtual_data_set_fit_any_scan(tmp_path: Path, stored: dict[str, Any], gap: bool) -> None:
    """Contiguous ones too, which cover several frames each: taken from the middle of sources, in any order."""
    frames = np.arange(1, 12 * 4 * 5 + 1, dtype=">u2").reshape(12, 4, 5)
    layout = h5py.VirtualLayout((9, 4, 5), ">u2")
    for k, (first, count) in enumerate([(6, 3), (0, 3), (3, 3)]):
        with h5py.File(tmp_path / f"s{k}.h5", "w") as file:
            file.create_dataset("data", data=frames[first : first + count + 1], **stored)
        if not (gap and k == 1):
            layout[first : first + count] = h5py.VirtualSource(f"s{k}.h5", "data", (count + 1, 4, 5))[:count]
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file.create_virtual_dataset("data", layout)
        twin = file["data"][...]
    check_boxes(tmp_path / "set.h5", twin)
    array = vfs.open(tmp_path / "set.h5", nav_shape=(3, 3))
    same(array[...], twin.reshape(3, 3, 4, 5))
    same(vfs.open(tmp_path / "set.h5", nav_shape=(2, 4), sync_offset=1)[1], twin[5:9])


def test_raw_files_that_cannot_be_shown(tmp_path: Path) -> None:
    twin = frames_of((5, 6), "u2")
    with pytest.warns(vfs.IncompleteWarning, match="middle of an element"):
        group = vfs.open_group(external(tmp_path, twin, [("a.raw", 0, 31), ("b.raw", 0, 29)]))
    assert "middle of an element" in group.main.attrs["root"]["left_out"]["data"]
    with pytest.warns(vfs.IncompleteWarning, match=r"missing\.raw, which is missing$"):
        group = vfs.open_group(external(tmp_path, twin, [("missing.raw", 0, 60)]))
    assert "missing.raw, which is missing" in group.main.attrs["root"]["left_out"]["data"]
    (tmp_path / "in").mkdir()
    path = external(tmp_path / "in", twin, [("../out.raw", 4, 60)])
    with pytest.warns(vfs.IncompleteWarning, match="outside the folder"):
        assert "outside the folder" in vfs.open_group(path).main.attrs["root"]["left_out"]["data"]
    same(vfs.open_group(path, follow_outside=True)["data"][...], twin)
