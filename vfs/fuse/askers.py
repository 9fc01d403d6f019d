"""Finds out who asks, and what he may read: users whom --allow-other lets in see what their own
rights give them, no more.

Their rights are looked up whenever they ask: user and groups as the kernel tells them, and the
modes and access control lists (POSIX ACLs) of the source files and of all folders above them.
Rights that depend on more than these (capabilities, SELinux, a file server with rules of its own)
are not seen here. Root, and the user who mounted, may read all that the server may.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

READ, SEARCH = 4, 1
FEW = 64  # files, at most, whose rights are looked up each time
SECONDS = 1.0  # that an answer about more files is good for
_KEPT = 4096  # such answers that are kept, at most

_ACL = "system.posix_acl_access"
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32


class Asker(NamedTuple):
    """A user, and the groups he is in."""

    uid: int
    groups: frozenset[int]


def _groups_of(pid: int) -> Iterable[int]:
    """Return the supplementary groups of a process; none where /proc does not show them."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            line = next((line for line in status if line.startswith(b"Groups:")), b"")
    except OSError:
        return ()
    return map(int, line.split()[1:])


def allowed(path: str, asker: Asker, want: int) -> bool:
    """Say whether a file or folder lets somebody read it (`READ`) or search it (`SEARCH`). Folders
    above it are not looked at.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return True  # there is nothing to be kept from
    except OSError:
        return False
    try:
        acl = os.getxattr(path, _ACL)
    except OSError:  # the usual case
        mode = found.st_mode
        bits = mode >> 6 if asker.uid == found.st_uid else mode >> 3 if found.st_gid in asker.groups else mode
        return bits & want == want
    return _by_list(acl, found, asker, want)


def _by_list(acl: bytes, found: os.stat_result, asker: Asker, want: int) -> bool:
    """Decide as acl(5) says: by the owner's entry, else that of the user, else any of his groups,
    else that of all others.
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
"""A user of whom nothing is known: he may read what everybody may."""


class Askers:
    """Says what those who ask may see.

    Args:
        context: returns (user, group, process) of the request that this thread answers, as libfuse tells it.
    """

    def __init__(self, context: Callable[[], tuple[int, int, int]]) -> None:
        self._context = context
        self._ours = {0, os.geteuid()}
        self._known: dict[tuple[object, Asker], tuple[float, str]] = {}

    def asker(self) -> Asker | None:
        """Return who asks now; None: somebody who may see all."""
        uid, gid, pid = self._context()
        return None if uid in self._ours else Asker(uid, frozenset((gid, *_groups_of(pid))))

    def may_enter(self, folder: str, asker: Asker) -> bool:
        """Say whether the asker could reach what is in a folder: search it and all folders above it."""
        at = os.path.realpath(folder)
        while allowed(at, asker, SEARCH):
            above = os.path.dirname(at)
            if above == at:
                return True
            at = above
        return False

    def may_list(self, folder: str, asker: Asker) -> bool:
        """Say whether the asker could list a folder."""
        return allowed(folder, asker, READ) and self.may_enter(folder, asker)

    def kept_by(self, files: Sequence[str], asker: Asker) -> str:
        """Return the first of some files that the asker could not read; "": he could read all.
        Files that do not exist keep nobody out.
        """
        key = (files[0], files[-1], len(files)) if len(files) > FEW else None
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
