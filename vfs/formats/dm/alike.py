"""Recognises DM files that are alike, so that the tags of only one of them are read."""

from __future__ import annotations

from dataclasses import dataclass

from vfs.formats.dm.images import DmImage
from vfs.formats.headers import read_at
from vfs.model.sources import Sources

_BYTES_BEFORE = 192  # bytes before the pixels that hold their name and type
_BYTES_BEHIND = 1024  # bytes behind the pixels that hold the dimensions of the image


@dataclass(frozen=True)
class TagsAround:
    """Recognises files of a stack by the bytes of tags before and behind their pixels.

    Files of a stack usually differ only in values. If a file is as long as another one and has the
    same bytes around its pixels (name, type and number of the values before them; data type,
    dimensions and bytes per pixel behind them), it holds an image of the same type and shape. Then
    its other tags need not be read: this takes 15 µs instead of 200 µs and more.

    Attributes:
        size: bytes of the file.
        start, stop: first byte of the pixels, and first byte behind them.
        before: the bytes of tags that end at `start`.
        behind: the bytes of tags that begin at `stop`.
    """

    size: int
    start: int
    stop: int
    before: bytes
    behind: bytes

    @classmethod
    def of(cls, sources: Sources, path: str, size: int, image: DmImage, version: int) -> TagsAround | None:
        """Read the bytes around an image. Returns None if its tags are not in the order of Gatan's software."""
        start, stop = image.offset, image.offset + image.nbytes
        before = read_at(sources, path, _BYTES_BEFORE, start - _BYTES_BEFORE) if start > _BYTES_BEFORE else b""
        behind = read_at(sources, path, _BYTES_BEHIND, stop, short_ok=True)
        first, depth = before.rfind(b"\x15\x00\x04Data"), behind.find(b"PixelDepth")
        last = depth + (26 if version == 3 else 42)  # the end of its value
        if first < 0 or not -1 < behind.find(b"DataType") < behind.find(b"Dimensions") < depth or last > len(behind):
            return None
        return cls(size, start, stop, before[first:], behind[:last])

    def fit(self, sources: Sources, path: str, size: int) -> bool:
        """Return True if a file has the same bytes there.

        Raises:
            SourceError: it cannot be read.
        """
        if size != self.size:
            return False
        before = sources.read(path, self.start - len(self.before), len(self.before))
        return before == self.before and sources.read(path, self.stop, len(self.behind)) == self.behind
