"""Tags of electron microscopes, cameras and X-ray detectors in TIFF files: what they say, and how large a pixel is."""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.testing.detector_writers import write_cbf
from vfs.testing.tiff_writers import write_tiff

IMAGE = np.arange(12, dtype=np.uint16).reshape(3, 4)
FEI = """[User]\r\nDate=01/16/2018\r\nTime=10:08:00 PM\r\nUser=somebody\r\nUserText=\r
[System]\r\nDnumber=D9393\r\nSoftware=5.5.4\r\nSystemType=Helios\r
[Beam]\r\nHV=5000\r\nSpot=3\r\nScanRotation=0.5\r\nBeam={0}\r\nScan=EScan\r
[EBeam]\r\nHV=5000\r\nWD=0.0041\r\nBeamCurrent=8.6e-11\r\n[IBeam]\r\nHV=30000\r\nWD=0.0165\r\nBeamCurrent=7.7e-10\r
[Scan]\r\nPixelWidth=5e-9\r\nPixelHeight=6e-9\r\nDwelltime=3e-6\r\nFrameTime=4.5\r
[Stage]\r\nStageX=0.001\r\nStageT=0.9\r\nStageR=-0.1\r\n[Detectors]\r\nName=ETD\r\n\0"""
ZEISS = """\r\n0\r\n0\r\n0\r\nAP_ACTUALKV\r\nEHT =  2.00 kV\r\nAP_MAG\r\nMag =  10.00 K X\r\nAP_WD\r\nWD =  5.1 mm
AP_IPROBE\r\nI Probe =   100 pA\r\nDP_DWELL_TIME\r\nDwell Time =   800 ns\r\nAP_FRAME_TIME\r\nCycle Time = 6.6 Secs
AP_STAGE_AT_T\r\nStage at T =  45.0 \xb0\r\nAP_STAGE_AT_X\r\nStage at X =  42.5 mm\r\nDP_DETECTOR_TYPE\r
Detector = SE2\r\nAP_DATE\r\nDate :3 Feb 2016\r\nAP_TIME\r\nTime :14:10:18\r\nSV_USER_NAME\r\nUser Name = AN OTHER
AP_IMAGE_PIXEL_SIZE\r\nImage Pixel Size =  12.5 nm\r\nSV_SERIAL_NUMBER\r\nSerial No. = Supra-26-11\r\n\0"""
TESCAN = """\x01\x02[MAIN]\r\nDate=2021-05-04\r\nTime=11:12:13\r\nDevice=MIRA3\r\nMagnification=20000\r\nPixelSizeX=1e-8
PixelSizeY=2e-8\r\nNote=\r\n[SEM]\r\nHV=15000\r\nWD=0.01\r\nDwellTime=1e-6\r\nStageTilt=90\r\nDetector=SE\r\n\xff\xfe"""
JEOL = """<?xml version="1.0"?><TemReporter><Instruments>JEM-ARM200F</Instruments><Operator>somebody</Operator>
<DateTime>2015-07-30T07:17:25.77+09:00</DateTime><ElectronGun><AccelerationVoltage>200000</AccelerationVoltage>
</ElectronGun><Eos><EosMode>eosTEM</EosMode></Eos><ImageFormingSystem><ModeString>{0}</ModeString><SelectorValue>{1}
</SelectorValue><SelectorString>{2}</SelectorString><SelectorUnitString>mm</SelectorUnitString></ImageFormingSystem>
<GonioStage><StagePosition><TX>10.5</TX></StagePosition></GonioStage></TemReporter>\n\x01\x01"""
PILATUS = """# Pixel_size 172e-6 m x 100e-6 m\n# Silicon sensor, thickness 0.000450 m\n# Exposure_time 3.0 s
# Exposure_period 3.5 s\n# Threshold_setting: 15000 eV\n# Count_cutoff 1097223 counts\n# Wavelength 0.4 A
# Detector_distance 0.2 m\n# Beam_xy (498.18, 515.77) pixels\n# Detector_2theta 90.0000 deg.\n# Flux nan\n"""
HITACHI = """[SemImageFile]\r\nInstructName=SU8230\r\nSerialNumber=8230-01\r\nSampleName=steel\r\nDate=2019/03/12\r
Time=10:22:13\r\nDataSize=4x3\r\nPixelSize=9.921875\r\nSignalName=SE(U)\r\nAcceleratingVoltage=15000 Volt\r
Magnification=10000\r\nWorkingDistance=8100 um\r\nStagePositionX=25000000\r\n"""
JEOL_SEM = """$SEM_DATA_VERSION 1\r\n$CM_FORMAT JEOL-SEM\r\n$CM_COMMENT \r\n$CM_DATE 2019/09/30\r\n$CM_TIME 09:59:24\r
$CM_OPERATOR somebody\r\n$CM_INSTRUMENT 8530F\r\n$CM_ACCEL_VOLT 15.00\r\n$CM_MAG 430\r\n$$SM_WD 10.74\r
$$SM_SCAN_ROTATION 90.00\r\n$CM_STAGE_POS 18.6234 -19.6264 12.7350 11.0 45.0 0\r\n$$SM_PROBE_CURRENT 3.63e-009\r
$CM_SIGNAL COMPO\r\n$$SM_MICRON_BAR 91\r\n$$SM_MICRON_MARKER 10um\r\n$CM_FULL_SIZE 8 6\r\n"""
_DOTS = struct.pack("<II", 93, 1)
RESOLUTION = {282: (5, _DOTS, 1), 283: (5, _DOTS, 1), 296: (3, [2], 1)}


