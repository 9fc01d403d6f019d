"""All that files say, as they say it, is read when somebody asks for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.testing.detector_writers import write_spe
from vfs.testing.event_writers import write_eer
from vfs.testing.gatan_writers import write_dm, write_k2is
from vfs.testing.microscope_writers import write_czi, write_lif, write_lof, write_nd2, write_xlef
from vfs.testing.plane_writers import write_ndtiff
from vfs.testing.stack_writers import write_emi, write_ser
from vfs.testing.tiff_writers import write_ome_tiff
from vfs.testing.writers import write_mib

LONG = "x" * 9000
TAGS: dict[str, Any] = {
    "Microscope Info": {"Voltage": 300000.0},
    "EDS": {"Data": np.arange(200, dtype="u2"), "Fraction": np.arange(3000, dtype="f4")},
    **{f"tag {k}": k for k in range(2500)},
    "notes": LONG,
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return write_dm(tmp_path, np.ones((40, 60), np.float32), tags=TAGS)


def test_tags_of_digitalmicrograph_are_whole(image: Path) -> None:
    array = vfs.open(image)
    assert "notes" not in array.attrs["tags"], "attributes are those that fit into documents"
    said = array.original_metadata
    tags = said["ImageList"]["1"]["ImageTags"]
    assert tags["Microscope Info"]["Voltage"] == 300000
    assert [tags[f"tag {k}"] for k in range(2500)] == [*range(2500)]
    assert tags["EDS"] == {"Data": [*range(200)], "Fraction": [*range(3000)]}
    assert tags["notes"] == LONG
    assert said["left_out"] == [
        "ImageList/0/ImageData/Data: an array of 64 bytes",  # the thumbnail
        "ImageList/1/ImageData/Data: an array of 9,600 bytes",
    ]
    assert said is vfs.open_group(image).original_metadata or dict(said) == dict(
        vfs.open_group(image).original_metadata
    )
    with pytest.raises(TypeError):
        said["left_out"] = []  # type: ignore[index]


def test_it_is_read_when_it_is_asked_for_and_once(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vfs.formats import gatan_tags

    asked: list[bool] = []
    usual = gatan_tags.read_tags
    monkeypatch.setattr(gatan_tags, "read_tags", lambda *given, **how: asked.append(True) or usual(*given, **how))
    group = vfs.open_group(image)
    asked.clear()
    assert group.main.original_metadata is group.original_metadata
    assert asked == [True]


def test_a_file_that_is_gone_is_an_error(image: Path) -> None:
    array = vfs.open(image)
    image.unlink()
    with pytest.raises(vfs.SourceError, match=r"set\.dm3"):
        array.original_metadata  # noqa: B018


def test_groups_of_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["creator"] = "somebody"
        file["entry/data"] = np.zeros((40, 50), "u2")
        file["entry/data"].attrs["units"] = "counts"
        file["entry/energy"] = 12.5
        file["entry/energy"].attrs["units"] = "keV"
        file["entry/steps"] = np.arange(3)
        file["entry/title"] = "words"
        file["entry/latin"] = np.bytes_("µrad".encode("latin1"))
        file["entry/says"] = '{"Optics": {"Voltage": "300"}}'
        file["entry/table"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
        file["entry/wave"] = np.array(1 + 2j)
        file["entry/again"] = file["entry/data"]
        file["entry/nothing"] = h5py.Empty("f4")
        file["entry"].attrs.create("many", np.zeros(8000), dtype="f4")
        file.create_dataset("entry/texts", data=["one", "two"], dtype=h5py.string_dtype())
    group = vfs.open_group(tmp_path / "a.h5")
    assert "many" not in group.main.attrs
    said = group["entry/data"].original_metadata
    assert said["attrs"] == {"creator": "somebody"}
    entry = dict(said["entry"])
    assert entry.pop("attrs") == {"many": [0] * 8000}
    assert entry == {
        "again": {"shape": [40, 50], "dtype": "uint16", "attrs": {"units": "counts"}},
        "data": {"same as": "entry/again"},
        "energy": {"value": 12.5, "attrs": {"units": "keV"}},
        "latin": "µrad",
        "nothing": None,
        "says": {"Optics": {"Voltage": "300"}},
        "steps": [0, 1, 2],
        "table": [{"a": 1, "b": 2.5}],
        "texts": ["one", "two"],
        "title": "words",
        "wave": [1.0, 2.0],
    }
    assert "left_out" not in said


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
def test_hdf5_says_what_is_left_out(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file["data"] = np.zeros((4, 5), "u2")
        file["link"] = h5py.ExternalLink("b.h5", "/x")
        file.attrs.create("many", np.zeros(70_000), dtype="u1")
        file["texts"] = np.zeros(70_000, "S1")
    said = vfs.open_group(tmp_path / "a.h5").original_metadata
    assert said["left_out"] == ["/@many: [70000] values", "link: links to b.h5, which is missing"]
    assert said["texts"] == {"shape": [70000], "dtype": "|S1"}


def test_metadata_of_velox_are_objects(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    from tests.formats.hdf5_sets import write_velox

    said = vfs.open(write_velox(tmp_path / "a.emd")).original_metadata
    assert said["Data"]["Image"]["i2"]["Metadata"]["Optics"] == {"AccelerationVoltage": "300000"}
    assert "Data/Image/i2/Metadata: those of 1 frames after the first one" in said["left_out"]


def test_libhdf5_that_crashes_leaves_what_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    from vfs.formats.hdf5 import tree
    from vfs.helper.messages import packed
    from vfs.helper.process import Outcome

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = np.zeros((4, 5), "u2")
    stream = b"".join(
        packed(said)
        for said in ({"at": ""}, {"group": "", "attrs": {"a": 1}}, {"at": "x"}, {"name": "x", "value": 2}, {"at": "y"})
    )
    crashed = Outcome(memoryview(stream), "crashes (SIGSEGV)")
    monkeypatch.setattr(tree, "ask", lambda sources, path, understood, **more: understood(crashed))
    assert dict(vfs.open(tmp_path / "a.h5").original_metadata) == {
        "attrs": {"a": 1},
        "x": 2,
        "left_out": ["what follows y: libhdf5, which parses the file, crashes (SIGSEGV) there"],
    }
    whole = Outcome(memoryview(stream + packed({"error": "bad sector"})), "ends")
    monkeypatch.setattr(tree, "ask", lambda sources, path, understood, **more: understood(whole))
    assert "bad sector" in vfs.open(tmp_path / "a.h5").original_metadata["left_out"][0]


def test_tags_of_tiff(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for text in ("<a b='1'><c>2</c><c>3</c></a>", "second"):
            file.write(
                np.zeros((8, 9), "u2"),
                description=text,
                metadata=None,
                resolution=(2.5, 2.5),
                extratags=[(65000, 7, 4, b"\0\xff\1\2", True), (65001, 12, 2, (0.5, 2.5), True)],
            )
    said = vfs.open(tmp_path / "a.tif").original_metadata
    assert (said["ImageWidth"], said["ImageLength"], said["Compression"]) == (9, 8, 1)
    assert said["ImageDescription"].startswith("<a")
    assert said["ImageDescription (XML)"] == {"b": "1", "c": ["2", "3"]}
    assert said["XResolution"][0] / said["XResolution"][1] == 2.5
    assert (said["65000"], said["65001"]) == ("00ff0102", [0.5, 2.5])
    assert said["pages"]["1"]["ImageDescription"] == "second"
    assert "ImageWidth" not in said["pages"]["1"], "only what differs from the first page"


def test_pages_beyond_the_first_ones_are_said(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for _ in range(70):
            file.write(np.zeros((2, 2), "u1"), metadata=None, contiguous=False)
    assert vfs.open(tmp_path / "a.tif").original_metadata["left_out"] == ["tags of the pages from number 64 on"]
    write_ome_tiff(tmp_path, np.zeros((1, 1, 2, 8, 8), "u2"), name="b")
    assert "Image" in vfs.open(tmp_path / "b.ome.tif").original_metadata["ImageDescription (XML)"]


def test_headers_and_tags_of_tia(tmp_path: Path) -> None:
    write_ser(tmp_path, np.ones((3, 6, 7), "u2"), name="set_1")
    said = vfs.open(write_emi(tmp_path)).original_metadata
    assert said["emi"][0].keys()
    ser = said["ser"]["set_1.ser"]
    assert (ser["total_elements"], ser["valid_elements"], len(ser["elements"])) == (3, 3, 3)
    assert ser["elements"][0]["axes"][0].keys() == {"offset", "delta", "element"}
    assert ser["elements"][0]["time"] == int(vfs.open_group(tmp_path / "set.emi")["timestamp"][0])
    alone = vfs.open(tmp_path / "set_1.ser").original_metadata
    assert dict(alone) == {"ser": said["ser"]}


def test_short_headers_are_the_attributes(tmp_path: Path) -> None:
    array = vfs.open(write_mib(tmp_path, np.ones((4, 8, 8), "u2")))
    assert dict(array.original_metadata) == json.loads(json.dumps(dict(array.attrs)))
    assert dict(array.group.original_metadata) == dict(array.original_metadata)


def test_xml_and_trees_of_light_microscopes(tmp_path: Path) -> None:
    pixels = np.ones((2, 8, 9), "u2")
    xml = "<ImageDocument><Metadata><Information><User><Name>me</Name></User></Information></Metadata></ImageDocument>"
    czi = vfs.open(write_czi(tmp_path / "a.czi", [({"Y": 0, "X": 0}, pixels[0])], xml=xml)).original_metadata
    assert czi["ImageDocument"]["Metadata"]["Information"]["User"]["Name"] == "me"
    assert czi["left_out"] == ["metadata of single sub-blocks"]
    lif = vfs.open(write_lif(tmp_path / "a.lif", {"a": ("cyx", pixels)})).original_metadata
    assert lif["LMSDataContainerHeader"]["Element"]["Children"]["Element"]["Name"] == "a"
    lof = vfs.open(write_lof(tmp_path / "b.lof", "b", "cyx", pixels)).original_metadata
    assert lof["LMSDataContainerHeader"]["Element"]["Name"] == "b"
    project = write_xlef(tmp_path, {"a": ("cyx", pixels)}, collection=True)
    trees = vfs.open(project).original_metadata
    assert len(trees) == 3, "the project, a collection and an image"
    assert trees.keys() >= {project.name}
    nd2 = vfs.open(write_nd2(tmp_path / "a.nd2", pixels, ("t",))).original_metadata
    assert nd2["ImageAttributesLV"]["SLxImageAttributes"]["uiWidth"] == 9
    planes = vfs.open(
        write_ndtiff(tmp_path, pixels, {"time": [0, 1]}, said=lambda axes: {"Exposure": axes["time"]})
    ).original_metadata
    assert [one["axes"] for one in planes["planes"]] == [{"time": 0}, {"time": 1}]
    assert [one["metadata"]["Exposure"] for one in planes["planes"]] == [0, 1]


def test_xml_of_cameras(tmp_path: Path) -> None:
    spe = vfs.open(write_spe(tmp_path / "a.spe", np.ones((2, 4, 5), "u2"), lightfield=True))
    assert spe.original_metadata["header"]["version"] == 3
    assert spe.original_metadata["SpeFormat"]["DataFormat"]["DataBlock"]["count"] == "2"
    pytest.importorskip("imagecodecs")
    eer = vfs.open(write_eer(tmp_path / "a.eer", [np.eye(16, dtype=bool)])).original_metadata
    assert (eer["ImageWidth"], eer["ImageLength"]) == (16, 16)


def test_tags_of_k2(tmp_path: Path) -> None:
    path = write_k2is(tmp_path, np.ones((1, 1860, 2048), "u2"))
    assert dict(vfs.open(path).original_metadata) == {"Microscope": "K2"}
    path.unlink()
    assert dict(vfs.open(tmp_path / "set_1.bin", format="k2is").original_metadata) == {}
