"""FITS: what is peculiar to it. Signs, several images, what is left out, headers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, refuses, same, unwarned, warned
from vfs.formats.fits import tiles
from vfs.testing.plane_writers import fits_unit, write_fits, write_tiled_fits

TWIN = frames_of((2, 3, 5, 6), "u2")


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_types(tmp_path: Path, dtype: str) -> None:
    twin = frames_of((2, 3, 5, 6), dtype)
    path = write_fits(tmp_path / "a.fits", twin)
    check_boxes(path, twin, count=10)
    array = vfs.open(path)
    assert array.dtype == np.dtype(dtype)
    assert array.dims == ("scan_y", "scan_x", "y", "x")


def test_a_file_a_frame(tmp_path: Path) -> None:
    twin = TWIN[0]
    paths = [write_fits(tmp_path / f"a{k}.fits", frame) for k, frame in enumerate(twin)]
    array = vfs.open(paths)
    same(array[...], twin)
    assert array.dims == ("frame", "y", "x")
    other = write_fits(tmp_path / "b.fits", TWIN[0, :, :4])
    refuses([*paths, other], "b.fits", "expected an image [5, 6] >u2", kind=vfs.FormatError)


def test_images_tables_and_numbers_behind_the_end(tmp_path: Path) -> None:
    """A first unit without data, two images, a table between them, one that is compressed, and padding."""
    table = fits_unit(TWIN[0, 0], XTENSION="BINTABLE", PCOUNT=7, GCOUNT=1)
    packed = fits_unit(TWIN[0, 0], XTENSION="BINTABLE", PCOUNT=0, GCOUNT=1, ZIMAGE=True)
    path = tmp_path / "a.fits"
    first, second = (
        fits_unit(twin, XTENSION="IMAGE", EXTNAME=name, CDELT1=0.5, CRVAL1=3.0, CRPIX1=2.0, CUNIT1="nm")
        for twin, name in ((TWIN[0], "left"), (TWIN[1].astype("f4"), "it's"))
    )
    path.write_bytes(fits_unit(None, SIMPLE=True) + first + table + second + bytes(100))
    group = vfs.open_group(path)
    same(group["image_0/data"][...], TWIN[0])
    same(group["image_1/data"][...], TWIN[1].astype("f4"))
    assert group["image_1/data"].attrs["name"] == "it's"
    assert group["image_0/data"].calibration["x"] == {"scale": 0.5, "offset": 2.5, "unit": "nm"}
    path.write_bytes(fits_unit(None, SIMPLE=True) + first + packed)
    same(warned(path, "compressed by a method without a name")[...], TWIN[0])


def test_special_records_behind_the_last_unit(tmp_path: Path) -> None:
    """The standard allows blocks that are no units; a unit that was cut, or less than a block, is none of these."""
    path = write_fits(tmp_path / "a.fits", TWIN[0])
    whole = path.read_bytes()
    path.write_bytes(whole + b"special ".ljust(2880, b".") * 2)
    with unwarned():
        same(vfs.open(path)[...], TWIN[0])
    unit = fits_unit(TWIN[0], XTENSION="IMAGE")
    for more in (b"special ", unit[:500]):
        path.write_bytes(whole + more)
        refuses(path, "expected a whole header", kind=vfs.TruncatedSourceError)


def test_a_header_that_says_fewer_planes_than_are_stored(tmp_path: Path) -> None:
    """They look like special records, but for what fills the last block."""
    stored = frames_of((40, 7, 9), "i2")
    path = tmp_path / "a.fits"
    path.write_bytes(
        fits_unit(stored, SIMPLE=True).replace(b"NAXIS3  =                   40", b"NAXIS3  =                    5")
    )
    same(incomplete(path, "found none; more data are stored than the header before it says")[...], stored[:5])


def test_scales_are_said_and_not_applied(tmp_path: Path) -> None:
    path = tmp_path / "a.fits"
    path.write_bytes(fits_unit(TWIN[0].astype("i2"), SIMPLE=True, BSCALE=0.5, BZERO=10))
    group = vfs.open_group(path)
    same(group.main[...], TWIN[0].astype("i2"))
    attrs = group.zarr()["data"].attrs
    assert (attrs["scale_factor"], attrs["add_offset"]) == (0.5, 10)


@pytest.mark.parametrize(
    ("first", "second"), [({"BSCALE": 0.5}, {"BSCALE": 0.25}), ({}, {"BZERO": 7}), ({"BZERO": 2.5}, {})]
)
def test_files_of_other_scales_are_no_series(tmp_path: Path, first: dict[str, float], second: dict[str, float]) -> None:
    """The attributes say one scale for all frames."""
    frame = TWIN[0, 0].astype("i2")
    for name, cards in (("a0", first), ("a1", second), ("a2", first)):
        (tmp_path / f"{name}.fits").write_bytes(fits_unit(frame, SIMPLE=True, **cards))
    said = ["a1.fits", "expected BSCALE", "a0.fits", "open each file alone"]
    refuses([tmp_path / "a0.fits", tmp_path / "a1.fits"], *said, kind=vfs.FormatError)
    array = vfs.open([tmp_path / "a0.fits", tmp_path / "a2.fits"])
    same(array[...], np.stack([frame, frame]))
    assert vfs.open(tmp_path / "a1.fits").shape == frame.shape


@pytest.mark.parametrize(("dtype", "blank", "shown"), [("i2", -32768, -32768), ("u2", -32768, 0), ("u1", 255, 255)])
def test_pixels_without_a_value_are_said(tmp_path: Path, dtype: str, blank: int, shown: int) -> None:
    """`BLANK` counts in stored integers, whose top bit is turned."""
    frame = TWIN[0, 0].astype(dtype)
    frame[1, 2] = shown
    path = tmp_path / "a.fits"
    path.write_bytes(fits_unit(frame, SIMPLE=True, BLANK=blank))
    same(vfs.open(path)[...], frame)
    values = vfs.open(path).xarray().to_numpy()
    assert (np.argwhere(np.isnan(values)) == np.argwhere(frame == shown)).all()
    path.write_bytes(fits_unit(frame.astype("f4"), SIMPLE=True, BLANK=blank))
    assert vfs.open_group(path).zarr()["data"].attrs.get("_FillValue") is None


def test_more_images_in_files_of_a_series_are_left_out_and_said(tmp_path: Path) -> None:
    paths = [tmp_path / f"a{k}.fits" for k in range(2)]
    for path, frame in zip(paths, TWIN[0, :2], strict=True):
        path.write_bytes(
            fits_unit(frame, SIMPLE=True) + fits_unit((frame > 3000).astype("u1"), XTENSION="IMAGE", EXTNAME="MASK")
        )
    same(warned(paths, "1 more are not shown")[...], TWIN[0, :2])


def test_cut(tmp_path: Path) -> None:
    path = write_fits(tmp_path / "a.fits", TWIN[0].astype("f4"))
    data = path.read_bytes()[: 2880 + 250]
    path.write_bytes(data)
    twin = TWIN[0].astype("f4")
    twin[2:] = 0
    same(incomplete(path, "not whole: 1", kind=vfs.TruncatedSourceError)[...], twin)
    path.write_bytes(data[:2000])
    refuses(path, "expected a whole header at byte 0", kind=vfs.TruncatedSourceError)


@pytest.mark.parametrize(
    ("was", "now", "word"),
    [
        (b"BITPIX  =                   16", b"BITPIX  =                   17", "BITPIX = 17"),
        (b"NAXIS   =                    3", b"NAXIS   =                    4", "NAXIS = 4"),
        (b"NAXIS   =                    3", b"NAXIS   =                   -3", "NAXIS = -3"),
        (b"NAXIS1  =                    6", b"NAXIS1  =  4611686018427387904", "NAXIS1 = 4611686018427387904"),
        (b"NAXIS1  =                    6", b"NAXIS1  =                    0", "expected a whole header at byte 2,880"),
        (b"NAXIS3  =                    3", b"NAXIS3  =           4294967296", "its header says 4,294,967,296 planes"),
        (b"END     ", b"ENDE    ", "END"),
    ],
)
def test_garbled(tmp_path: Path, was: bytes, now: bytes, word: str) -> None:
    path = write_fits(tmp_path / "a.fits", TWIN[0])
    path.write_bytes(path.read_bytes().replace(was, now, 1))
    refuses(path, "a.fits", word)


@pytest.mark.parametrize("method", ["RICE_1", "GZIP_1", "UNCOMPRESSED"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4"])
def test_tiles(tmp_path: Path, method: str, dtype: str) -> None:
    twin = frames_of((4, 13, 22), dtype)
    path = write_tiled_fits(tmp_path / "a.fits.fz", twin, (2, 5, 9), method=method)
    check_boxes(path, twin, count=12)
    array = vfs.open(path)
    assert (array.group.name, array.dims, array.attrs["header"]["NAXIS1"]) == ("a", ("frame", "y", "x"), 22)
    assert "ZIMAGE" not in array.attrs["header"]


def test_a_compressed_file_a_frame(tmp_path: Path) -> None:
    twin = frames_of((3, 6, 7), "i2")
    paths = [write_tiled_fits(tmp_path / f"a_{k}.fits.fz", one, (1, 7)) for k, one in enumerate(twin)]
    check_boxes(paths, twin, count=8)
    path = tmp_path / "b_0.fits"
    path.write_bytes(fits_unit(twin[0], SIMPLE=True))
    refuses([path, paths[0]], "expected an image")


def test_the_series_of_random_numbers_is_that_of_the_standard() -> None:
    """Appendix I: the last seed is 1043618065."""
    assert tiles._series()[-1] == np.float32(1043618065 / 2147483647)
    assert tiles._dithers(3, 30_000)[:2].tolist() == tiles._series()[int(tiles._series()[3] * 500) :][:2].tolist()
    assert len(tiles._dithers(9_999, 30_000)) == 30_000


def test_damaged_tiles_are_a_line(tmp_path: Path) -> None:
    twin = frames_of((6, 22), "i2")
    path = write_tiled_fits(tmp_path / "a.fits.fz", twin, (1, 22), method="GZIP_1")
    whole = path.read_bytes()
    refuses(write_tiled_fits(tmp_path / "b.fits.fz", twin, (1, 22), ZCMPTYPE="HCOMPRESS_1"), "HCOMPRESS_1", "astropy")
    refuses(write_tiled_fits(tmp_path / "c.fits.fz", twin, (1, 22), NAXIS2=5), "tiles of a compressed image", "5 rows")
    refuses(write_tiled_fits(tmp_path / "d.fits.fz", twin, (1, 22), TFORM1="1PX"), "tiles without")
    path.write_bytes(whole[:-2880])
    refuses(path, "looks truncated", kind=vfs.TruncatedSourceError)
    path.write_bytes(whole.replace(b"\x1f\x8b", b"\x1f\x8c", 1))
    with pytest.raises(vfs.DecodeError, match=r"a\.fits\.fz.*tile 0: does not decode \(GZIP_1\)"):
        vfs.open(path)[0]
    np.testing.assert_array_equal(vfs.open(path)[1:], twin[1:])
