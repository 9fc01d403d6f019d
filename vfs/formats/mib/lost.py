"""Finds frames that a detector lost within a MIB file, by the sequence numbers in the frame headers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from vfs.formats.mib.absent import StoredFrames
from vfs.model.layout.scan_order import numbered_runs
from vfs.model.samples import spread
from vfs.model.stored import Absence

NUMBER = re.compile(rb"MQ1,([0-9]{1,18}),")
BEGIN = 24  # bytes of a header that hold its sequence number
_UNTOLD_FRAMES = 3  # frames of which nobody can tell whether their numbers count
_MAX_FILES = 16  # files that are looked at for numbers that repeat or go back
_LOOK = 256  # frames of a file with lost ones that are looked at in any case
_ORDER = 64  # frames of all files whose numbers are looked at when nothing is lost: on a cold disk each is a seek


def in_runs(stored: StoredFrames, lasts: Mapping[int, bytes]) -> StoredFrames:
    """Cut the frames of each file where some were lost.

    The last frame of a file tells whether any were: its number is as far from the first one as the
    frame itself. Numbers that do not grow by one (some settings write several images with one
    number, or leave numbers out) tell nothing.

    Args:
        lasts: file -> first `BEGIN` bytes of its last frame, as far as they were read.
    """
    unseen = stored.found.files.unseen
    several = np.flatnonzero((stored.counts > 1) & (True if unseen is None else ~unseen.pending[stored.full]))
    ends = np.append(stored.begin[1:], 1 << 62) - stored.begin  # most numbers that a file can have
    parts = {}
    for k in several.tolist():
        count = stored.counts.item(k)
        file = stored.full.item(k)
        more = _number(stored, k, count - 1, lasts.get(file)) - stored.found.sequences.item(file) + 1 - count
        if 0 < more <= min(count // 2, ends.item(k) - count) and (found := _runs(stored, k)) is not None:
            parts[k] = found
    if not parts:
        return stored
    return _cut(stored, parts)


def out_of_order(stored: StoredFrames) -> tuple[Absence, ...]:
    """Say that numbers of frames repeat or go back within a file, in which most count on; few files are looked at,
    and none on a server, where each look is a request.

    Such frames are shown in the order of the file: nothing tells whether the number or the place is right.
    """
    files, lines = stored.found.files, []
    if len(files) > _MAX_FILES or files.sources.far_away:
        return ()
    counted = np.flatnonzero(stored.counts > _UNTOLD_FRAMES).tolist()
    look = max(_UNTOLD_FRAMES, _ORDER // max(1, len(counted)))
    for k in counted:
        count = stored.counts.item(k)
        frames = spread(count, look)
        at_file = frames + np.broadcast_to(stored.ahead, stored.counts.shape)[k]
        path = files.paths[stored.full[k]]
        numbers = np.array([_number(stored, k, frame) for frame in at_file.tolist()])
        steps = np.diff(numbers - frames)
        if steps.any() and 2 * np.count_nonzero(steps == 0) > len(steps):
            at = int(np.flatnonzero(steps)[0]) + 1
            before, after = numbers[at - 1 : at + 1].tolist()
            lines.append(f"{path}: number {after:,} follows {before:,} in its frame headers")
    if not lines:
        return ()
    others = f" (and {len(lines) - 1:,} more like it)" if len(lines) > 1 else ""
    return (Absence(f"{lines[0]}{others}: the frames are shown in the order of the file"),)


def _number(stored: StoredFrames, k: int, frame: int, start: bytes | None = None) -> int:
    """Read the sequence number of a frame of a file, of which the first bytes may be known; -1 if it has none."""
    files = stored.found.files
    if start is None:
        start = files.sources.read(files.paths[stored.full[k]], frame * stored.record, BEGIN)
    hit = NUMBER.match(start)
    return int(hit[1]) if hit else -1


def _runs(stored: StoredFrames, k: int) -> np.ndarray | None:
    """Return the runs of a file: int64[r, 3], frames of the file before it, number of its first one from that of the
    file on, count; None if numbers do not grow.
    """
    first, count = stored.found.sequences.item(stored.full[k]), stored.counts.item(k)

    def numbers(frames: np.ndarray) -> np.ndarray:
        return np.array([_number(stored, k, frame) - first for frame in frames.tolist()], np.int64)

    return numbered_runs(numbers, count, _LOOK)


def _cut(stored: StoredFrames, parts: dict[int, np.ndarray]) -> StoredFrames:
    """Return the same frames with an entry for each run."""
    whole = [parts.get(k, np.array([[0, 0, count]])) for k, count in enumerate(stored.counts.tolist())]
    entries = np.concatenate(whole)
    each = np.repeat(np.arange(len(whole)), [len(part) for part in whole])
    return stored._replace(
        full=stored.full[each], counts=entries[:, 2], begin=stored.begin[each] + entries[:, 1], ahead=entries[:, 0]
    )
