"""Decodes pixels and time stamps of MIB frames: see `vfs.formats.mib` for their layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vfs import kernels
from vfs.errors import DecodeError
from vfs.model.decode import Elements, LiesAs

# Depth in bits -> dtype, pixels per word
_RAW = {1: (np.uint8, 64), 6: (np.uint8, 8), 12: (np.uint16, 4), 24: (np.uint32, 4)}


@dataclass(frozen=True)
class RawDecoder(Elements):
    """Decodes R64 pixels.

    Args:
        depth: depth of the counters in bits: 1, 6, 12 or 24.
    """

    depth: int
    word_bytes: int = 8
    takes_lines: ClassVar[bool] = True

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(_RAW[self.depth][0])

    @property
    def word_pixels(self) -> int:
        return _RAW[self.depth][1]

    @property
    def lies_as(self) -> LiesAs | None:
        return LiesAs(self.dtype.newbyteorder(">"), self.word_pixels) if self.depth in (6, 12) else None

    def step(self, dtype: np.dtype) -> int:
        return kernels.steps.unpacking(self.depth)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        kernels.steps.decode(kernels.steps.unpacking(self.depth), ranges, data, base, out.view(np.uint8))


@dataclass(frozen=True)
class StampDecoder(Elements):
    """Decodes one number of each frame's header: time (int64, ns since 1970) or exposure (float64, s).

    Args:
        paths: paths of the files, for messages.
        word_bytes: size of a header.
        exposure: True for the exposure, False for the time.
    """

    paths: tuple[str, ...]
    word_bytes: int
    exposure: bool
    word_pixels: int = 1

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64 if self.exposure else np.int64)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        kernel = kernels.stamps.place_exposures if self.exposure else kernels.stamps.place_times
        bad = kernel(ranges, data, base, self.word_bytes, out)
        if bad >= 0:
            what = "an exposure" if self.exposure else "a time"
            raise DecodeError(
                f"{self.paths[int(ranges[0, 0])]}: the frame header at byte {bad:,} has no field that is {what}; it"
                " looks garbled"
            )
