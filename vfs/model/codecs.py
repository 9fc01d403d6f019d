"""Decodes blocks that are compressed with codecs of numcodecs, and never makes more bytes than a block has.

What is decoded comes from strangers: a few bytes may say that they become terabytes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, cast

import numpy as np

from vfs.errors import DecodeError, NotReferenceableError, OptionError
from vfs.model.decode import Encoding, IntoBlocks


@dataclass(frozen=True)
class CodecDecoder(IntoBlocks):
    """Decodes blocks that are compressed with codecs of numcodecs.

    A block must decode to exactly its size. A block that would unpack to more is an error as soon
    as one codec of the chain makes too many bytes, so that a bad file cannot fill the memory.

    Args:
        stored: dtype of the decoded bytes, in either byte order.
        codec: a numcodecs configuration, `{"id": "zlib", …}`, or several in the order of encoding;
            an empty sequence for plain bytes.

    Raises:
        OptionError: numcodecs does not know a codec, or the codec does not decode to plain bytes.
    """

    stored: np.dtype
    codec: Mapping[str, Any] | Sequence[Mapping[str, Any]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", np.dtype(self.stored))
        chain = [self.codec] if isinstance(self.codec, Mapping) else self.codec
        object.__setattr__(self, "codec", tuple(dict(codec) for codec in chain))
        for codec in self._chain:
            _codec(codec)

    @cached_property
    def _chain(self) -> tuple[str, ...]:
        return tuple(json.dumps(codec, sort_keys=True) for codec in cast(Sequence[Mapping[str, Any]], self.codec))

    @cached_property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        chain, flat = self._chain, out.view(np.uint8)
        codecs, rooms = _rooms(chain, flat.size)
        try:
            got = np.frombuffer(data, np.uint8)
            for k, codec in reversed([*enumerate(codecs)]):
                if got.size > rooms[k + 1].most and not rooms[k + 1].packed:
                    raise ValueError(
                        f"{codec.codec_id} would make more than the {rooms[k].most:,} bytes that there is room for"
                    )
                got = _decoded(codec, got, rooms[k], None if k else flat)
                if k and got.size > rooms[k].most:
                    raise ValueError(
                        f"{codec.codec_id} makes more than the {rooms[k].most:,} bytes that there is room for"
                    )
        except Exception as error:  # a codec may fail in any way
            raise DecodeError(
                f"block {block}: does not decode with {', '.join(chain)[:240]}:"
                f" {str(error)[:120] or type(error).__name__}"
            ) from None
        if got.size != flat.size:
            raise DecodeError(f"block {block}: expected {flat.size:,} bytes after decoding, found {got.size:,}")
        if got is not flat:
            flat[:] = got
        if not self.stored.isnative:
            out.byteswap(inplace=True)

    def encoding(self, nbytes: int, blocks: np.ndarray) -> Encoding:
        """See `vfs.model.encoding.SaysEncoding`."""
        codecs = cast(Sequence[Mapping[str, Any]], self.codec)
        for codec in codecs:
            if codec["id"] not in BYTES_CODECS:
                raise NotReferenceableError(f"its codec {codec['id']} makes no bytes of bytes")
        return Encoding(self.stored, tuple(codecs))


BYTES_CODECS = (
    *("zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "lz4", "shuffle"),
    *("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"),
)
"""Codecs of numcodecs that make bytes of bytes, and that zarr knows in both formats."""


_OBJECTS = ("pickle", "json2", "msgpack2", "categorize", "vlen-array", "vlen-bytes", "vlen-utf8")
"""Codecs that make Python objects: these have no fixed size, and are unsafe with bytes from a stranger."""


@cache
def _codec(config: str) -> Any:
    """Make a codec of numcodecs from its configuration in JSON.

    Raises:
        OptionError: numcodecs cannot make it, or it makes Python objects.
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


class _Room(NamedTuple):
    """Limits the bytes that may be between two codecs of a block.

    Attributes:
        most: most bytes that there may be.
        exactly: True if fewer bytes are wrong, too.
        packed: True if the bytes are compressed. Then unused bytes may follow them.
    """

    most: int
    exactly: bool
    packed: bool = False


