"""Servers that break, lie or never come to an end: one clear line in bounded time and memory, or the right bytes."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.waiting import eventually
from vfs.errors import IncompleteWarning, SourceError, VfsError
from vfs.sources.remote import RemoteSources
from vfs.sources.threads import GRACE
from vfs.sources.transfers import PROGRESS, Limits
from vfs.testing.range_server import OtherReply, RangeServer, ServedRequest
from vfs.testing.stack_writers import write_mrc
from vfs.testing.writers import write_npy

pytest.importorskip("obstore")

FRAMES = np.arange(40 * 64 * 64, dtype="u2").reshape(40, 64, 64)
SIZE = FRAMES.nbytes + 128
SHORT = Limits(wait=0.5, connect=0.5, tries=3, seconds=2.0, pause=0.01)
"""Limits for tests, in which nothing may take long."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    write_npy(tmp_path, FRAMES, name="a.npy")
    with RangeServer(tmp_path) as made:
        yield made


def opened(server: RangeServer, limits: Limits = SHORT) -> vfs.VirtualArray:
    url = f"{server.url}/a.npy"
    return vfs.open(url, sources=RemoteSources.around([url], limits=limits))


def _part(one: ServedRequest, **more: str) -> dict[str, str]:
    """Return the headers of a right answer to a request for a range."""
    first, last = one.first or 0, min(one.last or SIZE, SIZE)
    return {"Content-Length": str(last - first), "Content-Range": f"bytes {first}-{last - 1}/{SIZE}", **more}


def _length(one: ServedRequest) -> int:
    return min(one.last or SIZE, SIZE) - (one.first or 0)


def _endless() -> Iterator[bytes]:
    while True:
        yield bytes(1 << 16)


def _headers() -> Iterator[bytes]:
    yield b"HTTP/1.1 206 Partial Content\r\n"
    while True:
        yield b"X-More: and more\r\n" * 1000


def _drops() -> Iterator[bytes]:
    while True:
        time.sleep(0.1)
        yield b"x"


def _never(_: ServedRequest) -> OtherReply:
    time.sleep(2 * GRACE)
    return OtherReply(500)


WRONG: dict[str, tuple[Callable[[ServedRequest], OtherReply], str, int]] = {
    "status 500": (lambda _: OtherReply(500, {"Content-Length": "0"}), "answers with status 500, asked 3 times", 3),
    "status 503": (lambda _: OtherReply(503, {"Content-Length": "2"}, [b"no"]), "status 503, asked 3 times", 3),
    "status 429": (
        lambda _: OtherReply(429, {"Content-Length": "0", "Retry-After": "0"}),
        "status 429, asked 3 times",
        3,
    ),
    "busy for long": (
        lambda _: OtherReply(503, {"Content-Length": "0", "Retry-After": "9"}),
        "with status 503( |$)",
        1,
    ),
    "status 403": (lambda _: OtherReply(403, {"Content-Length": "0"}), "does not allow it .status 403", 1),
    "status 418": (lambda _: OtherReply(418, {"Content-Length": "0"}), "answers with status 418", 1),
    "no ranges": (
        lambda _: OtherReply(200, {"Content-Length": str(SIZE)}, [bytes(SIZE)]),
        "does not serve ranges of bytes|with other bytes",
        1,
    ),
    "another range": (
        lambda one: OtherReply(206, _part(one, **{"Content-Range": f"bytes 7-{6 + _length(one)}/{SIZE}"})),
        "answers with other bytes than those asked for",
        1,
    ),
    "no range said": (lambda _: OtherReply(206, {"Content-Length": "9"}, [bytes(9)]), "answers with other bytes", 1),
    "more than said": (
        lambda one: OtherReply(206, _part(one, **{"Content-Length": str(1 << 40)}), _endless()),
        "sends more bytes than it was asked for, asked 3 times",
        3,
    ),
    "less than said": (
        lambda one: OtherReply(206, _part(one), [b"x"], closes=True),
        "connection broke, asked 3 times",
        3,
    ),
    "a smaller length": (
        lambda one: OtherReply(206, _part(one, **{"Content-Length": "9"}), [bytes(9)]),
        "ends its answer .* bytes too early, asked 3 times",
        3,
    ),
    "a byte too few": (
        lambda one: OtherReply(206, _part(one, **{"Content-Length": str(_length(one) - 1)}), [bytes(_length(one) - 1)]),
        "ends its answer 1 bytes too early, asked 3 times",
        3,
    ),
    "resets": (lambda one: OtherReply(206, _part(one), [b"x"], resets=True), "connection broke, asked 3 times", 3),
    "resets at once": (lambda _: OtherReply(0, resets=True), "connection broke", 3),
    "no HTTP": (lambda _: OtherReply(0, {}, [b"hello\r\n\r\n"], closes=True), "does not answer in HTTP", 1),
    "drops": (lambda one: OtherReply(206, _part(one), _drops()), "no answer in time, asked 3 times", 3),
    "half a head": (
        lambda _: OtherReply(0, {}, [b"HTTP/1.1 206 Partial Content\r\nContent-Length: 1"], closes=True),
        "connection broke, asked 3 times",
        3,
    ),
    "a head that drops": (lambda _: OtherReply(0, {}, _drops()), "no answer in time, asked 3 times", 3),
    "silence": (_never, "no answer in time, asked 3 times", 3),
    "an error that is longer than memory": (
        lambda _: OtherReply(418, {"Content-Length": str(1 << 40)}, _endless()),
        "answers with status 418",
        1,
    ),
    "an endless head": (lambda _: OtherReply(0, {}, _headers(), closes=True), "does not answer in HTTP", 1),
    "a packed answer": (
        lambda one: OtherReply(206, _part(one, **{"Content-Encoding": "gzip"}), [bytes(9)]),
        "compresses its answers",
        1,
    ),
    "a loop": (
        lambda one: OtherReply(302, {"Location": one.path, "Content-Length": "0"}),
        "redirects in a circle",
        1,
    ),
}


