"""Compares the records that a file declares with those that it stores: a header, then records of one length.

One table for all such formats:

    bytes behind the last whole record   said, and counted as `bytes_left_over`; an error where nothing tells how many
                                         records there should be
    more than declared                   said, and counted as `frames_left_out`; another `nav_shape` shows them
    fewer than declared                  said, and counted as `frames_missing`; the others are blank
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
from vfs.model.proofs import Proof
from vfs.model.stored import Absence
from vfs.model.wording import are


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
            raise TruncatedSourceError(
                f"{path}: expected {unit} of {record:,} bytes from byte {first:,} on, as {declarer} says, the file has"
                f" {size:,} bytes; it looks truncated"
            )
        return found

    def absences(
        self, what: str = "", shape: Sequence[int] | None = None, *, whole: bool = False, apart: bool = False
    ) -> tuple[Absence, ...]:
        """Compare what is declared with what is stored.

        Args:
            what: what is declared: "a map".
            shape: its shape; None if nobody says how many records there should be.
            whole: True if such a file is written at once: fewer records are an error, and no scan that was stopped.
            apart: True if the file has no header of its own: part of a record behind more than all of them proves that
                records have another size, and that the file is of another run.
        """
        wanted = self.stored if shape is None else math.prod(shape)
        less, more = wanted - self.stored, self.stored - wanted
        sides = " × ".join(f"{n:,}" for n in shape or (1,))
        some = f"{self.stored:,} of {wanted:,}" if less > 0 else f"{self.stored:,}"
        said = f"{self.path}: {self.declarer} says {what} of {sides}, {some} {self.unit} are stored"
        left = {"bytes_left_over": self.rest}
        if apart and more > 0 and self.rest:
            said += f", and {self.rest:,} bytes that are none: it is of another run"
            return (Absence(said, FormatError, f"shows the first {wanted:,}", left | {"frames_left_out": more}),)
        absent = self.unwritten
        if less > 0:
            absent = tuple([replace(one, counts={}) for one in absent])  # counted here
            kind, then = (TruncatedSourceError, "it looks truncated") if whole else (None, "the others are blank")
            lost = {"frames_missing": less}
            absent += (Absence(f"{said}; {then}", kind, "shows the others as blank", lost, to_come=True),)
        elif more > 0:
            said += f"; {are(more)} left out{surplus(shape or (), self.stored)}"
            absent += (Absence(said, counts={"frames_left_out": more}),)
        if self.rest:
            said = f"{self.path}: {are(self.rest, 'byte')} left over behind the last whole one of its {self.unit}"
            kind, to_come = TruncatedSourceError if shape is None else None, shape is None or less > 0
            absent += (Absence(said, kind, "leaves them out", left, to_come=to_come),)
        return absent
