"""Undoes HDF5's filters without h5py.

Registered filters:
https://support.hdfgroup.org/documentation/hdf5-docs/registered_filter_plugins.html

A chunk was written through its filters in order; reading undoes them in reverse order. A bit in the
chunk's filter mask says that a filter was left out. Each filter must return exactly the expected
number of bytes: sizes in the stored bytes are not trusted.
"""

from __future__ import annotations

import bz2
import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from vfs import kernels
from vfs.buffers import scratch
from vfs.errors import DecodeError, DependencyError, NotReferenceableError, OptionError, extra
from vfs.formats.hdf5 import blosc2
from vfs.formats.hdf5.encoding import CODEC, codecs
from vfs.model.decode import Encoding, MadeBlocks

Filters = tuple[tuple[int, tuple[int, ...]], ...]
"""(number of the filter, parameters), in the order of writing."""

Undo = Callable[[np.ndarray, np.ndarray, tuple[int, ...]], Any]
"""(stored bytes uint8, memory uint8 for the result, the filter's parameters) -> what the codec gives:
that memory, or bytes of its own.

Raises ValueError, or what a codec raises, if the bytes do not decode."""


def exactly(got: Any, out: np.ndarray) -> None:
    """Check the length of a codec's result, and copy it into `out` if it is not there already.

    Some codecs write into `out`, others return new bytes.
    """
    if got is out:
        return
    size = len(memoryview(got).cast("B"))
    if size != out.size:
        raise ValueError(f"expected {out.size:,} bytes, found {size:,}")
    if not (isinstance(got, np.ndarray) and np.may_share_memory(got, out)):
        out[:] = np.frombuffer(got, np.uint8)


_UNSHUFFLE = {2: "unshuffle2", 4: "unshuffle4", 8: "unshuffle8"}


def _shuffle(data: np.ndarray, out: np.ndarray, values: tuple[int, ...]) -> np.ndarray:
    width = values[0] if values else 1
    if data.size != out.size or width < 1:
        raise ValueError(f"expected {out.size:,} bytes, found {data.size:,}")
    whole = out.size // width * width
    if width in _UNSHUFFLE and whole and not out.ctypes.data % width and kernels.wanted():
        getattr(kernels.shuffle, _UNSHUFFLE[width])(data[:whole], out[:whole].view(f"u{width}"))
    else:
        with kernels.in_python():
            out[:whole].reshape(-1, width)[...] = data[:whole].reshape(width, -1).T
    out[whole:] = data[whole:]
    return out


