"""Keeps the lines of a journal in a store of objects, one a line."""

from __future__ import annotations

from collections.abc import Sequence

from vfs.outputs.journals import MarkLines
from vfs.zarr.buckets import Bucket


class MarksObjects(MarkLines):
    """Objects below a name, each with a line; their names are numbers in order.

    No object is written over: of two processes, one is told that there is another.
    """

    def __init__(self, bucket: Bucket, name: str, rest: str, other: str = "another export") -> None:
        self.name, self.rest, self.other = name, rest, other
        self._bucket = bucket
        self._next = 0

    def lines(self) -> list[bytes]:
        names = sorted(self._bucket.sizes(self.name))
        self._next = int(names[-1].rpartition("/")[2]) + 1 if names else 0
        return [line for line in self._bucket.read_all(names) if line is not None]

    def cut(self, lines: Sequence[bytes]) -> None:
        names = sorted(self._bucket.sizes(self.name))
        self._bucket.delete(names[len(lines) :])
        self._next = len(lines)

    def begin(self, line: bytes) -> None:
        self.add([line])

    def add(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            if not self._bucket.create(f"{self.name}/{self._next:08d}", line):
                raise self.another()
            self._next += 1

    def remove(self) -> None:
        names = sorted(self._bucket.sizes(self.name))
        self._bucket.delete(names[1:])
        self._bucket.delete(names[:1])  # last, for it says what the others are about

    def close(self) -> None:
        """Do nothing: nobody is kept out."""
