"""Writes tiny valid TIFF and OME-TIFF files with struct and numpy only, independent of the readers."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vfs.testing.writers import Folder

SHORT, LONG, LONG8 = 3, 4, 16
_CODES = {SHORT: "H", LONG: "I", LONG8: "Q"}
_SIZES = {1: 1, 2: 1, SHORT: 2, LONG: 4, 5: 8, 7: 1, LONG8: 8}
_FORMATS = {"u": 1, "b": 1, "i": 2, "f": 3, "c": 6}


def _packed(rows: np.ndarray, bits: int) -> bytes:
    """Pack rows [n, …] of integers into `bits` bits each, the highest bit first.

    Every row begins with a new byte.
    """
    flat = rows.reshape(len(rows), -1).astype(np.uint64)
    each = flat[:, :, None] >> np.arange(bits - 1, -1, -1, dtype=np.uint64) & np.uint64(1)
    return np.packbits(each.astype(np.uint8).reshape(len(rows), -1), axis=1).tobytes()


def write_tiff(
    path: str | Path,
    pages: Sequence[np.ndarray],
    *,
    order: Literal["<", ">"] = "<",
    big: bool = False,
    strip: int | None = None,
    tile: tuple[int, int] | None = None,
    planar: bool = False,
    bits: int | None = None,
    compression: int = 1,
    encode: Callable[[bytes], bytes] = bytes,
    description: str = "",
    smaller: Sequence[Sequence[np.ndarray]] = (),
    gap: int = 0,
    shuffled: bool = False,
    tags: Mapping[int, tuple[int, Sequence[int] | bytes, int]] | None = None,
) -> Path:
    """Write pages [y, x], [y, x, samples], or with `planar` [samples, y, x], as one TIFF file.

    Args:
        strip: rows of a strip, by default all.
        tile: (rows, columns) of a tile, filled up with 0xAB at the edges.
        bits: of a sample, by default those of the dtype; booleans are 1 bit.
        compression: the tag's value.
        encode: function that turns the bytes of a strip or tile into the stored ones.
        description: of the first page.
        smaller: for every page, the pages in its sub-directories.
        gap: bytes between strips or tiles.
        shuffled: True stores the strips or tiles of a page last to first.
        tags: more or other tags of every page, tag -> (type, values, count in the directory).
    """
    how = _How(order, big, strip, tile, planar, bits, compression, encode, gap, shuffled, dict(tags or {}))
    out = bytearray(
        (b"II" if order == "<" else b"MM")
        + (struct.pack(order + "HHHQ", 43, 8, 0, 0) if big else struct.pack(order + "HI", 42, 0))
    )
    link = 8 if big else 4
    for k, page in enumerate(pages):
        at, following = how.page(out, page, smaller[k] if smaller else (), description if k == 0 else "")
        struct.pack_into(order + how.pointer, out, link, at)
        link = following
    Path(path).write_bytes(out)
    return Path(path)


@dataclass(frozen=True)
class _How:
    """How the pages of a file are stored: see `write_tiff`."""

    order: str
    big: bool
    strip: int | None
    tile: tuple[int, int] | None
    planar: bool
    bits: int | None
    compression: int
    encode: Callable[[bytes], bytes]
    gap: int
    shuffled: bool
    tags: dict[int, tuple[int, Sequence[int] | bytes, int]]

    @property
    def pointer(self) -> str:
        return "Q" if self.big else "I"

    def width(self, page: np.ndarray) -> int:
        """Return the bits of a sample."""
        return 8 * page.itemsize if self.bits is None and page.dtype != bool else self.bits or 1

    def size(self, page: np.ndarray) -> tuple[int, int]:
        """Return height and width of a page."""
        height, columns = page.shape[1:] if self.planar else page.shape[:2]
        return height, columns

    def segments(self, page: np.ndarray) -> list[bytes]:
        """Return the stored strips or tiles of a page."""
        width = self.width(page)
        height, columns = self.size(page)
        step, across = self.tile or (self.strip or height, columns)
        found = []
        for plane in page if self.planar else [page]:
            for y, x in itertools.product(range(0, height, step), range(0, columns, across)):
                part = plane[y : y + step, x : x + across]
                if self.tile:
                    pad = [(0, step - part.shape[0]), (0, across - part.shape[1])] + [(0, 0)] * (part.ndim - 2)
                    part = np.pad(part, pad, constant_values=np.array(0xAB).astype(part.dtype))
                swapped = part.dtype.newbyteorder("<" if self.order == "<" else ">")
                found.append(self.encode(_packed(part, width) if width % 8 else part.astype(swapped).tobytes()))
        return found

    def page(self, out: bytearray, page: np.ndarray, below: Sequence[np.ndarray], description: str) -> tuple[int, int]:
        """Append a page, and the pages in its sub-directories.

        Returns: the offsets, in bytes, of its directory and of the pointer to the next one.
        """
        stored = self.segments(page)
        places = []
        for data in reversed(stored) if self.shuffled else stored:
            out.extend(b"\xcd" * (self.gap + (self.gap + len(out)) % 2))
            places.append(len(out))
            out.extend(data)
        places = places[::-1] if self.shuffled else places
        subs = [self.page(out, one, (), "")[0] for one in below]
        height, columns = self.size(page)
        samples = (page.shape[0] if self.planar else page.shape[2]) if page.ndim == 3 else 1
        number = LONG8 if self.big else LONG
        where, sizes = (324, 325) if self.tile else (273, 279)
        entries: dict[int, tuple[int, Sequence[int] | bytes]] = {
            256: (LONG, [columns]),
            257: (LONG, [height]),
            258: (SHORT, [self.width(page)] * samples),
            259: (SHORT, [self.compression]),
            262: (SHORT, [2 if samples in (3, 4) else 1]),
            where: (number, places),
            277: (SHORT, [samples]),
            sizes: (number, [len(data) for data in stored]),
            284: (SHORT, [2 if self.planar else 1]),
            339: (SHORT, [_FORMATS[page.dtype.kind]] * samples),
        }
        if self.tile:
            entries |= {322: (SHORT, [self.tile[1]]), 323: (SHORT, [self.tile[0]])}
        else:
            entries[278] = (LONG, [self.strip or height])
        if description:
            entries[270] = (2, description.encode() + b"\0")
        if subs:
            entries[330] = (number, subs)
        return self.directory(out, {tag: (kind, values, 0) for tag, (kind, values) in entries.items()} | self.tags)

    def directory(
        self, out: bytearray, entries: Mapping[int, tuple[int, Sequence[int] | bytes, int]]
    ) -> tuple[int, int]:
        """Append a directory, and the values that have no room in it. Returns what `page` returns."""
        room, table = 8 if self.big else 4, b""
        for tag, (kind, values, count) in sorted(entries.items()):
            data = values if isinstance(values, bytes) else self.packed(kind, values)
            count = count or len(data) // _SIZES[kind]
            if len(data) > room:
                out.extend(bytes(len(out) % 2))
                place = struct.pack(self.order + self.pointer, len(out))
                out.extend(data)
                data = place
            table += struct.pack(f"{self.order}HH{self.pointer}", tag, kind, count) + data.ljust(room, b"\0")
        out.extend(bytes(len(out) % 2))
        at = len(out)
        out.extend(struct.pack(self.order + ("Q" if self.big else "H"), len(entries)) + table + bytes(room))
        return at, len(out) - room

    def packed(self, kind: int, values: Sequence[int]) -> bytes:
        return struct.pack(f"{self.order}{len(values)}{_CODES[kind]}", *values)


_PIXELS = (
    'PhysicalSizeX="0.5" PhysicalSizeY="0.25" PhysicalSizeYUnit="nm" PhysicalSizeZ="2"'
    ' TimeIncrement="3" TimeIncrementUnit="ms"'
)


def ome_xml(
    sizes: Mapping[str, int],
    kind: str,
    runs: str,
    *,
    order: str = "XYZCT",
    samples: int = 1,
    uuid: str = "",
    more: str = "",
    pixels: str = _PIXELS,
) -> str:
    """Return OME-XML of one image.

    Args:
        sizes: of X, Y, Z, C, T; C counts samples.
        kind: pixel type.
        runs: its TiffData elements.
        more: further elements behind the image.
        pixels: further attributes of Pixels.
    """
    size = " ".join(f'Size{axis}="{n}"' for axis, n in sizes.items())
    channels = "".join(
        f'<Channel ID="Channel:0:{c}" Name="dye {c}" SamplesPerPixel="{samples}"/>'
        for c in range(sizes["C"] // samples)
    )
    own = f' UUID="{uuid}"' if uuid else ""
    head = f'<Pixels ID="Pixels:0" DimensionOrder="{order}" Type="{kind}" {size} {pixels}>'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"{own}>'
        f'<Image ID="Image:0" Name="cells">{head}{channels}{runs}</Pixels></Image>{more}</OME>'
    )


def _tiff_data(planes: Sequence[Mapping[str, int]], file: str, uuid: str) -> str:
    """Return the XML of planes that follow one another in a file."""
    first = " ".join(f'First{axis}="{n}"' for axis, n in planes[0].items())
    return f'<TiffData IFD="0" PlaneCount="{len(planes)}" {first}><UUID FileName="{file}">{uuid}</UUID></TiffData>'


def write_ome_tiff(
    folder: Folder,
    image: np.ndarray,
    *,
    order: str = "XYZCT",
    files: int = 1,
    describe: Literal["every", "first", "companion"] = "every",
    name: str = "set",
    said: str = "",
    **options: Any,
) -> Path:
    """Write an image [t, c, z, y, x] or [t, c, z, y, x, samples] as OME-TIFF files `set_0.ome.tif`, …

    Args:
        order: dimension order of the planes, which are spread over the files one after the other.
        describe: the files that say where the planes are: every one, only the first, or only
            `set.companion.ome`. Other files name that file.
        said: further elements of Pixels: what is said of planes.
        options: options of `write_tiff`.

    Returns: the path that names the set.
    """
    folder = Path(folder)
    samples = image.shape[5] if image.ndim == 6 else 1
    sizes = dict(zip("TCZYX", image.shape, strict=False)) | {"C": image.shape[1] * samples}
    length = {"T": image.shape[0], "C": image.shape[1], "Z": image.shape[2]}
    slow_first = order[:1:-1]
    positions = [
        dict(zip(slow_first, at, strict=True))
        for at in itertools.product(*(range(length[axis]) for axis in slow_first))
    ]
    per_file = math.ceil(len(positions) / files)
    names = [f"{name}_{k}.ome.tif" if files > 1 or describe == "companion" else f"{name}.ome.tif" for k in range(files)]
    uuids = [f"urn:uuid:00000000-0000-4000-8000-{k:012d}" for k in range(files)]
    kind = {"f4": "float", "f8": "double", "c8": "complex", "c16": "double-complex", "b1": "bit"}.get(
        image.dtype.str[1:], image.dtype.name
    )
    parts = [positions[k * per_file : (k + 1) * per_file] for k in range(files)]
    runs = "".join(
        _tiff_data(part, *one) for part, one in zip(parts, zip(names, uuids, strict=True), strict=True) if part
    )
    runs += said
    describing = f"{name}.companion.ome" if describe == "companion" else names[0]
    elsewhere = f'<BinaryOnly MetadataFile="{describing}" UUID="{uuids[0]}"/>'
    for k, (file, uuid) in enumerate(zip(names, uuids, strict=True)):
        pages = [image[at["T"], at["C"], at["Z"]] for at in parts[k]]
        if options.get("planar"):
            pages = [np.moveaxis(page, -1, 0) for page in pages]
        xml = ome_xml(sizes, kind, runs, order=order, samples=samples, uuid=uuid)
        if describe == "companion" or (describe == "first" and k):
            xml = f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{uuid}">{elsewhere}</OME>'
        write_tiff(folder / file, pages, description=xml, **options)
    if describe == "companion":
        (folder / describing).write_text(
            ome_xml(
                sizes, kind, runs, order=order, samples=samples, uuid="urn:uuid:00000000-0000-4000-8000-999999999999"
            )
        )
    return folder / describing
