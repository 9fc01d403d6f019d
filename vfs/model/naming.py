"""Checks the names of arrays and groups, and lists them in messages.

A name must be a single name in zarr, in a folder and in a key. A file may give its arrays any name.
An array whose name is not usable is left out and reported; it is never renamed. Names that begin
with __ are shown although zarr's specification reserves them: no reader minds them, and HyperSpy's
EMD files have `__unnamed__`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import chain, count

from vfs.errors import FormatError

DOCUMENTS = frozenset({"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"})
"""Names of zarr's metadata documents, in both formats."""
ROOTS = ("zarr.json", ".zgroup", ".zarray")
"""Documents of which a group or an array has one."""
MAX_BYTES = 255  # of a name in a folder
_NAMED = 8  # names that a message lists
_COMPARED = 1000  # most names that are compared: more take seconds
DERIVED = "derived"  # the folder of derived arrays in the hierarchy of a set


@lru_cache(1 << 10)
def unusable(name: str) -> str:
    """Return the reason why an array or a group cannot have a name; "" where it can."""
    if not name.strip("."):
        return "its name is empty or consists of dots"
    if "/" in name or "\\" in name:
        return "its name has a slash or a backslash, which zarr takes for the end of a folder's name"
    if not name.isprintable():
        return "its name has characters that cannot be printed"
    if name in DOCUMENTS:
        return "zarr uses this name for its own documents"
    if len(name.encode()) > MAX_BYTES:
        return f"its name has more than {MAX_BYTES} bytes"
    return ""


def check_paths(paths: Collection[str]) -> None:
    """Check that arrays can have these paths in one hierarchy.

    Raises:
        FormatError: a path has a name that is not usable, or leads through another array.
    """
    for path in paths:
        names = path.split("/")
        for k, name in enumerate(names):
            why = unusable(name)
            if why:
                raise FormatError(f"the array {path!r} cannot be shown: {why}")
            if k and "/".join(names[:k]) in paths:
                raise FormatError(
                    f"the array {path!r} cannot be shown: {'/'.join(names[:k])!r} is an array, not a group"
                )


def first_free(name: str, taken: Callable[[str], bool]) -> str:
    """Return the first of `name`, `name-2`, `name-3`, … that is not taken."""
    return next(made for made in chain([name], (f"{name}-{n}" for n in count(2))) if not taken(made))


def first_names(names: Sequence[str]) -> str:
    """List the first names of many, for a message."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")


def nearest(name: object, known: Sequence[str]) -> list[str]:
    """Return all names; the ones that are most like `name` come first."""
    near = difflib.get_close_matches(name, known[:_COMPARED], _NAMED, cutoff=0.5) if isinstance(name, str) else []
    return [*near, *(path for path in known if path not in near)]
