"""Writes results to files that other programs read: numbers, calibrated images, and drawings.

How a name ends says what is written: `SAVERS` is the one table of it, for `Result.save` and for `vfs reduce`. A file
has its name only when it is complete.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from vfs.errors import DependencyError, OptionError, extra
from vfs.model.result_values import ResultValues
from vfs.model.stored import TOP_FIRST
from vfs.model.units import readable
from vfs.new_files import create
from vfs.outputs.outputs import check_target, whole
from vfs.pictures.results import draw_all
from vfs.reduce.spelling import attributes


class Saver(NamedTuple):
    """A way to write results.

    Attributes:
        write: writes them under a name; some ways also into a file that is open.
        several: a file holds any number of them; else one.
        requires: raises DependencyError where a library is missing.
        check: raises OptionError for a result that it does not hold; shape and dtype are enough to tell.
        free: raises OptionError for a name that is taken or cannot be written: see `vfs.outputs.outputs.check_target`.
        whole: has what is written appear only when it is complete: see `vfs.outputs.outputs.whole`.
    """

    write: Callable[[Mapping[str, ResultValues], Any], None]
    several: bool = False
    requires: Callable[[], object] = lambda: None
    check: Callable[[ResultValues], object] = lambda result: None
    free: Callable[[str, bool], object] = check_target
    whole: Callable[[str], AbstractContextManager[str]] = whole


class SavedAxis(NamedTuple):
    """An axis of what is written: element k is at offset + k * scale, in `unit` ("" where nobody says)."""

    name: str
    scale: float
    offset: float
    unit: str

    @property
    def label(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


def saver(target: str, names: Mapping[str, object], replace: bool = False) -> Saver:
    """Choose how results are written, before anything is read.

    Args:
        names: of the results.
        replace: there may be something of this name already.

    Raises:
        OptionError: the name says none of the known ways, or one that holds a single result; or there is something of
            this name already.
        DependencyError: a library is missing.
    """
    found = SAVERS.get(os.path.splitext(target)[1].lower())
    several = ", ".join(f"OUT{ending}" for ending, one in SAVERS.items() if one.several)
    if found is None:
        single = ", ".join(f"OUT{ending}" for ending, one in SAVERS.items() if not one.several)
        raise OptionError(f"{target}: expected a name such as {several} for any results, {single} for one")
    if not found.several and len(names) != 1:
        raise OptionError(f"{target}: holds one result, found {len(names)} ({', '.join(names)}); for any: {several}")
    found.requires()
    found.free(target, replace)
    return found


def save(
    results: Mapping[str, ResultValues], target: str | os.PathLike[str], last: Callable[[str], object] = lambda _: None
) -> None:
    """Write results: see `vfs.Result.save`.

    Args:
        last: is called when everything is written, with the name that it is written under, just before it has its own.
    """
    target = os.fspath(target)
    chosen = saver(target, results)
    for result in results.values():
        chosen.check(result)
    with chosen.whole(target) as unfinished:
        chosen.write(results, unfinished)
        last(unfinished)


def upright(result: ResultValues) -> tuple[np.ndarray, list[SavedAxis]]:
    """Return a result as programs show it, whose first row is the top one, and its axes.

    A frame whose bottom row comes first is turned over. Its `y` still begins where it did: distances and the origin
    stay where they are in the picture.
    """
    axes = [_axis(result, k) for k in range(result.ndim)]
    if not (result.upward and result.kind == "sig" and result.ndim > 1):
        return result.data, axes
    rows = axes[-2]
    axes[-2] = rows._replace(offset=-(rows.offset + rows.scale * (result.shape[-2] - 1)))
    return result.data[..., ::-1, :], axes


def _axis(result: ResultValues, k: int) -> SavedAxis:
    known = result.calibration.get(result.dims[k], {})
    scale, offset = known.get("scale"), known.get("offset") or 0.0
    if scale is None:
        return SavedAxis(result.dims[k], 1.0, 0.0, "")
    return SavedAxis(result.dims[k], float(scale), float(offset), str(known.get("unit") or ""))


def _only(results: Mapping[str, ResultValues]) -> ResultValues:
    (result,) = results.values()
    return result


def _numpy(results: Mapping[str, ResultValues], target: str) -> None:
    with open(create(target), "wb") as file:
        np.save(file, _only(results).data)


def _tiff(results: Mapping[str, ResultValues], target: str) -> None:
    """Write a result as pages of pictures. One along a single axis is a row.

    ImageJ reads resolution and unit from its own description, DigitalMicrograph from its private tags. Floats become
    float32 and complex numbers complex64; integers have 32 bits where they fit, else 64.
    """
    result = _only(results)
    data, axes = upright(result)
    scan = len(result.scan)
    if result.kind == "nav" and data.ndim > scan:  # a page for each mask, ring, or y and x
        data = np.moveaxis(data, range(scan, data.ndim), range(data.ndim - scan))
        axes = axes[scan:] + axes[:scan]
    while len(axes) < 2:
        axes.insert(0, SavedAxis("", 1.0, 0.0, ""))
    stack = [axis.name for axis in axes[:-2]]
    counted = [name for name in _STACKED if name in stack]
    if len(counted) == len(stack):  # ImageJ's order of pages
        data = np.moveaxis(data, [stack.index(name) for name in counted], range(len(counted)))
    lengths = dict(zip(counted, data.shape, strict=False)) if len(counted) == len(stack) else {}
    data = np.ascontiguousarray(_short(np.atleast_2d(data)))
    rows, columns = axes[-2:]
    about = json.dumps({"vfs": _about(result)}, default=str)
    tifffile_module().imwrite(
        target, data, photometric="minisblack", metadata=None, **_calibrated(rows, columns, data.shape, about, lengths)
    )


_STACKED = {"t": "frames", "z": "slices", "c": "channels"}
"""Axis -> what ImageJ calls it, in the order of its pages, the slowest one first."""


def _calibrated(
    rows: SavedAxis, columns: SavedAxis, shape: tuple[int, ...], about: str, lengths: Mapping[str, int]
) -> dict[str, Any]:
    """Return what says the calibration of an image, as arguments of `tifffile.imwrite`.

    Args:
        about: text for ImageJ's "Show Info".
        lengths: of the axes t, z and c of the pages; empty: they are others.
    """
    pages = math.prod(shape[:-2])
    counts = [f"{_STACKED[name]}={length}" for name, length in lengths.items()] or [f"slices={pages}"]
    lines = ["ImageJ=1.11a", f"images={pages}", *(counts if pages > 1 else []), "loop=false"]
    if len(lengths) > 1:
        lines.insert(-1, "hyperstack=true")
    tags: list[Any] = [*tifffile_module().imagej_metadata_tag({"Info": about}, "<")]
    made: dict[str, Any] = {"byteorder": "<", "software": False}
    if rows.unit or columns.unit:
        per_unit = []
        for key, letter, axis, at in (("unit", "x", columns, 0), ("yunit", "y", rows, 1)):
            factor, unit = readable(axis.scale, axis.unit)
            step = axis.scale * factor
            lines += [f"{key}={_java(unit or 'pixel')}", f"{letter}origin={0 - axis.offset / axis.scale:.9g}"]
            per_unit.append(1 / abs(step) if 1e-9 < abs(step) < 1e9 else 1.0)
            plain = unit.encode("ascii", "replace").decode()
            tags += [
                (65003 + at, "s", 0, plain, True),
                (65006 + at, "d", 1, axis.offset * factor, True),
                (65009 + at, "d", 1, step, True),
            ]
        made |= {"resolution": tuple(per_unit), "resolutionunit": 1}
    return made | {"description": "\n".join([*lines, ""]), "extratags": sorted(tags)}


def _java(text: str) -> str:
    """Write a text as ImageJ reads it, in ASCII."""
    return "".join(letter if letter.isascii() else f"\\u{ord(letter):04X}" for letter in text)


def _about(result: ResultValues) -> dict[str, Any]:
    """Return what a file says of how its result was made."""
    turned = result.upward and result.kind == "sig"
    return (
        attributes(result) | ({"units": result.units} if result.units else {}) | ({"rows": TOP_FIRST} if turned else {})
    )


def _short(data: np.ndarray) -> np.ndarray:
    """Return numbers in a dtype that viewers of TIFF know."""
    if data.dtype.kind == "f":
        return data.astype(np.float32)
    if data.dtype.kind == "c":
        return data.astype(np.complex64)
    if data.dtype.kind == "b":
        return data.view(np.uint8)
    if data.dtype.itemsize == 8:
        short = np.dtype(f"{data.dtype.kind}4")
        limits = np.iinfo(short)
        if not data.size or (data.min() >= limits.min and data.max() <= limits.max):
            return data.astype(short)
    return data


def tifffile_module() -> Any:
    """Return tifffile.

    Raises:
        DependencyError: it is not installed.
    """
    try:
        import tifffile
    except ImportError:
        raise DependencyError(f"writing TIFF needs tifffile: {extra('tiff')}; OUT.npy needs nothing") from None
    return tifffile


def _csv(results: Mapping[str, ResultValues], target: str) -> None:
    """Write numbers along an axis: a column for the places, and one for the values, or for y and x."""
    result = _only(results)
    values = result.data.reshape(len(result.data), -1) if result.ndim else result.data.reshape(1, 1)
    blank = np.ma.getmaskarray(result.masked).reshape(values.shape)
    names = ["y", "x"] if result.ndim == 2 else [result.name]
    head = [f"{name} ({result.units})" if result.units else name for name in names]
    places: list[list[float]] = [[]]
    if result.ndim:
        axis = _axis(result, 0)
        head.insert(0, axis.label)
        places = [[_short_number(axis.offset + axis.scale * k)] for k in range(len(values))]
    with open(create(target), "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(head)
        for place, numbers, none in zip(places, values.tolist(), blank.tolist(), strict=True):
            rows.writerow([*place, *("" if no else number for number, no in zip(numbers, none, strict=True))])


def _short_number(value: float) -> float:
    return int(value) if value.is_integer() else value


_MSA_LINE = 60  # characters of a text in a header line, which has 80 at most


def _msa(results: Mapping[str, ResultValues], target: str | BinaryIO) -> None:
    """Write a spectrum as EMSA/MAS (ISO 22029), with the place and the value of each channel."""
    result = _only(results)
    axis = _axis(result, 0)
    head = {
        "FORMAT": "EMSA/MAS Spectral Data File",
        "VERSION": "1.0",
        "TITLE": result.name[:_MSA_LINE],
        "NPOINTS": str(len(result.data)),
        "NCOLUMNS": "1",
        "XUNITS": axis.unit or "channel",
        "YUNITS": result.units or "counts",
        "DATATYPE": "XY",
        "XPERCHAN": repr(axis.scale),
        "OFFSET": repr(axis.offset),
        "XLABEL": axis.name,
        "COMMENT": f"{result.reduction} of {result.of}"[:_MSA_LINE],
    }
    with open(create(target), "wb") if isinstance(target, str) else nullcontext(target) as file:
        lines = [f"#{key:<12}: {' '.join(text.split())}" for key, text in head.items()]
        lines.append(f"#{'SPECTRUM':<12}: Spectral Data Starts Here")
        for k, value in enumerate(result.data.tolist()):
            lines.append(f"{_short_number(axis.offset + axis.scale * k)!r}, {float(value)!r}")
        file.write("\r\n".join([*lines, f"#{'ENDOFDATA':<12}: End Of Data and File", ""]).encode())


def _is_spectrum(result: ResultValues) -> None:
    if result.ndim != 1 or result.dtype.kind not in "biuf":
        shape = " x ".join(map(str, result.shape)) or "one number"
        raise OptionError(
            f"{result.name}: OUT.msa holds real numbers along one axis, found {shape} of {result.dtype}; OUT.npy any"
        )


def _is_line(result: ResultValues) -> None:
    pair = result.ndim == 2 and result.dims[-1] == "axis"
    if result.ndim > 1 and not pair:
        shape = " x ".join(map(str, result.shape))
        raise OptionError(f"{result.name}: OUT.csv holds numbers along one axis, found {shape}; OUT.npy holds any")
    if result.dtype.kind not in "biuf":
        raise OptionError(f"{result.name}: OUT.csv holds real numbers, found {result.dtype}; OUT.npy holds any")


def _hyperspy(results: Mapping[str, ResultValues], target: str | BinaryIO) -> None:
    """Write a result as HyperSpy does: https://hyperspy.org/rosettasciio/file_specification/hspy.html."""
    h5py, result = h5py_module(), _only(results)
    data, axes = upright(result)
    scan = len(result.scan) if result.kind == "nav" and result.ndim > len(result.scan) else 0
    with h5py.File(target, "w") as file:
        file.attrs["file_format"], file.attrs["file_format_version"] = "HyperSpy", "3.3"
        made = file.create_group(f"Experiments/{result.name}")
        made.create_dataset("data", data=np.atleast_1d(data), compression="gzip" if data.ndim else None)
        for k, axis in enumerate(axes or [SavedAxis("", 1.0, 0.0, "")]):
            about = made.create_group(f"axis-{k}").attrs
            about.update(_type="UniformDataAxis", name=axis.name, scale=axis.scale, offset=axis.offset)
            about.update(units=axis.unit, size=np.atleast_1d(data).shape[k], navigate=k < scan, is_binned=False)
        about = made.create_group("metadata/General").attrs
        about.update(title=result.name, original_filename="")
        made.create_group("metadata/Signal").attrs.update(signal_type="", quantity=result.units)
        made.create_group("learning_results")
        said = made.create_group("original_metadata/vfs").attrs
        said.update({key: one if isinstance(one, str) else json.dumps(one) for key, one in _about(result).items()})


