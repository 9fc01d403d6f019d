"""HDF5: data sets in files that cannot be had are told, never passed over."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, one_line, opens_incomplete, same
from tests.formats.hdf5_sets import dectris, written
from vfs.testing.inside import reader_of, set_of

h5py = pytest.importorskip("h5py")


@pytest.fixture
def master(tmp_path: Path) -> Path:
    """A master of 11 frames in three files, with a flat field."""
    path = dectris(tmp_path, frames_of((11, 6, 5), "u2"), 4, chunks=(1, 6, 5), compression="gzip")
    with h5py.File(path, "a") as file:
        file["entry/instrument/flatfield"] = np.ones((6, 5), "f4")
    return path


def gone(master: Path, *numbers: int) -> None:
    for number in numbers:
        (master.parent / f"scan_data_{number:06d}.h5").unlink()


def test_a_master_without_its_data_does_not_open_as_its_flat_field(master: Path) -> None:
    gone(master, 1, 2, 3)
    with pytest.raises(vfs.MissingSourceError) as caught:
        vfs.open(master)
    text = one_line(caught.value)
    assert "entry/data/data_000001 links to scan_data_000001.h5, which is missing (and 2 more like it)" in text
    assert text.endswith("; allow_incomplete=True shows the largest of the other arrays")
    with pytest.warns(vfs.IncompleteWarning, match=r"scan_data_000001\.h5, which is missing \(and 2 more like it\)$"):
        group = vfs.open_group(master)
    assert list(group) == ["entry/instrument/flatfield"]
    assert group.attrs["vfs"]["incomplete"] == {"files_missing": 3}
    assert [Path(file).name for file in set_of(group).absent[0].files] == [f"scan_data_00000{n}.h5" for n in (1, 2, 3)]
    # scan_master.npy would be the flat field
    assert set(set_of(group).tree.faces()) == {
        ".zarr",
        ".v2.zarr",
        ".ome.zarr",
        ".ome.v2.zarr",
        ".entry.instrument.flatfield.npy",
    }
    assert list(pickle.loads(pickle.dumps(group))) == list(group)
    with pytest.warns(vfs.IncompleteWarning):
        array = vfs.open(master, allow_incomplete=True)
    assert reader_of(array).dataset.path == "entry/instrument/flatfield"
    assert ".npy" in set_of(array.group).tree.faces()
    with pytest.warns(vfs.IncompleteWarning):
        assert vfs.open(master, array="entry/instrument/flatfield").shape == (6, 5)


@pytest.mark.parametrize(("numbers", "shown", "counts"), [((1,), 11, 4), ((2,), 11, 4), ((3,), 8, 0), ((2, 3), 4, 0)])
def test_a_master_without_some_of_its_data(master: Path, numbers: tuple[int, ...], shown: int, counts: int) -> None:
    twin = frames_of((11, 6, 5), "u2")
    for number in numbers:
        twin[4 * number - 4 : 4 * number] = 0
    gone(master, *numbers)
    for opened in (vfs.open, vfs.open_group):
        with pytest.raises(
            vfs.MissingSourceError,
            match=rf"data_00000{numbers[0]}.* which is missing.*frames are missing; allow_incomplete",
        ):
            opened(master)
    with pytest.warns(vfs.IncompleteWarning, match="frames are missing"):
        array = vfs.open(master, allow_incomplete=True)
    same(array[...], twin[:shown])
    assert array.group.attrs["vfs"]["incomplete"] == {"files_missing": len(numbers), "frames_missing": counts}


def test_a_master_of_which_only_the_last_file_is_there(master: Path) -> None:
    gone(master, 1, 2)
    with pytest.warns(vfs.IncompleteWarning, match="scan_data_000001"):
        group = vfs.open_group(master)
    assert (
        "the number of frames in its missing pieces is not known"
        in group.attrs["vfs"]["root"]["left_out"]["entry/data/data"]
    )
    same(group["entry/data/data_000003"][...], frames_of((11, 6, 5), "u2")[8:])


def test_an_array_that_has_the_name_of_the_whole_keeps_it(master: Path) -> None:
    with h5py.File(master, "a") as file:
        file["entry/data/data"] = np.zeros((2, 2))
    group = vfs.open_group(master)
    assert group["entry/data/data"].shape == (2, 2)
    assert group["entry/data/data_000002"].shape == (4, 6, 5)


def _linked(folder: Path) -> None:
    with h5py.File(folder / "set.h5", "a") as file:
        file["entry/data"] = h5py.ExternalLink("part.h5", "/data")


def _virtual(folder: Path) -> None:
    layout = h5py.VirtualLayout((4, 6), "u2")
    layout[...] = h5py.VirtualSource("part.h5", "data", (4, 6))
    with h5py.File(folder / "set.h5", "a", libver="latest") as file:
        file.create_virtual_dataset("entry/data", layout)


def _raw(folder: Path) -> None:
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_external(b"part.h5", 0, 48)
    with h5py.File(folder / "set.h5", "a") as file:
        h5py.h5d.create(
            file.create_group("entry").id, b"data", h5py.h5t.STD_U16LE, h5py.h5s.create_simple((4, 6)), plan
        )


WAYS = [(link, what) for link in (_linked, _virtual, _raw) for what in ("missing", "outside")]
# Raw files may hold anything
WAYS += [(link, what) for link in (_linked, _virtual) for what in ("garbled", "without it")]


@pytest.mark.parametrize(("link", "what"), WAYS)
def test_whatever_leads_to_a_file_that_cannot_be_had(tmp_path: Path, link: Any, what: str) -> None:
    written(tmp_path, "set.h5", small=(np.ones((2, 2)), {}))
    link(tmp_path)
    part = tmp_path / "part.h5"
    if what == "outside":
        (tmp_path.parent / "elsewhere.h5").touch()
        part.symlink_to(tmp_path.parent / "elsewhere.h5")
    elif what == "garbled":
        part.write_bytes(b"garbled")
    elif what == "without it":
        written(tmp_path, "part.h5", other=(np.ones(2), {}))
    kind = vfs.OutsideError if what == "outside" else vfs.MissingSourceError
    with pytest.raises(kind, match=r"set\.h5: entry/data .*part\.h5"):
        vfs.open(tmp_path / "set.h5")
    with pytest.warns(vfs.IncompleteWarning, match=r"entry/data .*part\.h5"):
        assert list(vfs.open_group(tmp_path / "set.h5")) == ["small"]


def test_a_set_with_nothing_but_what_is_missing(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file["data"] = h5py.ExternalLink("part.h5", "/data")
    for opened in (vfs.open, vfs.open_group):
        with pytest.raises(vfs.MissingSourceError, match=r"set\.h5: data links to part\.h5, which is missing$"):
            opened(tmp_path / "set.h5")


# what has lost a part


def _stacked(folder: Path, parts: np.ndarray, **options: Any) -> Path:
    """A virtual data set of frames [file, frame, y, x]."""
    layout = h5py.VirtualLayout(parts.shape, parts.dtype)
    for k, part in enumerate(parts):
        written(folder, f"part{k}.h5", data=(part, options))
        layout[k] = h5py.VirtualSource(f"part{k}.h5", "data", part.shape)
    with h5py.File(folder / "set.h5", "w") as file:
        file.create_virtual_dataset("data", layout, fillvalue=0)
    return folder / "set.h5"


def _halves(folder: Path, parts: np.ndarray, **options: Any) -> Path:
    """A virtual data set of frames [frame, y, x], each of whose files holds some rows of all frames."""
    n = parts.shape[2]
    layout = h5py.VirtualLayout((parts.shape[1], n * len(parts), parts.shape[3]), parts.dtype)
    for k, part in enumerate(parts):
        written(folder, f"part{k}.h5", data=(part, options))
        layout[:, k * n : k * n + n] = h5py.VirtualSource(f"part{k}.h5", "data", part.shape)
    with h5py.File(folder / "set.h5", "w") as file:
        file.create_virtual_dataset("data", layout)
    return folder / "set.h5"


def _raws(folder: Path, parts: np.ndarray, **options: Any) -> Path:
    """A data set [file, frame, y, x] in raw files."""
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    for k, part in enumerate(parts):
        part.tofile(folder / f"part{k}.h5")
        plan.set_external(f"part{k}.h5".encode(), 0, part.nbytes)
    with h5py.File(folder / "set.h5", "w") as file:
        h5py.h5d.create(file.id, b"data", h5py.h5t.STD_U16LE, h5py.h5s.create_simple(parts.shape), plan)
    return folder / "set.h5"


def _series(folder: Path, parts: np.ndarray, **options: Any) -> Path:
    """A virtual data set of frames that grows with a series of files."""
    space = h5py.h5s.create_simple((len(parts), *parts.shape[1:]), (h5py.h5s.UNLIMITED, *parts.shape[1:]))
    source = h5py.h5s.create_simple(parts.shape[1:])
    space.select_hyperslab((0, 0, 0, 0), (h5py.h5s.UNLIMITED, 1, 1, 1), (1, 1, 1, 1), (1, *parts.shape[1:]))
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_virtual(space, b"part%b.h5", b"data", source)
    for k, part in enumerate(parts):
        written(folder, f"part{k}.h5", data=(part, options))
    with h5py.File(folder / "set.h5", "w", libver="latest") as file:
        h5py.h5d.create(file.id, b"data", h5py.h5t.STD_U16LE, space, plan)
    return folder / "set.h5"


_GZIP = {"compression": "gzip", "chunks": (1, 6, 5)}


@pytest.mark.parametrize(
    ("make", "what", "options"),
    [
        *product([_stacked, _halves, _series], ["missing", "outside", "garbled"], [{}, _GZIP]),
        *product([_raws], ["missing", "outside"], [{}]),  # raw files may hold anything, and are not compressed
    ],
)
def test_an_array_that_has_lost_a_file(tmp_path: Path, make: Any, what: str, options: dict[str, Any]) -> None:
    parts = frames_of((3, 2, 6, 5), "u2")
    path, part = make(tmp_path, parts, **options), tmp_path / "part1.h5"
    part.unlink()
    if what == "outside":
        (tmp_path.parent / "elsewhere.h5").touch()
        part.symlink_to(tmp_path.parent / "elsewhere.h5")
    elif what == "garbled":
        part.write_bytes(b"garbled")
    kind = vfs.OutsideError if what == "outside" else vfs.MissingSourceError
    counts = {"files_missing": 1} | ({"frames_missing": 2} if make in (_stacked, _series) else {})
    group = opens_incomplete(path, "data links to part1.h5", "parts of the array are missing", kind=kind, counts=counts)
    twin = np.where(np.arange(3)[:, None, None, None] == 1, 0, parts).astype("u2")
    twin = twin.transpose(1, 0, 2, 3).reshape(2, 18, 5) if make is _halves else twin
    same(group["data"][...], twin)
    with pytest.raises(kind, match=r"part1\.h5"):
        vfs.open_group(path)


def test_an_array_of_an_array_that_has_lost_a_file(tmp_path: Path) -> None:
    parts = frames_of((3, 2, 6, 5), "u2")
    _stacked(tmp_path, parts).rename(tmp_path / "inner.h5")
    layout = h5py.VirtualLayout(parts.shape, parts.dtype)
    layout[...] = h5py.VirtualSource("inner.h5", "data", parts.shape)
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file.create_virtual_dataset("data", layout)
        file["other"] = np.ones((2, 2))
    (tmp_path / "part2.h5").unlink()
    group = opens_incomplete(
        tmp_path / "set.h5",
        "data links to part2.h5",
        kind=vfs.MissingSourceError,
        counts={"files_missing": 1, "frames_missing": 2},
    )
    same(group["data"][...], np.concatenate([parts[:2], np.zeros((1, 2, 6, 5), "u2")]))
    assert vfs.open(tmp_path / "set.h5", array="other").shape == (2, 2)  # nothing of it is lost
