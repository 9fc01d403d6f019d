"""Exports to one zip file."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import numpy as np
import pytest
import zarr

import vfs
from tests.zarr.support import StoppedError, stop_after
from vfs.cli.app import main
from vfs.errors import OptionError, VerifyError
from vfs.model.region import Region
from vfs.outputs import outputs, zipped
from vfs.outputs.places import ZipPlace
from vfs.testing.writers import write_mib, write_npy
from vfs.zarr.export import files
from vfs.zarr.export import plan as planning
from vfs.zarr.readers import StoreToRead
from vfs.zarr.verify import verify

pytestmark = pytest.mark.zarr

FRAMES = np.random.default_rng(1).integers(0, 4000, (24, 8, 16)).astype(np.uint16)


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(planning, "UNIT", 1 << 11)
    monkeypatch.setattr(planning, "BATCH", 1 << 10)
    (tmp_path / "in").mkdir()
    return write_mib(tmp_path / "in", FRAMES, frames_per_file=5, scan=(4, 6))


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "in")


@pytest.mark.parametrize("shards", [None, (2, 6, 8, 16)])
@pytest.mark.parametrize("version", [3, 2])
def test_the_archive_holds_the_files_of_the_folder(scan: Path, tmp_path: Path, version: int, shards: Any) -> None:
    if version == 2:
        shards = None
    how = {"chunks": (1, 2, 8, 16), "shards": shards, "zarr_format": version}
    size = vfs.export(scan, tmp_path / "one.zarr", **how)
    assert vfs.export(scan, tmp_path / "one.zarr.zip", **how) == size
    folder = {
        str(path.relative_to(tmp_path / "one.zarr")): path.read_bytes()
        for path in (tmp_path / "one.zarr").rglob("*")
        if path.is_file()
    }
    with ZipFile(tmp_path / "one.zarr.zip") as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == folder
        assert {entry.compress_type for entry in archive.infolist()} == {ZIP_STORED}
        documents = [
            name.endswith((".json", ".zgroup", ".zattrs", ".zarray", ".zmetadata")) for name in archive.namelist()
        ]
        assert documents == sorted(documents, reverse=True)
        assert archive.namelist()[0] in ("zarr.json", ".zattrs")
        offsets = [entry.header_offset for entry in archive.infolist()]
        assert offsets == sorted(offsets)
    assert (tmp_path / "one.zarr.zip.sums").read_bytes() == (tmp_path / "one.zarr.sums").read_bytes()
    with zarr.storage.ZipStore(tmp_path / "one.zarr.zip", mode="r") as store:
        found = zarr.open_group(store, mode="r")["data"]
        np.testing.assert_array_equal(np.asarray(found[...]).reshape(FRAMES.shape), FRAMES)  # type: ignore[index]
    assert left(tmp_path) == ["one.zarr", "one.zarr.sums", "one.zarr.zip", "one.zarr.zip.sums"]


def test_the_same_data_are_the_same_bytes(scan: Path, tmp_path: Path) -> None:
    for name in ("a.zarr.zip", "b.zarr.zip"):
        vfs.export(scan, tmp_path / name)
    assert (tmp_path / "a.zarr.zip").read_bytes() == (tmp_path / "b.zarr.zip").read_bytes()


@pytest.mark.parametrize("name", ["image.ome.zarr.zip", "image.ozx"])
def test_ome_zarr_says_in_its_comment_that_documents_come_first(name: str, tmp_path: Path) -> None:
    vfs.export(write_npy(tmp_path, FRAMES), tmp_path / name)
    with ZipFile(tmp_path / name) as archive:
        said = json.loads(archive.comment)["ome"]
        assert said == {"version": "0.5", "zipFile": {"centralDirectory": {"jsonFirst": True}}}
        assert "multiscales" in json.loads(archive.read("zarr.json"))["attributes"]["ome"]


@pytest.mark.parametrize("without", ["", "tensorstore"])
def test_verified(scan: Path, tmp_path: Path, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if without:
        monkeypatch.setitem(sys.modules, without, None)
    store = tmp_path / "one.zarr.zip"
    vfs.export(scan, store, codec="none", verify=True)
    found = verify(store)
    assert (found.arrays, found.bad, found.by) == (3, 0, ("zarr-python",) if without else ("tensorstore",))
    assert main(["verify", str(store), str(scan)]) == 0
    vfs.export(scan, tmp_path / "shards.zarr.zip", shards="auto", verify=True)
    assert verify(tmp_path / "shards.zarr.zip").by[-1] == "zarr-python", "tensorstore waits for ever for large shards"
    content = bytearray(store.read_bytes())
    at = bytes(content).index(FRAMES[7].tobytes())
    content[at] ^= 1
    store.write_bytes(content)
    with pytest.raises(VerifyError):
        verify(store).check()
    assert main(["verify", str(store), str(scan)]) == 1
    content[at] ^= 1
    with ZipFile(store) as archive:
        entries, listed = archive.infolist(), archive.start_dir
    before = [entry.header_offset + place for entry in entries[-2:] for place in (0, 8, 14, 30)]
    for at in [*before, *(listed + place for place in (0, 8, 10, 16, 20, 42, 46)), len(content) - 6]:
        store.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with suppress(OptionError):  # that it is another file
            assert verify(store).bad, f"byte {at}"
    store.write_bytes(b"something else")
    with pytest.raises(OptionError, match="another file"):
        verify(store)


def test_what_was_interrupted_goes_on(scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written in one go, and begun anew."""
    store, how = tmp_path / "one.zarr.zip", {"chunks": "frames", "shards": (1, 3, -1, -1)}
    with monkeypatch.context() as patch:
        patch.setattr(files.UnitFiles, "close", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            vfs.export(scan, store, **how)
    assert left(tmp_path) == [], "no unit was done"
    vfs.export(scan, tmp_path / "whole.zarr.zip", **how)
    for stop in (5000, 4000):
        with pytest.raises(StoppedError):
            vfs.export(scan, store, resume=True, progress=stop_after(stop), **how)
        assert left(tmp_path)[:2] == ["one.zarr.zip.part", "one.zarr.zip.part.marks"]
        assert not is_zipfile(tmp_path / "one.zarr.zip.part/one.zarr.zip"), "it looks complete"
        with pytest.raises(OptionError, match="an export that was interrupted; resume=True continues"):
            vfs.export(scan, store, **how)
    done: list[int] = []
    vfs.export(scan, store, resume=True, verify=True, progress=lambda now, total, stored: done.append(now), **how)
    assert done[0] >= 4000, "what was done is done again"
    assert store.read_bytes() == (tmp_path / "whole.zarr.zip").read_bytes()
    assert left(tmp_path) == ["one.zarr.zip", "one.zarr.zip.sums", "whole.zarr.zip", "whole.zarr.zip.sums"]


@pytest.mark.parametrize("cut", ["first", "middle", "last", "all", "garbled"])
def test_what_is_not_whole_of_an_archive_is_made_again(scan: Path, tmp_path: Path, cut: str) -> None:
    store, how = tmp_path / "one.zarr.zip", {"chunks": "frames", "shards": (1, 3, -1, -1)}
    vfs.export(scan, tmp_path / "whole.zarr.zip", **how)
    with pytest.raises(StoppedError):
        vfs.export(scan, store, progress=stop_after(5000), **how)
    part = tmp_path / "one.zarr.zip.part/one.zarr.zip"
    content = part.read_bytes()
    if cut == "garbled":
        part.write_bytes(content.replace(b"PK\3\4", b"PK\3\5", 7).replace(b"PK\3\5", b"PK\3\4", 6))
    else:
        os.truncate(part, {"first": 100, "middle": len(content) // 2, "last": len(content) - 1, "all": 0}[cut])
    vfs.export(scan, store, resume=True, **how)
    assert store.read_bytes() == (tmp_path / "whole.zarr.zip").read_bytes()


def test_one_that_was_killed_before_its_folder_was_gone_is_complete(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ZipPlace, "clear", lambda place: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            vfs.export(scan, tmp_path / "one.zarr.zip")
    assert left(tmp_path) == ["one.zarr.zip", "one.zarr.zip.part", "one.zarr.zip.part.marks", "one.zarr.zip.sums"]
    vfs.export(scan, tmp_path / "one.zarr.zip", resume=True, verify=True)
    assert left(tmp_path) == ["one.zarr.zip", "one.zarr.zip.sums"]


def test_files_have_their_names_only_when_all_of_a_unit_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks are set after that, so that what is marked is on the disk, with its name."""
    paths = [str(tmp_path / f"{n % 2}" / f"{n}") for n in range(40)]
    for path in paths:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path + outputs.TEMPORARY).write_bytes(b"12345")
    flushed: list[str] = []

    def flush(path: str) -> int:
        assert all(map(os.path.exists, paths)) if os.path.isdir(path) else not any(map(os.path.exists, paths))
        flushed.append(path)
        return os.path.getsize(path)

    monkeypatch.setattr("vfs.outputs.outputs.flush", flush)
    assert outputs.seal(paths, str(tmp_path)) == 200
    folders = [str(tmp_path), str(tmp_path / "0"), str(tmp_path / "1")]
    assert sorted(flushed) == sorted([*folders, *(path + outputs.TEMPORARY for path in paths)])
    assert all(map(os.path.exists, paths))
    assert outputs.seal([], str(tmp_path)) == 0


def test_a_file_that_cannot_be_flushed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"a{outputs.TEMPORARY}").write_bytes(b"1")
    with pytest.raises(FileNotFoundError):
        outputs.seal([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path))
    assert not (tmp_path / "a").exists()


# tensorstore takes 9 s to look into 65,600 files
@pytest.mark.parametrize("reader", ["zarr-python", pytest.param("tensorstore", marks=pytest.mark.thorough)])
def test_more_files_and_bytes_than_fit_into_a_plain_zip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """65,600 documents; and a file of 5 GiB, a hole, behind which a chunk lies. The archive is gone on with there."""
    values = np.arange(8, dtype="<u2").reshape(2, 4)
    root, path, hole = tmp_path / "o.zarr", str(tmp_path / "o.zarr.zip"), 5 << 30
    vfs.export(write_npy(tmp_path, values), root, chunks=(1, 4), codec="none")
    documents = {str(one.relative_to(root)): one.read_bytes() for one in root.rglob("zarr.json")}
    documents |= {f"many/{k}/zarr.json": b"{}" for k in range(65_600)}
    chunks = sorted(str(one) for one in root.rglob("c/*/0"))
    for one in chunks:
        os.rename(one, f"{one}.part")
    archive = zipped.Archive(path, str(root), documents)
    sizes = [archive.take(chunks[:1])]
    archive.abandon()
    with open(path, "ab") as file:
        name = b"data/hole"
        file.write(zipped._HEADER.pack(b"PK\3\4", 45, 0, 0, 0, 33, 0, 2**32 - 1, 2**32 - 1, len(name), 20) + name)
        file.write(zipped._LONG.pack(1, 16, hole, hole))
        file.truncate(file.tell() + hole)
    archive = zipped.Archive(path, str(root), documents)
    assert archive.has(chunks[:1], sizes[0])
    assert archive.has([f"{root}/data/hole"], hole)
    archive.take(chunks[1:])
    archive.close()
    assert zipped.is_sound(path)
    with ZipFile(path) as found:
        assert len(found.namelist()) == len(documents) + 3
        assert found.getinfo("data/c/1/0").header_offset > hole
    if reader != "tensorstore":
        monkeypatch.setitem(sys.modules, "tensorstore", None)
    stored = StoreToRead(path).open("data")
    assert stored.by == reader
    np.testing.assert_array_equal(stored.read(Region.whole(values.shape)), values)
    os.unlink(path)  # a copy of it would have no hole
