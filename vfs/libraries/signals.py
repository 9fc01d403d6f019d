"""Arrays as a library has them, in the fork that reads a set: what is told of them, and their blocks."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vfs.model.colours import AXIS
from vfs.model.stored import nav_dims
from vfs.model.units import ENERGIES, spelled

BLOCK = 4 << 20  # bytes of a block of what is in memory, at most
SLAB = 32 << 20  # bytes of one that is computed: of JEOL's events 4 MiB take 0.2 s, and 64 MiB as long
_NAMES = {"height": "y", "width": "x", "x_ray_energy": "energy"}
_UNCALIBRATED = ("", "px", "pix", "pixel", "pixels", "point", "points", "channel", "channels", "1")
_BRACKETS = re.compile(r"[^()]*\((\w+)\)")


class SignalAxis(NamedTuple):
    """An axis as a library calls it.

    Attributes:
        name: "" if it has none.
        scale, offset: of element 0; None: the library knows no step.
        unit: as the library writes it.
        values: positions along it, of an axis with uneven steps.
        navigates: True or False as the library says; None: it does not say.
    """

    name: str
    scale: float | None = None
    offset: float = 0.0
    unit: str = ""
    values: np.ndarray | None = None
    navigates: bool | None = None

    @classmethod
    def of(cls, axis: Mapping[str, Any]) -> SignalAxis:
        """Make one of an axis in the form of RosettaSciIO."""
        scale, unit, values = axis.get("scale"), axis.get("units"), axis.get("axis")
        return cls(
            str(axis.get("name") or ""),
            None if scale is None else float(scale),
            float(axis.get("offset") or 0),
            unit if isinstance(unit, str) else "",
            None if values is None else np.asarray(values),
            axis.get("navigate"),
        )

    @property
    def dim(self) -> str:
        word = re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_")
        return _NAMES.get(word, word) or ("energy" if spelled(self.unit) in ENERGIES else "")

    @property
    def calibration(self) -> dict[str, Any]:
        unit = found[1] if (found := _BRACKETS.fullmatch(self.unit)) else self.unit
        told = self.scale is not None and not (self.scale == 1 and self.offset == 0 and unit in _UNCALIBRATED)
        return {"scale": self.scale, "offset": self.offset, "unit": unit} if told else {}


@dataclass(eq=False)
class Signal:
    """An array.

    Attributes:
        data: of numpy, or of dask, whose blocks are computed when they are asked for. Elements of fields R, G, B (A)
            are colours.
        axes: of `data`, slowest first.
        name: its title; "" if it has none.
        attrs: metadata, that JSON can hold but for numbers of numpy.
        original: all that the file says.
        companion: True if it belongs to another one.
    """

    data: Any
    axes: Sequence[SignalAxis]
    name: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    original: Mapping[str, Any] = field(default_factory=dict)
    companion: bool = False

    @classmethod
    def of(cls, signal: Mapping[str, Any]) -> Signal:
        """Make one of a signal in the form of RosettaSciIO: `data`, `axes`, `metadata`, `original_metadata`."""
        said = signal.get("metadata") or {}
        title = str((said.get("General") or {}).get("title") or "")
        original = signal.get("original_metadata") or {}
        return cls(signal["data"], [*map(SignalAxis.of, signal["axes"])], title, {"metadata": said}, original)

    @cached_property
    def colours(self) -> int:
        """How many colours an element has; 0: it is a number."""
        return len(self.data.dtype.names or ())

    @property
    def dtype(self) -> np.dtype:
        stored: np.dtype = self.data.dtype
        return (stored[0] if self.colours else stored).newbyteorder("=")

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.data.shape, self.colours) if self.colours else tuple(self.data.shape)

    @property
    def nav_ndim(self) -> int:
        """How many of the axes navigate: those that the library says, if they come first and others follow."""
        said = [axis.navigates for axis in self.axes]
        nav = sum(flag is True for flag in said)
        told = 0 < nav < len(said) and said[:nav] == [True] * nav
        return nav if told else max(0, len(said) - 2) * (nav == 0 or len(said) > 2)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes, each another one; those of a map are called as in all formats."""
        nav, given = self.nav_ndim, [axis.dim for axis in self.axes]
        scan = nav == 2 and {*given[:2]} <= {"x", "y", ""}
        usual = [*nav_dims(nav), *(f"dim_{k}" for k in range(len(given) - nav - 2)), *("y", "x")[nav - len(given) :]]
        names = [("" if scan and k < nav else dim) or usual[k] for k, dim in enumerate(given)]
        seen: Counter[str] = Counter()
        for k, name in enumerate(names):
            seen[name] += 1
            names[k] = name if seen[name] == 1 else f"{name}_{seen[name]}"
        return (*names, AXIS) if self.colours else tuple(names)

    @property
    def block(self) -> tuple[int, ...]:
        """Elements per axis of what is made at once: a frame, or a part of one; of spectra and the like a slab."""
        nav = self.nav_ndim if len(self.axes) - self.nav_ndim > 1 else 0
        room, block = max(1, (SLAB if self._computed else BLOCK) // max(1, self.dtype.itemsize)), list[int]()
        for n in reversed(self.shape[nav:]):
            block.insert(0, max(1, min(n, room)))
            room = max(1, room // block[0])
        return (*(1,) * nav, *block)

    @property
    def _computed(self) -> bool:
        return hasattr(self.data, "numblocks") and math.prod(self.data.numblocks) > 1

    def part(self, box: tuple[slice, ...]) -> np.ndarray:
        """Make the elements of a box. What the library only makes as a whole is made once."""
        if self._computed:
            return self._numbers(self.data[box[: self.data.ndim]].compute(scheduler="synchronous"), box)
        if hasattr(self.data, "compute"):
            self.data = self.data.compute(scheduler="synchronous")
        return self._numbers(self.data[box[: self.data.ndim]], box)

    def _numbers(self, found: Any, box: tuple[slice, ...]) -> np.ndarray:
        array = np.asarray(found.todense() if hasattr(found, "todense") else found)
        if self.colours:
            array = np.stack([array[name] for name in array.dtype.names or ()], axis=-1)[..., box[-1]]
        return np.ascontiguousarray(array, self.dtype)

    @property
    def positions(self) -> Iterator[tuple[str, Signal]]:
        """Those along axes with uneven steps: name of the axis, positions."""
        for axis, dim in zip(self.axes, self.dims, strict=False):
            if axis.values is not None:
                values = np.asarray(axis.values, "f8")
                yield dim, Signal(values, [SignalAxis(dim)], attrs={"units": axis.unit}, companion=True)


class Signals:
    """Base of readers of arrays (`vfs.libraries.server.LibraryReader`): they have `load` and `open`.

    They answer {"ask": "arrays"}; {"ask": "block", "array": n, "box": [[start, stop], …]}; {"ask": "original"}.
    """

    def __init__(self, opening: Mapping[str, Any]) -> None:
        main = [one for one in self.open(opening["path"], opening["options"]) if one.dtype.kind in "biufc"]
        alone = len(main) == 1
        self.signals: list[tuple[str, Signal, dict[str, Any]]] = []
        for number, one in enumerate(main):
            at = "" if alone else f"signal_{number}/"
            calibration = {dim: axis.calibration for axis, dim in zip(one.axes, one.dims, strict=False)}
            for dim, values in one.positions:
                calibration[dim] = {"values": at + dim, "unit": values.attrs["units"]}
                self.signals.append((at + dim, values, {}))
            self.signals.append((f"{at}data", one, {dim: known for dim, known in calibration.items() if known}))

    @staticmethod
    def start() -> None:
        pass

    def open(self, path: str, options: Mapping[str, Any]) -> Sequence[Signal]:
        """Read a file. Whatever this raises becomes a line."""
        raise NotImplementedError

    def answer(self, question: Mapping[str, Any], data: np.ndarray) -> tuple[dict[str, Any], np.ndarray | None]:
        if question["ask"] == "block":
            _, signal, _ = self.signals[question["array"]]
            return {}, signal.part(tuple(slice(*ends) for ends in question["box"]))
        if question["ask"] == "original":
            return {"original": {path: one.original for path, one, _ in self.signals if one.original}}, None
        return {"arrays": [self._told(*one) for one in self.signals]}, None

    @staticmethod
    def _told(path: str, one: Signal, calibration: Mapping[str, Any]) -> dict[str, Any]:
        name = {"name": one.name} if one.name else {}
        return {
            "path": path,
            "dtype": one.dtype.str,
            "shape": one.shape,
            "dims": one.dims,
            "nav_ndim": one.nav_ndim,
            "block": one.block,
            "companion": one.companion,
            "attrs": {**one.attrs, **name, "calibration": calibration} if calibration else {**one.attrs, **name},
        }
