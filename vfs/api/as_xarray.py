"""Shows arrays as xarray objects: `VirtualArray.xarray`, `VirtualGroup.xarray`, and what xarray's engine `vfs` opens.

An `xarray.Dataset` has an array of a set, and beside it companions (time stamps, derived arrays) and others of
the same folder whose axes agree with it. A container makes a tree of such data sets. Elements are read when they are
used.

- Calibrated axes have coordinates, with `units` and `long_name`, unless they are longer than `MAX_POSITIONS`.
- Companions that say where each frame was taken (its tilt, its place on the stage) are coordinates, too.
- Channels that all have a name of their own have these as coordinates: `sel(c="GFP")`.
- Companions that count from a date are coordinates of type datetime64. Where no frame is stored,
  they are NaT. Other elements stay as they are stored: nothing is masked.
- Variables of netCDF-4 and of others that carry the attributes of its conventions (`_FillValue`,
  `scale_factor`, `units` of time …) are decoded by xarray, as `engine="h5netcdf"` does it.
- Attributes that are neither text nor number become JSON text, since netCDF takes no other. The
  metadata of the format are in the attribute `vfs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.chunking import negotiate
from vfs.errors import DependencyError, extra
from vfs.faces.documents import plain_json
from vfs.model.naming import DERIVED
from vfs.model.stored import POSITION
from vfs.sets.opening import OpenedSet

try:
    import xarray
    from xarray.backends import BackendArray
    from xarray.core import indexing

    from vfs.api.unsorted_index import in_any_order
    from vfs.api.xarray_reading import Indexed, LazyArray
except ImportError as error:
    raise DependencyError(f"this needs xarray: {extra('xarray')} ({error})") from None

BLOCK = "128MiB"
"""Size of the chunks that `chunks={}` makes: dask spends some 0.2 ms on each, more on a cluster."""

MAX_POSITIONS = 1 << 24
"""Positions along an axis that has coordinates, at most: xarray keeps those in memory, and makes an index of them."""

_AS_USUAL: Mapping[str, Any] = {}


class ForXarray(NamedTuple):
    """A set as xarray is to show it.

    Attributes:
        opened: its arrays as they are now.
        array: returns what reads an array when elements are used, by its path; it can be pickled.
    """

    opened: OpenedSet
    array: Callable[[str], Indexed]


def data_array(shown: ForXarray, path: str) -> xarray.DataArray:
    """Make what `VirtualArray.xarray` returns."""
    members = _beside(shown.opened, shown.opened.arrays[path])
    return _dataset(shown, members)[next(iter(members))]


def data_tree(shown: ForXarray) -> xarray.DataTree:
    """Make what `VirtualGroup.xarray` returns."""
    return xarray.DataTree.from_dict(datasets(shown), name=shown.opened.name)


def main_dataset(
    shown: ForXarray, decoders: Mapping[str, Any] = _AS_USUAL, drop: str | Iterable[str] | None = None
) -> xarray.Dataset:
    """Make a Dataset of the main array and what stands beside it, with the attributes of the set.

    Args:
        decoders: options of `xarray.conventions.decode_cf_variables`, by name.
        drop: names of variables that are left out.

    Raises:
        SourceError: the positions along an uneven axis cannot be read.
    """
    made = _dataset(shown, _beside(shown.opened, shown.opened.main), decoders, drop)
    made.attrs = _recorded(shown.opened.main) | _attributes(shown.opened.attrs)
    return made


def datasets(
    shown: ForXarray, decoders: Mapping[str, Any] = _AS_USUAL, drop: str | Iterable[str] | None = None
) -> dict[str, xarray.Dataset]:
    """Make a Dataset of each folder: path of its node -> Dataset.

    In a tree, axes of a node must agree with those of the nodes above. So a Dataset stands at its
    folder only where nothing is below, or groups of netCDF that share its dimensions; else it stands at the
    path of its first array. Arrays that do not agree with the others of their folder make data sets of their own.

    Arguments and errors are those of `main_dataset`.
    """
    opened, main = shown.opened, shown.opened.main
    folders: dict[str, list[ArrayReader]] = {}
    for array in sorted(opened.arrays.values(), key=lambda array: (array is not main, array.dataset.companion)):
        folders.setdefault(_folder(array, main), []).append(array)
    nodes: list[tuple[str, Members]] = []
    for folder, left in folders.items():
        while left:
            members = _beside(opened, left[0], left)
            left = [array for array in left if not any(array is one for one in members.values())]
            nodes.append((folder, members))
    made = {}
    for n, (folder, members) in enumerate(nodes):
        above = f"{folder}/".lstrip("/")
        below = [node for k, node in enumerate(nodes) if k != n and f"{node[0]}/".lstrip("/").startswith(above)]
        place = folder if _fits_above(folder, members, below) else _path(next(iter(members.values())))
        made[f"/{place}"] = _dataset(shown, members, decoders, drop)
    root = made.setdefault("/", xarray.Dataset())
    root.attrs = _recorded(main) | _attributes(opened.attrs)
    return made


# which arrays stand together

Members: TypeAlias = Mapping[str, ArrayReader]
"""Arrays that make one Dataset, by their names in it."""


def _path(array: ArrayReader) -> str:
    return array.dataset.path


def _folder(array: ArrayReader, main: ArrayReader) -> str:
    """Return the folder of an array; derived arrays stand beside the main array, of which they are made."""
    return _path(main if array.dataset.computed else array).rpartition("/")[0]


def _beside(opened: OpenedSet, first: ArrayReader, among: Iterable[ArrayReader] | None = None) -> Members:
    """Return an array and those whose axes agree with it: of the same lengths, with no other calibration.

    Args:
        among: the others; None: all in the folder of `first`.
    """
    if among is None:
        main = opened.main
        folder = _folder(first, main)
        among = [one for path, one in opened.arrays.items() if path.rpartition("/")[0] in (folder, DERIVED)]
        among = [array for array in among if _folder(array, main) == folder]
    sizes, scales = dict(zip(first.dims, first.shape, strict=True)), dict(first.calibration)
    found = [first]
    for array in among:
        own = dict(zip(array.dims, array.shape, strict=True))
        if array is not first and _agree(sizes, own) and _agree(scales, array.calibration):
            found.append(array)
            sizes, scales = own | sizes, array.calibration | scales
    names: dict[str, ArrayReader] = {}
    for array in found:
        name = _path(array).rpartition("/")[2]
        if name in sizes and array.dims != (name,):
            name = f"{name}_data"  # a variable with the name of an axis would be the coordinates of this axis
        names[name if name not in names else _path(array).replace("/", "_")] = array
    return names


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())


def _fits_above(folder: str, members: Members, below: Sequence[tuple[str, Members]]) -> bool:
    """Return True if the nodes below may inherit axes: there are none, or all are of netCDF and share them."""
    if not below:
        return True
    sizes = _sizes(members)
    return any(
        _is_netcdf(array) for some in (members, *(node for _, node in below)) for array in some.values()
    ) and all(
        other != folder and _agree(sizes, _sizes(some)) and not any(_is_coordinate(name, some) for name in sizes)
        for other, some in below
    )


def _sizes(members: Members) -> dict[str, int]:
    return {dim: n for array in members.values() for dim, n in zip(array.dims, array.shape, strict=True)}


def _is_coordinate(dim: str, members: Members) -> bool:
    return (dim in members and members[dim].dims == (dim,)) or any(dim in one.calibration for one in members.values())


# from arrays to variables


def _dataset(
    shown: ForXarray,
    members: Members,
    decoders: Mapping[str, Any] = _AS_USUAL,
    drop: str | Iterable[str] | None = None,
) -> xarray.Dataset:
    left_out = {drop} if isinstance(drop, str) else set(drop or ())
    times = _times(members) if decoders.get("decode_times", True) else {}
    parts = {part for time in times.values() for part in time.parts}
    variables = {
        name: _variable(shown, array) for name, array in members.items() if name not in parts and name not in left_out
    }
    of_netcdf = any(map(_is_netcdf, members.values()))
    stored = [name for name in variables if of_netcdf and _is_stored(members[name])]
    decoded, beside = _decoded({name: variables[name] for name in stored}, decoders)
    beside |= {name for name in variables if members[name].dataset.coordinate}
    coordinates = _coordinates(shown.opened, members) | {name: time.variable(shown) for name, time in times.items()}
    coordinates = {name: found for name, found in coordinates.items() if name not in left_out | variables.keys()}
    variables |= decoded
    made = xarray.Dataset(
        {name: made for name, made in variables.items() if name not in beside},
        coordinates | {name: made for name, made in variables.items() if name in beside},
    )
    uneven = {dim for array in members.values() for dim, axis in array.calibration.items() if "values" in axis}
    return in_any_order(made, uneven)


def _is_netcdf(array: ArrayReader) -> bool:
    return bool(array.dataset.conventions) and _is_stored(array)


def _is_stored(array: ArrayReader) -> bool:
    """Return True for an array of the file, neither companion nor derived: what xarray may decode."""
    return not (array.dataset.companion or array.dataset.computed)


def _decoded(
    variables: Mapping[str, xarray.Variable], decoders: Mapping[str, Any]
) -> tuple[dict[str, xarray.Variable], set[Any]]:
    """Have xarray decode variables of netCDF. Returns: (variables, names of those that are coordinates of others)."""
    made, _, beside = xarray.conventions.decode_cf_variables(variables, {}, **decoders)
    return dict(made), set(beside)


def _variable(shown: ForXarray, reader: ArrayReader) -> xarray.Variable:
    shape = reader.chunks if reader.dataset.computed else negotiate(BLOCK, reader.chunking_input).shape
    # Of axes that are not cut, xarray need not know: it warns of chunks that cut them
    chunks = {dim: c for dim, c, n in zip(reader.dims, shape, reader.shape, strict=True) if c < n}
    attrs = _recorded(reader) | _conventions(reader) | _attributes({"vfs": reader.attrs} if reader.attrs else {})
    return xarray.Variable(
        reader.dims, indexing.LazilyIndexedArray(_lazy(shown, reader)), attrs, {"preferred_chunks": chunks}
    )


def _lazy(shown: ForXarray, array: ArrayReader) -> LazyArray:
    dataset = array.dataset
    return LazyArray(shown.array(dataset.path), array.shape, array.dtype, dataset.nav_ndim)


def _recorded(array: ArrayReader) -> dict[str, Any]:
    """Return what the files say of the acquisition: beam_energy, and beam_energy_units beside it; stage_alpha."""
    said = {name.replace(".", "_"): one for name, one in array.dataset.recorded.items()}
    units = {f"{name}_units": one.unit for name, one in said.items() if one.unit}
    return _attributes({name: one.value for name, one in said.items()} | units)


def _conventions(array: ArrayReader) -> dict[str, Any]:
    """Return the attributes at the top level; those that stand for elements have the dtype of the elements."""
    said = array.dataset.conventions
    numbers = {name: value for name, value in said.items() if isinstance(value, np.generic | np.ndarray)}
    made = _attributes({name: value for name, value in said.items() if name not in numbers}) | numbers
    if array.dtype.kind in "iuf":
        for name in made.keys() & {"_FillValue", "missing_value"}:
            with suppress(ValueError, TypeError, OverflowError):
                made[name] = np.asarray(made[name]).astype(array.dtype)[()]
    return made


def _attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as netCDF can hold them: text, numbers and lists of numbers; others as JSON text."""
    plain = plain_json(attrs)
    return {name: value if _is_plain(value) else json.dumps(value, ensure_ascii=False) for name, value in plain.items()}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) > 0 and all(type(one) in (int, float) for one in value)
    return type(value) in (str, int, float)


