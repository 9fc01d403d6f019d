"""Equal frames one after the other, in files that each begin with some bytes that are none: from `frames` to a `FrameLayout`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vfs.dataset import Dataset, Files
from vfs.decode import PlainDecoder
from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.description.arrays import Common
from vfs.formats.description.schema import MOST, Value
from vfs.layout import BlockLayout, FrameLayout

_OPTIONAL = ("header", "footer", "first", "per_file", "first_frame", "file", "payload", "pieces", "running_on", "stored", "sync_offset")
_NOT_RUNNING_ON = ("per_file", "first_frame", "file", "payload", "pieces")
_MOST_PIECES = 1 << 16
_FAR = 1 << 48  # bytes: more than any file has, and far from where sums overflow


def frames_array(path: str, common: Common, members: Mapping[str, Value], files: Files, group: Mapping[str, Any]) -> Dataset:
    """The array of a description with `frames`.

    Raises:
        FormatError: a member is not what it should be, or there are not as many frames as `shape` says.
        TruncatedSourceError: a file ends before its last frame does.
    """
    whole = members["frames"]
    given = whole.members((), _OPTIONAL)
    nav, sig = common.shape[: len(common.shape) - common.sig_ndim], common.shape[len(common.shape) - common.sig_ndim :]
    if 0 in common.shape:
        members["shape"].fail("expected 1 element or more along every axis of frames")
    running = "running_on" in given and given["running_on"].flag()
    for name in _NOT_RUNNING_ON:
        if running and name in given:
            given[name].fail("does not go with running_on, where every file is full of frames")
    try:
        layout = _running_on(given, common, sig, files) if running else _apart(given, common, sig, files)
    except TruncatedSourceError:
        raise
    except FormatError as error:
        if str(error).startswith(whole.file):
            raise
        raise FormatError(f"{whole.file}: frames: {error}") from None
    wanted = given["stored"].integer() if "stored" in given else math.prod(nav)
    if layout.stored < wanted:
        kind = TruncatedSourceError if layout.stored else FormatError
        place = given.get("stored", members["shape"])
        place.fail(f"expected {wanted:,} frames, the files have {layout.stored:,}; where not all of them are there, say in frames.stored how many", kind)
    offset = given["sync_offset"].integer(-_FAR, _FAR) if "sync_offset" in given else 0
    return common.dataset(path, files, layout.arranged(nav, offset), PlainDecoder(common.dtype), group)


def _bytes(given: Mapping[str, Value], name: str) -> int:
    return given[name].integer(0, _FAR) if name in given else 0


def _running_on(given: Mapping[str, Value], common: Common, sig: tuple[int, ...], files: Files) -> FrameLayout:
    first, header, footer = (_bytes(given, name) for name in ("first", "header", "footer"))
    width = common.dtype.itemsize
    return FrameLayout.running_on(sig, files.sizes, word_bytes=width, file_header=first, frame_header=header, frame_footer=footer, names=files.paths)


def _apart(given: Mapping[str, Value], common: Common, sig: tuple[int, ...], files: Files) -> FrameLayout:
    """Files that hold whole frames."""
    width = common.dtype.itemsize
    which = given["file"].integers(0, high=len(files) - 1) if "file" in given else np.arange(len(files))
    header, footer = _bytes(given, "header"), _bytes(given, "footer")
    payload = given["payload"].integer(width, _FAR) if "payload" in given else math.prod(sig) * width
    pieces = _pieces(given["pieces"], sig, payload // width) if "pieces" in given else None
    if pieces is None and payload < math.prod(sig) * width:
        given["payload"].fail(f"a frame of {list(sig)} {common.dtype} has {math.prod(sig) * width:,} bytes, found {payload:,}")
    stride = header + payload + footer
    first = _each(given["first"], len(which), _FAR) if "first" in given else np.zeros(len(which), np.int64)
    room = np.maximum(files.sizes[which] - first + footer, 0) // stride  # the last footer may be missing
    counts = room
    if "per_file" in given:
        value = given["per_file"]
        counts = _each(value, len(which), _FAR)
        if isinstance(value.value, list):
            short = np.flatnonzero(counts > room)
            if len(short):
                i = int(short[0])
                message = f"expected {counts[i]:,} frames of {stride:,} bytes from byte {first[i]:,} on, the file has room for {room[i]:,}; it looks truncated"
                value.inside(i, None).fail(f"{files.paths[which[i]]}: {message}", TruncatedSourceError)
        counts = np.minimum(counts, room)  # one number for all: the last file may have fewer
    begin = given["first_frame"].integers(0, len(which), _FAR) if "first_frame" in given else None
    last = int((counts if begin is None else begin + counts).max(initial=0)) * stride
    if last > MOST or int(counts.sum()) * stride > MOST:
        raise FormatError(f"{last // stride:,} frames of {stride:,} bytes are more than 2^63 bytes")
    return FrameLayout.of(
        sig,
        counts,
        word_bytes=width,
        payload=payload,
        file_header=first,
        frame_header=header,
        frame_footer=footer,
        first=begin,
        files=which,
        pieces=pieces,
    )


def _each(value: Value, count: int, high: int) -> np.ndarray:
    """A number for every file: one for all, or a list of them."""
    if isinstance(value.value, list):
        return value.integers(0, count, high)
    return np.full(count, value.integer(0, high), np.int64)


def _pieces(value: Value, sig: tuple[int, ...], held: int) -> np.ndarray:
    """What a frame is made of, see `vfs.kernels.planning.box_rows`; `held` elements are stored of each frame."""
    k = len(sig)
    given = value.items()
    if not 1 <= len(given) <= _MOST_PIECES:
        value.fail(f"expected 1 to {_MOST_PIECES:,} pieces, found {len(given):,}")
    rows = np.zeros((len(given), 3 * k + 2), np.int64)
    for row, piece in zip(rows, given, strict=True):
        members = piece.members(("origin", "shape", "strides", "first"))
        origin, shape, strides = members["origin"].integers(0, k), members["shape"].integers(1, k), members["strides"].integers(-_FAR, k, _FAR)
        first = members["first"].integer()
        low = first + sum(min(0, (n - 1) * s) for n, s in zip(shape.tolist(), strides.tolist(), strict=True))
        high = first + sum(max(0, (n - 1) * s) for n, s in zip(shape.tolist(), strides.tolist(), strict=True))
        if low < 0 or high >= held:
            piece.fail(f"reaches from element {low:,} to {high:,} of a frame that has {held:,} in the file")
        row[: 3 * k + 1] = [*origin, *shape, *strides, first]
    zero = np.zeros(len(rows), np.int64)
    try:
        BlockLayout.of(sig, rows[:, :k], rows[:, k : 2 * k], zero, zero, check_overlap=True)
    except FormatError as error:
        value.fail(str(error).replace("block", "piece").replace("array", "frame"))
    return rows
