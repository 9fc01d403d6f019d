"""A set of a tree that one of its other files broke is there again when that file is well, in place
or put back, whoever names the set.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.folder_tree.support import names
from vfs.errors import SourceError
from vfs.folder_tree import FolderTree, plans
from vfs.model.open_options import OpenOptions
from vfs.testing.writers import write_mib

pytestmark = pytest.mark.usefixtures("opened")

FRAMES = np.arange(1, 6 * 64 * 64 + 1, dtype=np.uint16).reshape(6, 64, 64)


def damage(path: Path) -> int:
    """Make a file of a series hold numbers that belong to the next one. Returns: how many bytes it had."""
    before = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"x" * (before // 2))
    return before


def pixels(folder_tree: FolderTree, path: str = "scan.npy") -> np.ndarray:
    node = folder_tree.at(path).node()
    assert node is not None
    got = folder_tree.at(path).get(0, node.size)
    assert got is not None
    return np.frombuffer(bytes(got)[128:], "<u2")


@pytest.mark.parametrize("hdr", [True, False])
@pytest.mark.parametrize("back", ["in place", "replaced"])
def test_a_set_that_was_shown(tmp_path: Path, quiet: None, hdr: bool, back: str) -> None:
    write_mib(tmp_path, FRAMES, frames_per_file=2, hdr=hdr)
    folder_tree = plans.folder_tree(tmp_path)
    (first,) = [name for name in names(folder_tree) if name.endswith("1.npy" if not hdr else "scan.npy")]
    shown = names(folder_tree)
    np.testing.assert_array_equal(pixels(folder_tree, first), FRAMES.ravel())
    member = tmp_path / "scan002.mib"
    shutil.copy2(member, tmp_path / "kept")
    size = damage(member)
    for _ in range(2):
        with pytest.raises(SourceError):
            pixels(folder_tree, first)
    names(folder_tree)
    if back == "in place":
        os.truncate(member, size)
    else:
        (tmp_path / "kept").replace(member)
    np.testing.assert_array_equal(pixels(folder_tree, first), FRAMES.ravel())
    assert names(folder_tree) == shown


def test_a_set_that_was_broken_when_it_was_first_looked_at(tmp_path: Path, quiet: None) -> None:
    write_mib(tmp_path, FRAMES, frames_per_file=2)
    size = damage(tmp_path / "scan002.mib")
    folder_tree = plans.folder_tree(tmp_path)
    assert [name for name in names(folder_tree) if name.endswith(".npy")] == []
    os.truncate(tmp_path / "scan002.mib", size)
    assert {name.split(".")[0] for name in names(folder_tree)} == {"scan"}  # not what one of its members is called
    np.testing.assert_array_equal(pixels(folder_tree), FRAMES.ravel())


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("named", ["scan", "mine"])
def test_a_description_that_comes_while_its_set_is_open(tmp_path: Path, quiet: None, named: str, broken: bool) -> None:
    """Nobody lists the folder: who goes on with the set gets what the description says."""
    hdr = write_mib(tmp_path, FRAMES, frames_per_file=2, scan=(2, 3))
    folder_tree = plans.folder_tree(tmp_path)
    before, time = (
        (folder_tree.at("scan.npy").node(), folder_tree.at("scan.npy").stamp()),
        folder_tree.at("scan.npy").time(),
    )
    np.testing.assert_array_equal(pixels(folder_tree), FRAMES.ravel())
    saved = tmp_path / f"{named}.vfs.json"
    said = {"vfs": 1, "format": "mib", "files": [hdr.name], "options": {"nav_shape": [2, 2]}}
    saved.write_text(json.dumps(said)[: 20 if broken else None])
    if broken:
        assert (folder_tree.at("scan.npy").node(), folder_tree.at("scan.npy").stamp()) == before
        saved.write_text(json.dumps(said))
    if named == "scan":
        np.testing.assert_array_equal(pixels(folder_tree), FRAMES[:4].ravel())
        assert folder_tree.at("scan.npy").stamp() != before[1]
        assert folder_tree.at("scan.npy").time() > time  # else the kernel goes on with pages that it has
    else:
        with pytest.raises(SourceError):
            pixels(folder_tree)
        np.testing.assert_array_equal(pixels(folder_tree, "mine.npy"), FRAMES[:4].ravel())
    assert {name.split(".")[0] for name in names(folder_tree)} == {named}


@pytest.mark.parametrize("hdr", [True, False])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nothing", "link in a circle", "link to elsewhere"])
def test_a_member_that_becomes_something_else_is_an_error_and_not_absent(
    tmp_path: Path, quiet: None, hdr: bool, kind: str
) -> None:
    """Absent would be blank to whoever reads chunks."""
    folder, away = tmp_path / "sets", tmp_path / "away"
    away.mkdir()
    folder.mkdir()
    write_mib(folder, FRAMES, frames_per_file=2, hdr=hdr)
    folder_tree = plans.folder_tree(folder)
    (first,) = [
        name
        for name in names(folder_tree)
        if name.endswith(".npy") and not name.endswith(("exposure.npy", "timestamp.npy"))
    ]
    chunk = f"{first.removesuffix('.npy')}.zarr/data/c/0/0/0"
    np.testing.assert_array_equal(pixels(folder_tree, first), FRAMES.ravel())
    member = folder / "scan002.mib"
    member.rename(away / member.name)
    make = {
        "folder": member.mkdir,
        "pipe": lambda: os.mkfifo(member),
        "link to nothing": lambda: member.symlink_to("nothing"),
        "link in a circle": lambda: member.symlink_to(member.name),
        "link to elsewhere": lambda: member.symlink_to(away / member.name),
    }
    make[kind]()
    for _ in range(2):
        for path in (first, chunk):
            with pytest.raises(SourceError):
                folder_tree.at(path).node()
            with pytest.raises(SourceError):
                folder_tree.at(path).get(0, 10)
        names(folder_tree)
    (member.rmdir if kind == "folder" else member.unlink)()
    (away / member.name).rename(member)
    np.testing.assert_array_equal(pixels(folder_tree, first), FRAMES.ravel())


@pytest.mark.parametrize("fault", ["member gone", "first gone", "last gone", "member cut", "member emptied"])
def test_what_a_set_loses_is_not_blank_until_it_is_mounted_again(tmp_path: Path, quiet: None, fault: str) -> None:
    """Opened anew it would be refused, or shown as a scan that was stopped: neither is what was shown."""
    write_mib(tmp_path, FRAMES, frames_per_file=2, scan=(2, 3))
    folder_tree = plans.folder_tree(tmp_path)
    np.testing.assert_array_equal(pixels(folder_tree), FRAMES.ravel())
    member = tmp_path / {"first gone": "scan001.mib", "last gone": "scan003.mib"}.get(fault, "scan002.mib")
    whole, stat = member.read_bytes(), member.stat()
    if fault.endswith("gone"):
        member.unlink()
    else:
        os.truncate(member, len(whole) // 2 if fault == "member cut" else 0)
    for _ in range(2):
        for path in ("scan.npy", "scan.zarr/data/c/0/0/0"):
            with pytest.raises(SourceError):
                folder_tree.at(path).node()
            with pytest.raises(SourceError):
                folder_tree.at(path).get(0, 10)
        names(folder_tree)
    if fault != "member emptied":  # mounted again it is shown with what is left, where that is right or was allowed
        assert ("scan.npy" in names(plans.folder_tree(tmp_path))) == (fault == "last gone")
        assert pixels(plans.folder_tree(tmp_path, OpenOptions(allow_incomplete=True))).shape == FRAMES.ravel().shape
    member.write_bytes(whole)
    os.utime(member, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    np.testing.assert_array_equal(pixels(folder_tree), FRAMES.ravel())


def test_a_file_of_one_set_that_is_written_again_shorter_is_another_set(tmp_path: Path, quiet: None) -> None:
    np.save(tmp_path / "scan.npy", FRAMES)
    folder_tree = plans.folder_tree(tmp_path)
    assert pixels(folder_tree).size == FRAMES.size
    np.save(tmp_path / "other.npy", FRAMES[:2])
    (tmp_path / "other.npy").replace(tmp_path / "scan.npy")
    np.testing.assert_array_equal(pixels(folder_tree), FRAMES[:2].ravel())


def test_a_set_that_grows_and_is_cut_again(tmp_path: Path, quiet: None) -> None:
    """What is written while it is mounted is shown, and then held on to as well."""
    paths = sorted(
        path
        for path in [write_mib(tmp_path, FRAMES, frames_per_file=2, scan=(2, 3))]
        for path in path.parent.glob("*.mib")
    )
    last = paths[-1].read_bytes()
    paths[-1].unlink()
    folder_tree = plans.folder_tree(tmp_path)
    partly = FRAMES.copy()
    partly[4:] = 0
    np.testing.assert_array_equal(pixels(folder_tree), partly.ravel())
    paths[-1].write_bytes(last)
    np.testing.assert_array_equal(pixels(folder_tree), FRAMES.ravel())
    paths[-1].unlink()
    with pytest.raises(
        SourceError, match=r"scan\.hdr: its files have [\d,]+ bytes less than when it was shown; put back"
    ):
        pixels(folder_tree)
