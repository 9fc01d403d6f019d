"""Sets on a web server, through a range server of one's own: what is asked for, boundaries, other processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import vfs
from vfs.errors import DependencyError, MissingSourceError, OptionError, OutsideError, SourceChangedError, SourceError
from vfs.model.file_state import FileState
from vfs.page.computing import Asked, Computation, following
from vfs.page.records import head_of
from vfs.reduce.bright_field import central_disk
from vfs.sources.remote import FIRST_BLOCK, HEAD, LAST_BLOCK, RemoteSources
from vfs.sources.transfers import Limits
from vfs.sources.urls import given, place, plain, quoted
from vfs.testing.inside import reader_of, set_of
from vfs.testing.range_server import OtherReply, RangeServer, ServedRequest
from vfs.testing.writers import write_mib, write_npy

pytest.importorskip("obstore")

FRAMES = np.arange(6 * 8 * 8, dtype="u2").reshape(6, 8, 8)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    (tmp_path / "sub").mkdir()
    write_mib(tmp_path / "sub", FRAMES, frames_per_file=2, scan=(2, 3))
    write_npy(tmp_path, FRAMES, name="a.npy")
    with RangeServer(tmp_path) as made:
        yield made


def shown(*names: str, **options: Any) -> np.ndarray:
    return np.asarray(vfs.open(list(names), **options)[...]).reshape(FRAMES.shape)


# names


def test_urls_are_taken_as_people_write_them() -> None:
    assert given("HTTP://h:80/a%20b%C3%A4.npy") == "http://h:80/a bä.npy"
    assert given("s3://bucket/a%20b") == "s3://bucket/a%20b"
    assert given("/a%20b") == "/a%20b"
    assert given("memory://set/a%20b") == "memory://set/a%20b"
    assert quoted("http://h/a bä.npy") == "http://h/a%20b%C3%A4.npy"
    assert place("s3://bucket/a/b") == ("s3://bucket", "a/b")
    assert plain("http://h/a/./b/../c") == "http://h/a/c"
    assert plain("http://h/../c").startswith("http://h/../")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://me:secret@h/x", "netrc"),
        ("https://secret@h/x", "netrc"),
        ("http://h/x#secret", "expected the plain URL"),
    ],
)
def test_urls_with_credentials_are_refused_without_saying_them(url: str, said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        vfs.open(url)
    assert "secret" not in str(caught.value)


def test_names_that_are_no_file_of_a_store(server: RangeServer) -> None:
    with pytest.raises(OptionError, match=r"ftp://h: expected a URL that begins with one of http, https, s3"):
        vfs.open("ftp://h/x.npy")
    for name in (f"{server.url}/sub/", server.url, f"{server.url}/"):
        with pytest.raises(SourceError, match="expected the URL of a file, found that of a folder"):
            vfs.open(name)


def test_names_with_anything_in_them(tmp_path: Path) -> None:
    folder = tmp_path / "a b%41+ä#"
    folder.mkdir()
    for k in range(2):
        write_npy(folder, FRAMES[k], name=f"f {k} 100%.npy")
    with RangeServer(tmp_path) as server:
        top = f"{server.url}/a b%2541+ä%23"  # as it has to be typed: what looks quoted must be quoted
        np.testing.assert_array_equal(vfs.open(f"{top}/*.npy")[...], FRAMES[:2])
        array = vfs.open(f"{top}/f 1 100%25.npy")
    assert array.files == (f"{server.url}/a b%41+ä#/f 1 100%.npy",)


# what is asked for


def test_opening_a_file_is_one_request_and_reading_it_another(server: RangeServer) -> None:
    array = vfs.open(f"{server.url}/a.npy")
    assert [(one.method, one.first, one.last) for one in server.asked] == [("GET", 0, FIRST_BLOCK)]
    np.testing.assert_array_equal(array[...], FRAMES)
    np.testing.assert_array_equal(array[2], FRAMES[2])
    assert [(one.method, one.first, one.last) for one in server.asked[1:]] == [("GET", 128, 896), ("GET", 384, 512)]


def test_a_scan_of_many_files_asks_for_all_at_the_same_time(tmp_path: Path) -> None:
    frames = np.arange(64 * 8 * 8, dtype="u2").reshape(64, 8, 8)
    write_mib(tmp_path, frames, frames_per_file=2, scan=(8, 8))
    with RangeServer(tmp_path, latency=0.05) as server:
        array = vfs.open(f"{server.url}/scan.hdr")
        assert len(server.asked) == 2 + 32
        assert server.sent < 32 * HEAD + 20_000
        assert server.most_at_once > 8
        server.asked.clear()
        server.most_at_once = 0
        with pytest.raises(OptionError, match=r"requests=129: expected a number from 1 to 128"):
            vfs.open(f"{server.url}/scan.hdr", requests=129)
        array = vfs.open(f"{server.url}/scan.hdr", requests=3)
        assert server.most_at_once == 3
        before = len(server.asked)
        np.testing.assert_array_equal(np.asarray(array[...]).reshape(frames.shape), frames)
        assert len(server.asked) == before + 32 + 29  # the last headers of files at which nobody had looked
        array[...]
        assert len(server.asked) == before + 2 * 32 + 29
    assert set_of(array.group).opening.sources.transfers.counts.requests == before + 2 * 32 + 29


def test_last_headers_are_asked_for_at_the_same_time(tmp_path: Path) -> None:
    """Of few files all, of many those of some."""
    frames = np.zeros((64, 64, 64), "u2")
    for each, files, last in ((8, 8, 8), (2, 32, 3)):
        (tmp_path / f"{files}").mkdir()
        write_mib(tmp_path / f"{files}", frames, frames_per_file=each, scan=(8, 8))
        with RangeServer(tmp_path / f"{files}", latency=0.05) as server:
            vfs.open(f"{server.url}/scan.hdr")
            assert server.most_at_once >= files // 4
            assert len(server.asked) == 2 + files + last
            assert server.sent < 2 * files * HEAD + 20_000


def test_headers_are_read_in_blocks_that_double(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 40_000)
    with RangeServer(tmp_path) as server:
        name = f"{server.url}/x.bin"
        with RemoteSources.around([name]) as sources:
            for at in range(0, 9_000_000, 1000):
                assert sources.read(name, at, 100)[:2] == bytes([at % 256, (at + 1) % 256])
            assert sources.state(name).size == 10_240_000
            asked = len(server.asked)
            assert sources.read(name, 9_000_000 - 500, 100)
            assert sources.read(name, 10_239_990, 100) == (bytes(range(256)) * 2)[-10:]
            assert sources.read(name, 1 << 40, 100) == b""
            assert sources.read(name, -5, 100) == b""
        sizes = [one.last - one.first for one in server.asked if one.last is not None and one.first is not None]
        assert sizes[:6] == [FIRST_BLOCK, FIRST_BLOCK * 2, FIRST_BLOCK * 4, FIRST_BLOCK * 8, LAST_BLOCK, LAST_BLOCK]
        assert asked < 16
        assert len(server.asked) <= asked + 1


def test_ranges_that_lie_close_are_one_request(tmp_path: Path) -> None:
    frames = np.arange(64 * 64 * 512, dtype="u4").reshape(64, 64, 512)  # 128 KiB each
    np.save(tmp_path / "a.npy", frames)
    with RangeServer(tmp_path, latency=0.05) as server:
        array = vfs.open(f"{server.url}/a.npy", dtype="f4")
        server.asked.clear()
        np.testing.assert_array_equal(array[:, 3], frames[:, 3].astype("f4"))  # 2 KiB of every 128
        assert len(server.asked) == 64
        assert server.sent < 64 * 4096
        assert server.most_at_once > 8
        server.asked.clear()
        np.testing.assert_array_equal(array[0, ::2], frames[0, ::2].astype("f4"))
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("roi", "requests"),
    [([1, 2, 3, 7, 40], 3), ([40, 7, 3, 2, 1], 3), ([5, 5, 6], 1), ([*range(0, 64, 2)], 32)],
    ids=["runs", "backwards", "twice", "apart"],
)
def test_selected_frames_come_to_where_they_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roi: list[int], requests: int
) -> None:
    frames = np.random.default_rng(0).integers(0, 1 << 16, (64, 128, 512)).astype("u2")
    np.save(tmp_path / "a.npy", frames)
    if len(set(roi)) == len(roi):  # straight from the socket: nothing is read aside, to be copied
        monkeypatch.delattr("vfs.backends.remote._Scattered.__call__")
    with RangeServer(tmp_path, rate=1e9) as server:  # it sends in pieces
        array = vfs.open(f"{server.url}/a.npy", roi=roi)
        server.asked.clear()
        np.testing.assert_array_equal(array[...], frames[roi])
        assert len(server.asked) == requests


def test_what_is_decoded_comes_in_batches_one_ahead(tmp_path: Path) -> None:
    frames = np.arange(64 * 64 * 64, dtype=">u2").reshape(64, 64, 64)
    np.save(tmp_path / "a.npy", frames)
    with (
        RangeServer(tmp_path) as server,
        mock.patch("vfs.engine.stored_reader.TOGETHER", 100_000),
        mock.patch("vfs.backends.remote.RemoteBackend.window", 40_000),
    ):
        array = vfs.open(f"{server.url}/a.npy")
        np.testing.assert_array_equal(array[...], frames)
        asked = len(server.asked)
        assert asked > 10
        server.hook = lambda one: OtherReply(403, {"Content-Length": "0"}) if len(server.asked) > asked + 6 else None
        with pytest.raises(SourceError, match=r"status 403.*\[reading"):
            array[...]
        server.hook = None
        np.testing.assert_array_equal(array[...], frames)


def test_a_first_picture_asks_for_many_frames_at_once(tmp_path: Path) -> None:
    """The page's: the disk in five frames, then every 16th row and column of a scan; then rows that follow."""
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", "<u2", (128, 128, 64, 64))
    with RangeServer(tmp_path, latency=0.2) as server:
        array = reader_of(vfs.open(f"{server.url}/a.npy"))
        server.asked.clear()
        central_disk(array, ())
        assert (len(server.asked), server.most_at_once) == (5, 5)
        server.asked.clear()
        server.most_at_once = 0
        with mock.patch("vfs.page.computing.FIRST", 64 * 8192):
            steps = Computation(array, Asked({"x": "disk(8, 32, 4)"}, None, ()), array.cache).steps()
            made = following(steps, None).make()
            assert head_of(made)["step"] == 16
            assert (len(server.asked), server.sent) == (64, 64 * 7 * 128)  # of each frame the rows that the disk has
            assert server.most_at_once > 8
            assert head_of(following(steps, made).make())["step"] == 8
        server.most_at_once = 0
        steps = Computation(array, Asked({"x": "disk(8, 32, 4)"}, None, (), coarse=False), array.cache).steps()
        assert head_of(following(steps, None).make())["exact"]
        assert server.most_at_once > 1


