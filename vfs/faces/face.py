"""Says what a face is, a read-only view of a data set (`Face`), and shows its arrays as a zarr hierarchy (`ZarrFace`).

A face answers three questions about a key ("" is its root, no slashes at the ends):

- `node(key)`: a folder, or a file of so many bytes, or None. Sizes are computed, no source is touched.
- `children(key)`: names in a folder, made one at a time, however many there are.
- `get(key, start, stop)`: bytes. None only if there is no such key; a source that cannot be read
  raises `SourceError`.

A key that looks like a chunk and is none is not absent but a `NoChunkError`: see `vfs.faces.absence`.

`vfs.contents.contents.Contents` answers the same questions about the paths of a mount or server.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.chunk_access import Chunks, ChunkView
from vfs.engine.chunk_plan import WORTH_A_THREAD, ChunkPlan
from vfs.errors import NoChunkError, OptionError
from vfs.faces.absence import SHOWN, looks_like_chunk, may_be_absent
from vfs.faces.documents import v2, v3
from vfs.model.wording import option

if TYPE_CHECKING:
    from vfs.faces.images import ShownImage


class Node(NamedTuple):
    """A name in a face: a folder, or a file of `size` bytes.

    `listed` is True for a folder whose names people look for: a group, or a folder of data sets. A
    folder of chunks may hold millions, which only programs read. `json` is True for a file of JSON, as the documents of
    zarr are; other files are bytes.
    """

    folder: bool
    size: int
    listed: bool = False
    json: bool = False


class PlannedChunk(NamedTuple):
    """A chunk that is read as others of its array are: their plan, its position, and how its key ends with that."""

    plan: ChunkPlan
    position: tuple[int, ...]
    coordinates: str


class ArrayPart(NamedTuple):
    """What a key shows of an array: a chunk, a folder of chunks, or the whole array behind a header.

    Attributes:
        array: the array.
        position: coordinates of the chunk, of a folder the first ones; () for the whole array.
        file: False for a folder of chunks.
        header: the bytes before the whole array; None for chunks.
    """

    array: ArrayReader
    position: tuple[int, ...]
    file: bool
    header: bytes | None = None


class Face(Protocol):
    """A read-only view of a data set; the module describes its methods.

    Attributes:
        arrays: key -> array, of the arrays that are keys; empty for a face that is a file.
        images: key -> how such an array is shown as an image, with its levels, of those that are one.
        main: the key of the main array among them.
    """

    @property
    def arrays(self) -> Mapping[str, ArrayReader]: ...

    @property
    def images(self) -> Mapping[str, ShownImage]: ...

    @property
    def main(self) -> str: ...

    def node(self, key: str) -> Node | None: ...

    def children(self, key: str, after: int = 0) -> Iterator[str]: ...

    def get(self, key: str, start: int = 0, stop: int | None = None) -> memoryview | None: ...

    def part(self, key: str) -> ArrayPart | None:
        """Return what a key shows of an array; None for documents, groups, arrays, and where there is no such key."""
        ...

    def in_memory(self, key: str) -> bool:
        """Return True if the bytes of a key are in memory, so that `get` neither reads nor decodes."""
        ...

    def at_once(self, key: str, start: int, stop: int) -> memoryview | None:
        """Return what `get` returns, if that takes less time than the way to a thread and back; else None.

        It waits for no disk.
        """
        ...

    def planned(self, key: str) -> PlannedChunk | None:
        """Return how a chunk is read whose frames lie whole and one after the other in one file; else None."""
        ...


class FileFace(ABC):
    """What a face that is one file answers unless it says more: no array is a key, and nothing is at hand.

    A kind of file derives from it, and adds `get`, as `Face` says; `NpyFace` is one. `Hierarchy.face_kinds`
    (`vfs.faces.data_set`) lists the faces that a set has.

    Args:
        root: the file's node, which says its size: `Node(False, size)`.
    """

    main = ""
    arrays: Mapping[str, ArrayReader] = MappingProxyType({})
    images: Mapping[str, ShownImage] = MappingProxyType({})

    def __init__(self, root: Node) -> None:
        self.root = root

    @abstractmethod
    def get(self, key: str, start: int = 0, stop: int | None = None) -> memoryview | None:
        """Return bytes of the file; None if there is a key, which names nothing in it."""

    def node(self, key: str) -> Node | None:
        return None if key else self.root

    def children(self, key: str, after: int = 0) -> Iterator[str]:
        return iter(())

    def part(self, key: str) -> ArrayPart | None:
        return None

    def in_memory(self, key: str) -> bool:
        return False

    def at_once(self, key: str, start: int, stop: int) -> memoryview | None:
        return None

    def planned(self, key: str) -> PlannedChunk | None:
        return None


FOLDER = Node(True, 0)
GROUP = Node(True, 0, True)
MAX_FACE_NAME_BYTES = 248
"""Most bytes of a face's name; longer names are cut.

