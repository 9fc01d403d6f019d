"""What the page asks for: lists, pictures, thumbnails and computations, compared with numpy."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.http.asking import FRAME, SCAN, VALUES, ask, contents_of, frame, headers_of, records, refused, told
from tests.http.support import Asgi, application_of
from tests.waiting import eventually, until
from vfs.contents.contents import Contents
from vfs.contents.face_folder import FaceFolder
from vfs.contents.shown import Shown
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import TreeView, folder, folder_tree
from vfs.http import limits, requests
from vfs.http.proxies import network_of
from vfs.model.open_options import OpenOptions
from vfs.page import api, computing
from vfs.pictures import small_frames
from vfs.server.application import Application
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib, write_raw


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    return write_mib(tmp_path / "set", VALUES.reshape(-1, *FRAME), frames_per_file=4, scan=SCAN)


@pytest.fixture
def shown(scan: Path) -> Application:
    return application_of(contents_of(scan))


def hdf5(path: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def compute(application: Application, key: str, **asked: Any) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    done = ask(application, f"/api/compute/{key}", "POST", json.dumps(asked).encode())
    assert done.status == 200, done.body
    assert done.ended
    return records(done.body)


def exact(found: list[tuple[dict[str, Any], dict[str, np.ndarray]]], name: str) -> np.ndarray:
    """The result that exact rows make together."""
    rows = [(head["first"], numbers[name]) for head, numbers in found if "first" in head]
    assert [first for first, _ in rows] == [0, *np.cumsum([len(part) for _, part in rows])[:-1].tolist()]
    return np.concatenate([part for _, part in rows])


# what is there


def test_sets_and_their_arrays(shown: Application, scan: Path) -> None:
    listed = told(shown, "/api/list/")
    files = [path.stat() for path in scan.parent.glob("*.mib")]
    size, time = sum(one.st_size for one in files), max(one.st_mtime_ns for one in files) // 10**6
    about = {"format": "mib", "size": size, "time": time}
    entries = [{"name": "scan", "kind": "set", "key": "scan.zarr", **about}]
    assert listed == {"path": "", "entries": entries, "more": False, "tree": False}
    one = told(shown, "/api/set/scan.zarr")
    assert (one["name"], one["npy"], one["count"], one["sources"]) == ("scan", "scan.npy", 3, [str(scan)])
    assert [(each["path"], each["main"], each["nav"], each["shown"]) for each in one["arrays"]] == [
        ("data", True, 2, 2),
        ("timestamp", False, 2, 2),
        ("exposure", False, 2, 2),
    ]
    data = told(shown, "/api/array/scan.zarr/data")
    assert (data["shape"], data["dtype"], data["where"]) == ([*SCAN, *FRAME], "uint16", [0, 1])
    assert data["attrs"]
    assert data["files"] > 1
    assert [each["path"] for each in told(shown, "/api/set/scan.zarr?first=1&count=1")["arrays"]] == ["timestamp"]


def test_how_a_set_was_opened(scan: Path, tmp_path: Path) -> None:
    found = told(application_of(contents_of(scan)), "/api/python/scan.zarr")
    plain = {"name": "scan", "paths": [f'"{scan}"'], "options": {}, "imports": [], "absent": []}
    assert found == plain | {"words": [str(scan)], "version": vfs.__version__}
    too_much = np.random.default_rng(0).random((FRAME[0], FRAME[1]))
    arranged = contents_of(scan, nav_shape=(9, 6), dtype="f4", chunks="scan", dark=too_much, roi=np.arange(54))
    found = told(application_of(arranged), "/api/python/scan.zarr/data")
    assert found["imports"] == ["import base64", "import numpy as np", "import zlib"]
    options = found["options"]
    assert (options["nav_shape"], options["dtype"]) == ("(9, 6)", '"f4"')
    names: dict[str, Any] = {}
    exec("\n".join([*found["imports"], f"dark = {options['dark']}", f"roi = {options['roi']}"]), names)
    assert np.array_equal(names["dark"], too_much)
    assert np.array_equal(names["roi"], np.arange(54))
    assert set(options) == {"nav_shape", "dtype", "dark", "roi"}
    assert found["words"] is None
    status, _ = refused(application_of(contents_of(scan)), "/api/python/nothing.zarr")
    assert status == 404


def test_folders_of_a_tree(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "one.npy", VALUES)
    np.save(tmp_path / '<img src="x">.npy', VALUES)
    application = application_of(folder_tree(tmp_path))
    listed = told(application, "/api/list/")
    assert listed["tree"]
    assert sorted((one["kind"], one["name"]) for one in listed["entries"]) == [
        ("folder", "a"),
        ("folder", "b"),
        ("set", '<img src="x">'),
    ]
    (one,) = told(application, "/api/list/a")["entries"]
    assert (one["name"], one["kind"], one["key"], one["format"]) == ("one", "set", "a/one.zarr", "npy")
    assert one["size"] == (tmp_path / "a" / "one.npy").stat().st_size
    assert told(application, "/api/set/a/one.zarr")["arrays"][0]["shape"] == list(VALUES.shape)
    numbers, _ = frame(application, f"/api/frame/a/one.zarr/{'data'}?at=2,3")
    np.testing.assert_array_equal(numbers, VALUES[2, 3])
    assert told(application, "/api/list/?first=1&count=1")["more"]


def test_what_a_set_lacks_is_said_of_that_set(tmp_path: Path, scan: Path) -> None:
    max(scan.parent.glob("*.mib")).unlink()
    np.save(scan.parent / "whole.npy", VALUES)
    application = application_of(folder_tree(tmp_path, OpenOptions(allow_incomplete=True)))
    for _ in range(2):
        of_whole, of_scan = (told(application, f"/api/set/set/{name}.zarr")["warnings"] for name in ("whole", "scan"))
    assert of_whole == []
    (said,) = of_scan
    assert "scan" in said


def test_thousands_of_arrays_come_in_pages(tmp_path: Path) -> None:
    path = hdf5(tmp_path / "many.h5", {f"group/a{k}": np.full((2, 2), k) for k in range(1500)})
    application = application_of(contents_of(path))
    first, second = (told(application, f"/api/set/many.zarr?first={k}") for k in (0, 1000))
    assert (first["count"], len(first["arrays"]), len(second["arrays"])) == (1500, 1000, 500)
    assert len({one["path"] for one in first["arrays"] + second["arrays"]}) == 1500


def first_of(application: Application) -> dict[str, Any]:
    """What comes with the page, so that it need not be asked for."""
    page = ask(application, "/").body.decode()
    found = re.fullmatch(r'.*<script type="application/json" id="first">(.*?)</script>.*', page, re.DOTALL)
    assert found
    first: dict[str, Any] = json.loads(found[1])
    return first


def test_the_page_has_the_first_answers(tmp_path: Path, shown: Application) -> None:
    assert first_of(shown) == {
        "listing": told(shown, "/api/list/"),
        "set": told(shown, "/api/set/scan.zarr?first=0&count=200"),
    }
    hostile = hdf5(tmp_path / "x.h5", {"</script><script>alert(1)<": np.full((3, 4), np.nan)})
    page = application_of(contents_of(hostile))
    assert first_of(page)["set"] == told(page, "/api/set/x.zarr?first=0&count=200")
    assert b"<script>" not in ask(page, "/").body
    other = hdf5(tmp_path / "y.h5", {"a": np.zeros((2, 2))})
    both = folder([set_of(vfs.open_group(path, backend="buffered")) for path in (hostile, other)], ChunkCache())
    two = application_of(both)
    assert first_of(two) == {"listing": told(two, "/api/list/")}  # nobody knows which will be looked at
    assert first_of(application_of(folder_tree(tmp_path))) == {}


def test_the_page_comes_though_its_set_is_broken(scan: Path) -> None:
    shown = application_of(contents_of(scan))
    scan.with_suffix(".hdr").unlink(missing_ok=True)
    for path in scan.parent.iterdir():
        path.unlink()
    assert first_of(shown)["listing"]["entries"]


# pictures

PICTURES = {
    "u8": np.arange(24, dtype="u8").reshape(4, 6) << 30,
    "f2": np.linspace(-1, 1, 24, dtype="f2").reshape(4, 6),
    "big": np.arange(24, dtype=">i2").reshape(4, 6),
    "bool": np.arange(24).reshape(4, 6) % 3 == 0,
    "odd": np.array([[np.nan, np.inf, 1, 2], [3, 4, -np.inf, np.nan], [5, 6, 7, 8], [9, 9, 9, 9]], "f4"),
    "line": np.arange(7.0),
    "one": np.array([[5]], "i4"),
    "number": np.array(3.5),
    "none": np.zeros((0, 5), "u2"),
    "empty": np.zeros((3, 0, 5), "u2"),
    "complex": (np.arange(24) + 1j * np.arange(24)[::-1]).astype("c8").reshape(4, 6),
    "movie": np.arange(5 * 24, dtype="u1").reshape(5, 4, 6),
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Application:
    return application_of(contents_of(hdf5(tmp_path_factory.mktemp("h5") / "all.h5", PICTURES)))


@pytest.mark.parametrize("name", [name for name in PICTURES if name not in ("none", "empty")])
def test_pictures_have_the_numbers_of_numpy(pictures: Application, name: str) -> None:
    values = PICTURES[name]
    about = told(pictures, f"/api/array/all.zarr/{name}")
    at = [values.shape[k] // 2 for k in about["where"]]
    numbers, factor = frame(pictures, f"/api/frame/all.zarr/{name}" + (f"?at={','.join(map(str, at))}" if at else ""))
    expected = values[tuple(at)]
    assert factor == 1
    assert numbers.dtype.itemsize <= 8
    np.testing.assert_array_equal(numbers, np.abs(expected) if name == "complex" else expected)


def test_where_there_are_no_frames_there_is_no_picture(tmp_path: Path) -> None:
    application = application_of(contents_of(hdf5(tmp_path / "a.h5", {"none": np.zeros((0, 4, 6), "u2")})))
    expected = "none has shape [0, 4, 6]: there is nothing to show"
    for index in ("", "?at=0"):
        assert refused(application, f"/api/frame/a.zarr/none{index}") == (400, f"{expected}\n")
    ((head, _), _) = records(ask(application, "/api/thumbnails/a.zarr").body)
    assert head["error"] == expected


def test_thumbnails_of_merlin_are_the_right_side_up(tmp_path: Path) -> None:
    frames = np.arange(2 * 8 * 16, dtype="u2").reshape(2, 8, 16)
    application = application_of(contents_of(write_mib(tmp_path, frames)))
    (_, thumbnail), *_ = records(ask(application, "/api/thumbnails/scan.zarr").body)
    np.testing.assert_array_equal(thumbnail[""], frames[1, ::-1])
    np.testing.assert_array_equal(frame(application, "/api/frame/scan.zarr/data?at=1")[0], frames[1])  # as stored


def test_parts_of_complex_numbers(pictures: Application) -> None:
    values = PICTURES["complex"]
    for part, function in (("real", np.real), ("imag", np.imag), ("phase", np.angle)):
        np.testing.assert_array_equal(frame(pictures, f"/api/frame/all.zarr/complex?part={part}")[0], function(values))


@pytest.mark.parametrize("name", ["none", "empty"])
def test_pictures_of_nothing(pictures: Application, name: str) -> None:
    about = told(pictures, f"/api/array/all.zarr/{name}")
    assert 0 in about["shape"]
    at = "?at=0" if about["where"] else ""
    done = ask(pictures, f"/api/frame/all.zarr/{name}{at}")
    assert (done.status, done.body) == (200, b"")


def binned(values: np.ndarray, factor: int) -> np.ndarray:
    rows = [slice(k, k + factor) for k in range(0, values.shape[0], factor)]
    columns = [slice(k, k + factor) for k in range(0, values.shape[1], factor)]
    return np.array([[values[r, c].mean() for c in columns] for r in rows])


@pytest.mark.parametrize("most", [1, 3, 5, 7, 19, 20, 1000])
@pytest.mark.parametrize("band", [1, 1 << 20])
def test_large_pictures_are_binned(shown: Application, monkeypatch: pytest.MonkeyPatch, most: int, band: int) -> None:
    monkeypatch.setattr(small_frames, "BAND", band)
    numbers, factor = frame(shown, f"/api/frame/scan.zarr/data?at=2,7&max={most}")
    assert factor == max(1, -(-20 // most))
    np.testing.assert_allclose(numbers, binned(VALUES[2, 7], factor), rtol=1e-6)


def test_a_few_columns_are_not_binned(tmp_path: Path) -> None:
    values = np.arange(60.0).reshape(20, 3)
    np.save(tmp_path / "a.npy", values)
    found, side = frame(application_of(contents_of(tmp_path / "a.npy")), "/api/frame/a.zarr/data?max=10")
    assert side == 2
    np.testing.assert_array_equal(found, values.reshape(10, 2, 3).mean(1))


def test_pixels_that_are_no_number_do_not_count(pictures: Application) -> None:
    numbers, _ = frame(pictures, "/api/frame/all.zarr/odd?max=2")
    np.testing.assert_allclose(numbers, [[3.5, 1.5], [7.25, 8.25]])


def test_pictures_in_colour(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.random.default_rng(1).integers(0, 255, (6, 8, 3)).astype("u1")
    tifffile.imwrite(tmp_path / "rgb.tif", values, photometric="rgb")
    application = application_of(contents_of(tmp_path / "rgb.tif"))
    (about,) = (one for one in told(application, "/api/set/rgb.zarr")["arrays"] if one["main"])
    assert about["shown"] == 3
    np.testing.assert_array_equal(frame(application, f"/api/frame/rgb.zarr/{about['path']}")[0], values)


def test_frames_larger_than_what_is_read_are_sampled(shown: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("vfs.pictures.small_frames", "vfs.pictures.frames"):
        monkeypatch.setattr(f"{module}.MAX_FRAME_BYTES", 200)
    numbers, _ = frame(shown, "/api/frame/scan.zarr/data?at=0,0&max=8")
    assert max(numbers.shape) <= 8
    assert np.isfinite(numbers).mean() > 0.5


def test_a_picture_that_the_browser_has_is_not_read(shown: Application) -> None:
    path = "/api/frame/scan.zarr/data?at=2,7"
    done = ask(shown, path)
    tag = headers_of(done)["etag"]
    again = ask(shown, path, if_none_match=tag)
    assert (again.status, again.body) == (304, b"")
    assert headers_of(ask(shown, "/api/frame/scan.zarr/data?at=2,6"))["etag"] != tag
    head = ask(shown, path, "HEAD")
    assert (head.status, head.body, headers_of(head)["content-length"]) == (200, b"", str(len(done.body)))


def test_thumbnails_come_one_by_one(pictures: Application) -> None:
    found = records(ask(pictures, "/api/thumbnails/all.zarr?size=4").body)
    assert found[-1][0] == {"end": True, "bytes": 0}
    heads = [head for head, _ in found[:-1]]
    assert {head["path"] for head in heads} == set(PICTURES)
    assert all(0 in head["shape"] or max([*head["shape"], 0]) <= 4 for head in heads)
    main = records(ask(pictures, "/api/thumbnails/all.zarr?main=1").body)
    (first,) = (one["path"] for one in told(pictures, "/api/set/all.zarr")["arrays"] if one["main"])
    assert [head.get("path") for head, _ in main] == [first, None]
    few = records(ask(pictures, "/api/thumbnails/all.zarr?first=2&count=3").body)
    assert [head.get("path") for head, _ in few] == [head["path"] for head in heads[2:5]] + [None]


# computations


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few frames make several steps."""
    monkeypatch.setattr(computing, "MIN_FRAMES", 3)
    monkeypatch.setattr(computing, "FIRST", 5 * 12 * 20 * 2)
    monkeypatch.setattr(computing, "STEP", 10 * 12 * 20 * 2)
    monkeypatch.setattr(computing, "QUICK", 0)
    monkeypatch.setattr(computing, "MORE", 20 * 12 * 20 * 2)


