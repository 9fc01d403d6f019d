"""pread and preadv of this process, made to misbehave below everything that reads.

Compiled kernels call the C library by name, and a name is looked up when a kernel is loaded. So `put_below` gives these
names to functions of ours before `vfs.kernels` is imported, which takes a process of its own (`tests.faults.child`).
Python's own `os.pread` and `os.preadv` are replaced too. Both ask the fault that is on, if any, what a read may get,
and then let the real call read that much: a fault never makes up bytes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import accumulate
from typing import Any, ClassVar, Protocol

BLOCK = 512
"""Bytes: reads past the page cache (O_DIRECT) begin and end at multiples of this unless the file ends."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.pread.restype = _LIBC.preadv.restype = ctypes.c_ssize_t


class _Place(ctypes.Structure):
    """The C library's struct iovec."""

    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t))


_LIBC.pread.argtypes = _READ = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
_LIBC.preadv.argtypes = _READ_PLACES = (ctypes.c_int, ctypes.POINTER(_Place), ctypes.c_int, ctypes.c_int64)
_preadv = os.preadv  # the real one, of Python


class Fault(Protocol):
    """What a read of a source file meets."""

    def allowed(self, fd: int, start: int, size: int) -> int:
        """How many bytes a read of `size` bytes from byte `start` on gets at most; 0: the file seems to end there.

        Raises:
            OSError: the read fails with this error number.
        """


class Short:
    """Every read of more than a byte gets half of what it asks for."""

    def __str__(self) -> str:
        return "short"

    def allowed(self, fd: int, start: int, size: int) -> int:
        half = (size + 1) // 2
        return max(min(size, BLOCK), half // BLOCK * BLOCK) if _is_direct(fd) else half


class Interrupted:
    """Every other read fails with EINTR before it gets anything."""

    def __init__(self) -> None:
        self.calls = 0

    def __str__(self) -> str:
        return "EINTR"

    def allowed(self, fd: int, start: int, size: int) -> int:
        self.calls += 1
        if self.calls % 2:
            raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))
        return size


class Bad:
    """One byte of a file cannot be read: a read that begins before it ends there, one that begins
    with it fails with EIO, or gets nothing.

    Args:
        ends: whether it gets nothing, as if the file ended there.
    """

    def __init__(self, path: str, byte: int, ends: bool = False) -> None:
        self.file, self.byte, self.ends = os.stat(path), byte, ends

    def __str__(self) -> str:
        return f"{'nothing' if self.ends else 'EIO'} at byte {self.byte:,}"

    def allowed(self, fd: int, start: int, size: int) -> int:
        byte = self.byte // BLOCK * BLOCK if _is_direct(fd) else self.byte
        if not start <= byte < start + size or not os.path.samestat(os.fstat(fd), self.file):
            return size
        if start < byte or self.ends:
            return byte - start
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class Shrinking:
    """A file is cut off at a byte by somebody else, after it was found to be what it should be and
    just before it is read.
    """

    def __init__(self, path: str, byte: int) -> None:
        self.path, self.byte = path, byte

    def __str__(self) -> str:
        return f"shrinking to {self.byte:,} bytes"

    def allowed(self, fd: int, start: int, size: int) -> int:
        if os.path.samestat(os.fstat(fd), os.stat(self.path)) and os.fstat(fd).st_size > self.byte:
            os.truncate(self.path, self.byte)
        return size


class _Now:
    """What is going on: the fault that is on, and the folder of the files that have it.

    Attributes:
        met: (kind of fault, name of the function whose read met it).
    """

    fault: Fault | None = None
    folder = ""
    met: ClassVar[set[tuple[str, str]]] = set()


class _Names(threading.local):
    """The functions given to `named` that a thread is in."""

    def __init__(self) -> None:
        self.all = ["compiled code"]


_names = _Names()


def _is_direct(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)


def _allowed(fd: int, start: int, size: int, way: str) -> int:
    if _Now.fault is None or size == 0 or not os.readlink(f"/proc/self/fd/{fd}").startswith(_Now.folder):
        return size
    got, length = -1, os.fstat(fd).st_size
    try:
        got = _Now.fault.allowed(fd, start, size)
    finally:
        if got < size or os.fstat(fd).st_size < length:
            _Now.met.add((type(_Now.fault).__name__, way))
    return got


@contextmanager
def on(fault: Fault, folder: str | os.PathLike[str]) -> Iterator[None]:
    """Have reads of the files in a folder meet a fault."""
    _Now.folder, _Now.fault = os.path.realpath(folder) + os.sep, fault
    try:
        yield
    finally:
        _Now.fault = None


def met() -> list[tuple[str, str]]:
    """(kind of fault, where) of all faults so far: where is the innermost function given to
    `named`, or `python` for os.pread and os.preadv.
    """
    return sorted(_Now.met)


def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does the same; what compiled code reads meanwhile is counted under a name."""

    @wraps(function)
    def call(*args: Any) -> Any:
        _names.all.append(name)
        try:
            return function(*args)
        finally:
            _names.all.pop()

    return call


def _cut(pieces: Sequence[int], most: int) -> list[int]:
    """Sizes of the same places when only so many bytes are read."""
    ends = [min(end, most) for end in accumulate(pieces)]
    return [b - a for a, b in zip([0, *ends], ends, strict=False)]


def _native_pread(fd: int, to: int, size: int, start: int) -> int:
    try:
        return int(_LIBC.pread(fd, to, _allowed(fd, start, size, _names.all[-1]), start))
    except OSError as error:
        ctypes.set_errno(error.errno or 0)  # the caller's errno once this returns
        return -1


def _native_preadv(fd: int, places: Any, count: int, start: int) -> int:
    sizes = [places[k].size for k in range(count)]
    try:
        sizes = _cut(sizes, _allowed(fd, start, sum(sizes), _names.all[-1]))
    except OSError as error:
        ctypes.set_errno(error.errno or 0)
        return -1
    return int(
        _LIBC.preadv(fd, (_Place * count)(*[(places[k].at, size) for k, size in enumerate(sizes)]), count, start)
    )


def _python_preadv(fd: int, buffers: Sequence[Any], offset: int, flags: int = 0) -> int:
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    while True:
        try:
            most = _allowed(fd, offset, sum(map(len, views)), "python")
        except InterruptedError:  # which Python's own one does not let out either: it tries again
            continue
        return _preadv(
            fd,
            [view[:size] for view, size in zip(views, _cut(list(map(len, views)), most), strict=True)],
            offset,
            flags,
        )


def _python_pread(fd: int, size: int, offset: int) -> bytes:
    memory = bytearray(size)
    return bytes(memory[: _python_preadv(fd, [memory], offset)])


_kept: list[Any] = []


def put_below() -> None:
    """Put these functions below this process, for as long as it lives. To be called before a kernel is loaded."""
    import llvmlite.binding as llvm

    assert not any(name.startswith("vfs.kernels") for name in sys.modules), "kernels were loaded before"
    for name, function, arguments in (("pread", _native_pread, _READ), ("preadv", _native_preadv, _READ_PLACES)):
        made = ctypes.CFUNCTYPE(ctypes.c_ssize_t, *arguments, use_errno=True)(function)
        _kept.append(made)
        llvm.add_symbol(name, ctypes.cast(made, ctypes.c_void_p).value)
    os.preadv, os.pread = _python_preadv, _python_pread
