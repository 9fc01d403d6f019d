"""Backends read bytes of files into memory: `span` returns bytes, `fetch` takes many windows at once, `lend` lets a
kernel read a file.

`mmap` maps files and returns views without a copy, for one's own process. A source that shrinks
while it is read kills the process that reads its map, so sizes are checked first, and processes
that serve others do not use it. `buffered` reads with pread: a short read is an error, never a
crash. `direct` reads past the page cache. `sourced` reads files that are not on this machine. `vfs.testing`
has backends that hold files in memory, count reads, and fail.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from vfs.errors import OptionError
from vfs.model.files import Files
from vfs.model.one_state import Made
from vfs.model.wording import option
from vfs.sources.local import LocalSources

if TYPE_CHECKING:
    from vfs.backends.handles import Descriptor, Handles


class Window(NamedTuple):
    """A window of a file that is to be fetched: what `Backend.span` takes."""

    file: int
    start: int
    stop: int
    memory: np.ndarray
    wanted: np.ndarray | None = None
    width: int = 0


class Backend(Protocol):
    """Reads bytes of files.

    Attributes:
        files: the files that it reads. Each read checks that they still have the sizes and times
            that are noted here. These may be fewer than the data set notes: with `accept_changes`
            none are.
        copies: True if `span` copies into `scratch`, False if it returns views and needs no
            scratch.
        in_place: True if `scratch` may be any memory, also the output itself, and exactly as long
            as the span.
        margin: how many bytes longer than the span `scratch` must be if `in_place` is False.
        window: number of bytes that are best fetched at once.
        descriptors: descriptors of the files, from which native code may read by itself; None if it may not.
        parallel: how many reads are under way at once in `fetch`; 1 without it.
    """

    files: Files
    copies: bool
    in_place: bool
    margin: int
    window: int
    descriptors: Handles[Descriptor] | None
    parallel: int

    @property
    def fetch(self) -> Callable[[Sequence[Window]], None] | None:
        """Reads many windows at once, each as `span` reads one, into its `memory`. Raises what `span` raises.

        None where no read waits for an answer, so that one after the other is as fast.
        """

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        """Return the bytes `start` to `stop` of a file.

        Args:
            file: index into the set's files.
            scratch: uint8[at least stop - start + margin], page-aligned, that may be used for the
                answer. It belongs to the caller.
            wanted: int64[n, ≥ 3] read ranges (see `vfs.kernels.columns`) if only these bytes matter:
                the others may have any value.
            width: bytes of an element, if `scratch` is the whole output. Then every range of
                `wanted` (all have STEP 1) is read to its place in the output, and `scratch` is
                returned. Only for backends that read in place.

        Returns: uint8[stop - start], valid as long as the caller leaves `scratch` alone. It lies in
            `scratch` if the backend copies, at its start if it reads in place.

        Raises:
            SourceError: the bytes cannot be read. The message names file and byte range.
        """

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> int | None:
        """Open a file and let a kernel read from it, which needs no interpreter between its reads.

        Args:
            file: index into the set's files.
            start, stop: all bytes that may be read lie between these.
            read: takes a descriptor that stays valid until it returns. Returns -1 if it read
                everything, else the number of the piece that it could not read.

        Returns: what `read` returned; None if this backend lends no files, and `read` was not
            called.

        Raises:
            SourceError: the file cannot be opened, or was written meanwhile. To learn why a piece
                could not be read, the caller asks `span` for it.
        """

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        """Let a kernel read from a file that is open, if that waits for neither a disk nor a network.

        Args:
            file, start, stop: see `lend`.
            read: takes a descriptor, and the row of `Files.states` that the file must have before and after. Returns
                True if it read everything.

        Returns: what `read` returned; False if the file is not open, or nobody knows how long it takes.
        """

    def settled(self, make: Callable[[], Made]) -> Made:
        """Call a function that reads files in this thread, and look at those behind it of which it had views: see
        `vfs.model.one_state`. Backends that copy look at files behind each read anyway.

        Raises:
            SourceError: a file is not the one that was opened any more: what was read of it may be of any state.
        """


_WHY = {
    "mmap": "maps files: views of them without a copy, for one's own process",
    "buffered": (
        "reads with pread: a source that shrinks meanwhile is an error, where a map of it would kill the process"
    ),
    "direct": "reads past the page cache, for data larger than memory on disks faster than copying",
}


def choice(name: str, serves: bool = False) -> tuple[str, str]:
    """Return (the backend that a name stands for, the reason). `auto` picks the best one.

    Args:
        name: `auto`, `mmap`, `buffered` or `direct`.
        serves: True if the process reads for others, as a mount does.

    Raises:
        OptionError: there is no such backend.
    """
    if name not in ("auto", *_WHY):
        raise OptionError(f"{option(backend=name)}: expected one of auto, {', '.join(_WHY)}")
    chosen = name if name != "auto" else "buffered" if serves or in_dask_worker() else "mmap"
    return chosen, _WHY[chosen]


def in_dask_worker() -> bool:
    """Return True in a task of a dask worker, which pauses and kills by the memory of its process.

    Pages of mapped files count as that: with 400 MiB a worker, a pass over 1 GiB ended in pauses, so they are
    not mapped there. The kernel takes them back when it needs them, as it does with those that are read, so
    that memory limits of the system (cgroups, containers) are no reason not to map.
    """
    asked = getattr(sys.modules.get("distributed"), "get_worker", None)
    with suppress(ValueError):  # says that this is no worker
        return asked is not None and bool(asked())
    return False


def make_backend(name: str, files: Files) -> Backend:
    """Make the backend of that name: `auto` (see `choice`), `mmap`, `buffered` or `direct`.

    Files that are not on this machine have one only, whatever the name.

    Raises:
        OptionError: there is no such backend.
    """
    chosen = choice(name)[0]
    if isinstance(files.sources, LocalSources):
        return _known()[chosen](files)
    return (_remote() if hasattr(files.sources, "fetch") else _sourced())(files)


@cache
def _remote() -> Callable[[Files], Backend]:
    from vfs.backends.remote import RemoteBackend

    return RemoteBackend


@cache
def _sourced() -> Callable[[Files], Backend]:
    from vfs.backends.sourced import SourcedBackend

    return SourcedBackend


@cache
def _known() -> dict[str, Callable[[Files], Backend]]:
    from vfs.backends.buffered import BufferedBackend
    from vfs.backends.direct import DirectBackend
    from vfs.backends.mapped import MmapBackend

    return {"mmap": MmapBackend, "buffered": BufferedBackend, "direct": DirectBackend}
