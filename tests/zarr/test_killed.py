"""Exports by processes that are killed: what they leave, and what goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import vfs
from tests.cli.support import run
from tests.zarr.support import content, exported_scan
from vfs.outputs.journals import MarksFile
from vfs.outputs.places import FolderPlace, ZipPlace

pytestmark = pytest.mark.zarr


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return exported_scan(tmp_path)


@pytest.mark.parametrize("ending", [".zarr", ".zarr.zip"])
def test_a_process_that_is_killed_at_any_moment_leaves_what_can_be_resumed(
    scan: Path, tmp_path: Path, ending: str
) -> None:
    """SIGKILL at one file operation after the other; each process goes on where the one before was killed."""
    code = """
        import os, pathlib, signal, sys, traceback, zipfile
        import vfs
        from vfs.zarr.export import files, journal, plan
        import vfs.outputs.outputs
        plan.UNIT, plan.BATCH = 1 << 11, 1 << 10
        how = dict(chunks=(1, 2, -1, -1), shards=(1, 4, -1, -1), codec="zstd:1")
        whole, out = (pathlib.Path(sys.argv[2], name + sys.argv[3]) for name in ("whole", "o"))
        vfs.export(sys.argv[1], whole, **how)
        left = 0
        def content(folder):
            files = [file for file in folder.rglob("*") if file.is_file() and file.name != "zarr.json"]
            return {file.relative_to(folder): file.read_bytes() for file in files}
        def killing(real):
            def call(*given, **named):
                global left
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*given, **named)
            return call
        for name in ("fsync", "replace", "rename", "makedirs", "unlink"):
            setattr(os, name, killing(getattr(os, name)))
        def run(after):
            global left
            child = os.fork()
            if not child:
                left = after
                try:
                    vfs.export(sys.argv[1], out, resume=True, **how)
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            return os.waitpid(child, 0)[1]
        killed = 0
        for n in range(40):
            status = run(1 + 3 * n)
            if out.exists() and not status:
                break
            assert status == signal.SIGKILL, status
            part = pathlib.Path(f"{out}.part")
            if list(part.rglob("zarr.json")):
                assert content(part) == content(whole), "it looks complete"
            if zipfile.is_zipfile(part / out.name):
                assert (part / out.name).read_bytes() == whole.read_bytes(), "it looks complete"
            killed += 1
        print(killed)
    """
    out = tmp_path / "out"
    out.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code), str(scan), str(out), ending],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 5
    if ending == ".zarr":
        assert content(out / "o.zarr") == content(out / "whole.zarr")
    else:
        assert (out / f"o{ending}").read_bytes() == (out / f"whole{ending}").read_bytes()
    assert sorted(path.name for path in out.iterdir() if "part" in path.name) == []


def test_a_process_killed_behind_its_last_step_but_one(scan: Path, tmp_path: Path) -> None:
    """The store had its name, and its journal stayed: going on said that the store exists, and to remove it."""
    target = tmp_path / "o.zarr"
    code = """
        import os, signal, sys
        import vfs
        from vfs.outputs.journals import MarksFile
        MarksFile.remove = lambda marks: os.kill(os.getpid(), signal.SIGKILL)
        vfs.export(sys.argv[1], sys.argv[2], chunks=(1, 2, -1, -1))
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(code), str(scan), str(target)]
    assert subprocess.run(command, timeout=250, check=False).returncode == -9
    before, marks = content(target), tmp_path / "o.zarr.part.marks"
    noted = marks.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["in", "o.zarr", "o.zarr.part.marks", "o.zarr.sums"]
    with pytest.raises(vfs.OptionError, match="exists already"):
        vfs.export(scan, target, chunks=(1, 2, -1, -1))
    with pytest.raises(vfs.OptionError, match="had another codec"):
        vfs.export(scan, target, chunks=(1, 2, -1, -1), codec="none", resume=True)
    for left in (b"", noted[:20], noted):  # a journal that tells nothing, as after a power cut: the sums tell
        marks.write_bytes(left)
        if left is not noted:
            with pytest.raises(vfs.OptionError, match="exists already, and was written from other files, with other"):
                vfs.export(scan, target, chunks=(1, 2, -1, -1), codec="none", resume=True)
            marks.write_bytes(left)
        size = vfs.export(scan, target, chunks=(1, 2, -1, -1), resume=True, verify=True)
        assert size == sum(len(data) for name, data in before.items() if name != "sums")
        assert not marks.exists()
    assert content(target) == before
    assert sorted(os.listdir(tmp_path)) == ["in", "o.zarr", "o.zarr.sums"]


