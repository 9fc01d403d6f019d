"""Writes the files of a unit: a chunk each, or shards of many chunks.

A shard holds its chunks one after the other, and at its end their places: two little-endian uint64 a chunk, offset
and bytes, both 2^64 - 1 where a chunk is not stored, and a CRC-32C of these
(https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html).

Files are written under a temporary name (`vfs.outputs.outputs.seal`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from crc32c import crc32c

from vfs.new_files import create_anew, folder_below
from vfs.outputs.outputs import TEMPORARY
from vfs.zarr.export.plan import ExportPlan

WRITTEN = 8 << 20
"""Bytes after which a disk is to begin with them, so that little is left to wait for when a file is flushed."""
_ABSENT = np.iinfo(np.uint64).max


@dataclass
class _Shard:
    """A shard while it is written.

    Attributes:
        index: uint64[chunks along each axis, 2], places and bytes.
        begun: bytes that the disk was told to begin with.
    """

    file: BinaryIO
    index: np.ndarray
    begun: int = 0

    def add(self, position: tuple[int, ...], data: bytes) -> None:
        """Write the bytes of a chunk."""
        at = self.file.tell()
        self.index[position] = at, len(data)
        self.file.write(data)
        if at - self.begun >= WRITTEN:
            os.posix_fadvise(self.file.fileno(), self.begun, at - self.begun, os.POSIX_FADV_DONTNEED)
            self.begun = at


class UnitFiles:
    """The files of one unit while they are written.

    Args:
        top: folder of the store.
        path: of the array in it.
        zarr_format: 3 or 2.
        plan: of the array.
        sharded: True to write the index of a shard, also where it holds one chunk.

    Attributes:
        written: names of the files that were begun.
    """

    def __init__(self, top: str, path: str, zarr_format: int, plan: ExportPlan, sharded: bool) -> None:
        self._top, self._path = top, path
        self._zarr_format = zarr_format
        self._plan = plan
        self._per = tuple(s // c for s, c in zip(plan.shards, plan.chunks, strict=True))
        self._sharded = sharded
        self._shards: dict[tuple[int, ...], _Shard] = {}
        self.written: list[str] = []

    def add(self, position: Sequence[int], data: bytes) -> None:
        """Write the bytes of the chunk at a position of the grid."""
        if not self._sharded:
            with self._open(position) as file:
                file.write(data)
            return
        shard = tuple(p // n for p, n in zip(position, self._per, strict=True))
        if shard not in self._shards:
            self._shards[shard] = _Shard(self._open(shard), np.full((*self._per, 2), _ABSENT, "<u8"))
        self._shards[shard].add(tuple(p % n for p, n in zip(position, self._per, strict=True)), data)

    def close(self) -> None:
        """Write the indexes of shards, and close the files."""
        for shard in self._shards.values():
            with shard.file as file:
                index = shard.index.tobytes()
                file.write(index + struct.pack("<I", crc32c(index)))
        self._shards.clear()

    def abandon(self) -> None:
        """Close the files as they are."""
        for shard in self._shards.values():
            with suppress(OSError):
                shard.file.close()

    def _open(self, position: Sequence[int]) -> BinaryIO:
        path = chunk_name(f"{self._top}/{self._path}", position, self._zarr_format)
        self.written.append(path)
        above, name = os.path.split(os.path.relpath(path, self._top))
        with folder_below(self._top, above) as folder:
            return open(create_anew(name + TEMPORARY, folder=folder), "wb")


def chunk_name(folder: str, position: Sequence[int], zarr_format: int) -> str:
    """Return the name of the file of a chunk or shard of the array in a folder."""
    coordinates = ["c", *map(str, position)] if zarr_format == 3 else list(map(str, position)) or ["0"]
    return "/".join([folder, *coordinates])
