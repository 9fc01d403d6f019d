"""Finds which arrays of an HDF5 file its program shows first, which it never does, and which are masks of pixels."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.programs import PROGRAMS
from vfs.h5.facts import Survey

_NEVER = re.compile("|".join(program.never for program in PROGRAMS if program.never), re.I)
_MASK_BITS = tuple(program.mask_bits for program in PROGRAMS if program.mask_bits)


def which_main(found: Mapping[str, StoredData], survey: Survey) -> dict[str, bool | None]:
    """Return what `StoredArray.main` says, for all data sets of a file; for those that cannot be shown, too.

    If only things are shown that nobody wants to see first, these are not marked, as they are all there is;
    but streams that Velox encodes are.

    Args:
        found: the arrays that are shown.
    """
    names = {**survey.data, **found}.keys()
    said = (program.first(found, survey) for program in PROGRAMS if program.first)
    first = next(filter(None, ({*some} & names for some in said)), set())
    encoded = {name for program in PROGRAMS if program.encoded for name in program.encoded(found)}
    never = {name for name in names if _NEVER.fullmatch(name) or _is_scale(name, survey)}
    if not found.keys() - never - encoded and not first:
        never = set()
    return {name: True if name in first else False if name in never | encoded else None for name in names}


def mask_bits(name: str, data: StoredData, survey: Survey) -> int:
    """Return what `StoredArray.mask_bits` says."""
    return max(bits(name, survey) for bits in _MASK_BITS) if data.dtype.kind in "biu" else 0


def _is_scale(name: str, survey: Survey) -> bool:
    """Return True for the positions along an axis of other arrays, as HDF5 and netCDF mark them."""
    return name in survey.data and survey.data[name].attrs.get("CLASS") == "DIMENSION_SCALE"
