"""Decoders turn bytes of files into elements of the output.

There are two kinds. A `Decoder` works on read ranges: any part of the data decodes by itself, a
word at a time. A `BlockDecoder` works on whole blocks: a compressed strip or tile decodes
completely or not at all. The engine tells them apart by `word_bytes`: 0 means whole blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from vfs import kernels
from vfs.errors import OptionError
from vfs.kernels.columns import START, STEP

_MAX_COPIED = 1 << 14  # ranges that Python copies, each in 2 µs


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
        lies_as: how elements lie in the file: a caller that knows this can skip decoding. None: they must be decoded.
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
        if out.dtype == self.dtype and len(ranges) <= _MAX_COPIED and not kernels.wanted():
            with kernels.in_python():
                if all(self._copied(one, data, base, out) for one in ranges.tolist()):
                    return
        kernels.steps.decode(self.step(out.dtype), ranges, data, base, out.view(np.uint8))

    def _copied(self, row: list[int], data: np.ndarray, base: int, out: np.ndarray) -> bool:
        """Do what `decode` does without a kernel, for one range of one line in order; return False for another one."""
        _, start, stop, to, by, _, _, _, lines, *_ = row
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
