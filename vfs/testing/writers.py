"""Writes tiny valid files: raw, Ripple, npy and MIB.

Each function takes numpy arrays, writes the files of a set, and returns the path that names the
set. It is the shortest counterpart of its reader; nothing here is fast.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

Folder = str | os.PathLike[str]


def write_raw(
    folder: Folder,
    frames: np.ndarray,
    *,
    file_header: int = 0,
    frame_header: int = 0,
    frame_footer: int = 0,
    files: int = 1,
) -> list[Path]:
    """Write frames [n, …] as headerless files `part0.bin`, …

    Each file has as many frames, the last one the rest. Headers and footers are bytes 0xAB.
    """
    per_file = -(-len(frames) // files)
    paths = []
    for k in range(files):
        path = Path(folder) / f"part{k}.bin"
        records = (
            b"\xab" * frame_header + frame.tobytes() + b"\xab" * frame_footer
            for frame in frames[k * per_file : (k + 1) * per_file]
        )
        path.write_bytes(b"\xab" * file_header + b"".join(records))
        paths.append(path)
    return paths


def write_ripple(
    folder: Folder, array: np.ndarray, *, name: str = "map", record: str = "image", offset: int = 0, **keys: object
) -> Path:
    """Write an array as NAME.raw, and what it is as NAME.rpl.

    Args:
        array: [depth, height, width] for `record` "image", [height, width, depth] for "vector", [height, width] else.
        offset: bytes 0xAB before the first number.
        keys: further lines, with _ for - in their names: `ev_per_chan=10`. They replace the usual ones.

    Returns: path of the .rpl.
    """
    depth, height, width = {"image": (0, 1, 2), "vector": (2, 0, 1)}.get(record, (None, 0, 1))
    byte_order = "dont-care" if array.itemsize == 1 else "big-endian" if array.dtype.str[0] == ">" else "little-endian"
    lines: dict[str, object] = {
        "key": "value",
        "width": array.shape[width],
        "height": array.shape[height],
        "depth": 1 if depth is None else array.shape[depth],
        "offset": offset,
        "data_length": array.itemsize,
        "data_type": {"i": "signed", "u": "unsigned", "f": "float"}[array.dtype.kind],
        "byte_order": byte_order,
        "record_by": record,
        **keys,
    }
    (Path(folder) / f"{name}.raw").write_bytes(b"\xab" * offset + array.tobytes())
    path = Path(folder) / f"{name}.rpl"
    path.write_text("".join(f"{key.replace('_', '-')}\t{value}\n" for key, value in lines.items()), "latin1")
    return path


def write_npy(
    folder: Folder, array: np.ndarray, *, name: str = "array.npy", version: tuple[int, int] | None = None
) -> Path:
    """Write an array as one .npy file, in its memory order and byte order."""
    path = Path(folder) / name
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, version=version, allow_pickle=False)
    return path


def _mib_settings(chips: int, time: np.datetime64, exposure: int) -> list[str]:
    """Return the fields of a MIB header from the mask of the chips on to their settings.

    Args:
        exposure: in nanoseconds.
    """
    return [
        f"{(1 << chips) - 1:02X}",
        str(time)[:26].replace("T", " "),
        f"{exposure / 1e9:.6f}",
        "0",
        "0",
        "0",
        "1.200000E+1",
        "5.110000E+2",
        *["0.000000E+0"] * 6,
        *(["3RX", "175", "511", *["000"] * 25] * chips),
    ]


def write_mib(
    folder: Folder,
    frames: np.ndarray,
    *,
    kind: str = "U16",
    depth: int | None = None,
    frames_per_file: int | Sequence[int] | None = None,
    quad: bool = False,
    layout: str | None = None,
    header_bytes: int | None = None,
    extended: bool = True,
    hdr: bool = True,
    scan: tuple[int, int] | None = None,
    per_trigger: int = 1,
    first_sequence: int = 1,
    prefix: str = "scan",
    missing: Collection[int] = (),
    start: str = "2020-05-18T14:51:49.971626178",
    exposure_ns: int | Sequence[int] = 555_000,
    times_ns: Sequence[int] | None = None,
) -> Path:
    """Write frames [n, y, x] as Merlin files `scan001.mib`, … and `scan.hdr`.

    Args:
        kind: U08, U16, U32, or R64 with `depth` 1, 6, 12 or 24 (by default what fits `kind`, 12 for
            R64).
        frames_per_file: one number for all files, or one for each.
        quad: True for four chips, 2 x 2; R64 stores their sectors side by side, the lower two
            turned by 180 degrees.
        layout: as in the header, by default "1x1" or "2x2".
        header_bytes: by default 384 or 768.
        extended: True adds the last fields (time to the nanosecond, exposure, depth) of newer
            software.
        scan: (y, x), written as ScanY and ScanX.
        per_trigger: frames per trigger.
        missing: numbers of files (from 0) that are left out.
        start: time of the first frame; the others follow a millisecond apart.
        exposure_ns: one number for all frames, or one for each.
        times_ns: time of each frame behind `start`, instead.

    Returns: path of the .hdr, or of the first .mib if there is no .hdr.
    """
    folder, n = Path(folder), len(frames)
    height, width = frames.shape[1:]
    raw = kind.upper() == "R64"
    depth = depth or {"U08": 6, "U16": 12, "U32": 24, "R64": 12}[kind.upper()]
    x, y = (width * 2, height // 2) if quad and raw else (width, height)
    x *= 2 if raw and depth == 24 else 1
    chips = 4 if quad else 1
    size = header_bytes or (768 if quad else 384)
    said = [f"{size:05d}", f"{chips:02d}", f"{x:04d}", f"{y:04d}", kind, layout or ("   2x2" if quad else "   1x1")]

    def record(i: int) -> bytes:
        """Make header and pixels of a frame."""
        later = i * 1_000_000 if times_ns is None else int(times_ns[i])
        time = np.datetime64(start, "ns") + np.timedelta64(later, "ns")
        exposure = exposure_ns if isinstance(exposure_ns, int) else int(exposure_ns[i])
        fields = ["MQ1", f"{first_sequence + i:06d}", *said, *_mib_settings(chips, time, exposure)]
        fields += ["MQ1A", f"{time}Z", f"{exposure}ns", str(depth)] if extended else []
        header = (",".join(fields) + ",").encode().ljust(size, b"\0")[:size]
        return header + _mib_pixels(frames[i], kind.upper(), depth, quad)

    counts = _per_file(n, frames_per_file)
    paths, at = [], 0
    for k, count in enumerate(counts):
        path = folder / (f"{prefix}{k + 1:03d}.mib" if len(counts) > 1 else f"{prefix}.mib")
        records = [record(i) for i in range(at, min(at + count, n))]
        if k not in missing:
            path.write_bytes(b"".join(records))
        paths.append(path)
        at += count
    if not hdr:
        return next(path for k, path in enumerate(paths) if k not in missing)
    return _write_hdr(folder / f"{prefix}.hdr", depth, n, per_trigger, scan)


def _per_file(frames: int, per_file: int | Sequence[int] | None) -> list[int]:
    """Return the number of frames in each file."""
    if per_file is None:
        return [frames]
    return [per_file] * -(-frames // per_file) if isinstance(per_file, int) else list(per_file)


def _write_hdr(path: Path, depth: int, frames: int, per_trigger: int, scan: tuple[int, int] | None) -> Path:
    lines = [
        "HDR,\t",
        "Chip ID:\tW556_B4, - , - , -",
        f"Counter Depth (number):\t{depth}",
        f"Frames in Acquisition (Number):\t{frames}",
        f"Frames per Trigger (Number):\t{per_trigger}",
        *([f"ScanX:\t{scan[1]}", f"ScanY:\t{scan[0]}"] if scan else []),
        "End\t",
    ]
    path.write_text("\r\n".join(lines), encoding="latin-1", newline="")
    return path


def _mib_pixels(image: np.ndarray, kind: str, depth: int, quad: bool) -> bytes:
    if kind != "R64":
        return image.astype({"U08": "u1", "U16": ">u2", "U32": ">u4"}[kind]).tobytes()
    if depth == 24:
        return _mib_pixels(image >> 12, kind, 12, quad) + _mib_pixels(image & 0xFFF, kind, 12, quad)
    if quad:
        h, w = image.shape[0] // 2, image.shape[1] // 2
        turned = image[h:][::-1, ::-1]  # turn the lower half by 180 degrees: bottom right comes first
        image = np.concatenate([turned[:, :w], turned[:, w:], image[:h, w:], image[:h, :w]], axis=1)
    if depth == 1:
        return (
            np.packbits(image.astype(np.uint8).reshape(-1, 64), axis=1, bitorder="little")
            .view("<u8")
            .astype(">u8")
            .tobytes()
        )
    return image.astype("<u1" if depth == 6 else "<u2").reshape(-1).view("<u8").astype(">u8").tobytes()
