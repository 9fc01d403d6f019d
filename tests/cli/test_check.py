"""`vfs check` says which sets are whole, and ends with the status of the worst."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.cli.support import run
from vfs.cli.check import How, check
from vfs.cli.checking import _json as as_list
from vfs.cli.flags import converted
from vfs.cli.hands import Hands
from vfs.model.open_options import OpenOptions
from vfs.sets.opening import open_set
from vfs.sources.holes import tells_holes
from vfs.sources.local import LocalSources
from vfs.testing.detector_writers import write_cbf
from vfs.testing.plane_writers import fits_unit
from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib, write_npy


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder with whole sets, some of them below it, a zarr store and a text."""
    top = tmp_path / "archive"
    (top / "a" / "deep").mkdir(parents=True)
    frames = np.random.default_rng(1).integers(1, 4000, (24, 8, 16)).astype(np.uint16)
    write_mib(top / "a", frames, frames_per_file=5, scan=(4, 6))
    write_npy(top, np.arange(12).reshape(3, 4), name="one.npy")
    write_npy(top / "a" / "deep", np.arange(6), name="two.npy")
    (top / "notes.txt").write_text("nothing\n")
    (top / "link").symlink_to(top)
    vfs.export(top / "one.npy", top / "one.zarr")
    return top


def checked(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str]]:
    status = run("check", *words)
    out, err = capsys.readouterr()
    assert not err
    return status, out.splitlines()


