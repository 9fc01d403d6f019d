"""Reads all that the files of a set say, when somebody asks for it: `original_metadata`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from vfs.engine.array import ArrayReader
from vfs.errors import VfsError
from vfs.faces.documents import plain_json
from vfs.formats import by_name, detect
from vfs.model.sources import Sources
from vfs.sets.opening import OpenedSet, Opening

Reader = Callable[[Sequence[str], Sources], Mapping[str, Any]]
"""What `Format.original` is."""


class Originals:
    """Keeps what the files of a set say, which is read once for each state of the set."""

    def __init__(self) -> None:
        self._found: OpenedSet | None = None
        self._read: dict[str | None, Mapping[str, Any]] = {}

    def of(self, found: OpenedSet, path: str | None = None) -> Mapping[str, Any]:
        """Return what `original` returns."""
        if found is not self._found:
            self._found, self._read = found, {}
        key = None if whole(found.opening) else path
        if key not in self._read:
            self._read[key] = original(found.opening, found.arrays, key)
        return self._read[key]


def whole(opening: Opening) -> bool:
    """Return True if the format of a set reads more than the metadata of its arrays."""
    return _reader(opening) is not None


def _reader(opening: Opening) -> Reader | None:
    """Return what reads all that a set says; None if its format has nothing of the kind. Of sets in a folder tree the
    format is not noted: their first bytes tell it.
    """
    if opening.options.format is not None:
        return by_name(opening.format).original
    with opening.sources.opening() as sources, suppress(VfsError):
        return detect(sources, opening.paths[0], opening.format_options).original
    return None


def original(opening: Opening, arrays: Mapping[str, ArrayReader], path: str | None = None) -> Mapping[str, Any]:
    """Return all that the files of a set say: a tree of values that JSON can hold.

    Args:
        arrays: those of the set.
        path: the array whose metadata are wanted, of a format that keeps them with the arrays; None: all arrays.

    Raises:
        SourceError, FormatError: the files cannot be read any more.
    """
    read = _reader(opening)
    if read is not None:
        with opening.sources.opening() as sources:
            return MappingProxyType(plain_json(read(opening.paths, sources)))
    if path is not None:
        return MappingProxyType(plain_json(arrays[path].attrs))
    datasets = [array.dataset for array in arrays.values()]
    said = {one.path: one.attrs for one in datasets if not (one.companion or one.computed)}
    alone = next(iter(said.values())) if len(said) == 1 else said
    return MappingProxyType(plain_json(alone))
