"""Guesses the scan shape of a data set: reads its time stamps, exposures, numbers of frames, perhaps frames.

Only a bounded number of each is read, from the beginning and the end. `vfs.model.scan_guess` has the arithmetic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError, VfsError
from vfs.model import likeness, scan_guess
from vfs.model.as_scan import as_scan
from vfs.model.layout import Scan
from vfs.model.scan_guess import ScanGuess
from vfs.model.wording import option_names

QUICK_FRAMES = 4096
"""Frames at the beginning, and as many at the end, whose time stamps are read where it should be quick."""
MANY = 1 << 16
"""The same where it may take a while."""
_SERIES = ("frame", "dim_0")  # names of the axis of frames where no file says more of it
_ALIKE = 4096  # most frames that are compared
_BYTES = 64 << 20  # most bytes of these
_AT_ONCE = 8 << 20  # bytes of these that are in memory at once
_ROWS, _LEAST_ROWS = 64, 8  # rows of each that are read
_STAMP = re.compile(r"(time_?stamps?|start_time|time)(_seconds)?")
_EXPOSURE = re.compile(r"exposures?(_time)?|real_time|count_time")
_NUMBER = re.compile(r"counter|frame_number|sequence_number")
_SAYS = re.compile(rf"{_STAMP.pattern}|{_EXPOSURE.pattern}|{_NUMBER.pattern}|time_?stamp_(milli|micro)seconds")
_PARTS = {"_milliseconds": 1000, "_microseconds": 1}  # of which one is so many microseconds


def is_flat(main: ArrayReader) -> bool:
    """Return True if somebody may want a scan: a flat series of frames with two axes, of which no file says more."""
    return main.dataset.nav_ndim == 1 and main.dims[0] in _SERIES and main.ndim == 3 and main.dataset.chosen is None


def guesses(
    main: ArrayReader, arrays: Mapping[str, ArrayReader], *, most: int = QUICK_FRAMES, alike: bool = False
) -> list[ScanGuess]:
    """Guess the shape of the scan that the frames of an array are.

    What cannot be read does not count. Frames are taken in the order of the array.

    Args:
        main: array with navigation axes.
        arrays: path -> array of the set.
        most: frames at the beginning, and as many at the end, whose time stamps are read.
        alike: also compare frames with each other, for which up to 64 MiB of them are read.

    Returns: best first.

    Raises:
        OptionError: the array has no navigation axes, or shows selected frames only.
    """
    dataset = main.dataset
    if not dataset.nav_ndim:
        raise OptionError(f"{dataset.path}: has no axis of frames, of which a scan shape could be guessed")
    if dataset.chosen is not None:
        roi = option_names("roi")
        raise OptionError(f"{dataset.path}: frames that {roi} selected have no scan shape; open it without {roi}")
    count = _recorded(main)
    found = _of_stamps(_beside(main, arrays, count), main, _sampled(count, most), count)
    if alike and not any(one.sure for one in found):
        found += _of_frames(main, count)
    return scan_guess.best_first([*found, *scan_guess.from_count(count)])


def _beside(main: ArrayReader, arrays: Mapping[str, ArrayReader], count: int) -> dict[str, ArrayReader]:
    """Return the arrays that say something of each frame, by their names without folders, in lower case."""
    shapes, found = (main.shape[: main.dataset.nav_ndim], (count,)), {}
    for path in arrays:
        name = path.rsplit("/", 1)[-1].lower()
        if _SAYS.fullmatch(name):
            array = arrays[path]
            if array is not main and array.shape in shapes and array.dtype.kind in "iuf":
                found[name] = array
    return found


def _recorded(main: ArrayReader) -> int:
    """Return the number of frames that were recorded, without those in front of the first one that is shown."""
    dataset, frames = main.dataset, main.dataset.layout.frames
    if frames is None or (frames.order is not None and dataset.nav_ndim == 1):
        return math.prod(main.shape[: dataset.nav_ndim])
    return max(0, frames.stored - frames.offset)


def _sampled(count: int, most: int) -> np.ndarray:
    """Return the numbers of the frames at the beginning and at the end."""
    if count <= 2 * most:
        return np.arange(count)
    return np.concatenate([np.arange(most), np.arange(count - most, count)])


def _files(main: ArrayReader, at: np.ndarray, count: int) -> np.ndarray | None:
    """Return the file that each frame begins in, int64[n]; None where frames do not lie one behind the other."""
    frames = _flat(main, count).dataset.layout.frames
    return None if frames is None else frames.locate(at)[:, 0]


def _of_stamps(beside: Mapping[str, ArrayReader], main: ArrayReader, at: np.ndarray, count: int) -> list[ScanGuess]:
    """Guess from what stands beside each frame."""
    found: list[ScanGuess] = []
    for name, array in beside.items():
        if _EXPOSURE.fullmatch(name):
            found += scan_guess.from_exposures(_values(array, at, count), count, at=at)
        elif _NUMBER.fullmatch(name):
            found += scan_guess.from_intervals(_values(array, at, count), count, "frame numbers", at=at)
        elif _STAMP.fullmatch(name):
            step = 1 if _unit(array).startswith("nanoseconds") else None
            times, file = _times(name, beside, at, count), _files(main, at, count)
            found += scan_guess.from_intervals(times, count, at=at, file=file, step=step)
    return found


def _unit(array: ArrayReader) -> str:
    return str(array.dataset.conventions.get("units", ""))


def _times(name: str, beside: Mapping[str, ArrayReader], at: np.ndarray, count: int) -> np.ndarray:
    """Return the times of frames: int64 microseconds where parts of a second are arrays of their own."""
    times = _values(beside[name], at, count)
    stem = name.removesuffix("_seconds")
    parts = {beside[stem + end]: factor for end, factor in _PARTS.items() if stem != name and stem + end in beside}
    if not parts or times.dtype.kind == "f":
        return times
    more = sum(_values(array, at, count).astype(np.int64) * factor for array, factor in parts.items())
    return np.where(times != 0, times.astype(np.int64) * 10**6 + more, 0)


def _values(array: ArrayReader, at: np.ndarray, count: int) -> np.ndarray:
    """Return the values of frames; NaN if they cannot be read."""
    try:
        runs = np.split(at, np.flatnonzero(np.diff(at) != 1) + 1)
        flat = _flat(array, count)
        return np.concatenate([flat.read([slice(int(run[0]), int(run[-1]) + 1)]) for run in runs])
    except VfsError:
        return np.full(len(at), np.nan)


def _flat(array: ArrayReader, count: int) -> ArrayReader:
    """Return the array with so many frames along one axis, in the order in which they were recorded."""
    dataset = array.dataset
    if array.shape[: max(1, dataset.nav_ndim)] == (count,):  # arrays of HDF5 may have no navigation axes
        return array
    flat = as_scan(dataset, Scan((count,)))
    return ArrayReader(flat, array.backend, dtype=array.dtype, cache=array.cache, corrections=array.corrections)


def _of_frames(main: ArrayReader, count: int) -> list[ScanGuess]:
    """Guess from frames: those one line later are alike."""
    if not main.size or main.dtype.kind not in "biufc":
        return []
    try:
        values = _binned(_flat(main, count), count)
    except VfsError:
        return []
    made = (
        scan_guess.of_line(lag, count, f"frames are like those {lag:,} frames later", "likeness of frames")
        for lag in likeness.lags(values)
    )
    return [one for one in made if one is not None]


def _binned(flat: ArrayReader, count: int) -> np.ndarray:
    """Read the middle of frames that follow one another, in the middle of the series.

    Returns: float64[n, m], m numbers of each frame. No frame is read where there are too few, or they are too large.
    """
    sig = flat.shape[1:]
    row = math.prod(sig[:-2] + sig[-1:]) * flat.dtype.itemsize
    height = sig[-2] if len(sig) > 1 else 1
    rows = min(height, max(_LEAST_ROWS, min(_ROWS, _BYTES // (row * min(count, _ALIKE)))))
    read = rows if flat.dataset.decoder.word_bytes and not flat.dataset.block else height  # else whole frames are
    frames = min(count, _ALIKE, _BYTES // (row * read))
    if frames < likeness.MIN_FRAMES:
        return np.empty((0, 1))
    first, top = (count - frames) // 2, (height - rows) // 2
    cut = [slice(None)] * (len(sig) - 2) + [slice(top, top + rows)] * (len(sig) > 1)
    step = max(1, _AT_ONCE // (row * rows))
    parts = [
        likeness.binned(flat.read([slice(k, min(k + step, first + frames)), *cut]))
        for k in range(first, first + frames, step)
    ]
    return np.concatenate(parts)