def test_an_archive_that_is_whole(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = checked(capsys, archive)
    assert status == 0
    assert lines == [
        f"{archive}/one.npy: whole, npy, 1 file, 224 B",
        f"{archive}/a/scan.hdr: whole, mib, 5 files, 15.0 KiB",
        f"{archive}/a/deep/two.npy: whole, npy, 1 file, 176 B",
    ]
    status, lines = checked(capsys, archive, "--read", "--json")
    told = json.loads("\n".join(lines))
    assert [Path(one["path"]).name for one in told] == ["one.npy", "scan.hdr", "two.npy"]
    assert [one["bytes_read"] for one in told] == [
        96,
        sum(a.nbytes for a in vfs.open_group(archive / "a/scan.hdr").values()),
        48,
    ]
    assert {one["state"] for one in told} == {"whole"}


def test_each_kind_of_fault_has_its_line_and_status(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (archive / "a" / "scan003.mib").unlink()
    status, lines = checked(capsys, archive)
    assert (status, len(lines)) == (1, 3)
    assert lines[1].startswith(f"{archive}/a/scan.hdr: incomplete, mib, ")
    assert "scan003.mib" in lines[1]
    (archive / "one.npy").write_bytes(b"\x93NUMPY\x01\x00garbled")
    status, lines = checked(capsys, archive)
    assert (status, len(lines)) == (2, 3)
    assert [line.split(": ")[1].split(",")[0] for line in lines] == ["unreadable", "incomplete", "whole"]


def test_nothing_in_a_folder_is_passed_over_that_may_have_been_a_set(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged first byte, or a link to what is gone, took a set out of the report, with status 0."""
    outside = write_npy(tmp_path, np.arange(4), name="outside.npy")
    deep = archive / "a" / "deep"
    (deep / "new\nline.npy").write_bytes(outside.read_bytes())
    (deep / "latest.npy").symlink_to(outside)
    (deep / "again.npy").symlink_to(archive / "one.npy")
    assert checked(capsys, archive)[0] == 0
    (archive / "blank.dm4").write_bytes(bytes(5000))
    (archive / "blank.xml").write_bytes(bytes(5000))
    (archive / "other.xml").write_text("<a/>")
    (archive / "gone.npy").symlink_to("nothing.npy")
    (archive / "round.npy").symlink_to("round.npy")
    (archive / "pipe.npy").symlink_to("/dev/zero")
    os.mkfifo(archive / "fifo.npy")
    status, lines = checked(capsys, archive)
    assert status == 2
    assert [line.removeprefix(f"{archive}/").split(",")[0].split(": ")[:2] for line in lines] == [
        ["one.npy", "whole"],
        ["blank.dm4", "unreadable"],
        ["blank.xml", "unreadable"],
        ["gone.npy", "unreadable"],
        ["round.npy", "unreadable"],
        ["a/scan.hdr", "whole"],
        ["a/deep/new\\nline.npy", "whole"],
        ["a/deep/two.npy", "whole"],
        ["a/deep/latest.npy", "whole"],
    ]


def test_a_set_on_which_vfs_fails_loses_no_other(archive: Path) -> None:
    def opened(path: str, sources: Any) -> Any:
        if path.endswith("scan.hdr"):
            raise MemoryError
        if path.endswith("one.npy"):
            raise TypeError("a bug")
        return open_set(path, options, {}, None, sources, convert=converted)

    options = OpenOptions(allow_incomplete=True)
    found = list(check([str(archive), str(archive / "one.npy")], How(opened, options, True, lambda nbytes, more: None)))
    states = {os.path.relpath(one.path, archive): one.state for one in found}
    assert states.pop("a/deep/two.npy") == 0
    assert states.pop("one.npy") == states.pop("a/scan.hdr") == 2


def test_what_does_not_answer_is_given_up() -> None:
    """Its thread stays behind, and all others are done."""
    others, answered = threading.Event(), threading.Event()
    ticks = itertools.count()
    hands = Hands(lambda: None, patience=5, clock=lambda: next(ticks) if others.is_set() else 0)

    def work(name: str) -> str:
        if name == "hangs":
            answered.wait()
        if name == "last":
            others.set()
        return name.upper()

    found = list(hands.each(iter(["first", "hangs", "third", "last"]), work, 2))
    assert found == [("first", "FIRST"), ("hangs", None), ("third", "THIRD"), ("last", "LAST")]
    answered.set()
    assert hands.rest()


def test_a_list_that_is_interrupted_is_json(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = OpenOptions(allow_incomplete=True)
    how = How(lambda path, sources: open_set(path, options, {}, None, sources), options, False, lambda nbytes, more: 0)

    def interrupted(after: int) -> None:
        with as_list() as show:
            for k, one in enumerate(check([str(archive)], how)):
                if k == after:
                    raise SystemExit(130)
                show(one)

    for after in (2, 0):
        with pytest.raises(SystemExit):
            interrupted(after)
        assert len(json.loads(capsys.readouterr().out)) == after


def test_files_that_are_named(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = sorted((archive / "a").glob("scan*.mib"))
    status, lines = checked(capsys, archive / "a" / "scan.hdr", *parts)
    assert (status, len(lines)) == (0, 1), "files of one set are checked once"
    status, lines = checked(capsys, archive / "notes.txt", tmp_path / "none.npy")
    assert (status, len(lines)) == (2, 2)
    assert all(": unreadable: " in line for line in lines)


def test_a_set_that_is_named_and_in_a_folder_is_checked_once(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (archive / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00garbled")
    every = checked(capsys, archive)[1]
    assert len(every) == 4
    for first in (archive / "one.npy", archive / "a", archive / "a" / "scan002.mib", archive / "bad.npy", archive):
        lines = checked(capsys, first, archive, archive / "a" / ".." / "a")[1]
        assert sorted(line.partition(": ")[2] for line in lines) == sorted(line.partition(": ")[2] for line in every)


def test_the_bar_knows_how_much_there_is(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of sets that are found twice count once; all are read in the end."""
    told: list[tuple[int, int]] = []
    how = How(
        lambda path, sources: open_set(path, OpenOptions(allow_incomplete=True), {}, None, sources, convert=converted),
        OpenOptions(allow_incomplete=True),
        True,
        lambda nbytes, more: told.append((nbytes, more)),
    )
    monkeypatch.setattr("vfs.cli.check._OPEN", 0)  # of very many sets, those are opened anew that come late
    found = list(check([str(archive / "one.npy"), str(archive), str(archive / "a")], how))
    assert [Path(one.path).name for one in found] == ["one.npy", "scan.hdr", "two.npy"]
    read, more = (sum(column) for column in zip(*told, strict=True))
    assert read == more == sum(one.read for one in found) > 0


def test_a_stop_while_sets_are_read_ends_the_command(archive: Path) -> None:
    """It is raised in the thread that reads."""

    def tell(nbytes: int, more: int) -> None:
        if nbytes:
            raise SystemExit(130)

    options = OpenOptions(allow_incomplete=True)
    how = How(lambda path, sources: open_set(path, options, {}, None, sources, convert=converted), options, True, tell)
    with pytest.raises(SystemExit) as ended:
        list(check([str(archive)], how))
    assert ended.value.code == 130


def test_a_block_that_cannot_be_decoded_is_found_by_reading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = np.random.default_rng(0).integers(0, 99, (3, 32, 32)).astype(np.uint16)
    blocks = iter([zlib.compress, lambda data: zlib.compress(data)[:-9] + bytes(9), zlib.compress])
    path = write_tiff(tmp_path / "x.tif", list(pages), compression=8, encode=lambda data: next(blocks)(data))
    assert checked(capsys, path)[0] == 0
    status, lines = checked(capsys, path, "--read")
    assert (status, len(lines)) == (2, 1)
    assert lines[0].startswith(f"{path}: unreadable, tiff, 1 file, ")


def _mrc(folder: Path, ending: str, pack: Callable[[bytes], bytes], behind: bytes = b"") -> Path:
    path = write_mrc(folder, FRAMES, 1, name="a.mrc")
    packed = path.with_name(f"a.mrc{ending}")
    packed.write_bytes(pack(path.read_bytes() + behind))
    return packed


def _hdf5(folder: Path, **how: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("data", data=FRAMES, chunks=(1, 16, 16), **how)
    return folder / "a.h5"


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


FRAMES = np.random.default_rng(2).integers(0, 4000, (3, 16, 16)).astype(np.int16)
SUMMED: dict[str, Callable[[Path], Path]] = {
    "fits": lambda folder: _written(folder / "a.fits", fits_unit(FRAMES, sums=True, SIMPLE=True)),
    "fits, the last unit a table": lambda folder: _written(
        folder / "a.fits", fits_unit(FRAMES, SIMPLE=True) + fits_unit(FRAMES[0], sums=True, XTENSION="BINTABLE")
    ),
    "cbf": lambda folder: write_cbf(folder / "a.cbf", FRAMES[0].astype(np.int32)),
    "mrc.gz": lambda folder: _mrc(folder, ".gz", gzip.compress),
    "mrc.gz with more behind": lambda folder: _mrc(folder, ".gz", gzip.compress, FRAMES.tobytes()),
    "mrc.bz2": lambda folder: _mrc(folder, ".bz2", bz2.compress),
    "hdf5 fletcher32": lambda folder: _hdf5(folder, fletcher32=True),
    "hdf5 gzip": lambda folder: _hdf5(folder, compression="gzip", shuffle=True),
    "tiff deflate": lambda folder: write_tiff(folder / "a.tif", [*FRAMES], compression=8, encode=zlib.compress),
}


@pytest.mark.parametrize("kind", SUMMED)
def test_a_flipped_bit_is_found_where_the_format_has_sums(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """FITS has sums that decoding does not need; a packed MRC with bytes behind its pixels was not read to its end."""
    path = SUMMED[kind](tmp_path)
    whole = checked(capsys, path, "--read")
    assert whole[0] == ("behind" in kind)
    data = bytearray(path.read_bytes())
    data[-1000 if "behind" in kind else data.find(data[-400:]) if "fits" not in kind else -2880] ^= 4
    path.write_bytes(data)
    status, lines = checked(capsys, path, "--read")
    assert (status, lines[0].split(": ")[1].split(",")[0]) == (2, "unreadable")


@pytest.mark.parametrize(
    "words", [["--chunks", "frames"], ["--zarr-format", "2"], ["--nav-shape", "2,2"], ["-o", "x=1"]]
)
def test_options_without_effect_are_refused(
    archive: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", archive, *words) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_without_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.makedirs(tmp_path / "a" / "b")
    assert run("check", tmp_path) == 2
    assert "no data set there" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["hole", "kept", "blocks", "zeros", "part"])
def test_what_only_a_disk_shows_is_not_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    frames = np.ones((8, 64, 64), np.uint16)
    frames[4:] = 0
    path = write_npy(tmp_path, frames)
    if not tells_holes(LocalSources(), str(path)):
        pytest.skip("this file system does not tell holes")
    if kind == "blocks":
        path = tmp_path / "a.h5"
        with pytest.importorskip("h5py").File(path, "w") as file:
            file.create_dataset("data", data=frames, chunks=(1, 64, 64))
    data = path.read_bytes()
    if kind != "zeros":
        end = data.rindex(b"\1\0") if kind != "part" else len(data) - 8000
        with path.open("wb") as written:
            if kind == "kept":
                os.posix_fallocate(written.fileno(), 0, len(data))
            os.pwrite(written.fileno(), data[:end], 0)
            os.truncate(written.fileno(), len(data))
    if kind != "kept":  # of such space the disk forgets what was written once it was read
        assert vfs.open(path).valid.all()
        found = vfs.open(path, holes_missing=True)
        missing = 3 if kind in ("hole", "blocks") else 0  # the fifth frame begins in a page of the fourth
        assert found.valid.tolist() == [True] * (8 - missing) + [False] * missing
        np.testing.assert_array_equal(found[:], vfs.open(path)[:])
        mean = found.reduce(m=vfs.Mean())["m"]
        np.testing.assert_allclose(mean.data[0, 0], found[:, 0, 0].sum() / (8 - missing))
    status, lines = checked(capsys, path)
    told = [
        f"{path}: nothing proves that " in line and line.endswith("holds no bytes there, and shows zeros")
        for line in lines
    ]
    assert (status, told) == ((1, [True]) if kind in ("hole", "kept", "blocks") else (0, [False])), lines