def test_an_empty_file_and_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty.mib").touch()
    with RangeServer(tmp_path) as server:
        with RemoteSources.around([f"{server.url}/x"]) as sources:
            assert sources.read(f"{server.url}/empty.mib", 0, 100) == b""
            assert sources.state(f"{server.url}/empty.mib").size == 0
            assert sources.stream(f"{server.url}/empty.mib").read() == b""
        with pytest.raises(vfs.VfsError, match=r"empty.mib"):
            vfs.open(f"{server.url}/empty.mib")
        with pytest.raises(MissingSourceError, match=r"/gone.npy: no such file"):
            vfs.open(f"{server.url}/gone.npy")
        with pytest.raises(MissingSourceError, match=r"/gone.npy: no such file"):
            vfs.open([f"{server.url}/{name}.npy" for name in ("gone", "gone too")])


# folders


def test_globs_of_what_a_server_lists(server: RangeServer) -> None:
    np.testing.assert_array_equal(shown(f"{server.url}/sub/*[0-9].mib"), FRAMES)
    np.testing.assert_array_equal(shown(f"{server.url}/**/*.hdr"), FRAMES)
    with pytest.raises(MissingSourceError, match=r"/\*.ser: no file matches"):
        vfs.open(f"{server.url}/*.ser")


