"""Shows the objects of a bucket to zarr-python, which only reads them.

zarr's own `ObjectStore` takes the library obstore as it is imported. In a fork that is the one of its parent, which
never answers there: this store asks through `Bucket`, which knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import NoReturn

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from vfs.outputs.buckets import Bucket, PartOf


class BucketStore(Store):
    """A store of zarr: the objects of a bucket, by their paths in it.

    Args:
        bucket: what is read from.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = False

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(read_only=True)
        self._bucket = bucket

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BucketStore) and other._bucket is self._bucket

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        url = f"{self._bucket.root}/{key}"
        data = await asyncio.to_thread(self._bucket.read, url, _part(byte_range))
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return await asyncio.gather(*[self.get(key, prototype, part) for key, part in key_ranges])

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self._bucket.read, f"{self._bucket.root}/{key}") is not None

    async def set(self, key: str, value: Buffer) -> NoReturn:
        raise NotImplementedError

    async def delete(self, key: str) -> NoReturn:
        raise NotImplementedError

    def list(self) -> AsyncIterator[str]:
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError


def _part(asked: ByteRequest | None) -> PartOf | None:
    """Return which bytes of an object are asked for, as `Bucket.read` takes it."""
    if isinstance(asked, RangeByteRequest):
        return asked.start, asked.end
    if isinstance(asked, OffsetByteRequest):
        return {"offset": asked.offset}
    return {"suffix": asked.suffix} if isinstance(asked, SuffixByteRequest) else None
