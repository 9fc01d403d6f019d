"""Shows arrays as xarray objects: `VirtualArray.xarray`, `VirtualGroup.xarray`, and what xarray's engine `vfs` opens.

An `xarray.Dataset` has an array of a set, and beside it companions (time stamps, derived arrays) and others of
the same folder whose axes agree with it. A container makes a tree of such data sets. Elements are read when they are
used.

- Calibrated axes have coordinates, with `units` and `long_name`.
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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from vfs.engine.chunking import negotiate
from vfs.errors import DependencyError
from vfs.hierarchy.documents import plain_json
from vfs.model.naming import DERIVED

try:
    import xarray
    from xarray.backends import BackendArray
    from xarray.core import indexing

    from vfs.api.xarray_reading import LazyArray
except ImportError as error:
    raise DependencyError(f"this needs xarray: pip install 'vfs[xarray]' ({error})") from None

if TYPE_CHECKING:
    from vfs.api.arrays import VirtualArray
    from vfs.api.groups import VirtualGroup

BLOCK = "128MiB"
"""Size of the chunks that `chunks={}` makes: dask spends some 0.2 ms on each, more on a cluster."""

_AS_USUAL: Mapping[str, Any] = {}


def data_array(array: VirtualArray) -> xarray.DataArray:
    """Make what `VirtualArray.xarray` returns."""
    members = _beside(array.group, array)
    return _dataset(array.group, members)[next(iter(members))]


def data_tree(group: VirtualGroup) -> xarray.DataTree:
    """Make what `VirtualGroup.xarray` returns."""
    return xarray.DataTree.from_dict(datasets(group), name=group.name)


def main_dataset(
    group: VirtualGroup, decoders: Mapping[str, Any] = _AS_USUAL, drop: str | Iterable[str] | None = None
) -> xarray.Dataset:
    """Make a Dataset of the main array and what stands beside it, with the attributes of the set.

    Args:
        decoders: options of `xarray.conventions.decode_cf_variables`, by name.
        drop: names of variables that are left out.

    Raises:
        SourceError: the positions along an uneven axis cannot be read.
    """
    made = _dataset(group, _beside(group, group.main), decoders, drop)
    made.attrs = _attributes(group.attrs)
    return made


def datasets(
    group: VirtualGroup, decoders: Mapping[str, Any] = _AS_USUAL, drop: str | Iterable[str] | None = None
) -> dict[str, xarray.Dataset]:
    """Make a Dataset of each folder: path of its node -> Dataset.

    In a tree, axes of a node must agree with those of the nodes above. So a Dataset stands at its
    folder only where nothing is below, or groups of netCDF that share its dimensions; else it stands at the
    path of its first array. Arrays that do not agree with the others of their folder make data sets of their own.

    Arguments and errors are those of `main_dataset`.
    """
    main = group.main
    folders: dict[str, list[VirtualArray]] = {}
    for array in sorted(group.values(), key=lambda array: (array is not main, array._reader.dataset.companion)):
        folders.setdefault(_folder(array, main), []).append(array)
    nodes: list[tuple[str, Members]] = []
    for folder, left in folders.items():
        while left:
            members = _beside(group, left[0], left)
            left = [array for array in left if not any(array is one for one in members.values())]
            nodes.append((folder, members))
    made = {}
    for n, (folder, members) in enumerate(nodes):
        above = f"{folder}/".lstrip("/")
        below = [node for k, node in enumerate(nodes) if k != n and f"{node[0]}/".lstrip("/").startswith(above)]
        place = folder if _fits_above(folder, members, below) else _path(next(iter(members.values())))
        made[f"/{place}"] = _dataset(group, members, decoders, drop)
    root = made.setdefault("/", xarray.Dataset())
    root.attrs = _attributes(group.attrs)
    return made


# which arrays stand together

Members: TypeAlias = "Mapping[str, VirtualArray]"
"""Arrays that make one Dataset, by their names in it."""


def _path(array: VirtualArray) -> str:
    return array._reader.dataset.path


def _folder(array: VirtualArray, main: VirtualArray) -> str:
    """Return the folder of an array; derived arrays stand beside the main array, of which they are made."""
    return _path(main if array._reader.dataset.computed else array).rpartition("/")[0]


def _beside(group: VirtualGroup, first: VirtualArray, among: Iterable[VirtualArray] | None = None) -> Members:
    """Return an array and those whose axes agree with it: of the same lengths, with no other calibration.

    Args:
        among: the others; None: all in the folder of `first`.
    """
    if among is None:
        main = group.main
        folder = _folder(first, main)
        among = [group[path] for path in group if path.rpartition("/")[0] in (folder, DERIVED)]
        among = [array for array in among if _folder(array, main) == folder]
    sizes, scales = dict(zip(first.dims, first.shape, strict=True)), dict(first.calibration)
    found = [first]
    for array in among:
        own = dict(zip(array.dims, array.shape, strict=True))
        if array is not first and _agree(sizes, own) and _agree(scales, array.calibration):
            found.append(array)
            sizes, scales = own | sizes, array.calibration | scales
    names: dict[str, VirtualArray] = {}
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
    group: VirtualGroup,
    members: Members,
    decoders: Mapping[str, Any] = _AS_USUAL,
    drop: str | Iterable[str] | None = None,
) -> xarray.Dataset:
    left_out = {drop} if isinstance(drop, str) else set(drop or ())
    times = _times(members) if decoders.get("decode_times", True) else {}
    parts = {part for time in times.values() for part in time.parts}
    variables = {
        name: _variable(array) for name, array in members.items() if name not in parts and name not in left_out
    }
    of_netcdf = any(map(_is_netcdf, members.values()))
    stored = [name for name in variables if of_netcdf and _is_stored(members[name])]
    decoded, beside = _decoded({name: variables[name] for name in stored}, decoders)
    coordinates = _coordinates(group, members) | {name: time.variable() for name, time in times.items()}
    coordinates = {name: found for name, found in coordinates.items() if name not in left_out | variables.keys()}
    variables |= decoded
    return xarray.Dataset(
        {name: made for name, made in variables.items() if name not in beside},
        coordinates | {name: made for name, made in variables.items() if name in beside},
    )


def _is_netcdf(array: VirtualArray) -> bool:
    return bool(array._reader.dataset.conventions) and _is_stored(array)


def _is_stored(array: VirtualArray) -> bool:
    """Return True for an array of the file, neither companion nor derived: what xarray may decode."""
    return not (array._reader.dataset.companion or array._reader.dataset.computed)


def _decoded(
    variables: Mapping[str, xarray.Variable], decoders: Mapping[str, Any]
) -> tuple[dict[str, xarray.Variable], set[Any]]:
    """Have xarray decode variables of netCDF. Returns: (variables, names of those that are coordinates of others)."""
    made, _, beside = xarray.conventions.decode_cf_variables(variables, {}, **decoders)
    return dict(made), set(beside)


def _variable(array: VirtualArray) -> xarray.Variable:
    reader = array._reader
    shape = reader.chunks if reader.dataset.computed else negotiate(BLOCK, reader.chunking_input).shape
    # Of axes that are not cut, xarray need not know: it warns of chunks that cut them
    chunks = {dim: c for dim, c, n in zip(reader.dims, shape, reader.shape, strict=True) if c < n}
    attrs = _conventions(array) | _attributes({"vfs": reader.attrs} if reader.attrs else {})
    return xarray.Variable(
        reader.dims, indexing.LazilyIndexedArray(LazyArray(array)), attrs, {"preferred_chunks": chunks}
    )


def _conventions(array: VirtualArray) -> dict[str, Any]:
    """Return the attributes at the top level; those that stand for elements have the dtype of the elements."""
    said = array._reader.dataset.conventions
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


def _coordinates(group: VirtualGroup, members: Members) -> dict[str, xarray.Variable]:
    """Return the positions along each calibrated axis.

    Raises:
        SourceError: those of an uneven axis cannot be read.
    """
    found: dict[str, xarray.Variable] = {}
    for array in members.values():
        for dim, axis in array.calibration.items():
            n = array.shape[array.dims.index(dim)]
            positions = _positions(group, axis, n)
            if dim not in found and positions is not None:
                unit = {"units": axis["unit"]} if axis["unit"] else {}
                found[dim] = xarray.Variable((dim,), positions, {"long_name": dim.replace("_", " "), **unit})
    return found


def _positions(group: VirtualGroup, axis: Mapping[str, Any], n: int) -> np.ndarray | None:
    if axis["scale"] is not None:
        made: np.ndarray = (axis["offset"] or 0.0) + axis["scale"] * np.arange(n)
        return made
    values = group.get(axis.get("values", ""))
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

    parts: Mapping[str, tuple[VirtualArray, int]]
    epoch: np.datetime64

    def variable(self) -> xarray.Variable:
        """Return the variable of type datetime64[ns]."""
        array = next(iter(self.parts.values()))[0]
        attrs = _attributes({"vfs": array.attrs} if array.attrs else {})
        return xarray.Variable(array.dims, indexing.LazilyIndexedArray(LazyTimes(self)), {"long_name": "time", **attrs})


class LazyTimes(BackendArray):
    """Reads time stamps when xarray needs them: datetime64[ns], NaT where no frame is stored."""

    def __init__(self, time: _Time) -> None:
        self.time = time
        self.parts = [(LazyArray(array), factor) for array, factor in time.parts.values()]
        self.shape = self.parts[0][0].shape
        self.dtype = np.dtype("M8[ns]")

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.read)

    @cached_property
    def _valid(self) -> np.ndarray | None:
        dataset = self.parts[0][0].array._reader.dataset
        return dataset.valid if dataset.blanks else None

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Read time stamps. Arguments and errors are those of `LazyArray.read`."""
        made = np.full((), self.time.epoch)
        for array, factor in self.parts:
            made = made + _nanoseconds(array.read(key), factor)
        made = np.asarray(made)
        if self._valid is not None:
            valid = self._valid
            for axis, part in reversed([*enumerate(key)]):
                valid = valid[(slice(None),) * axis + (part,)]
            made[~valid] = np.datetime64("NaT", "ns")
        return made


def _nanoseconds(values: np.ndarray, factor: int) -> np.ndarray:
    """Convert numbers to timedelta64[ns]; what is no number or too large becomes NaT.

    Args:
        factor: nanoseconds of their unit.
    """
    most = _MOST // factor
    fits = (values > -most) & (values < most)  # False for NaN
    whole, rest = values, np.zeros(())
    if values.dtype.kind == "f":
        whole = np.floor(np.where(fits, values, 0))
        rest = np.rint((np.where(fits, values, 0) - whole) * factor)
    made = np.where(fits, whole, 0).astype(np.int64) * factor + rest.astype(np.int64)
    return np.where(fits, made.astype("m8[ns]"), np.timedelta64("NaT", "ns"))


_MOST = 1 << 62  # nanoseconds
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


def _unit(array: VirtualArray) -> str:
    dataset = array._reader.dataset
    return str(dataset.conventions.get("units") or dataset.attrs.get("unit") or "")
