"""Says what a file tells of the channels of an image: names, colours, contrast, wavelengths, exposure.

A format's reader gathers it in the attribute `channels`, a list with an entry for each channel, and its table of terms
names that attribute: `a.metadata["channels"]`. That is what the page, OME-Zarr, napari and xarray know of channels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

_COLOUR = re.compile(r"#?([0-9a-fA-F]{6})")
_REALS = ("emission", "excitation", "exposure_time")


class Channel(TypedDict, total=False):
    """What a file says of a channel. A key is there only if the file says it.

    Attributes:
        name: name of the channel.
        colour: as what it is drawn: "#rrggbb".
        window: the numbers that are drawn black and in the full colour.
        emission, excitation: wavelengths in m.
        exposure_time: s.
    """

    name: str
    colour: str
    window: tuple[float, float]
    emission: float
    excitation: float
    exposure_time: float


def channels(entries: Any) -> tuple[Channel, ...] | None:
    """Return the channels of a list with an entry for each, of what it makes sense.

    Args:
        entries: a list of names, or of mappings with the keys of `Channel`.

    Returns: None where nothing is said of any channel.
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        return None
    found = tuple(_channel({"name": one} if isinstance(one, str) else one) for one in entries)
    return found if any(found) else None


def _channel(entry: Any) -> Channel:
    made = Channel()
    if not isinstance(entry, Mapping):
        return made
    if isinstance(name := entry.get("name"), str) and name.strip():
        made["name"] = name.strip()
    if isinstance(colour := entry.get("colour"), str) and (digits := _COLOUR.fullmatch(colour)):
        made["colour"] = f"#{digits[1].lower()}"
    if window := _window(entry.get("window")):
        made["window"] = window
    for key in _REALS:
        if (number := real(entry.get(key))) is not None and number > 0:
            made[key] = number  # type: ignore[literal-required]
    return made


def _window(entry: Any) -> tuple[float, float] | None:
    if not isinstance(entry, Sequence) or isinstance(entry, str | bytes) or len(entry) != 2:
        return None
    low, high = map(real, entry)
    return (low, high) if low is not None and high is not None and low < high else None


def real(entry: Any, factor: float = 1.0) -> float | None:
    """Return the number of an entry, or of its text, times a factor; None for what is no finite number."""
    if isinstance(entry, bool | bytes):
        return None
    try:
        number = float(entry) * factor
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
