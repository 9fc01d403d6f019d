"""Refuses what a person may not see, whatever is there: the answer is that to a path which nothing has."""

from __future__ import annotations

from collections.abc import Collection

from vfs.contents.rights import Rights
from vfs.errors import printable
from vfs.faces.absence import check_no_chunk
from vfs.http.guard import RefusedError
from vfs.page.pages import assets
from vfs.page.reopened import Reopened

OF_NO_PATH = frozenset(("events", "stop"))
"""Requests below `api/` that name no path of the contents; they answer each person with what that one may see."""


def check_seen(rights: Rights, key: str, contents: Reopened, requests: Collection[str]) -> None:
    """Check that a person may see what a request asks for.

    Args:
        rights: of the person.
        key: path of the request behind the token.
        requests: what paths below `api/` begin with that the page asks for.

    Raises:
        RefusedError: the person may not see it.
        NoChunkError: the same, and it looks like a chunk, which absent would be read as fill values.
    """
    own, _, rest = key.partition("/")
    if own == "assets" and rest in assets():
        return
    what, _, path = rest.partition("/")
    if own == "api" and what in requests:
        if what in OF_NO_PATH:
            return
    else:
        path = key
    if not any(map(rights.shows, contents.origins(path))):
        check_no_chunk(key)
        raise RefusedError(404, f"nothing is called {printable(key[:200])}")
