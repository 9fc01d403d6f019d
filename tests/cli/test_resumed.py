"""`vfs reduce --resume` and `--verify`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.cli.support import refused, run
from vfs.reduce import kept
from vfs.testing.writers import write_npy

TEXTS = ("bf=disk(4, 8, r=3)", "com=com", "mean=mean()", "std=std()", "top=max()", "s=framesum()")


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scan of many parts, after each of which the state is kept."""
    frames = np.random.default_rng(1).normal(size=(64, 8, 16)).astype(np.float32)
    monkeypatch.setattr(kept, "STEP", 8 * frames[0].nbytes)
    monkeypatch.setattr(kept, "SECONDS", -1.0)
    monkeypatch.setattr(kept, "SHARE", 1e9)
    (tmp_path / "in").mkdir()
    return write_npy(tmp_path / "in", frames.reshape(8, 8, 8, 16))


def stop_at(monkeypatch: pytest.MonkeyPatch, part: int) -> list[int]:
    """Have a pass end when it is to take a part. Returns the first unit of each part that it began."""
    real = kept.KeptPass.take
    taken: list[int] = []

    def take(self: kept.KeptPass, first: int, last: int) -> None:
        taken.append(first)
        if len(taken) > part:
            raise SystemExit(143)  # as SIGTERM does
        real(self, first, last)

    monkeypatch.setattr(kept.KeptPass, "take", take)
    return taken


def values(target: Path) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in zarr.open_group(target, mode="r").arrays()}


@pytest.mark.parametrize("part", [1, 3, 7])
def test_a_pass_goes_on_and_gives_the_same_bits(
    scan: Path, tmp_path: Path, part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, target = tmp_path / "whole.zarr", tmp_path / "o.zarr"
    assert run("reduce", scan, whole, *TEXTS) == 0
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, part)
        with pytest.raises(SystemExit):
            run("reduce", scan, target, *TEXTS)
    assert "o.zarr: is not complete; the same command with --resume continues from" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["in", "o.zarr.part", "o.zarr.part.marks", "whole.zarr", "whole.zarr.sums"]
    assert (
        refused(capsys, "reduce", scan, target, *TEXTS).count("belongs to a reduction that was interrupted; --resume")
        == 1
    )
    assert "other options, results" in refused(capsys, "reduce", scan, target, *TEXTS[1:], "--resume")
    assert "other options, results" in refused(capsys, "reduce", scan, target, *TEXTS, "--dtype", "f8", "--resume")
    with pytest.MonkeyPatch.context() as patch:  # as after an update, or in a checkout that was edited
        patch.setattr("vfs.own_code.contents", lambda: b"other")
        assert "results or code of vfs" in refused(capsys, "reduce", scan, target, *TEXTS, "--resume")
    with pytest.MonkeyPatch.context() as patch:
        taken = stop_at(patch, 99)
        assert run("reduce", scan, target, *TEXTS, "--resume", "--verify") == 0
    assert len(taken) == 8 - part, "parts that were done are done again"
    assert values(target) == values(whole)
    assert sorted(os.listdir(tmp_path)) == ["in", "o.zarr", "o.zarr.sums", "whole.zarr", "whole.zarr.sums"]
    assert (tmp_path / "o.zarr.sums").read_bytes() == (tmp_path / "whole.zarr.sums").read_bytes()
    assert "o.zarr: as computed; read by tensorstore" in capsys.readouterr().out


def test_a_source_that_changed_since_is_refused(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 2)
        with pytest.raises(SystemExit):
            run("reduce", scan, tmp_path / "o.npy", TEXTS[0])
    os.utime(scan, (1, 1))
    capsys.readouterr()
    assert "these were changed since" in refused(capsys, "reduce", scan, tmp_path / "o.npy", TEXTS[0], "--resume")


def test_what_was_killed_behind_the_end_is_complete(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "o.npy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept.KeptState, "remove", lambda state: sys.exit(143))
        with pytest.raises(SystemExit):
            run("reduce", scan, target, TEXTS[0])
    before, marks = target.read_bytes(), tmp_path / "o.npy.part.marks"
    noted = marks.read_bytes()
    assert "exists already" in refused(capsys, "reduce", scan, target, TEXTS[0])
    for left in (b"", noted[:20]):  # a journal that tells nothing, as after a power cut, and there are no sums
        marks.write_bytes(left)
        assert "o.npy.sums does not say what it was written from" in refused(
            capsys, "reduce", scan, target, TEXTS[0], "--resume"
        )
    marks.write_bytes(noted)
    assert run("reduce", scan, target, TEXTS[0], "--resume") == 0
    assert "o.npy: was complete" in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path)) == ["in", "o.npy"]
    assert target.read_bytes() == before
    assert "exists already" in refused(capsys, "reduce", scan, target, TEXTS[0], "--resume")


