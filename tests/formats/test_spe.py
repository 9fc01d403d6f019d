"""Princeton Instruments' .spe: what is peculiar to it. Both versions, regions, types, counts that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, refuses, same, warned
from vfs.testing.detector_writers import write_spe

FRAMES = frames_of((5, 7, 9), "u2")


@pytest.mark.parametrize("dtype", ["f4", "i4", "i2", "u2", "f8", "u1", "u4"])
def test_all_frames_of_all_types(tmp_path: Path, dtype: str) -> None:
    twin = FRAMES.astype(dtype)
    path = write_spe(tmp_path / "a.spe", twin)
    check_boxes(path, twin, count=5)
    assert vfs.open(path).dims == ("frame", "y", "x")


@pytest.mark.parametrize("dtype", ["u2", "u4", "f4"])
def test_lightfield(tmp_path: Path, dtype: str) -> None:
    twin = FRAMES.astype(dtype)
    unset = {"rows": 0, "columns": 0, "frames": 0, "type": 0}
    path = write_spe(tmp_path / "a.dat", twin, lightfield=True, metadata=24, **unset)
    check_boxes(path, twin, count=5)


def test_regions_of_the_sensor(tmp_path: Path) -> None:
    spectrum = frames_of((5, 1, 20), "u2")
    path = write_spe(tmp_path / "a.spe", FRAMES, spectrum, lightfield=True, metadata=3)
    group = vfs.open_group(path)
    same(group["region_0/data"][...], FRAMES)
    same(group["region_1/data"][...], spectrum)


def test_what_is_said_of_the_acquisition(tmp_path: Path) -> None:
    path = write_spe(tmp_path / "a.spe", FRAMES, exposure=0.25, date=b"02Jan2020", time=b"134502")
    assert {name: one.value for name, one in vfs.open(path).metadata.items()} == {
        "time": "2020-01-02T13:45:02",
        "exposure_time": 0.25,
    }
    origin = '<Origin software="LightField" creator="me" created="2021-03-04T10:22:00.5000000+01:00">'
    camera = '<Camera model="ProEM" serialNumber="7"><ExposureTime type="Double">50</ExposureTime></Camera></Origin>'
    write_spe(path, FRAMES, lightfield=True)
    path.write_bytes(path.read_bytes().replace(b"</SpeFormat>", f"{origin}{camera}</SpeFormat>".encode()))
    assert {name: one.value for name, one in vfs.open(path).metadata.items()} == {
        "authors": "me",
        "time": "2021-03-04T10:22:00.5000000+01:00",
        "serial_number": "7",
        "software": "LightField",
        "exposure_time": 0.05,
        "detector": "ProEM",
    }


@pytest.mark.parametrize("lightfield", [False, True])
def test_cut(tmp_path: Path, lightfield: bool) -> None:
    path = write_spe(tmp_path / "a.spe", FRAMES, lightfield=lightfield)
    path.write_bytes(path.read_bytes()[: 4100 + 3 * 126 + 9])
    twin = FRAMES.copy()
    twin[3:] = 0
    same(incomplete(path, "a.spe", "truncated", kind=vfs.TruncatedSourceError)[...], twin)


def test_counts_that_do_not_fit(tmp_path: Path) -> None:
    path = write_spe(tmp_path / "a.spe", FRAMES, frames=2)
    path.write_bytes(path.read_bytes() + bytes(7))
    same(warned(path, "says a series of 2, 5 frames are stored; 3 are", "7 bytes are left over")[...], FRAMES[:2])
    write_spe(path, FRAMES, lightfield=True, xml=0)
    same(incomplete(path, "found none; its writer did not finish", kind=vfs.TruncatedSourceError)[:], FRAMES)
    write_spe(path, FRAMES, frames=1 << 30)
    refuses(path, "its header says 1,073,741,824 planes", kind=vfs.FormatError)
    for fields in ({"frames": 0}, {"frames": -1}, {"type": 4}, {"rows": 0}):
        write_spe(path, FRAMES, **fields)
        refuses(path, "expected frames in its header", kind=vfs.FormatError, format="spe")


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (b"MonochromeUnsigned16", b"RGB8", "found RGB8"),
        (b'type="Region"', b'type="Lines"', "block 'Lines'"),
        (b'width="9"', b'width="99"', "region of 7 × 99 pixels"),
        (b'count="5"', b'count="x"', "the XML says 'x'"),
        (b'stride="142"', b'stride="99"', "frames with regions of 126 bytes"),
        (b"</SpeFormat>", b"", "XML"),
    ],
)
def test_garbled_xml(tmp_path: Path, old: bytes, new: bytes, word: str) -> None:
    path = write_spe(tmp_path / "a.spe", FRAMES, lightfield=True, metadata=16)
    path.write_bytes(path.read_bytes().replace(old, new))
    refuses(path, "a.spe", word, kind=vfs.FormatError)


def test_series(tmp_path: Path) -> None:
    paths = [write_spe(tmp_path / f"a_{k}.spe", FRAMES[k : k + 1], lightfield=k % 2 > 0) for k in range(5)]
    same(vfs.open(str(tmp_path / "a_*.spe"))[...], FRAMES)
    paths[2].unlink()
    twin = FRAMES.copy()
    twin[2] = 0
    same(incomplete(str(tmp_path / "a_*.spe"), "a_2.spe", kind=vfs.MissingSourceError)[...], twin)
    write_spe(paths[3], FRAMES[:1, :5])
    refuses(str(tmp_path / "a_*.spe"), "a_3.spe: expected frames [7, 9] <u2", kind=vfs.FormatError)


def test_frames_as_fabio_reads_them(tmp_path: Path) -> None:
    fabio = pytest.importorskip("fabio.speimage")
    path = write_spe(tmp_path / "a.spe", FRAMES)
    content = bytearray(path.read_bytes())
    content[20:29], content[172:178] = b"01Jan2020", b"120000"
    path.write_bytes(content)
    image = fabio.SpeImage()
    with path.open("rb") as file:
        image._readheader(file)
        same(np.stack([image._read_data(file, k) for k in range(5)]), vfs.open(path)[...])
