"""Writes tiny valid files of Gatan cameras and software: DM3 and DM4 with tags, K2 IS streams."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Folder = str | os.PathLike[str]
_TYPES = {
    "i2": 2,
    "i4": 3,
    "u2": 4,
    "u4": 5,
    "f4": 6,
    "f8": 7,
    "b1": 8,
    "i1": 9,
    "u1": 10,
    "i8": 11,
    "u8": 12,
    "c8": (15, 0, 2, 0, 6, 0, 6),
    "c16": (15, 0, 2, 0, 7, 0, 7),
}
DATA_TYPES = {"i2": 1, "f4": 2, "c8": 3, "u1": 6, "i4": 7, "i1": 9, "u2": 10, "u4": 11, "f8": 12, "c16": 13, "b1": 14}


def tag_bytes(value: Any, version: int = 3, order: str = "<") -> bytes:
    """Return the bytes of a value in a tag.

    Args:
        value: a group (a mapping or a list), an array, a text, a number or a record (a tuple of int).
    """
    q = ">I" if version == 3 else ">Q"
    if isinstance(value, Mapping | list):
        entries = list(value.items()) if isinstance(value, Mapping) else [("", v) for v in value]
        made = b"\1\0" + struct.pack(q, len(entries))
        for name, inner in entries:
            body = tag_bytes(inner, version, order)
            size = struct.pack(">Q", len(body)) if version == 4 else b""
            made += (
                struct.pack(">BH", 20 if isinstance(inner, Mapping | list) else 21, len(name))
                + name.encode("latin1")
                + size
                + body
            )
        return made
    if isinstance(value, tuple):
        kind: Sequence[int] = (15, 0, len(value)) + (0, 3) * len(value)
        raw = struct.pack(f"{order}{len(value)}i", *value)
    else:
        array = np.frombuffer(value.encode("utf-16-le"), "<u2") if isinstance(value, str) else np.asarray(value)
        one = _TYPES[array.dtype.str[1:]]
        kind = one if isinstance(one, tuple) else (one,)
        kind = (20, *kind, array.size) if array.ndim or isinstance(value, str) else kind
        raw = array.astype(array.dtype.newbyteorder("<" if order == "<" else ">")).tobytes()
    return b"%%%%" + struct.pack(f">{len(kind) + 1}{q[1]}", len(kind), *kind) + raw


def write_tags(path: Path, root: Mapping[str, Any], version: int = 3, order: str = "<") -> Path:
    """Write a tag file."""
    body = tag_bytes(root, version, order)
    path.write_bytes(
        struct.pack(">II" if version == 3 else ">IQ", version, len(body))
        + struct.pack(">I", order == "<")
        + body
        + bytes(8)
    )
    return path


def pairs_of(transform: np.ndarray) -> np.ndarray:
    """Return what of a transform complex64[2n, 2n] is stored in the older way: complex64[2n, n]."""
    n = len(transform) // 2
    stored = transform[:, n:].copy()
    stored[1:n, 0] = transform[n + 1 :, 0]
    stored[0, 0] = transform[n, 0].real + 1j * transform[0, 0].real
    stored[n, 0] = transform[n, n].real + 1j * transform[0, n].real
    return stored


def write_dm(
    folder: Folder,
    *images: np.ndarray,
    version: int = 3,
    order: str = "<",
    tags: Mapping[str, Any] | None = None,
    units: Sequence[str] = ("nm", "nm"),
    thumbnail: bool = True,
    colour: int = 0,
    half: bool | str = False,
    name: str = "set",
) -> Path:
    """Write images in C order, as they are to be stored, as NAME.dm3 or .dm4.

    Args:
        tags: `ImageTags` of every image.
        units: of the axes, fastest first.
        thumbnail: True puts a coloured image before the others.
        colour: data type (8 or 23) of images [y, x] of uint32.
        half: images [y, x] of complex are Fourier transforms of real images, of which the columns 0 to
            n / 2 are stored, backwards; "square": the pairs of the older way.
    """
    entries: list[dict[str, Any]] = []
    for k, array in enumerate([np.zeros((4, 4), np.uint32)] * thumbnail + list(images)):
        coloured = colour or (23 if thumbnail and k == 0 else 0)
        axes = [
            {"Origin": np.float32(2), "Scale": np.float32(0.5 * (n + 1)), "Units": units[n] if n < len(units) else ""}
            for n in range(array.ndim)
        ]
        kind = coloured or DATA_TYPES[array.dtype.str[1:]]
        shape = array.shape
        if half and not coloured:
            kind = 5 if half == "square" else 27 if kind == 3 else 28
            array = pairs_of(array).view("f4") if half == "square" else array[:, shape[1] // 2 :: -1]
        data = {
            "Calibrations": {"Dimension": axes},
            "Data": array.reshape(-1),
            "DataType": np.uint32(kind),
            "Dimensions": [np.uint32(n) for n in shape[::-1]],
            "PixelDepth": np.uint32(array.itemsize),
        }
        entries.append({"ImageData": data, "ImageTags": dict(tags or {}), "Name": f"image {k}"})
    root: dict[str, Any] = {"ApplicationBounds": (0, 0, 100, 200), "ImageList": entries}
    if thumbnail:
        root["Thumbnails"] = [{"ImageIndex": np.uint32(0)}]
    return write_tags(Path(folder) / f"{name}.dm{version}", root, version, order)


def write_k2is(
    folder: Folder,
    frames: np.ndarray,
    *,
    scan: tuple[int, int] | None = None,
    shutter: int = 0,
    first: Sequence[int] = (0,) * 8,
    last: Sequence[int] = (0,) * 8,
    first_id: int = 700,
    name: str = "set_",
) -> Path:
    """Write frames uint16[n, 1860, 2048] of 12 bits as NAME.gtg and NAME1.bin to NAME8.bin.

    Each frame has 32 blocks of 22,360 bytes in each sector.

    Args:
        scan: its size, y and x; None for a time series.
        shutter: first frame with the flag.
        first, last: number of blocks that are missing at the start and at the end of each sector.

    Returns: path of the .gtg.
    """
    for sector in range(8):
        blocks = []
        for n, frame in enumerate(frames):
            for i in range(32):
                y, x = 930 * (i // 16), 16 * (15 - i % 16)
                pixels = frame[y : y + 930, 256 * sector + x : 256 * sector + x + 16].reshape(-1, 2)
                low, high = pixels[:, 0].astype(np.uint16), pixels[:, 1].astype(np.uint16)
                packed = np.stack([low & 255, low >> 8 | (high & 15) << 4, high >> 4], axis=1).astype(np.uint8)
                count, place = 90_000 + 32 * n + i, (x, y, x + 15, y + 929)
                head = struct.pack(
                    ">II2B6xI2HI4HI", 0xFFFF0055, 0, 1, n >= shutter, count, 256, 1860, first_id + n, *place, 0x5758
                )
                blocks.append(head + packed.tobytes())
        (Path(folder) / f"{name}{sector + 1}.bin").write_bytes(
            b"".join(blocks[first[sector] : len(blocks) - last[sector]])
        )
    sizes: dict[str, Any] = {"Size X": np.uint32(scan[1]), "Size Y": np.uint32(scan[0])} if scan else {}
    return write_tags(Path(folder) / f"{name}.gtg", {"Microscope": "K2", **({"SI Dimensions": sizes} if scan else {})})
