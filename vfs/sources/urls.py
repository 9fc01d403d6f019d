"""Takes URLs of files apart: the store that has a file, and the file's path in it.

A URL here is written as people read it, `https://host/a folder/ä.mib`: what is special in the URLs of the web is quoted
when it is sent, and never before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from vfs.errors import OptionError
from vfs.sources.names import is_url

WEB = ("http", "https")
SCHEMES = (*WEB, "s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
"""What a URL may begin with: servers of the web, Amazon S3 and what speaks as it does, Google's and Azure's stores."""
_QUERY = re.compile(r"\?([\w.~%+$\[\]-]+=.*)$", re.DOTALL)
"""What is behind the path of a URL: names with values. A question mark before anything else is part of a pattern."""
_OF_ONE = re.compile(r"(^|&)((x-amz-|x-goog-)?signature=|sr=b(&|$))", re.IGNORECASE)
"""Signatures that hold for one file: those of buckets, and Azure's for a blob."""


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
    if scheme in WEB and (_QUERY.search(path) or "#" in path):
        plain_path = _QUERY.split(path)[0].partition("#")[0]
        raise OptionError(
            f"{scheme}://{host}/{plain_path}: has a query or a fragment after it, expected the plain URL of a file"
        )
    return f"{scheme}://{host}/{unquote(path) if scheme in WEB else path}"


class Queries:
    """What is sent behind the paths of URLs (`?signature=…`), and shown nowhere: not in names, and not by `repr`.

    Args:
        of_files: plain URL -> the query with which a user gave it.
    """

    def __init__(self, of_files: Mapping[str, str]) -> None:
        self._of_files = dict(of_files)
        shared = {name: query for name, query in of_files.items() if not _OF_ONE.search(query)}
        self._of_folders = {name[: name.rfind("/")]: query for name, query in shared.items()}

    def of(self, name: str) -> str:
        """Return the query of a file or a folder. A token that holds for more than a file is that of its neighbours."""
        return self._of_files.get(name) or self._of_folders.get(name[: name.rfind("/")], "")

    def __reduce__(self) -> tuple[type, tuple[dict[str, str]]]:
        return type(self), (self._of_files,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Queries) and self._of_files == other._of_files

    def __hash__(self) -> int:
        return hash(frozenset(self._of_files.items()))

    def __repr__(self) -> str:
        return f"<queries of {len(self._of_files)} URLs>"


_given: dict[str, str] = {}  # plain URL -> the query with which a user gave it last


def without_query(name: str) -> str:
    """Return a name that a user gives without its query, which `queries` returns from now on."""
    found = _QUERY.search(name) if name[:4].lower() == "http" and is_url(name) else None
    if found is None:
        return name
    plain_name = name[: found.start()]
    with suppress(OptionError):  # whoever takes the name says what is wrong with it
        _given[given(plain_name)] = found[1].partition("#")[0]
    return plain_name


def queries(folders: Sequence[str]) -> Queries:
    """Return the queries with which files below some folders were given, each with a slash at its end."""
    return Queries({name: query for name, query in _given.items() if name.startswith(tuple(folders))})


def shown(name: str) -> str:
    """Return a name as messages may show it: a URL without a user and a query, also where it is none that vfs reads."""
    if not is_url(name):
        return name
    scheme, _, rest = _QUERY.split(name)[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


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
