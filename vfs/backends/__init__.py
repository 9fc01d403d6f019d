"""Backends: how bytes of files get into memory. One verb, `span`.

`mmap` maps files: views without a copy, for one's own process (a source that shrinks while it is read kills the process that
reads its map, so sizes are checked first, and what serves others does not use it). `buffered` reads with pread: a short
read is an error, never a crash. `direct` reads past the page cache. `vfs.testing` has a memory, a counting and a failing one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Protocol

import numpy as np

from vfs.errors import OptionError
from vfs.model.stored import Files


class Backend(Protocol):
    """Bytes of files.

    Attributes:
        copies: True where `span` copies into `scratch`, False where it gives views and needs none.
        in_place: True where `scratch` may be any memory, also the output itself, and exactly as long as the span.
        margin: bytes that `scratch` must be longer than the span where `in_place` does not hold.
        window: bytes that are best fetched at once.
    """

    copies: bool
    in_place: bool
    margin: int
    window: int

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0) -> np.ndarray:
        """The bytes `start` to `stop` of a file.

        Args:
            file: index into the set's files.
            scratch: uint8[at least stop - start + margin], page-aligned, that may be used for the answer. It belongs to the caller.
            wanted: int64[n, ≥ 3] read ranges (see `vfs.kernels.ranges`) if only these bytes matter: the others may be anything.
            width: where given, `scratch` is the whole output and an element of it so many bytes: every range of `wanted` (all have STEP 1) is
                read to its place there, and that is all; what is returned is `scratch`. For backends that read in place.

        Returns: uint8[stop - start], valid as long as the caller leaves `scratch` alone; in `scratch` where the backend copies,
            at its start where it reads in place.

        Raises:
            SourceError: the bytes cannot be had. The message names file and byte range.
        """

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> int | None:
        """Have somebody else read from the open file: a kernel, which needs no interpreter between its reads.

        Args:
            file: index into the set's files.
            start, stop: all bytes that may be read lie between these.
            read: takes a descriptor, good until it returns. Returns -1 where it read everything, else the number of the piece where it gave up.

        Returns: what `read` returned; None where this backend lends no files, and `read` was not called.

        Raises:
            SourceError: the file cannot be opened, or was written meanwhile. Why a piece could not be read is for `span` to say.
        """


_WHY = {
    "mmap": "maps files: views of them without a copy, for one's own process",
    "buffered": "reads with pread: a source that shrinks meanwhile is an error, where a map of it would kill the process",
    "direct": "reads past the page cache, for disks faster than that and data larger",
}


def choice(name: str, serves: bool = False) -> tuple[str, str]:
    """(the backend that a name stands for, why it), `auto` being the one that is best for what it is for.

    Args:
        name: `auto`, `mmap`, `buffered` or `direct`.
        serves: True where the process reads for others, as a mount does.

    Raises:
        OptionError: there is no such backend.
    """
    if name not in ("auto", *_WHY):
        raise OptionError(f"backend {name!r}: expected one of auto, {', '.join(_WHY)}")
    chosen = name if name != "auto" else "buffered" if serves else "mmap"
    return chosen, _WHY[chosen]


def make_backend(name: str, files: Files) -> Backend:
    """The backend of that name: `auto` (see `choice`), `mmap`, `buffered` or `direct`.

    Raises:
        OptionError: there is no such backend.
    """
    return _known()[choice(name)[0]](files)


@cache
def _known() -> dict[str, Callable[[Files], Backend]]:
    from vfs.backends.buffered import BufferedBackend
    from vfs.backends.direct import DirectBackend
    from vfs.backends.mapped import MmapBackend

    return {"mmap": MmapBackend, "buffered": BufferedBackend, "direct": DirectBackend}