A name in a folder may have 255, but `-2` and so on must fit behind it.
"""


class ZarrFace:
    """Shows arrays as a zarr hierarchy of format 2 or 3.

    Args:
        arrays: path in the hierarchy -> array.
        groups: path -> attributes of a group; "" is the root. Groups that only lead to arrays need not be there.
        zarr_format: 3 or 2.
        main: path of the main array.
        files: key -> bytes, of further files in groups.
        images: path of an array -> how it is shown as an image.

    Attributes:
        chunks: array -> its `Chunks`.
        documents: key -> metadata document, or further file.
        groups: paths of all groups, each behind those above it; "" is the root.

    Raises:
        OptionError: `zarr_format` is another number.
    """

    def __init__(
        self,
        arrays: Mapping[str, ArrayReader],
        groups: Mapping[str, Mapping[str, Any]],
        zarr_format: int = 3,
        main: str = "",
        files: Mapping[str, bytes] = MappingProxyType({}),
        images: Mapping[str, ShownImage] = MappingProxyType({}),
    ) -> None:
        if zarr_format not in (2, 3):
            raise OptionError(f"{option(zarr_format=zarr_format)}: expected 3 or 2")
        self.arrays = dict(arrays)
        self.images = images
        self.chunks = {array: Chunks(array) for array in self.arrays.values()}
        self.zarr_format = zarr_format
        self.main = main
        # Longest key of a chunk, whose coordinates have at most 18 digits: longer keys are refused at once
        self._longest = max((len(path) + 2 + 19 * max(1, array.ndim) for path, array in self.arrays.items()), default=0)
        names = {"", *groups}
        for path in self.arrays:
            parts = path.split("/")
            names.update("/".join(parts[:n]) for n in range(1, len(parts)))
        self.groups = sorted(names)
        self.documents = (v3 if zarr_format == 3 else v2)(
            self.arrays, {name: groups.get(name, {}) for name in self.groups}
        ) | dict(files)
        self._folders: dict[str, dict[str, None]] = {name: {} for name in names}  # names in every folder, in order
        for path in self.arrays:
            self._folders[path] = {}
        for key in [*self.documents, *sorted(self.arrays), *sorted(names - {""})]:
            above, _, name = key.rpartition("/")
            self._folders[above][name] = None
        self._found: tuple[str, ArrayPart | None] = "/", None

    def part(self, key: str) -> ArrayPart | None:
        """Return the chunk, or the folder of chunks, that a key names; None if it names neither."""
        known, found = self._found  # those who ask for a node go on to ask for its bytes
        if known == key:
            return found
        if len(key) > self._longest:
            return None
        path = key.rpartition("/c/")[0] if self.zarr_format == 3 else key
        if path not in self.arrays:  # try shorter and shorter parts of the key
            path = key
        while path not in self.arrays:
            path, slash, _ = path.rpartition("/")
            if not slash:
                return None
        array = self.arrays[path]
        parts = key[len(path) + 1 :].split("/") if len(key) > len(path) else []
        if self.zarr_format == 3:
            if not parts or parts[0] != "c":
                return None
            parts = parts[1:]
            depth = array.ndim
        else:
            depth = max(1, array.ndim)  # the only chunk of an array without axes is called 0
        if len(parts) > depth or (not parts and self.zarr_format == 2):
            return None
        position = tuple(map(number, parts))
        counts = array.grid.counts or (1,) * (self.zarr_format == 2)
        if 0 in counts:
            return None  # an empty array has no chunks and no folders for them
        for p, n in zip(position, counts, strict=False):  # a loop: half the time of any()
            if not 0 <= p < n:
                return None
        found = ArrayPart(array, position[: array.ndim], len(parts) == depth)
        self._found = key, found
        return found

    def _check_absent(self, key: str) -> None:
        """Check that a key without bytes may be absent.

        Raises:
            NoChunkError: it looks like a chunk, or is below an array, where nothing but chunks and
                documents is: see `vfs.faces.absence`.
        """
        if key not in self._folders and may_be_absent(key.rpartition("/")[2]):
            return
        path = self._array_above(key)
        if path is not None:
            array = self.arrays[path]
            grid, shape = (" × ".join(map(str, numbers)) for numbers in (array.grid.counts, array.chunks))
            raise NoChunkError(
                f"{key[:SHOWN]}: the array {path} has {grid} chunks of {shape}, and not this one:"
                " it was opened when something else was shown here; open it again",
                stands_in=self._stands_in(array, key[len(path) + 1 :]),
            )
        if looks_like_chunk(key):
            raise NoChunkError(f"{key[:SHOWN]}: no array has this chunk: it was opened when another one was shown here")

    def _array_above(self, key: str) -> str | None:
        """Return the path of the array that a key is below; None if it is below none."""
        at = key.find("/")
        while 0 < at <= self._longest:
            if key[:at] in self.arrays:
                return key[:at]
            at = key.find("/", at + 1)
        return None

    def _stands_in(self, array: ArrayReader, key: str) -> tuple[bool, int] | None:
        """Return what a key below an array would be if the array were larger: see `NoChunkError`."""
        parts = key.split("/")
        if self.zarr_format == 3 and parts.pop(0) != "c":
            return None
        depth = max(array.ndim, self.zarr_format == 2)
        if len(parts) > depth or min(map(number, parts), default=0) < 0:
            return None
        return (True, 0) if len(parts) < depth else (False, max(1, array.chunk_bytes))  # an empty file is never read

    def node(self, key: str) -> Node | None:
        document = self.documents.get(key)
        if document is not None:
            return Node(False, len(document), json=True)
        if key in self._folders:
            return FOLDER if key in self.arrays else GROUP
        found = self.part(key)
        if found is None:
            self._check_absent(key)
            return None
        return Node(False, found.array.chunk_bytes) if found.file else FOLDER

    def size(self, key: str) -> int | None:
        """Return the number of bytes that `get` returns; None if there is no such key.

        Raises:
            NoChunkError: the key is below an array, looks like a chunk, and is none.
        """
        document, found = self.documents.get(key), self.part(key)
        if document is not None:
            return len(document)
        if found is not None and found.file:
            return found.array.chunk_bytes
        if self._array_above(key) is not None:
            self._check_absent(key)
        return None

    def children(self, key: str, after: int = 0) -> Iterator[str]:
        """Return the names in a folder, without the first `after`: those of `named`, then the numbers."""
        names = self.named(key)
        return chain(names[after:], map(str, range(max(0, after - len(names)), self.numbered(key))))

    def named(self, key: str) -> list[str]:
        """Return the names in a folder that are no numbers of chunks: documents, groups, arrays, and `c`."""
        array = self.arrays.get(key)
        has_c = self.zarr_format == 3 and array is not None and array.size > 0
        return [*self._folders.get(key, ()), *["c"] * has_c]

    def numbered(self, key: str) -> int:
        """Return how many names in a folder are numbers, from 0 on: all of them chunks, or all folders of chunks."""
        array = self.arrays.get(key)
        if array is not None:
            counts = array.grid.counts or (1,)
            return counts[0] if self.zarr_format == 2 and array.size else 0
        found = self.part(key)
        return 0 if found is None or found.file else found.array.grid.counts[len(found.position)]

    def get(self, key: str, start: int = 0, stop: int | None = None) -> memoryview | None:
        document = self.documents.get(key)
        if document is not None:
            return memoryview(document)[start:stop]
        found = self.part(key)
        if found is None or not found.file:
            self._check_absent(key)
            return None
        array, position = found.array, found.position
        size, chunks = array.chunk_bytes, self.chunks[array]
        stop = size if stop is None else min(stop, size)
        start = min(start, stop)
        if start == 0 and stop == size:
            return chunks.get(position).data
        if size <= array.cache.limit or array.decodes_whole:
            return _bytes(chunks.cached(position))[start:stop]
        return chunks.run(start, stop, position).data

    def viewed(self, array: ArrayReader) -> bool:
        """Return True if `view` returns chunks of an array."""
        return self.chunks[array].viewed

    def view(self, key: str) -> ChunkView | memoryview | None:
        """Return a chunk as a view that decodes when it is looked at, if there is one, else as `get` does."""
        found = self.part(key)
        if found is None or not found.file:
            self._check_absent(key)
            return None
        array, position = found.array, found.position
        view = self.chunks[array].view(position)
        return self.chunks[array].get(position).data if view is None else view

    def in_memory(self, key: str) -> bool:
        """Return True if a key is a document, or a chunk that is in the cache."""
        if key in self.documents:
            return True
        found = self.part(key)
        return found is not None and found.file and self.chunks[found.array].in_memory(found.position)

    def at_once(self, key: str, start: int, stop: int) -> memoryview | None:
        document = self.documents.get(key)
        if document is not None:
            return memoryview(document)[start:stop]
        found = self.part(key)
        if found is None or not found.file:
            return None
        array, position = found.array, found.position
        made = self.chunks[array].at_once(position, stop - start < array.chunk_bytes)
        return None if made is None else made.data[start:stop]

    def planned(self, key: str) -> PlannedChunk | None:
        found = self.part(key)
        if found is None or not found.file or not found.position:
            return None
        array, position = found.array, found.position
        plan = self.chunks[array].plan
        return None if plan is None else PlannedChunk(plan, position, "".join(f"/{p}" for p in position))

    @cached_property
    def slow(self) -> tuple[str, ...]:
        """The beginnings of the keys of chunks for which `get` takes longer than the way to a thread and back."""
        return tuple(f"{path}/" for path, array in self.arrays.items() if _is_slow(array))

    def total(self, key: str = "") -> int:
        """Return the bytes of all files in a folder and below it; 0 if there is no such folder.

        It computes the bytes of chunks, and enumerates only documents.
        """
        below = f"{key}/" if key else ""
        size = sum(len(document) for name, document in self.documents.items() if name.startswith(below))
        found = self.part(key)
        if found is not None and not found.file:  # a folder of chunks
            return math.prod(found.array.grid.counts[len(found.position) :]) * found.array.chunk_bytes
        return size + sum(
            math.prod(a.grid.counts) * a.chunk_bytes for path, a in self.arrays.items() if f"{path}/".startswith(below)
        )

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Return the keys that begin with `prefix`, documents and chunks, one at a time."""
        for key in self.documents:
            if key.startswith(prefix):
                yield key
        for path, array in sorted(self.arrays.items()):
            root = f"{path}/c" if self.zarr_format == 3 else path
            yield from _below(root, array.grid.counts if array.ndim or self.zarr_format == 3 else (1,), prefix)


