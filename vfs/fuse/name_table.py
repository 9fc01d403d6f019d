"""Names of the mount where native code finds them: what it takes to look up, open and list chunks
without the interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from vfs.fuse.pieces import Retired
from vfs.kernels.fuse import lookup, native, paths
from vfs.kernels.fuse.tables import NAME_PLACES, PROBES


class NameTable:
    """Says which source a path shows, and how many numbers follow it there. Its users lock it.

    Attributes:
        places: int64[NAME_PLACES], addresses of the words of names (`NameWord`), 0: free.
        known: path -> (its place, the arrays that its words point to); None: there was no place for it.
        retired: what was taken out goes there.
    """

    def __init__(self, retired: Retired) -> None:
        self.places = np.zeros(NAME_PLACES, np.int64)
        self.known: dict[str, tuple[int, list[np.ndarray]] | None] = {}
        self.retired = retired

    def __contains__(self, path: str) -> bool:
        return path in self.known

    def add(
        self, path: str, source: int, counts: Sequence[int], least: int, file_stat: bytes, folder_stat: bytes
    ) -> None:
        """Have native code answer for a path and the numbers below it. Where there is no place for
        it the interpreter goes on doing that.

        Args:
            source: its number.
            counts: how many names there are on each level below the path; with as many numbers a
                name is a file, with fewer a folder.
            least: numbers that make a folder, at least.
            file_stat, folder_stat: struct stat of such a file and folder; the inode numbers in them do not matter.
        """
        text = np.frombuffer(os.fsencode(path), np.uint8)
        file, folder = np.frombuffer(file_stat, np.uint8), np.frombuffer(folder_stat, np.uint8)
        below = np.array(counts, np.int64)
        hashed = int(paths.path_hash(text.ctypes.data, text.size))
        addresses = [
            text.size,
            text.ctypes.data,
            source,
            len(counts),
            least,
            below.ctypes.data,
            file.ctypes.data,
            folder.ctypes.data,
        ]
        words = np.array([hashed, *addresses], np.int64)  # as `NameWord` has them
        at = int(lookup.place(hashed, NAME_PLACES - 1))
        free = [place for k in range(PROBES) if self.places[place := (at + k) % NAME_PLACES] == 0]
        self.known[path] = (free[0], [text, file, folder, below, words]) if free else None
        if free:
            native.write_word(self.places.ctypes.data, free[0], words.ctypes.data)

    def remove(self, path: str) -> None:
        """Leave a path to the interpreter again."""
        entry = self.known.pop(path, None)
        if entry is not None:
            native.write_word(self.places.ctypes.data, entry[0], 0)
            self.retired.add(entry)
