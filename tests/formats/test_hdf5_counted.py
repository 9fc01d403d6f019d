"""HDF5 of stempy: lists of counted electrons, shown as frames."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, refuses, same, warned
from vfs.formats.hdf5.programs import stempy
from vfs.testing.hdf5_writers import write_counted

h5py = pytest.importorskip("h5py")

NAME = "electron_events/frames"
SCAN, FRAME = (3, 5), (6, 9)
RNG = np.random.default_rng(3)
LISTS = [np.unique(RNG.integers(0, 54, n)) for n in RNG.integers(0, 60, 30)]
LISTS[4] = LISTS[29] = np.empty(0, int)


def counted(places: np.ndarray) -> np.ndarray:
    """The frames of `LISTS` at these positions."""
    twin = np.zeros((15, 54), "u2")
    for place, events in zip(places, LISTS, strict=True):
        np.add.at(twin[place], events, 1)
    return twin.reshape(*SCAN, *FRAME)


@pytest.mark.parametrize("block", [1 << 20, 300])
@pytest.mark.parametrize("how", [{}, {"chunks": (7,)}, {"maxshape": (None,)}, {"userblock": 512}])
def test_frames(tmp_path: Path, how: dict[str, Any], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stempy, "_BLOCK", block)  # 300: two frames
    twin = counted(np.arange(30) // 2)
    path = write_counted(tmp_path / "a.h5", LISTS, SCAN, FRAME, **how)
    check_boxes(path, twin, NAME, count=15)
    array = vfs.open(path)
    assert (array.dims, array.dtype) == (("scan_y", "scan_x", "y", "x"), np.dtype("u2"))
    assert {*vfs.open_group(path)} == {NAME, "electron_events/scan_positions", "stem/images"}
    same(pickle.loads(pickle.dumps(array))[...], twin)


def test_lists_in_any_order(tmp_path: Path) -> None:
    places = np.random.default_rng(1).permutation(np.arange(30) // 2)
    path = write_counted(tmp_path / "a.h5", LISTS, SCAN, FRAME, places, chunks=(4,))
    check_boxes(path, counted(places), NAME, count=15)


def test_positions_without_a_list_are_said(tmp_path: Path) -> None:
    places = np.where(np.arange(30) // 2 == 7, 8, np.arange(30) // 2)
    path = write_counted(tmp_path / "a.h5", LISTS, SCAN, FRAME, places)
    found = warned(path, "1 of 15 positions of the scan have no list of events")
    same(found[...], counted(places))


def test_an_event_may_come_twice(tmp_path: Path) -> None:
    many = np.full(70_000, 5)
    path = write_counted(tmp_path / "a.h5", [many[:65_535], many], (1, 2), (2, 3), np.arange(2))
    array = vfs.open(path)
    with pytest.raises(vfs.DecodeError, match=r"a\.h5.*at most 65,535 events in a pixel, found 70,000"):
        array[...]
    path = write_counted(tmp_path / "b.h5", [many[:65_535], many[:9]], (1, 2), (2, 3), np.arange(2))
    assert vfs.open(path)[0, :, 1].tolist() == [[0, 0, 65_535], [0, 0, 9]]


def left_out(path: Path) -> dict[str, str]:
    """Return what is not shown of a file, and why."""
    group = vfs.open_group(path)
    assert NAME not in group
    found: dict[str, str] = group.main.attrs["root"]["left_out"]
    return found


def test_what_is_not_said_is_left_out(tmp_path: Path) -> None:
    path = write_counted(tmp_path / "a.h5", LISTS, SCAN, FRAME)
    with h5py.File(path, "a") as file:
        del file[NAME].attrs["Nx"]
    assert "Nx and Ny" in left_out(path)[NAME]
    path = write_counted(tmp_path / "b.h5", LISTS, SCAN, FRAME, np.arange(30))
    assert "positions in a scan of 3 × 5" in left_out(path)[NAME]


def damaged(path: Path, at: int, data: bytes) -> Path:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)
    return path


def places_of(path: Path) -> tuple[int, int]:
    """First byte of the elements, and of the first collection."""
    with h5py.File(path) as file:
        at = file[NAME].id.get_offset()
    return at, struct.unpack_from("<Q", path.read_bytes(), at + 4)[0]


@pytest.mark.parametrize(
    ("data", "what", "said"),
    [
        (b"\xff\xff\xff\x0f", "element", "expected list 1 of 268,435,455 events"),
        (b"\1\0\0\0" + b"\xff" * 8, "element", "expected a collection of lists within the file"),
        (b"\1\0\0\0", "element of others", "expected list 9999"),
        (b"GONE", "collection", "expected a collection of lists"),
        (b"GCOL\1\0\0\0" + b"\xff" * 7 + b"\0", "collection", "expected a collection of lists"),
        (b"\xff\xff\xff\xff", "event", "expected events in 54 pixels, found one in pixel 4,294,967,295"),
    ],
)
def test_damage_is_an_error(tmp_path: Path, data: bytes, what: str, said: str) -> None:
    path = write_counted(tmp_path / "a.h5", [np.arange(3), *LISTS[1:]], SCAN, FRAME)
    element, collection = places_of(path)
    at = {"element": element, "element of others": element + 12, "collection": collection, "event": collection + 32}
    damaged(path, at[what], data if what != "element of others" else struct.pack("<I", 9999))
    array = vfs.open(path)
    with pytest.raises(vfs.DecodeError, match=rf"a\.h5.*{said}"):
        array[0, 0]


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = write_counted(tmp_path / "a.h5", LISTS, SCAN, FRAME)
    path.write_bytes(path.read_bytes()[:-300])
    refuses(path, "")


def test_lists_of_others_stay_left_out(tmp_path: Path) -> None:
    path = write_counted(tmp_path / "a.h5", LISTS, SCAN, FRAME)
    with h5py.File(path, "a") as file:
        file.move("electron_events", "other")
    assert "its own length" in left_out(path)["other/frames"]
