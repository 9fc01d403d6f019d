"""Reads arrays that users give as the names of .npy files: selections of scan positions, masks."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.sources import Sources
from vfs.model.wording import option, option_names
from vfs.sources.names import absolute


def positions(sources: Sources, roi: Any) -> np.ndarray:
    """Return a selection of frames as an array. `vfs.model.as_scan.as_scan` checks it.

    Args:
        roi: anything that numpy makes an array of, or the name of a .npy file.

    Raises:
        OptionError: `roi` is not an array, or the file holds none.
    """
    if not isinstance(roi, str | os.PathLike):
        try:
            return np.asarray(roi)
        except ValueError:  # lists of unequal lengths
            raise OptionError(
                f"{option_names('roi')}: expected a mask of bool or a list of flat scan positions, found lists of"
                " unequal lengths"
            ) from None
        except MemoryError as error:  # a range of very many
            raise OptionError(f"{option(roi=roi)}: more positions than memory holds: {error}") from None
    return saved(sources, os.fspath(roi), option(roi=os.fspath(roi)), "a mask or a list of positions")


def saved(sources: Sources, name: str, what: str, holds: str) -> np.ndarray:
    """Read the array that a .npy file holds.

    Args:
        what: how the file was given; holds: what should be in it, for the message.

    Raises:
        OptionError: it holds no array.
    """
    try:
        with sources.stream(absolute(name)) as file:
            return np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError, EOFError, MemoryError) as error:
        # EOFError: an empty file; MemoryError: a garbled header
        raise OptionError(f"{what}: expected a .npy file with {holds}: {error}") from None
