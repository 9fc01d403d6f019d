"""Checks what users may read whom --allow-other lets in: only what they may read of the source files.

Their rights are looked up with each request: user and groups from the kernel, and the modes and
access control lists (POSIX ACLs) of the source files and of all folders above them. Rights that
depend on more than these (capabilities, SELinux, a file server with rules of its own) are not
checked. Root, and the user who mounted, may read everything that the server may.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from vfs.sources.names import is_url

READ, SEARCH = 4, 1
FILES_AT_EACH_REQUEST = 64  # the rights of up to so many files are looked up with each request
SECONDS = 1.0  # an answer about more files than that is reused for so long
_KEPT = 4096  # at most so many of these answers are kept

_ACL = "system.posix_acl_access"
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32


class Asker(NamedTuple):
    """A user with the groups of that user."""

    uid: int
    groups: frozenset[int]


def _groups_of(pid: int) -> Iterable[int]:
    """Return the supplementary groups of a process; none if /proc does not show them."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            line = next((line for line in status if line.startswith(b"Groups:")), b"")
    except OSError:
        return ()
    return map(int, line.split()[1:])


def allowed(path: str, asker: Asker, want: int) -> bool:
    """Return True if a file or folder lets a user read it (`READ`) or search it (`SEARCH`).

    Folders above it are not checked.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return True  # it does not exist, so there is nothing to protect
    except OSError:
        return False
    try:
        acl = os.getxattr(path, _ACL)
    except OSError:  # usually: it has no access control list
        mode = found.st_mode
        bits = mode >> 6 if asker.uid == found.st_uid else mode >> 3 if found.st_gid in asker.groups else mode
        return bits & want == want
    return _by_list(acl, found, asker, want)


def _by_list(acl: bytes, found: os.stat_result, asker: Asker, want: int) -> bool:
    """Check an access control list as acl(5) says.

    The owner's entry decides, else the entry of the user, else the entries of the user's groups,
    else the entry for all others.
    """
    entries = list(struct.iter_unpack("<HHI", acl[4:]))
    mask = next((bits for tag, bits, _ in entries if tag == _MASK), 7)
    groups: list[int] = []
    other = 0
    for tag, bits, who in entries:
        if tag == _USER_OBJ and asker.uid == found.st_uid:
            return bool(bits & want == want)
        if tag == _USER and who == asker.uid:
            return bool(bits & mask & want == want)
        if (tag == _GROUP_OBJ and found.st_gid in asker.groups) or (tag == _GROUP and who in asker.groups):
            groups.append(bits & mask)
        if tag == _OTHER:
            other = bits
    return any(bits & want == want for bits in groups) if groups else other & want == want


EVERYBODY = Asker(-1, frozenset())
"""An unknown user, who may read only what everybody may."""


class Askers:
    """Checks what the user may see from whom a request comes.

    Args:
        context: returns (user, group, process) of the request that this thread answers, from libfuse.
    """

    def __init__(self, context: Callable[[], tuple[int, int, int]]) -> None:
        self._context = context
        self._ours = {0, os.geteuid()}
        self._known: dict[tuple[object, Asker], tuple[float, str]] = {}

    def asker(self) -> Asker | None:
        """Return the user of the current request; None for a user who may see everything."""
        uid, gid, pid = self._context()
        return None if uid in self._ours else Asker(uid, frozenset((gid, *_groups_of(pid))))

    def may_enter(self, folder: str, asker: Asker) -> bool:
        """Return True if the asker could open files in a folder: search it and all folders above it.

        Nobody else could in one on a server, which the user who mounted may read.
        """
        if is_url(folder):
            return False
        at = os.path.realpath(folder)
        while allowed(at, asker, SEARCH):
            above = os.path.dirname(at)
            if above == at:
                return True
            at = above
        return False

    def may_list(self, folder: str, asker: Asker) -> bool:
        """Return True if the asker could list a folder."""
        return allowed(folder, asker, READ) and self.may_enter(folder, asker)

    def unreadable(self, files: Sequence[str], asker: Asker) -> str:
        """Return the first of some files that the asker could not read; "" if all can be read.

        Files that do not exist keep nobody out. Those on servers, which the user who mounted may read, keep all out.
        """
        if (elsewhere := next(filter(is_url, files), None)) is not None:
            return elsewhere
        key = (files[0], files[-1], len(files)) if len(files) > FILES_AT_EACH_REQUEST else None
        now = time.monotonic()
        if key is not None:
            until, answer = self._known.get((key, asker), (0.0, ""))
            if now < until:
                return answer
        real = {os.path.realpath(file): file for file in files}
        shut = {folder for folder in dict.fromkeys(map(os.path.dirname, real)) if not self.may_enter(folder, asker)}
        answer = next(
            (file for at, file in real.items() if os.path.dirname(at) in shut or not allowed(at, asker, READ)), ""
        )
        if key is not None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key, asker] = time.monotonic() + max(SECONDS, 10 * (time.monotonic() - now)), answer
        return answer
