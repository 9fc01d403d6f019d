"""The way of a chunk is short: few levels, few functions, and the same whatever the size of the set."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest
import zarr
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import default_buffer_prototype

import vfs
from tests.fuse.direct import Direct
from tests.http.support import Asgi, application_of
from vfs.contents.face_folder import FaceFolder
from vfs.folder_tree import plans
from vfs.http.reads import Reads
from vfs.model.open_options import OpenOptions
from vfs.server import leaving
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_npy, write_raw

LEVELS, FUNCTIONS = 10, 22
"""Two of each belong to the one state of what is read: `in_one_state`, and what it calls again if files moved."""
MAPPED = (11, 26)
"""Of maps, whose files are looked at once more behind it."""
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


SHAPE, CHUNKS = (64, 32, 32), (8, 32, 32)
VALUES = np.random.default_rng(0).integers(0, 4000, SHAPE).astype("<u2")


def npy(folder: Path, **options: Any) -> vfs.VirtualArray:
    return vfs.open(write_npy(folder, VALUES), **{"chunks": CHUNKS, "backend": "buffered"} | options)


def raw(folder: Path, **options: Any) -> vfs.VirtualArray:
    """Swapped, in 16 files with headers between the frames: a chunk lies in two of them."""
    asked = {"format": "raw", "stored_dtype": ">u2", "sig_shape": SHAPE[1:], "frame_header": 64, "chunks": CHUNKS}
    paths = write_raw(folder, VALUES.astype(">u2"), frame_header=64, files=16)
    with warnings.catch_warnings(action="ignore", category=vfs.IncompleteWarning):
        return vfs.open(paths, **asked | {"backend": "buffered"} | options)


def packed(folder: Path, **options: Any) -> vfs.VirtualArray:
    path = write_mib(folder, VALUES, kind="R64", depth=12)
    return vfs.open(path, **{"chunks": CHUNKS, "backend": "buffered"} | options)


def compressed(folder: Path, **options: Any) -> vfs.VirtualArray:
    """Eight blocks that decode only as a whole, a chunk each."""
    data, blocks = b"", []
    for n in range(0, 64, 8):
        block = zlib.compress(VALUES[n : n + 8].tobytes())
        blocks.append({"file": 0, "offset": len(data), "nbytes": len(block), "origin": [n, 0, 0], "shape": [8, 32, 32]})
        data += block
    (folder / "z.bin").write_bytes(data)
    document = {"vfs": 1, "dtype": "<u2", "shape": SHAPE, "files": ["z.bin"], "blocks": blocks, "codec": {"id": "zlib"}}
    (folder / "z.vfs.json").write_text(json.dumps(document))
    return vfs.open(folder / "z.vfs.json", **{"chunks": CHUNKS, "backend": "buffered"} | options)


def hdf5(folder: Path, **options: Any) -> vfs.VirtualArray:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("data", data=VALUES, chunks=CHUNKS, compression="gzip", shuffle=True)
    return vfs.open(folder / "a.h5", **{"chunks": CHUNKS, "backend": "buffered"} | options)


class Kind(NamedTuple):
    """How a chunk comes about.

    Attributes:
        make: opens the array, in a folder.
        chunk: position of the chunk.
        options: of opening.
        most: levels and functions of the longest way of it.
        cut: the same of those ways (`CUTS`) that want no whole chunk; None: as `most`.
    """

    make: Callable[..., vfs.VirtualArray]
    chunk: tuple[int, ...]
    options: dict[str, Any]
    most: tuple[int, int] = (LEVELS, FUNCTIONS)
    cut: tuple[int, int] | None = None


ONE_WINDOW = (10, 25)
"""Of what lies in one window: `span` reads it and the decoder decodes it, so that a fresh process
loads one kernel and no more; several windows are read and decoded by one kernel."""
DARK = {"dark": np.ones(SHAPE[1:], "f4"), "gain": np.ones(SHAPE[1:], "f4"), "dead": [[3, 4], [10, 10]]}
KINDS = {
    "view": Kind(npy, (1, 0, 0), {"backend": "mmap"}, MAPPED),
    "copied": Kind(npy, (1, 0, 0), {}),
    "gathered": Kind(raw, (1, 0, 0), {"backend": "mmap"}, MAPPED),
    "read": Kind(raw, (1, 0, 0), {}, cut=ONE_WINDOW),
    "converted": Kind(raw, (1, 0, 0), {"dtype": "f4"}, cut=ONE_WINDOW),
    "packed": Kind(packed, (1, 0, 0), {}, cut=ONE_WINDOW),
    "blank": Kind(raw, (10, 0, 0), {"nav_shape": (100,)}),
    "partly blank": Kind(raw, (7, 0, 0), {"nav_shape": (100,), "sync_offset": 4}, ONE_WINDOW),
    "sync_offset": Kind(raw, (1, 0, 0), {"sync_offset": 3}, cut=ONE_WINDOW),
    "roi": Kind(raw, (1, 0, 0), {"roi": np.arange(64) % 3 == 0}, cut=ONE_WINDOW),
    "edge": Kind(raw, (9, 0, 0), {"chunks": (7, 32, 32)}, ONE_WINDOW),
    # A decoder that is given views asks for its kernel each time
    "edge, mapped": Kind(raw, (9, 0, 0), {"chunks": (7, 32, 32), "backend": "mmap"}, (11, 27)),
    # Reads aligned blocks, so it lends no file to the kernel that reads and decodes
    "direct": Kind(raw, (1, 0, 0), {"backend": "direct"}, (10, 26)),
    # Blocks are looked up in a tree, then Python calls a codec, and checks how much it gave; where
    # part of a block is wanted, all of it goes into the cache, and the part is cut out. A generator gives
    # the windows, which passes take from it, too
    "compressed": Kind(compressed, (1, 0, 0), {}, (11, 28), (13, 30)),
    "hdf5": Kind(hdf5, (1, 0, 0), {}, (11, 30), (13, 32)),
    "compressed, edge": Kind(compressed, (9, 0, 0), {"chunks": (7, 32, 32)}, (14, 34)),
    # numpy converts what no kernel does, tile by tile, in the cache of the processor
    "cast": Kind(raw, (1, 0, 0), {"dtype": "i4"}, (12, 25), (11, 28)),
    # What is read around an excluded pixel, the images in the dtype that is asked for, and the
    # function that corrects are found first; then it goes tile by tile
    "corrected": Kind(raw, (1, 0, 0), DARK, (12, 34)),
    "corrected, mapped": Kind(raw, (1, 0, 0), {**DARK, "backend": "mmap"}, (13, 37)),
    "corrected, edge": Kind(raw, (9, 0, 0), {**DARK, "chunks": (7, 32, 32)}, (12, 36)),
    "corrected, compressed": Kind(compressed, (1, 0, 0), DARK, (16, 42)),
    # Chunks that share frames are read together, and cut out of what is then in the cache
    "parts of frames": Kind(raw, (1, 0, 1), {"chunks": (8, 16, 16)}, (13, 29)),
}
CUTS = (
    "array[n]",
    "array.zarr()[n]",
    "zarr, our pipeline",
    "mount, .npy",
    "mount, chunk of a .npy",
    "mount, part of a .npy",
)
NATIVE = ("copied", "read", "sync_offset", "roi", "packed")
"""Kinds whose bytes are copied, or reversed some at a time: the mount's reads of them never come to the interpreter."""


