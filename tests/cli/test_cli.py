"""The command line as a person and as a program meets it."""

from __future__ import annotations

import contextlib
import getpass
import importlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import Mock

import numpy as np
import pytest
import zarr

import vfs
from tests.cli.support import mount_status, process, refused, run, said_at_the_end
from tests.waiting import eventually
from vfs.cli import app, desktop
from vfs.cli.report import arrays
from vfs.cli.writing import stopping
from vfs.errors import size
from vfs.faces.documents import plain_json
from vfs.formats import formats
from vfs.model.options import from_text, kinds
from vfs.sets import opening
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_mib, write_npy, write_raw, write_ripple
from vfs.zarr.export.files import UnitFiles

COMMANDS = (
    "info",
    "formats",
    "mount",
    "serve",
    "mounts",
    "unmount",
    "export",
    "verify",
    "reduce",
    "check",
    "look",
    "demo",
    "doctor",
    "docs",
    "completion",
)
FUSE = os.path.exists("/dev/fuse")


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(1).integers(1, 4000, (24, 8, 16)).astype(np.uint16)


@pytest.fixture
def scan(tmp_path: Path, frames: np.ndarray) -> Path:
    folder = tmp_path / "a scan"
    folder.mkdir()
    return write_mib(folder, frames, frames_per_file=5, scan=(4, 6))


# help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "--help") == 0
    out, err = capsys.readouterr()
    assert f"Usage: vfs {command}" in out
    assert not err
    assert out.find("For example:") < out.find("Options:"), "examples come first"
    options = [line for line in out.splitlines() if line.startswith("  -")]
    assert all(len(line.split("  ")) > 2 or line == options[-1] for line in options), "an option without a word"
    first = next(k for k, line in enumerate(out.splitlines(), 1) if line.startswith("  -"))
    assert first <= 14 or options == ["  -h, --help  Show this message and exit."], "what is usual has 15 lines"


def test_help_lists_every_command_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == run("--help") == run("-h") == 0
    listed = capsys.readouterr().out.partition("Commands:")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ")] == list(COMMANDS)
    assert "..." not in listed, "cut off"


