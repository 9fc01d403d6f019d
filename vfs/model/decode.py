"""Decoders turn bytes of files into elements of the output.

There are two kinds. A `Decoder` works on read ranges: any part of the data decodes by itself, a
word at a time. A `BlockDecoder` works on whole blocks: a compressed strip or tile decodes
completely or not at all. The engine tells them apart by `word_bytes`: 0 means whole blocks.
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
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np

from vfs import kernels
from vfs.errors import DecodeError, NotReferenceableError, OptionError
from vfs.kernels.columns import START, STEP


class LiesAs(NamedTuple):
    """How elements lie in a file.

    Attributes:
        stored: their dtype there.
        backwards: how many of them come backwards at a time; 1: none.
    """

    stored: np.dtype
    backwards: int


class Encoding(NamedTuple):
    """How the elements of a block became its bytes.

    Attributes:
        dtype: of the elements, with the byte order that they have in the file.
        codecs: configurations of numcodecs, `{"id": "zlib", …}`, in the order of encoding: each takes bytes and makes
            bytes.
    """

    dtype: np.dtype
    codecs: tuple[Mapping[str, Any], ...] = ()


class Decoder(Protocol):
    """Decodes read ranges.

    Attributes:
        dtype: dtype of the elements that it writes, in native byte order.
        word_bytes, word_pixels: bytes and elements of a word, the smallest unit that decodes by itself.
        accumulates: True if it adds to the output, which must then be cleared before.
        straight: True if the bytes in the file already are the elements in native order, so that
            contiguous ranges need no decoding.
        takes_lines: True if it takes ranges of several lines; else it is given a range for each line.
        lies_as: how elements lie in the file, so that who knows it need not decode them; None: they must be decoded.
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
    @property
    def takes_lines(self) -> bool: ...
    @property
    def lies_as(self) -> LiesAs | None: ...

    def converts(self, dtype: np.dtype) -> bool:
        """Say whether `decode` also writes elements of another dtype, in the same pass."""

    def step(self, dtype: np.dtype) -> int | None:
        """Return the address of a kernel that does what `decode` does; None if there is none.

        With it a read need not come back to the interpreter for every part of a file. See
        `vfs.kernels.steps`.

        Args:
            dtype: dtype of the output: `self.dtype`, or one that the decoder converts to.
        """

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        """Write the elements of `ranges`.

        Args:
            ranges: int64[n, 11] (see `vfs.kernels.columns`), all of one file.
            data: uint8[m], the bytes of that file from `base` on.
            base: byte of the file that `data[0]` is.
            out: [size], C-contiguous, of `dtype` or of a dtype that the decoder converts to.
        """


class BlockDecoder(Protocol):
    """Decodes whole blocks. `word_bytes` is 0.

    Attributes:
        decode_into: a method (data, block, out) that writes the elements into `out`, dtype[size] in
            C order, so that blocks that are wanted as a whole need no copy. None if there is no
            such method: then all blocks go through the cache.
        decode_run: a method (ranges, data, base, out) that does what `decode_into` does for a run of blocks in one
            call, without the interpreter for each. `ranges` is int64[n, 11], one for each block (see
            `vfs.kernels.columns`), `data` the bytes of the file from `base` on, `out` dtype[size] of all that is
            read. It returns how many of the first blocks it decoded: for the others `decode_into` is called, which
            says what is wrong. None if there is no such method.
    """

    @property
    def dtype(self) -> np.dtype: ...
    @property
    def word_bytes(self) -> int: ...
    @property
    def decode_into(self) -> Callable[[np.ndarray, int, np.ndarray], None] | None: ...
    @property
    def decode_run(self) -> Callable[[np.ndarray, np.ndarray, int, np.ndarray], int] | None: ...

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        """Decode one block.

        Args:
            data: uint8[m], the stored bytes.
            block: number of the block in the layout.
            shape: shape in which the block is stored.

        Returns: dtype[shape].

        Raises:
            DecodeError: the bytes cannot be decoded, or do not give that shape.
        """


class Elements:
    """Base of decoders of packed elements (`Decoder`): they have `dtype`, the sizes of words and `decode`."""

    accumulates: ClassVar[bool] = False
    straight: ClassVar[bool] = False
    takes_lines: ClassVar[bool] = False

    @property
    def lies_as(self) -> LiesAs | None:
        return None

    def converts(self, dtype: np.dtype) -> bool:
        return False

    def step(self, dtype: np.dtype) -> int | None:
        return None


