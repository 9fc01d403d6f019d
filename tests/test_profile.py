"""The way of a chunk is short: few levels, few functions, and the same whatever the size of the set."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import vfs
from vfs import Region
from vfs.testing.writers import write_mib, write_npy, write_raw

LEVELS, FUNCTIONS = 6, 20
HOME = str(Path(vfs.__file__).parent) + os.sep


def profiled(act: Callable[[], Any]) -> tuple[int, list[str]]:
    """Runs something, and says how deep our own Python functions were nested and which they were (a call each)."""
    depth, deepest, called = 0, 0, []

    def watch(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal depth, deepest
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(HOME) or code.co_name.startswith("<"):
            return  # neither numpy's, nor a comprehension or generator expression inside a function
        if f"{os.sep}kernels{os.sep}" in code.co_filename:
            return  # compiled
        depth += 1 if event == "call" else -1
        if event == "call":
            deepest = max(deepest, depth)
            called.append(f"{Path(code.co_filename).stem}.{code.co_qualname}")

    act()  # what happens once: compiling, opening
    gc.disable()  # what other tests left behind
    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return deepest, called


def arrays(folder: Path) -> dict[str, vfs.VirtualArray]:
    values = np.random.default_rng(0).integers(0, 60_000, (64, 32, 32)).astype("<u2")
    mapped = write_npy(folder, values)
    swapped = write_raw(folder, values.astype(">u2"), frame_header=64, files=16)
    options: dict[str, Any] = {"format": "raw", "stored_dtype": ">u2", "sig_shape": (32, 32), "frame_header": 64, "chunks": (8, 32, 32)}
    return {
        "view": vfs.open(mapped, chunks=(8, 32, 32)),
        "copied": vfs.open(mapped, chunks=(8, 32, 32), backend="buffered"),
        "gathered": vfs.open(swapped, **options),
        "read": vfs.open(swapped, **options, backend="buffered"),
        "converted": vfs.open(swapped, **options, dtype="f4", backend="buffered"),
    }


@pytest.mark.parametrize("kind", ["view", "copied", "gathered", "read", "converted"])
def test_a_chunk_passes_through_few_functions(tmp_path: Path, kind: str) -> None:
    array = arrays(tmp_path)[kind]
    face = array.group.tree.zarr(3)
    region = Region.box((8, 0, 0), (16, 32, 32))
    out = np.empty((8, 32, 32), array.dtype)
    for name, act in (
        ("array.read", lambda: array.read(region)),
        ("array.read(out=)", lambda: array.read(region, out)),
        ("array[n]", lambda: array[9]),
        ("tree.get", lambda: face.get("data/c/1/0/0")),
    ):
        levels, called = profiled(act)
        assert called, name
        tiled = kind == "converted" and name == "tree.get"  # cut into tiles on top of all the rest
        assert levels <= LEVELS + tiled, (name, levels, called)
        assert len(set(called)) <= FUNCTIONS + tiled, (name, sorted(set(called)))


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_no_call_more_for_frames_in_one_file(tmp_path: Path, backend: str) -> None:
    """Frames, rows and ranges are the kernels' business: ten times the frames, not one Python call more."""
    values = np.zeros((200, 4, 4), ">u2")
    (path,) = write_raw(tmp_path, values, frame_header=8)
    array = vfs.open(path, format="raw", dtype=">u2", sig_shape=(4, 4), frame_header=8, backend=backend)
    few, many = (len(profiled(lambda n=n: array.read((slice(0, n), slice(0, 3, 2))))[1]) for n in (10, 100))
    assert few == many


def test_no_call_more_for_a_larger_set(tmp_path: Path) -> None:
    calls = []
    for files in (4, 400):
        folder = tmp_path / str(files)
        folder.mkdir()
        paths = write_raw(folder, np.zeros((files, 4, 4), "<u2"), files=files)
        array = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(4, 4))
        calls.append([len(profiled(act)[1]) for act in (lambda array=array: array[3], lambda array=array: array.group.tree.zarr(3).node("data/c/0/0/0"))])
    assert calls[0] == calls[1]


def test_reading_starts_no_threads(tmp_path: Path) -> None:
    array = arrays(tmp_path)["read"]
    before = threading.active_count()
    array[...]
    assert threading.active_count() == before


def test_opening_makes_few_calls(tmp_path: Path) -> None:
    """What a set of one file costs to open: as many calls of ours as were counted, and some more. Arrays that nobody looks at are not made."""
    frames = np.zeros((6, 16, 16), "<u2")
    (raw,) = write_raw(tmp_path, frames)
    mib, npy = write_mib(tmp_path, frames, scan=(2, 3)), write_npy(tmp_path, frames)
    for most, act in (
        (80, lambda: vfs.open(raw, format="raw", dtype="<u2", sig_shape=(16, 16))),
        (180, lambda: vfs.open(mib)),
        (130, lambda: vfs.open(npy)),
    ):
        _, called = profiled(act)
        assert called.count("array.ArrayReader.__init__") == 1
        assert len(called) <= most, (len(called), sorted(called))
