"""Registers sources for native reads, with the times until which they are valid and their open files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from itertools import islice

from vfs.backends.handles import limit
from vfs.contents.shown import Lifetime
from vfs.engine.array import ArrayReader
from vfs.fuse.name_table import NameTable
from vfs.fuse.sources import NativeSource
from vfs.kernels.native.fuse import lookup
from vfs.kernels.native.words import FrameWord
from vfs.serving.native_sources import SourceTable

MANY = 1 << 16  # sources at most; others are read through the interpreter
CLOSED = 1 << 17  # so many dropped sources, about, keep their stamps
MIN_CACHE_BYTES = 1 << 20  # bytes: with a smaller cache, it is not worth cutting files into pieces


class SourceRegistry:
    """Puts sources into a table for native code (`SourceTable`). The number of a source is part of handles.

    Sources in a folder tree may change. They are answered natively until their files must be looked
    at again. A dropped source is taken out, with its names and open files, and its number is never
    used again for another source.

    Attributes:
        lock: held while sources, names or open files are added or removed.
        sources: number -> source.
        numbers: (id of the array, True for a .npy file) -> number; -1: it cannot be a source.
        stamps: number -> `Lifetime.stamp`, of sources that may change, also of some dropped ones.
        open: (number, source file) of the open files, the one opened last at the end.
    """

    def __init__(self, table: SourceTable, names: NameTable) -> None:
        self.lock = threading.Lock()
        self.names, self.table, self.retired = names, table, table.retired
        self.sources: dict[int, NativeSource] = {}
        self.numbers: dict[tuple[int, bool], int] = {}
        self.stamps: dict[int, int] = {}
        self.open: OrderedDict[tuple[int, int], NativeSource] = OrderedDict()

    def register(
        self, array: ArrayReader, header: bytes | None, lifetime: Lifetime | None, number: int | None = None
    ) -> int:
        """Make an array a source, as chunks or as a .npy file, and allow native reads of it for a time.

        If it is a source already, only the time is extended.

        Args:
            header: header of the .npy file; None: chunks.
            lifetime: tells if the set of the array is still current; None: the set never changes.
            number: the number of a source that was closed and is opened again; None: a new number.

        Returns: the number of the source; -1 if the array cannot be one.
        """
        key = id(array), header is not None
        with self.lock:
            found = self.numbers.get(key) if number is None else None
            if found is None:
                found = self._added(array, header, key, lifetime, number)
            source = self.sources.get(found)
        if lifetime is not None and source is not None and source.frames.lifetime is lifetime:
            self.trust(source, lifetime)
        return found

    def _added(
        self,
        array: ArrayReader,
        header: bytes | None,
        key: tuple[int, bool],
        lifetime: Lifetime | None,
        number: int | None,
    ) -> int:
        source = NativeSource(array, header)
        fits = source.direct or (
            source.size <= array.cache.limit and (source.whole or array.cache.limit >= MIN_CACHE_BYTES)
        )
        number = self.table.number(number) if fits and source.count < lookup.FILES_MOST else -1
        if number < 0:
            if lifetime is None:
                self.numbers[key] = -1
            return -1
        self.numbers.setdefault(key, number)
        self.sources[number] = source
        if lifetime is not None:
            self._remember(number, lifetime.stamp)
            source.frames.follow(lifetime, partial(self._take_out, number, lifetime))
        self.table.add(number, source.words)
        return number

    def _remember(self, number: int, stamp: int) -> None:
        if len(self.stamps) >= CLOSED:
            for old in [old for old in islice(self.stamps, CLOSED // 2) if old not in self.sources]:
                del self.stamps[old]
        self.stamps[number] = stamp

    def trust(self, source: NativeSource, lifetime: Lifetime) -> None:
        """Allow native reads of a source until its files must be looked at again."""
        source.frames.trust(lifetime.until)
        if lifetime.dropped:  # perhaps before it was followed
            self._take_out(int(source.words[FrameWord.NUMBER]), lifetime)

    def _take_out(self, number: int, lifetime: Lifetime) -> None:
        """Take a source out of the table, if its set was dropped."""
        if not lifetime.dropped:
            return
        with self.lock:
            source = self.sources.get(number)
            if source is None or source.frames.lifetime is not lifetime:
                return
            source.frames.end()
            del self.sources[number]
            key = id(source.array), source.npy
            if self.numbers.get(key) == number:
                del self.numbers[key]
            for file in list(source.frames.open):
                self._close(number, source, file)
            for text in source.texts:
                self.names.remove(text)
            self.table.remove(source, source.words)
        self.retired.collect()

    def reopen(self, number: int, source: NativeSource, file: int) -> None:
        """Open a source file that native code found closed or changed.

        Raises:
            SourceError: it cannot be opened.
        """
        handles = source.array.backend.descriptors
        assert handles is not None
        with self.lock:  # closes others before this one is opened: the limit may have been lowered
            full = len(self.open) >= max(4, limit() // 2)
            while len(self.open) >= max(4, limit() // 2):
                (other, one), its = next(iter(self.open.items()))
                self._close(other, its, one)
        if full:
            self.retired.collect()
            self.retired.collect()
        opened = handles.get(file, 0, 0)
        with self.lock:
            if self.sources.get(number) is not source:  # dropped meanwhile
                return
            self._close(number, source, file)
            source.frames.show(file, opened)
            self.open[number, file] = source
        self.retired.collect()

    def _close(self, number: int, source: NativeSource, file: int) -> None:
        opened = source.frames.hide(file)
        if opened is not None:
            del self.open[number, file]
            self.retired.add(opened)
