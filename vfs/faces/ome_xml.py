"""Writes OME-XML that lists the images of a set, which readers of several images look for beside them.

https://docs.openmicroscopy.org/ome-model/latest/ome-xml/. It holds sizes and names only: scales and channels are in
each image.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from vfs.faces.images import ShownImage

_TYPES = {"b1": "bit", "f2": "float", "f4": "float", "f8": "double", "i8": "double", "u8": "double"}
"""Pixel types of OME where numpy has another name, and the nearest where OME has none (64-bit integers)."""
_AXES = {"z": "Z", "c": "C", "y": "Y", "x": "X"}


def ome_xml(images: Sequence[ShownImage]) -> bytes:
    """Return a document that lists images in their order. What is no axis of OME (a scan, frames) counts as time."""
    root = ElementTree.Element("OME", xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06")
    for k, image in enumerate(images):
        finest = image.levels[0]
        kind = finest.dtype.str[1:]
        sizes = dict.fromkeys("XYZCT", 1)
        for name, n in zip(image.dims, finest.shape, strict=True):
            axis = _AXES.get(name, "T")
            sizes[axis] *= n
        about = {"ID": f"Pixels:{k}", "DimensionOrder": "XYZCT", "Type": _TYPES.get(kind, finest.dtype.name)}
        shown = ElementTree.SubElement(root, "Image", ID=f"Image:{k}", Name=image.name)
        pixels = ElementTree.SubElement(shown, "Pixels", about | {f"Size{axis}": str(n) for axis, n in sizes.items()})
        ElementTree.SubElement(pixels, "MetadataOnly")
    made: bytes = ElementTree.tostring(root, encoding="ascii")
    return made
