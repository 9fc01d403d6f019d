"""A library in another process, and the forks of that process which answer for it, one for each set."""

from __future__ import annotations

import atexit
import json
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np

from vfs.errors import DependencyError
from vfs.helper.process import Helper, Outcome
from vfs.kernels.own_folder import made, temporary
from vfs.libraries.wire import received, send, waits
from vfs.model.libraries import Library, LibraryError

MAX_FORKS = 4  # that answer for one library at a time, each with what it made of a set
_LATE = 15.0  # seconds more than a fork gives itself


class SourceMovedError(Exception):
    """A file was changed while the library read it. The message is its path."""


def ask(
    library: Library,
    path: str,
    opening: Mapping[str, Any],
    question: Mapping[str, Any],
    data: bytes | memoryview = b"",
) -> tuple[dict[str, Any], np.ndarray]:
    """Ask the fork that answers for a set, or for all sets of the library, which is started if there is none.

    Args:
        path: the file, for messages.
        opening: what the fork begins with, as JSON; the same for all questions that one fork answers.
        question: goes to the fork as JSON.
        data: goes to the fork behind it.

    Returns: (what it says, an array; empty if it gives none).

    Raises:
        LibraryError: the library refuses the file, crashes, hangs, or asks for too much memory.
        SourceMovedError: a file was changed meanwhile.
        DependencyError: the library is not there, or is another version.
        SourceError: no process can be started.
    """
    library.check(path)
    with _asked(library, json.dumps(opening, sort_keys=True)) as fork, fork.lock:
        for _ in range(2):
            begun = fork.begin(path, {**opening, "seconds": library.seconds})
            try:
                said, array = fork.exchange(question, data)
            except (EOFError, OSError):
                ended = fork.end()
                if begun or fork.heard:  # else it had ended since it was last asked, as they do
                    raise LibraryError("ends without an answer" if ended is None else ended.ended) from None
                continue
            if "stale" not in said:
                return _checked(path, said, array)
            fork.end()
    raise SourceMovedError(path)


def _checked(path: str, said: dict[str, Any], array: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    if "missing" in said:
        raise DependencyError(f"{path}: {said['missing']}")
    if "moved" in said:
        raise SourceMovedError(said["moved"])
    if "error" in said:
        raise LibraryError(said["error"])
    return said, array


class _Fork:
    """A fork that answers for a set, or will."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.helper = _helper(library)
        self.lock = threading.Lock()
        self.users = 0  # threads that ask it, or wait for that
        self.heard = False  # it has begun with what it was last asked
        self.socket: socket.socket | None = None
        self.ending: tuple[Any, int] | None = None

    def begin(self, path: str, opening: Mapping[str, Any]) -> bool:
        """Start it, unless it runs. Returns True if it was started."""
        if self.socket is not None:
            return False
        mine, theirs = socket.socketpair()
        try:
            with theirs:
                self.ending = self.helper.begin(path, opening, theirs.fileno())
        except BaseException:
            mine.close()
            raise
        self.socket = mine
        return True

    def exchange(self, question: Mapping[str, Any], data: bytes | memoryview) -> tuple[dict[str, Any], np.ndarray]:
        """Ask, and wait for the answer.

        Raises:
            EOFError, OSError: the fork ended.
        """
        assert self.socket is not None
        self.heard = False
        send(self.socket, question, data)
        said: dict[str, Any] = {"wait": self.library.seconds}
        while "wait" in said:  # seconds that it gives itself, more for a large file
            if not waits(self.socket, said["wait"] + _LATE):
                raise EOFError
            said, found = received(self.socket)
            self.heard = True
        return said, found.view(np.dtype(said["dtype"])).reshape(said["shape"]) if "dtype" in said else found

    def end(self) -> Outcome | None:
        """End it. Returns how it ended, if the process says so."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        ending, self.ending = self.ending, None
        return None if ending is None else self.helper.finish(*ending)

    def forget(self) -> None:
        """Let go of it in a fork of this process, whose parent it answers."""
        if self.socket is not None:
            self.socket.close()
        if self.ending is not None:
            with suppress(OSError):
                os.close(self.ending[1])
        self.socket = self.ending = None


_forks: OrderedDict[tuple[Library, str], _Fork] = OrderedDict()
_finding = threading.Lock()


@contextmanager
def _asked(library: Library, opening: str) -> Iterator[_Fork]:
    """Lend the fork that answers for a set. Of others that nobody asks just now, those asked longest ago end."""
    with _finding:
        found = _forks.setdefault((library, opening), _Fork(library))
        _forks.move_to_end((library, opening))
        found.users += 1
        idle = [key for key, fork in _forks.items() if key[0] == library and not fork.users]
        spare = [_forks.pop(key) for key in idle[: max(0, len(idle) + 1 - MAX_FORKS)]]
    try:
        for fork in spare:
            fork.end()
        yield found
    finally:
        with _finding:
            found.users -= 1


@atexit.register
def _at_exit() -> None:
    while _forks:
        _forks.popitem()[1].end()


def _after_fork() -> None:
    global _finding
    _finding = threading.Lock()
    while _forks:
        _forks.popitem()[1].forget()


os.register_at_fork(after_in_child=_after_fork)


@cache
def _helper(library: Library) -> Helper:
    """Return what starts the process of a library. What numba compiles for it is kept in a folder of this user."""
    folder = os.path.join(temporary(), "kept")
    env = {}
    with suppress(OSError):
        if not made(temporary()) and not made(folder):
            env = {"NUMBA_CACHE_DIR": folder}
    entry = f"from vfs.libraries.server import main; main({library.reader!r})"
    return Helper(f"files of {library.name}", entry, env, library.seconds)
