"""Keeps blocks of computed levels in a folder of this machine, so that the next run need not compute them.

The folder is one as `vfs.sources.disk_cache` has: a file for each block, with a sum over its bytes, and a name that is
a digest of all that decides what is in it. That is: the files of the image, their sizes, tags, times of writing and of
change; the options that decide which numbers there are; the version of vfs, and of the rule by which levels are made;
the axes of the image, and the place of the block. So nothing is ever read that was made of something else.

Nothing is kept of files that may change while they are read, that are missing, or of which a server says too little to
tell them from others; nor of images that are themselves computed.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.chunking import as_bytes
from vfs.errors import OptionError
from vfs.model.files import Files
from vfs.model.pickles import packed
from vfs.model.region import Region
from vfs.model.wording import option
from vfs.sources.disk_cache import DiskCache
from vfs.sources.names import absolute, is_url

RULE = 1
"""Version of the rule by which pixels of a level are made. Whoever changes these numbers counts it up."""

log = logging.getLogger("vfs.reduce")


@dataclass(frozen=True)
class LevelStore:
    """Keeps the levels of the images of a set.

    Attributes:
        cache: the blocks of all sets.
        opened: digest of how the set was opened; empty if its files may change: then nothing is kept.
    """

    cache: DiskCache
    opened: bytes

    def of(self, image: ArrayReader, nearest: bool) -> KeptLevels | None:
        """Return what keeps the levels of an image; None if nothing is kept of it.

        Args:
            nearest: as of `vfs.reduce.pyramid.levels`.
        """
        files = image.dataset.files
        known = files.sizes >= 0
        tagged = np.array([bool(tag) for tag in files.tags] or [False] * len(files))
        if not self.opened or image.dataset.computed or not (known & (tagged | (files.written != 0))).all():
            return None
        said = (RULE, version("vfs"), image.dataset.path, image.shape, image.dims, image.dtype.str, nearest)
        return KeptLevels(self.cache, self.opened + packed(said), image, files)


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
class KeptLevels:
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
        error = self.cache.put(self._digest(number, region), block.tobytes())
        if error is not None and self.cache.folder not in _SAID:
            _SAID.add(self.cache.folder)
            log.warning(
                "%s: levels cannot be kept: %s; they are computed anew",
                option(pyramid_cache=self.cache.folder),
                error.strerror,
            )

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


_SAID: set[str] = set()
"""Folders of which the log says already that they cannot be written to."""
