"""Finds the head of a set that is still being written: the number of its frames that are whole.

A frame counts when its bytes are there and something proves that it was finished. There is one rule for all formats:

- The next frame of its file has begun, or frames of a later file are there.
- It is the last one of those that the files declare.
- Nobody was seen to write its file for `settle` seconds.

A file that was given its full size at once, or is written in several parts at once, holds frames that nobody has
written. Formats whose frames have headers find those at the end themselves (`vfs.formats.written`), and say what all
others have (`Written.proof`). Of other formats, the size of a file proves nothing: `vfs.live.written_part`
says up to where a file is written. What both do not meet, `vfs.live.doubts` does when it is read.

Blocks (HDF5, compressed images) are found by tables that their writers write behind the blocks, so that what a
table names is whole. The head is in front of the first scan position for which nothing is stored, or of which a part is
to come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import NotYetError
from vfs.kernels.columns import DEST, FILE, NO_LIMIT, S_BYTE, S_FILE, S_START, S_STOP, START, STOP
from vfs.live.file_watch import SEEN
from vfs.live.written_part import SHORT, WrittenPart
from vfs.model.as_scan import as_scan
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, FrameLayout, Scan, altered
from vfs.model.open_options import OpenOptions
from vfs.model.region import Region
from vfs.model.sources import worth_looking
from vfs.model.stored import StoredArray
from vfs.model.written import Proof

WATCHED_FILES = 64
"""Files of a set of which all are looked at, while they are written; of more, the last ones."""
MAX_UNPROVED_RANGES = 1 << 20
"""Read ranges of an array stored in blocks that are gone through for those that nothing proves."""


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


def grown(dataset: StoredArray, options: OpenOptions) -> StoredArray:
    """Return an array of a set that is still being written as far as it is whole.

    Args:
        options: `settle`: seconds without a write after which the last frame of a file counts; `give_up`: after which
            a file counts as it is.
    """
    if not dataset.nav_ndim or dataset.computed:
        return dataset
    held = math.prod(dataset.shape[: dataset.nav_ndim])
    written = dataset.written
    if written.cut_at_end is not None and SEEN.of(dataset.files, written.cut_at_end).cut:
        dataset = dataset.with_written(declared=held, over=held)
    declared = dataset.written.declared
    if dataset.nav_ndim == 1 and declared is not None and declared > held:
        dataset = as_scan(dataset.with_written(head=held), Scan((declared,)))
    layout, part = dataset.layout, WrittenPart(dataset.files, options.settle, options.give_up)
    if not isinstance(layout, FrameLayout):
        if isinstance(layout, BlockLayout):
            return _grown_blocks(dataset, layout, part)
        return dataset.with_written(head=_first_blank(dataset))
    head = min(_written_frames(dataset, layout, part), layout.stored - _unproved(dataset, layout, part))
    if any(one.to_come and (one.refused or one.scattered) for one in dataset.absent):
        head = min(head, _first_blank(dataset))
    shown = altered(dataset, layout=altered(layout, stored=head)).with_written(head=head)
    if len(layout.nav_shape) == 1 and layout.in_order and dataset.written.declared is None:
        length = max(0, head - layout.offset)  # the axis is as long as the head
        shown = altered(
            shown,
            layout=altered(shown.layout, nav_shape=(length,)),
            shape=(length, *dataset.shape[1:]),
        )
    return shown


def _grown_blocks(dataset: StoredArray, layout: BlockLayout, part: WrittenPart) -> StoredArray:
    """Return an array that is stored in blocks as far as it is whole."""
    written = dataset.written
    if written.finished is None:
        stored = _first_blank(dataset)
        count = min(stored, _before(dataset, part))
        dataset = altered(dataset, layout=layout.before(count, dataset.nav_ndim))
        dataset = dataset.with_written(over=min(written.over, count))
        head = _first_blank(dataset)
        return dataset.with_written(head=head, finished=(head, stored))
    finished, held = written.finished
    rested = all(part.seen(k).quiet >= min(part.settle, part.give_up) for k in range(len(dataset.files)))
    head = held if rested else finished
    shown = altered(dataset, layout=layout.before(head, dataset.nav_ndim)).with_written(head=head)
    if dataset.nav_ndim == 1 and written.declared is None:
        shape = (head, *dataset.shape[1:])
        return altered(shown, layout=altered(shown.layout, shape=shape), shape=shape)
    return shown.with_written(head=_first_blank(shown))


def _first_blank(dataset: StoredArray) -> int:
    """Return the first scan position at which something is to come; the number of positions if there is none."""
    valid = dataset.there.reshape(-1)
    return len(valid) if valid.all() else int(valid.argmin())


def _before(dataset: StoredArray, part: WrittenPart) -> int:
    """Return the number of frames in front of the first one that lies where nothing is proved to be written."""
    frames, sig = math.prod(dataset.shape[: dataset.nav_ndim]), math.prod(dataset.shape[dataset.nav_ndim :])
    sizes = dataset.files.sizes.tolist()
    last = [k for k in range(max(0, len(sizes) - WATCHED_FILES), len(sizes)) if sizes[k] > 0]
    unwritten = {k: holes for k in last if (holes := part.holes(k, 0, sizes[k]))}
    # Between the blocks of a file there may be a hole that nobody will ever write
    ends = {k: part.end(k, 0, sizes[k], hole=_last_hole(unwritten.get(k, ()), sizes[k])) for k in last}
    unsure = {k: end for k, end in ends.items() if end < sizes[k]}
    if not (unsure or unwritten) or not sig:
        return frames
    rows, covered = dataset.layout.read_ranges(Region.whole(dataset.shape), MAX_UNPROVED_RANGES)
    if covered < 0:
        return 0
    limits = np.full(len(sizes), NO_LIMIT)
    limits[list(unsure)] = list(unsure.values())
    bad = rows[:, STOP] > limits[rows[:, FILE]]
    for file, holes in unwritten.items():
        first, behind = np.array(holes, np.int64).T
        at = np.searchsorted(behind, rows[:, START], "right")  # the first hole that ends behind the range's beginning
        bad |= (rows[:, FILE] == file) & (np.append(first, NO_LIMIT)[at] < rows[:, STOP])
    return int(rows[bad, DEST].min(initial=frames * sig)) // sig


def _last_hole(holes: Sequence[tuple[int, int]], size: int) -> int | None:
    """Return where the hole at the end of a file begins; None if it does not end with one."""
    return holes[-1][0] if holes and holes[-1][1] >= size else None


def _written_frames(dataset: StoredArray, layout: FrameLayout, part: WrittenPart) -> int:
    """Return the number of frames in front of what is not proved to be written."""
    stream, sizes = layout.stream, dataset.files.sizes.tolist()
    if not len(stream):
        return layout.stored
    limits = np.full(len(sizes), NO_LIMIT)
    last = np.unique(stream[:, S_FILE])[-WATCHED_FILES:].tolist()
    for file in last:
        if sizes[file] < 0:
            continue
        begin = int(stream[stream[:, S_FILE] == file, S_BYTE].min())
        holes = part.holes(file, begin, sizes[file])
        hole = next((first for first, behind in holes if layout.pixels_between(file, first, behind)), None)
        end = sizes[file] if hole is None else hole
        if dataset.written.proof is None:
            end = part.end(file, begin, sizes[file], layout.stride, hole, file != last[-1])
            if _ends_with(stream[stream[:, S_FILE] == file], end, hole) and part.seen(file).quiet >= part.settle:
                end = sizes[file]  # what is behind its frames, such as zeros of FITS, is none of theirs
        if end < sizes[file]:
            limits[file] = end
    starts, stops, bytes_ = stream[:, S_START], stream[:, S_STOP], stream[:, S_BYTE]
    ends = limits[stream[:, S_FILE]]
    bad = bytes_ + (stops - starts) > ends
    head = int((starts[bad] + np.maximum(ends[bad] - bytes_[bad], 0)).min(initial=NO_LIMIT)) // layout.stride
    if (proof := dataset.written.proof) is not None:
        head = min(head, _begun_frames(layout, sizes, part), _proved_frames(proof, dataset.files, layout))
    return min(layout.stored, head)


def _proved_frames(proof: Proof, files: Files, layout: FrameLayout) -> int:
    """Return the number of frames in front of one that has no proof, of those that are looked at."""

    def proved(frame: int) -> bool:
        at = frame * layout.stride
        number = int(np.searchsorted(layout.stream[:, S_STOP], at, "right"))
        if number == len(layout.stream) or at < layout.stream[number, S_START]:  # no file has it
            return True
        row = layout.stream[number]
        byte = int(row[S_BYTE] + at - row[S_START]) + proof.at
        return any(files.sources.read(files.paths[row[S_FILE]], byte, proof.size))

    step, low = max(1, -(-layout.stored // worth_looking(files.sources, WATCHED_FILES))), -1
    for high in range(0, layout.stored, step):
        if not proved(high):
            break
        low = high
    else:
        return layout.stored
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if proved(middle) else (low, middle)
    return high


def _ends_with(stream: np.ndarray, end: int, hole: int | None) -> bool:
    """Return True if the frames of a file end with the bytes that are written, or with a few zeros behind them.

    Args:
        stream: rows of the file.
        end: byte up to which it is written; hole: where a part begins that nobody has written.
    """
    behind = int((stream[:, S_BYTE] + stream[:, S_STOP] - stream[:, S_START]).max())
    return behind - end < SHORT and (hole is None or hole >= behind)


def _begun_frames(layout: FrameLayout, sizes: Sequence[int], part: WrittenPart) -> int:
    """Return the number of frames of which the last one is written, where each tells by itself that it was begun."""
    start, stop, byte, file = (layout.stream.item(-1, column) for column in (S_START, S_STOP, S_BYTE, S_FILE))
    record, end = min(stop - start, layout.stride), byte + stop - start
    if sizes[file] < 0 or part.end(file, end - record, sizes[file], record) >= min(end, sizes[file]):
        return layout.stored
    behind = sizes[file] > end or stop < layout.stored * layout.stride  # `_unproved` says if the last one is finished
    return layout.stored if behind else layout.stored - 1


def _unproved(dataset: StoredArray, layout: FrameLayout, part: WrittenPart) -> bool:
    """Return True if nothing proves yet that the last stored frame was finished."""
    if not layout.stored or not len(layout.stream):
        return False
    file, start, byte = (layout.stream.item(-1, column) for column in (S_FILE, S_START, S_BYTE))
    end = byte + min(layout.stream.item(-1, S_STOP), layout.stored * layout.stride) - start
    if dataset.files.sizes.item(file) > end:
        return False
    seen = part.seen(file)
    declared = dataset.written.declared
    whole = seen.grew and declared is not None and layout.stored >= declared
    return not whole and seen.quiet < min(part.settle, part.give_up)


def progress_of(stored: StoredArray, shown: StoredArray, options: OpenOptions) -> Progress | None:
    """Say how far a set is written.

    Args:
        stored: its main array as it is stored.
        shown: the same as it is shown, in another scan shape perhaps.

    Returns: None if it cannot grow.

    Raises:
        NotYetError: no frame is there.
    """
    written, head, declared = stored.written, stored.written.head, stored.written.declared
    if head is None:
        return None
    if not head:
        zeros = "" if written.proof else "; frames of zeros at the end of a file count as not written"
        raise NotYetError(f"{stored.files.paths[0]}: no frame of {stored.path} is whole yet{zeros}")
    layout = stored.layout
    more = written.finished is not None and head < written.finished[1]
    unsettled = more or (isinstance(layout, FrameLayout) and _has_more(layout))
    if options.nav_shape is not None:
        needed = shown.layout.last_frame(Region.whole(shown.shape), shown.nav_ndim) + 1
        return Progress(min(head, needed), needed, False, unsettled)
    if declared is not None:
        return Progress(min(head, declared), declared, False, unsettled)
    return Progress(head, None, True, unsettled)


def check_rested(files: Files, options: OpenOptions) -> None:
    """Check that nobody writes the file of a set that has no frames: its frames may come still.

    A program or a copy that gives an HDF5 file its full size may have written some of its arrays only.

    Raises:
        NotYetError: it was written within `settle` seconds, or a part of it that nobody has written is known.
    """
    part, size = WrittenPart(files, options.settle, options.give_up), files.sizes.item(0)
    holes = part.holes(0, 0, size)
    if part.seen(0).quiet < min(options.settle, options.give_up) or holes or part.end(0, 0, size) < size:
        raise NotYetError(
            f"{files.paths[0]}: no array in it has frames yet; if none will have, it opens when nobody has written it"
            f" for {options.settle:g} s"
        )


def _has_more(layout: FrameLayout) -> bool:
    """Return True if the files hold the bytes of the frame behind the head."""
    starts, stops, first = layout.stream[:, S_START], layout.stream[:, S_STOP], layout.stored * layout.stride
    return all(((starts <= at) & (at < stops)).any() for at in (first, first + layout.stride - 1))
