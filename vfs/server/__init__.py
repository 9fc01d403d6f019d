"""Serves data sets over HTTP, read-only: the same trees as a mount, for machines and programs that cannot mount.

`vfs.server.application` answers requests; a web server runs it (`vfs.server.server`) in a process of its
own (`vfs.server.process`), or in this one for `vfs serve`. Nothing of zarr is decided here: paths are
those of `vfs.contents.contents.Contents`, and bytes come from its faces.

Every request is answered like this:

1. `http.guard`: the `Host` header and the token in the path are checked, and the path becomes a key;
2. `deciding`: node and version of the key, then ETag, range and status (`http.conditions`). If the bytes are at hand,
   that is the response, which the connection sends (`connection`);
3. `http.reads`: bytes that must be read or decoded are, in a few threads, and ASGI's way leads there (`application`).

But a connection on which chunks are asked for, one after the other, is lent to threads that answer without the
interpreter (`native`), and comes back with what they cannot answer (`connection`).

The page to look at data, and what it asks for below `api/`, is in `vfs.page`.

A source that cannot be read is status 422. Clients of zarr take 404 and 403 for absent chunks and show
fill values, and they repeat requests that fail with 5xx for minutes.
"""

from typing import TYPE_CHECKING, Any

from vfs.server.how import ServeHow
from vfs.server.process import Server, start_in_background
from vfs.server.servers import FoundServer, end, is_address, servers

if TYPE_CHECKING:
    from vfs.server.server import serve

__all__ = ["FoundServer", "ServeHow", "Server", "end", "is_address", "serve", "servers", "start_in_background"]


def __getattr__(name: str) -> Any:
    if name != "serve":
        raise AttributeError(f"module 'vfs.server' has no attribute {name!r}")
    from vfs.server.server import serve  # loads what serves, which the other functions here do not need

    globals()[name] = serve
    return serve
