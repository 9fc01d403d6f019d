"""Notes beside an unfinished store which of its units are done, so that an export can go on where it was stopped.

The journal (`vfs.outputs.journals`) has lines as the sums have (`vfs.outputs.sums`). Before marks of another state of
the sources than the marks before stands a line that says which (`vfs.zarr.unchanged.state_of`). In the end the marks,
in order, become `OUT.zarr.sums`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from vfs.outputs.journals import Journal, MarkLines
from vfs.outputs.sums import Mark, Subject, checked_line, sums_lines, told_by


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
        for k, line in enumerate(self.found[1:], 1):
            try:
                self._take(line)
            except (ValueError, KeyError, TypeError):  # it was not written to its end; nothing is written anew
                lines.cut(self.found[:k])
                break

    def _take(self, line: bytes) -> None:
        """Take up a line.

        Raises:
            ValueError, KeyError, TypeError: it is not whole.
        """
        told = told_by(line)
        if "state" in told:
            self.states.append(str(told["state"]))
        else:
            self._note(Mark.of(line))

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
            lines.insert(0, checked_line({"state": state}))
        self._note(mark)
        self._lines.add(lines)

    def sums(self) -> Iterator[bytes]:
        """Return the marks of all units, in order, as lines of the sums of a store."""
        return sums_lines(self.subject, [mark for _, mark in sorted(self.marks.items())])
