"""Says which type of file system a file of this machine lies on."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache


def file_system(path: str) -> str:
    """Return the type of the file system that holds a file, such as "ext4"; "" if it is not known."""
    try:
        return _kind(os.stat(path).st_dev, os.path.dirname(path))
    except OSError:
        return ""


@lru_cache(256)
def _kind(device: int, folder: str) -> str:
    """Return the type of the file system of a folder; "" if it is not known."""
    number, real, best = f"{os.major(device)}:{os.minor(device)}", os.path.realpath(folder), ("", "")
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            before, _, behind = line.partition(" - ")
            words, kind = before.split(), behind.split()[0]
            if words[2] == number:
                return kind
            point = words[4].encode().decode("unicode_escape")
            if len(point) >= len(best[0]) and (real + "/").startswith(point.rstrip("/") + "/"):
                best = point, kind
    return best[1]
