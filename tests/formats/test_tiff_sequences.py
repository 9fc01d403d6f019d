"""Files of one page each that say what the first one says: they are compared with it, and open and
read as if each was taken apart.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import opens_incomplete, unwarned
from vfs.formats import tiff
from vfs.formats.tiff_structure.pages import PageTable
from vfs.testing.inside import set_of
from vfs.testing.tiff_writers import write_tiff

PAGES = np.random.default_rng(5).integers(0, 4000, (5, 6, 7)).astype("u2")
KINDS: list[dict[str, Any]] = [
    {},
    {"order": ">", "description": "ImageJ=1.53t\nunit=nm\n"},
    {"big": True, "description": "abc"},  # the text stands in its entry
    {"big": True, "order": ">", "strip": 2},
    {"tile": (16, 16), "description": "x" * 300},
    {"strip": 6, "gap": 5000, "description": "far from the beginning"},  # the directory is beyond what is read at once
    {"tags": {305: (2, b"a program\0", 0)}},
]


def outcome(paths: Sequence[Path], **options: Any) -> Any:
    """What opening and reading a set gives: its elements and attributes, or what is wrong."""
    try:
        with unwarned():
            array = vfs.open([str(path) for path in paths], format="tiff", **options)
        return array.shape, array.dtype, dict(array.attrs), array[...].tobytes()
    except vfs.VfsError as error:
        return type(error), str(error)


def both(monkeypatch: pytest.MonkeyPatch, paths: Sequence[Path], **options: Any) -> tuple[Any, Any]:
    """The outcome as it is, and with every file taken apart."""
    compared = outcome(paths, **options)
    with monkeypatch.context() as patch:
        patch.setattr(tiff, "_TRIES", 0)
        return compared, outcome(paths, **options)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were taken apart."""
    names: list[str] = []
    add = PageTable.add
    monkeypatch.setattr(PageTable, "add", lambda table, path: names.append(Path(path).name) or add(table, path))
    return names


@pytest.mark.parametrize("how", KINDS)
def test_alike(tmp_path: Path, added: list[str], how: dict[str, Any]) -> None:
    paths = [write_tiff(tmp_path / f"{k}.tif", [page], **how) for k, page in enumerate(PAGES)]
    for options in ({}, {"plain": True}, {"concatenate": True}):
        array = vfs.open(paths, **options)
        assert added == ["0.tif"]
        added.clear()
        assert (array.shape, array.dims) == (PAGES.shape, ("frame", "y", "x"))
        np.testing.assert_array_equal(array[...], PAGES)


def test_others_between_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: list[str]) -> None:
    how: list[dict[str, Any]] = [
        {},
        {},
        {"description": "x"},
        {"tags": {305: (2, b"abcde\0", 0)}},
        {"gap": 8},
        {"big": True},
        {},
        {"description": "y"},
    ]
    paths = [write_tiff(tmp_path / f"{k}.tif", [PAGES[k % 5]], **one) for k, one in enumerate(how)]
    paths.append(write_tiff(tmp_path / "two.tif", list(PAGES[:2])))
    array = vfs.open(paths[:-1], format="tiff")
    assert added == ["0.tif", "2.tif", "3.tif", "5.tif", "7.tif"]
    np.testing.assert_array_equal(array[...], PAGES[np.arange(8) % 5])
    for chosen in (paths, paths[::-1], paths[1:3], paths[:-1]):
        for options in ({}, {"concatenate": True}):
            compared, apart = both(monkeypatch, chosen, **options)
            assert compared == apart


def test_a_text_that_says_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: list[str]) -> None:
    """The words of a file may say that it has further dimensions: it is compared with the first one in full."""
    paths = [
        write_tiff(tmp_path / f"{k}.tif", [page], description='{"shape": [6, 7]}' if k < 2 else '{"shape": [2, 21]}')
        for k, page in enumerate(PAGES[:3])
    ]
    compared, apart = both(monkeypatch, paths)
    assert added == ["0.tif", "2.tif", "0.tif", "1.tif", "2.tif"]
    assert compared == apart


