"""Sets that are still being written, over HTTP, in a mount, on the page, and by commands."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.http.support import application_of
from tests.live.conftest import SCAN, Instrument, answered, instrument_of
from tests.page.conftest import browse, chromium  # noqa: F401
from tests.waiting import eventually
from vfs.engine.cache import ChunkCache
from vfs.folder_tree import records
from vfs.folder_tree.plans import TreeView, plan_sets, plan_tree
from vfs.fuse.how import MountHow
from vfs.model.command_options import MountOptions
from vfs.model.open_options import OpenOptions, split
from vfs.sets import live_set
from vfs.testing.inside import set_of

HOW: dict[str, Any] = {"follow": True, "settle": 0.3, "chunks": "1,-1,-1,-1"}


def asked(url: str) -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def live(url: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(asked(url + "scan.zarr/zarr.json")[2])["attributes"]["vfs"].get("live")
    return found


def test_chunks_over_http_are_right_or_422_and_keep_their_etags(instrument: Instrument) -> None:
    instrument.write_frames(17)
    with vfs.serve([instrument.path], port=0, **HOW) as server:
        scan = zarr.open_array(server.url + "scan.zarr/data", mode="r")
        assert scan.shape[:2] == SCAN
        np.testing.assert_array_equal(scan[1], instrument.frames[1])
        status, headers, text = asked(server.url + "scan.zarr/data/c/2/0/0/0")
        assert (status, headers["retry-after"]) == (422, "1")
        assert b"is not written yet: 17 are there" in text
        tag = asked(server.url + "scan.zarr/data/c/1/0/0/0")[1]["etag"]
        instrument.write_frames(10)
        assert eventually(lambda: live(server.url) == {"frames": 27, "of": 48, "complete": False})
        np.testing.assert_array_equal(scan[2], instrument.frames[2])
        with pytest.raises(Exception, match="422"):
            scan[3]
        assert asked(server.url + "scan.zarr/data/c/1/0/0/0")[1]["etag"] == tag
        mounts = [sys.executable, "-m", "vfs", "mounts"]  # which reads the server's status.json
        said = "  live: scan.zarr: 27 of 48 frames"
        assert eventually(lambda: said in subprocess.run(mounts, capture_output=True, text=True, check=True).stdout)
        instrument.recording.finish()
        assert eventually(lambda: live(server.url) is None)
        np.testing.assert_array_equal(scan[...], instrument.frames)


def test_events_say_how_far_it_is(instrument: Instrument) -> None:
    instrument.write_frames(17)
    with vfs.serve([instrument.path], port=0, **HOW) as server:
        heard: list[tuple[str, dict[str, Any]]] = []

        def listen() -> None:
            kind = ""
            for line in urllib.request.urlopen(server.url + "api/events"):
                name, _, value = line.decode().strip().partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    heard.append((kind, json.loads(value)))

        listener = threading.Thread(target=listen)
        listener.start()
        assert eventually(lambda: bool(heard))
        assert heard[0] == ("frames", {"set": "scan.zarr", "frames": 17, "of": 48, "complete": False})
        instrument.write_frames(10)
        assert eventually(lambda: heard[-1][1].get("frames") == 27)
        instrument.recording.finish()
        listener.join(timeout=250)
        assert not listener.is_alive()
        assert [kind for kind, _ in heard[-2:]] == ["complete", "end"]
        assert heard[-2][1]["frames"] == 48


def test_files_in_a_mount_are_right_or_eio(instrument: Instrument, tmp_path: Path) -> None:
    instrument.write_frames(17)
    point = tmp_path / "mount"
    point.mkdir()
    whole = instrument.frames.tobytes()
    row = instrument.frames[0].nbytes
    with vfs.mount([instrument.path], point, **HOW):
        scan = zarr.open_array(point / "scan.zarr" / "data", mode="r")
        np.testing.assert_array_equal(scan[1], instrument.frames[1])
        with pytest.raises(OSError, match="Input/output error"):
            scan[2]
        with (point / "scan.npy").open("rb", buffering=0) as file:
            file.seek(128)
            assert file.read(row) == whole[:row]
            file.seek(128 + 3 * row)
            with pytest.raises(OSError, match="Input/output error"):
                file.read(10)
            instrument.write_frames(25)
            assert eventually(lambda: readable(point / "scan.zarr/data/c/4/0/0/0"))
            file.seek(128 + 3 * row)
            assert file.read(10) == whole[3 * row : 3 * row + 10]
        np.testing.assert_array_equal(scan[:5], instrument.frames[:5])
        instrument.recording.finish()
        assert eventually(lambda: readable(point / "scan.zarr/data/c/5/0/0/0"))
        np.testing.assert_array_equal(np.load(point / "scan.npy"), instrument.frames)


def readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def test_the_page_shows_a_scan_that_fills_in(instrument: Instrument, browse: Callable[..., Any]) -> None:  # noqa: F811
    instrument.write_frames(17)
    with vfs.serve([instrument.path], port=0, **HOW) as server:
        page = browse(server.url).open()
        page.wait("vfs.scan.status === '35 % written' && vfs.frame.status === 'exact'")
        assert page.page.inner_text(".live") == "live · 17 of 48 frames"
        assert page.state("at") == [2, 0]
        whole = instrument.frames.astype(float)
        shown = page.numbers("scan")
        assert np.isfinite(shown.reshape(-1)[:17]).all()
        assert np.isnan(shown.reshape(-1)[17:]).all()
        instrument.write_frames(10)
        page.wait(
            "vfs.scan.status === '56 % written' && String(vfs.state.at) === '3,2' && vfs.frame.status === 'exact'"
        )
        assert eventually(lambda: np.array_equal(page.numbers("frame"), whole[3, 2]))
        page.page.keyboard.press("f")
        instrument.recording.finish()
        page.settled()
        page.wait("document.querySelector('.live').hidden")
        assert page.state("at") == [3, 2]
        assert np.isfinite(page.numbers("scan")).all()
        page.page.goto("about:blank")  # before the server ends


def test_commands_follow(instrument: Instrument, tmp_path: Path) -> None:
    instrument.write_frames(17)
    command = [sys.executable, "-m", "vfs"]
    told = subprocess.run(
        [*command, "info", str(instrument.path), "--follow", "--settle", "1e9"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "  live: 17 of 48 frames are written\n" in told.stdout
    assert "31 of 48 frames are not written yet" in told.stdout
    out = tmp_path / "total.npy"
    made = subprocess.Popen(
        [*command, "reduce", str(instrument.path), str(out), "total=framesum()", "--follow", "--settle", "0.3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    instrument.recording.finish()
    _, said = made.communicate(timeout=250)
    assert made.returncode == 0, said
    np.testing.assert_array_equal(np.load(out), instrument.frames.sum((2, 3)))


def test_a_folder_shows_each_set_when_its_first_frame_is_whole(instrument: Instrument) -> None:
    with vfs.serve([instrument.path.parent], port=0, tree=True, follow=True, settle=0.3, chunks="frames") as server:

        def names() -> set[tuple[str, str]]:
            found = json.loads(asked(server.url + "api/list/")[2])["entries"]
            return {(one["name"], one["kind"]) for one in found}

        def has(frame: str) -> bool:
            return asked(server.url + f"scan.zarr/data/c/{frame}/0/0")[0] == 200

        assert ("scan", "set") not in names()
        instrument.write_frames(17)
        assert eventually(lambda: ("scan", "set") in names())
        assert eventually(lambda: has("0/3"))
        assert not has("5/7")
        instrument.recording.finish()
        assert eventually(lambda: has("5/7"))  # it counts when nobody has written for a while, and no file tells
        scan = zarr.open_array(server.url + "scan.zarr/data", mode="r")
        np.testing.assert_array_equal(scan[...], instrument.frames)

        # The next acquisition of the session
        other = np.random.default_rng(9).integers(1, 99, (2, 3, 16, 16), "u2")
        np.save(instrument.finished.parent / "next.npy", other)
        whole, path = (instrument.finished.parent / "next.npy").read_bytes(), instrument.path.parent / "next.npy"
        first = len(whole) - other.nbytes
        path.write_bytes(whole[: first + 100])
        assert asked(server.url + "next.zarr/data/c/0/0/0/0")[0] != 200
        path.write_bytes(whole[: first + 700])
        assert eventually(lambda: ("next", "set") in names())
        assert asked(server.url + "next.zarr/data/c/0/0/0/0")[2] == other[0, 0].tobytes()
        assert asked(server.url + "next.zarr/data/c/1/2/0/0")[0] == 422
        path.write_bytes(whole)
        assert eventually(lambda: asked(server.url + "next.zarr/data/c/1/2/0/0")[0] == 200)
        assert asked(server.url + "next.zarr/data/c/1/2/0/0")[2] == other[1, 2].tobytes()
        np.testing.assert_array_equal(scan[...], instrument.frames)


def test_acquisitions_of_a_folder_grow_end_and_begin_anew(
    tmp_path: Path, looks_each_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks keep their versions and stamps as a set grows; a shorter acquisition under its name is another one."""
    for name in ("least", "share"):
        monkeypatch.setattr(records.LOOKS, name, 0.0)
    (tmp_path / "one").mkdir()
    instrument = instrument_of(tmp_path / "one")
    tree = plan_tree(
        [tmp_path], OpenOptions(follow=True, settle=0.0, give_up=1e9, chunks="frames"), {}, TreeView()
    ).here()
    root = "one/microscope/scan.zarr"

    def frame(n: int) -> bytes:
        return bytes(tree.at(f"{root}/data/c/{n // 8}/{n % 8}/0/0").get() or b"none")

    def live() -> Any:
        return json.loads(bytes(tree.at(f"{root}/zarr.json").get() or b"{}"))["attributes"]["vfs"].get("live")

    def kept() -> tuple[bytes, int]:
        return tree.at(f"{root}/data/c/0/3/0/0").version(), tree.at(f"{root}/data/c/0/3/0/0").stamp()

    instrument.write_frames(17)
    assert frame(16) == instrument.frames[2, 0].tobytes()
    with pytest.raises(vfs.NotYetError):
        frame(20)
    seen = kept()
    assert all(seen)
    assert {path: one.said() for path, one in tree.progress().items()} == {root: live()}
    instrument.write_frames(10)
    assert (frame(20), kept()) == (instrument.frames[2, 4].tobytes(), seen)
    assert live() == {"frames": 27, "of": 48, "complete": False}
    instrument.recording.begin_anew()
    instrument.write_frames(9)
    assert frame(3) == instrument.frames[0, 3].tobytes()
    assert kept()[0] != seen[0]
    assert kept()[1] != seen[1]
    with pytest.raises(vfs.NotYetError):
        frame(20)
    seen = kept()
    instrument.finish(live)
    assert (frame(47), kept()) == (instrument.frames[5, 7].tobytes(), seen)
    assert (live(), tree.progress()) == (None, {})

    # A set of which the newest file has only begun, and is no file of it until it is whole
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a_master.h5", "w") as master:
        master["entry/instrument/detector/detectorSpecific/nimages"] = np.uint32(2)
        master["entry/instrument/detector/detectorSpecific/ntrigger"] = np.uint32(1)
        for k in (1, 2):
            master[f"entry/data/data_{k:06}"] = h5py.ExternalLink(f"a_data_{k:06}.h5", "/entry/data/data")
            with h5py.File(tmp_path / f"a_data_{k:06}.h5", "w") as file:
                file["entry/data/data"] = np.full((1, 8, 8), k, "u2")
    whole, root = (tmp_path / "a_data_000002.h5").read_bytes(), "a_master.zarr"
    (tmp_path / "a_data_000002.h5").write_bytes(whole[:1000])
    first, second = f"{root}/entry/data/data/c/0/0/0", f"{root}/entry/data/data/c/1/0/0"
    assert bytes(tree.at(first).get() or b"")[:2] == b"\1\0"
    with pytest.raises(vfs.NotYetError):
        tree.at(second).get()
    (tmp_path / "a_data_000002.h5").write_bytes(whole)
    assert bytes(tree.at(second).get() or b"")[:2] == b"\2\0"


