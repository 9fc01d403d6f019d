"""What an output is of, and the checksums of its parts: the sums beside it, `OUT.sums`.

The sums are lines of JSON. The first one says what is exported or reduced, and how (`Subject`). Each further line, a
*mark*, says that the files of a unit are on the disk, how many bytes they have, and the CRC-32C of each of its chunks,
in C order: of the elements that the chunk holds of the array, in C order, before compression.

Each line ends with the CRC-32C of what stands before: what a disk or a copy changed is noticed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from crc32c import crc32c

from vfs.outputs.journals import JournalSubject


def sums_name(target: str | os.PathLike[str]) -> str:
    """Return the name of the file with the sums of an output."""
    return f"{os.fspath(target).rstrip('/')}.sums"


@dataclass(frozen=True)
class Subject(JournalSubject):
    """Identifies an output: the same subject gives the same files, byte for byte.

    Attributes:
        sources: digest of the source files, their sizes and times, and of the options for opening them.
        store: digest of the documents of the store, and of its plans.
        arrays: path -> shape, chunks and unit of the array, and its dtype: what the marks are about.
        zarr_format: 3 or 2.
        vfs: the code that writes the store: see `vfs.own_code.code_key`.
        documents: name of each document -> its CRC-32C. What else there is tells them, so they are not compared.
    """

    sources: str
    store: str
    arrays: dict[str, dict[str, Any]]
    zarr_format: int
    vfs: str
    documents: dict[str, int] = field(default_factory=dict, compare=False)

    def line(self) -> bytes:
        return checked_line({"vfs_export": asdict(self)})

    @classmethod
    def of(cls, line: bytes) -> Subject:
        return cls(**told_by(line)["vfs_export"])

    def unlike(self, told: Subject) -> str:
        if told.sources != self.sources:
            return "was of other files, or these were changed since, or opened with other options"
        if told.store != self.store or told.vfs != self.vfs:
            return "had another codec, chunks, shards or code of vfs"
        return ""


class Mark(NamedTuple):
    """A unit that is done.

    Attributes:
        array: path of the array.
        unit: position of the unit in the grid of units.
        size: bytes of its files; -1 takes an earlier mark back.
        sums: uint32[chunks], the CRC-32C of each chunk.
    """

    array: str
    unit: tuple[int, ...]
    size: int
    sums: np.ndarray

    def line(self) -> bytes:
        """Return the mark as a line of the journal."""
        sums = self.sums.astype(">u4").tobytes().hex()
        told = {"array": self.array, "unit": self.unit, "bytes": self.size, "crc32c": sums}
        return checked_line(told)

    @classmethod
    def of(cls, line: bytes) -> Mark:
        """Read a line of the journal.

        Raises:
            ValueError, KeyError, TypeError: it is none.
        """
        told = told_by(line)
        sums = np.frombuffer(bytes.fromhex(told["crc32c"]), ">u4").astype(np.uint32)
        return cls(str(told["array"]), tuple(map(int, told["unit"])), int(told["bytes"]), sums)


def sums_lines(subject: Subject, marks: Iterable[Mark]) -> Iterator[bytes]:
    """Return sums as lines."""
    yield subject.line()
    yield from (mark.line() for mark in marks)


def read_sums(opened: Callable[[], BinaryIO]) -> tuple[Subject, Iterator[Mark]]:
    """Read sums.

    Args:
        opened: opens them.

    Returns: what the output is of, and the marks, read one at a time.

    Raises:
        OSError: they cannot be read.
        ValueError, KeyError, TypeError: they are something else.
    """
    with opened() as file:
        subject = Subject.of(file.readline())
    return subject, _marks(opened)


def _marks(opened: Callable[[], BinaryIO]) -> Iterator[Mark]:
    with opened() as file:
        file.readline()
        yield from map(Mark.of, file)


_END = b', "line": "'


def checked_line(told: Mapping[str, Any]) -> bytes:
    """Return a line of JSON with its checksum."""
    text = json.dumps(told).encode()[:-1]
    return text + _END + b'%08x"}\n' % crc32c(text)


def told_by(line: bytes) -> Any:
    """Return what a line says.

    Raises:
        ValueError: it is none, or not as it was written.
    """
    text, _, crc = line.rpartition(_END)
    if crc != b'%08x"}\n' % crc32c(text):
        raise ValueError("the line has another checksum")
    return json.loads(text + b"}")
