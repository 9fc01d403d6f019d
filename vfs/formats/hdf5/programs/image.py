"""HDF5's own convention of images (https://support.hdfgroup.org/documentation/hdf5/latest/_h5_i_m.html).

The attribute `IMAGE_SUBCLASS` marks a picture in colours, and `INTERLACE_MODE` says which axis has red, green, blue.
Thumbnails, which Velox, Imaris and TopSpin keep under one name, are never shown first.
"""

from __future__ import annotations

from collections.abc import Mapping

from vfs.formats.hdf5.program import Axes, Axis, Found, Program
from vfs.h5.facts import Survey

_COLOURS: Mapping[str, tuple[str, str, str]] = {
    "INTERLACE_PIXEL": ("", "", "s"),
    "INTERLACE_LINE": ("", "s", ""),
    "INTERLACE_PLANE": ("s", "", ""),
}
"""Mode -> names of the axes of a picture in colours; s: red, green, blue."""


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    attrs = survey.data[name].attrs if name in survey.data else {}
    names = _COLOURS.get(str(attrs.get("INTERLACE_MODE")), ())
    if attrs.get("IMAGE_SUBCLASS") != "IMAGE_TRUECOLOR" or len(shape) != len(names) or shape[names.index("s")] != 3:
        return None
    return Axes(tuple(map(Axis, names)), nav_ndim=0, picture=True)


PROGRAM = Program(axes=_axes, never=r"(.*/)?Thumbnails?([./].*)?")
