"""How long it takes from the import of a tool to its first frame: through each of our doors, by `vfs.open`, and by the
tool's own reader. Each in a fresh process, with the file in the page cache.

Doors whose tool is not installed are left out, and that is said.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.benchmarks.rows import Row, Size, frames_of
from vfs.testing.frame_writers import write_blo
from vfs.testing.writers import write_mib


class Door(NamedTuple):
    """A way to a first frame.

    Attributes:
        name: as the table has it.
        imports: what imports the tool.
        frame: gives the first frame of the set of the file `path`.
        own: gives that frame by the tool's own reader; "" where it has none. `kind` is "mib" or "blo".
    """

    name: str
    imports: str
    frame: str
    own: str = ""


_PICK = "context.run(context.create_pick_analysis(dataset=context.load({}), x=0, y=0)).intensity.raw_data"
_SCAN = "**({{'{}': (16, 16)}} if kind == 'mib' else {{}})"  # of a single .mib file, which does not say its shape
_DIRECT = Door("vfs.open", "import vfs", "vfs.open(path)[0, 0]")
_DOORS = (
    Door("dask, a.dask()", "import dask.array, vfs", "vfs.open(path).dask()[0, 0].compute()"),
    Door(
        "xarray, engine='vfs'",
        "import xarray",
        "xarray.open_dataset(path, engine='vfs')['data'][0, 0].values",
    ),
    Door("zarr, vfs://", "import zarr, fsspec", "zarr.open('vfs://' + path, mode='r')['data'][0, 0]"),
    Door(
        "napari's reader",
        "import napari, npe2, numpy",
        "(npe2.PluginManager.instance().discover(), numpy.asarray(npe2.read([path], stack=False)[0][0][0, 0]))[1]",
    ),
    Door(
        "HyperSpy, vfs.rsciio",
        "import hyperspy.api as hs, vfs",
        "hs.load(path, file_format=vfs.rsciio, lazy=True).inav[0, 0].data.compute()",
        f"hs.load(path, lazy=True, {_SCAN.format('navigation_shape')}).inav[0, 0].data.compute()",
    ),
    Door(
        "LiberTEM, a.dask()",
        "import libertem.api, vfs; context = libertem.api.Context.make_with('inline')",
        _PICK.format("'dask', vfs.open(path).dask(), sig_dims=2"),
        _PICK.format(f"kind, path=path, {_SCAN.format('nav_shape')}"),
    ),
)
_PROCESS = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
path, kind, imports, frame = sys.argv[1:]
began = time.perf_counter()
try:
    exec(imports)
except ImportError as error:
    raise SystemExit(print(json.dumps([str(error), None])))
imported = time.perf_counter()
shape = eval(frame).shape
ended = time.perf_counter()
assert tuple(shape) == (256, 256), shape
print(json.dumps([imported - began, ended - began]))
"""


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    frames = np.resize(frames_of(min(256, size.frames)), (256, 256, 256))
    mib = write_mib(folder, frames, scan=(16, 16)).with_suffix(".mib")
    blo = write_blo(folder, (frames >> 4).astype("u1").reshape(16, 16, 256, 256))
    for kind, path in (("mib", mib), ("blo", blo))[: size.rounds]:
        yield from _of(kind, path, 1 + size.rounds // 3)


def _of(kind: str, path: Path, rounds: int) -> Iterator[Row]:
    """Rows of one file."""
    for door in _DOORS:
        ways = [_DIRECT, door, *([door._replace(frame=door.own)] if door.own else [])]
        try:
            took = [[_took(way, kind, path) for way in ways] for _ in range(rounds)]
        except LookupError as error:
            print(f"{kind}: {door.name}: not measured, {error.args[0]}")
        else:
            least = [min(times, key=lambda one: one[1]) for times in zip(*took, strict=True)]
            yield from _compared(f"{kind}: {door.name}", *least)


def _compared(
    name: str, direct: tuple[float, float], door: tuple[float, float], own: tuple[float, float] | None = None
) -> Iterator[Row]:
    """Rows of a door; each time is that from import to its end, and to the first frame."""
    yield Row(f"{name}: its first frame", door[1], "s from import")
    yield Row("    the same", door[1] / direct[1], "of vfs.open, with its import")
    yield Row("    after the import of the tool", (door[1] - door[0]) / direct[1], "of vfs.open, with its import")
    if own:
        yield Row("    the same", door[1] / own[1], "of its own reader")
        yield Row("    after the import of the tool", (door[1] - door[0]) / (own[1] - own[0]), "of its own reader")


def _took(door: Door, kind: str, path: Path) -> tuple[float, float]:
    """Seconds of a process from import to (the end of it, the first frame).

    Raises:
        LookupError: its tool is not installed; it says which.
    """
    command = [sys.executable, "-c", _PROCESS, str(path), kind, door.imports, door.frame]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{door.name}: {done.stderr}"
    imported, ended = json.loads(done.stdout.splitlines()[-1])
    if ended is None:
        raise LookupError(imported)
    return imported, ended
