"""Says which formats a file cannot be of, by its first bytes and its name, so that these are not imported: `may_be`.

Importing the modules of all formats takes longer than opening a small file. A row here is a condition that all files
that its format claims meet (`Format.claims`), and most others do not; `tests/formats/test_first_look.py` holds it
against the formats. One without a row, as of another package, is imported and asked about each file.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BLANK = rb"[\xef\xbb\xbf\xff\xfe\0 \t\r\n]*"  # in front of XML, in any encoding


class _Look(NamedTuple):
    """Which files may be of a format: those that begin with a pattern, or whose names have an ending in lower case."""

    head: bytes
    endings: tuple[str, ...] = ()


_NEVER = rb"(?!)"
_LOOKS = {
    "blo": _Look(rb"IMGBLO"),
    "cbf": _Look(rb"###CBF"),
    "czi": _Look(rb"ZISRAWFILE"),
    "description": _Look(rb"(\xef\xbb\xbf)?\s*\{"),
    "dm": _Look(rb"\0\0\0[\x03\x04]"),
    "ebsp": _Look(rb".\xff{7}", (".ebsp", ".uebsp")),
    "edax": _Look(_NEVER, (".up1", ".up2")),
    "edf": _Look(rb"\s*\{"),
    "eer": _Look(rb"II|MM"),
    "empad": _Look(rb"(?=.*<root)" + _BLANK + rb"<", (".raw",)),
    "fabio": _Look(
        rb"FORMAT :|\{\nHEADER_BYTES|OD SAPPH|\xd2\x04\0\0|\0\0\x04\xd2|M\0\0\0A|\\\$FFF|R-AXIS|ESPERANTO|\n\xb8\x03\0",
        (".kcd", ".mpa", ".sfrm"),
    ),
    "fits": _Look(rb"SIMPLE  ="),
    "frms6": _Look(rb"\0\x04@\0|.*\[measurementInfo\]"),
    "hdf5": _Look(rb"(.{0}|.{512}|.{1024}|.{2048})\x89H(DF|MP)\r\n\x1a\n"),
    "k2is": _Look(rb"\xff\xff\0U", (".gtg",)),
    "lif": _Look(rb"\x70\0\0\0.{4}\x2a|[< \t\r\n\xef\xff\xfe].*L\0?M\0?S\0?D\0?a\0?t\0?a\0?C"),
    "mib": _Look(rb"MQ1,|HDR,"),
    "mrc": _Look(
        rb".{208}MAP[ \0]",
        (".mrc", ".mrcs", ".map", ".st", ".ali", ".preali", ".rec", ".ccp4"),
    ),
    "nd2": _Look(rb"\xda\xce\xbe\n|\0\0\0\x0cjP  "),
    "ndtiff": _Look(_NEVER, ("ndtiff.index",)),
    "nordif": _Look(_BLANK + rb"\[NORDIF\]", ("pattern.dat",)),
    "npy": _Look(rb"\x93NUMPY"),
    "ome_tiff": _Look(rb"II|MM|" + _BLANK + rb"<.*O\0?M\0?E"),
    "raw": _Look(_NEVER),
    "ripple": _Look(rb"[^\0]*(?i:data-length|record-by|data-type)[^\0]*\Z"),
    "rosettasciio": _Look(
        _NEVER,
        (
            *(".bcf", ".spx", ".asw", ".img", ".map", ".pts", ".eds", ".elid", ".wdf", ".tvf", ".xml", ".prz", ".unf"),
            *(".sur", ".pro", ".msa", ".ems", ".mas", ".emsa", ".dens", ".csv", ".sac", ".sbc"),
            *(".jpg", ".jpeg", ".png", ".bmp"),
        ),
    ),
    "seq": _Look(rb"\xed\xfe\0\0N", (".seq.metadata",)),
    "ser": _Look(rb"II\x97\x01|JK\0\x02"),
    "sls": _Look(rb".*Detector Type"),
    "spd": _Look(rb"MAPSPECTRA_DATA"),
    "spe": _Look(rb".{2996}\x67\x45\x23\x01", (".spe",)),
    "tiff": _Look(rb"II|MM"),
    "tvips": _Look(rb"\0\x01\0\0[\x01\x02]\0\0\0", (".tvips",)),
}


def may_be(name: str, path: str, head: bytes) -> bool:
    """Return False if a format does not claim a file.

    Args:
        name: of the format.
        path: of the file, in lower case, without the ending that says how it is packed.
        head: its first bytes.
    """
    look = _LOOKS.get(name)
    return look is None or path.endswith(look.endings) or re.match(look.head, head, re.DOTALL) is not None
