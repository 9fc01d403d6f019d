"""Says where a beam hits an X-ray detector, and which angles its pixels have: what the page shows as 2θ, q and d."""

from __future__ import annotations

from typing import Any

from vfs.engine.array import ArrayReader
from vfs.model.metadata import Said

_NEEDED = ("beam_center", "detector_distance")


def geometry(array: ArrayReader) -> dict[str, Any] | None:
    """Return what is said of the detector that made frames [..., y, x]; None if that is too little for angles.

    Of a detector that is turned around its sample (`two_theta`), nobody knows the angles of its pixels from this.

    Returns: `centre` (y, x) in pixels; `pixel` (y, x) and `distance` in m; `wavelength` in m, or None.
    """
    dataset = array.dataset
    if array.ndim < 2 or not {term.name for term in dataset.terms} >= {*_NEEDED}:
        return None  # without asking files, of formats that never say it
    said = dataset.recorded
    centre, distance = (_positive(said.get(name)) for name in _NEEDED)
    pixel = _positive(said.get("pixel_size"))
    turned = said["two_theta"].value if "two_theta" in said else 0
    if turned or not centre or len(centre) != 2 or not distance or not pixel:
        return None
    wavelength = _positive(said.get("wavelength"))
    return {
        "centre": centre,
        "pixel": pixel * 2 if len(pixel) == 1 else pixel,
        "distance": distance[0],
        "wavelength": wavelength[0] if wavelength else None,
    }


def _positive(one: Said | None) -> list[float]:
    """Return the numbers of an entry; [] where it has none, or they are not above 0."""
    values = [] if one is None else list(one.value) if isinstance(one.value, tuple) else [one.value]
    return [float(value) for value in values] if all(value > 0 for value in values) else []
