"""HDF5's filters, undone without h5py: https://support.hdfgroup.org/documentation/hdf5-docs/registered_filter_plugins.html

A chunk went through its filters in order; reading goes back through them. A bit of the chunk's filter mask says that a filter
was left out. Each filter gives back as many bytes as it should, or an error: sizes that stored bytes claim are not believed.
"""

from __future__ import annotations

import bz2
import ctypes
import math
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from vfs.errors import DecodeError, DependencyError

Undo = Callable[[Any, int, tuple[int, ...]], Any]
"""(stored bytes, bytes they should become, the filter's parameters) -> bytes; ValueError where they do not."""


def _exactly(got: Any, want: int) -> Any:
    if len(memoryview(got).cast("B")) != want:
        raise ValueError(f"expected {want:,} bytes, found {len(memoryview(got).cast('B')):,}")
    return got


def _deflate(data: Any, want: int, values: tuple[int, ...]) -> Any:
    inflate = zlib.decompressobj()
    got = inflate.decompress(data, want + 1)
    return _exactly(got, want)


def _shuffle(data: Any, want: int, values: tuple[int, ...]) -> Any:
    width = values[0] if values else 1
    raw = np.frombuffer(data, np.uint8)
    whole = raw.size // width * width
    out = np.empty(raw.size, np.uint8)
    out[:whole].reshape(-1, width)[...] = raw[:whole].reshape(width, -1).T
    out[whole:] = raw[whole:]
    return out


