"""Says what proves that the frames of a file were written."""

from __future__ import annotations

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
