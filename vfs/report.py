"""What a set of files is, in words for people and as JSON for programs: what `vfs info` and `vfs formats` print."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vfs import scan
from vfs.api import VirtualArray, VirtualGroup
from vfs.backends import choice
from vfs.documents import plain_json
from vfs.formats import Format
from vfs.tiling import Chunking, size

SHOWN = 12  # files and metadata entries that people get to see of each list
WIDE = 110  # characters of a metadata value
_UNIT = ("unit", "units")
_SCALE = re.compile(r"scale|calibration|pixel_?size|physical_?size|resolution|spacing|units?$", re.IGNORECASE)


def sources(group: VirtualGroup) -> dict[str, int]:
    """Path -> bytes of every file of the set, -1 for missing ones."""
    found: dict[str, int] = {}
    for array in group.values():
        files = array.dataset.files
        found.update(zip(files.paths, files.sizes.tolist(), strict=True))
    return found


def scale(array: VirtualArray) -> dict[str, Any]:
    """What the format says of sizes and units: the metadata whose names say so."""
    said = {**array.attrs, **array.dataset.conventions}
    return {key: plain_json(value) for key, value in said.items() if _SCALE.search(key) and value not in (None, "", [], {})}


def as_json(group: VirtualGroup) -> dict[str, Any]:
    """Everything about a set, as JSON can hold it."""
    files = sources(group)
    return {
        "name": group.name,
        "format": group.opening.format,
        "files": list(files),
        "missing": list(dict.fromkeys([*(path for path, nbytes in files.items() if nbytes < 0), *(name for one in group.absent for name in one.files)])),
        "incomplete": [one.said for one in group.absent],
        "bytes": sum(nbytes for nbytes in files.values() if nbytes > 0),
        "main": group.tree.main,
        "arrays": {path: _array_json(array) for path, array in group.items()},
        "attrs": plain_json(group.attrs),
    }


def _array_json(array: VirtualArray) -> dict[str, Any]:
    chunking = array.chunking
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "dims": list(array.dims),
        "nbytes": array.nbytes,
        "chunks": list(array.chunks),
        "chunks_reason": chunking.reason,
        "read_amplification": {"one_chunk": round(chunking.one, 3), "all_chunks": round(chunking.full, 3)},
        "files": len(array.files),
        "companion": array.dataset.companion,
        "scale": scale(array),
        "attrs": plain_json({**array.attrs, **array.dataset.conventions}),
    }


def as_text(group: VirtualGroup, verbose: bool = False) -> Iterator[str]:
    """The same for people, line by line; with `verbose` also metadata, files, and why the chunks are what they are."""
    files = sources(group)
    missing = sum(nbytes < 0 for nbytes in files.values())
    total = size(sum(nbytes for nbytes in files.values() if nbytes > 0))
    yield f"{group.name}: {group.opening.format}, {count(len(files), 'file')}, {total}{f', {missing} missing' if missing else ''}"
    rows = [_row(path, array) for path, array in group.items()]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row, array in zip(rows, group.values(), strict=True):
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if said := {key: value for key, value in scale(array).items() if key not in _UNIT}:
            yield "    " + "; ".join(f"{key}: {_axes(value)}" for key, value in said.items())
        if verbose or not array.dataset.companion:
            if blank := scan.blanks(array.dataset):
                frames = count(math.prod(array.shape[: array.dataset.nav_ndim]), "frame")
                yield f"    {blank:,} of {frames} {'is' if blank == 1 else 'are'} not stored: they read as {array.dataset.fill}"
            yield f"    chunks: {_chunks(array.chunking)}"
        if verbose:
            yield from (f"    {line}" for line in _some([f"{key}: {_short(value)}" for key, value in plain_json(array.attrs).items()], "more"))
        if chunking_warning := array.chunking.warning:
            yield f"    {chunking_warning}"
    if verbose:
        yield from (f"  {line}" for line in _backend(group))
        lines = [f"{path}  {size(nbytes) if nbytes >= 0 else 'missing'}" for path, nbytes in files.items()]
        yield from (f"  {line}" for line in _some(lines, "more files"))


def _row(path: str, array: VirtualArray) -> tuple[str, ...]:
    axes = ", ".join(f"{dim}: {n}" for dim, n in zip(array.dims, array.shape, strict=True)) or "one number"
    nbytes = array.dtype.itemsize
    for n in array.chunks:
        nbytes *= n
    unit = next((str(value) for key, value in scale(array).items() if key in _UNIT), "")
    return path, axes, array.dtype.name, size(array.nbytes), f"chunks {' x '.join(map(str, array.chunks)) or 1} ({size(nbytes)})", unit


def _chunks(chunking: Chunking) -> str:
    """Why chunks are what they are, and their read amplification."""
    one, full = f"{chunking.one:.1f}", f"{chunking.full:.1f}"
    return f"{chunking.reason}; {one} bytes read for each one asked for" + ("" if one == full else f" in one chunk, {full} in all")


def _backend(group: VirtualGroup) -> Iterator[str]:
    """How files are read, and why so; what a mount does where that is something else."""
    asked = group.opening.settings.get("backend", "auto")
    chosen, why = choice(asked)
    yield f"backend: {chosen}{' (auto)' if asked == 'auto' else ', as asked'}; it {why}"
    served, reason = choice(asked, serves=True)
    if served != chosen:
        yield f"backend of a mount: {served} (auto); it {reason}"


def _axes(value: Any) -> str:
    """A calibration in a line: `{"x": {"scale": 0.5, "offset": 1, "unit": "nm"}}` as "x 0.5 nm from 1"."""
    if not isinstance(value, Mapping) or not all(isinstance(axis, Mapping) and ("scale" in axis or "value" in axis) for axis in value.values()):
        return _short(value)
    parts = []
    for name, axis in value.items():
        start = f" from {_number(axis['offset'])}" if axis.get("offset") else ""
        parts.append(f"{name} {_number(axis.get('scale', axis.get('value')))} {axis.get('unit') or ''}".rstrip() + start)
    return ", ".join(parts)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)


def count(n: int, what: str) -> str:
    """1 file, 2 files."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= WIDE else text[: WIDE - 1] + "…"