def test_a_server_that_lists_nothing(tmp_path: Path) -> None:
    write_mib(tmp_path, FRAMES, frames_per_file=2, scan=(2, 3))
    with RangeServer(tmp_path, lists=False) as server:
        with pytest.raises(SourceError, match=r"does not list what is in it.*name every file of the set"):
            vfs.open(f"{server.url}/scan.hdr")
        names = [f"{server.url}/{path.name}" for path in sorted(tmp_path.iterdir())]
        np.testing.assert_array_equal(shown(*names), FRAMES)


def test_a_list_of_links_leads_nowhere_else(server: RangeServer) -> None:
    links = [
        "a.npy",
        "?C=N",
        "/etc/passwd",
        "http://other/b.npy",
        "../c.npy",
        "d/e.npy",
        "f/",
        "#x",
        "http://[",
        "a.npy",
    ]
    page = "".join(f'<a href="{link}">x</a>' for link in links).encode()
    server.hook = lambda _: OtherReply(200, {"Content-Length": str(len(page))}, [page])
    with RemoteSources.around([f"{server.url}/x"]) as sources:
        assert list(sources.names(f"{server.url}/sub")) == ["a.npy", "f"]
        with pytest.raises(SourceError, match="found a file"):
            sources.names(f"{server.url}/sub/a.npy")
    server.hook = lambda _: OtherReply(302, {"Location": "http://127.0.0.1:1/", "Content-Length": "0"})
    with (
        RemoteSources.around([f"{server.url}/x"]) as sources,
        pytest.raises(SourceError, match="leads to another one"),
    ):
        sources.names(server.url)


