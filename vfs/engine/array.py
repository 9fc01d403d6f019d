"""One array as callers see it: indexed like numpy, cut into chunks, streamed in tiles.

How a region becomes elements is `vfs.engine.reader`; whole chunks are made in `vfs.engine.chunk_access`.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar, cast

import numpy as np

from vfs.backends import Backend
from vfs.engine import chunking, forked  # noqa: F401  (what it does at a fork)
from vfs.engine.cache import ChunkCache
from vfs.engine.corrections import Corrections
from vfs.engine.reader import RegionReader
from vfs.errors import OptionError
from vfs.model import calibration, coverage
from vfs.model.as_scan import as_scan
from vfs.model.decode import Decoder
from vfs.model.files import Files
from vfs.model.layout import Scan
from vfs.model.options import whole_number
from vfs.model.region import ChunkGrid, Region, select
from vfs.model.stored import StoredArray
from vfs.sources.given import positions
from vfs.sources.local import LocalSources

Asked = TypeVar("Asked")
Read = TypeVar("Read")
Tiles = Generator[tuple[Region, np.ndarray], None, None]


class ArrayReader(RegionReader):
    """One array of a set of files, read on demand.

    Indexing follows numpy's basic indexing (integers, slices with any step, Ellipsis). What comes
    back belongs to the caller; where the bytes in the file already are the answer and the backend
    maps files, it is a read-only view of the file.

    Args:
        chunks: see `vfs.engine.chunking.negotiate`.
        grouped: read chunks together that take a little of every frame, see `groups`.
        dataset, backend, dtype, cache, corrections: see `RegionReader`.

    Attributes:
        shape, ndim, size, nbytes, dtype: as of numpy arrays; dtype in native byte order.
        chunks: elements per axis of a chunk; `chunking` says why, and what it costs. chunk_bytes: bytes of one.
        grid: the chunks; groups: boxes of chunks that are read together.

    Raises:
        OptionError: `dtype` or `chunks` does not fit.
    """

    def __init__(
        self,
        dataset: StoredArray,
        backend: Backend,
        *,
        dtype: Any = None,
        chunks: chunking.ChunkSpec = "auto",
        cache: ChunkCache | None = None,
        corrections: Corrections | None = None,
        grouped: bool = True,
    ) -> None:
        super().__init__(dataset, backend, dtype=dtype, cache=cache, corrections=corrections)
        self.ndim = len(dataset.shape)
        self.size = math.prod(dataset.shape)
        self.nbytes = self.size * self.dtype.itemsize
        self.chunking_input = _chunking_input(dataset, self.dtype.itemsize)
        self.chunking = chunking.negotiate(chunks, self.chunking_input)
        self.chunks = self.chunking.shape
        self.chunk_bytes = math.prod(self.chunks) * self.dtype.itemsize
        self.grid = ChunkGrid(self.shape, self.chunks)
        self.groups = self.group_of(self.chunking) if grouped else self.grid

    @property
    def dims(self) -> tuple[str, ...]:
        """A name per axis."""
        return self.dataset.dims

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The format's metadata."""
        return self.dataset.attrs

    @property
    def calibration(self) -> dict[str, dict[str, Any]]:
        """Positions of the elements along each axis: axis name -> {"scale": …, "offset": …, "unit": …}.

        Element k is at `offset + k * scale`, in `unit` ("" where the file names none), which is
        spelled as in `vfs.model.units`. Of an axis with uneven steps scale and offset are None, and
        "values" is the path of the array of the set that holds the positions. Axes that the file
        says nothing of are not there, nor are those of a scan that `nav_shape` or `roi` arranged so
        that the steps in the file do not hold any more.
        """
        return calibration.of_axes(self.attrs.get("calibration"), self.dims)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[n] for n in range(len(self)))

    @property
    def summary(self) -> str:
        """Path, axes, dtype, chunks and number of files, in a line."""
        axes = ", ".join(f"{d}: {n}" for d, n in zip(self.dims, self.shape, strict=True))
        files = f"{len(self.files)} file{'s' * (len(self.files) != 1)}"
        return f"{self.dataset.path} ({axes}) {self.dtype} chunks {self.chunks} of {files}"

    def __repr__(self) -> str:
        return f"<ArrayReader {self.summary}>"

    def __getitem__(self, key: Any) -> Any:
        chosen = select(key, self.shape)
        got = self.read(chosen.region)
        part = got[chosen.post]
        if isinstance(part, np.ndarray) and part.nbytes * 2 <= got.nbytes and got.base is None:
            return part.copy()  # do not keep what was read only to be stepped over
        return part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a virtual array is read from files: it cannot become a numpy array without a copy")
        got = self.read()
        if dtype is not None:
            got = got.astype(dtype, copy=False)
        return got if got.flags.writeable or not copy else got.copy()

    def tiles(
        self,
        shape: chunking.ChunkSpec | None = None,
        *,
        access: str | None = None,
        roi: Any = None,
        workers: int | None = None,
        reuse: bool = False,
    ) -> Iterator[tuple[Region, np.ndarray]]:
        """The whole array, a tile at a time, navigation axes slowest, with the next tiles being read meanwhile.

        At most `2 * workers` tiles are under way; leaving the loop early ends the reading. Where
        tiles take a little of every frame, neighbouring ones are read together, so that frames are
        not read anew for each.

        Args:
            shape: elements per axis (-1: the whole axis) or bytes; None: the chunks.
            access: "frames", "scan" or "balanced" instead of a shape.
            roi: only these frames: as `vfs.open` takes it; the navigation axes are then one.
            workers: threads that read, at most 256; None: one a core, at most four; 0: read in the
                caller's thread, without reading ahead.
            reuse: give tiles in memory that is used again: a tile is valid until the next step.

        Yields: (region, elements of that region). With `roi`, of the array that shows only these frames.

        Raises:
            OptionError: an argument does not fit.
            SourceError: see `read`.
        """
        of = self if roi is None else self._selected(roi)
        cut = of.tile_cut(shape, access)
        threads = threads_asked(workers)
        if workers is None and self.backend.parallel > 1:  # each mostly waits for a server
            threads = max(
                threads, min(self.backend.parallel, _WAITING // max(1, 2 * math.prod(cut.shape) * of.dtype.itemsize))
            )
        grid = ChunkGrid(of.shape, cut.shape)
        group = of.group_of(cut)
        regions = (grid.region(position) for position in grid.touched(Region.whole(of.shape)))
        tiles = (
            _reused(of, regions, group, cut.shape, threads)
            if reuse
            else ahead(regions, lambda region: of.read_grouped(region, group), threads)
        )
        return _in_one_state(of.backend.files, tiles)

    def tile_cut(self, shape: chunking.ChunkSpec | None, access: str | None) -> chunking.Chunking:
        """Return how the array is cut into tiles: see `tiles`.

        Raises:
            OptionError: an argument does not fit.
        """
        if shape is not None and access is not None:
            raise OptionError(f"shape={shape!r} and access={access!r}: expected one of them")
        if access not in (None, "frames", "scan", "balanced"):
            raise OptionError(f"access={access!r}: expected frames, scan or balanced")
        spec = access if shape is None else shape
        return self.chunking if spec is None else chunking.negotiate(spec, self.chunking_input, "shape")

    def _selected(self, roi: Any) -> ArrayReader:
        dataset = as_scan(self.dataset, Scan(chosen=positions(LocalSources(), roi)))
        return ArrayReader(dataset, self.backend, dtype=self.dtype, cache=self.cache, corrections=self.corrections)

    def group_of(self, cut: chunking.Chunking) -> ChunkGrid:
        """Boxes of chunks that are read together: no larger than a share of the cache, nor out of
        proportion to the files.
        """
        if cut.one <= chunking.ALONE and cut.shape == self.chunks:
            return self.grid
        limit = min(self.cache.limit // 4, _GROUPED * int(self.dataset.files.sizes.sum()))
        return ChunkGrid(self.shape, chunking.grouped(cut, self.chunking_input, limit))

    def read_grouped(self, region: Region, group: ChunkGrid, out: np.ndarray | None = None) -> np.ndarray:
        """Read a box together with those beside it, where a box of `group` holds several: these are
        read once and stay in the cache. A box that reaches beyond one of `group` is read by itself.

        Args:
            out: array of the region's shape that the elements are written to.

        Raises:
            SourceError: see `read`.
        """
        position = tuple(a // c for a, c in zip(region.start, group.chunks, strict=True))
        whole = group.region(position)
        if whole == region or any(stop > end for stop, end in zip(region.stop, whole.stop, strict=True)):
            return self.read(region, out)
        read = self.cache.get(
            (self.token, self.moved(0), "group", whole), lambda: self.read(whole, np.empty(whole.shape, self.dtype))
        )
        part = read[tuple(slice(a - o, b - o) for a, b, o in zip(region.start, region.stop, whole.start, strict=True))]
        if out is None:
            return part.copy()
        out[...] = part
        return out

    @property
    def valid(self) -> np.ndarray:
        """bool[navigation shape]: where a frame is stored; elsewhere the array is blank."""
        return self.dataset.valid

    def unroi(self, result: Any) -> np.ndarray:
        """Put a result a selected frame back into the scan. `a.unroi(a.valid)` is the mask of what
        was selected and stored.

        Args:
            result: [frames that roi selected, …].

        Returns: [scan shape, …], with NaN, NaT, False, 0, '' or None where nothing was selected.

        Raises:
            OptionError: the array was opened without roi, or `result` has another length.
        """
        return coverage.unroi(self.dataset, result)


def mean_frame(array: ArrayReader, sig_ndim: int) -> np.ndarray:
    """The mean of all frames, for which not all of them are in memory at once.

    Args:
        sig_ndim: number of axes of a frame, the last ones.

    Returns: float64[frame].
    """
    sig = array.shape[array.ndim - sig_ndim :]
    size = math.prod(sig)
    total = np.zeros(sig)
    for part in chunking.cut(
        Region.whole(array.shape), array.dtype.itemsize, max(_AT_ONCE, size * array.dtype.itemsize)
    ):
        total += array.read(part).reshape(-1, *sig).sum(axis=0, dtype=np.float64)
    return total / (array.size // size)


_AT_ONCE = 8 << 20
"""Bytes of frames that are in memory at once where they are added up."""


def _in_one_state(files: Files, tiles: Tiles) -> Tiles:
    """Pass tiles on as long as no file moves: nobody can take back those that were passed on.

    Raises:
        SourceChangedError: one moves.
    """
    before = files.moves.item(0)
    with closing(tiles):
        for region, tile in tiles:
            if files.moves.item(0) != before and not files.accepts:
                raise files.restless()
            yield region, tile


def _reused(
    of: ArrayReader, regions: Iterator[Region], group: ChunkGrid, shape: tuple[int, ...], workers: int
) -> Tiles:
    """Read tiles as `ahead` does, into memory that is used again after the next step.

    Args:
        shape: of the largest tile.
    """
    nbytes = math.prod(shape) * of.dtype.itemsize
    free: list[np.ndarray] = []

    def read(region: Region) -> tuple[np.ndarray | None, np.ndarray]:
        if of.views and of.straight(region):
            return None, of.read(region)
        try:
            memory = free.pop()
        except IndexError:
            memory = np.empty(nbytes, np.uint8)
        tile = memory[: region.size * of.dtype.itemsize].view(of.dtype).reshape(region.shape)
        return memory, of.read_grouped(region, group, tile)

    for region, (memory, tile) in ahead(regions, read, workers):
        yield region, tile
        if memory is not None:
            free.append(memory)


def ahead(
    regions: Iterator[Asked], read: Callable[[Asked], Read], workers: int
) -> Generator[tuple[Asked, Read], None, None]:
    """Return each of `regions`, in order, and what was read of it, with up to `2 * workers` of them under way."""
    if workers < 1:
        for region in regions:
            yield region, read(region)
        return
    with ThreadPoolExecutor(workers, "vfs-tiles") as pool:
        waiting: deque[tuple[Asked, Future[Read]]] = deque()
        try:
            for region in regions:
                waiting.append((region, pool.submit(read, region)))
                if len(waiting) >= 2 * workers:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def threads_asked(asked: int | None) -> int:
    """Return the number of threads that go through an array, from what `workers=` asks for.

    Raises:
        OptionError: it is no number.
    """
    if asked is None:
        return min(4, os.cpu_count() or 1)
    number = whole_number(asked)
    if number is not None and number >= 0:
        return min(MAX_WORKERS, number)
    raise OptionError(f"workers={asked!r}: expected a number of threads, 0 for none")


MAX_WORKERS = 256
"""Threads of one stream of tiles: more would only hold more tiles."""


_WAITING = 1 << 28
"""Bytes of tiles that are under way, of all threads together, where they mostly wait for a server."""

_GROUPED = 8
"""Times the bytes of the files: what is read at once, of a shape that a garbled header may have made up."""


def _chunking_input(dataset: StoredArray, itemsize: int) -> chunking.ChunkingInput:
    decoder = dataset.decoder
    if decoder.word_bytes == 0:
        return chunking.ChunkingInput(
            dataset.shape, dataset.nav_ndim, itemsize, dataset.dtype.itemsize, dataset.block, whole=True
        )
    word = cast(Decoder, decoder).word_pixels
    return chunking.ChunkingInput(
        dataset.shape, dataset.nav_ndim, itemsize, decoder.word_bytes / word, dataset.block, word=word
    )
