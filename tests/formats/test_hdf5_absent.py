"""HDF5: data sets in files that cannot be had are told, never passed over."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, one_line, same
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
    assert text.endswith("; allow_incomplete=True (--allow-incomplete) shows the largest of the other arrays")
    with pytest.warns(vfs.IncompleteWarning, match=r"scan_data_000001\.h5, which is missing \(and 2 more like it\)$"):
        group = vfs.open_group(master)
    assert list(group) == ["entry/instrument/flatfield"]
    assert group.attrs["vfs"]["incomplete"] == {"files_missing": 3}
    assert [Path(file).name for file in set_of(group).absent[0].files] == [f"scan_data_00000{n}.h5" for n in (1, 2, 3)]
    # scan_master.npy would be the flat field
    assert set(set_of(group).tree.faces()) == {".zarr", ".v2.zarr", ".entry.instrument.flatfield.npy"}
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
