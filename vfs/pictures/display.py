"""Shows arrays and groups in notebooks: a table, a drawing of the chunks, and a thumbnail.

The thumbnail is left out unless it costs only one small read. All text from files is escaped.
Nothing is loaded from elsewhere, and colours are those of the page, light or dark.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from vfs.engine.array import ArrayReader
from vfs.engine.chunking import negotiate
from vfs.errors import VfsError, printable, size
from vfs.model.units import readable, symbol
from vfs.pictures.frames import FrameView, look
from vfs.pictures.picture import contrast, png, shaded

THUMBNAIL = 2 << 20  # most bytes that are read for a thumbnail
_SIDE = 128  # pixels of the longest side of a thumbnail or a drawing
_LINES = 24  # most chunks that are drawn along an axis; of more, so many at even distances
_ROWS = 50  # most arrays of a group and calibrated axes that are listed
_TEXT_ROWS = 12  # most arrays of a group that its text lists
_LONG = 120  # most characters of a name


def array_html(array: ArrayReader) -> str:
    """Return HTML that shows an array.

    It has a table (shape, dtype, axes with their units, chunks, files), a drawing of the chunks, and
    a thumbnail if that is cheap.
    """
    return _beside(_table(_facts(array)), *_drawings(array), _thumbnail(array))


def group_html(name: str, format: str, arrays: Mapping[str, ArrayReader], main: str) -> str:
    """Return HTML that shows the arrays of a group in a table, and a thumbnail of the main one."""
    head = "".join(f"<th style='text-align:left'>{word}</th>" for word in ("array", "axes", "dtype", "size", "chunks"))
    rows = []
    for path in list(arrays)[:_ROWS]:
        array = arrays[path]
        label = f"<b>{_text(array.dataset.title)}</b>" if path == main else _text(array.dataset.title)
        cells = (label, _axes(array), _text(array.dtype), size(array.nbytes), _by(array.chunks))
        rows.append(f"<tr>{''.join(f'<td style={_LEFT!r}>{cell}</td>' for cell in cells)}</tr>")
    left = len(arrays) - len(rows)
    more = f"<tr><td colspan='5'>… and {left:,} more</td></tr>" if left > 0 else ""
    title = f"<b>vfs.VirtualGroup</b> {_text(name)}: {_text(format)}, {_count(len(arrays), 'array')}"
    return _beside(f"<div>{title}<table><tr>{head}</tr>{''.join(rows)}{more}</table></div>", _thumbnail(arrays[main]))


def group_text(name: str, arrays: Mapping[str, ArrayReader]) -> str:
    """Return lines that show a group: its first arrays with their axes, without what only comes beside them.

    These are time stamps and the like, and what no program shows first, such as masks and metadata. An array stands
    there by the name that its program gave it, if no other one has that name, else by its path.
    """
    shown = [one for one in arrays.values() if not (one.dataset.companion or one.dataset.main is False)]
    first = shown[:_TEXT_ROWS] or list(arrays.values())[:1]
    names = Counter(one.dataset.label for one in shown)
    rows = []
    for one in first:
        label = one.dataset.label
        name_shown = printable(label if label and names[label] == 1 else one.dataset.title)
        axes = ", ".join(f"{printable(dim)}: {n}" for dim, n in zip(one.dims, one.shape, strict=True))
        rows.append(f"  {name_shown}: {one.dtype}, {axes or 'one number'}")
    left = len(arrays) - len(first)
    rows += [f"  and {_count(left, 'more array')}"] if left else []
    return "\n".join([f"<vfs.VirtualGroup {printable(name)}: {_count(len(arrays), 'array')}", *rows]) + ">"


_LEFT = "text-align:left"


def _facts(array: ArrayReader) -> dict[str, str]:
    files = array.files
    named = f"{_text(files[0])}{f' and {len(files) - 1:,} more' if len(files) > 1 else ''}" if files else ""
    return {
        "<b>vfs.VirtualArray</b>": f"<b>{_text(array.dataset.path)}</b>",
        "shape": _axes(array),
        "dtype": _text(array.dtype),
        "size": size(array.nbytes),
        "chunks": f"{_by(array.chunks)} ({size(array.chunk_bytes)}, {_count(math.prod(array.grid.counts), 'chunk')})",
        "axes": "<br>".join(_calibrated(array)),
        _count(len(files), "file"): named,
    }


def _table(facts: Mapping[str, str]) -> str:
    rows = (
        f"<tr><th style='text-align:left;vertical-align:top'>{name}</th><td style={_LEFT!r}>{said}</td></tr>"
        for name, said in facts.items()
        if said
    )
    return f"<table>{''.join(rows)}</table>"


def _beside(*parts: str) -> str:
    shown = "".join(f"<div>{part}</div>" for part in parts if part)
    return f"<div style='display:flex;flex-wrap:wrap;gap:1em;align-items:center'>{shown}</div>"


def _text(said: object) -> str:
    """Escape text from a file for a page, and cut it if it is long."""
    plain = printable(said)
    return escape(plain if len(plain) <= _LONG else f"{plain[: _LONG - 1]}…")


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _by(numbers: Sequence[int]) -> str:
    return " × ".join(map(str, numbers)) or "1"


def _axes(array: ArrayReader) -> str:
    return ", ".join(f"{_text(dim)}: {n}" for dim, n in zip(array.dims, array.shape, strict=True)) or "one number"


def _calibrated(array: ArrayReader) -> list[str]:
    """Describe each calibrated axis in a line, with the step in the unit that people say it in."""
    lines = []
    for dim, axis in list(array.calibration.items())[:_ROWS]:
        times, unit, step = 1.0, axis["unit"], ""
        if axis["scale"] is not None:
            times, unit = readable(axis["scale"], unit)
            step = f"{axis['scale'] * times:.6g}"
        elif "values" in axis:
            step = f"as {_text(axis['values'])}"
        start = f" from {axis['offset'] * times:.6g}" if axis["offset"] else ""
        lines.append(f"{_text(dim)} {step} {_text(symbol(unit))}{start}".rstrip())
    return lines


def _drawings(array: ArrayReader) -> list[str]:
    """Draw the chunks of the scan, and the chunks of a frame."""
    nav = array.dataset.nav_ndim
    return [
        _grid(array, axes)
        for axes in (range(array.ndim)[:nav][-2:], range(array.ndim)[nav:][-2:])
        if axes and array.size
    ]


def _grid(array: ArrayReader, axes: Sequence[int]) -> str:
    """Draw a rectangle of one or two axes with lines between chunks, as an SVG image."""
    lengths = [array.shape[k] for k in axes]
    sides = [max(16, round(_SIDE * n / max(lengths))) for n in lengths]
    high, wide = sides if len(sides) == 2 else (16, sides[0])
    drawn = f"<rect x='1' y='1' width='{wide}' height='{high}' fill='currentColor' fill-opacity='0.12'/>"
    for k, along, side in zip(axes, ("y", "x")[-len(sides) :], sides, strict=True):
        n = array.grid.counts[k]
        edges = [min(array.chunks[k] * at, array.shape[k]) for at in range(0, n, max(1, -(-n // _LINES)))][1:]
        for edge in [0, *edges, array.shape[k]]:
            at = round(1 + side * edge / array.shape[k], 1)
            ends = f"y1='1' y2='{high + 1}' x1='{at}' x2='{at}'"
            if along == "y":
                ends = f"x1='1' x2='{wide + 1}' y1='{at}' y2='{at}'"
            drawn += f"<line {ends} stroke='currentColor' stroke-opacity='0.6'/>"
    label = " × ".join(f"{_text(array.dims[k])} {array.shape[k]}" for k in axes)
    return (
        f"<svg width='{wide + 2}' height='{high + 2}' role='img'"
        f" aria-label='{label}'><title>{label}</title>{drawn}</svg><br><small>{label}</small>"
    )


def _thumbnail(array: ArrayReader) -> str:
    """Return the frame in the middle as an image; "" if that takes more than one small read or fails."""
    view = FrameView.of(array)
    if len(view.sizes) < 2 or not array.size or array.dataset.companion:
        return ""
    frames = negotiate("frames", array.chunking_input)
    if frames.one * math.prod(frames.shape) * array.chunking_input.stored > THUMBNAIL:
        return ""
    try:
        picture = look(view, view.middle, _SIDE, _SIDE).picture
    except (VfsError, MemoryError):
        return ""
    low, high, exponent = contrast(picture) if view.palette is None else (0.0, 255.0, 1.0)
    pixels = shaded(picture, 0.0, high, 1.0) if picture.ndim == 3 else shaded(picture, low, high, exponent)
    data = base64.standard_b64encode(png(pixels)).decode()
    where = ", ".join(f"{array.dims[k]} {at}" for k, at in zip(view.where, view.middle, strict=True))
    shown = (
        f"width='{_SIDE * pixels.shape[1] // max(pixels.shape[:2])}' alt='the frame in the middle'"
        " style='image-rendering:pixelated'"
    )
    return f"<img src='data:image/png;base64,{data}' {shown}>" + (f"<br><small>{_text(where)}</small>" if where else "")
