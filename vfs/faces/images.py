"""Finds the images of a data set: arrays with axes y and x, arranged as viewers of images take them.

An image is shown along at most five axes: t; channels, or one axis that stands for all others (the positions of a
scan, frames); z; y; x. In OME-Zarr each position of a stage (an axis `position`) is an image of its own. Smaller
versions that a file holds (`level_1/data` beside `data`) are its levels; above these, and where there are none, levels
are computed (`vfs.reduce.pyramid`). Those of a file may have fewer planes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import le
from typing import TYPE_CHECKING, Any

from vfs.engine.array import ArrayReader
from vfs.engine.other_axes import Arrangement, converted, with_axes
from vfs.model import colours
from vfs.model.naming import DERIVED
from vfs.model.stored import POSITION

if TYPE_CHECKING:
    from vfs.reduce.level_store import LevelStore

_MAX_POSITIONS = 1000
"""Most positions that are images of their own; more stay along an axis."""
_CHANNELS = ("c", colours.AXIS)  # what is counted along these is channels: of a microscope, of a pixel
_COMPONENTS = 4
"""Most numbers that a result has at each position of a scan, where these are shown as channels."""
BY_NAME = ("palette", "mask")
"""What `photometric` says of numbers that mean a colour of a table, or a region: there is no mean of them."""


_DRAWN = {"b1": "u1", "f2": "f4"}
"""As what type numbers are shown that viewers in browsers do not know."""


@dataclass(frozen=True)
class ShownImage:
    """An image of a data set.

    Attributes:
        name: for people.
        source: the array that it shows.
        how: which axes of `source` its axes are.
        levels: the image and its smaller versions, the finest first. All have the same axes and dtype.
        times: for each level, how many pixels of the finest one a pixel is along z, if there is this axis, y and x.
        computed: how a level is computed of the one below: "mean" of 2 × 2 pixels, or "nearest", one of them; "" where
            none is computed.
        position: what the file calls the position of the stage at which the image was taken; "" where it is of all.
    """

    name: str
    source: ArrayReader
    how: Arrangement
    levels: list[ArrayReader]
    times: list[tuple[float, ...]]
    computed: str
    position: str = ""

    @property
    def dims(self) -> tuple[str, ...]:
        """A name per axis; the last two are y and x."""
        return self.how.dims

    @property
    def channels(self) -> int | None:
        """The axis of channels; None if there is none."""
        return self.dims.index("c") if "c" in self.dims else None


class Images(Mapping[str, ShownImage]):
    """The images of a data set, by the paths of their arrays: first the main one; last those that are computed.

    Each is made when somebody asks for it, once, so that all who look at its levels share what is computed of them.

    Args:
        name: name of the set, which its array `data` has for people.
        arrays: path -> array of the set; main: path of its main array.
        store: keeps computed levels for the next run; None: nothing does.
    """

    def __init__(
        self, name: str, arrays: Mapping[str, ArrayReader], main: str, store: LevelStore | None = None
    ) -> None:
        self._name, self._arrays, self._main, self._store = name, arrays, main, store
        self._made: dict[tuple[str, int | None], ShownImage] = {}

    @cached_property
    def _how(self) -> dict[str, Arrangement]:
        return dict(_shown(self._arrays, self._main))

    def __bool__(self) -> bool:
        return next(_shown(self._arrays, self._main), None) is not None

    def __getitem__(self, path: str) -> ShownImage:
        return self._image(path, None)

    def _image(self, path: str, position: int | None) -> ShownImage:
        found = self._made.get((path, position))
        if found is None:  # two threads get the same one
            how = self._how[path] if position is None else _at(self._how[path], self._arrays[path], position)
            made = _image(self._name, self._arrays, path, how, self._store)
            found = self._made.setdefault((path, position), made)
        return found

    def each(self) -> Iterator[ShownImage]:
        """Yield the images with one position of a stage each: those of an array follow one another."""
        for path in self:
            axis, array = _positions(self._arrays[path]), self._arrays[path]
            for position in [None] if axis is None else range(array.shape[axis]):
                yield self._image(path, position)

    def __iter__(self) -> Iterator[str]:
        return iter(self._how)

    def __len__(self) -> int:
        return len(self._how)


def _shown(arrays: Mapping[str, ArrayReader], main: str) -> Iterator[tuple[str, Arrangement]]:
    """Find the arrays that are images, in their order."""
    for path in sorted(arrays, key=lambda path: path != main):
        dataset = arrays[path].dataset
        if "level" in dataset.attrs or (dataset.companion and not dataset.computed):
            continue
        how = _arrangement(arrays[path])
        if how is not None:
            yield path, how


def _arrangement(array: ArrayReader) -> Arrangement | None:
    """Say how an array is shown as an image; None if it is none."""
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    names = [name.lower() for name in array.dims]
    y, x = ("scan_y", "scan_x") if array.dataset.computed and "y" not in names else ("y", "x")
    if names.count(y) != 1 or names.count(x) != 1:
        return None
    image = names.index(y), names.index(x)
    known: dict[str, tuple[int, ...]] = {}
    others: list[int] = []
    for k, name in enumerate(names):
        if k in image:
            continue
        if name in ("t", "z") and name not in known:
            known[name] = (k,)
        else:
            others.append(k)
    if array.dataset.computed and others:
        if array.shape[others[-1]] > _COMPONENTS or len(others) > 1:
            return None
        known["c"] = tuple(others)
    elif others:
        known[_custom(names, others)] = tuple(others)
    leads = [name for name in known if name not in ("t", "z")]
    order = [name for name in ("t", *leads, "z") if name in known]
    return Arrangement((*(known[name] for name in order), *((k,) for k in image)), (*order, "y", "x"))


def _custom(names: list[str], axes: list[int]) -> str:
    """Name the axis that stands for some others: c for channels."""
    own = [names[k] for k in axes]
    if all(name in _CHANNELS for name in own):
        return "c"
    if own == ["scan_y", "scan_x"]:
        return "scan"
    return "_".join(own)


def _positions(array: ArrayReader) -> int | None:
    """Return the axis of positions of a stage that are images of their own; None if there is none."""
    axis = array.dims.index(POSITION) if POSITION in array.dims else None
    return axis if axis is not None and 1 < array.shape[axis] <= _MAX_POSITIONS else None


def _at(how: Arrangement, array: ArrayReader, position: int) -> Arrangement:
    """Say how one position of an array is shown as an image."""
    axis = array.dims.index(POSITION)
    left = [(tuple(k for k in group if k != axis), name) for group, name in zip(how.axes, how.dims, strict=True)]
    axes = tuple(group for group, _ in left if group)
    named = [
        _custom([*array.dims], [*group]) if axis in was else name
        for (group, name), was in zip(left, how.axes, strict=True)
        if group
    ]
    return Arrangement(axes, tuple(named), {axis: position})


def _image(
    name: str, arrays: Mapping[str, ArrayReader], path: str, how: Arrangement, store: LevelStore | None
) -> ShownImage:
    from vfs.reduce.pyramid import levels  # loads kernels, which few openings need

    array = arrays[path]
    attrs = {name: value for name, value in array.attrs.items() if name != "calibration"}
    common: dict[str, Any] = {"conventions": {}, "group_attrs": {}}
    at = next(iter(how.fixed.values()), None)
    own = path if at is None else f"{path}/{POSITION}_{at}"  # by which computed levels are kept, too
    finest = with_axes(_drawable(array), how, path=own, attrs=attrs, **common)
    space = 3 if how.dims[-3:-2] == ("z",) else 2
    found, times = [finest], [(1.0,) * space]
    for smaller in _stored_levels(arrays, path):
        level = with_axes(_drawable(smaller), how, path=smaller.dataset.path, attrs={}, **common)
        smaller_only = level.shape != found[-1].shape and all(map(le, level.shape, found[-1].shape))
        if level.dtype == finest.dtype and level.shape[:-space] == finest.shape[:-space] and smaller_only:
            found.append(level)
            times.append(tuple(map(_times, finest.shape[-space:], level.shape[-space:])))
    nearest = array.dtype.kind == "b" or array.attrs.get("photometric") in BY_NAME
    above = levels(found[-1], nearest, store)
    for level in above:
        found.append(level)
        times.append((*times[-1][:-2], *(2 * one for one in times[-1][-2:])))
    computed = "" if not above else "nearest" if nearest else "mean"
    names = array.dataset.positions
    position = "" if at is None else (names[at] if names else "") or f"{POSITION} {at}"
    label = " ".join(filter(None, (_name(array) or name, position and f"({position})")))
    return ShownImage(label, array, how, found, times, computed, position)


def _drawable(array: ArrayReader) -> ArrayReader:
    """Return an array as numbers that viewers in browsers draw.

    They know no bool and no float16, and each knows only some types of 64 bits. Results are float32, which is what they
    draw; numbers of 64 bits of files stay as they are.
    """
    shown = _DRAWN.get(array.dtype.str[1:])
    if array.dataset.computed and array.dtype.itemsize == 8:
        shown = "f4"
    return converted(array, shown) if shown else array


def _times(finest: int, length: int) -> float:
    """Return how many pixels of the finest level a pixel of a level in a file is, along an axis.

    That is a whole number where the level has as many pixels as that makes, with or without the rest.
    """
    whole = round(finest / length)
    return float(whole) if length in (finest // whole, -(-finest // whole)) else finest / length


def _stored_levels(arrays: Mapping[str, ArrayReader], path: str) -> Iterator[ArrayReader]:
    """Return the smaller versions of an array that its file holds, the finest first."""
    above, slash, name = path.rpartition("/")
    dims, number = arrays[path].dims, 1
    while (smaller := arrays.get(f"{above}{slash}level_{number}/{name}")) is not None:
        if smaller.dims == dims:
            yield smaller
        number += 1


def _name(array: ArrayReader) -> str:
    """Return the name that people know an array by; "" for the array of a set that has one."""
    said, path = array.dataset.attrs.get("name"), array.dataset.path
    if isinstance(said, str) and said.strip():
        return " ".join(said.split())
    return "" if path == "data" else path.removeprefix(f"{DERIVED}/")
