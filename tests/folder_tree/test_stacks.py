"""Numbered images of a folder are one stack, by one rule in every place that shows folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.cli.support import run
from vfs.folder_tree import plans
from vfs.page.reopened import Reopened
from vfs.testing.tiff_writers import write_tiff

COUNT = 24


def image(k: int, shape: tuple[int, int] = (6, 7)) -> np.ndarray:
    return np.full(shape, k, "u2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for k in range(COUNT):
        write_tiff(tmp_path / f"img_{k:03d}.tif", [image(k)])
        write_tiff(tmp_path / f"odd_{k}.tif", [image(k, (6, 7 + (k == 9)))])
    for k in range(3):
        write_tiff(tmp_path / f"few_{k}.tif", [image(k)])
    return tmp_path


def sets(tree: plans.FolderTree) -> set[str]:
    return {
        name.removesuffix(".zarr") for name in tree.at("").children() if name.endswith(".zarr") and "." not in name[:-5]
    }


def test_numbered_images_are_one_stack(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = {f"odd_{k}" for k in range(COUNT)}
    few = {f"few_{k}" for k in range(3)}
    tree = plans.folder_tree(folder)
    assert tree.at("img_007.zarr").node() is None  # it belongs to the set of the first one
    assert sets(tree) == {"img_000"} | odd | few
    found = tree.at("img_000.zarr").in_face()
    assert found is not None
    stack = found.face.arrays["data"]
    np.testing.assert_array_equal(stack[...], np.stack([image(k) for k in range(COUNT)]))
    assert found.opening is not None
    assert [Path(path).name for path in found.opening.paths][-1] == f"img_{COUNT - 1:03d}.tif"
    assert (
        sets(plans.folder_tree(folder, view=plans.TreeView(single_files=True)))
        == {f"img_{k:03d}" for k in range(COUNT)} | odd | few
    )
    capsys.readouterr()
    assert run("info", folder, "-v") == 0
    said = capsys.readouterr().out
    assert "img_000.tif  tiff  24 files" in said
    assert "20 or more images whose names differ in one number are one stack" in " ".join(said.split())
    assert vfs.open(folder / "img_003.tif").shape == (6, 7)  # a file that is named is the set that it is


def test_a_file_of_a_stack_is_opened_by_itself(folder: Path) -> None:
    contents = Reopened(plans.folder_tree(folder))
    _, alone = contents.reopen("img_000.zarr", {"stack": 5})
    np.testing.assert_array_equal(alone.main[...], image(5))
    for wrong in (COUNT, False, "yes"):
        with pytest.raises(vfs.OptionError, match=f"expected true, or the number of one of {COUNT} files"):
            contents.reopen("img_000.zarr", {"stack": wrong})


def test_two_numbers_are_no_stack(tmp_path: Path) -> None:
    for k in range(COUNT):
        write_tiff(tmp_path / f"a{k % 4}_b{k // 4}.tif", [image(k)])
    assert len(sets(plans.folder_tree(tmp_path))) == COUNT
