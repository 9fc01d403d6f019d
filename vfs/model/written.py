"""Describes how far an array is written whose files may still grow: `Written`, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Proof(NamedTuple):
    """Bytes of a frame's record that are never all zeros once the record is written.

    Attributes:
        at: the first of them, from the beginning of the record.
        size: how many there are.
        behind: they are written after the pixels, so a record that has them is whole.
        known: opening has seen those of the first record of each file.
    """

    at: int
    size: int
    behind: bool = False
    known: bool = False


INDEX = Proof(0, 0)
"""A table of blocks, to which a writer adds each block after writing it: every block in it was written."""


@dataclass(frozen=True)
class Written:
    """Says how far an array is written.

    The format fills in what the files tell, whether or not somebody follows the set. `vfs.live.growing` adds `head`,
    which makes it an array that may grow.

    Attributes:
        declared: number of frames that the files say there will be; None if they do not.
        proof: the part of each record that proves that it was written; None if nothing does.
        finished: of a file that its writer keeps whole while it writes (HDF5 with SWMR): how many frames are finished
            by now, and how many if nobody writes any more. None: all that is stored is finished.
        cut_at_end: index of the file that its program truncates when all is written, if it still ends beyond its last
            frame; None if there is no such file.
        over: number of leading scan positions that are over: a frame missing there was never recorded.
        head: number of whole frames of a set that is still being written (`follow`), in the order of recording; later
            frames are not there yet. None: nothing is to come.
    """

    declared: int | None = None
    proof: Proof | None = None
    finished: tuple[int, int] | None = None
    cut_at_end: int | None = None
    over: int = 0
    head: int | None = None


UNTOLD = Written()
"""For an array whose files tell nothing."""
