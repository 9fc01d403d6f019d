"""Completes Fourier transforms of real images: DigitalMicrograph stores about half of one.

The others follow, for the value at (y, x) is the conjugate of the one at (-y, -x). There are two ways::

    types 27, 28    columns 0 to n / 2 of n, backwards
    type 5          squares of 2n × 2n: for each of 2n rows, n pairs of float32. Pair 0 belongs to other places: of
                    row 0 and row n it is two real numbers, of the rows 1 to n - 1 it is in column 0, n rows below,
                    and of the others in column n. The other pairs are the columns behind n

RosettaSciIO reads both; of the columns behind n / 2 of types 27 and 28 it has the rows in the other order. No such file
was at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vfs.errors import DecodeError
from vfs.model.decode import IntoBlocks


@dataclass(frozen=True)
class HalvesDecoder(IntoBlocks):
    """Decodes Fourier transforms as wholes.

    Attributes:
        stored: dtype of a complex number in the file.
        shape: rows and columns of the whole transform.
        square: True for type 5.
    """

    stored: np.dtype
    shape: tuple[int, int]
    square: bool

    @property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    @property
    def count(self) -> int:
        """The number of complex numbers in the file."""
        rows, columns = self.shape
        return rows * (columns // 2 + (0 if self.square else 1))

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        if data.size != self.count * self.stored.itemsize:
            expected = self.count * self.stored.itemsize
            raise DecodeError(f"transform {block}: expected {expected:,} bytes, found {data.size:,}")
        stored, whole = np.frombuffer(data, self.stored), out.reshape(self.shape)
        (self._from_pairs if self.square else self._from_columns)(stored.reshape(self.shape[0], -1), whole)

    def _from_columns(self, stored: np.ndarray, whole: np.ndarray) -> None:
        half = self.shape[1] // 2
        whole[:, : half + 1] = stored[:, ::-1]
        whole[:, half + 1 :] = _opposite(whole[:, half - 1 : 0 : -1])

    def _from_pairs(self, stored: np.ndarray, whole: np.ndarray) -> None:
        n = self.shape[0] // 2
        whole[:, n + 1 :] = stored[:, 1:]
        whole[n + 1 :, 0] = stored[1:n, 0]
        whole[n + 1 :, n] = stored[n + 1 :, 0]
        whole[n, 0], whole[0, 0] = stored[0, 0].real, stored[0, 0].imag
        whole[n, n], whole[0, n] = stored[n, 0].real, stored[n, 0].imag
        for column in (0, n):
            whole[1:n, column] = whole[:n:-1, column].conj()
        whole[:, 1:n] = _opposite(whole[:, :n:-1])


def _opposite(columns: np.ndarray) -> np.ndarray:
    """Return the conjugates of some columns, with the rows 0, -1, -2, …."""
    return np.roll(columns[::-1], 1, axis=0).conj()
