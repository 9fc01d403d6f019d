"""Exports into stores of objects: what is there when, what goes on, what verifies."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.cli.support import run
from tests.sources.bucket_server import BucketServer
from tests.zarr.support import StoppedError, exported_scan, stop_after
from vfs.outputs.buckets import Bucket
from vfs.outputs.journals import MarksObjects
from vfs.outputs.places import BucketPlace
from vfs.reduce import kept
from vfs.testing.range_server import ServedRequest
from vfs.testing.writers import write_npy
from vfs.zarr.export import plan as planning
from vfs.zarr.export.files import UnitFiles
from vfs.zarr.verify import verify

obstore = pytest.importorskip("obstore")

OUT = "s3://bucket/dir/o.zarr"
HOW: dict[str, Any] = {"chunks": (1, 2, -1, -1), "shards": (1, 4, -1, -1), "codec": "zstd:1"}


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketServer]:
    (tmp_path / "served/bucket").mkdir(parents=True)
    (tmp_path / "staged").mkdir()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "staged"))
    with BucketServer(tmp_path / "served") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server
    assert os.listdir(tmp_path / "staged") == []


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(planning, "UNIT", 1 << 11)
    monkeypatch.setattr(planning, "BATCH", 1 << 10)
    return exported_scan(tmp_path)


def local(scan: Path, folder: Path, **how: Any) -> dict[str, bytes]:
    """Export to a folder, and return what the bucket is to have."""
    vfs.export(scan, folder / "o.zarr", **how)
    files = [path for path in (folder / "o.zarr").rglob("*") if path.is_file()] + [folder / "o.zarr.sums"]
    return {f"dir/{path.relative_to(folder)}": path.read_bytes() for path in files}


def put(server: BucketServer) -> list[str]:
    """Return what was written, in order."""
    return [one.path.removeprefix("/bucket/dir/") for one in server.asked if one.method == "PUT"]


@pytest.mark.parametrize("how", [HOW, {"zarr_format": 2}, {"codec": "none"}])
def test_a_bucket_has_the_same_bytes_as_a_folder(
    bucket: BucketServer, scan: Path, tmp_path: Path, how: dict[str, Any]
) -> None:
    size = vfs.export(scan, OUT, verify=True, **how)
    expected = local(scan, tmp_path, **how)
    assert bucket.objects("bucket") == expected
    assert size == sum(len(data) for name, data in expected.items() if not name.endswith(".sums"))
    from obstore.store import from_url

    made = zarr.open_group(zarr.storage.ObjectStore(from_url(OUT)), mode="r")
    np.testing.assert_array_equal(np.asarray(made["data"]), vfs.open(scan)[...])
    order = [name for name in put(bucket) if not name.startswith("o.zarr.part.marks")]
    root = "o.zarr/zarr.json" if "zarr_format" not in how else "o.zarr/.zgroup"
    assert order[-1] == root, "readers find a store that is not complete"
    assert order.index("o.zarr.sums") > max(k for k, name in enumerate(order) if "/data/" in name)


def test_large_objects_are_sent_in_parts(bucket: BucketServer, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (12 << 20,), np.uint8)
    np.save(tmp_path / "large.npy", values)
    vfs.export(tmp_path / "large.npy", OUT, codec="none", chunks=(12 << 20,), verify=True)
    assert sum("partNumber" in one.query for one in bucket.asked) == 3
    assert bucket.objects("bucket")["dir/o.zarr/data/c/0"] == values.tobytes()


def test_an_interrupted_export_goes_on(bucket: BucketServer, scan: Path, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        vfs.export(scan, OUT, progress=stop_after(5000), **HOW)
    left = bucket.objects("bucket")
    assert not [name for name in left if name.endswith("zarr.json")], "it looks like a store"
    assert [name for name in left if name.startswith("dir/o.zarr.part.marks/")]
    with pytest.raises(
        vfs.OptionError, match=r"o\.zarr\.part\.marks: belongs to an export.*s3://bucket/dir/o\.zarr and"
    ):
        vfs.export(scan, OUT, **HOW)
    with pytest.raises(vfs.OptionError, match="had another codec"):
        vfs.export(scan, OUT, resume=True, **HOW | {"codec": "zstd:2"})
    assert bucket.objects("bucket") == left
    before = len(put(bucket))
    vfs.export(scan, OUT, resume=True, verify=True, **HOW)
    again = set(put(bucket)[before:]) & {name.removeprefix("dir/") for name in left}
    assert len(again) <= 1, "what was done is done again"
    assert bucket.objects("bucket") == local(scan, tmp_path, **HOW)


def test_a_store_that_fails_at_any_request_leaves_what_can_go_on(
    bucket: BucketServer, scan: Path, tmp_path: Path
) -> None:
    expected = local(scan, tmp_path, **HOW)
    said: list[str] = []
    for n in range(1, 60):
        left = 4 * n

        def refuse(one: ServedRequest) -> bool:
            nonlocal left
            left -= 1
            return left < 0

        bucket.refuse = refuse
        try:
            vfs.export(scan, OUT, resume=True, **HOW)
            break
        except vfs.OptionError as error:
            said.append(str(error))
        found = bucket.objects("bucket")
        if "dir/o.zarr/zarr.json" in found:
            assert found.items() >= expected.items(), "it looks complete"
    assert len(said) > 2
    assert all(line.startswith(OUT) and "the server does not allow it (status 403)" in line for line in said)
    assert bucket.objects("bucket") == expected


def test_objects_that_vanish_meanwhile_are_missed(bucket: BucketServer, scan: Path, tmp_path: Path) -> None:
    """The store had its name without them, and readers filled them in."""

    def vanish(done: int, total: int, stored: int) -> None:
        Bucket(OUT).delete([name for name in (f"{OUT}/data/c/0/0/0/0",) if done > total // 2])

    with pytest.raises(vfs.OptionError, match=r"o\.zarr: files in it were removed or changed while it was written"):
        vfs.export(scan, OUT, progress=vanish, **HOW)
    assert "dir/o.zarr/zarr.json" not in bucket.objects("bucket")
    vfs.export(scan, OUT, resume=True, verify=True, **HOW)
    assert bucket.objects("bucket") == local(scan, tmp_path, **HOW)


def test_objects_that_are_gone_already_can_be_deleted(bucket: BucketServer, tmp_path: Path) -> None:
    """With Google's or Azure's store a reduction ended in a traceback, for it deletes a state that there may be."""
    one = Bucket(OUT)
    one._store = obstore.store.LocalStore(tmp_path / "served/bucket")  # says it as these do
    for name in "ac":
        one.write(f"{OUT}/{name}", b"x")
    one.delete([f"{OUT}/{name}" for name in "bac"])
    assert bucket.objects("bucket") == {}
    one.delete([f"{OUT}/a"])


def test_marks_that_stayed_behind_the_end_are_removed(bucket: BucketServer, scan: Path, tmp_path: Path) -> None:
    bucket.refuse = lambda one: one.method == "POST"  # nothing is deleted
    with pytest.raises(vfs.OptionError, match="403"):
        vfs.export(scan, OUT, **HOW)
    bucket.refuse = lambda one: False
    expected = local(scan, tmp_path, **HOW)
    assert bucket.objects("bucket").keys() > expected.keys()
    with pytest.raises(vfs.OptionError, match="exists already"):
        vfs.export(scan, OUT, **HOW)
    vfs.export(scan, OUT, resume=True, verify=True, **HOW)
    assert bucket.objects("bucket") == expected
    assert vfs.export(scan, OUT, resume=True, **HOW) == sum(
        len(expected[name]) for name in expected if "sums" not in name
    )
    with pytest.raises(vfs.OptionError, match="exists already, and was written from other files, with other options"):
        vfs.export(scan, OUT, resume=True, **HOW | {"codec": "none"})


def test_nothing_is_left_of_what_did_not_begin(
    bucket: BucketServer, scan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnitFiles, "close", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        vfs.export(scan, OUT, **HOW)
    assert bucket.objects("bucket") == {}


def test_two_exports_to_one_place_do_no_harm(bucket: BucketServer, scan: Path, tmp_path: Path) -> None:
    begun: list[int] = []

    def again(done: int, total: int, stored: int) -> None:
        if not begun and done > 1500:
            begun.append(done)
            with suppress(StoppedError):
                vfs.export(scan, OUT, resume=True, progress=stop_after(4000), **HOW)

    with suppress(vfs.OptionError):  # if their units come in another order, one is told of the other
        vfs.export(scan, OUT, progress=again, **HOW)
    assert begun
    vfs.export(scan, OUT, resume=True, **HOW)
    assert bucket.objects("bucket") == local(scan, tmp_path, **HOW)


def test_of_two_exports_one_is_told_of_the_other(bucket: BucketServer, tmp_path: Path) -> None:
    one, other = (MarksObjects(Bucket(OUT), f"{OUT}.part.marks", OUT) for _ in range(2))
    assert one.lines() == other.lines() == []
    one.add([b"a\n"])
    other.add([b"a\n"])
    one.add([b"b\n"])
    with pytest.raises(vfs.OptionError, match=r"o\.zarr\.part\.marks: another export of this name is running"):
        other.add([b"c\n"])
    assert other.lines() == [b"a\n", b"b\n"]
    other.cut([b"a\n"])
    assert one.lines() == [b"a\n"]


@pytest.mark.parametrize("pool", [partial(ThreadPoolExecutor, 2), partial(ProcessPoolExecutor, 1, get_context("fork"))])
def test_workers_of_an_executor_send_to_it_and_verify(
    bucket: BucketServer, scan: Path, tmp_path: Path, pool: Callable[[], Executor]
) -> None:
    """Forks of a process that had loaded obstore could not write with it; they could not verify what they wrote."""
    assert not Bucket(OUT).any(OUT)
    with warnings.catch_warnings(), pool() as executor:
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
        vfs.export(scan, OUT, executor=executor, **HOW)
        found = executor.submit(verify, OUT).result(60)
    assert (found.bad, found.by, found.arrays) == (0, ("zarr-python",), 3)
    assert bucket.objects("bucket") == local(scan, tmp_path, **HOW)


def test_results_are_stores_there(
    bucket: BucketServer, scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were refused."""
    bucket.refuse = lambda one: one.method == "PUT" and one.path.endswith("o.zarr/zarr.json")
    assert run("reduce", scan, OUT, "sum", "com") == 2
    assert "o.zarr: cannot be written" in capsys.readouterr().err
    assert bucket.objects("bucket") == {}, "nothing is left of one that fails"
    bucket.refuse = lambda one: False
    for name in ("sum/c/0/0", "other/zarr.json"):
        Bucket(OUT).write(f"{OUT}/{name}", b"left")
    assert run("reduce", scan, OUT, "sum", "com") == 2
    assert "exists already" in capsys.readouterr().err, "nothing tells that they are of results"
    Bucket(OUT).write(f"{OUT}.part", b"")
    assert run("reduce", scan, OUT, "sum", "com", "--verify") == 0, "what a killed process left is in nobody's way"
    assert "o.zarr: as computed; read by zarr-python" in capsys.readouterr().out
    assert put(bucket)[-1] == "o.zarr/zarr.json"
    assert run("reduce", scan, tmp_path / "o.zarr", "sum", "com") == 0
    here = [tmp_path / "o.zarr.sums", *(path for path in (tmp_path / "o.zarr").rglob("*") if path.is_file())]
    assert bucket.objects("bucket") == {f"dir/{path.relative_to(tmp_path)}": path.read_bytes() for path in here}
    capsys.readouterr()
    assert run("reduce", scan, OUT, "sum", "com", "--resume", "--verify") == 0
    assert "o.zarr: was complete\n" in capsys.readouterr().out
    for more, why in ((), "; remove"), (("--resume",), ", and was written from other files, with other options"):
        assert run("reduce", scan, OUT, "sum", *more) == 2
        assert f"exists already{why}" in capsys.readouterr().err


