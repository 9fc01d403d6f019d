"""The mount against a C server that shows ready bytes: `scripts/bench --mount`.

Both are read in turns by one process (`mount_client.py`), and the best time of each counts: of many
short turns, as what else the machine does would spoil each long one. The C server is `ready.c`,
compiled in the same run; where there is no compiler or no libfuse 3 to compile against, its rows
are left out with a word. So are those of `fsspec.fuse`, the peer, where fsspec or fusepy's libfuse
2 is missing. Sources are in the page cache of the kernel, and on the disk before anything is
measured; "cold" is the mount.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from scripts.benchmarks.rows import Row, Size
from vfs.testing import writers

HOW = "apt install gcc pkg-config libfuse3-dev (Fedora: dnf install gcc pkgconf fuse3-devel)"
PEER = """
import sys
import fsspec, fsspec.fuse
memory = fsspec.filesystem("memory")
memory.pipe("/shown/ready", open(sys.argv[1], "rb").read())
fsspec.fuse.run(memory, "/shown", sys.argv[2], foreground=True)
"""


def compiled(folder: Path) -> Path | None:
    """The C server; None, and a word on stderr, where it cannot be compiled."""
    out = folder / "ready"
    source = Path(__file__).with_name("ready.c")
    if not (shutil.which("cc") and shutil.which("pkg-config")):
        print(f"bench: no C compiler or no pkg-config, so no C server to compare with: {HOW}", file=sys.stderr)
        return None
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
    if flags.returncode:
        print(f"bench: no headers of libfuse 3, so no C server to compare with: {HOW}", file=sys.stderr)
        return None
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", out, source, *flags.stdout.split()], check=True)
    return out


@contextmanager
def serving(point: Path, command: Sequence[str | Path], shows: str) -> Iterator[Path]:
    """A server that mounts `point` until the block ends; `shows` is a name there."""
    point.mkdir()
    # As ours: sessions are scheduled apart
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    try:
        for _ in range(1000):
            if process.poll() is not None:
                assert process.stderr is not None
                raise RuntimeError(
                    f"{command[0]} ended: {process.stderr.read().decode(errors='replace').strip()[-300:]}"
                )
            if (point / shows).exists():
                break
            time.sleep(0.01)
        yield point
    finally:
        subprocess.run(
            ["fusermount3" if shutil.which("fusermount3") else "fusermount", "-u", "-z", point], capture_output=True
        )
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def settle(*paths: Path) -> None:
    """Have files written to the disk now: later that would slow down whoever is measured just then."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file)


def measured(tasks: Sequence[dict[str, Any]], rounds: int) -> list[list[float]]:
    """Best seconds of every candidate of every task."""
    asked = json.dumps({"rounds": rounds, "tasks": tasks}, default=str)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("mount_client.py")], input=asked, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: list[list[float]] = json.loads(done.stdout)
    return found


def through_mount(folder: Path, size: Size) -> Iterator[Row]:
    """All of it."""
    server = compiled(folder)
    frames = np.random.default_rng(1).integers(0, 4096, (size.frames, 256, 256)).astype("<u2")
    twin = folder / "twin.npy"
    np.save(twin, frames)
    settle(twin)
    yield from _files(folder, size, server, frames, twin)
    if server is not None:
        yield from _chunks(folder, size, server, frames, twin)
        yield from _many(folder, size, server)
    yield from _in_a_tree(folder, size, frames, twin)


def _in_a_tree(folder: Path, size: Size, frames: np.ndarray, twin: Path) -> Iterator[Row]:
    """Sets in a tree of folders against the same sets mounted by themselves."""
    below = folder / "tree/below"
    below.mkdir(parents=True)
    small = min(500, 8 * size.files)
    np.save(below / "small.npy", np.arange(small * 512, dtype="<u2").reshape(small, 16, 32))
    (below / "plain.npy").hardlink_to(twin)
    mib = writers.write_mib(below, frames, kind="U16", depth=12)
    settle(*below.iterdir())
    points = {name: folder / f"shown-{name}" for name in ("tree", "small", "plain", "scan")}
    for point in points.values():
        point.mkdir()
    with ExitStack() as stack:
        stack.enter_context(vfs.mount(folder / "tree", points["tree"], tree=True, chunks="frames"))
        for name, path in (("small", below / "small.npy"), ("plain", below / "plain.npy"), ("scan", mib)):
            stack.enter_context(vfs.mount(path, points[name], chunks="frames"))
        tasks: list[dict[str, Any]] = []
        said = {
            "plain.npy": "a cold file",
            "scan.npy": "MIB U16, a cold file",
            "scan.zarr/data/c": "MIB U16, chunks of a frame",
            "small.zarr/data/c": "",
        }
        for name in said:
            paths = [points["tree"] / "below" / name, points[name.partition(".")[0]] / name]
            if name.endswith(".npy"):
                tasks.append({"kind": "cold", "paths": paths})
            else:
                more = (
                    {"count": min(64, len(frames)), "below": "/0/0"}
                    if name.startswith("scan")
                    else {"count": small, "below": "/0/0"}
                )
                tasks.append(
                    {"kind": "chunks" if name.startswith("scan") else "small", "paths": paths, "more": [more] * 2}
                )
        for (name, what), found in zip(said.items(), measured(tasks, size.rounds), strict=True):
            ratio = found[1] / found[0]
            yield Row(
                f"mount, in a tree, {what or 'open + read + close + stat of 1 KiB'}",
                ratio,
                "of the same set by itself",
                "≥ 0.9" if name.endswith(".npy") else "",
            )