NO_HEAD = ("resets at once", "no HTTP", "an endless head", "half a head")


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("when", ["opening", "reading"])
def test_what_is_wrong_is_one_clear_line_in_bounded_time(server: RangeServer, name: str, when: str) -> None:
    hook, said, asked = WRONG[name]
    array = opened(server) if when == "reading" else None
    _ = array is not None and array[...]  # loads what decodes, which takes seconds
    server.asked.clear()
    server.hook = hook
    began = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(SourceError, match=f"/a.npy: bytes .* cannot be read: .*({said})") as caught:
            _ = opened(server) if array is None else array[...]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < 60  # SHORT.seconds, on a machine that has nothing else to do
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert most < 32 << 20
    if name != "a loop":
        # A connection that was kept, and broke before it answered, or answers what is no HTTP, is none that failed
        assert len(server.asked) - asked in (0, name in NO_HEAD and when == "reading")
    server.hook = None
    np.testing.assert_array_equal(opened(server, Limits())[...], FRAMES)


@pytest.mark.parametrize("name", [name for name, (_, _, asked) in WRONG.items() if asked == 3])
def test_what_passes_is_asked_for_again(server: RangeServer, name: str) -> None:
    """Each range goes wrong once."""
    seen: set[tuple[str, int | None, int | None]] = set()

    def hook(one: ServedRequest) -> OtherReply | None:
        key = one.method, one.first, one.last
        if key in seen or len(seen) > 3:
            return None
        seen.add(key)
        reply = WRONG[name][0](one)
        if "ETag" in tag:
            reply.headers["ETag"] = tag["ETag"]
        return reply

    found = os.stat(server.folder / "a.npy")
    tag = {"ETag": f'"{found.st_mtime_ns:x}-{found.st_size:x}"'}
    server.hook = hook
    np.testing.assert_array_equal(opened(server, replace(SHORT, tries=5))[...], FRAMES)
    assert len(seen) > 1


