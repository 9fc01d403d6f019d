"""Colours in every format that has them: one red, one green and one blue pixel, as each face shows them.

The axis `s` is red, green, blue, whatever the order in the file: see `vfs.model.colours`.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.formats.frame_checks import frames_of, same
from vfs.faces.npy_face import NpyFace
from vfs.integrations import napari
from vfs.pictures.frames import FrameView, look
from vfs.testing.gatan_writers import write_dm
from vfs.testing.microscope_writers import write_czi, write_lif, write_lof, write_nd2, write_xlef
from vfs.testing.plane_writers import write_ndtiff
from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import SHORT, write_ome_tiff, write_tiff

COLOURS = ("Red", "Green", "Blue")
RGB = {262: (SHORT, [2], 0)}  # PhotometricInterpretation


def picture(dtype: str = "u1") -> np.ndarray:
    """Return [4, 6, 3]: two columns of red, two of green, two of blue, over a dark ground."""
    made = np.full((4, 6, 3), 9, dtype)
    for k in range(3):
        made[:, 2 * k : 2 * k + 2, k] = 200
    return made


def jpeg_xr(stored: np.ndarray) -> bytes:
    imagecodecs = pytest.importorskip("imagecodecs")
    return bytes(imagecodecs.jpegxr_encode(np.ascontiguousarray(stored[..., ::-1]), level=1.0))


def jpeg(stored: np.ndarray) -> bytes:
    imagecodecs = pytest.importorskip("imagecodecs")
    shown = np.ascontiguousarray(stored[..., ::-1])
    return bytes(imagecodecs.jpeg8_encode(shown, level=100, colorspace="rgb", outcolorspace="rgb"))


def lzw(stored: np.ndarray) -> bytes:
    imagecodecs = pytest.importorskip("imagecodecs")
    return bytes(imagecodecs.lzw_encode(stored.tobytes()))


def zstd(stored: np.ndarray) -> bytes:
    imagecodecs = pytest.importorskip("imagecodecs")
    return bytes(imagecodecs.zstd_encode(stored.tobytes()))


Write = Callable[[Path], Path]


def czi(dtype: str, compression: int = 0, encode: Any = None) -> Write:
    tile = ({"C": 0}, picture(dtype))
    return lambda folder: write_czi(folder / "a.czi", [tile], compression=compression, encode=encode)


def nd2(dtype: str, **how: Any) -> Write:
    return lambda folder: write_nd2(folder / "a.nd2", picture(dtype)[..., ::-1], (), colours=3, **how)


def lif(tags: str, dtype: str = "u1") -> Write:
    """Return a function that writes a .lif whose colours stand in the order of some letters."""

    def write(folder: Path) -> Path:
        stored = picture(dtype)[..., ["RGB".index(letter) for letter in tags]]
        numbers = iter(["RGB".index(letter) + 1 for letter in tags])
        names = iter([COLOURS["RGB".index(letter)] for letter in tags])

        def named(xml: str) -> str:
            tagged = re.sub(r'ChannelTag="\d"', lambda _: f'ChannelTag="{next(numbers)}"', xml)
            return re.sub(r'LUTName="\w+"', lambda _: f'LUTName="{next(names)}"', tagged)

        return write_lif(folder / "a.lif", {"a": (("y", "x", "s"), stored)}, xml=named)

    return write


def xlef(kind: str) -> Write:
    def write(folder: Path) -> Path:
        tags = RGB if kind == "tif" else None
        how = {"tags": tags} if tags else {}
        return write_xlef(folder, {"a": (("y", "x", "s"), picture())}, kind=kind, **how)

    return write


def tiff(dtype: str = "u1", **how: Any) -> Write:
    def write(folder: Path) -> Path:
        page = np.moveaxis(picture(dtype), -1, 0) if how.get("planar") else picture(dtype)
        return write_tiff(folder / "a.tif", [page], tags=RGB, **how)

    return write


def ome(dtype: str = "u1", **how: Any) -> Write:
    return lambda folder: write_ome_tiff(folder, picture(dtype)[None, None, None], tags=RGB, **how)


def ycbcr(folder: Path) -> Path:
    tifffile, _ = pytest.importorskip("tifffile"), pytest.importorskip("imagecodecs")
    large = picture().repeat(16, 0).repeat(16, 1)  # JPEG has one colour for 2 × 2 pixels
    how = {"photometric": "rgb", "compression": "jpeg", "compressionargs": {"level": 100}}
    tifffile.imwrite(folder / "a.tif", large, metadata=None, **how)
    return folder / "a.tif"


def dm(order: str, kind: int) -> Write:
    def write(folder: Path) -> Path:
        stored = np.dstack([picture()[..., ::-1], np.full((4, 6), 255, "u1")])
        stored = stored if order == "<" else stored[..., ::-1]
        packed = np.ascontiguousarray(stored).view(f"{order}u4")[..., 0]
        return write_dm(folder, packed, colour=kind, order=order)

    return write


def hdf5(interlaced: str) -> Write:
    def write(folder: Path) -> Path:
        h5py = pytest.importorskip("h5py")
        axis = ("PLANE", "LINE", "PIXEL").index(interlaced)
        with h5py.File(folder / "a.h5", "w") as file:
            data = file.create_dataset("picture", data=np.moveaxis(picture(), -1, axis))
            data.attrs.update(CLASS="IMAGE", IMAGE_SUBCLASS="IMAGE_TRUECOLOR", INTERLACE_MODE=f"INTERLACE_{interlaced}")
        return folder / "a.h5"

    return write


def compound(folder: Path, names: str = "RGB") -> Path:
    """Write a picture whose pixels are compounds, as HyperSpy writes rgb8."""
    h5py = pytest.importorskip("h5py")
    dtype = np.dtype([(name, "u1") for name in names])
    with h5py.File(folder / "a.h5", "w") as file:
        file["picture"] = np.ascontiguousarray(picture()).view(dtype)[..., 0]
    return folder / "a.h5"


WRITERS: dict[str, Write] = {
    **{f"czi {dtype}": czi(dtype) for dtype in ("u1", "u2", "f4")},
    **{f"czi {dtype} jpeg xr": czi(dtype, 4, jpeg_xr) for dtype in ("u1", "u2")},
    **{f"czi {dtype} zstd": czi(dtype, 5, zstd) for dtype in ("u1", "u2")},
    "czi lzw": czi("u2", 2, lzw),
    "czi jpeg": czi("u1", 1, jpeg),
    "czi that says zstd, plain": czi("u1", 5, lambda stored: stored.tobytes()),
    "czi that says jpeg xr, plain": czi("u2", 4, lambda stored: stored.tobytes()),
    **{f"nd2 {dtype}": nd2(dtype, padding=4) for dtype in ("u1", "u2")},
    **{f"nd2 {dtype} zlib": nd2(dtype, packed=True) for dtype in ("u1", "u2")},
    **{f"lif {tags}": lif(tags) for tags in ("RGB", "BGR", "GBR")},
    "lif u2": lif("BGR", "u2"),
    "lof": lambda folder: write_lof(folder / "a.lof", "a", ("y", "x", "s"), picture()),
    **{f"xlef {kind}": xlef(kind) for kind in ("lof", "tif")},
    **{f"tiff {dtype}": tiff(dtype) for dtype in ("u1", "u2", "f4")},
    "tiff planar": tiff(planar=True),
    "tiff big endian, strips": tiff("u2", order=">", strip=2),
    "tiff ycbcr": ycbcr,
    "ome": ome(),
    "ome planar": ome("u2", planar=True),
    "ndtiff": lambda folder: write_ndtiff(folder, picture()[None], {"time": [0]}),
    "dm rgb": dm("<", 8),
    "dm rgba": dm("<", 23),
    "dm big endian": dm(">", 23),
    "mrc": lambda folder: write_mrc(folder, picture()[None], 16),
    **{f"hdf5 {way}": hdf5(way) for way in ("PIXEL", "LINE", "PLANE")},
    "hdf5 compound": compound,
}


@pytest.mark.parametrize("name", WRITERS)
def test_red_is_red(tmp_path: Path, name: str) -> None:
    path = WRITERS[name](tmp_path)
    array = vfs.open(path)
    axis = array.dims.index("s")
    shown = np.moveaxis(array[...], axis, -1)
    step = 16 if name == "tiff ycbcr" else 1
    near = 3 if name == "tiff ycbcr" else 0
    frame = shown.reshape(-1, *shown.shape[-3:])[0][step // 2 :: step, step // 2 :: step]
    assert np.abs(frame[..., :3].astype(float) - picture()).max() <= near

    held = np.load(io.BytesIO(bytes(NpyFace(array._reader).get("") or b"")))
    same(np.moveaxis(held, axis, -1), shown)

    view = FrameView.of(array._reader)
    assert view.colour == axis
    drawn = look(view, view.middle, 64, 96).picture
    assert np.abs(drawn[step // 2 :: step, step // 2 :: step] - picture()).max() <= near

    check_ome(array, frame)
    check_napari(path, axis, array.ndim)


def check_ome(array: vfs.VirtualArray, frame: np.ndarray) -> None:
    """Check that OME-Zarr names the colours, and that its channels are those."""
    face: Any = zarr.open_group(array.store(face="ome"), mode="r")
    said = face.attrs["ome"]
    channels = said["omero"]["channels"]
    assert [one["label"] for one in channels][:3] == list(COLOURS)
    assert [one["color"] for one in channels][:3] == ["FF0000", "00FF00", "0000FF"]
    assert len({tuple(one["window"].items()) for one in channels[:3]}) == 1  # else a pixel would have another colour
    at = [one["name"] for one in said["multiscales"][0]["axes"]].index("c")
    pixels = np.moveaxis(face["0"][...], at, 0)
    step = pixels.shape[-1] // 6
    for k in range(3):
        same(pixels[k].reshape(pixels.shape[-2:])[step // 2 :: step, step // 2 :: step], frame[..., k])


def check_napari(path: Path, axis: int, ndim: int) -> None:
    """Check what napari gets: one layer in colours, or, of separate planes, a layer for each."""
    if find_spec("pint") is None:
        return
    layers = napari.read(str(path))
    if axis == ndim - 1:
        assert [given["rgb"] for _, given, _ in layers] == [True]
        return
    assert [given["name"].rpartition(": ")[2] for _, given, _ in layers] == list(COLOURS)
    assert [given["colormap"] for _, given, _ in layers] == ["#FF0000", "#00FF00", "#0000FF"]


def labels(array: vfs.VirtualArray) -> list[tuple[str, str]]:
    """Return label and colour of each channel in OME-Zarr."""
    face: Any = zarr.open_group(array.store(face="ome"), mode="r")
    return [(one["label"], one["color"]) for one in face.attrs["ome"]["omero"]["channels"]]


def test_channels_that_have_colours_are_named_by_both(tmp_path: Path) -> None:
    twin = np.stack([picture(), picture()[:, ::-1]])
    array = vfs.open(write_nd2(tmp_path / "a.nd2", twin[..., ::-1], (), channels=2, colours=3))
    same(array[...], twin)
    assert [label for label, _ in labels(array)] == [f"dye {k} {colour}" for k in range(2) for colour in COLOURS]


def test_samples_that_are_no_colours_are_not_called_red(tmp_path: Path) -> None:
    """Three samples of brightness, or cyan, magenta, yellow and black: what PhotometricInterpretation says."""
    for photometric, samples in ((1, 3), (5, 4)):
        page = np.zeros((40, 40, samples), "u1")
        path = write_tiff(tmp_path / "a.tif", [page], tags={262: (SHORT, [photometric], 0)})
        array = vfs.open(path)
        assert array.dims == ("y", "x", "s")
        assert FrameView.of(array._reader).colour is None
        assert "Red" not in [label for label, _ in labels(array)]
    for names in ("BGR", "xyz"):
        array = vfs.open(compound(tmp_path, names))
        assert array.attrs["samples"] == list(names)
        assert FrameView.of(array._reader).colour is None


def test_nd2_whose_channels_differ_in_colours(tmp_path: Path) -> None:
    """A camera in colours beside a dye: each number of a pixel is a channel, in the order of the file."""
    twin = frames_of((2, 4, 5, 6), "u1")
    path = write_nd2(tmp_path / "a.nd2", twin, ("t",), channels=4, parts=(1, 3), drawn=(0x00FF10, 0xFFFFFF))
    same(vfs.open(path)[...], twin)
    assert labels(vfs.open(path)) == [
        ("dye 0", "10FF00"),
        ("dye 1 blue", "0000FF"),
        ("dye 1 green", "00FF00"),
        ("dye 1 red", "FF0000"),
    ]


def test_lsm_says_names_and_colours_of_channels(tmp_path: Path) -> None:
    """Zeiss: tag 34412, whose number at byte 108 is the place of a table of colours and names."""
    pytest.importorskip("tifffile")
    twin = frames_of((3, 8, 9), "u1")
    about = bytearray(380)
    struct.pack_into("<Ii5ii", about, 0, 67127628, len(about), 9, 8, 1, 3, 1, 1)
    named = b"".join(struct.pack("<I", len(name) + 1) + name + b"\0" for name in (b"one", b"two", b"three"))
    drawn = bytes([0, 255, 0, 0, 255, 0, 0, 0, 0, 128, 255, 0])
    table = struct.pack("<6I", 24 + len(drawn) + len(named), 3, 3, 24, 24 + len(drawn), 0) + drawn + named
    pages = [twin, twin[:, ::2, ::2]]  # LSM has thumbnails
    for _ in range(2):  # the second time the place of the table is known
        tags = {**RGB, 34412: (1, bytes(about), len(about))}
        path = write_tiff(tmp_path / "a.lsm", pages, planar=True, tags=tags)
        struct.pack_into("<I", about, 108, path.stat().st_size)
    path.write_bytes(path.read_bytes() + table)
    array = vfs.open(path)
    assert array.dims == ("c", "y", "x")
    same(array[...], twin)
    assert labels(array) == [("one", "00FF00"), ("two", "FF0000"), ("three", "0080FF")]
