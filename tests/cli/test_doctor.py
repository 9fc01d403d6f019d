"""`vfs doctor`: what is here, what is missing, what to type."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import webbrowser
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import run
from tests.sessions import PAGES
from vfs.cli import doctor
from vfs.kernels import unpack


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What it says as JSON."""
    assert run("doctor", "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    return dict(json.loads(out))


def typed(finding: dict[str, Any]) -> list[str]:
    return [missing["type"] for missing in finding["missing"]]


def test_it_says_all_that_the_page_lists(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys)
    rows = PAGES["install"].read_text().partition(" Its rows: ")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", rows) == [*found]
    assert f"numpy {metadata.version('numpy')}" in found["libraries"]["found"]
    assert run("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if re.match(r"  \w", line)][: len(found)] == [*found]
    asked = [f"{missing['what']}: {missing['type']}" for one in found.values() for missing in one["missing"]]
    assert lines[-1] == "nothing is missing" if not asked else lines[-len(asked) :] == [f"  {one}" for one in asked]


def test_a_machine_without_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = metadata.version

    def version(name: str) -> str:
        if name in ("h5py", "numcodecs", "jupyter-server-proxy"):
            raise metadata.PackageNotFoundError(name)
        return "4.2" if name == "jupyterlab" else installed(name)

    def none(*_: object) -> None:
        return None

    def no_browser(*_: object) -> None:
        raise webbrowser.Error

    there = os.path.exists
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(doctor, "find_library", none)
    monkeypatch.setattr(shutil, "which", none)
    monkeypatch.setattr(webbrowser, "get", no_browser)
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/dev/fuse" and there(path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("FUSE_LIBRARY_PATH", raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file/below"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of nobody's business")
    found = said(capsys)
    pip = f"{sys.executable} -m pip install"  # the shell has no pip, which may be that of another Python
    assert typed(found["libraries"]) == [f"{pip} numcodecs"]
    assert f"{pip} 'vfs[hdf5]'" in typed(found["extras"])
    assert "hdf5 (" not in found["extras"]["found"]
    assert found["mount"]["found"] == "nothing"
    assert [missing["what"].split(",")[0] for missing in found["mount"]["missing"]] == [
        "/dev/fuse",
        "libfuse",
        "fusermount3",
    ]
    assert typed(found["kernels"]) == ["export NUMBA_CACHE_DIR=, and a folder of yours"]
    assert len(typed(found["browser"])) == 1
    assert typed(found["jupyter"]) == [f"{pip} jupyter-server-proxy"]
    assert "AWS_SECRET_ACCESS_KEY" in found["credentials"]["found"]
    assert "business" not in json.dumps(found)


def test_root_of_a_container_may_lack_the_right_to_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    right = "in a container: --cap-add SYS_ADMIN"
    for capabilities, lacks in ("00000000a80425fb", True), ("000001ffffffffff", False):
        monkeypatch.setattr(doctor, "_text", lambda path, bits=capabilities: f"Name:\tx\nCapEff:\t{bits}\n")
        assert (right in [missing.type for missing in doctor._mount().missing]) == lacks


def test_a_cgroup_leaves_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"/proc/meminfo": "MemTotal:       16777216 kB\n", "/sys/fs/cgroup/memory.max": "2147483648\n"}
    monkeypatch.setattr(doctor, "_text", lambda path: texts.get(path, ""))
    assert "16.0 GiB of memory, of which a cgroup leaves 2.0 GiB" in doctor._limits().found


def test_kernels_are_where_numba_keeps_them() -> None:
    kernel = next(one for one in vars(unpack).values() if hasattr(one, "stats") and one.stats.cache_path)
    kept = Path(kernel.stats.cache_path)
    place = Path(doctor._kernels().found.rpartition("in ")[2])
    assert kept.is_relative_to(place)


def test_compiled_kernels_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert doctor._kernels().found == f"none compiled yet, in {tmp_path}"
    for folder, name in ("kernels_1", "a.nbc"), ("kernels_1", "a.lock"), ("other_2", "b.nbc"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).touch()
    assert doctor._kernels().found == f"1 compiled in {tmp_path}"
