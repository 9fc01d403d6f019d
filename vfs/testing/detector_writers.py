"""Writes tiny valid files of X-ray detectors and cameras: ADSC, CBF, SPE, and raw files of the SLS detectors."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vfs.formats.spe import HEADER as SPE_HEADER
from vfs.testing.writers import Folder

_SPE_TYPES = {
    "f4": (0, "MonochromeFloating32"),
    "i4": (1, ""),
    "i2": (2, ""),
    "u2": (3, "MonochromeUnsigned16"),
    "f8": (5, ""),
    "u1": (6, ""),
    "u4": (8, "MonochromeUnsigned32"),
}
"""dtype -> number of the type in the header, and what version 3.0 calls it."""


def byte_offset(values: np.ndarray) -> bytes:
    """Compress integers of up to 32 bits by their differences, as CBF does."""
    made = bytearray()
    for step in np.diff(values.astype(np.int64).reshape(-1), prepend=0).tolist():
        if -128 < step < 128:
            made += struct.pack("<b", step)
        elif -32768 < step < 32768:
            made += b"\x80" + struct.pack("<h", step)
        elif abs(step) < 1 << 31:
            made += b"\x80\x00\x80" + struct.pack("<i", step)
        else:
            made += b"\x80\x00\x80\x00\x00\x00\x80" + struct.pack("<q", step)
    return bytes(made)


def write_adsc(path: Path, frame: np.ndarray, **keys: object) -> Path:
    """Write a frame uint16[y, x] as an .img of ADSC's detectors: a header of text in 512 bytes, and numbers.

    Args:
        keys: of the header, instead of what it says.
    """
    height, width = frame.shape
    said = {"HEADER_BYTES": 512, "DIM": 2, "BYTE_ORDER": "little_endian", "TYPE": "unsigned_short"}
    said |= {"Data_type": "unsigned short int", "SIZE1": width, "SIZE2": height, "PIXEL_SIZE": 0.1, **keys}
    text = "{\n" + "".join(f"{key}={value};\n" for key, value in said.items()) + "}\n\f"
    path.write_bytes(text.encode().ljust(512) + frame.astype("<u2").tobytes())
    return path


def write_spe(path: Path, *regions: np.ndarray, lightfield: bool = False, metadata: int = 0, **fields: Any) -> Path:
    """Write frames [n, y, x] as an .spe file, of version 2.x or as LightField writes it (3.0).

    Args:
        regions: frames of each region of the sensor; version 2.x has one.
        metadata: bytes behind each frame, of version 3.0.
        fields: fields of the header (`vfs.formats.spe.HEADER`) that replace the usual ones.
    """
    first, frames = regions[0], len(regions[0])
    pixels = b"".join(
        b"".join(one[k].astype(one.dtype.newbyteorder("<")).tobytes() for one in regions) + bytes(metadata)
        for k in range(frames)
    )
    said = {"rows": first.shape[1], "columns": first.shape[2], "type": _SPE_TYPES[first.dtype.str[1:]][0]}
    said |= {"frames": frames, "version": 2, "_mark": 0x01234567}
    if lightfield:
        said |= {"version": 3, "xml": SPE_HEADER.itemsize + len(pixels)}
    header = np.zeros(1, SPE_HEADER)
    for name, value in (said | fields).items():
        header[name] = value
    size, kind = sum(one[0].nbytes for one in regions), _SPE_TYPES[first.dtype.str[1:]][1]
    blocks = "".join(
        f'<DataBlock type="Region" count="1" width="{one.shape[2]}" height="{one.shape[1]}" size="{one[0].nbytes}"'
        f' stride="{one[0].nbytes}" />'
        for one in regions
    )
    xml = (
        '<SpeFormat version="3.0" xmlns="http://www.princetoninstruments.com/spe/2009"><DataFormat><DataBlock'
        f' type="Frame" count="{frames}" pixelFormat="{kind}" size="{size}" stride="{size + metadata}">{blocks}'
        "</DataBlock></DataFormat></SpeFormat>"
    )
    path.write_bytes(header.tobytes() + pixels + (xml.encode() if lightfield else b""))
    return path


def write_cbf(path: Path, frame: np.ndarray, header: str = "# Pixel_size 172e-6 m x 172e-6 m", **keys: Any) -> Path:
    """Write a frame int32[y, x] as a CBF file, or frames [n, y, x] as one of several sections.

    Args:
        header: text before the pixels.
        keys: keys of the binary sections that replace the usual ones, with _ for -.
    """
    lines = ["###CBF: VERSION 1.5", "", "data_frame", "_array_data.header_contents", ";", header, ";", ""]
    sections = [_cbf_section(one, keys) for one in (frame if frame.ndim > 2 else frame[None])]
    path.write_bytes("\r\n".join(lines).encode() + b"".join(sections))
    return path


def _cbf_section(frame: np.ndarray, keys: Mapping[str, Any]) -> bytes:
    data = byte_offset(frame)
    said: dict[str, Any] = {
        "X-Binary-Size": len(data),
        "X-Binary-ID": 1,
        "X-Binary-Element-Type": '"signed 32-bit integer"',
        "X-Binary-Element-Byte-Order": "LITTLE_ENDIAN",
        "Content-MD5": base64.b64encode(hashlib.md5(data).digest()).decode(),
        "X-Binary-Number-of-Elements": frame.size,
        "X-Binary-Size-Fastest-Dimension": frame.shape[1],
        "X-Binary-Size-Second-Dimension": frame.shape[0],
        "X-Binary-Size-Padding": 1,
    }
    said |= {key.replace("_", "-"): value for key, value in keys.items()}
    lines = [
        "_array_data.data",
        ";",
        "--CIF-BINARY-FORMAT-SECTION--",
        "Content-Type: application/octet-stream;",
        '     conversions="x-CBF_BYTE_OFFSET"',
        "Content-Transfer-Encoding: BINARY",
        *(f"{key}: {value}" for key, value in said.items()),
        "",
        "",
    ]
    end = bytes(int(said["X-Binary-Size-Padding"])) + b"\r\n--CIF-BINARY-FORMAT-SECTION----\r\n;\r\n"
    return "\r\n".join(lines).encode() + b"\x0c\x1a\x04\xd5" + data + end


def write_sls(
    folder: Folder,
    frames: np.ndarray,
    modules: tuple[int, int] = (1, 1),
    *,
    detector: str = "Jungfrau",
    per_file: int = 5,
    interfaces: int | None = None,
    dropped: Mapping[int, Sequence[int]] | None = None,
    first: int = 1,
    begin_again: int = 0,
    rois: Sequence[tuple[slice, slice]] = (),
    version: float = 7.2,
    **keys: Any,
) -> Path:
    """Write frames [n, y, x] as the raw files of a run.

    Args:
        modules: modules along y and x.
        detector: name of the detector; the modules of Eiger in even rows are stored from their last row on.
        per_file: frames of a file.
        interfaces: parts of a board along y; None: the master file does not say it.
        dropped: module -> frames that it did not receive.
        first: number of the first frame.
        begin_again: frames after which numbers begin again; 0: they go on.
        rois: rows and columns that are kept, in different modules; none: all.
        version: of the master file; below 7 it is text.
        keys: keys of the master file that replace the usual ones.
    """
    lost = dropped or {}
    height, width = (n // m for n, m in zip(frames.shape[1:], modules, strict=True))
    step = (interfaces, 1) if interfaces else (1, 2) if detector == "Eiger" else (1, 1)
    places = []
    for x in range(0, modules[1], step[1]):
        for y in range(0, modules[0], step[0]):
            places += [(y + j, x + i) for j in range(step[0]) for i in range(step[1])]
    folder = Path(folder)
    for module, (y, x) in enumerate(places):
        rows, columns = slice(y * height, (y + 1) * height), slice(x * width, (x + 1) * width)
        inside = [(_common(rows, roi[0]), _common(columns, roi[1])) for roi in rois] or [(rows, columns)]
        inside = [one for one in inside if one[0].start < one[0].stop and one[1].start < one[1].stop]
        if not inside:
            continue
        rows, columns = inside[0]
        kept = [n for n in range(len(frames)) if n not in lost.get(module, ())]
        for number, begin in enumerate(range(0, len(kept), per_file)):
            content = b""
            for n in kept[begin : begin + per_file]:
                part = frames[n, rows, columns]
                part = part[::-1] if detector == "Eiger" and y % 2 == 0 else part
                content += struct.pack(
                    "<QII8x8x4H8x64s",
                    (n % begin_again if begin_again else n) + first,
                    0,
                    1,
                    module,
                    y,
                    x,
                    0,
                    b"\xff" * 64,
                )
                content += np.ascontiguousarray(part).tobytes()
            label = f"{number:012}" if version < 7 else str(number)
            (folder / f"run_d{module}_f{label}_3.raw").write_bytes(content)
    said = _sls_master(detector, modules, (height, width), frames, per_file, version)
    if rois:
        del said["Receiver Roi"]
        said["Receiver Rois"] = [
            {"xmin": x.start, "xmax": x.stop - 1, "ymin": y.start, "ymax": y.stop - 1} for y, x in rois
        ]
    return _write_master(folder, said | ({"Number of UDP Interfaces": interfaces} if interfaces else {}) | keys)


def _common(a: slice, b: slice) -> slice:
    return slice(max(a.start, b.start), min(a.stop, b.stop))


def _sls_master(
    detector: str, modules: tuple[int, int], size: tuple[int, int], frames: np.ndarray, per_file: int, version: float
) -> dict[str, Any]:
    """Return what a master file says.

    Args:
        size: rows and columns of a module.
    """
    return {
        "Version": version,
        "Detector Type": detector,
        "Timing Mode": "auto",
        "Geometry": {"x": modules[1], "y": modules[0]},
        "Image Size in bytes": size[0] * size[1] * frames.itemsize,
        "Pixels": {"x": size[1], "y": size[0]},
        "Max Frames Per File": per_file,
        "Frame Discard Policy": "nodiscard",
        "Frame Padding": 1,
        "Total Frames": len(frames),
        "Dynamic Range": 8 * frames.itemsize,
        "Receiver Roi": dict.fromkeys(("xmin", "xmax", "ymin", "ymax"), 4294967295),
        "Frames in File": len(frames),
    }


def _write_master(folder: Path, said: dict[str, Any]) -> Path:
    """Write a master file: JSON, or lines of text before version 7."""
    if said["Version"] >= 7:
        path = folder / "run_master_3.json"
        path.write_text(json.dumps(said, indent=1))
        return path
    lines = []
    for key, value in said.items():
        if isinstance(value, dict):
            if "x" not in value:
                continue
            value = f"[{value['x']}, {value['y']}]"
        lines.append(f"{key:24}: {value}\n")
    path = folder / "run_master_3.raw"
    path.write_text("".join(lines))
    return path
