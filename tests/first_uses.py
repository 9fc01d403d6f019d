"""Uses vfs for the first time after an installation: python -m tests.first_uses, by hand, in `scripts/fresh`.

Each use is a process of its own, of a MIB, HDF5, DM4 and TIFF. A line says how long it took until it answered, how much
of the processor, and which kernels it compiled: `vfs doctor --compile` should have left none. The status is 1 where one
was compiled, or people would have to wait.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import h5py
import numpy as np

from vfs.cli.demo import diffraction
from vfs.testing.gatan_writers import write_dm
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib

PATIENCE = 2.0
"""Seconds that a first use may take."""

Use = AbstractContextManager[None]
"""Something that is done when it is entered; what it leaves behind is ended when it is left."""


def uses(folder: Path) -> Iterator[tuple[str, Use]]:
    """Yield what people do first, and what it is called."""
    yield "demo", used("demo")
    for path in sets(folder):
        yield f"info {path.name}", used("info", path)
        yield f"vfs {path.name}, first picture", pictured(path)
        yield f"mount {path.name}, read", mounted(path, folder / "mnt")
        yield f"reduce {path.name}", used("reduce", path, f"{path}.zarr", "bf", "mean")


def sets(folder: Path) -> list[Path]:
    """Write a scan as several instruments do. It is larger than those that `vfs doctor --compile` uses."""
    frames = diffraction((48, 48))
    flat = frames.reshape(-1, *frames.shape[2:])
    with h5py.File(folder / "scan.h5", "w") as file:
        file.create_dataset("entry/data", data=frames, chunks=(1, 1, *frames.shape[2:]), compression="gzip")
    return [
        write_mib(folder, flat, frames_per_file=1000, scan=frames.shape[:2]),
        write_mib(folder, flat, frames_per_file=1000, prefix="series", hdr=False),
        folder / "scan.h5",
        write_dm(folder, np.ascontiguousarray(frames.transpose(2, 3, 0, 1)), version=4, name="scan"),
        write_tiff(folder / "stack.tif", list(flat[:256])),
    ]


@contextmanager
def used(*words: str | Path) -> Iterator[None]:
    run(*words)
    yield


def run(*words: str | Path) -> None:
    command = [sys.executable, "-m", "vfs", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def pictured(path: Path) -> Iterator[None]:
    """Ask what the page of a set asks for first: itself, what is there, a frame and, of a scan, its image."""
    command = [sys.executable, "-m", "vfs", "serve", str(path)]  # what `vfs FILE` does beside opening a browser
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            asked(url)
            key = json.loads(asked(f"{url}api/list/"))["entries"][0]["key"]
            main = next(one for one in json.loads(asked(f"{url}api/set/{key}"))["arrays"] if one["main"])
            array = f"{key}/{main['path']}"
            asked(f"{url}api/frame/{array}?at={','.join(map(str, main['middle']))}")
            if main["nav"]:
                disk = "disk({cy:g}, {cx:g}, {r:g})".format(**json.loads(asked(f"{url}api/centre/{array}")))
                wanted = json.dumps({"results": {"r0": disk}, "region": None, "within": [], "coarse": True})
                asked(f"{url}api/compute/{array}", wanted.encode())
            yield
        finally:
            server.terminate()


def asked(url: str, body: bytes | None = None) -> bytes:
    headers = {} if body is None else {"content-type": "application/json"}
    with urlopen(Request(url, body, headers), timeout=60) as answer:
        return bytes(answer.read())


@contextmanager
def mounted(path: Path, mountpoint: Path) -> Iterator[None]:
    """Read a mount in another process: one that has read and still runs keeps it from being ended."""
    mountpoint.mkdir(exist_ok=True)
    run("mount", path, mountpoint, "--background")
    try:
        read = 'head -qc 100000 "$0"/*.npy "$0"/*/zarr.json'
        subprocess.run(["sh", "-c", read, mountpoint], check=True, stdout=subprocess.DEVNULL)
        yield
    finally:
        run("unmount", mountpoint)


def compiled() -> set[str]:
    """Return the names of the kernels that are kept."""
    command = [sys.executable, "-m", "vfs", "doctor", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["kernels"]["found"]
    return {path.name for path in Path(found.rpartition(" in ")[2]).rglob("*.nbc")}


def busy() -> float:
    """Return the seconds of the processor that processes took which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    status, before = 0, compiled()
    with tempfile.TemporaryDirectory(prefix="vfs-first-") as folder:
        for name, use in uses(Path(folder)):
            began, spent = time.perf_counter(), busy()
            with use:
                took = time.perf_counter() - began
            print(f"{took:6.2f} s  {busy() - spent:5.2f} s of a core  {name}", flush=True)
            now = compiled()
            for kernel in sorted(now - before):
                print(f"{'':26}compiled {kernel}", flush=True)
            status |= now != before or took > PATIENCE
            before = now
    return status


if __name__ == "__main__":
    sys.exit(main())
