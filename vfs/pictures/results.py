"""Draws results and frames: small pictures for notebooks, and plots by matplotlib, with units.

Two numbers for each position (centres of mass) are drawn as colours of a wheel: the direction of the
difference from the mean is the hue, how far it is the brightness. The page draws them the same way.
Frames whose bottom row comes first (Merlin) are drawn upwards, and directions in them, too.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import DependencyError, OptionError, extra, printable
from vfs.model.units import factor, readable, symbol
from vfs.pictures.colour_maps import for_matplotlib
from vfs.pictures.frames import FrameView, look
from vfs.pictures.picture import contrast, png, shaded, shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from vfs.model.result_values import ResultValues

SMALL = 256  # most pixels on a side of a picture in a notebook
LARGE = 2048  # of a frame that is plotted
_SHOWN = 192  # pixels of the longest side on the screen
_MANY = 12  # most results that are drawn in a notebook
_FULL = 99.0  # percentile of distances that has the full colour
_LIGHT, _CHROMA = 0.74, 0.13  # of the wheel, in OKLab: as bright in all directions


class Drawn(NamedTuple):
    """What is drawn of an array: a picture, a line or a number.

    Attributes:
        values: [rows, columns], [n] or []; of a wheel [rows, columns, 2]: y and x.
        dims: names of rows and columns, or of the line's axis.
        about: what was taken of the other axes, as "ring 12"; "" where there are none.
        wheel: True for directions.
    """

    values: np.ndarray
    dims: tuple[str, ...]
    about: str
    wheel: bool


def drawn(result: ResultValues) -> Drawn:
    """Choose what is drawn of a result: its last two axes, or those of the scan, in the middle of all others."""
    data, dims = result.data, result.dims
    wheel = data.ndim > 1 and dims[-1] == "axis" and data.shape[-1] == 2 and data.dtype.kind == "f"
    scan = len(result.scan) if result.kind == "nav" else 0
    axes = list(range(data.ndim - wheel))
    shown = axes[scan - 2 : scan] if scan > 1 else axes[-2:]
    others = [k for k in axes if k not in shown]
    values = data[tuple(slice(None) if k in shown else data.shape[k] // 2 for k in axes)] if data.size else data
    about = ", ".join(f"{dims[k]} {data.shape[k] // 2}" for k in others)
    if wheel and len(shown) < 2:  # along a line: how far
        values, wheel = np.hypot(values[..., 0], values[..., 1]), False
    return Drawn(np.abs(values) if values.dtype.kind == "c" else values, tuple(dims[k] for k in shown), about, wheel)


def wheel_colours(pairs: np.ndarray, upward: bool = False) -> tuple[np.ndarray, float]:
    """Colour directions.

    Args:
        pairs: float64[rows, columns, 2], y and x of each. What is no number is black.
        upward: y goes up in the picture.

    Returns: uint8[rows, columns, 3], and the distance that has the full colour.
    """
    known = np.isfinite(pairs).all(axis=-1)
    away = pairs - pairs[known].mean(axis=0) if known.any() else pairs
    far = np.hypot(away[..., 0], away[..., 1])
    full = float(np.percentile(far[known], _FULL)) if known.any() else 0.0
    turn = np.arctan2(-away[..., 0] if upward else away[..., 0], away[..., 1])
    strength = np.where(known, np.clip(far / full if full > 0 else np.zeros_like(far), 0, 1), 0)
    colours = _around(np.where(known, turn, 0.0)) * strength[..., None]
    return np.round(255 * colours).astype(np.uint8), full


def _around(turn: np.ndarray) -> np.ndarray:
    """Return colours of a circle of equal lightness in OKLab (https://bottosson.github.io/posts/oklab/).

    Args:
        turn: angles, radians.

    Returns: float64[..., 3], red, green and blue of sRGB from 0 to 1.
    """
    a, b = _CHROMA * np.cos(turn), _CHROMA * np.sin(turn)
    cones = np.stack(
        [
            _LIGHT + 0.3963377774 * a + 0.2158037573 * b,
            _LIGHT - 0.1055613458 * a - 0.0638541728 * b,
            _LIGHT - 0.0894841775 * a - 1.291485548 * b,
        ],
        axis=-1,
    )
    linear = cones**3 @ np.array(
        [
            [4.0767416621, -1.2684380046, -0.0041960863],
            [-3.3077115913, 2.6097574011, -0.7034186147],
            [0.2309699292, -0.3413193965, 1.707614701],
        ]
    )
    linear = np.clip(linear, 0, 1)
    return np.asarray(np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055))


def html(results: Mapping[str, ResultValues]) -> str:
    """Return HTML that shows results: a picture of each, with its name, axes, units and range.

    All text is escaped. Pictures larger than 256 pixels are made of every n-th pixel.
    """
    parts = [_part(result) for result in list(results.values())[:_MANY]]
    left = len(results) - len(parts)
    more = [f"… and {left:,} more"] if left > 0 else []
    shown = "".join(f"<div>{part}</div>" for part in parts + more)
    return f"<div style='display:flex;flex-wrap:wrap;gap:1em;align-items:end'>{shown}</div>"


def _part(result: ResultValues) -> str:
    """Show one result."""
    one = drawn(result)
    one = one._replace(values=_masked(one, result))
    axes = " × ".join(f"{_text(dim)} {n}" for dim, n in zip(result.dims, result.shape, strict=True))
    name = f"<b>{_text(result.name)}</b>{f' at {_text(one.about)}' if one.about else ''}"
    return f"{_drawing(one, result)}{name}<br><small>{axes or 'one number'}, {_range(one, result.units)}</small>"


def _drawing(one: Drawn, result: ResultValues) -> str:
    """Draw a picture or a line; "" for a number, and where there is nothing."""
    values = one.values
    if not values.size or values.ndim == 0 or values.dtype.kind not in "biuf":
        return ""
    if values.ndim == 1:
        return _line(values)
    step = max(1, -(-max(values.shape[:2]) // SMALL))
    small = np.ma.filled(values[::step, ::step].astype(np.float64), np.nan)
    upward = result.upward
    if one.wheel:
        pixels, _ = wheel_colours(small, upward)
    else:
        low, high, exponent = contrast(small)
        pixels = shaded(small, low, high, exponent if result.kind == "sig" else 1.0)
    if upward and result.kind == "sig":
        pixels = pixels[::-1]
    data = base64.standard_b64encode(png(pixels)).decode()
    wide = max(1, _SHOWN * pixels.shape[1] // max(pixels.shape[:2]))
    return (
        f"<img src='data:image/png;base64,{data}' width='{wide}' alt='{_text(result.name)}'"
        " style='image-rendering:pixelated'><br>"
    )


def _line(values: np.ndarray) -> str:
    """Draw a line as an SVG image: of many values the largest of each group."""
    step = max(1, -(-len(values) // SMALL))
    kept = np.ma.filled(values[: len(values) // step * step].astype(np.float64), np.nan).reshape(-1, step)
    with np.errstate(all="ignore"):
        tops = np.where(np.isfinite(kept), kept, -np.inf).max(axis=1)
    known = np.isfinite(tops)
    if not known.any():
        return ""
    heights = shares(tops, float(tops[known].min()), float(tops[known].max()))
    places = np.flatnonzero(known) * (_SHOWN / max(1, len(tops) - 1))
    points = " ".join(f"{x:.1f},{97 - 94 * y:.1f}" for x, y in zip(places, heights[known], strict=True))
    return (
        f"<svg width='{_SHOWN}' height='100' role='img'><polyline points='{points}' fill='none'"
        " stroke='currentColor'/></svg><br>"
    )


def _range(one: Drawn, units: str) -> str:
    """Say the values: the number, or the smallest and the largest."""
    values = one.values
    unit = f" {_text(units)}" if units else ""
    if values.dtype.kind not in "biuf":
        return _text(values.dtype)
    if one.wheel:
        return f"up to {wheel_colours(values)[1]:.4g}{unit} from the mean"
    known = np.ma.compressed(np.ma.masked_invalid(values))
    if not known.size:
        return "nothing"
    low, high = known.min(), known.max()
    return f"{low:.6g}{unit}" if low == high else f"{low:.6g} to {high:.6g}{unit}"


def _text(value: object) -> str:
    return escape(printable(str(value)))


def plot(result: ResultValues, ax: Axes | None = None, **how: Any) -> Axes:
    """See `vfs.Result.plot`."""
    one = drawn(result)
    title = f"{result.name}{f' at {one.about}' if one.about else ''}"
    picture = _Plot(title, result.units, result.calibration, result.kind == "sig", result.upward)
    return picture.draw(one._replace(values=_masked(one, result)), _axes(ax), how)


def _masked(one: Drawn, result: ResultValues) -> np.ndarray:
    """Mask what does not hold, of integers, too."""
    valid = result.valid
    if result.kind != "nav" or valid.all() or valid.shape != one.values.shape:
        return one.values
    return np.ma.MaskedArray(one.values, ~valid)


def plot_all(results: Mapping[str, ResultValues], **how: Any) -> Figure:
    """See `vfs.reduce.result.Results.plot`."""
    return draw_all(results, _pyplot().figure, **how)


def draw_all(results: Mapping[str, ResultValues], make: Callable[..., Figure], **how: Any) -> Figure:
    """Draw results side by side.

    Args:
        make: makes the figure; how: see `vfs.Result.plot`.

    Raises:
        OptionError: there are none.
    """
    if not results:
        raise OptionError("there is no result to plot")
    columns = math.ceil(math.sqrt(len(results)))
    rows = math.ceil(len(results) / columns)
    figure = make(figsize=(4.5 * columns, 3.8 * rows), layout="constrained")
    for k, result in enumerate(results.values()):
        plot(result, figure.add_subplot(rows, columns, k + 1), **how)
    return figure


def plot_frame(array: ArrayReader, at: Sequence[int] | int | None, ax: Axes | None, how: dict[str, Any]) -> Axes:
    """See `vfs.VirtualArray.plot`."""
    view = FrameView.of(array)
    where = islice(at, len(view.counts) + 1) if isinstance(at, Iterable) else (at,)
    position = view.middle if at is None else view.position(",".join(map(str, where)))
    dims = tuple(array.dims[k] for k in view.shown)
    if len(dims) == 2:
        values = look(view, position, LARGE, LARGE).picture
    else:
        read = array.read(view.region(position, range(math.prod(view.sizes)) if dims else range(1)))
        values = read.reshape(view.sizes)
    about = ", ".join(f"{array.dims[k]} {n}" for k, n in zip(view.where, position, strict=True))
    title = f"{array.dataset.path}{f' at {about}' if about else ''}"
    units = str(array.dataset.conventions.get("units", ""))
    lengths = dict(zip(dims, view.sizes, strict=True))
    picture = _Plot(title, units, array.calibration, array.dataset.nav_ndim > 0, view.upward, lengths)
    values = np.abs(values) if values.dtype.kind == "c" else values
    return picture.draw(Drawn(values, dims, about, False), _axes(ax), how)


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise DependencyError(f"a plot needs matplotlib, which is not installed: {extra('plot')}") from None
    return plt


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        if not hasattr(ax, "imshow"):
            raise OptionError(
                f"ax={ax!r}: expected Axes of matplotlib; an index of several axes is one tuple: a.plot((10, 20))"
            )
        return ax
    made: Axes = _pyplot().figure(layout="constrained").add_subplot()
    return made


class _Plot(NamedTuple):
    """Draws with matplotlib.

    Attributes:
        title: of the plot; units: of the values.
        calibration: see `VirtualArray.calibration`.
        pattern: frames are patterns: a few pixels are much brighter than the others.
        upward: the bottom row of a frame comes first.
        lengths: number of elements along each axis, where the picture has fewer.
    """

    title: str
    units: str
    calibration: Mapping[str, Mapping[str, Any]]
    pattern: bool
    upward: bool
    lengths: Mapping[str, int] = {}

    def draw(self, one: Drawn, ax: Axes, how: dict[str, Any]) -> Axes:
        """Draw a picture, a line or a number."""
        return self._replace(calibration=self._as_people_say(one))._draw(one, ax, how)

    def _as_people_say(self, one: Drawn) -> dict[str, Mapping[str, Any]]:
        """Return the calibration in units that fit what is drawn: nm, not 1e-9 m. Rows have that of columns."""
        known, columns = dict(self.calibration), ""
        for dim, count in [*zip(one.dims, one.values.shape, strict=False)][::-1]:
            axis = known.get(dim, {})
            scale, unit = axis.get("scale"), str(axis.get("unit") or "")
            if scale is None:
                continue
            length = scale * self.lengths.get(dim, count)
            times, said = readable(scale if unit.endswith("eV") else length, unit)
            if columns and (same := factor(unit, columns)) is not None:
                times, said = same, columns
            columns = columns or said
            known[dim] = {"scale": scale * times, "offset": (axis.get("offset") or 0.0) * times, "unit": symbol(said)}
        return known

    def _draw(self, one: Drawn, ax: Axes, how: dict[str, Any]) -> Axes:
        ax.set_title(self.title)
        if one.values.ndim == 0:
            ax.set_axis_off()
            ax.text(
                0.5, 0.5, f"{one.values[()]:.6g} {self.units}".strip(), ha="center", va="center", fontsize="x-large"
            )
        elif len(one.dims) == 1:
            places = self._places(one.dims[0], len(one.values))
            ax.plot(places, one.values, **how)
            ax.set_xlabel(self._label(one.dims[0]))
            ax.set_ylabel(self.units)
            ax.margins(x=0)
        else:
            self._image(one, ax, how)
        return ax

    def _image(self, one: Drawn, ax: Axes, how: dict[str, Any]) -> None:
        rows, columns = one.dims
        (top, bottom), (left, right) = self._ends(rows, len(one.values)), self._ends(columns, one.values.shape[1])
        upward = self.upward and self.pattern
        same = self._unit(rows) == self._unit(columns)
        usual = {"interpolation": "nearest", "aspect": "equal" if same else "auto", "cmap": for_matplotlib()}
        how = {**usual, **how}
        how["origin"] = "lower" if upward else "upper"
        how["extent"] = (left, right, top, bottom) if upward else (left, right, bottom, top)
        ax.set_xlabel(self._label(columns))
        ax.set_ylabel(self._label(rows))
        if one.wheel:
            pixels, full = wheel_colours(one.values, self.upward)
            ax.imshow(pixels, **how)
            self._legend(ax, full)
            return
        if one.values.ndim == 3:  # colours
            ax.imshow(one.values / max(1.0, float(np.nanmax(one.values))), **how)
            return
        if self.pattern and not {"norm", "vmin", "vmax"} & how.keys():
            how["norm"] = _gentle(one.values)
        drawn = ax.imshow(one.values, **how)
        assert ax.figure is not None
        ax.figure.colorbar(drawn, cax=ax.inset_axes((1.03, 0, 0.05, 1)), label=self.units)  # as high as the picture

    def _legend(self, ax: Axes, full: float) -> None:
        """Draw a small wheel beside a picture, which tells the direction of each colour."""
        y, x = np.mgrid[-1:1:65j, -1:1:65j]
        pixels, _ = wheel_colours(np.stack([y, x], axis=-1))
        inside = np.hypot(y, x) <= 1
        beside = ax.inset_axes((1.04, 0.38, 0.24, 0.24))
        beside.imshow(np.dstack([pixels, np.where(inside, 255, 0).astype(np.uint8)]))
        beside.set_axis_off()
        beside.set_title(f"{full:.3g} {self.units}".rstrip(), fontsize="small")

    def _unit(self, dim: str) -> str:
        return str(self.calibration.get(dim, {}).get("unit", ""))

    def _label(self, dim: str) -> str:
        unit = self._unit(dim)
        return f"{dim} ({unit})" if unit else dim

    def _step(self, dim: str) -> tuple[float, float]:
        """Return scale and offset of an axis: 1 and 0 where nobody says, or steps are uneven."""
        known = self.calibration.get(dim, {})
        return (1.0, 0.0) if known.get("scale") is None else (known["scale"], known.get("offset") or 0.0)

    def _places(self, dim: str, count: int) -> np.ndarray:
        scale, offset = self._step(dim)
        return offset + scale * np.arange(count)

    def _ends(self, dim: str, count: int) -> tuple[float, float]:
        """Return where the first element of an axis begins, and where the last one ends."""
        scale, offset = self._step(dim)
        return offset - scale / 2, offset + scale * (self.lengths.get(dim, count) - 0.5)


def _gentle(values: np.ndarray) -> Any:
    """Return a curve that shows the dark parts of a pattern as well; None where there are numbers below 0."""
    from matplotlib.colors import PowerNorm

    known = values[np.isfinite(values)]
    if not known.size or known.min() < 0 or known.min() == known.max():
        return None
    low, high, exponent = contrast(np.asarray(values, np.float64))
    return PowerNorm(exponent, low, high)  # clipped, the bar would have ticks beyond its end
