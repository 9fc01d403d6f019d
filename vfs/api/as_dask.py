"""Shows an array as a dask array: `VirtualArray.dask`.

Blocks are large, since dask spends some 0.2 ms on each, and more on a cluster. A task is a region and
the key of a `TaskArray`, which says how the set was opened and is in the graph once. So graphs grow
neither with the number of files nor, before they are computed, with the number of blocks; and who
only passes tasks on (the scheduler of a cluster) opens no files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.chunking import ChunkSpec, negotiate
from vfs.engine.open_sets import OPEN
from vfs.errors import DependencyError, extra
from vfs.sets.live_set import for_workers

if TYPE_CHECKING:
    import dask.array

    from vfs.sets.opening import Opening


def in_blocks(reader: ArrayReader, opening: Opening, block: ChunkSpec) -> dask.array.Array:
    """Make a dask array of an array.

    Args:
        opening: how the set of the array was opened.
        block: see `VirtualArray.dask`.

    Raises: what `VirtualArray.dask` raises.
    """
    try:
        import dask.array
        from dask.base import tokenize
    except ImportError as error:
        raise DependencyError(f"dask arrays need dask: {extra('dask')} ({error})") from None
    shape = negotiate(block, reader.chunking_input, "block").shape
    path = reader.dataset.path
    fixed = None if opening.options.follow else reader  # of one that is still being written, each task asks anew
    # With `fancy` as it is, dask takes what follows into a read: of x[3, 4] only that frame, not its block
    return dask.array.from_array(
        TaskArray(for_workers(opening), path, reader.shape, reader.dtype, fixed),
        chunks=shape,
        name=f"vfs-{tokenize(opening.identity, path, shape)}",
        meta=np.empty((0,) * reader.ndim, reader.dtype),
    )


class TaskArray:
    """Stands for an array in the tasks of dask. Pickled, it says how the array is opened, and opens nothing.

    Args:
        opening, path: see `OpenSets.array`.
        shape, dtype: of the array.
        reader: reads it in this process; None: what `OPEN` has, each time that something is read.
    """

    __slots__ = ("_again", "_reader", "dtype", "shape")

    def __init__(
        self,
        opening: bytes,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        reader: ArrayReader | None = None,
    ) -> None:
        self._again = opening, path
        self.shape, self.dtype = shape, dtype
        self._reader = reader

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        """Read a part, by numpy's basic indexing."""
        reader = OPEN.array(*self._again) if self._reader is None else self._reader
        return reader[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return TaskArray, (*self._again, self.shape, self.dtype)
