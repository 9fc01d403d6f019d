"""Reads tables of blocks: "blocks.csv" or "blocks.npz", for more blocks than anybody writes as JSON.

The columns, in any order, hold whole numbers: `file`, `offset`, `origin_0` …, `shape_0` … (one per
axis), and if needed `nbytes` and `encoding` (index of the block's entry in `encodings` of the
description).

A .csv file has the names of its columns in its first line, and one line per block. A .npz file
(numpy.savez, savez_compressed) has a one-dimensional integer array per column, all of one length;
`file` may be called `files` there, because numpy.savez cannot write an array with the name `file`.
"""

from __future__ import annotations

import errno
import io
import zipfile
from collections.abc import Mapping

import numpy as np
from numpy.lib import format as npy

from vfs import kernels
from vfs.errors import FormatError, SourceError, VfsError
from vfs.formats.description.schema import MAX_INTEGER, nearest
from vfs.formats.headers import npy_header, read_at
from vfs.model.sources import Sources

_MAX_ROWS = 1 << 23
_MAX_BYTES = 1 << 29  # of a table as int64, and of a .csv file; sorting the blocks takes five times as much memory
_HEADER = 1 << 16  # most bytes of a column's header


def columns(ndim: int) -> tuple[list[str], list[str]]:
    """Return (names of required columns, names of optional columns) of a table."""
    return ["file", "offset", *(f"origin_{k}" for k in range(ndim)), *(f"shape_{k}" for k in range(ndim))], [
        "nbytes",
        "encoding",
    ]


def read_table(sources: Sources, path: str, ndim: int) -> dict[str, np.ndarray]:
    """Read a table.

    Returns: column -> int64[n].

    Raises:
        FormatError: the file is not such a table; the message names the line or row, and the column.
        SourceError: it cannot be read.
    """
    size = int(sources.state(path).size)
    if path.lower().endswith(".csv"):
        return _read_csv(sources, path, size, ndim)
    if path.lower().endswith(".npz"):
        return _read_npz(sources, path, ndim)
    raise FormatError(f"{path}: expected a table called .csv or .npz")


def place(path: str, row: int, column: str) -> str:
    """Return words for a cell, for messages."""
    return f"line {row + 2}, column {column}" if path.lower().endswith(".csv") else f"{column}[{row}]"


def _check_names(path: str, names: list[str], ndim: int) -> None:
    required, optional = columns(ndim)
    known = required + optional
    for name in names:
        if name not in known:
            raise FormatError(
                f"{path}: the column {name[:60]!r} is not known{nearest(name, known)}; there can be: {', '.join(known)}"
            )
    for name in required:
        if name not in names:
            raise FormatError(
                f"{path}: the column {name!r} is missing; an array of {ndim} axes needs: {', '.join(required)}"
            )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise FormatError(f"{path}: the column {twice!r} is given twice")


def _check_size(path: str, rows: int, width: int) -> None:
    if rows > _MAX_ROWS or rows * width * 8 > _MAX_BYTES:
        raise FormatError(
            f"{path}: has {rows:,} rows of {width} columns; expected at most"
            f" {min(_MAX_ROWS, _MAX_BYTES // (8 * width)):,}"
        )


def _read_csv(sources: Sources, path: str, size: int, ndim: int) -> dict[str, np.ndarray]:
    if size > _MAX_BYTES:
        raise FormatError(f"{path}: has {size:,} bytes, expected at most {_MAX_BYTES:,}; a .npz table is smaller")
    data = np.frombuffer(read_at(sources, path, size, short_ok=True), np.uint8)
    head = data[: 64 * 1024].tobytes().removeprefix(b"\xef\xbb\xbf")
    line = head.partition(b"\n")[0]
    names = [name.strip().strip('"') for name in line.decode("utf-8", "replace").split(",")]
    _check_names(path, names, ndim)
    body = data[np.flatnonzero(data[: 64 * 1024] == 10)[0] + 1 :] if b"\n" in head else data[:0]
    rows = int(np.count_nonzero(body == 10)) + (body.size > 0 and body[-1] != 10)
    _check_size(path, rows, len(names))
    table, wrong, row, column = kernels.text.parse_table(body, rows, len(names))
    if wrong != kernels.text.OK:
        where = place(path, row, names[column])
        if wrong in (kernels.text.TOO_FEW, kernels.text.TOO_MANY):
            raise FormatError(
                f"{path}: line {row + 2}: expected {len(names)} cells, found"
                f" {'fewer' if wrong == kernels.text.TOO_FEW else 'more'}"
            )
        what = "a whole number of at most 63 bits" if wrong == kernels.text.TOO_LARGE else "a whole number"
        cell = _cell(body, row, column)
        raise FormatError(f"{path}: {where}: expected {what}, found {cell!r}")
    return {name: np.ascontiguousarray(table[:, k]) for k, name in enumerate(names)}


