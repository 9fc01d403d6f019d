"""Notes beside an unfinished store which of its units are done, so that an export can go on where it was stopped.

The journal is lines of JSON (`vfs.outputs.journals`). Its first line says what is exported and how
(`Subject`). Each further line, a *mark*, says that the files of a unit are on the disk, how many bytes they have, and
the CRC-32C of each of its chunks, in C order: of the elements that the chunk holds of the array, in C order, before
compression. Before marks of another state of the sources than the marks before stands a line that says which
(`vfs.zarr.unchanged.state_of`). The export of another subject cannot go on. In the end the marks, in order, become
`OUT.zarr.sums`.

Each line ends with the CRC-32C of what stands before: what a disk or a copy changed is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from crc32c import crc32c

from vfs.outputs.journals import Journal, JournalSubject, MarkLines


@dataclass(frozen=True)
class Subject(JournalSubject):
    """Identifies an export: the same subject gives the same files, byte for byte.

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
        return _line({"vfs_export": asdict(self)})

    @classmethod
    def of(cls, line: bytes) -> Subject:
        return cls(**_told_by(line)["vfs_export"])

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
        return _line(told)

    @classmethod
    def of(cls, line: bytes) -> Mark:
        """Read a line of the journal.

        Raises:
            ValueError, KeyError, TypeError: it is none.
        """
        told = _told_by(line)
        sums = np.frombuffer(bytes.fromhex(told["crc32c"]), ">u4").astype(np.uint32)
        return cls(str(told["array"]), tuple(map(int, told["unit"])), int(told["bytes"]), sums)


class ExportJournal(Journal[Subject]):
    """The journal of an export that is under way: see `vfs.outputs.journals.Journal`.

    Attributes:
        marks: (array, unit) -> mark, of the units that are done.
        states: those of which the sources were while these were written; only the last one is known to be the present.
    """

    def __init__(self, lines: MarkLines, subject: Subject, resume: bool, anew: bool = False) -> None:
        super().__init__(lines, subject, resume, anew)
        self.marks: dict[tuple[str, tuple[int, ...]], Mark] = {}
        self.states: list[str] = []
        self._first = subject.line()
        for k, line in enumerate(self.found[1:], 1):
            mark, state = _mark(line), _state(line)
            if mark is not None:
                self._note(mark)
            elif state is not None:
                self.states.append(state)
            else:  # it was not written to its end: it is cut off, and nothing is written anew
                lines.cut(self.found[:k])
                break

    def _note(self, mark: Mark) -> None:
        if mark.size < 0:
            self.marks.pop((mark.array, mark.unit), None)
        else:
            self.marks[mark.array, mark.unit] = mark

    @property
    def stored(self) -> int:
        """Bytes of the files of the units that are done."""
        return sum(mark.size for mark in self.marks.values())

    def drop(self, keys: Collection[tuple[str, tuple[int, ...]]]) -> None:
        """Take back the marks of units whose files are not what these say, so that they are done again."""
        taken = [Mark(path, unit, -1, np.zeros(0, np.uint32)) for path, unit in keys]
        for mark in taken:
            self._note(mark)
        self._lines.add([mark.line() for mark in taken])

    def add(self, mark: Mark, state: str) -> None:
        """Note that a unit is done.

        Args:
            state: of the sources, as they were when this was known.
        """
        lines = [mark.line()]
        if self.states[-1:] != [state]:
            self.states.append(state)
            lines.insert(0, _line({"state": state}))
        self._note(mark)
        self._lines.add(lines)

    def sums(self) -> Iterator[bytes]:
        """Return the marks of all units, in order, as lines of the sums of a store."""
        yield self._first
        yield from (mark.line() for _, mark in sorted(self.marks.items()))


def sums_lines(subject: Subject, marks: Iterable[Mark]) -> Iterator[bytes]:
    """Return sums of what no journal was kept of, as lines."""
    yield subject.line()
    yield from (mark.line() for mark in marks)


def read_sums(path: str) -> tuple[Subject, Iterator[Mark]]:
    """Read the sums of a store from a file.

    Returns: what was exported, and the marks, read one at a time.

    Raises:
        OSError: the file cannot be read.
        ValueError, KeyError, TypeError: it is something else.
    """
    with open(path, "rb") as file:
        subject, _ = sums_in([file.readline()])
    return subject, _marks(path)


def sums_in(lines: Sequence[bytes]) -> tuple[Subject, Iterator[Mark]]:
    """Read the sums of a store from lines: see `read_sums`."""
    return Subject.of(lines[0] if lines else b""), map(Mark.of, lines[1:])


def _marks(path: str) -> Iterator[Mark]:
    with open(path, "rb") as file:
        file.readline()
        yield from map(Mark.of, file)


_END = b', "line": "'


def _line(told: Mapping[str, Any]) -> bytes:
    text = json.dumps(told).encode()[:-1]
    return text + _END + b'%08x"}\n' % crc32c(text)


def _told_by(line: bytes) -> Any:
    """Return what a line says.

    Raises:
        ValueError: it is none, or not as it was written.
    """
    text, _, crc = line.rpartition(_END)
    if crc != b'%08x"}\n' % crc32c(text):
        raise ValueError("the line has another checksum")
    return json.loads(text + b"}")


def _state(line: bytes) -> str | None:
    """Return the state of the sources that a line says; None for another line."""
    try:
        return str(_told_by(line)["state"])
    except (ValueError, KeyError, TypeError):
        return None


def _mark(line: bytes) -> Mark | None:
    """Return the mark of a line; None for a line that was not written to its end."""
    try:
        return Mark.of(line)
    except (ValueError, KeyError, TypeError):
        return None
