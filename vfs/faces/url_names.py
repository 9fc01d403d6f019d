"""Gives arrays names that programs can ask for over HTTP without quoting them.

Programs put the names that a group lists into URLs as they are. Then `#` and `?` end the path, and `%41` is
read as `A`: they would ask for another array, or for none. A server cannot tell; so it shows such
names with `_` in place of each of these characters.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from vfs.model.naming import first_free

_MISREAD = re.compile("[#?%]")


def url_paths(paths: Collection[str]) -> dict[str, str]:
    """Return the paths under which HTTP shows arrays.

    Names without these characters stay as they are. Of two that would become equal, in one folder,
    the later one gets -2, -3.

    Args:
        paths: paths of arrays.

    Returns: path -> path over HTTP, in the order of `paths`.
    """
    parts = [path.split("/") for path in paths]
    above = {"/".join(names[: k + 1]) for names in parts for k in range(len(names))}
    shown: dict[str, str] = {"": ""}
    taken: set[str] = set()
    # Level by level, first the names that stay: so nobody takes one of these
    for path in sorted(above, key=lambda path: (path.count("/"), bool(_MISREAD.search(path)))):
        folder, _, name = path.rpartition("/")
        place = f"{shown[folder]}/{_MISREAD.sub('_', name)}".lstrip("/")
        shown[path] = first_free(place, taken.__contains__)
        taken.add(shown[path])
    return {path: shown[path] for path in paths}
