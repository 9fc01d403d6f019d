"""Which names the arrays and groups of a hierarchy can have: those that zarr, a folder and a key all take for one name.

Files may call what they hold anything. A name that cannot be is not changed into another one: what has it is left out, by name. Names that
begin with __ are shown, though zarr's specification keeps them for itself: no reader minds them, and HyperSpy's EMD files have `__unnamed__`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from vfs.errors import FormatError

_DOCUMENTS = frozenset({"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"})
MOST_BYTES = 255  # of a name in a folder


@lru_cache(1 << 10)
def unusable(name: str) -> str:
    """Why an array or a group cannot have a name; "" where it can."""
    if not name.strip("."):
        return "a name of nothing, or of nothing but dots, is none"
    if "/" in name or "\\" in name:
        return "zarr takes slashes and backslashes in a name for the ends of folders"
    if not name.isprintable():
        return "its name has characters that cannot be printed"
    if name in _DOCUMENTS:
        return "zarr calls its own documents so"
    if len(name.encode()) > MOST_BYTES:
        return f"its name has more than {MOST_BYTES} bytes"
    return ""


def check_paths(paths: Collection[str]) -> None:
    """Make sure that arrays can stand under their paths in one hierarchy.

    Raises:
        FormatError: a name in one of them cannot be; an array lies in another one.
    """
    for path in paths:
        names = path.split("/")
        for k, name in enumerate(names):
            why = unusable(name)
            if why:
                raise FormatError(f"the array {path!r} cannot be shown: {why}")
            if k and "/".join(names[:k]) in paths:
                raise FormatError(f"the array {path!r} cannot be shown: {'/'.join(names[:k])!r} is no group, but an array")
