"""Decides, whenever a file is opened, if the kernel may keep its pages of that file."""

from __future__ import annotations

import time
from collections.abc import Iterable

from vfs.fuse.sources import NativeSource

FILES_AT_EACH_OPENING = 64  # up to so many source files are looked at with every opening
REMEMBERED = 1 << 16  # at most so many files have their findings remembered


class Freshness:
    """Looks at the source files of each file that is opened.

    It remembers these source files, and the files whose pages the kernel was told to drop.
    """

    def __init__(self) -> None:
        self._holders: dict[int, list[int]] = {}  # handle -> source files
        self._forgot: dict[str, int] = {}  # path -> `Files.moves` when the kernel was told to drop its pages

    def fresh(self, path: str, fh: int, number: int, source: NativeSource) -> bool:
        """Return True if the source files are unchanged, and no page of the kernel is older than their last touch.

        Args:
            path: path of the file that is opened.
            fh: its handle.
            number: its number in the source.
        """
        if len(source.array.files) > FILES_AT_EACH_OPENING and source.npy:
            if not source.trust.holds():
                began = time.monotonic()
                source.unchanged = _unchanged(source, range(len(source.array.files)))
                source.trust.renew(began)
            return source.unchanged and self._forgotten(path, source)
        holders = self._holders.get(fh)
        if holders is None:
            holders = source.holders(number)
            if len(self._holders) >= REMEMBERED:
                self._holders.clear()
            self._holders[fh] = holders
        return _unchanged(source, holders) and self._forgotten(path, source)

    def _forgotten(self, path: str, source: NativeSource) -> bool:
        """Return True if all pages of a file belong to the present state of its sources.

        After False they do, too, since the kernel drops them then.
        """
        moves = source.source_files.moves.item(0)
        if not moves or self._forgot.get(path) == moves:
            return True
        if len(self._forgot) >= REMEMBERED:
            self._forgot.clear()
        self._forgot[path] = moves
        return False


def _unchanged(source: NativeSource, holders: Iterable[int]) -> bool:
    files, unchanged = source.source_files, True
    for file in holders:  # looks at all of them, since each one may make cached data stale
        unchanged &= files.still(file) and files.sizes.item(file) >= 0
    return unchanged