def test_exit_statuses_are_what_help_says(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--help")
    said = " ".join(capsys.readouterr().out.partition("Exit status: ")[2].split())
    told = {int(number) for number in re.findall(r"\b\d+\b", said)}
    assert told == {0, 1, 2, 129, 130, 143}
    assert process("info", scan).returncode == 0
    done = process("info", tmp_path / "none.mib")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    for wrong in (
        ["info"],
        ["nonsense"],
        ["unmount", tmp_path],
        ["mount", scan, tmp_path / "none"],
        ["info", scan, "--dtype", "x"],
        ["export", "a"],
    ):
        refused(capsys, *wrong)
    with subprocess.Popen([sys.executable, "-P", "-m", "vfs", "formats"], stdout=subprocess.PIPE) as unread:
        assert unread.stdout
        unread.stdout.close()
    assert unread.returncode == 1


def test_help_loads_nothing_heavy() -> None:
    """In one process: what one of them loads is loaded."""
    code = """
        import sys
        from vfs.cli.app import main
        calls = "", "--help", "--version", "info --help", "mount --help", "mounts --help", "doctor"
        for words in map(str.split, calls):
            main(words)
            print("heavy", words, [m for m in ("numpy", "numba", "zarr", "rich.progress") if m in sys.modules])
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    said = [line for line in done.stdout.splitlines() if line.startswith("heavy")]
    assert len(said) == 7
    assert all(line.endswith("] []") for line in said), said


def test_an_interrupt_while_it_is_loaded_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError('not interrupted')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    code = (
        "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('vfs',"
        " run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"{vfs.__version__}\n"


# info


def test_info_says_what_a_scan_is(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", scan) == 0
    lines = capsys.readouterr().out.splitlines()
    nbytes = sum(path.stat().st_size for path in scan.parent.glob("*.mib"))
    assert lines[0] == f"scan: mib, 5 files, {nbytes / 1024:.1f} KiB"
    assert lines[1] == "  555 µs exposure, 2020-05-18 14:51"
    assert lines[2].split()[0] == "data"
    assert "scan_y: 4, scan_x: 6, y: 8, x: 16" in lines[2]
    assert "uint16" in lines[2]
    assert lines[3] == "    rows: bottom first; -o flip_y=true shows the top first"
    assert lines[4].startswith("    chunks: 4 x 6 x 8 x 16, 6.0 KiB: ")
    assert " scan_y: 4, scan_x: 6, in nanoseconds since 1970-01-01 exposure " in " ".join(" ".join(lines).split())


def test_info_as_json_agrees_with_the_library(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", "--json", "--chunks", "frames", scan) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    group = vfs.open_group(scan, chunks="frames")
    assert entry["name"] == "scan"
    assert entry["format"] == "mib"
    assert entry["main"] == "data"
    assert entry["missing"] == []
    assert entry["files"] == [str(path) for path in sorted(scan.parent.glob("*.mib"))]
    assert entry["bytes"] == sum(path.stat().st_size for path in scan.parent.glob("*.mib"))
    assert set(entry["arrays"]) == set(group)
    for path, array in group.items():
        said = entry["arrays"][path]
        assert said["shape"] == list(array.shape)
        assert said["dtype"] == array.dtype.name
        assert said["dims"] == list(array.dims)
        assert said["chunks"] == list(array.chunks)
        assert said["nbytes"] == array.nbytes
        assert said["companion"] is (path != "data")
        # One array: there is nothing to share
        assert said["attrs"] == plain_json({**array.attrs, **reader_of(array).dataset.conventions})
    assert (entry["shared_attrs"], entry["group_attrs"]) == ({}, {})
    assert entry["arrays"]["exposure"]["scale"] == {"units": "s"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"x": {"scale": 0.5, "offset": 1, "unit": "nm"}, "y": {"scale": 1 / 3, "offset": 0, "unit": ""}},
            "x 0.5 nm from 1, y 0.333333",
        ),
        ({"x": {"value": 2.0, "unit": "µm"}}, "x 2 µm"),
        ({"x": {"values": "entry/angle", "unit": "deg"}}, "x in deg as in entry/angle"),
        ({"x": 72.0, "unit": "1/inch"}, '{"x": 72.0, "unit": "1/inch"}'),
        (12, "12"),
        ("a\nb", "a b"),
    ],
)
def test_a_calibration_is_a_line(value: object, text: str) -> None:
    assert arrays._axes(value) == text


def test_info_verbose_says_why_and_from_where(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", "-v", scan) == 0
    out = capsys.readouterr().out
    assert "pixel_type: U16" in out
    assert f"  files in {scan.parent}:\n    scan001.mib  " in out
    assert "    scan003.mib  " in out
    out = " ".join(out.split())
    assert "backend: mmap (auto); it maps files" in out
    assert "backend of a mount: buffered (auto); it reads with pread" in out


def test_info_verbose_says_what_was_asked_for(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", "-v", scan, "--backend", "direct") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "backend: direct, as asked; it reads past the page cache" in out
    assert "backend of a mount" not in out


@pytest.mark.parametrize("spec", ["auto", "frames", "scan", "balanced", "1,2,8,16", "4KiB"])
def test_info_says_why_chunks_are_what_they_are_and_what_they_cost(
    scan: Path, spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chunking = reader_of(vfs.open(scan, chunks=spec)).chunking
    assert run("info", scan, "--chunks", spec) == 0
    line = " ".join(capsys.readouterr().out.partition("    chunks: ")[2].split())
    costs = f"{chunking.one:.1f}", f"{chunking.full:.1f}"
    assert chunking.reason in line
    assert ("bytes read for each one asked for" in line) is (costs != ("1.0", "1.0"))
    assert run("info", "-v", scan, "--chunks", spec) == 0
    line = " ".join(capsys.readouterr().out.partition("    chunks: ")[2].split())
    assert f"; {costs[0]} bytes read for each one asked for" in line
    assert (f"{costs[1]} in all" in line) is (costs[1] != costs[0])


def test_info_warns_of_costly_chunks(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, warned in ((["--chunks", "1,1,1,1"], True), ([], False)):
        assert run("info", scan, *options) == 0
        assert ("bytes for each byte asked for" in " ".join(capsys.readouterr().out.split())) is warned


def test_export_takes_costly_chunks_without_a_warning(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that many bytes are read for each one, and an export reads each once."""
    assert run("export", scan, tmp_path / "o.zarr", "--chunks", "1,1,1,1") == 0
    assert capsys.readouterr().err == ""
    assert zarr.open_group(tmp_path / "o.zarr", mode="r")["data"].chunks == (1, 1, 1, 1)


def test_mount_warns_of_costly_chunks(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = []
    done = mount_status()
    monkeypatch.setattr(
        importlib.import_module("vfs.fuse"), "serve", lambda folder, point, how, **more: served.append(folder) or done
    )
    assert run("mount", scan, tmp_path, "--chunks", "1,1,1,1") == 0
    assert "vfs: warning: scan data: chunks (1, 1, 1, 1) read " in capsys.readouterr().err
    assert run("mount", scan, tmp_path) == 0
    assert "warning" not in capsys.readouterr().err
    assert len(served) == 2


def test_info_says_how_many_frames_are_blank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cut acquisition must not look like one with empty frames."""
    path = write_mib(tmp_path, np.ones((12, 256, 256), np.uint16), frames_per_file=4, scan=(3, 4))
    assert app.main(["info", str(path)]) == 0
    assert "not stored" not in capsys.readouterr().out
    os.truncate(tmp_path / "scan002.mib", (384 + 2 * 256 * 256) * 2 + 1000)
    assert app.main(["info", str(path)]) == 2
    assert "scan002.mib" in capsys.readouterr().err
    assert app.main(["info", str(path), "--allow-incomplete"]) == 0
    assert "    2 of 12 frames are not stored: they read as 0\n" in capsys.readouterr().out


def test_info_names_missing_files(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (scan.parent / "scan003.mib").unlink()
    assert run("info", scan) == 2
    assert "scan003.mib is missing" in capsys.readouterr().err
    assert run("info", "--json", scan, "--allow-incomplete") == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert [Path(name).name for name in entry["missing"]] == ["scan003.mib"]
    assert entry["absent"]["files_missing"] == 1
    assert entry["bytes"] == sum(path.stat().st_size for path in scan.parent.glob("*.mib"))


@pytest.mark.parametrize(("version", "document"), [(3, "node_type"), (2, "zarr_consolidated_format")])
def test_info_shows_what_zarr_is_told(
    scan: Path, version: int, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("info", "--json", scan, "--zarr-format", version) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert document in entry["zarr"]
    assert run("info", scan, "--zarr-format", version) == 0
    assert document in capsys.readouterr().out


def test_unquoted_files_of_a_scan_are_one_data_set(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(scan.parent.glob("*.mib"))
    assert run("info", "--json", *files) == 0
    out, err = capsys.readouterr()
    assert [entry["name"] for entry in json.loads(out)] == ["scan001"]
    assert err == f"vfs: {files[1]} and 3 more: in the set of {files[0]}, shown once\n"

    assert run("info", "--json", *files, scan) == 0  # the file that names the set stands for it, wherever it comes
    out, err = capsys.readouterr()
    assert [entry["name"] for entry in json.loads(out)] == ["scan"]
    assert err.count("\n") == 1

    assert run("info", "--json", *files, "-o", "series=false") == 0  # asked for one by one
    out, err = capsys.readouterr()
    assert len(json.loads(out)) == 5
    assert "5 files opened as 5 data sets; a quoted glob" in err

    described = write_ripple(scan.parent, np.zeros((2, 3, 4), "u1"))
    numbers = described.with_suffix(".raw")  # which no format knows by itself
    assert run("info", "--json", numbers, described) == 0
    out, err = capsys.readouterr()
    assert [entry["name"] for entry in json.loads(out)] == ["map"]
    assert err == f"vfs: {numbers}: in the set of {described}, shown once\n"
    assert run("info", numbers, scan) == 2


def test_files_that_have_nothing_to_do_with_each_other_are_data_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (write_npy(tmp_path, np.zeros((3, 4)), name=name) for name in ("left.npy", "right.npy"))
    assert run("info", "--json", a, b) == 0
    out, err = capsys.readouterr()
    assert [entry["name"] for entry in json.loads(out)] == ["left", "right"]
    assert err == ""


def test_a_quoted_glob_is_one_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k in (10, 9):
        write_npy(tmp_path, np.full((2, 3), k), name=f"part{k}.npy")
    assert run("info", "--json", tmp_path / "part*.npy") == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["arrays"]["data"]["shape"] == [2, 2, 3]
    assert [os.path.basename(name) for name in entry["files"]] == ["part9.npy", "part10.npy"]


@pytest.mark.parametrize("explicit", [[], ["--explicit"]])
def test_info_describes_what_then_opens_as_the_same(
    scan: Path,
    frames: np.ndarray,
    tmp_path: Path,
    explicit: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for folder in (tmp_path, scan.parent, tmp_path / "elsewhere"):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        assert run("info", "--describe", *explicit, os.path.relpath(scan)) == 0
        out, err = capsys.readouterr()
        home = scan.parent if folder.name == "elsewhere" else folder
        assert err == f"vfs: save it in {home}, as scan.vfs.json: its names are relative to that folder\n"
        assert str(tmp_path) not in out
        (home / "copy.vfs.json").write_text(out)
        np.testing.assert_array_equal(vfs.open(home / "copy.vfs.json")[...], frames.reshape(4, 6, 8, 16))


# options


def test_changes_are_accepted_where_that_is_said(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, accepted in ((["--accept-changes"], True), ([], False)):
        assert run("info", "--describe", scan, *arguments) == 0
        description = json.loads(capsys.readouterr().out)
        assert description.get("options", {}).get("accept_changes", False) is accepted


def test_raw_needs_what_the_format_option_dtype_says(
    tmp_path: Path, frames: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    part, *_ = write_raw(tmp_path, frames, frame_header=384)
    shared = ("info", "--json", part, "--format", "raw", "-o", "sig_shape=8,16", "-o", "frame-header=0x180")
    for options, dtype in (
        (("-o", "dtype=u2"), "uint16"),
        (("--dtype", "u2"), "uint16"),
        (("-o", "dtype=u2", "--dtype", "f4"), "float32"),
    ):
        assert run(*shared, *options) == 0
        (entry,) = json.loads(capsys.readouterr().out)
        assert entry["arrays"]["data"]["shape"] == [24, 8, 16]
        assert entry["arrays"]["data"]["dtype"] == dtype
        assert entry["arrays"]["data"]["attrs"]["stored_dtype"] == "<u2"


def test_scan_options_reach_the_data(
    scan: Path, frames: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mask = np.zeros((6, 4), bool)
    mask[2, 1:3] = True
    np.save(tmp_path / "mask.npy", mask)
    assert (
        run(
            "export",
            scan,
            tmp_path / "o.zarr",
            "--nav-shape",
            "6,4",
            "--sync-offset",
            "-1",
            "--roi",
            tmp_path / "mask.npy",
            "--dtype",
            "f4",
        )
        == 0
    )
    got = zarr.open_group(tmp_path / "o.zarr", mode="r")["data"]
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got[:], frames[8:10])


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (bool, "yes", True),
        (bool, "FALSE", False),
        (int, "0x10", 16),
        (int | None, "-3", -3),
        (float | None, "1e3", 1000.0),
        (int | float, "2.5", 2.5),
        (str | None, "12", "12"),
        (str | int, "12", 12),
        (str | int, "a,b", "a,b"),
        (Literal["a", "b"] | None, "b", "b"),
        (Literal[2, 3], "3", 3),
    ],
)
def test_option_texts_become_what_the_format_wants(annotation: object, text: str, value: object) -> None:
    got = from_text(text, annotation)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [(bool, "maybe"), (int, "3.5"), (int | None, "many"), (float, "ten"), (Literal["a", "b"], "c")],
)
def test_option_texts_of_another_kind_are_refused(annotation: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        from_text(text, annotation)


def test_every_option_of_every_format_can_be_given_as_text() -> None:
    for kind in formats().values():
        for name, parameter in kind.options.items():
            taken = kinds(parameter.annotation)
            assert taken, (kind.name, name)
            assert all(k in (bool, int, float, str, Any) or not isinstance(k, type) for k in taken), (
                f"{kind.name}: -o {name} is {parameter.annotation}"
            )
            assert kind.help(name), f"{kind.name}: no help for -o {name}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-o", "frames"], "expected KEY=VALUE"),
        (["-o", "series=1", "-o", "series=0"], "given twice"),
        (["-o", "serie=1"], "did you mean series?"),
        (["-o", "series=perhaps"], "expected true or false"),
        (["--format", "mab"], "did you mean mib?"),
        (["--array", "dat"], "no array 'dat'"),
        (["--nav-shape", "4,x"], "--nav-shape 4,x"),
        (["--roi", "no such.npy"], "no such.npy"),
        (["--dtype", "u3"], "u3"),
        (["--chunks", "1,2"], "4 axes"),
        (["--backend", "tape"], "expected one of auto, mmap"),
        (["--zarr-format", "4"], "expected 3 or 2"),
        (["--zarr-format", "x"], "--zarr-format"),
        (["--sync-offset", "1.5"], "--sync-offset"),
        (["--frobnicate"], "--frobnicate"),
        (["--dark", "nothing.npy"], "nothing.npy"),
    ],
)
def test_a_wrong_option_is_one_line(
    scan: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refused(capsys, "info", scan, *arguments)


def test_a_wrong_call_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.mib"
    empty.touch()
    foreign = tmp_path / "foreign.mib"
    foreign.write_bytes(b"hello there " * 100)
    assert "no such file" in refused(capsys, "info", tmp_path / "absent.mib")
    assert "no file matches" in refused(capsys, "info", tmp_path / "*.mrc")
    assert "empty" in refused(capsys, "info", empty)
    assert "no format recognises it" in refused(capsys, "info", foreign)
    assert "DATASET" in refused(capsys, "info")
    assert "frob" in refused(capsys, "frob")
    assert "No such command 'ls'; there are info, formats, mount" in refused(capsys, "ls")
    assert "see vfs mount --help" in refused(capsys, "mount", empty)
    assert "expected DATASET… OUT.zarr, OUT.zarr is missing (see vfs export --help)" in refused(capsys, "export", empty)
    assert "empty" in refused(capsys, "export", empty, tmp_path / "o.zarr")
    assert "\\x1b[31m" in refused(capsys, "info", f"{tmp_path}/a\n\x1b[31mb")
    assert not (tmp_path / "o.zarr").exists()


def test_a_bug_is_one_line_too_unless_asked(
    scan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("vfs.sets.opening.open_set", broken)
    monkeypatch.delenv("VFS_DEBUG", raising=False)
    assert "ZeroDivisionError: two lines (this is a bug in vfs; VFS_DEBUG=1" in refused(capsys, "info", scan, status=1)
    monkeypatch.setenv("VFS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("info", scan)


def test_too_little_memory_is_no_bug(
    scan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("VFS_DEBUG", raising=False)
    with pytest.raises(
        MemoryError, match=r"scan.*: data\[0:\d+, .*\] takes [\d.]+ [TP]iB, more than memory holds"
    ) as had:
        vfs.open(scan, nav_shape=10**12, allow_incomplete=True)[...]
    with pytest.raises(MemoryError, match=r"read it in parts; a\.reduce\(…\) makes"):
        np.mean(vfs.open(scan, nav_shape=10**12, allow_incomplete=True))
    monkeypatch.setattr("vfs.sets.opening.open_set", Mock(side_effect=had.value))
    assert refused(capsys, "info", scan).strip() == f"vfs: {had.value}"


@pytest.mark.parametrize("command", ["info", "look"])
def test_a_command_detects_the_format_once(scan: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    looked_at: list[str] = []
    real = opening.detect
    monkeypatch.setattr(opening, "detect", lambda *how: (looked_at.append(how[1]), real(*how))[1])
    assert run(command, scan) == 0
    assert looked_at == [str(scan)]


def test_a_warning_is_one_line(scan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warns(*_: object, **__: object) -> None:
        warnings.warn("look here", UserWarning, stacklevel=1)
        raise vfs.FormatError("no more")

    monkeypatch.setattr("vfs.sets.opening.open_set", warns)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("info", scan) == 2
    assert capsys.readouterr().err == "vfs: warning: look here\nvfs: no more\n"


def test_ctrl_c_is_130(scan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vfs.sets.opening.open_set", interrupted)
    assert run("info", scan) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_an_ended_reader_of_the_output_is_no_news() -> None:
    command = [sys.executable, "-P", "-m", "vfs", "formats", "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=250, check=False)
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == b""


def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.npy"
    with open(name, "wb") as file:
        np.save(file, np.zeros((2, 3)))
    for options in ([], ["--json"], ["-v"]):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "vfs", "info", *options, name], capture_output=True, timeout=250, check=False
        )
        assert done.returncode == 0, done.stderr
        assert b"caf" in done.stdout


# formats


def test_formats_lists_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("formats") == run("formats", "--json") == 0
    out = capsys.readouterr().out
    text, _, data = out.partition("\n[")
    entries = json.loads("[" + data)
    assert [entry["name"] for entry in entries] == list(formats())
    for entry in entries:
        assert f"\n{entry['name']} " in f"\n{text}"
        assert entry["extensions"]
        assert entry["summary"]
        for option, about in entry["options"].items():
            assert f"-o {option}=" in text
            assert about["help"] in " ".join(text.split())


# export


@pytest.mark.parametrize("version", [3, 2])
def test_export_is_the_same_tree(scan: Path, tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.zarr"
    assert run("export", scan, target, "--chunks", "1,4,-1,-1", "--zarr-format", version) == 0
    out, err = capsys.readouterr()
    stored = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    shown = sum(array.nbytes for array in vfs.open_group(scan).values())
    assert (
        out == f"{target}: 3 arrays, {size(shown)}; {size(stored)} on disk, compression ratio {shown / stored:,.1f}\n"
    )
    assert err == ""
    made = zarr.open_consolidated(str(target), mode="r", zarr_format=version)
    shown = zarr.open_consolidated(
        vfs.open_group(scan, chunks=(1, 4, -1, -1)).store(version), mode="r", zarr_format=version
    )
    assert dict(made.attrs) == dict(shown.attrs)
    assert sorted(made.array_keys()) == sorted(shown.array_keys()) == ["data", "exposure", "timestamp"]
    for path in shown.array_keys():
        a, b = made[path], shown[path]
        assert (a.shape, a.dtype, a.chunks, dict(a.attrs)) == (b.shape, b.dtype, b.chunks, dict(b.attrs))
        assert a.fill_value == b.fill_value
        assert a.metadata.zarr_format == version
        assert getattr(a.metadata, "dimension_names", None) == getattr(b.metadata, "dimension_names", None)
        np.testing.assert_array_equal(a[:], b[:])
    assert sorted(os.listdir(tmp_path)) == ["a scan", "out.zarr", "out.zarr.sums"]


def test_export_takes_several_files_as_one_set(tmp_path: Path) -> None:
    parts = [write_npy(tmp_path, np.full((2, 3), k), name=f"part{k}.npy") for k in range(3)]
    assert run("export", *parts, tmp_path / "o.zarr") == 0
    np.testing.assert_array_equal(
        zarr.open_group(tmp_path / "o.zarr", mode="r")["data"][:], np.arange(3)[:, None, None] + np.zeros((1, 2, 3))
    )


@pytest.mark.parametrize(
    "name",
    ["out.h5", "scan.mib", "out.npy", "out.json", "out.zip", "o.mat", "o.n5", "o.zspy"],
)
def test_export_refuses_the_ending_of_another_format(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    said = refused(capsys, "export", scan, tmp_path / name)
    assert "zarr folder" in said
    assert f"{name.partition('.')[0]}.zarr" in said
    assert not (tmp_path / name).exists()


def test_export_leaves_what_is_there_alone(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "there"
    target.mkdir()
    (target / "precious").touch()
    assert "exists already" in refused(capsys, "export", scan, target)
    assert os.listdir(target) == ["precious"]
    dangling = tmp_path / "link"
    dangling.symlink_to("nowhere")
    assert "exists already" in refused(capsys, "export", scan, dangling)
    assert "no folder" in refused(capsys, "export", scan, tmp_path / "a" / "b")
    assert sorted(os.listdir(tmp_path)) == ["a scan", "link", "there"]


def test_a_failed_export_leaves_nothing(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was whole yet: an export leaves what can be resumed, see `tests.zarr.test_export`."""
    last = scan.parent / "scan005.mib"
    whole = last.read_bytes()
    group = vfs.open_group(scan, chunks="frames", backend="buffered")
    os.truncate(last, last.stat().st_size - 100)
    with pytest.raises(vfs.SourceError, match=r"scan005\.mib"):
        vfs.export(group, tmp_path / "o.zarr")
    assert os.listdir(tmp_path) == ["a scan"]
    last.write_bytes(whole)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_export_leaves_what_can_be_resumed(tmp_path: Path, number: signal.Signals, status: int) -> None:
    source = tmp_path / "large.npy"
    with source.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 12, 1 << 10, 1 << 10)}
        )
        file.truncate(file.tell() + (1 << 32))  # 4 GiB of hole
    folder = tmp_path / "out"
    folder.mkdir()
    command = [sys.executable, "-P", "-m", "vfs", "export", str(source), str(folder / "o.zarr"), "--zarr-format", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert eventually(lambda: running.poll() is not None or any(folder.rglob("data/0/0/0")))
        running.send_signal(number)
        err = said_at_the_end(running)
    assert running.returncode == status
    assert err == "" or err.startswith(
        f"vfs: {folder}/o.zarr: is not complete; the same command with --resume continues"
    )
    assert err.count("\n") <= 1
    assert sorted(os.listdir(folder)) == (["o.zarr.part", "o.zarr.part.marks"] if err else [])


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_where_python_drops_exceptions_ends_an_export(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    class Signalled:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)

    real = UnitFiles.close

    def close(files: UnitFiles) -> None:
        Signalled()
        real(files)

    monkeypatch.setattr(UnitFiles, "close", close)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(SystemExit) as ended:
        run("export", scan, folder / "o.zarr")
    assert ended.value.code == status
    assert not (folder / "o.zarr").exists()


def test_a_second_signal_ends_a_step_that_does_not_end() -> None:
    with stopping() as check:
        check()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == 143


def test_export_shows_its_progress_to_people(scan: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "vfs", "export", str(scan), str(tmp_path / "o.zarr")]
    parts = []
    with subprocess.Popen(
        command, stderr=theirs, stdout=subprocess.PIPE, text=True, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    ) as running:
        os.close(theirs)
        with contextlib.suppress(OSError):  # at the end: nobody has the other side
            while part := os.read(ours, 1 << 16):  # a terminal takes 4 KiB: a slow machine is shown more
                parts.append(part)
        told = running.communicate(timeout=250)[0]
    os.close(ours)
    assert running.returncode == 0
    shown = b"".join(parts).decode()
    assert "o.zarr" in shown
    assert "6.4/6.4 KiB" in shown
    assert told.count("\n") == 1


# mount


@pytest.mark.skipif(not FUSE, reason="no /dev/fuse: the mount cannot be tested here")
@pytest.mark.parametrize("options", [[], ["--zarr-format", "3"], ["--zarr-format", "2"]])
def test_mount_until_unmount(scan: Path, frames: np.ndarray, tmp_path: Path, options: list[str]) -> None:
    other = write_npy(tmp_path, np.arange(12).reshape(3, 4), name="other.npy")
    point = tmp_path / "a mount"
    point.mkdir()
    command = [sys.executable, "-P", "-m", "vfs", "mount", str(scan), str(other), str(point), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        line = running.stderr.readline()
        try:
            assert line == f"vfs: 2 data sets at {point}; Ctrl-C or `vfs unmount '{point}'` ends it\n"
            names = set(os.listdir(point))
            assert ("scan.zarr" in names) is ("2" not in options)
            assert ("scan.v2.zarr" in names) is ("3" not in options)
            read = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    "import sys, numpy; print(int(numpy.load(sys.argv[1], mmap_mode='r').sum()))",
                    str(point / "scan.npy"),
                ],
                capture_output=True,
                text=True,
                check=True,
                timeout=250,
            )
            assert int(read.stdout) == int(frames.sum())
        finally:
            ended = process("unmount", point)
            running.wait(timeout=250)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert running.returncode == 0
    assert os.listdir(point) == []


