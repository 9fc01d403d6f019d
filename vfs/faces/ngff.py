"""Shows the images of a data set as OME-NGFF, which image viewers open: https://ngff.openmicroscopy.org/.

Version 0.5 (https://ngff.openmicroscopy.org/0.5/) is a hierarchy of zarr v3, version 0.4 (…/0.4/) one of v2. Version
0.6 (https://github.com/ome/ngff-spec/releases/tag/0.6) is one of v3, too: there the axes stand in a coordinate system,
and each level says by one transformation where it lies in it.

A set with one image is that image: the levels are `0`, `1`, … Several images are groups `0`, `1`, … of a
`bioformats2raw.layout`, each with its levels, in the order of the data set; positions that Micro-Manager calls as wells
(`A1-Site_0`) are fields of a plate, `A/1/0`. Beside them, in the group `OME`, is what the files say, as OME-XML.

Some details are there because viewers fail otherwise: only units that NGFF lists, or none; steps that are never
negative; one axis beside t, z, y and x at most.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from vfs.engine.array import ArrayReader
from vfs.engine.other_axes import Arrangement
from vfs.faces.channels import omero
from vfs.faces.face import ZarrFace
from vfs.faces.images import ShownImage
from vfs.faces.ngff_versions import NEW, OLD, USUAL
from vfs.faces.ome_xml import ome_xml
from vfs.model.units import factor, long_name

SYSTEM = "intrinsic"
"""Name of the coordinate system of an image, in version 0.6."""

_METHODS = {
    "mean": "each pixel of a level is the mean of 2 x 2 pixels below, rounded where these are integers",
    "nearest": "each pixel of a level is the first of 2 x 2 pixels below",
}
_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
_SITE = re.compile(r"([A-Z]{1,2})(\d{1,2})-Site_\d+")
"""What Micro-Manager calls a position in a well: row, column, and number of the field."""
_LOOKS = 16
"""Images of a set of which a few pixels are read, for their contrast."""


def ome_face(
    images: Iterable[ShownImage], attrs: Mapping[str, Any], zarr_format: int = 3, ngff: str = USUAL
) -> ZarrFace:
    """Make the face that shows the images of a data set.

    Of the first images a few pixels are read, so that viewers begin with their contrast.

    Args:
        images: of the set, one or more.
        attrs: attributes of the set.
        ngff: version of NGFF where `zarr_format` is 3.
    """
    found, version = list(images), ngff if zarr_format == 3 else OLD
    shown: dict[str, ArrayReader] = {}
    groups: dict[str, Mapping[str, Any]] = {}
    fields = _fields(found)
    places = [str(k) if len(found) > 1 else "" for k in range(len(found))] if fields is None else [*map(str, fields)]
    for k, (place, image) in enumerate(zip(places, found, strict=True)):
        shown |= {f"{place}/{n}".lstrip("/"): level for n, level in enumerate(image.levels)}
        groups[place] = _said(zarr_format, _image(image, version, k < _LOOKS))
    own = {name: value for name, value in attrs.items() if name == "vfs"}
    if len(found) > 1:
        plate = {} if fields is None else {"plate": _plate(fields, version)}
        groups[""] = _said(zarr_format, {"bioformats2raw.layout": 3, **plate, "version": version})
        groups["OME"] = _said(zarr_format, {"series": places, "version": version})
        for well, said in _wells(fields or (), version).items():
            groups |= {well.partition("/")[0]: {}, well: _said(zarr_format, said)}
    else:
        groups["OME"] = {}
    groups[""] = {**groups[""], **own}
    files = {"OME/METADATA.ome.xml": ome_xml(found)}
    return ZarrFace(shown, groups, zarr_format, next(iter(shown)), files)


class _WellField(NamedTuple):
    """A field of a well of a plate, whose text is its place in the hierarchy."""

    row: str
    column: str
    number: int

    def __str__(self) -> str:
        return f"{self.row}/{self.column}/{self.number}"

    @property
    def well(self) -> str:
        return f"{self.row}/{self.column}"


def _fields(images: Sequence[ShownImage]) -> list[_WellField] | None:
    """Return the fields of a plate that images are, by the names of their positions; None if they are none."""
    names = [_SITE.fullmatch(image.position) for image in images]
    if not images or None in names or len({image.source.dataset.path for image in images}) > 1:
        return None
    seen: Counter[str] = Counter()
    found = []
    for name in filter(None, names):
        field = _WellField(name[1], name[2], seen[f"{name[1]}/{name[2]}"])
        seen[field.well] += 1
        found.append(field)
    return found


def _plate(fields: Sequence[_WellField], version: str) -> dict[str, Any]:
    """Describe a plate of the wells that there are."""
    rows = sorted({field.row for field in fields}, key=lambda row: (len(row), row))
    columns = sorted({field.column for field in fields}, key=int)
    wells = list(dict.fromkeys(field[:2] for field in fields))
    return {
        "rows": [{"name": row} for row in rows],
        "columns": [{"name": column} for column in columns],
        "wells": [
            {"path": f"{row}/{column}", "rowIndex": rows.index(row), "columnIndex": columns.index(column)}
            for row, column in wells
        ],
        "field_count": max(Counter(field.well for field in fields).values()),
        **({"version": version} if version == OLD else {}),
    }


def _wells(fields: Sequence[_WellField], version: str) -> dict[str, dict[str, Any]]:
    """Describe each well of a plate, by its place."""
    found: dict[str, dict[str, Any]] = {}
    for field in fields:
        named = {"version": version} if version == OLD else {}
        well = found.setdefault(field.well, {"well": {"images": [], **named}, "version": version})
        well["well"]["images"].append({"path": str(field.number)})
    return found


def _said(zarr_format: int, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put what is said of a group where its version of NGFF has it: 0.4 names the version elsewhere."""
    if zarr_format == 3:
        return {"ome": said}
    return {name: value for name, value in said.items() if name != "version"}


