"""Says how each array of a face is exported, and encodes its chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from crc32c import crc32c

from vfs.backends.mapped import one_pass
from vfs.buffers import keep_freed, scratch
from vfs.engine import chunking
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError, size
from vfs.faces.face import ZarrFace
from vfs.model.region import ChunkGrid, Region
from vfs.model.wording import option
from vfs.zarr.export.codecs import Codec, codec
from vfs.zarr.export.plan import ExportPlan, aligned, plan

AUTO = 128 << 20
"""Bytes of an automatic shard, before compression."""

CACHED = 64 << 20
"""Bytes of decoded blocks that are kept while arrays are exported, if one block is not larger than half of it."""

_HEAD = 4096  # bytes

ShardSpec = str | int | Sequence[int] | None


class Encoded(NamedTuple):
    """A chunk as it is stored.

    Attributes:
        position: in the grid of chunks.
        data: its bytes; None where it is not stored because it holds only the fill value.
        crc: CRC-32C of its elements before compression, without those beyond the edge of the array.
    """

    position: tuple[int, ...]
    data: bytes | None
    crc: int


@dataclass(frozen=True)
class ArrayExport:
    """An array, and how it is exported.

    Attributes:
        path: of the array in the store.
        sharded: False where each chunk is a file.
        sparse: True to leave out chunks that hold only the fill value.
    """

    path: str
    array: ArrayReader
    plan: ExportPlan
    codec: Codec
    sharded: bool
    sparse: bool

    def about(self) -> dict[str, Any]:
        """Return what the journal says of it."""
        plan = self.plan
        boxes = {name: list(getattr(plan, name)) for name in ("shape", "chunks", "shards", "unit", "batch")}
        return boxes | {"dtype": self.array.dtype.str}

    @property
    def batch_bytes(self) -> int:
        """Bytes of a batch."""
        return math.prod(self.plan.batch) * self.array.dtype.itemsize

    @cached_property
    def _group(self) -> ChunkGrid:
        cut = [min(b, max(1, n)) for b, n in zip(self.plan.batch, self.plan.shape, strict=True)]
        return self.array.group_of(chunking.negotiate(cut, self.array.chunking_input))

    @cached_property
    def _together(self) -> bool:
        """True if batches are read with those beside them, and kept meanwhile.

        That pays where these hold the same blocks, or the rest of the same frames. Where no such box holds whole
        frames, it would take memory and spare no read.
        """
        nav = self.array.dataset.nav_ndim
        whole = all(g >= n for g, n in zip(self._group.chunks[nav:], self.plan.shape[nav:], strict=True))
        return whole or self.array.dataset.layout.blocks is not None

    @cached_property
    def _blank(self) -> np.ndarray:
        """The bytes of a chunk that holds only the fill value."""
        return _bytes(np.full(self.plan.chunks, self.array.fill, self.array.dtype))

    @cached_property
    def _blank_head(self) -> bytes:
        return self._blank[:_HEAD].tobytes()

    @cached_property
    def _word(self) -> np.dtype:
        """What codecs take elements for: integers, where there are such, since they know fewer types than numpy."""
        dtype = self.array.dtype
        return np.dtype(f"u{dtype.itemsize}") if dtype.itemsize in (1, 2, 4, 8) else dtype

    def encoded(
        self,
        region: Region,
        made: np.ndarray | None = None,
        show: Callable[[np.ndarray], object] | None = None,
        read: Callable[[Region, np.ndarray], object] | None = None,
    ) -> list[Encoded]:
        """Read a box of whole chunks, and encode them: where a mapped file holds these elements, as they lie there.

        Args:
            made: its elements, if they need not be read.
            show: is called with its elements, which it must copy.
            read: reads its elements into memory; None: from the array.

        Raises:
            SourceError: it cannot be read.
        """
        if made is not None:
            return self._encoded(region, made, show)
        return self.array.backend.settled(partial(self._read_and_encoded, region, show, read))

    def _read_and_encoded(
        self,
        region: Region,
        show: Callable[[np.ndarray], object] | None,
        read: Callable[[Region, np.ndarray], object] | None,
    ) -> list[Encoded]:
        dtype = self.array.dtype
        if read is None and show is None and self.array.straight(region):
            return self._encoded(region, self.array.read(region), None)
        with scratch.borrow(region.size * dtype.itemsize) as memory:
            part = memory[: region.size * dtype.itemsize].view(dtype).reshape(region.shape)
            (read or self._read)(region, part)
            return self._encoded(region, part, show)

    def sums(self, region: Region) -> list[int]:
        """Read a box of whole chunks, and return the `Encoded.crc` of each.

        Raises:
            SourceError: it cannot be read.
        """
        part = np.empty(region.shape, self.array.dtype)
        self._read(region, part)
        return [checksum(self._cut(part, region, position)) for position in self.plan.grid.touched(region)]

    def _read(self, region: Region, out: np.ndarray) -> None:
        if self._together:
            self.array.read_grouped(region, self._group, out)
        else:
            self.array.read(region, out)

    def _encoded(self, region: Region, part: np.ndarray, show: Callable[[np.ndarray], object] | None) -> list[Encoded]:
        if show is not None:
            show(part)
        return [self._chunk(part, region, position) for position in self.plan.grid.touched(region)]

    def _cut(self, part: np.ndarray, region: Region, position: tuple[int, ...]) -> np.ndarray:
        box = self.plan.grid.region(position)
        return part[tuple([slice(a - o, b - o) for a, b, o in zip(box.start, box.stop, region.start, strict=True)])]

    def _chunk(self, part: np.ndarray, region: Region, position: tuple[int, ...]) -> Encoded:
        cut = self._cut(part, region, position)
        shape, cut = cut.shape, np.ascontiguousarray(cut)
        crc = checksum(cut)
        if shape != self.plan.chunks:  # at the edge
            whole = np.full(self.plan.chunks, self.array.fill, self.array.dtype)
            whole[tuple(map(slice, shape))] = cut
            cut = whole
        blank = self.sparse and self._is_blank(_bytes(cut))
        return Encoded(position, None if blank else self.codec.encode(cut.reshape(-1).view(self._word)), crc)

    def _is_blank(self, chunk: np.ndarray) -> bool:
        """Compare bytes with those of a chunk that holds only the fill value. The first few mostly tell."""
        return chunk[:_HEAD].tobytes() == self._blank_head and np.array_equal(chunk, self._blank)


@contextmanager
def little_memory(arrays: Iterable[ArrayReader]) -> Iterator[None]:
    """Keep little of what is read of arrays meanwhile: each byte is read once, and batches want the memory.

    Memory of chunks that were encoded is used again for others.
    """
    keep_freed()
    largest: dict[ChunkCache, int] = {}
    for array in arrays:
        most = max(CACHED, 2 * math.prod(_block(array)) * array.dtype.itemsize)
        largest[array.cache] = max(most, largest.get(array.cache, 0))
    with ExitStack() as bounds:
        bounds.enter_context(one_pass())
        for cache, most in largest.items():
            bounds.enter_context(cache.bounded(most))
        yield


def checksum(elements: np.ndarray) -> int:
    """Return the CRC-32C of the bytes of elements, in C order.

    Processors have an instruction for it: 17 GB/s a core here, and two threads have 32, since the library releases the
    GIL. zarr's, which does not, would hold up what many cores compress: two threads had 17.
    """
    return crc32c(_bytes(np.ascontiguousarray(elements)).data)


def _bytes(chunk: np.ndarray) -> np.ndarray:
    return chunk.reshape(-1).view(np.uint8)


def array_exports(face: ZarrFace, codec_spec: str, shards: ShardSpec) -> list[ArrayExport]:
    """Decide how the arrays of a face are exported.

    Args:
        codec_spec: see `codec`.
        shards: see `shard_shape`; elements per axis hold for the arrays with as many axes, and others have no shards.

    Raises:
        OptionError: an option does not fit.
    """
    spec = _parsed(shards)
    if spec not in (None, "none") and face.zarr_format == 2:
        raise OptionError(f"{option(shards=shards)}: zarr version 2 has no shards; write version 3")
    axes = None if isinstance(spec, str | int | None) else len(spec)
    if axes is not None and all(array.ndim != axes for array in face.arrays.values()):
        raise OptionError(f"{option(shards=shards)}: expected elements for each axis, and no array has {axes} axes")
    made = []
    for path, array in sorted(face.arrays.items()):
        how = codec(codec_spec, array.dtype.itemsize)
        if how.most is not None and array.chunk_bytes > how.most:
            raise OptionError(
                f"{path}: its chunks have {size(array.chunk_bytes)}, and this codec takes {size(how.most)} at most;"
                " give smaller chunks, or codec zstd or none"
            )
        boxes = shard_shape(spec if axes in (None, array.ndim) else None, array)
        planned = planned_export(array, boxes)
        made.append(ArrayExport(path, array, planned, how, boxes is not None, face.zarr_format == 3))
    return made


def planned_export(array: ArrayReader, shards: tuple[int, ...] | None) -> ExportPlan:
    """Decide on the units and batches of an array: see `vfs.zarr.export.plan.plan`."""
    return plan(array.shape, array.chunks, shards, array.dtype.itemsize, array.dataset.nav_ndim, _block(array))


def _block(array: ArrayReader) -> tuple[int, ...]:
    """Return the elements per axis of the blocks of an array that decode only as a whole; () where there are none."""
    return array.dataset.block if array.dataset.layout.blocks is not None else ()


def shard_shape(spec: ShardSpec, array: ArrayReader) -> tuple[int, ...] | None:
    """Return the elements per axis of a shard; None for no shards.

    Args:
        spec: None or "none": each chunk is a file. "auto": as many chunks as have 128 MiB before compression. A
            number of bytes, or a text such as "1GiB": as many as have so many. Or elements per axis: multiples of
            those of a chunk; -1: the whole axis.

    Raises:
        OptionError: elements are no multiples of those of a chunk, or `spec` is something else.
    """
    if spec in (None, "none"):
        return None
    if isinstance(spec, str | int):
        bytes_ = AUTO if spec == "auto" else spec
        if not isinstance(bytes_, int) or bytes_ < 1:
            raise _no_shards(spec)
        return aligned(array.chunks, array.shape, bytes_ // array.dtype.itemsize, _block(array))
    assert spec is not None
    shape = tuple(-(-n // c) * c if s == -1 else s for s, c, n in zip(spec, array.chunks, array.shape, strict=True))
    if any(s < 1 or s % c for s, c in zip(shape, array.chunks, strict=True)):
        raise OptionError(f"{option(shards=tuple(spec))}: expected multiples of the chunks, {array.chunks}")
    return shape


def _parsed(shards: ShardSpec) -> ShardSpec:
    """Parse the text of sizes and elements per axis.

    Raises:
        OptionError: it is neither.
    """
    if not isinstance(shards, str):
        if not isinstance(shards, int | Collection | None):
            raise _no_shards(shards)
        return shards
    if shards in ("auto", "none"):
        return shards
    try:
        return chunking.parsed(shards)
    except OptionError:
        raise _no_shards(shards) from None


def _no_shards(shards: ShardSpec) -> OptionError:
    return OptionError(f"{option(shards=shards)}: expected none, auto, a size such as 1GiB, or elements per axis")
