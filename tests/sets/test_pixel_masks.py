"""Masks of dead pixels that a set has itself: words leave these out and say so, `dead="mask"` replaces them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import vfs
from tests.http.asking import ask, contents_of, told
from tests.http.support import application_of
from vfs.cli.report.sets import as_text
from vfs.faces.channels import omero
from vfs.integrations import napari
from vfs.reduce import pyramid
from vfs.reduce.spelling import read_call

SIZE, SCAN = (48, 56), (4, 5)
DETECTOR = "entry/instrument/detector"
Y, X = np.indices(SIZE)
CENTRE = 25.0, 27.0
DISK = (Y - CENTRE[0]) ** 2 + (X - CENTRE[1]) ** 2 < 100
RNG = np.random.default_rng(4)
GOOD = RNG.poisson(np.where(DISK, 60, 2), (*SCAN, *SIZE)).astype("u4")
MASK = np.zeros(SIZE, "u4")
MASK[:, 26:29] = 1  # a gap, through the disk
MASK[[3, 40, 20], [5, 50, 22]] = [2, 1 << 4, 1 << 8]  # dead, noisy, masked by the user
MASK[10, 10], MASK[25, 20] = 1 << 31, 1 << 16  # what was measured there is good
DEAD = (MASK & 0xFFFF) != 0
RAW = np.where(DEAD, np.uint32(2**32 - 1), GOOD)


def master(
    folder: Path, masks: Mapping[str, np.ndarray] | None = None, data: str = "entry/data/data", **how: Any
) -> Path:
    """Write frames with masks in one file as Dectris does; without masks one of the frames."""
    path = folder / "scan_master.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(data, data=RAW.reshape(-1, *SIZE), chunks=(1, *SIZE))
        for name, mask in ({f"{DETECTOR}/pixel_mask": MASK} if masks is None else masks).items():
            file.create_dataset(name, data=mask, **how)
    return path


def centres(frames: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the centres of mass of frames [..., y, x] without pixels of a mask."""
    left = np.where(mask, 0, frames).astype(float)
    return np.stack([(left * at).sum((-2, -1)) for at in np.indices(mask.shape)], -1) / left.sum((-2, -1))[..., None]


@pytest.mark.parametrize("options", [{}, {"axes": "scan_y, scan_x | x, -y"}, {"array": "entry/data/data"}])
def test_words_leave_masked_pixels_out_and_say_so(tmp_path: Path, options: dict[str, Any]) -> None:
    a = vfs.open(master(tmp_path), nav_shape=SCAN, **options)
    frames, dead = (one.swapaxes(-2, -1)[..., ::-1] if "axes" in options else one for one in (RAW, DEAD))
    assert np.array_equal(a[...], frames)  # raw reads stay raw
    assert np.array_equal(a.masked_pixels, dead)
    r = a.reduce(bf=vfs.BrightField(), adf=vfs.AnnularDarkField(), com=vfs.CenterOfMass())
    assert np.allclose(r["com"].data, centres(frames, dead))
    assert r["com"].reduction == "centerofmass(masked=True)"
    place: Any = read_call(r["bf"].reduction)
    assert place.masked
    found = a.reduce(again=place, raw=vfs.Disk(place.cy, place.cx, place.r), ring=read_call(r["adf"].reduction))
    assert np.array_equal(found["again"].data, r["bf"].data)
    assert np.array_equal(found["ring"].data, r["adf"].data)
    y, x = np.indices(dead.shape)
    inside = (y - place.cy) ** 2 + (x - place.cx) ** 2 < place.r**2
    assert np.array_equal(r["bf"].data, np.where(inside & ~dead, frames, 0).sum((-2, -1), dtype="u8"))
    assert np.array_equal(found["raw"].data, np.where(inside, frames, 0).sum((-2, -1), dtype="u8"))
    assert inside.sum() == pytest.approx(DISK.sum(), rel=0.15)  # the gap has not cut the disk


