"""Looks at one frame of an array: finds it, draws it at a given size, and counts its numbers.

Frames may be larger than memory. A frame is read in bands (groups of rows) of about `BAND` bytes.
Each band is added to the picture and the statistics, and then forgotten. Of a frame larger than
`MAX_FRAME_BYTES` only bands at even distances are read, or single tiles where it is stored in such; `Look.share` says
how much that is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.pixel_masks import masked_pixels
from vfs.errors import OptionError, size
from vfs.model import colours
from vfs.model.region import Region
from vfs.model.stored import BOTTOM_FIRST

BAND = 1 << 20  # bytes read at once
MAX_FRAME_BYTES = 128 << 20  # most bytes read of one frame
_BANDS = 1024  # most bands of a frame that is not read whole: more than a picture has lines
_SAMPLE = 1 << 20  # values kept for the histogram
_PHOTO = 32  # least rows and columns of colours that no name tells
_PALETTE = 256  # most colours of a palette
_HEX = re.compile(r"[0-9a-fA-F]{6}")
_PICTURE = ("y", "x")  # names of the axes of a picture
_DEPTHS = ("counter_depth", "bit_depth_real")  # attributes that say how many bits of a pixel are used


@dataclass(frozen=True)
class FrameView:
    """Splits the axes of an array into those that choose a frame and those of the frame.

    Attributes:
        where: axes that choose the frame; an index along each is the frame's position.
        shown: axes of the picture: two (rows, columns), one, or none.
        colour: axis of red, green, blue (and perhaps opacity), or None.
    """

    array: ArrayReader
    where: tuple[int, ...]
    shown: tuple[int, ...]
    colour: int | None

    @classmethod
    def of(cls, array: ArrayReader) -> FrameView:
        """Split the axes of an array.

        The signal axes y and x are the picture, else the last two. An array without signal axes
        (time stamps of a scan) is a frame itself. Bytes [rows, columns, 3 or 4] are a picture in
        colours, also where nobody says so, unless they are few.
        """
        axes = list(range(array.ndim))
        colour = next((k for k in axes if array.ndim > 2 and array.dtype.kind in "uf" and _named(array, k)), None)
        photo = colour is None and array.ndim == 3 and array.dtype == np.uint8 and min(array.shape[:2]) >= _PHOTO
        if photo and array.shape[2] in (3, 4) and array.dims[2] != colours.AXIS:
            return cls(array, (), (0, 1), 2)
        rest = [k for k in axes if k != colour]
        frame = [k for k in rest if k >= array.dataset.nav_ndim] or rest
        named = [k for k in frame if array.dims[k] in _PICTURE]
        shown = named if len(named) == 2 else frame[-2:]
        return cls(array, tuple(k for k in rest if k not in shown), tuple(shown), colour)

    @cached_property
    def palette(self) -> np.ndarray | None:
        """The colours that the numbers stand for, uint8[n, 3]; None where they are numbers.

        They come from the attribute `colour_map`, a list of "rrggbb". A table of greys is none: its numbers are
        brightness already. Nor have frames of a scan one: these are patterns, in colours that a program gave them.
        """
        said = self.array.attrs.get("colour_map")
        if any(self.array.dims[k].startswith("scan") for k in self.where):
            return None
        if not isinstance(said, list) or self.colour is not None or len(self.shown) != 2:
            return None
        if self.array.dtype.kind not in "iuf" or not 0 < len(said) <= _PALETTE:
            return None
        if not all(isinstance(one, str) and _HEX.fullmatch(one) for one in said):
            return None
        made = np.frombuffer(bytes.fromhex("".join(said)), np.uint8).reshape(-1, 3)
        return None if (made == np.linspace(0, 255, len(made)).astype(np.uint8)[:, None]).all() else made

    def coloured(self, values: np.ndarray) -> np.ndarray:
        """Return the colours that numbers stand for, uint8[..., 3]. Numbers beyond the palette take its ends."""
        palette = self.palette
        assert palette is not None
        index = np.nan_to_num(values) if values.dtype.kind == "f" else values
        made: np.ndarray = palette[np.clip(index, 0, len(palette) - 1).astype(np.intp)]
        return made

    @property
    def upward(self) -> bool:
        """True if the bottom row of the picture comes first, so that it is drawn upwards.

        An axis y that was given another name has rows still.
        """
        if len(self.shown) != 2 or self.array.attrs.get("rows") != BOTTOM_FIRST:
            return False
        down = self.array.dims[self.shown[0]]
        return down == "y" or (down != "x" and "y" not in self.array.dims)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of positions along each axis in `where`."""
        return tuple(self.array.shape[k] for k in self.where)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of elements along each axis of the picture."""
        return tuple(self.array.shape[k] for k in self.shown)

    @property
    def samples(self) -> int:
        """Numbers of a pixel that is shown: 1, or more for colours."""
        if self.palette is not None:
            return 3
        return 1 if self.colour is None else self.array.shape[self.colour]

    @cached_property
    def middle(self) -> tuple[int, ...]:
        """The position in the middle; where no frame is stored there, the middle one of those that are."""
        at = tuple(n // 2 for n in self.counts)
        if 0 in self.array.shape or self.stored(at):
            return at
        dataset = self.array.dataset
        held = dataset.held
        if not len(held):
            return at
        ends = np.diff(held).cumsum()  # counted along the positions that hold a frame
        run = int(np.searchsorted(ends, ends[-1] // 2, "right"))
        nav = np.unravel_index(held[run, 1] - ends[run] + ends[-1] // 2, dataset.shape[: dataset.nav_ndim])
        return tuple(int(nav[k]) if k < len(nav) else n for k, n in zip(self.where, at, strict=True))

    def stored(self, position: Sequence[int]) -> bool:
        """Say whether the files hold anything of the picture at a position."""
        return self.array.dataset.holds(self.region(position, range(self.sizes[0] if self.sizes else 1)))

    def position(self, text: str) -> tuple[int, ...]:
        """Parse a position: a number for each axis in `where`, or one number that counts all frames.

        Negative numbers count from the end.

        Raises:
            OptionError: there is no such position; the message says which positions there are.
        """
        counts, total = self.counts, math.prod(self.counts)
        given: list[int] = []
        if re.fullmatch(r"\s*-?\d{1,18}\s*(,\s*-?\d{1,18}\s*)*", text):
            given = [int(part) for part in text.split(",")]
        if counts and len(given) == len(counts) and all(-n <= at < n for at, n in zip(given, counts, strict=True)):
            return tuple(at % n for at, n in zip(given, counts, strict=True))
        if counts and len(given) == 1 and -total <= given[0] < total:
            return tuple(int(k) for k in np.unravel_index(given[0] % total, counts))
        raise OptionError(f"position {text!r}: {self._possible()}")

    def _possible(self) -> str:
        counts, dims, path = self.counts, self.array.dims, self.array.dataset.path
        if not counts:
            return f"{path} is a single frame, leave the position out"
        if not all(counts):
            return f"{path} has no frames"
        each = ", ".join(f"{dims[k]} 0 to {n - 1}" for k, n in zip(self.where, counts, strict=True))
        flat = f", or one number from 0 to {math.prod(counts) - 1}" if len(counts) > 1 else ""
        return f"expected {each}{flat}"

    def region(self, position: Sequence[int], rows: range, columns: range | None = None) -> Region:
        """Return the region of some rows of the frame at a position; of some columns of a picture that has such."""
        cuts = [slice(0, n) for n in self.array.shape]
        for axis, at in zip(self.where, position, strict=True):
            cuts[axis] = slice(at, at + 1)
        if self.shown:
            cuts[self.shown[0]] = slice(rows.start, rows.stop)
        if columns is not None and len(self.shown) == 2:
            cuts[self.shown[1]] = slice(columns.start, columns.stop)
        return Region.of(cuts, self.array.shape)


def _named(array: ArrayReader, axis: int) -> bool:
    """Return True if the file says that an axis counts red, green, blue (and opacity)."""
    return colours.coloured(array.dims[axis], array.shape[axis], array.attrs)


@dataclass
class Look:
    """Collects the statistics and the picture of a frame.

    Attributes:
        full: value of a saturated pixel; None where it is not known.
        share: share of the frame's elements that were read, 0 to 1.
        stored: False where no pixel of the frame is in the files.
        picture: of a frame with two axes float64[rows, columns] (with colours, or a palette, [rows, columns, 3]):
            means, NaN where there is nothing. Of a frame with one axis float64[columns]: maxima.
        count: elements seen.
        odd: elements seen that are not finite.
        saturated: finite elements of `full` or more.
        low, high, total: least, greatest and sum of the finite elements; NaN, NaN and 0 where
            there are none.
        kept: finite elements kept for `values`, an array for each band.
    """

    full: int | None
    share: float = 1.0
    stored: bool = True
    picture: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    count: int = 0
    odd: int = 0
    saturated: int = 0
    low: float = math.nan
    high: float = math.nan
    total: float = 0.0
    kept: list[np.ndarray] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Mean of the finite elements; NaN where there are none."""
        return self.total / (self.count - self.odd) if self.count > self.odd else math.nan

    @property
    def values(self) -> np.ndarray:
        """About a million of the finite elements, at even distances, or all: float64[n]."""
        return np.concatenate(self.kept) if self.kept else np.empty(0)

    def add(self, values: np.ndarray, every: int) -> None:
        """Add values to the statistics.

        Args:
            every: one finite value in this many is kept.
        """
        finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values.reshape(-1)
        self.count += values.size
        self.odd += values.size - finite.size
        if not finite.size:
            return
        low, high = finite.min().item(), finite.max().item()
        self.low, self.high = (low, high) if math.isnan(self.low) else (min(self.low, low), max(self.high, high))
        self.total += float(finite.sum(dtype=np.float64))
        self.saturated += 0 if self.full is None else int(np.count_nonzero(finite >= self.full))
        self.kept.append(finite[::every].astype(np.float64))


