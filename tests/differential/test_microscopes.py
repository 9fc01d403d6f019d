"""ND2, LIF and CZI against the libraries of others: nd2, liffile, and pylibCZIrw of Zeiss, which also writes.

None of them ships files. These public ones were compared by hand in 2026, and were equal: the 20 .czi files in
sebi06/czitools (GPL-3.0; with czifile 2026.10), pims/tests/data/bioformats/cluster.nd2 of soft-matter/pims (BSD), and
two of the .lif files in nimne/readlif (GPL-3.0).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, same
from vfs.testing.microscope_writers import czi_planes, write_czi, write_lif, write_nd2, write_xlef

TWIN = frames_of((2, 3, 2, 16, 20), "u2")


def peak(at: float) -> dict[str, Any]:
    """Return a spectrum with its highest point at a wavelength in nm."""
    points = {f"Point{k}": {"eType": 2, "dWavelength": at + k - 1, "dTValue": n} for k, n in enumerate((0.1, 0.9, 0.2))}
    return {"uiCount": 3, "pPoint": points}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("loops", [("t", "z"), ("position", "z"), ("t", "position")])
def test_nd2(tmp_path: Path, loops: tuple[str, str], version: int, packed: bool) -> None:
    nd2 = pytest.importorskip("nd2")
    path = write_nd2(
        tmp_path / "a.nd2",
        TWIN,
        loops,
        channels=2,
        version=version,
        packed=packed,
        padding=0 if packed else 8,
        drawn=(0xFF0000, 0x0FE978),
        planes=tuple({"pFluorescentProbe": {"m_EmissionSpectrum": peak(at)}} for at in (465.0, 525.0)),
    )
    array = vfs.open(path)
    with nd2.ND2File(path) as file:
        same(array[...], file.asarray())
        sizes = {{"position": "P"}.get(dim, dim.upper()): n for dim, n in zip(array.dims, array.shape, strict=True)}
        assert dict(file.sizes) == sizes
        said = [(one["name"], one["colour"], one["emission"]) for one in array.metadata["channels"].value]
        assert said == [
            (
                one.name,
                f"#{one.color.r:02x}{one.color.g:02x}{one.color.b:02x}",
                pytest.approx(one.emissionLambdaNm * 1e-9),
            )
            for one in (channel.channel for channel in file.metadata.channels)
        ]


@pytest.mark.parametrize("version", [1, 2])
def test_lif(tmp_path: Path, version: int) -> None:
    liffile = pytest.importorskip("liffile")
    images: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "a": (("t", "z", "c", "y", "x"), TWIN),
        "b": (("t", "c", "z", "x"), frames_of((2, 3, 5, 6), "f4")),
        "c": (("y", "x", "s"), frames_of((5, 6, 3), "u1")),
    }
    path = write_lif(tmp_path / "a.lif", images, version=version)
    group = vfs.open_group(path)
    with liffile.LifFile(path) as file:
        assert len(file.images) == len(group) == 3
        for k, image in enumerate(file.images):
            array = group[f"image_{k}/data"]
            same(array[...], image.asarray())
            assert [dim.lower() for dim in image.dims] == list(array.dims)


@pytest.mark.parametrize("kind", ["lof", "tif", "pages"])
def test_xlef(tmp_path: Path, kind: str) -> None:
    liffile = pytest.importorskip("liffile")
    images: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "a": (("t", "z", "y", "x"), TWIN[:, :, 0]),
        "b": (("t", "y", "x", "s"), frames_of((2, 5, 6, 3), "u1")),
    }
    path = write_xlef(tmp_path, images, kind=kind, collection=kind == "tif")
    group = vfs.open_group(path)
    with liffile.LifFile(path) as file:
        assert len(file.images) == len(group) == 2
        for k, image in enumerate(file.images):
            array = group[f"image_{k}/data"]
            same(array[...], image.asarray())
            assert [dim.lower() for dim in image.dims] == list(array.dims)


@pytest.mark.parametrize(
    "how", ["uncompressed:", "zstd0:ExplicitLevel=3", "zstd1:ExplicitLevel=3;PreProcess=HiLoByteUnpack"]
)
def test_czi_that_zeiss_writes(tmp_path: Path, how: str) -> None:
    czi = pytest.importorskip("pylibCZIrw.czi")
    path = tmp_path / "a.czi"
    colours = frames_of((16, 20, 3), "u1")
    with czi.create_czi(str(path), compression_options=how) as made:
        for t, z in np.ndindex(2, 3):
            made.write(TWIN[t, z, 0][..., None], plane={"T": t, "Z": z, "C": 0}, location=(30, -7))
            made.write(TWIN[t, z, 1][:8, ..., None], plane={"T": t, "Z": z, "C": 0}, location=(40, 5))
        made.write_metadata("a", {0: "dye"}, scale_x=1e-7, scale_y=2e-7, scale_z=3e-7)
    array = vfs.open(path)
    with czi.open_czi(str(path)) as file:
        for t, z in np.ndindex(2, 3):
            same(array[t, z], file.read(plane={"T": t, "Z": z, "C": 0})[..., 0])
    assert {dim: axis["scale"] for dim, axis in array.calibration.items()} == {"z": 3e-7, "y": 2e-7, "x": 1e-7}
    assert array.metadata["channels"].value == ({"name": "dye"},)
    path = tmp_path / "b.czi"
    with czi.create_czi(str(path), compression_options=how) as made:
        made.write(colours[..., ::-1], plane={"T": 0, "Z": 0, "C": 0})  # blue, green, red
    same(vfs.open(path)[...], colours)


def test_channels_of_a_czi_that_zeiss_writes(tmp_path: Path) -> None:
    """Colours and contrast as ZEN's library writes them, of which black and white points are parts of 65,535."""
    czi = pytest.importorskip("pylibCZIrw.czi")
    path = tmp_path / "a.czi"
    with czi.create_czi(str(path)) as made:
        for c in range(2):
            made.write(TWIN[0, 0, c][..., None], plane={"T": 0, "Z": 0, "C": c})
        looks = {
            0: czi.ChannelDisplaySettingsDataClass(True, czi.TintingMode.Color, czi.Rgb8Color(0, 0, 255), 0.25, 0.5),
            1: czi.ChannelDisplaySettingsDataClass(True, czi.TintingMode.Color, czi.Rgb8Color(9, 200, 7), 0.0, 1.0),
        }
        made.write_metadata("cells", {0: "DAPI", 1: "GFP"}, display_settings=looks)
    metadata = vfs.open(path).metadata
    dapi, gfp = metadata["channels"].value
    assert dapi == {"name": "DAPI", "colour": "#0000ff", "window": pytest.approx((0.25 * 65535, 0.5 * 65535))}
    assert gfp == {"name": "GFP", "colour": "#09c807"}
    assert metadata["title"].value == "cells"


def test_czi_as_zeiss_reads_it(tmp_path: Path) -> None:
    czi = pytest.importorskip("pylibCZIrw.czi")
    imagecodecs: Any = pytest.importorskip("imagecodecs")
    smooth = np.add.outer(np.arange(2 * 3) * 1000, np.add.outer(np.arange(40), np.arange(60))).astype("u2")
    tiles = czi_planes(smooth.reshape(2, 3, 40, 60), "TZ", {"C": 0, "X": 10})
    encoders = {0: None, 4: lambda x: imagecodecs.jpegxr_encode(x, level=1.0), 5: imagecodecs.zstd_encode}
    for compression, encode in encoders.items():
        path = write_czi(tmp_path / "a.czi", tiles, compression=compression, encode=encode)
        array = vfs.open(path)
        with czi.open_czi(str(path)) as file:
            for t, z in np.ndindex(2, 3):
                same(array[t, z], file.read(plane={"T": t, "Z": z, "C": 0})[..., 0])
        same(array[...], smooth.reshape(2, 3, 40, 60))