def _some(lines: Sequence[str], more: str) -> list[str]:
    left = len(lines) - SHOWN
    return [*lines[:SHOWN], *([f"… and {left:,} {more}"] if left > 0 else [])]


def formats_json(known: Mapping[str, Format]) -> list[dict[str, Any]]:
    """What `vfs formats --json` prints."""
    return [
        {
            "name": f.name,
            "summary": f.summary,
            "extensions": list(f.extensions),
            "url": f.url,
            "options": {name: {"default": plain_json(p.default), "help": f.help(name)} for name, p in f.options.items()},
        }
        for f in known.values()
    ]


def formats_text(known: Mapping[str, Format]) -> Iterator[str]:
    """The formats, their endings and options, for people."""
    width = max(map(len, known)) + 2
    indent = " " * width
    for f in known.values():
        yield f"{f.name:<{width}}{f.summary}"
        yield f"{indent}{' '.join(f.extensions)}{f'  {f.url}' if f.url else ''}"
        for name, parameter in f.options.items():
            default = "" if parameter.default is None else f" (default {parameter.default})"
            yield f"{indent}-o {name}=…  {f.help(name)}{default}"


def formats_markdown(known: Mapping[str, Format]) -> Iterator[str]:
    """The formats as the table that stands in README.md."""
    yield "| format | files | what | options (`-o KEY=VALUE`) |"
    yield "|---|---|---|---|"
    for f in known.values():
        name = f"[{f.name}]({f.url})" if f.url else f.name
        yield f"| {name} | {' '.join(f'`{e}`' for e in f.extensions)} | {f.summary} | {', '.join(f'`{o}`' for o in f.options)} |"
