"""Spells units: whatever a file writes for nanometres, reciprocal ångström or seconds gets one spelling.

The known units are `m`, `s`, `eV` and `rad` with a prefix (`pm`, `um`, `mrad`, `keV`), and
`angstrom`, `inch`, `deg`, `min`, `h` and `px`; and one over each of them (`1/nm`). All are ASCII:
documents of zarr are ASCII too, and pint (xarray, HyperSpy) and UDUNITS understand them. `A` would
be ampere there, so ångström is written out.
"""

from __future__ import annotations

import math
import re
import unicodedata

_PREFIXES = {
    "f": "femto",
    "p": "pico",
    "n": "nano",
    "u": "micro",
    "m": "milli",
    "c": "centi",
    "": "",
    "k": "kilo",
    "M": "mega",
    "G": "giga",
}
_BASES = {
    "m": ("meter", "metre"),
    "s": ("second", "sec"),
    "eV": ("electronvolt", "electron volt", "electron-volt"),
    "rad": ("radian",),
}
_OTHERS = {
    "angstrom": ("å", "ang", "angström", "ångström", "ångstrom"),
    "inch": ("in", "inches"),
    "deg": ("degree", "°"),
    "min": ("minute",),
    "h": ("hour", "hr"),
    "px": ("pixel", "pix"),
    "um": ("micron",),
}
_NOTHING = {
    *("", "?", "-", "none", "null", "nan", "n/a", "unknown", "undefined", "uncalibrated", "unitless"),
    *("dimensionless", "no unit", "no units", "reference frame"),
    *("_none_", "t.undefined", "traits.undefined"),  # HyperSpy
}
_MAX_CHARACTERS = 32  # most characters of a unit that is not known; more are a text of another kind

_SYMBOLS = {prefix + base: prefix + base for prefix in _PREFIXES for base in _BASES} | {"A": "angstrom"}
_WORDS = {unit: unit for unit in _OTHERS} | {word: unit for unit, words in _OTHERS.items() for word in words}
for _prefix, _name in _PREFIXES.items():
    for _base, _words in _BASES.items():
        starts = (_name, _prefix) if _prefix.islower() else (_name,)
        _WORDS |= {start + word: _prefix + _base for word in _words for start in starts}
_WORDS |= {"ev": "eV", "kev": "keV", "gev": "GeV"}  # "mev" may be meV or MeV

KNOWN = frozenset(sign + unit for unit in {*_SYMBOLS.values(), *_WORDS.values()} for sign in ("", "1/"))
"""All units that have a spelling of their own."""

LENGTHS = frozenset({"pm", "angstrom", "nm", "um", "mm", "m"})
"""Units of scans and images."""
ENERGIES = frozenset({"eV", "keV", "meV", "MeV"})
"""Units of spectra."""
DIFFRACTION = frozenset({f"1/{unit}" for unit in LENGTHS} | {"rad", "mrad", "urad", "deg"})
"""Units of a detector that diffracted electrons or light fall on."""

_LONG = {
    "space": {prefix + "m": name + "meter" for prefix, name in _PREFIXES.items()}
    | {one: one for one in ("angstrom", "inch")},
    "time": {prefix + "s": name + "second" for prefix, name in _PREFIXES.items()} | {"min": "minute", "h": "hour"},
}

_BRACKETS = re.compile(r"\[([^][]*)\]|\(([^()]*)\)|<([^<>]*)>|\{([^{}]*)\}")
_STEP = re.compile(r"(.+)(?:/| per )\s*(?:px|pix|pixel|channel|ch|step)", re.IGNORECASE)  # nm/pixel
_OVER = re.compile(r"(?:1?\s*/|per |reciprocal |inverse )\s*(.+)", re.IGNORECASE)
_POWER = re.compile(r"(.+?)\s*(?:\^|\*\*)?\s*[-\u2212]\s*1")


def spelled(unit: object) -> str:
    """Return the one spelling of a unit.

    Args:
        unit: as a file writes it: "nm^-1", "micrometer", "[n_m]", "µm" with either code point.

    Returns: a unit of `KNOWN`; "" for what is no text or says nothing ("?", "unknown", "<undefined>");
        a unit that is not known ("K", "counts") as it is written, without blanks and brackets around it.
    """
    text = _bare(unit) if isinstance(unit, str) else ""
    plain = _plain(text)
    known = _known(plain)
    if known is None and (step := _STEP.fullmatch(plain)):
        known = _known(_bare(step[1]))
    if known is None:
        return text if len(text) <= _MAX_CHARACTERS and text.isprintable() else ""
    return known


def long_name(unit: str, kind: str) -> str:
    """Return the name that NGFF has for a unit: https://ngff.openmicroscopy.org/0.5/#axes-md.

    Args:
        unit: as `spelled` returns it.
        kind: what is measured: "space" or "time".

    Returns: "" for units that are not of this kind, or not listed there.
    """
    return _LONG.get(kind, {}).get(unit, "")


