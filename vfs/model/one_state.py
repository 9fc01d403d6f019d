"""One state: what is made of several reads is made of files that nobody changed in between, or it is an error.

*Where a state is taken.* Of the descriptor that is read: `vfs.backends` look at it (fstat) before its bytes and after
them, and `Files.same` compares what they find with the state that the file had before. Another size or time of writing
is an error at once. Another ctime, inode or device may mean other bytes under old times, or nothing at all (rights, a
link that a backup makes, a share that numbers its files anew): the file *moved*, and `Files.moves` is another number
from then on. A map holds on to the file that it was made of, whatever takes its name, but not to the bytes of one that
is written in place: so a thread that used views of maps looks at their files again when it is done (`Backend.settled`).
Of objects on servers each reply says the state.

*Who compares.* Code that combines several reads in one process, by `in_one_state`: a read of any size, a chunk, a pass,
a partition, the results of a derived array. Where parts are made by several processes, or one after the other
(`reduce(executor=)`, units of an export, `--resume`, steps of `api/compute`), each part states with `Files.identity` of
which state it is, and the process that joins them compares these with its own, after a look at all files
(`Files.look`).

*What follows when files moved.* The result is made again, once, of the new state. Output that is already on the disk is
compared with the source instead (units of an export have checksums of their elements), or discarded (the state of a
pass). If files move again, that is an error, which says what moved; not with `accept_changes`, by which the caller
states that files that move have the bytes of the set.

Files of a set that is still being written get more bytes all the time, so their states tell nothing. There each
consumer has the frames compared that were there before (`Files.check_begun_anew`).

Times of file systems have a grain: two writes within it (4 ms in Linux before 6.13) cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from vfs.model.files import Files

TRIES = range(2)
"""How often something is made of several reads: once more if files moved meanwhile, but not for ever."""

Made = TypeVar("Made")


class Settling(Protocol):
    """Reads files: what is asked of `vfs.backends.Backend` here."""

    files: Files
    copies: bool

    def settled(self, make: Callable[[], Made]) -> Made: ...


class MovedError(Exception):
    """Aborts a result that is being made, because files moved. The caller makes it again, or reports it."""


def in_one_state(backend: Settling, make: Callable[[], Made]) -> Made:
    """Make something of one state of files, and make it again, once, if they moved meanwhile.

    Args:
        backend: reads the files.
        make: makes it. Nothing of what it made before counts when it is called again.

    Returns: what `make` returned.

    Raises:
        SourceChangedError: files moved again, and nobody accepts that; or a set that is still being written was begun
            anew.
    """
    files = backend.files
    moves = files.moves
    for _ in TRIES:
        before = moves.item(0)
        try:
            made = make() if backend.copies else backend.settled(make)
        except MovedError:
            continue
        if moves.item(0) == before:
            break
    else:
        if not files.accepts:
            raise files.restless()
    if files.grows:
        files.check_begun_anew()
    return made
