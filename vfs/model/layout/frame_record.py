"""Describes what files hold of each frame (`FrameRecord`), and the pieces that a frame is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


def payload(sig_shape: Sequence[int], word_bytes: int, word_pixels: int) -> int:
    """Return the bytes of a frame's pixels: whole words, so the last one may have unused pixels."""
    return -(-math.prod(sig_shape) // word_pixels) * word_bytes


@dataclass(frozen=True, eq=False)
class FrameRecord:
    """Describes what files hold of each frame: a header, the pixels and a footer.

    Attributes:
        sig_shape: shape of a frame.
        word_bytes, word_pixels: bytes and pixels of a word, the smallest unit that decodes by itself.
        header, footer: bytes before and after the pixels.
        payload: bytes of the pixels; None: as many words as the pixels need.
        pieces: int64[p, 3 * sig_ndim + 2], the boxes that the pixels are made of, see
            `vfs.kernels.planning.box_rows`; None: one box in C order.
    """

    sig_shape: tuple[int, ...]
    word_bytes: int
    word_pixels: int = 1
    header: int = 0
    footer: int = 0
    payload: int | None = None
    pieces: np.ndarray | None = None

    @property
    def pixel_bytes(self) -> int:
        """Bytes of the pixels."""
        return payload(self.sig_shape, self.word_bytes, self.word_pixels) if self.payload is None else self.payload

    @cached_property
    def stride(self) -> int:
        """Bytes from the beginning of a record to that of the next one."""
        return self.header + self.pixel_bytes + self.footer

    @property
    def sorted_pieces(self) -> np.ndarray:
        """The boxes that the pixels are made of, in the order in which they begin in the file."""
        if self.pieces is None:
            return whole_frame(self.sig_shape)
        if len(self.pieces) == 1:
            return self.pieces
        k = len(self.sig_shape)
        shapes, strides, first = self.pieces[:, k : 2 * k], self.pieces[:, 2 * k : 3 * k], self.pieces[:, 3 * k]
        begin = first + np.minimum(0, strides * (shapes - 1)).sum(axis=1)
        return self.pieces[np.argsort(begin, kind="stable")]


def whole_frame(sig_shape: Sequence[int], strides: Sequence[int] | None = None) -> np.ndarray:
    """Return the pieces of a frame that is stored as one box, in C order or with other strides.

    Args:
        strides: elements from one index to the next in the file, along each axis; None for C order.

    Returns: int64[1, 3 * sig_ndim + 2], see `vfs.kernels.planning.box_rows`.
    """
    steps = strides or [math.prod(sig_shape[j + 1 :]) for j in range(len(sig_shape))]
    return np.array([[*[0] * len(sig_shape), *sig_shape, *steps, 0, 0]], np.int64)


def mirrored(pieces: np.ndarray, axis: int) -> np.ndarray:
    """Return the pieces of a frame mirrored along an axis: its last element comes first.

    Args:
        pieces: int64[p, 3 * k + 2], pieces that fill a frame of k axes: see
            `vfs.kernels.planning.box_rows`.
    """
    k = pieces.shape[1] // 3
    origin, shape, stride, first = pieces[:, axis], pieces[:, k + axis], pieces[:, 2 * k + axis], 3 * k
    made = pieces.copy()
    made[:, axis] = (origin + shape).max() - origin - shape
    made[:, 2 * k + axis] = -stride
    made[:, first] += (shape - 1) * stride
    return made


def permuted(pieces: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Return the pieces of a frame whose axes come in another order.

    Args:
        pieces: see `mirrored`.
        axes: for each axis, its number in the frame so far.
    """
    k = pieces.shape[1] // 3
    columns = [group * k + axis for group in range(3) for axis in axes]
    return pieces[:, [*columns, 3 * k, 3 * k + 1]]