def _image(image: ShownImage, version: str, look: bool) -> dict[str, Any]:
    """Describe an image."""
    named = {"version": version} if version == OLD else {}
    axes, steps = _axes(image.source, image.how, "custom" if version == NEW else "")
    places = [_places(steps, times) for times in image.times]
    said: dict[str, Any] = {"axes": axes}
    if version == NEW:
        said = {"coordinateSystems": [{"name": SYSTEM, **said}]}
        places = [[_in_system(str(n), place)] for n, place in enumerate(places)]
    scales = {
        **named,
        "name": image.name,
        **said,
        "datasets": [{"path": str(n), "coordinateTransformations": place} for n, place in enumerate(places)],
        **({"type": image.computed, "metadata": {"description": _METHODS[image.computed]}} if image.computed else {}),
    }
    channels = omero(image) if look else None
    return {"version": version, "multiscales": [scales], **({"omero": {**channels, **named}} if channels else {})}


def _in_system(path: str, steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Say where the pixels of a level are, as one transformation from its array to the coordinate system.

    Args:
        steps: those that do it, one after the other.
    """
    made = dict(steps[0]) if len(steps) == 1 else {"type": "sequence", "transformations": list(steps)}
    return {**made, "input": {"path": path}, "output": {"name": SYSTEM}}


def _axes(array: ArrayReader, how: Arrangement, other: str) -> tuple[list[dict[str, str]], list[tuple[float, float]]]:
    """Return the axes of an image, and of each the distance of two elements and the place of the first.

    Axes of space are in the unit of x where that is possible: many viewers look at the numbers only.

    Args:
        other: type of an axis that is none of time, channels and space; "": it has none.
    """
    axes, steps = [], []
    common = array.calibration.get(array.dims[how.axes[-1][0]], {}).get("unit", "")
    for name, group in zip(how.dims, how.axes, strict=True):
        known = array.calibration.get(array.dims[group[0]], {}) if len(group) == 1 else {}
        kind, said, step = _TYPES.get(name, other), known.get("unit", ""), known.get("scale")
        times = factor(said, common) if step and kind == "space" and long_name(common, kind) else None
        unit = long_name(common if times else said, kind)
        axes.append({"name": name, **({"type": kind} if kind else {}), **({"unit": unit} if unit else {})})
        ascending = step is not None and step > 0
        steps.append((abs(step) * (times or 1) if step else 1.0, known["offset"] * (times or 1) if ascending else 0.0))
    return axes, steps


def _places(steps: Sequence[tuple[float, float]], times: Sequence[float]) -> list[dict[str, Any]]:
    """Say where the pixels of a level are: each in the middle of those of the finest level that it is of.

    Args:
        steps: see `_axes`.
        times: how many these are along the last axes.
    """
    each = [*(1.0 for _ in steps[: -len(times)]), *times]
    scale = [step * k for (step, _), k in zip(steps, each, strict=True)]
    moved = [first + step * (k - 1) / 2 for (step, first), k in zip(steps, each, strict=True)]
    said: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
    return [*said, {"type": "translation", "translation": moved}] if any(moved) else said
