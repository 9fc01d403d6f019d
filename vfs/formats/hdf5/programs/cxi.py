"""CXI, of diffraction and ptychography (https://www.cxidb.org/cxi.html): the data set `cxi_version` marks such a file.

entry_1/data_1/data     shown first
entry_1/…/mask          or mask_shared: a mask of pixels
"""

from __future__ import annotations

import re

from vfs.formats.hdf5.program import Found, Program
from vfs.h5.facts import Survey

_DATA = re.compile(r"entry_\d+/data_\d+/data", re.I)
_MASK = re.compile(r"entry_\d+/(.*/)?mask(_shared)?")
_BITS = 0x2FF
"""Bits of a mask that say a pixel holds no measurement: 0 invalid, 1 saturated, 2 hot, 3 dead, 4 shadowed, 5 in a mask
of peaks, 6 to be ignored, 7 bad, 9 missing. The others tell other things: 8 out of the limits of resolution, 10 noisy,
11 and 12 corrected."""


def _first(found: Found, survey: Survey) -> list[str]:
    return [name for name in found if _DATA.fullmatch(name)] if "cxi_version" in survey.data else []


def _mask_bits(name: str, survey: Survey) -> int:
    return _BITS if "cxi_version" in survey.data and _MASK.fullmatch(name) else 0


PROGRAM = Program(first=_first, mask_bits=_mask_bits)