def _coordinates(opened: OpenedSet, members: Members) -> dict[str, xarray.Variable]:
    """Return the positions along each calibrated axis, and the names of channels and of positions of a stage.

    Raises:
        SourceError: those of an uneven axis cannot be read.
    """
    found: dict[str, xarray.Variable] = {}
    for array in members.values():
        if names := _channels(array):
            found.setdefault("c", xarray.Variable(("c",), names, {"long_name": "channel"}))
        if (names := [*array.dataset.positions]) and len({*names} - {""}) == len(names):
            found.setdefault(POSITION, xarray.Variable((POSITION,), names, {"long_name": POSITION}))
        for dim, axis in array.calibration.items():
            n = array.shape[array.dims.index(dim)]
            positions = _positions(opened, axis, n)
            if dim not in found and positions is not None:
                unit = {"units": axis["unit"]} if axis["unit"] else {}
                found[dim] = xarray.Variable((dim,), positions, {"long_name": dim.replace("_", " "), **unit})
    return found


def _channels(array: ArrayReader) -> list[str]:
    """Return the names of the channels along the axis c; none where two have one name, or one has none."""
    names = [one.get("name", "") for one in array.dataset.channels if "c" in array.dims]
    length = array.shape[array.dims.index("c")] if names else 0
    return names if length == len(names) == len({*names} - {""}) else []