def _below(root: str, counts: Sequence[int], prefix: str) -> Iterator[str]:
    """Return the chunk keys under `root` that begin with `prefix`. Folders that cannot match are skipped."""
    if not (root.startswith(prefix) or prefix.startswith(f"{root}/")):
        return
    if not counts:
        if root.startswith(prefix):
            yield root
        return
    if prefix.startswith(f"{root}/"):
        first, slash, _ = prefix[len(root) + 1 :].partition("/")
        if slash:  # only one folder can match
            branch = number(first)
            if 0 <= branch < counts[0]:
                yield from _below(f"{root}/{first}", counts[1:], prefix)
            return
    for n in range(counts[0]):
        yield from _below(f"{root}/{n}", counts[1:], prefix)


def _is_slow(array: ArrayReader) -> bool:
    """Return True if making a chunk takes longer than the way to a thread and back.

    A view of a mapped file is made at once, whatever its size.
    """
    if array.decodes_whole or array.groups.chunks != array.chunks:
        return True
    return (
        array.size > 0
        and array.chunk_bytes > WORTH_A_THREAD
        and array.straight(array.grid.region((0,) * array.ndim)) is None
    )


@lru_cache(1 << 12)
def number(part: str) -> int:
    """Parse a chunk coordinate of a key; return -1 for anything else ("007", "+1", "٣")."""
    plain = part.isascii() and part.isdecimal() and len(part) < 19 and (part == "0" or part[0] != "0")
    return int(part) if plain else -1


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
