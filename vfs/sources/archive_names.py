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
    for found in ENDINGS.finditer(plain):
        archive = plain[: found.end()]
        if is_url(archive) or os.path.isfile(archive):
            return InArchive(archive, plain[found.end() :].strip("/"))
    return None
