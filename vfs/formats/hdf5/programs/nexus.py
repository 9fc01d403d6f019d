"""NeXus, which facilities write, with or without groups of `NX_class`.

    default     attributes from the root on lead to an NXdata group, or to the array. Without `default`, the signals of
                all NXdata groups are equals; without NXdata, those of NXdetector groups
    signal      attribute of the group: names the array that is shown first (in older files the array has signal=1)
    axes        attribute of the group, or of the array: names vectors beside it, with attribute units
    pixel_mask  a mask of the pixels of a detector (also of Dectris and Jungfrau)

https://manual.nexusformat.org/datarules.html#find-the-plottable-data describes the first ones.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from vfs.formats.hdf5.program import Axes, Axis, Found, Program, axis_of
from vfs.h5.facts import Survey
from vfs.model.stored import NEXUS_BITS

_PIECE = re.compile(r"data_\d{6}", re.ASCII)
_MASK = re.compile(r"(.*/)?pixel_mask", re.I)
_DEEP = 10  # steps that `default` may take


def first(found: Found, survey: Survey) -> list[str]:
    groups = survey.groups
    kinds = {path: str(about.get("NX_class", "")) for path, about in groups.items()}
    roots = [""] if "default" in groups.get("", {}) else [path for path, kind in kinds.items() if kind == "NXentry"]
    inside: dict[str, list[str]] = {}  # group -> the data sets directly in it
    for name in {**survey.data, **found}:
        inside.setdefault(name.rpartition("/")[0], []).append(name)
    of: list[str] = []
    for root in roots or [""]:
        end = _default(root, survey)
        if end in survey.data or end in found:
            of.append(end)
        else:
            of += [name for path in _within(end, kinds, "NXdata") for name in _signals(path, inside, found, survey)]
    return of or [name for path in _within("", kinds, "NXdetector") for name in _signals(path, inside, found, survey)]


def _default(path: str, survey: Survey) -> str:
    """Return the path to which the attributes `default` lead from a group."""
    for _ in range(_DEEP):
        said = survey.groups[path].get("default")
        if not isinstance(said, str) or not said:
            return path
        then = posixpath.normpath(posixpath.join("/", path, said)).strip("/")
        if then not in survey.groups:
            return then if then in survey.data else path
        path = then
    return path


def _within(path: str, kinds: Mapping[str, str], kind: str) -> list[str]:
    """Return the groups of a kind in a group, itself included: those that lie highest."""
    start = f"{path}/" if path else ""
    there = [name for name, is_a in kinds.items() if is_a == kind and (name == path or name.startswith(start))]
    depth = min((name.count("/") for name in there), default=0)
    return [name for name in there if name.count("/") == depth]


def _signals(path: str, inside: Mapping[str, list[str]], found: Found, survey: Survey) -> list[str]:
    """Return the signal of an NXdata or NXdetector group. Numbered pieces may have been joined to one array `data`."""
    start = f"{path}/" if path else ""
    said = survey.groups[path].get("signal")
    said = said[0] if isinstance(said, list) and said else said
    if isinstance(said, str) and said:
        name = posixpath.normpath(posixpath.join("/", path, said)).strip("/")
        whole = f"{start}data"
        return [whole if _PIECE.fullmatch(said) and whole in found and name not in found else name]
    names = inside.get(path, [])
    marked = [name for name in names if name in survey.data and _one(survey.data[name].attrs.get("signal"))]
    pieces = [name for name in names if _PIECE.fullmatch(name.rpartition("/")[2]) and f"{start}data" not in names]
    return marked or [name for name in names if name == f"{start}data"] or pieces


def _one(value: object) -> bool:
    return str(value[0] if isinstance(value, list) and value else value).strip() == "1"


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    group, _, own = name.rpartition("/")
    about = survey.groups.get(group, {})
    data = survey.data.get(name)
    attrs = data.attrs if data else {}
    signals = [about.get("signal"), *_list(about.get("auxiliary_signals"))]
    names = _list(attrs.get("axes")) if "axes" in attrs else _list(about.get("axes")) if own in signals else []
    if not names or not shape:
        return None
    axes: list[Axis] = [Axis()] * len(shape)
    for k, axis in enumerate(names):
        at = about.get(f"{axis}_indices", k)
        if not isinstance(at, int):
            at = at[0] if isinstance(at, list) and len(at) == 1 else k
        if axis not in (".", "") and isinstance(at, int) and 0 <= at < len(shape):
            path = f"{group}/{axis}".strip("/")
            found_axis = axis_of(path, shape[at], found, survey) if path in survey.data else Axis()
            axes[at] = Axis(axis, found_axis.calibration)
    nav = {"scalar": 0, "spectrum": 1, "image": 2}.get(str(attrs.get("interpretation", about.get("interpretation"))))
    return Axes(tuple(axes), None if nav is None or nav > len(shape) else len(shape) - nav)


def _list(value: Any) -> list[str]:
    """Return the names in a list, or in a text with commas, colons or spaces between them."""
    if isinstance(value, str):
        return [part for part in re.split(r"[,:\s\[\]]+", value) if part]
    return [str(part) for part in value] if isinstance(value, list) else []


def _mask_bits(name: str, survey: Survey) -> int:
    return NEXUS_BITS if _MASK.fullmatch(name) else 0


SIGNALS = Program(
    first=first,
    never=r"(.*/)?detector[^/]*/(pixel_mask|flatfield|countrate_correction)\w*",  # NXdetector
    mask_bits=_mask_bits,
)
AXES = Program(axes=_axes)
