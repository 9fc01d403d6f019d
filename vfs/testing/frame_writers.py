"""Writes tiny valid files of formats that store frame after frame: SEQ, BLO, EMPAD, TVIPS, FRMS6.

Each function takes numpy arrays, writes the files of a set, and returns the path that names the
set. It is the shortest counterpart of its reader. Gaps are filled with bytes 0xAB, so that a reader
that is off by some bytes shows them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vfs.testing.writers import Folder


def _parts(frames: np.ndarray, per_file: int | Sequence[int] | None) -> list[np.ndarray]:
    """Divide frames into files.

    Args:
        per_file: frames of each file: one number for all, or one for each; None: all in one file.
    """
    if per_file is None:
        return [frames]
    counts = [per_file] * -(-len(frames) // per_file) if isinstance(per_file, int) else list(per_file)
    return [frames[sum(counts[:k]) : sum(counts[: k + 1])] for k in range(len(counts))]


def write_seq(
    folder: Folder,
    frames: np.ndarray,
    *,
    name: str = "scan.seq",
    version: int = 5,
    record: int | None = None,
    allocated: int | None = None,
    image_format: int = 100,
    compression: int = 0,
    rate: float = 400.0,
    times: Sequence[int] | None = None,
) -> Path:
    """Write frames uint8, uint16 or uint32 [n, y, x] as a sequence.

    Frame n has the time stamp 1,600,000,000 s + n · 1.001 ms, or that of `times`, in microseconds since 1970.

    Args:
        record: bytes from image to image, by default the next multiple of 512 with room for the
            time stamp.
        allocated: number of frames in the header, by default as many as there are.
    """
    height, width = frames.shape[1:]
    size = height * width * frames.itemsize
    stride = record or -(-(size + 8) // 512) * 512
    head = struct.pack(
        "<I24sii512s", 0xFEED, "Norpix seq".encode("utf-16-le"), version, 1024, "made for a test".encode("utf-16-le")
    )
    head += struct.pack(
        "<9I",
        width,
        height,
        frames.itemsize * 8,
        frames.itemsize * 8,
        size,
        image_format,
        len(frames) if allocated is None else allocated,
        0,
        stride,
    )
    head += struct.pack("<d7iIiHH", rate, 0, 0, 0, 0, 0, 0, 0, compression, 0, 0, 0)
    records = [head.ljust(8192 if version >= 5 else 1024, b"\xab")]
    for n, frame in enumerate(frames):
        parts = (1_600_000_000 + n // 999, n % 999, n) if times is None else _split(int(times[n]))
        stamp = struct.pack("<IHH", *parts)[: 8 if version >= 5 else 6]
        records.append((frame.astype(frame.dtype.newbyteorder("<")).tobytes() + stamp).ljust(stride, b"\xab")[:stride])
    path = Path(folder) / name
    path.write_bytes(b"".join(records))
    return path


def _split(time: int) -> tuple[int, int, int]:
    """Split a time in microseconds into seconds, milliseconds and microseconds."""
    return time // 10**6, time // 1000 % 1000, time % 1000


def write_blo(
    folder: Folder,
    frames: np.ndarray,
    *,
    name: str = "scan.blo",
    big_endian: bool = False,
    stored: int | None = None,
    preview: np.ndarray | None = None,
    note: str = "",
) -> Path:
    """Write square patterns uint8 or uint16 [scan_y, scan_x, n, n] as a block file.

    Args:
        stored: number of patterns in the file, by default all.
        preview: uint8[scan_y, scan_x], by default counting up.
    """
    end = ">" if big_endian else "<"
    ny, nx, side = frames.shape[:3]
    wide = frames.itemsize == 2
    text = (note + ("\r\nBlo Bit Depth: 16 bits\r\n" if wide else "")).encode("latin1")
    first = 240 + len(text) + 7
    data = first + nx * ny + 5
    head = struct.pack(
        end + "6sHIIIHHHHHddIHId",
        b"IMGBLO",
        0x0103 if wide else 0x0102,
        first,
        data,
        131141,
        side,
        0,
        nx,
        ny,
        2500,
        1.5,
        2.5,
        200_000,
        6226,
        2000,
        42339.5,
    )
    image = (np.arange(ny * nx) % 251).astype("u1") if preview is None else preview
    body = bytearray((head + bytes(176) + text).ljust(first, b"\0") + image.tobytes() + b"\xab" * 5)
    for n, frame in enumerate(frames.reshape(-1, side, side)[: ny * nx if stored is None else stored]):
        body += b"\xaa\x55" + struct.pack(end + "I", n) + frame.astype(frame.dtype.newbyteorder(end)).tobytes()
    path = Path(folder) / name
    path.write_bytes(body)
    return path


def write_empad(
    folder: Folder,
    frames: np.ndarray,
    *,
    name: str = "scan",
    raw: str | None = None,
    xml: str | None = "acquire",
    footer: float = -1.0,
) -> Path:
    """Write frames float32 [scan_y, scan_x, 128, 128] or [n, 128, 128] as a .raw and an .xml file.

    Args:
        raw: name of the raw file, by default NAME.raw, also in the XML.
        xml: kind of the XML: "acquire" and "search" (with another scan in the other mode, which does
            not fit), "pix", "series", "series_count", "name" (only the raw file's name), or None for
            no XML.

    Returns: path of the .xml, or of the .raw if there is no .xml.
    """
    nav = frames.shape[:-2]
    raw = raw or f"{name}.raw"
    path = Path(folder) / raw
    rest = np.full((2, 128), footer, "<f4").tobytes()
    path.write_bytes(b"".join(frame.astype("<f4").tobytes() + rest for frame in frames.reshape(-1, 128, 128)))
    if xml is None:
        return path

    def scan(mode: str, y: int, x: int) -> str:
        size = f"<scan_resolution_y>{y}</scan_resolution_y><scan_resolution_x>{x}</scan_resolution_x>"
        return f'<scan_parameters mode="{mode}">{size}</scan_parameters>'

    y, x = nav if len(nav) == 2 else (1, *nav)
    inside = {
        "acquire": scan("search", y + 1, x + 1) + scan("acquire", y, x),
        "search": scan("search", y, x) + scan("acquire", y + 2, x + 3),
        "pix": f"<pix_x>{x}</pix_x><pix_y>{y}</pix_y>",
        "series": f"<type>series</type><count>{x}</count>",
        "series_count": f"<scan_parameters><series_count>{x}</series_count></scan_parameters>",
        "name": "",
    }[xml]
    view = "<full_scan_field_of_view><scale_factor>0.5</scale_factor><x>1e-8</x><y>1e-8</y></full_scan_field_of_view>"
    text = (
        '<root name="test"><raw_file'
        f' filename="C:\\data\\{raw}"/>{inside}<iom_measurements>{view}</iom_measurements></root>'
    )
    path = Path(folder) / f"{name}.xml"
    path.write_text(text)
    return path


def write_empad_g2(folder: Folder, words: np.ndarray, *, constants: np.ndarray | None = None) -> Path:
    """Write words uint32[scan_y, scan_x, 128, 128] of EMPAD's second generation as scan_xX_yY.raw.

    Args:
        constants: float32[2, 3, 128, 128], G1, B2 and G2 of both halves; written into the folder `constants`.
    """
    path = Path(folder) / f"scan_x{words.shape[1]}_y{words.shape[0]}.raw"
    path.write_bytes(words.astype("<u4").tobytes())
    if constants is not None:
        (Path(folder) / "constants").mkdir()
        for half, parts in zip("AB", constants, strict=True):
            for name, part in zip(("G1", "B2", "G2"), parts, strict=True):
                (Path(folder) / "constants" / f"{name}{half}.r32").write_bytes(part.astype("<f4").tobytes())
    return path


def write_tvips(
    folder: Folder,
    frames: np.ndarray,
    *,
    name: str = "scan",
    version: int = 2,
    header_bytes: int = 108,
    frames_per_file: int | Sequence[int] | None = None,
    scan: tuple[int, int] | None = None,
    scan_start: int = 0,
    positions: np.ndarray | None = None,
    mode: int = 2,
    times: Sequence[int] | None = None,
) -> Path:
    """Write frames uint8 or uint16 [n, y, x] as NAME_000.tvips, NAME_001.tvips, ….

    Args:
        header_bytes: of a frame header in version 2; version 1 has 12.
        scan: (y, x): from frame `scan_start` on, frame headers count positions and rotator index.
            Without it they hold 0.
        positions: [n, 2] position (y, x) in `scan` of each frame, instead.
        times: time stamp of each frame in milliseconds since 1970; without it, a second or so apart.

    Returns: path of the first file.
    """
    height, width = frames.shape[1:]
    gap = 12 if version == 1 else header_bytes
    bits, room = frames.itemsize * 8, gap if version == 2 else 0
    head = struct.pack("<13i", 256, version, width, height, bits, 0, 0, 1, 1, 15_500, 200, 80, room).ljust(256, b"T")
    n = 0
    for k, part in enumerate(_parts(frames, frames_per_file)):
        records = [head] if k == 0 else []
        for frame in part:
            at = n - scan_start
            inside = scan is not None and 0 <= at < scan[0] * scan[1]
            if positions is not None and scan is not None:
                at, inside = int(positions[n, 0] * scan[1] + positions[n, 1]), True
            y, x, turn = (
                (*divmod(at, scan[1]), at + 1) if scan and inside else (-1 if scan else 0, -1 if scan else 0, 0)
            )
            stamp = (1_600_000_000 + n, n % 1000) if times is None else divmod(int(times[n]), 1000)
            header = (
                struct.pack("<4IfII5fI", n, *stamp, 0, 23.0, 80, mode, 1, 2, 3, 4, 5, turn)
                + bytes(16)
                + struct.pack("<2f", x, y)
            )
            records.append(header.ljust(gap, b"\xab")[:gap] + frame.astype(frame.dtype.newbyteorder("<")).tobytes())
            n += 1
        (Path(folder) / f"{name}_{k:03}.tvips").write_bytes(b"".join(records))
    return Path(folder) / f"{name}_000.tvips"


def write_frms6(
    folder: Folder,
    frames: np.ndarray,
    *,
    name: str = "scan",
    binning: int = 1,
    frames_per_file: int | Sequence[int] | None = None,
    dark: np.ndarray | None = None,
    counted: bool = True,
    scan: tuple[int, int] | None = None,
    hdr: bool = True,
) -> Path:
    """Write frames uint16 [n, y, x] with even y as a pnCCD set.

    The files are NAME.hdr, NAME_000.frms6 with `dark` [m, y, x], NAME_001.frms6, ….

    Args:
        binning: value in the .hdr; frames have the rows that are stored.
        counted: True writes the number of frames into the file header, False writes 0, as older
            files have it.
        scan: stemImageSize, by default (1, n).

    Returns: path of the .hdr, or of the first file with signal if there is no .hdr.
    """
    n, y, x = frames.shape
    for k, part in enumerate([np.empty((0, y, x), "u2") if dark is None else dark, *_parts(frames, frames_per_file)]):
        if k == 0 and dark is None:
            continue
        body = bytearray(
            struct.pack(
                "<HH3xB80sHH928sI", 1024, 64, 6, b"made for a test", 2 * x, y // 2, b"", len(part) if counted else 0
            )
        )
        for m, frame in enumerate(part):
            rows = np.concatenate([frame[: y // 2], frame[y // 2 :][::-1, ::-1]], axis=1)
            body += struct.pack("<4xIII12x36s", 1_600_000_000 + m, m, m + 1, b"a frame") + rows.astype("<u2").tobytes()
        (Path(folder) / f"{name}_{k:03}.frms6").write_bytes(body)
    if not hdr:
        return Path(folder) / f"{name}_001.frms6"
    ny, nx = scan or (1, n)
    path = Path(folder) / f"{name}.hdr"
    path.write_text(
        f"[measurementInfo]\ndarkFrames={0 if dark is None else len(dark)}\nsignalFrames={n}\n"
        "dwellTimeMicroseconds=1000\ngain=1\n"
        f'stemImageSize={ny}x{nx}\nreadoutMode="bin: {binning}, windowing: {y * binning // 2} x {x}"\n'
    )
    return path
