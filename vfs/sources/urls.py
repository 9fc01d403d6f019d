"""Takes URLs of files apart: the store that has a file, and the file's path in it.

A URL here is written as people read it, `https://host/a folder/ä.mib`: what is special in the URLs of the web is quoted
when it is sent, and never before.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from vfs.errors import OptionError
from vfs.sources.names import is_url

WEB = ("http", "https")
SCHEMES = (*WEB, "s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
"""What a URL may begin with: servers of the web, Amazon S3 and what speaks as it does, Google's and Azure's stores."""
_QUERY = re.compile(r"\?[^/]*=|#")


class InStore(NamedTuple):
    """Where a file is.

    Attributes:
        root: the server or bucket, without a slash at its end: `https://host:8080`, `s3://bucket`.
        path: of the file in it, without a slash at the beginning.
    """

    root: str
    path: str

    @property
    def scheme(self) -> str:
        return self.root.partition(":")[0]


def given(name: str) -> str:
    """Return a name that a user gives as sources take it; one that is no URL stays.

    Raises:
        OptionError: vfs reads no such URL, or it holds what must not be shown or stored.
    """
    if not is_url(name):
        return name
    scheme, _, rest = name.partition("://")
    scheme = scheme.lower()
    host, slash, path = rest.partition("/")
    if scheme not in SCHEMES:
        return name  # of sources that the caller gives, such as those in memory
    if "@" in host and scheme in (*WEB, "s3"):
        raise OptionError(
            f"{scheme}://{host.rpartition('@')[2]}{slash}{path}: holds a user or a password, which would end up in logs"
            " and pickles; put them into ~/.netrc, where vfs looks for them"
        )
    if scheme in WEB and _QUERY.search(path):
        raise OptionError(
            f"{scheme}://{host}/{_QUERY.split(path)[0]}: has a query or a fragment behind it (a signature?), expected"
            " the plain URL of a file"
        )
    return f"{scheme}://{host}/{unquote(path) if scheme in WEB else path}"


def place(name: str) -> InStore:
    """Return where a file is."""
    scheme, _, rest = name.partition("://")
    host, _, path = rest.partition("/")
    return InStore(f"{scheme}://{host}", path)


def quoted(name: str) -> str:
    """Return a URL of the web as it is sent."""
    root, path = place(name)
    return f"{root}/{quote(path)}"


def plain(name: str) -> str:
    """Return a URL without `.` and `..` in its path, and without doubled slashes at its end."""
    root, path = place(name)
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return f"{root}/../{path}"  # above the top: it lies nowhere
            parts.pop()
        elif part != ".":
            parts.append(part)
    return f"{root}/{'/'.join(parts)}"


def login(where: InStore) -> str:
    """Return what says to a server who asks, as ~/.netrc has it; "" for a server that is not in it."""
    named = os.environ.get("NETRC")
    try:
        now = os.stat(named or os.path.expanduser("~/.netrc"))
    except (OSError, ValueError):
        return ""
    return _said(where.root.partition("://")[2].partition(":")[0], named, now.st_mtime_ns, now.st_ino)


@lru_cache(256)
def _said(host: str, named: str | None, *state: int) -> str:
    """Return what `login` does, of a file in some state: to read it for each request would take long."""
    from base64 import b64encode
    from netrc import NetrcParseError, netrc

    try:
        found = netrc(named).authenticators(host)
    except (OSError, NetrcParseError):
        return ""
    return f"Basic {b64encode(f'{found[0]}:{found[2]}'.encode()).decode()}" if found else ""