ODD: dict[str, Callable[[ServedRequest, dict[str, str], bytes], OtherReply]] = {
    "more behind": lambda _, headers, body: OtherReply(206, headers, [body, b"more" * 5000]),
    "little behind": lambda _, headers, body: OtherReply(206, headers, [body, b"\r\n"]),
    "continue": lambda _, headers, body: OtherReply(
        0,
        {},
        [
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 OK\r\n",
            *(f"{name}: {value}\r\n".encode() for name, value in headers.items()),
            b"\r\n" + body,
        ],
    ),
    "closes without a word": lambda _, headers, body: OtherReply(206, headers, [body], closes=True),
    "HEAD without a length": lambda one, headers, body: (
        OtherReply(200) if one.method == "HEAD" else OtherReply(206, headers, [body])
    ),
    "HEAD with another length": lambda _, headers, body: OtherReply(206, headers, [body]),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_and_can_be_read(server: RangeServer, name: str) -> None:
    """Requests go one after the other, over the connection of the one before where that stands."""
    data = (server.folder / "a.npy").read_bytes()

    def hook(one: ServedRequest) -> OtherReply:
        headers = _part(one, ETag='"x"')
        if one.method == "HEAD" and name == "continue":
            return OtherReply(200, headers | {"Content-Length": str(SIZE)})
        return ODD[name](one, headers, data[one.first or 0 : one.last])

    server.hook = hook
    array = opened(server)
    for k in range(0, len(FRAMES), 8):
        np.testing.assert_array_equal(array[k], FRAMES[k])
    url = f"{server.url}/a.npy"
    assert RemoteSources.around([url], limits=SHORT).transfers.state(url).size == SIZE


def test_a_server_says_when_to_come_again(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    array = opened(server, replace(SHORT, seconds=60.0))
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    busy = OtherReply(503, {"Content-Length": "0", "Retry-After": "17"})
    server.hook = lambda one: busy if one.number == len(server.asked) - 1 and 17 not in slept else None
    np.testing.assert_array_equal(array[3], FRAMES[3])
    assert 17 in slept


def test_a_long_answer_that_breaks_goes_on_where_it_broke(tmp_path: Path) -> None:
    """What came counts: any number of breaks is no failure while each request brings something."""
    numbers = np.arange(16 * PROGRESS, dtype="u1")
    np.save(tmp_path / "a.npy", numbers)
    with RangeServer(tmp_path) as server:
        array = vfs.open(f"{server.url}/a.npy", sources=RemoteSources.around([f"{server.url}/a.npy"], limits=SHORT))
        data = (tmp_path / "a.npy").read_bytes()
        found = os.stat(tmp_path / "a.npy")

        def hook(one: ServedRequest) -> OtherReply:
            first, last = one.first or 0, one.last or len(data)
            headers = {"Content-Length": str(last - first), "Content-Range": f"bytes {first}-{last - 1}/{len(data)}"}
            headers["ETag"] = f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
            return OtherReply(206, headers, [data[first : min(last, first + 2 * PROGRESS)]], closes=True)

        server.asked.clear()
        server.hook = hook
        np.testing.assert_array_equal(array[...], numbers)
        assert len(server.asked) > SHORT.tries


def test_nobody_listens(tmp_path: Path) -> None:
    with RangeServer(tmp_path) as server:
        url = f"{server.url}/a.npy"
    with pytest.raises(VfsError, match=r"a.npy: .*cannot connect to the server, asked 3 times"):
        vfs.open(url, sources=RemoteSources.around([url], limits=SHORT))


def test_a_server_that_leads_to_another_one(server: RangeServer, tmp_path: Path) -> None:
    """It is followed where files may be anywhere, and on its own host; logins go to the server that was named."""
    with RangeServer(tmp_path) as other:
        for to, said in ((other, "http://127.0.0.1"), (None, "file://")):
            where = "file:///etc/passwd" if to is None else f"{other.url}/a.npy"
            server.hook = lambda one, where=where: OtherReply(302, {"Location": where, "Content-Length": "0"})  # type: ignore[misc]
            with pytest.raises(vfs.OutsideError, match=f"/a.npy: the server leads to another one, {said}"):
                opened(server)
        assert not other.asked
        server.hook = lambda one: OtherReply(302, {"Location": f"{other.url}/a.npy", "Content-Length": "0"})
        np.testing.assert_array_equal(vfs.open(f"{server.url}/a.npy", follow_outside=True)[...], FRAMES)
    server.hook = lambda one: (
        None if one.path == "/a.npy" else OtherReply(307, {"Location": "../a.npy", "Content-Length": "0"})
    )
    np.testing.assert_array_equal(vfs.open(f"{server.url}/x/b.npy")[...], FRAMES)


BOMB = b"<!DOCTYPE r [<!ENTITY a 'aaaaaaaaaa'>" + b"".join(
    b"<!ENTITY %c '%s'>" % (b, b"&%c;" % (b - 1) * 10) for b in range(ord("b"), ord("k"))
)


@pytest.mark.parametrize(
    ("name", "kind", "make", "said"),
    [
        ("a.mrc.gz", "mrc", lambda mrc: gzip.compress(mrc + bytes(96 << 20), 1), "the bytes after them are not shown"),
        ("a.companion.ome", "ome_tiff", lambda _: BOMB + b"]><OME>&j;</OME>", "entities"),
        ("a.xml", "empad", lambda _: BOMB + b"]><root>&j;</root>", "entities"),
    ],
    ids=["gzip", "OME-XML", "XML"],
)
def test_bombs_on_a_server(tmp_path: Path, name: str, kind: str, make: Callable[[bytes], bytes], said: str) -> None:
    mrc = write_mrc(tmp_path, FRAMES[:2], 6, name="a.mrc").read_bytes()
    (tmp_path / name).write_bytes(make(mrc))
    with RangeServer(tmp_path) as server:
        tracemalloc.start()
        try:
            with pytest.raises((VfsError, IncompleteWarning), match=f"/{name}: .*{said}") as caught:
                vfs.open(f"{server.url}/{name}", format=kind)
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (lambda: OtherReply(200, {"Content-Type": "text/html"}, _endless()), "the list of its files is longer than"),
        (lambda: OtherReply(200, {"Content-Length": "9999"}, _drops()), "cannot be listed: no answer in time, asked 3"),
        (lambda: OtherReply(503, {"Content-Length": "0"}), "cannot be listed: .* status 503, asked 3 times"),
        (lambda: OtherReply(200, {"Content-Length": "99"}, [b"x"], closes=True), "the connection broke, asked 3 times"),
    ],
    ids=["endless", "drops", "busy", "breaks"],
)
def test_a_page_of_links_that_never_ends(server: RangeServer, reply: Callable[[], OtherReply], said: str) -> None:
    server.hook = lambda _: reply()
    with (
        RemoteSources.around([f"{server.url}/x"], limits=SHORT) as sources,
        pytest.raises(SourceError, match=said),
    ):
        sources.names(server.url)


