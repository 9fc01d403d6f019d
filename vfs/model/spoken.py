"""Says what files say of an acquisition as people do: one line of what they ask first, and values with their units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vfs.model.metadata import Said
from vfs.model.units import readable, symbol


def line(recorded: Mapping[str, Said]) -> str:
    """Return what people ask first; "" if nothing is said.

    It reads `300 kV STEM, 2.1 M×, 10 µs a pixel, 2021-03-04 10:22, Titan`.
    """
    return ", ".join(_parts({name: one.value for name, one in recorded.items()}))


def _parts(said: Mapping[str, object]) -> Iterator[str]:
    energy, magnification = said.get("beam_energy"), said.get("magnification")
    beam = f"{energy / 1e3:.4g} kV" if isinstance(energy, int | float) else ""
    if kind := f"{beam} {said.get('instrument', '')}".strip():
        yield kind
    if said.get("mode") == "diffraction" and "camera_length" in said:
        yield f"camera length {_sized(said['camera_length'], 'm')}"
    elif isinstance(magnification, int | float):
        factor, prefix = next((at for at in ((1e6, " M"), (1e3, " k")) if magnification >= at[0]), (1.0, ""))
        yield f"{magnification / factor:.4g}{prefix}×"
    if "dwell_time" in said:
        yield f"{_sized(said['dwell_time'], 's')} a pixel"
    elif "exposure_time" in said:
        yield f"{_sized(said['exposure_time'], 's')} exposure"
    if "time" in said:
        yield str(said["time"])[:16].replace("T", " ")
    if "microscope" in said:
        yield str(said["microscope"])


def value(one: Said) -> str:
    """Return a value as people say it: 300 keV, 21 mrad."""
    if one.unit and isinstance(one.value, int | float):
        return _sized(one.value, one.unit)
    if not isinstance(one.value, tuple):
        return f"{one.value:.9g}" if isinstance(one.value, float) else str(one.value)
    each = [_channel(part) if isinstance(part, Mapping) else _number(part, one.unit) for part in one.value]
    return ", ".join(each)


def _number(number: float, unit: str) -> str:
    return _sized(number, unit) if unit else f"{number:g}"


def _channel(channel: Mapping[str, object]) -> str:
    """Describe a channel: `DAPI #0000ff 50 ms 353 nm to 465 nm`."""
    light = [_sized(channel[name], "m") for name in ("excitation", "emission") if name in channel]
    exposure = [_sized(channel["exposure_time"], "s")] if "exposure_time" in channel else []
    said = [str(channel.get("name", "")), str(channel.get("colour", "")), *exposure, " to ".join(light)]
    return " ".join(filter(None, said)) or "?"


def _sized(number: object, unit: str) -> str:
    assert isinstance(number, int | float)
    factor, shown = readable(abs(number), unit)
    return f"{number * factor:.6g} {symbol(shown)}"
