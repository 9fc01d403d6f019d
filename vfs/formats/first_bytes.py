"""Says which formats a file cannot be of, by its first bytes and its name, so that these are not imported: `may_be`.

Importing the modules of all formats takes longer than opening a small file. A row here is a condition that all files
that its format claims meet (`Format.claims`), and most others do not; `tests/formats/test_first_bytes.py` holds it
against the formats. One without a row, as of another package, is imported and asked about each file.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BLANK = rb"[\xef\xbb\xbf\xff\xfe\0 \t\r\n]*"  # in front of XML, in any encoding


class _FirstBytes(NamedTuple):
    """Which files may be of a format: those that begin with a pattern, or whose names have an ending in lower case."""

    pattern: bytes
    endings: tuple[str, ...] = ()


_NEVER = rb"(?!)"
_OF_FORMATS = {
    "bioformats": _FirstBytes(
        _NEVER,
        (
            *(".1sc", ".al3d", ".am", ".amiramesh", ".avi", ".cxd", ".dcm", ".dicom", ".dv", ".htd", ".ics", ".ipl"),
            *(".ipw", ".liff", ".mnc", ".msr", ".mvd2", ".nd", ".nhdr", ".nii", ".nrrd", ".obf", ".oib", ".oif"),
            *(".oir", ".pic", ".r3d", ".sdt", ".sif", ".sm2", ".vff", ".vws", ".xdce", ".zvi"),
        ),
    ),
    "blo": _FirstBytes(rb"IMGBLO"),
    "cbf": _FirstBytes(rb"###CBF"),
    "czi": _FirstBytes(rb"ZISRAWFILE"),
    "description": _FirstBytes(rb"(\xef\xbb\xbf)?\s*\{"),
    "dm": _FirstBytes(rb"\0\0\0[\x03\x04]"),
    "ebsp": _FirstBytes(rb".\xff{7}", (".ebsp", ".uebsp")),
    "edax": _FirstBytes(_NEVER, (".up1", ".up2")),
    "edf": _FirstBytes(rb"\s*\{"),
    "eer": _FirstBytes(rb"II|MM"),
    "empad": _FirstBytes(rb"(?=.*<root)" + _BLANK + rb"<", (".raw",)),
    "fabio": _FirstBytes(
        rb"FORMAT :|\{\nHEADER_BYTES|OD SAPPH|\xd2\x04\0\0|\0\0\x04\xd2|M\0\0\0A|\\\$FFF|R-AXIS|ESPERANTO|\n\xb8\x03\0",
        (".kcd", ".mpa", ".sfrm"),
    ),
    "fits": _FirstBytes(rb"SIMPLE  ="),
    "frms6": _FirstBytes(rb"\0\x04@\0|.*\[measurementInfo\]"),
    "hdf5": _FirstBytes(rb"(.{0}|.{512}|.{1024}|.{2048})\x89H(DF|MP)\r\n\x1a\n"),
    "k2is": _FirstBytes(rb"\xff\xff\0U", (".gtg",)),
    "lif": _FirstBytes(rb"\x70\0\0\0.{4}\x2a|[< \t\r\n\xef\xff\xfe].*L\0?M\0?S\0?D\0?a\0?t\0?a\0?C"),
    "mib": _FirstBytes(rb"MQ1,|HDR,"),
    "mrc": _FirstBytes(
        rb".{208}MAP[ \0]",
        (".mrc", ".mrcs", ".map", ".st", ".ali", ".preali", ".rec", ".ccp4"),
    ),
    "nd2": _FirstBytes(rb"\xda\xce\xbe\n|\0\0\0\x0cjP  "),
    "ndtiff": _FirstBytes(_NEVER, ("ndtiff.index",)),
    "nordif": _FirstBytes(_BLANK + rb"\[NORDIF\]", ("pattern.dat",)),
    "npy": _FirstBytes(rb"\x93NUMPY"),
    "ome_tiff": _FirstBytes(rb"II|MM|" + _BLANK + rb"<.*O\0?M\0?E"),
    "raw": _FirstBytes(_NEVER),
    "ripple": _FirstBytes(rb"[^\0]*(?i:data-length|record-by|data-type)[^\0]*\Z"),
    "rosettasciio": _FirstBytes(
        _NEVER,
        (
            *(".bcf", ".spx", ".asw", ".img", ".map", ".pts", ".eds", ".elid", ".wdf", ".tvf", ".xml", ".prz", ".unf"),
            *(".sur", ".pro", ".msa", ".ems", ".mas", ".emsa", ".dens", ".csv", ".sac", ".sbc"),
            *(".jpg", ".jpeg", ".png", ".bmp"),
        ),
    ),
    "seq": _FirstBytes(rb"\xed\xfe\0\0N", (".seq.metadata",)),
    "ser": _FirstBytes(rb"II\x97\x01|JK\0\x02"),
    "sls": _FirstBytes(rb".*Detector Type"),
    "spd": _FirstBytes(rb"MAPSPECTRA_DATA"),
    "spe": _FirstBytes(rb".{2996}\x67\x45\x23\x01", (".spe",)),
    "tiff": _FirstBytes(rb"II|MM"),
    "tvips": _FirstBytes(rb"\0\x01\0\0[\x01\x02]\0\0\0", (".tvips",)),
}


def may_be(name: str, path: str, first_bytes: bytes) -> bool:
    """Return False if a format does not claim a file.

    Args:
        name: of the format.
        path: of the file, in lower case, without the ending that says how it is packed.
        first_bytes: its first bytes.
    """
    known = _OF_FORMATS.get(name)
    return known is None or path.endswith(known.endings) or re.match(known.pattern, first_bytes, re.DOTALL) is not None
