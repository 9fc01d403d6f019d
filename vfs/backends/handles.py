"""Keeps files open: the ones used last, as many as this process may have.

Safe from many threads and after a fork. All sets of a process share one budget of descriptors: a
mount of many sets, or a set whose arrays each have a backend, must not run out of them. Each time a
handle is used its file is checked: a file that was changed after its set was opened is an error,
never other data.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from vfs.errors import SourceChangedError, SourceError, TruncatedSourceError
from vfs.model.file_state import FileState
from vfs.model.files import Files
from vfs.sources.boundary import Boundary, open_file
from vfs.sources.local import LocalSources


class Handle(Protocol):
    """An open file, closed when the last reference to it goes.

    Attributes:
        seen: its size, mtime and ctime when it was last found to be the file that was opened, and `Files.moves`; at
            first `UNSEEN`.
    """

    fd: int
    path: str
    seen: tuple[int, int, int, int]


UNSEEN = -1, 0, 0, -1

T = TypeVar("T", bound=Handle)

_open: OrderedDict[tuple[int, int, int], Any] = OrderedDict()
"""(number of a `Handles`, file, part of the file) -> handle; the one used last is at the end."""

_numbers = count()
_lock = threading.RLock()  # reentrant: the garbage collector may call `_forget` while it is held


def _after_fork() -> None:  # the lock may be held by a thread that the child does not have
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def limit() -> int:
    """Return how many files are kept open: half of the descriptors this process may have, at most 1,024."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1024 if soft == resource.RLIM_INFINITY else max(8, min(1024, soft // 2))


def release() -> None:
    """Close the handles that nobody is using just now."""
    with _lock:
        _open.clear()


def open_handles() -> list[Handle]:
    """Return the open handles of all sets."""
    with _lock:
        return list(_open.values())


def _forget(number: int) -> None:
    with _lock:
        for key in list(_open):
            if key[0] == number:
                _open.pop(key, None)


class Descriptor:
    """A file open for reading, closed when its last user lets go of it."""

    __slots__ = ("fd", "path", "seen")

    def __init__(self, path: str, boundary: Boundary) -> None:
        self.fd = -1
        self.path = path
        self.seen = UNSEEN
        self.fd = open_file(path, boundary)

    # Modules may be gone by then: the interpreter is ending
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.fd >= 0:
            close(self.fd)


def fill(opened: Handle, start: int, out: np.ndarray) -> None:
    """Read the bytes of a file from `start` on until uint8 `out` is full.

    Raises:
        TruncatedSourceError: the file ends before.
        SourceError: it cannot be read.
    """
    stop = start + out.size
    done = 0
    while done < out.size:
        try:
            got = os.preadv(opened.fd, [out[done:].data], start + done)
        except OSError as error:
            raise SourceError(f"{opened.path}: bytes {start:,} to {stop:,} cannot be read: {error.strerror}") from None
        if got == 0:
            size = os.fstat(opened.fd).st_size
            raise TruncatedSourceError(
                f"{opened.path}: expected bytes {start:,} to {stop:,}, the file has {size:,}; it looks truncated"
            )
        done += got