@pytest.mark.parametrize("name", ["o.zarr", "o.npy", "o.tif"])
def test_results_that_are_complete_stay(
    scan: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that is given again and again until it is done ends well, and does nothing."""
    target, sums = tmp_path / name, tmp_path / f"{name}.sums"
    command = "reduce", scan, target, TEXTS[0], "--resume"
    np.save(scan.parent / "r.npy", np.eye(8, dtype=bool))
    sums.write_text("precious\n")
    assert f"the sums of {name} have this name; move it" in refused(capsys, *command)
    sums.unlink()
    assert run(*command) == 0
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    capsys.readouterr()
    assert run(*command) == 0
    assert capsys.readouterr().out == f"{target}: was complete\n"
    others = (
        (*command[:3], TEXTS[2], "--resume"),
        (*command, "--dtype", "f8"),
        (*command, "--roi", scan.parent / "r.npy"),
    )
    for other in others:
        assert f"{name}: exists already, and was written from other files, with other options" in refused(
            capsys, *other
        )
    assert "exists already; remove it" in refused(capsys, *command[:-1])
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    os.utime(scan, (1, 1))
    assert "was written from other files" in refused(capsys, *command)
    sums.unlink()
    assert f"exists already, and {sums} does not say what it was written from" in refused(capsys, *command)


@pytest.mark.parametrize("name", ["o.zarr", "o.npy"])
def test_results_that_are_complete_are_read_back(
    scan: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / name
    command = "reduce", scan, target, TEXTS[0], "--resume"
    assert run(*command) == 0
    assert run(*command, "--verify") == 0
    assert " says; read by " in capsys.readouterr().out
    spoilt = target / "bf/c/0/0" if name == "o.zarr" else target
    content = spoilt.read_bytes()
    spoilt.write_bytes(content[:-9] + bytes([content[-9] ^ 16]) + content[-8:])
    assert run(*command, "--verify") == 1
    assert capsys.readouterr().err.startswith(f"vfs: {target}: bf")


@pytest.mark.parametrize("name", ["o.zarr.part", "o.zarr.part.marks"])
def test_a_damaged_state_is_named_and_nothing_is_made_of_it(
    scan: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target, texts = tmp_path / "o.zarr", ("mean=mean", "s=framesum")
    assert run("reduce", scan, tmp_path / "whole.zarr", *texts) == 0
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 3)
        with pytest.raises(SystemExit):
            run("reduce", scan, target, *texts)
    left = {path: path.read_bytes() for path in tmp_path.glob("o.zarr.part*")}
    content = left[tmp_path / name]
    bits = (content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :] for at in range(0, len(content), 97))
    for changed in (b"", content[:-1], content[: len(content) // 2], content[3:], b"\x93NUMPY", *bits):
        for path, before in left.items():
            path.write_bytes(changed if path.name == name else before)
        capsys.readouterr()
        if run("reduce", scan, target, *texts, "--resume"):
            said = capsys.readouterr().err
            assert f"{tmp_path}/o.zarr.part" in said
            assert "remove" in said
        else:
            assert values(target) == values(tmp_path / "whole.zarr")
            shutil.rmtree(target)
            Path(f"{target}.sums").unlink()


def test_nothing_is_left_of_a_pass_that_kept_no_state(scan: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 0)
        with pytest.raises(SystemExit):
            run("reduce", scan, tmp_path / "o.npy", TEXTS[0])
    assert os.listdir(tmp_path) == ["in"]


def test_a_full_disk_is_one_line(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, room = np.savez, [0, 2]

    def full(*given: Any, **named: Any) -> None:
        if not room[-1]:
            raise OSError(28, "No space left on device")
        room[-1] -= 1
        real(*given, **named)

    monkeypatch.setattr(np, "savez", full)
    target = tmp_path / "o.npy"
    said = refused(capsys, "reduce", scan, target, TEXTS[0])
    assert "cannot be kept: No space left on device; --resume continues from the one before" in said
    assert said.count("\n") == 1
    assert target.with_name("o.npy.part").exists()
    room.pop()
    assert refused(capsys, "reduce", scan, tmp_path / "p.npy", TEXTS[0]).endswith("No space left on device\n")
    assert not target.with_name("p.npy.part").exists()


@pytest.mark.parametrize("spoil", [lambda path: os.utime(path, (1, 1)), lambda path: os.truncate(path, 999)])
def test_a_source_that_changes_meanwhile_says_to_begin_anew(
    spoil: Callable[[Path], None],
    scan: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It said that --resume goes on, which is refused then."""
    real = kept.KeptState.save

    def save(state: kept.KeptState, values: dict[str, Any]) -> None:
        real(state, values)
        spoil(scan)

    monkeypatch.setattr(kept.KeptState, "save", save)
    said = refused(capsys, "reduce", scan, tmp_path / "o.npy", TEXTS[0])
    part = tmp_path / "o.npy.part"
    assert said.endswith(f"; remove {part} and {part}.marks, and start again\n")
    assert said.count("\n") == 1
    assert "--resume" not in said


def test_results_that_do_not_read_back(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "save", lambda file, data: np.lib.format.write_array(file, data + 1))
        assert run("reduce", scan, tmp_path / "o.npy", TEXTS[0], "--verify") == 1
    assert "bf[0:8, 0:8]: 64 of 64 elements differ" in capsys.readouterr().err
    assert run("reduce", scan, tmp_path / "p.npy", TEXTS[0], "--verify") == 0
    assert "p.npy: as computed; read by numpy" in capsys.readouterr().out
    assert "OUT.zarr and OUT.npy are read back" in refused(
        capsys, "reduce", scan, tmp_path / "o.png", TEXTS[0], "--verify"
    )


@pytest.mark.parametrize("name", ["o.npy.part", "o.npy.part.marks"])
def test_what_is_in_the_way_stays(scan: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text("precious\n")
    assert name in refused(capsys, "reduce", scan, tmp_path / "o.npy", TEXTS[0], "--resume")
    assert (tmp_path / name).read_text() == "precious\n"
    assert sorted(os.listdir(tmp_path)) == ["in", name]


def test_what_cannot_be_resumed(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = "reduce", scan, tmp_path / "o.npy", TEXTS[0], "--resume"
    assert "nothing tells whether they did" in refused(capsys, *where, "--accept-changes")
    assert "--scheduler" in refused(capsys, *where, "--scheduler", "tcp://127.0.0.1:1")
