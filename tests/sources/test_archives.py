"""Archives are folders: what is in them is read where it is, and a hostile one is a line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import random
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.cli.folders import look
from vfs.folder_tree.plans import folder_tree
from vfs.model.open_options import OpenOptions
from vfs.model.sources import Sources
from vfs.sets.describing import describe
from vfs.sets.opening import OpenedSet, open_set
from vfs.sources import archive_index, archives
from vfs.sources.archive_names import in_archive
from vfs.sources.archives import ArchiveSources
from vfs.sources.packed import zstd_of_python
from vfs.testing.inside import set_of
from vfs.testing.memory_sources import MemorySources
from vfs.testing.range_server import RangeServer

FRAMES = np.random.default_rng(1).poisson(3, (6, 64, 80)).astype("u2")
Files = Mapping[str, bytes]


def npy(frames: np.ndarray = FRAMES) -> bytes:
    made = io.BytesIO()
    np.save(made, frames)
    return made.getvalue()


FILES = {"a.npy": npy(), "in/b.npy": npy(FRAMES[::-1]), "in/deep/c.txt": b"text"}


def zipped(method: int) -> Callable[[Files], bytes]:
    def pack(files: Files) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", method) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return made.getvalue()

    return pack


def tarred(files: Files) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"./{name}" if name in FILES else name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


KINDS: dict[str, Callable[[Files], bytes]] = {
    "stored.zip": zipped(zipfile.ZIP_STORED),
    "deflated.ZIP": zipped(zipfile.ZIP_DEFLATED),
    "bzip2.zip": zipped(zipfile.ZIP_BZIP2),
    "a.tar": tarred,
    "a.tar.gz": lambda files: gzip.compress(tarred(files)),
    "a.tgz": lambda files: gzip.compress(tarred(files)),
    "a.tar.bz2": lambda files: bz2.compress(tarred(files)),
    "a.txz": lambda files: lzma.compress(tarred(files)),
    "a.tar.zst": lambda files: zstd_of_python().compress(tarred(files)),
}


@pytest.fixture(params=KINDS)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    path.write_bytes(KINDS[request.param](FILES))
    return path


def test_a_set_in_an_archive(archive: Path) -> None:
    for name, twin in (("a.npy", FRAMES), ("in/b.npy", FRAMES[::-1])):
        array = vfs.open(f"{archive}/{name}")
        for k in (5, 0, 3):
            np.testing.assert_array_equal(array[k], twin[k])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], twin)
    np.testing.assert_array_equal(vfs.open(f"{archive}/*/?.npy")[...], FRAMES[::-1])
    with pytest.raises(vfs.OptionError, match=r"is opened like a folder: expected the names of files in it"):
        vfs.open(archive)
    with pytest.raises(vfs.MissingSourceError, match=r"in/d\.npy: no such file in this archive"):
        vfs.open(f"{archive}/in/d.npy")
    with pytest.raises(vfs.OptionError, match="lies in an archive"):
        describe(set_of(vfs.open_group(f"{archive}/a.npy")))


def test_any_bytes(archive: Path) -> None:
    inner = MemorySources.of(archive.parent)
    sources = ArchiveSources(f"memory://set/{archive.name}", inner)
    rng = random.Random(1)
    for name, raw in FILES.items():
        path = f"archive://memory://set/{archive.name}/{name}"
        assert sources.state(path).size == len(raw)
        for _ in range(20):
            start, size = rng.randrange(len(raw) + 9), rng.randrange(30_000)
            assert sources.read(path, start, size) == raw[start : start + size]
        with sources.stream(path) as stream:
            assert stream.read() == raw
    assert sorted(sources.names(sources.top)) == ["a.npy", "in"]
    assert {name: state and state.size for name, state in sources.inside(f"{sources.top}/in", ()).items()} == {
        "b.npy": len(FILES["in/b.npy"]),
        "deep": None,
    }
    assert sources.join(f"{sources.top}/in", "../a.npy") == f"{sources.top}/a.npy"
    for outside in ("../../a.npy", "/a.npy", "memory://set/x"):
        with pytest.raises(vfs.OutsideError):
            sources.join(f"{sources.top}/in", outside)


def test_the_folder_in_lists_and_trees(archive: Path) -> None:
    def opened(file: str, sources: Sources) -> OpenedSet:
        return open_set(file, OpenOptions(), {}, sources=sources)

    found = look(str(archive), opened, OpenOptions(), str)
    assert ([*found.sets], found.folders, found.broken) == (["a.npy"], ["in"], {})
    assert {"a.zarr", "in"} <= {*folder_tree(archive).at("").children()}
    assert in_archive(f"{archive}/in/deep") == (str(archive), "in/deep")
    assert archives.is_folder_in_archive(f"{archive}/in/deep")
    assert not archives.is_folder_in_archive(f"{archive}/in/b.npy")
    assert in_archive(str(archive.parent / "none.zip")) is None
    assert in_archive("https://files.zip/a.npy") is None
    with pytest.raises(vfs.MissingSourceError, match=r"none\.zip: no such file"):
        vfs.open(f"archive://{archive.parent}/none.zip/a.npy")


def test_what_is_stored_is_read_where_it_is_on_a_server(tmp_path: Path) -> None:
    frames = np.random.default_rng(1).integers(0, 60000, (60, 64, 80)).astype("u2")
    (tmp_path / "a.zip").write_bytes(KINDS["stored.zip"]({"a.npy": npy(frames)}))
    with RangeServer(tmp_path) as server:
        array = vfs.open(f"{server.url}/a.zip/a.npy")
        np.testing.assert_array_equal(array[17], frames[17])
        assert server.sent < frames.nbytes // 2


def test_a_tar_file_on_a_server_may_have_some_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tar").write_bytes(tarred(FILES))
    with RangeServer(tmp_path) as server:
        np.testing.assert_array_equal(vfs.open(f"{server.url}/a.tar/a.npy")[...], FRAMES)
        monkeypatch.setattr(archive_index, "_MAX_FAR", 2)
        archives._known.clear()
        with pytest.raises(vfs.FormatError, match="has no list of its files"):
            vfs.open(f"{server.url}/a.tar/a.npy")


def test_an_archive_that_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(KINDS["stored.zip"](FILES))
    array = vfs.open(f"{path}/a.npy")
    path.write_bytes(KINDS["stored.zip"]({"x": b"", "a.npy": npy(FRAMES[:, ::-1])}))
    with pytest.raises(vfs.SourceChangedError):
        array[0]
    np.testing.assert_array_equal(vfs.open(f"{path}/a.npy")[...], FRAMES[:, ::-1])


OUTSIDE = ["../a.npy", "/a.npy", "x/../../a.npy", "a\nb", "x/" * 99 + "a", "C:/a"]


@pytest.mark.parametrize(("kind", "names"), [("stored.zip", [*OUTSIDE, "..\\a.npy"]), ("a.tar", OUTSIDE)])
def test_names_that_lead_out_refuse_the_archive(kind: str, names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / kind).write_bytes(KINDS[kind]({"b.npy": npy(), name: npy()}))
        with pytest.raises(vfs.FormatError, match="nothing of it is shown"):
            vfs.open(f"{tmp_path / kind}/b.npy")


def test_members_that_cannot_be_read_are_a_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        warnings.simplefilter("ignore")
        made.writestr("good.npy", npy())
        made.writestr("twice.npy", npy())
        made.writestr("twice.npy", npy(FRAMES[::-1]))
        link = zipfile.ZipInfo("link.npy")
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
        made.writestr("lzma.npy", npy(), zipfile.ZIP_LZMA)
        made.writestr("bomb.npy", bytes(1 << 22), zipfile.ZIP_DEFLATED)
        made.writestr("secret.npy", npy())
        made.infolist()[-1].flag_bits |= 1
    monkeypatch.setattr(archives, "MAX_RATIO", 100)
    np.testing.assert_array_equal(vfs.open(f"{tmp_path}/a.zip/good.npy")[...], FRAMES)
    said = {
        "twice": "stands twice",
        "link": "is a link",
        "lzma": "LZMA",
        "bomb": "no measurement",
        "secret": "encrypted",
    }
    for name, words in said.items():
        with pytest.raises(vfs.VfsError, match=words) as told:
            vfs.open(f"{tmp_path}/a.zip/{name}.npy")
        assert "\n" not in str(told.value)
    (tmp_path / "a.tar").write_bytes(tarred({"x": b"", "x/a.npy": npy()}))
    with pytest.raises(vfs.FormatError, match="x is a file and a folder"):
        vfs.open(f"{tmp_path}/a.tar/x/a.npy")
    (tmp_path / "b.zip").write_bytes(KINDS["stored.zip"](FILES))
    monkeypatch.setattr(archive_index, "_MAX_MEMBERS", 3)
    with pytest.raises(vfs.FormatError, match="at most 3 files"):
        vfs.open(f"{tmp_path}/b.zip/a.npy")
    monkeypatch.setattr(archive_index, "_MAX_LIST_BYTES", 20)
    with pytest.raises(vfs.FormatError, match="list of members has more than 20 bytes"):
        vfs.open(f"{tmp_path}/b.zip/a.npy")


@pytest.mark.parametrize("kind", ["deflated.ZIP", "stored.zip", "a.tar", "a.tar.gz"])
def test_damage_is_one_line(kind: str, tmp_path: Path) -> None:
    whole, rng, path = KINDS[kind](FILES), random.Random(1), tmp_path / kind
    for k in range(40):
        damaged = bytearray(whole)
        for _ in range(3):
            at = rng.randrange(len(damaged)) if k % 2 else -1 - rng.randrange(300)
            damaged[at] = rng.randrange(256)
        path.write_bytes(damaged[: rng.randrange(len(damaged))] if k % 4 == 0 else damaged)
        said = ""
        try:
            vfs.open(f"{path}/in/b.npy")[...]
        except vfs.VfsError as error:
            said = str(error)
        assert "\n" not in said
