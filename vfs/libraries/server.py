"""Runs in a fork of the helper process: reads a set with a library, and answers questions about it.

The fork is bounded. It has `MEMORY` bytes, and `MEMORY_FACTOR` more for each byte of the files that it opened,
some seconds for each answer and more for large files, and ends when nobody asked for `IDLE` seconds. Python opens
files of the set's folder for it and what Python itself needs, for reading only, and starts no programs and no
connections.

A question is a message (`wire`), {"ask": …}, perhaps with data. So is the answer, with the elements of an array, if it
has a "dtype" and a "shape". {"stale": true} says that a file was changed since it was read, {"moved": path} that it was
while it was read, {"error": text} what the library said, {"wait": seconds} that an answer comes in so many.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import sysconfig
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from vfs.helper.server import Reader as Answer
from vfs.helper.server import Write, serve
from vfs.libraries.wire import received, send, waits
from vfs.sources.boundary import Boundary

IDLE = 20.0
MEMORY = 1 << 30
MEMORY_FACTOR = 8
_FAST = 4 << 20  # bytes of a file that a library reads in a second, at least
_COMPILED = 16 << 20  # bytes of code that numba compiles
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED = ("socket.connect", "socket.bind", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")
_REMOVES = ("os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link", "os.symlink", "shutil.rmtree")

States = dict[str, tuple[int, ...]]
"""Path -> size, times of writing and of change in ns, inode, device."""


class LibraryReader(Protocol):
    """Reads a set with a library, in the fork: made of what `vfs.libraries.library.ask` gets as `opening`."""

    def __init__(self, opening: Mapping[str, Any]) -> None: ...

    @staticmethod
    def load() -> None:
        """Import what every fork needs, once, before there are any.

        Raises:
            ImportError: the library is not there.
        """

    @staticmethod
    def start() -> None:
        """Start in the fork what cannot be forked, before the fork is bounded. Whatever it raises becomes a line."""

    def answer(self, question: Mapping[str, Any], data: np.ndarray) -> tuple[dict[str, Any], np.ndarray | None]:
        """Answer a question with which data (uint8[n]) come. Whatever it raises becomes a line."""


def main(reader: str) -> None:
    """Answer requests until there are no more.

    Args:
        reader: see `vfs.model.libraries.Library`.
    """
    serve(partial(_load, reader), file_size=_COMPILED)


def _load(reader: str) -> Answer:
    module, _, name = reader.partition(":")
    made: type[LibraryReader] = getattr(import_module(module), name)
    missing = ""
    try:
        made.load()
    except ImportError as error:
        missing = str(error)
    return partial(_serve, made, missing)


def _serve(reader: type[LibraryReader], missing: str, opening: dict[str, Any], file: int, write: Write) -> None:
    failed = missing or _started(reader, float(opening["seconds"]))
    limits = ForkLimits(opening)
    sys.addaudithook(limits.audit)
    read: LibraryReader | None = None
    with socket.socket(fileno=file) as asked:
        while waits(asked, IDLE):
            try:
                question, data = received(asked)
            except EOFError:
                return
            if failed or limits.moved():
                send(asked, {"missing": missing} if missing else {"error": failed} if failed else {"stale": True})
                continue
            limits.begin(len(data), asked)
            array = None
            try:
                if read is None:
                    read = reader(opening)
                said, array = read.answer(question, data)
                if moved := limits.moved():
                    said, array = {"moved": moved}, None
            except MemoryError:
                said = {"error": f"asks for more than {limits.memory - limits.before:,} bytes of memory"}
            except (Exception, SystemExit) as error:
                said = {"error": f"says: {_told(error)}"}
            signal.setitimer(signal.ITIMER_REAL, 0)
            said.setdefault("files", {path: state[:2] for path, state in limits.opened.items()})
            if array is None:
                send(asked, said)
            else:
                array = np.ascontiguousarray(array)
                about = {"dtype": array.dtype.str, "shape": array.shape}
                send(asked, said | about, array.reshape(-1).view(np.uint8).data if array.size else b"")


def _started(reader: type[LibraryReader], seconds: float) -> str:
    """Start what a library needs. Returns what is wrong with it, "" if nothing is."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        reader.start()
    except Exception as error:
        return f"does not start: {_told(error)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


class ForkLimits:
    """ForkLimits memory and time of the fork, and which files it opens.

    Args:
        opening: with "seconds", and "folders" and "files", the boundary of the set, if it has one.

    Attributes:
        opened: the files of the set that were opened.
    """

    def __init__(self, opening: Mapping[str, Any]) -> None:
        self.boundary = Boundary(tuple(opening.get("folders", ())), tuple(opening.get("files", ())))
        own = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), "/usr", "/lib", "/etc", "/proc", "/sys")
        self.own = Boundary(tuple({os.path.realpath(path) for path in (*own, *filter(None, sys.path))}))
        cache = os.environ.get("NUMBA_CACHE_DIR")
        self.cache = Boundary((os.path.realpath(cache),) if cache else ())
        self.opened: States = {}
        with open("/proc/self/statm") as file:
            self.before = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
        self.memory, self.seconds = self.before + MEMORY, float(opening["seconds"])
        self._room(0)
        self.asked: socket.socket | None = None

    def _room(self, size: int) -> None:
        """Allow memory and time for a file of so many bytes."""
        self.memory += MEMORY_FACTOR * size
        self.seconds += size / _FAST
        resource.setrlimit(resource.RLIMIT_AS, (self.memory, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def begin(self, size: int, asked: socket.socket) -> None:
        """Begin with an answer about so many bytes that were sent."""
        self.asked = asked
        self._room(max(0, size - (self.memory - self.before - MEMORY) // MEMORY_FACTOR))
        self._time()

    def _time(self) -> None:
        if self.asked is not None:
            send(self.asked, {"wait": self.seconds})
        signal.setitimer(signal.ITIMER_REAL, self.seconds)  # SIGALRM ends the process

    def moved(self) -> str:
        """Return the path of a file that is not as it was when it was opened; "" if all are."""
        return moved(self.opened)

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Refuse what a reader has no business with: see `sys.addaudithook`."""
        if event in _REFUSED:
            raise PermissionError(f"{event} is not for readers of files")
        if event in _REMOVES or event == "os.mkdir":
            self._within(self.cache, args[0])
        elif event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            path, _, flags = args
            if flags & _WRITES:
                self._within(self.cache, path)
                return
            real = os.path.realpath(os.fsdecode(path))
            code = real.endswith((".py", ".pyc", ".so")) or (self.boundary.unlimited and self.own.holds(real))
            if self.boundary.holds(real) and not code:
                name = os.path.abspath(os.fsdecode(path))
                if name not in self.opened and (state := file_state(name)) is not None:
                    self.opened[name] = state
                    self._room(state[0])
                    self._time()
            elif not self.own.holds(real) and not self.cache.holds(real):
                raise PermissionError(f"{os.fsdecode(path)} lies outside of the folder of the set")

    @staticmethod
    def _within(boundary: Boundary, path: Any) -> None:
        if isinstance(path, int) or not boundary.holds(os.path.realpath(os.fsdecode(path))):
            raise PermissionError(f"{path}: files are opened for reading only")


def moved(opened: States) -> str:
    """Return the path of a file that is not as it was when it was opened; "" if all are."""
    return next((path for path, state in opened.items() if file_state(path) != state), "")


def file_state(path: str) -> tuple[int, ...] | None:
    """Return all that tells a file from another one: see `vfs.model.file_state`."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev


def _told(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:160] or type(error).__name__