def h5py_module() -> Any:
    try:
        import h5py
    except ImportError:
        raise DependencyError(f"writing .hspy needs h5py: {extra('hdf5')}; OUT.npy needs nothing") from None
    return h5py


def _is_number(result: ResultValues) -> None:
    if result.dtype.kind not in "biufc":
        raise OptionError(f"{result.name}: OUT.hspy and OUT.tif hold numbers, found {result.dtype}")


def _drawn(kind: str, results: Mapping[str, ResultValues], target: str) -> None:
    """Draw results as `.plot()` does, side by side, with the units of axes and values, and a bar or a wheel."""
    from matplotlib.figure import Figure

    figure = draw_all(results, Figure)
    about = "; ".join(f"{name}: {result.reduction}" for name, result in results.items())
    figure.savefig(target, format=kind, dpi=200, metadata={"Subject" if kind == "pdf" else "Description": about})


def _matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise DependencyError(
            f"drawing needs matplotlib, which is not installed: {extra('plot')}; OUT.tif needs none"
        ) from None


SAVERS: dict[str, Saver] = {
    ".npy": Saver(_numpy),
    ".tif": Saver(_tiff, requires=tifffile_module, check=_is_number),
    ".tiff": Saver(_tiff, requires=tifffile_module, check=_is_number),
    ".hspy": Saver(_hyperspy, requires=h5py_module, check=_is_number),
    ".csv": Saver(_csv, check=_is_line),
    ".msa": Saver(_msa, check=_is_spectrum),
    **{f".{kind}": Saver(partial(_drawn, kind), several=True, requires=_matplotlib) for kind in ("png", "svg", "pdf")},
}
"""How a name ends -> how results are written. `vfs.zarr.results` adds stores."""
