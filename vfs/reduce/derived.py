"""Derived arrays: results that are computed when they are read.

A derived array is an array like any other, of `vfs.engine.computed.ComputedBlocks`: to make a block is
to reduce the frames that it is of.

A block of a result for each position covers whole rows of the scan, and about `FRAMES` bytes of
frames. Reading it makes all such results of these frames in one pass, which the cache
holds. Results for each pixel, and single ones, are one block each; one pass makes all of them.
Passes that several readers wait for at the same time run once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from vfs.engine.abandon import check
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.computed import ComputedBlocks
from vfs.errors import OptionError
from vfs.model.naming import DERIVED
from vfs.model.region import Region
from vfs.model.stored import BOTTOM_FIRST, StoredArray
from vfs.model.wording import option, shown
from vfs.pictures.frames import FrameView
from vfs.reduce import spelling
from vfs.reduce.passes import Pass, reduce
from vfs.reduce.projections import check_axes
from vfs.reduce.reduction import Reduction
from vfs.reduce.result import Result

FRAMES = 64 << 20
"""Bytes of frames that a block of a result for each position is of, but for rows that are longer."""
PATTERNS = 4 << 20
"""Bytes of a block of results that are as large as frames, so that one of them is there soon."""

Reductions = Mapping[str, Reduction]


def reductions(given: Any) -> dict[str, Reduction]:
    """Make reductions of what `derive=` takes.

    Args:
        given: None; name -> reduction, or its text; or texts NAME=KIND(…).

    Raises:
        OptionError: it is something else.
    """
    if given is None:
        return {}
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Sequence) and all(isinstance(text, str) for text in given):
        return spelling.read_all(given)
    if not isinstance(given, Mapping):
        raise OptionError(f'{option(derive=given)}: expected {{"bf": vfs.Disk(…)}}, or texts as "bf=disk(…)"')
    found: dict[str, Reduction] = {}
    for name, one in given.items():
        try:
            found[spelling.check_name(name)] = spelling.read_call(one) if isinstance(one, str) else one
        except OptionError as error:
            raise OptionError(f"derive: {name if isinstance(name, str) else shown(name)}: {error}") from None
        if not isinstance(found[name], Reduction):
            raise OptionError(f"derive: {name}: {shown(one)}: expected a reduction, as vfs.Disk(…), or the text of one")
    return found


def derived(array: ArrayReader, wanted: Reductions, taken: Sequence[str]) -> dict[str, ArrayReader]:
    """Make the arrays that stand for results of another one. Nothing is read but the files of masks, and a few
    frames where the bright-field disk is looked for.

    Args:
        array: what is reduced.
        wanted: name -> reduction.
        taken: paths that other arrays have.

    Returns: path -> array, in the order of `wanted`.

    Raises:
        OptionError: a reduction does not fit the frames, or its name is taken.
    """
    for name in wanted:
        if f"{DERIVED}/{name}" in taken:
            raise OptionError(f"derive: the set has an array {DERIVED}/{name}; give {name} another name")
    if not wanted:
        return {}
    nav = array.shape[: array.dataset.nav_ndim]
    try:
        tried = Pass(array, wanted, [0] if math.prod(nav) and nav else None, 0)
        check_axes(array, wanted)
        made = tried.results()  # of no frame: what they will be like
    except OptionError as error:
        raise OptionError(f"derive: {error}") from None
    source = _Source(array, tried.bound, made)
    return {f"{DERIVED}/{name}": source.reader(name) for name in wanted}


class _Source:
    """Makes the results of an array, in blocks.

    Args:
        array: what is reduced.
        bound: the reductions, prepared for its frames.
        made: results that show what each is like.
    """

    def __init__(self, array: ArrayReader, bound: Reductions, made: Mapping[str, Result]) -> None:
        self.array, self.made = array, made
        self.nav = array.shape[: array.dataset.nav_ndim]
        self.by_position = {name: one for name, one in bound.items() if made[name].kind == "nav"}
        self.others = {name: one for name, one in bound.items() if made[name].kind != "nav"}
        sig = array.shape[len(self.nav) :]
        frame = math.prod(sig) * array.dtype.itemsize
        entry = sum(made[name].selected[:1].nbytes for name in self.by_position)
        large = entry >= frame > 0
        self.rows = _rows(self.nav, entry if large else frame, large)
        self.token = object()
        # Small, and each costs a pass over everything: nothing that is read meanwhile drives it out.
        # There is room for one state of the files: nobody reads those before it
        self.whole = ChunkCache(sum(made[name].selected.nbytes for name in self.others))

    def reader(self, name: str) -> ArrayReader:
        """Make the array of a result."""
        one, source = self.made[name], self.array.dataset
        extra = one.selected.shape[1:] if one.kind == "nav" else one.selected.shape
        lead = self.nav if one.kind == "nav" else ()
        dims = source.dims[: len(lead)] + one.dims[len(one.scan) if lead else 0 :]
        shape, block = lead + extra, (self.rows if lead else ()) + extra
        if one.dtype.kind not in "biufc":
            raise OptionError(f"derive: {name} is {one.dtype}: expected numbers")
        blocks = ComputedBlocks(shape, block, one.dtype, partial(self._block, name))
        known = {dim: self.array.calibration[dim] for dim in dims if dim in self.array.calibration}
        attrs = spelling.attributes(replace(one, calibration=known | dict(one.calibration)))
        if one.kind == "sig" and FrameView.of(self.array).upward:
            attrs["rows"] = BOTTOM_FIRST  # an image of the detector is the same way up as its frames
        dataset = StoredArray(
            f"{DERIVED}/{name}",
            source.files,
            blocks.layout(),
            blocks,
            shape,
            dims,
            len(lead),
            block=block,
            attrs=attrs,
            conventions={"units": one.units} if one.units else {},
            companion=True,
            computed=True,
        )
        return blocks.reader(dataset, self.array.backend.files, self.array.cache)

    def _block(self, name: str, region: Region) -> np.ndarray:
        """Return a block of a result.

        Raises:
            SourceError: its frames cannot be read.
        """
        one = self.made[name]
        state = self.array.moved(0)
        if one.kind != "nav":
            packed = self.whole.get((self.token, state), partial(self._reduce, self.others, None))
            sizes = {key: self.made[key].selected.nbytes for key in self.others}
            return _unpacked(packed, sizes, name, one, region.shape)
        first, count = self._positions(region)
        chosen = np.arange(first, first + count) if self.nav else None
        packed = self.array.cache.get((self.token, state, first), partial(self._reduce, self.by_position, chosen))
        sizes = {key: self.made[key].selected[:1].nbytes * count for key in self.by_position}
        return _unpacked(packed, sizes, name, one, region.shape)

    def _positions(self, region: Region) -> tuple[int, int]:
        """Find the positions of a block, which follow each other in the scan: the first one, and how many."""
        n = len(self.nav)
        first = np.ravel_multi_index(region.start[:n], self.nav) if n else 0
        return int(first), math.prod(region.shape[:n])

    def _reduce(self, wanted: Reductions, chosen: np.ndarray | None) -> np.ndarray:
        """Make results in one pass. Returns uint8[bytes], one after the other.

        Raises:
            AbandonedError: the one for whom they are made has gone away.
        """
        results = reduce(self.array, wanted, roi=chosen, progress=check)
        return np.concatenate(
            [np.ascontiguousarray(result.selected).reshape(-1).view(np.uint8) for result in results.values()]
        )


def _rows(nav: tuple[int, ...], each: int, large: bool = False) -> tuple[int, ...]:
    """Return the positions of a block along each axis of the scan: whole rows, if these are not long.

    Args:
        each: bytes of a position; large: results are as large as frames.
    """
    room, made = max(1, (PATTERNS if large else FRAMES) // max(1, each)), [1] * len(nav)
    for axis in reversed(range(len(nav))):
        row = axis == len(nav) - 1 and axis > 0 and not large
        made[axis] = max(1, nav[axis] if row else min(nav[axis], room))
        if made[axis] < nav[axis]:
            break
        room = max(1, room // made[axis])
    return tuple(made)


def _unpacked(
    packed: np.ndarray, sizes: Mapping[str, int], name: str, like: Result, shape: tuple[int, ...]
) -> np.ndarray:
    """Take one of several results that lie one after the other in uint8[bytes]."""
    first = 0
    for key, size in sizes.items():
        if key == name:
            break
        first += size
    found: np.ndarray = packed[first : first + size].copy().view(like.dtype)
    return found.reshape(shape)
