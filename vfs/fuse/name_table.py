"""Holds names of the mount in a table for native code, which looks up, opens and lists chunks with it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from vfs.kernels.native import memory
from vfs.kernels.native.fuse import lookup, paths
from vfs.kernels.native.fuse.tables import NAME_PLACES, PROBES
from vfs.serving.native_sources import Retired


class NameTable:
    """Maps a path to its source and to the numbers that follow it in names of chunks. Its users lock it.

    Attributes:
        places: int64[NAME_PLACES], addresses of the words of names (`NameWord`), 0: free.
        known: path -> (its place, the arrays that its words point to); None: the table had no place
            for it.
        retired: receives entries that were taken out.
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
        """Let native code answer for a path and the numbers below it.

        If the table is full, the interpreter goes on answering.

        Args:
            source: number of the source.
            counts: number of names on each level below the path. A name with as many numbers is a file,
                one with fewer a folder.
            least: a name with fewer numbers is no folder.
            file_stat, folder_stat: struct stat of such a file and folder; their inode numbers are
                not used.
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
            memory.write_word(self.places.ctypes.data, free[0], words.ctypes.data)

    def remove(self, path: str) -> None:
        """Let the interpreter answer for a path again."""
        entry = self.known.pop(path, None)
        if entry is not None:
            memory.write_word(self.places.ctypes.data, entry[0], 0)
            self.retired.add(entry)
