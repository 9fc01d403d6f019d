"""How fast images with levels are shown: `scripts/bench images`.

A tiled, compressed TIFF, larger than the processor's caches and opened anew for every pass: the
overview, which makes all levels, beside decoding every tile once with as many threads, and the
memory that it needs; and what viewers that come later or at the same time cost. A level of a
plain image, of which the cache has nothing.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from math import isqrt
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import numpy as np

import vfs
from scripts.benchmarks.rows import STATUS, TINY, Row, Size, share, spent
from vfs.engine.array import ArrayReader
from vfs.formats.tiff_structure.segments import SegmentDecoder
from vfs.testing.tiff_writers import write_tiff

_VIEWERS = 32


def _image(size: Size) -> np.ndarray:
    """Make a slide: noise on large patches, which packs to about a half. uint16[side, side]."""
    side = isqrt(size.frames * 256 * 256)
    patches = np.random.default_rng(2).integers(0, 4096, (side // 64 + 1,) * 2)
    noise = np.random.default_rng(1).integers(0, 64, (side, side))
    image: np.ndarray = (np.kron(patches, np.ones((64, 64), int))[:side, :side] + noise).astype("u2")
    return image


def _levels(path: Path) -> list[ArrayReader]:
    """Open an image anew, with nothing of it in a cache: its levels, the finest first."""
    return list(vfs.open(path).store(face="ome").face.arrays.values())


def _overview(path: Path) -> Callable[[], object]:
    return lambda: _levels(path)[-1][...]


def _decoded_once(path: Path) -> Callable[[], object]:
    return lambda: [None for _ in vfs.open(path).tiles(reuse=True)]


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """Measure images with levels."""
    image = _image(size)
    packed = write_tiff(
        folder / "slide.tif", [image], tile=(512, 512), compression=8, encode=lambda b: zlib.compress(b, 1)
    )
    few = size._replace(rounds=min(size.rounds, 3), seconds=0.0)
    yield share(
        "the overview of a tiled, compressed TIFF",
        _overview(packed),
        _decoded_once(packed),
        few,
        "of decoding",
        "≥ 0.8",
    )
    grown, own = _memory(folder, size)
    yield Row("memory that the overview of 30,000 x 30,000 pixels takes, new process", grown, "MiB", "≤ 256")
    yield Row("memory of that process, all but what is mapped of files (programs, data)", own, "MiB", "≤ 256")
    levels = _levels(packed)
    corner = tuple(slice(0, n) for n in levels[1].chunks)
    levels[-1].read()
    yield spent("a tile of a level for the next viewer", lambda: levels[1].read(corner), size, "≤ 5,000")
    yield Row(f"decoding, of {_VIEWERS} viewers at once", _decodings(packed), "times a tile", "1")
    small = write_tiff(
        folder / "small.tif",
        [image[:1000, :1000]],
        tile=(256, 256),
        compression=8,
        encode=lambda b: zlib.compress(b, 1),
    )
    first = min(_first_pixel(small) for _ in range(few.rounds))
    yield Row("from a URL to the coarsest level, in 3 requests to a new server", first, "ms", "≤ 50")
    for kind in ("u1", "u2", "f4", ">u2", ">f4"):
        yield _level(folder / "plain.npy", image.astype(kind), few)


def _level(path: Path, image: np.ndarray, size: Size) -> Row:
    """Make a level of an image in a mapped file, chunk by chunk in one thread, of which the cache has nothing, beside
    copying as many bytes as the image has, in memory that was used before.
    """
    np.save(path, image)
    out, level = np.zeros_like(image), _levels(path)[1]

    def halve() -> None:
        level.cache.clear()
        for _ in level.tiles(workers=0, reuse=True):
            pass

    name = f"a level of a plain image that is open, {image.dtype.str}, {image.nbytes >> 20} MiB"
    return share(name, halve, lambda: np.copyto(out, image), size, "of memcpy", "≥ 0.5")


_OVERVIEW = (
    STATUS
    + """
import sys, vfs
level = list(vfs.open(sys.argv[1]).store(face="ome").face.arrays.values())[-1]
before = status("VmRSS:")
level.read()
print((status("VmHWM:") - before) / 1024, (status("VmHWM:") - status("RssFile:")) / 1024)
"""
)


def _memory(folder: Path, size: Size) -> list[float]:
    """The MiB that a process has at most beyond those with which a tiled, compressed image was opened; and the MiB that
    it has at most of its own, modules included.
    """
    side = 2048 if size is TINY else 30_000
    blank = [np.zeros((side, side), np.uint16)]
    path = write_tiff(folder / "blank.tif", blank, tile=(512, 512), compression=8, encode=lambda b: zlib.compress(b, 1))
    done = subprocess.run([sys.executable, "-c", _OVERVIEW, path], capture_output=True, check=True)
    return list(map(float, done.stdout.split()))


def _first_pixel(path: Path) -> float:
    """Return the milliseconds from the URL of an image to the first chunk of its coarsest level, of a new server."""
    with vfs.serve(path, port=0) as server:
        time.sleep(1.0)  # a person opens the URL, and what will be needed is loaded meanwhile
        at = urlsplit(server.url)
        connection = HTTPConnection(str(at.hostname), at.port or 0)

        def get(key: str) -> bytes:
            connection.request("GET", f"{at.path.rstrip('/')}/{path.stem}.ome.zarr/{key}")
            return connection.getresponse().read()

        began = time.perf_counter()
        said = json.loads(get("zarr.json"))["attributes"]["ome"]["multiscales"][0]["datasets"][-1]["path"]
        document = json.loads(get(f"{said}/zarr.json"))
        chunk = get(f"{said}/c/0/0")
        taken = time.perf_counter() - began
        connection.close()
    assert len(chunk) == 2 * math.prod(document["chunk_grid"]["configuration"]["chunk_shape"])
    return taken * 1e3


def _decodings(path: Path) -> float:
    """Count how often each tile is decoded while many ask for the overview at once."""
    seen: list[int] = []
    real = SegmentDecoder.decode_block

    def decode_block(self: SegmentDecoder, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        seen.append(block)
        return real(self, data, block, shape)

    levels = _levels(path)
    with patch.object(SegmentDecoder, "decode_block", decode_block), ThreadPoolExecutor(_VIEWERS) as pool:
        list(pool.map(lambda _: levels[-1].read(), range(_VIEWERS)))
    return len(seen) / len(set(seen))