def ways(array: vfs.VirtualArray, chunk: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """What an adapter does for one request: of the chunk, of a part of it, or of one frame in it."""
    reader, proto, part = reader_of(array), default_buffer_prototype(), RangeByteRequest(100, 300)
    path, region = reader.dataset.path, reader.grid.region(chunk)
    out, n = np.empty(region.shape, array.dtype), region.start[0]
    z, tree = array.zarr(), set_of(array.group).tree
    folder = FaceFolder([tree])
    direct = Direct(folder)

    def read(name: str, size: int, offset: int) -> Callable[[], Any]:
        info = direct.open(name)
        return lambda: direct.read(name, info, size, offset)

    made: dict[str, Callable[[], Any]] = {
        "array[n]": lambda: array[n],
        "array.read": lambda: array.read(region),
        "array.read, out=": lambda: array.read(region, out),
        "array.zarr()[n]": lambda: z[n],
        "zarr, our pipeline": lambda: asyncio.run(z.async_array.getitem(slice(n, n + 1))),
        "zarr, a list": lambda: asyncio.run(z.async_array.get_orthogonal_selection(([n],))),
    }
    numbers = "/".join(map(str, chunk))
    for version, root, key in ((3, ".zarr", f"{path}/c/{numbers}"), (2, ".v2.zarr", f"{path}/{numbers}")):
        store = array.store(version)
        shown = zarr.open_array(store, path=path, mode="r").async_array
        made |= {
            f"store v{version}": lambda store=store, key=key: store.get_sync(key),
            f"store v{version}, part": lambda store=store, key=key: store.get_sync(
                key, prototype=proto, byte_range=part
            ),
            f"zarr v{version}": lambda shown=shown: asyncio.run(shown.getitem(n)),
            f"mount v{version}": read(f"{tree.name}{root}/{key}", reader.chunk_bytes, 0),
            f"mount v{version}, part": read(f"{tree.name}{root}/{key}", 4096, 4096),
        }
    begin = 128 + int(np.ravel_multi_index(region.start, array.shape)) * array.dtype.itemsize
    shown_as = next(name for name in folder.faces if name.endswith(".npy"))
    return made | {
        "mount, .npy": read(shown_as, reader.chunk_bytes, 0),
        "mount, chunk of a .npy": read(shown_as, region.size * array.dtype.itemsize, begin),
        "mount, part of a .npy": read(shown_as, 4096, 20_000),
        "mount, zarr.json": read(f"{tree.name}.zarr/zarr.json", 300, 0),
        "mount, .zarray": read(f"{tree.name}.v2.zarr/{path}/.zarray", 300, 0),
    }


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:.*direct I/O is refused")
def test_the_way_of_a_chunk_through_every_adapter(tmp_path: Path, name: str) -> None:
    """The chunk is not in the cache: it is read, decoded and handed out."""
    kind = KINDS[name]
    array = kind.make(tmp_path, **kind.options)
    for way, act in ways(array, kind.chunk).items():
        levels, called = profiled(act, reader_of(array).cache.clear, threads="zarr" in way)
        mounted = way.startswith("mount") and "z" not in way.partition(", ")[2]
        if name in NATIVE and mounted:
            assert not called, way
        most_levels, most_functions = kind.cut if kind.cut and way in CUTS else kind.most
        assert levels <= most_levels, (way, levels, called)
        assert len(set(called)) <= most_functions, (way, len(set(called)), called)


SERVED = (4, 49)
"""Levels and functions that HTTP adds: it checks who asks and for what, looks at the sources, goes to a
thread and back if it has to, and writes a response."""


@pytest.mark.parametrize("kind", ["copied", "packed", "compressed", "hdf5", "corrected"])
def test_the_way_of_a_chunk_over_http(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "MOMENT", 60.0)  # on a slow machine, too, nobody looks for the client
    array = KINDS[kind].make(tmp_path, **KINDS[kind].options)
    reader, tree = reader_of(array), set_of(array.group).tree
    application = application_of(FaceFolder([tree], reader.cache, versions=[b"opened"]), workers=1)
    root, numbers = next(name for name in application.contents.faces), "/".join(map(str, KINDS[kind].chunk))
    path = f"/{root}/{reader.dataset.path}/c/{numbers}"
    most_levels, most_functions = KINDS[kind].most
    for headers in ({}, {"range": "bytes=100-299"}):
        asked: list[Asgi] = []

        def ask(headers: dict[str, str] = headers, asked: list[Asgi] = asked) -> None:
            application.reads.close()
            application.reads = Reads(1)  # only threads that begin now are watched
            asked.append(asyncio.run(Asgi(application, path, **headers).run()))

        levels, called = profiled(ask, reader.cache.clear, threads=True)
        assert [one.status for one in asked] == [206 if headers else 200] * 2
        assert levels <= most_levels + SERVED[0], (levels, called)
        assert len(set(called)) <= most_functions + SERVED[1], (len(set(called)), called)
    application.reads.close()


@pytest.mark.parametrize("kind", ["packed", "compressed", "hdf5"])
def test_the_way_of_a_chunk_in_a_folder_tree(tmp_path: Path, kind: str) -> None:
    """As in a mount of the set alone, and sixteen functions that find out which set a path is of, and
    whether it is still that one.
    """
    reader = reader_of(KINDS[kind].make(tmp_path))
    mount = Direct(plans.folder_tree(tmp_path, OpenOptions(chunks="16KiB")))
    root = next(name for name in mount.folder.at("").children() if name.endswith(".zarr") and ".v2" not in name)
    path = f"{root}/{reader.dataset.path}/c/1/0/0"
    mount.read(path, mount.open(path), reader.chunk_bytes, 0)  # compiles; a set is looked at again after a while
    info = mount.open(path)
    levels, called = profiled(lambda: mount.read(path, info, reader.chunk_bytes, 0), mount.folder.cache.clear)
    mount.native_tables.close()
    most_levels, most_functions = KINDS[kind].most
    assert bool(called) == (kind not in NATIVE)
    assert levels <= most_levels, called
    assert len(set(called)) <= most_functions + 16, (len(set(called)), called)


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
    array = raw(tmp_path)
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
        (132, lambda: vfs.open(raw, format="raw", dtype="<u2", sig_shape=(16, 16))),
        (227, lambda: vfs.open(mib)),
        (137, lambda: vfs.open(npy)),
    ):
        _, called = profiled(act)
        called = [
            name for name in called if not name.endswith((".sniff", ".claims", ".may_be", "._loaded"))
        ]  # one of each format
        assert called.count("array.ArrayReader.__init__") == 1
        assert len(called) <= most, (len(called), sorted(called))
