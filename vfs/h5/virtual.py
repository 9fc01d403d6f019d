"""Finds the sources of a virtual HDF5 data set and the boxes that it takes of each, with h5py.

libhdf5 is not asked for the shape of a virtual data set that grows with its sources, because it
would open these by their names. See `vfs.h5.links`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import h5py

from vfs.h5.facts import LeftOutError

MAX_RUNS = 100_000  # most runs of elements along an axis that a virtual data set takes of a source
UNLIMITED = (1 << 64) - 1

Segments = list[tuple[int, int]]
"""(first element, elements) along an axis."""


def box(space: Any, shape: Sequence[int]) -> list[Segments]:
    """Return the segments that are selected along each axis.

    Raises:
        LeftOutError: the selection is not a product of axes, or too fine.
    """
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        return [[(0, n)] for n in shape]
    if space.get_select_type() != h5py.h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        raise LeftOutError("a virtual data set with a selection that is not made of equal blocks")
    return [_segments((a, s, c, b), n) for a, s, c, b, n in zip(*space.get_regular_hyperslab(), shape, strict=True)]


def _segments(slab: Sequence[int], length: int) -> Segments:
    """Return the blocks of (start, stride, count, block) that lie in an axis of that length.

    Neighbouring blocks are one segment.
    """
    start, stride, count, block = slab
    if count == 1 or stride == block:
        many = UNLIMITED if UNLIMITED in (count, block) else count * block
        return [(start, max(0, min(many, length - start)))]
    count = min(count, max(0, -(-(length - start) // stride)))
    if count > MAX_RUNS:
        raise LeftOutError(f"a virtual data set with {count:,} pieces along an axis")
    return [(start + k * stride, min(block, length - start - k * stride)) for k in range(count)]


def frames(box: Sequence[Segments], shape: Sequence[int]) -> int:
    """Return the number of whole frames in a part of a data set, whose last two axes are those of a frame."""
    sizes = [sum(n for _, n in axis) for axis in box]
    nav = max(0, len(shape) - 2)
    return math.prod(sizes[:nav]) if sizes[nav:] == list(shape[nav:]) else 0


def numbered(entry: Any, shape: tuple[int, ...]) -> Iterator[tuple[str, str, list[Segments]]]:
    """Yield (file, data set, segments that it fills per axis) of a source.

    A series of sources (%b stands for 0, 1, 2, …) yields one for each of them.
    """
    if not is_series(entry):
        yield entry.file_name, entry.dset_name, box(entry.vspace, shape)
        return
    slabs = [list(axis) for axis in zip(*entry.vspace.get_regular_hyperslab(), strict=True)]
    axis = growing(entry.vspace)
    if axis is None:
        raise LeftOutError("a virtual data set with numbered sources but without an unlimited axis for them")
    start, stride, _, block = slabs[axis]
    for k in range(max(0, -(-(shape[axis] - start) // stride))):
        slabs[axis] = [start + k * stride, stride, 1, block]
        yield *member(entry, k), [_segments(slab, n) for slab, n in zip(slabs, shape, strict=True)]


def is_series(entry: Any) -> bool:
    """Return True if an entry stands for any number of numbered sources."""
    return any("%b" in name.replace("%%", "") for name in (entry.file_name, entry.dset_name))


def member(entry: Any, k: int) -> tuple[str, str]:
    """Return (file, data set) of one of a series of sources."""
    file, path = (
        name.replace("%%", "\0").replace("%b", str(k)).replace("\0", "%") for name in (entry.file_name, entry.dset_name)
    )
    return file, path


def growing(space: Any) -> int | None:
    """Return the axis along which a selection grows with its source; None if there is none."""
    if space.get_select_type() != h5py.h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        return None
    _, _, counts, blocks = space.get_regular_hyperslab()
    return next((axis for axis, of in enumerate(zip(counts, blocks, strict=True)) if UNLIMITED in of), None)


def end(entry: Any, axis: int, of: Sequence[int]) -> int:
    """Return the end along an axis of a virtual data set that grows with a source.

    Args:
        of: shape of the source.
    """
    along = growing(entry.src_space)
    if along is None:
        raise LeftOutError("a virtual data set that is unlimited along an axis where its source is not")
    slabs = [
        tuple(int(part[k]) for part in space.get_regular_hyperslab())
        for space, k in ((entry.src_space, along), (entry.vspace, axis))
    ]
    there = sum(n for _, n in _segments(slabs[0], of[along]))
    start, stride, _, block = slabs[1]
    whole, rest = divmod(there, min(block, max(1, there)))
    return start + (whole * stride + rest if rest else (whole - 1) * stride + min(block, there)) if there else 0


def end_of_series(entry: Any, axis: int, count: int) -> int:
    """Return the end along an axis of a virtual data set that takes a series of `count` sources."""
    start, stride, _, block = (int(part[axis]) for part in entry.vspace.get_regular_hyperslab())
    return start + (count - 1) * stride + block if count else 0


def paired(
    source: list[Segments], place: list[Segments], of: Sequence[int], to: Sequence[int], shorter: bool
) -> tuple[Any, ...] | None:
    """Return (axes, start, place) as `facts.Mapped` has them; None if nothing is mapped.

    Args:
        of, to: shapes of the source and of the virtual data set.
        shorter: True if an axis of one may be shorter than that of the other. Then only elements
            that exist in both are mapped.

    Raises:
        LeftOutError: the two do not have the same shape.
    """
    sizes = [[sum(n for _, n in axis) for axis in box] for box in (source, place)]
    if 0 in sizes[0] or 0 in sizes[1]:
        return None
    for box, shape in ((source, of), (place, to)):
        if any(a < 0 or a + n > length for axis, length in zip(box, shape, strict=True) for a, n in axis):
            raise LeftOutError("a virtual data set that maps elements outside of a source or of itself")
    long = [[k for k, n in enumerate(size) if n > 1] for size in sizes]
    if len(long[0]) != len(long[1]) or any(
        sizes[0][a] != sizes[1][b] and not shorter for a, b in zip(*long, strict=True)
    ):
        raise LeftOutError(f"a virtual data set that gives its sources another shape ({sizes[0]} → {sizes[1]})")
    axes = [(a, b, _runs(source[a], place[b])) for a, b in zip(long[0], long[1], strict=True)]
    return axes, [axis[0][0] for axis in source], [axis[0][0] for axis in place]


def _runs(source: Segments, place: Segments) -> list[tuple[int, int, int]]:
    """Pair two lists of segments of equal total length, and cut both wherever a segment of either ends."""
    runs = []
    one, two = iter(source), iter(place)
    (a, m), (b, n) = next(one), next(two)
    while True:
        take = min(m, n)
        if take:
            runs.append((a, b, take))
        a, m, b, n = a + take, m - take, b + take, n - take
        try:
            if m == 0:
                a, m = next(one)
            if n == 0:
                b, n = next(two)
        except StopIteration:
            return runs
