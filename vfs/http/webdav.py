"""Reads which properties of files and folders a client of WebDAV asks for, and writes them (RFC 4918, class 1).

`PROPFIND` lists the tree that GET serves: network drives of desktops ask it, and clients of object stores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import formatdate
from html import escape
from typing import NamedTuple
from xml.parsers import expat

from vfs.errors import printable
from vfs.http.guard import RefusedError
from vfs.http.index import IndexRow, quoted

MAX_PROPERTIES = 100
"""Most properties that a request may name."""
PART = 1 << 20
"""Bytes of an answer that are written at once, about."""
KIND = b"application/xml; charset=utf-8"

FINITE = b'<?xml version="1.0" encoding="utf-8"?>\n<D:error xmlns:D="DAV:"><D:propfind-finite-depth/></D:error>\n'
"""Body of the answer to who asks for all of a tree at once."""

_HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<D:multistatus xmlns:D="DAV:">\n'
_TAIL = "</D:multistatus>\n"
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML cannot hold

Name = tuple[str, str]
"""A property: its namespace and its name there."""


class Properties(NamedTuple):
    """The properties that a request asks for.

    Attributes:
        names: which ones; None: all that are usual.
        values: False if only their names are asked for.
    """

    names: tuple[Name, ...] | None
    values: bool = True


def depth_of(headers: Mapping[bytes, bytes]) -> int | None:
    """Return how far below a folder a request asks; None: all of it, which is also what a request without it means.

    Raises:
        RefusedError: the header is none of 0, 1 and infinity.
    """
    said = headers.get(b"depth", b"infinity").strip().lower()
    if said not in _DEPTHS:
        raise RefusedError(400, f"Depth: {printable(said[:40].decode('latin-1'))}: expected 0, 1 or infinity")
    return _DEPTHS[said]


_DEPTHS: dict[bytes, int | None] = {b"0": 0, b"1": 1, b"infinity": None}


def properties_of(body: bytes) -> Properties:
    """Read the body of a request. An empty one asks for all properties.

    Raises:
        RefusedError: it is not the XML of a PROPFIND, names too many properties, or declares entities.
    """
    if not body.strip():
        return Properties(None)
    above: list[str] = []
    modes: list[str] = []
    names: list[Name] = []

    def start(name: str, _: object) -> None:
        above.append(name)
        if len(above) == 1 and name != "DAV: propfind":
            raise RefusedError(400, "expected a body whose element is propfind, in the namespace DAV:")
        if len(above) == 2:
            modes.append(name)
        elif len(above) == 3 and above[1] in ("DAV: prop", "DAV: include"):
            space, _, own = name.rpartition(" ")
            names.append((space, own))
            if len(names) > MAX_PROPERTIES:
                raise RefusedError(400, f"expected at most {MAX_PROPERTIES} properties")

    def doctype(*_: object) -> None:
        raise RefusedError(400, "expected a body without a document type: entities are refused")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = start, lambda _: above.pop()
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # LookupError: an encoding that Python does not know
        raise RefusedError(400, f"expected a body in XML: {error}") from None
    if "DAV: prop" in modes:
        return Properties(tuple(dict.fromkeys(names)))
    if "DAV: propname" in modes:
        return Properties(None, values=False)
    if "DAV: allprop" not in modes:
        raise RefusedError(400, "expected prop, propname or allprop in propfind")
    return Properties(tuple(dict.fromkeys([*_USUAL, *names])) if names else None)


def parts(asked: Properties, above: str, own: str, rows: Iterable[IndexRow]) -> Iterator[bytes]:
    """Write the answer to a request, of about `PART` bytes at a time.

    Args:
        above: path of the folder of the rows, as in a URL, with a slash at its end.
        own: its name.
        rows: what is described; the name "" stands for the folder itself.
    """
    forms: dict[IndexRow, str] = {}
    written, length = [_HEAD], 0
    for row in rows:
        like = row._replace(name="", etag=row.etag and b"*")
        form = forms.get(like)
        if form is None:
            if len(forms) >= 1000:  # sizes and dates that rarely come again
                forms.clear()
            form = forms[like] = _form(asked, like)
        text = form % {
            "href": above + (quoted(row.name) + ("/" if row.folder else "") if row.name else ""),
            "name": escape(_NO_XML.sub("\ufffd", printable(row.name or own)), quote=False),
            "etag": row.etag.decode("latin-1"),
        }
        written.append(text)
        length += len(text)
        if length >= PART:
            yield "".join(written).encode()
            written, length = [], 0
    yield "".join([*written, _TAIL]).encode()


def _form(asked: Properties, like: IndexRow) -> str:
    """Return what describes a file or folder, with places for its address, its name and its ETag."""
    found, absent = [], []
    for space, name in _USUAL if asked.names is None else asked.names:
        value = _KNOWN[name](like) if space == "DAV:" and name in _KNOWN else None
        if value is None:
            absent.append(_element(space, name, ""))
        else:
            found.append(_element(space, name, value if asked.values else ""))
    states = [(found, "200 OK")] if found or asked.names is None or not absent else []
    if absent and asked.names is not None:
        states.append((absent, "404 Not Found"))
    said = "".join(
        f"<D:propstat><D:prop>{''.join(props)}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
        for props, status in states
    )
    return f"<D:response><D:href>%(href)s</D:href>{said}</D:response>\n"


def _element(space: str, name: str, value: str) -> str:
    if space == "DAV:":
        return f"<D:{name}>{value}</D:{name}>" if value else f"<D:{name}/>"
    return f'<{name} xmlns="{escape(space)}"/>'.replace("%", "%%")


def _type(row: IndexRow) -> str:
    return ("application/json" if row.json else "application/octet-stream") if not row.folder else "text/html"


def _date(row: IndexRow) -> str | None:
    return formatdate(row.time // 10**9, usegmt=True) if row.time > 0 else None


def _created(row: IndexRow) -> str | None:
    return f"{datetime.fromtimestamp(row.time // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}" if row.time > 0 else None


_KNOWN: dict[str, Callable[[IndexRow], str | None]] = {
    "resourcetype": lambda row: "<D:collection/>" if row.folder else "",
    "displayname": lambda _: "%(name)s",
    "getcontentlength": lambda row: None if row.folder else str(row.size),
    "getcontenttype": _type,
    "getlastmodified": _date,
    "creationdate": _created,
    "getetag": lambda row: "%(etag)s" if row.etag else None,
    # Nothing can be written here. Only for those who ask for them (RFC 4331, section 2)
    "quota-available-bytes": lambda row: "0" if row.folder else None,
    "quota-used-bytes": lambda row: "0" if row.folder else None,
}
"""Property of the namespace DAV: -> its value, in which `%` stands only before a place; None: it has none."""

_USUAL: tuple[Name, ...] = tuple(("DAV:", name) for name in _KNOWN if not name.startswith("quota"))
