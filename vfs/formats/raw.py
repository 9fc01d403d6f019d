"""Reads raw binary: equal frames of plain numbers, with or without headers, in any number of files.

There is no specification and nothing to detect: the user describes the numbers::

    file:   | file_header | record 0 | record 1 | …
    record: | frame_header | frame: pixels, C order | frame_footer |

The only check of headers and shape is that they divide the files evenly. Bytes beyond the last
whole record of a file (with `running_on=True`, of the whole set) are an error, which proposes
options that would fit. Only the last record's footer may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from vfs.errors import FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.numbering import joined
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan
from vfs.model.layout.scan_order import surplus
from vfs.model.options import dtype_option, shape_option
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, scan_array
from vfs.model.wording import format_option, shown
from vfs.model.written import Written

_MAX_TRIED = 4096  # most bytes of a frame header that a message proposes
_FAR = 1 << 60  # bytes: more than any file has, and far below where sums overflow


def open(
    paths: Sequence[str],
    sources: Sources,
    *,
    stored_dtype: Any = None,
    sig_shape: int | str | Sequence[int] | None = None,
    shape: int | str | Sequence[int] | None = None,
    file_header: int = 0,
    frame_header: int = 0,
    frame_footer: int = 0,
    byte_order: Literal["little", "big", "<", ">"] | None = None,
    running_on: bool = False,
) -> list[StoredArray]:
    """Open raw files.

    Args:
        stored_dtype: type of the pixels in the file, as numpy writes it (uint16 or u2, <f4, >i4 …); without it, `dtype`
            has this meaning
        sig_shape: shape of a frame, such as 256,256; the number of frames follows from the files'
            sizes
        shape: shape of the whole array, instead of sig_shape, navigation axes first; the last two
            axes are a frame; as many frames must be stored
        file_header: bytes before the first record of every file
        frame_header: bytes before every frame
        frame_footer: bytes after every frame
        byte_order: little or big; replaces that of stored_dtype
        running_on: true if frames run on from the end of a file to the beginning of the next one

    Raises:
        OptionError: an option is missing or does not fit.
        FormatError: there is not a single whole frame.
        MissingSourceError, SourceError: a file cannot be opened.
    """
    dtype, sig, whole = _described(paths[0], stored_dtype, sig_shape, shape, byte_order)
    decoder = PlainDecoder(dtype)
    for name, value in (("file_header", file_header), ("frame_header", frame_header), ("frame_footer", frame_footer)):
        if not 0 <= value < _FAR:
            raise OptionError(
                f"{format_option(**{name: value})}: expected a number of bytes, 0 or more, and fewer than any file has"
            )
    files = Files.stat(sources, paths)
    size = math.prod(sig) * dtype.itemsize
    record = frame_header + size + frame_footer
    if record >= _FAR:
        raise OptionError(f"a frame {shown(sig)} of {dtype} has more bytes than any file has")
    heads = (file_header, frame_header, frame_footer)
    layout, absent = _frames(sources, files, sig, dtype.itemsize, heads, running_on)
    if layout.stored == 0:
        raise FormatError(
            f"{files.paths[0]}: expected at least one record of {record:,} bytes (frame {sig} of {dtype}), the largest"
            f" file has {int(files.sizes.max(initial=0)):,} bytes"
        )
    empty = _empty(files, file_header, running_on)
    absent = _left_over(files, heads, size, dtype.itemsize, running_on) + empty + absent
    if whole is not None:
        absent += _unequal(files.paths[0], whole, layout.stored)
        layout = layout.arranged(Scan(whole[:-2]))
    names = ("y", "x") if len(sig) == 2 else ("x",) if len(sig) == 1 else tuple(f"sig_{k}" for k in range(len(sig)))
    attrs = {"stored_dtype": dtype.str, "frames": layout.stored}
    written = Written(None if whole is None else math.prod(whole[:-2]))
    return [scan_array(files, layout, decoder, dims=names, attrs=attrs, absent=absent, written=written)]


def _frames(
    sources: Sources, files: Files, sig: tuple[int, ...], width: int, heads: tuple[int, int, int], running_on: bool
) -> tuple[FrameLayout, tuple[Absence, ...]]:
    """Lay out the frames along one axis, and report the files that their numbers say are missing.

    Args:
        width: bytes of a pixel.
        heads: bytes of the file header, frame header and footer.
    """
    file_header, frame_header, footer = heads
    record = FrameRecord(sig, width, header=frame_header, footer=footer)
    if running_on:
        layout = FrameLayout.running_on(record, files.sizes, file_header=file_header, names=files.paths)
        # If counts differ, the place of a lost file's frames is unknown
        return layout, joined(sources, files.paths, np.arange(len(files))).absent
    counts = (np.maximum(files.sizes - file_header, 0) + footer) // record.stride  # the last footer may be missing
    series = joined(sources, files.paths, counts)
    first = None if len(counts) == 1 else series.first
    layout = FrameLayout.of(record, counts, file_header=file_header, first=first)
    return layout, series.absent


def _described(
    path: str, stored_dtype: Any, sig_shape: Any, shape: Any, byte_order: str | None
) -> tuple[np.dtype, tuple[int, ...], tuple[int, ...] | None]:
    """Return what the options say of the numbers: (dtype, shape of a frame, shape of the whole array or None).

    Raises:
        OptionError: an option is missing or does not fit.
    """
    if stored_dtype is None:
        raise OptionError(f"{path}: raw data needs the dtype of its pixels, such as {format_option(stored_dtype='u2')}")
    if (shape is None) == (sig_shape is None):
        raise OptionError(
            f"{path}: raw data needs either the shape of a frame, such as"
            f" {format_option(sig_shape=(256, 256))}, or of the whole array, such as"
            f" {format_option(shape=(40, 256, 256))}"
        )
    dtype = dtype_option(stored_dtype, format_option, "stored_dtype")
    if byte_order is not None:
        dtype = dtype.newbyteorder(">" if byte_order in ("big", ">") else "<")
    whole = None if shape is None else shape_option(shape, "shape")
    sig = shape_option("" if sig_shape is None else sig_shape, "sig_shape") if whole is None else whole[-2:]
    if whole is not None and math.prod(whole) * dtype.itemsize >= 1 << 63:
        raise OptionError(f"{format_option(shape=shape)}: an array of {dtype} has more than 2^63 bytes")
    if len(sig) > 8:
        raise OptionError(f"sig_shape has {len(sig)} axes, expected at most 8")
    return dtype, sig, whole


def _left_over(
    files: Files, heads: tuple[int, int, int], size: int, width: int, running_on: bool
) -> tuple[Absence, ...]:
    """Report the bytes of the files that belong to no frame.

    Args:
        heads: bytes of the file header, frame header and footer.
        size: bytes of a frame.
        width: bytes of a pixel.
    """
    rests = _rests(files.sizes, heads, size, running_on)
    odd = np.flatnonzero(rests)
    if not len(odd):
        return ()
    file, record = int(odd[0]), sum(heads) - heads[0] + size
    others = (
        f", as do {len(odd) - 1:,} other files" if len(odd) > 2 else ", as does 1 other file" if len(odd) == 2 else ""
    )
    said = (
        f"{files.paths[file]}: expected whole records of {record:,} bytes, it leaves {int(rests[file]):,} bytes"
        f" over{others}"
    )
    fits = _what_fits(files.sizes, heads, size, width, running_on)
    said += f"; {' or '.join(fits)} would fit" if fits else ""
    cut = file == len(files) - 1
    if cut:
        said += "; perhaps it was cut within a record"
    kind = TruncatedSourceError if cut and not fits else FormatError
    allowed = "leaves these bytes out" + ("" if cut else ", which may shift pixels")
    return (Absence(said, kind, allowed, {"bytes_left_over": int(rests.sum())}, to_come=cut),)


def _rests(sizes: np.ndarray, heads: tuple[int, int, int], size: int, running_on: bool) -> np.ndarray:
    """Count the bytes in each file that belong to no record: int64[n]."""
    file_header, frame_header, footer = heads
    record = frame_header + size + footer
    bodies = sizes - file_header
    if running_on:
        rest = np.zeros_like(bodies)
        rest[-1] = np.maximum(bodies, 0).sum() % record
        return np.where((rest >= record - footer), 0, rest)
    rest = np.where(bodies < 0, sizes, bodies % record)
    rest[(bodies >= 0) & (rest >= record - footer)] = 0
    return rest


def _what_fits(sizes: np.ndarray, heads: tuple[int, int, int], size: int, width: int, running_on: bool) -> list[str]:
    """Return options with which all files divide evenly. Only obvious values are tried."""
    file_header, frame_header, footer = heads
    record = frame_header + size + footer
    fits = []
    # Running on must not cut a pixel in two; with frame headers, `open` reports that itself
    whole_pixels = not ((sizes[:-1] - file_header).cumsum() % record % width).any() or frame_header + footer
    if not running_on and len(sizes) > 1 and whole_pixels and not _rests(sizes, heads, size, True).any():
        fits.append(format_option(running_on=True))
    head = int(sizes[0]) % record
    if (
        head != file_header
        and not _rests(sizes, (head, frame_header, footer), size, running_on).any()
        and sizes.min() > head
    ):
        fits.append(format_option(file_header=head))
    body, heads_tried = int(sizes[0]) - file_header, np.arange(min(size, _MAX_TRIED))
    even = (body % (size + footer + heads_tried) == 0) & (body > size + footer + heads_tried)
    for head in np.flatnonzero(even).tolist():
        if not _rests(sizes, (file_header, head, footer), size, running_on).any():
            return [*fits, format_option(frame_header=head)]
    return fits


def _empty(files: Files, file_header: int, running_on: bool) -> tuple[Absence, ...]:
    """Report the files, among others, that do not hold a single byte of a frame."""
    if running_on:  # a header may be all that a file has; frames may end before the last one
        empty = np.flatnonzero(files.sizes[:-1] < max(1, file_header))
    else:
        empty = np.flatnonzero(files.sizes <= file_header)
    if not len(empty):
        return ()
    said = f"{files.paths[empty[0]]}: holds {int(files.sizes[empty[0]]):,} bytes, no frame" + (
        f", as {len(empty) - 1:,} more" if len(empty) > 1 else ""
    )
    return (Absence(said, TruncatedSourceError, "joins the others"),)


def _unequal(path: str, shape: tuple[int, ...], stored: int) -> tuple[Absence, ...]:
    """Report the difference between a shape and the number of stored frames."""
    shown = math.prod(shape[:-2])
    if shown == stored:
        return ()
    said = f"{path}: shape {','.join(map(str, shape))} holds {shown:,} frames, {stored:,} are stored"
    if shown > stored:
        lost = {"frames_missing": shown - stored}
        return (Absence(said, OptionError, "shows the others as blank", lost, to_come=True),)
    said += surplus(shape[:-2], stored)
    return (Absence(said, OptionError, "leaves the others out", {"frames_left_out": stored - shown}),)


FORMAT = Format(
    "raw",
    (".raw", ".bin", ".dat", ".img"),
    "",
    "headerless binary: does not describe itself, needs stored_dtype and sig_shape",
    None,
    open,
)
