"""Says how the pixels of an MRC file are stored: their dtype, the axes of a section, signed bytes, 4 bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vfs import kernels
from vfs.formats.mrc.header import IMOD_STAMP, MODES
from vfs.model.decode import Elements

_SIGNED, _FOUR_BITS = 1, 16  # flags of IMOD
_SIGNED_SINCE = 20140  # NVERSION of MRC2014, which says that bytes are signed
_UNSURE = (
    "neither a stamp nor minimum and maximum in the header tell whether bytes are signed: shown as signed;"
    " the option mode0=unsigned shows 0 to 255"
)
_COMPONENTS = {3: (2, "component"), 16: (3, "s")}  # mode -> values a pixel, and the name of their axis


@dataclass(frozen=True)
class Pixels:
    """How the pixels of a file are stored.

    Attributes:
        stored: dtype in the file; None for two pixels of 4 bits per byte.
        sig: shape of a section, [y, x], or [y, x, values of a pixel].
        dims: names of its axes.
    """

    stored: np.dtype | None
    sig: tuple[int, ...]
    dims: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of a section."""
        if self.stored is None:
            return self.sig[0] * row_bytes(self.sig[1])
        return math.prod(self.sig) * self.stored.itemsize


def row_bytes(columns: int) -> int:
    """Return the bytes of a row of pixels of 4 bits: every row begins with a new byte."""
    return -(-columns // 2)


def pixels_of(header: np.void, order: str, first_label: str) -> Pixels:
    """Read from a header how the pixels are stored; bytes of mode 0 count as signed.

    Files of mode 0 with IMOD's flag for 4 bits, and those that SerialEM labels so, have half as many
    columns in their header as in their images.
    """
    nx, ny, mode = (int(header[name]) for name in ("nx", "ny", "mode"))
    if mode == 0 and (flags_of(header) & _FOUR_BITS or (header["nlabl"] == 1 and "4 bits packed" in first_label)):
        return Pixels(None, (ny, 2 * nx), ("y", "x"))
    if mode not in MODES:
        return Pixels(None, (ny, nx), ("y", "x"))
    more, name = _COMPONENTS.get(mode, (0, ""))
    sig, dims = ((ny, nx, more), ("y", "x", name)) if more else ((ny, nx), ("y", "x"))
    return Pixels(np.dtype(MODES[mode]).newbyteorder(order), sig, dims)  # type: ignore[arg-type]


def flags_of(header: np.void) -> int:
    """Return IMOD's flags; 0 without its stamp."""
    return int(header["_imod_flags"]) if header["_imod_stamp"] == IMOD_STAMP else 0


def signed_bytes(header: np.void, sample: bytes, whole: bool) -> tuple[bool, str]:
    """Find out if the bytes of mode 0 are signed.

    IMOD's stamp says it. Without one, minimum and maximum in the header do, if they fit the first
    frame as signed or as unsigned bytes.

    Args:
        sample: bytes from the beginning of the first frame.
        whole: True if these are all pixels of the file.

    Returns: (True if they are signed, a line for people if that is uncertain).
    """
    if header["_imod_stamp"] == IMOD_STAMP:
        return bool(flags_of(header) & _SIGNED), ""
    low, high = float(header["min"]), float(header["max"])
    pixels = np.frombuffer(sample, np.uint8)
    if len(pixels) and low < high:
        fits = [low <= pixels.view(kind).min() and pixels.view(kind).max() <= high for kind in ("i1", "u1")]
        if fits[0] != fits[1]:
            return bool(fits[0]), ""
        if fits[0] and not (low < 0 and high > 127):
            return high <= 127, ""
    alike = whole and bool((pixels < 128).all())
    said_by_version = int(header["nversion"]) >= _SIGNED_SINCE and not low < high
    return True, "" if alike or said_by_version else _UNSURE


@dataclass(frozen=True)
class NibbleDecoder(Elements):
    """Decodes pixels of 4 bits, two per byte, the low half first (mode 101, or a flag of IMOD).

    Every row starts with a new byte.
    """

    word_bytes: int = 1
    word_pixels: int = 2
    takes_lines: ClassVar[bool] = True

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint8)

    def step(self, dtype: np.dtype) -> int:
        return kernels.steps.unpacking(4)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        kernels.steps.decode(kernels.steps.unpacking(4), ranges, data, base, out.view(np.uint8))
