"""Says what checksums files have that decoding does not compare: `vfs check --read` does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class ByteSum(Protocol):
    """A checksum that a file has of a run of its bytes, and that decoding does not compare.

    Attributes:
        file: index into the files of the array.
        start, stop: the bytes.
    """

    @property
    def file(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...

    def wrong(self, parts: Iterable[bytes]) -> str:
        """Compare it with the bytes, which come in parts of any size. Return what is wrong; "" if nothing is."""
