"""Reads NumPy's .npy: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

It reads format versions 1 to 3. One file is one array, in C or Fortran order and of either byte
order. Several files of one shape and dtype are stacked along a new first axis; a gap in the numbers
of their names means a missing file, which is an error (see `vfs.formats.numbering`). Structured and
object arrays are refused.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np

from vfs.errors import FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import npy_header, read_at
from vfs.formats.numbering import joined
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, whole_frame
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, nav_dims
from vfs.model.wording import format_option
from vfs.model.written import Written

_MARK = b"\x93NUMPY"
_MAX_HEADER_BYTES = 1 << 20  # most bytes of a header; real ones have about a hundred


def _header(sources: Sources, path: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Read the header. Returns (shape, True for Fortran order, dtype, offset of the data in bytes)."""
    start = read_at(sources, path, 12, short_ok=True)
    if not start.startswith(_MARK):
        raise FormatError(f"{path}: expected a .npy file, it begins with {start[:8]!r}")
    if len(start) < 12:
        raise TruncatedSourceError(f"{path}: expected a .npy header, the file ends after {len(start)} bytes")
    wide = start[6] >= 2
    offset = int.from_bytes(start[8:12], "little") + 12 if wide else int.from_bytes(start[8:10], "little") + 10
    if start[6] not in (1, 2, 3) or offset > _MAX_HEADER_BYTES:
        raise FormatError(
            f"{path}: expected a .npy header of version 1 to 3, found version {start[6]} and {offset:,} bytes"
        )
    stream = io.BytesIO(read_at(sources, path, offset))
    try:
        shape, fortran, dtype = npy_header(stream, _MAX_HEADER_BYTES)
    except Exception as error:  # a garbled header can fail anywhere in numpy's parser
        raise FormatError(f"{path}: the .npy header cannot be understood: {str(error).splitlines()[0]}") from None
    if dtype.hasobject or dtype.kind not in "biufc":
        raise FormatError(f"{path}: holds elements of dtype {dtype}; expected numbers")
    if any(n < 0 for n in shape) or len(shape) > 32:
        raise FormatError(f"{path}: the .npy header says shape {shape}")
    return shape, fortran, dtype, offset


def _said(shape: tuple[int, ...], fortran: bool, dtype: np.dtype) -> str:
    return f"{dtype}{list(shape)}{' in Fortran order' if fortran else ''}"


def _headers(sources: Sources, files: Files) -> tuple[tuple[int, ...], bool, np.dtype, list[int], list[str]]:
    """Read the headers of files that are stacked.

    Returns: (shape, True for Fortran order, dtype, byte at which each file's elements begin, a line about each file
    that is shorter than its header says).

    Raises:
        FormatError: a header is garbled, or files differ.
    """
    shape, fortran, dtype, _ = first = _header(sources, files.paths[0])
    size = math.prod(shape) * dtype.itemsize
    if size * len(files) >= 1 << 63:
        raise FormatError(
            f"{files.paths[0]}: the header says {dtype}{list(shape)}, {size:,} bytes, more than can be counted; it"
            " looks garbled"
        )
    offsets, short = [], []
    for path, found in zip(files.paths, files.sizes.tolist(), strict=True):
        here = first if path == files.paths[0] or not found else _header(sources, path)
        if here[:3] != first[:3]:
            raise FormatError(
                f"{path}: is {_said(*here[:3])}, expected {_said(*first[:3])} as in {files.paths[0]}; files that are"
                " stacked must be alike"
            )
        if found < here[3] + size:
            short.append(
                f"{path}: the header says {dtype}{list(shape)}, {here[3] + size:,} bytes, the file has {found:,}; it"
                " looks truncated"
            )
        offsets.append(here[3])
    return shape, fortran, dtype, offsets, short