# a data set without a command


def test_a_data_set_without_a_command_opens_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests/http/test_life.py` opens one."""
    monkeypatch.chdir(tmp_path)
    for name in ("image.npy", "bare", "info"):
        write_npy(tmp_path, np.zeros((3, 4)), name=name)
    (tmp_path / "day").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "zarr.json").write_text("{}")
    for name in ("image.npy", "bare", "*.npy", "store", "imag.npy", "https://host/scan.npy", f"{tmp_path}/bare"):
        assert app._with_command([name, "--port", "0"]) == ["serve", "--open", name, "--port", "0"]
    assert app._with_command(["day"]) == ["serve", "--open", "--tree", "day"]
    assert app._with_command(["day", "--tree"]) == ["serve", "--open", "day", "--tree"]
    for words in (["info", "bare"], ["--version"], [], ["inf", "bare"], ["-h"]):
        assert app._with_command(words) == words


def test_a_word_that_names_no_data_set_is_a_mistyped_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_npy(tmp_path, np.zeros((3, 4)), name="image.npy")
    assert "No such command 'inf'. Did you mean 'info'?" in refused(capsys, "inf", path)
    assert f"no such file; did you mean {path}?" in refused(capsys, tmp_path / "imag.npy")
    assert "no file matches" in refused(capsys, tmp_path / "*.mrc")
    (tmp_path / "zarr.json").write_text("{}")
    assert "is a zarr store already" in refused(capsys, tmp_path)


# demo


def test_demo_shows_all_of_it(tmp_path: Path) -> None:
    done = process("demo", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "all 786,432 pixels are what was written" in done.stdout
    assert ("a second process, zarr-python through the mount" in done.stdout) is FUSE
    assert "=*%@%*=" in done.stdout  # a spot of the pattern
    assert (f"mounted  at {tmp_path}/vfs-demo-" in done.stdout) is FUSE
    assert "`vfs demo --keep DIR` leaves the files" in done.stdout
    assert "next     a file of yours" in done.stdout
    assert os.listdir(tmp_path) == []


def test_demo_opens_the_page_of_a_scan_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def opened(name: str) -> None:
        asked.append(name)
        assert vfs.open(name).shape == (12, 16, 64, 64)

    monkeypatch.setattr(app, "_page", opened)
    assert run("demo", "--open") == 0
    assert not Path(*asked).exists()


def test_demo_without_fuse_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise vfs.MountError(2, "no libfuse here: apt install fuse3")

    monkeypatch.setattr("vfs.cli.demo.mount", missing)
    assert run("demo") == 0
    out = capsys.readouterr().out
    assert "no libfuse here: apt install fuse3" in out
    assert "this process" in out
    assert "all 786,432 pixels are what was written" in out


def test_demo_does_not_believe_what_it_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from vfs.cli import demo

    monkeypatch.setattr(demo._SecondProcess, "read", lambda *_: demo.diffraction() + 1)
    monkeypatch.setattr("vfs.api.arrays.VirtualGroup.zarr", lambda self: {"data": demo.diffraction() + 1})
    assert run("demo") == 2
    assert "not what was written" in capsys.readouterr().err


def test_demo_keeps_files_in_a_new_folder_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from vfs.cli.demo import diffraction

    new = tmp_path / f"{'x' * 45} y"
    assert run("demo", "--keep", new) == 0
    said = capsys.readouterr().out
    assert f"{new}; mount them yourself" in said
    assert f"vfs mount '{new}/scan.hdr' mnt" in said  # as it is typed, however long it is
    np.testing.assert_array_equal(vfs.open(new / "scan.hdr")[...], diffraction())
    assert "is not empty" in refused(capsys, "demo", "--keep", new)


def test_examples_go_into_a_new_folder_and_nothing_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What they are, sessions of the tutorials type."""
    (tmp_path / "mine").touch()
    assert f"--examples {tmp_path}: is not empty" in refused(capsys, "demo", "--examples", tmp_path)
    assert "leave out --keep" in refused(capsys, "demo", "--examples", tmp_path / "new", "--open")
    assert os.listdir(tmp_path) == ["mine"]


# the desktop


def test_a_desktop_entry_is_written_where_the_desktop_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = tmp_path / "applications" / "vfs.desktop"
    for _ in range(2):  # the second one replaces the first
        assert run("serve", "--install-desktop") == 0
        assert capsys.readouterr().out == f"{path}\n"
    lines = path.read_text().splitlines()
    assert f"Exec={sys.executable} -P -m vfs %F" in lines, "a folder that is opened gives no modules"
    assert "inode/directory" in next(line for line in lines if line.startswith("MimeType="))
    path.write_text("[Desktop Entry]\n")
    assert "found another; remove it first" in refused(capsys, "serve", "--install-desktop")
    assert path.read_text() == "[Desktop Entry]\n"


def test_a_program_with_odd_letters_in_a_desktop_entry() -> None:
    assert 'Exec="/my \\\\"py\\\\\\\\thon\\\\"%%" -m vfs %F' in desktop.entry(['/my "py\\thon"%', "-m", "vfs"])


# units of systemd


def test_units_of_the_machine(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    served = ("serve", scan, "--unit", "--token", "none", "--port", 8765)
    assert run(*served, "--system", "--access-log", tmp_path / "my logs" / "a.log") == 0
    server = capsys.readouterr().out
    assert f"\nUser={getpass.getuser()}\n" in server
    assert "\nLimitNOFILE=65536\n" in server
    assert server.endswith("\n\n[Install]\nWantedBy=multi-user.target\n")
    assert " --system" not in server
    assert f'\nReadWritePaths="{tmp_path}/my logs"\n' in server
    assert f"\nReadOnlyPaths={tmp_path}\n" in server
    assert all(f"\n{line}\n" in server for line in ("ProtectSystem=strict", "NoNewPrivileges=yes"))
    assert "without --unit" in refused(capsys, "serve", scan, "--system")
    assert "with --system" in refused(capsys, *served, "--system", "--allow-describe")
    program = shutil.which("systemd-analyze")
    if program is not None:
        (tmp_path / "server.service").write_text(server)
        found = subprocess.run([program, "verify", tmp_path / "server.service"], capture_output=True, text=True)
        assert "server.service" not in found.stderr, found.stderr


def test_what_no_unit_can_run_is_refused(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = ("serve", scan, "--unit", "--token", "none")
    assert "no such folder; make it first" in refused(capsys, "mount", "--unit", scan, tmp_path / "absent")
    assert "no such file" in refused(capsys, "mount", "--unit", tmp_path / "absent.hdr", tmp_path)
    assert "--background has no effect" in refused(capsys, "mount", "--unit", "--background", scan, tmp_path)
    assert "expected --token FILE (or none) and --port N" in refused(capsys, *served)
    assert "--open has no effect" in refused(capsys, *served, "--port", 8765, "--open")
    assert "that a unit of systemd can hold" in refused(capsys, *served, "--port", 8765, "--allow-host", "a\nb")
    odd = tmp_path / "odd\\"
    odd.mkdir()
    with monkeypatch.context() as there:
        there.chdir(odd)
        assert "start in another one" in refused(capsys, *served, "--port", 8765)
    assert run(*served, "--port", 8765, "--allow-host", 'a "$b" 5%\\') == 0
    assert capsys.readouterr().out.count(' --allow-host "a \\"$$b\\" 5%%\\\\"\n') == 1

    def answers(contents: object, how: object, *, ready: Any, **others: object) -> Any:
        ready("http://127.0.0.1:8765/", "http://127.0.0.1:8765/t/SECRET/")
        return SimpleNamespace(address="http://127.0.0.1:8765/", summary=lambda: "nothing")

    monkeypatch.setattr("vfs.server.serve", answers)
    assert run("serve", scan, "--token", tmp_path / "token") == 0
    assert "".join(capsys.readouterr()).count("SECRET") == 2
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    assert run("serve", scan, "--token", tmp_path / "token") == 0
    out, err = capsys.readouterr()
    assert (out, err.count("SECRET"), err.count("1 data set at http://127.0.0.1:8765/;")) == ("", 0, 1)
