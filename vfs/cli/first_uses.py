"""Compiles the kernels that the first uses of vfs need: `vfs doctor --compile`.

There is no list of kernels. Tiny sets of formats that many people have are written into a temporary folder and used as
people use theirs: what that needs is compiled, and kept. What other formats and dtypes need besides is compiled when
it is first needed, a kernel or two (`vfs.kernels.notice` says so).
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from vfs import kernels
from vfs.api.showing import mount
from vfs.engine.cache import ChunkCache
from vfs.errors import VfsError
from vfs.folder_tree.plans import plan_sets
from vfs.model.open_options import OpenOptions
from vfs.model.region import Region
from vfs.sets.opening import open_set
from vfs.testing.examples import patterns
from vfs.testing.gatan_writers import write_dm
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib

_SCAN = (24, 16)  # of more bytes than a tile has at most (`vfs.engine.reader.CACHED`)
_SIZE = 32  # rows and columns of a frame
_LARGE = 2176  # rows and columns of an image that the page looks at in levels (`vfs.page.first_look.LARGE`)
_RESULTS = ("bf", "haadf", "com", "mean", "sum", "disk=disk(cy=16, cx=16, r=4)", "ring=ring(16, 16, 8, 14)")

Run = Callable[[Sequence[str]], object]


def compiled(run: Run, say: Callable[[str], None]) -> None:
    """Use vfs as people do first.

    Args:
        run: runs a command, given the words behind `vfs`.
        say: prints a line for each step.
    """
    say("compiling what first uses need (once, a minute or two)")
    with tempfile.TemporaryDirectory(prefix="vfs-compile-") as folder:
        scans, image = _scans(Path(folder)), _image(Path(folder))

        def use(*words: str) -> None:
            with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
                run(words)

        def each(what: str, used: Callable[[str], None], names: Sequence[str]) -> None:
            say(f"  {what}")
            for name in names:
                try:
                    used(name)
                except VfsError as error:  # the others are compiled nevertheless
                    say(f"  {what}: {error}")

        each("vfs info", lambda name: use("info", name), [*scans, image])
        each("vfs look", lambda name: use("look", name), [*scans, image])
        if importlib.util.find_spec("uvicorn"):
            each("vfs FILE, its page", _page, [*scans, image])
        each("vfs reduce", lambda name: use("reduce", name, f"{name}.results.zarr", *_RESULTS), scans)
        each("vfs reduce, of many frames", _in_tiles, scans)
        each("vfs mount, vfs demo", lambda _: _mount([*scans, image], folder), [folder])


def _page(name: str) -> None:
    """Load what a page of a set needs, and what answers clients of a server."""
    from vfs.page.first_look import FirstLook
    from vfs.page.listing import SetListing

    cache = ChunkCache(1 << 24)
    contents = plan_sets([open_set(name, OpenOptions(), {}, cache)], cache, for_urls=True).here()
    listing = SetListing(contents)
    FirstLook(lambda: listing.folder("", 0, 2)["entries"], listing, cache).load()
    kernels.native.http.answering.answer(0)


def _in_tiles(name: str) -> None:
    """Read frames as threads do whose share of a reduction is larger than a tile."""
    array = open_set(name, OpenOptions(), {}).main
    for _ in array.passing(Region.whole(array.shape)):
        pass


def _mount(names: Sequence[str], folder: str) -> None:
    """Mount sets, and read what is mounted."""
    mountpoint = os.path.join(folder, "mount")
    os.mkdir(mountpoint)
    with mount(names, mountpoint):
        for above, _, files in os.walk(mountpoint):
            for file in files:
                Path(above, file).read_bytes()


def _scans(folder: Path) -> list[str]:
    """Write frames as several formats have them. Returns what names each set."""
    frames = patterns(_SCAN, _SIZE)
    flat = frames.reshape(-1, _SIZE, _SIZE)
    made = [
        write_mib(folder, flat, frames_per_file=100, scan=_SCAN),
        write_mib(folder, flat, frames_per_file=100, prefix="series", hdr=False),  # its scan is guessed
        write_dm(folder, np.ascontiguousarray(frames.transpose(2, 3, 0, 1)), version=4, name="scan4"),  # frames last
        write_dm(folder, flat.astype("f4"), version=4, name="frames4"),
        write_tiff(folder / "stack.tif", list(flat)),
    ]
    if importlib.util.find_spec("h5py"):
        import h5py

        for name, data, how in (
            ("scan", frames, {}),
            ("chunked", frames.astype("f4"), {"chunks": (1, 1, _SIZE, _SIZE)}),
            ("packed", flat, {"chunks": (1, _SIZE, _SIZE), "compression": 4}),
        ):
            made.append(folder / f"{name}.h5")
            with h5py.File(made[-1], "w") as file:
                file.create_dataset("entry/data", data=data, **how)
    return [str(path) for path in made]


def _image(folder: Path) -> str:
    return str(write_tiff(folder / "image.tif", [np.zeros((_LARGE, _LARGE), "u1")]))
