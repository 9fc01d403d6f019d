"""Finds files that do not belong to a zarr store: documents, and chunks outside of their array.

Readers take a document for another group or array, and a chunk comes to light when its array is made longer. Files that
no reader looks at (a text beside the arrays) are nobody's concern.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from vfs.model.naming import DOCUMENTS


@dataclass(frozen=True)
class ChunkKeys:
    """The keys of the chunks of an array, below its folder: of shards where it has these.

    Attributes:
        counts: of chunks along each axis.
        first: the part of a key before the numbers.
        between: what stands between two parts.
    """

    counts: tuple[int, ...]
    first: tuple[str, ...]
    between: str

    @classmethod
    def of(cls, document: Callable[[str], bytes | None], path: str) -> Self | None:
        """Return those that the document of an array tells of; None if it is damaged.

        Args:
            document: returns the bytes of the document of a key, or None.
        """
        first: tuple[str, ...] = ()
        try:
            if (old := document(f"{path}/.zarray")) is not None:
                told = json.loads(old)
                chunks, between = told["chunks"], told.get("dimension_separator", ".")
            else:
                told = json.loads(document(f"{path}/zarr.json") or b"")
                chunks = told["chunk_grid"]["configuration"]["chunk_shape"]
                encoding = told["chunk_key_encoding"]
                plain = encoding["name"] == "v2"
                between = encoding.get("configuration", {}).get("separator", "." if plain else "/")
                first = () if plain else ("c",)
            counts = tuple(-(-n // c) for n, c in zip(told["shape"], chunks, strict=True))
        except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
            return None
        return cls(counts, first, between)

    def has(self, key: str) -> bool:
        """Return True for the key of a chunk."""
        parts = key.split(self.between)
        numbers = parts[len(self.first) :]
        if not self.counts:
            return parts == [*self.first] or (not self.first and key == "0")
        return (
            parts[: len(self.first)] == [*self.first]
            and len(numbers) == len(self.counts)
            and all(part == f"{int(part)}" for part in numbers if part.isdecimal())
            and all(part.isdecimal() and int(part) < n for part, n in zip(numbers, self.counts, strict=True))
        )


def strangers(
    names: Iterable[str], arrays: Mapping[str, ChunkKeys | None], documents: Iterable[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the name of each file of a store that does not belong to it, and why.

    Args:
        names: of all its files.
        arrays: path -> keys of its chunks; None: nobody knows.
        documents: those that it was written with; None: those of the arrays and of the groups above them.
    """
    known = None if documents is None else {*documents}
    folders = {"/".join(parts[:k]) for path in arrays for parts in [path.split("/")] for k in range(len(parts) + 1)}
    for name in names:
        folder, _, last = name.rpartition("/")
        if last in DOCUMENTS:
            if name not in known if known is not None else folder not in folders | {""}:
                yield name, "is a document that does not belong to the store"
        elif (path := array_above(folder, arrays)) is not None:
            keys = arrays[path]
            if keys is not None and not keys.has(name[len(path) + 1 if path else 0 :]):
                yield name, f"is no chunk of {path}"


def array_above(folder: str, arrays: Mapping[str, object]) -> str | None:
    """Return the path of the array in whose folder a folder lies."""
    while folder not in arrays:
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
    return folder