def test_a_set_without_two_alike(tmp_path: Path, added: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing is given up where it leads to nothing."""
    tried: list[str] = []
    follow = PageTable.follow
    monkeypatch.setattr(PageTable, "follow", lambda table, path, size: tried.append(path) or follow(table, path, size))
    paths = [write_tiff(tmp_path / f"{k:02}.tif", [PAGES[k % 5]], description=f"frame {k}") for k in range(40)]
    assert vfs.open(paths).shape == (40, 6, 7)
    assert len(added) == 40
    assert len(tried) == tiff._TRIES


@pytest.mark.parametrize(
    "how", [{"description": "words"}, {"big": True, "strip": 3, "order": ">"}], ids=["classic", "big"]
)
def test_any_change_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    """Every byte that says something changed, and the file cut at any place: the same error, or the
    same elements, as without comparing.
    """
    paths = [write_tiff(tmp_path / f"{k}.tif", [page], **how) for k, page in enumerate(PAGES[:3])]
    good = paths[1].read_bytes()
    wrong = 0
    for k in range(len(good)):
        if PAGES[1].nbytes + 16 <= k or k < 16:  # what is between are pixels
            for bit in (1, 0x80):
                paths[1].write_bytes(good[:k] + bytes([good[k] ^ bit]) + good[k + 1 :])
                compared, apart = both(monkeypatch, paths)
                assert compared == apart, (k, bit)
                wrong += isinstance(compared[0], type)
        if k % 7 == 0:
            paths[1].write_bytes(good[:k])
            compared, apart = both(monkeypatch, paths)
            assert compared == apart, k
            assert isinstance(compared[0], type)
    assert wrong > 100


@pytest.mark.parametrize("how", [{}, {"tile": (16, 16)}, {"compression": 8, "encode": zlib.compress}])
@pytest.mark.parametrize("pages", [1, 2])
@pytest.mark.parametrize("concatenate", [False, True])
def test_a_file_that_is_missing_is_blank_at_its_place(
    tmp_path: Path, how: dict[str, Any], pages: int, concatenate: bool
) -> None:
    every = np.concatenate([PAGES, PAGES + 1])[: 5 * pages].reshape(5, pages, 6, 7)
    for k in (0, 1, 3, 4):
        write_tiff(tmp_path / f"img_{k:03}.tif", list(every[k]), **how)
    counts = {"files_missing": 1, "frames_missing": pages}
    options = {"concatenate": concatenate, "format": "tiff"}
    group = opens_incomplete(
        str(tmp_path / "img_*.tif"), "img_002.tif: missing", counts=counts, kind=vfs.MissingSourceError, **options
    )
    assert [path for one in set_of(group).absent for path in one.files] == [str(tmp_path / "img_002.tif")]
    every[2] = 0
    want = every.reshape(group.main.shape)
    assert group.main.shape[0] == (5 if pages == 1 or not concatenate else 10)
    np.testing.assert_array_equal(group.main[...], want)
    np.testing.assert_array_equal(group.main.valid, want.any(axis=(-1, -2)))


def test_files_of_several_lengths_of_which_one_is_missing(tmp_path: Path) -> None:
    paths = [write_tiff(tmp_path / f"{k}.tif", list(PAGES[:n])) for k, n in ((1, 2), (2, 3), (4, 2))]
    with pytest.raises(
        vfs.MissingSourceError, match=r"3\.tif: missing.*lets the files that are there follow on each other"
    ):
        vfs.open(paths, concatenate=True)
    group = opens_incomplete(
        paths, "3.tif: missing", counts={"files_missing": 1}, concatenate=True, allow_incomplete=True
    )
    np.testing.assert_array_equal(group.main[...], PAGES[[0, 1, 0, 1, 2, 0, 1]])
