"""OME-Zarr faces: which sets have them, what they say, and that their levels are the images."""

from __future__ import annotations

import json
import math
import pickle
import re
import zlib
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import zarr

import vfs
from tests.engine.support import halved
from tests.faces.support import FORMATS, array_of, tree_of
from vfs.contents.face_folder import FaceFolder
from vfs.engine.array import ArrayReader
from vfs.errors import OptionError
from vfs.faces import channels
from vfs.faces.face import GROUP, ZarrFace
from vfs.model.command_options import ExportOptions
from vfs.reduce import passes, pyramid
from vfs.testing.gatan_writers import write_dm
from vfs.testing.inside import set_of
from vfs.testing.microscope_writers import write_lif, write_nd2
from vfs.testing.plane_writers import write_ndtiff
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_mib
from vfs.zarr.export import export


def shown(dims: str, shape: tuple[int, ...], dtype: str = "u2", path: str = "data", **said: Any) -> ArrayReader:
    values = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    names = tuple(dims.split())
    return array_of(values, path, said={"dims": names, **said})


def said(face: ZarrFace, group: str = "") -> Mapping[str, Any]:
    """What a group says of images, in the places of version 0.5."""
    if face.zarr_format == 3:
        about: Mapping[str, Any] = json.loads(face.documents[f"{group}/zarr.json".lstrip("/")])["attributes"]["ome"]
        return about
    return dict(json.loads(face.documents[f"{group}/.zattrs".lstrip("/")]))


def check_valid(face: ZarrFace, group: str = "") -> None:
    """Check an image by the rules of NGFF 0.4 and 0.5 that say MUST, and by what viewers need."""
    about = said(face, group)
    version = {3: "0.5", 2: "0.4"}[face.zarr_format]
    (image,) = about["multiscales"]
    assert version == (about["version"] if face.zarr_format == 3 else image["version"])
    names, types = [axis["name"] for axis in image["axes"]], [axis.get("type") for axis in image["axes"]]
    assert 2 <= len(names) <= 5
    assert len(set(names)) == len(names)
    space = types.count("space")
    assert space in (2, 3)
    assert types[-space:] == ["space"] * space
    assert types.count("time") <= 1
    assert types[: types.count("time")] == ["time"] * types.count("time")
    assert len(types) - space - types.count("time") <= 1
    arrays = [face.arrays[f"{group}/{one['path']}".lstrip("/")] for one in image["datasets"]]
    assert {array.dtype for array in arrays} == {arrays[0].dtype}
    for one, array in zip(image["datasets"], arrays, strict=True):
        assert list(array.dims) == names
        first, *more = one["coordinateTransformations"]
        assert first["type"] == "scale"
        assert [step["type"] for step in more] in ([], ["translation"])
        assert len(first["scale"]) == array.ndim
        assert min(first["scale"]) > 0
    assert all(a.shape[-2:] > b.shape[-2:] for a, b in pairwise(arrays))
    if "omero" in about:
        count = arrays[0].shape[names.index("c")] if "c" in names else 1
        assert len(about["omero"]["channels"]) == count
        for channel in about["omero"]["channels"]:
            assert int(channel["color"], 16) < 1 << 24
            assert channel["window"].keys() == {"min", "max", "start", "end"}
            assert channel["window"]["start"] < channel["window"]["end"]


AXES: dict[str, tuple[str, tuple[int, ...], str]] = {
    "image": ("y x", (4, 5), "y x"),
    "stack": ("frame y x", (3, 4, 5), "frame y x"),
    "scan": ("scan_y scan_x y x", (2, 3, 4, 5), "scan y x"),
    "scans": ("t scan_y scan_x y x", (2, 2, 3, 4, 5), "t scan y x"),
    "ome": ("t c z y x", (2, 3, 2, 4, 5), "t c z y x"),
    "colours": ("t c z y x s", (2, 1, 2, 4, 5, 3), "t c z y x"),
    "imagej": ("z c y x", (2, 3, 4, 5), "c z y x"),
    "files": ("file frame y x", (2, 3, 4, 5), "file_frame y x"),
    "behind": ("y x frame", (4, 5, 6), "frame y x"),
    "upper": ("Z Y X", (2, 4, 5), "z y x"),
}


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("kind", AXES)
def test_axes_are_those_that_viewers_take(kind: str, zarr_format: int) -> None:
    dims, shape, axes = AXES[kind]
    array = shown(dims, shape)
    face = tree_of(array).zarr(zarr_format, "ome")
    check_valid(face)
    assert [axis["name"] for axis in said(face)["multiscales"][0]["axes"]] == axes.split()
    names = [name.lower() for name in dims.split()]
    order = sorted(range(len(names)), key=lambda k: {"t": 0, "z": 2, "y": 3, "x": 4}.get(names[k], 1))
    if kind != "colours":  # t first, then what is no axis of space
        np.testing.assert_array_equal(face.arrays["0"][...].reshape(-1), array[...].transpose(order).reshape(-1))
    else:
        np.testing.assert_array_equal(face.arrays["0"][1, :, 1], np.moveaxis(array[1, 0, 1], -1, 0))


