"""Describes formats for `vfs formats`, as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vfs.cli.tables import wrapped
from vfs.faces.documents import plain_json
from vfs.formats import Format


def formats_json(known: Mapping[str, Format]) -> list[dict[str, Any]]:
    """Return the list of formats that `vfs formats --json` prints."""
    return [
        {
            "name": f.name,
            "summary": f.summary,
            "extensions": list(f.extensions),
            "url": f.url,
            "library": None
            if f.library is None
            else {
                "name": f.library.name,
                "licence": f.library.licence,
                "installed": f.library.installed,
                "install": f.library.install,
            },
            "options": {
                name: {"default": plain_json(p.default), "help": f.help(name)} for name, p in f.options.items()
            },
        }
        for f in known.values()
    ]


def formats_text(known: Mapping[str, Format], columns: int = 80) -> Iterator[str]:
    """Describe formats for people: summary, endings of files, address of the specification, options."""
    width = max(map(len, known)) + 2
    indent = " " * width
    for f in known.values():
        yield from wrapped(f.summary, columns, f"{f.name:<{width}}", indent)
        yield from wrapped(f"{' '.join(f.extensions)}{f'  {f.url}' if f.url else ''}", columns, indent, indent)
        if f.library is not None:
            there = "is installed" if f.library.installed else f"is not installed: {f.library.install}"
            whose = f"read by {f.library.name} ({f.library.licence}) in another process, which {there}"
            yield from wrapped(whose, columns, indent, indent)
        for name, parameter in f.options.items():
            default = "" if parameter.default is None else f" (default {parameter.default})"
            yield from wrapped(f"-o {name}=…  {f.help(name)}{default}", columns, indent, indent + "  ")
