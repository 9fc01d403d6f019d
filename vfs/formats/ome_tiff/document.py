"""Parses OME-XML: the images of a set, and the pages and files of their planes.

Schema: https://www.openmicroscopy.org/Schemas/Documentation/Generated/OME-2016-06/ome.html, and
older ones back to 2003-FC, whose other names are understood. Namespaces are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError
from vfs.formats.ome_said import PER_PLANE, children, described, image_attrs, local, quantity, root_of

TYPES = {
    "bit": "u1",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "float": "f4",
    "double": "f8",
    "complex": "c8",
    "double-complex": "c16",
}
"""Pixel type -> numpy dtype that vfs shows."""

_ORDERS = {"XYZCT", "XYZTC", "XYCZT", "XYCTZ", "XYTZC", "XYTCZ"}
_MAX_AXIS = 1 << 31
_NUMBER = re.compile(r"\s*\+?[0-9]{1,15}\s*").fullmatch


@dataclass(frozen=True)
class Run:
    """Holds a TiffData element: consecutive pages with planes that are consecutive in the dimension order.

    Attributes:
        ifd: number of the first page in its file.
        count: number of pages; None if not given.
        first: z, c, t of the first plane.
        uuid, name: UUID and name of the file; "" for the file that holds the XML.
    """

    ifd: int
    count: int | None
    first: tuple[int, int, int]
    uuid: str
    name: str

    @property
    def file(self) -> tuple[str, str]:
        return self.uuid, self.name


@dataclass(frozen=True)
class Image:
    """Holds an Image element with its Pixels.

    Attributes:
        sizes: lengths along x, y, z, c, t; c counts samples.
        order: dimension order, the fastest axis first.
        type: pixel type.
        samples: samples of the first channel, 1 if not given.
        runs: runs of pages with its planes.
        attrs: name, physical sizes, channels, …
        inside: True if pixels are in the text of the document (`BinData`), which is not read.
        per_plane: names of `PER_PLANE` that are said of the first plane.
    """

    sizes: dict[str, int]
    order: str
    type: str
    samples: int
    runs: tuple[Run, ...]
    attrs: dict[str, Any]
    inside: bool = False
    per_plane: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """Holds an OME-XML document.

    Attributes:
        uuid: UUID of the file that holds it; "" if not given.
        elsewhere: the file with the metadata, if this one has only pixels; else "".
        images: the images, none if the metadata are elsewhere.
    """

    uuid: str
    elsewhere: str
    images: tuple[Image, ...]


def parse(text: str, path: str) -> Document:
    """Parse a document.

    Raises:
        FormatError: it is not OME-XML, or has impossible values.
    """
    root = root_of(text, path)
    only = next(children(root, "BinaryOnly"), None)
    if only is not None:
        return Document(root.get("UUID", ""), only.get("MetadataFile", ""), ())
    images = tuple(_image(image, pixels, path) for image, pixels in described(root))
    if not images:
        raise FormatError(f"{path}: its OME-XML describes no image")
    return Document(root.get("UUID", ""), "", images)


def _number(element: Element, path: str, *names: str) -> int | None:
    """Return the first of these attributes that an element has, as a number from 0 on; else None."""
    for name in names:
        value = element.get(name)
        if value is not None:
            if not _NUMBER(value):
                raise FormatError(
                    f"{path}: its OME-XML says {name}={value[:40]!r} of a {local(element)}, expected a number from 0 on"
                )
            return int(value)
    return None


def _image(image: Element, pixels: Element, path: str) -> Image:
    sizes = {}
    for axis in "XYZCT":
        size = _number(pixels, path, f"Size{axis}")
        if size is None or not 1 <= size < _MAX_AXIS:
            raise FormatError(
                f"{path}: its OME-XML says Size{axis}={size} of an image, expected 1 to {_MAX_AXIS - 1:,}"
            )
        sizes[axis] = size
    order = pixels.get("DimensionOrder", "XYCZT").upper()
    if order not in _ORDERS:
        raise FormatError(
            f"{path}: its OME-XML says DimensionOrder={order[:40]!r}, expected one of {', '.join(sorted(_ORDERS))}"
        )
    channels = list(children(pixels, "Channel"))
    samples = _number(channels[0], path, "SamplesPerPixel") if channels else 1
    runs = tuple(_run(data, path) for data in children(pixels, "TiffData"))
    kind = pixels.get("Type", pixels.get("PixelType", "")).lower()
    inside = next(children(pixels, "BinData"), None) is not None
    plane = next(children(pixels, "Plane"), None) if sizes["Z"] * sizes["C"] * sizes["T"] > 1 else None
    said = tuple(name for name, (what, unit) in PER_PLANE.items() if quantity(plane, what, unit) is not None)
    return Image(sizes, order, kind, max(1, samples or 1), runs, image_attrs(image, pixels), inside, said)


def _run(data: Element, path: str) -> Run:
    ifd = _number(data, path, "IFD")
    count = _number(data, path, "PlaneCount", "NumPlanes")
    if count is None and ifd is not None:
        count = 1
    z, c, t = (_number(data, path, f"First{axis}") or 0 for axis in "ZCT")
    uuid = next(children(data, "UUID"), None)
    return Run(
        ifd or 0,
        count,
        (z, c, t),
        "" if uuid is None else (uuid.text or "").strip(),
        "" if uuid is None else uuid.get("FileName", ""),
    )


def dtype_of(kind: str) -> np.dtype | None:
    """Return the dtype of a pixel type; None if it is not known."""
    return np.dtype(TYPES[kind]) if kind in TYPES else None
