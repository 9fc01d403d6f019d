"""Finds the loops of an acquisition: which axes the frames of a file have, from its metadata.

The facts come from the reader in nd2 (https://github.com/tlambert03/nd2). The outermost loop comes first; a level may
hold several loops of one kind, for example stacks at several positions, of which the longest counts. Loops over
wavelengths are the channels, which each frame holds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from vfs.formats.nd2.variants import Tree, inside, values

_TIME, _POSITIONS, _STACK, _WAVELENGTHS, _OTHER, _TIMES = 1, 2, 4, 6, 7, 8
_NAMES = {_TIME: "t", _POSITIONS: "position", _STACK: "z", _OTHER: "frame", _TIMES: "t"}
_DEEPEST = 16
_MAX_FRAMES = 1 << 40  # frames


class Loop(NamedTuple):
    """A loop: the name of its axis, its number of turns, and what one turn is: scale and unit, or nothing.

    `names` has what each turn is called; () if the file says nothing.
    """

    name: str
    turns: int
    step: tuple[float, str] | None = None
    names: tuple[str, ...] = ()


def loops_of(experiment: Tree) -> list[Loop]:
    """Return the loops of an experiment, the outermost first; none if there are no frames at some turn of one."""
    found: list[Loop] = []
    level: list[Tree] = [inside(experiment, "SLxExperiment")]
    for _ in range(_DEEPEST):
        here: list[Loop] = []
        below: list[Tree] = []
        while level:
            node = level.pop(0)
            next_ones = [inside(one, "SLxExperiment") for one in values(node.get("ppNextLevelEx")) if one]
            if node.get("eType") == _WAVELENGTHS:
                level = next_ones + level
                continue
            loop = _loop(node)
            if loop is not None:
                here.append(loop)
            below += next_ones
        same = [loop for loop in here if loop.name == here[0].name]
        found += [max(same, key=lambda loop: loop.turns)] if same else []
        if not below:
            break
        level = below
    names = [loop.name for loop in found]
    named = [
        loop._replace(name=f"{loop.name}_{names[:k].count(loop.name)}") if loop.name in names[:k] else loop
        for k, loop in enumerate(found)
    ]
    return named if math.prod(loop.turns for loop in named) < _MAX_FRAMES else []


def _loop(node: Tree) -> Loop | None:
    """Return the loop of a node; None if it has no turns."""
    kind, pars = node.get("eType"), node.get("uLoopPars")
    if isinstance(pars, list) and len(pars) == 1:
        pars = pars[0]
    if not isinstance(pars, dict) or not isinstance(kind, int) or kind not in _NAMES:
        return None
    if kind == _POSITIONS:
        points = values(pars["Points"]) if "Points" in pars else values(pars.get("dPosX"))
        visited = _valid(points, node.get("pItemValid"))
        names = _names(points, values(pars.get("pPosName")))
        called = tuple(_valid(names, node.get("pItemValid"))) if any(names) else ()
        return Loop(_NAMES[kind], len(visited), names=called) if visited else None
    if kind == _TIMES:
        periods = _valid(values(pars.get("pPeriod")), pars.get("pPeriodValid"), every=False)
        total = sum(_count(one) for one in periods)
        return Loop(_NAMES[kind], total) if total else None
    count = _count(pars)
    if not count:
        return None
    step = (pars.get("dZStep"), "um") if kind == _STACK else (pars.get("dPeriod"), "ms") if kind == _TIME else (0, "")
    if kind == _STACK and not step[0] and count > 1:
        low, high = pars.get("dZLow"), pars.get("dZHigh")
        if isinstance(low, float) and isinstance(high, float):
            step = (abs(high - low) / (count - 1), "um")
    size = step[0]
    return Loop(_NAMES[kind], count, (float(size), step[1]) if isinstance(size, int | float) and size > 0 else None)


def _names(points: list[Any], beside: list[Any]) -> list[str]:
    """Return what each position is called, "" if nothing says it.

    Args:
        beside: names of all, as older files have them.
    """
    own = [point.get("dPosName") or point.get("pPosName") for point in points if isinstance(point, dict)]
    said = own if len(own) == len(points) else [*beside[: len(points)], *[""] * (len(points) - len(beside))]
    return [name if isinstance(name, str) else "" for name in said]


def _count(pars: Any) -> int:
    count = pars.get("uiCount") if isinstance(pars, dict) else 0
    return count if isinstance(count, int) and 0 < count < _MAX_FRAMES else 0


def _valid(items: list[Any], valid: Any, every: bool = True) -> list[Any]:
    """Return the items that are marked as valid. Without marks, these are all of them, or none."""
    marks = values(valid)
    if not marks:
        return items if every else []
    return [item for item, mark in zip(items, marks, strict=False) if mark]
