"""Turns `frames` into a `FrameLayout`: equal frames one after the other, behind a header of each file."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vfs.errors import FormatError, MissingSourceError, TruncatedSourceError
from vfs.formats.description.arrays import Common
from vfs.formats.description.schema import MAX_INTEGER, Keys, Members, Value
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable, FrameLayout, FrameRecord, Scan
from vfs.model.stored import Absence, StoredArray

FRAMES = Keys(
    header=0,
    footer=0,
    first=0,
    per_file=None,
    first_frame=None,
    file=None,
    payload=None,
    pieces=None,
    running_on=False,
    stored=None,
    sync_offset=0,
)
PIECE = Keys("origin", "shape", "strides", "first")
_NOT_RUNNING_ON = ("per_file", "first_frame", "file", "payload", "pieces")
_MAX_PIECES = 1 << 16
_FAR = 1 << 48  # bytes: more than any file has, and far below where sums overflow


def frames_array(common: Common, members: Members) -> StoredArray:
    """Make the array of a description with `frames`.

    Raises:
        FormatError: a member is not valid, or the number of frames is not that of `shape`.
        MissingSourceError, TruncatedSourceError: a file is missing or ends before its last frame,
            and the places of the other frames are not known.
    """
    whole = members["frames"]
    given = whole.members(FRAMES)
    nav, sig = common.shape[: len(common.shape) - common.sig_ndim], common.shape[len(common.shape) - common.sig_ndim :]
    if 0 in common.shape:
        members["shape"].fail("expected 1 element or more along every axis of frames")
    running = given.read("running_on", Value.flag)
    for name in _NOT_RUNNING_ON:
        if running and name in given:
            given[name].fail("does not go with running_on, which needs files that are full of frames")
    try:
        found = (_running_on if running else _in_each_file)(given, common, sig, common.files)
    except FormatError as error:
        if str(error).startswith(whole.file):
            raise
        raise FormatError(f"{whole.file}: frames: {error}") from None
    if common.lost and not found.placed:
        raise MissingSourceError(common.lost[0].said)
    layout, absent = found.layout, [found.short] if found.short else []
    wanted = given["stored"].integer() if "stored" in given else math.prod(nav)
    if layout.stored < wanted:
        place = given.get("stored", members["shape"])
        message = (
            f"expected {wanted:,} frames, the files have {layout.stored:,}; if fewer are stored than the shape has, say"
            " in frames.stored how many"
        )
        if not layout.stored or not found.placed:
            place.fail(message, TruncatedSourceError if layout.stored else FormatError)
        absent.append(place.line(message))
    offset = given.read("sync_offset", lambda value: value.integer(-_FAR, _FAR))
    missing = {"frames_missing": max(0, wanted - layout.stored) + found.missing}
    told = [*common.lost, *(Absence(said, TruncatedSourceError, "shows them as blank") for said in absent)]
    if told and missing["frames_missing"]:
        told[-1] = replace(told[-1], counts={**told[-1].counts, **missing})
    return common.dataset(layout.arranged(Scan(nav, offset)), PlainDecoder(common.dtype), tuple(told))


class _Found(NamedTuple):
    """Holds the frames that were found in the files.

    Attributes:
        layout: the layout of the frames.
        short: a line about the first file that ends before its last frame; "" if none does.
        missing: number of frames that are not stored, in front of the last stored one.
        placed: True if the place of each file in the array is known, even if others are missing or
            cut.
    """

    layout: FrameLayout
    short: str
    missing: int
    placed: bool


def _bytes(value: Value) -> int:
    return value.integer(0, _FAR)


def _running_on(given: Members, common: Common, sig: tuple[int, ...], files: Files) -> _Found:
    first, header, footer = (given.read(name, _bytes) for name in ("first", "header", "footer"))
    width = common.dtype.itemsize
    layout = FrameLayout.running_on(
        FrameRecord(sig, width, header=header, footer=footer), files.sizes, file_header=first, names=files.paths
    )
    return _Found(layout, "", 0, len(files) == 1)


def _in_each_file(given: Members, common: Common, sig: tuple[int, ...], files: Files) -> _Found:
    """Find the frames in files that hold whole frames."""
    width = common.dtype.itemsize
    which = given["file"].integers(0, high=len(files) - 1) if "file" in given else np.arange(len(files))
    header, footer = given.read("header", _bytes), given.read("footer", _bytes)
    payload = given["payload"].integer(width, _FAR) if "payload" in given else math.prod(sig) * width
    pieces = _pieces(given["pieces"], sig, payload // width) if "pieces" in given else None
    if pieces is None and payload < math.prod(sig) * width:
        given["payload"].fail(
            f"a frame of {list(sig)} {common.dtype} has {math.prod(sig) * width:,} bytes, found {payload:,}"
        )
    stride = header + payload + footer
    first = _each(given["first"], len(which), _FAR) if "first" in given else np.zeros(len(which), np.int64)
    room = np.maximum(files.sizes[which] - first + footer, 0) // stride  # the last footer may be missing
    gone = files.sizes[which] < 0
    counts, known = _counts(given.get("per_file"), room, gone)
    held = np.minimum(counts, room)
    begin = given["first_frame"].integers(0, len(which), _FAR) if "first_frame" in given else None
    last = sum(counts.tolist()) if begin is None else int((begin + held).max(initial=0))
    if last * stride > MAX_INTEGER or int(held.sum()) * stride > MAX_INTEGER:
        raise FormatError(f"{last:,} frames of {stride:,} bytes are more than 2^63 bytes")
    begin = counts.cumsum() - counts if begin is None else begin
    layout = FrameLayout.of(
        FrameRecord(sig, width, payload=payload, header=header, footer=footer, pieces=pieces),
        held,
        file_header=first,
        first=begin,
        files=which,
    )
    missing = np.minimum(begin + counts, layout.stored) - np.minimum(begin + held, layout.stored)
    short = np.flatnonzero((counts > held) & ~gone)
    if not len(short):
        return _Found(layout, "", int(missing.sum()), known or "first_frame" in given)
    i, value = int(short[0]), given["per_file"]
    message = (
        f"expected {counts[i]:,} frames of {stride:,} bytes from byte {first[i]:,} on, the file has room for"
        f" {room[i]:,}; it looks truncated"
    )
    place = value.inside(i, None) if isinstance(value.value, list) else value
    return _Found(layout, place.line(f"{files.paths[which[i]]}: {message}"), int(missing.sum()), True)


def _counts(per_file: Value | None, room: np.ndarray, gone: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the number of frames that each file should have.

    Args:
        room: int64[n], number of frames for which each file has room.
        gone: bool[n], True if the file is missing.

    Returns: (counts, True if they also hold for files that are cut or missing).
    """
    if per_file is not None:
        counts = _each(per_file, len(room), _FAR)
        if not isinstance(per_file.value, list) and len(room) and not gone[-1]:
            counts[-1] = min(counts[-1], room[-1])  # one number for all: the last file may have fewer
        return counts, True
    usual = int(room.max(initial=0))
    return np.where(gone, usual, room), bool((room[:-1] == usual)[~gone[:-1]].all())


