"""Remembers the faces of a folder tree that were read from.

If their files vanish, their names become errors and do not just disappear: a program in the middle
of such a face would take absent chunks for blank ones.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

MAX_FACES = 1 << 16  # number of faces that are remembered: the ones that were read from last


class Seen:
    """Holds the paths of faces that were read from. Safe for many threads."""

    def __init__(self) -> None:
        self._faces: dict[str, None] = {}  # paths; the faces used last are at the end
        self._above: Counter[str] = Counter()  # folder -> number of faces in it and below
        self._lock = threading.Lock()

    def add(self, path: str) -> None:
        """Note that a face was read from."""
        with self._lock:
            if path not in self._faces:
                self._above.update(_folders(path))
            self._faces.pop(path, None)
            self._faces[path] = None
            if len(self._faces) > MAX_FACES:
                self._forget(next(iter(self._faces)))

    def _forget(self, path: str) -> None:
        del self._faces[path]
        for folder in _folders(path):
            self._above[folder] -= 1
            if not self._above[folder]:
                del self._above[folder]

    def knows(self, path: str) -> bool:
        """Return True if a path that does not exist now was such a face, lies in one, or is a folder above one."""
        return path in self._above or path in self._faces or any(above in self._faces for above in _folders(path))


def _folders(path: str) -> Iterator[str]:
    """Return the folders above a path, without the root."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)