class _Canvas:
    """Scales a frame of any size down to a picture, one band at a time.

    Args:
        size: rows and columns of the frame.
        target: rows and columns of the picture.
        samples: numbers that each element has: 1, or 3 for colours.
        peaks: each element of the picture is the maximum of the frame's elements there, not their mean.
    """

    def __init__(self, size: tuple[int, int], target: tuple[int, int], samples: int, peaks: bool) -> None:
        self.size, self.target, self.peaks = size, target, peaks
        self.sums = np.full((*target, samples), -np.inf if peaks else 0.0)
        self.counts = np.zeros((*target, samples))

    def add(self, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
        """Add a band.

        Args:
            values: [n, m, samples].
            rows, columns: rows int[n] and columns int[m] of the frame that the values are from.
        """
        places = [at * new // old for at, new, old in zip((rows, columns), self.target, self.size, strict=True)]
        # Positions in the band at which the next row or column of the picture begins
        at = [np.flatnonzero(np.diff(place, prepend=-1)) for place in places]
        box = np.ix_(places[0][at[0]], places[1][at[1]])
        good = np.isfinite(values) if values.dtype.kind == "f" else None
        join, nothing = (np.maximum, -np.inf) if self.peaks else (np.add, 0.0)
        if good is None or good.all():
            lengths = [np.diff(first, append=len(place)) for first, place in zip(at, places, strict=True)]
            self.counts[box] += (lengths[0][:, None] * lengths[1])[:, :, None]
        else:
            values = np.where(good, values, nothing)
            self.counts[box] += np.add.reduceat(np.add.reduceat(good, at[1], axis=1, dtype=np.float64), at[0], axis=0)
        self.sums[box] = join(
            self.sums[box], join.reduceat(join.reduceat(values, at[1], axis=1, dtype=np.float64), at[0], axis=0)
        )

    def picture(self) -> np.ndarray:
        """Return the picture, float64[rows, columns, samples]; NaN where nothing was added."""
        drawn = np.full(self.sums.shape, np.nan)
        np.divide(self.sums, 1 if self.peaks else self.counts, out=drawn, where=self.counts > 0)
        return drawn


def look(view: FrameView, position: Sequence[int], height: int, width: int) -> Look:
    """Read a frame, draw it, and count its numbers.

    Args:
        height, width: most rows and columns that the picture may have.

    Raises:
        OptionError: the frame's rows are too long.
        SourceError: the frame cannot be read.
    """
    line = len(view.sizes) < 2
    rows, columns = (math.prod(view.sizes), 1) if line else (view.sizes[0], view.sizes[1])
    height, width = (width, 1) if line else (height, width)
    cut, finest, share = pieces(view, MAX_FRAME_BYTES)
    height, width = min(height, finest[0]), min(width, finest[1])
    scale = max(rows / height, columns / width, 1.0)
    target = (_scaled(rows, height, scale), _scaled(columns, width, scale))
    found = Look(_full(view.array), share, stored=False)
    coloured = view.colour is not None or view.palette is not None
    canvas = _Canvas((rows, columns), target, 3 if coloured else 1, peaks=line)
    every = max(1, math.ceil(rows * columns * share / _SAMPLE))
    few = max(1, BAND // max(1, columns))  # rows that are worked on at once
    for lines, across in cut:
        region = view.region(position, lines, across)
        found.stored = found.stored or view.array.dataset.holds(region)
        read = _plain(view, view.array.read(region))
        if is_masked(view):  # their numbers decide no contrast
            read = without_masked(view, read[..., 0], lines, across)[..., None]
        with np.errstate(all="ignore"):
            for at in range(0, len(read), few):
                values = np.abs(read[at : at + few]) if read.dtype.kind == "c" else read[at : at + few]
                found.add(values, every)
                if view.palette is not None:
                    values = view.coloured(values[..., 0])
                canvas.add(values, np.arange(lines.start + at, lines.start + at + len(values)), np.asarray(across))
    picture = canvas.picture()
    found.picture = picture if coloured else picture[:, 0, 0] if line else picture[:, :, 0]
    return found


def is_masked(view: FrameView) -> bool:
    """Return True if a mask of the set marks pixels of the frames whose picture this is as dead."""
    array = view.array
    own = (*range(array.dataset.nav_ndim, array.ndim),)
    return view.shown == own and view.colour is None and masked_pixels(array) is not None


def without_masked(view: FrameView, values: np.ndarray, rows: range, columns: range | None) -> np.ndarray:
    """Return rows of a picture with NaN for pixels without a measurement: floats that hold the others exactly."""
    if not is_masked(view):
        return values
    mask = masked_pixels(view.array)
    assert mask is not None
    cut = (
        mask[rows.start : rows.stop] if columns is None else mask[rows.start : rows.stop, columns.start : columns.stop]
    )
    return np.where(cut, np.nan, values.astype(with_nan(values.dtype), copy=False))


def with_nan(dtype: np.dtype) -> np.dtype:
    """Return the floats that hold numbers of a type, and NaN."""
    return np.promote_types(dtype, np.float32 if dtype.itemsize < 4 or dtype.kind == "f" else np.float64)


def _scaled(n: int, most: int, scale: float) -> int:
    """Return how many elements an axis of the picture has: `n` elements of a frame scaled down.

    It is at least 8 where the frame has as many, so that a frame much longer than wide can be seen.
    """
    return max(round(n / scale), min(n, most, 8), 1 if n else 0)


def pieces(view: FrameView, most: int) -> tuple[list[tuple[range, range]], tuple[int, int], float]:
    """Cut a frame into pieces that are read one after the other: bands of rows. Of one that is too large to be read
    bands at even distances, or tiles where it is stored in such.

    Args:
        most: bytes that are read, about; one band or tile is read whatever its size.

    Returns: (the rows and columns of each piece; rows and columns of the finest picture that all pieces make; the share
        of the frame that they are).

    Raises:
        OptionError: a single row is larger than `MAX_FRAME_BYTES`, and is not stored in tiles.
    """
    array = view.array
    rows, columns = (*view.sizes, 1, 1)[:2]
    every, finest = range(columns), (max(1, rows), max(1, columns))
    frame = math.prod(n for k, n in enumerate(array.shape) if k not in view.where) * array.dtype.itemsize
    if not frame:
        return [], finest, 1.0
    # Rows and columns that are decoded together
    unit, wide = (
        (*(array.dataset.block[k] for k in view.shown), 1, columns)[:2] if array.dataset.block else (1, columns)
    )
    units, line = -(-rows // unit), frame // rows
    if frame <= most:
        take = max(1, BAND // (line * unit)) * unit
        return [(range(at, min(at + take, rows)), every) for at in range(0, rows, take)], finest, 1.0
    if wide < columns:
        tiles = max(1, most // (line // columns * unit * wide))
        side = math.sqrt(rows * columns / tiles)  # of squares in each of which a tile is read
        across = max(1, min(-(-columns // wide), tiles, round(columns / side)))
        down = min(units, tiles // across)
        lines = [range(at * unit, min((at + 1) * unit, rows)) for at in _spread(units, down)]
        along = [range(at * wide, min((at + 1) * wide, columns)) for at in _spread(-(-columns // wide), across)]
        share = sum(map(len, lines)) * sum(map(len, along)) / (rows * columns)
        return list(product(lines, along)), (down, across), share
    if line > MAX_FRAME_BYTES:
        raise OptionError(f"{array.dataset.path}: a row of a frame has {size(line)}: too long to be looked at")
    parts = max(1, min(_BANDS, units, most // (line * unit)))
    take = max(1, most // parts // (line * unit))
    bands = [range(at * unit, min((at + take) * unit, rows)) for at in _spread(units, parts)]
    return [(band, every) for band in bands], (parts, max(1, columns)), sum(map(len, bands)) / rows


def _spread(count: int, few: int) -> list[int]:
    """Return the places in the middle of so many equal parts of a line of `count` places."""
    return [(2 * k + 1) * count // (2 * few) for k in range(few)]


def _plain(view: FrameView, values: np.ndarray) -> np.ndarray:
    """Arrange values of a frame as [rows, columns, samples]; drop the opacity of colours."""
    axes = [*view.where, *view.shown, *(() if view.colour is None else (view.colour,))]
    shape = [values.shape[k] for k in view.shown]
    ordered = values.transpose(axes).reshape(*(*shape, 1, 1)[:2], -1)[..., :3]
    return ordered.view(np.uint8) if ordered.dtype == bool else ordered


def _full(array: ArrayReader) -> int | None:
    """Return the value of a saturated pixel; None where it is not known."""
    if (
        array.dtype.kind not in "iu"
        or array.dtype.itemsize > 4
        or array.dtype != array.stored
        or array.dataset.companion
    ):
        return None
    most = int(np.iinfo(array.dtype).max)
    bits = next((depth for name in _DEPTHS if isinstance(depth := array.attrs.get(name), int)), 0)
    if bits == 1:
        return None
    return (1 << bits) - 1 if 1 < bits < most.bit_length() else most
