"""Ripple: what is peculiar to it. The words of a .rpl, the order of the numbers, the programs that write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, opens_incomplete, refuses, same
from vfs.testing.writers import write_ripple


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", ">i2", "<u2", ">u4", "<i4", ">i8", "<u8", "<f4", ">f8"])
@pytest.mark.parametrize("record", ["image", "vector"])
def test_every_kind_of_number(tmp_path: Path, dtype: str, record: str) -> None:
    native = np.dtype(dtype).newbyteorder("=")
    twin = frames_of((3, 4, 5), native)
    path = write_ripple(tmp_path, twin.astype(dtype), record=record, offset=7)
    check_boxes(path, twin, count=5)
    assert vfs.open(path).dims == (("scan_y", "scan_x", "channel") if record == "vector" else ("frame", "y", "x"))


@pytest.mark.parametrize(
    ("record", "shape", "keys", "dims", "shown"),
    [
        ("dont-care", (3, 4), {}, ("y", "x"), (3, 4)),
        ("dont-care", (1, 4), {}, ("x",), (4,)),
        ("dont-care", (1, 4), {"width_units": "keV"}, ("energy",), (4,)),
        ("image", (1, 3, 4), {}, ("y", "x"), (3, 4)),
        ("image", (2, 3, 4), {"depth_units": "eV"}, ("energy", "y", "x"), (2, 3, 4)),
        ("image", (2, 3, 4), {"depth_units": "nm"}, ("scan_x", "y", "x"), (2, 3, 4)),
        ("image", (2, 3, 4), {"depth_units": "nm", "signal": "CL"}, ("wavelength", "y", "x"), (2, 3, 4)),
        ("vector", (2, 3, 4), {"depth_units": "nm", "signal": "CL"}, ("scan_y", "scan_x", "wavelength"), (2, 3, 4)),
        ("vector", (2, 3, 4), {"depth_units": "nm"}, ("scan_y", "scan_x", "channel"), (2, 3, 4)),
        ("vector", (1, 3, 4), {"ev_per_chan": 10}, ("frame", "energy"), (3, 4)),
        ("vector", (1, 1, 4), {"ev_per_chan": 10}, ("energy",), (4,)),
        ("vector", (2, 3, 4), {"depth_units": "keV"}, ("scan_y", "scan_x", "energy"), (2, 3, 4)),
    ],
)
def test_axes(
    tmp_path: Path, record: str, shape: tuple[int, ...], keys: dict[str, Any], dims: tuple[str, ...], shown: Any
) -> None:
    twin = frames_of(shape, "u2")
    array = vfs.open(write_ripple(tmp_path, twin, record=record, **keys))
    assert array.dims == dims
    same(array[...], twin.reshape(shown))


def test_calibration(tmp_path: Path) -> None:
    keys = {"depth_scale": 5, "depth_origin": -20, "depth_units": "eV", "ev_per_chan": 10, "title": "a map"}
    path = write_ripple(
        tmp_path, frames_of((2, 3, 4), "u2"), record="vector", width_scale=0.5, width_units="µm", **keys
    )
    array = vfs.open(path)
    assert array.calibration == {
        "scan_x": {"scale": 0.5, "offset": 0.0, "unit": "um"},
        "energy": {"scale": 5.0, "offset": -20.0, "unit": "eV"},
    }
    assert array.attrs["title"] == "a map"
    assert array.attrs["rpl"]["record-by"] == "vector"


def test_as_other_programs_write_it(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 4), "u2")
    path = write_ripple(tmp_path, twin.astype(">u2"), record="vector")
    inca = "(MLX::RIPPLE\r\n(MLX::WIDTH : 3)\r\n(MLX::HEIGHT :2)\r\n(MLX::DEPTH : 4)\r\n(MLX::OFFSET : 0)\r\n"
    inca += "(MLX::DATA-LENGTH : 2)\r\n(MLX::DATA-TYPE : UNSIGNED)\r\n"
    inca += "(MLX::BYTE-ORDER : BIG-ENDIAN)\r\n(MLX::RECORD-BY : VECTOR)\r\n)\r\n"
    for ends in ("\r\n", "\n", "\r"):
        path.write_bytes(inca.replace("\r\n", ends).encode())
        same(vfs.open(path)[...], twin)
    bruker = "key\tvalue\n; of a microscope\nwidth\t3 ; pixels\nheight\t2\ndepth\t4\noffset\t0\ndata-Length\t2\n"
    path.write_text(bruker + "data-type\tunsigned\nbyte-order\tbig-endian\nrecord-by\tvector\n")
    same(vfs.open(path)[...], twin)


def test_options_replace_what_is_said(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 4), "u2")
    path = write_ripple(tmp_path, twin.astype(">u2"), record_by="dont-care", byte_order="dont-care")
    refuses(path, "map.rpl", "record-by dont-care", "record_by=", kind=vfs.FormatError)
    same(vfs.open(path, record_by="image", byte_order="big")[...], twin)
    refuses(path, "record_by='maps'", record_by="maps", kind=vfs.OptionError)
    refuses(path, "byte_order='<'", record_by="image", byte_order="<", kind=vfs.OptionError)


def test_its_files(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 4), "u2")
    path = write_ripple(tmp_path, twin)
    raw = tmp_path / "map.raw"
    same(vfs.open([path, raw])[...], twin)
    refuses(raw, "map.raw", "map.rpl", kind=vfs.UnknownFormatError)
    refuses([path, path], "one .rpl at a time", kind=vfs.OptionError)
    upper = raw.rename(tmp_path / "map.RAW")
    same(vfs.open(path)[...], twin)
    upper.unlink()
    refuses(path, "map.raw", "no such file", kind=vfs.MissingSourceError)


def test_sizes(tmp_path: Path) -> None:
    twin = frames_of((3, 2, 5), "u2")
    path, raw = write_ripple(tmp_path, twin, offset=6), tmp_path / "map.raw"
    whole = raw.read_bytes()
    raw.write_bytes(whole + b"more")
    same(opens_incomplete(path, "4 bytes are left over", counts={"bytes_left_over": 4}).main[...], twin)
    raw.write_bytes(whole[:-1])
    twin[2] = 0
    same(incomplete(path, "map.raw", "2 of 3 records", kind=vfs.TruncatedSourceError)[...], twin)
    raw.write_bytes(whole[:20])
    refuses(path, "map.raw", "truncated", kind=vfs.TruncatedSourceError)


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("width", "0", "width 0"),
        ("width", "-3", "whole number for width"),
        ("height", "9" * 18, "expected numbers from 1 on"),
        ("height", "9" * 400, "whole number for height"),
        ("offset", "x", "whole number for offset"),
        ("offset", "9" * 18, "truncated"),
        ("data-length", "3", "1, 2, 4, 8"),
        ("data-type", "float", "4, 8 for data-length"),
        ("data-type", "complex", "signed, unsigned, float"),
        ("byte-order", "middle-endian", "little-endian"),
        ("record-by", "line", "image, vector"),
    ],
)
def test_garbled(tmp_path: Path, key: str, value: str, word: str) -> None:
    path = write_ripple(tmp_path, frames_of((2, 3, 4), "u2"))
    kept = [line for line in path.read_text().splitlines() if not line.startswith(key)]
    path.write_text("\n".join([*kept, f"{key}\t{value}"]))
    refuses(path, word)


@pytest.mark.parametrize("name", ["float32", "int64", "uint8"])
def test_real_files(oracle: dict[str, Any], name: str) -> None:
    folder = SHARED / f"raw/ripple_sdim2_ndim1_{name}"
    array = vfs.open(next(folder.glob("*.rpl")))
    assert array.shape == (2, 3, 4)
    assert array.calibration["y"] == {"scale": 200.0, "offset": 1.0, "unit": "eV"}
    (entry,) = oracle[f"raw/ripple_sdim2_ndim1_{name}"]["arrays"].values()
    assert same_values(array[...], entry)


def test_only_the_depth_may_be_left_out(tmp_path: Path) -> None:
    path = write_ripple(tmp_path, frames_of((3, 4), "u2"), record="dont-care")
    text = path.read_text()
    path.write_text("".join(line for line in text.splitlines(True) if not line.startswith("depth\t")))
    assert vfs.open(path).shape == (3, 4)
    for key in ("width", "height"):
        path.write_text("".join(line for line in text.splitlines(True) if not line.startswith(f"{key}\t")))
        with pytest.raises(vfs.FormatError, match=key):
            vfs.open(path)
