"""Arrays with other axes hold the same elements, and chunks that viewers like."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.engine.support import in_memory
from vfs.engine.other_axes import Arrangement, with_axes
from vfs.testing.inside import reader_of
from vfs.testing.tiff_writers import write_tiff


@given(data=st.data())
def test_elements_are_those_of_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=5), "shape"))
    values = np.arange(np.prod(shape)).reshape(shape).astype("u2")
    y = data.draw(st.integers(0, len(shape) - 2), "y")
    others = data.draw(st.permutations([k for k in range(len(shape)) if k not in (y, y + 1)]), "others")
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(others) - 1))), "cuts")) if others else []
    groups = [tuple(others[a:b]) for a, b in zip([0, *cuts], [*cuts, len(others)], strict=True)] if others else []
    how = Arrangement((*(group for group in groups if group), (y,), (y + 1,)), tuple("abcdefg"))
    how = Arrangement(how.axes, how.dims[: len(how.axes)])
    array = in_memory(values, nav_ndim=data.draw(st.integers(0, len(shape)), "nav"))
    shown = with_axes(array, how, path="shown")
    expected = values.transpose([*others, y, y + 1]).reshape(how.shape(shape))
    assert (shown.shape, shown.dims) == (expected.shape, how.dims)
    np.testing.assert_array_equal(shown[...], expected)
    at = tuple(data.draw(st.integers(0, n - 1)) for n in expected.shape)
    assert shown[at] == expected[at]


def test_a_scan_along_one_axis_is_read_as_before() -> None:
    values = np.arange(3 * 4 * 5 * 6, dtype="<u2").reshape(3, 4, 5, 6)
    shown = with_axes(in_memory(values, nav_ndim=2), Arrangement(((0, 1), (2,), (3,)), ("scan", "y", "x")), path="0")
    assert shown.views, "not copied"
    assert shown.chunks == (1, 5, 6)
    np.testing.assert_array_equal(shown[7], values[1, 3])


@pytest.mark.parametrize(
    ("layout", "chunks"),
    [
        ({"tile": (256, 256)}, (512, 512)),
        ({"tile": (128, 1024)}, (512, 1024)),
        ({"strip": 8}, (512, 2048)),
        ({}, (512, 512)),
    ],
)
def test_chunks_are_whole_tiles_about_square(
    tmp_path: Path, layout: dict[str, tuple[int, int]], chunks: tuple[int, int]
) -> None:
    page = np.zeros((1500, 2048), "u2")
    packed = {"compression": 8, "encode": zlib.compress} if layout else {}
    array = reader_of(vfs.open(write_tiff(tmp_path / "a.tif", [page], **layout, **packed)))
    assert with_axes(array, Arrangement(((0,), (1,)), ("y", "x")), path="0").chunks == chunks