def opened(path: Path, tags: dict[int, Any] | None = None, description: str = "") -> vfs.VirtualArray:
    return vfs.open(write_tiff(path / "a.tif", [IMAGE], tags=tags, description=description))


def text(said: str) -> tuple[int, bytes, int]:
    data = said.encode("latin-1")
    return 2, data, len(data)


def values(array: vfs.VirtualArray) -> dict[str, Any]:
    return {name: one.value for name, one in array.metadata.items()}


def steps(array: vfs.VirtualArray) -> list[Any]:
    return [(axis["scale"], axis["unit"]) for axis in array.calibration.values()]


@pytest.mark.parametrize("tag", [34680, 34682])
def test_fei(tag: int, tmp_path: Path) -> None:
    array = opened(tmp_path, {tag: text(FEI.format("EBeam"))})
    found = values(array)
    assert (found["instrument"], found["beam_energy"], found["beam_current"]) == ("SEM", 5000, 8.6e-11)
    assert (found["working_distance"], found["dwell_time"], found["frame_time"]) == (0.0041, 3e-6, 4.5)
    assert (found["stage.x"], found["stage.alpha"], found["stage.rotation"]) == (0.001, 0.9, -0.1)
    assert (found["time"], found["microscope"], found["detector"]) == ("2018-01-16T22:08:00", "Helios", "ETD")
    assert array.metadata["beam_energy"].source == "fei:EBeam:HV"
    assert "notes" not in found, "an empty entry says nothing"
    assert steps(array) == [(6e-9, "m"), (5e-9, "m")]
    assert array.attrs["fei"]["IBeam"]["HV"] == 30000


def test_an_image_of_ions_has_what_is_said_of_their_beam(tmp_path: Path) -> None:
    found = values(opened(tmp_path, {34682: text(FEI.format("IBeam"))}))
    assert (found["instrument"], found["beam_energy"], found["beam_current"]) == ("FIB", 30000, 7.7e-10)


def test_a_date_of_fei_without_am_and_pm_is_that_of_the_file(tmp_path: Path) -> None:
    """09/10/2023 may be in September or in October; TimeOfCreation has the day first."""
    said = "[User]\r\nDate=09/10/2023\r\nTime=20:04:59\r\n[PrivateFei]\r\nTimeOfCreation=09.10.2023 20:04:59\r\n"
    assert values(opened(tmp_path, {34682: text(said)})) == {"time": "2023-10-09T20:04:59"}


def test_zeiss(tmp_path: Path) -> None:
    array = opened(tmp_path, {34118: text(ZEISS)})
    found = values(array)
    assert (found["beam_energy"], found["magnification"], found["frame_time"]) == (2000, 10000, 6.6)
    assert found["beam_current"] == pytest.approx(1e-10)
    assert found["working_distance"] == pytest.approx(5.1e-3)
    assert found["dwell_time"] == pytest.approx(8e-7)
    assert found["stage.alpha"] == pytest.approx(math.pi / 4)
    assert found["stage.x"] == pytest.approx(42.5e-3)
    assert (found["time"], found["detector"], found["authors"]) == ("2016-02-03T14:10:18", "SE2", "AN OTHER")
    assert found["serial_number"] == "Supra-26-11"
    assert steps(array) == [(12.5, "nm")] * 2
    assert array.attrs["zeiss"]["AP_ACTUALKV"] == {"name": "EHT", "value": 2.0, "unit": "kV"}


