"""Keeps blocks of computed levels in a folder of this machine, so that the next run need not compute them.

The folder is one as `vfs.sources.disk_cache` has: a file for each block, with a sum over its bytes, and a name that is
a digest of all that decides what is in it. That is: the files of the image, their sizes, tags, times of writing and of
change; the options that decide which numbers there are; the code of vfs that this process computes with
(`vfs.own_code.contents`); the axes of the image, and the place of the block. So nothing is ever read that was made of
something else.

The version of vfs says nothing of this: a checkout changes without it, and a process that began before an update reads
the new one from the disk and computes with old code. Nor do contents of files say what such a process has loaded. So
blocks are found and kept only while all that is loaded came from files that have the contents of the digest still.

Nothing is kept of files that may change while they are read, that are missing, or of which a server says too little to
tell them from others; nor of images that are themselves computed; nor of formats that other packages bring, whose code
may change without a word.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.chunking import as_bytes
from vfs.errors import OptionError
from vfs.model.files import Files
from vfs.model.pickles import packed
from vfs.model.region import Region
from vfs.model.wording import option
from vfs.own_code import contents
from vfs.sources.disk_cache import DiskCache
from vfs.sources.names import absolute, is_url

log = logging.getLogger("vfs.reduce")


@dataclass(frozen=True)
class LevelStore:
    """Keeps the levels of the images of a set.

    Attributes:
        cache: the blocks of all sets.
        opened: digest of how the set was opened; empty if its files, or its format, may change: then nothing is kept.
    """

    cache: DiskCache
    opened: bytes

    def of(self, image: ArrayReader, nearest: bool) -> StoredLevels | None:
        """Return what keeps the levels of an image; None if nothing is kept of it.

        Args:
            nearest: as of `vfs.reduce.pyramid.levels`.
        """
        files = image.dataset.files
        known = files.sizes >= 0
        tagged = np.array([bool(tag) for tag in files.tags] or [False] * len(files))
        if not self.opened or image.dataset.computed or not (known & (tagged | (files.written != 0))).all():
            return None
        code = contents()
        if not code:
            _say_once(self.cache.folder, "no levels are cached: vfs was updated while this process ran; start it again")
            return None
        said = (code, image.dataset.path, image.shape, image.dims, image.dtype.str, nearest)
        return StoredLevels(self.cache, self.opened + packed(said), image, files)


def level_store(folder: str | os.PathLike[str], most: int | str, every: Iterable[Files], opened: bytes) -> LevelStore:
    """Return what keeps the levels of a set in a folder of this machine.

    Args:
        most: bytes in it, as a number or a text such as "1GiB".
        every: the files of the set.
        opened: see `LevelStore`.

    Raises:
        OptionError: the folder cannot be used, or data of the set lies in it.
    """
    cache = DiskCache(absolute(folder), as_bytes(most, "pyramid_cache_size"))
    cache.check("pyramid_cache")
    places = {os.path.dirname(path) for files in every for path in files.paths if not is_url(path)}
    if os.path.realpath(cache.folder) in {os.path.realpath(place) for place in places}:
        raise OptionError(
            f"{option(pyramid_cache=cache.folder)}: data lies there, and nothing is written beside it; name another"
            " folder"
        )
    return LevelStore(cache, opened)


@dataclass
class StoredLevels:
    """Keeps the levels of one image.

    Args:
        said: what decides the numbers, beside the states of the files.
    """

    cache: DiskCache
    said: bytes
    image: ArrayReader
    files: Files
    _start: tuple[int, bytes] = field(default=(-1, b""), init=False)

    def get(self, number: int, region: Region) -> np.ndarray | None:
        """Return a block of a level; None if it is not kept, or damaged.

        Args:
            number: of the level, 0 for the finest that is computed.
            region: the elements of the block.
        """
        data = self.cache.get(self._digest(number, region), self._nbytes(region))
        return None if data is None else np.frombuffer(data, self.image.dtype).reshape(region.shape).copy()

    def has(self, number: int, region: Region) -> bool:
        """Return True if a block is kept. It may be damaged."""
        return self.cache.has(self._digest(number, region), self._nbytes(region))

    def _nbytes(self, region: Region) -> int:
        return math.prod(region.shape) * self.image.dtype.itemsize

    def put(self, number: int, region: Region, block: np.ndarray, moved: int) -> None:
        """Keep a block. Where that is not possible, it is not kept, and a line in the log says so.

        Args:
            moved: `image.moved(0)` before its pixels were read.
        """
        if self.image.moved(0) != moved:
            return  # a file was touched meanwhile: nobody knows which of the two it was made of
        if not contents():
            return  # nor of which code, where modules came of an update
        error = self.cache.put(self._digest(number, region), block.tobytes())
        if error is not None:
            _say_once(self.cache.folder, f"levels cannot be kept: {error.strerror}; they are computed again")

    def _digest(self, number: int, region: Region) -> bytes:
        moved = self.image.moved(0)
        known, start = self._start
        if known != moved:  # of many files, once
            files = self.files
            made = sha256(self.said)
            made.update(packed((files.paths, files.tags, files.identity())))
            start = made.digest()
            self._start = moved, start
        return sha256(start + packed((number, region.start, region.stop))).digest()


def _say_once(folder: str, what: str) -> None:
    if folder not in _SAID:
        _SAID.add(folder)
        log.warning("%s: %s", option(pyramid_cache=folder), what)


_SAID: set[str] = set()
"""Folders of which the log says already that nothing is kept in them."""
