"""The way of a chunk is short: few levels, few functions, and the same whatever the size of the set."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import default_buffer_prototype

import vfs
from tests.fuse.direct import Direct
from vfs import Region
from vfs.hierarchy.face_folder import FaceFolder
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_npy, write_raw

LEVELS, FUNCTIONS = 8, 20
HOME = str(Path(vfs.__file__).parent) + os.sep


def profiled(
    act: Callable[[], Any], before: Callable[[], Any] = lambda: None, threads: bool = False
) -> tuple[int, list[str]]:
    """Runs something, and says how deep our own Python functions were nested and which they were (a call each).

    It runs twice, each time after `before`; what is said is of the second time. `threads`: also of
    those that it starts to do the work for it.
    """
    nested, deepest, called = threading.local(), 0, []

    def watch(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal deepest
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(HOME) or code.co_name.startswith("<"):
            return  # neither numpy's, nor a comprehension or generator expression inside a function
        if f"{os.sep}kernels{os.sep}" in code.co_filename:
            return  # compiled
        nested.depth = getattr(nested, "depth", 0) + (1 if event == "call" else -1)
        if event == "call":
            deepest = max(deepest, nested.depth)
            called.append(f"{Path(code.co_filename).stem}.{code.co_qualname}")

    before()
    act()  # what happens once: compiling, opening
    before()
    gc.disable()  # what other tests left behind
    threading.setprofile(watch if threads else None)
    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()
    return deepest, called


def arrays(folder: Path) -> dict[str, vfs.VirtualArray]:
    values = np.random.default_rng(0).integers(0, 60_000, (64, 32, 32)).astype("<u2")
    mapped = write_npy(folder, values)
    swapped = write_raw(folder, values.astype(">u2"), frame_header=64, files=16)
    options: dict[str, Any] = {
        "format": "raw",
        "stored_dtype": ">u2",
        "sig_shape": (32, 32),
        "frame_header": 64,
        "chunks": (8, 32, 32),
    }
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
    face = set_of(array.group).tree.zarr(3)
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
        assert levels <= LEVELS, (name, levels, called)
        assert len(set(called)) <= FUNCTIONS, (name, sorted(set(called)))


def compressed(folder: Path) -> vfs.VirtualArray:
    """Eight blocks that decode only as a whole, a chunk each."""
    values = np.random.default_rng(0).integers(0, 200, (64, 32, 32)).astype("<u2")
    data, blocks = b"", []
    for n in range(0, 64, 8):
        block = zlib.compress(values[n : n + 8].tobytes())
        blocks.append({"file": 0, "offset": len(data), "nbytes": len(block), "origin": [n, 0, 0], "shape": [8, 32, 32]})
        data += block
    (folder / "z.bin").write_bytes(data)
    document = {
        "vfs": 1,
        "dtype": "<u2",
        "shape": [64, 32, 32],
        "files": ["z.bin"],
        "blocks": blocks,
        "codec": {"id": "zlib"},
    }
    (folder / "z.vfs.json").write_text(json.dumps(document))
    return vfs.open(folder / "z.vfs.json", chunks=(8, 32, 32), backend="buffered")


WAYS = {
    "array[n]": ((7, 18), (9, 22)),
    "store": ((7, 20), (9, 25)),
    "store, part of a chunk": ((8, 17), (10, 23)),
    "zarr": ((8, 21), (9, 28)),
    "mount, chunk": ((8, 20), (10, 26)),
    "mount, part of a chunk": ((8, 20), (10, 26)),
    "mount, .npy": ((8, 24), (10, 27)),
    "mount, part of a .npy": ((8, 23), (10, 27)),
}
"""Most levels and functions of the way of a chunk that is not in the cache, through each adapter:
of elements that are copied, swapped or converted by kernels, and of compressed blocks, whose codec
and cache are on the way. As many as there are: nothing gets longer unnoticed."""


def ways(array: vfs.VirtualArray) -> dict[str, Callable[[], Any]]:
    """What an adapter does for one request."""
    store, folder = array.store(), FaceFolder([set_of(array.group).tree])
    direct = Direct(folder)
    key, proto = "data/c/1/0/0", default_buffer_prototype()

    def read(path: str, size: int, offset: int) -> Callable[[], Any]:
        info = direct.open(path)
        return lambda: direct.read(path, info, size, offset)

    zarred = zarr.open_array(store, path="data", mode="r").async_array
    chunk, npy = (
        next(name for name in folder.faces if name.endswith(ending) and ".v2" not in name)
        for ending in (".zarr", ".npy")
    )
    return {
        "array[n]": lambda: array[9],
        "store": lambda: store.get_sync(key),
        "store, part of a chunk": lambda: store.get_sync(key, prototype=proto, byte_range=RangeByteRequest(100, 300)),
        "zarr": lambda: asyncio.run(zarred.getitem(9)),
        "mount, chunk": read(f"{chunk}/{key}", reader_of(array).chunk_bytes, 0),
        "mount, part of a chunk": read(f"{chunk}/{key}", 4096, 4096),
        "mount, .npy": read(npy, reader_of(array).chunk_bytes, 0),
        "mount, part of a .npy": read(npy, 4096, 20_000),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["view", "copied", "gathered", "read", "converted", "compressed"])
def test_the_way_of_a_chunk_through_every_adapter(tmp_path: Path, kind: str, way: str) -> None:
    array = compressed(tmp_path) if kind == "compressed" else arrays(tmp_path)[kind]
    act = ways(array)[way]
    levels, called = profiled(act, reader_of(array).cache.clear, threads=way == "zarr")
    # What is decoded as fast as it is copied never comes to the interpreter
    by_kernels_alone = way.startswith("mount") and kind in ("copied", "read")
    assert (not called) == by_kernels_alone, called
    most_levels, most_functions = WAYS[way][kind == "compressed"]
    assert levels <= most_levels, called
    assert len(set(called)) <= most_functions, sorted(set(called))


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
        calls.append(
            [
                len(profiled(act)[1])
                for act in (
                    lambda array=array: array[3],
                    lambda array=array: set_of(array.group).tree.zarr(3).node("data/c/0/0/0"),
                )
            ]
        )
    assert calls[0] == calls[1]


def test_reading_starts_no_threads(tmp_path: Path) -> None:
    array = arrays(tmp_path)["read"]
    before = threading.active_count()
    array[...]
    assert threading.active_count() == before


def test_opening_makes_few_calls(tmp_path: Path) -> None:
    """What a set of one file costs to open: as many calls of ours as were counted, and some more.
    Arrays that nobody looks at are not made.
    """
    frames = np.zeros((6, 16, 16), "<u2")
    (raw,) = write_raw(tmp_path, frames)
    mib, npy = write_mib(tmp_path, frames, scan=(2, 3)), write_npy(tmp_path, frames)
    for most, act in (
        (93, lambda: vfs.open(raw, format="raw", dtype="<u2", sig_shape=(16, 16))),
        (168, lambda: vfs.open(mib)),
        (120, lambda: vfs.open(npy)),
    ):
        _, called = profiled(act)
        assert called.count("array.ArrayReader.__init__") == 1
        assert len(called) <= most, (len(called), sorted(called))
