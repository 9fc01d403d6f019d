"""Finds out how many records of a file were written, where the file was given its full size at once.

Some programs give a file its full size before they write it. What nobody has written yet, or ever will because the
program was stopped, reads as zeros. Formats whose records have a header or a footer that is never all zeros tell
written records from others by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vfs.model.files import Files
from vfs.model.stored import Absence
from vfs.model.written import Proof

_PART = 1 << 16  # bytes at the beginning and the end of a record without proof that are looked at


class WrittenRecords(NamedTuple):
    """Says which records of files were written.

    Attributes:
        counts: int64[files] how many.
        absent: what to say of the others.
        proof: what all records of `counts` have; None if some files do not tell.
        lasts: file -> proof of its last record, of files that have no others than those of `counts`.
    """

    counts: np.ndarray
    absent: tuple[Absence, ...]
    proof: Proof | None
    lasts: Mapping[int, bytes]


def written_records(
    files: Files,
    first: int | Sequence[int] | np.ndarray,
    record: int,
    counts: np.ndarray,
    proof: Proof,
    shown: str = "not shown",
) -> WrittenRecords:
    """Count the records of files that were written.

    Records are written one after the other. Where the last one of a file is not there, the others are looked for with
    as few reads as halving takes. The last one that was begun does not count, unless it has a proof that is behind its
    pixels. A file whose first record has no proof either holds none, unless that is so of all: then nothing tells.

    Args:
        first: byte of each file at which its first record begins.
        record: bytes of a record.
        counts: int64[files] records for which there are bytes. Those of files that nobody looks at count as written.
        shown: how records that nobody wrote are shown, for the message.

    """
    starts = np.broadcast_to(np.asarray(first, np.int64), counts.shape)
    made, silent = counts.copy(), list[int]()
    lasts: dict[int, bytes] = {}
    held = np.flatnonzero(counts > proof.known)
    if files.unseen is not None:
        held = held[~files.unseen.pending[held]]
    if len(held) > 1:
        at = starts[held] + (counts[held] - 1) * record + proof.at
        files.sources.expect([files.paths[k] for k in held.tolist()], at.tolist())
    for k in held.tolist():
        begin, count = int(starts[k]), int(counts[k])
        last = begin + (count - 1) * record
        lasts[k] = files.sources.read(files.paths[k], last + proof.at, proof.size)
        if any(lasts[k]) or _is_written(files, k, last, record, proof):
            continue
        del lasts[k]
        low, high = 0, count - 1  # records before `low` were begun, that at `high` was not
        while low < high:
            middle = (low + high) // 2
            if _is_written(files, k, begin + middle * record, record, proof):
                low = middle + 1
            else:
                high = middle
        if low:
            at = begin + (low - 1) * record + proof.at
            whole = proof.behind and any(files.sources.read(files.paths[k], at, proof.size))
            made[k] = low if whole else low - 1
        else:
            silent.append(k)
    proved = len(silent) < len(held) or not silent
    if proved:
        made[silent] = 0
    lost = counts - made
    absent = (_unwritten(files, made, lost, shown),) if lost.any() else ()
    return WrittenRecords(made, absent, proof if proved else None, lasts)


def _is_written(files: Files, file: int, start: int, record: int, proof: Proof) -> bool:
    """Return True if the record that begins at a byte has its proof, or anything else at its beginning or end."""
    part = min(record, _PART)
    ends = ((start + proof.at, proof.size), (start, part), (start + record - part, part))
    return any(any(files.sources.read(files.paths[file], at, size)) for at, size in ends)


def _unwritten(files: Files, made: np.ndarray, lost: np.ndarray, shown: str) -> Absence:
    """Report records that nobody wrote."""
    k, more = int(np.flatnonzero(lost)[0]), int(np.count_nonzero(lost)) - 1
    others = "" if not more else f", as {more:,} other{'s have' if more > 1 else ' has'}"
    said = (
        f"{files.paths[k]}: has room for {int(made[k] + lost[k]):,} frames, {int(made[k]):,} are written{others}: it"
        " was given its full size at once, and its writer was stopped or still writes; the others are "
        f"{shown}"
    )
    return Absence(said, counts={"frames_missing": int(lost.sum())}, to_come=True)
