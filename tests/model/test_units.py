"""One spelling of units, whatever files write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.model.units import KNOWN, factor, readable, spelled, symbol

LENGTHS = {
    "pm": ("pm", "picometer", "picometres", "[p_m]"),
    "nm": ("nm", "nanometer", "Nanometers", "nanometre", "[n_m]", "nm\0", "(nm)", " nm "),
    "um": ("um", "µm", "μm", "micron", "microns", "micrometer", "micrometre", "\\u00B5m", "Âµm", "[u_m]"),
    "mm": ("mm", "millimeter"),
    "cm": ("cm", "centimeters"),
    "m": ("m", "meter", "meters", "metre"),
    "angstrom": ("A", "Å", "\u212b", "A\u030a", "ang", "Ang.", "angstrom", "Angstrom", "angstroms", "Ångström"),
    "inch": ("in", "inch", "inches"),
    "px": ("px", "pix", "pixel", "Pixels"),
}
OTHERS = {
    "s": ("s", "sec", "seconds", "Sec."),
    "ms": ("ms", "msec", "milliseconds"),
    "us": ("us", "µs", "usec", "microseconds"),
    "ns": ("ns", "nanosecond"),
    "min": ("min", "minutes"),
    "h": ("h", "hr", "hours"),
    "eV": ("eV", "ev", "EV", "electron volts", "eV/channel", "eV/ch"),
    "keV": ("keV", "KeV", "kev", "kiloelectronvolt"),
    "meV": ("meV",),
    "MeV": ("MeV",),
    "rad": ("rad", "radians"),
    "mrad": ("mrad", "milliradian", "mrad/pixel"),
    "deg": ("deg", "degrees", "°", "Â°"),
    "": (
        "",
        " ",
        "?",
        "-",
        "[]",
        "<undefined>",
        "t.Undefined",
        "None",
        "unknown",
        "(unknown)",
        "1/?",
        "reference frame",
    ),
    "mev": ("mev",),  # milli or mega
    "K": ("K", "[K]"),
    "counts": ("counts",),
    "e-/nm^2": ("e-/nm^2",),
    "mm²": ("mm²",),
}
OVER = (
    "1/{}",
    "1 / {}",
    "/{}",
    "{}^-1",
    "{}-1",
    "{}⁻¹",
    "{}**-1",
    "{}^(-1)",
    "{}^{{-1}}",
    "1/({})",
    "[1/{}]",
    "per {}",
)


@pytest.mark.parametrize(("unit", "words"), [*LENGTHS.items(), *OTHERS.items()])
def test_spellings_of_one_unit(unit: str, words: tuple[str, ...]) -> None:
    assert {word: spelled(word) for word in words} == dict.fromkeys(words, unit)


@pytest.mark.parametrize("form", OVER)
@pytest.mark.parametrize("unit", LENGTHS)
def test_one_over_a_unit(unit: str, form: str) -> None:
    words = [word for word in LENGTHS[unit] if word.isprintable() and word == word.strip("[]() .")]
    assert {word: spelled(form.format(word)) for word in words} == dict.fromkeys(words, f"1/{unit}")


def test_one_over_one_over_is_not_guessed() -> None:
    assert spelled("1/1/nm") == "1/1/nm"


@pytest.mark.parametrize("said", [None, 5, b"nm", ["nm"], "nm\nof the scan", "a long text " * 9, "\x07"])
def test_what_is_no_unit_is_left_out(said: object) -> None:
    assert spelled(said) == ""


def test_the_known_units_are_ascii_and_spelled_so() -> None:
    assert {unit: spelled(unit) for unit in KNOWN} == dict(zip(KNOWN, KNOWN, strict=True))
    assert all(re.fullmatch(r"(1/)?[A-Za-z]+", unit) for unit in KNOWN)


@given(st.one_of(st.text(max_size=40), st.text("nmµμÅ1/^-⁻¹ _[]()<>kVersdpx°²", max_size=12)))
def test_a_spelling_is_spelled_once(text: str) -> None:
    found = spelled(text)
    assert spelled(found) == found
    assert found.isprintable()
    assert len(found) <= 32
    assert found in KNOWN or found == "" or found in text


@given(st.sampled_from(sorted(KNOWN)), st.sampled_from(("{}", " {} ", "[{}]", "({})", "{}\0", "<{}>")))
def test_known_units_survive_what_stands_around_them(unit: str, form: str) -> None:
    assert spelled(form.format(unit)) == unit


@pytest.mark.parametrize(
    ("size", "unit", "said"),
    [
        (5.3e-9, "m", "5.3 nm"),
        (0.0053, "um", "5.3 nm"),
        (1200, "nm", "1.2 µm"),
        (0.5, "nm", "0.5 nm"),
        (3, "angstrom", "3 Å"),
        (0.02, "1/nm", "0.02 1/nm"),
        (2e7, "1/m", "0.02 1/nm"),
        (0.0005, "rad", "0.5 mrad"),
        (0.001, "keV", "1 eV"),
        (10, "eV", "10 eV"),
        (2e-9, "s", "2 ns"),
        (1e-9, "px", "1e-09 px"),
        (0.0, "m", "0 m"),
    ],
)
def test_sizes_as_people_say_them(size: float, unit: str, said: str) -> None:
    times, other = readable(size, unit)
    assert f"{size * times:.6g} {symbol(other)}" == said
    assert factor(unit, other) == pytest.approx(times)


def test_what_has_no_common_unit() -> None:
    assert factor("nm", "1/nm") is factor("nm", "eV") is factor("px", "nm") is None
    assert factor("1/um", "1/nm") == pytest.approx(1e-3)
    assert (factor("angstrom", "nm"), factor("1/angstrom", "1/nm")) == (pytest.approx(0.1), pytest.approx(10))
