"""Files that the makers' own libraries write are what these were given: fabio, ndstorage, astropy. Others are what
tifffile and aare (which is only there for Python 3.12 and later) read.

astropy also reads the files that it ships for its own tests (BSD, in its package).
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, same
from vfs.testing.detector_writers import write_cbf, write_sls
from vfs.testing.event_writers import write_eer

DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_edf_of_fabio(tmp_path: Path, dtype: str) -> None:
    edf = pytest.importorskip("fabio.edfimage")
    twin = frames_of((3, 7, 9), dtype)
    image = edf.EdfImage(data=twin[0], header={"Title": "x = y"})
    for frame in twin[1:]:
        image.append_frame(data=frame, header={"exposure": "1"})
    image.write(str(tmp_path / "a.edf"))
    same(vfs.open(tmp_path / "a.edf")[...], twin)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
def test_cbf_of_fabio(tmp_path: Path, dtype: str) -> None:
    cbf = pytest.importorskip("fabio.cbfimage")
    twin = frames_of((3, 37, 41), dtype)
    twin[1] //= 50
    for k, frame in enumerate(twin):
        cbf.CbfImage(data=frame).write(str(tmp_path / f"a_{k}.cbf"))
    same(vfs.open(str(tmp_path / "a_*.cbf"))[...], twin)


def test_cbf_as_fabio_reads_it(tmp_path: Path) -> None:
    fabio = pytest.importorskip("fabio")
    twin = frames_of((37, 41), "i4")
    path = write_cbf(tmp_path / "a.cbf", twin)
    same(np.asarray(fabio.open(str(path)).data), twin)


@pytest.mark.parametrize(
    ("modules", "how"),
    [((1, 1), {}), ((2, 1), {}), ((4, 2), {"interfaces": 2}), ((2, 2), {"detector": "Eiger"})],
)
def test_sls_as_aare_reads_it(tmp_path: Path, modules: tuple[int, int], how: dict[str, Any]) -> None:
    aare = pytest.importorskip("aare")
    twin = frames_of((12, 256 * modules[0], 512 * modules[1]), "u2")  # the size of a port of Eiger, which aare expects
    path = write_sls(tmp_path, twin, modules, **how)
    same(vfs.open(path)[...], twin)
    same(np.asarray(aare.RawFile(path).read()[1]), twin)


@pytest.mark.parametrize("compression", [65000, 65001, 65002])
def test_eer_as_tifffile_reads_it(tmp_path: Path, compression: int) -> None:
    tifffile = pytest.importorskip("tifffile")
    rng = np.random.default_rng(compression)
    events = [rng.random((96, 80)) < share for share in (0, 0.001, 0.03, 0.5, 1)]
    path = write_eer(tmp_path / "a.eer", events, compression=compression, bits=(6, 3, 2))
    with tifffile.TiffFile(path) as file:
        assert file.is_eer
        twin = file.asarray()
        metadata = file.eer_metadata
    array = vfs.open(path)
    same(array[...], twin.view("u1"))
    assert array.attrs["metadata"] == metadata
    same(vfs.open(path, frames_per_sum=5)[...], twin.sum(0, dtype="u1")[None])
    for bits in (1, 2):
        with tifffile.TiffFile(path, superres=bits) as file:
            same(vfs.open(path, super_resolution=1 << bits)[...], file.asarray().view("u1"))


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_ndtiff_of_ndstorage(tmp_path: Path) -> None:
    ndstorage = pytest.importorskip("ndstorage")
    twin = frames_of((2, 2, 3, 8, 10), "u2")
    written: Any = ndstorage.NDTiffDataset(
        dataset_path=str(tmp_path), name="a", summary_metadata={"z-step_um": 1.5}, writable=True
    )
    for t, c, z in np.ndindex(2, 2, 3):
        written.put_image({"time": t, "channel": "AB"[c], "z": z}, twin[t, c, z], {"PixelSizeUm": 0.1})
    written.finish()
    written.close()
    del written
    gc.collect()  # ndstorage leaves a file open
    (index,) = tmp_path.rglob("NDTiff.index")
    array = vfs.open(index)
    same(array[...], twin)
    assert array.dims == ("t", "c", "z", "y", "x")
    assert {dim: axis["scale"] for dim, axis in array.calibration.items()} == {"z": 1.5, "y": 0.1, "x": 0.1}


@pytest.mark.parametrize("dtype", DTYPES)
def test_fits_of_astropy(tmp_path: Path, dtype: str) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    twin = frames_of((3, 7, 9), dtype)
    table = fits.BinTableHDU(np.zeros(5, [("a", "i4")]))
    path = tmp_path / "a.fits"
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(twin, name="A"), table, fits.ImageHDU(twin[0])]).writeto(path)
    group = vfs.open_group(path)
    same(group["image_0/data"][...], twin)
    same(group["image_1/data"][...], twin[0])


@pytest.mark.parametrize("method", ["RICE_1", "GZIP_1", "GZIP_2", "NOCOMPRESS"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4", "f4", "f8"])
def test_compressed_fits_of_astropy(tmp_path: Path, dtype: str, method: str) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    twin = np.random.default_rng(1).normal(100, 9, (3, 50, 70)).astype(dtype)
    if dtype[0] == "f":
        twin[1, 3, 4], twin[0, 5, 5] = np.nan, 0
    quantized: list[dict[str, Any]] = [{"quantize_method": how, "quantize_level": 16} for how in (-1, 1, 2)]
    for how in quantized if dtype[0] == "f" else [{}]:
        image = fits.CompImageHDU(twin, compression_type=method, tile_shape=(1, 20, 30), **how)
        fits.HDUList([fits.PrimaryHDU(), image]).writeto(tmp_path / "a.fits.fz", overwrite=True)
        with fits.open(tmp_path / "a.fits.fz") as units:
            same(vfs.open(tmp_path / "a.fits.fz")[...], units[1].data.astype(dtype))


def test_fits_that_astropy_ships() -> None:
    fits = pytest.importorskip("astropy.io.fits")
    compared = 0
    for path in sorted((Path(fits.__file__).parent / "tests" / "data").glob("*.fits")):
        with fits.open(path, do_not_scale_image_data=True, uint=False) as units:
            methods = ["", "RICE_1", "GZIP_1", "GZIP_2"]
            images = [u.data for u in units if u.is_image and getattr(u, "compression_type", "") in methods]
            images = [image for image in images if image is not None and image.size]
        try:
            group = vfs.open_group(path)
        except vfs.VfsError:
            assert not images, path
            continue
        for image, name in zip(images, group, strict=True):
            array = group[name][...]
            if array.dtype.kind == image.dtype.kind:  # astropy was told to leave the top bit of the others
                same(array, image.astype(image.dtype.newbyteorder("=")))
                compared += 1
    assert compared > 5