@lru_cache(256)
def _rooms(chain: tuple[str, ...], want: int) -> tuple[list[Any], list[_Room]]:
    """The codecs of a chain, and the rooms before and between them, for blocks of `want` bytes."""
    codecs = [_codec(codec) for codec in chain]
    return codecs, [*accumulate(codecs, _before, initial=_Room(want, True))]


_SUMS = {"adler32": 4, "crc32": 4, "crc32c": 4, "fletcher32": 4, "jenkins_lookup3": 4}  # bytes of each checksum
_CASTS = {
    "astype": ("encode_dtype", "decode_dtype"),
    **dict.fromkeys(("delta", "fixedscaleoffset", "quantize"), ("astype", "dtype")),
}


def _before(room: _Room, codec: Any) -> _Room:
    """Return the room for the input of a codec, if its output has `room`.

    For codecs that compress, it is a little more than that for the output.
    """
    name, most = codec.codec_id, room.most
    if name in _CASTS:
        stored, made = (np.dtype(getattr(codec, dtype)).itemsize for dtype in _CASTS[name])
        return _Room(most // made * stored, room.exactly)
    if name in ("shuffle", "bitround"):
        return room._replace(packed=False)
    if name in _SUMS:
        return _Room(most + _SUMS[name], room.exactly)
    if name == "packbits":
        return _Room(1 + -(-most // 8), room.exactly)
    if name == "base64":
        return _Room(4 * -(-most // 3), room.exactly)
    return _Room(most + most // 8 + (1 << 16), False, True)


def _decoded(codec: Any, data: Any, room: _Room, out: np.ndarray | None) -> np.ndarray:
    """Decode `data` with one codec.

    Args:
        room: limits the bytes that it may decode to. If there would be more, this raises an error
            or returns the first `room.most + 1` bytes or more.
        out: uint8[room.most] to decode into; None for new memory.

    Returns: uint8[n], which is `out` if the codec can write into it.

    Raises:
        Exception: of any kind, if the data cannot be decoded.
    """
    name, most = codec.codec_id, room.most
    if name == "zlib":
        inflate = zlib.decompressobj()
        got: Any = inflate.decompress(data, most + 1)
        if not inflate.eof and len(got) <= most:
            raise EOFError("the compressed data end too early")
    elif name in ("gzip", "bz2", "lzma"):
        with _unpacked(codec, io.BytesIO(data)) as stream:
            got = stream.read(most + 1)
    elif name in _SAID:
        said = _SAID[name](data[:_LONGEST_HEAD].tobytes())
        if said is None and not room.exactly:
            raise ValueError(f"{name} does not say how many bytes it makes")
        if said is not None and (said > most or (room.exactly and said < most)):
            raise ValueError(f"{name} makes {said:,} bytes, there is room for {most:,}")
        to = np.empty(most if said is None else said, np.uint8) if out is None else out
        codec.decode(data, out=to)
        return to
    else:
        got = codec.decode(data)
    if isinstance(got, np.ndarray) and got.dtype.hasobject:
        raise TypeError("it makes Python objects, expected bytes")
    return np.frombuffer(got, np.uint8)


_LONGEST_HEAD = 18  # bytes


def _zstd_size(head: bytes) -> int | None:
    """Return the decoded size that the header of a zstd frame gives (RFC 8878, 3.1.1.1), None if it gives none."""
    kind = head[4]
    width = (0, 2, 4, 8)[kind >> 6] or kind >> 5 & 1
    at = 5 + (not kind >> 5 & 1) + (0, 1, 2, 4)[kind & 3]
    return int.from_bytes(head[at : at + width], "little") + 256 * (width == 2) if width else None


_SAID: dict[str, Callable[[bytes], int | None]] = {
    "blosc": lambda head: int.from_bytes(head[4:8], "little"),
    "lz4": lambda head: int.from_bytes(head[:4], "little"),
    "zstd": _zstd_size,
}
"""Name of a codec -> function that reads the decoded size, in bytes, from the first bytes of compressed data."""