def open(paths: Sequence[str], sources: Sources, *, sig_ndim: int | None = None) -> list[StoredArray]:
    """Open .npy files.

    Args:
        sig_ndim: number of last axes that are a frame; by default two, or all if there are fewer

    Raises:
        FormatError: a header is garbled, the elements are not numbers, or files differ.
        TruncatedSourceError: a file is shorter than its header says.
        OptionError: `sig_ndim` does not fit.
    """
    files = Files.stat(sources, paths)
    shape, fortran, dtype, offsets, short = _headers(sources, files)

    k = min(2, len(shape)) if sig_ndim is None else sig_ndim
    if not 0 <= k <= len(shape):
        raise OptionError(f"{format_option(sig_ndim=k)}: the array has {len(shape)} axes")
    stacked = len(paths) > 1
    if len(shape) > 6 and stacked:
        raise OptionError(f"{paths[0]}: cannot stack arrays of {len(shape)} axes")
    contiguous = not fortran or len(shape) < 2
    nav = shape[: len(shape) - k]
    names = nav_dims(len(nav)) + (("y", "x") if k == 2 else ("x",) if k == 1 else tuple(f"sig_{j}" for j in range(k)))
    dims = (("file",) if stacked else ()) + names
    strides = [math.prod(shape[:j]) for j in range(len(shape))]
    each, sig, pieces = (
        (math.prod(nav), shape[len(nav) :], None) if contiguous else (1, shape, whole_frame(shape, strides))
    )  # Fortran order interleaves all axes: the array is one frame
    row = joined(sources, files.paths, [each] * len(paths))
    held, absent = _held(files, offsets, each, math.prod(sig) * dtype.itemsize, short)
    layout = FrameLayout.of(FrameRecord(sig, dtype.itemsize, pieces=pieces), held, file_header=offsets, first=row.first)
    lead = (row.frames // each if each else len(paths),) * stacked + (nav if contiguous else ())
    attrs = {"descr": dtype.str, "fortran_order": fortran}
    layout = layout.arranged(Scan(lead))
    return [
        StoredArray(
            "data",
            files,
            layout,
            PlainDecoder(dtype),
            layout.shape,
            dims,
            len(lead),
            attrs=attrs,
            absent=row.absent + absent + _behind(files, offsets, each * math.prod(sig) * dtype.itemsize),
            written=Written(each if lead and not stacked and contiguous else None),
        )
    ]


def _behind(files: Files, offsets: Sequence[int], size: int) -> tuple[Absence, ...]:
    """Report the bytes behind the arrays, of `size` bytes each: often further arrays, which numpy can write so."""
    rests = files.sizes - np.asarray(offsets, np.int64) - size
    longer = np.flatnonzero(rests > 0)
    if not len(longer):
        return ()
    k = int(longer[0])
    another = files.sources.read(files.paths[k], offsets[k] + size, len(_MARK)) == _MARK
    what = "another array begins there; it is not shown" if another else "these are not shown"
    more = f", and {len(longer) - 1:,} more" if len(longer) > 1 else ""
    said = f"{files.paths[k]}: has {int(rests[k]):,} bytes after its array{more}: {what}"
    return (Absence(said, counts={"bytes_left_over": int(rests[longer].sum())}),)


def _held(
    files: Files, offsets: Sequence[int], each: int, frame: int, short: Sequence[str]
) -> tuple[list[int], tuple[Absence, ...]]:
    """Count the whole frames in each file, and report the absence of others.

    Args:
        short: a line about each file that is shorter than its header says.

    Raises:
        TruncatedSourceError: there is no whole frame.
    """
    held = [each] * len(offsets)
    if not short:
        return held, ()
    held = [
        min(each, max(0, size - offset) // frame) for size, offset in zip(files.sizes.tolist(), offsets, strict=True)
    ]
    if not any(held):
        raise TruncatedSourceError(short[0])
    said = short[0] + (f", and {len(short) - 1:,} more" if len(short) > 1 else "")
    gone = {"frames_missing": each * len(held) - sum(held)}
    allowed = "shows the frames that are not whole as blank"
    return held, (Absence(said, TruncatedSourceError, allowed, gone, to_come=True),)


FORMAT = Format(
    "npy",
    (".npy",),
    "https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html",
    "NumPy arrays, one or a stack of files",
    None,
    open,
    first_bytes=(_MARK,),
)
