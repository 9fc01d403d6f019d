"""Implements a read-only `zarr.abc.store.Store` on the zarr face of a data set.

It only translates `vfs.faces.face.ZarrFace`:

- A document that does not exist gives None. A source that cannot be read raises `SourceError`, and so
  does a key that looks like a chunk and is none (`vfs.faces.absence`), because zarr silently
  turns None into fill values.
- If a chunk is one range of a mapped file, zarr gets this memory itself. Otherwise it gets memory
  from a pool, which is used again when nothing refers to it any more. Nothing is copied on the way,
  and no fresh pages are needed. Chunks are read-only.
- If the file has another byte order, or headers between the frames, zarr gets a view that decodes
  only the elements that it uses (`vfs.engine.chunk_access.ChunkView`): for z[i], one frame of a
  chunk of 16. The files are checked when the view is made.
- Sizes and listings are computed. They touch no source, and take time only for the listed keys.
- Writing of any kind raises zarr's own error for read-only stores, a ValueError.
- Stores are equal, and have the same hash, if they show the same data: equal documents, opened the
  same way from files of the same sizes and times. A pickled store holds the options with which it
  was opened, not the data. Its files are opened when it is first used; if they changed, that is an
  error.

The event loop answers cheap requests itself. Only requests that take longer than the way to a thread
and back go to a thread (`WORTH_A_THREAD`). `get_sync` works without an event loop, for zarr's fused
codec pipeline (zarr 3.3 and later).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
import zarr.abc.store
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, cpu, default_buffer_prototype

from vfs.engine.chunk_access import ChunkView
from vfs.errors import OptionError
from vfs.faces.face import ZarrFace


class Store(zarr.abc.store.Store):
    """A read-only zarr store of a data set.

    Args:
        face: the zarr face of the data set, or a function that makes it when it is first needed.
        again: (function, arguments) that make an equal store in another process; small and quick to
            pickle.
        name: name of the store in zarr's messages.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(
        self,
        face: ZarrFace | Callable[[], ZarrFace],
        again: tuple[Callable[..., Store], tuple[Any, ...]],
        name: str = "",
    ) -> None:
        super().__init__(read_only=True)
        self._face = face
        self.again = again
        self.name = name

    def __str__(self) -> str:
        return f"vfs://{self.name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self}')"

    def __reduce__(self) -> tuple[Callable[..., Store], tuple[Any, ...]]:
        return self.again

    def __eq__(self, value: object) -> bool:
        return isinstance(value, type(self)) and self.read_only == value.read_only and self._identity == value._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """Name what the store shows, for dask: without opening it."""
        make, given = self.again
        return make.__module__, make.__qualname__, *(getattr(one, "identity", one) for one in given)

    @cached_property
    def face(self) -> ZarrFace:
        """The zarr face of the data set."""
        return self._face if isinstance(self._face, ZarrFace) else self._face()

    @cached_property
    def _identity(self) -> Hashable:
        return _frozen((self.face.documents, self.again))

    @cached_property
    def _viewed(self) -> tuple[str, ...]:
        """The beginnings of the keys of chunks that zarr gets as a `ChunkView`.

        There are some in v3 only: zarr turns every v2 chunk into bytes first.
        """
        return tuple(
            f"{path}/"
            for path, array in self.face.arrays.items()
            if self.face.zarr_format == 3 and self.face.viewed(array)
        )

    @cached_property
    def _slow(self) -> tuple[str, ...]:
        """The beginnings of the keys of chunks that are made in a thread."""
        return tuple(way for way in self.face.slow if way not in self._viewed)

    def with_read_only(self, read_only: bool = False) -> Store:
        """Return an equal store that is not open yet.

        Raises:
            ValueError: `read_only` is False.
        """
        if not read_only:
            self._check_writable()
        return type(self)(self._face, self.again, self.name)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of a key; None if there is no such key.

        Args:
            prototype: kind of buffer; None: zarr's default.
            byte_range: a part of the bytes, as a request of zarr; bytes beyond the end are left out.

        Raises:
            OptionError: `byte_range` is not a request of zarr.
            SourceError: the source cannot be read, or the key looks like a chunk and is none.
        """
        self._is_open = True
        kind = (prototype or default_buffer_prototype()).buffer
        data: ChunkView | memoryview | None
        if byte_range is None:
            viewed = kind is cpu.Buffer and key[-1:].isdecimal() and key.startswith(self._viewed)
            data = self.face.view(key) if viewed else self.face.get(key)
        elif isinstance(byte_range, RangeByteRequest):
            data = self.face.get(key, byte_range.start, byte_range.end)
        elif isinstance(byte_range, OffsetByteRequest):
            data = self.face.get(key, byte_range.offset)
        elif isinstance(byte_range, SuffixByteRequest):
            size = self.face.size(key)
            data = self.face.get(key, max(0, (size or 0) - byte_range.suffix))
        else:
            raise OptionError(f"Unexpected byte_range, got {byte_range}.")
        if data is None:
            return None
        return kind.from_array_like(data) if isinstance(data, ChunkView) else kind.from_bytes(data)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of a key, as `get_sync` does, but in a thread if that pays."""
        if key[-1:].isdecimal() and key.startswith(self._slow) and not self.face.in_memory(key):
            return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)
        return self.get_sync(key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the bytes of several keys and ranges, in their order, as `get` does."""
        return list(await asyncio.gather(*(self.get(key, prototype, byte_range) for key, byte_range in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Return True if there are bytes for a key.

        Raises:
            NoChunkError: the key is below an array, looks like a chunk, and is none.
        """
        return self.face.size(key) is not None

    async def getsize(self, key: str) -> int:
        """Return the number of bytes of a key.

        Raises:
            FileNotFoundError: there is no such key.
            NoChunkError: the key is below an array, looks like a chunk, and is none.
        """
        size = self.face.size(key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the number of bytes of all keys in a folder and below it; 0 if there is no such folder."""
        return self.face.total(prefix.rstrip("/"))

    def list(self) -> AsyncIterator[str]:
        """Yield every key."""
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield every key that begins with `prefix`, which need not end with a slash."""
        for key in self.face.keys(prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names in a folder."""
        for name in self.face.children(prefix.rstrip("/")):
            yield name

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refuse to write: the store is read-only.

        Raises:
            ValueError: always.
        """
        self._check_writable()

    def delete_sync(self, key: str) -> None:
        """Refuse to delete: the store is read-only.

        Raises:
            ValueError: always.
        """
        self._check_writable()

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse to write: the store is read-only.

        Raises:
            ValueError: always.
        """
        self.set_sync(key, value)

    async def delete(self, key: str) -> None:
        """Refuse to delete: the store is read-only.

        Raises:
            ValueError: always.
        """
        self.delete_sync(key)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Refuse to write: the store is read-only.

        Raises:
            ValueError: always.
        """
        self._check_writable()
        await super().set_if_not_exists(key, value)

    async def delete_dir(self, prefix: str) -> None:
        """Refuse to delete: the store is read-only.

        Raises:
            ValueError: always.
        """
        self._check_writable()
        await super().delete_dir(prefix)

    async def clear(self) -> None:
        """Refuse to delete: the store is read-only.

        Raises:
            ValueError: always.
        """
        self._check_writable()
        await super().clear()


def _frozen(value: Any) -> Hashable:
    """Return a hashable value that is equal for equal values. Stores are compared by it."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return tuple(sorted((str(k), _frozen(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_frozen(v) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), tuple(_frozen(getattr(value, field.name)) for field in fields(value))
    return value if isinstance(value, Hashable) else repr(value)


class GrowingStore(Store):
    """A store of a set that is still being written: each request is answered from the set as it is then."""

    @property
    def face(self) -> ZarrFace:
        """The zarr face of the data set at this moment."""
        assert not isinstance(self._face, ZarrFace)
        return self._face()
