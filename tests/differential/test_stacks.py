"""Generated stacks, scans and packed frames: what LiberTEM, RosettaSciIO, ncempy, mrcfile, tifffile
and h5py read of them, vfs reads too.

Left out, with the reason: K2IS scans in LiberTEM (it looks for the shutter flag 400 frames on,
which these do not have), MIB of 1 bit in LiberTEM (an assertion fails where a file is short) and of
24 bits (it gives the lower 16), big-endian pixels of DM and MRC in RosettaSciIO and ncempy (both
take them as little-endian or refuse), SER of 8 bits in ncempy (it fails), modes of MRC and kinds of
pixels that a reader says it does not read.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.differential.conftest import frames_of_libertem
from tests.formats.frame_checks import frames_of, same
from vfs.testing.gatan_writers import write_dm, write_k2is
from vfs.testing.stack_writers import write_mrc, write_ser
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_mib, write_raw

pytestmark = [pytest.mark.filterwarnings("default")]  # their warnings are not ours to mend


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Six sets a test; of K2 IS, whose frames have 14 MB, two."""
    metafunc.parametrize("seed", range(2 if metafunc.function.__name__ == "test_k2is" else 6))


def needs(module: str, name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{name} is not installed")


libertem, rosettasciio, ncempy, mrcfile = (
    needs("libertem", "LiberTEM"),
    needs("rsciio", "RosettaSciIO"),
    needs("ncempy", "ncempy"),
    needs("mrcfile", "mrcfile"),
)


def mib(folder: Path, seed: int) -> tuple[Path, tuple[int, int]]:
    """A scan of a kind that the seed chooses."""
    rng = random.Random(seed)
    kind, depth = (("U08", 6), ("U16", 12), ("U32", 24), ("R64", 6), ("R64", 12), ("R64", 12))[seed]
    quad = seed == 5 or (kind == "R64" and rng.random() < 0.5)
    scan = (rng.randrange(2, 5), rng.randrange(2, 5))
    frames = frames_of((scan[0] * scan[1], *((512, 512) if quad else (256, 256))), "u4", seed) & ((1 << depth) - 1)
    path = write_mib(
        folder, frames, kind=kind, depth=depth, quad=quad, scan=scan, frames_per_file=rng.choice((None, 3))
    )
    return path, scan


@libertem
def test_mib(tmp_path: Path, seed: int, context: Any) -> None:
    path, scan = mib(tmp_path, seed)
    n = scan[0] * scan[1]
    for offset in (0, 1, -2, n // 2):
        ours = vfs.open(path, nav_shape=scan, sync_offset=offset)[...]
        same(ours, frames_of_libertem(context, "mib", path, nav_shape=scan, sync_offset=offset).astype(ours.dtype))


@rosettasciio
def test_mib_rosettasciio(tmp_path: Path, seed: int) -> None:
    from rsciio.quantumdetector import file_reader

    rng = random.Random(seed)
    kind, scan = rng.choice(("U08", "U16", "U32")), (rng.randrange(2, 5), rng.randrange(2, 5))
    frames = frames_of((scan[0] * scan[1], 256, 256), {"U08": "u1", "U16": "u2", "U32": "u4"}[kind], seed)
    path = write_mib(tmp_path, frames, kind=kind, scan=scan)
    (said,) = file_reader(str(path.with_suffix(".mib")), navigation_shape=scan[::-1])
    ours = vfs.open(path, nav_shape=scan)[...]
    same(ours, np.asarray(said["data"])[..., ::-1, :].astype(ours.dtype))  # it turns the image upside down


@libertem
def test_raw(tmp_path: Path, seed: int, context: Any) -> None:
    rng = random.Random(seed)
    dtype = rng.choice(("u1", "u2", "i4", "f4"))
    frames = frames_of((6, rng.randrange(1, 30), rng.randrange(1, 30)), dtype, seed)
    (path,) = write_raw(tmp_path, frames)
    ours = vfs.open(path, format="raw", dtype=dtype, sig_shape=frames.shape[1:], nav_shape=(2, 3))[...]
    same(ours, frames_of_libertem(context, "raw", path, dtype=dtype, nav_shape=(2, 3), sig_shape=frames.shape[1:]))


@libertem
def test_k2is(tmp_path: Path, seed: int, context: Any) -> None:
    frames = frames_of((3 + seed, 1860, 2048), "u2", seed) & 4095
    path = write_k2is(tmp_path, frames, first=(0, 3, 0, 1, 0, 0, 5, 2))
    ours = vfs.open(path)[...]
    said = frames_of_libertem(context, "k2is", path)
    same(ours.reshape(said.shape), said.astype(ours.dtype))


DM = ("u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8")


def dm(folder: Path, seed: int) -> tuple[Path, np.ndarray]:
    rng = random.Random(seed)
    shape = tuple(rng.randrange(2, 9) for _ in range(rng.choice((2, 3))))
    image = frames_of(shape, rng.choice(DM), seed)
    return write_dm(folder, image, version=rng.choice((3, 4)), thumbnail=rng.random() < 0.7), image


@rosettasciio
def test_dm_rosettasciio(tmp_path: Path, seed: int) -> None:
    from rsciio.digitalmicrograph import file_reader

    path, image = dm(tmp_path, seed)
    array = vfs.open(path)
    said = file_reader(str(path))[-1]
    theirs = np.asarray(said["data"])
    same(array[...].reshape(image.shape), theirs.reshape(image.shape).astype(array.dtype))


@rosettasciio
def test_dm_transform_rosettasciio(tmp_path: Path, seed: int) -> None:
    """The older way of packing half of a transform; of the newer way, RosettaSciIO orders rows differently."""
    from rsciio.digitalmicrograph import file_reader

    side = 2 * random.Random(seed).randrange(1, 9)
    transform = np.fft.fft2(np.random.default_rng(seed).random((side, side))).astype("c8")
    path = write_dm(tmp_path, transform, half="square", thumbnail=False)
    theirs = np.asarray(file_reader(str(path))[-1]["data"])
    same(vfs.open(path)[...], theirs.astype("c8"))


@ncempy
def test_dm_ncempy(tmp_path: Path, seed: int) -> None:
    from ncempy.io.dm import dmReader

    path, image = dm(tmp_path, seed)
    array = vfs.open(path)
    same(array[...].reshape(image.shape), dmReader(str(path))["data"].reshape(image.shape).astype(array.dtype))


def ser(folder: Path, seed: int) -> Path:
    rng = random.Random(seed)
    sig = 1 + seed % 2
    shape = (rng.randrange(2, 5), rng.randrange(2, 5)) if sig == 1 else (rng.randrange(2, 6),)
    elements = frames_of(
        (*shape, *(rng.randrange(2, 20) for _ in range(sig))), rng.choice(("u2", "i2", "i4", "f4", "f8")), seed
    )
    return write_ser(folder, elements, sig_ndim=sig, version=rng.choice((0x0210, 0x0220)))


@rosettasciio
def test_ser_rosettasciio(tmp_path: Path, seed: int) -> None:
    from rsciio.tia import file_reader

    path = ser(tmp_path, seed)
    ours = vfs.open(path)[...]
    said = np.asarray(file_reader(str(path))[0]["data"])
    same(ours, said.reshape(ours.shape).astype(ours.dtype))


@ncempy
def test_ser_ncempy(tmp_path: Path, seed: int) -> None:
    from ncempy.io.ser import fileSER

    path = ser(tmp_path, seed)
    ours = vfs.open(path)[...]
    with fileSER(str(path)) as file:
        said = np.stack([file.getDataset(k)[0] for k in range(file.head["ValidNumberElements"])])
    same(ours, said.reshape(ours.shape).astype(ours.dtype))


MODES = {0: "i1", 1: "i2", 2: "f4", 4: "c8", 6: "u2", 12: "f2"}


def mrc(folder: Path, seed: int, modes: tuple[int, ...], orders: str = "<") -> Path:
    rng = random.Random(seed)
    mode = modes[seed % len(modes)]
    shape = (rng.randrange(2, 6), rng.randrange(2, 12), rng.randrange(2, 12))
    rng_np = np.random.default_rng(seed)
    kind = np.dtype(MODES[mode]).kind
    sections = (
        frames_of(shape, MODES[mode], seed)
        if kind in "iuf"
        else (rng_np.standard_normal(shape) + 1j * rng_np.standard_normal(shape)).astype(MODES[mode])
    )
    return write_mrc(folder, sections, mode, order=rng.choice(orders), extended=rng.choice((0, 512)))


@mrcfile
def test_mrc_mrcfile(tmp_path: Path, seed: int) -> None:
    import mrcfile as library

    path = mrc(tmp_path, seed, tuple(MODES), "<>")
    ours = vfs.open(path)[...]
    with library.open(path, permissive=True) as file:
        same(ours, np.asarray(file.data).astype(ours.dtype))


@rosettasciio
def test_mrc_rosettasciio(tmp_path: Path, seed: int) -> None:
    from rsciio.mrc import file_reader

    path = mrc(tmp_path, seed, (0, 1, 2, 6))
    array = vfs.open(path)
    (said,) = file_reader(str(path))
    same(array[...], np.asarray(said["data"]).astype(array.dtype))


@ncempy
def test_mrc_ncempy(tmp_path: Path, seed: int) -> None:
    from ncempy.io.mrc import mrcReader

    path = mrc(tmp_path, seed, (0, 1, 2, 6))
    ours = vfs.open(path)[...]
    same(ours, np.asarray(mrcReader(str(path))["data"]).astype(ours.dtype))


def test_tiff_tifffile(tmp_path: Path, seed: int) -> None:
    tifffile = pytest.importorskip("tifffile")
    rng = random.Random(seed)
    pages = list(
        frames_of(
            (rng.randrange(1, 6), rng.randrange(1, 40), rng.randrange(1, 40)),
            rng.choice(("u1", "u2", "u4", "i2", "f4", "f8")),
            seed,
        )
    )
    path = tmp_path / "set.tif"
    write_tiff(
        path,
        pages,
        order=rng.choice(("<", ">")),
        big=rng.random() < 0.5,
        tile=(16, 16) if seed % 2 else None,
        strip=rng.choice((None, 3)),
    )
    ours = vfs.open(path)[...]
    with tifffile.TiffFile(path) as file:
        same(ours, np.stack([page.asarray() for page in file.pages]).reshape(ours.shape).astype(ours.dtype))


def test_ome_tiff_tifffile(tmp_path: Path, seed: int) -> None:
    tifffile = pytest.importorskip("tifffile")
    rng = random.Random(seed)
    image = frames_of(
        (rng.randrange(2, 4), rng.randrange(2, 4), rng.randrange(2, 4), rng.randrange(2, 20), rng.randrange(2, 20)),
        "u2",
        seed,
    )
    path = write_ome_tiff(tmp_path, image, order=rng.choice(("XYZCT", "XYCZT", "XYTZC")), files=1 + seed % 3)
    array = vfs.open(path)
    with tifffile.TiffFile(path) as file:
        said, axes = file.series[0].asarray(), file.series[0].axes.lower()
    same(array[...], said.transpose([axes.index(name) for name in array.dims]))


def test_hdf5_h5py(tmp_path: Path, seed: int) -> None:
    h5py = pytest.importorskip("h5py")
    rng = random.Random(seed)
    kind = rng.choice(("u1", "u2", "i4", "f4", "f8"))
    values = frames_of((rng.randrange(2, 9), rng.randrange(2, 30), rng.randrange(2, 30)), kind, seed).astype(
        rng.choice("<>") + kind
    )
    path = tmp_path / "set.h5"
    chunks = tuple(rng.randrange(1, n + 1) for n in values.shape)
    options: dict[str, Any] = rng.choice(
        (
            {},
            {"chunks": chunks},
            {"chunks": chunks, "compression": "gzip", "shuffle": True},
            {"chunks": chunks, "compression": "lzf"},
        )
    )
    with h5py.File(path, "w") as file:
        file.create_dataset("entry/data", data=values, fletcher32="chunks" in options and rng.random() < 0.5, **options)
    ours = vfs.open(path)[...]
    with h5py.File(path) as file:
        same(ours, file["entry/data"][...].astype(ours.dtype))
