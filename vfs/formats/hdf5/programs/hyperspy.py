"""HyperSpy: signals in `.hspy`, and in `.hdf5` of earlier versions.

Experiments/ID/data                     the signal: of these each is shown first
Experiments/ID/axis-0, axis-1 …         groups beside it: attributes name, scale, offset, units, navigate
Experiments/ID/metadata, original_metadata      attributes of the groups below are values: attributes of the signal
"""

from __future__ import annotations

import re
from typing import Any

from vfs.formats.hdf5.program import DEEPEST, Axes, Axis, Found, Program, axis_name, named
from vfs.h5.facts import Survey

_OF_SIGNAL = re.compile(r"(Experiments/[^/]+)/((?:original_)?metadata(?:/.*)?)")


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    group, _, own = name.rpartition("/")
    groups = [f"{group}/axis-{k}" for k in range(len(shape))] if own == "data" else []
    if not groups or not survey.groups.keys() >= {*groups}:
        return None
    axes, said = [], [survey.groups[path] for path in groups]
    for axis in said:
        known: dict[str, Any] = {"unit": axis.get("units")}
        if all(isinstance(axis.get(word), int | float) for word in ("scale", "offset")):
            known = {"scale": float(axis["scale"]), "offset": float(axis["offset"]), **known}
        axes.append(Axis(axis_name(axis.get("name")), known))
    navigate = [axis.get("navigate") for axis in said]
    nav = sum(flag is True for flag in navigate)
    told = navigate == [True] * nav + [False] * (len(shape) - nav)
    return Axes(tuple(axes), nav if told else None)


def _about(found: Found, survey: Survey) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for path, attrs in survey.groups.items():
        place = _OF_SIGNAL.fullmatch(path)
        if not place or not attrs or f"{place[1]}/data" not in found:
            continue
        names = place[2].split("/")
        if len(names) > DEEPEST:
            continue
        at = made.setdefault(f"{place[1]}/data", {})
        for name in names:
            at = at.setdefault(name, {})
            if not isinstance(at, dict):  # a value and a group with one name, which HyperSpy never writes
                break
        else:
            at.update(attrs)
    return made


PROGRAM = Program(
    first=named(re.compile(r"Experiments/[^/]+/data", re.I)),
    axes=_axes,
    about=_about,
    never=r"Experiments/[^/]+/(metadata|original_metadata|learning_results|models)/.*",
)
