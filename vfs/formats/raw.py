"""Raw binary: equal frames of plain numbers, with or without headers, over any number of files.

There is no specification and nothing to detect: the user says what the numbers are::

    file:   | file_header | record 0 | record 1 | …
    record: | frame_header | frame: pixels, C order | frame_footer |

A file's bytes beyond the last whole record are ignored, unless frames run on across the files (`running_on=True`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vfs.dataset import Dataset, Files
from vfs.decode import PlainDecoder
from vfs.errors import FormatError, OptionError
from vfs.formats import Format
from vfs.headers import dtype_option, nav_dims, shape_option
from vfs.layout import FrameLayout

_FAR = 1 << 60  # bytes: more than any file has, and far from where sums overflow


def sniff(path: str, head: bytes) -> bool:
    """Raw data has no mark: it is never detected, only asked for by name."""
    return False


def open(
    paths: Sequence[str],
    *,
    stored_dtype: Any = None,
    sig_shape: int | str | Sequence[int] | None = None,
    shape: int | str | Sequence[int] | None = None,
    file_header: int = 0,
    frame_header: int = 0,
    frame_footer: int = 0,
    byte_order: str | None = None,
    running_on: bool = False,
) -> list[Dataset]:
    """Open raw files.

    Args:
        stored_dtype: numpy dtype of the pixels in the file (u2, <f4, >i4 …); where it is not given, `dtype` means this
        sig_shape: shape of a frame, such as 256,256; the number of frames follows from the files' sizes
        shape: shape of the whole array instead, navigation axes first; the last two axes are a frame
        file_header: bytes before the first record of every file
        frame_header: bytes before every frame
        frame_footer: bytes after every frame
        byte_order: little or big; changes that of stored_dtype
        running_on: frames run on across file borders

    Raises:
        OptionError: something is missing or does not fit.
        FormatError: not one whole frame.
        MissingSourceError, SourceError: a file cannot be opened.
    """
    if stored_dtype is None:
        raise OptionError(f"{paths[0]}: raw data needs the dtype of its pixels, such as dtype='u2' (-o dtype=u2)")
    if (shape is None) == (sig_shape is None):
        raise OptionError(f"{paths[0]}: raw data needs either sig_shape (a frame, such as 256,256) or shape (the whole array)")
    dtype = dtype_option(stored_dtype)
    if byte_order is not None:
        if byte_order not in ("little", "big", "<", ">"):
            raise OptionError(f"byte_order={byte_order!r}: expected little or big")
        dtype = dtype.newbyteorder(">" if byte_order in ("big", ">") else "<")
    for name, value in (("file_header", file_header), ("frame_header", frame_header), ("frame_footer", frame_footer)):
        if not 0 <= value < _FAR:
            raise OptionError(f"{name}={value}: expected a number of bytes, 0 or more, and fewer than any file has")
    decoder = PlainDecoder(dtype)
    whole = None if shape is None else shape_option(shape, "shape")
    sig = shape_option("" if sig_shape is None else sig_shape, "sig_shape") if whole is None else whole[-2:]
    if whole is not None and math.prod(whole) * dtype.itemsize >= 1 << 63:
        raise OptionError(f"shape={shape!r}: an array of {dtype} has more than 2^63 bytes")
    if len(sig) > 8:
        raise OptionError(f"sig_shape has {len(sig)} axes, expected at most 8")

    files = Files.stat(paths)
    size = math.prod(sig) * dtype.itemsize
    record = frame_header + size + frame_footer
    if record >= _FAR:
        raise OptionError(f"a frame {sig} of {dtype} has {size:,} bytes, more than any file")
    if running_on:
        layout = FrameLayout.running_on(
            sig, files.sizes, word_bytes=dtype.itemsize, file_header=file_header, frame_header=frame_header, frame_footer=frame_footer, names=files.paths
        )
    else:  # the footer of the last record may be missing
        counts = (np.maximum(files.sizes - file_header, 0) + frame_footer) // record
        layout = FrameLayout.of(sig, counts, word_bytes=dtype.itemsize, file_header=file_header, frame_header=frame_header, frame_footer=frame_footer)
    if layout.stored == 0:
        largest = int(files.sizes.max(initial=0))
        raise FormatError(
            f"{files.paths[0]}: expected at least one record of {record:,} bytes (frame {sig} of {dtype}), the largest file has {largest:,} bytes"
        )
    nav: tuple[int, ...] = (layout.stored,)
    if whole is not None:
        nav = whole[:-2]
        layout = layout.arranged(nav)
    names = ("y", "x") if len(sig) == 2 else ("x",) if len(sig) == 1 else tuple(f"sig_{k}" for k in range(len(sig)))
    attrs = {"stored_dtype": dtype.str, "frames": layout.stored}
    return [Dataset("data", files, layout, decoder, nav + sig, nav_dims(len(nav)) + names, len(nav), attrs=attrs)]


FORMAT = Format("raw", (".raw", ".bin", ".dat", ".img"), "", "headerless binary; says nothing of itself, needs dtype and sig_shape", sniff, open)