# what a set may consist of


def _described(server: RangeServer, tmp_path: Path, *files: str) -> str:
    document = {"vfs": 1, "format": "npy", "files": list(files)}
    (tmp_path / "x.vfs.json").write_text(json.dumps(document))
    return f"{server.url}/x.vfs.json"


@pytest.mark.parametrize("other", ["../up.npy", "http://127.0.0.1:1/a.npy", "/etc/passwd", "HERE"])
def test_a_description_on_a_server_names_what_is_beside_it(server: RangeServer, tmp_path: Path, other: str) -> None:
    np.testing.assert_array_equal(vfs.open(_described(server, tmp_path, "a.npy"))[...], FRAMES)
    here = str(tmp_path / "a.npy") if other == "HERE" else other
    with pytest.raises(OutsideError, match=r"leaves the folder of the description.*follow_outside=True"):
        vfs.open(_described(server, tmp_path, here))
    if other == "HERE":
        np.testing.assert_array_equal(vfs.open(f"{server.url}/x.vfs.json", follow_outside=True)[...], FRAMES)


def test_a_description_here_names_no_url(server: RangeServer, tmp_path: Path) -> None:
    _described(server, tmp_path, f"{server.url}/a.npy")
    with pytest.raises(OutsideError, match="leaves the folder of the description"):
        vfs.open(tmp_path / "x.vfs.json")
    with pytest.raises(OutsideError, match="is on a server, where files of this machine lead to none"):
        vfs.open(tmp_path / "x.vfs.json", follow_outside=True)
    assert not server.asked


def test_sources_refuse_names_outside(server: RangeServer) -> None:
    with RemoteSources.around([f"{server.url}/sub/scan.hdr"]) as sources:
        for name in (f"{server.url}/a.npy", f"{server.url}/sub/../a.npy", "http://127.0.0.1:1/sub/x", "s3://b/x"):
            for ask in (sources.state, sources.stream, lambda name: sources.read(name, 0, 10)):
                with pytest.raises(OutsideError, match="follow_outside"):
                    ask(name)
        for name in ("/etc/passwd", "/"):
            with pytest.raises(OutsideError):
                sources.join(f"{server.url}/sub", name)
            with pytest.raises(SourceError):
                sources.read(name, 0, 10)
        assert sources.join(f"{server.url}/sub", "b/../c") == f"{server.url}/sub/c"
    assert all("a.npy" not in one.path for one in server.asked)


