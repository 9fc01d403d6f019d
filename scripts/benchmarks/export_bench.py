"""Exports to zarr, against the codec alone: the same chunks, in memory, encoded by as many threads.

The codec is that of numcodecs as it is made with the words of the option. vfs asks zstd of blosc for larger blocks,
which is faster; rows "in the same blocks" compare with that.

Sources are mapped files, as `vfs.open` gives them; `vfs export` reads with pread unless it is told otherwise, which has
rows of its own. The limit neither reads nor writes. Exports write into the folder of the benchmark, flushed to its
disk; codec "none" says what the disk takes. Where each chunk is a file, a second limit writes what it encodes to as
many files, in as many folders, and flushes them as an export does. A source is in the page cache. Each export has a new
name, and stores are removed behind their row, files of single chunks behind all rows: ext4 looks for inodes that were
not removed in the last five seconds, which took half of the processor time of such an export.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from scripts.benchmarks.rows import FRAME, STATUS, TINY, Row, Size, share
from vfs.model.region import Region
from vfs.outputs.outputs import flush_together
from vfs.testing.gatan_writers import write_dm
from vfs.testing.writers import write_mib
from vfs.zarr.export.codecs import DEFAULT, codec
from vfs.zarr.export.plan import UNIT
from vfs.zarr.readers import StoreToRead
from vfs.zarr.verify import verify

TIMES = 4
"""Sources are the frames of a benchmark so many times: 512 MiB. An export ends in some 10 ms, however large it is."""
CHUNK = 16
"""Frames of a chunk: 2 MiB."""


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    frames = np.random.default_rng(5).poisson(3, (size.frames, 256, 256)).astype(np.uint16)
    frames = np.concatenate([frames] * TIMES)
    plain = folder / "export.raw"
    frames.tofile(plain)
    (folder / "export_mib").mkdir()
    mib = write_mib(folder / "export_mib", frames, kind="U16", depth=12)
    of_raw = {"format": "raw", "stored_dtype": "<u2", "sig_shape": (256, 256), "chunks": (CHUNK, -1, -1)}
    of_mib = {"nav_shape": (len(frames),), "chunks": (CHUNK, -1, -1)}
    sources = {
        "raw": vfs.open_group(plain, **of_raw),
        "raw with pread": vfs.open_group(plain, backend="buffered", **of_raw),
        "MIB U16": vfs.open_group(mib, **of_mib),
        "MIB U16 with pread": vfs.open_group(mib, backend="buffered", **of_mib),
        "DM4": vfs.open_group(write_dm(folder, frames, version=4, name="export"), chunks=(CHUNK, -1, -1)),
        "OME-TIFF": _ome_tiff(folder, frames),
    }
    chunks = [frames[n : n + CHUNK] for n in range(0, len(frames), CHUNK)]
    targets = (folder / f"export{n}.zarr" for n in itertools.count())
    made: list[Path] = []

    def exported(group: vfs.VirtualGroup, spec: str, shards: str | None) -> None:
        made.append(next(targets))
        vfs.export(group, made[-1], codec=spec, shards=shards)

    def encoded(encode: Callable[[np.ndarray], bytes]) -> Iterator[bytes]:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            yield from pool.map(encode, chunks)

    def filed(spec: str) -> None:
        filing.append(next(targets))
        _file(filing[-1], encoded(_of_numcodecs(spec)))

    cases: list[tuple[str, str, str | None]] = [(name, DEFAULT, "auto") for name in sources]
    cases += [(name, spec, "auto") for name in ("raw", "MIB U16") for spec in ("zstd:3", "none")]
    cases += [("raw", DEFAULT, None), ("MIB U16", DEFAULT, None)]  # last: what they leave to the disk slows down others
    kept: list[Path] = []
    filing: list[Path] = []
    for name, spec, shards in cases:
        what = f"export of {name}, {spec}, {'in shards' if shards else 'a file a chunk'}"
        call = partial(exported, sources[name], spec, shards)
        aim = "" if spec == "none" or shards is None else "≥ 0.8"
        alone = partial(encoded, _of_numcodecs(spec))
        yield share(what, call, lambda alone=alone: deque(alone(), 0), size, "of the codec alone", aim)
        if shards and spec == DEFAULT:
            same = partial(encoded, codec(spec, 2).encode)
            yield share(what, call, lambda same=same: deque(same(), 0), size, "of the codec in the same blocks")
        if shards is None:
            yield share(what, call, partial(filed, spec), size, "of the codec and as many files, flushed", "≥ 0.8")
            kept += made
        else:
            _remove(made)
        made.clear()
    _remove(kept)
    for folder_of_files in filing:
        shutil.rmtree(folder_of_files)
    exported(sources["raw"], DEFAULT, "auto")
    target = made[-1]
    yield from _beside_zarrs(target, lambda: exported(sources["raw"], DEFAULT, "auto"), size)
    stored = StoreToRead(os.fspath(target)).open("data")
    boxes = [Region.box((n, 0, 0), (min(n + 64, len(frames)), 256, 256)) for n in range(0, len(frames), 64)]

    def read() -> None:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for _ in pool.map(stored.read, boxes):
                pass

    yield share("verify of an exported raw file", lambda: verify(target), read, size, "of reading it", "≥ 0.77")
    _remove(made)
    yield from _memory(folder, size)


def _of_numcodecs(spec: str) -> Callable[[np.ndarray], bytes]:
    """Return what encodes a chunk as numcodecs does if it is told no more than an option of vfs says."""
    if not spec.startswith("blosc"):
        return codec(spec, 2).encode
    from numcodecs import Blosc

    _, name, level, shuffle = spec.split(":")
    encode: Callable[[np.ndarray], bytes] = Blosc(name, int(level), getattr(Blosc, shuffle.upper())).encode
    return encode


def _file(folder: Path, chunks: Iterable[bytes]) -> None:
    """Write chunks to files, each in a folder of its own, as zarr names them, and flush those of a unit meanwhile."""
    unit = UNIT // (CHUNK * FRAME)
    with ThreadPoolExecutor(1) as flusher:
        written: list[str] = []
        under_way = []
        for number, chunk in enumerate(chunks):
            path = folder / "c" / str(number) / "0" / "0"
            path.parent.mkdir(parents=True)
            path.write_bytes(chunk)
            written += [os.fspath(path), os.fspath(path.parent), os.fspath(path.parent.parent)]
            if number % unit == unit - 1:
                under_way.append(flusher.submit(flush_together, written))
                written = []
        for flushed in under_way:
            flushed.result()
    flush_together([*written, os.fspath(folder / "c"), os.fspath(folder)])


def _beside_zarrs(store: Path, export: Callable[[], object], size: Size) -> Iterator[Row]:
    """What encodes a ready zarr copy again with zarrs: its codec pipeline, for `zarrs_reencode` is in no registry here.

    It flushes nothing to the disk, and notes no sums.
    """
    if find_spec("zarrs") is None:
        return
    import zarr

    where = itertools.count()

    def encoded_again() -> None:
        with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
            copy: Any = zarr.open_array(store / "data", mode="r")
            out: Any = zarr.create_array(
                store.with_name(f"again{next(where)}.zarr"),
                shape=copy.shape,
                chunks=copy.chunks,
                shards=copy.shards,
                dtype=copy.dtype,
                compressors=copy.compressors,
            )
            for first in range(0, copy.shape[0], copy.shards[0]):
                out[first : first + copy.shards[0]] = copy[first : first + copy.shards[0]]

    yield share(
        "export of raw in shards", export, encoded_again, size, "of a zarr copy encoded again by zarrs", "≥ 0.9"
    )
    for number in range(next(where)):
        shutil.rmtree(store.with_name(f"again{number}.zarr"))


def _remove(stores: Iterable[Path]) -> None:
    for store in stores:
        shutil.rmtree(store)
        Path(f"{store}.sums").unlink()


def _ome_tiff(folder: Path, frames: np.ndarray) -> vfs.VirtualGroup:
    import tifffile

    path = folder / "export.ome.tif"
    tifffile.imwrite(path, frames, ome=True, metadata={"axes": "TYX"})
    return vfs.open_group(path, chunks=(CHUNK, *(-1,) * 4))


_EXPORT = (
    STATUS
    + """
