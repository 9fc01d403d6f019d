"""Small sets of formats, which several tests use.

A row returns (paths, the array in them, options); the suite of `vfs.testing` runs with it. A set that
is only opened, to be damaged, is (paths, options).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.formats.frame_checks import frames_of
from vfs.testing.backscatter_writers import write_ebsp, write_nordif, write_spd, write_up
from vfs.testing.detector_writers import write_cbf, write_sls, write_spe
from vfs.testing.event_writers import write_eer
from vfs.testing.frame_writers import write_blo, write_empad, write_empad_g2, write_frms6, write_tvips
from vfs.testing.gatan_writers import write_dm, write_k2is
from vfs.testing.microscope_writers import czi_planes, write_czi, write_lif, write_lof, write_nd2, write_xlef
from vfs.testing.plane_writers import fits_unit, write_edf, write_ndtiff
from vfs.testing.stack_writers import write_emi, write_mrc, write_ser
from vfs.testing.suites import Written
from vfs.testing.writers import write_ripple

Opened = tuple[Any, Mapping[str, Any]]  # what to open, options


def blo_set(folder: Path) -> Written:
    twin = frames_of((3, 4, 6, 6), "u2")
    return write_blo(folder, twin), twin, {}


DM_SWAPPED = {"Meta Data": {"Data Order Swapped": np.bool_(True)}}


def dm_set(folder: Path) -> Written:
    twin = frames_of((6, 5, 7), "i2")
    return write_dm(folder, twin), twin, {}


def dm_of_two_images(folder: Path) -> Opened:
    return write_dm(
        folder, frames_of((3, 4, 5), "f4"), frames_of((4, 4), "u1"), tags={"Name": "value", "Number": np.float64(2)}
    ), {"format": "dm"}


def dm_of_maps(folder: Path) -> Opened:
    return write_dm(folder, frames_of((4, 5, 2, 3), "u2"), version=4), {"format": "dm"}


def dm_swapped(folder: Path) -> Opened:
    return write_dm(folder, frames_of((2, 3, 4, 5), "u4"), version=4, order=">", tags=DM_SWAPPED), {"format": "dm"}


def ebsp_with_holes(folder: Path) -> Opened:
    return write_ebsp(folder, frames_of((3, 4, 5, 6), "u2"), version=5, order=[11, *range(4, 10), 2]), {
        "format": "ebsp"
    }


def edax_map(folder: Path) -> Opened:
    return write_up(folder, frames_of((3, 4, 5, 6), "u2")), {"format": "edax"}


def edf_series(folder: Path) -> Opened:
    return write_edf(folder / "a.edf", frames_of((3, 5, 6), "u2")), {"format": "edf"}


def eer_of_sums(folder: Path) -> Opened:
    frames = frames_of((7, 9, 21), "u1") > 200
    return write_eer(folder / "a.eer", list(frames)), {"format": "eer", "frames_per_sum": 3}


def nd2_of_channels(folder: Path) -> Opened:
    twin = frames_of((2, 3, 2, 5, 6), "u2")
    return write_nd2(folder / "a.nd2", twin, ("t", "z"), channels=2), {"format": "nd2"}


def xlif_of_pages(folder: Path) -> Opened:
    write_xlef(folder, {"a": (("z", "y", "x"), frames_of((3, 5, 6), "u2"))}, kind="tif")
    for path in (folder / "Metadata").iterdir():
        path.rename(folder / path.name)
    (folder / "Metadata").rmdir()
    (folder / "project.xlef").unlink()
    return folder / "a.xlif", {"format": "lif"}


def lof(folder: Path) -> Opened:
    return write_lof(folder / "a.lof", "a", ("z", "y", "x"), frames_of((3, 5, 6), "u2")), {"format": "lif"}


def dm_of_transforms(folder: Path) -> Opened:
    transform = np.fft.fft2(frames_of((6, 6), "f4")).astype("c8")
    return [write_dm(folder, transform, half="square", name=name) for name in "ab"], {"format": "dm"}


def empad_of_words(folder: Path) -> Opened:
    return write_empad_g2(folder, frames_of((1, 2, 128, 128), "u4") & 0xBFFFFFFF), {"format": "empad"}


def lif_of_two(folder: Path) -> Opened:
    images: Any = {"a": ("ztcyx", frames_of((2, 3, 2, 5, 6), "u2")), "b": ("yxs", frames_of((4, 5, 3), "u1"))}
    return write_lif(folder / "a.lif", images), {"format": "lif"}


def czi_of_tiles(folder: Path) -> Opened:
    twin = frames_of((2, 5, 6), "u2")
    tiles = [*czi_planes(twin, "C", {"M": 0}), *czi_planes(twin[..., :4], "C", {"M": 1, "X": 3})]
    return write_czi(folder / "a.czi", tiles), {"format": "czi"}


def sls_with_gaps(folder: Path) -> Opened:
    frames = frames_of((7, 4, 6), "u2")
    return write_sls(folder, frames, (2, 1), per_file=3, dropped={0: [2], 1: [3, 4]}), {"format": "sls"}


def cbf_series(folder: Path) -> Opened:
    frames = frames_of((3, 5, 6), "i4")
    return [write_cbf(folder / f"a_{k}.cbf", frame) for k, frame in enumerate(frames)], {"format": "cbf"}


def ndtiff_of_channels(folder: Path) -> Opened:
    axes = {"time": (3, 4), "channel": ("a", "b")}
    return write_ndtiff(folder, frames_of((2, 2, 5, 6), "u2"), axes, files=2), {"format": "ndtiff"}


def fits_of_two(folder: Path) -> Opened:
    units = (fits_unit(frames_of((2, 5, 6), "u2"), SIMPLE=True), fits_unit(frames_of((4, 5), "f4"), XTENSION="IMAGE"))
    (folder / "a.fits").write_bytes(b"".join(units))
    return folder / "a.fits", {"format": "fits"}


def spe_of_regions(folder: Path) -> Opened:
    frames = frames_of((3, 5, 6), "u2"), frames_of((3, 2, 6), "u2")
    return write_spe(folder / "a.spe", *frames, lightfield=True, metadata=8), {"format": "spe"}


def spd_map(folder: Path) -> Opened:
    return write_spd(folder, frames_of((3, 4, 7), "u2")), {"format": "spd"}


def nordif_with_bitmaps(folder: Path) -> Opened:
    points = {(1, 2): frames_of((5, 6), "u1")}
    return write_nordif(folder, frames_of((3, 4, 5, 6), "u1"), points=points), {"format": "nordif"}


def ripple_of_spectra(folder: Path) -> Opened:
    return write_ripple(folder, frames_of((3, 4, 5), "i4"), record="vector", offset=9), {"format": "ripple"}


def empad_set(folder: Path) -> Written:
    twin = frames_of((2, 3, 128, 128), "f4")
    twin[0, 1, 5] = np.nan  # real data hold NaN
    return write_empad(folder, twin), twin, {}


def empad_of_two(folder: Path) -> Opened:
    return write_empad(folder, frames_of((1, 2, 128, 128), "f4")), {"format": "empad"}


def empad_series(folder: Path) -> Opened:
    return write_empad(folder, frames_of((1, 2, 128, 128), "f4"), raw="scan_x2_y1.raw", xml="series_count"), {
        "format": "empad"
    }


def frms6_set(folder: Path) -> Written:
    frames = frames_of((12, 6, 5), "u2")
    return (
        write_frms6(folder, frames, frames_per_file=5, dark=frames_of((3, 6, 5), "u2"), scan=(3, 4)),
        frames.reshape(3, 4, 6, 5),
        {},
    )


def frms6_binned(folder: Path) -> Opened:
    (folder / "gain.csv").write_text("1;2\n3;4\n")
    path = write_frms6(folder, frames_of((4, 6, 5), "u2"), binning=2, counted=False, scan=(2, 2))
    return path, {"format": "frms6", "repeat_rows": True, "gain_map": str(folder / "gain.csv")}


K2IS_CROP = "915,945,248,300"  # both bands, two sectors, five blocks across


def k2is_frames(count: int, seed: int = 0) -> np.ndarray:
    """Frames of 12-bit pixels."""
    return frames_of((count, 1860, 2048), "u2", seed) & 4095


def k2is_cropped(frames: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(frames[:, 915:945, 248:300])


def k2is_set(folder: Path) -> Written:
    frames = k2is_frames(3)
    return write_k2is(folder, frames), k2is_cropped(frames), {"crop": K2IS_CROP}


def k2is_series(folder: Path) -> Opened:
    return write_k2is(folder, k2is_frames(2), first=(0, 3, 31, 0, 1, 2, 5, 8)), {"format": "k2is", "crop": K2IS_CROP}


def k2is_scan(folder: Path) -> Opened:
    return write_k2is(folder, k2is_frames(2), scan=(1, 2), shutter=1), {"format": "k2is", "crop": K2IS_CROP}


def mrc_set(folder: Path) -> Written:
    twin = frames_of((6, 5, 7), "i2")
    return write_mrc(folder, twin, 1, extended=1024), twin, {}


def mrc_with_fei_records(folder: Path) -> Opened:
    return write_mrc(folder, frames_of((3, 4, 5), "f4"), 2, fei=True), {"format": "mrc"}


def mrc_of_nibbles(folder: Path) -> Opened:
    return write_mrc(folder, frames_of((3, 4, 5), "u1") & 15, 101), {"format": "mrc"}


def mrc_packed(folder: Path) -> Opened:
    return write_mrc(folder, frames_of((3, 4, 5), "u2"), 6, name="set.mrc.gz"), {"format": "mrc"}


def ser_set(folder: Path) -> Written:
    twin = frames_of((3, 4, 5, 7), "i4")
    return write_ser(folder, twin), twin, {}


def ser_of_a_scan(folder: Path) -> Opened:
    return write_ser(folder, frames_of((2, 3, 4, 5), "u2")), {"format": "ser"}


def ser_by_emi(folder: Path) -> Opened:
    write_ser(folder, frames_of((3, 9), "f4"), sig_ndim=1, version=0x0210)
    return write_emi(folder), {"format": "ser"}


def tvips_set(folder: Path) -> Written:
    frames = frames_of((14, 5, 7), "u2")
    return write_tvips(folder, frames, frames_per_file=5, scan=(3, 4), scan_start=2), frames[2:].reshape(3, 4, 5, 7), {}


def tvips_of_a_rotator(folder: Path) -> Opened:
    return write_tvips(folder, frames_of((9, 3, 4), "u1"), scan=(3, 3)), {"format": "tvips", "scan": "rotator"}
