"""Describes sets and formats for `vfs info` and `vfs formats`, as text or JSON."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vfs.backends import choice
from vfs.cli import guesses
from vfs.cli.tables import GLUE, cut, table, wrapped
from vfs.engine.array import ArrayReader
from vfs.engine.pixel_masks import masked_pixels
from vfs.errors import VfsError, printable, size
from vfs.faces.documents import plain_json
from vfs.faces.references import referenceable
from vfs.formats import Format, by_name
from vfs.model import spoken
from vfs.model.name_order import in_doubt
from vfs.model.stored import BOTTOM_FIRST
from vfs.model.units import readable, symbol
from vfs.model.wording import format_option, option
from vfs.sets.opening import OpenedSet

SCREEN = 22  # lines: a usual terminal has 24, of which the command above and the prompt below take two
NUMBERS = 6  # at most so many of these lines are for arrays of one element, if not all arrays fit
REASONS = 3  # at most so many reasons why data sets are not shown
_NO_NUMBERS = "no array of numbers"  # end of the reason for text, compound types and the like
SEVERAL = 4  # at most so many sets are printed in full, one after the other; if there are more, each gets a row
SHOWN = 12  # at most so many files, and so many metadata entries, are printed
LISTED = 10_000_000  # names in one folder beyond which listing it takes minutes
MAPPED = 1 << 47  # bytes of addresses that a process has
ORDERED = 6  # at most so many names are printed where the order of files is in doubt
WIDE = 110  # at most so many characters of a metadata value are printed
_LONGEST_UNIT = 40
_UNIT = ("unit", "units")
_SCALE = re.compile(r"scale|calibration|pixel_?size|physical_?size|resolution|spacing|units?$", re.IGNORECASE)


def sources(group: OpenedSet) -> dict[str, int]:
    """Return path -> size in bytes of every file of the set; -1 for missing ones."""
    found: dict[str, int] = {}
    for array in group.arrays.values():
        files = array.dataset.files
        found.update(zip(files.paths, files.sizes.tolist(), strict=True))
    return found


def scale(array: ArrayReader) -> dict[str, Any]:
    """Return the metadata about sizes and units, recognised by the names of the entries (`_SCALE`)."""
    said = {key: plain_json(value) for key, value in {**array.attrs, **array.dataset.conventions}.items()}
    return {key: value for key, value in said.items() if _SCALE.search(key) and value not in (None, "", [], {})}


def left_out(group: OpenedSet) -> dict[str, str]:
    """Return the data sets of a container that cannot be shown: name -> reason. Only HDF5 has any."""
    root = plain_json(group.main.attrs.get("root", {}))
    said = root.get("left_out", {}) if isinstance(root, dict) else {}
    return {name: str(why) for name, why in said.items()} if isinstance(said, dict) else {}


def as_json(group: OpenedSet) -> dict[str, Any]:
    """Return everything about a set in a form that JSON can hold.

    The fields are listed in vfs/docs/commands.md. Metadata that all arrays but companions share
    stands once, in `shared_attrs`: a set of hundreds of arrays would repeat it hundreds of times.
    """
    files = sources(group)
    attrs = {path: plain_json({**array.attrs, **array.dataset.conventions}) for path, array in group.arrays.items()}
    shared = _shared([attrs[path] for path, array in group.arrays.items() if not array.dataset.companion])
    return {
        "name": group.name,
        "format": group.opening.format,
        "files": list(files),
        "missing": list(
            dict.fromkeys(
                [
                    *(path for path, nbytes in files.items() if nbytes < 0),
                    *(name for one in group.absent for name in one.files),
                ]
            )
        ),
        "incomplete": [one.said for one in group.absent],
        "absent": group.attrs["vfs"].get("incomplete", {}),
        "left_out": left_out(group),
        "hidden": list(group.opening.options.hide or ()),
        "bytes": sum(nbytes for nbytes in files.values() if nbytes > 0),
        "live": None if group.progress is None else group.progress.said(),
        "main": group.tree.main,
        "arrays": {path: _array_json(group, path, attrs[path], shared) for path in group.arrays},
        "shared_attrs": shared,
        "group_attrs": plain_json({key: value for key, value in group.attrs.items() if key != "vfs"}),
        "nav_shape_guesses": guesses.as_json(group),
    }


def _shared(attrs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries that are equal in all arrays; none if there is only one array."""
    first, *others = attrs
    if not others:
        return {}
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def _array_json(group: OpenedSet, path: str, attrs: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything about an array but the metadata in `shared`."""
    array = group.arrays[path]
    chunking = array.chunking
    return {
        "name": array.dataset.label,
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "dims": list(array.dims),
        "nbytes": array.nbytes,
        "chunks": list(array.chunks),
        "chunks_reason": chunking.reason,
        "read_amplification": {"one_chunk": round(chunking.one, 3), "all_chunks": round(chunking.full, 3)},
        **dict(zip(("referenceable", "referenceable_reason"), referenceable(array, group.chosen(path)), strict=True)),
        "files": len(array.files),
        "companion": array.dataset.companion,
        "scale": scale(array),
        **({"value": plain_json(single_value(array))} if _is_read(array) else {}),
        "metadata": {name: one._asdict() for name, one in array.dataset.recorded.items()},
        "attrs": {key: value for key, value in attrs.items() if array.dataset.companion or key not in shared},
    }


def as_text(group: OpenedSet, verbose: bool = False, columns: int = 80) -> Iterator[str]:
    """Describe a set for people, line by line: as much as fits a screen, the main array first.

    Args:
        verbose: describe everything: all arrays with their metadata, the files, and how they are read.
        columns: characters of a line.
    """
    files = sources(group)
    missing = sum(nbytes < 0 for nbytes in files.values())
    total = size(sum(nbytes for nbytes in files.values() if nbytes > 0))
    yield cut(
        f"{printable(group.name)}: {group.opening.format}, {count(len(files), 'file')},"
        f" {total}{f', {missing} missing' if missing else ''}",
        columns,
    )
    if group.progress is not None and not group.progress.complete:
        yield cut(f"  live: {group.progress}", columns)
    yield from _file_order(group, columns)
    said = spoken.line(group.main.dataset.recorded)
    yield from _paragraph(said, columns, 2) if said else ()
    paths = _ordered(group)
    left = _left_out(group, verbose, columns)
    room = SCREEN - len(left) - bool(said)
    blocks = _blocks(group, paths if verbose else paths[:room], verbose, columns)
    if not verbose and (len(paths) > room or sum(map(len, blocks)) >= room):
        blocks = _bounded(group, paths, room, columns)
    for block in blocks:
        yield from block
    yield from left
    if verbose:
        yield from _more(group, files, columns)


def _file_order(group: OpenedSet, columns: int) -> list[str]:
    """Return lines with the order of several files that were named, if there is more than one way to see it."""
    files = group.main.files
    if len(files) < 2 or {*files} != {*group.opening.paths} or not in_doubt(files):
        return []
    names = [os.path.basename(path) for path in files]
    shown = names if len(names) <= ORDERED else [*names[: ORDERED - 1], "…", names[-1]]
    return _paragraph(f"order of the files: {', '.join(shown)}", columns, 2)


def as_rows(groups: Sequence[OpenedSet], columns: int = 80) -> list[str]:
    """Describe several sets for people, one row each, as many as fit a screen."""
    rows = table(
        [(printable(os.path.basename(group.opening.paths[0])), *set_cells(group)) for group in groups], columns
    )
    shown = list(fitting(rows, SCREEN - 1))
    more = f"and {len(rows) - len(shown):,} more; " if len(shown) < len(rows) else ""
    return [*(line for row in shown for line in row), f"{more}`vfs info FILE` says more of one, -v of all"]


def set_cells(group: OpenedSet) -> tuple[str, str, str, str]:
    """Return the cells of a set's row: format, number of files, bytes, and its arrays.

    The last cell has dtype and axes of the main array, and the number of other arrays.
    """
    files, main = sources(group), group.main
    others = len(group.arrays) - 1
    more = f", {others}{GLUE}more{GLUE}array{'s' * (others > 1)}" if others else ""
    return (
        group.opening.format,
        count(len(files), "file"),
        size(sum(n for n in files.values() if n > 0)),
        f"{main.dtype.name} {_axis_lengths(main) or 'one number'}{more}",
    )


def _ordered(group: OpenedSet) -> list[str]:
    """Sort the paths of arrays for people: the main array, then arrays, then those of one element, then what only
    comes beside others, as metadata and tables of frames do.
    """
    return sorted(
        group.arrays,
        key=lambda path: (path != group.tree.main, _is_beside(group.arrays[path]), group.arrays[path].size == 1),
    )


def _is_beside(array: ArrayReader) -> bool:
    return array.dataset.main is False


def _left_out(group: OpenedSet, verbose: bool, columns: int) -> list[str]:
    """Return lines on which array is the main one because somebody said so, on what is hidden, and on data sets that
    cannot be shown, by reason: those without numbers last.
    """
    names: dict[str, list[str]] = {}
    for name, why in left_out(group).items():
        names.setdefault(why, []).append(name)
    reasons = sorted(names, key=lambda why: why.endswith(_NO_NUMBERS))
    options = group.opening.options
    asked = {"main array, as asked": options.main, "hidden": _first(options.hide or (), SHOWN)}
    chosen = [
        row for word, said in asked.items() if said for row in _paragraph(printable(f"{word}: {said}"), columns, 2)
    ]
    said = [printable(f"not shown: {_first(names[why], SHOWN if verbose else 2)}: {why}") for why in reasons]
    if verbose:
        return [*chosen, *(line for text in said for line in _paragraph(text, columns, 2))]
    more = len(said) - REASONS
    lines = [f"  {cut(text, columns - 2)}" for text in said[:REASONS]]
    return [*chosen, *lines, *([f"  not shown for {count(more, 'more reason')}: -v lists them"] if more > 0 else [])]


def _first(names: Sequence[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _bounded(group: OpenedSet, paths: Sequence[str], room: int, columns: int) -> list[list[str]]:
    """Return as many lines about arrays as there is room for, in a list for each array.

    These are all lines of the main array, rows of some others and of some arrays of one element,
    and the number of arrays that are left out.
    """
    main = _blocks(group, paths[:1], False, columns)
    room -= 2 + len(main[0])  # two lines are for the set and for the number of arrays left out
    arrays = [path for path in paths[1:] if not _is_beside(group.arrays[path])]
    numbers = [path for path in arrays if group.arrays[path].size == 1]
    others = [path for path in paths[1:] if path not in {*numbers}][:room]
    rows = _rows(group, [*others, *numbers[:room]], columns)
    kept = sum(map(len, rows[len(others) :][:NUMBERS]))
    shown = [*fitting(rows[: len(others)], room - kept)]
    shown += fitting(rows[len(others) :], room - sum(map(len, shown)))
    return [
        *main,
        *shown,
        [f"  … and {count(len(paths) - 1 - len(shown), 'more array')}: -v lists them, --json says all"],
    ]


def fitting(rows: Sequence[list[str]], room: int) -> Iterator[list[str]]:
    """Yield rows as long as all their lines fit.

    Args:
        room: number of lines that are free.
    """
    for row in rows:
        room -= len(row)
        if room < 0:
            return
        yield row


def _blocks(group: OpenedSet, paths: Sequence[str], verbose: bool, columns: int) -> list[list[str]]:
    """Return the lines of each array: its row, then its details."""
    rows = _rows(group, paths, columns)
    details = [list(_details(group, path, verbose, columns)) for path in paths]
    for path, lines in zip(paths, details, strict=True):
        for text in guesses.as_text(group, verbose) if path == group.tree.main else ():
            lines += _paragraph(text, columns)
    if verbose:
        said: Mapping[str, Any] = {}
        for path, lines in zip(paths, details, strict=True):
            lines += _metadata(group.arrays[path], said, columns)
            said = said or plain_json(group.main.attrs)  # the main array comes first
    return [[*row, *lines] for row, lines in zip(rows, details, strict=True)]


def _metadata(array: ArrayReader, said: Mapping[str, Any], columns: int) -> Iterator[str]:
    """Yield a line for each metadata entry that is new, not printed with the main array or as a scale.

    Args:
        said: the metadata printed with the main array; empty for the main array itself.
    """
    shown = scale(array)
    entries = [
        (key, value)
        for key, value in plain_json(array.attrs).items()
        if key not in shown and not (key in said and said[key] == value)
    ]
    lines = [cut(printable(f"{key}: {_short(value)}"), columns - 4) for key, value in entries]
    yield from (f"    {line}" for line in _some(lines, "more: --json says all"))


def _rows(group: OpenedSet, paths: Sequence[str], columns: int) -> list[list[str]]:
    """Return the lines of each array's row: cells of a table, or the value of an array of one element."""
    several = [path for path in paths if not _is_read(group.arrays[path])]
    rows = dict(zip(several, table([_cells(group.arrays[path]) for path in several], columns), strict=True))
    return [rows.get(path) or _number_row(path, group.arrays[path], columns) for path in paths]


def _is_read(array: ArrayReader) -> bool:
    """Return True if an array's value is shown: it has one element, which is stored."""
    return array.size == 1 and not array.dataset.computed


def _number_row(path: str, array: ArrayReader, columns: int) -> list[str]:
    value, unit = single_value(array), _unit(array, " ")
    if isinstance(value, float):  # numpy's float64, too
        times, unit = readable(value, unit.strip()) if value else (1, unit.strip())
        value, unit = f"{value * times:.9g}", f" {symbol(unit)}".rstrip()
    return _paragraph(f"{path} = {value}{unit}", columns, 2)


def _cells(array: ArrayReader) -> tuple[str, ...]:
    """Return the cells of an array's row: name, dtype, bytes, axes with their lengths and the unit."""
    unit = printable(_unit(array, ", in ")).replace(" ", GLUE).replace(GLUE, " ", 1)
    return printable(array.dataset.title), array.dtype.name, size(array.nbytes), _axis_lengths(array) + unit


def _axis_lengths(array: ArrayReader) -> str:
    return ", ".join(f"{printable(dim)}:{GLUE}{n}" for dim, n in zip(array.dims, array.shape, strict=True))


def _unit(array: ArrayReader, before: str) -> str:
    """Return the text `before` and the unit of an array's values; "" if there is no unit."""
    unit = next((" ".join(str(value).split()) for key, value in scale(array).items() if key in _UNIT), "")
    return before + cut(unit, _LONGEST_UNIT) if unit else ""


def single_value(array: ArrayReader) -> Any:
    """Return the value of an array of one element, or the text "cannot be read"."""
    try:
        return array.read().reshape(-1)[0]
    except VfsError:
        return "cannot be read"


def _turned(array: ArrayReader) -> str:
    """Return the option that shows the top row of frames first."""
    return option(axes=",".join("-y" if dim == "y" else dim for dim in array.dims))


def _details(group: OpenedSet, path: str, verbose: bool, columns: int) -> Iterator[str]:
    """Yield lines about an array: calibration, order of frames in the scan, number of frames not stored, chunks,
    warnings.

    Chunks are described for the main array, and for others that have several chunks.
    """
    array, main = group.arrays[path], path == group.tree.main
    companion = array.dataset.companion
    if said := {key: value for key, value in scale(array).items() if key not in _UNIT}:
        yield from _paragraph("; ".join(f"{key}: {_axes(value)}" for key, value in said.items()), columns)
    if main and (order := array.dataset.layout.order):
        said = array.attrs.get("scan_order", "each frame is at the position in its header")
        skipped = f"{count(order.line_skip, 'frame')} after each line not shown"
        yield from _paragraph(f"scan: {skipped if order.line_skip else said}", columns)
    if marked := _masked(array):
        yield from _paragraph(marked, columns)
    if uncertain := array.attrs.get("uncertain"):
        yield from _paragraph(f"uncertain: {uncertain}", columns)
    if array.attrs.get("rows") == BOTTOM_FIRST and not array.dataset.computed:  # said of the frames already
        over = format_option(flip_y=True) if "flip_y" in by_name(group.opening.format).options else _turned(array)
        yield from _paragraph(f"rows: bottom first; {over} shows the top first", columns)
    if blank := array.dataset.blanks if verbose or not companion else 0:
        frames = count(math.prod(array.shape[: array.dataset.nav_ndim]), "frame")
        if array.dataset.written.head is None:
            read = f"{'it reads' if blank == 1 else 'they read'} as {array.dataset.fill}"
            yield f"    {blank:,} of {frames} {'is' if blank == 1 else 'are'} not stored: {read}"
        elif main:
            yield f"    {blank:,} of {frames} {'is' if blank == 1 else 'are'} not written yet"
    if main or (array.chunks != array.shape and (verbose or not companion)):
        yield from _paragraph(f"chunks: {_chunks(array, verbose)}", columns)
    if warning := array.chunking.warning:
        yield from _paragraph(warning, columns)
    for text in _beyond(array):
        yield from _paragraph(text, columns)
    if verbose and main:
        for name, one in array.dataset.recorded.items():
            yield from _paragraph(f"{name}: {spoken.value(one)} (as {one.source} says)", columns)
    if verbose and (main or not companion):
        can, how = referenceable(array, group.chosen(path))
        yield from _paragraph(f"{'' if can else 'not '}referenceable: {how}", columns)


def _masked(array: ArrayReader) -> str:
    """Say how many pixels of a frame the set's own mask marks as dead; "" where there is none."""
    mask = array.dataset.pixel_mask
    if mask is None:
        return ""
    try:
        found = masked_pixels(array)
    except VfsError:
        return f"dead pixels: {mask.array.path} says which; it cannot be read"
    if found is None:
        return ""
    marked = f"{np.count_nonzero(found):,} of {count(found.size, 'pixel')} are marked by {mask.array.path}"
    return f"dead pixels: {marked}: bf, adf and com leave them out, {option(dead='mask')} replaces them"


def _beyond(array: ArrayReader) -> Iterator[str]:
    """Yield what size makes of an array that other programs do not expect."""
    if (names := max(array.grid.counts, default=0)) > LISTED:
        yield f"a mount has {names:,} chunks in one folder: programs that list it take long, those that read do not"
    if array.nbytes > MAPPED:
        yield "its .npy is larger than the 128 TiB that a program can map: read parts of it, or chunks"


def _paragraph(text: str, columns: int, indent: int = 4) -> list[str]:
    return wrapped(printable(text), columns, " " * indent, " " * (indent + 2))


def _chunks(array: ArrayReader, verbose: bool) -> str:
    """Describe the chunks: shape, size, the reason for it; and bytes read for each byte requested where these are
    more, because that costs time, or where all is to be said.
    """
    chunking = array.chunking
    one, full = f"{chunking.one:.1f}", f"{chunking.full:.1f}"
    shape = " x ".join(map(str, array.chunks)) or "1"
    read = f"; {one} bytes read for each one asked for" + ("" if one == full else f" in one chunk, {full} in all")
    said = read if verbose or (one, full) != ("1.0", "1.0") else ""
    return f"{shape}, {size(array.chunk_bytes)}: {chunking.reason}{said}"


def _more(group: OpenedSet, files: Mapping[str, int], columns: int) -> Iterator[str]:
    """Yield lines about the way in which files are read, and the names of the files, by folder."""
    for line in _backend(group):
        yield from _paragraph(line, columns, 2)
    folders: dict[str, list[str]] = {}
    for path, nbytes in files.items():
        folder, name = os.path.split(path)
        folders.setdefault(folder, []).append(f"{printable(name)}  {size(nbytes) if nbytes >= 0 else 'missing'}")
    for folder, lines in folders.items():
        yield f"  files in {printable(folder)}:"
        yield from (f"    {line}" for line in _some(lines, "more: --json says all"))


def _backend(group: OpenedSet) -> Iterator[str]:
    """Yield a line on the backend that reads the files, and one on that of a mount if it differs."""
    if (transfers := getattr(group.opening.sources, "transfers", None)) is not None:
        counts, parallel = transfers.counts, transfers.limits.parallel
        kept = f"; {size(counts.kept)} from the cache" if transfers.cache is not None else ""
        yield f"requests so far: {counts.requests:,}, with {size(counts.nbytes)}; up to {parallel} at a time{kept}"
        return
    asked = group.opening.options.backend
    chosen, why = choice(asked)
    yield f"backend: {chosen}{' (auto)' if asked == 'auto' else ', as asked'}; it {why}"
    served, reason = choice(asked, serves=True)
    if served != chosen:
        yield f"backend of a mount: {served} (auto); it {reason}"


def _axes(value: Any) -> str:
    """Turn a calibration into a line.

    `{"x": {"scale": 0.5, "offset": 1, "unit": "nm"}}` becomes "x 0.5 nm from 1". Units are those that people say:
    5.3 nm, not 5.3e-9 m.
    """
    if not isinstance(value, Mapping) or not all(
        isinstance(axis, Mapping) and axis.keys() & {"scale", "value", "values"} for axis in value.values()
    ):
        return _short(value)
    parts = []
    for name, axis in value.items():
        if "values" in axis:
            parts.append(f"{name} in {axis.get('unit') or 'no unit'} as in {_short(axis['values'])}")
            continue
        if axis.get("scale", axis.get("value")) is None:
            parts.append(f"{name} in {axis.get('unit') or 'no unit'}")
            continue
        step, offset, unit = axis.get("scale", axis.get("value")), axis.get("offset"), axis.get("unit") or ""
        if isinstance(step, int | float) and isinstance(offset or 0, int | float) and isinstance(unit, str):
            times, unit = readable(step, unit)
            step, offset, unit = step * times, (offset or 0) * times, symbol(unit)
        start = f" from {_number(offset)}" if offset else ""
        parts.append(f"{name} {_number(step)} {unit}".rstrip() + start)
    return ", ".join(parts)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)


def count(n: int, what: str) -> str:
    """Return a number of things as text: "1 file", "2 files"."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= WIDE else text[: WIDE - 1] + "…"


def _some(lines: Sequence[str], more: str) -> list[str]:
    left = len(lines) - SHOWN
    return [*lines[:SHOWN], *([f"… and {left:,} {more}"] if left > 0 else [])]


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