def _positions(opened: OpenedSet, axis: Mapping[str, Any], n: int) -> np.ndarray | None:
    if n > MAX_POSITIONS:
        return None
    if axis["scale"] is not None:
        made: np.ndarray = (axis["offset"] or 0.0) + axis["scale"] * np.arange(n)
        return made
    values = opened.arrays.get(axis.get("values", ""))
    if values is None or values.ndim != 1 or len(values) not in (n, n + 1) or values.dtype.kind not in "iuf":
        return None
    read = np.array(values[...])
    return read if len(read) == n else (read[:-1] + read[1:]) / 2  # edges between the elements


# time stamps


class _Time(NamedTuple):
    """Companions that together say when each frame was taken.

    Attributes:
        parts: name -> (array, nanoseconds of its unit).
        epoch: what the first one counts from.
    """

    parts: Mapping[str, tuple[ArrayReader, int]]
    epoch: np.datetime64

    def variable(self, shown: ForXarray) -> xarray.Variable:
        """Return the variable of type datetime64[ns]."""
        array = next(iter(self.parts.values()))[0]
        attrs = _attributes({"vfs": array.attrs} if array.attrs else {})
        return xarray.Variable(
            array.dims, indexing.LazilyIndexedArray(LazyTimes(shown, self)), {"long_name": "time", **attrs}
        )


