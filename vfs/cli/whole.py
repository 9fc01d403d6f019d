"""Prints all that files say, as a tree of lines: `vfs info -vv`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vfs.cli.tables import cut
from vfs.errors import VfsError, printable
from vfs.sets.opening import OpenedSet
from vfs.sets.original import original

_MAX_LINE_VALUES = 8  # values of a list that are printed on one line


def tree_lines(group: OpenedSet, columns: int) -> Iterator[str]:
    """Yield a line for each entry; long texts and lists are cut to the width, `original_metadata` has all of them."""
    try:
        said = original(group.opening, group.arrays)
    except VfsError as error:
        yield f"  what the files say cannot be read: {printable(str(error))}"
        return
    yield "  all that the files say:"
    yield from _lines(said, columns, "    ")


def _lines(value: Mapping[str, Any], columns: int, indent: str) -> Iterator[str]:
    for name, one in value.items():
        key = printable(str(name))
        if isinstance(one, Mapping) and one:
            yield cut(f"{indent}{key}:", columns)
            yield from _lines(one, columns, f"{indent}  ")
        elif isinstance(one, list) and any(isinstance(inner, Mapping | list) for inner in one):
            yield cut(f"{indent}{key}:", columns)
            yield from _lines({f"[{k}]": inner for k, inner in enumerate(one)}, columns, f"{indent}  ")
        else:
            yield cut(f"{indent}{key}: {_value(one)}", columns)


def _value(one: Any) -> str:
    if isinstance(one, list):
        more = f", … {len(one):,} in all" if len(one) > _MAX_LINE_VALUES else ""
        return f"[{', '.join(_value(inner) for inner in one[:_MAX_LINE_VALUES])}{more}]"
    return printable(" ".join(one.split())) if isinstance(one, str) else str(one)
