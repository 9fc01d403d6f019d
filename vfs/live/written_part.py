"""Finds out up to where a file is written, of which the size proves nothing.

Some programs give a file its full size before they write it, by a hole, by space that the file system keeps for it,
or by zeros; others write several parts of it at once. What nobody has written reads as zeros in each case. The file
systems of this machine know holes and kept space (`vfs.sources.holes`): such a file is written up to the first of
these. Otherwise it is written up to the last byte in it that is not 0, and up to the first run of zeros of a block
that is met at places all over it. It may find less than there is where a detector counted nothing.
`vfs.live.doubts` looks at what is read for what lies between these places.

Pixels at the end of a frame may be 0. What follows the last byte that is not 0 is written, too, when nobody was seen
to write the file for `settle` seconds, and nothing says that it got its size at once:

- Its file system does not know a part in it that nobody has written.
- It was not seen to be written twice without becoming longer.
- It is less than a frame, or the file was seen to become longer while it was filled up to its end, on a disk that
  would know a hole.

After `give_up` seconds in which nobody was seen to write it, the file is as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vfs.live.file_watch import SEEN, Noticed
from vfs.model.files import Files
from vfs.model.sources import worth_looking
from vfs.sources.holes import holes, is_sparse, tells_holes

UNIT = 1 << 16
"""Bytes that are read at once."""
BLOCK = 1 << 12
"""Bytes of a run of zeros that may be what nobody has written: disks and programs write such pieces."""
SHORT = 16
"""Bytes of a run of zeros that tells nothing: pixels of 0 and the high bytes of small ones."""
_PLACES = 128  # of a file that are looked at; each costs 20 µs of a file at hand, and on a cold disk a seek


@dataclass(frozen=True)
class WrittenPart:
    """Says up to where files of a set are written.

    Attributes:
        files: the files.
        settle, give_up: seconds, see `vfs.open`.
    """

    files: Files
    settle: float
    give_up: float

    def seen(self, file: int) -> Noticed:
        """Return what was seen of a file."""
        return SEEN.known(self.files, file)

    def as_it_is(self, file: int) -> bool:
        """Return True if nobody was seen to write a file for so long that it counts as it is."""
        return self.seen(file).quiet >= self.give_up

    def holes(self, file: int, begin: int, end: int) -> Sequence[tuple[int, int]]:
        """Return the parts between two bytes of a file that its disk knows nobody has written."""
        found = [] if self.as_it_is(file) else holes(self.files.sources, self.files.paths[file], begin, end)
        if found and is_sparse(self.files.paths[file]):
            self.seen(file).sparse = True
        return found

    def knows_holes(self, file: int) -> bool:
        """Return True if zeros that are no hole were written: the disk tells holes, and the size came without zeros."""
        seen = self.seen(file)
        return (seen.grew or seen.sparse) and tells_holes(self.files.sources, self.files.paths[file])

    def end(
        self, file: int, begin: int, size: int, record: int = UNIT, hole: int | None = None, behind: bool = False
    ) -> int:
        """Return the byte up to which a part of a file is written.

        Args:
            begin, size: first byte of the part, and the one behind its last.
            record: bytes of a frame.
            hole: where a part of it begins that nobody has written, if there is one.
            behind: a later file has begun.

        Raises:
            SourceError: the file cannot be read.
        """
        seen = self.seen(file)
        if self.as_it_is(file) or size <= begin:
            return size
        stop = size if hole is None else min(size, hole)
        knows = self.knows_holes(file)
        end = self._behind_last(file, begin, stop)
        if not knows:
            end = self._before_zeros(file, begin, end)
        seen.note(end, end > begin and size - end < record)
        if hole is not None or (size - end >= record and not (seen.grew and knows)):
            return end
        rests = seen.quiet >= self.settle and (not seen.in_place or size - end < SHORT)
        return size if rests or behind else end

    def _behind_last(self, file: int, begin: int, size: int) -> int:
        """Return the byte behind the last one that is not 0, found by halving; `begin` if all are 0."""
        if size <= begin:
            return begin
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

    def _before_zeros(self, file: int, begin: int, end: int) -> int:
        """Return the byte behind the last one that is not 0 in front of a block of zeros, if one is met."""
        count = (end - begin) // BLOCK
        places = worth_looking(self.files.sources, _PLACES)
        step, low = max(1, -(-count // places)), -1
        for high in range(0, count, step):
            if not self._in_unit(file, begin + high * BLOCK, begin + (high + 1) * BLOCK):
                break
            low = high
        else:
            return end
        while high - low > 1:  # block `low` is written, `high` is not
            middle = (low + high) // 2
            at = begin + middle * BLOCK
            low, high = (middle, high) if self._in_unit(file, at, at + BLOCK) else (low, middle)
        return self._in_unit(file, begin + low * BLOCK, begin + high * BLOCK) if low >= 0 else begin

    def _in_unit(self, file: int, begin: int, end: int) -> int:
        """Return the byte behind the last one that is not 0 in a small part of a file; 0 if there is none."""
        held = self.files.sources.read(self.files.paths[file], begin, end - begin).rstrip(b"\0")
        return begin + len(held) if held else 0