def test_nobody_keeps_what_is_shown_blank(instrument: Instrument, looks_each_time: None) -> None:
    """The server says no-store and has no ETag to hold; a mount of such sets has the kernel keep no pages."""
    instrument.write_frames(17)
    how = HOW | {"settle": 1e9, "follow_blank": True}
    shown = plan_sets([set_of(vfs.open_group(instrument.path, **how))], ChunkCache()).here()
    key = "scan.zarr/data/c/2/0/0/0"

    def get() -> tuple[list[bytes], bytes]:
        start, *rest = answered(application_of(shown), f"/{key}").sent
        assert start["status"] == 200
        said = [value for name, value in start["headers"] if name == b"cache-control"]
        return said, b"".join(part["body"] for part in rest)

    row = instrument.frames[2].copy()
    said, body = get()
    row[1:] = 0
    assert body == row.tobytes()
    assert said == [b"no-store"]
    assert shown.at(key).version() == b""
    instrument.write_frames(10)
    assert get()[1] == instrument.frames[2].tobytes()
    options, _ = split(MountOptions, {"follow": True, "follow_blank": True})
    assert MountHow.of(options, []).direct_io
    assert not MountHow.of(MountOptions(follow=True), []).direct_io


def test_a_set_that_is_gone_keeps_no_other_from_being_at_hand(
    tmp_path: Path, looks_each_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.raw").write_bytes(bytes(range(256)) * 8)
    how: dict[str, Any] = {"format": "raw", "stored_dtype": "u1", "sig_shape": (16, 16), "nav_shape": (9,)}
    sets = [set_of(vfs.open_group(tmp_path / f"{name}.raw", follow=True, **how)) for name in ("a", "b")]
    contents = plan_sets(sets, ChunkCache()).here()
    documents = [f"{name}.zarr/zarr.json" for name in ("a", "b")]
    assert all(contents.at(one).get() for one in documents)
    (tmp_path / "a.raw").unlink()
    monkeypatch.setattr(live_set.LOOKS, "least", 60.0)
    assert [*contents.progress()] == ["a.zarr", "b.zarr"]  # a look
    assert [contents.at_hand(one) is not None for one in documents] == [False, True]
    with pytest.raises(vfs.SourceChangedError, match=r"a\.raw: is gone"):
        contents.at(documents[0]).get()
    assert contents.at(documents[1]).version()
