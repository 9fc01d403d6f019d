"""Says how far an array is written whose files may still grow: `Written`, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Proof(NamedTuple):
    """Bytes of a frame's record that are never all zeros, once it was written.

    Attributes:
        at: the first of them, from the beginning of the record.
        size: how many there are.
        behind: they are written behind the pixels, so that a record that has them is whole.
        known: those of the first record of each file were seen already.
    """

    at: int
    size: int
    behind: bool = False
    known: bool = False


INDEX = Proof(0, 0)
"""A table that names blocks, into which a writer puts each when it has written it: what it names was written."""


@dataclass(frozen=True)
class Written:
    """Says how far an array is written.

    The format says what the files tell, whether or not somebody follows the set. `vfs.live.growing` adds `head`, which
    makes it an array that may grow.

    Attributes:
        declared: number of frames that there will be, as the files say; None where they do not.
        proof: what each record of the layout has that tells that it was written; None if nothing does.
        finished: of a file that its writer keeps whole while it writes (HDF5 with SWMR): how many frames are finished
            by now, and how many if nobody writes any more. None: all that is stored is finished.
        cut_at_end: index of the file that its program makes shorter when all is written, if it ends behind its last
            frame; None: there is none.
        over: number of leading scan positions that are over: a frame missing there was never recorded.
        head: number of frames that are whole, of a set that is still being written (`follow`): those from
            there on, in the order in which they are recorded, are not there yet. None: nothing is to come.
    """

    declared: int | None = None
    proof: Proof | None = None
    finished: tuple[int, int] | None = None
    cut_at_end: int | None = None
    over: int = 0
    head: int | None = None


UNTOLD = Written()
"""Of an array of which the files tell nothing."""