@pytest.mark.parametrize(
    "array",
    [
        shown("scan_y scan_x energy", (2, 3, 4)),
        shown("frame", (3,)),
        shown("y x", (4, 5), "c8"),
        shown("y x", (0, 5)),
        shown("y x", (4, 5), companion=True),
    ],
    ids=["spectra", "numbers", "complex", "empty", "companion"],
)
def test_what_is_no_image_has_no_such_face(array: ArrayReader) -> None:
    tree = tree_of(array, array_of(np.zeros(3), "other"))
    assert set(tree.faces()) >= {".zarr", ".v2.zarr"}
    assert not any("ome" in ending for ending in tree.faces())
    with pytest.raises(OptionError, match="set: has no image"):
        tree.zarr(3, "ome")


def test_faces_are_asked_for_by_words_that_exist() -> None:
    tree = tree_of(shown("y x", (4, 5)))
    with pytest.raises(OptionError, match='face=\'ngff\': expected "zarr" or "ome"'):
        tree.zarr(3, "ngff")
    assert list(tree.faces()) == [".zarr", ".v2.zarr", ".ome.zarr", ".ome.v2.zarr", ".npy"]
    assert list(tree.faces(2)) == [".v2.zarr", ".ome.v2.zarr", ".npy"]


def test_a_face_is_made_when_somebody_looks_into_it() -> None:
    folder = FaceFolder([tree_of(shown("y x", (4, 5)))])
    assert list(folder.at("").children()) == ["set.zarr", "set.v2.zarr", "set.ome.zarr", "set.ome.v2.zarr", "set.npy"]
    assert folder.at("set.ome.zarr").node() == GROUP
    assert [entry.path for entry in folder.at("").sets()] == ["set.zarr"], "one set, not two"
    assert folder.at_hand("set.ome.zarr/zarr.json") is None, "to make it takes time: not in an event loop"
    assert folder.at("set.ome.zarr/zarr.json").node() is not None
    assert folder.at_hand("set.ome.zarr/zarr.json") is not None


CALIBRATION = {
    "y": {"scale": 0.5, "offset": 2.0, "unit": "um"},
    "x": {"scale": -0.25, "offset": 1.0, "unit": "1/nm"},
    "t": {"scale": 30, "offset": 0, "unit": "s"},
}


AXES_OF_IT = [
    {"name": "t", "type": "time", "unit": "second"},
    {"name": "y", "type": "space", "unit": "micrometer"},
    {"name": "x", "type": "space"},  # 1/nm is no unit that NGFF has
]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_scales_and_units(monkeypatch: pytest.MonkeyPatch, zarr_format: int) -> None:
    monkeypatch.setattr(pyramid, "COARSEST", 4)
    array = shown("t y x", (2, 9, 16), attrs={"calibration": CALIBRATION})
    face = tree_of(array).zarr(zarr_format, "ome")
    check_valid(face)
    (image,) = said(face)["multiscales"]
    assert image["axes"] == AXES_OF_IT
    assert [one["coordinateTransformations"] for one in image["datasets"]] == [
        [{"type": "scale", "scale": [30, 0.5 * k, 0.25 * k]}, {"type": "translation", "translation": [0, y, x]}]
        for k, y, x in ((1, 2.0, 0.0), (2, 2.25, 0.125), (4, 2.75, 0.375))
    ]
    assert image["type"] == "mean"
    mixed = {"y": {"scale": 5.0, "offset": 10.0, "unit": "angstrom"}, "x": {"scale": 2.0, "offset": 0.0, "unit": "nm"}}
    (image,) = said(tree_of(shown("y x", (4, 4), attrs={"calibration": mixed})).zarr(zarr_format, "ome"))["multiscales"]
    assert [axis["unit"] for axis in image["axes"]] == ["nanometer"] * 2, "many viewers look at the numbers only"
    scale, moved = image["datasets"][0]["coordinateTransformations"]
    assert (scale["scale"], moved["translation"]) == ([0.5, 2.0], [1.0, 0.0])
    mask = tree_of(shown("y x", (9, 16), "?")).zarr(zarr_format, "ome")
    assert said(mask)["multiscales"][0]["type"] == "nearest"
    assert said(mask)["omero"]["channels"][0]["window"] == {"min": 0, "max": 1, "start": 0, "end": 1}
    assert {level.dtype.str for level in mask.arrays.values()} == {"|u1"}, "viewers draw no bool"
    half = tree_of(shown("y x", (9, 16), "f2")).zarr(zarr_format, "ome")
    assert {level.dtype.str for level in half.arrays.values()} == {"<f4"}, "nor float16"


