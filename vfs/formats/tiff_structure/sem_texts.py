"""Reads the text that electron microscopes of JEOL and Hitachi write beside an image: `NAME.txt` beside `NAME.tif`.

JEOL     lines `$CM_MAG 430`, `$$SM_WD 10.74`
Hitachi  `[SemImageFile]` and lines `Key=value`, in ASCII or UTF-16
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from vfs.errors import FormatError, SourceError
from vfs.formats.headers import exists, read_side_file
from vfs.formats.tiff_structure.instruments import as_number, sections
from vfs.formats.tiff_structure.structure import Structure
from vfs.model.metadata import DEGREES, Term, date_and_time, of_unit
from vfs.sources.names import splitext

_MAX_TEXT_BYTES = 1 << 20  # bytes of a text; a longer one says nothing
_WIDTH = 256  # the tag of TIFF 6
_JEOL = re.compile(r"\$+((?:CM|SM|EM|SEM|AN|AP)_[\w%]+)[ \t]+(\S.*?)\s*", re.ASCII)
_HITACHI = ("SemImageFile", "TemImageFile")


def beside(found: Structure) -> dict[str, Any]:
    """Return what the text beside a file says: maker -> its entries; {} if there is none of these makers."""
    name = splitext(found.path)[0] + ".txt"
    try:
        if not exists(found.sources, name) or found.sources.state(name).size > _MAX_TEXT_BYTES:
            return {}
        data = read_side_file(found.sources, name)
    except (SourceError, FormatError):
        return {}
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = data.decode("utf-16", "replace") if wide else data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    if text.lstrip().startswith(tuple(f"[{section}]" for section in _HITACHI)):
        return {"hitachi": sections(text)}
    entries = {line[1]: as_number(line[2]) for line in map(_JEOL.fullmatch, text.splitlines()) if line}
    return {"jeol_sem": entries} if "CM_MAG" in entries else {}


def hitachi_step(said: Mapping[str, Any], found: Structure) -> tuple[Any, str]:
    """Return the size of a pixel. Raises what a mapping does if the text does not say it for this width."""
    image = next(said[name] for name in _HITACHI if name in said)
    return (image["PixelSize"], "nm") if _width(image["DataSize"], "x") == found.number(_WIDTH) else (None, "")


def jeol_step(said: Mapping[str, Any], found: Structure) -> tuple[Any, str]:
    """Return the size of a pixel: the length of the bar over its pixels, which count in the full size of an image."""
    length = of_unit("m", said["SM_MICRON_MARKER"])
    full = _width(said["CM_FULL_SIZE"], " ")
    return (length and length / said["SM_MICRON_BAR"] * full / found.number(_WIDTH)), "m"


def _width(size: Any, between: str) -> int:
    return int(str(size).split(between)[0])


def _date(date: str, clock: str, said: Any) -> str | None:
    return date_and_time(said.get(date), said.get(clock)) if isinstance(said, Mapping) else None


def _volts(said: Any) -> float | None:
    return of_unit("V", str(said).replace("Volt", "V"))


def _kind(kind: str, said: Any) -> str:
    return kind


def _nth(k: int, said: Any) -> str | None:
    return parts[k] if isinstance(said, str) and len(parts := said.split()) > k else None


def _of_hitachi(section: str) -> tuple[Term, ...]:
    at = f"hitachi:{section}:"
    return (
        Term("title", f"{at}ImageName"),
        Term("sample", f"{at}SampleName"),
        Term("time", f"hitachi:{section}", take=partial(_date, "Date", "Time")),
        Term("microscope", f"{at}InstructName"),
        Term("microscope", f"{at}Instrument name"),
        Term("serial_number", f"{at}SerialNumber"),
        Term("instrument", f"hitachi:{section}", take=partial(_kind, section[:3].upper())),
        Term("beam_energy", f"{at}AcceleratingVoltage", take=_volts, zero=False),
        Term("magnification", f"{at}Magnification", zero=False),
        Term("working_distance", f"{at}WorkingDistance", take=partial(of_unit, "m"), zero=False),
        Term("stage.x", f"{at}StagePositionX", 1e-9),
        Term("stage.y", f"{at}StagePositionY", 1e-9),
        Term("detector", f"{at}SignalName"),
    )


_STAGE = (
    ("stage.x", 1e-3),
    ("stage.y", 1e-3),
    ("stage.z", 1e-3),
    ("stage.rotation", DEGREES),
    ("stage.alpha", DEGREES),
)
"""What the numbers of CM_STAGE_POS are, and their factors."""

TERMS = (
    *_of_hitachi("SemImageFile"),
    *_of_hitachi("TemImageFile"),
    Term("title", "jeol_sem:CM_TITLE"),
    Term("notes", "jeol_sem:CM_COMMENT"),
    Term("authors", "jeol_sem:CM_OPERATOR"),
    Term("time", "jeol_sem", take=partial(_date, "CM_DATE", "CM_TIME")),
    Term("microscope", "jeol_sem:CM_INSTRUMENT"),
    Term("instrument", "jeol_sem:SM_WD", take=partial(_kind, "SEM")),
    Term("beam_energy", "jeol_sem:CM_ACCEL_VOLT", 1e3, zero=False),
    Term("beam_current", "jeol_sem:SM_PROBE_CURRENT", zero=False),
    Term("magnification", "jeol_sem:CM_MAG", zero=False),
    Term("working_distance", "jeol_sem:SM_WD", 1e-3, zero=False),
    Term("scan_rotation", "jeol_sem:SM_SCAN_ROTATION", DEGREES),
    *(
        Term(name, "jeol_sem:CM_STAGE_POS", factor, take=partial(_nth, k))
        for k, (name, factor) in enumerate(
            [
                ("stage.x", 1e-3),
                ("stage.y", 1e-3),
                ("stage.z", 1e-3),
                ("stage.rotation", DEGREES),
                ("stage.alpha", DEGREES),
            ]
        )
    ),
    Term("detector", "jeol_sem:CM_DETECTOR_NAME"),
    Term("detector", "jeol_sem:CM_SIGNAL"),
)
"""What these texts say, in the vocabulary of `vfs.model.metadata`."""
