"""Makes companions of what OME-XML says of each plane: its time, its exposure, and where the stage was.

They are read from the document when somebody asks for them: `Plane` has `TheT`, `TheC`, `TheZ`, and numbers with units.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import DecodeError, FormatError, VfsError
from vfs.formats.ome_said import PER_PLANE, children, described, quantity, root_of
from vfs.formats.ome_tiff.document import Image
from vfs.formats.ome_tiff.members import is_tiff
from vfs.formats.tiff_structure.headers import DESCRIPTION, Reader
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray

_NUMBER = re.compile(r"\s*\+?([0-9]{1,15})\s*").fullmatch


@dataclass(frozen=True)
class PlaneValues(MadeBlocks):
    """Decodes the document to what it says of the planes of an image; of planes of which it says nothing, NaN.

    Args:
        path: of the file, for messages.
        number: of the image.
        name, unit: attribute of `Plane`, and the unit that it is given in.
        samples: that each plane has; some programs count them in `TheC`.
        sizes: of the image along t, c, z.
    """

    path: str
    number: int
    name: str
    unit: str
    samples: int
    sizes: tuple[int, ...]
    dtype: np.dtype = field(default_factory=lambda: np.dtype("f8"))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        made = np.full(self.sizes, np.nan, self.dtype)
        raw = (
            data.tobytes().split(b"\0", 1)[0]
            if data[:2].tobytes() not in (b"\xff\xfe", b"\xfe\xff")
            else data.tobytes()
        )
        try:
            text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace")
            _, pixels = next(islice(described(root_of(text, self.path)), self.number, None))
        except (FormatError, StopIteration) as error:
            raise DecodeError(f"{self.path}: its OME-XML cannot be read any more: {str(error)[:200]}") from None
        for plane in children(pixels, "Plane"):
            at = self._place(plane)
            value = quantity(plane, self.name, self.unit)
            if at is not None and value is not None:
                made[at] = value
        return made.reshape(shape)

    def _place(self, plane: Element) -> tuple[int, ...] | None:
        """Return the position of a plane along t, c, z; None outside of the image."""
        found = [_NUMBER(plane.get(f"The{axis}", "0")) for axis in "TCZ"]
        t, c, z = (-1 if number is None else int(number[1]) for number in found)
        at = (t, c // self.samples if c >= self.sizes[1] else c, z)
        return at if all(0 <= k < n for k, n in zip(at, self.sizes, strict=True)) else None


def companions(sources: Sources, holder: str, number: int, image: Image, main: StoredArray) -> list[StoredArray]:
    """Make the companions of an image.

    Args:
        holder: path of the file that holds the document.
        number: of the image in the document.
        main: array of the image.
    """
    nav, dims = main.shape[:3], main.dims[:3]
    if not image.per_plane or max(nav) < 2:
        return []
    try:
        at, size = _place_of(sources, holder)
        files = Files.stat(sources, [holder])
    except VfsError:
        return []
    above = main.path.removesuffix("data")
    ones, zeros = np.array([nav], np.int64), np.zeros((1, 3), np.int64)
    table = BlockTable(zeros, ones, np.zeros(1, np.int64), np.array([at], np.int64), np.array([size], np.int64))
    made = []
    for name in image.per_plane:
        attribute, unit = PER_PLANE[name]
        decoder = PlaneValues(holder, number, attribute, unit, image.samples, nav)
        about: dict[str, Any] = {"attrs": {"unit": unit}, "companion": True, "coordinate": True, "main": False}
        layout = BlockLayout.of(nav, table, pitch=nav)
        made.append(StoredArray(above + name, files, layout, decoder, nav, dims, 3, block=nav, **about))
    return made


def _place_of(sources: Sources, path: str) -> tuple[int, int]:
    """Return where a file holds the document: its first byte, and its bytes."""
    if not is_tiff(sources, path):
        return 0, sources.state(path).size
    reader = Reader(sources, path)
    data, at, _ = reader.directory(reader.first)
    found = next(field for tag, field, _ in reader.entries(data, at) if tag == DESCRIPTION)
    return found.at, found.length
