"""HDF5: a file that a program is writing, or that a writer left behind; an array that is still empty."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import incomplete, refuses, same, unwarned
from tests.formats.hdf5_sets import written
from vfs.testing.inside import reader_of

h5py = pytest.importorskip("h5py")

WRITER = """
import h5py, os, sys
path, kind = sys.argv[1:]
file = h5py.File(path, "w", libver="earliest" if kind == "old" else "latest")
data = file.create_dataset("data", (4, 8, 8), "u2", chunks=(1, 8, 8), maxshape=(None, 8, 8))
data[0] = 5
if kind == "swmr":
    file.swmr_mode = True
if kind != "unflushed":
    file.flush()
data[1] = 7
print(flush=True)
sys.stdin.read()
os._exit(0)  # as if killed
"""

Writer = Callable[[str], tuple[Path, int]]


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writer]:
    """Start a program that writes a file of some kind. Returns: (file, process); the end of the test kills it."""
    started = []

    def start(kind: str) -> tuple[Path, int]:
        arguments = [sys.executable, "-c", WRITER, str(tmp_path / "set.h5"), kind]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return tmp_path / "set.h5", process.pid

    yield start
    for process in started:
        process.communicate()


@pytest.mark.parametrize("kind", ["swmr", "latest", "unflushed"])
def test_a_file_that_a_program_has_open(writing: Writer, kind: str) -> None:
    path, process = writing(kind)
    said = refuses(
        path,
        f"set.h5: process {process} (",
        "has it open for writing",
        kind=vfs.FormatError if kind == "swmr" else vfs.SourceError,
    )
    assert "may use" not in said  # libhdf5 advises h5clear here
    assert ("h5clear would damage it" in said) == (kind != "unflushed")
    with h5py.File(path.parent / "master.h5", "w") as file:
        file["data"] = h5py.ExternalLink("set.h5", "/data")
    if kind == "swmr":  # what it has passed on so far can be read
        refuses(path.parent / "master.h5", f"set.h5: process {process} (", "follow=True", kind=vfs.FormatError)
    else:
        refuses(path.parent / "master.h5", "links to set.h5", f"process {process} (", kind=vfs.MissingSourceError)


def test_what_a_program_has_not_written_yet_is_not_blank_in_silence(writing: Writer) -> None:
    path, process = writing("old")
    array = incomplete(path, f"set.h5: process {process} (", "has it open for writing", kind=vfs.SourceError)
    assert [int(frame.max()) for frame in array[:2]] == [5, 0]  # it holds 7
    with h5py.File(path.parent / "master.h5", "w") as file:
        file["data"] = h5py.ExternalLink("set.h5", "/data")
    incomplete(path.parent / "master.h5", f"set.h5: process {process} (", kind=vfs.SourceError)


@pytest.mark.parametrize("kind", ["swmr", "latest"])
def test_a_file_whose_writer_died(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "set.h5"
    subprocess.run(
        [sys.executable, "-c", WRITER, str(path), kind], stdin=subprocess.DEVNULL, check=True, stdout=subprocess.PIPE
    )
    refusal = vfs.FormatError if kind == "swmr" else vfs.SourceError
    said = refuses(path, "set.h5: it is marked as open for writing", "wait until it is closed", kind=refusal)
    assert "`h5clear -s` on a copy makes the copy readable" in said
    assert os.path.getsize(path) > 0


@pytest.mark.parametrize("other", [(5000,), (40, 50), (3, 3)])
def test_an_empty_array_does_not_give_way_in_silence(tmp_path: Path, other: tuple[int, ...]) -> None:
    path = written(
        tmp_path, data=(np.zeros((0, 32, 32), "u2"), {"maxshape": (None, 32, 32)}), other=(np.ones(other), {})
    )
    array = incomplete(path, "set.h5: data [0, 32, 32] holds no element", kind=vfs.FormatError)
    same(array[...], np.ones(other))
    with unwarned():
        assert vfs.open(path, array="data").shape == (0, 32, 32)
        assert vfs.open_group(path)["data"].shape == (0, 32, 32)


@pytest.mark.parametrize("empty", [(0,), (0, 3), (0, 5, 5)])
def test_small_empty_arrays_are_no_reason_to_refuse_others(tmp_path: Path, empty: tuple[int, ...]) -> None:
    path = written(tmp_path, none=(np.zeros(empty), {}), data=(np.ones((4, 8, 8)), {}))
    assert reader_of(vfs.open(path)).dataset.path == "data"
