"""Blocks of remote files that are kept in a folder of this machine: `cache_dir`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import vfs
from vfs.errors import OptionError, SourceChangedError
from vfs.model.file_state import FileState
from vfs.sources.disk_cache import BLOCK, DiskCache, KeptBlocks
from vfs.sources.remote import FIRST_BLOCK
from vfs.testing.inside import set_of
from vfs.testing.range_server import OtherReply, RangeServer, ServedRequest
from vfs.testing.writers import write_mib

pytest.importorskip("obstore")

FRAMES = np.random.default_rng(1).integers(0, 60_000, (40, 64, 64), "u2")  # 320 KiB: three blocks
OLD = 1_000_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    (tmp_path / "web").mkdir()
    _save(tmp_path / "web/a.npy", FRAMES, OLD)
    with RangeServer(tmp_path / "web") as made:
        yield made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _save(path: Path, frames: np.ndarray, when: int) -> None:
    np.save(path, frames)
    os.utime(path, (when, when))


def look(server: RangeServer, cache: Path, name: str = "a.npy") -> tuple[np.ndarray, list[ServedRequest]]:
    """Open a set and read it. Returns it, and the requests for bytes of files."""
    server.asked.clear()
    read = np.asarray(vfs.open(f"{server.url}/{name}", cache_dir=str(cache))[...])
    return read, [one for one in server.asked if one.last != 1 and not one.path.endswith("/")]


def kept(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file())


@pytest.mark.parametrize("tags", [True, False], ids=["ETag", "Last-Modified"])
def test_a_second_look_asks_for_no_bytes(server: RangeServer, cache: Path, tags: bool) -> None:
    server.tags = tags
    read, asked = look(server, cache)
    np.testing.assert_array_equal(read, FRAMES)
    assert sum(one.sent for one in asked) <= 4 * BLOCK
    read, asked = look(server, cache)
    np.testing.assert_array_equal(read, FRAMES)
    assert not asked
    assert [(one.first, one.last) for one in server.asked] == [(0, 1)]  # what is the file now?
    array = vfs.open(f"{server.url}/a.npy", cache_dir=cache)
    _, counts = array[3:7], set_of(array.group).opening.sources.transfers.counts
    assert (counts.nbytes, counts.kept) == (0, FIRST_BLOCK + 4 * FRAMES[0].nbytes)  # of the head, and of the frames
    again = pickle.loads(pickle.dumps(array))
    server.asked.clear()
    np.testing.assert_array_equal(again[...], FRAMES)
    assert all(one.last == 1 for one in server.asked)


def test_a_scan_of_many_files(server: RangeServer, cache: Path) -> None:
    write_mib(server.folder, FRAMES, frames_per_file=7, scan=(5, 8))
    for _ in range(2):
        read, asked = look(server, cache, "scan.hdr")
        np.testing.assert_array_equal(read.reshape(FRAMES.shape), FRAMES)
    assert not asked


@pytest.mark.parametrize("tags", [True, False], ids=["ETag", "Last-Modified"])
def test_a_file_that_was_replaced_is_read_anew(server: RangeServer, cache: Path, tags: bool) -> None:
    server.tags = tags
    look(server, cache)
    _save(server.folder / "a.npy", FRAMES[::-1], OLD + 1)
    read, asked = look(server, cache)
    np.testing.assert_array_equal(read, FRAMES[::-1])
    assert asked
    _save(server.folder / "a.npy", FRAMES, OLD)
    np.testing.assert_array_equal(look(server, cache)[0], FRAMES)


def test_what_comes_of_a_replaced_file_is_not_kept(server: RangeServer, cache: Path) -> None:
    array = vfs.open(f"{server.url}/a.npy", cache_dir=cache)
    _save(server.folder / "a.npy", FRAMES[::-1], OLD + 1)
    with pytest.raises(SourceChangedError, match="was changed after it was opened"):
        array[...]
    _save(server.folder / "a.npy", FRAMES, OLD)
    np.testing.assert_array_equal(look(server, cache)[0], FRAMES)


@pytest.mark.filterwarnings("ignore:.*the server says neither:vfs.errors.IncompleteWarning")
def test_a_server_that_tells_no_files_apart(server: RangeServer, cache: Path) -> None:
    data = (server.folder / "a.npy").read_bytes()

    def hook(one: ServedRequest) -> OtherReply:
        first, last = one.first or 0, min(one.last or len(data), len(data))
        headers = {"Content-Length": str(last - first)}
        if one.first is not None:
            headers["Content-Range"] = f"bytes {first}-{last - 1}/{len(data)}"
        return OtherReply(206 if one.first is not None else 200, headers, [data[first:last]])

    server.hook = hook
    for _ in range(2):
        read, asked = look(server, cache)
        np.testing.assert_array_equal(read, FRAMES)
        assert asked
    assert not kept(cache)


def _cut(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _longer(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _emptied(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def _damaged(path: Path, other: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-1000] ^= 4
    path.write_bytes(whole)


def _another(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def _gone(path: Path, other: Path) -> None:
    path.unlink()


def _a_folder(path: Path, other: Path) -> None:
    path.unlink()
    path.mkdir()


def _a_link(path: Path, other: Path) -> None:
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("spoil", [_cut, _longer, _emptied, _damaged, _another, _gone, _a_folder, _a_link])
def test_what_was_spoilt_is_not_there(server: RangeServer, cache: Path, spoil: object) -> None:
    look(server, cache)
    files = kept(cache)
    assert len(files) == 3
    for path, other in zip(files, files[1:] + files[:1], strict=True):
        assert callable(spoil)
        spoil(path, other)
    read, asked = look(server, cache)
    np.testing.assert_array_equal(read, FRAMES)
    assert asked
    np.testing.assert_array_equal(look(server, cache)[0], FRAMES)


def test_only_the_user_can_read_it_and_no_name_says_anything(server: RangeServer, cache: Path) -> None:
    old = os.umask(0)
    try:
        look(server, cache)
    finally:
        os.umask(old)
    for path in [cache, *cache.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
        assert set(path.name) <= set("0123456789abcdef") or path == cache
        assert path.is_dir() or b"127.0.0.1" not in path.read_bytes()


def test_folders_that_cannot_be_used(server: RangeServer, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for path, said in ((shared, "nobody else can write to"), (server.folder / "a.npy", "cannot be used: File exists")):
        with pytest.raises(OptionError, match=f"cache_dir=.*{said}"):
            look(server, path)
    with pytest.raises(OptionError, match=r"cache_dir_size=.*expected a number of bytes"):
        vfs.open(f"{server.url}/a.npy", cache_dir=tmp_path / "c", cache_dir_size="many")
    with (
        mock.patch("vfs.sources.disk_cache.os.geteuid", return_value=12345),
        pytest.raises(OptionError, match="a folder of your own"),
    ):
        look(server, tmp_path / "own")


def test_a_full_disk_is_no_error(server: RangeServer, cache: Path) -> None:
    with mock.patch("vfs.new_files.os.replace", side_effect=OSError(28, "No space left on device")):
        np.testing.assert_array_equal(look(server, cache)[0], FRAMES)
    assert not kept(cache)


READS = """
import sys, numpy as np, vfs
url, cache, size, times = sys.argv[1:]
right = None
for k in range(int(times)):
    read = np.asarray(vfs.open(url, cache_dir=cache, cache_dir_size=int(size))[...])
    right = read if right is None else right
    assert (read == right).all()
    print(int(read.sum(dtype="u8")), flush=True)