def _files(folder: Path, size: Size, server: Path | None, frames: np.ndarray, twin: Path) -> Iterator[Row]:
    """The .npy face of plain frames with headers between them, against the same file by others."""
    [raw] = writers.write_raw(folder, frames, file_header=1024, frame_header=256)
    settle(raw)
    options = {"format": "raw", "dtype": "<u2", "sig_shape": (256, 256), "file_header": 1024, "frame_header": 256}
    (folder / "ours").mkdir()
    with ExitStack() as stack:
        stack.enter_context(vfs.mount(raw, folder / "ours", **options))
        ours = folder / "ours/part0.npy"
        others = {"the page cache": (twin, {})}
        if server is not None:
            point = stack.enter_context(serving(folder / "c", [server, twin, "4096", "1", folder / "c"], "ready"))
            aims = {"cold": "≥ 0.85", "two": "≥ 0.8", "reread": "≥ 0.95", "reopen": "≥ 0.95", "random": "≤ 2"}
            others["the C server"] = (point / "ready", aims)
        try:
            command = [sys.executable, "-c", PEER, twin, folder / "peer"]
            point = stack.enter_context(serving(folder / "peer", command, "ready"))
            others["fsspec.fuse"] = (point / "ready", {})
        except RuntimeError as error:
            print(f"bench: fsspec.fuse is not compared with: {error}", file=sys.stderr)
        said = {
            "cold": "a cold file",
            "two": "a cold file, two readers",
            "reread": "an open file once more",
            "reopen": "a closed file once more",
            "random": "4 KiB here and there",
        }
        kinds = list(said)
        paths = [ours, *(path for path, _ in others.values())]
        more = [{"drop": path != twin} for path in paths]
        tasks = [{"kind": kind, "paths": paths, **({} if kind.startswith("re") else {"more": more})} for kind in kinds]
        times = measured(tasks, 3 * size.rounds)
        for kind, found in zip(kinds, times, strict=True):
            for k, (name, (_, aims)) in enumerate(others.items(), 1):
                if kind == "random":
                    yield Row(
                        f"mount, .npy, {said[kind]}", found[0] / found[k], f"× the time of {name}", aims.get(kind, "")
                    )
                else:
                    yield Row(f"mount, .npy, {said[kind]}", found[k] / found[0], f"of {name}", aims.get(kind, ""))


def _chunks(folder: Path, size: Size, server: Path, frames: np.ndarray, twin: Path) -> Iterator[Row]:
    """Chunk files of 2 MiB that have to be decoded."""
    count = len(frames) // 16
    with ExitStack() as stack:
        tasks = []
        for kind in ("U16", "R64"):
            (folder / kind).mkdir()
            mib = writers.write_mib(folder / kind, frames, kind=kind, depth=12)
            settle(*(folder / kind).iterdir())
            point = folder / f"shown-{kind}"
            point.mkdir()
            stack.enter_context(vfs.mount(mib, point, nav_shape=(len(frames),), chunks=(16, 256, 256)))
            theirs = stack.enter_context(
                serving(folder / f"c-{kind}", [server, twin, str(16 << 17), str(count), folder / f"c-{kind}"], "ready")
            )
            more = [{"count": count, "below": "/0/0"}, {"count": count}]
            tasks.append({"kind": "chunks", "paths": [point / "scan.zarr/data/c", theirs / "c"], "more": more})
            tasks.append({"kind": "cold", "paths": [point / "scan.npy", theirs / "ready"]})
        times = iter(measured(tasks, size.rounds))
        for kind in ("U16", "R64"):
            for what, aim in (("chunks", "≥ 0.7"), (".npy, a cold file", "")):
                mine, theirs_best = next(times)
                yield Row(f"mount, MIB {kind}, {what}", theirs_best / mine, "of the C server with ready bytes", aim)


def _many(folder: Path, size: Size, server: Path) -> Iterator[Row]:
    """Very many small chunk files, in one folder and in many."""
    wide = max(4, round((size.files * 12.3) ** 0.5))
    source = folder / "many.npy"
    np.save(source, np.arange(wide * wide * 512, dtype="<u2").reshape(wide, wide, 512))
    flat = folder / "flat.npy"
    np.save(flat, np.arange(wide * wide * 512, dtype="<u2"))
    settle(source, flat)
    best: dict[str, list[float]] = {}
    for attempt in range(min(3, size.rounds)):  # mounted anew, as the kernel remembers what it has seen
        with ExitStack() as stack:
            for name, counts, array, chunks in (
                ("one folder", f"{wide * wide}", flat, (512,)),
                (f"{wide:,} folders", f"{wide},{wide},1", source, (1, 1, 512)),
            ):
                point = folder / f"{array.stem}-{attempt}"
                point.mkdir()
                stack.enter_context(vfs.mount(array, point, chunks=chunks))
                other = folder / f"{array.stem}-c-{attempt}"
                theirs = stack.enter_context(serving(other, [server, array, "1024", counts, other], "ready"))
                paths = [point / f"{array.stem}.zarr/data/c", theirs / "c"]
                tasks = [{"kind": "find", "paths": paths}]
                if array is flat:
                    more = [{"count": min(100, wide * wide)}] * 2
                    times = [
                        *measured(tasks, 1),
                        *measured([{"kind": "small", "paths": paths, "more": more}], 60 * size.rounds),
                    ]
                    best["small"] = list(map(min, zip(times[1], best.get("small", times[1]), strict=True)))
                else:
                    times = measured(tasks, 1)
                best[name] = list(map(min, zip(times[0], best.get(name, times[0]), strict=True)))
    for name, (mine, other_best) in best.items():
        if name == "small":
            yield Row("mount, open + read + close + stat of 1 KiB", other_best / mine, "of the C server", "≥ 0.9")
        else:
            yield Row(
                f"mount, find, {wide * wide:,} chunk files in {name}",
                mine / other_best,
                "× the time of the C server",
                "≤ 3",
            )