_SHOWN = {"m": {"p": -12, "n": -9, "u": -6, "m": -3, "": 0}, "s": {"n": -9, "u": -6, "m": -3, "": 0}} | {
    "eV": {"m": -3, "": 0, "k": 3},
    "rad": {"m": -3},
}
_POWERS = {"f": -15, "p": -12, "Å": -10, "n": -9, "u": -6, "m": -3, "c": -2, "": 0, "k": 3, "M": 6, "G": 9}
_CRYSTALS = 1e-3, 1e3
"""Numbers of 1/nm that are said so: patterns of crystals are 0.2 1/nm, and not 200 1/um."""


def readable(size: float, unit: str) -> tuple[float, str]:
    """Choose the unit in which people would say a size: 5.3 nm, not 5.3e-9 m or 0.0053 um. The page chooses so, too.

    Args:
        size: a number of `unit`; unit: as `spelled` returns it.

    Returns: what to multiply numbers of `unit` by, and the unit then. A size from 0.1 to 1,000 stays, and so does one
        in a unit that has no prefixes.
    """
    found = _parsed(unit)
    if found is None or not size or not math.isfinite(size):
        return 1.0, unit
    sign, own, base = found
    over = "1/" if sign < 0 else ""
    if own in _SHOWN[base].values() and 0.1 <= abs(size) < 1000:
        return 1.0, unit
    if over and base == "m" and _CRYSTALS[0] <= abs(size) * 10.0 ** -(own + 9) < _CRYSTALS[1]:
        return 10.0 ** -(own + 9), "1/nm"
    sizes = {prefix: math.log10(abs(size)) + sign * (own - power) for prefix, power in _SHOWN[base].items()}
    best = min(sizes, key=lambda prefix: max(-sizes[prefix] - 1e-9, sizes[prefix] - 3 + 1e-9, 0))
    return 10.0 ** (sign * (own - _SHOWN[base][best])), f"{over}{best}{base}"


def factor(unit: str, other: str) -> float | None:
    """Return what to multiply numbers of a unit by, so that they are of another; None if that cannot be said."""
    if unit == other:
        return 1.0
    one, two = (_parsed(text.replace("angstrom", "Åm")) for text in (unit, other))  # as if it were a prefix
    if one is None or two is None or (one[0], one[2]) != (two[0], two[2]):
        return None
    return 10.0 ** (one[0] * (one[1] - two[1]))


def _parsed(unit: str) -> tuple[int, int, str] | None:
    """Return 1, or -1 of a unit of 1/..., power of ten and base of a unit; None where it is no base with a prefix."""
    sign, plain = (-1, unit[2:]) if unit.startswith("1/") else (1, unit)
    for base in _SHOWN:
        prefix = plain.removesuffix(base)
        if plain.endswith(base) and prefix in _POWERS:
            return sign, _POWERS[prefix], base
    return None


def symbol(unit: str) -> str:
    """Return a unit as people write it: µm, Å."""
    return re.sub(r"^(1/)?u(?=(m|s|rad|eV)$)", "\\g<1>µ", unit).replace("angstrom", "Å")


def _known(text: str) -> str | None:
    """Return the spelling of a unit, or "" if it says nothing; None if it is not known."""
    whole = _alone(text)
    if whole is not None:
        return whole
    found = _OVER.fullmatch(text) or _POWER.fullmatch(re.sub(r"[(){}]", "", text))
    below = _alone(_bare(found[1])) if found else None
    return f"1/{below}" if below else below


def _bare(text: str) -> str:
    """Remove blanks, NULs and brackets around a text."""
    while True:
        text = text.strip("\0 \t\r\n")
        inside = _BRACKETS.fullmatch(text)
        if inside is None:
            return text
        text = next(part for part in inside.groups() if part is not None)


def _plain(text: str) -> str:
    """Undo what programs make of special characters; letters that look alike become one.

    ImageJ writes \\u00B5 for µ, UTF-8 that was read as Latin-1 has an Â before it, and EMD puts an
    underscore behind a prefix.
    """
    text = re.sub(r"\\u00b5", "\u03bc", text, flags=re.IGNORECASE)
    text = unicodedata.normalize("NFKC", text).replace("\u00c2", "").replace("\u03bc", "u")
    return " ".join(re.sub(r"(?<![A-Za-z])([A-Za-z])_(?=[A-Za-z])", r"\1", text).split())


def _alone(text: str) -> str | None:
    """Return what `_known` returns, of a unit that is not one over another."""
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    word = text.casefold().rstrip(".")
    return "" if word in _NOTHING else _WORDS.get(word) or _WORDS.get(word.removesuffix("s"))
