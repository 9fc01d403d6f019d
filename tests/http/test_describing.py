"""Sets that the page has opened anew, what it may ask for, and the one file that it may have written."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.http.asking import FRAME, SCAN, VALUES, ask, contents_of, refused, told
from tests.http.support import application_of
from vfs.folder_tree.plans import folder_tree
from vfs.page import reopened
from vfs.server.application import Application
from vfs.testing.writers import write_mib

FRAMES = VALUES.reshape(-1, *FRAME)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A scan of which no file says the shape."""
    return write_mib(tmp_path, FRAMES, hdr=False, depth=12)


@pytest.fixture(params=["set", "tree"])
def shown(scan: Path, request: pytest.FixtureRequest) -> Application:
    return served(scan, tree=request.param == "tree")


def served(path: Path, tree: bool = False, **how: Any) -> Application:
    return application_of(folder_tree(path.parent) if tree else contents_of(path), **how)


def key_of(application: Application) -> str:
    return str(told(application, "/api/list/")["entries"][0]["key"])


def opened(application: Application, key: str, **options: Any) -> Any:
    done = ask(application, f"/api/open/{key}", "POST", json.dumps({"options": options}).encode())
    assert done.status == 200, done.body
    return json.loads(done.body)


def numbers(application: Application, key: str) -> np.ndarray:
    return np.load(io.BytesIO(ask(application, f"/{told(application, f'/api/set/{key}')['npy']}").body))


def test_a_set_opened_anew_is_a_set_of_its_own(shown: Application) -> None:
    key = key_of(shown)
    turned = opened(shown, key, nav_shape="6,9", axes="scan_x, scan_y | -y, x", calibration={"scan_x": {"scale": 2}})
    main = turned["arrays"][0]
    assert (main["shape"], main["dims"]) == ([9, 6, *FRAME], ["scan_x", "scan_y", "y", "x"])
    assert main["calibration"]["scan_x"] == {"scale": 2.0, "offset": 0.0, "unit": ""}
    np.testing.assert_array_equal(numbers(shown, turned["key"]), VALUES.transpose(1, 0, 2, 3)[:, :, ::-1])
    plain = opened(shown, turned["key"], axes=None, nav_shape=None, calibration=None)
    assert plain["arrays"][0]["shape"] == [54, *FRAME]
    assert told(shown, f"/api/set/{key}")["arrays"][0]["shape"] == [54, *FRAME]
    assert len(told(shown, "/api/list/")["entries"]) == 1
    document = json.loads(ask(shown, f"/{turned['key']}/zarr.json").body)
    assert document["consolidated_metadata"]["metadata"]["data"]["shape"] == [9, 6, *FRAME]
    python = told(shown, f"/api/python/{turned['key']}")
    again = vfs.open([eval(path) for path in python["paths"]], **{k: eval(v) for k, v in python["options"].items()})
    np.testing.assert_array_equal(again[...], VALUES.transpose(1, 0, 2, 3)[:, :, ::-1])
    body = json.dumps({"results": {"s": "sum()"}}).encode()
    assert ask(shown, f"/api/compute/{turned['key']}/data", "POST", body).status == 200


def test_what_can_be_changed_is_said(shown: Application) -> None:
    key = key_of(shown)
    known = told(shown, f"/api/options/{key}")
    assert (known["format"], known["given"], known["allowed"]) == ("mib", {}, False)
    assert [one["name"] for one in known["options"]] == ["series", "flip_y"]
    assert {"name": "stored_dtype", "takes": "a dtype"}.items() <= known["raw"][0].items()
    turned = opened(shown, key, nav_shape=[6, 9], flip_y=True)
    known = told(shown, f"/api/options/{turned['key']}")
    assert known["given"] == {"nav_shape": "6,9"}
    assert {one["name"]: one["value"] for one in known["options"]} == {"series": None, "flip_y": True}
    hidden = opened(shown, key, hide=["exposure"], nav_shape="6,9")
    assert [one["path"] for one in hidden["arrays"]] == ["data", "timestamp"]
    known = told(shown, f"/api/options/{hidden['key']}")
    assert (known["given"], known["count"]) == ({"nav_shape": "6,9", "hide": ["exposure"]}, 3)
    assert known["arrays"][2] == {
        "path": "exposure",
        "label": "",
        "shape": [54],
        "dtype": "float64",
    }  # as files hold it


