"""Describes an array of a set for people, in lines that fit a terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vfs.cli.report.facts import scale, single_value
from vfs.cli.tables import GLUE, bounded, count, cut, paragraph
from vfs.engine.array import ArrayReader
from vfs.engine.pixel_masks import masked_pixels
from vfs.errors import VfsError, printable, size
from vfs.faces.documents import plain_json
from vfs.faces.references import referenceable
from vfs.formats import by_name
from vfs.model import spoken
from vfs.model.stored import BOTTOM_FIRST
from vfs.model.units import readable, symbol
from vfs.model.wording import format_option, option
from vfs.sets.opening import OpenedSet

LISTED = 10_000_000  # names in one folder beyond which listing it takes minutes
MAPPED = 1 << 47  # bytes of addresses that a process has
WIDE = 110  # at most so many characters of a metadata value are printed
_LONGEST_UNIT = 40
_UNIT = ("unit", "units")


def metadata_lines(array: ArrayReader, said: Mapping[str, Any], columns: int) -> Iterator[str]:
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
    yield from (f"    {line}" for line in bounded(lines, "more: --json says all"))


def number_row(path: str, array: ArrayReader, columns: int) -> list[str]:
    value, unit = single_value(array), _unit(array, " ")
    if isinstance(value, float):  # numpy's float64, too
        times, unit = readable(value, unit.strip()) if value else (1, unit.strip())
        value, unit = f"{value * times:.9g}", f" {symbol(unit)}".rstrip()
    return paragraph(f"{path} = {value}{unit}", columns, 2)


def cells(array: ArrayReader) -> tuple[str, ...]:
    """Return the cells of an array's row: name, dtype, bytes, axes with their lengths and the unit."""
    unit = printable(_unit(array, ", in ")).replace(" ", GLUE).replace(GLUE, " ", 1)
    return printable(array.dataset.title), array.dtype.name, size(array.nbytes), axis_lengths(array) + unit


def axis_lengths(array: ArrayReader) -> str:
    return ", ".join(f"{printable(dim)}:{GLUE}{n}" for dim, n in zip(array.dims, array.shape, strict=True))


def _unit(array: ArrayReader, before: str) -> str:
    """Return the text `before` and the unit of an array's values; "" if there is no unit."""
    unit = next((" ".join(str(value).split()) for key, value in scale(array).items() if key in _UNIT), "")
    return before + cut(unit, _LONGEST_UNIT) if unit else ""


def _turned(array: ArrayReader) -> str:
    """Return the option that shows the top row of frames first."""
    return option(axes=",".join("-y" if dim == "y" else dim for dim in array.dims))


def details_of(group: OpenedSet, path: str, verbose: bool, columns: int) -> Iterator[str]:
    """Yield lines about an array: calibration, order of frames in the scan, number of frames not stored, chunks,
    warnings.

    Chunks are described for the main array, and for others that have several chunks.
    """
    array, main = group.arrays[path], path == group.tree.main
    companion = array.dataset.companion
    if said := {key: value for key, value in scale(array).items() if key not in _UNIT}:
        yield from paragraph("; ".join(f"{key}: {_axes(value)}" for key, value in said.items()), columns)
    if main and (order := array.dataset.layout.order):
        said = array.attrs.get("scan_order", "each frame is at the position in its header")
        skipped = f"{count(order.line_skip, 'frame')} after each line not shown"
        yield from paragraph(f"scan: {skipped if order.line_skip else said}", columns)
    if marked := _masked(array):
        yield from paragraph(marked, columns)
    if uncertain := array.attrs.get("uncertain"):
        yield from paragraph(f"uncertain: {uncertain}", columns)
    if array.attrs.get("rows") == BOTTOM_FIRST and not array.dataset.computed:  # said of the frames already
        over = format_option(flip_y=True) if "flip_y" in by_name(group.opening.format).options else _turned(array)
        yield from paragraph(f"rows: bottom first; {over} shows the top first", columns)
    if blank := array.dataset.blanks if verbose or not companion else 0:
        frames = count(math.prod(array.shape[: array.dataset.nav_ndim]), "frame")
        if array.dataset.written.head is None:
            read = f"{'it reads' if blank == 1 else 'they read'} as {array.dataset.fill}"
            yield f"    {blank:,} of {frames} {'is' if blank == 1 else 'are'} not stored: {read}"
        elif main:
            yield f"    {blank:,} of {frames} {'is' if blank == 1 else 'are'} not written yet"
    if main or (array.chunks != array.shape and (verbose or not companion)):
        yield from paragraph(f"chunks: {_chunks(array, verbose)}", columns)
    if warning := array.chunking.warning:
        yield from paragraph(warning, columns)
    for text in _beyond(array):
        yield from paragraph(text, columns)
    if verbose and main:
        for name, one in array.dataset.recorded.items():
            yield from paragraph(f"{name}: {spoken.value(one)} (as {one.source} says)", columns)
    if verbose and (main or not companion):
        can, how = referenceable(array, group.chosen(path))
        yield from paragraph(f"{'' if can else 'not '}referenceable: {how}", columns)


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


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= WIDE else text[: WIDE - 1] + "…"