def test_tescan(tmp_path: Path) -> None:
    data = TESCAN.encode("latin-1")
    array = opened(tmp_path, {50431: (7, data, len(data))})
    found = values(array)
    assert (found["beam_energy"], found["working_distance"], found["microscope"]) == (15000, 0.01, "MIRA3")
    assert (found["time"], found["instrument"]) == ("2021-05-04T11:12:13", "SEM")
    assert found["stage.alpha"] == pytest.approx(math.pi / 2)
    assert steps(array) == [(2e-8, "m"), (1e-8, "m")]
    data = TESCAN.replace("[SEM]", "[FIB]").encode("latin-1")
    found = values(opened(tmp_path, {50431: (7, data, len(data))}))
    assert (found["instrument"], found["beam_energy"]) == ("FIB", 15000)


def test_jeol_sightx_patterns_are_in_1_over_nm_which_the_set_says_how(tmp_path: Path) -> None:
    array = opened(tmp_path, RESOLUTION, JEOL.format("DIFF", 400, "40cm"))
    found = values(array)
    assert (found["mode"], found["camera_length"], found["beam_energy"]) == ("diffraction", 0.4, 200000)
    assert "magnification" not in found
    assert found["time"] == "2015-07-30T07:17:25.77+09:00"
    assert [scale for scale, _ in steps(array)] == pytest.approx([0.272254] * 2, rel=1e-5)  # 2.508 pm
    assert array.calibration["x"]["unit"] == "1/nm"
    assert "wavelength" in array.attrs["calibration_from"]
    array = opened(tmp_path, RESOLUTION, JEOL.format("MAG", 5000, "x5k"))
    found = values(array)
    assert (found["mode"], found["magnification"]) == ("image", 5000)
    assert "camera_length" not in found
    assert "calibration_from" not in array.attrs
    assert [scale for scale, _ in steps(array)] == pytest.approx([0.0254 / 93 / 5000] * 2)


def test_pilatus(tmp_path: Path) -> None:
    array = opened(tmp_path, description=PILATUS)
    found = values(array)
    assert (found["exposure_time"], found["frame_time"], found["threshold_energy"]) == (3.0, 3.5, 15000.0)
    assert (found["beam_center"], found["pixel_size"]) == ((515.77, 498.18), (100e-6, 172e-6))
    assert (found["sensor_material"], found["sensor_thickness"], found["detector_distance"]) == (
        "Silicon",
        0.00045,
        0.2,
    )
    assert (found["wavelength"], found["saturation"]) == (pytest.approx(0.4e-10), 1097223)
    assert found["two_theta"] == pytest.approx(math.pi / 2)
    assert steps(array) == [(100e-6, "m"), (172e-6, "m")]


def test_cbf(tmp_path: Path) -> None:
    header = PILATUS.replace("# Wavelength 0.4 A\n", "# Wavelength not set\n")
    header = f"# Detector: PILATUS3 1M, S/N 10-0157, Diamond\n# 2021-02-03T04:05:06.789\n{header}"
    array = vfs.open(write_cbf(tmp_path / "a.cbf", IMAGE.astype("i4"), header))
    found = values(array)
    assert (found["detector"], found["serial_number"]) == ("PILATUS3 1M", "10-0157, Diamond")
    assert (found["time"], found["beam_center"]) == ("2021-02-03T04:05:06.789", (515.77, 498.18))
    assert "wavelength" not in found
    assert array.metadata["exposure_time"].source == "detector:Exposure_time"
    header = "# 2021/Feb/03 04:05:06.789\n# Exposure_time x s\n# Beam_xy (nan, 1)\n# Pixel_size"
    array = vfs.open(write_cbf(tmp_path / "a.cbf", IMAGE.astype("i4"), header))
    assert values(array) == {"time": "2021-02-03T04:05:06.789"}
    assert not array.calibration


def write_sis(path: Path) -> Path:
    """Write a preview in colour, and a page of numbers with the tag of Olympus."""
    at = 0
    for _ in range(2):  # the tag says where the file ends, behind which the rest stands
        tag = struct.pack("<4s6xhhhhh6x32sHhhI", b"SIS0", 42, 19, 15, 10, 118, b"", 1, 1, 1, at)
        write_tiff(path, [np.zeros((3, 4, 3), np.uint8), IMAGE], tags={33560: (7, tag, len(tag))})
        at = path.stat().st_size
    with path.open("ab") as file:
        file.write(struct.pack("<10xhdd8xd2x34s32s", -9, 0.025, 0.05, 6e5, b"Quemesa", b""))
    return path


def test_olympus(tmp_path: Path) -> None:
    group = vfs.open_group(write_sis(tmp_path / "a.tif"))
    found = values(group["series_1/data"])
    assert (found["magnification"], found["detector"]) == (600000, "Quemesa")
    assert [scale for scale, _ in steps(group["series_1/data"])] == pytest.approx([5e-11, 2.5e-11])


