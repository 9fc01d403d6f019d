"""One frame of an array, for people to look at: which one, how its numbers are spread, and a
picture of it of a given size.

Frames may be larger than memory. They are read in bands of about `BAND` bytes, each of which goes
into the picture and the figures and is forgotten; of a frame larger than `MOST` bytes only bands at
even distances are read, and `Look.share` says how much that is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.chunking import size
from vfs.errors import OptionError
from vfs.model.region import Region

BAND = 1 << 20  # bytes read at once
MOST = 128 << 20  # bytes read of a frame
_BANDS = 1024  # of a frame of which not all is read: more than a picture has lines
_SAMPLE = 1 << 20  # values kept for the histogram
_COLOURS = "s"  # name of the axis of colour samples
_DEPTHS = ("counter_depth", "bit_depth_real")  # attributes that say how many bits of a pixel mean something


@dataclass(frozen=True)
class FrameView:
    """Which axes of an array say which frame it is, and which axes a frame has.

    Attributes:
        where: axes of the position.
        shown: axes of the picture, two (rows, columns), one, or none.
        colour: axis of red, green, blue (and perhaps opacity), or None.
    """

    array: ArrayReader
    where: tuple[int, ...]
    shown: tuple[int, ...]
    colour: int | None

    @classmethod
    def of(cls, array: ArrayReader) -> FrameView:
        """The last two axes of a frame are its picture; an array without frames of its own (time
        stamps of a scan) is one.
        """
        axes = list(range(array.ndim))
        colour = next(
            (
                k
                for k in axes
                if array.dims[k] == _COLOURS
                and array.shape[k] in (3, 4)
                and array.dtype.kind in "uf"
                and array.ndim > 2
            ),
            None,
        )
        rest = [k for k in axes if k != colour]
        frame = [k for k in rest if k >= array.dataset.nav_ndim] or rest
        shown = frame[-2:]
        return cls(array, tuple(k for k in rest if k not in shown), tuple(shown), colour)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many positions there are along each axis of them."""
        return tuple(self.array.shape[k] for k in self.where)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements along each axis of the picture."""
        return tuple(self.array.shape[k] for k in self.shown)

    @property
    def middle(self) -> tuple[int, ...]:
        """The position in the middle."""
        return tuple(n // 2 for n in self.counts)

    def position(self, text: str) -> tuple[int, ...]:
        """A position from text: a number for each axis of positions, or one that counts all frames.

        Raises:
            OptionError: there is no such position; the message says which there are.
        """
        counts, total = self.counts, math.prod(self.counts)
        given = (
            [int(part) for part in text.split(",")]
            if re.fullmatch(r"\s*-?\d{1,18}\s*(,\s*-?\d{1,18}\s*)*", text)
            else []
        )
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

    def region(self, position: Sequence[int], rows: range) -> Region:
        """The box that some rows of a frame are."""
        cuts = [slice(0, n) for n in self.array.shape]
        for axis, at in zip(self.where, position, strict=True):
            cuts[axis] = slice(at, at + 1)
        if self.shown:
            cuts[self.shown[0]] = slice(rows.start, rows.stop)
        return Region.of(cuts, self.array.shape)


@dataclass
class Look:
    """What was seen of a frame.

    Attributes:
        full: what a saturated pixel holds; None: nobody says.
        share: of its elements that were read. stored: False where no pixel of it is in the files.
        picture: float64[rows, columns], with three more numbers where it has colours: means, NaN
            where there is nothing. Of frames with one axis float64[columns]: maxima.
        count, odd, saturated: elements seen, those that are not finite, and those of `full` or more.
        low, high, total: least, greatest and sum of the finite ones; NaN and 0 where there are none.
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
        """Of the finite ones."""
        return self.total / (self.count - self.odd) if self.count > self.odd else math.nan

    @property
    def values(self) -> np.ndarray:
        """Up to some million of the finite ones, at even distances: float64[n]."""
        return np.concatenate(self.kept) if self.kept else np.empty(0)

    def add(self, values: np.ndarray, every: int) -> None:
        """Count values in; every so many of them are kept."""
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
    """A picture that bands of a frame of any size are added to, [rows, columns, samples].

    Args:
        size: elements of the frame, rows and columns; target: of the picture.
        peaks: keep the maxima of what falls into one place, not the means.
    """

    def __init__(self, size: tuple[int, int], target: tuple[int, int], samples: int, peaks: bool) -> None:
        self.size, self.target, self.peaks = size, target, peaks
        self.sums = np.full((*target, samples), -np.inf if peaks else 0.0)
        self.counts = np.zeros((*target, samples))

    def add(self, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
        """Add values [rows, columns, samples] that lie at these rows and columns of the frame."""
        places = [at * new // old for at, new, old in zip((rows, columns), self.target, self.size, strict=True)]
        # Where another row or column of the picture begins
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
        """float64[rows, columns, samples], NaN where nothing was added."""
        drawn = np.full(self.sums.shape, np.nan)
        np.divide(self.sums, 1 if self.peaks else self.counts, out=drawn, where=self.counts > 0)
        return drawn


def look(view: FrameView, position: Sequence[int], height: int, width: int) -> Look:
    """Look at a frame.

    Args:
        height, width: most elements that the picture may have.

    Raises:
        OptionError: its rows are too long.
        SourceError: it cannot be read.
    """
    line = len(view.sizes) < 2
    rows, columns = (math.prod(view.sizes), 1) if line else (view.sizes[0], view.sizes[1])
    height, width = (width, 1) if line else (height, width)
    bands, share = _bands(view)
    if share < 1:
        height = min(height, len(bands))
    scale = max(rows / height, columns / width, 1.0)
    target = (_scaled(rows, height, scale), _scaled(columns, width, scale))
    found = Look(_full(view.array), share, stored=False)
    canvas = _Canvas((rows, columns), target, 3 if view.colour is not None else 1, peaks=line)
    every = max(1, math.ceil(rows * columns * share / _SAMPLE))
    few = max(1, BAND // max(1, columns))  # rows that are worked on at once
    for band in bands:
        region = view.region(position, band)
        found.stored = found.stored or not view.array.dataset.blank(region).all()
        read = _plain(view, view.array.read(region))
        with np.errstate(all="ignore"):
            for at in range(0, len(read), few):
                values = np.abs(read[at : at + few]) if read.dtype.kind == "c" else read[at : at + few]
                found.add(values, every)
                canvas.add(values, np.arange(band.start + at, band.start + at + len(values)), np.arange(columns))
    picture = canvas.picture()
    found.picture = picture if view.colour is not None else picture[:, 0, 0] if line else picture[:, :, 0]
    return found


def _scaled(n: int, most: int, scale: float) -> int:
    """Elements of an axis of a picture; a frame that is far longer than wide is drawn wider, so
    that something is to be seen.
    """
    return max(round(n / scale), min(n, most, 8), 1 if n else 0)


def _bands(view: FrameView) -> tuple[list[range], float]:
    """Which rows of a frame are read together.

    Returns: (ranges of rows, the share of the frame that they are).

    Raises:
        OptionError: a single row is larger than what is read of a frame.
    """
    array, rows = view.array, view.sizes[0] if view.shown else 1
    frame = math.prod(n for k, n in enumerate(array.shape) if k not in view.where) * array.dtype.itemsize
    if not frame:
        return [], 1.0
    # Rows that are decoded together
    unit = array.dataset.block[view.shown[0]] if array.dataset.block and view.shown else 1
    units, nbytes = -(-rows // unit), frame // rows * unit
    if frame <= MOST:
        take = max(1, BAND // nbytes) * unit
        return [range(at, min(at + take, rows)) for at in range(0, rows, take)], 1.0
    if frame // rows > MOST:
        raise OptionError(f"{array.dataset.path}: a row of a frame has {size(frame // rows)}: too long to be looked at")
    parts = max(1, min(_BANDS, units, MOST // nbytes))
    take = max(1, MOST // parts // nbytes)
    bands = [range(k * units // parts * unit, min((k * units // parts + take) * unit, rows)) for k in range(parts)]
    return bands, sum(map(len, bands)) / rows


def _plain(view: FrameView, values: np.ndarray) -> np.ndarray:
    """What was read of a frame as numbers [rows, columns, samples], of colours without opacity."""
    axes = [*view.where, *view.shown, *(() if view.colour is None else (view.colour,))]
    shape = [values.shape[k] for k in view.shown]
    ordered = values.transpose(axes).reshape(*(*shape, 1, 1)[:2], -1)[..., :3]
    return ordered.view(np.uint8) if ordered.dtype == bool else ordered


def _full(array: ArrayReader) -> int | None:
    """What a pixel holds that counted all it can."""
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
