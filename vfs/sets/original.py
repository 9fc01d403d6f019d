"""Reads all that the files of a set say, when somebody asks for it: `original_metadata`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vfs.faces.documents import plain_json
from vfs.formats import by_name
from vfs.sets.opening import OpenedSet


class Originals:
    """Keeps what the files of a set say, which is read once for each state of the set."""

    def __init__(self) -> None:
        self._found: OpenedSet | None = None
        self._read: dict[str | None, Mapping[str, Any]] = {}

    def of(self, found: OpenedSet, path: str | None = None) -> Mapping[str, Any]:
        """Return what `original` returns."""
        if found is not self._found:
            self._found, self._read = found, {}
        key = path if by_name(found.opening.format).original is None else None
        if key not in self._read:
            self._read[key] = original(found, key)
        return self._read[key]


def original(found: OpenedSet, path: str | None = None) -> Mapping[str, Any]:
    """Return all that the files of a set say: a tree of values that JSON can hold.

    Args:
        path: the array whose metadata are wanted, of a format that keeps them with the arrays; None: all arrays.

    Raises:
        SourceError, FormatError: the files cannot be read any more.
    """
    opening = found.opening
    read = by_name(opening.format).original
    if read is not None:
        with opening.sources.opening() as sources:
            return MappingProxyType(plain_json(read(opening.paths, sources)))
    if path is not None:
        return MappingProxyType(plain_json(found.arrays[path].attrs))
    datasets = [array.dataset for array in found.arrays.values()]
    said = {one.path: one.attrs for one in datasets if not (one.companion or one.computed)}
    alone = next(iter(said.values())) if len(said) == 1 else said
    return MappingProxyType(plain_json(alone))
