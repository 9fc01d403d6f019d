"""Keeps an entry for each mount and HTTP server of a user, a folder in which later commands find it.

    $XDG_RUNTIME_DIR/vfs/NAME/      a folder for each mount point or address; without $XDG_RUNTIME_DIR: vfs-UID/NAME/ in
                                    the folder for temporary files
        pid                         process id of the server, which locks this file (flock) as long as it lives
        status.json                 see `vfs.serving.status`; rewritten about once a second if something changed
        readers                     of a mount, see `vfs.fuse.readers`
        open.html                   of a server: leads a browser to its URL, see `vfs.cli.browser`; or a link to that
        log                         of a server in the background; stays until the next one there, at most a week

Only the user may read it (0700, 0600), and a folder that others could write to is not used. The
lock tells if a server lives. The process id does not: ids are reused, and have another meaning in
another container.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from typing import Any

from vfs.errors import ServeError, printable
from vfs.kernels.own_folder import made, not_ours, temporary
from vfs.new_files import put

KEPT = 7 * 86400  # seconds that a log stays after its server has ended
PID, STATUS, LOG, READERS, PAGE = "pid", "status.json", "log", "readers", "open.html"
PLACES = "mountpoint", "address"
"""Fields of a status that say where a server is: the first of a mount, the second of an HTTP server."""


def _in_runtime_folder() -> list[str]:
    """Return the runtime folders that may hold entries: that of the environment, then the usual one."""
    named = [os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"]
    return [os.path.join(name, "vfs") for name in dict.fromkeys(named) if os.path.isabs(name) and not not_ours(name)]


def home() -> str:
    """Return the folder for the entries of this user. It is made if it does not exist.

    Raises:
        ServeError: no folder belongs to this user alone.
    """
    told = os.environ.get("XDG_RUNTIME_DIR")
    usual = _in_runtime_folder()
    path = ""
    try:
        path = usual[0] if told and usual else temporary()
        fault = made(path)
    except OSError as error:
        raise ServeError(
            error.errno or errno.EIO,
            f"no folder for the state of servers: {printable(path)}: {error.strerror}; set XDG_RUNTIME_DIR",
        ) from None
    if fault:
        raise ServeError(
            errno.EPERM,
            f"{printable(path)}: expected a folder of yours alone: {fault}; remove it, or set XDG_RUNTIME_DIR",
        )
    return path


def _homes() -> list[str]:
    """Return all folders that may hold entries of this user."""
    names = _in_runtime_folder()
    with suppress(OSError):
        names.append(temporary())
    return [name for name in names if not not_ours(name)]


def _name(place: str) -> str:
    """Return the name of the entry of a mount point or address: its last part, and a hash of all of it."""
    word = re.sub(r"[^A-Za-z0-9]+", "-", os.path.basename(place.rstrip("/"))).strip("-")[:32]
    return f"{word or 'mount'}-{blake2b(os.fsencode(place), digest_size=4).hexdigest()}"


def _locked(folder: str, flags: int) -> int | None:
    """Open the pid file of an entry and lock it.

    Returns: its descriptor; None if another process holds the lock.

    Raises:
        FileNotFoundError: the file does not exist, or not any more.
    """
    fd = os.open(os.path.join(folder, PID), flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink == 0:  # another process cleared it meanwhile
            raise FileNotFoundError(errno.ENOENT, "cleared", folder)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def alive(folder: str) -> bool:
    """Return True if the server of an entry lives."""
    try:
        fd = _locked(folder, os.O_RDWR)
    except OSError:
        return False
    if fd is not None:
        os.close(fd)
    return fd is None


def _clear(folder: str, fd: int) -> None:
    """Remove an entry, but not its log. The caller holds its lock."""
    with suppress(OSError):  # it may be elsewhere, in a folder of its own
        page = os.readlink(os.path.join(folder, PAGE))
        os.unlink(page)
        os.rmdir(os.path.dirname(page))
    for name in (STATUS, STATUS + ".new", READERS, PAGE, PID):
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))
    with suppress(OSError):
        os.rmdir(folder)  # fails if there is a log
    os.close(fd)


class Entry:
    """Holds the entry of what this process serves. It exists, and is locked, until `end`.

    Args:
        place: the mount point, or the address.
        log: the server logs into a file of the entry.

    Attributes:
        folder: the folder of the entry.
        log: the name of its log file, or None.

    Raises:
        ServeError: there is no folder for it.
    """

    def __init__(self, place: str, log: bool = False) -> None:
        above = home()
        base = _name(place)
        try:
            self._fd = next(
                fd
                for n in count(1)
                if (fd := self._claimed(os.path.join(above, base if n == 1 else f"{base}-{n}"))) is not None
            )
            os.ftruncate(self._fd, 0)
            os.write(self._fd, b"%d\n" % os.getpid())
            for name in (STATUS, READERS, LOG):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.folder, name))
            self.log = os.path.join(self.folder, LOG) if log else None
            self.log_fd = (
                os.open(self.log, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
                if self.log
                else -1
            )
        except OSError as error:
            raise ServeError(
                error.errno or errno.EIO,
                f"{printable(self.folder)}: cannot be written to: {error.strerror}; set XDG_RUNTIME_DIR",
            ) from None

    def _claimed(self, folder: str) -> int | None:
        """Make a folder and lock it. Returns the descriptor of the lock; None if another server holds it."""
        self.folder = folder
        while True:
            with suppress(FileExistsError):
                os.mkdir(self.folder, 0o700)
            with suppress(FileNotFoundError):
                return _locked(self.folder, os.O_RDWR | os.O_CREAT)

    def write(self, document: Mapping[str, Any]) -> None:
        """Write the status. A reader sees the old one or the new one, never a mixture.

        Raises:
            OSError: it cannot be written.
        """
        text = json.dumps(document, indent=1) + "\n"
        put(os.path.join(self.folder, STATUS), text.encode(), STATUS + ".new", 0o600)

    def end(self, stays: bool = False) -> None:
        """Remove the entry, but not its log.

        Args:
            stays: the mount stays, without a server; then nothing is removed.
        """
        if self.log_fd >= 0:
            os.close(self.log_fd)
        if stays:
            os.close(self._fd)
        else:
            _clear(self.folder, self._fd)


def entries(field: str) -> Iterator[tuple[str, dict[str, Any], int | None]]:
    """Yield (folder, status, lock) of the entries of this user whose status has a field, and remove old logs.

    Args:
        field: one of `PLACES`.

    The lock is None if the server lives. If it has died, the caller has the lock and passes it to
    `drop`, which removes the entry, or to `keep`.
    """
    for above in _homes():
        for name in sorted(os.listdir(above)):
            folder = os.path.join(above, name)
            if not_ours(folder):
                continue
            try:
                fd = _locked(folder, os.O_RDWR)
            except OSError:
                _remove_old_log(folder)
                continue
            try:
                with open(os.path.join(folder, STATUS)) as file:
                    found = json.load(file)
                if not isinstance(found, dict) or not any(isinstance(found.get(name), str) for name in PLACES):
                    raise ValueError
            except (OSError, ValueError):  # the server is not ready yet, or has ended
                if fd is not None:
                    _clear(folder, fd)
                continue
            if isinstance(found.get(field), str):
                yield folder, found, fd
            elif fd is not None:  # of the other kind, whose list clears it
                os.close(fd)


drop, keep = _clear, os.close


def _remove_old_log(folder: str) -> None:
    log = os.path.join(folder, LOG)
    with suppress(OSError):
        if os.lstat(log).st_mtime < time.time() - KEPT:
            os.unlink(log)
            os.rmdir(folder)
