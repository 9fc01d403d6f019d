"""Opens detector files in napari. Its plugin manager reads `napari.yaml`, beside this file, and calls `get_reader`.

A layer holds the `VirtualArray` itself: napari indexes it when it shows a frame, and only that frame is read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vfs.api.arrays import VirtualArray, VirtualGroup
from vfs.engine.array import ArrayReader
from vfs.errors import OptionError, SourceError, UnknownFormatError
from vfs.faces.channels import ChannelLook, channel_looks
from vfs.formats import detect
from vfs.integrations.upright import open_upright
from vfs.model.signatures import Paths
from vfs.pictures.frames import FrameView, is_masked, look
from vfs.pictures.picture import contrast
from vfs.sources.local import LocalSources
from vfs.sources.names import absolute, is_url

Layer = tuple[Any, dict[str, Any], str]
"""What napari makes a layer of: data, arguments of `add_image`, the kind of layer."""

_SHARED = (".hdf", ".hdf5", ".h5", ".hdr", ".ims", ".map", ".mat", ".nc", ".rec", ".seq", ".st", ".xml")
"""Endings that files of other programs have, too."""

_SAMPLE = 16 << 20
"""Bytes of frames that contrast limits are chosen from; one frame is looked at whatever its size."""

_FRAMES = 5
"""Most frames that contrast limits are chosen from."""

_LAYERS = 20
"""Most layers beside that of the main array."""

_MIXED = 6
"""Most channels that are shown at first."""

_LARGE = 4096
"""Pixels along y or x of images above which smaller versions are made where the file holds none."""


class LayerPart:
    """What a layer shows of an array that is more than it: one channel, or one size of an image with a pyramid.

    Of a pyramid napari first takes the part that is in view, of all frames, and of that part the frame.
    So slices are remembered; elements are read when an index or numpy asks for them.

    Args:
        part: which elements of each axis; a number takes the axis away. None: all.
    """

    def __init__(self, array: VirtualArray | ArrayReader, part: Sequence[range | int] | None = None) -> None:
        self._array = array
        self._part = tuple(map(range, array.shape)) if part is None else tuple(part)
        self._axes = [k for k, one in enumerate(self._part) if isinstance(one, range)]
        self.shape = tuple(len(one) for one in self._part if isinstance(one, range))
        self.ndim, self.dtype, self.size = len(self.shape), array.dtype, math.prod(self.shape)

    @classmethod
    def of(cls, array: VirtualArray | ArrayReader, axis: int, index: int) -> LayerPart:
        """Take an element along an axis, which goes away."""
        return cls(array, [index if k == axis else range(n) for k, n in enumerate(array.shape)])

    def __getitem__(self, key: tuple[int | slice, ...]) -> LayerPart | np.ndarray:
        """Take a part.

        Args:
            key: for each of the first axes an index or a slice with a positive step; the others are taken whole.

        Returns: a LayerPart if there are only slices; otherwise what is read.
        """
        taken = list(self._part)
        for axis, one in zip(self._axes, key, strict=False):
            taken[axis] = taken[axis][one]  # type: ignore[index]
        return LayerPart(self._array, taken) if all(isinstance(one, slice) for one in key) else self._read(taken)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._read(self._part), dtype)

    def _read(self, part: Sequence[int | range]) -> np.ndarray:
        found: np.ndarray = self._array[
            tuple(slice(k.start, k.stop, k.step) if isinstance(k, range) else k for k in part)
        ]
        return found


def get_reader(path: str | list[str]) -> Callable[[Paths], list[Layer]] | None:
    """Return `read` if vfs can open a file or, of several, the first one.

    It is None for a file that vfs does not recognise and that may be for another plugin. For a file
    that has an ending of ours, and for a URL, it is `read`, whose error says what is wrong with the file.
    """
    first = path if isinstance(path, str) else path[0]
    if first.lower().endswith(_SHARED) and not is_url(first):  # a server is not asked only to see whose it is
        try:
            detect(LocalSources(), absolute(first))
        except UnknownFormatError:
            return None
    return read


def read(paths: Paths) -> list[Layer]:
    """Open a data set as layers for napari. Reads headers, and a few frames to choose the contrast.

    The first layer is the main array, or the first ones, where it has channels. The others are hidden: images of the
    same set along the same axes, such as those of other detectors. What belongs to the scan (time stamps, a virtual
    bright-field image) is no layer: napari would lay it over the frame.

    Args:
        paths: a file that names its set, or the files of a set.

    Raises:
        OptionError: the main array has less than two axes, or no elements.
        Exception: what `vfs.open` raises.
    """
    main = open_upright(paths, turn=True)
    path = main._reader.dataset.path
    if main.ndim < 2 or not main.size:
        axes = ", ".join(f"{dim}: {n}" for dim, n in zip(main.dims, main.shape, strict=True))
        raise OptionError(f"{main.files[0]}: {path} has the axes ({axes}); napari shows images, which have two or more")
    layers = _layers(main.group, path, visible=True)
    others = sorted(_alike(main), key=lambda other: -main.group[other].size)
    if len(others) > _LAYERS:
        warnings.warn(
            f"{main.files[0]}: {len(others) - _LAYERS} more images are no layers; add one as"
            " viewer.add_image(vfs.open(…, array=…))",
            stacklevel=2,
        )
    return [*layers, *(one for other in others[:_LAYERS] for one in _layers(main.group, other, visible=False))]


def _layers(group: VirtualGroup, path: str, visible: bool) -> list[Layer]:
    """Make the layer of an array, or one for each of its channels."""
    array = group[path]
    levels = _smaller(group, path)
    rgb = _colours(array)
    axes = _axes(array)[: array.ndim - rgb]
    given: dict[str, Any] = {
        "name": group.name if visible else f"{group.name} {path.removesuffix('/data')}",
        "axis_labels": array.dims[: len(axes)],
        "scale": [scale for scale, _, _ in axes],
        "translate": [offset for _, offset, _ in axes],
        "units": [unit for _, _, unit in axes],
        "rgb": rgb,
        "multiscale": bool(levels),
        "visible": visible,
        "metadata": {"vfs": dict(array.attrs)},
    }
    sizes: list[VirtualArray | ArrayReader] = [array, *levels]
    smallest = levels[-1] if levels and not is_masked(FrameView.of(array._reader)) else array._reader
    channels = None if rgb else _channels(group, path)
    if channels is None:
        if visible and not rgb and (limits := _contrast(smallest)):
            given["contrast_limits"] = limits
        return [([*map(LayerPart, sizes)] if levels else array, given, "image")]
    axis, looks = channels
    for name in ("axis_labels", "scale", "translate", "units"):
        given[name] = [one for k, one in enumerate(given[name]) if k != axis]
    made: list[Layer] = []
    for k, shown in enumerate(looks):
        own: dict[str, Any] = {"name": f"{given['name']}: {shown.label}", "colormap": f"#{shown.colour}"}
        own |= {"blending": "additive", "visible": visible and k < _MIXED}
        if limits := shown.window or (_contrast(smallest, axis, k) if visible else None):
            own["contrast_limits"] = limits
        parts = [LayerPart.of(size, axis, k) for size in sizes]
        made.append((parts if levels else parts[0], {**given, **own}, "image"))
    return made


def _channels(group: VirtualGroup, path: str) -> tuple[int, list[ChannelLook]] | None:
    """Return the axis of channels of an array, and the look of each; None if it has none."""
    image = group._opened.tree.images.get(path)
    looks = [] if image is None else channel_looks(image)
    if image is None or image.channels is None or not looks:
        return None
    axes = image.how.axes[image.channels]
    return (axes[0], looks) if len(axes) == 1 else None


def _alike(main: VirtualArray) -> Iterator[str]:
    """Yield the paths of other images whose frames have the axes, units and size of those of the main array."""
    group = main.group
    left_out = {level._reader.dataset.path for path in group for level in _levels(group, path)}
    left_out.add(main._reader.dataset.path)
    for path, other in group.items():
        dataset = other._reader.dataset
        if path in left_out or dataset.companion or dataset.computed or not other.size:
            continue
        shared = min(main.ndim, other.ndim)
        frame = max(2, main.ndim - main._reader.dataset.nav_ndim)
        same_frame = (other.dims[-frame:], other.shape[-frame:]) == (main.dims[-frame:], main.shape[-frame:])
        if shared >= frame and same_frame and _units(other)[-shared:] == _units(main)[-shared:]:
            yield path


def _smaller(group: VirtualGroup, path: str) -> list[ArrayReader]:
    """Return the smaller versions of an array, the largest first: those of its file; of a large one also computed."""
    array, image = group[path], group._opened.tree.images.get(path)
    if image is None or not image.how.as_stored or max(array.shape[-2:]) <= _LARGE:
        return [level._reader for level in _levels(group, path)]
    return image.levels[1:]


def _levels(group: Mapping[str, VirtualArray], path: str) -> Iterator[VirtualArray]:
    """Yield the smaller versions of an array that its file holds, the largest first."""
    number = 1
    while (level := f"{path.removesuffix('data')}level_{number}/data") in group:
        yield group[level]
        number += 1


def _colours(array: VirtualArray) -> bool:
    """Return True if the last axis is red, green, blue (and perhaps opacity)."""
    return FrameView.of(array._reader).colour == array.ndim - 1


def _axes(array: VirtualArray) -> list[tuple[float, float, str]]:
    """Return (step, position of the first element, unit) of each axis, in pixels where no step is known."""
    found = []
    for dim in array.dims:
        axis = array.calibration.get(dim)
        if axis is None or axis["scale"] is None:
            found.append((1.0, 0.0, "pixel"))
        else:
            found.append((axis["scale"], axis["offset"] or 0.0, _unit(axis["unit"])))
    return found


def _units(array: VirtualArray) -> list[str]:
    return [unit for _, _, unit in _axes(array)]


def _unit(text: str) -> str:
    """Return a unit that napari takes: one that pint knows, else "dimensionless"."""
    import pint

    try:
        pint.Unit(text)
    except Exception:  # pint raises errors of many kinds for text that is no unit
        return "dimensionless"
    return text or "dimensionless"


def _contrast(array: ArrayReader, axis: int = -1, index: int = 0) -> tuple[float, float] | None:
    """Choose contrast limits by frames at even distances; None where these are all the same or blank.

    Args:
        axis: one of channels, of which only that at `index` counts; -1: there is none.

    Raises:
        SourceError: not one of the frames can be read.
    """
    view = FrameView.of(array)
    if axis >= 0 and axis not in view.where:  # of colours, which are looked at together
        return None
    frames = math.prod(view.counts)
    few = min(_FRAMES, frames, max(1, _SAMPLE * frames // array.nbytes))
    values: list[np.ndarray] = []
    failed: SourceError | None = None
    for k in range(few):
        position = [int(at) for at in np.unravel_index((2 * k + 1) * frames // (2 * few), view.counts)]
        if axis >= 0:
            position[view.where.index(axis)] = index
        try:
            seen = look(view, position, 1, 1)
        except SourceError as error:  # napari says so when somebody goes to this frame
            failed = error
            continue
        if seen.stored:
            values.append(seen.values)
    if failed and not values:
        raise failed
    low, high, _ = contrast(np.concatenate(values)) if values else (0.0, 0.0, 1.0)
    return (low, high) if high > low else None
