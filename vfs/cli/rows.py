"""Writes a table of data sets for spreadsheets: `vfs info FOLDER --csv`. It holds one set at a time."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vfs.cli.printing import put
from vfs.cli.report.facts import file_sizes
from vfs.engine.array import ArrayReader
from vfs.faces.documents import plain_json
from vfs.model.metadata import Said
from vfs.model.units import readable
from vfs.sets.opening import OpenedSet
from vfs.sources.names import is_url

_FORMULA = "=+-@\t\r"
"""With these a text begins that spreadsheets take for a formula."""


class _Told(NamedTuple):
    """A column of what a set's files say: its header, the name in the vocabulary, what to multiply its numbers by."""

    header: str
    name: str
    factor: float = 1.0


_SAID = (
    _Told("time", "time"),
    _Told("microscope", "microscope"),
    _Told("instrument", "instrument"),
    _Told("mode", "mode"),
    _Told("beam_energy (keV)", "beam_energy", 1e-3),
    _Told("magnification", "magnification"),
    _Told("camera_length (mm)", "camera_length", 1e3),
    _Told("convergence_angle (mrad)", "convergence_angle", 1e3),
    _Told("defocus (nm)", "defocus", 1e9),
    _Told("working_distance (mm)", "working_distance", 1e3),
    _Told("tilt (deg)", "stage.alpha", 180 / math.pi),
    _Told("dwell_time (s)", "dwell_time"),
    _Told("exposure_time (s)", "exposure_time"),
    _Told("detector", "detector"),
    _Told("objective", "objective.name"),
    _Told("channels", "channels"),
    _Told("sample", "sample"),
    _Told("authors", "authors"),
)
_FIRST = ("name", "format", "shape", "axes", "dtype", "arrays")
_STEPS = ("step", "step_unit", "scan_step", "scan_step_unit")
_LAST = ("size (bytes)", "files", "path", "error")
COLUMNS = (*_FIRST, *(one.header for one in _SAID), *_STEPS, *_LAST)
"""Headers of the columns, with the unit of their numbers in brackets."""


def row(group: OpenedSet) -> dict[str, Any]:
    """Return the cells of a set: header -> number or text, only of what is known. Its main array stands for it."""
    main, files = group.main, file_sizes(group)
    shape, arrays = " x ".join(map(str, main.shape)), [array.dataset for array in group.arrays.values()]
    number = sum(not one.companion and (one.main is not False or one is main.dataset) for one in arrays)
    first = (group.name, group.opening.format, shape, " ".join(main.dims), main.dtype.name, number)
    made: dict[str, Any] = dict(zip(_FIRST, first, strict=True))
    recorded = main.dataset.recorded
    made |= {one.header: _cell(recorded[one.name], one.factor) for one in _SAID if one.name in recorded}
    made |= dict(
        zip(_STEPS, (*_step(main, ("x", "energy", "wavelength")), *_step(main, ("scan_x", "scan_y"))), strict=True)
    )
    size = sum(nbytes for nbytes in files.values() if nbytes > 0)
    made |= {"size (bytes)": size, "files": len(files), "path": group.opening.paths[0]}
    return {name: value for name, value in plain_json(made).items() if value != ""}


def broken(path: str, error: str) -> dict[str, Any]:
    """Return the cells of a set that cannot be opened."""
    where = path if is_url(path) or not path else os.path.abspath(path)
    return {"name": os.path.basename(path), "path": where, "error": " ".join(error.split())}


def _cell(said: Said, factor: float) -> Any:
    """Return a value as a cell: a number in the unit of the column, or text; of several, all."""
    value = said.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        names = [str(one.get("name", "")) if isinstance(one, Mapping) else str(one) for one in value]
        return "; ".join(filter(None, names))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(f"{value * factor:.9g}") if number and (factor != 1 or isinstance(value, float)) else value


def _step(array: ArrayReader, dims: Sequence[str]) -> tuple[Any, str]:
    """Return the step along the first of some axes that is calibrated, in the unit that people say it in."""
    for dim in dims:
        known = array.calibration.get(dim)
        if known and known["scale"] is not None:
            factor, unit = readable(known["scale"], known["unit"])
            return float(f"{known['scale'] * factor:.9g}"), unit
    return "", ""


class Table:
    """Prints rows as they come: CSV with a header, or with `json_` a list of JSON objects with the same names."""

    def __init__(self, json_: bool) -> None:
        self._json = json_
        self._some = False
        if not json_:
            put(_line(COLUMNS), end="")

    def add(self, cells: Mapping[str, Any]) -> None:
        """Print a row."""
        if self._json:
            put(f"{',' if self._some else '['}\n {json.dumps(cells)}", end="")
        else:
            put(_line([_plain(cells.get(name, "")) for name in COLUMNS]), end="")
        self._some = True

    def end(self) -> None:
        """Print what comes behind the last row."""
        if self._json:
            put("\n]" if self._some else "[]")


def _plain(cell: Any) -> Any:
    """Return a cell; a text that spreadsheets would compute gets an apostrophe, by which they show it as it is."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] and cell[0] in _FORMULA else cell


def _line(cells: Sequence[Any]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerow(cells)
    return made.getvalue()
