"""Unpacks `.mrc.gz` and `.mrc.bz2`, which decode only as a whole."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import DecodeError, FormatError, TruncatedSourceError
from vfs.formats.headers import read_at
from vfs.formats.mrc.pixels import Pixels, row_bytes
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import BlockLayout
from vfs.model.sources import Sources

_MOST_RATIO = 2000  # bytes that a packed byte may hold: 1,032 with gzip; bzip2 can hold more, but not of a real image
_STEP = 1 << 20  # bytes
_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
MARKS = tuple(_OPENERS)  # how a packed file begins


def opener_of(sources: Sources, path: str) -> Callable[..., Any] | None:
    """Return the function that unpacks the file; None if it is not packed."""
    start = sources.read(path, 0, 3)
    return next((opener for mark, opener in _OPENERS.items() if start.startswith(mark)), None)


def read_unpacked(sources: Sources, path: str, size: int, at: int, opener: Any) -> bytes:
    """Read bytes of a file, packed or not.

    Raises:
        TruncatedSourceError, FormatError: there are fewer bytes, or they do not unpack.
    """
    if opener is None:
        return read_at(sources, path, size, at)
    with sources.stream(path) as packed:
        try:
            with opener(packed) as stream:
                stream.seek(at)  # goes in small steps, while read(n) would allocate n bytes even if there are few
                got = b"".join(iter(lambda: stream.read(min(size - stream.tell() + at, 1 << 16)), b""))
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise FormatError(f"{path}: does not unpack: {error}") from None
    if len(got) < size:
        raise TruncatedSourceError(
            f"{path}: expected {size:,} bytes of header, found {len(got):,} after unpacking; the file looks truncated"
        )
    return got


def unpacked_size(sources: Sources, path: str, opener: Any) -> int | None:
    """Return the bytes of a file after unpacking, as gzip writes them at its end; None if nothing says it.

    Of a file of 4 GiB or more, or in several parts, it is too small. More than the file can hold is no size, but
    the end of a file that was cut.
    """
    size = sources.state(path).size
    said = int.from_bytes(read_at(sources, path, 4, size - 4), "little") if opener is gzip.open and size > 18 else 0
    return said if 0 < said <= _MOST_RATIO * size else None


@dataclass(frozen=True)
class UnpackedFile(MadeBlocks):
    """Decodes a packed file as one block: `skip` bytes of headers, then the pixels.

    `stored` is their dtype in the file; None for two pixels of 4 bits per byte. Without `more` it is an error if more
    bytes are behind the pixels: the header may say less than there is in front of them.
    """

    stored: np.dtype | None
    packing: str
    skip: int
    more: bool

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint8) if self.stored is None else self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        lies = shape if self.stored is not None else (*shape[:-1], row_bytes(shape[-1]))
        dtype = self.dtype if self.stored is None else self.stored
        try:
            made = np.empty(lies, dtype)
        except MemoryError:
            nbytes = math.prod(lies) * dtype.itemsize
            raise DecodeError(
                f"its header says {nbytes:,} bytes after unpacking, which memory does not hold; unpack the file first",
                errno.ENOMEM,
            ) from None
        memory = memoryview(made.reshape(-1).view(np.uint8).data)
        done = 0
        try:
            with _OPENERS[self.packing.encode("latin1")](io.BytesIO(data.data)) as stream:
                stream.seek(self.skip)
                while done < len(memory) and (got := stream.readinto(memory[done:])):
                    done += got
                behind = stream.read(1)  # at the end of the file it compares the checksum
                while self.more and stream.read(_STEP):
                    pass
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise DecodeError(f"does not unpack: {error}") from None
        if done < len(memory):
            raise DecodeError(
                f"expected {len(memory):,} bytes of pixels after unpacking, found {done:,}; the file looks truncated"
            )
        if behind and not self.more:
            raise DecodeError(
                f"expected {self.skip + len(memory):,} bytes after unpacking, as the header says, found more: unpack"
                " the file, then its size may say what they are"
            )
        return _unpaired(made, shape) if self.stored is None else made.astype(self.dtype, copy=False)


def _unpaired(pairs: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Turn bytes [..., y, pairs of pixels] into pixels [..., y, x] of 4 bits; the low half comes first."""
    pixels = np.empty(shape, np.uint8)
    np.bitwise_and(pairs, 15, out=pixels[..., ::2])
    np.right_shift(pairs[..., : shape[-1] // 2], 4, out=pixels[..., 1::2])
    return pixels


def unpacked_block(
    files: Files, opener: Callable[..., Any], pixels: Pixels, nav: tuple[int, ...], start: int, more: bool
) -> tuple[BlockLayout, UnpackedFile]:
    """Lay out a packed file as one block of pixels.

    Args:
        pixels: how the pixels of a section are stored.
        nav: shape of the axes of sections.
        start: byte of the first pixel after unpacking.
        more: True if bytes may be behind the pixels.

    Raises:
        FormatError: the file is too short to hold so many pixels.
    """
    shape = nav + pixels.sig
    nbytes, size = math.prod(nav) * pixels.nbytes, int(files.sizes[0])
    if nbytes > _MOST_RATIO * size:
        raise FormatError(
            f"{files.paths[0]}: the header says {nbytes:,} bytes of pixels, which {size:,} packed bytes cannot hold; it"
            " looks garbled or truncated"
        )
    mark = next(mark for mark, known in _OPENERS.items() if known is opener).decode("latin1")
    return BlockLayout.of_file(shape, files.sizes), UnpackedFile(pixels.stored, mark, start, more)