import sys, vfs
how = dict(format="raw", stored_dtype="<u2", sig_shape=(256, 256), chunks=sys.argv[3])
vfs.export(vfs.open_group(sys.argv[1], **how), sys.argv[2], shards=sys.argv[4], codec=sys.argv[5])
print(status("VmHWM:") / 1024)
"""
)


def _memory(folder: Path, size: Size) -> Iterator[Row]:
    """The most memory that a process has while it exports a file that is a hole."""
    nbytes = (16 << 20) if size is TINY else (4 << 30)
    hole, plain, target = folder / "hole.raw", folder / "export.raw", folder / "hole.zarr"
    hole.touch()
    os.truncate(hole, nbytes)
    cases = [(hole, "frames", "1MiB", DEFAULT), (hole, "auto", "4GiB", DEFAULT), (hole, "scan", "auto", DEFAULT)]
    for source, chunks, shards, spec in [*cases, (plain, "scan", "auto", "none")]:
        command = [sys.executable, "-c", _EXPORT, source, target, chunks, shards, spec]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        size_of_it = source.stat().st_size >> 20
        shutil.rmtree(target)
        name = f"memory of an export, {size_of_it:,} MiB raw, chunks {chunks}, shards {shards}, {spec}"
        yield Row(name, float(done.stdout), "MiB", "≤ 512")