@pytest.mark.usefixtures("small_steps")
def test_sums_of_floats_name_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(100, *FRAME)) * 10.0 ** rng.integers(-9, 9, (100, *FRAME))
    (file,) = write_raw(tmp_path, values)
    how = {"format": "raw", "dtype": "f8", "sig_shape": FRAME}
    found = compute(application_of(contents_of(file, **how)), "part0.zarr/data", results={"m": "mean()"})
    head, numbers = found[-2]
    assert head["exact"]
    assert head["parts"] > 2
    order = {"parts": head["parts"], "workers": head["workers"]}
    *_, last = vfs.open(file, **how).reduce_partial(m=vfs.Mean(), **order)
    assert numbers["m"].tobytes() == last["m"].data.tobytes()


@pytest.mark.usefixtures("small_steps")
def test_results_by_position_are_exact_and_come_coarse_first(shown: Application) -> None:
    asked = {"bf": "disk(5, 9, 4)", "com": "center_of_mass(5, 9)", "small": "binned(5)", "lines": "radial_sum(5, 9, 6)"}
    found = compute(shown, "scan.zarr/data", results=asked)
    assert found[-1][0] == {"end": True, "bytes": 0}
    coarse = [(head, numbers) for head, numbers in found if "step" in head]
    assert coarse
    assert found[0][0]["step"] == coarse[0][0]["step"] > 1
    expected = vfs.open(next(iter(told(shown, "/api/set/scan.zarr")["sources"]))).reduce(
        bf=vfs.Disk(5, 9, 4), com=vfs.CenterOfMass(5, 9), lines=vfs.RadialSum(5, 9, 6)
    )
    for name in ("bf", "com", "lines"):
        whole = expected[name].data
        np.testing.assert_array_equal(exact(found, name).reshape(whole.shape), whole)
        for head, numbers in coarse:
            np.testing.assert_array_equal(numbers[name], whole[:: head["step"], :: head["step"]])
    squares = VALUES.reshape(54, 3, 4, 5, 4).sum((2, 4))
    np.testing.assert_array_equal(exact(found, "small"), squares)
    heads = [head for head, _ in found if "first" in head]
    assert len(heads) > 2
    assert [head["done"] for head in heads] == sorted(head["done"] for head in heads)
    assert heads[-1]["done"] == heads[-1]["of"] == 54


