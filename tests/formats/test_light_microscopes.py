"""What files of light microscopes say: objective, lasers, stage, and of each channel its name, colour and contrast."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.formats.frame_checks import frames_of
from vfs.cli.app import main
from vfs.formats.ome_tiff.per_plane import PlaneValues
from vfs.integrations import napari
from vfs.model.channels import channels
from vfs.page.tiles import channels_of
from vfs.testing.microscope_writers import czi_planes, nd2_tree, nd2_xml, write_czi, write_lif, write_nd2
from vfs.testing.plane_writers import write_ndtiff
from vfs.testing.tiff_writers import SHORT, write_ome_tiff, write_tiff

TWIN = frames_of((2, 8, 9), "u2")
PAIR = frames_of((1, 2, 1, 8, 9), "u2")


def said(path: Path, array: str | None = None) -> dict[str, Any]:
    """Return name -> value of what a file says."""
    metadata = vfs.open(path, array=array).metadata if array else vfs.open_group(path).metadata
    return {name: one.value for name, one in metadata.items()}


def omero(path: Path) -> list[tuple[Any, ...]]:
    """Return label, colour, start and end of each channel in OME-Zarr."""
    face: Any = zarr.open_group(vfs.open(path).store(face="ome"), mode="r")
    found = face.attrs["ome"]["omero"]["channels"]
    return [(one["label"], one["color"], one["window"]["start"], one["window"]["end"]) for one in found]


# CZI

CZI = """<ImageDocument><Metadata><Information>
<Document><Title>cells</Title><Comment>fixed</Comment><UserName>u</UserName></Document>
<User Id="0"><DisplayName>A. Person</DisplayName></User>
<Application><Name>ZEN</Name><Version>3.2</Version></Application>
<Image><AcquisitionDateAndTime>2016-02-12T09:41:02.4915604Z</AcquisitionDateAndTime>
<ObjectiveSettings><ObjectiveRef Id="Objective:2"/></ObjectiveSettings><Dimensions><Channels>
<Channel Id="Channel:0" Name="DAPI"><EmissionWavelength>465</EmissionWavelength>
<ExcitationWavelength>353</ExcitationWavelength><ExposureTime>50000000</ExposureTime><PixelType>Gray8</PixelType>
<DetectorSettings><Binning>2,2</Binning><Gain>{gain}</Gain><Detector Id="Detector:1"/></DetectorSettings></Channel>
<Channel Id="Channel:1"><AcquisitionMode>LaserScanningConfocalMicroscopy</AcquisitionMode><PinholeSize>50</PinholeSize>
<EmissionWavelength>NaN</EmissionWavelength><ExposureTime>much</ExposureTime>
<LightSourcesSettings><LightSourceSettings><Wavelength>488</Wavelength></LightSourceSettings></LightSourcesSettings>
</Channel></Channels>
<S><Scenes><Scene Index="0"><CenterPosition>-100.5,200</CenterPosition></Scene></Scenes></S></Dimensions></Image>
<Instrument><Microscopes><Microscope Id="1" Name="Stand"><System>LSM 880</System></Microscope></Microscopes>
<Detectors><Detector Id="Detector:1" Name="Axiocam 506"/></Detectors>
<Objectives><Objective Id="Objective:1"><LensNA>0.3</LensNA></Objective><Objective Id="Objective:2"><LensNA>1.2</LensNA>
<NominalMagnification>50</NominalMagnification><Immersion>Water</Immersion>
<Manufacturer><Model>Plan-Apochromat 50x/1.2</Model></Manufacturer></Objective></Objectives></Instrument></Information>
<DisplaySetting><Channels><Channel Id="Channel:0"><Color>#FF0000FF</Color><Low>0.1</Low><High>0.5</High></Channel>
<Channel Id="other" Name="GFP"><Color>#FF00FF00</Color><Low>0</Low><High>1</High></Channel></Channels></DisplaySetting>
</Metadata></ImageDocument>"""


def test_czi(tmp_path: Path) -> None:
    path = write_czi(tmp_path / "a.czi", czi_planes(TWIN, "C"), xml=CZI.format(gain="720"))
    found = said(path)
    dapi, gfp = found.pop("channels")
    assert dapi == {
        "name": "DAPI",
        "colour": "#0000ff",
        "window": (6553.5, 32767.5),  # parts of all numbers of the pixels that are stored, not of those of the camera
        "emission": pytest.approx(465e-9),
        "excitation": pytest.approx(353e-9),
        "exposure_time": pytest.approx(0.05),
    }
    assert gfp == {"name": "GFP", "colour": "#00ff00"}
    assert found == {
        "title": "cells",
        "notes": "fixed",
        "authors": "A. Person",
        "time": "2016-02-12T09:41:02.4915604Z",
        "microscope": "LSM 880",
        "software": "ZEN 3.2",
        "stage.x": pytest.approx(-100.5e-6),
        "stage.y": pytest.approx(200e-6),
        "detector": "Axiocam 506",
        "binning": (2, 2),
        "gain": "720",
        "objective.name": "Plan-Apochromat 50x/1.2",
        "objective.magnification": 50,
        "objective.na": 1.2,
        "objective.immersion": "Water",
        "pinhole": pytest.approx(50e-6),
        "laser": (pytest.approx(488e-9),),
    }
    assert [one[:2] for one in omero(path)] == [("DAPI", "0000FF"), ("GFP", "00FF00")]
    assert omero(path)[0][2:] == (6553, 32767)


def test_a_czi_in_which_nothing_makes_sense_opens(tmp_path: Path) -> None:
    xml = re.sub(r"(?<=>)[^<>\n]+(?=</)", "⊥", CZI.replace('Id="Channel:0"', 'Id=""'))
    path = write_czi(tmp_path / "a.czi", czi_planes(TWIN, "C"), xml=xml)
    found = said(path)
    assert found.keys() & {"objective.na", "stage.x", "laser", "pinhole", "time", "binning"} == set()
    assert found["channels"] == ({"name": "DAPI"}, {"name": "GFP"})


def tags(n: int) -> str:
    """Return what a sub-block says: the third one nothing, the fourth one nonsense."""
    time, x = f"2016-02-12T09:47:{n:02}.5+01:00", f"+{n:09}.2500"
    odd = (
        f"<METADATA><Tags><AcquisitionTime>then</AcquisitionTime><StageXPosition>{x}</StageXPosition></Tags></METADATA>"
    )
    usual = odd.replace("then", time).replace("</Tags>", "<FocusPosition>-1</FocusPosition></Tags>")
    return "<METADATA/>" if n == 2 else odd if n == 3 else usual


@pytest.mark.parametrize("several", [False, True])
def test_a_czi_says_when_and_where_each_plane_was_taken(tmp_path: Path, several: bool) -> None:
    tiles = czi_planes(frames_of((2, 3, 8, 9), "u2"), "TC")
    if several:  # of two tiles of a plane the first one counts
        tiles += [({**at, "X": 5, "M": 1}, pixels) for at, pixels in tiles]
    path = write_czi(tmp_path / "a.czi", tiles, said=lambda n: tags(n if n < 6 else 50))
    group = vfs.open_group(path)
    assert list(group) == ["data", "timestamp", "stage_x", "stage_z"]
    np.testing.assert_array_equal(group["stage_x"][...], [[0.25, 1.25, np.nan], [3.25, 4.25, 5.25]])
    np.testing.assert_array_equal(group["stage_z"][...], [[-1, -1, np.nan], [np.nan, -1, -1]])
    found = group.main.xarray().coords["timestamp"].values
    assert str(found[0, 1]) == "2016-02-12T08:47:01.500000000"
    assert np.isnat(found).tolist() == [[False, False, True], [True, False, False]]


# ND2


def spectrum(*points: tuple[float, float, int]) -> dict[str, Any]:
    return {
        "uiCount": len(points),
        "pPoint": {
            f"Point{k}": {"eType": kind, "dWavelength": at, "dTValue": n} for k, (at, n, kind) in enumerate(points)
        },
    }


@pytest.mark.parametrize("version", [2, 3])
def test_nd2(tmp_path: Path, version: int) -> None:
    lines = {"m_ExcitationSpectrum": spectrum((488.0, 0.0, 4), (561.0, 0.0, 4))}
    dye = {"m_EmissionSpectrum": spectrum((500.0, 0.2, 2), (525.0, 0.9, 2), (600.0, 0.1, 2))}
    plane = {"pFilterPath": {"m_pFilter": {"i0": lines}}, "pFluorescentProbe": dye, "dPinholeDiameter": 38.0}
    metadata = {
        "dTimeAbsolute": 2456827.080131852,
        "dXPos": -26056.5,
        "dYPos": 0.0,
        "dZPos": 3914.25,
        "wsObjectiveName": "Plan Apo 60x",
        "dObjectiveMag": -1.0,
        "dObjectiveNA": 0.95,
        "sPicturePlanes": {
            "sSampleSetting": {
                "a0": {
                    "dExposureTime": 100.0,
                    "pCameraSetting": {"CameraUserName": "Nikon A1plus"},
                    "pDeviceSetting": {"m_sMicroscopePhysFullName": "Nikon Ti"},
                }
            }
        },
    }
    program = nd2_xml("no_name", {"m_SWNameString": "NIS-Elements AR", "m_VersionString": "4.20"})
    more = {
        "CustomDataVar|AppInfo_V1_0!": f'<variant version="1.0">{program}</variant>'.encode(),
        "ImageTextInfoLV!": nd2_tree("SLxImageTextInfo", {"TextInfoItem_4": "A. Person"}),
    }
    first, second = {**plane, "uiSampleIndex": 0, "uiColor": 0x0FE978}, {**plane, "uiSampleIndex": 0}
    path = write_nd2(
        tmp_path / "a.nd2",
        PAIR[0],
        (),
        channels=2,
        version=version,
        metadata=metadata,
        planes=(first, second),
        more=more,
    )
    found = said(path)
    shared = {"emission": pytest.approx(525e-9), "exposure_time": pytest.approx(0.1)}
    assert found.pop("channels") == (
        {"name": "dye 0", "colour": "#78e90f", "excitation": pytest.approx(488e-9), **shared},
        {"name": "dye 1", "excitation": pytest.approx(561e-9), **shared},
    )
    assert found == {
        "authors": "A. Person",
        "software": "NIS-Elements AR 4.20",
        "time": "2014-06-18T13:55:23.392+00:00",
        "microscope": "Nikon Ti",
        "exposure_time": pytest.approx(0.1),
        "stage.x": pytest.approx(-0.0260565),
        "stage.y": 0,
        "stage.z": pytest.approx(0.00391425),
        "detector": "Nikon A1plus",
        "objective.name": "Plan Apo 60x",
        "objective.na": 0.95,
        "pinhole": pytest.approx(38e-6),
    }


def test_an_nd2_does_not_say_where_the_stage_was_that_moved(tmp_path: Path) -> None:
    stage = {"dXPos": 1.0, "dYPos": 2.0, "dZPos": 3.0}
    for loop, still in (("t", {"stage.x", "stage.y", "stage.z"}), ("z", {"stage.x", "stage.y"}), ("position", set())):
        found = said(write_nd2(tmp_path / "a.nd2", TWIN, (loop,), metadata=stage))
        assert {name for name in found if name.startswith("stage")} == still, loop


@pytest.mark.parametrize("packed", [False, True])
def test_an_nd2_says_when_and_where_each_frame_was_taken(tmp_path: Path, packed: bool) -> None:
    x = np.arange(6) * 2.5
    more = {"CustomData|X!": x.tobytes(), "CustomData|Y!": x.tobytes()[:-8], "CustomData|Z1!": (x - 7).tobytes()}
    planes = frames_of((2, 3, 8, 9), "u2")
    path = write_nd2(tmp_path / "a.nd2", planes, ("t", "position"), packed=packed, more=more, left_out=[4])
    with pytest.warns(vfs.IncompleteWarning, match="5 planes for 6 positions"):
        group = vfs.open_group(path)
    assert list(group) == ["data", "timestamp", "stage_x", "stage_z"], "there are not as many y as frames"
    np.testing.assert_array_equal(group["timestamp"][...], [[0, 500, 1000], [1500, 0, 2500]])
    np.testing.assert_array_equal(group["stage_z"][...], (x - 7).reshape(2, 3))
    found = group.main.xarray()
    assert found.coords["stage_x"].dims == ("t", "position")
    np.testing.assert_array_equal(found.sel(position="Point 3").isel(t=1), planes[1, 2])
    np.testing.assert_array_equal(found.stage_x[1], x[3:])


def test_an_nd2_in_which_nothing_makes_sense_opens(tmp_path: Path) -> None:
    odd = {"pFilterPath": "x", "pFluorescentProbe": [1], "uiSampleIndex": 7, "uiColor": "red", "sDescription": 5}
    metadata = {"dTimeAbsolute": 1e300, "dXPos": "far", "sPicturePlanes": {"sSampleSetting": [1, "x"]}}
    more = {"ImageTextInfoLV!": nd2_tree("SLxImageTextInfo", 5)}
    path = write_nd2(
        tmp_path / "a.nd2", PAIR[0], (), channels=2, metadata=metadata, planes=(odd, {"uiSampleIndex": 99}), more=more
    )
    assert said(path) == {"channels": ({}, {"name": "dye 1"})}
    path.write_bytes(path.read_bytes().replace(b"ImageTextInfoLV!", b"ImageTextInfoLV?", 1))  # the map says otherwise
    assert vfs.open(path).shape == (2, 8, 9)


# LIF

LEICA = """<Attachment Name="HardwareSetting" Software="LAS X 3.5" SystemTypeName="TCS SP8">
<ATLConfocalSettingDefinition Magnification="63" ObjectiveName="HC PL APO 63x/1.30" Immersion="GLYC"
 NumericalAperture="1.3" StagePosX="0.035" Pinhole="9.3e-05" PixelDwellTime="0.000004875" FrameTime="0.53"
 CompleteTime="10.6" SystemSerialNumber="81">
