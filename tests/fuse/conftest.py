"""Mounts, all of them real. What reads a mount is never the process that serves it.

The core runs on libfuse 3 and 2 through mfusepy, and on libfuse 2 through fusepy, as far as these are installed. A
test runs on libfuse 3 and on one of the others, in turns.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.fuse.support import LIBRARIES, Scan, free, use
from vfs.contents.contents import Contents
from vfs.fuse.points import DEVICE
from vfs.fuse.view import library
from vfs.kernels.native.fuse import state

if TYPE_CHECKING:
    from tests.fuse.direct import Direct


def _why_not() -> str:
    """Why nothing can be mounted here; "" where it can."""
    try:
        library()
        os.close(os.open(DEVICE, os.O_RDWR))
    except OSError as error:
        return str(error)
    with open("/proc/self/status") as file:
        capable = int(next(line for line in file if line.startswith("CapEff")).split()[1], 16) >> 21 & 1
    return "" if capable or (os.geteuid() and shutil.which("fusermount3")) else "no CAP_SYS_ADMIN and no fusermount3"


@pytest.fixture(scope="session", autouse=True)
def fuse_works() -> None:
    if reason := _why_not():
        pytest.skip(f"NOTHING OF THE MOUNT IS TESTED, FUSE does not work here: {reason}")


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    """A mount point that is free again afterwards, whatever happens."""
    path = tmp_path / "mnt"
    path.mkdir()
    yield path
    free(path)


@pytest.fixture
def direct() -> Iterator[Callable[[Contents], Direct]]:
    """What answers requests for something that is shown, without a mount."""
    from tests.fuse.direct import Direct  # the compiler

    made = []

    def start(folder: Contents) -> Direct:
        made.append(Direct(folder))
        return made[-1]

    yield start
    for one in made:
        one.native_tables.close()
    state.STATE[:] = 0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what takes a library on libfuse 3 or one of the others, thoroughly on both, unless a test names its own."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "lib" in metafunc.fixturenames and not any("lib" in names for names in named):
        first, *others = LIBRARIES
        turn = sum(metafunc.function.__name__.encode())
        both = [first, *others[turn % max(1, len(others)) :][:1]]
        of_day = both[turn // 3 % len(both)]
        libraries = [pytest.param(one, marks=() if one == of_day else pytest.mark.thorough) for one in both]
        metafunc.parametrize("lib", libraries, indirect=True)


@pytest.fixture
def lib(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Servers started by the test use this library."""
    name: str = request.param
    use(name, tmp_path, monkeypatch)
    return name


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    return Scan(tmp_path / "data")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.npy"
    np.save(path, np.arange(24.0).reshape(2, 3, 4))
    return path