def test_every_detector_of_frames_can_leave_them_out(tmp_path: Path) -> None:
    a = vfs.open(master(tmp_path), nav_shape=SCAN)
    left = np.where(DEAD, 0, RAW).astype("u8")
    r = a.reduce(
        whole=vfs.FrameSum(masked=True),
        box=vfs.Rectangle(2, 3, 30, 40, masked=True),
        rings=vfs.RadialSum(*CENTRE, bins=9, masked=True),
        raw=vfs.CenterOfMass(masked=False),
    )
    assert np.array_equal(r["whole"].data, left.sum((-2, -1)))
    assert np.array_equal(r["box"].data, left[..., 2:30, 3:40].sum((-2, -1)))
    far = np.hypot(Y - CENTRE[0], X - CENTRE[1]).astype(int)
    assert np.array_equal(r["rings"].data[1, 2], [left[1, 2][far == k].sum() for k in range(9)])
    assert np.allclose(r["raw"].data, centres(RAW, np.zeros(SIZE, bool)))
    with pytest.raises(vfs.OptionError, match="only pixels inside that the set's mask marks"):
        a.reduce(none=vfs.Point(3, 5, masked=True))
    assert a.reduce(gap=vfs.Point(3, 5))["gap"].data[0, 0] == 2**32 - 1


def test_dead_is_the_mask_of_the_set(tmp_path: Path) -> None:
    path = master(tmp_path)
    for options in ({}, {"dtype": "f4"}, {"axes": "scan_y, scan_x | -y, x"}, {"array": "entry/data/data"}):
        a = vfs.open(path, nav_shape=SCAN, dead="mask", **options)
        same = vfs.open(path, nav_shape=SCAN, dead=DEAD, **options)
        assert np.array_equal(a[...], same[...])
        assert a[...].max() < 200
        assert a.masked_pixels is None  # they are replaced: nothing is left out
        assert np.array_equal(pickle.loads(pickle.dumps(a))[1, 2], a[1, 2])
    named = vfs.open(path, nav_shape=SCAN, dead=f"{DETECTOR}/pixel_mask")  # of which not all bits mark a pixel
    assert np.array_equal(named[...], vfs.open(path, nav_shape=SCAN, dead=DEAD)[...])
    described = tmp_path / "scan.vfs.json"
    described.write_text(json.dumps({"vfs": 1, "format": "hdf5", "files": [path.name], "options": {"dead": "mask"}}))
    assert vfs.open(described)[...].max() < 200


NEAR, FAR = "entry/one/pixel_mask", "entry/two/pixel_mask"


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        ({}, "found none; give an array"),
        (
            {"m/pixel_mask": MASK[:, :30]},
            r"a mask of the 48 x 56 pixels of entry/data/data: found m/pixel_mask, uint32\[48, 30\]",
        ),
        ({"m/pixel_mask": np.stack([MASK] * 20)}, r"found m/pixel_mask, uint32\[20, 48, 56\]"),
        ({"m/pixel_mask": MASK.astype("f4")}, "found none"),
        ({NEAR: MASK, FAR: MASK}, f"{NEAR}, {FAR} are of several detectors"),
    ],
)
def test_what_is_no_mask_of_these_frames(tmp_path: Path, masks: dict[str, np.ndarray], said: str) -> None:
    path = master(tmp_path, masks)
    assert vfs.open(path, nav_shape=SCAN).masked_pixels is None
    with pytest.raises(vfs.OptionError, match=said):
        vfs.open(path, nav_shape=SCAN, dead="mask")


@pytest.mark.parametrize(
    ("masks", "dead"),
    [
        ({f"{DETECTOR}/pixel_mask": MASK[None], f"{DETECTOR}/detectorSpecific/pixel_mask": MASK * 0}, DEAD),
        (
            {f"{DETECTOR}/detectorSpecific/pixel_mask": MASK, f"{DETECTOR}/detectorModule_000/pixel_mask": MASK[:9]},
            DEAD,
        ),
        ({"data/JF07/pixel_mask": MASK.astype(bool)}, MASK != 0),
        ({"entry/data/pixel_mask": MASK.astype("i2"), FAR: MASK * 0 + 2}, (MASK & 0xFFFF) != 0),
        ({"m/pixel_mask": MASK & np.uint32(1 << 31)}, None),
    ],
)
def test_which_mask_and_which_bits_count(tmp_path: Path, masks: dict[str, np.ndarray], dead: np.ndarray | None) -> None:
    found = vfs.open(master(tmp_path, masks), nav_shape=SCAN).masked_pixels
    assert (found is None) == (dead is None)
    assert np.array_equal(found, dead) or dead is None