def _fletcher32(data: np.ndarray, out: np.ndarray, values: tuple[int, ...]) -> np.ndarray:
    body, stored = data[:-4], int.from_bytes(data[-4:].tobytes(), "little")
    words = np.frombuffer(body[: body.size // 2 * 2].tobytes(), ">u2").astype(np.uint64)
    if body.size % 2:
        words = np.append(words, np.uint64(int(body[-1]) << 8))
    first = int(words.sum())
    second = int((words * np.arange(len(words), 0, -1, dtype=np.uint64) % np.uint64(65535)).sum())
    made = _folded(second) << 16 | _folded(first)
    # Old writers swapped the two bytes of each half of the checksum
    swapped = int.from_bytes(made.to_bytes(4, "little")[:2][::-1] + made.to_bytes(4, "little")[2:][::-1], "little")
    if stored not in (made, swapped):
        raise ValueError(f"the checksum is {stored:#010x}, of these bytes it is {made:#010x}")
    return body


def _folded(total: int) -> int:
    """Fold a sum of 16-bit words in one's complement: 0xFFFF stays as it is."""
    return (total - 1) % 65535 + 1 if total else 0


def _image_codec(name: str) -> Undo:
    def undo(data: np.ndarray, out: np.ndarray, values: tuple[int, ...]) -> Any:
        return getattr(_imagecodecs(), name)(data, out=out)

    return undo


@cache
def _imagecodecs() -> Any:
    try:
        import imagecodecs
    except ImportError:
        raise DependencyError(f"this HDF5 compression needs imagecodecs: {extra('hdf5')}") from None
    return imagecodecs


def _szip(data: np.ndarray, out: np.ndarray, values: tuple[int, ...]) -> Any:
    mask, pixels, bits, line = (*values, 0, 0, 0, 0)[:4]
    if int.from_bytes(data[:4].tobytes(), "little") != out.size:
        raise ValueError("the size in front of the szip data is another one")
    return _imagecodecs().szip_decode(data[4:].tobytes(), mask, pixels, bits, line, out=out)


def _blosc(data: np.ndarray, out: np.ndarray, values: tuple[int, ...]) -> Any:
    from numcodecs.blosc import Blosc

    return Blosc().decode(data, out=out)


def _bzip2(data: np.ndarray, out: np.ndarray, values: tuple[int, ...]) -> bytes:
    return bz2.BZ2Decompressor().decompress(data.data, out.size + 1)


def _blosc2(data: np.ndarray, out: np.ndarray, values: tuple[int, ...]) -> np.ndarray:
    blosc2.unpack(data, out, _imagecodecs().blosc2_decode)
    return out


@cache
def _bitshuffle_library() -> Any:
    try:
        import hdf5plugin
    except ImportError:
        raise DependencyError(f"bitshuffled HDF5 data need hdf5plugin: {extra('hdf5')}") from None
    return ctypes.CDLL(f"{hdf5plugin.PLUGIN_PATH}/libh5bshuf.so")


_BITSHUFFLED = {0: "bshuf_bitunshuffle", 2: "bshuf_decompress_lz4", 3: "bshuf_decompress_zstd"}


@lru_cache(64)
def _bitshuffled(values: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Say how to undo bitshuffle, as `kernels.shuffle.unbitshuffle` takes it: by an address of this process.

    Args:
        values: version, version, bytes an element, elements a block (0: chosen by size), 0 none, 2 lz4, 3 zstd.
    """
    width, block, method = (*values, 0, 0, 0, 0, 0)[2:5]
    if width < 1 or method not in _BITSHUFFLED:
        raise _unlike_bitshuffle(values)
    function = ctypes.cast(getattr(_bitshuffle_library(), _BITSHUFFLED[method]), ctypes.c_void_p)
    return function.value or 0, int(method > 0), width, block


def _unlike_bitshuffle(values: tuple[int, ...]) -> ValueError:
    return ValueError(f"the filter's parameters {values} are not those of bitshuffle")


def _bitshuffle(data: np.ndarray, out: np.ndarray, values: tuple[int, ...]) -> np.ndarray:
    """Undo bitshuffle."""
    how, undo = _bitshuffled(values), kernels.shuffle
    wrong = undo.unbitshuffle(how, data, out)
    if wrong == undo.OTHER_ELEMENTS:
        raise _unlike_bitshuffle(values)
    if wrong == undo.OTHER_SIZE and not how[1]:
        raise ValueError(f"expected {out.size:,} bytes, found {data.size:,}")
    if wrong == undo.OTHER_SIZE:
        raise ValueError(f"expected {out.size:,} bytes, the data say {int.from_bytes(data[:8].tobytes(), 'big'):,}")
    if wrong == undo.OTHER_BLOCKS:
        block = int.from_bytes(data[8:12].tobytes(), "big") // how[2]
        raise ValueError(f"blocks of {block} elements cannot be")
    if wrong == undo.TOO_SHORT:
        raise ValueError("its blocks reach beyond the end of the data")
    if wrong:
        raise ValueError(f"bitshuffle gives up with {wrong}")
    return out


FILTERS: dict[int, tuple[str, Undo]] = {
    1: ("deflate", _image_codec("deflate_decode")),
    2: ("shuffle", _shuffle),
    3: ("fletcher32", _fletcher32),
    4: ("szip", _szip),
    307: ("bzip2", _bzip2),
    32000: ("lzf", _image_codec("lzf_decode")),
    32001: ("blosc", _blosc),
    32004: ("lz4", _image_codec("lz4h5_decode")),
    32008: ("bitshuffle", _bitshuffle),
    32015: ("zstd", _image_codec("zstd_decode")),
    32026: ("blosc2", _blosc2),
}


_SIZES = {2: 0, 3: -4}
"""Filter -> difference between the number of bytes that undoing it returns and the number stored."""


UNKNOWN = {
    5: "nbit",
    6: "scaleoffset",
    305: "lzo",
    32002: "mafisc",
    32003: "snappy",
    32005: "apax",
    32006: "cbf",
    32007: "jpeg-xr",
    32009: "spdp",
    32010: "lpc-rice",
    32011: "ccsds-123",
    32012: "jpeg-ls",
    32013: "zfp",
    32014: "fpzip",
    32016: "b3d",
    32017: "sz",
    32018: "fcidecomp",
    32019: "jpeg",
    32020: "vbz",
    32021: "fapec",
    32022: "bitgroom",
    32023: "granular bitround",
    32024: "sz3",
    32025: "delta-rice",
    32027: "flac",
    32028: "sperr",
    32029: "terse/prolix",
    32030: "ffmpeg",
}
"""Names of registered filters that are not supported here.

The list: https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md
"""


def undone(number: int, values: Sequence[int], nbytes: int, data: np.ndarray) -> np.ndarray:
    """Undo one filter.

    Args:
        number: of the filter.
        values: its parameters.
        nbytes: bytes that it makes.
        data: uint8[m], as they are stored.

    Returns: uint8[nbytes].

    Raises:
        OptionError: there is no such filter.
        DependencyError: it needs a package that is not installed.
        DecodeError: the bytes do not decode to so many.
    """
    if number not in FILTERS:
        raise OptionError(f"codec {CODEC}: there is no HDF5 filter {number!r} here")
    name, undo = FILTERS[number]
    made = np.empty(nbytes, np.uint8)
    try:
        exactly(undo(data, made, tuple(values)), made)
    except DependencyError:
        raise
    except Exception as error:  # a codec may fail in any way
        raise DecodeError(f"codec {CODEC}: {name} does not decode the chunk: {str(error)[:200]}") from None
    return made


@dataclass(frozen=True)
class FilterDecoder:
    """Decodes chunks that were written through filters.

    Attributes:
        stored: dtype in the file.
        filters: (number of the filter, parameters), in the order of writing.
        masks: chunk number -> mask of the filters that were left out. All other chunks went through
            all filters.
    """

    stored: np.dtype
    filters: Filters
    masks: Mapping[int, int] = field(default_factory=dict)
    word_bytes: int = 0

    @cached_property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        made = np.empty(shape, self.dtype)
        self.decode_into(data, block, made)
        return made

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        flat = out.reshape(-1).view(np.uint8)
        mask = self.masks.get(block, 0) if self.masks else 0
        used = [entry for k, entry in enumerate(self.filters) if not mask >> k & 1] if mask else self.filters
        if not used:
            if data.size != flat.size:
                raise DecodeError(f"chunk {block}: expected {flat.size:,} bytes, found {data.size:,}")
            flat[:] = data
        name, made = "", data
        try:
            with ExitStack() as lent:
                for k, (number, values) in reversed([*enumerate(used)]):  # the last one written first
                    name, undo = FILTERS[number]
                    to = flat
                    if k:
                        # A checksum below adds 4 bytes; what is given back compressed is as long as it is stored
                        size = flat.size + 4 * sum(n == 3 for n, _ in used[:k])
                        size = max(0, made.size + _SIZES[number]) if number in _SIZES else size
                        to = lent.enter_context(scratch.borrow(size))[:size]
                    exactly(undo(made, to, values), to)
                    made = to
        except DependencyError:
            raise
        except Exception as error:  # a codec may fail in any way
            raise DecodeError(
                f"chunk {block}: {name} does not decode it: {str(error) or type(error).__name__}"
            ) from None
        if not self.stored.isnative:
            out.byteswap(inplace=True)

    @property
    def decode_run(self) -> Callable[[np.ndarray, np.ndarray, int, np.ndarray], int] | None:
        """See `vfs.model.decode.BlockDecoder`. Only for native elements that are bitshuffled, and nothing else."""
        bitshuffled = [FILTERS[number][1] for number, _ in self.filters] == [_bitshuffle]
        return self._bitshuffled_run if bitshuffled and self.stored.isnative and not self.masks else None

    def _bitshuffled_run(self, rows: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> int:
        try:
            how = _bitshuffled(self.filters[0][1])
        except ValueError:
            return 0
        undo, itemsize = kernels.shuffle.unbitshuffle_blocks, self.stored.itemsize
        return int(undo(how, rows, data, base, out.view(np.uint8), itemsize))

    def encoding(self, nbytes: int, blocks: np.ndarray) -> Encoding:
        """See `vfs.model.encoding.SaysEncoding`."""
        named = [(number, FILTERS[number][0], values) for number, values in self.filters]
        masks = {self.masks.get(block, 0) for block in blocks.tolist()} if self.masks else {0}
        if len(masks) > 1:
            names, lacking = ", ".join(name for _, name, _ in named), sum(b in self.masks for b in blocks.tolist())
            raise NotReferenceableError(
                f"{lacking:,} of its {len(blocks):,} chunks did not go through all filters ({names}), and zarr has one"
                " list of codecs for all chunks of an array"
            )
        mask = masks.pop() if masks else 0
        return Encoding(self.stored, codecs([each for k, each in enumerate(named) if not mask >> k & 1], nbytes))


@dataclass(frozen=True)
class CompactValues(MadeBlocks):
    """Holds the elements of a compact data set.

    They are part of the file's headers (at most 64 KiB), and were read with them.
    """

    values: np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        return self.values.reshape(shape).astype(self.dtype)

    def encoding(self, nbytes: int, blocks: np.ndarray) -> Encoding:
        """See `vfs.model.encoding.SaysEncoding`."""
        raise NotReferenceableError("it is stored compact, among the headers of its HDF5 file")
