"""Finds out which frames of an HDF5 file are whole while a program writes it with SWMR.

libhdf5 writes a chunk, and then its place into the index. So a chunk without a place is not written. One with a place
may have been passed on half: it is finished when a chunk exists that begins behind its last frame. A chunk of one frame
is also finished when nobody writes any more. One of several frames is not: a program that pauses may have written some
of them. What nothing proves is left out until the file is closed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vfs.errors import FormatError
from vfs.formats.hdf5.pieces import Blocks, StoredData
from vfs.h5.facts import Data, LeftOutError, Survey
from vfs.model.stored import Absence
from vfs.model.wording import option


def check(data: Data, known: Survey) -> None:
    """Check that frames of a data set can be told from those that nobody has written.

    Raises:
        LeftOutError: its file is being written, and they cannot.
    """
    sources = [known.sources[mapped.source] for mapped in data.mapped]
    if not known.growing or not any(one.file in known.growing for one in (data, *sources)):
        return
    if data.kind in ("virtual", "external"):
        if any(one.file in known.growing for one in sources) or data.kind == "external":
            raise LeftOutError("it takes its elements from files that are being written")
    elif data.kind == "chunked":
        if data.early:
            raise LeftOutError(
                "it is being written, and its chunks got their places before that: nothing tells which are written"
            )
        cells = math.prod(-(-n // c) for n, c in zip(data.shape, data.chunk, strict=True))
        if len(data.shape) < 3 and (data.grows or len(data.table) < cells):
            raise LeftOutError("it is being written, and has no frames that would tell how far")


def proved(entry: StoredData, nav_ndim: int) -> tuple[int, int]:
    """Return how many frames are finished by now, and how many if nobody writes any more."""
    blocks, nav = entry.blocks, entry.shape[:nav_ndim]
    if blocks is None or not math.prod(entry.shape) or not len(blocks.origins):
        return 0, 0
    first = np.ravel_multi_index(tuple(blocks.origins[:, :nav_ndim].T), nav)
    last = np.ravel_multi_index(tuple((blocks.origins + blocks.shapes)[:, :nav_ndim].T - 1), nav)
    held = _before_holes(blocks, entry.shape, nav_ndim)
    passed = min(held, int(first[last >= first.max()].min()))
    return passed, held if math.prod(entry.chunk[:nav_ndim]) == 1 else passed


def _before_holes(blocks: Blocks, shape: Sequence[int], nav_ndim: int) -> int:
    """Return the number of frames in front of the first chunk that does not exist."""
    grid = tuple(-(-n // c) for n, c in zip(shape, blocks.pitch, strict=True))
    there = np.zeros(grid, bool)
    there[tuple((blocks.origins // np.array(blocks.pitch)).T)] = True
    nav = grid[:nav_ndim]
    holes = np.flatnonzero(~there.reshape(*nav, -1).all(axis=-1))
    if not len(holes):
        return math.prod(shape[:nav_ndim])
    places = np.stack(np.unravel_index(holes, nav)) * np.array(blocks.pitch[:nav_ndim])[:, None]
    return int(np.ravel_multi_index(tuple(places), tuple(shape[:nav_ndim])).min())


def being_written(known: Survey) -> list[Absence]:
    """Report the files that a program is writing: whoever does not follow them would see a part as the fill value."""
    return [
        Absence(
            f"{path}: {said}; {option(follow=True)} shows it as it grows",
            FormatError,
            "shows what is in the file",
            to_come=True,
        )
        for path, said in list(known.growing.items())[:1]
    ]