@pytest.mark.parametrize("name", ["data_1/mask", "instrument_1/detector_1/mask", "data_1/mask_shared"])
def test_a_mask_of_cxi_has_bits_of_its_own(tmp_path: Path, name: str) -> None:
    mask = np.zeros(SIZE, "u2")
    mask.ravel()[:16] = 1 << np.arange(16)
    path = master(tmp_path, {f"entry_1/{name}": mask}, data="entry_1/data_1/data")
    assert vfs.open(path).masked_pixels is None  # nothing says that this is CXI
    with h5py.File(path, "a") as file:
        file["cxi_version"] = 160
    marked = vfs.open(path).masked_pixels
    assert marked is not None
    assert np.flatnonzero(marked).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9]


def test_a_compressed_mask_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    plugin = pytest.importorskip("hdf5plugin")
    path = master(tmp_path, chunks=(16, 56), **plugin.Bitshuffle(cname="lz4"))
    assert np.array_equal(vfs.open(path).masked_pixels, DEAD)
    with h5py.File(path) as file:
        chunk = file[f"{DETECTOR}/pixel_mask"].id.get_chunk_info(1)
    with path.open("r+b") as file:
        file.seek(chunk.byte_offset + 14)
        file.write(b"\xff" * 40)
    a = vfs.open(path, nav_shape=SCAN)
    for reduction in (vfs.CenterOfMass(), vfs.BrightField()):
        with pytest.raises(vfs.SourceError, match="pixel_mask"):
            a.reduce(one=reduction)


def test_the_page_leaves_them_out(tmp_path: Path) -> None:
    application = application_of(contents_of(master(tmp_path), nav_shape=SCAN))
    key = told(application, "/api/list/")["entries"][0]["key"]
    main = told(application, f"/api/set/{key}")["arrays"][0]
    assert main["masked"] == int(DEAD.sum())
    wanted = {"results": {"a": "disk(25, 27, 9)", "com": "center_of_mass(25, 27, 9)"}, "coarse": False}
    sent = ask(application, f"/api/compute/{key}/{main['path']}", "POST", json.dumps(wanted).encode())
    a = vfs.open(master(tmp_path), nav_shape=SCAN)
    sums = a.reduce(a=vfs.Disk(25, 27, 9, masked=True))["a"].data
    assert sums.astype("<f8").tobytes() in sent.body
    asked = {"options": {"dead": "mask"}}
    opened = json.loads(ask(application, f"/api/open/{key}", "POST", json.dumps(asked).encode()).body)
    assert (opened["arrays"][0]["dtype"], opened["arrays"][0]["masked"]) == ("float64", 0)
    asked = {"options": {"dead": "/etc/hostname"}}
    refused = json.loads(ask(application, f"/api/open/{key}", "POST", json.dumps(asked).encode()).body)
    assert "expected mask, the mask of the set" in refused["error"]


@pytest.mark.parametrize("options", [{}, {"axes": "scan_y, scan_x | x, -y"}])
def test_viewers_choose_the_contrast_without_them(tmp_path: Path, options: dict[str, Any]) -> None:
    tree = vfs.open_group(master(tmp_path), nav_shape=SCAN, **options)._opened.tree
    said = omero(tree.images[tree.main])
    assert said is not None
    assert 0 < said["channels"][0]["window"]["end"] <= GOOD.max()


@pytest.mark.parametrize("large", [20, 4096])
def test_so_does_napari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    monkeypatch.setattr(napari, "_LARGE", large)  # smaller versions are means, also of masked pixels
    monkeypatch.setattr(pyramid, "COARSEST", 10)
    (_, given, _), *_ = napari.read(str(master(tmp_path)))
    assert given["multiscale"] is (large < min(SIZE))
    assert 0 < given["contrast_limits"][1] <= GOOD.max()


def test_info_says_how_many_there_are(tmp_path: Path) -> None:
    lines = " ".join(" ".join(as_text(vfs.open_group(master(tmp_path), nav_shape=SCAN)._opened)).split())
    assert f"dead pixels: {DEAD.sum():,} of 2,688 pixels are marked by {DETECTOR}/pixel_mask" in lines
    assert "dead pixels" not in " ".join(as_text(vfs.open_group(master(tmp_path, {}))._opened))
