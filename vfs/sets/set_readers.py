"""Makes the readers of the arrays of a data set, as the options of opening say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from vfs.backends import Backend, choice, make_backend
from vfs.backends.growing import GrowingBackend
from vfs.engine import chunking
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.corrections import Corrections
from vfs.engine.other_axes import turned
from vfs.live.doubts import Doubts, may_be_blank
from vfs.model.axis_order import AxisOrder
from vfs.model.open_options import OpenOptions
from vfs.model.stored import StoredArray
from vfs.sets.arranging import Arranged


class SetReaders(Mapping[str, ArrayReader]):
    """Maps paths to readers of arrays, each made when it is first asked for: most callers use only one.

    Args:
        make: path -> function that makes the reader and does not raise.
    """

    def __init__(self, make: Mapping[str, Callable[[], ArrayReader]]) -> None:
        self._make = make
        self._made: dict[str, ArrayReader] = {}

    def __getitem__(self, path: str) -> ArrayReader:
        found = self._made.get(path)
        if found is None:
            found = self._made.setdefault(path, self._make[path]())  # two threads get the same reader
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)

    def with_more(self, others: Mapping[str, ArrayReader]) -> SetReaders:
        """Return the same readers, and others that are made already."""
        more = SetReaders({**self._make, **{path: partial(others.__getitem__, path) for path in others}})
        more._made = {**self._made, **others}
        return more


def readers(
    main: StoredArray,
    shown: Mapping[str, Arranged],
    options: OpenOptions,
    images: Mapping[str, Any],
    cache: ChunkCache,
) -> SetReaders:
    """Make readers of the arrays of a set. The options for dtype, corrections and chunks apply to the main array.

    Args:
        main: the main array as it is stored.
        shown: path -> array as it is shown, with the order of axes that its reader has to make.
        images: `dark`, `gain` and `dead`, those that are given, as arrays.

    Raises:
        OptionError: a correction does not fit the frames.
    """
    corrections = Corrections.of(main.shape[main.nav_ndim :], main.dtype, **images)
    make: dict[str, Callable[[], ArrayReader]] = {}
    reads = _reads(options)
    for path, (dataset, order) in shown.items():
        how: dict[str, Any] = {"dtype": options.dtype, "chunks": options.chunks, "corrections": corrections}
        if path != main.path:
            how = {"chunks": _companion_chunks(dataset)}
        make[path] = partial(_reader, dataset, order, reads, cache, **how)
    return SetReaders(make)


def _reader(
    dataset: StoredArray,
    order: AxisOrder | None,
    reads: Callable[[StoredArray], Backend],
    cache: ChunkCache,
    chunks: chunking.ChunkSpec,
    **how: Any,
) -> ArrayReader:
    if order is None:
        return ArrayReader(dataset, reads(dataset), chunks=chunks, cache=cache, **how)
    return turned(ArrayReader(dataset, reads(dataset), cache=cache, **how), order, chunks, cache)


def _reads(options: OpenOptions) -> Callable[[StoredArray], Backend]:
    """Return what makes the backend of an array. Files that are still being written are not mapped: whoever cuts one
    would kill the process.
    """
    name = options.backend

    def growing(dataset: StoredArray) -> Backend:
        files = dataset.files.growing()
        inner = make_backend("buffered" if choice(name)[0] == "mmap" else name, files)
        return GrowingBackend(inner, may_be_blank, Doubts(dataset, files, options).check)

    def at_rest(dataset: StoredArray) -> Backend:
        return make_backend(name, dataset.files.unremembered() if options.accept_changes else dataset.files)

    return growing if options.follow else at_rest


def _companion_chunks(dataset: StoredArray) -> chunking.ChunkSpec:
    """Choose the chunks of an array that is not the main one.

    They are small for a field of records that lie far apart. There each value costs a read, and
    programs that open a set (xarray does) may look at the first chunk of every array.
    """
    layout, size = dataset.layout, math.prod(dataset.shape[dataset.nav_ndim :]) * dataset.dtype.itemsize
    apart = dataset.companion and layout.stride > 2 * size
    return max(1, _FIELDS * size) if apart else "auto"


_FIELDS = 1024  # values in a chunk of such a field
