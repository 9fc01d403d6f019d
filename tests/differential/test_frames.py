"""Generated sets of frame-by-frame formats: what LiberTEM and RosettaSciIO read of them, vfs reads
too. Where these are installed.

Left out, with the reason: 16-bit BLO and short BLO files in LiberTEM (it takes 8 bits and a whole
scan for granted), several files of TVIPS version 2 in LiberTEM (it looks for a scan beyond the end
of the first and fails), 16-bit BLO and TVIPS version 1 in RosettaSciIO (not read), paths of Windows
in EMPAD's XML (both look for them as they are written).
"""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.differential.conftest import frames_of_libertem
from tests.formats.frame_checks import frames_of, same
from vfs.testing.frame_writers import write_blo, write_empad, write_frms6, write_seq, write_tvips

pytestmark = [
    pytest.mark.filterwarnings("default"),  # theirs are not ours to mend
    pytest.mark.parametrize("seed", range(6)),
]
libertem = pytest.mark.skipif(importlib.util.find_spec("libertem") is None, reason="LiberTEM is not installed")
rosettasciio = pytest.mark.skipif(importlib.util.find_spec("rsciio") is None, reason="RosettaSciIO is not installed")


def offsets(n: int) -> tuple[int, ...]:
    return (0, 1, n // 2, -1, -(n // 2)) if n > 2 else (0,)


def agree(
    context: Any,
    kind: str,
    path: Path,
    frames: int,
    nav: tuple[int, int],
    mine: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    for offset in offsets(frames):
        ours = vfs.open(path, nav_shape=nav, sync_offset=offset, **(mine or {}))[...]
        same(
            ours,
            frames_of_libertem(context, kind, path, nav_shape=nav, sync_offset=offset, **options).astype(ours.dtype),
        )


@libertem
def test_seq(tmp_path: Path, seed: int, context: Any) -> None:
    rng = random.Random(seed)
    shape = (rng.randrange(4, 20), rng.randrange(1, 20), rng.randrange(1, 20))
    frames = frames_of(shape, rng.choice(("u1", "u2", "u4")), seed)
    path = write_seq(tmp_path, frames, version=rng.choice((3, 5)), allocated=rng.choice((None, 2, 99)))
    agree(context, "seq", path, len(frames), (2, len(frames) // 2))


@libertem
def test_blo(tmp_path: Path, seed: int, context: Any) -> None:
    rng = random.Random(seed)
    frames = frames_of((rng.randrange(1, 6), rng.randrange(1, 6), *2 * (rng.randrange(1, 20),)), "u1", seed)
    path = write_blo(tmp_path, frames)
    agree(context, "blo", path, frames.shape[0] * frames.shape[1], frames.shape[:2])


@rosettasciio
def test_blo_rosettasciio(tmp_path: Path, seed: int) -> None:
    from rsciio.blockfile import file_reader

    rng = random.Random(seed)
    ny, nx, side, big = rng.randrange(2, 6), rng.randrange(2, 6), rng.randrange(2, 20), rng.random() < 0.5
    path = write_blo(
        tmp_path, frames_of((ny, nx, side, side), "u1", seed), big_endian=big, stored=rng.choice((None, 3))
    )
    array = vfs.open(path)
    (said,) = file_reader(str(path), endianness=">" if big else "<")
    same(array[...], said["data"])
    scales = [array.attrs["calibration"][axis]["scale"] for axis in array.dims]
    assert scales == [axis["scale"] for axis in said["axes"]]


def empad(folder: Path, seed: int) -> tuple[Path, np.ndarray]:
    rng = random.Random(seed)
    nav = (rng.randrange(2, 5), rng.randrange(2, 5)) if seed % 2 else (rng.randrange(2, 9),)
    frames = frames_of((*nav, 128, 128), "f4", seed)
    raw = f"scan_x{nav[1]}_y{nav[0]}.raw" if seed % 2 else "series.raw"
    path = write_empad(folder, frames, raw=raw, xml="acquire" if seed % 2 else "series")
    path.write_text(path.read_text().replace("C:\\data\\", ""))
    return path, frames


@libertem
def test_empad(tmp_path: Path, seed: int, context: Any) -> None:
    path, frames = empad(tmp_path, seed)
    same(vfs.open(path)[...], frames_of_libertem(context, "empad", path))
    n = frames.size >> 14
    agree(context, "empad", path, n, (1, n))


@rosettasciio
def test_empad_rosettasciio(tmp_path: Path, seed: int) -> None:
    from rsciio.empad import file_reader

    path, _ = empad(tmp_path, seed)
    series = re.sub(
        r"<type>series</type><count>(\d+)</count>",
        r"<scan_parameters><series_count>\1</series_count></scan_parameters>",
        path.read_text(),
    )
    path.write_text(series)  # the kind of series that it reads
    array = vfs.open(path)
    (said,) = file_reader(str(path))
    same(array[...], said["data"])
    if array.ndim == 4:
        scale = {"pm": 1e-12, "nm": 1e-9, "µm": 1e-6}
        assert array.attrs["calibration"]["scan_x"]["scale"] == pytest.approx(
            said["axes"][1]["scale"] * scale[said["axes"][1]["units"]]
        )


@libertem
def test_tvips(tmp_path: Path, seed: int, context: Any) -> None:
    rng = random.Random(seed)
    frames = frames_of(
        (rng.randrange(6, 20), rng.randrange(1, 20), rng.randrange(1, 20)), rng.choice(("u1", "u2")), seed
    )
    version = rng.choice((1, 2))
    path = write_tvips(
        tmp_path,
        frames,
        version=version,
        header_bytes=rng.choice((108, 256)),
        frames_per_file=4 if version == 1 else None,
    )
    agree(context, "tvips", path, len(frames), (2, len(frames) // 2))


@libertem
def test_the_scan_of_tvips(tmp_path: Path, seed: int, context: Any) -> None:
    rng = random.Random(seed)
    scan, start = (rng.randrange(2, 6), rng.randrange(2, 6)), rng.randrange(4)
    frames = frames_of((start + scan[0] * scan[1], 3, 4), "u2", seed)
    path = write_tvips(tmp_path, frames, scan=scan, scan_start=start)
    same(vfs.open(path)[...], frames_of_libertem(context, "tvips", path))


@rosettasciio
def test_tvips_rosettasciio(tmp_path: Path, seed: int) -> None:
    from rsciio.tvips import file_reader

    rng = random.Random(seed)
    side, start = rng.randrange(2, 5), rng.randrange(1, 4)
    frames = frames_of((start + side * side, 3, 4), rng.choice(("u1", "u2")), seed)
    path = write_tvips(
        tmp_path,
        frames,
        scan=(side, side),
        scan_start=start,
        header_bytes=rng.choice((60, 108)),
        frames_per_file=rng.choice((None, 4)),
    )
    same(vfs.open(path, scan="none")[...], file_reader(str(path))[0]["data"])
    same(vfs.open(path, scan="rotator")[...], file_reader(str(path), scan_shape="auto")[0]["data"])


@libertem
def test_frms6(tmp_path: Path, seed: int, context: Any) -> None:
    rng = random.Random(seed)
    scan = (rng.randrange(2, 5), rng.randrange(2, 5))
    frames = frames_of((scan[0] * scan[1], 2 * rng.randrange(1, 9), rng.randrange(1, 20)), "u2", seed)
    dark = frames_of((3, *frames.shape[1:]), "u2", seed + 1)
    path = write_frms6(
        tmp_path,
        frames,
        binning=rng.choice((1, 2, 4)),
        frames_per_file=rng.choice((None, 3)),
        dark=dark,
        counted=rng.random() < 0.5,
        scan=scan,
    )
    same(
        vfs.open(path, repeat_rows=True)[...],
        frames_of_libertem(context, "frms6", path, enable_offset_correction=False),
    )
    agree(context, "frms6", path, len(frames), scan, {"repeat_rows": True}, enable_offset_correction=False)
    corrected = (
        context.load("frms6", path=str(path), enable_offset_correction=True).get_correction_data().get_dark_frame()
    )
    np.testing.assert_allclose(vfs.open_group(path, repeat_rows=True)["dark"][...].mean(axis=0), corrected, rtol=1e-5)
