"""Tells whether the kernel may keep the pages that it has of a file, whenever somebody opens that file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from vfs.fuse.sources import SECONDS, NativeSource

FEW = 64  # source files that are looked at whenever something is opened
REMEMBERED = 1 << 16  # files of which is remembered what was found, at most


class Freshness:
    """Looks at the source files behind what is opened. It remembers which these are, and of which
    files the kernel was told to forget its pages.
    """

    def __init__(self) -> None:
        self._holders: dict[int, list[int]] = {}  # handle -> source files
        self._forgot: dict[str, int] = {}  # path -> `Files.moves` when the kernel was told to forget its pages

    def fresh(self, path: str, fh: int, number: int, source: NativeSource) -> bool:
        """Say whether the source files are those that were opened, and no page that the kernel has
        is older than the last touch of one.

        Args:
            path: of the file that is opened, as file `number` of the source; fh: its handle.
        """
        now = time.monotonic()
        if len(source.array.files) > FEW and source.npy:
            if now - source.looked[0] >= SECONDS:
                source.looked = now, _unchanged(source, range(len(source.array.files)))
            return source.looked[1] and self._forgotten(path, source)
        holders = self._holders.get(fh)
        if holders is None:
            holders = source.holders(number)
            if len(self._holders) >= REMEMBERED:
                self._holders.clear()
            self._holders[fh] = holders
        return _unchanged(source, holders) and self._forgotten(path, source)

    def _forgotten(self, path: str, source: NativeSource) -> bool:
        """Say whether all pages of a file are of the present state of its sources.

        Where they are not they will be from now on: the kernel forgets them when it hears False.
        """
        moves = source.sources.moves.item(0)
        if not moves or self._forgot.get(path) == moves:
            return True
        if len(self._forgot) >= REMEMBERED:
            self._forgot.clear()
        self._forgot[path] = moves
        return False


def _unchanged(source: NativeSource, holders: Iterable[int]) -> bool:
    files, unchanged = source.sources, True
    for file in holders:  # all of them: each may make stale what is kept
        try:
            unchanged &= files.same(file, os.stat(files.paths[file])) and files.sizes.item(file) >= 0
        except OSError:
            unchanged = False
    return unchanged
