"""Makes obstore's clients of stores of objects, and takes what they say of files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from vfs.errors import DependencyError, OptionError, SourceError, extra, printable
from vfs.model.file_state import FileState
from vfs.sources.library import obstore
from vfs.sources.reasons import is_panic, reason
from vfs.sources.urls import SCHEMES, InStore

_CLOUDS = ("AWS_", "GOOGLE_", "AZURE_")
_CLOUD_OF = {"s": "AWS_", "g": "GOOGLE_", "a": "AZURE_", "h": "HTTP_"}
"""First letter of a scheme -> what variables for its stores begin with."""
_ENDPOINT = re.compile(r"^(?!.*_use_).*endpoint(_url)?(_s3)?$")
_PLAIN = ("AWS_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP", "AZURE_ALLOW_HTTP")
"""Variables of the environment by which obstore talks to stores without TLS."""
_YES = ("1", "true", "yes", "on")


def state_of(meta: Mapping[str, Any]) -> FileState:
    """Return the state of a file, of what a store says of it.

    Azure, and others, have quotes around a tag in the answer to a request, and none in a list.
    """
    written = int(meta["last_modified"].timestamp()) * 1_000_000_000
    return FileState(int(meta["size"]), max(written, 0), 0, (meta["e_tag"] or "").replace('"', ""))


def store_of(where: InStore, wait: float, connect: float, config: Mapping[str, Any]) -> Any:
    """Return obstore's client for a server or bucket.

    Args:
        wait: seconds for one request at most; connect: seconds until a connection stands.
        config: more settings for obstore.

    Raises:
        DependencyError: obstore is not installed.
        OptionError: it has no stores with such URLs, or a setting is none.
        SourceError: there is no such store, as far as obstore can tell.
    """
    try:
        from_url = obstore().store.from_url
    except ImportError:
        raise DependencyError(f"{where.root}: reading it needs obstore: {extra('remote')}") from None
    if where.scheme not in SCHEMES:
        raise OptionError(f"{where.root}: expected a URL that begins with one of {', '.join(SCHEMES)}")
    _check_settings(where, config)
    more = dict(config)
    client: dict[str, Any] = {
        "timeout": f"{int(wait * 1000)}ms",
        "connect_timeout": f"{int(connect * 1000)}ms",
    }
    client["allow_http"] = any(os.environ.get(name, "").lower() in _YES for name in _PLAIN)
    client |= more.pop("client_options", {})
    once = {"max_retries": 0, "retry_timeout": timedelta(seconds=wait)}
    try:
        return from_url(where.root, client_options=client, **{"retry_config": once} | more)
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise SourceError(f"{where.root}: {reason(error)[0]}") from None


def _check_settings(where: InStore, config: Mapping[str, Any]) -> None:
    """Check the settings of a store with which obstore would end in a panic.

    Raises:
        OptionError: one cannot be used. Only of an endpoint it says the value, since others may be secret.
    """
    of_these = _CLOUD_OF[where.scheme[0]]
    for name, value in (
        {key: said for key, said in os.environ.items() if key.startswith(of_these)} | dict(config)
    ).items():
        if not isinstance(value, str):
            continue
        if not value.isprintable():
            raise OptionError(f"{where.root}: {name} has characters that cannot be sent, such as the end of a line")
        if _ENDPOINT.match(name.lower()) and not _is_server(value):
            raise OptionError(
                f"{where.root}: {name}={printable(value.rpartition('@')[2])!r}: expected the URL of a server, such as"
                " http://127.0.0.1:9000"
            )
        if name.lower().endswith("region") and not re.fullmatch(r"[A-Za-z0-9._-]+", value):
            raise OptionError(f"{where.root}: {name}: expected the name of a region, such as eu-west-1")


def _is_server(url: str) -> bool:
    try:
        found = urlsplit(url)
        return found.scheme in ("http", "https") and bool(found.hostname) and (found.port or 1) > 0 and " " not in url
    except ValueError:
        return False


def endpoints(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what says which server has the buckets that URLs name."""
    said = {**{name: value for name, value in os.environ.items() if name.startswith(_CLOUDS)}, **config}
    return [(name.lower(), str(value)) for name, value in said.items() if "endpoint" in name.lower()]
