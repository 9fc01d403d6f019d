"""A process lives through an update of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs import own_code

Begin = Callable[[str, str], subprocess.Popen[str]]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, which may be updated."""
    passing = shutil.ignore_patterns("docs", "*.lock", "*.part", "*.pyc.*")  # what other processes write just now
    shutil.copytree(vfs.__path__[0], tmp_path / "new/vfs", ignore=passing)
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in/a.npy", np.add.outer(np.arange(600) * 8, np.arange(600)).astype("u2"))
    return tmp_path / "new/vfs"


@pytest.fixture
def begin(package: Path) -> Begin:
    """Begins processes that run code of two parts, the second once they are told to."""

    def start(before: str, then: str) -> subprocess.Popen[str]:
        code = "\n".join(map(textwrap.dedent, (before, 'print("begun", flush=True); input()', then)))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path[1:]])}
        command = [sys.executable, "-P", "-c", code]
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        started = subprocess.Popen(command, cwd=package.parent.parent, env=env, text=True, **pipes)
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        return started

    return start


def printed(process: subprocess.Popen[str]) -> list[str]:
    """What it printed then."""
    return process.communicate("\n", timeout=250)[0].splitlines()


_LEVELS = """
    import vfs
    from vfs import own_code
    from vfs.testing.inside import set_of

    def level(folder):
        return set_of(vfs.open_group("in/a.npy", pyramid_cache=folder)).tree.images["data"].levels[1]

    def show(level):
        print(level[:2, :2].tolist())
"""


def test_levels_of_other_code_are_not_shown(package: Path, begin: Begin) -> None:
    """Of a process that began before an update. The version says nothing: that of a checkout is the same."""
    before = """
        [level(folder)[:2, :2] for folder in ("loads", "again")]  # all that makes them
        opened = level("before")
    """
    then = """
        show(opened)
        own_code._read.cache_clear()  # as if nobody had asked yet
        show(level("after"))
    """
    old = begin(textwrap.dedent(_LEVELS) + textwrap.dedent(before), then)
    path = package / "reduce/pyramid.py"
    text = path.read_text()
    path.write_text(text.replace("if nearest or dtype.kind", "if True or dtype.kind"))
    assert path.read_text() != text
    assert printed(old) == ["[[5, 7], [21, 23]]"] * 2
    new = begin(_LEVELS, '[show(level(folder)) for folder in ("again", "before", "after")]')
    assert printed(new) == ["[[0, 2], [16, 18]]"] * 3


_LATER = """
    import vfs
    import vfs.sets.opening
    from vfs import kernels
    from vfs.formats import by_name
    from vfs.helper.process import Helper

    helper = Helper("", "", {})
    later = lambda: kernels.halve, lambda: by_name("mrc"), lambda: vfs.Histogram, lambda: helper.enter({}, 1, 1)

    def load(one):
        try:
            one()
        except vfs.DependencyError as error:
            return str(error)
        except OSError:
            pass
"""


def test_modules_of_an_update_are_not_loaded_beside_others(package: Path, begin: Begin) -> None:
    """They could compute with what they do not fit."""
    old, touched = (begin(_LATER, "print(*map(load, later), sep='\\n')") for _ in range(2))
    path = package / "model/region.py"
    path.chmod(0o600)
    (package / "linked.py").hardlink_to(path)  # as a backup does
    assert printed(touched) == ["None"] * 4
    path.write_text(path.read_text() + "\n")
    said = f"vfs was updated while this process ran ({path} changed): start it again"
    assert printed(old) == [said] * 4


def test_a_key_is_of_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is that of all."""
    monkeypatch.setattr(own_code, "_loaded", {})
    keys = []
    for folder, text in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.py").write_bytes(text)
        monkeypatch.setattr(own_code, "_FOLDER", str(tmp_path / folder))
        own_code._read.cache_clear()
        keys.append(own_code.code_key())
    own_code._loaded[str(tmp_path / "c/m.py")] = (1, 2, 3, 4)  # another file, before the present one
    keys.append(own_code.code_key())
    assert own_code.code_key() == keys[3]
    own_code._read.cache_clear()
    own_code._untold.cache_clear()  # as in another process
    assert own_code.code_key() not in keys
    own_code._read.cache_clear()
    assert keys[0] == keys[1] != keys[2]
    assert len(set(keys)) == 3
