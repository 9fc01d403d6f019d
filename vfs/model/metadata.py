"""What a file says of an acquisition, in one vocabulary for all formats: `a.metadata`.

A format has a table of terms beside its reader. A term is a name of the vocabulary and the entry of the format's own
metadata (`a.attrs`) that says it. A name is there only if the file says it, and nothing is computed of other entries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from vfs.model.units import factor, spelled

TEXT, COUNT, WHEN = "text", "1", "ISO 8601"

VOCABULARY: Mapping[str, str] = {
    "title": TEXT,
    "notes": TEXT,
    "authors": TEXT,
    "sample": TEXT,
    "time": WHEN,
    "microscope": TEXT,
    "manufacturer": TEXT,
    "serial_number": TEXT,
    "software": TEXT,
    "instrument": TEXT,
    "mode": TEXT,
    "beam_energy": "eV",
    "beam_current": "A",
    "convergence_angle": "rad",
    "collection_angle": "rad",
    "magnification": COUNT,
    "camera_length": "m",
    "defocus": "m",
    "spot_size": COUNT,
    "dwell_time": "s",
    "exposure_time": "s",
    "frame_time": "s",
    "live_time": "s",
    "real_time": "s",
    "scan_rotation": "rad",
    "stage.alpha": "rad",
    "stage.beta": "rad",
    "stage.rotation": "rad",
    "stage.x": "m",
    "stage.y": "m",
    "stage.z": "m",
    "detector": TEXT,
    "binning": COUNT,
    "gain": TEXT,
    "threshold_energy": "eV",
    "eds.azimuth": "rad",
    "eds.elevation": "rad",
    "spectrometer": TEXT,
    "slit_width": "eV",
    "drift_tube": "V",
}
"""Name -> unit of its value. Without a unit it is text, a plain number ("1"), or a time."""

SEVERAL = frozenset({"binning", "threshold_energy"})
"""Names whose value may be several numbers."""

_MEASURED = re.compile(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(\S*)\s*")

DEGREES = math.pi / 180
"""Factor of angles in degrees."""


class Said(NamedTuple):
    """What a file says.

    Attributes:
        value: a number, text, a time as ISO 8601 (with a zone only if the file has one), or several numbers.
        unit: of numbers; "" where they have none.
        source: the entry of the format's metadata that says it, from the outermost key inwards.
    """

    value: Any
    unit: str
    source: str


@dataclass(frozen=True)
class Term:
    """A name of the vocabulary, and where a format says it.

    Args:
        name: one of `VOCABULARY`.
        path: keys of the format's metadata, from the outermost inwards, with ":" between them. `*` stands for any key,
            and says something where all that are not empty agree.
        factor: what turns the number there into the unit of the vocabulary.
        take: what makes a value of the entry; None of one that says nothing. Without it a number or text is taken as
            it is.
        zero: True if 0 is a value; else it says that the program did not know.
    """

    name: str
    path: str
    factor: float = 1.0
    take: Callable[[Any], Any] | None = None
    zero: bool = True


def said(terms: Sequence[Term], attrs: Mapping[str, Any]) -> dict[str, Said]:
    """Return what metadata say, by names of the vocabulary.

    Of terms with one name the first that says something counts.
    """
    found: dict[str, Said] = {}
    for term in terms:
        if term.name not in found and (entry := _entry(attrs, term.path)) is not None:
            value = _value(term, entry)
            if value is not None:
                unit = VOCABULARY[term.name]
                found[term.name] = Said(value, "" if unit in (TEXT, COUNT, WHEN) else unit, term.path)
    return {name: found[name] for name in VOCABULARY if name in found}


def _entry(attrs: Any, path: str) -> Any:
    """Return the entry at a path; None where there is none, or those that `*` stands for differ."""
    first, *others = _entries(attrs, path.split(":")) or [None]
    return first if all(one == first for one in others) else None


def _entries(attrs: Any, keys: Sequence[str]) -> list[Any]:
    if not keys:
        return [attrs]
    if not isinstance(attrs, Mapping):
        return [None]
    inside = [one for one in attrs.values() if one] if keys[0] == "*" else [attrs.get(keys[0])]
    return [entry for one in inside for entry in _entries(one, keys[1:])]


def _value(term: Term, entry: Any) -> Any:
    """Return the value that an entry says; None for one that says nothing, or something else than the name means."""
    entry = term.take(entry) if term.take else entry
    unit = VOCABULARY[term.name]
    if unit in (TEXT, WHEN):
        text = str(entry).strip() if isinstance(entry, str | int | float) else ""
        return (text if unit == TEXT else _iso(text)) or None
    if term.name in SEVERAL and isinstance(entry, Sequence) and not isinstance(entry, str | bytes):
        numbers = tuple(_number(one, term.factor) for one in entry)
        return None if not numbers or None in numbers else numbers
    number = _number(entry, term.factor)
    return None if number is None or (number == 0 and not term.zero) else number


def _iso(text: str) -> str:
    """Return a time as ISO 8601, with a T before the hour; "" for text that is none."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return ""
    return text.replace(" ", "T", 1)


def _number(entry: Any, factor: float) -> float | int | None:
    try:
        number = float(entry)
    except (TypeError, ValueError):
        return None
    if isinstance(entry, bool | bytes) or not math.isfinite(number):
        return None
    return int(number * factor) if isinstance(entry, int) and factor == 1 else number * factor


def measured(entry: Any) -> float | None:
    """Return a length in metres, an angle in radians or a magnification that a text gives: `0.1 um`, `9 deg`, `8 x`."""
    found = _MEASURED.fullmatch(str(entry))
    if found is None:
        return None
    one = {"": 1.0, "x": 1.0, "deg": DEGREES}.get(found[2].lower()) or factor(spelled(found[2]), "m")
    return None if one is None else _number(found[1], one)


def of_epoch(seconds: Any) -> str | None:
    """Return the time so many seconds after 1970, in UTC; None for 0 or no number."""
    number = _number(seconds, 1.0)
    try:
        return datetime.fromtimestamp(number, UTC).isoformat() if number else None
    except (OverflowError, OSError, ValueError):
        return None


def in_form(form: str, entry: Any) -> str | None:
    """Return a time that a text gives in a form of `datetime.strptime`, as ISO 8601."""
    try:
        return datetime.strptime(str(entry).strip(), form).isoformat()
    except ValueError:
        return None
