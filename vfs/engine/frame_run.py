"""Says how the frames of an array lie whole, each in one piece.

Reductions that take frames where they are, chunks that are planned once for all of them, and a mount that answers
without the interpreter ask the same of an array: do its frames differ only in where they begin, do the elements of one
follow each other in the file as they are shown, and are they the bytes of the file? It is found out here, once per
array.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from vfs.model.decode import Decoder, LiesAs
from vfs.model.layout import FrameLayout, whole_frame
from vfs.model.region import Region

MAX_FRAME_RANGES = 4096
"""Most read ranges of a frame that is planned once for all frames."""


class FrameRun:
    """Says how the frames of an array lie, of which each has a record of its own.

    Attributes:
        layout: says where the records are.
        size: elements of a frame.
        in_order: the elements of a frame follow each other in one piece, as they are shown.
    """

    def __init__(self, layout: FrameLayout, decoder: Decoder) -> None:
        self.layout = layout
        self.size = math.prod(layout.sig_shape)
        self.in_order = np.array_equal(layout.pieces, whole_frame(layout.sig_shape))
        self._decoder = decoder

    def alone(self, count: int) -> FrameLayout:
        """Return the layout of `count` frames that follow one another from byte 0 of a file on."""
        stream = np.array([[0, count * self.layout.stride, 0, 0]], np.int64)
        layout = replace(self.layout, nav_shape=(count,), stream=stream, stored=count, offset=0)
        return replace(layout, chosen=None, order=None)

    @cached_property
    def rows(self) -> np.ndarray:
        """Read ranges of a frame, in bytes from its record on; none beyond `MAX_FRAME_RANGES`."""
        return self.alone(1).read_ranges(Region.whole((1, *self.layout.sig_shape)), MAX_FRAME_RANGES)[0]

    @cached_property
    def lies_as(self) -> LiesAs | None:
        """How the elements of a frame lie in the file; None: they do not follow each other, or have to be decoded."""
        lies = self._decoder.lies_as
        if lies is None or not self.in_order:
            return None
        line = self.layout.sig_shape[-1] if self.layout.sig_shape else 1
        return lies if line % lies.backwards == 0 else None

    @property
    def reversed_bytes(self) -> int | None:
        """So many bytes come in reversed order at a time; put right, they are the elements. 1: they are right.

        None: more must be done than that.
        """
        if self.lies_as is None:
            return None
        stored, backwards = self.lies_as
        width = stored.itemsize // (2 if stored.kind == "c" else 1)
        if backwards == 1:
            return 1 if stored.isnative else width
        return width * backwards if width == 1 or not stored.isnative else None
