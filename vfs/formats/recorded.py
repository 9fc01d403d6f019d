"""Compares the records that a file declares with those that it stores: a header, then records of one length.

One table for all such formats:

    bytes behind the last whole record   said, and counted as `bytes_left_over`: a warning, and an error where nothing
                                         says how many records there should be
    more than declared                   said, and counted as `frames_left_out`: a warning. The end of a record behind
                                         them proves another run where another file says what a record is (`apart`)
    fewer than declared                  said, and counted as `frames_missing`: a warning, since scans are stopped, and
                                         an error where such files are written at once (`whole`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.written import written_records
from vfs.model.files import Files
from vfs.model.layout.scan_order import surplus
from vfs.model.stored import Absence
from vfs.model.wording import are
from vfs.model.written import Proof


@dataclass(frozen=True)
class Recorded:
    """Says how many records a file stores.

    Attributes:
        path: the file.
        unit: what the format calls its records: "patterns".
        declarer: who says how many there should be: "the header", or a file.
        stored: number of whole records that were written.
        rest: bytes behind the last whole one.
        unwritten: what to say of records that nobody wrote, where the file was given its full size at once.
        proof: what all stored records have; None if the file does not tell.
    """

    path: str
    unit: str
    declarer: str
    stored: int
    rest: int
    unwritten: tuple[Absence, ...] = ()
    proof: Proof | None = None

    @classmethod
    def of(
        cls,
        files: Files,
        unit: str,
        record: int,
        first: int = 0,
        *,
        declarer: str = "the header",
        proof: Proof | None = None,
    ) -> Recorded:
        """Count the records of a file, of `record` bytes each, from byte `first` on.

        Args:
            proof: see `written_records`; None if a record has none.

        Raises:
            TruncatedSourceError: there is no whole record.
        """
        path, size = files.paths[0], int(files.sizes[0])
        stored, rest = divmod(max(0, size - first), record)
        found = cls(path, unit, declarer, stored, rest)
        if proof is not None:
            counts, unwritten, proof, _ = written_records(files, first, record, np.array([stored]), proof)
            found = replace(found, stored=int(counts[0]), unwritten=unwritten, proof=proof)
        if not found.stored:
            raise without_records(path, unit, record, first, size, declarer)
        return found

    def absences(
        self, what: str = "", shape: Sequence[int] | None = None, *, whole: bool = False, apart: bool = False
    ) -> tuple[Absence, ...]:
        """Compare what is declared with what is stored.

        Args:
            what: what is declared: "a map".
            shape: its shape; None if nobody says how many records there should be.
            whole: True if such a file is written at once: fewer records are an error, and no scan that was stopped.
            apart: True if another file says what a record is: the end of one behind more than all of them proves that
                records have another size, and that the file is of another run.
        """
        wanted = self.stored if shape is None else math.prod(shape)
        more = self.stored - wanted
        sides = " × ".join(f"{n:,}" for n in shape or (1,))
        some = f"{self.stored:,} of {wanted:,}" if more < 0 else f"{self.stored:,}"
        said = f"{self.path}: {self.declarer} says {what} of {sides}, {some} {self.unit} are stored"
        left = {"bytes_left_over": self.rest}
        if apart and more > 0 and self.rest:
            said += f", and {self.rest:,} bytes that are none: it belongs to another acquisition"
            return (Absence(said, FormatError, f"shows the first {wanted:,}", left | {"frames_left_out": more}),)
        absent = self.unwritten
        if more < 0:
            absent = tuple([replace(one, counts={}) for one in absent])  # counted here
            kind, then = (TruncatedSourceError, "it looks truncated") if whole else (None, "the others are blank")
            lost = {"frames_missing": -more}
            absent += (Absence(f"{said}; {then}", kind, "shows the others as blank", lost, to_come=True),)
        elif more > 0:
            said += f"; {are(more)} not shown{surplus(shape or (), self.stored)}"
            absent += (Absence(said, counts={"frames_left_out": more}),)
        if self.rest:
            to_come = shape is None or more < 0
            absent += (left_over(self.path, self.unit, self.rest, refused=shape is None, to_come=to_come),)
        return absent


def left_over(path: str, unit: str, rest: int, *, refused: bool, to_come: bool) -> Absence:
    """Report bytes behind the last whole record of a file."""
    said = f"{path}: {are(rest, 'byte')} left over after the last whole one of its {unit}"
    kind = TruncatedSourceError if refused else None
    return Absence(said, kind, "leaves them out", {"bytes_left_over": rest}, to_come=to_come)


def without_records(
    path: str, unit: str, record: int, first: int, size: int, declarer: str = "the header"
) -> TruncatedSourceError:
    """Return the error of a file, of `size` bytes, that holds no whole record: see `Recorded.of`."""
    return TruncatedSourceError(
        f"{path}: expected {unit} of {record:,} bytes from byte {first:,} on, as {declarer} says, the file has"
        f" {size:,} bytes; it looks truncated"
    )
