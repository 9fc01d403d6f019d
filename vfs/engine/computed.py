"""Arrays whose blocks a function makes when they are read, where others have bytes of files.

Such an array is an array like any other: its blocks decode only as a whole, and to decode one is to call the
function. So whatever shows, caches, converts or copies arrays takes it without knowing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vfs.backends.handles import Descriptor, Handles
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.chunking import ChunkSpec
from vfs.model.files import Files
from vfs.model.layout import GridLayout
from vfs.model.one_state import Made
from vfs.model.region import Region
from vfs.model.stored import StoredArray


@dataclass(frozen=True, eq=False)
class ComputedBlocks:
    """Blocks of equal shape that cover an array, numbered in C order. Those at its far edges are cut off.

    A `StoredArray` of them has `layout()` as its layout and this as its decoder: see `vfs.model.decode.BlockDecoder`.

    Attributes:
        shape: elements of the array per axis.
        block: elements of a block per axis, at least 1.
        dtype: of the elements.
        make: makes the elements of a block, dtype[shape of the region], which it must not change later. It is called
            by many threads, once for each block that the cache does not have. What it raises reaches the reader.
    """

    shape: tuple[int, ...]
    block: tuple[int, ...]
    dtype: np.dtype
    make: Callable[[Region], np.ndarray]

    word_bytes: ClassVar[int] = 0
    decode_into: ClassVar[None] = None
    decode_run: ClassVar[None] = None

    def layout(self) -> GridLayout:
        """Lay out the blocks, which have no bytes."""
        return GridLayout(self.shape, self.block)

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        """Make a block. `data` is empty."""
        return self.make(self.layout().box(block))

    def reader(
        self, dataset: StoredArray, files: Files, cache: ChunkCache, chunks: ChunkSpec | None = None
    ) -> ArrayReader:
        """Make what reads an array of these blocks.

        Args:
            dataset: the array.
            files: those that the blocks are made of, as the backend reads them.
            cache: keeps blocks.
            chunks: shape of its chunks; None: the blocks.

        Raises:
            OptionError: the shape does not fit.
        """
        cut = self.block or "auto" if chunks is None else chunks
        return ArrayReader(dataset, _NoBytes(files), chunks=cut, cache=cache)


class _NoBytes:
    """The backend of what is in no file: there are no bytes to read. See `vfs.backends.Backend`."""

    copies, in_place, margin, window = True, False, 0, 1
    descriptors: Handles[Descriptor] | None = None
    fetch, parallel = None, 1

    def __init__(self, files: Files) -> None:
        self.files = files  # those that blocks are made of

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        return scratch[:0]

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> int | None:
        return None

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        return False

    def settled(self, make: Callable[[], Made]) -> Made:
        return make()  # what makes blocks looks at the files that it reads
