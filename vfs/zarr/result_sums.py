"""Notes in `OUT.sums`, as an export does, of which files and options results are, and the checksum of each.

`vfs verify OUT.zarr` compares a store of results with these. `vfs reduce --resume` knows by them that OUT is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vfs.model.naming import DOCUMENTS
from vfs.model.result_values import ResultValues
from vfs.outputs.places import place_of
from vfs.outputs.sums import Mark, Subject, sums_lines, sums_name
from vfs.own_code import code_key
from vfs.zarr.export.arrays import checksum


class ResultSums:
    """The sums of results.

    Args:
        target: what the results are written to.
        sources: digest of the sources and of how they were opened; empty if they may change.
        what: digest of all that is asked for.

    Attributes:
        name: their name.

    Raises:
        OptionError: something else has the name of the sums, or see `vfs.outputs.places.place_of`.
    """

    def __init__(self, target: str, sources: bytes, what: str) -> None:
        self._place = place_of(target)
        self.name = sums_name(target)
        self._sources, self._what = sources.hex(), what
        self._written = False
        with self._place.errors():
            if not self._place.exists():
                self._place.check_sums()

    def check_complete(self, like: Mapping[str, ResultValues]) -> None:
        """Check that what is there is what would be written.

        Args:
            like: results of the same names, shapes and dtypes.

        Raises:
            OptionError: it is something else, or nothing tells.
        """
        with self._place.errors():
            self._place.complete(self._subject(like))

    def write(self, results: Mapping[str, ResultValues], unfinished: str) -> None:
        """Write the sums of results, just before these have their name.

        Args:
            unfinished: what they are written to, under another name.
        """
        self._written = True
        marks = [_mark(name, result, unfinished) for name, result in sorted(results.items())]
        with self._place.errors():
            subject = replace(self._subject(results), documents=_documents(unfinished))
            with self._place.writing(self._place.sums) as file:
                file.writelines(sums_lines(subject, marks))

    def take_back(self) -> None:
        """Remove sums that were written of results that are not there after all."""
        if self._written:
            with self._place.errors():
                self._place.delete(self._place.sums)

    def difference(self, name: str, values: np.ndarray) -> str | None:
        """Say how a result that was read back is not what is noted of it; None if it is that.

        Raises:
            ValueError, KeyError, TypeError, OSError: nothing is noted of it.
        """
        subject, marks = self._place.read_sums()
        (noted,) = (mark for mark in marks if mark.array == name)
        about = subject.arrays[name]
        shape, dtype = tuple(about["shape"]), np.dtype(about["dtype"])
        if (values.shape, values.dtype) != (shape, dtype):
            return f"{name}: expected {dtype} {shape}, found {values.dtype} {values.shape}"
        return None if checksum(values) == noted.sums[0] else f"{name}: its elements have another checksum"

    def _subject(self, results: Mapping[str, ResultValues]) -> Subject:
        arrays = {name: _about(result) for name, result in sorted(results.items())}
        return Subject(self._sources, self._what, arrays, 3, code_key())


def _mark(name: str, result: ResultValues, unfinished: str) -> Mark:
    """Return what is noted of a result: its bytes are those of its files, or of a file of all results."""
    data = result.data
    chunks = [path for path in _files(os.path.join(unfinished, name)) if os.path.basename(path) not in DOCUMENTS]
    size = sum(map(os.path.getsize, chunks)) if os.path.isdir(unfinished) else os.path.getsize(unfinished)
    return Mark(name, (0,) * data.ndim, size, np.array([checksum(data)], np.uint32))


def _files(folder: str) -> Iterator[str]:
    return (os.path.join(below, name) for below, _, names in os.walk(folder) for name in names)


def _documents(folder: str) -> dict[str, int]:
    """Return the checksums of the documents of a store; {} for a file."""
    found = sorted(path for path in _files(folder) if os.path.basename(path) in DOCUMENTS)
    return {os.path.relpath(path, folder): checksum(np.fromfile(path, np.uint8)) for path in found}


def _about(result: ResultValues) -> dict[str, Any]:
    """Return what the sums say of a result: it is one box, whatever chunks it has in a store."""
    box = [max(1, length) for length in result.shape]
    return {
        "shape": list(result.shape),
        **dict.fromkeys(("chunks", "shards", "unit", "batch"), box),
        "dtype": result.dtype.str,
    }
