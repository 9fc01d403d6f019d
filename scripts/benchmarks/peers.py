"""vfs beside other readers of the same files: `scripts/bench --peers [WORD…]` (a WORD picks the
files with it in their name). As a test: untimed.

Every line is one thing done to one file by vfs and by a peer, taking turns in the same process, the
best time of each; the figures are the peer's time ÷ ours (2 = vfs is twice as fast), by the clock
and by the processor time of the process, which other load disturbs less. Both must return the same
elements first, or the line says how they differ. Sources are in the page cache; of compressed files
vfs keeps what it decoded and peers do not, so these are opened anew unless a line says "again".
HDF5 files are taken apart in another process: "cpu" does not count that one's time.

LiberTEM and vfs use one thread each ("tile by tile": each in tiles of its own choice, every tile
copied into memory that is in cache); zarr stores are read by zarr-python with its defaults, vfs's
as `a.zarr()`. Reductions are one thread against one, and all cores against LiberTEM's pipelined
executor, whose processes "cpu" does not count. A reference for kerchunk and VirtualiZarr that no
parser of theirs makes is made by hand: they are shown at their best. Peers that are not here are
named with the reason.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.benchmarks.peer_cases import PARTS as FILE_PARTS
from scripts.benchmarks.peer_cases import Case
from scripts.benchmarks.peer_reductions import with_reductions
from scripts.benchmarks.rows import FULL, Size

PARTS = (*FILE_PARTS, with_reductions)

PEERS = {
    "LiberTEM": "libertem",
    "tifffile": "tifffile",
    "kerchunk": "kerchunk",
    "VirtualiZarr": "virtualizarr",
    "h5py": "h5py",
}
PEERS |= {"mrcfile": "mrcfile", "RosettaSciIO": "rosettasciio"}
PEERS |= {"HyperSpy": "hyperspy", "py4DSTEM": "py4DSTEM", "tiled": "tiled"}
"""Name -> package on PyPI."""
MODULES = {"rosettasciio": "rsciio"}
EXTRAS = {"tiled": "tiled[server,client]"}
"""What pip is asked for, where that is not the package alone."""


class Times(NamedTuple):
    """Best seconds by the clock and of processor time."""

    clock: float = float("inf")
    cpu: float = float("inf")


class Found(NamedTuple):
    """One line: how long vfs and a peer took; or why there are no times."""

    case: Case
    peer: str
    ours: Times = Times()
    theirs: Times = Times()
    note: str = ""


def missing() -> dict[str, str]:
    """Peers that are not here, and why."""
    noted = Path(sys.prefix) / "peers.json"
    reasons = json.loads(noted.read_text()) if noted.exists() else {}
    found = {}
    for name, package in PEERS.items():
        try:
            importlib.import_module(MODULES.get(package, package))
        except ImportError as error:
            found[name] = reasons.get(package, str(error))
    return found


def measure(case: Case, size: Size) -> Iterator[Found]:
    """Best times of vfs and each peer of a case, taken in turns, after both gave the same."""
    ours = case.ours()
    want = case.check[0]() if case.check else ours()
    calls = {"": ours}
    for peer, opener in case.theirs.items():
        try:
            call = opener()
            got = case.check[1][peer]() if case.check else call()
        except Exception as error:  # a peer may fail in any way
            yield Found(case, peer, note=f"fails: {type(error).__name__}: {str(error)[:120]}")
            continue
        if isinstance(want, np.ndarray) and not np.array_equal(np.asarray(got), want):
            yield Found(
                case,
                peer,
                note=f"returns something else: {np.asarray(got).dtype}{np.shape(got)}, vfs {want.dtype}{want.shape}",
            )
            continue
        calls[peer] = call
    del want
    best = dict.fromkeys(calls, Times())
    for _ in range(size.rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            while True:
                cpu, once = time.process_time(), time.perf_counter()
                call()
                best[name] = Times(
                    min(best[name].clock, time.perf_counter() - once), min(best[name].cpu, time.process_time() - cpu)
                )
                if time.perf_counter() - began >= size.seconds:
                    break
    for peer in calls:
        if peer:
            yield Found(case, peer, best[""], best[peer])


def found(folder: Path, size: Size, words: tuple[str, ...] = ()) -> Iterator[Found]:
    """Every line of the table; without peers that are missing."""
    absent = tuple(missing())
    for part in PARTS:
        where = folder / part.__name__
        where.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peers warn as they please
            for case in part(where, size):
                theirs = {peer: opener for peer, opener in case.theirs.items() if not peer.startswith(absent)}
                if theirs and (not words or any(word.lower() in case.file.lower() for word in words)):
                    yield from measure(case._replace(theirs=theirs), size)
                del case, theirs
            gc.collect()  # peers leave files open


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:8.0f} µs" if seconds < 0.01 else f"{seconds * 1e3:8.1f} ms"


def table(size: Size, words: tuple[str, ...]) -> None:
    """Print who is here, and every line as it is found."""
    absent = missing()
    for name, package in PEERS.items():
        print(f"{name} {importlib.metadata.version(package) if name not in absent else 'is not here: ' + absent[name]}")
    print(
        f"zarr {importlib.metadata.version('zarr')}, numpy {np.__version__}, Python {sys.version.split()[0]}, load"
        f" {os.getloadavg()[0]:.1f}\n"
    )
    print(f"{'file':64} {'what':36} {'peer':16} {'peer ÷ vfs':>10} {'cpu':>6}  {'vfs':>11}  {'peer':>11}")
    with tempfile.TemporaryDirectory(prefix="vfs-peers-") as folder:
        for line in found(Path(folder), size, words):
            mine, its = line.ours, line.theirs
            ratios = f"{its.clock / mine.clock:10.2f} {its.cpu / max(mine.cpu, 1e-9):6.2f}"
            times = line.note or f"{ratios}  {_time(mine.clock)}  {_time(its.clock)}"
            print(f"{line.case.file:64} {line.case.did:36} {line.peer:16} {times}", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


def install() -> None:
    """Install what is missing: together, or singly where that fails; the reasons are kept for the table."""
    from tests.clients.install import pip

    absent = missing()
    wanted = [EXTRAS.get(package, package) for name, package in PEERS.items() if name in absent]
    reasons: dict[str, str] = {}
    if wanted and pip(sys.executable, *wanted, "obstore"):
        reasons = {
            package.partition("[")[0]: reason
            for package in wanted
            if (reason := pip(sys.executable, package, *["obstore"] * (package == "virtualizarr")))
        }
    (Path(sys.prefix) / "peers.json").write_text(json.dumps(reasons))


if __name__ == "__main__":
    if sys.argv[1:] == ["--install"]:
        install()
    else:
        table(FULL._replace(rounds=5, seconds=0.06), tuple(sys.argv[1:]))
