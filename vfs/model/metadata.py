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
from functools import partial
from typing import Any, NamedTuple

from vfs.errors import VfsError
from vfs.model.channels import channels
from vfs.model.units import factor, spelled

TEXT, COUNT, WHEN, CHANNELS = "text", "1", "ISO 8601", "channels"

VOCABULARY: Mapping[str, str] = {
    "title": TEXT,
    "notes": TEXT,
    "authors": TEXT,
    "sample": TEXT,
    "elements": TEXT,
    "time": WHEN,
    "duration": "s",
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
    "working_distance": "m",
    "spot_size": COUNT,
    "dwell_time": "s",
    "exposure_time": "s",
    "frame_time": "s",
    "live_time": "s",
    "real_time": "s",
    "scan_rotation": "rad",
    "tilt_axis_angle": "rad",
    "stage.alpha": "rad",
    "stage.beta": "rad",
    "stage.rotation": "rad",
    "stage.x": "m",
    "stage.y": "m",
    "stage.z": "m",
    "detector": TEXT,
    "binning": COUNT,
    "gain": TEXT,
    "saturation": COUNT,
    "threshold_energy": "eV",
    "sensor_material": TEXT,
    "sensor_thickness": "m",
    "eds.azimuth": "rad",
    "eds.elevation": "rad",
    "eds.resolution": "eV",
    "spectrometer": TEXT,
    "slit_width": "eV",
    "drift_tube": "V",
    "wavelength": "m",
    "detector_distance": "m",
    "beam_center": "px",
    "pixel_size": "m",
    "two_theta": "rad",
    "dose": "1/m2",
    "objective.name": TEXT,
    "objective.magnification": COUNT,
    "objective.na": COUNT,
    "objective.immersion": TEXT,
    "pinhole": "m",
    "laser": "m",
    "channels": CHANNELS,
}
"""Name -> unit of its value. Without a unit it is text, a plain number ("1"), a time, or a list of channels."""

SEVERAL = frozenset({"binning", "laser", "threshold_energy", "beam_center", "pixel_size"})
"""Names whose value may be several numbers; of y and x in this order."""

_MEASURED = re.compile(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(\S*)\s*")
_NUMBERS = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_MAX_NUMBERS = 8
_PREFIXES = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "c": 1e-2, "": 1.0, "k": 1e3, "M": 1e6}
_DATE = re.compile(r"(\d+)[/.](\d+)[/.](\d{4})|(\d{4})[-/](\d+)[-/](\d+)")
_CLOCK = re.compile(r"(\d+):(\d+):(\d+)\s*([AP]M)?", re.IGNORECASE)

DEGREES = math.pi / 180
"""Factor of angles in degrees."""


class Said(NamedTuple):
    """What a file says.

    Attributes:
        value: a number, text, a time as ISO 8601 (with a zone only if the file has one), several numbers, or several
            `vfs.model.channels.Channel`.
        unit: of numbers; "" where they have none.
        source: the entry of the format's metadata that says it, from the outermost key inwards.
    """

    value: Any
    unit: str
    source: str


class Told:
    """What files say besides the attributes of an array. It is found when somebody asks, and then remembered.

    Args:
        find: finds it. What it cannot read any more is not said.
    """

    def __init__(self, find: Callable[[], Mapping[str, Any]]) -> None:
        self._find = find
        self._found: Mapping[str, Any] | None = None

    def __call__(self) -> Mapping[str, Any]:
        if self._found is None:
            try:
                self._found = self._find()
            except VfsError:
                self._found = {}
        return self._found

    def of(self, name: str) -> Told:
        """Return the part with a name, which is found with the others."""
        return Told(partial(_part, self, name))


def _part(told: Told, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = told().get(name, {})
    return found


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
        given: a path and the text that stands there, without which the entry means something else; None: it always
            means this.
    """

    name: str
    path: str
    factor: float = 1.0
    take: Callable[[Any], Any] | None = None
    zero: bool = True
    given: tuple[str, str] | None = None

    def holds(self, attrs: Mapping[str, Any]) -> bool:
        """Return True if metadata have what the term needs to mean its name."""
        return self.given is None or str(_entry(attrs, self.given[0])) == self.given[1]


def said(terms: Sequence[Term], attrs: Mapping[str, Any]) -> dict[str, Said]:
    """Return what metadata say, by names of the vocabulary.

    Of terms with one name the first that says something counts.
    """
    found: dict[str, Said] = {}
    for term in terms:
        if term.name not in found and (entry := _entry(attrs, term.path)) is not None:
            value = _value(term, entry) if term.holds(attrs) else None
            if value is not None:
                unit = VOCABULARY[term.name]
                found[term.name] = Said(value, "" if unit in (TEXT, COUNT, WHEN, CHANNELS) else unit, term.path)
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
    if unit == CHANNELS:
        return channels(entry)
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


def first_number(entry: Any) -> str | None:
    """Return the number that a text begins with: 3.0 of `3.0 s` and `(3.0, 4.0)`; None of `not set`."""
    return next(iter(numbers_of(entry)), None)


def numbers_of(entry: Any) -> list[str]:
    """Return the numbers in a text that begins with one; [] of other texts."""
    return _NUMBERS.findall(str(entry))[:_MAX_NUMBERS] if str(entry)[:1] in "0123456789+-.(" else []


def of_unit(base: str, entry: Any) -> float | None:
    """Return a number of a unit without a prefix, that a text gives with one: 15e3 of `15.00 kV` and "V"."""
    found = _MEASURED.fullmatch(str(entry))
    prefix = found[2].removesuffix(base) if found is not None and found[2].endswith(base) else None
    return None if found is None or prefix not in _PREFIXES else _number(found[1], _PREFIXES[prefix])


def date_and_time(date: Any, clock: Any) -> str | None:
    """Return the time that two texts of a program give in the order of the computer's language, as ISO 8601.

    With AM or PM the month comes first; else it counts only where one of both numbers can be no month.
    """
    day, at = _DATE.fullmatch(str(date).strip()), _CLOCK.fullmatch(str(clock).strip())
    if day is None or at is None:
        return None
    hour = int(at[1]) % 12 + 12 * (at[4].upper() == "PM") if at[4] else int(at[1])
    first, second = int(day[1] or day[5]), int(day[2] or day[6])
    month_first = day[4] is not None or at[4] is not None or second > 12 or first == second
    if not month_first and first <= 12:
        return None
    month, number = (first, second) if month_first else (second, first)
    try:
        return datetime(int(day[3] or day[4]), month, number, hour, int(at[2]), int(at[3])).isoformat()
    except ValueError:
        return None


def of_epoch(seconds: Any) -> str | None:
    """Return the time so many seconds after 1970, in UTC; None for 0 or no number."""
    number = _number(seconds, 1.0)
    try:
        return datetime.fromtimestamp(number, UTC).isoformat() if number else None
    except (OverflowError, OSError, ValueError):
        return None


def to_epoch(text: str) -> float | None:
    """Return the seconds from 1970 on of a time in ISO 8601, which is universal time where it has no zone."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def in_form(form: str, entry: Any) -> str | None:
    """Return a time that a text gives in a form of `datetime.strptime`, as ISO 8601."""
    try:
        return datetime.strptime(str(entry).strip(), form).isoformat()
    except ValueError:
        return None


def sides(entry: Any) -> int | list[int] | None:
    """Return how many pixels a text bins along each side: `2`, `2x2`, `2,1`."""
    numbers = [int(number) for number in re.findall(r"\d{1,4}", str(entry))]
    return numbers[0] if len(numbers) == 1 else numbers if len(numbers) == 2 else None
