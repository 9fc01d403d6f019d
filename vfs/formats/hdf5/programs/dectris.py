"""Dectris: masters of EIGER, ARINA and others, and what detectors of other makers write in this form (NXmx).

entry/data/data_000001 …            numbered pieces, mostly in files of their own; joined (`series`), one array is
                                    shown first, where the groups say no NX_class
entry/instrument/detector           frame_time (s), y_pixel_size, x_pixel_size (m)
…/detectorSpecific                  flat field, masks, tables of corrections; nimages, ntrigger (`series.declared`)
"""

from __future__ import annotations

import math
import re

from vfs.formats.hdf5.program import Axes, Axis, Found, Program
from vfs.formats.hdf5.small import read_small
from vfs.h5.facts import Survey

_PIECE = re.compile(r"data_\d{6}", re.ASCII)


def _first(found: Found, survey: Survey) -> list[str]:
    """Return what was joined of numbered pieces that hold frames; else such pieces, which stay apart."""
    numbered = {name for name in {**survey.data, **found} if _PIECE.fullmatch(name.rpartition("/")[2])}
    wholes = {f"{name.rpartition('/')[0]}/data".lstrip("/") for name in numbered} - survey.data.keys()
    names = [name for name in found if name in wholes] or sorted(numbered & found.keys())
    return [name for name in names if len(found[name].shape) > 1]


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    group, _, own = name.rpartition("/")
    if not re.fullmatch(r"data(_\d{6})?", own, re.ASCII) or len(shape) != 3:
        return None
    detector = f"{group.rpartition('/')[0]}/instrument/detector".lstrip("/")
    axes = []
    for about in ("frame_time", "y_pixel_size", "x_pixel_size"):
        path = f"{detector}/{about}"
        value = read_small(survey.origin, found[path]) if path in found and math.prod(found[path].shape) == 1 else None
        known = None
        if value is not None and float(value[0]) > 0:
            known = {"scale": float(value[0]), "offset": 0.0, "unit": survey.data[path].attrs.get("units")}
        axes.append(Axis("", known))
    return Axes(tuple(axes)) if any(axis.calibration for axis in axes) else None


PROGRAM = Program(first=_first, axes=_axes, never=r"(.*/)?detectorSpecific/.*")