def test_guesses(tmp_path: Path) -> None:
    times = np.arange(54) * 1_000_000 + np.arange(54) // 9 * 5_000_000
    shown = served(write_mib(tmp_path, FRAMES, hdr=False, times_ns=times.tolist()))
    assert told(shown, f"/api/guesses/{key_of(shown)}")[0]["nav_shape"] == list(SCAN)


@pytest.mark.parametrize(
    "options",
    [
        {"dark": "/etc/passwd"},
        {"roi": [1]},
        {"derive": {"a": "mean()"}},
        {"follow_outside": True},
        {"backend": "mmap"},
        {"cache_size": 1},
        {"format": "description"},
        {"format": "frms6", "gain_map": "/etc/passwd"},
        {"format": ["mib"]},
        {"format": "raw"},
        {"format": "raw", "stored_dtype": "O", "sig_shape": "8,8"},
        {"format": "raw", "stored_dtype": "u2", "sig_shape": "0,8"},
        {"format": "raw", "stored_dtype": "u2", "sig_shape": "9" * 3000},
        {"format": "raw", "stored_dtype": "u2", "sig_shape": [1 << 40, 1 << 40]},
        {"format": "raw", "stored_dtype": {"names": ["a"]}, "sig_shape": "8,8"},
        {"nav_shape": [1 << 31, 1 << 31]},
        {"nav_shape": "9" * 5000},
        {"nav_shape": {"a": 1}},
        {"nav_shape": [[1]]},
        {"nav_shape": [1] * 40},
        {"axes": "y" * 5000},
        {"axes": "frame,y,x,x"},
        {"calibration": {"frame": {"scale": 1e300}}},
        {"calibration": {"frame": []}},
        {"sync_offset": "x"},
        {"line_skip": -1, "nav_shape": "6,9"},
        {"dtype": "no such"},
        {"array": "nothing"},
        {"main": "nothing"},
        {"main": "data", "hide": ["data"]},
        {"hide": ["nothing"]},
        {"hide": "timestamp"},
        {"hide": ["data"]},
        {"hide": [1]},
        {"hide": ["timestamp"] * 1001},
        {"flip_y": "perhaps"},
        {f"option{k}": 1 for k in range(100)},
        [],
        "x",
        None,
    ],
)
def test_what_nobody_may_ask_for_is_refused_in_a_line(shown: Application, options: Any) -> None:
    body = json.dumps({"options": options}).encode()
    said = json.loads(ask(shown, f"/api/open/{key_of(shown)}", "POST", body).body)
    assert said.keys() == {"error"}
    assert len(said["error"]) < 1000
    assert said["error"].isprintable()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"options": {}, "paths": ["/etc/passwd"]}', b"{" * 60000])
def test_bodies_that_say_something_else(shown: Application, body: bytes) -> None:
    assert refused(shown, f"/api/open/{key_of(shown)}", "POST", body)[0] == 400


@pytest.mark.parametrize("what", ["options", "guesses", "description"])
@pytest.mark.parametrize("key", ["", "nothing.zarr", "../x", "anew~0123456789abcdef/scan.zarr", "anew~", "%00"])
def test_nothing_but_what_is_served(shown: Application, what: str, key: str) -> None:
    assert refused(shown, f"/api/{what}/{key}")[0] == 404
    assert refused(shown, f"/api/open/{key}", "POST", b'{"options": {}}')[0] == 404