@pytest.mark.parametrize("name", ["o.zarr", "o.zarr.zip"])
def test_a_disk_that_is_full_before_the_first_mark(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An empty journal stayed behind."""

    def full(lines: MarksFile, line: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MarksFile, "begin", full)
    with pytest.raises(vfs.OptionError, match=rf"{name}: cannot be written: No space left on device"):
        vfs.export(scan, tmp_path / name)
    assert os.listdir(tmp_path) == ["in"]


def test_a_full_disk_says_how_to_go_on(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, added = FolderPlace.keep, []

    def full(place: FolderPlace, paths: list[str]) -> int:
        added.append(paths)
        if len(added) > 2:
            raise OSError(28, "No space left on device")
        return real(place, paths)

    target = tmp_path / "o.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(FolderPlace, "keep", full)
        assert run("export", scan, target, "--chunks", "1,2,-1,-1") == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "o.zarr: cannot be written: No space left on device; the same command with --resume continues from" in said
    assert run("export", scan, target, "--chunks", "1,2,-1,-1") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1, "a wrong call is no export that was interrupted"
    assert run("export", scan, target, "--chunks", "1,2,-1,-1", "--resume", "--verify") == 0


@pytest.mark.parametrize(
    ("name", "gone", "said"),
    [
        ("o.zarr", [".part"], "; the same command with --resume continues from what {out}.part holds"),
        ("o.zarr", [".part", ".part.marks"], "{out}: cannot be written: No such file or directory"),  # nothing is left
        ("o.zarr.zip", [".part/o.zarr.zip"], "zip: was removed or replaced while it was written; the same command"),
        (
            "o.zarr",
            [".part/data/c/0"],
            "files in it were removed or changed while it was written, such as data/c/0/0/0/0",
        ),
        ("o.zarr", [".part.marks"], ""),
    ],
)
def test_what_vanishes_while_it_is_written_is_said_in_a_line(
    scan: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    gone: list[str],
    said: str,
) -> None:
    """It said to begin anew and to go on; marks that were gone made an error of an export that was complete."""
    real, out = FolderPlace.keep if name.endswith(".zarr") else ZipPlace.keep, tmp_path / name

    def vanish(place: FolderPlace, paths: list[str]) -> int:
        kept = real(place, paths)
        for ending in gone:
            path = Path(f"{out}{ending}")
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        return kept

    words = ("export", scan, out, "--chunks", "1,2,-1,-1")
    with monkeypatch.context() as patch:
        patch.setattr(FolderPlace if name.endswith(".zarr") else ZipPlace, "keep", vanish)
        assert run(*words) == (2 if said else 0)
    found = capsys.readouterr().err
    assert found.count("\n") == bool(said)
    assert said.format(out=out) in found
    if "--resume" in found:
        assert run(*words, "--resume", "--verify") == 0


def test_a_source_that_changed_says_to_begin_anew(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that --resume goes on, which is refused then."""
    real, source = FolderPlace.keep, scan.parent / "scan001.mib"

    def touched(place: FolderPlace, paths: list[str]) -> int:
        os.utime(source, ns=(0, source.stat().st_mtime_ns + 10**9))
        return real(place, paths)

    monkeypatch.setattr(FolderPlace, "keep", touched)
    assert run("export", scan, tmp_path / "o.zarr") == 2
    said = capsys.readouterr().err
    assert f"remove {tmp_path}/o.zarr.part and {tmp_path}/o.zarr.part.marks, and start again" in said
    assert "--resume" not in said