def _cell(body: np.ndarray, row: int, column: int) -> str:
    lines = np.flatnonzero(body == 10)
    first = int(lines[row - 1]) + 1 if row else 0
    line = body[first : first + 4096].tobytes().partition(b"\n")[0].decode("utf-8", "replace")
    cells = line.rstrip("\r").split(",")
    return cells[column].strip()[:60] if column < len(cells) else ""


def _read_npz(sources: Sources, path: str, ndim: int) -> dict[str, np.ndarray]:
    try:
        with sources.stream(path) as file, zipfile.ZipFile(file) as archive:
            names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
            names = ["file" if name == "files" else name for name in names]
            _check_names(path, names, ndim)
            return _read_members(path, archive, dict(zip(names, archive.infolist(), strict=True)))
    except VfsError:
        raise
    except Exception as error:  # a garbled archive can fail anywhere in zipfile, zlib and numpy's parser
        # EINVAL: a garbled archive made zipfile seek to before the start of the file
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise SourceError(f"{path}: cannot be read: {error.strerror or error}", error.errno or errno.EIO) from None
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise FormatError(f"{path}: expected a .npz file as numpy.savez writes it: {reason}") from None


def _read_members(path: str, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, np.ndarray]:
    table: dict[str, np.ndarray] = {}
    rows = -1
    for name, info in members.items():
        with archive.open(info) as stream:
            head = stream.read(_HEADER)
            count, dtype, offset = _column(path, name, head, info.file_size)
            if rows < 0:
                rows = count
                _check_size(path, rows, len(members))
            if count != rows:
                raise FormatError(
                    f"{path}: column {name} has {count:,} rows, expected {rows:,} as in {next(iter(members))}"
                )
            data = head[offset:] + stream.read(max(0, info.file_size - _HEADER))
        if len(data) != rows * dtype.itemsize:
            raise FormatError(
                f"{path}: column {name}: expected {rows * dtype.itemsize:,} bytes, found {len(data):,}; the file looks"
                " truncated"
            )
        values = np.frombuffer(data, dtype)
        if dtype.kind == "u" and dtype.itemsize == 8 and (values > MAX_INTEGER).any():
            row = int(np.argmax(values > MAX_INTEGER))
            raise FormatError(
                f"{path}: {place(path, row, name)}: expected a whole number of at most 63 bits, found"
                f" {int(values[row])}"
            )
        table[name] = values.astype(np.int64)
    return table


def _column(path: str, name: str, first_bytes: bytes, size: int) -> tuple[int, np.dtype, int]:
    """Read the header of a column of `size` bytes.

    Returns: (number of rows, dtype, offset of the data in bytes).
    """
    stream = io.BytesIO(first_bytes)
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise FormatError(f"{path}: column {name}: expected .npy version 1 to 3, found {version}")
    stream.seek(0)
    shape, _, dtype = npy_header(stream, _HEADER)
    if len(shape) != 1 or dtype.kind not in "iu":
        raise FormatError(
            f"{path}: column {name}: expected a one-dimensional array of integers, found {dtype}{list(shape)}"
        )
    held = size - stream.tell()
    if shape[0] * dtype.itemsize != held:
        raise FormatError(
            f"{path}: column {name}: the header says {shape[0]:,} rows of {dtype}, {shape[0] * dtype.itemsize:,} bytes;"
            f" found {held:,}"
        )
    return shape[0], dtype, stream.tell()