def test_links_that_lead_out_of_a_folder_stay_closed(scan: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.bin"
    outside.write_bytes(bytes(512))
    (scan.parent / "link.bin").symlink_to(outside)
    body = json.dumps({"options": {"format": "raw", "stored_dtype": "u1", "sig_shape": "16,16"}}).encode()
    assert refused(served(scan, tree=True), "/api/open/link.bin", "POST", body)[0] == 404


def test_a_file_that_no_format_knows_opens_as_what_somebody_says(scan: Path) -> None:
    (scan.parent / "pixels.bin").write_bytes(FRAMES.tobytes())
    shown = served(scan, tree=True)
    assert told(shown, "/api/options/pixels.bin")["format"] is None
    made = opened(shown, "pixels.bin", format="raw", stored_dtype="<u2", sig_shape="12,20", nav_shape="6,9")
    np.testing.assert_array_equal(numbers(shown, made["key"]), VALUES)


def test_few_sets_are_kept(shown: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reopened, "MAX_SETS", 3)
    key = key_of(shown)
    keys = [opened(shown, key, sync_offset=k)["key"] for k in range(1, 5)]
    assert len({*keys}) == 4
    assert [ask(shown, f"/api/set/{key}").status for key in keys] == [404, 200, 200, 200]
    assert opened(shown, key, sync_offset=1)["key"] == keys[0]
    monkeypatch.setattr(reopened, "WEIGHT", 1)
    assert opened(shown, key, sync_offset=5)["arrays"]
    assert [ask(shown, f"/api/set/{key}").status for key in keys] == [404] * 4


# The one file


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {name: (os.stat(folder / name).st_mtime_ns, os.stat(folder / name).st_size) for name in os.listdir(folder)}


def test_nothing_is_written_by_a_server_that_may_not(shown: Application, scan: Path) -> None:
    before = files(scan.parent)
    made = opened(shown, key_of(shown), nav_shape="6,9")
    said = told(shown, f"/api/description/{made['key']}")
    assert (said["name"], said["save"]) == (f"{scan.stem}.vfs.json", False)
    assert json.loads(said["text"]) == {
        "vfs": 1,
        "format": "mib",
        "files": [scan.name],
        "options": {"nav_shape": "6,9"},
    }
    status, text = refused(shown, f"/api/save/{made['key']}", "POST")
    assert status == 403
    assert "--allow-describe" in text
    assert files(scan.parent) == before


@pytest.mark.parametrize("tree", [False, True])
def test_a_description_that_is_saved_opens_everywhere(scan: Path, tree: bool) -> None:
    shown, before = served(scan, tree, allow_describe=True), files(scan.parent)
    key = key_of(shown)
    for axes in ("scan_x, scan_y | y, x", "scan_x, scan_y | x, -y"):  # the second one replaces the first
        made = opened(shown, key, nav_shape="6,9", axes=axes)
        assert json.loads(ask(shown, f"/api/save/{made['key']}", "POST").body) == {"name": f"{scan.stem}.vfs.json"}
    wanted = VALUES.transpose(1, 0, 3, 2)[..., ::-1]
    path = scan.parent / f"{scan.stem}.vfs.json"
    assert files(scan.parent).items() - before.items() == {(path.name, files(scan.parent)[path.name])}
    np.testing.assert_array_equal(vfs.open(path)[...], wanted)
    again = served(scan, tree=True)  # shown once, as the description says
    entries = told(again, "/api/list/")["entries"]
    assert [entry["kind"] for entry in entries] == ["set"]
    np.testing.assert_array_equal(numbers(again, entries[0]["key"]), wanted)
    plain = opened(again, entries[0]["key"], axes=None)  # what it says can be taken back
    np.testing.assert_array_equal(numbers(again, plain["key"]), VALUES)


def _theirs(path: Path) -> None:
    path.write_text("{}")


def _link(path: Path) -> None:
    (path.parent / "other").write_text('{"vfs": 1, "format": "mib", "files": []}')
    path.symlink_to("other")


@pytest.mark.parametrize("make", [_theirs, _link, Path.mkdir])
def test_no_other_file_is_replaced(scan: Path, make: Callable[[Path], None]) -> None:
    make(scan.parent / f"{scan.stem}.vfs.json")
    shown, before = served(scan, allow_describe=True), files(scan.parent)
    status, text = refused(shown, f"/api/save/{key_of(shown)}", "POST")
    assert (status, "remove it first" in text) == (400, True)
    assert files(scan.parent) == before


def test_only_a_post_saves(scan: Path) -> None:
    shown = served(scan, allow_describe=True)
    assert refused(shown, f"/api/save/{key_of(shown)}")[0] == 405
    assert refused(shown, f"/api/open/{key_of(shown)}")[0] == 405
