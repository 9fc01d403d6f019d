"""What Micro-Manager says of an acquisition, in the vocabulary of `vfs.model.metadata`.

The summary is said once, at the start of a TIFF file; each plane has metadata of its own: properties of devices, such
as `Camera-Gain` of the one that `Core-Camera` names, exposures in ms, positions in µm. `display_settings.txt` beside
the index, which is JSON, says as what channels are drawn: `{"DAPI": {"Color": -13421569, "Min": 0, "Max": 4095}}`, the
colour as a signed number of opacity, red, green and blue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vfs.model.channels import Channel, real
from vfs.model.metadata import Term, sides

_MILLI, _MICRO = 1e-3, 1e-6
_STAGE = {"x": ("XPositionUm", "column"), "y": ("YPositionUm", "row"), "z": ("ZPositionUm", "z")}
"""Axis of the stage -> what a plane calls its position, and the axis of planes along which it is another one."""
_TIME = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)\s*([-+]\d\d):?(\d\d)?")
_PLAIN = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)")


def channels_of(
    values: Sequence[int | str],
    summary: Mapping[str, Any],
    drawn: Mapping[str, Any],
    planes: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return what is said of channels; none if nothing is.

    Args:
        values: names, or numbers of those in the summary.
        drawn: `display_settings.txt`.
        planes: metadata of a plane of each channel, or none.
    """
    said = summary.get("ChNames")
    known = dict(enumerate(map(str, said))) if isinstance(said, list) else {}
    names = [known.get(value, "") if isinstance(value, int) else value for value in values]
    found = [
        dict(_channel(name, drawn.get(name), planes[k] if k < len(planes) else {})) for k, name in enumerate(names)
    ]
    return found if any(found) else []


def _channel(name: str, drawn: Any, plane: Mapping[str, Any]) -> Channel:
    made = Channel()
    if name:
        made["name"] = name
    if isinstance(drawn, Mapping):
        if type(colour := drawn.get("Color")) is int:
            made["colour"] = f"#{colour & 0xFFFFFF:06x}"
        low, high = real(drawn.get("Min")), real(drawn.get("Max"))
        if low is not None and high is not None and low < high:
            made["window"] = (low, high)
    exposure = real(plane.get("Exposure"), _MILLI)
    if exposure is not None and exposure > 0:
        made["exposure_time"] = exposure
    return made


def same_for_all(
    plane: Mapping[str, Any], axes: Sequence[str], channels: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what the first plane says and all others say too: positions of the stage in µm, the exposure in ms.

    Args:
        axes: names of the axes of planes, along which the stage may have moved.
        channels: what is said of channels.
    """
    still = {
        dim: plane[name] for dim, (name, axis) in _STAGE.items() if name in plane and not {axis, "position"} & {*axes}
    }
    exposures = {one.get("exposure_time") for one in channels}
    alike = len(exposures) < 2 and "Exposure" in plane
    return {**({"stage": still} if still else {}), **({"exposure": plane["Exposure"]} if alike else {})}


def _gain(plane: Any) -> Any:
    return plane.get(f"{plane.get('Core-Camera')}-Gain") if isinstance(plane, Mapping) else None


def _time(entry: Any) -> str | None:
    text = str(entry)
    if found := _TIME.match(text):
        return f"{found[1]}-{found[2]}-{found[3]}T{found[4]}{found[5]}:{found[6] or '00'}"
    found = _PLAIN.match(text)
    return f"{found[1]}-{found[2]}-{found[3]}T{found[4]}" if found else None


TERMS = (
    Term("authors", "summary:UserName"),
    Term("time", "summary:StartTime", take=_time),
    Term("time", "first_plane:Time", take=_time),
    Term("time", "summary:DateAndTime", take=_time),
    Term("software", "summary:MicroManagerVersion"),
    Term("exposure_time", "same_for_all:exposure", _MILLI, zero=False),
    Term("stage.x", "same_for_all:stage:x", _MICRO),
    Term("stage.y", "same_for_all:stage:y", _MICRO),
    Term("stage.z", "same_for_all:stage:z", _MICRO),
    Term("detector", "first_plane:Core-Camera"),
    Term("binning", "first_plane:Binning", take=sides),
    Term("gain", "first_plane", take=_gain),
    Term("objective.name", "first_plane:Objective-Label"),
    Term("channels", "channels"),
)
"""Of the summary, the metadata of the first plane, and what is made of them here."""