@pytest.mark.usefixtures("small_steps")
def test_steps_grow_where_they_are_quick_and_are_kept_as_they_were_cut(
    shown: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"results": {"image": "disk(5, 9, 4)"}, "coarse": False}
    monkeypatch.setattr(computing, "QUICK", 1e9)
    grown = compute(shown, "scan.zarr/data", **asked)
    assert [head["count"] for head, _ in grown[:-1]] == [9, 18, 27]  # whole rows, of 9 positions
    misses = shown.contents.cache.misses
    monkeypatch.setattr(computing, "QUICK", 0)
    again = compute(shown, "scan.zarr/data", **asked)
    assert shown.contents.cache.misses == misses
    assert [head for head, _ in again] == [head for head, _ in grown]
    np.testing.assert_array_equal(exact(again, "image"), exact(grown, "image"))


@pytest.mark.usefixtures("small_steps")
def test_results_by_pixel_fill(shown: Application) -> None:
    found = compute(shown, "scan.zarr/data", results={"m": "mean()", "h": "max()", "s": "sum()"})
    assert len(found) == 4  # a sample, half, all, the end
    assert [head["exact"] for head, _ in found[:-1]] == [False] * (len(found) - 2) + [True]
    last = found[-2][1]
    flat = VALUES.reshape(-1, *FRAME)
    np.testing.assert_array_equal(last["s"], flat.sum(0))
    np.testing.assert_array_equal(last["h"], flat.max(0))
    np.testing.assert_array_equal(last["m"], flat.mean(0))
    again = compute(shown, "scan.zarr/data", results={"m": "mean()", "h": "max()", "s": "sum()"})
    assert len(again) == 2  # kept
    np.testing.assert_array_equal(again[0][1]["s"], last["s"])


