"""Names of arrays and groups that files may have: shown under them, or left out by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import vfs
from vfs.model.naming import check_paths, unusable

h5py = pytest.importorskip("h5py")

SHOWN = [
    "c",
    "0",
    "__unnamed__",
    "..a",
    "~",
    "a b",
    "c.d",
    "ä",
    "%2F",
    "#?*",
    "x.npy",
    "x.zarr",
    ".hidden",
    "g/c",
    "g/0",
    "q/c/c",
    "q/c/0",
    "q/0/c",
]
REFUSED = [
    "zarr.json",
    ".zattrs",
    ".zarray",
    ".zgroup",
    ".zmetadata",
    "a\\b",
    "..\\x",
    "...",
    "tab\t",
    "line\n",
    "\x7f",
    "x" * 256,
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "set.h5", "w") as file:
        for n, name in enumerate(SHOWN):
            file[name] = np.arange(6).reshape(2, 3) + n
        for name in REFUSED:
            file[name] = file[f"in/{name}/data"] = np.arange(3)
        file["point/c"] = 1.5
    return tmp_path / "set.h5"


@pytest.mark.parametrize("zarr_format", [3, 2])
@pytest.mark.parametrize("consolidated", [True, False])
def test_every_name_that_is_shown_is_one_for_zarr(path: Path, zarr_format: int, consolidated: bool) -> None:
    """One backslash made zarr refuse the whole group; `c` is what v3 calls the chunks of an array."""
    group = vfs.open_group(path)
    assert set(group) == {*SHOWN, "point/c"}
    seen = zarr.open_group(group.store(zarr_format), mode="r", use_consolidated=consolidated)
    names = {name for name, node in seen.members(max_depth=None) if isinstance(node, zarr.Array)}
    assert names == set(group)
    with h5py.File(path) as file:
        for name in group:
            assert np.array_equal(seen[name][...], file[name][...]), name


def test_the_others_are_left_out_by_name(path: Path) -> None:
    left = vfs.open_group(path).attrs["vfs"]["root"]["left_out"]
    expected = {name if name.isprintable() else ascii(name) for name in REFUSED}
    assert set(left) == expected | {f"in/{name}" for name in expected}
    slashes = "its name has a slash or a backslash, which zarr takes for the end of a folder's name"
    assert left["a\\b"] == left["in/a\\b"] == slashes


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", *REFUSED])
def test_unusable(name: str) -> None:
    assert unusable(name)


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["data", "data/c"], "'data' is an array, not a group"),
        (["a\\b"], "a backslash"),
        (["a//b"], "consists of dots"),
        ([""], "consists of dots"),
    ],
)
def test_no_format_can_show_arrays_that_are_in_each_others_way(paths: list[str], words: str) -> None:
    check_paths(["data", "entry/data", "entry/c/0"])
    with pytest.raises(vfs.FormatError, match=words):
        check_paths(paths)
