"""Says how the colours of a pixel are shown: along the axis `s`, as red, green, blue, and opacity where it has four.

All formats keep to it, whatever the order in their files, so the axis `s` always counts the same. A
format names the order that it stores, such as "BGR"; pieces of frames, or blocks that were decoded, then bring the
colours into this one. Samples of a pixel that are no colours stay as they are stored: of TIFF the attribute
`photometric` says what they are, of compounds in HDF5 `samples` has their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

AXIS = "s"
"""Name of the axis along which a pixel has several samples."""
LOOKS = {"Red": "FF0000", "Green": "00FF00", "Blue": "0000FF", "Opacity": "FFFFFF"}
"""Names of colours in their order, and as what they are drawn (rrggbb)."""
_ORDER = "RGBA"
_COLOURED = ("rgb", "transparency")
_DECODED = ("jpeg", "ojpeg", "alt_jpeg")
"""Compressions whose decoders make red, green and blue of brightness and colour differences."""


def coloured(dim: str, samples: int, attrs: Mapping[str, Any]) -> bool:
    """Return True if an axis counts red, green and blue (and opacity) of a pixel.

    Args:
        dim, samples: its name and length.
        attrs: attributes of its array.
    """
    said, names = attrs.get("photometric"), attrs.get("samples")
    if isinstance(names, list) and "".join(str(name)[:1] for name in names).upper() != _ORDER[:samples]:
        return False
    decoded = said == "ycbcr" and attrs.get("compression") in _DECODED
    return dim == AXIS and samples in (3, 4) and (said is None or said in _COLOURED or decoded)


def red_first(stored: str) -> list[int]:
    """Return for red, green, blue (and opacity) which of the stored samples it is.

    Args:
        stored: the order in the file: letters of R, G, B, A.
    """
    return [stored.index(letter) for letter in _ORDER if letter in stored]


def in_order(pieces: np.ndarray, axis: int, stored: str) -> np.ndarray:
    """Return the pieces of a frame whose colours come as red, green, blue (and opacity).

    Args:
        pieces: int64[p, 3 * k + 2], of a frame of k axes, colours as they are stored: see
            `vfs.kernels.planning.box_rows`. Each has all colours of its pixels.
        axis: the axis of colours.
        stored: see `red_first`.
    """
    k = pieces.shape[1] // 3
    made = []
    for begin, count, first, step in _runs(red_first(stored)):
        part = pieces.copy()
        stride = part[:, 2 * k + axis].copy()
        part[:, axis], part[:, k + axis] = begin, count
        part[:, 2 * k + axis] = step * stride
        part[:, 3 * k] += first * stride
        made.append(part)
    return np.concatenate(made)


def _runs(at: list[int]) -> Iterator[tuple[int, int, int, int]]:
    """Cut places into runs in equal steps. Yields: (first colour, colours, place of the first one, step)."""
    begin = 0
    steps = [b - a for a, b in pairwise(at)]
    while begin < len(at):
        step = steps[begin] if begin < len(steps) else 1
        count = 1
        while begin + count < len(at) and steps[begin + count - 1] == step:
            count += 1
        yield begin, count, at[begin], step
        begin += count