def test_version_06_has_coordinate_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The validators of tests/differential ask its schemas."""
    monkeypatch.setattr(pyramid, "COARSEST", 4)
    np.save(tmp_path / "a.npy", np.zeros((2, 9, 16), "u2"))
    opened = {"sig_ndim": 2, "axes": "t=frame|y,x", "calibration": CALIBRATION}
    group = vfs.open_group(tmp_path / "a.npy", ngff="0.6", **opened)
    store = pickle.loads(pickle.dumps(group.store(face="ome")))
    about = dict(zarr.open_group(store, mode="r").attrs)["ome"]
    usual = said(set_of(vfs.open_group(tmp_path / "a.npy", **opened)).tree.zarr(3, "ome"))
    (image,), (before,) = about["multiscales"], usual["multiscales"]
    assert (about["version"], about["omero"]) == ("0.6", usual["omero"])
    assert image["coordinateSystems"] == [{"name": "intrinsic", "axes": AXES_OF_IT}]
    assert "axes" not in image
    for one, other in zip(image["datasets"], before["datasets"], strict=True):
        (step,) = one["coordinateTransformations"]
        assert (step.pop("input"), step.pop("output")) == ({"path": other["path"]}, {"name": "intrinsic"})
        assert step == {"type": "sequence", "transformations": other["coordinateTransformations"]}
    check_valid(set_of(group).tree.zarr(2, "ome"))
    with pytest.raises(OptionError, match=r"ngff='0\.7': expected 0\.5 or 0\.6"):
        vfs.open(tmp_path / "a.npy", ngff="0.7")


def test_levels_of_the_file_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a slide with two smaller versions, a third of its size and a ninth; smaller ones are computed."""
    monkeypatch.setattr(pyramid, "COARSEST", 8)
    pages = [np.full((180 // k, 240 // k), k, "u1") for k in (1, 3, 9)]
    face = set_of(vfs.open_group(write_tiff(tmp_path / "a.tif", pages[:1], smaller=[pages[1:]]))).tree.zarr(3, "ome")
    check_valid(face)
    assert [(int(array[3, 3]), array.shape) for array in face.arrays.values()] == [
        (1, (180, 240)),
        (3, (60, 80)),
        (9, (20, 26)),
        (9, (10, 13)),
        (9, (5, 7)),
    ]
    scales = [one["coordinateTransformations"][0]["scale"] for one in said(face)["multiscales"][0]["datasets"]]
    assert scales == [[1, 1], [3, 3], [9, 9], [18, 18], [36, 36]]


def test_channels_are_those_of_ome_xml(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 900, (1, 2, 3, 8, 9)).astype("u2")
    path = write_ome_tiff(tmp_path, image)
    group = vfs.open_group(path)
    face = set_of(group).tree.zarr(2, "ome")
    check_valid(face)
    about = said(face)
    assert about["multiscales"][0]["name"] == about["omero"]["name"] == "cells"
    assert [channel["label"] for channel in about["omero"]["channels"]] == ["dye 0", "dye 1"]
    assert about["omero"]["rdefs"] == {"defaultT": 0, "defaultZ": 1, "model": "color"}
    assert about["omero"]["channels"][0]["window"]["max"] == 65535
    assert 800 < about["omero"]["channels"][0]["window"]["end"] < 900
    store = group.store(2, "ome")
    np.testing.assert_array_equal(zarr.open_group(store, mode="r", zarr_format=2)["0"][...], image)
    assert str(store) == "vfs://set.ome.v2.zarr"


def test_channels_are_called_as_leica_calls_their_colours(tmp_path: Path) -> None:
    images = {"cells": ("cyx", np.arange(144, dtype="u2").reshape(2, 8, 9))}
    colours = iter(["Magenta", "Green"])
    path = write_lif(
        tmp_path / "a.lif", images, xml=lambda text: re.sub("(?<=LUTName=.)Green", lambda _: next(colours), text)
    )
    channels = said(set_of(vfs.open_group(path)).tree.zarr(3, "ome"))["omero"]["channels"]
    assert [(one["label"], one["color"]) for one in channels] == [("Magenta", "FF00FF"), ("Green", "00FF00")]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_scan_shows_its_images(tmp_path: Path, zarr_format: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = np.random.default_rng(0).integers(0, 4000, (12, 8, 16)).astype("u2")
    path = write_mib(tmp_path, frames, scan=(3, 4))
    derive = {"bf": vfs.Disk(4, 8, 3), "com": vfs.CenterOfMass(), "mean": vfs.Mean(), "r": vfs.RadialSum(4, 8, 20)}
    group = vfs.open_group(path, derive=derive)
    began = []
    monkeypatch.setattr(passes.Pass, "run", lambda self, parts: began.append(self))
    face = set_of(group).tree.zarr(zarr_format, "ome")
    assert not began, "nothing is computed to say what there is"
    monkeypatch.undo()
    images = said(face)["bioformats2raw.layout"] == 3 and [said(face, str(k)) for k in range(4)]
    assert [one["multiscales"][0]["name"] for one in images] == ["scan", "bf", "com", "mean"]
    assert said(face, "OME")["series"] == ["0", "1", "2", "3"]
    listed = ElementTree.fromstring(bytes(face.get("OME/METADATA.ome.xml") or b""))
    assert [image.get("Name") for image in listed] == ["scan", "bf", "com", "mean"]
    for k in range(4):
        check_valid(face, str(k))
    np.testing.assert_array_equal(face.arrays["0/0"][5], group["data"][1, 1])
    np.testing.assert_array_equal(face.arrays["1/0"][...], group["derived/bf"][...])
    assert (face.arrays["1/0"].dtype, group["derived/bf"].dtype) == ("f4", "u8"), (
        "no viewer draws all numbers of 64 bits"
    )
    np.testing.assert_array_equal(face.arrays["2/0"][1], group["derived/com"][..., 1].astype("f4"))
    np.testing.assert_array_equal(face.arrays["3/0"][...], group["derived/mean"][...].astype("f4"))


def test_ome_xml_says_what_the_file_says(tmp_path: Path) -> None:
    """ome-types, which has OME's schema, takes the same documents of real files."""
    settings = (
        '<Attachment Name="HardwareSetting" SystemTypeName="TCS SP8"><ATLConfocalSettingDefinition Magnification="63"'
        ' ObjectiveName="HC PL APO 63x/1.30" Immersion="GLYC" NumericalAperture="1.3" StagePosX="0.035"'
        ' SystemSerialNumber="81"/></Attachment>'
        '<TimeStampList NumberOfTimeStamps="2">1d71114eb8b44f0 1d71114ebdc2410 </TimeStampList>'
    )
    tables = iter(["Blue", "Green"])

    def changed(xml: str) -> str:
        xml = re.sub("(?<=LUTName=.)Green", lambda _: next(tables), xml)
        return xml.replace("</ImageDescription>", f"</ImageDescription>{settings}")

    written = write_lif(tmp_path / "a.lif", {"a": ("cyx", np.ones((2, 8, 9), "u2"))}, xml=changed)
    face = set_of(vfs.open_group(written)).tree.zarr(3, "ome")
    said_of = ElementTree.fromstring(bytes(face.get("OME/METADATA.ome.xml") or b""))
    space = {"o": "http://www.openmicroscopy.org/Schemas/OME/2016-06"}
    assert [one.tag.partition("}")[2] for one in said_of] == ["Instrument", "Image"]

    def attributes(path: str) -> dict[str, str]:
        (found,) = said_of.findall(path, space)
        return dict(found.attrib)

    assert attributes("o:Instrument/o:Objective") == {
        "ID": "Objective:0:0",
        "Model": "HC PL APO 63x/1.30",
        "NominalMagnification": "63.0",
        "LensNA": "1.3",
        "Immersion": "Glycerol",
    }
    assert attributes("o:Instrument/o:Microscope") == {"Model": "TCS SP8", "SerialNumber": "81"}
    assert float(attributes("o:Image/o:StageLabel")["X"]) == pytest.approx(35_000)
    assert said_of.findtext("o:Image/o:AcquisitionDate", namespaces=space) == "2021-03-04T16:39:17.951000"
    blue, green = said_of.findall("o:Image/o:Pixels/o:Channel", space)
    assert (blue.get("Name"), blue.get("Color"), green.get("Color")) == ("Blue", "65535", "16711935")
    assert face.arrays.keys() == {"0"}, "an image without a group around it"
    written = write_dm(tmp_path, np.ones((40, 60), "f4"), units=("nm", "nm"))
    face = set_of(vfs.open_group(written)).tree.zarr(3, "ome")
    pixels = ElementTree.fromstring(bytes(face.get("OME/METADATA.ome.xml") or b"")).find("o:Image/o:Pixels", space)
    assert pixels is not None
    assert pixels.attrib.items() >= {"SizeX": "60", "SizeY": "40", "PhysicalSizeXUnit": "µm"}.items()
    assert float(pixels.attrib["PhysicalSizeX"]) == pytest.approx(0.0005)


@pytest.mark.parametrize("stored", ["lines", "strips", "tiles"])
def test_contrast_is_that_of_the_whole_image(
    tmp_path: Path, stored: str, shapes_read: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It becomes brighter from one corner to the opposite one, and is larger than what is looked at."""
    monkeypatch.setattr(channels, "_LOOK", 1 << 18)
    image = np.add.outer(np.arange(2000), np.arange(2000)).astype("u2")
    how: dict[str, Any] = {} if stored == "lines" else {"compression": 8, "encode": partial(zlib.compress, level=1)}
    how |= {"tile": (128, 128)} if stored == "tiles" else {"strip": 8} if stored == "strips" else {}
    face = set_of(vfs.open_group(write_tiff(tmp_path / "a.tif", [image], **how))).tree.zarr(3, "ome")
    (channel,) = said(face)["omero"]["channels"]
    assert channel["window"]["start"] < 0.3 * 4000
    assert channel["window"]["end"] > 0.7 * 4000
    assert 2 * sum(map(math.prod, shapes_read)) <= 1 << 18


def test_what_cannot_be_looked_at_has_no_contrast(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", [np.zeros((64, 64), "u2")], compression=8, encode=lambda data: b"no zlib")
    face = set_of(vfs.open_group(path)).tree.zarr(3, "ome")
    check_valid(face)
    assert "omero" not in said(face)
    with pytest.raises(vfs.SourceError, match=r"a\.tif"):
        face.get("0/c/0/0")


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_an_exported_image_is_one(tmp_path: Path, zarr_format: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyramid, "COARSEST", 16)
    image = np.random.default_rng(2).integers(0, 255, (1, 1, 1, 50, 40, 3)).astype("u1")
    path = write_ome_tiff(tmp_path, image, tile=(16, 16), compression=8, encode=zlib.compress)
    face = set_of(vfs.open_group(path)).tree.zarr(zarr_format, "ome")
    export(face, tmp_path / "out.ome.zarr", ExportOptions())
    root = zarr.open_group(tmp_path / "out.ome.zarr", mode="r", zarr_format=zarr_format)
    about = dict(root.attrs)
    assert (about["ome"] if zarr_format == 3 else about)["multiscales"] == said(face)["multiscales"]
    expected = np.moveaxis(image[:, 0], -1, 1)
    for number in range(3):
        np.testing.assert_array_equal(root[str(number)][...], expected)
        expected = halved(expected)


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("place", ["least", "zero", "most"])
def test_windows_of_images_that_are_alike_everywhere(tmp_path: Path, dtype: str, place: str) -> None:
    """Viewers divide by end - start, in float64."""
    limits: Any = np.iinfo(dtype) if dtype[0] in "iu" else np.finfo(dtype)
    value = {"least": limits.min, "zero": 0, "most": limits.max}[place]
    np.save(tmp_path / "a.npy", np.full((2, 8, 9), value, dtype))
    shown: Any = zarr.open_group(vfs.open(tmp_path / "a.npy").store(face="ome"), mode="r").attrs["ome"]
    window = shown["omero"]["channels"][0]["window"]
    assert float(window["end"]) > float(window["start"])
    assert limits.min <= window["start"] <= value <= window["end"] <= limits.max
    assert window["min"] <= window["start"]
    assert window["end"] <= window["max"]


def test_each_position_of_a_stage_is_an_image(tmp_path: Path) -> None:
    """Its channels stay channels, and its levels and name are its own."""
    twin = np.random.default_rng(1).integers(0, 60_000, (2, 3, 2, 2, 530, 20)).astype("u2")
    array = vfs.open(write_nd2(tmp_path / "a.nd2", twin, ("t", "position", "z"), channels=2))
    assert array.attrs["axes"] == {"position": ["Point 1", "Point 2", "Point 3"]}
    for version in (3, 2):
        face = array.store(zarr_format=version, face="ome").face
        for k in range(3):
            check_valid(face, str(k))
            (image,) = said(face, str(k))["multiscales"]
            assert (image["name"], len(said(face, str(k))["omero"]["channels"])) == (f"a (Point {k + 1})", 2)
            assert "".join(axis["name"] for axis in image["axes"]) == "tczyx"
            shown = twin[:, k].swapaxes(1, 2)
            np.testing.assert_array_equal(face.arrays[f"{k}/0"].read(), shown)
            np.testing.assert_array_equal(face.arrays[f"{k}/1"].read(), halved(shown))
        labels = ElementTree.fromstring(face.get("OME/METADATA.ome.xml")).findall(".//{*}StageLabel")
        assert [label.get("Name") for label in labels] == ["Point 1", "Point 2", "Point 3"]


def test_positions_without_channels_are_images_too() -> None:
    face = tree_of(shown("position y x", (3, 4, 5))).zarr(face="ome")
    assert [said(face, str(k))["multiscales"][0]["name"] for k in range(3)] == [f"set (position {k})" for k in range(3)]
    np.testing.assert_array_equal(face.arrays["2/0"].read(), np.arange(40, 60).reshape(4, 5))
    many = tree_of(shown("position y x", (1001, 1, 1))).zarr(face="ome")
    assert many.arrays["0"].dims == ("position", "y", "x")


def test_positions_in_wells_are_a_plate(tmp_path: Path) -> None:
    twin = np.random.default_rng(1).integers(0, 60_000, (4, 2, 8, 9)).astype("u2")
    names = ["B10-Site_0", "A2-Site_0", "A2-Site_1", "AB2-Site_0"]
    array = vfs.open(write_ndtiff(tmp_path, twin, {"position": names, "time": [0, 1]}))
    for version in (3, 2):
        face = array.store(zarr_format=version, face="ome").face
        plate = said(face)["plate"]
        assert [row["name"] for row in plate["rows"]] == ["A", "B", "AB"]
        assert [column["name"] for column in plate["columns"]] == ["2", "10"]
        assert plate["wells"][0] == {"path": "B/10", "rowIndex": 1, "columnIndex": 1}
        assert plate["field_count"] == 2
        assert said(face, "A/2")["well"]["images"] == [{"path": "0"}, {"path": "1"}]
        assert said(face, "OME")["series"] == ["B/10/0", "A/2/0", "A/2/1", "AB/2/0"]
        for k, place in enumerate(said(face, "OME")["series"]):
            check_valid(face, place)
            np.testing.assert_array_equal(face.arrays[f"{place}/0"].read(), twin[k])
        assert ("version" in plate, "version" in said(face, "A/2")["well"]) == (version == 2, version == 2)
        assert zarr.open_group(array.store(zarr_format=version, face="ome"), mode="r")["A/2/1/0"].shape == (2, 8, 9)
    odd = vfs.open(write_ndtiff(tmp_path, twin, {"position": [*names[:3], "edge"], "time": [0, 1]}))
    assert "plate" not in said(odd.store(face="ome").face)
