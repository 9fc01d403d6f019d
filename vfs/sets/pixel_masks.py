"""Finds the mask that a set has of the pixels of its frames: see `StoredArray.mask_bits`.

A mask fits that has a pixel for each of a frame. Of several the one in the same part of the hierarchy counts, of those
in one detector the one that lies highest. Where masks of two detectors fit, nobody knows whose frames these are: none
counts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

import numpy as np

from vfs.engine.pixel_masks import read_mask
from vfs.errors import OptionError
from vfs.model.layout import altered
from vfs.model.stored import PixelMask, StoredArray
from vfs.model.wording import option
from vfs.sets.choosing import StoredSet

WORD = "mask"
"""What `dead` says for the mask of the set."""
_MAX_NAMED = 3  # masks that an error names


def with_mask(stored: StoredSet, masks: Sequence[StoredArray]) -> StoredSet:
    """Return the arrays of a set, the main one with the mask of its pixels, if there is one.

    Args:
        masks: those that the files hold.
    """
    fitting = _fitting(stored.main, masks) if masks else []
    if len(fitting) != 1:
        return stored
    axes = range(len(stored.main.shape) - stored.main.nav_ndim)
    main = altered(stored.main, pixel_mask=PixelMask(fitting[0], tuple(axes), (False,) * len(axes)))
    return stored.with_main(main)


def _fitting(main: StoredArray, masks: Sequence[StoredArray]) -> list[StoredArray]:
    """Return the masks that may be those of frames: none, one, or one for each detector."""
    sig = main.shape[main.nav_ndim :]
    masks = [one for one in masks if one.path != main.path and _frame(one, len(sig)) == sig]
    near = [_shared(one.path, main.path) for one in masks]
    nearest = [one for one, n in zip(masks, near, strict=True) if n == max(near)]
    first: list[StoredArray] = []
    for one in sorted(nearest, key=lambda mask: mask.path.count("/")):
        if not any(one.path.startswith(f"{posixpath.dirname(other.path)}/") for other in first):
            first.append(one)
    return first


def _frame(mask: StoredArray, ndim: int) -> tuple[int, ...]:
    """Return the shape of a mask without axes of one element in front of a frame's; () where it has several frames."""
    lead, frame = mask.shape[: len(mask.shape) - ndim], mask.shape[-ndim:]
    return frame if ndim and all(n == 1 for n in lead) else ()


def _shared(path: str, other: str) -> int:
    """Return how many groups both paths begin with."""
    pairs = zip(path.split("/")[:-1], other.split("/")[:-1], strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(path.count("/"), other.count("/")))


def own_mask(main: StoredArray, masks: Sequence[StoredArray], backend: str) -> np.ndarray:
    """Read the mask that `dead="mask"` stands for.

    Args:
        main: the main array. masks: those that the files hold.

    Returns: bool[*frame], True for pixels without a measurement.

    Raises:
        OptionError: there is no mask of its frames, or there are several.
        SourceError: it cannot be read.
    """
    fitting = _fitting(main, masks)
    if len(fitting) == 1:
        axes = range(len(main.shape) - main.nav_ndim)
        return read_mask(PixelMask(fitting[0], tuple(axes), (False,) * len(axes)), backend)
    if fitting:
        found = f"{', '.join(one.path for one in fitting)} are of several detectors; name one of them"
    elif masks:
        found = f"found {', '.join(f'{one.path}, {one.dtype}{list(one.shape)}' for one in masks[:_MAX_NAMED])}"
    else:
        found = "found none; give an array, a file, or coordinates"
    where = main.files.paths[0] if len(main.files) else main.path
    frame = " x ".join(map(str, main.shape[main.nav_ndim :]))
    raise OptionError(f"{option(dead=WORD)}: {where}: expected a mask of the {frame} pixels of {main.path}: {found}")
