"""Reads the words of EMPAD's second generation (EMPAD-G2), and combines them with the constants of a sensor.

There is no public specification; the facts come from the reader in empad2 (https://github.com/sezelt/empad2). A raw
file holds frames of 128 × 128 words of 32 bits, little endian, and nothing else. A word has three parts::

    bits 0 to 13: analog | bits 14 to 29: counter | bit 30: 0 | bit 31: gain

The intensity follows from them and from constants of each pixel. Frames in even columns of a scan, counted from 0, were
taken by one half of the electronics (A), those in odd ones by the other (B)::

    analog + G2 · counter                    where gain is 0
    G1 · (analog - B2) + G2 · counter        where gain is 1

The constants are files of 128 × 128 float32, little endian: G1A.r32, G2A.r32, B2A.r32, and the same for B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vfs.errors import FormatError
from vfs.formats.headers import read_at
from vfs.model.decode import ElementsOfWords
from vfs.model.sources import Sources

SIDE = 128  # pixels
FRAME = SIDE * SIDE * 4  # bytes
NAMES = ("G1", "B2", "G2")  # constants of each half
HALVES = ("A", "B")  # columns 0, 2, … and 1, 3, …
WORDS = np.dtype("<u4")
_NEVER = 1 << 30  # the bit that is always 0
_TINY = 0x0DA00000  # words below this, without the highest bit, are float32 of less than 1e-30


@dataclass(frozen=True)
class WordPart(ElementsOfWords):
    """Decodes one part of the words of frames.

    Attributes:
        shift, bits: of the part.
        dtype: of what is shown.
    """

    shift: int
    bits: int
    dtype: np.dtype
    words: ClassVar[np.dtype] = WORDS

    def make(self, words: np.ndarray, first: int, out: np.ndarray) -> None:
        out[:] = words >> np.uint32(self.shift) & np.uint32((1 << self.bits) - 1)


PARTS = {
    "analog": WordPart(0, 14, np.dtype(np.uint16)),
    "counter": WordPart(14, 16, np.dtype(np.uint16)),
    "gain": WordPart(31, 1, np.dtype(np.uint8)),
}


@dataclass(frozen=True, eq=False)
class Combined(ElementsOfWords):
    """Decodes frames to intensities.

    Attributes:
        constants: float32[2, 3, pixels], of both halves.
        columns: columns of the scan.
    """

    constants: np.ndarray
    columns: int
    words: ClassVar[np.dtype] = WORDS

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float32)

    def make(self, words: np.ndarray, first: int, out: np.ndarray) -> None:
        at = first // WORDS.itemsize  # counted from the first word of the file, where the first frame begins
        while at < first // WORDS.itemsize + len(words):  # frame by frame
            frame, pixel = divmod(at, SIDE * SIDE)
            done = at - first // WORDS.itemsize
            part = words[done : done + SIDE * SIDE - pixel]
            gained, base, counted = self.constants[frame % self.columns % 2][:, pixel : pixel + len(part)]
            analog = (part & np.uint32(0x3FFF)).astype(np.float32)
            here = out[done : done + len(part)]
            here[:] = np.where(part >> np.uint32(31) == 1, gained * (analog - base), analog)
            here += counted * (part >> np.uint32(14) & np.uint32(0xFFFF))
            at += len(part)


def may_be(first_bytes: bytes) -> bool:
    """Return True if the first bytes of a raw file may be words: a bit of them is always 0, but not of float32."""
    words = np.frombuffer(first_bytes[: len(first_bytes) // 4 * 4], "<u4")
    return bool(len(words)) and not bool((words & np.uint32(_NEVER)).any())


def are(first_bytes: bytes) -> bool:
    """Return True if the first bytes of a raw file are words: they may be, and as float32 some would be tiny, not 0."""
    words = np.frombuffer(first_bytes[: len(first_bytes) // 4 * 4], "<u4") & np.uint32(0x7FFFFFFF)
    return may_be(first_bytes) and bool(((words > 0) & (words < _TINY)).any())


def read_constants(sources: Sources, folder: str) -> np.ndarray:
    """Read the constants of a sensor: float32[2, 3, pixels].

    Raises:
        FormatError: a file has another size, or holds no finite numbers.
        MissingSourceError, SourceError: a file cannot be read.
    """
    found = np.empty((len(HALVES), len(NAMES), SIDE * SIDE), np.float32)
    for h, half in enumerate(HALVES):
        for k, name in enumerate(NAMES):
            path = f"{folder.rstrip('/')}/{name}{half}.r32"
            size = sources.state(path).size
            if size != FRAME:
                raise FormatError(f"{path}: expected 128 × 128 numbers of 4 bytes, the file has {size:,} bytes")
            found[h, k] = np.frombuffer(read_at(sources, path, FRAME), "<f4")
            if not np.isfinite(found[h, k]).all():
                raise FormatError(f"{path}: expected finite numbers, found others")
    return found
