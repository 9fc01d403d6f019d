"""Decoders: bytes of read ranges to elements of the output.

Two kinds. A `Decoder` works on ranges: any part of the data decodes by itself, a word at a time. A `BlockDecoder` works on
whole blocks: a compressed strip or tile decodes completely or not at all. The engine asks for the kind by `word_bytes`: 0
means whole blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from vfs.errors import DecodeError, OptionError
from vfs.kernels import gather


class Decoder(Protocol):
    """Decodes read ranges.

    Attributes:
        dtype: of the elements it writes, native byte order.
        word_bytes, word_pixels: the smallest unit that decodes by itself: that many bytes hold that many elements.
        accumulates: True where it adds to the output, which must then be cleared.
        straight: True where the bytes in the file already are the elements in native order: contiguous ranges need no decoding.
    """

    @property
    def dtype(self) -> np.dtype: ...
    @property
    def word_bytes(self) -> int: ...
    @property
    def word_pixels(self) -> int: ...
    @property
    def accumulates(self) -> bool: ...
    @property
    def straight(self) -> bool: ...

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        """Write the elements of `ranges`.

        Args:
            ranges: int64[n, 8] (see `vfs.kernels.ranges`), all of one file.
            data: uint8[m], the bytes of that file from `base` on.
            base: offset of `data[0]` in the file.
            out: dtype[size], C-contiguous.
        """


class BlockDecoder(Protocol):
    """Decodes whole blocks. `word_bytes` is 0."""

    @property
    def dtype(self) -> np.dtype: ...
    @property
    def word_bytes(self) -> int: ...

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        """Decode one block.

        Args:
            data: uint8[m], the stored bytes.
            block: the block's number in the layout.
            shape: the shape it is stored in.

        Returns: dtype[shape].

        Raises:
            DecodeError: the bytes do not decode, or not to that shape.
        """


@dataclass(frozen=True)
class PlainDecoder:
    """Elements as numpy knows them, in either byte order.

    Args:
        stored: dtype in the file: bool, integers, floats or complex of 1 to 16 bytes.

    Raises:
        OptionError: a dtype of another kind.
    """

    stored: np.dtype
    word_pixels: int = 1
    accumulates: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", np.dtype(self.stored))
        if self.stored.kind not in "biufc" or self.stored.itemsize > 16:
            raise OptionError(f"dtype {self.stored}: expected bool, integer, float or complex of at most 16 bytes")

    @property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    @property
    def word_bytes(self) -> int:
        return self.stored.itemsize

    @property
    def straight(self) -> bool:
        return self.stored.isnative

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        parts = 2 if self.stored.kind == "c" else 1
        words = out.view(f"u{self.stored.itemsize // parts}")
        if self.stored.isnative:
            gather.place(ranges, data, base, words, parts)
        else:
            gather.place_swapped(ranges, data, base, words, parts)


@dataclass(frozen=True)
class CodecDecoder:
    """Blocks compressed with a numcodecs codec.

    Args:
        stored: dtype of the decoded bytes, either byte order.
        codec: numcodecs configuration, `{"id": "zlib", …}`.

    Raises:
        OptionError: numcodecs does not know the codec.
    """

    stored: np.dtype
    codec: Any
    word_bytes: int = 0

    def __post_init__(self) -> None:
        from numcodecs import get_codec

        object.__setattr__(self, "stored", np.dtype(self.stored))
        try:
            get_codec(dict(self.codec))
        except Exception as error:
            raise OptionError(f"codec {dict(self.codec)}: numcodecs cannot make it: {error}") from None

    @property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        from numcodecs import get_codec

        want = int(np.prod(shape)) * self.stored.itemsize
        try:
            got = np.frombuffer(get_codec(dict(self.codec)).decode(data), np.uint8)
        except Exception as error:
            raise DecodeError(f"block {block}: does not decode with {dict(self.codec)}: {error}") from None
        if got.size != want:
            raise DecodeError(f"block {block}: expected {want:,} bytes after decoding, found {got.size:,}")
        return got.view(self.stored).reshape(shape).astype(self.dtype, copy=False)