def _each(value: Value, count: int, high: int) -> np.ndarray:
    """Read a number for every file, given as one number for all or as a list."""
    if isinstance(value.value, list):
        return value.integers(0, count, high)
    return np.full(count, value.integer(0, high), np.int64)


def _pieces(value: Value, sig: tuple[int, ...], held: int) -> np.ndarray:
    """Read the pieces of a frame, see `vfs.kernels.planning.box_rows`.

    Args:
        held: elements that are stored of each frame.
    """
    k = len(sig)
    given = value.items()
    if not 1 <= len(given) <= _MAX_PIECES:
        value.fail(f"expected 1 to {_MAX_PIECES:,} pieces, found {len(given):,}")
    rows = np.zeros((len(given), 3 * k + 2), np.int64)
    for row, piece in zip(rows, given, strict=True):
        members = piece.members(PIECE)
        origin, shape, strides = (
            members["origin"].integers(0, k),
            members["shape"].integers(1, k),
            members["strides"].integers(-_FAR, k, _FAR),
        )
        first = members["first"].integer()
        low = first + sum(min(0, (n - 1) * s) for n, s in zip(shape.tolist(), strides.tolist(), strict=True))
        high = first + sum(max(0, (n - 1) * s) for n, s in zip(shape.tolist(), strides.tolist(), strict=True))
        if low < 0 or high >= held:
            piece.fail(f"reaches from element {low:,} to {high:,} of a frame that has {held:,} in the file")
        row[: 3 * k + 1] = [*origin, *shape, *strides, first]
    zero = np.zeros(len(rows), np.int64)
    try:
        BlockLayout.of(sig, BlockTable(rows[:, :k], rows[:, k : 2 * k], zero, zero)).check_apart()
    except FormatError as error:
        value.fail(str(error).replace("block", "piece").replace("array", "frame"))
    return rows
