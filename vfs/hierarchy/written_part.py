"""Finds out up to where a file is written, of which the size proves nothing.

Some programs give a file its full size before they write it, by a hole, by space that the file system keeps for it,
or by zeros. What nobody has written reads as zeros in each case. So a file is written up to the last byte in it that is
not 0; programs write a file from its beginning to its end. That is found by halving, in a few small reads. It may find
less than there is where a detector counted nothing, and never more.

Pixels at the end of a frame may be 0. What follows the last byte that is not 0 is written, too, when the file has not
been written for `settle` seconds, and nothing says that it got its size at once:

- Its file system does not know a part in it that nobody has written.
- It was not seen to be written twice without becoming longer.
- It is less than a frame, or the file was seen to become longer while it was filled up to its end.

After `give_up` seconds without a write the file is as it is.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from vfs.model.files import Files
from vfs.sources.local import LocalSources

UNIT = 1 << 16
"""Bytes that are read at once."""


class Quiet(NamedTuple):
    """What is known of the writing of a file.

    Attributes:
        seconds: for so long it has not been written.
        grew: it was seen to become longer while it was filled up to its end.
        in_place: it was seen to be written without becoming longer, again and again.
        cut: it was seen to become shorter.
    """

    seconds: float
    grew: bool
    in_place: bool
    cut: bool = False


class Writing(Protocol):
    """Says what is known of the writing of files."""

    def quiet(self, files: Files, file: int) -> Quiet:
        """Say what is known of a file, of which the index is given."""

    def note(self, files: Files, file: int, filled: bool) -> None:
        """Note if a file is filled up to its last frame."""


class AtRest:
    """Says of files that nobody looked at before what their time of writing tells."""

    def quiet(self, files: Files, file: int) -> Quiet:
        return Quiet(max(0.0, time.time() - int(files.written[file]) / 1e9), False, False)

    def note(self, files: Files, file: int, filled: bool) -> None:
        pass


AT_REST = AtRest()


@dataclass(frozen=True)
class WrittenPart:
    """Says up to where files of a set are written.

    Attributes:
        files: the files.
        settle, give_up: seconds, see `vfs.open`.
        writing: says what is known of their writing.
    """

    files: Files
    settle: float
    give_up: float
    writing: Writing

    def end(self, file: int, begin: int, size: int, record: int = UNIT) -> int:
        """Return the byte up to which a part of a file is written.

        Args:
            begin, size: first byte of the part, and the one behind its last.
            record: bytes of a frame.

        Raises:
            SourceError: the file cannot be read.
        """
        quiet = self.writing.quiet(self.files, file)
        if quiet.seconds >= self.give_up or size <= begin:
            return size
        end = self._behind_last(file, begin, size)
        self.writing.note(self.files, file, end > begin and size - end < record)
        if end == size or quiet.seconds < self.settle or quiet.in_place:
            return end
        if not quiet.grew and size - end >= record:
            return end
        local = isinstance(self.files.sources, LocalSources)
        return end if local and has_hole(self.files.paths[file], end) else size

    def _behind_last(self, file: int, begin: int, size: int) -> int:
        """Return the byte behind the last one that is not 0, found by halving; `begin` if all are 0."""
        end = self._in_unit(file, max(begin, size - UNIT), size)
        if end:
            return end
        low, high = 0, (size - begin) // UNIT  # units before `low` were written, that at `high` was not
        found = begin
        while low < high:
            middle = (low + high) // 2
            at = begin + middle * UNIT
            end = self._in_unit(file, at, min(at + UNIT, size))
            if end:
                low, found = middle + 1, end
            else:
                high = middle
        return found

    def _in_unit(self, file: int, begin: int, end: int) -> int:
        """Return the byte behind the last one that is not 0 in a small part of a file; 0 if there is none."""
        held = self.files.sources.read(self.files.paths[file], begin, end - begin).rstrip(b"\0")
        return begin + len(held) if held else 0


def has_hole(path: str, begin: int) -> bool:
    """Return True if the file system knows a part of a file behind a byte that nobody has written."""
    try:
        with open(path, "rb", buffering=0) as file:
            hole, end = os.lseek(file.fileno(), begin, os.SEEK_HOLE), os.lseek(file.fileno(), 0, os.SEEK_END)
    except (OSError, ValueError):  # file systems that do not know
        return False
    return hole < end