"""


def test_processes_that_share_a_folder_and_one_that_is_killed(server: RangeServer, cache: Path) -> None:
    """All read the right numbers, within the size, though one ends at any moment; what it left does no harm."""
    url, size = f"{server.url}/a.npy", 3 * BLOCK
    command = [sys.executable, "-c", READS, url, str(cache), str(size)]
    with ExitStack() as stack:
        readers = [
            stack.enter_context(subprocess.Popen([*command, str(times)], stdout=subprocess.PIPE, text=True))
            for times in (1 << 30, 8, 8, 8)
        ]
        out = readers[0].stdout
        assert out is not None
        out.readline()
        readers[0].kill()
        for reader in readers[1:]:
            assert {*reader.communicate(timeout=250)[0].split()} == {str(FRAMES.sum(dtype="u8"))}
            assert reader.returncode == 0
    assert sum(path.stat().st_size for path in kept(cache)) <= size + 4 * (size // 16 + BLOCK)
    np.testing.assert_array_equal(look(server, cache)[0], FRAMES)
    assert not look(server, cache)[1]


# by itself


def _blocks(cache: DiskCache, name: str, size: int = 3 * BLOCK) -> KeptBlocks:
    found = cache.blocks(name, FileState(size, tag="t"), "")
    assert found is not None
    return found


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    size = 32 * (BLOCK + 48)
    cache = DiskCache(str(tmp_path), size)
    for k in range(100):
        _blocks(cache, f"http://h/{k}", BLOCK).keep(0, bytearray([k]) * BLOCK)
        for path in kept(tmp_path):  # all is older than this
            found = path.stat()
            os.utime(path, (found.st_atime, min(found.st_mtime, OLD + k)))
        assert not _blocks(cache, "http://h/0", BLOCK).give(0, BLOCK, lambda *_: None)  # is used each time
        assert sum(path.stat().st_size for path in kept(tmp_path)) <= size + size // 16
    assert len(kept(tmp_path)) >= 28
    assert _blocks(cache, "http://h/50", BLOCK).give(0, BLOCK, lambda *_: None) == [(0, BLOCK)]
    assert not _blocks(cache, "http://h/99", BLOCK).give(0, BLOCK, lambda *_: None)


def test_what_a_killed_process_left_goes_later(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    for name, when in (("1.part", OLD), ("2.part", None)):
        (tmp_path / "ab" / name).write_bytes(b"x")
        if when:
            os.utime(tmp_path / "ab" / name, (when, when))
    _blocks(DiskCache(str(tmp_path), 1 << 30), "http://h/x").keep(0, bytearray(BLOCK))
    assert [path.name for path in kept(tmp_path) if path.name.endswith(".part")] == ["2.part"]


def test_many_who_write_and_read_the_same_blocks(tmp_path: Path) -> None:
    """Each has its own cache, as processes have, and all together much less room than they want."""

    def go(k: int) -> int:
        cache, right = DiskCache(str(tmp_path), 6 * BLOCK), 0
        for n in range(30):
            blocks = _blocks(cache, f"http://h/{(n + k) % 4}")
            data = bytearray([(n + k) % 4]) * (3 * BLOCK)
            seen = bytearray(3 * BLOCK)

            def put(at: int, part: bytes, seen: bytearray = seen) -> None:
                seen[at : at + len(part)] = part

            for first, last in blocks.give(0, 3 * BLOCK, put):
                blocks.keep(first, data[first:last])
                seen[first:last] = data[first:last]
            right += seen == data
        return right

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(go, range(4))] == [30] * 4
    assert not [path for path in kept(tmp_path) if path.name.endswith(".part")]


def test_other_endpoints_and_files_have_other_blocks(tmp_path: Path) -> None:
    cache, state = DiskCache(str(tmp_path), 1 << 30), FileState(BLOCK, tag="t")
    first = cache.blocks("s3://b/x", state, "one")
    assert first is not None
    first.keep(0, bytearray(BLOCK))
    for name, other, place in (
        ("s3://b/x", state, "two"),
        ("s3://b/y", state, "one"),
        ("s3://b/x", FileState(BLOCK, tag="u"), "one"),
        ("s3://b/x", FileState(BLOCK - 1, tag="t"), "one"),
    ):
        found = cache.blocks(name, other, place)
        assert found is not None
        assert found.give(0, 10, lambda *_: None) == [(0, other.size)]
    assert first.give(0, 10, lambda *_: None) == []
