"""Open files: at most `limit` at a time, the ones used last. Safe from many threads and after a fork."""

from __future__ import annotations

import os
import resource
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from vfs.dataset import Files
from vfs.errors import MissingSourceError, SourceError

T = TypeVar("T")

# After a fork a lock may be held by a thread that the child does not have: every cache gets a new one.
_ALIVE: weakref.WeakSet[Handles[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for handles in _ALIVE:
        handles.lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def default_limit() -> int:
    """A quarter of the descriptors this process may have, at most 1,024: several sets may be open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1024 if soft == resource.RLIM_INFINITY else max(8, min(1024, soft // 4))


class Descriptor:
    """A file open for reading; closed when the last user lets go of it."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.path = path
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise MissingSourceError(f"{path}: no such file") from None
        except OSError as error:
            raise SourceError(f"{path}: cannot be opened: {error.strerror}") from None

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class Handles(Generic[T]):
    """Handles of a set's files, made on demand; the ones not used for longest are dropped beyond `limit`.

    A dropped handle stays usable for whoever still holds it: it is closed when the last reference goes.
    """

    def __init__(self, files: Files, make: Callable[[str], T], limit: int | None = None) -> None:
        self.files = files
        self.make = make
        self.limit = limit or default_limit()
        self.lock = threading.Lock()
        self.kept: OrderedDict[int, T] = OrderedDict()
        _ALIVE.add(self)

    def get(self, file: int) -> T:
        """The handle of a file.

        Raises:
            SourceError: it cannot be opened.
        """
        with self.lock:
            kept = self.kept.get(file)
            if kept is not None:
                self.kept.move_to_end(file)
                return kept
        made = self.make(self.files.paths[file])
        with self.lock:
            kept = self.kept.setdefault(file, made)
            while len(self.kept) > self.limit:
                self.kept.popitem(last=False)
        return kept
