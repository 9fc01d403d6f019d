"""Shared help for reading headers, finding the files of a series and naming axes."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence

from vfs.errors import MissingSourceError, OptionError, SourceError, TruncatedSourceError


def natural(name: str) -> tuple[list[str | int], str]:
    """Sort key that takes runs of digits as numbers: frame_2 before frame_10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name


def read_at(path: str, size: int, offset: int = 0, short_ok: bool = False) -> bytes:
    """`size` bytes of a file from `offset` on.

    Args:
        short_ok: accept fewer bytes at the end of the file.

    Raises:
        MissingSourceError, SourceError: the file cannot be read.
        TruncatedSourceError: it ends before, unless `short_ok`.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            got = file.read(size)
            while len(got) < size and (more := file.read(size - len(got))):
                got += more
    except FileNotFoundError:
        raise MissingSourceError(f"{path}: no such file") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}", error.errno or 5) from None
    if len(got) < size and not short_ok:
        raise TruncatedSourceError(f"{path}: expected {size:,} bytes of header at byte {offset:,}, found {len(got):,}; the file looks truncated")
    return got


def expand(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """File names from names and globs; what a glob finds is in natural order, what is named stays in its order.

    Raises:
        OptionError: nothing is given.
        MissingSourceError: a glob finds nothing.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise OptionError("no file given: expected a file, several files, or a glob")
    found = []
    for item in given:
        name = os.fspath(item)
        if os.path.exists(name) or not glob.has_magic(name):
            found.append(name)
            continue
        hits = sorted((hit for hit in glob.glob(name, recursive=True) if os.path.isfile(hit)), key=natural)
        if not hits:
            raise MissingSourceError(f"{name}: no file matches")
        found += hits
    return found


def nav_dims(ndim: int) -> tuple[str, ...]:
    """Names of navigation axes: frame; scan_y, scan_x; t, scan_y, scan_x; …"""
    if ndim < 2:
        return ("frame",) * ndim
    return tuple(f"nav_{k}" for k in range(ndim - 3)) + ("t",) * (ndim > 2) + ("scan_y", "scan_x")


def shape_option(value: int | str | Sequence[int], name: str) -> tuple[int, ...]:
    """A shape given as numbers, as "256,256" or as "256x256".

    Raises:
        OptionError: not a shape.
    """
    if isinstance(value, str):
        parts: Sequence[object] = re.split(r"[x,]", value.strip("() "))
    else:
        parts = [value] if isinstance(value, int) else list(value)
    try:
        shape = tuple(int(str(part)) for part in parts if str(part).strip())
    except ValueError:
        shape = ()
    if not shape or any(n < 1 for n in shape):
        raise OptionError(f"{name}={value!r}: expected one or more positive numbers such as 256,256")
    return shape
