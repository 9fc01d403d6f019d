"""Shows patterns without their background, as derived arrays."""

from __future__ import annotations

from functools import lru_cache

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError
from vfs.model.naming import DERIVED
from vfs.reduce.derived import derived
from vfs.reduce.spelling import read_call

MAX_LETTERS = 100  # letters of arguments


def without_background(array: ArrayReader, how: str) -> ArrayReader:
    """Return an array whose frames are without their background.

    Args:
        how: arguments of `WithoutBackground`, as text; "": the array itself.

    Raises:
        OptionError: they say nothing that fits the frames.
    """
    return _made(array, how) if how else array


@lru_cache(16)
def _made(array: ArrayReader, how: str) -> ArrayReader:
    if not array.dataset.nav_ndim or len(how) > MAX_LETTERS:
        raise OptionError(f"background: {array.dataset.path} is no scan, or these are no arguments of a background")
    return derived(array, {"frame": read_call(f"withoutbackground({how})")}, ())[f"{DERIVED}/frame"]
