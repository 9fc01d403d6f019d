"""Makes results of a set that is still being written, as frames come.

Each time that frames came, a pass goes through these and no others, and what it made is merged with what there is: so
each frame is read once. In the end results are those of the finished set: for each position of the scan, and where
integers are added up, to the bit; sums of floats as far as the order in which they are added up matters.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import NotYetError, OptionError
from vfs.model.one_state import in_one_state
from vfs.reduce.passes import OnProgress, Pass
from vfs.reduce.reduction import Buffers
from vfs.reduce.result import Results
from vfs.reduce.usual import placed

PAUSE = 0.25  # seconds after which new frames are looked for


class State(NamedTuple):
    """An array of a set that is still being written, as it is at a moment.

    Attributes:
        array: reads it.
        ended: nothing more will come.
    """

    array: ArrayReader
    ended: bool


class _Taken(NamedTuple):
    """What was made so far.

    Attributes:
        done: bool[m], which of the selected frames were taken.
        shared: buffers that have an entry for each of them, by the names of reduction and buffer; own: the others.
    """

    done: np.ndarray
    shared: Mapping[str, Buffers]
    own: Mapping[str, Buffers]


def reduce_growing(
    now: Callable[[], State],
    reductions: Mapping[str, Any],
    *,
    roi: Any = None,
    workers: int | None = None,
    progress: OnProgress | None = None,
) -> Iterator[Results]:
    """Make results of the frames that are there, again and again as more come.

    Args:
        now: returns the array as it is now.
        reductions, roi, workers, progress: see `vfs.VirtualArray.reduce`.

    Yields: results of the frames so far; the last time of all.

    Raises:
        OptionError, SourceError: see `vfs.VirtualArray.reduce`.
    """
    taken: _Taken | None = None
    found: Mapping[str, Any] = {}
    while True:
        array, ended = now()
        try:  # once: a place that moves as frames come would be of no frame
            found = found or placed(array, reductions)
        except NotYetError:
            if ended:
                raise
            time.sleep(PAUSE)
            continue
        whole = Pass(array, found, roi, workers, progress, grows=True)
        if progress is not None and taken is None:
            progress(0, len(whole.stored))
        try:
            taken, more = _more(whole, taken, found, _told(progress, whole, taken))
        except NotYetError:  # a frame of zeros, of which nothing tells yet if somebody wrote them
            time.sleep(PAUSE)
            continue
        if more or ended:
            yield whole.results(last=False)
        if ended:
            return
        if not more:
            time.sleep(PAUSE)


def _told(progress: OnProgress | None, whole: Pass, taken: _Taken | None) -> OnProgress | None:
    """Return what is told the progress of a part of all frames."""
    if progress is None:
        return None
    before = 0 if taken is None else int(np.count_nonzero(taken.done))
    return lambda done, _: progress(before + done, len(whole.stored))


def _taken(whole: Pass, reductions: Mapping[str, Any], chosen: np.ndarray, progress: OnProgress | None) -> Pass:
    """Take some frames, and merge the buffers of all threads in those of the first one."""
    part = Pass(whole.array, reductions, chosen, whole.workers, progress)
    deque(part.run(1), 0)
    return part


def _more(
    whole: Pass, taken: _Taken | None, reductions: Mapping[str, Any], progress: OnProgress | None
) -> tuple[_Taken, bool]:
    """Take the frames that have come, and put all that was made into the buffers of a pass.

    Args:
        whole: a pass over all selected frames, which has not begun.
        taken: what was made before, perhaps of fewer frames.

    Returns: what is made now, and whether any frame had come.
    """
    done = np.zeros(len(whole.stored), bool)
    if taken is not None:
        if len(taken.done) > len(done):
            raise OptionError("the set became shorter while it was followed; open it again")
        done[: len(taken.done)] = taken.done
    new = whole.stored.flags & whole.array.dataset.there_at(whole.chosen) & ~done
    at = np.flatnonzero(new)
    part: Pass | None = None
    if len(at):
        chosen = at if whole.chosen is None else whole.chosen[at]
        part = in_one_state(whole.array.backend, partial(_taken, whole, reductions, chosen, progress))
    for name, reduction in whole.bound.items():
        for key, buffer in whole.shared[name].items():
            if taken is not None:
                buffer[: len(taken.done)] = taken.shared[name][key]
            if part is not None:
                buffer[at] = part.shared[name][key]
        if whole.own[0][name]:
            for made in (taken and taken.own, part and part.own[0]):
                if made:
                    reduction.merge(whole.own[0][name], made[name])
    done |= new
    whole.done[:] = done
    return _Taken(done, whole.shared, whole.own[0]), part is not None