<DetectorList><Detector Name="HyD 1" Channel="1" IsActive="1" Gain="41"/>
<Detector Name="PMT 2" Channel="2" IsActive="0"/>
<Detector Name="HyD 3" Channel="3" IsActive="1" Gain="105"/></DetectorList>
<LUT_List><LUT Channel="1" LutName="{first}"/><LUT Channel="3" LutName="Green"/></LUT_List>
<Spectro><MultiBand Channel="1" DyeName="DAPI"/><MultiBand Channel="3" DyeName="FITC"/></Spectro>
<AotfList><Aotf><LaserLineSetting LaserLine="488" IntensityDev="0.5" IsLineChecked="1"/>
<LaserLineSetting LaserLine="552" IntensityDev="0"/></Aotf></AotfList></ATLConfocalSettingDefinition></Attachment>
<Attachment Name="ViewerScaling"><ChannelScalingInfo BlackValue="0" WhiteValue="0.5"/>
<ChannelScalingInfo BlackValue="0" WhiteValue="1"/></Attachment>
<TimeStampList NumberOfTimeStamps="2">1d71114eb8b44f0 1d71114ebdc2410 </TimeStampList>"""


def leica(path: Path, more: str) -> Path:
    """Write two channels, drawn blue and green."""
    tables = iter(["Blue", "Green"])

    def changed(xml: str) -> str:
        xml = re.sub("(?<=LUTName=.)Green", lambda _: next(tables), xml)
        return xml.replace("</ImageDescription>", f"</ImageDescription>{more}")

    return write_lif(path, {"a": ("cyx", TWIN)}, xml=changed)


def test_lif(tmp_path: Path) -> None:
    found = said(leica(tmp_path / "a.lif", LEICA.format(first="Blue")))
    assert found.pop("channels") == (
        {"name": "DAPI", "colour": "#0000ff", "window": (0, 32767.5)},
        {"name": "FITC", "colour": "#00ff00"},
    )
    assert found == {
        "title": "a",
        "time": "2021-03-04T16:39:17.951000",
        "duration": 10.6,
        "microscope": "TCS SP8",
        "serial_number": "81",
        "software": "LAS X 3.5",
        "dwell_time": pytest.approx(4.875e-6),
        "frame_time": 0.53,
        "stage.x": 0.035,
        "detector": "HyD 1, HyD 3",
        "objective.name": "HC PL APO 63x/1.30",
        "objective.magnification": 63,
        "objective.na": 1.3,
        "objective.immersion": "GLYC",
        "pinhole": pytest.approx(9.3e-5),
        "laser": (pytest.approx(488e-9),),
    }
    other = said(leica(tmp_path / "b.lif", LEICA.format(first="Red")))
    assert [one["name"] for one in other["channels"]] == ["Blue", "Green"], (
        "detectors that are drawn otherwise are others"
    )


def test_a_lif_says_when_each_plane_was_taken(tmp_path: Path) -> None:
    path = leica(tmp_path / "a.lif", LEICA.format(first="Blue"))
    group = vfs.open_group(path)
    assert list(group) == ["data", "timestamp"]
    found = group.main.xarray().coords["timestamp"].values.astype("M8[ms]")
    assert [str(one) for one in found] == ["2021-03-04T16:39:17.951", "2021-03-04T16:39:18.481"]
    odd = leica(tmp_path / "b.lif", LEICA.format(first="Blue").replace("1d71114ebdc2410", "soon"))
    assert np.isnan(vfs.open_group(odd)["timestamp"][...]).all()
    fewer = leica(tmp_path / "c.lif", LEICA.format(first="Blue").replace('TimeStamps="2"', 'TimeStamps="1"'))
    assert list(vfs.open_group(fewer)) == ["data"]


def test_times_of_an_image_of_many_do_not_parse_the_xml_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = [f"1d71114eb8b{k:04x} 1d71114ebdc{k:04x}" for k in range(4)]
    lists = iter(f'<TimeStampList NumberOfTimeStamps="2">{one}</TimeStampList>' for one in ticks)
    more = {"TimeStampList": "<TimeStampList/>", "end": "</ImageDescription>"}  # an empty one, of nothing, comes first

    def changed(xml: str) -> str:
        xml = re.sub(more["end"], lambda _: f"{more['end']}{next(lists)}", xml)
        return xml.replace("<Element", f"{more['TimeStampList']}<Element", 1)

    images = dict.fromkeys("abcd", ("cyx", TWIN))
    group = vfs.open_group(write_lif(tmp_path / "a.lif", images, xml=changed))
    monkeypatch.setattr("vfs.formats.lif.containers._listed", None)
    for k, one in enumerate(ticks):
        seconds = [int(word, 16) / 1e7 - 11_644_473_600 for word in one.split()]
        np.testing.assert_array_equal(group[f"image_{k}/timestamp"][...], seconds)


CAMERA = """<Attachment Name="HardwareSetting"><ATLCameraSettingDefinition><WideFieldChannelConfigurator>
<WideFieldChannelInfo ExposureTime="50 ms" EmissionWavelength="465"/><WideFieldChannelInfo ExposureTime="0.05"/>
</WideFieldChannelConfigurator></ATLCameraSettingDefinition></Attachment>
<TimeStampList><TimeStamp HighInteger="30871828" LowInteger="391214669"/></TimeStampList>"""


def test_lif_of_a_camera(tmp_path: Path) -> None:
    found = said(leica(tmp_path / "a.lif", CAMERA))
    assert found["exposure_time"] == pytest.approx(0.05)
    assert found["channels"][0]["emission"] == pytest.approx(465e-9)
    assert found["time"] == "2021-03-04T16:33:21.895175"


@pytest.mark.parametrize("stamps", ["zz", "ffffffffffffffff", "1" * 400, ""])
def test_a_lif_in_which_nothing_makes_sense_opens(tmp_path: Path, stamps: str) -> None:
    more = re.sub(r'(?<==")[\d.e-]+(?=")', "many", LEICA.format(first="Blue"))
    more = re.sub("(?<=>)1d7.*(?=</Time)", stamps, more)
    found = said(leica(tmp_path / "a.lif", more))
    assert found.keys() & {"time", "objective.na", "laser", "pinhole", "frame_time", "stage.x"} == set()
    assert found["channels"] == ({"name": "Blue", "colour": "#0000ff"}, {"name": "Green", "colour": "#00ff00"})


# NDTiff


def micro_manager(folder: Path, said: Callable[[Mapping[str, Any]], Mapping[str, object]], **axes: Any) -> Path:
    settings = {"DAPI": {"Color": -16776961, "Min": 100, "Max": 4095}, "GFP": {"Color": "green", "Min": 5, "Max": 5}}
    (folder / "display_settings.txt").write_text(json.dumps(settings))
    axes = {"channel": ("DAPI", "GFP"), **axes}
    planes = frames_of((*(len(one) for one in axes.values()), 8, 9), "u2")
    return write_ndtiff(folder, planes, axes, said=said, summary={"MicroManagerVersion": "2.0.1", "UserName": "u"})


def test_ndtiff(tmp_path: Path) -> None:
    def plane(axes: Mapping[str, Any]) -> dict[str, Any]:
        exposure = {"DAPI": 10, "GFP": 50}[axes["channel"]]
        return {
            "Exposure": exposure,
            "Time": "2022-12-28 17:04:24 -0800",
            "Core-Camera": "Zyla",
            "Zyla-Gain": "4",
            "Binning": "2x2",
            "Objective-Label": "Nikon 10X S Fluor",
            "XPositionUm": 12.5,
            "YPositionUm": -3,
            "ZPositionUm": 7,
        }

    found = said(micro_manager(tmp_path, plane, z=(0, 1)))
    assert found.pop("channels") == (
        {"name": "DAPI", "colour": "#0000ff", "window": (100, 4095), "exposure_time": pytest.approx(0.01)},
        {"name": "GFP", "exposure_time": pytest.approx(0.05)},
    )
    assert found == {
        "authors": "u",
        "time": "2022-12-28T17:04:24-08:00",
        "software": "2.0.1",
        "stage.x": pytest.approx(12.5e-6),
        "stage.y": pytest.approx(-3e-6),
        "detector": "Zyla",
        "binning": (2, 2),
        "gain": "4",
        "objective.name": "Nikon 10X S Fluor",
    }, "z and exposure differ from plane to plane"


def test_ndtiff_says_when_and_where_each_plane_was_taken(tmp_path: Path) -> None:
    def plane(axes: Mapping[str, Any]) -> dict[str, Any]:
        at = {"ElapsedTime-ms": 10 * axes["time"], "XPositionUm": 2.5}
        return at | ({"XPositionUm": "far"} if axes == {"channel": "GFP", "time": 1} else {})

    path = micro_manager(tmp_path, plane, time=(0, 1))
    group = vfs.open_group(path)
    assert list(group) == ["data", "timestamp", "stage_x"]
    np.testing.assert_array_equal(group["timestamp"][...], [[0, 0], [10, 10]])
    np.testing.assert_array_equal(group["stage_x"][...], [[2.5, 2.5], [2.5, np.nan]])
    assert group.main.xarray().sel(c="DAPI", t=1).timestamp == 10


def test_ndtiff_whose_metadata_of_planes_are_not_there_opens(tmp_path: Path) -> None:
    path = micro_manager(tmp_path, lambda axes: {"Exposure": 10})
    entry = struct.Struct("<2I")
    content = bytearray(path.read_bytes())
    (at,) = (found.end() for found in re.finditer(b"NDTiffStack.tif", bytes(content[: len(content) // 2])))
    later = content.rindex(b"NDTiffStack.tif") + len(b"NDTiffStack.tif")
    for place, size in ((at, 0), (later, 1 << 30)):
        offset, _ = entry.unpack_from(content, place + 20)
        entry.pack_into(content, place + 20, offset, size)
    path.write_bytes(content)
    assert list(vfs.open_group(path)) == ["data"]


def test_ndtiff_with_metadata_that_make_no_sense(tmp_path: Path) -> None:
    plane = {"Exposure": "long", "Time": 5, "Core-Camera": ["x"], "Binning": None, "XPositionUm": {}}
    found = said(micro_manager(tmp_path, lambda axes: plane))
    assert found.keys() == {"authors", "software", "channels"}


# OME-XML

OME = """<Microscope Manufacturer="Zeiss" Model="Axio"/><Objective ID="Objective:0" LensNA="0.3"/>
<Objective ID="Objective:1" Model="Plan" NominalMagnification="63.0" LensNA="1.4" Immersion="Oil"/>
<Detector ID="Detector:0" Model="Zyla"/><Laser ID="Laser:0" Wavelength="488"/></Instrument>"""
PLANES = "".join(
    f'<Plane TheZ="{z}" TheT="0" TheC="{c}" ExposureTime="{50 + c}" ExposureTimeUnit="ms" PositionX="1.5" PositionY="2"'
    f' PositionXUnit="mm" PositionZ="{z}" PositionZUnit="µm"/>'
    for z in range(2)
    for c in range(2)
)


def ome(folder: Path, planes: str = PLANES) -> Path:
    """Write an image of two channels with an instrument."""
    path = write_ome_tiff(folder, frames_of((1, 2, 2, 8, 9), "u2"), describe="companion")
    text = path.read_text()
    text = re.sub(r"<(\w*:?)OME ", r'<\1OME Creator="a program" ', text, count=1)
    person = '<Experimenter ID="Experimenter:0" FirstName="A." LastName="Person"/>'
    text = re.sub(r"(<(?:\w+:)?Image )", f'{person}<Instrument ID="Instrument:0">{OME}' + r"\1", text, count=1)
    text = re.sub(r"(<(?:\w+:)?Pixels )", r'<ObjectiveSettings ID="Objective:1"/>\1', text, count=1)
    settings = '<DetectorSettings ID="Detector:0" Gain="2.5" Binning="2x2"/><LightSourceSettings ID="Laser:0"/>'
    numbers = iter(
        ["Color='65535' EmissionWavelength='465.0'", "Color='16711935' ExcitationWavelength='488' PinholeSize='50'"]
    )
    text = re.sub(r"<Channel ([^>]*?)/>", lambda at: f"<Channel {at[1]} {next(numbers)}>{settings}</Channel>", text)
    path.write_text(text.replace("</Pixels>", f"{planes}</Pixels>"))
    return path


def test_ome_xml(tmp_path: Path) -> None:
    found = said(ome(tmp_path))
    assert found.pop("channels") == (
        {"name": "dye 0", "colour": "#0000ff", "emission": pytest.approx(465e-9), "exposure_time": pytest.approx(0.05)},
        {
            "name": "dye 1",
            "colour": "#00ff00",
            "excitation": pytest.approx(488e-9),
            "exposure_time": pytest.approx(0.051),
        },
    )
    assert found.pop("title") == "cells"
    assert found == {
        "authors": "A. Person",
        "microscope": "Axio",
        "manufacturer": "Zeiss",
        "software": "a program",
        "stage.x": pytest.approx(1.5e-3),
        "detector": "Zyla",
        "binning": (2, 2),
        "gain": "2.5",
        "objective.name": "Plan",
        "objective.magnification": 63,
        "objective.na": 1.4,
        "objective.immersion": "Oil",
        "pinhole": pytest.approx(50e-6),
        "laser": (pytest.approx(488e-9),),
    }, "y has no unit, z differs from plane to plane, and so does the exposure"


@pytest.mark.parametrize("describe", ["companion", "every"])
def test_ome_xml_says_what_differs_from_plane_to_plane(tmp_path: Path, describe: Any) -> None:
    planes = PLANES.replace('TheZ="1" TheT="0" TheC="1"', 'TheZ="7" TheT="0" TheC="1"')  # it is outside of the image
    path = ome(tmp_path, planes)
    if describe == "every":  # in the description of a TIFF
        image = frames_of((1, 2, 2, 8, 9), "u2")
        pages = [image[0, c, z] for c, z in np.ndindex(2, 2)]
        runs = '<TiffData IFD="0" PlaneCount="4"/>'
        text = re.sub(r"<TiffData.*</TiffData>|<TiffData[^>]*/>", runs, path.read_text(), count=1)
        text = re.sub(r"<TiffData(?! IFD=.0. PlaneCount=.4.).*?(</TiffData>|/>)", "", text)
        path = write_tiff(tmp_path / "b.ome.tif", pages, description=text)
    group = vfs.open_group(path)
    assert list(group) == ["data", "exposure_time", "stage_x", "stage_z"]
    np.testing.assert_allclose(group["exposure_time"][...], [[[0.05, 0.05], [0.051, np.nan]]])
    np.testing.assert_allclose(group["stage_z"][...], [[[0, 1], [0, np.nan]]])
    arranged = vfs.open_group(path, nav_shape=(2, 2))  # as one scan of all planes, in their order
    np.testing.assert_allclose(arranged["exposure_time"][...], [[0.05, 0.05], [0.051, np.nan]])
    found = group.main.xarray()
    np.testing.assert_allclose(found.sel(c="dye 1").isel(t=0, z=0).stage_x, 1500)


def test_ome_xml_that_changed_says_so_of_its_planes() -> None:
    decoder = PlaneValues("a.ome.tif", 0, "DeltaT", "s", 1, (1, 1, 2))
    for text in (b"<OME><Image", b"<OME/>", b"", b"\xff\xfe\0"):
        with pytest.raises(vfs.DecodeError, match=r"a\.ome\.tif: its OME-XML cannot be read any more"):
            decoder.decode_block(np.frombuffer(text, "u1"), 0, (1, 1, 2))


def test_ome_xml_in_which_nothing_makes_sense_opens(tmp_path: Path) -> None:
    path = ome(tmp_path, PLANES.replace('"mm"', '"parsecs per hour"').replace('ExposureTime="', 'ExposureTime="x'))
    path.write_text(path.read_text().replace("Wavelength='", "Wavelength='x").replace("Color='", "Color='x"))
    found = said(path)
    assert found["channels"] == ({"name": "dye 0"}, {"name": "dye 1"})
    assert "stage.x" not in found


# LSM and ImageJ


def lsm_entries(*entries: tuple[int, Any]) -> bytes:
    """Return entries of the scan information of an LSM: numbers, texts, and None for a list, a part or an end."""
    found = b""
    for entry, one in entries:
        kind, data = 0, b""
        if isinstance(one, str):
            kind, data = 2, one.encode() + b"\0"
        elif one is not None:
            kind, data = (5, struct.pack("<d", one)) if isinstance(one, float) else (4, struct.pack("<i", one))
        found += struct.pack("<III", entry, kind, len(data)) + data
    return found


def test_lsm(tmp_path: Path) -> None:
    pytest.importorskip("tifffile")
    about, pages = bytearray(380), frames_of((3, 8, 9), "u1")
    struct.pack_into("<Ii5ii", about, 0, 67127628, len(about), 9, 8, 1, 3, 1, 1)
    end = (0xFFFFFFFF, None)
    table = lsm_entries(
        (0x10000000, None),
        (0x10000001, "cells"),
        (0x10000004, "Plan 63x/1.4"),
        (0x10000036, 41000.5),
        (0x20000000, None),
        (0x40000000, None),
        (0x40000019, 2.5),
        (0x60000000, None),
        (0x70000000, None),
        (0x70000009, 90.0),
        (0x70000003, 700.0),
        *[end] * 2,
        (0x80000000, None),
        (0x90000000, None),
        (0x90000003, 488.0),
        (0x90000002, 5.0),
        *[end] * 5,
    )
    for _ in range(2):  # the second time the place of the table is known
        tags = {262: (SHORT, [2], 0), 34412: (1, bytes(about), len(about))}
        path = write_tiff(tmp_path / "a.lsm", [pages, pages[:, ::2, ::2]], planar=True, tags=tags)
        struct.pack_into("<I", about, 124, path.stat().st_size)
    path.write_bytes(path.read_bytes() + table)
    assert said(path) == {
        "title": "cells",
        "time": "2012-04-01T12:00:00",
        "dwell_time": pytest.approx(2.5e-6),
        "gain": "700.0",
        "objective.name": "Plan 63x/1.4",
        "pinhole": pytest.approx(90e-6),
        "laser": (pytest.approx(488e-9),),
    }


def composite(folder: Path, order: str = ">", mode: str = "composite") -> Path:
    """Write two channels, blue and green, of two planes each, as ImageJ does."""
    blue, green = (bytes(256 * k) + bytes(range(256)) + bytes(256 * (2 - k)) for k in (2, 1))
    names = [name.encode("utf-16-be" if order == ">" else "utf-16-le") for name in ("DAPI", "GFP", "DAPI", "GFP")]
    pieces = {b"over": [bytes(100)], b"labl": names, b"rang": [struct.pack(order + "4d", 3, 500, 10, 800)]}
    pieces[b"luts"] = [blue, green]
    kinds = [(kind if order == ">" else kind[::-1], len(some)) for kind, some in pieces.items()]
    head = (b"IJIJ" if order == ">" else b"JIJI") + b"".join(struct.pack(order + "4sI", *one) for one in kinds)
    sizes = [len(head), *(len(piece) for some in pieces.values() for piece in some)]
    data = head + b"".join(piece for some in pieces.values() for piece in some)
    text = f"ImageJ=1.53c\nimages=4\nchannels=2\nslices=2\nhyperstack=true\nmode={mode}\n"
    tags = {50838: (4, sizes, 0), 50839: (1, data, len(data))}
    return write_tiff(folder / "a.tif", list(frames_of((4, 8, 9), "u2")), order=order, description=text, tags=tags)


@pytest.mark.parametrize("order", "<>")
def test_imagej(tmp_path: Path, order: str) -> None:
    path = composite(tmp_path, order)
    dapi = {"name": "DAPI", "colour": "#0000ff", "window": (3, 500)}
    gfp = {"name": "GFP", "colour": "#00ff00", "window": (10, 800)}
    assert said(path) == {"software": "ImageJ 1.53c", "channels": (dapi, gfp)}
    assert omero(path) == [("DAPI", "0000FF", 3, 500), ("GFP", "00FF00", 10, 800)]
    grey = said(composite(tmp_path, order, "grayscale"))["channels"]
    assert grey == tuple({"name": one["name"], "window": one["window"]} for one in (dapi, gfp))


def test_imagej_tags_that_were_cut_or_changed(tmp_path: Path) -> None:
    whole = composite(tmp_path).read_bytes()
    at = whole.index(b"IJIJ")
    for k in range(at, at + 36):
        (tmp_path / "b.tif").write_bytes(whole[:k] + b"\xff" + whole[k + 1 :])
        assert vfs.open(tmp_path / "b.tif").shape == (2, 2, 8, 9)
        said(tmp_path / "b.tif")


def test_imagej_of_one_channel_says_its_window(tmp_path: Path) -> None:
    text = "ImageJ=1.51a\nmin=86.0\nmax=5040.5\n"
    path = write_tiff(tmp_path / "a.tif", [TWIN[0]], description=text)
    assert said(path)["channels"] == ({"window": (86.0, 5040.5)},)
    assert [one[2:] for one in omero(path)] == [(86, 5040)]


# what shows channels


def test_viewers_get_the_windows_that_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(napari, "_unit", str)  # it asks pint, which only napari needs
    layers = napari.read(str(composite(tmp_path)))
    assert [given["colormap"] for _, given, _ in layers] == ["#0000FF", "#00FF00"]
    assert [given["contrast_limits"] for _, given, _ in layers] == [(3, 500), (10, 800)]
    found = channels_of(vfs.open_group(composite(tmp_path))._opened.tree.zarr(3), "data")
    dapi = {"name": "DAPI", "colour": "0000FF", "window": (3, 500)}
    assert found == {"axis": 1, "of": [dapi, {"name": "GFP", "colour": "00FF00", "window": (10, 800)}]}


def test_a_window_of_all_numbers_leaves_the_contrast_to_viewers(tmp_path: Path) -> None:
    text = "ImageJ=1.51a\nmin=0\nmax=65535\n"
    path = write_tiff(tmp_path / "a.tif", [TWIN[0] // 100], description=text)
    assert said(path)["channels"] == ({"window": (0, 65535)},)
    assert omero(path)[0][3] <= 655


def test_info_lists_channels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_czi(tmp_path / "a.czi", czi_planes(TWIN, "C"), xml=CZI.format(gain="1"))
    assert main(["info", "-v", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "channels: DAPI #0000ff 50 ms 353 nm to 465 nm, GFP #00ff00 (as channels says)" in text
    assert "laser: 488 nm" in text
    assert main(["info", "--json", str(path)]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["arrays"]["data"]["metadata"]["channels"]["value"][1] == {"name": "GFP", "colour": "#00ff00"}


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        (["a", ""], ({"name": "a"}, {})),
        ([{"colour": "0000FF", "window": [1, 2]}], ({"colour": "#0000ff", "window": (1.0, 2.0)},)),
        ([{"colour": "blue", "name": 5, "window": [2, 1], "emission": float("nan"), "exposure_time": -1}], None),
        ([{"window": [True, 2], "emission": b"1"}, 5, None], None),
        ("abc", None),
        ({}, None),
        (None, None),
    ],
)
def test_what_makes_no_sense_of_a_channel_is_left_out(entries: Any, found: Any) -> None:
    assert channels(entries) == found


def test_a_lif_says_where_each_tile_was_taken(tmp_path: Path) -> None:
    planes = frames_of((2, 3, 8, 9), "u2")
    tiles = "".join(f'<Tile FieldX="{k}" FieldY="0" PosX="{k}e-3" PosY="{"0.5" if k < 2 else "?"}"/>' for k in range(3))
    xml = f'<Attachment Name="TileScanInfo" FlipX="0">{tiles}</Attachment></Image>'
    images = {"a": (("t", "m", "y", "x"), planes), "b": (("m", "y", "x"), planes[0, :2])}
    group = vfs.open_group(write_lif(tmp_path / "a.lif", images, xml=lambda text: text.replace("</Image>", xml)))
    assert list(group) == ["image_0/data", "image_0/stage_x", "image_1/data"], "one y is no number; b has two tiles"
    places = group["image_0/stage_x"]
    assert (places.dims, places.attrs["unit"], places[1:].tolist()) == (("m",), "m", [0.001, 0.002])
    np.testing.assert_array_equal(group["image_0/data"].xarray().isel(m=2).stage_x, 0.002)
