"""Finds the head of a set that is still being written: the number of its frames that are whole.

A frame counts when its bytes are there and something proves that it was finished. There is one rule for all formats:

- The next frame of its file has begun, or frames of a later file are there.
- It is the last one of those that the files declare.
- Its file has not been written for `settle` seconds.

A file that was given its full size at once holds frames that nobody has written. Formats whose frames have headers
find these themselves (`vfs.formats.written`): such frames are not there. Of other formats, the size of a file proves
nothing before it was seen to become longer; the file system knows the part that nobody has written, unless zeros were
written there.

Blocks (HDF5, compressed images) are found by tables that their writers write behind the blocks, so that what a
table names is whole. The head is in front of the first scan position for which nothing is stored.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import NotYetError
from vfs.kernels.columns import DEST, FILE, NO_LIMIT, S_BYTE, S_FILE, S_START, S_STOP, STOP
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, altered
from vfs.model.open_options import OpenOptions
from vfs.model.region import Region
from vfs.model.stored import StoredArray
from vfs.sources.local import LocalSources

FEW = 64
"""Files of a set of which all are looked at, while they are written; of more, the last ones."""


MARGIN = 1 << 16
"""Bytes in front of a part that nobody has written which may not be written either: file systems know blocks."""


MOST = 1 << 20  # read ranges of an array stored in blocks of which those are looked for that are not proved


class Quiet(NamedTuple):
    """What is known of the writing of a file.

    Attributes:
        seconds: for so long it has not been written.
        grew: it was seen to become longer, so that its size tells how far it is written.
    """

    seconds: float
    grew: bool


Rest = Callable[[Files, int], Quiet]
"""Says what is known of the writing of a file, of which the index is given."""


def at_rest(files: Files, file: int) -> Quiet:
    """Say for how long a file has not been written, as far as its time of writing tells."""
    return Quiet(max(0.0, time.time() - int(files.written[file]) / 1e9), False)


@dataclass(frozen=True)
class Progress:
    """Says how far a set is written.

    Attributes:
        frames: number of frames that are whole.
        of: number of frames that there will be; None if nothing says so.
        grows: True if the first axis of the main array is as long as the set is now, and grows with it.
        unsettled: True if one more frame counts when nobody writes for a while.
    """

    frames: int
    of: int | None
    grows: bool
    unsettled: bool

    @property
    def complete(self) -> bool:
        """True if all frames are there that there will be."""
        return self.of is not None and self.frames >= self.of

    def __str__(self) -> str:
        """Say it to people: "812 of 65,536 frames are written"."""
        of = f" of {self.of:,}" if self.of is not None else ""
        return f"{self.frames:,}{of} {'frame is' if self.frames == 1 and not of else 'frames are'} written"

    def said(self) -> dict[str, Any]:
        """Return the attribute `live` of the root group."""
        return {"frames": self.frames, "of": self.of, "complete": self.complete}


def grown(dataset: StoredArray, settle: float, rest: Rest) -> StoredArray:
    """Return an array of a set that is still being written as far as it is whole.

    Args:
        settle: seconds without a write after which the last frame of a file counts.
        rest: says what is known of the writing of a file.
    """
    if not dataset.nav_ndim or dataset.computed:
        return dataset
    held = math.prod(dataset.shape[: dataset.nav_ndim])
    if dataset.nav_ndim == 1 and dataset.declared is not None and dataset.declared > held:
        dataset = altered(dataset, head=held).arranged((dataset.declared,))
    layout = dataset.layout
    unsure = {} if dataset.proved else _unsure(dataset.files, settle, rest)
    if not isinstance(layout, FrameLayout):
        return altered(dataset, head=min(_first_blank(dataset), _before(dataset, unsure)))
    head = layout.stored - _unproved(dataset.files, layout, dataset.declared, settle, rest)
    if any(one.to_come and one.refused for one in dataset.absent):
        head = min(head, _first_blank(dataset))
    for file, start, stop, byte in layout.stream[:, (S_FILE, S_START, S_STOP, S_BYTE)].tolist() if unsure else ():
        if byte + stop - start > unsure.get(file, stop - start + byte):
            head = min(head, max(0, start + unsure[file] - byte) // layout.stride)
    shown = altered(dataset, layout=altered(layout, stored=head), head=head)
    if len(layout.nav_shape) == 1 and layout.in_order and dataset.declared is None:
        length = max(0, head - layout.offset)  # the axis is as long as the head
        shown = altered(
            shown,
            layout=altered(shown.layout, nav_shape=(length,)),
            shape=(length, *dataset.shape[1:]),
        )
    return shown


def _first_blank(dataset: StoredArray) -> int:
    """Return the first scan position for which nothing is stored; the number of positions if there is none."""
    valid = dataset.valid.reshape(-1)
    return len(valid) if valid.all() else int(valid.argmin())


def _unsure(files: Files, settle: float, rest: Rest) -> dict[int, int]:
    """Return files that may have been given their full size at once: file -> byte from which on nothing is proved.

    Where the file system knows the first part that nobody has written, it is in front of that. Else a file that was
    seen to become longer is written up to its end.
    """
    found = {}
    for file in range(len(files) - 1, max(-1, len(files) - FEW - 1), -1):
        size = int(files.sizes[file])
        quiet = rest(files, file)
        if size < 0 or quiet.seconds >= settle:
            continue
        hole = first_hole(files.paths[file]) if isinstance(files.sources, LocalSources) else -1
        if hole < 0 and quiet.grew:
            continue
        found[file] = (size if hole < 0 else hole) - MARGIN
    return found


def _before(dataset: StoredArray, unsure: Mapping[int, int]) -> int:
    """Return the number of frames in front of the first one that lies in a part of a file of which nothing is proved.

    Args:
        unsure: see `_unsure`.
    """
    frames, sig = math.prod(dataset.shape[: dataset.nav_ndim]), math.prod(dataset.shape[dataset.nav_ndim :])
    if not unsure or not sig:
        return frames
    rows, covered = dataset.layout.read_ranges(Region.whole(dataset.shape), MOST)
    if covered < 0:
        return 0
    limits = np.full(len(dataset.files), NO_LIMIT)
    limits[list(unsure)] = list(unsure.values())
    bad = rows[:, STOP] > limits[rows[:, FILE]]
    return int(rows[bad, DEST].min(initial=frames * sig)) // sig


def first_hole(path: str) -> int:
    """Return the byte of a file at which the first part begins that nobody has written; -1 where there is none."""
    try:
        with open(path, "rb", buffering=0) as file:
            hole, end = os.lseek(file.fileno(), 0, os.SEEK_HOLE), os.lseek(file.fileno(), 0, os.SEEK_END)
    except (OSError, ValueError):  # file systems that do not know
        return -1
    return hole if hole < end else -1


def _unproved(files: Files, layout: FrameLayout, declared: int | None, settle: float, rest: Rest) -> bool:
    """Return True if nothing proves yet that the last stored frame was finished."""
    if not layout.stored or not len(layout.stream):
        return False
    file, start, byte = (layout.stream.item(-1, column) for column in (S_FILE, S_START, S_BYTE))
    end = byte + min(layout.stream.item(-1, S_STOP), layout.stored * layout.stride) - start
    if files.sizes.item(file) > end:
        return False
    quiet = rest(files, file)
    whole = quiet.grew and declared is not None and layout.stored >= declared
    return not whole and quiet.seconds < settle


def progress_of(stored: StoredArray, shown: StoredArray, options: OpenOptions) -> Progress | None:
    """Say how far a set is written.

    Args:
        stored: its main array as it is stored.
        shown: the same as it is shown, in another scan shape perhaps.

    Returns: None if it cannot grow.

    Raises:
        NotYetError: no frame is there.
    """
    if stored.head is None:
        return None
    if not stored.head:
        raise NotYetError(f"{stored.files.paths[0]}: no frame of {stored.path} is whole yet")
    layout = stored.layout
    unsettled = isinstance(layout, FrameLayout) and _has_more(stored, layout)
    if options.nav_shape is not None:
        needed = shown.layout.last_frame(Region.whole(shown.shape), shown.nav_ndim) + 1
        return Progress(min(stored.head, needed), needed, False, unsettled)
    if stored.declared is not None:
        return Progress(min(stored.head, stored.declared), stored.declared, False, unsettled)
    return Progress(stored.head, None, True, unsettled)


def _has_more(dataset: StoredArray, layout: FrameLayout) -> bool:
    """Return True if the files hold the bytes of a frame behind the head."""
    return bool(np.any(layout.stream[-1:, S_STOP] >= (layout.stored + 1) * layout.stride))
