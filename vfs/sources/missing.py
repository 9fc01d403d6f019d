"""Says what may be wrong with the name of a file that is not there: what was typed, and what is in its folder."""

from __future__ import annotations

import difflib
import os
import re
from itertools import islice

from vfs.errors import MissingSourceError, printable
from vfs.model.signatures import Paths
from vfs.sources.globs import names_given
from vfs.sources.names import absolute, is_url

_MAX_COMPARED = 2000  # names in a folder that are compared with the one that is missing
_WINDOWS = re.compile(r"([A-Za-z]):(.*)", re.DOTALL)


def explained(error: MissingSourceError, paths: Paths) -> MissingSourceError:
    """Return the error that a file is not there: if somebody named that file, with what may have been meant.

    Args:
        paths: the names as they were given.
    """
    for name in names_given(paths):
        path = absolute(name) if name else name
        if not is_url(name) and str(error) == printable(f"{path}: no such file"):
            return MissingSourceError(why_missing(name, path))
    return error


def why_missing(name: str, shown: str | None = None) -> str:
    """Return the message for a file that is not there: one line that ends with what may have been meant.

    Args:
        name: as it was given.
        shown: what the message calls it; None: `name`.
    """
    if not name:
        return "expected the name of a file, found an empty one"
    return f"{name if shown is None else shown}: no such file{_hint(name)}"


def _hint(name: str) -> str:
    if name.startswith("~") and os.path.expanduser(name) != name:
        return f"; only a shell takes ~ for a home folder, and not within quotes: {os.path.expanduser(name)}"
    if drive := _WINDOWS.fullmatch(name):
        path = drive[2].replace("\\", "/")
        below = path if path.startswith("/") else "/…"  # the shell took the backslashes away
        return f"; this is a path of Windows, which WSL shows as /mnt/{drive[1].lower()}{below}"
    if os.path.lexists(turned := name.replace("\\", "/")):
        return f"; did you mean {turned}?"
    folder, last = os.path.split(name)
    if not os.path.isdir(folder or "."):
        return f"; there is no folder {folder}"
    try:
        with os.scandir(folder or ".") as entries:
            near = difflib.get_close_matches(last, [entry.name for entry in islice(entries, _MAX_COMPARED)], 1)
    except OSError:  # a folder that may not be listed
        return ""
    return f"; did you mean {os.path.join(folder, near[0])}?" if near else ""