@pytest.mark.parametrize(
    ("region", "inside"),
    [
        ({"rectangle": [1, 2, 4, 6]}, np.s_[1:4, 2:6]),
        ({"point": [5, 8]}, np.s_[5:6, 8:9]),
        ({"disk": [2, 3, 1.1]}, ([1, 2, 2, 2, 3], [3, 2, 3, 4, 3])),
    ],
)
def test_regions_of_the_scan(shown: Application, region: Any, inside: Any) -> None:
    found = compute(shown, "scan.zarr/data", results={"s": "sum()"}, region=region)
    np.testing.assert_array_equal(found[-2][1]["s"], VALUES[inside].reshape(-1, *FRAME).sum(0))


def test_scans_of_one_and_of_three_axes(tmp_path: Path) -> None:
    values = VALUES.reshape(2, 3, 9, *FRAME)
    np.save(tmp_path / "three.npy", values)
    contents = contents_of(tmp_path / "three.npy")
    application = application_of(contents)
    (name,) = (one["path"] for one in told(application, "/api/set/three.zarr")["arrays"])
    for k in range(2):
        found = compute(application, f"three.zarr/{name}", results={"s": "frame_sum()"}, within=[k])
        np.testing.assert_array_equal(exact(found, "s").reshape(3, 9), values[k].sum((-1, -2)))
        found = compute(application, f"three.zarr/{name}", results={"s": "max()"}, within=[k])
        np.testing.assert_array_equal(found[-2][1]["s"], values[k].max((0, 1)))
    np.save(tmp_path / "flat.npy", VALUES.reshape(-1, *FRAME))
    asked = {"results": {"s": "max()"}, "region": {"box": [[1, 2], [0, 2], [3, 7]]}}
    found = compute(application, f"three.zarr/{name}", **asked)
    np.testing.assert_array_equal(found[-2][1]["s"], values[1, :2, 3:7].max((0, 1)))
    flat = application_of(contents_of(tmp_path / "flat.npy"))
    found = compute(flat, "flat.zarr/data", results={"s": "sum()"}, region={"range": [10, 13]})
    np.testing.assert_array_equal(found[-2][1]["s"], VALUES.reshape(-1, *FRAME)[10:13].sum(0))


