"""What a virtual HDF5 data set takes of which sources, with h5py: boxes of numbers, paired.

libhdf5 is not asked for the shape of one that grows with its sources: it would open them, by their names. See `vfs.h5.links`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import h5py

from vfs.h5.facts import LeftOutError

MOST_RUNS = 100_000  # along an axis of what a virtual data set takes of a source
UNLIMITED = (1 << 64) - 1

Segments = list[tuple[int, int]]
"""(first element, elements) along an axis."""


def box(space: Any, shape: Sequence[int]) -> list[Segments]:
    """What is selected along each axis.

    Raises:
        LeftOutError: a selection that is no product of axes, or too fine.
    """
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        return [[(0, n)] for n in shape]
    if space.get_select_type() != h5py.h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        raise LeftOutError("a virtual data set with a selection that is not made of equal blocks")
    return [_segments((a, s, c, b), n) for a, s, c, b, n in zip(*space.get_regular_hyperslab(), shape, strict=True)]


def _segments(slab: Sequence[int], length: int) -> Segments:
    """The blocks of (start, stride, count, block) as far as they lie in an axis of that length; neighbouring ones are one."""
    start, stride, count, block = slab
    if count == 1 or stride == block:
        many = UNLIMITED if UNLIMITED in (count, block) else count * block
        return [(start, max(0, min(many, length - start)))]
    count = min(count, max(0, -(-(length - start) // stride)))
    if count > MOST_RUNS:
        raise LeftOutError(f"a virtual data set with {count:,} pieces along an axis")
    return [(start + k * stride, min(block, length - start - k * stride)) for k in range(count)]


def numbered(entry: Any, shape: tuple[int, ...]) -> Iterator[tuple[str, str, list[Segments]]]:
    """(file, data set, what it fills) of a source; of a series of them (%b stands for 0, 1, 2, …) each."""
    if not is_series(entry):
        yield entry.file_name, entry.dset_name, box(entry.vspace, shape)
        return
    slabs = [list(axis) for axis in zip(*entry.vspace.get_regular_hyperslab(), strict=True)]
    axis = growing(entry.vspace)
    if axis is None:
        raise LeftOutError("a virtual data set with a numbered source that fills no open axis")
    start, stride, _, block = slabs[axis]
    for k in range(max(0, -(-(shape[axis] - start) // stride))):
        slabs[axis] = [start + k * stride, stride, 1, block]
        yield *member(entry, k), [_segments(slab, n) for slab, n in zip(slabs, shape, strict=True)]


def is_series(entry: Any) -> bool:
    """Whether a source stands for any number of them."""
    return any("%b" in name.replace("%%", "") for name in (entry.file_name, entry.dset_name))


def member(entry: Any, k: int) -> tuple[str, str]:
    """(file, data set) of one of a series of sources."""
    file, path = (name.replace("%%", "\0").replace("%b", str(k)).replace("\0", "%") for name in (entry.file_name, entry.dset_name))
    return file, path


def growing(space: Any) -> int | None:
    """The axis along which a selection goes on for as long as there is something; None where it has none."""
    if space.get_select_type() != h5py.h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        return None
    _, _, counts, blocks = space.get_regular_hyperslab()
    return next((axis for axis, of in enumerate(zip(counts, blocks, strict=True)) if UNLIMITED in of), None)


def end(entry: Any, axis: int, of: Sequence[int]) -> int:
    """Where along an axis a virtual data set ends that takes what there is of a source.

    Args:
        of: shape of the source.
    """
    along = growing(entry.src_space)
    if along is None:
        raise LeftOutError("a virtual data set that goes on where its source does not")
    slabs = [tuple(int(part[k]) for part in space.get_regular_hyperslab()) for space, k in ((entry.src_space, along), (entry.vspace, axis))]
    there = sum(n for _, n in _segments(slabs[0], of[along]))
    start, stride, _, block = slabs[1]
    whole, rest = divmod(there, min(block, max(1, there)))
    return start + (whole * stride + rest if rest else (whole - 1) * stride + min(block, there)) if there else 0


def end_of_series(entry: Any, axis: int, count: int) -> int:
    """The same of a series of so many sources."""
    start, stride, _, block = (int(part[axis]) for part in entry.vspace.get_regular_hyperslab())
    return start + (count - 1) * stride + block if count else 0


def paired(source: list[Segments], place: list[Segments], of: Sequence[int], to: Sequence[int], shorter: bool) -> tuple[Any, ...] | None:
    """(axes, start, place) as `facts.Mapped` has them; None where nothing is mapped.

    Args:
        of, to: shapes of the source and of the virtual data set.
        shorter: True where an axis of one may be shorter than that of the other: what both have is mapped.

    Raises:
        LeftOutError: the two do not have the same shape.
    """
    sizes = [[sum(n for _, n in axis) for axis in box] for box in (source, place)]
    if 0 in sizes[0] or 0 in sizes[1]:
        return None
    for box, shape in ((source, of), (place, to)):
        if any(a < 0 or a + n > length for axis, length in zip(box, shape, strict=True) for a, n in axis):
            raise LeftOutError("a virtual data set that maps what is outside of a source or of itself")
    long = [[k for k, n in enumerate(size) if n > 1] for size in sizes]
    if len(long[0]) != len(long[1]) or any(sizes[0][a] != sizes[1][b] and not shorter for a, b in zip(*long, strict=True)):
        raise LeftOutError(f"a virtual data set that gives its sources another shape ({sizes[0]} → {sizes[1]})")
    axes = [(a, b, _runs(source[a], place[b])) for a, b in zip(long[0], long[1], strict=True)]
    return axes, [axis[0][0] for axis in source], [axis[0][0] for axis in place]


def _runs(source: Segments, place: Segments) -> list[tuple[int, int, int]]:
    """Two lists of segments of the same length together, cut where one of them is."""
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
