"""Finds the lag after which frames are like each other again: in a scan, the frame below is one line later.

Nothing here reads files.
"""

from __future__ import annotations

import math

import numpy as np

SIDE = 8
"""Rows and columns of what a frame is binned to."""


MIN_FRAMES = 16
"""Frames of which no fewer are compared."""


def binned(frames: np.ndarray) -> np.ndarray:
    """Reduce frames to a few numbers each.

    Args:
        frames: numbers [n, …, y, x] or [n, x], of complex ones magnitudes; axes in between are lines like those of y.

    Returns: float64[n, m], sums of about SIDE x SIDE boxes; what is no finite number counts as 0.
    """
    real = np.abs(frames) if frames.dtype.kind == "c" else frames
    made = real.reshape(len(frames), -1, frames.shape[-1] if frames.ndim > 2 else 1).astype(np.float64)
    made = np.nan_to_num(made, nan=0, posinf=0, neginf=0)
    for axis in (1, 2):
        made = np.add.reduceat(made, _edges(made.shape[axis]), axis)
    return made.reshape(len(frames), -1)


def lags(values: np.ndarray, most: int = 3) -> list[int]:
    """Return numbers of frames after which frames are alike, the most likely first.

    The correlation of frames falls with the number of frames between them, and rises again where it is a line. The
    noise of the correlation, which neighbouring lags do not share, says which rise is one.

    Args:
        values: float64[n, m], m numbers of each of n frames that follow one another.
        most: number of lags.
    """
    if len(values) < MIN_FRAMES:
        return []
    found = _correlation(values)
    noise = 1.4826 * float(np.median(np.abs(np.diff(found[1:], 2)))) / math.sqrt(6)
    inner = found[1:-1]
    peaks = np.flatnonzero((inner >= found[:-2]) & (inner > found[2:])) + 1
    peaks = peaks[peaks > 2]
    if not len(peaks):
        return []
    rise = found[peaks] - np.minimum.accumulate(found)[peaks]
    clear = rise > max(_MIN_RISE, _NOISES * noise)
    peaks, rise = peaks[clear], rise[clear]
    good = peaks[rise >= _NEARLY * rise.max(initial=0)]
    # Twice a line is a peak, too, and the ends of a broad one are none of their own
    chosen: list[int] = []
    for lag in good.tolist():
        if all(abs(lag - round(lag / one) * one) > max(1, one // 8) for one in chosen):
            near = peaks[np.abs(peaks - lag) <= max(1, lag // 8)]
            chosen.append(int(near[found[near].argmax()]))
    return sorted(dict.fromkeys(chosen), key=lambda lag: -found[lag])[:most]


_MIN_RISE = 0.05  # least rise of the correlation
_NOISES = 8
_NEARLY = 0.6  # of the largest rise: a line may rise a little less than several of them


def _edges(length: int) -> np.ndarray:
    return np.unique(np.arange(min(SIDE, length)) * length // min(SIDE, length))


def _correlation(values: np.ndarray) -> np.ndarray:
    """Return the correlation of frames for lags 0 to a half of their number."""
    n = len(values)
    # The mean of all numbers of a frame may drift (a current): only that of each number over time is taken off
    made = values - values.mean(axis=0)
    deviation = made.std(axis=0)
    made = made[:, deviation > 0] / deviation[deviation > 0]
    if not made.shape[1]:
        return np.zeros(n // 2 + 1)
    power = np.abs(np.fft.rfft(made, 2 * n, axis=0)) ** 2
    total = np.fft.irfft(power.sum(axis=1), 2 * n)[: n // 2 + 1]
    correlation: np.ndarray = total / (made.shape[1] * (n - np.arange(n // 2 + 1)))
    return correlation