def test_files_of_this_machine_beside_urls(server: RangeServer, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    np.save(here / "roi.npy", np.array([0, 4]))
    np.save(here / "dark.npy", np.ones((8, 8), "u2"))
    array = vfs.open(f"{server.url}/sub/scan.hdr", roi=str(here / "roi.npy"), dark=str(here / "dark.npy"), dtype="f4")
    np.testing.assert_array_equal(array[...], FRAMES[[0, 4]].astype("f4") - 1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], FRAMES[[0, 4]].astype("f4") - 1)
    local = vfs.open(tmp_path / "sub/scan.hdr", roi=f"{server.url}/here/roi.npy")
    np.testing.assert_array_equal(local[...], FRAMES[[0, 4]])


# objects that change


def test_a_file_that_is_replaced_is_an_error(server: RangeServer, tmp_path: Path) -> None:
    array = vfs.open(f"{server.url}/a.npy")
    np.save(tmp_path / "b.npy", FRAMES + 1)
    os.replace(tmp_path / "b.npy", tmp_path / "a.npy")
    with pytest.raises(SourceChangedError, match=r"a.npy: was changed after it was opened \(its tag was .*\[reading"):
        array[...]
    with pytest.raises(SourceChangedError):
        pickle.loads(pickle.dumps(array))[...]
    np.testing.assert_array_equal(vfs.open(f"{server.url}/a.npy")[...], FRAMES + 1)
    allowed = vfs.open(f"{server.url}/a.npy", accept_changes=True)
    np.save(tmp_path / "a.npy", FRAMES)
    np.testing.assert_array_equal(allowed[...], FRAMES)


def test_without_tags_size_and_time_tell(tmp_path: Path) -> None:
    write_npy(tmp_path, FRAMES, name="a.npy")
    os.utime(tmp_path / "a.npy", (10**9, 10**9))
    with RangeServer(tmp_path, tags=False) as server:
        array = vfs.open(f"{server.url}/a.npy")
        assert set_of(array.group).opening.sources.state(f"{server.url}/a.npy") == FileState(896, 10**18)
        np.testing.assert_array_equal(array[...], FRAMES)
        os.utime(tmp_path / "a.npy", (10**9 + 1, 10**9 + 1))
        with pytest.raises(SourceChangedError, match=r"was written on 2001-09-09 01:46:40 UTC, now on .*41 UTC"):
            array[...]


def test_a_file_that_is_replaced_between_two_tries(server: RangeServer) -> None:
    sources = RemoteSources.around([f"{server.url}/a.npy"], limits=Limits(pause=0.01))
    array = vfs.open(f"{server.url}/a.npy", sources=sources)
    tags = iter(['"one"', '"two"', '"three"'])

    def hook(request: ServedRequest) -> OtherReply:
        first, last = request.first or 0, min(896, request.last or 0)
        headers = {"Content-Range": f"bytes {first}-{last - 1}/896", "ETag": next(tags)}
        return OtherReply(206, {"Content-Length": str(last - first), **headers}, [bytes(100)], closes=True)

    server.hook = hook
    with pytest.raises(SourceChangedError, match=r"a.npy: was replaced while it was read .*\[reading"):
        array[...]


def test_many_readers_share_connections(server: RangeServer) -> None:
    array = vfs.open(f"{server.url}/a.npy")

    def read(k: int) -> bool:
        return all(np.array_equal(array[(k + n) % 6], FRAMES[(k + n) % 6]) for n in range(6))

    for _ in range(2):  # other threads, and no other connections
        with ThreadPoolExecutor(64) as pool:
            assert all(pool.map(read, range(64)))
        assert server.connected <= 64


def test_many_readers_take_little_memory(tmp_path: Path) -> None:
    """Each has the bytes that it asked for once, in its array, and what was decoded of them."""
    frames = np.arange(64 * 256 * 256, dtype=">u2").reshape(64, 256, 256)  # 128 KiB each
    write_npy(tmp_path, frames, name="a.npy")
    with RangeServer(tmp_path) as server, ThreadPoolExecutor(64) as pool:
        array = vfs.open(f"{server.url}/a.npy")
        array[0]
        tracemalloc.start()
        try:
            assert all(pool.map(lambda k: np.array_equal(array[k % 64], frames[k % 64]), range(256)))
            assert tracemalloc.get_traced_memory()[1] < 64 * 4 * frames[0].nbytes
        finally:
            tracemalloc.stop()
        assert server.most_at_once <= 64