def test_positions_without_a_frame_are_nan(scan: Path) -> None:
    application = application_of(contents_of(scan, nav_shape=(7, 9)))
    before = computing.passed.nbytes
    made = exact(compute(application, "scan.zarr/data", results={"s": "frame_sum()"}), "s").reshape(7, 9)
    assert computing.passed.nbytes - before >= VALUES.nbytes
    np.testing.assert_array_equal(made[:6], VALUES.sum((-1, -2)))
    assert np.isnan(made[6]).all()
    assert application.tally.reads == 1  # `vfs mounts` says what pages are sent, too
    assert application.tally.bytes > made.nbytes


@pytest.mark.usefixtures("small_steps")
def test_a_source_that_breaks_ends_a_computation_in_words(scan: Path) -> None:
    application = application_of(contents_of(scan, accept_changes=True))
    last = sorted(scan.parent.glob("*.mib"))[-1]
    os.truncate(last, last.stat().st_size - 10)
    found = compute(application, "scan.zarr/data", results={"s": "frame_sum()"}, coarse=False)
    assert len(found) > 2
    assert last.name in found[-1][0]["error"]
    assert "\n" not in found[-1][0]["error"]
    assert application.tally.errors == 1
    status, text = refused(application, "/api/frame/scan.zarr/data?at=5,8")
    assert (status, last.name in text) == (422, True)
    thumbnails = records(ask(application, "/api/thumbnails/scan.zarr").body)
    assert thumbnails[-1][0] == {"end": True, "bytes": 0}


@pytest.mark.parametrize(
    ("what", "method", "allowed"),
    [
        ("compute", "GET", "POST, OPTIONS"),
        ("frame", "POST", "GET, HEAD, OPTIONS"),
        ("thumbnails", "HEAD", "GET, OPTIONS"),
        ("stop", "GET", "POST, OPTIONS"),
    ],
)
def test_other_methods_are_told_which_go(shown: Application, what: str, method: str, allowed: str) -> None:
    done = ask(shown, f"/api/{what}/scan.zarr/data", method)
    assert (done.status, headers_of(done)["allow"]) == (405, allowed)


