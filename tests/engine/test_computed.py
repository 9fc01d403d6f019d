"""Arrays of computed blocks: they are what the function makes, each block is made once, and failures are errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.computed import ComputedBlocks
from vfs.errors import SourceError
from vfs.model.region import Region
from vfs.model.stored import StoredArray
from vfs.testing.backends import memory_files


def array_of(
    shape: tuple[int, ...], block: tuple[int, ...], dtype: str, make: Callable[[Region], np.ndarray]
) -> ArrayReader:
    blocks = ComputedBlocks(shape, block, np.dtype(dtype), make)
    dims = tuple("abcdefgh"[: len(shape)])
    dataset = StoredArray(
        "made", memory_files([b""]), blocks.layout(), blocks, shape, dims, 0, block=block, computed=True
    )
    return blocks.reader(dataset, dataset.files, ChunkCache(1 << 20))


@given(data=st.data())
def test_every_region_is_what_the_function_makes(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 7), max_size=4), "shape"))
    block = tuple(data.draw(st.integers(1, n), "block") for n in shape)
    dtype = data.draw(st.sampled_from(["?", "i1", "<u2", "<f4", "<c16"]), "dtype")
    twin = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    made: list[Region] = []

    def make(region: Region) -> np.ndarray:
        made.append(region)
        return np.array(twin[region.slices])

    array = array_of(shape, block, dtype, make)
    assert array.chunks == block
    assert made == [], "nothing is made before it is read"
    bounds = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)), "bounds")) for n in shape]
    part = tuple(slice(a, b, data.draw(st.integers(1, 3), "step")) for a, b in bounds)
    np.testing.assert_array_equal(array[part], twin[part])
    np.testing.assert_array_equal(array[...], twin)
    assert len(made) == len(set(made)) == len(array.dataset.layout.read_ranges(Region.whole(shape))[0])
    assert sum(np.prod(region.shape, dtype=int) for region in made) == twin.size, "blocks at the edges are cut off"


def test_what_the_function_raises_reaches_the_reader() -> None:
    def make(region: Region) -> np.ndarray:
        if region.start == (2, 0) and not made:
            made.append(region)
            raise SourceError("scan.mib: a pass failed")
        return np.ones(region.shape, "u1")

    made: list[Region] = []
    array = array_of((4, 3), (2, 3), "u1", make)
    with pytest.raises(SourceError, match=r"scan\.mib: a pass failed"):
        array[...]
    assert array[...].sum() == 12
