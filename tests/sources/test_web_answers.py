"""Web servers as they are: answers to ranges in their own ways, URLs with a query, lists in any quoting."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.cli.support import run
from tests.waiting import PATIENCE
from vfs.errors import IncompleteWarning, OptionError, SourceChangedError, SourceError
from vfs.model.file_state import FileState
from vfs.sources.disk_cache import DiskCache
from vfs.sources.remote import RemoteSources
from vfs.sources.transfers import ANSWERS, WantedBytes
from vfs.sources.urls import Queries, shown, without_query
from vfs.testing.range_server import OtherReply, RangeServer, ServedRequest
from vfs.testing.writers import write_npy

FRAMES = np.arange(40 * 64 * 64, dtype="u2").reshape(40, 64, 64)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    (tmp_path / "served").mkdir()
    write_npy(tmp_path / "served", FRAMES, name="a.npy")
    with RangeServer(tmp_path / "served") as made:
        yield made


Answer = Callable[[ServedRequest, bytes], OtherReply]


def _part(data: bytes, first: int, last: int, **more: str) -> OtherReply:
    """Answer with bytes of a file: `more` replaces headers, None leaves one out."""
    last = min(last, len(data))
    said = {
        "Content-Range": f"bytes {first}-{last - 1}/{len(data)}",
        "ETag": '"a"',
        "Content-Length": str(last - first),
    } | {name.replace("_", "-"): value for name, value in more.items()}
    return OtherReply(206, {name: value for name, value in said.items() if value}, [data[first:last]])


def _right(one: ServedRequest, data: bytes, **more: str) -> OtherReply:
    if one.method == "HEAD":
        return OtherReply(200, {"Content-Length": str(len(data)), "ETag": '"a"'})
    return _part(data, one.first or 0, one.last or len(data), **more)


def _in_pieces(one: ServedRequest, data: bytes) -> OtherReply:
    reply = _right(one, data, Content_Length="", Transfer_Encoding="chunked")
    body = b"".join(reply.body)
    pieces = [body[k : k + 5000] for k in range(0, len(body), 5000)]
    reply.body = [*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]
    return reply


def _until_the_end(one: ServedRequest, data: bytes) -> OtherReply:
    reply = _right(one, data, Content_Length="")
    reply.closes = True
    return reply


def _star(one: ServedRequest, data: bytes) -> OtherReply:
    last = min(one.last or len(data), len(data))
    return _right(one, data, Content_Range=f"bytes {one.first}-{last - 1}/*")


def _bytes(one: ServedRequest, data: bytes) -> OtherReply:
    last = min(one.last or len(data), len(data))
    return _right(one, data, Content_Range=f"Bytes {one.first}-{last - 1}/{len(data)}")


def _half(one: ServedRequest, data: bytes) -> OtherReply:
    first, last = one.first or 0, min(one.last or len(data), len(data))
    return _part(data, first, first + max(1, (last - first) // 2))


def _whole(one: ServedRequest, data: bytes) -> OtherReply:
    """Answers with 200 where the range is all of the file, or ends behind it."""
    if one.first == 0 and (one.last or 0) >= len(data):
        return OtherReply(200, {"Content-Length": str(len(data)), "ETag": '"a"'}, [data])
    return _right(one, data)


def _not_behind(one: ServedRequest, data: bytes) -> OtherReply:
    if (one.last or 0) > len(data):
        return OtherReply(416, {"Content-Length": "0", "Content-Range": f"bytes */{len(data)}"})
    return _right(one, data)


def _no_head(one: ServedRequest, data: bytes) -> OtherReply:
    return OtherReply(403, {"Content-Length": "9"}) if one.method == "HEAD" else _right(one, data)


def _packed_head(one: ServedRequest, data: bytes) -> OtherReply:
    if one.method != "HEAD":
        return _right(one, data)
    length = str(len(gzip.compress(data)))
    return OtherReply(200, {"Content-Length": length, "ETag": 'W/"a-gzip"', "Content-Encoding": "gzip"})


READABLE: dict[str, Answer] = {
    "pieces": _in_pieces,
    "until the connection ends": _until_the_end,
    "length of the file not said": _star,
    "Bytes": _bytes,
    "half of what was asked for": _half,
    "200 with the whole file": _whole,
    "416 behind the end": _not_behind,
    "HEAD refused": _no_head,
    "HEAD of a packed file": _packed_head,
}


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("frames", [2, 40])
def test_what_web_servers_answer_is_read(server: RangeServer, tmp_path: Path, name: str, frames: int) -> None:
    """Also where the state of the file is asked for: with a cache, twice, and while the set may grow."""
    write_npy(server.folder, FRAMES[:frames], name="a.npy")
    data = (server.folder / "a.npy").read_bytes()
    server.hook = lambda one: READABLE[name](one, data) if one.path == "/a.npy" else None
    for options in (
        {},
        {"cache_dir": tmp_path / "kept"},
        {"cache_dir": tmp_path / "kept"},
        {"follow": True, "settle": 0.1},
    ):
        array = vfs.open(f"{server.url}/a.npy", **options)
        assert array.wait(timeout=PATIENCE)
        np.testing.assert_array_equal(array[...], FRAMES[:frames])
    assert len(kept := list((tmp_path / "kept").rglob("*"))) > 1, kept


def _parts(one: ServedRequest, data: bytes) -> OtherReply:
    return _right(one, data, Content_Type="multipart/byteranges; boundary=q")


def _few(one: ServedRequest, data: bytes) -> OtherReply:
    return _part(data, one.first or 0, (one.first or 0) + 1)


@pytest.mark.parametrize(
    ("answer", "said"), [(_parts, "other bytes than those asked for"), (_few, "with few of the bytes")]
)
def test_what_is_no_answer_to_a_range_is_an_error(server: RangeServer, answer: Answer, said: str) -> None:
    data = (server.folder / "a.npy").read_bytes()
    array = vfs.open(f"{server.url}/a.npy")
    server.asked.clear()
    server.hook = lambda one: answer(one, data)
    sources = RemoteSources.around([f"{server.url}/a.npy"])
    with pytest.raises(SourceError, match=said):
        sources.transfers.get(WantedBytes(f"{server.url}/a.npy", 0, 1000, lambda at, part: None))
    with pytest.raises(SourceError, match=said if answer is _parts else "changed|few"):
        _ = array[...]
    assert len(server.asked) <= 12 * ANSWERS


@pytest.mark.parametrize("tag", ['W/"a"', ""])
def test_a_file_is_another_one_if_only_its_time_tells(server: RangeServer, tag: str) -> None:
    """A weak tag proves no bytes."""
    data = (server.folder / "a.npy").read_bytes()
    said = {"ETag": tag, "Last-Modified": "Tue, 05 May 2026 10:00:00 GMT"}
    server.hook = lambda one: _right(one, data, **said)
    array = vfs.open(f"{server.url}/a.npy")
    np.testing.assert_array_equal(array[3], FRAMES[3])
    said["Last-Modified"] = "Tue, 05 May 2026 10:00:05 GMT"
    with pytest.raises(SourceChangedError, match="it was written on"):
        _ = array[20]


def test_what_states_of_objects_prove() -> None:
    weak, strong = FileState(9, 10**9, 0, 'W/"a"'), FileState(9, 10**9, 0, '"a"')
    assert (weak.proves, weak.tells, strong.proves) == (False, True, True)
    assert not FileState(9, 0, 0, 'W/"a"').tells
    assert not FileState(9).tells
    assert not weak.same(weak._replace(written=2 * 10**9))
    assert strong.same(strong._replace(written=4 * 10**9))  # lists of buckets say other times than replies
    assert not strong.same(strong._replace(tag='"b"'))


SIGNED = "X-Amz-Signature=S3CRET%2Fdef%3D&X-Amz-Expires=60"


def _signed(one: ServedRequest) -> OtherReply | None:
    """Let in GET with the signature for a file, as stores of objects do."""
    allowed = one.method == "GET" and one.query.get("X-Amz-Signature") == "S3CRET/def="
    return None if allowed else OtherReply(403, {"Content-Length": "0"})


def test_a_signed_url_is_read_and_shown_nowhere(
    server: RangeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.hook = _signed
    url = f"{server.url}/a.npy?{SIGNED}"
    array = vfs.open(url, cache_dir=tmp_path / "kept")
    np.testing.assert_array_equal(array[...], FRAMES)
    assert array.files == (f"{server.url}/a.npy",)
    again = pickle.loads(pickle.dumps(array))
    np.testing.assert_array_equal(again[3], FRAMES[3])
    read = "import pickle, sys; print(int(pickle.load(sys.stdin.buffer)[3].sum()))"
    done = subprocess.run([sys.executable, "-c", read], input=pickle.dumps(array), capture_output=True, check=True)
    assert int(done.stdout) == FRAMES[3].sum()
    face = array.store().face
    texts = [repr(array), repr(again), str(array.attrs), repr(array.store()), *map(str, face.documents.values())]
    texts += [repr(Queries({"x": SIGNED})), *map(str, (tmp_path / "kept").rglob("*"))]
    for words in (["info"], ["info", "--json"], ["info", "--describe"], ["check"], ["check", "--json"], ["look"]):
        assert run(*words, url) == 0
    texts += capsys.readouterr()
    with pytest.raises(SourceError, match="403") as refused:
        vfs.open(f"{server.url}/a.npy?X-Amz-Signature=S3CRETno")
    texts.append(str(refused.value))
    assert not [text for text in texts if "S3CRET" in text]
    with vfs.serve(url, port=0) as served, urllib.request.urlopen(f"{served.url}a.npy") as reply:
        np.testing.assert_array_equal(np.load(io.BytesIO(reply.read())), FRAMES)


def test_a_token_holds_for_the_files_beside_and_a_signature_does_not() -> None:
    queries = Queries({"https://h/a/x.npy": SIGNED, "https://h/b/scan.hdr": "token=T"})
    assert queries.of("https://h/a/x.npy") == SIGNED
    assert queries.of("https://h/a/y.npy") == ""
    assert queries.of("https://h/b/scan1.mib") == queries.of("https://h/b/") == "token=T"
    assert queries.of("https://h/c/x") == ""
    assert without_query("https://h/x?.npy") == "https://h/x?.npy"  # a pattern
    assert without_query("https://h/x?.npy?a=b/c?d") == "https://h/x?.npy"
    assert shown("s3://key:S3CRET@bucket/x") == "s3://bucket/x"
    with pytest.raises(OptionError, match="given more than once"):
        vfs.open(["https://h/d?id=1", "https://h/d?id=2"])


@pytest.mark.parametrize("url", ["http://ada:S3CRET@127.0.0.1:1/x.npy", "s3://key:S3CRET@bucket/x.npy"])
def test_check_shows_no_password(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["check"], ["check", "--json"]):
        assert run(*words, url) == 2
        assert "S3CRET" not in "".join(capsys.readouterr())


def test_a_name_that_looks_like_a_pattern_is_looked_for_first(server: RangeServer) -> None:
    for name in ("a[1].npy", "b*.npy", "c?.npy", "a1.npy", "a +%41 ä.npy"):
        write_npy(server.folder, FRAMES[:2] + len(name), name=name)
        found = vfs.open(f"{server.url}/{name.replace('%', '%25').replace('?', '%3F')}")
        np.testing.assert_array_equal(found[...], FRAMES[:2] + len(name))
        assert len(found.files) == 1


def test_lists_in_any_quoting_and_with_odd_sections(server: RangeServer) -> None:
    folder = server.folder / "a run (ä)"
    folder.mkdir()
    for name in ("x 1.npy", "x+2.npy", "x%3.npy"):
        write_npy(folder, FRAMES[:1], name=name)
    links = ["/a run (ä)/x 1.npy", "/a%20run%20%28%c3%a4%29/x%2B2.npy", "x%253.npy", "/a%20run/other.npy"]
    page = "".join(f'<![x[ ]]><A HREF="{link}">{link}</A>' for link in links).encode()
    headers = {"Content-Type": "text/html", "Content-Length": str(len(page))}
    server.hook = lambda one: OtherReply(200, headers, [page]) if one.path.endswith("/") else None
    sources = RemoteSources([f"{server.url}/a run (ä)/"])
    assert sorted(sources.names(f"{server.url}/a run (ä)")) == ["x 1.npy", "x%3.npy", "x+2.npy"]
    assert len(vfs.open(f"{server.url}/a%20run%20(ä)/x*.npy").files) == 3


def test_a_pipe_in_the_place_of_a_block_is_not_waited_for(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), 1 << 20)
    assert cache.put(b"d" * 32, b"data") is None
    (block,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    block.unlink()
    os.mkfifo(block)
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(cache.get(b"d" * 32, 4)), daemon=True)
    reader.start()
    reader.join(PATIENCE)
    assert found == [None]
    assert cache.put(b"d" * 32, b"data") is None
    assert cache.get(b"d" * 32, 4) == b"data"


def test_a_server_that_tells_no_states_apart_is_said_once(server: RangeServer) -> None:
    data = (server.folder / "a.npy").read_bytes()
    server.hook = lambda one: _right(one, data, ETag='W/"a"')
    with pytest.warns(IncompleteWarning, match=r"/a.npy: the server says neither when it was written") as said:
        array = vfs.open(f"{server.url}/a.npy")
    np.testing.assert_array_equal(array[...], FRAMES)
    assert len(said) == 1
    vfs.open(f"{server.url}/a.npy", accept_changes=True)