MANY = json.dumps({"results": {f"a{k}": "radial_sum(1, 1, 1048576)" for k in range(9)}})
HUGE = "[" * 30_000


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("frame/scan.zarr/data", None, 400),
        ("frame/scan.zarr/data?at=1", None, 400),
        ("frame/scan.zarr/data?at=6,0", None, 400),
        ("frame/scan.zarr/data?at=-1,0", None, 400),
        ("frame/scan.zarr/data?at=1,2&max=0", None, 400),
        ("frame/scan.zarr/data?at=1,2&max=1e9", None, 400),
        ("frame/scan.zarr/data?at=1,2&part=x", None, 400),
        ("frame/scan.zarr/data?at", None, 400),
        ("frame/scan.zarr/none", None, 404),
        ("frame/scan.zarr", None, 404),
        ("frame/scan.npy", None, 404),
        ("frame/", None, 404),
        ("set/scan.npy", None, 404),
        ("set/scan.zarr?count=1001", None, 400),
        ("set/", None, 404),
        ("list/none", None, 404),
        ("list/scan.zarr/data", None, 404),
        ("none", None, 404),
        ("", None, 404),
        ("compute/scan.zarr/data", None, 405),
        ("frame/scan.zarr/data?at=1,2", "{}", 405),
        ("compute/scan.zarr/data", "", 400),
        ("compute/scan.zarr/data", HUGE, 400),
        ("compute/scan.zarr/data", "[]", 400),
        ("compute/scan.zarr/data", "{}", 400),
        ("compute/scan.zarr/data", '{"results": {}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": 3}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "nothing()"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"../a": "sum()"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "disk(1, 2)"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "disk(1, 2, NaN)"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "masks(/etc/passwd)"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "MASKS(/etc/passwd)"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "m_asks(/etc/passwd)"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "binned(0)"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "radial_sum(1, 1, 100000000)"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()", "b": "frame_sum()"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "histogram(10, (0, 1))"}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "frame_sum()"}, "region": {"point": [1, 1]}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "region": {"point": [9, 9]}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "region": {"point": [1]}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "region": {"range": [1, 2]}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "region": 3}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "region": {"box": [[0, 1]]}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "region": {"box": [[0, 1], [0, 99]]}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "region": {"box": [[0, 1], 3]}}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "within": [0]}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "within": 0}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "more": 0}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "sum()"}, "coarse": "x"}', 400),
        ("compute/scan.zarr/data", '{"results": {"a": "binned(\\u0663)"}}', 400),
        ("compute/scan.zarr/data", MANY, 400),
        ("compute/scan.zarr/none", '{"results": {"a": "sum()"}}', 404),
        ("compute/scan.zarr/data", "x" * (requests.MAX_BODY_BYTES + 1), 413),
    ],
)
def test_what_is_refused(shown: Application, path: str, body: str | None, status: int) -> None:
    got, text = refused(shown, f"/api/{path}", "GET" if body is None else "POST", (body or "").encode())
    assert got == status, text
    assert "passwd:" not in text


@pytest.mark.usefixtures("small_steps")
def test_a_scan_of_which_hardly_anything_is_stored(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "set.h5", "w") as file:
        data = file.create_dataset("data", (3000, 3000, 600, 600), "u2", chunks=(1, 1, 600, 600))
        data[1500, 2000] = 7
    application = application_of(contents_of(tmp_path / "set.h5"))
    head, numbers = compute(application, "set.zarr/data", results={"m": "mean()"})[-2]  # a pass of fewer parts
    assert head["exact"]
    assert (numbers["m"] == 7).all()
    asked = {"results": {"m": "sum()"}, "region": {"rectangle": [1500, 1999, 1501, 2001]}}
    assert (compute(application, "set.zarr/data", **asked)[-2][1]["m"] == 7).all()
    assert np.isnan(compute(application, "set.zarr/data", **asked | {"region": {"point": [0, 0]}})[-2][1]["m"]).all()


def test_magnitudes_of_complex_frames(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 4, 5, 2)).view(np.complex128)[..., 0]
    np.save(tmp_path / "a.npy", values)
    application = application_of(contents_of(tmp_path / "a.npy"))
    made = exact(compute(application, "a.zarr/data", results={"m": "magnitude_sum()"}), "m")
    assert made.tolist() == [np.abs(one).sum() for one in values.reshape(-1, 4, 5)]


def test_results_of_complex_pixels_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.ones((3, 4, 6), "c8"))
    shown = application_of(contents_of(tmp_path / "c.npy"))
    for text in ("frame_sum()", "sum()", "max()"):
        body = json.dumps({"results": {"a": text}}).encode()
        status, said = refused(shown, "/api/compute/c.zarr/data", "POST", body)
        assert status == 400
        assert "expected real" in said


