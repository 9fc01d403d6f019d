"""What a shell completes."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.support import refused, run
from vfs.testing.writers import write_mib

FRAMES = np.ones((6, 8, 16), np.uint16)


def completed(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    assert run("completion", "bash", "--", *words) == 0
    out, err = capsys.readouterr()
    assert not err
    return out.splitlines()


def test_words_that_may_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan = write_mib(tmp_path, FRAMES, frames_per_file=6, scan=(2, 3))
    assert completed(capsys, "re") == ["reduce"]
    assert {"info", "mount", "docs", "completion"} <= set(completed(capsys, ""))
    assert completed(capsys, "info", "--format", "mi") == ["mib"]
    assert "--nav-shape" in completed(capsys, "info", scan, "--")
    assert completed(capsys, "look", "--chu") == [], "look refuses it"
    assert completed(capsys, "info", scan, "-o", "") == ["flip_y=", "series="]
    assert completed(capsys, "info", "--format", "frms6", "-o", "g") == ["gain_map="]
    assert completed(capsys, "info", scan, "-o", "flip_y=") == ["flip_y=true", "flip_y=false"][::-1]
    assert completed(capsys, "info", "--format", "tvips", "-o", "scan=r") == ["scan=rotator"]
    assert completed(capsys, "info", scan, "-o", "flip_z=") == []
    assert completed(capsys, "info", scan, "--backend=mm") == ["--backend=mmap"]
    for flag in ("--array", "--main", "--hide"):
        assert completed(capsys, "info", scan, flag, "") == ["data", "timestamp", "exposure"]
    assert completed(capsys, "info", tmp_path / "none.mib", "--array", "") == []
    assert completed(capsys, "reduce", scan, "out.zarr", "ha") == ["haadf"]
    assert "disk" not in completed(capsys, "reduce", "--dtype", "f4", scan, "out.zarr", "bf", "")
    assert completed(capsys, "docs", "redu") == ["reductions"]
    for files in (["sc"], ["info", ""], ["reduce", scan, ""], ["mount", scan, ""], ["info", "--dark", ""]):
        assert completed(capsys, *files) == [], "the shell offers files"
    assert "expected bash, zsh, fish" in refused(capsys, "completion", "tcsh")


def command_in(folder: Path) -> None:
    command = folder / "vfs"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m vfs "$@"\n')
    command.chmod(0o755)


def test_fish_asks_vfs_and_else_offers_files(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish")
    command_in(tmp_path)
    (tmp_path / "dark.npy").touch()
    words = "'info --format mi' 'info --dark=da' 'info --dark da' 'docs redu'"
    typed = f'vfs completion fish | source; for word in {words}; complete -C "vfs $word"; end'
    kept = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 250, "check": True}
    done = subprocess.run(["fish", "--no-config", "-c", typed], cwd=tmp_path, env=kept, **how)
    assert done.stdout.split() == ["mib", "--dark=dark.npy", "dark.npy", "reductions"], done.stderr


def test_bash_asks_vfs(tmp_path: Path) -> None:
    command_in(tmp_path)
    typed = f"""
        PATH="{tmp_path}:$PATH"
        eval "$(vfs completion bash)"
        COMP_WORDBREAKS=" =:"
        for typed in "docs redu" "info --format mib -o flip_y ="{{" t",}} "info --backend = mm"; do
            COMP_WORDS=(vfs $typed) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _vfs
            echo "${{COMPREPLY[@]}}"
        done
    """
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, timeout=250, check=True)
    assert done.stdout == "reductions\ntrue\nfalse true\nmmap\n", done.stderr


def test_pages_for_man_and_completions_are_those_of_help() -> None:
    top = Path(__file__).parents[2]
    made = runpy.run_path(str(top / ".docs/share.py"))["files"]()
    assert len(made) > 15
    kept = top / ".docs/share"
    assert {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()} == set(made)
    for name, text in made.items():
        assert (kept / name).read_text(encoding="utf-8") == text, f"{name} is old: scripts/docs --share"