@pytest.fixture
def bucket(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> RangeServer:
    """The server as one that has buckets."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {"SKIP_SIGNATURE": "true", "ALLOW_HTTP": "true", "ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return server


def _page(number: int, more: bool) -> OtherReply:
    """Return a page of the list of a bucket."""
    keys = "".join(
        f"<Contents><Key>set/{number}-{k}</Key><LastModified>2001-09-09T01:46:40.000Z</LastModified><Size>1</Size>"
        "</Contents>"
        for k in range(3)
    )
    token = f"<NextContinuationToken>{number}</NextContinuationToken>" if more else ""
    said = str(more).lower()
    text = f"<ListBucketResult><IsTruncated>{said}</IsTruncated>{token}{keys}</ListBucketResult>".encode()
    return OtherReply(200, {"Content-Type": "application/xml", "Content-Length": str(len(text))}, [text])


def test_a_list_of_a_bucket_that_never_ends(bucket: RangeServer) -> None:
    bucket.hook = lambda one: _page(one.number, True)
    limits = replace(SHORT, seconds=0.5)
    with (
        RemoteSources.around(["s3://bucket/set/x"], limits=limits) as sources,
        pytest.raises(SourceError, match=r"s3://bucket/set: cannot be listed: the list has no end within 0.5 seconds"),
    ):
        sources.names("s3://bucket/set")
    time.sleep(0.1)
    asked = len(bucket.asked)
    time.sleep(0.2)
    assert len(bucket.asked) == asked > 2


def test_a_list_of_a_bucket_that_fills_the_memory(bucket: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfs.sources.listings.MAX_LIST", -1 << 60)
    bucket.hook = lambda one: _page(one.number, True)
    with (
        RemoteSources.around(["s3://bucket/set/x"], limits=SHORT) as sources,
        pytest.raises(SourceError, match=r"s3://bucket/set: cannot be listed: the list takes more than .* of memory"),
    ):
        sources.names("s3://bucket/set")


def test_a_list_of_a_bucket_is_asked_for_again(bucket: RangeServer) -> None:
    """In pages, of which the server fails at one."""
    bucket.hook = lambda one: (
        OtherReply(503, {"Content-Length": "0"}) if one.number == 1 else _page(one.number, one.number < 4)
    )
    with RemoteSources.around(["s3://bucket/set/x"], limits=SHORT) as sources:
        assert sorted(sources.names("s3://bucket/set")) == [f"{n}-{k}" for n in (2, 3, 4) for k in range(3)]
    bucket.hook = lambda _: OtherReply(503, {"Content-Length": "0"})
    with (
        RemoteSources.around(["s3://bucket/set/x"], limits=SHORT) as sources,
        pytest.raises(SourceError, match=r"s3://bucket/set: cannot be listed: .*status 503, asked 3 times"),
    ):
        sources.names("s3://bucket/set")


@pytest.mark.parametrize("answered", [0, 1], ids=["opening", "reading"])
def test_ctrl_c_does_not_wait_for_a_server(server: RangeServer, answered: int) -> None:
    server.hook = lambda one: time.sleep(60) if one.number >= answered else None  # type: ignore[func-returns-value]
    code = f"import vfs\nprint('asks', flush=True)\nvfs.open('{server.url}/a.npy')[...]"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        assert eventually(lambda: len(server.asked) > answered)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.stderr.readline() + process.stderr.read(1 << 16)
        assert time.monotonic() - began < 40  # the server answers after 60