@given(body=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_body_is_answered(body: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "one.npy"
    if not path.exists():
        np.save(path, VALUES)
    assert refused(application_of(contents_of(path)), "/api/compute/one.zarr/data", "POST", body)[0] == 400


def test_bodies_that_never_end_take_no_place(shown: Application) -> None:
    class Unended(Asgi):
        async def receive(self) -> Any:
            return {**await super().receive(), "more_body": True}

    async def run() -> tuple[set[int], int]:
        path = "/api/compute/scan.zarr/data"
        held = [Unended(shown, path, "POST", b'{"results"') for _ in range(api.AT_ONCE["compute"] + 2)]
        running = [asyncio.ensure_future(one.run()) for one in held]
        await asyncio.sleep(0)
        whole = await Asgi(shown, path, "POST", json.dumps({"results": {"a": "sum()"}}).encode()).run()
        for one in held:
            one.gone.set()
        await asyncio.gather(*running)
        return {one.status for one in held}, whole.status

    assert asyncio.run(run()) == ({0}, 200)


@pytest.mark.parametrize("proxy", [False, True])
def test_a_client_has_a_limit(shown: Application, monkeypatch: pytest.MonkeyPatch, proxy: bool) -> None:
    monkeypatch.setattr(shown, "_proxies", [network_of("127.0.0.1")] * proxy)  # behind one, the third is somebody else
    monkeypatch.setitem(api.AT_ONCE, "frame", 2)
    monkeypatch.setattr(limits, "SECONDS", 0.0)
    hold = threading.Event()
    real = shown.api.contents.at

    def slow(path: str) -> Shown:
        assert hold.wait(100)
        return real(path)

    monkeypatch.setattr(shown.api.contents, "at", slow)

    async def run() -> list[int]:
        asked = [
            Asgi(shown, f"/api/frame/scan.zarr/data?at=0,{k}", x_forwarded_for=f"192.0.2.{k // 2}") for k in range(3)
        ]
        running = [asyncio.ensure_future(one.run()) for one in asked]
        if not proxy:
            await until(lambda: asked[2].sent)
        hold.set()
        await asyncio.gather(*running)
        return [one.status for one in asked]

    assert asyncio.run(run()) == [200, 200, 200 if proxy else 429]
    assert ask(shown, "/api/frame/scan.zarr/data?at=0,0").status == 200


@pytest.mark.usefixtures("small_steps")
def test_equal_computations_share_their_steps(shown: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    real = computing.reduce
    monkeypatch.setattr(computing, "reduce", lambda *args, **how: ran.append(1) or real(*args, **how))
    body = json.dumps({"results": {"s": "frame_sum()"}}).encode()

    async def run() -> list[bytes]:
        asked = [Asgi(shown, "/api/compute/scan.zarr/data", "POST", body) for _ in range(4)]
        return [one.body for one in await asyncio.gather(*(one.run() for one in asked))]

    bodies = asyncio.run(run())
    assert len(set(bodies)) == 1
    assert len(ran) == len(records(bodies[0])) - 1


class Endless:
    """A reduction that goes on until it is given up.

    Attributes:
        began: released when it has begun; ended: names of the errors that ended it.
    """

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.ended: list[str] = []

    def __call__(self, *args: Any, progress: Any, **how: Any) -> Any:
        self.began.release()
        try:
            while True:
                progress(0, 1)
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    made = Endless()
    monkeypatch.setattr(computing, "reduce", made)
    return made


SUMS = json.dumps({"results": {"s": "frame_sum()"}}).encode()


def test_a_computation_stops_when_its_reader_goes_away(shown: Application, endless: Endless) -> None:
    async def run() -> Asgi:
        one = Asgi(shown, "/api/compute/scan.zarr/data", "POST", SUMS)
        running = asyncio.ensure_future(one.run())
        await asyncio.to_thread(endless.began.acquire)
        one.gone.set()
        return await running

    assert not asyncio.run(run()).sent
    assert eventually(lambda: endless.ended == ["AbandonedError"])


def test_a_computation_stops_when_the_server_is_told(shown: Application, endless: Endless) -> None:
    async def run() -> list[Asgi]:
        one = Asgi(shown, "/api/compute/scan.zarr/data?id=a", "POST", SUMS)
        running = asyncio.ensure_future(one.run())
        await asyncio.to_thread(endless.began.acquire)
        others = [("compute/scan.zarr/data?id=a", SUMS), ("stop/b", b""), ("stop/a", b"")]
        asked = [await Asgi(shown, f"/api/{path}", "POST", body).run() for path, body in others]
        return [*asked, await running, await Asgi(shown, "/api/stop/a", "POST").run()]

    same, other, this, stopped, late = asyncio.run(run())
    assert same.status == 400
    assert [json.loads(one.body)["stopped"] for one in (other, this, late)] == [False, True, False]
    assert (stopped.status, stopped.ended) == (200, True)
    assert records(stopped.body) == [({"error": "it was stopped", "bytes": 0}, {})]
    assert eventually(lambda: endless.ended == ["AbandonedError"])


@pytest.mark.parametrize("room", ["requests", "bytes"])
@pytest.mark.parametrize("told", [True, False])
def test_a_computation_that_waits_is_ended(
    shown: Application, endless: Endless, monkeypatch: pytest.MonkeyPatch, room: str, told: bool
) -> None:
    """At once, by its page or because that has gone; it keeps no place from others, and never begins."""
    if room == "requests":
        monkeypatch.setitem(api.AT_ONCE, "compute", 1)
        queue = shown.api._at_once._queue
    else:
        monkeypatch.setattr(shown.api.streams._held, "_most", (1, 1))
        queue = shown.api.streams._held._queue

    async def run() -> Asgi:
        first, waits = (Asgi(shown, f"/api/compute/scan.zarr/data?id={n}", "POST", SUMS) for n in "ab")
        running = asyncio.ensure_future(first.run())
        await asyncio.to_thread(endless.began.acquire)
        waiting = asyncio.ensure_future(waits.run())
        await until(lambda: queue._waiting)
        if told:
            said = await Asgi(shown, "/api/stop/b", "POST").run()
            assert json.loads(said.body)["stopped"]
        else:
            waits.gone.set()
        await waiting
        await until(lambda: not queue._waiting)
        assert not running.done()
        first.gone.set()
        await running
        return waits

    done = asyncio.run(run())
    assert (records(done.body) if told else done.sent) == (
        [({"error": "it was stopped", "bytes": 0}, {})] if told else []
    )
    assert eventually(lambda: endless.ended == ["AbandonedError"])
    assert not endless.began.acquire(blocking=False)


# the page


def test_the_page_and_its_parts(shown: Application) -> None:
    page = ask(shown, "/")
    about = headers_of(page)
    assert (page.status, about["content-type"]) == (200, "text/html; charset=utf-8")
    assert about["content-security-policy"].startswith("default-src 'none'; script-src 'self'; ")
    assert b'<a href="scan.zarr/">' in page.body
    assert b"<script>" not in page.body
    # The page changes once, when the disk of the scan is found
    assert eventually(lambda: ask(shown, "/", if_none_match=headers_of(ask(shown, "/"))["etag"]).status == 304)
    for path in (
        "/assets/none.js",
        "/assets/",
        "/assets/../api.py",
        "/assets/page.js/",
        "/assets/index.html",
        "/assets/main.js",
    ):
        assert ask(shown, path).status == 404
    whole = ask(shown, "/assets/style.css")
    assert whole.status == 200
    assert ask(shown, "/assets/style.css", if_none_match=headers_of(whole)["etag"]).status == 304
    assert ask(shown, "/assets/style.css", "POST").status == 405


@pytest.mark.parametrize("zarr_format", [None, 3, 2])
@pytest.mark.parametrize("tree", [False, True])
def test_names_that_end_like_faces_lead_to_no_other_set(tmp_path: Path, tree: bool, zarr_format: int | None) -> None:
    """The page's link to the .npy file of a.v2 led to that of a."""
    files = [tmp_path / f"{name}.npy" for name in ("a", "a.v2", "b.zarr", "c.v2.zarr", "d.npy")]
    for k, file in enumerate(files):
        np.save(file, np.full((2, 8, 8), k, "u2"))
    if tree:
        contents: Contents = folder_tree(tmp_path, view=TreeView(zarr_format=zarr_format))
    else:
        sets = [set_of(vfs.open_group(file, backend="buffered")).tree for file in files]
        contents = FaceFolder(sets, zarr_format=zarr_format)
    application = application_of(contents)
    entries = told(application, "/api/list/")["entries"]
    assert len(entries) == len(files)
    for entry in entries:
        one = told(application, f"/api/set/{entry['key']}")
        assert one["name"] == entry["name"]
        file = np.load(io.BytesIO(ask(application, f"/{one['npy']}").body))
        chunk = f"{entry['key']}/data/{'0/0/0' if zarr_format == 2 else 'c/0/0/0'}"
        assert file.tobytes() == ask(application, f"/{chunk}").body


def test_an_exported_store_and_a_folder_called_like_a_face_in_a_tree(tmp_path: Path) -> None:
    """A store beside its source took the name of the source's face; the page went by endings of names."""
    for name in ("a.npy", "x.npy/b.npy", "y.zarr/c.npy"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        np.save(tmp_path / name, np.ones((2, 8, 8), "u2"))
    for document in ("a.zarr/zarr.json", "a.v2.zarr/.zgroup", "copy/zarr.json", "b.h5/.zarray"):
        (tmp_path / document).parent.mkdir()
        (tmp_path / document).write_text("{}")
    contents = folder_tree(tmp_path)
    assert {(entry.name, entry.path, entry.kind) for entry in contents.at("").sets()} == {
        ("a", "a.zarr", "set"),
        ("x.npy", "x.npy", "folder"),
        ("y.zarr", "y.zarr", "folder"),
    }
    assert [entry.path for entry in contents.at("x.npy").sets()] == ["x.npy/b.zarr"]
    assert [entry.path for entry in folder_tree(tmp_path, view=TreeView(zarr_format=2)).at("y.zarr").sets()] == [
        "y.zarr/c.v2.zarr"
    ]
    assert "a.zarr" in set(folder_tree(tmp_path, view=TreeView(show_files=True)).at("").children())
