"""Attributes of arrays that the writing program keeps beside them: a name, metadata of the instrument.

HyperSpy   groups `metadata` and `original_metadata` beside `data`: attributes of the groups below are values
Nion Swift JSON: see `vfs.formats.hdf5.nion`
Velox      JSON: see `vfs.formats.hdf5.velox`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vfs.formats.hdf5 import nion, velox
from vfs.formats.hdf5.pieces import StoredData
from vfs.h5.facts import Survey

_OF_SIGNAL = re.compile(r"(Experiments/[^/]+)/((?:original_)?metadata(?:/.*)?)")


def told(found: Mapping[str, StoredData], survey: Survey) -> dict[str, dict[str, Any]]:
    """Return array -> its attributes, of those that have some."""
    return nion.about(survey) | velox.about(found, survey) | _hyperspy(found, survey)


def _hyperspy(found: Mapping[str, StoredData], survey: Survey) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for path, attrs in survey.groups.items():
        place = _OF_SIGNAL.fullmatch(path)
        if not place or not attrs or f"{place[1]}/data" not in found:
            continue
        names = place[2].split("/")
        if len(names) > velox.DEEPEST:
            continue
        at = made.setdefault(f"{place[1]}/data", {})
        for name in names:
            at = at.setdefault(name, {})
            if not isinstance(at, dict):  # a value and a group with one name, which HyperSpy never writes
                break
        else:
            at.update(attrs)
    return made
