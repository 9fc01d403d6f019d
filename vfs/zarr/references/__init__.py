"""Writes references to the bytes of a data set's own files, for readers that have no vfs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from vfs.errors import OptionError
from vfs.model.wording import option
from vfs.outputs.outputs import whole
from vfs.sets.opening import OpenedSet
from vfs.zarr.references import icechunk, kerchunk
from vfs.zarr.references.shown import ReferencedSet, referenced_set
from vfs.zarr.unchanged import check_sources

KINDS = ("kerchunk", "icechunk")
"""What references are written as."""


class WrittenReferences(NamedTuple):
    """What was written.

    Attributes:
        found: the arrays.
        nbytes: bytes of the file, or of all files in the folder.
    """

    found: ReferencedSet
    nbytes: int


def export(
    opened: OpenedSet,
    target: str | os.PathLike[str],
    to: str,
    blank: bool = False,
    check: Callable[[], None] = lambda: None,
) -> WrittenReferences:
    """Write references to the arrays of a set.

    Args:
        target: a new name: OUT.json or OUT.parquet for kerchunk, any for the folder of an Icechunk repository.
        to: see `KINDS`.
        blank: see `vfs.faces.references.references`.
        check: is called after every thousands of references. What it raises ends the export.

    Raises:
        OptionError: `target` exists already, cannot be written, or has another ending; or `to` is another word.
        NotReferenceableError: nobody can refer to the main array.
        DependencyError: a package that writes them is not installed.
        SourceError: small arrays, whose elements are copied, cannot be read; or a file is truncated.
    """
    write = _writer(os.fspath(target).rstrip("/"), to)
    found = referenced_set(opened, blank)
    with whole(target) as partial:
        write(found, partial, check)
        check()
        check_sources(opened.arrays.values())
        nbytes = _bytes(partial)
    return WrittenReferences(found, nbytes)


def _writer(target: str, to: str) -> Callable[[ReferencedSet, str, Callable[[], None]], None]:
    """Return what writes references.

    Raises:
        OptionError: there is none.
    """
    if to == "icechunk":
        return icechunk.write
    if to != "kerchunk":
        raise OptionError(f"{option(to=to)}: expected {' or '.join(KINDS)}")
    if target.endswith(".json"):
        return kerchunk.write_json
    if target.endswith((".parquet", ".parq")):
        return kerchunk.write_parquet
    raise OptionError(f"{target}: kerchunk's references are OUT.json (one file) or OUT.parquet (a folder)")


def _bytes(path: str) -> int:
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)