_PIECE = 1 << 16  # bytes of words that are taken at once: what is made of them stays in the processor's cache


class ElementsOfWords(Elements):
    """Base of decoders that make each element of one word by arithmetic: they have `dtype`, `words` and `make`.

    Attributes:
        words: dtype of a word, in the byte order of the file.
    """

    word_pixels: ClassVar[int] = 1

    if TYPE_CHECKING:  # fields of some, which properties here would be the defaults of

        @property
        def dtype(self) -> np.dtype: ...
        @property
        def words(self) -> np.dtype: ...

    @property
    def word_bytes(self) -> int:
        return self.words.itemsize

    def make(self, words: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the elements of words [n] that begin at byte `first` of the file into `out`, dtype[n]."""
        raise NotImplementedError

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        for start, stop, to, step in ranges[:, START : STEP + 1].tolist():
            for at in range(start, stop, _PIECE):
                words = data[at - base : min(stop, at + _PIECE) - base].view(self.words)
                end = to + len(words) * step
                self.make(words, at, out[to : end if end >= 0 else None : step])
                to = end


class MadeBlocks:
    """Base of decoders of whole blocks that make each anew: they have `dtype` and `decode_block`."""

    word_bytes: ClassVar[int] = 0
    decode_into: ClassVar[None] = None
    decode_run: ClassVar[None] = None


class IntoBlocks:
    """Base of decoders of whole blocks that write each into memory: they have `dtype` and `decode_into`."""

    word_bytes: ClassVar[int] = 0
    decode_run: ClassVar[None] = None

    if TYPE_CHECKING:  # dtype is a field of some, which a property here would be the default of

        @property
        def dtype(self) -> np.dtype: ...
        def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None: ...

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        made = np.empty(shape, self.dtype)
        self.decode_into(data, block, made.reshape(-1))
        return made


@dataclass(frozen=True)
class PlainDecoder:
    """Decodes elements that are stored as numpy knows them, in either byte order.

    Args:
        stored: dtype in the file: bool, integers or floats of up to 8 bytes, complex of up to 16.

    Raises:
        OptionError: `stored` is a dtype of another kind.
    """

    stored: np.dtype
    word_pixels: int = 1
    accumulates: bool = False
    takes_lines: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", np.dtype(self.stored))
        if self.stored.kind not in "biufc" or self.stored.itemsize > (16 if self.stored.kind == "c" else 8):
            raise OptionError(
                f"dtype {self.stored}: expected bool, integers or floats of at most 8 bytes, or complex of at most 16"
            )

    @cached_property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    @property
    def lies_as(self) -> LiesAs:
        return LiesAs(self.stored, 1)

    @property
    def word_bytes(self) -> int:
        return self.stored.itemsize

    @property
    def straight(self) -> bool:
        return self.stored.isnative

    def step(self, dtype: np.dtype) -> int:
        if dtype != self.dtype:
            return kernels.steps.placing_as(self.dtype, not self.stored.isnative, dtype)
        parts = 2 if self.stored.kind == "c" else 1
        return kernels.steps.placing(self.stored.itemsize // parts, parts, not self.stored.isnative)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        if (
            len(ranges) == 1
            and out.dtype == self.dtype
            and not kernels.wanted()
            and self._copied(ranges, data, base, out)
        ):
            return
        kernels.steps.decode(self.step(out.dtype), ranges, data, base, out.view(np.uint8))

    def _copied(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> bool:
        """Do what `decode` does without a kernel, for one range of one line in order; return False for another one."""
        _, start, stop, to, by, _, _, _, lines, *_ = ranges[0].tolist()
        if by != 1 or lines > 1:
            return False
        parts = 2 if self.stored.kind == "c" else 1
        word = np.dtype(f"u{self.stored.itemsize // parts}")  # bits are copied, whatever they mean
        words = data[start - base : stop - base].view(word.newbyteorder(self.stored.byteorder))
        out.view(word)[to * parts : to * parts + words.size] = words
        return True

    def converts(self, dtype: np.dtype) -> bool:
        """Say whether `decode` also writes elements of another dtype.

        Integers of up to 4 bytes convert to float32 and float64, as numpy casts them.
        """
        return self.stored.kind in "iu" and self.stored.itemsize <= 4 and dtype.kind == "f" and dtype.itemsize >= 4


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