class Handles(Generic[T]):
    """Opens handles of a set's files on demand, and drops those unused for longest beyond `limit`.

    A dropped handle stays usable for code that still refers to it: it is closed when the last
    reference goes.
    """

    def __init__(self, files: Files, make: Callable[[str, Boundary], T]) -> None:
        self.files = files
        assert isinstance(files.sources, LocalSources)
        self.boundary = files.sources.boundary
        self.make = make
        self.moves = files.moves.item
        self.number = next(_numbers)
        self._used = False

    def get(self, file: int, start: int, stop: int, part: int = 0) -> T:
        """Return a handle of a file that reaches to `stop` and was not changed since its set was opened.

        Args:
            start, stop: the bytes that are needed, for messages and for checking its size.
            part: which of its handles, if a file has several.

        Raises:
            MissingSourceError, OutsideError, SourceError: it cannot be opened, or lies outside of
                the folder of the set.
            TruncatedSourceError: it ends before `stop`.
            SourceChangedError: it is not the one that was opened (`Files.same`). If its size is not
                known (-1: it was missing, or changes are accepted), any file that is long enough
                will do.
        """
        key = self.number, file, part
        with _lock:
            found: T | None = _open.get(key)
            if found is not None:
                _open.move_to_end(key)
        if found is None:
            found = self._opened(file, start, stop, part)
        now = os.fstat(found.fd)
        as_found = found.seen == (now.st_size, now.st_mtime_ns, now.st_ctime_ns, self.moves(0))
        if as_found and stop <= now.st_size and now.st_nlink:
            return found
        if self._left(file, now):
            self.drop(file)
            found = self._opened(file, start, stop, part)
            now = os.fstat(found.fd)
        self._check(found, file, start, stop, FileState.of(now))
        return found

    def again(self, file: int, part: int = 0) -> None:
        """Look at a file again after views of it were read.

        Raises:
            SourceError: it is not the one that was opened, or cannot be opened any more.
        """
        found: T | None = _open.get((self.number, file, part))  # one look, which needs no lock
        if found is not None:
            self.check(found, file, 0, 0)
        elif not self.files.still(file):
            raise self.files.changed(file)

    def at_hand(self, file: int, part: int = 0) -> T | None:
        """Return a handle of a file that is open, unchecked; None if it has to be opened."""
        with _lock:
            found: T | None = _open.get((self.number, file, part))
            return found

    def _replaced(self, file: int, now: os.stat_result) -> bool:
        """Return True if an open file was touched because another one, which looks the same, took its name."""
        noted = self.files.state(file)
        if noted.changed == now.st_ctime_ns and noted.inode in (0, now.st_ino):  # a rename gives both files one ctime
            return False
        try:
            there = os.stat(self.files.paths[file])
        except OSError:
            return False
        return not os.path.samestat(now, there) and noted.same(FileState.of(there))

    def check(self, found: T, file: int, start: int, stop: int) -> None:
        """Note if a file was touched while it was read, or another one that looks the same took its name.

        Raises:
            SourceChangedError, TruncatedSourceError: it was written.
        """
        now = os.fstat(found.fd)
        if found.seen == (now.st_size, now.st_mtime_ns, now.st_ctime_ns, self.moves(0)):
            return
        if self._left(file, now):
            self.drop(file)
            if not self.files.still(file):
                raise self.files.changed(file)
        else:
            self._check(found, file, start, stop, FileState.of(now))

    def _left(self, file: int, now: os.stat_result) -> bool:
        """Return True if an open file has its name no more, but for files to which more may be added."""
        return not self.files.grows and (now.st_nlink == 0 or self._replaced(file, now))

    def _check(self, found: T, file: int, start: int, stop: int, now: FileState) -> None:
        """Note the state of a file that reaches to `stop` and is the one that was opened.

        Raises:
            TruncatedSourceError, SourceChangedError: it does not, or is another one. It is opened anew when it is
                asked for next.
        """
        moves = self.moves(0)
        if found.seen != UNSEEN and self.files.left(file, now):
            self.drop(file)
            return
        if stop <= now.size and self.files.same(file, now):
            found.seen = now.size, now.written, now.changed, moves
            return
        self.drop(file)  # next time look again: it may be put right
        wanted = f"{found.path}: expected bytes {start:,} to {stop:,}, "
        if now.size < stop:
            raise TruncatedSourceError(f"{wanted}the file has {now.size:,}; it looks truncated")
        raise SourceChangedError(
            f"{wanted}but the file was changed after it was opened ({self.files.state(file).difference(now)}); open"
            " it again, or with accept_changes"
        )

    def _check_same(self, file: int, made: T) -> None:
        """Check that a file that is still being written is the one that it was.

        Raises:
            SourceChangedError: it is another one.
        """
        if not self.files.grows:
            return
        at = FileState.of(os.fstat(made.fd))
        if (at.inode, at.device) != tuple(self.files.nodes[file].tolist()):
            raise SourceChangedError(
                f"{self.files.paths[file]}: was restarted and is another acquisition: open the set again"
            )

    def drop(self, file: int) -> None:
        """Drop the handles of a file, so that it is opened anew when it is asked for next."""
        with _lock:
            for key in [key for key in _open if key[:2] == (self.number, file)]:
                _open.pop(key, None)

    def _opened(self, file: int, start: int, stop: int, part: int) -> T:
        path, boundary = self.files.paths[file], self.boundary
        if not self._used:
            self._used = True
            weakref.finalize(self, _forget, self.number).atexit = False
        try:
            try:
                made = self.make(path, boundary)
            except SourceError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                release()  # the process opened more files than `limit` leaves it
                made = self.make(path, boundary)
        except SourceError as error:
            raise type(error)(f"{error} (bytes {start:,} to {stop:,} are needed)", error.errno or 5) from None
        self._check_same(file, made)
        most = limit()
        with _lock:
            found: T = _open.setdefault((self.number, file, part), made)
            while len(_open) > most:
                _open.popitem(last=False)
        return found
