"""Writes pages without scripts: of an old address, and lists of folders for people, `wget -r` and clients of links."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from os import fsencode
from urllib.parse import quote

from vfs.errors import printable


def index(key: str, names: Iterable[tuple[str, bool]]) -> bytes:
    """Return the page of a folder.

    Args:
        key: path of the folder.
        names: (name, True for a folder) of its entries.
    """
    title = escape(printable(key))
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{title}</title></head>\n'
    return f"{head}<body><h1>{title}</h1>\n".encode() + links([("..", True), *names]) + b"</body></html>\n"


def links(names: Iterable[tuple[str, bool]]) -> bytes:
    """Return a list of links in HTML.

    Args:
        names: (name, True for a folder) of what the links lead to.
    """
    lines = ["<ul>"]
    for name, folder in names:
        slash = "/" if folder else ""
        # quote escapes colons, so none looks like the end of a scheme
        lines.append(f'<li><a href="{quote(fsencode(name))}{slash}">{escape(printable(name))}{slash}</a></li>')
    return "\n".join([*lines, "</ul>", ""]).encode("utf-8")


OLD = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<title>This address of vfs is old</title></head>
<body><h1>This address of vfs is old</h1>
<p>The server that runs here now has another token: each start makes a new one, and every address begins with it.
Open the whole address that <code>vfs serve</code> printed last, or start it again; <code>vfs mounts</code> lists the
servers that run, and with <code>vfs serve --token FILE</code> addresses stay the same.</p>
</body></html>
"""
"""What a browser shows that comes without the token of the server. Nothing in it is of the request."""
