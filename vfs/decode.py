"""Decoders: bytes of read ranges to elements of the output.

Two kinds. A `Decoder` works on ranges: any part of the data decodes by itself, a word at a time. A `BlockDecoder` works on
whole blocks: a compressed strip or tile decodes completely or not at all. The engine asks for the kind by `word_bytes`: 0
means whole blocks.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol, cast

import numpy as np

from vfs.errors import DecodeError, OptionError
from vfs.kernels import steps


class Decoder(Protocol):
    """Decodes read ranges.

    One that also has `converts(dtype)` writes elements of the dtypes for which that is true, too, in the same pass.

    One that also has `step(dtype)` gives the address of a kernel that does what `decode` does into memory of that dtype (see
    `vfs.kernels.steps`): a read need not come back to the interpreter for every piece of a file.

    Attributes:
        dtype: of the elements it writes, native byte order.
        word_bytes, word_pixels: the smallest unit that decodes by itself: that many bytes hold that many elements.
        accumulates: True where it adds to the output, which must then be cleared.
        straight: True where the bytes in the file already are the elements in native order: contiguous ranges need no decoding.
        lined: True where it takes ranges of several lines. One that does not say so is given a range for each line.
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
            ranges: int64[n, 11] (see `vfs.kernels.ranges`), all of one file.
            data: uint8[m], the bytes of that file from `base` on.
            base: offset of `data[0]` in the file.
            out: [size], C-contiguous, of `dtype` or one that it converts to.
        """


class BlockDecoder(Protocol):
    """Decodes whole blocks. `word_bytes` is 0.

    One that also has `decode_into(data, block, out)` writes the elements into memory of theirs (dtype[size], in C order), so that a
    block that is wanted as a whole goes straight to where it belongs.
    """

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
        stored: dtype in the file: bool, integers or floats of up to 8 bytes, complex of up to 16.

    Raises:
        OptionError: a dtype of another kind.
    """

    stored: np.dtype
    word_pixels: int = 1
    accumulates: bool = False
    lined: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", np.dtype(self.stored))
        if self.stored.kind not in "biufc" or self.stored.itemsize > (16 if self.stored.kind == "c" else 8):
            raise OptionError(f"dtype {self.stored}: expected bool, integers or floats of at most 8 bytes, or complex of at most 16")

    @cached_property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    @property
    def word_bytes(self) -> int:
        return self.stored.itemsize

    @property
    def straight(self) -> bool:
        return self.stored.isnative

    def step(self, dtype: np.dtype) -> int:
        if dtype != self.dtype:
            return steps.placing_as(self.dtype, not self.stored.isnative, dtype)
        parts = 2 if self.stored.kind == "c" else 1
        return steps.placing(self.stored.itemsize // parts, parts, not self.stored.isnative)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        steps.decode(self.step(out.dtype), ranges, data, base, out.view(np.uint8))

    def converts(self, dtype: np.dtype) -> bool:
        """Float32 and float64 of integers of up to 4 bytes, as numpy casts them."""
        return self.stored.kind in "iu" and self.stored.itemsize <= 4 and dtype.kind == "f" and dtype.itemsize >= 4


@dataclass(frozen=True)
class CodecDecoder:
    """Blocks compressed with numcodecs codecs.

    A block decodes to as many bytes as it should, or not at all: what would unpack to more is given up on.

    Args:
        stored: dtype of the decoded bytes, either byte order.
        codec: a numcodecs configuration, `{"id": "zlib", …}`, or several in the order of encoding; none for plain bytes.

    Raises:
        OptionError: numcodecs does not know a codec, or it does not decode to plain bytes.
    """

    stored: np.dtype
    codec: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    word_bytes: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", np.dtype(self.stored))
        chain = [self.codec] if isinstance(self.codec, Mapping) else self.codec
        object.__setattr__(self, "codec", tuple(dict(codec) for codec in chain))
        for codec in self._chain:
            _codec(codec)

    @property
    def _chain(self) -> tuple[str, ...]:
        return tuple(json.dumps(codec, sort_keys=True) for codec in cast(Sequence[Mapping[str, Any]], self.codec))

    @property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        want = math.prod(shape) * self.stored.itemsize
        chain = self._chain
        try:
            made = np.empty(shape, self.dtype)
            flat = made.reshape(-1).view(np.uint8)
            got: Any = data
            for k, codec in enumerate(reversed(chain)):
                last = k == len(chain) - 1
                got = _decoded(_codec(codec), got, want if last else 16 * want + (1 << 16), flat if last else None)
        except Exception as error:  # a codec may fail in any way
            raise DecodeError(f"block {block}: does not decode with {', '.join(chain)[:240]}: {str(error)[:120] or type(error).__name__}") from None
        if got.size != want:
            raise DecodeError(f"block {block}: expected {want:,} bytes after decoding, found {got.size:,}")
        if got is not flat:
            flat[:] = got
        if not self.stored.isnative:
            made.byteswap(inplace=True)
        return made


_OBJECTS = ("pickle", "json2", "msgpack2", "categorize", "vlen-array", "vlen-bytes", "vlen-utf8")
"""Codecs that make Python objects: no elements of fixed size, and unsafe with bytes that somebody else wrote."""


@cache
def _codec(config: str) -> Any:
    """A codec of numcodecs from its configuration in JSON.

    Raises:
        OptionError: there is none.
    """
    from numcodecs import get_codec

    given = json.loads(config)
    said = config if len(config) <= 120 else f"{config[:120]}…"
    if given.get("id") in _OBJECTS:
        raise OptionError(f"codec {said}: makes Python objects, expected one that makes bytes")
    try:
        return get_codec(given)
    except Exception as error:
        raise OptionError(f"codec {said}: numcodecs cannot make it: {str(error)[:120]}") from None


def _unpacked(codec: Any, packed: io.BytesIO) -> gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
    if codec.codec_id == "gzip":
        return gzip.GzipFile(fileobj=packed)
    if codec.codec_id == "bz2":
        return bz2.BZ2File(packed)
    return lzma.LZMAFile(packed, format=codec.format, filters=codec.filters)


def _decoded(codec: Any, data: Any, most: int, out: np.ndarray | None) -> np.ndarray:
    """What `data` decodes to as uint8[n]: `out` where that can be written to; where there is more than `most` bytes, an error or a piece that is longer."""
    name = codec.codec_id
    if name == "zlib":
        inflate = zlib.decompressobj()
        got: Any = inflate.decompress(data, most + 1)
        if not inflate.eof and len(got) <= most:
            raise EOFError("the compressed data end too early")
    elif name in ("gzip", "bz2", "lzma"):
        with _unpacked(codec, io.BytesIO(data)) as stream:
            got = stream.read(most + 1)
    elif name in ("blosc", "lz4", "zstd") and out is not None:  # these check the size of what they write to; not all codecs do
        return out if len(np.frombuffer(codec.decode(data, out=out), np.uint8)) == out.size else out[:0]
    else:
        got = codec.decode(data)
    if isinstance(got, np.ndarray) and got.dtype.hasobject:
        raise TypeError("it makes Python objects, expected bytes")
    return np.frombuffer(got, np.uint8)
