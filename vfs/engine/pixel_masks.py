"""Reads images that a set has of the pixels of its frames: the mask of those that hold no measurement, and others."""

from __future__ import annotations

import numpy as np

from vfs.backends import make_backend
from vfs.engine.array import ArrayReader
from vfs.model.stored import FrameImage, PixelMask


def read_image(image: FrameImage) -> np.ndarray:
    """Read an image of the pixels of frames.

    Returns: [*frame], as frames are shown.

    Raises:
        SourceError: it cannot be read.
    """
    return image.frame(ArrayReader(image.array, make_backend("auto", image.array.files)).read())


def read_mask(mask: PixelMask, backend: str = "auto") -> np.ndarray:
    """Read a mask.

    Returns: bool[*frame], True for pixels without a measurement.

    Raises:
        SourceError: it cannot be read.
    """
    return mask.pixels(ArrayReader(mask.array, make_backend(backend, mask.array.files)).read())


def masked_pixels(array: ArrayReader) -> np.ndarray | None:
    """Return bool[*frame], the pixels of an array's frames that hold no measurement, as a mask of its set says.

    Returns None where the set has no mask or marks no pixel, and where such pixels are replaced already (`dead`).

    Raises:
        SourceError: the mask cannot be read.
    """
    mask = array.dataset.pixel_mask
    if mask is None:
        return None
    found = array.cache.get(("pixel mask", mask), lambda: read_mask(mask))
    return found if found.any() else None