def test_a_pass_goes_on_there(
    bucket: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it was kept. It goes on from any moment: between parts, and while objects are sent or removed."""
    frames = np.random.default_rng(1).normal(size=(8, 8, 8, 16)).astype(np.float32)
    for name, value in (("STEP", 8 * frames[0, 0].nbytes), ("SECONDS", -1.0), ("SHARE", 1e9)):
        monkeypatch.setattr(kept, name, value)
    words = write_npy(tmp_path, frames), OUT, "mean", "std", "com"
    assert run("reduce", *words) == 0
    whole = bucket.objects("bucket")
    Bucket(OUT).delete([f"s3://bucket/{name}" for name in whole])
    said, resume = "", ()
    for n in range(4, 200, 5):
        left = n

        def refuse(one: ServedRequest) -> bool:
            nonlocal left
            left -= 1
            return left < 0

        bucket.refuse = refuse
        if run("reduce", *words, *resume) == 0:
            break
        said += capsys.readouterr().err
        resume = ("--resume",) if any(".part." in name for name in bucket.objects("bucket")) else ()
    else:
        pytest.fail(said)
    assert bucket.objects("bucket") == whole
    assert "o.zarr.part.state: the state of the pass cannot be kept" in said
    assert "o.zarr.part.marks: cannot be removed: the server does not allow it" in said
    assert "bug" not in said
    bucket.refuse = lambda one: False
    Bucket(OUT).delete([f"s3://bucket/{name}" for name in whole])
    monkeypatch.setattr(BucketPlace, "delete", lambda place, name: sys.exit(143))
    with pytest.raises(SystemExit):
        run("reduce", *words)
    monkeypatch.undo()
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    assert bucket.objects("bucket").items() > whole.items()
    assert run("reduce", *words, "--resume") == 0
    assert "was complete" in capsys.readouterr().out
    assert bucket.objects("bucket") == whole


def test_what_was_changed_there_is_found(bucket: BucketServer, scan: Path) -> None:
    vfs.export(scan, OUT, codec="none")
    found = verify(OUT, None)
    assert (found.bad, found.arrays, found.by) == (0, 3, ("zarr-python",))
    chunk = next((bucket.folder / "bucket/dir/o.zarr/data/c").rglob("*/0"))
    chunk = chunk if chunk.is_file() else next(path for path in chunk.rglob("*") if path.is_file())
    chunk.write_bytes(bytes(255 - byte for byte in chunk.read_bytes()))
    assert "data[" in verify(OUT, None).findings[0]
    assert "another checksum" in verify(OUT, None).findings[0]
    (bucket.folder / "bucket/dir/o.zarr.sums").unlink()
    with pytest.raises(vfs.OptionError, match=r"s3://bucket/dir/o\.zarr\.sums: there are no checksums"):
        verify(OUT, None)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("http://h/o.zarr", "cannot be written to; expected a folder, or a URL such as s3://bucket"),
        ("file:///tmp/o.zarr", "cannot be written to"),
        ("s3://bucket", "cannot be written to"),
        ("s3://bucket/o.zarr.zip", "a zip file is written on this machine"),
        ("s3://bucket/o.json", "is the name of a .json file"),
        ("s3://none/o.zarr", "cannot be written: there is no such bucket"),
        ("s3://me:secret@bucket/o.zarr", "netrc"),
    ],
)
def test_other_urls_are_refused(bucket: BucketServer, scan: Path, target: str, said: str) -> None:
    with pytest.raises(vfs.OptionError, match=said):
        vfs.export(scan, target)
    assert bucket.objects("bucket") == {}


def test_only_stores_are_written_to_urls(bucket: BucketServer, scan: Path) -> None:
    for target, how in (("s3://bucket/o.json", {"to": "kerchunk"}), ("s3://bucket/o.html", {})):
        with pytest.raises(vfs.OptionError, match=r"only stores \(OUT.zarr\) are written to URLs"):
            vfs.export(scan, target, **how)
    with pytest.raises(vfs.OptionError, match="expected a zarr store, found nothing"):
        verify(OUT, None)


def test_what_is_in_the_way_stays(bucket: BucketServer, scan: Path) -> None:
    for name in ("o.zarr/precious", "o.zarr.part.marks/00000000", "o.zarr.sums"):
        there = bucket.folder / "bucket/dir" / name
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("precious\n")
        with pytest.raises(vfs.OptionError, match=rf"{name[:6]}.*(from an interrupted|no journal|exists already)"):
            vfs.export(scan, OUT, resume=True)
        assert there.read_text() == "precious\n"
        there.unlink()
