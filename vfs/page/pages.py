"""The page and its parts: files of `vfs/page/site`, kept in memory.

Its JavaScript is sent as one script, made of the modules when it is first wanted. A browser that asks
for thirty-five modules has the last one 0.1 s later than one script, and from far away after some more
round trips: it has six connections at most.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b, sha256
from importlib.resources import files
from typing import Any, NamedTuple

LINKS = b"<!-- links -->"
"""What stands in the page for the list of the data sets, which tools read."""
SCRIPT = "page.js"
"""The script that is made of the modules."""
MAIN = "main.js"
"""The module that is run; the others are what it imports."""
FIRST = b"<!-- first -->"
"""What stands there for the answers to what the page asks first, which else are two more round trips."""
_IMPORT = re.compile(r'^import (?:\* as (\w+)|(\{[^}]*\})) from "\./(\w+\.js)";$', re.M)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.M)
_KINDS = {
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
}


class Asset(NamedTuple):
    """A file that the page loads.

    Attributes:
        body: its bytes; kind: its content type; etag: its ETag.
    """

    body: bytes
    kind: bytes
    etag: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the files that the page loads by their names."""
    bodies = _files()
    modules = {name: body.decode() for name, body in bodies.items() if name.endswith(".js")}
    bodies = {name: body for name, body in bodies.items() if name not in modules}
    bodies[SCRIPT] = script(modules).encode()
    kinds = {name: _KINDS[ending] for name in bodies if (ending := name.rpartition(".")[2]) in _KINDS}
    return {name: Asset(bodies[name], kind, etag_of(bodies[name])) for name, kind in kinds.items()}


@cache
def _files() -> dict[str, bytes]:
    """Return the files of the page as they are."""
    return {file.name: file.read_bytes() for file in files("vfs.page").joinpath("site").iterdir() if file.is_file()}


def script(modules: Mapping[str, str]) -> str:
    """Make one script of modules: each becomes a function that is called once, after those that it imports.

    Args:
        modules: name -> text. Imports are of names in `{}` or of all as one name, and stand in no comment;
            what is exported is exported where it is defined, and never changes.

    Raises:
        ValueError: a module imports or exports in another way, or what is not there, or itself by way of others.
    """
    parts: dict[str, str] = {}

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers or name not in modules:
            raise ValueError(f"{' -> '.join((*importers, name))}: expected a module that imports none of these")
        if name in parts:
            return
        text = modules[name]
        for found in _IMPORT.finditer(text):
            add(found[3], (*importers, name))
        exported = ", ".join(found[2] for found in _EXPORT.finditer(text))
        text = _IMPORT.sub(_taken, _EXPORT.sub(r"\1 \2", text))
        if re.search(r"^(import|export)\b", text, re.M):
            raise ValueError(f'{name}: expected imports as `import {{a, b}} from "./name.js"`, exports where defined')
        parts[name] = f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();\n'

    add(MAIN, ())
    return "const modules = {};\n" + "".join(parts.values())


def _taken(found: re.Match[str]) -> str:
    """Write an import as what takes names from a module that ran before."""
    return f'const {found[1] or found[2].replace(" as ", ": ")} = modules["{found[3]}"];'


def page(links: bytes, first: Mapping[str, Any]) -> bytes:
    """Return the page.

    Args:
        links: to what is served; first: answers of the api that the page need not ask for.
    """
    known = json.dumps(first).replace("<", "\\u003c").encode()  # no text in it can end the element that it stands in
    return _files()["index.html"].replace(FIRST, known).replace(LINKS, links)


def embedded(known: Mapping[str, Any]) -> bytes:
    """Return the page as one file, which asks no server.

    Args:
        known: what it knows, see `vfs.page.mail`.
    """
    style, code = (assets()[name].body for name in ("style.css", SCRIPT))
    allowed = (b"'sha256-%s'" % b64encode(sha256(text).digest()) for text in (code, style))
    said = b"default-src 'none'; script-src %s; style-src %s; img-src data: blob:; base-uri 'none'; form-action 'none'"
    rule = b'<meta http-equiv="Content-Security-Policy" content="%s">' % (said % tuple(allowed))
    text = page(b"", known)
    for old, new in (
        (b'<meta charset="utf-8">', b'<meta charset="utf-8">\n' + rule),
        (b'<link rel="stylesheet" href="assets/style.css">', b"<style>%s</style>" % style),
        (b'<script type="module" src="assets/page.js"></script>', b'<script type="module">%s</script>' % code),
    ):
        if text.count(old) != 1:
            raise ValueError(f"index.html: expected {old.decode()} once")
        text = text.replace(old, new)
    return text


def etag_of(body: bytes) -> bytes:
    """Return an ETag of bytes."""
    return b'"%s"' % blake2b(body, digest_size=16).hexdigest().encode()
