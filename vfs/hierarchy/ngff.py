"""Shows the images of a data set as OME-NGFF, which image viewers open: https://ngff.openmicroscopy.org/.

Version 0.5 (https://ngff.openmicroscopy.org/0.5/) is a hierarchy of zarr v3, version 0.4 (…/0.4/) one of v2. A set
with one image is that image: the levels are `0`, `1`, … Several images are groups `0`, `1`, … of a
`bioformats2raw.layout`, each with its levels, in the order of the data set.

Some details are there because viewers fail otherwise: only units that NGFF lists, or none; steps that are never
negative; one axis beside t, z, y and x at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vfs.engine.array import ArrayReader
from vfs.engine.other_axes import Arrangement
from vfs.hierarchy.channels import omero
from vfs.hierarchy.faces import ZarrFace
from vfs.hierarchy.images import ShownImage
from vfs.hierarchy.ome_xml import ome_xml
from vfs.model.units import long_name

VERSIONS = {3: "0.5", 2: "0.4"}
"""Version of NGFF by version of zarr."""
OME_ENDING = ".ome"
"""What stands before the ending of a zarr face in the name of one that shows images."""

_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
_LOOKS = 16
"""Images of a set of which a few pixels are read, for their contrast."""


def ome_face(images: Iterable[ShownImage], attrs: Mapping[str, Any], zarr_format: int = 3) -> ZarrFace:
    """Make the face that shows the images of a data set.

    Of the first images a few pixels are read, so that viewers begin with their contrast.

    Args:
        images: of the set, one or more.
        attrs: attributes of the set.
    """
    found, version = list(images), VERSIONS[zarr_format]
    shown: dict[str, ArrayReader] = {}
    groups: dict[str, Mapping[str, Any]] = {}
    for k, image in enumerate(found):
        above = f"{k}/" if len(found) > 1 else ""
        shown |= {f"{above}{n}": level for n, level in enumerate(image.levels)}
        groups[above.rstrip("/")] = _said(zarr_format, _image(image, version, k < _LOOKS))
    own = {name: value for name, value in attrs.items() if name == "vfs"}
    if len(found) > 1:
        groups[""] = _said(zarr_format, {"bioformats2raw.layout": 3, "version": version})
        groups["OME"] = _said(zarr_format, {"series": [str(k) for k in range(len(found))], "version": version})
    groups[""] = {**groups[""], **own}
    files = {"OME/METADATA.ome.xml": ome_xml(found)} if len(found) > 1 else {}
    return ZarrFace(shown, groups, zarr_format, next(iter(shown)), files)


def _said(zarr_format: int, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put what is said of a group where its version of NGFF has it: 0.4 names the version elsewhere."""
    if zarr_format == 3:
        return {"ome": said}
    return {name: value for name, value in said.items() if name != "version"}


def _image(image: ShownImage, version: str, look: bool) -> dict[str, Any]:
    """Describe an image."""
    named = {"version": version} if version == VERSIONS[2] else {}
    axes, steps = _axes(image.source, image.how)
    computed = len(image.levels) > 1 and image.levels[-1].dataset.computed
    scales = {
        **named,
        "name": image.name,
        "axes": axes,
        "datasets": [
            {"path": str(n), "coordinateTransformations": _places(steps, times)} for n, times in enumerate(image.times)
        ],
        **({"type": "mean"} if computed else {}),
    }
    channels = omero(image) if look else None
    return {"version": version, "multiscales": [scales], **({"omero": {**channels, **named}} if channels else {})}


def _axes(array: ArrayReader, how: Arrangement) -> tuple[list[dict[str, str]], list[tuple[float, float]]]:
    """Return the axes of an image, and of each the distance of two elements and the place of the first."""
    axes, steps = [], []
    for name, group in zip(how.dims, how.axes, strict=True):
        known = array.calibration.get(array.dims[group[0]], {}) if len(group) == 1 else {}
        kind = _TYPES.get(name)
        unit = long_name(known.get("unit", ""), kind or "")
        axes.append({"name": name, **({"type": kind} if kind else {}), **({"unit": unit} if unit else {})})
        step = known.get("scale")
        ascending = step is not None and step > 0
        steps.append((abs(step) if step else 1.0, known["offset"] if ascending else 0.0))
    return axes, steps


def _places(steps: Sequence[tuple[float, float]], times: tuple[float, float]) -> list[dict[str, Any]]:
    """Say where the pixels of a level are: each in the middle of those of the finest level that it is of.

    Args:
        steps: see `_axes`.
        times: how many these are along y and x.
    """
    each = [*(1.0 for _ in steps[:-2]), *times]
    scale = [step * k for (step, _), k in zip(steps, each, strict=True)]
    moved = [first + step * (k - 1) / 2 for (step, first), k in zip(steps, each, strict=True)]
    said: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
    return [*said, {"type": "translation", "translation": moved}] if any(moved) else said