# other processes


def test_settings_and_credentials_are_not_pickled(server: RangeServer) -> None:
    config = {"client_options": {"default_headers": {"Authorization": "Bearer secret"}}}
    sources = RemoteSources.around([f"{server.url}/a.npy"], config=config)
    array = vfs.open(f"{server.url}/a.npy", sources=sources)
    np.testing.assert_array_equal(array[...], FRAMES)
    assert all(one.headers["authorization"] == "Bearer secret" for one in server.asked)
    packed = pickle.dumps(array)
    assert b"secret" not in packed
    assert "secret" not in repr(array.attrs) + repr(set_of(array.group).opening)
    np.testing.assert_array_equal(pickle.loads(packed)[...], FRAMES)
    assert "authorization" not in server.asked[-1].headers


def test_logins_come_from_netrc(server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server.hook = lambda one: None if "authorization" in one.headers else OtherReply(401, {"Content-Length": "0"})
    array = vfs.open(f"{server.url}/sub/scan.hdr")
    np.testing.assert_array_equal(array[...].reshape(FRAMES.shape), FRAMES)
    netrc.write_text("machine 127.0.0.1 login me password changed\n")
    array[...]
    assert len({one.headers["authorization"] for one in server.asked}) == 2
    monkeypatch.delenv("NETRC")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    with pytest.raises(SourceError, match=r"scan.hdr: .*does not allow it \(status 401\); are credentials missing\?"):
        vfs.open(f"{server.url}/sub/scan.hdr")


def test_proxies_of_the_environment_are_asked(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def hook(one: ServedRequest) -> OtherReply | None:
        if one.method == "CONNECT":
            return OtherReply(403, {"Content-Length": "0"})
        one.path = one.path.removeprefix("http://far.invalid")
        return None

    server.hook = hook
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", server.url.replace("//", "//me:secret@"))
    np.testing.assert_array_equal(vfs.open("http://far.invalid/a.npy")[...], FRAMES)
    assert server.asked[0].headers["host"] == "far.invalid"
    assert server.asked[0].headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"
    url = "https://far.invalid/a.npy"
    with pytest.raises(SourceError, match=r"the proxy does not lead there \(status 403\)") as caught:
        vfs.open(url, sources=RemoteSources.around([url], limits=Limits(tries=1)))
    assert "secret" not in str(caught.value)
    assert server.asked[-1].path == "far.invalid:443"


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [("http://[::1]/a.npy", "::1", 80), ("https://[::1]/a.npy", "::1", 443), ("http://[::1]:81/a*.npy", "::1", 81)],
)
def test_hosts_are_addresses_of_ipv6(url: str, host: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def refuse(host: str, port: int, until: float) -> None:
        asked.append((host, port))
        raise ConnectionRefusedError

    monkeypatch.setattr("vfs.sources.web_connection._connected", refuse)
    with pytest.raises(SourceError, match=r"cannot connect|no file matches"):
        vfs.open(url, sources=RemoteSources.around([url], limits=Limits(tries=1)))
    assert set(asked) == {(host, port)}


def _total(array: vfs.VirtualArray) -> int:
    return int(np.asarray(array[...]).sum())


def test_spawned_processes_read(server: RangeServer) -> None:
    array = vfs.open(f"{server.url}/sub/scan.hdr")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_total, (array,)) == FRAMES.sum()


def test_without_obstore_one_line_says_what_to_install() -> None:
    with (
        mock.patch.dict(sys.modules, {"obstore": None, "obstore.store": None}),
        mock.patch("vfs.sources.library._loaded", None),
        pytest.raises(DependencyError, match=r"s3://h: .* pip install 'vfs\[remote\]'"),
    ):
        vfs.open("s3://h/x.npy")


def test_obstore_is_loaded_only_for_urls(tmp_path: Path) -> None:
    write_npy(tmp_path, FRAMES, name="a.npy")
    code = "import sys, vfs; vfs.open(sys.argv[1])[...]; print('obstore' in sys.modules, 'netrc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.npy"], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
