"""Says which names lead into archives (`.zip`, `.tar`, `.tar.gz` and the like): see `vfs.sources.archives`."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from vfs.sources.names import absolute, is_url

SCHEME = "archive://"
ENDINGS = re.compile(r"(?<!\.zarr)(?<=[^/])\.(zip|tar|tgz|tbz2?|txz|tar\.(?:gz|bz2|xz|zst))(?=/|\Z)", re.IGNORECASE)


class InArchive(NamedTuple):
    """Where a name leads.

    Attributes:
        archive: name of the archive.
        member: path in it; "" for the archive itself.
    """

    archive: str
    member: str

    @property
    def name(self) -> str:
        """What it is called as a file of sources, or as a folder of these."""
        return f"{SCHEME}{self.archive}/{self.member}".rstrip("/")


def in_archive(name: str) -> InArchive | None:
    """Return where the name of an archive, or of something in one, leads; None for any other name.

    A name of this machine leads into an archive if a part of it is a file with the ending of archives.
    """
    marked = name.startswith(SCHEME)
    if not marked and not ENDINGS.search(name):
        return None
    plain = absolute(name.removeprefix(SCHEME))
    host = plain.find("/", plain.index("://") + 3) if is_url(plain) else 0  # a host may be called files.zip
    places = [InArchive(plain[:at], plain[at:].strip("/")) for at in _ends(plain, host)]
    there = next((one for one in places if is_url(one.archive) or os.path.isfile(one.archive)), None)
    return places[0] if there is None and marked and places else there


def _ends(name: str, start: int) -> list[int]:
    return [found.end() for found in ENDINGS.finditer(name, start)] if start >= 0 else []
