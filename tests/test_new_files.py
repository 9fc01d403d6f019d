"""Files are created, never found behind a link."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.errors import OptionError
from vfs.new_files import create, create_anew, folder_below, put, reopen, replacing
from vfs.outputs.journals import MarksFile
from vfs.outputs.outputs import seal
from vfs.zarr.export.files import UnitFiles
from vfs.zarr.export.plan import ExportPlan

HELD = b"what a detector wrote"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "victim"
    path.parent.mkdir()
    path.write_bytes(HELD)
    return path


@pytest.mark.parametrize("make", [create, create_anew, reopen, lambda path: put(path, b"new")])
@pytest.mark.parametrize("kind", [os.symlink, os.link])
def test_what_a_link_leads_to_stays_as_it_is(
    tmp_path: Path, victim: Path, make: Callable[[str], int | None], kind: Callable[[Path, Path], None]
) -> None:
    link = tmp_path / "new"
    kind(victim, link)
    try:
        made = make(str(link))
    except OSError:
        made = None
    else:
        assert not link.is_symlink()
    if made is not None:
        os.write(made, b"x")
        os.close(made)
    assert victim.read_bytes() == HELD


def test_a_folder_below_is_made_and_never_a_link(tmp_path: Path, victim: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    (tmp_path / "named").symlink_to(top)
    with folder_below(str(tmp_path / "named"), "a/b") as folder:  # the folder itself may be named by a link
        os.close(create("c", folder=folder))
    assert (top / "a/b/c").is_file()
    (top / "d").symlink_to(victim.parent)
    with pytest.raises(NotADirectoryError), folder_below(str(top), "d"):
        pytest.fail("it opened a link")


def test_what_fails_while_it_is_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    put(str(path), b"old")
    with pytest.raises(TypeError), replacing(str(path)) as file:
        file.writelines([b"n", None])  # type: ignore[list-item]
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"old")]


@pytest.mark.parametrize("leads", ["a link", "another name of a file", "no file"])
def test_a_journal_is_a_file_of_its_own(tmp_path: Path, victim: Path, leads: str) -> None:
    name = tmp_path / "o.zarr.part.marks"
    if leads == "no file":
        os.mkfifo(name)
    else:
        (os.symlink if leads == "a link" else os.link)(victim, name)
    with pytest.raises(OptionError, match=f"is {leads}; remove it"):
        MarksFile(str(name))
    assert victim.read_bytes() == HELD


def test_a_journal_that_another_process_removed_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tmp_path / "o.zarr.part.marks"
    removed = []

    def removing(path: str, flags: int) -> int:
        descriptor = reopen(path, flags)
        if not removed:
            removed.append(os.unlink(path))
        return descriptor

    monkeypatch.setattr("vfs.outputs.journals.reopen", removing)
    journal = MarksFile(str(name))
    journal.begin(b"line\n")
    assert name.read_bytes() == b"line\n"
    with pytest.raises(OptionError, match="is running"):
        MarksFile(str(name))
    journal.close()


def test_an_export_writes_through_no_link(tmp_path: Path, victim: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), "u1"))
    for name in ("o.zarr.sums.part", "p.zarr.zip.sums.part"):
        (tmp_path / name).symlink_to(victim)
    vfs.export(tmp_path / "x.npy", tmp_path / "o.zarr")
    vfs.export(tmp_path / "x.npy", tmp_path / "p.zarr.zip")
    assert victim.read_bytes() == HELD
    assert not (tmp_path / "o.zarr.sums").is_symlink()


def test_a_folder_of_an_unfinished_store_that_became_a_link_is_an_error(tmp_path: Path, victim: Path) -> None:
    """Whoever may write into it could have chunks replace those of another store."""
    top = tmp_path / "o.zarr.part"
    top.mkdir()
    files = UnitFiles(str(top), "data", 3, ExportPlan((2,), (2,), (2,), (2,), (2,)), False)
    files.add((0,), b"chunk")
    (top / "data").rename(tmp_path / "was")
    (victim.parent / "c").mkdir()
    (victim.parent / "c/0").write_bytes(HELD)
    (victim.parent / "c/0.part").write_bytes(b"chunk")
    (top / "data").symlink_to(victim.parent)
    with pytest.raises(NotADirectoryError):
        files.add((0,), b"chunk")
    with pytest.raises(NotADirectoryError):
        seal(files.written, str(top))
    assert (victim.parent / "c/0").read_bytes() == HELD
