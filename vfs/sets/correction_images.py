"""Reads the correction images that options name: `dark`, `gain` and `dead`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vfs.backends import make_backend
from vfs.engine.array import ArrayReader, mean_frame
from vfs.engine.corrections import check
from vfs.errors import OptionError
from vfs.model.files import Files
from vfs.model.open_options import OpenOptions
from vfs.model.stored import StoredArray, marked_by
from vfs.sets.pixel_masks import WORD, own_mask

FALCON = ".gain"
"""How names of gain references of Falcon cameras end, which are TIFF files. Counts are divided by them, and 0 marks a
defect, as in RELION (https://github.com/3dem/relion, src/renderEER.h)."""


class OtherSet(NamedTuple):
    """A data set from which a correction image is read.

    Attributes:
        main: reader of its main array.
        warnings: a line for each thing that it lacks.
    """

    main: ArrayReader
    warnings: Sequence[str]


@dataclass(frozen=True)
class CorrectionImages:
    """Correction images.

    Attributes:
        given: the arrays for `dark`, `gain` and `dead`, as far as these options are given.
        files: the files that they were read from, if these do not belong to the set that is opened.
        warnings: a line for each thing that these files lack.
    """

    given: Mapping[str, Any]
    files: Sequence[Files]
    warnings: Sequence[str]


def read_images(
    options: OpenOptions,
    datasets: Sequence[StoredArray],
    main: StoredArray,
    other_set: Callable[[str | os.PathLike[str]], OtherSet],
    masks: Sequence[StoredArray],
) -> CorrectionImages:
    """Read the correction images that the options name.

    Args:
        datasets: all arrays of the set that is opened.
        main: its main array.
        other_set: opens the set from which an image is read.
        masks: masks of pixels that the files hold.

    Raises:
        OptionError: an image does not fit the frames. Errors from opening its file are raised, too.
    """
    given: dict[str, Any] = {}
    others: list[OtherSet] = []
    sig_shape, parts = main.shape[main.nav_ndim :], getattr(main.decoder, "parts", 1)
    for name in ("dark", "gain", "dead"):
        value = getattr(options, name)
        if value is None:
            continue
        if isinstance(value, str | os.PathLike):
            own = next((one for one in datasets if one.path == value), None)
            if own is None and name == "dead" and value == WORD:
                given[name] = own_mask(main, masks, options.backend)
                continue
            if own is not None:
                array = ArrayReader(own, make_backend(options.backend, own.files))
            else:
                others.append(other_set(value))
                array = others[-1].main
            divides = name == "gain" and own is None and os.fspath(value).lower().endswith(FALCON)
            value = _image(name, value, array, sig_shape, parts)
            if divides:
                value = _factors(value)
            if own is not None and own.mask_bits and name == "dead":
                value = marked_by(value, own.mask_bits)
        given[name] = value if parts == 1 else _in_parts(np.asarray(value), sig_shape, parts)
    said = [line for one in others for line in one.warnings]
    return CorrectionImages(given, [one.main.dataset.files for one in others], said)


def _image(
    name: str, given: str | os.PathLike[str], array: ArrayReader, sig_shape: tuple[int, ...], parts: int
) -> np.ndarray:
    """Read a correction image; of many frames it is the mean, computed in bounded memory.

    Args:
        name: dark, gain or dead.
        given: the file or array that the option names, for the error.
        array: reader of the image.
        parts: of a pixel of the camera along each axis, which frames have as pixels: an image may be as the camera's.

    Raises:
        OptionError: the image does not fit the frames; then nothing of it is read.
    """
    camera = tuple(n // parts for n in sig_shape)
    try:
        check(name, array.shape, array.dtype, camera if array.shape[-len(camera) :] == camera else sig_shape)
    except OptionError as error:
        raise OptionError(f"{os.fspath(given)}: {error}") from None
    if name == "dead" or array.ndim == len(sig_shape):
        return array.read()
    return mean_frame(array, len(sig_shape))


def _in_parts(image: np.ndarray, sig_shape: tuple[int, ...], parts: int) -> np.ndarray:
    """Return an image of the camera's pixels as one of their parts; others as they are."""
    if tuple(parts * n for n in image.shape) != sig_shape:
        return image
    return np.repeat(np.repeat(image, parts, axis=0), parts, axis=1)


def _factors(reference: np.ndarray) -> np.ndarray:
    """Return the factors of a reference that counts are divided by, whose mean is 1: 0 where it is 0, at a defect."""
    factors = np.zeros(reference.shape)
    np.divide(reference.mean(dtype=np.float64), reference, out=factors, where=reference != 0)
    return factors


def lasting(given: Any, datasets: Sequence[StoredArray]) -> Any:
    """Return a correction option as it is pickled: files have absolute paths, arrays of the set their names."""
    if isinstance(given, str) and (given == WORD or any(dataset.path == given for dataset in datasets)):
        return given
    return os.path.abspath(given) if isinstance(given, str | os.PathLike) and os.path.exists(given) else given