class LazyTimes(BackendArray):
    """Reads time stamps when xarray needs them: datetime64[ns], NaT where no frame is stored."""

    def __init__(self, shown: ForXarray, time: _Time) -> None:
        self.epoch = time.epoch
        self.parts = [(_lazy(shown, array), factor) for array, factor in time.parts.values()]
        self.blank = any(array.dataset.blanks for array, _ in time.parts.values())
        self.shape = self.parts[0][0].shape
        self.dtype = np.dtype("M8[ns]")

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.read)

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Read time stamps. Arguments and errors are those of `LazyArray.read`."""
        made = np.full((), self.epoch)
        for array, factor in self.parts:
            made = made + _nanoseconds(array.read(key), factor)
        made = np.asarray(made)
        if self.blank:
            valid = self.parts[0][0].array.valid
            for axis, part in reversed([*enumerate(key)]):
                valid = valid[(slice(None),) * axis + (part,)]
            made[~valid] = np.datetime64("NaT", "ns")
        return made


def _nanoseconds(values: np.ndarray, factor: int) -> np.ndarray:
    """Convert numbers to timedelta64[ns]; what is no number or too large becomes NaT.

    Args:
        factor: nanoseconds of their unit.
    """
    most = _MAX_NANOSECONDS // factor
    fits = (values > -most) & (values < most)  # False for NaN
    whole, rest = values, np.zeros(())
    if values.dtype.kind == "f":
        whole = np.floor(np.where(fits, values, 0))
        rest = np.rint((np.where(fits, values, 0) - whole) * factor)
    made = np.where(fits, whole, 0).astype(np.int64) * factor + rest.astype(np.int64)
    return np.where(fits, made.astype("m8[ns]"), np.timedelta64("NaT", "ns"))


_MAX_NANOSECONDS = 1 << 62  # nanoseconds
_UNITS = {
    **dict.fromkeys(("ns", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "μs", "microseconds"), 1000),
    **dict.fromkeys(("ms", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "seconds"), 10**9),
    **dict.fromkeys(("d", "days"), 86400 * 10**9),
}
_SINCE = re.compile(r"(\S+) since (\d{4}-\d\d-\d\d)")


def _times(members: Members) -> dict[str, _Time]:
    """Find companions that count from a date. Those that hold the rest of a second are added to the seconds.

    xarray decodes times of netCDF.
    """
    found = {}
    for name, array in members.items():
        since = None if _is_netcdf(array) else _SINCE.fullmatch(_unit(array))
        if since is None or since[1] not in _UNITS or array.dtype.kind not in "iuf":
            continue
        parts = {name: (array, _UNITS[since[1]])}
        stem = name.removesuffix("_seconds")
        for rest in ("milliseconds", "microseconds") if stem != name else ():
            more = members.get(f"{stem}_{rest}")
            if more is not None and more.dims == array.dims and _unit(more) in _UNITS:
                parts[f"{stem}_{rest}"] = more, _UNITS[_unit(more)]
        found[name if stem in members else stem] = _Time(parts, np.datetime64(since[2], "ns"))
    return found


def _unit(array: ArrayReader) -> str:
    dataset = array.dataset
    return str(dataset.conventions.get("units") or dataset.attrs.get("unit") or "")
