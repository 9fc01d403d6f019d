"""Small sets of SEQ with what Direct Electron's and Celeritas cameras write."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from tests.formats.frame_checks import frames_of
from tests.formats.sets import Opened
from vfs.testing.frame_writers import write_seq
from vfs.testing.suites import Written


def seq_set(folder: Path) -> Written:
    twin = frames_of((7, 5, 6), "u2")
    return write_seq(folder, twin), twin, {}


def write_reference(path: Path, image: np.ndarray) -> None:
    """A dark or gain image as Direct Electron writes it: the third number of the header is wrong."""
    height, width = image.shape
    path.write_bytes(struct.pack("<4i", width, height, 32766, 2).ljust(1024, b"\0") + image.astype("<f4").tobytes())


def write_camera(
    path: Path,
    offset: tuple[int, int] = (0, 0),
    size: tuple[int, int] = (8, 8),
    binning: int = 1,
    kind: int = 8,
    rate: float = 800.0,
) -> None:
    """The .metadata file: offset and size (y, x) in sensor pixels."""
    record = struct.pack(
        "<12id2i", 224, 1, kind, 208, 208, 16, size[1], size[0], offset[1], offset[0], binning, 12, rate, 0, 0
    )
    path.write_bytes(struct.pack("<4i", 1, 256, 1, 224).ljust(256, b"\0") + record.ljust(224, b"\0"))


def write_config(path: Path, maps: str = "", info: str = "") -> None:
    path.write_text(
        f'<?xml version="1.0"?><Configuration><BadPixels>{maps}</BadPixels><FileInfo>{info}</FileInfo></Configuration>'
    )


def write_halves(folder: Path, frames: np.ndarray, segment: int) -> list[Path]:
    """Frames [n, y, x] as a Celeritas camera writes them; n a multiple of `segment`. The lower
    halves have a record more.
    """
    rows = frames.shape[1] // 2
    top, bottom = frames[:, :rows][:, ::-1], frames[:, rows:]
    bottom = np.concatenate([bottom, np.full_like(bottom[:segment], 9)])
    paths = []
    for name, part in (("test_Top_14-13-42.780.seq", top), ("test_Bottom_14-13-42.822.seq", bottom)):
        paths.append(
            write_seq(folder, np.ascontiguousarray(part).reshape(-1, segment * rows, frames.shape[2]), name=name)
        )
    return paths


def with_side_files(folder: Path) -> Opened:
    path = seq_set(folder)[0]
    write_reference(folder / "scan.seq.dark.mrc", np.ones((5, 6), "f4"))
    write_camera(folder / "scan.seq.metadata")
    write_config(
        folder / "scan.seq.Config.Metadata.xml",
        '<BadPixelMap Rows="10" Columns="12"><Defect Row="3"/><Defect Columns="2-4" Row="1"/></BadPixelMap>',
    )
    return path, {"format": "seq"}


def halves(folder: Path) -> Opened:
    paths = write_halves(folder, frames_of((6, 4, 5), "u2"), 3)
    write_config(folder / "test.seq.Config.Metadata.xml", info='<SegmentPreBuffer Value="3"/><FrameRate Value="2000"/>')
    return paths, {"format": "seq"}