def _fletcher32(data: Any, want: int, values: tuple[int, ...]) -> Any:
    raw = np.frombuffer(data, np.uint8)
    body, stored = raw[:-4], int.from_bytes(raw[-4:].tobytes(), "little")
    words = np.frombuffer(body[: body.size // 2 * 2].tobytes(), ">u2").astype(np.uint64)
    if body.size % 2:
        words = np.append(words, np.uint64(int(body[-1]) << 8))
    first = int(words.sum())
    second = int((words * np.arange(len(words), 0, -1, dtype=np.uint64) % np.uint64(65535)).sum())
    made = _folded(second) << 16 | _folded(first)
    swapped = int.from_bytes(made.to_bytes(4, "little")[:2][::-1] + made.to_bytes(4, "little")[2:][::-1], "little")  # old writers
    if stored not in (made, swapped):
        raise ValueError(f"the checksum is {stored:#010x}, of these bytes it is {made:#010x}")
    return body


def _folded(total: int) -> int:
    """A sum of 16-bit words in one's complement: 0xFFFF stays what it is."""
    return (total - 1) % 65535 + 1 if total else 0


def _image_codec(name: str, *more: Any, **options: Any) -> Undo:
    def undo(data: Any, want: int, values: tuple[int, ...]) -> Any:
        codecs = _imagecodecs()
        return _exactly(getattr(codecs, f"{name}_decode")(bytes(data), out=np.empty(want, np.uint8), **options), want)

    return undo


def _imagecodecs() -> Any:
    try:
        import imagecodecs
    except ImportError:
        raise DependencyError("this HDF5 compression needs imagecodecs: pip install 'vfs[hdf5]'") from None
    return imagecodecs


def _szip(data: Any, want: int, values: tuple[int, ...]) -> Any:
    mask, pixels, bits, line = (*values, 0, 0, 0, 0)[:4]
    if int.from_bytes(bytes(data[:4]), "little") != want:
        raise ValueError("the size in front of the szip data is another one")
    out = np.empty(want, np.uint8)
    return _exactly(_imagecodecs().szip_decode(bytes(data[4:]), mask, pixels, bits, line, out=out), want)


def _blosc(data: Any, want: int, values: tuple[int, ...]) -> Any:
    from numcodecs.blosc import Blosc

    return _exactly(Blosc().decode(data, out=np.empty(want, np.uint8)), want)


def _bzip2(data: Any, want: int, values: tuple[int, ...]) -> Any:
    return _exactly(bz2.BZ2Decompressor().decompress(data, want + 1), want)


@cache
def _bitshuffle_library() -> Any:
    try:
        import hdf5plugin
    except ImportError:
        raise DependencyError("bitshuffled HDF5 data need hdf5plugin: pip install 'vfs[hdf5]'") from None
    library = ctypes.CDLL(os.path.join(hdf5plugin.PLUGIN_PATH, "libh5bshuf.so"))
    for name in ("bshuf_decompress_lz4", "bshuf_decompress_zstd", "bshuf_bitunshuffle"):
        function = getattr(library, name)
        function.restype = ctypes.c_int64
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]
    return library


def _bitshuffle(data: Any, want: int, values: tuple[int, ...]) -> Any:
    """Parameters: version, version, bytes an element, elements a block (0: chosen by size), 0 none, 2 lz4, 3 zstd.

    Compressed, the data begin with their size (8 bytes, big endian) and that of a block (4 bytes); each block with its own (4 bytes).
    The library believes the sizes of the blocks: they are checked before.
    """
    library = _bitshuffle_library()
    width, block, method = (*values, 0, 0, 0, 0, 0)[2:5]
    raw = np.ascontiguousarray(np.frombuffer(data, np.uint8))
    if width < 1 or want % width or method not in (0, 2, 3):
        raise ValueError(f"the filter's parameters {values} are not those of bitshuffle")
    count = want // width
    out = np.empty(want, np.uint8)
    if method == 0:
        _exactly(raw, want)
        done = library.bshuf_bitunshuffle(raw.ctypes.data, out.ctypes.data, count, width, block)
    else:
        head = raw[:12].tobytes()
        if len(head) < 12 or int.from_bytes(head[:8], "big") != want:
            raise ValueError(f"expected {want:,} bytes, the data say {int.from_bytes(head[:8], 'big'):,}")
        block = int.from_bytes(head[8:12], "big") // width
        if block < 8 or block % 8:
            raise ValueError(f"blocks of {block} elements cannot be")
        blocks, rest = divmod(count, block)
        blocks += rest >= 8
        at = 12
        for _ in range(blocks):
            at += 4 + int.from_bytes(raw[at : at + 4].tobytes(), "big")
        if at + rest % 8 * width > raw.size:
            raise ValueError("its blocks reach beyond the end of the data")
        call = library.bshuf_decompress_lz4 if method == 2 else library.bshuf_decompress_zstd
        done = call(raw.ctypes.data + 12, out.ctypes.data, count, width, block)
    if done < 0:
        raise ValueError(f"bitshuffle gives up with {done}")
    return out


FILTERS: dict[int, tuple[str, Undo]] = {
    1: ("deflate", _deflate),
    2: ("shuffle", _shuffle),
    3: ("fletcher32", _fletcher32),
    4: ("szip", _szip),
    307: ("bzip2", _bzip2),
    32000: ("lzf", _image_codec("lzf")),
    32001: ("blosc", _blosc),
    32004: ("lz4", _image_codec("lz4h5")),
    32008: ("bitshuffle", _bitshuffle),
    32015: ("zstd", _image_codec("zstd")),
}


UNKNOWN = {
    5: "nbit",
    6: "scaleoffset",
    32005: "cbf",
    32006: "mafisc",
    32013: "zfp",
    32017: "sz",
    32018: "fcidecomp",
    32019: "jpeg",
    32024: "sz3",
    32026: "blosc2",
    32027: "jpeg-xl",
    32028: "sperr",
}
"""Names of registered filters that are not undone here."""


@dataclass(frozen=True)
class FilterDecoder:
    """Chunks that went through filters.

    Attributes:
        stored: dtype in the file.
        filters: (number of the filter, parameters), in the order of writing.
        masks: chunk number -> mask of the filters that were left out; chunks that are not in it went through all of them.
    """

    stored: np.dtype
    filters: tuple[tuple[int, tuple[int, ...]], ...]
    masks: Mapping[int, int] = field(default_factory=dict)
    word_bytes: int = 0

    @property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        size = math.prod(shape) * self.stored.itemsize
        mask = self.masks.get(block, 0)
        used = [entry for k, entry in enumerate(self.filters) if not mask >> k & 1]
        got: Any = data
        for k in range(len(used) - 1, -1, -1):
            number, values = used[k]
            name, undo = FILTERS[number]
            want = size + 4 * sum(n == 3 for n, _ in used[:k])  # a checksum below adds 4 bytes
            try:
                got = undo(got, want, values)
            except DependencyError:
                raise
            except Exception as error:  # a codec may fail in any way
                raise DecodeError(f"chunk {block}: {name} does not decode it: {str(error) or type(error).__name__}") from None
        raw = np.frombuffer(got, np.uint8)
        if raw.size != size:
            raise DecodeError(f"chunk {block}: expected {size:,} bytes after decoding, found {raw.size:,}")
        return raw.view(self.stored).reshape(shape).astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Held:
    """Elements that stand in the file's headers (compact data sets, at most 64 KiB), read with them."""

    values: np.ndarray
    word_bytes: int = 0

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        return self.values.reshape(shape).astype(self.dtype)