@pytest.mark.parametrize("encoding", ["ascii", "utf-16", "utf-8-sig"])
def test_the_text_beside_an_image_of_hitachi(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(HITACHI.encode(encoding))
    array = opened(tmp_path)
    found = values(array)
    assert (found["microscope"], found["serial_number"], found["sample"]) == ("SU8230", "8230-01", "steel")
    assert (found["instrument"], found["beam_energy"], found["magnification"]) == ("SEM", 15000, 10000)
    assert (found["working_distance"], found["stage.x"]) == pytest.approx((8.1e-3, 0.025))
    assert (found["time"], found["detector"]) == ("2019-03-12T10:22:13", "SE(U)")
    assert steps(array) == [(9.921875, "nm")] * 2
    (tmp_path / "a.txt").write_text(HITACHI.replace("4x3", "8x6"))
    assert not opened(tmp_path).calibration, "the image has another size"


def test_the_text_beside_an_image_of_jeol(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(JEOL_SEM)
    array = opened(tmp_path)
    found = values(array)
    assert (found["microscope"], found["instrument"], found["detector"]) == ("8530F", "SEM", "COMPO")
    assert (found["beam_energy"], found["magnification"], found["beam_current"]) == (15000, 430, 3.63e-9)
    assert (found["working_distance"], found["stage.y"]) == pytest.approx((10.74e-3, -19.6264e-3))
    assert (found["stage.alpha"], found["scan_rotation"]) == pytest.approx((math.pi / 4, math.pi / 2))
    assert (found["time"], found["authors"]) == ("2019-09-30T09:59:24", "somebody")
    assert steps(array) == [(pytest.approx(10e-6 / 91 * 8 / 4), "m")] * 2
    assert "notes" not in found
    (tmp_path / "a.txt").write_text(JEOL_SEM.replace("BAR 91", "BAR 0"))
    assert not opened(tmp_path).calibration


@pytest.mark.parametrize(
    "said", [b"", b"[SemImageFile]", b"\xff\xfe[", b"$CM_MAG", b"$CM_MAG x\n$CM_STAGE_POS 1", b"a=1"]
)
def test_other_texts_beside_an_image_say_nothing(said: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(said)
    array = opened(tmp_path)
    assert {*values(array)} <= {"instrument"}
    assert not array.calibration


@pytest.mark.parametrize(
    "damage", [b"\0", b"\xff" * 40, b"[", b"[Scan]\r\nPixelWidth=x\r\nPixelHeight=1e999", b"=" * 99]
)
@pytest.mark.parametrize("tag", [34682, 34118, 50431, 33560, 37706])
def test_garbled_tags_say_nothing(tag: int, damage: bytes, tmp_path: Path) -> None:
    array = opened(tmp_path, {tag: (2 if tag < 35000 else 7, damage, len(damage))})
    assert np.array_equal(array[...], IMAGE)
    assert not array.metadata
    assert not array.calibration


@pytest.mark.parametrize("said", ["<TemReporter>", "<TemReporter/>", f"{'<TemReporter>' * 60}{'</TemReporter>' * 60}"])
def test_garbled_reports_say_nothing(said: str, tmp_path: Path) -> None:
    array = opened(tmp_path, RESOLUTION, said)
    assert np.array_equal(array[...], IMAGE)
    assert not array.metadata
    assert not array.calibration


@pytest.mark.skipif("VFS_TEST_DATA" not in os.environ, reason="VFS_TEST_DATA names no folder of real files")
@pytest.mark.parametrize(
    ("name", "step", "unit", "said"),
    [
        ("rsciio_JEOL-SightX-SAED-dummy/JEOL-SightX-SAED-dummy.tif", 0.2722542, "1/nm", {"camera_length": 0.4}),
        ("rsciio_TVIPS_bin4/TVIPS_bin4.tif", 1.4208037, "nm", {"time": "2017-04-12T09:01:17", "magnification": 32000}),
        ("rsciio_olympus_SIS.tif/olympus_SIS.tif", 2.392792e-11, "m", {"magnification": 600000}),
        ("dioptas_CeO2_Pilatus1M/CeO2_Pilatus1M.tif", 172e-6, "m", {"beam_center": (515.77, 498.18)}),
    ],
)
def test_real_files(name: str, step: float, unit: str, said: dict[str, Any]) -> None:
    array = vfs.open(Path(os.environ["VFS_TEST_DATA"]) / "tiff" / name)
    assert steps(array) == [(pytest.approx(step, rel=1e-6), unit)] * 2
    assert {key: values(array)[key] for key in said} == said
