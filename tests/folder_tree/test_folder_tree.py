"""A tree of folders without FUSE: which names there are, what is behind them, how much is opened
for them, and what changes are noticed.
"""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED
from tests.folder_tree.support import names
from vfs.errors import OptionError, SourceError, VfsError
from vfs.faces.data_set import Hierarchy
from vfs.faces.face import Node
from vfs.folder_tree import FolderTree, plans, served_sets
from vfs.folder_tree.listing import Listing
from vfs.folder_tree.records import LOOKS
from vfs.model.open_options import OpenOptions, split
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib

pytestmark = pytest.mark.usefixtures("opened")

VALUES = np.arange(24, dtype="<u2").reshape(2, 3, 4)


def faces(*labels: str) -> list[str]:
    return sorted(
        label + ending for label in labels for ending in (".zarr", ".v2.zarr", ".ome.zarr", ".ome.v2.zarr", ".npy")
    )


def content(folder_tree: FolderTree, path: str) -> np.ndarray:
    node = folder_tree.at(path).node()
    assert node is not None
    got = folder_tree.at(path).get(0, node.size)
    assert got is not None
    return np.frombuffer(bytes(got)[128:], "<u2")


def save(path: Path, values: np.ndarray = VALUES, time: int | None = None) -> Path:
    with path.open("wb") as file:
        np.save(file, values)
    if time is not None:
        os.utime(path, ns=(time, time))
    return path


def everything(folder_tree: FolderTree, path: str = "") -> Iterator[str]:
    for name in list(folder_tree.at(path).children()):
        at = f"{path}/{name}" if path else name
        node = None if name == "/" else folder_tree.at(at).node()
        if node:
            yield at
            if node.folder:
                yield from everything(folder_tree, at)


def test_subfolders_and_faces_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "2024/may").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    save(tmp_path / "a.npy")
    save(tmp_path / "2024/may/b.npy", VALUES + 1)
    (tmp_path / "2024/notes.txt").write_text("nothing")
    folder_tree = plans.folder_tree(tmp_path)
    assert names(folder_tree) == sorted([*faces("a"), "2024", "empty"])
    assert names(folder_tree, "2024") == ["may"]
    assert names(folder_tree, "empty") == []
    assert names(folder_tree, "2024/may") == faces("b")
    np.testing.assert_array_equal(content(folder_tree, "2024/may/b.npy"), VALUES.ravel() + 1)
    assert bytes(folder_tree.at("2024/may/b.zarr/data/c/0/0/0").get(0, 4) or b"") == bytes(
        folder_tree.at("2024/may/b.v2.zarr/data/0/0/0").get(0, 4) or b""
    )
    assert [
        folder_tree.at(path).node()
        for path in (
            "x",
            "x.npy",
            "a",
            "a.zarr/x",
            "2024/b.npy",
            "2024/notes.txt",
            "a.npy/x",
            "empty/a.npy",
            "/",
            "2024/",
        )
    ] == [None] * 10
    whole = list(everything(folder_tree))
    assert len(set(whole)) == len(whole) == 3 + sum(1 for path in whole if ".zarr" in path or path.endswith(".npy"))


def test_what_is_shown_is_what_a_folder_of_the_same_set_shows(tmp_path: Path) -> None:
    write_mib(tmp_path, np.arange(6 * 64 * 64, dtype=np.uint16).reshape(6, 64, 64), frames_per_file=2)
    folder_tree = plans.folder_tree(tmp_path)
    namer = next(name for name in os.listdir(tmp_path) if name.endswith(".hdr"))
    folder = plans.folder([set_of(vfs.open_group(tmp_path / namer))], folder_tree.cache)
    for path in everything(folder_tree):
        assert folder_tree.at(path).node() == folder.at(path).node()
        assert folder_tree.at(path).time() == folder.at(path).time()
        if not folder.at(path).node().folder:  # type: ignore[union-attr]
            assert bytes(folder_tree.at(path).get() or b"") == bytes(folder.at(path).get() or b"")
    assert names(folder_tree) == sorted(folder.faces)


def test_nothing_is_opened_but_what_is_behind_a_name(tmp_path: Path, opened: Counter[str], quiet: None) -> None:
    for k in range(300):
        save(tmp_path / f"d{k:03}.npy")
        (tmp_path / f"n{k}.txt").write_text("nothing")
    folder_tree = plans.folder_tree(tmp_path)
    assert not opened
    assert folder_tree.at("d007.zarr").node() is not None
    assert folder_tree.at("d007.zarr/data/c/0/0/0").node() is not None
    assert folder_tree.at("d0077.zarr").node() is None
    assert folder_tree.at("n1.zarr").node() is None
    assert set(opened) == {"d007.npy"}
    first = folder_tree.at("").children()
    assert [next(first) for _ in range(30)][-1].startswith("d00")
    assert sum(opened.values()) <= 14
    assert len(names(folder_tree)) == 1500
    before = sum(opened.values())
    assert len(names(folder_tree)) == 1500
    assert sum(opened.values()) == before


def test_a_folder_is_opened_through_in_the_background_once_it_is_listed(tmp_path: Path, opened: Counter[str]) -> None:
    for k in range(100):
        save(tmp_path / f"d{k:03}.npy")
    folder_tree = plans.folder_tree(tmp_path)
    next(folder_tree.at("").children())
    for thread in threading.enumerate():
        if thread.name == "ahead":
            thread.join(100)
    assert len(opened) == 100
    assert set(opened.values()) == {1}
    assert len(names(folder_tree)) == 500
    assert sum(opened.values()) == 100


def test_one_thread_opens_the_files_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several would keep each other waiting. Who lists it gets its names nevertheless, and errors, too."""
    for k in range(60):
        save(tmp_path / f"s{k}.npy")
    inside, most = [0], [0]
    real = plans.open_set

    def slow(path: str, *how: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.005)
        try:
            if path.endswith("s40.npy") and failing:
                raise OSError(errno.EMFILE, "too many")
            return real(path, *how)
        finally:
            inside[0] -= 1

    failing = True
    monkeypatch.setattr(plans, "open_set", slow)
    folder_tree = plans.folder_tree(tmp_path)
    with pytest.raises(SourceError, match="s40"):
        names(folder_tree)
    failing = False
    found: list[list[str]] = []
    listers = [threading.Thread(target=lambda: found.append(names(folder_tree))) for _ in range(3)]
    for lister in listers:
        lister.start()
    for lister in listers:
        lister.join(100)
    assert found == [faces(*(f"s{k}" for k in range(60)))] * 3
    assert most == [1]


def test_listing_goes_on_from_any_place_while_names_come_and_go(tmp_path: Path) -> None:
    for k in range(20):
        save(tmp_path / f"d{k:02}.npy")
    folder_tree = plans.folder_tree(tmp_path)
    whole = list(folder_tree.at("").children())
    for after in (0, 1, 17, 99, 100, 101, 1000):
        assert list(folder_tree.at("").children(after)) == whole[after:]
    os.remove(tmp_path / "d05.npy")
    save(tmp_path / "d99.npy")
    at = sorted(map(whole.index, faces("d05")))
    last = [f"d99{name[3:]}" for name in whole if name.startswith("d00")]
    now = list(folder_tree.at("").children())
    assert now == ["/" if place in at else name for place, name in enumerate([*whole, *last])]
    assert list(folder_tree.at("").children(30)) == now[30:]
    save(tmp_path / "d05.npy")
    assert sorted(list(folder_tree.at("").children())[100:]) == faces("d05", "d99")


def test_many_readers_open_a_set_once(tmp_path: Path, opened: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(20):
        save(tmp_path / f"d{k:02}.npy", VALUES + k)
    monkeypatch.setattr(LOOKS, "least", 3600.0)
    folder_tree = plans.folder_tree(tmp_path)
    wrong: list[str] = []

    def read() -> None:
        for k in range(20):
            if not np.array_equal(content(folder_tree, f"d{k:02}.npy"), VALUES.ravel() + k):
                wrong.append(f"d{k}")
        if len(names(folder_tree)) != 100:
            wrong.append("listing")

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not wrong
    assert set(opened.values()) <= {1, 2}  # once for its names, once to be read


# sets of many files


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A .hdr and four .mib files; one frame of 64 x 64 each."""
    write_mib(tmp_path, np.arange(4 * 64 * 64, dtype=np.uint16).reshape(4, 64, 64) % 4000, frames_per_file=1)
    return tmp_path


def test_a_set_is_shown_once_whatever_is_asked_for_first(scan: Path) -> None:
    listed = sorted(os.listdir(scan))
    hdr = next(name for name in listed if name.endswith(".hdr"))
    members = [name.removesuffix(".mib") for name in listed if name.endswith(".mib")]
    label = hdr.removesuffix(".hdr")
    shown = [name for name in names(plans.folder_tree(scan)) if name.endswith(".npy")]
    assert shown == [f"{label}.npy"]
    folder_tree = plans.folder_tree(scan)
    assert [folder_tree.at(f"{member}.zarr").node() for member in members if member != label] == [None] * len(
        [m for m in members if m != label]
    )
    assert folder_tree.at(f"{label}.zarr").node() is not None
    assert names(folder_tree) == names(plans.folder_tree(scan))


def test_a_series_without_naming_file_is_called_by_its_first_one(scan: Path) -> None:
    os.remove(next(scan.glob("*.hdr")))
    first, *others = sorted(path.stem for path in scan.glob("*.mib"))
    folder_tree = plans.folder_tree(scan)
    for other in others:
        assert folder_tree.at(f"{other}.zarr").node() is None
    assert [name for name in names(folder_tree) if name.endswith(".npy")] == [f"{first}.npy"]


def test_a_description_takes_the_files_it_names(scan: Path) -> None:
    hdr = next(scan.glob("*.hdr"))
    (scan / "mine.vfs.json").write_text(json.dumps({"vfs": 1, "format": "mib", "files": [hdr.name]}))
    for asked in ("mine.zarr", f"{hdr.stem}.zarr"):
        folder_tree = plans.folder_tree(scan)
        assert (folder_tree.at(asked).node() is None) == (asked != "mine.zarr")
        assert [name for name in names(folder_tree) if name.endswith(".npy")] == ["mine.npy"]


def test_a_growing_series_is_opened_again(tmp_path: Path) -> None:
    write_mib(tmp_path, np.arange(4 * 64 * 64, dtype=np.uint16).reshape(4, 64, 64) % 4000, frames_per_file=1, hdr=False)
    *_, last = files = sorted(tmp_path.glob("*.mib"))
    kept = last.read_bytes()
    os.remove(last)
    folder_tree = plans.folder_tree(tmp_path)
    face = f"{files[0].stem}.npy"
    stamp, node = folder_tree.at(face).stamp(), folder_tree.at(face).node()
    assert node
    last.write_bytes(kept)
    assert folder_tree.at(face).stamp() != stamp
    assert folder_tree.at(face).node().size == node.size + 64 * 64 * 2  # type: ignore[union-attr]
    assert f"{last.stem}.zarr" not in names(folder_tree)
    assert folder_tree.at(face).time() >= files[0].stat().st_mtime_ns
    second = files[1].read_bytes()
    os.remove(files[1])
    with pytest.raises(SourceError, match=r"scan002\.mib is missing"):
        folder_tree.at(f"{files[0].stem}.zarr/data").node()
    files[1].write_bytes(second)
    assert f"{files[0].stem}.zarr" in names(folder_tree)
    assert folder_tree.at(f"{files[0].stem}.zarr/data").node() is not None


# names


def test_equal_names_are_numbered_and_stay(tmp_path: Path) -> None:
    save(tmp_path / "a.npy")
    save(tmp_path / "a.NPY", VALUES + 1)
    save(tmp_path / "a-2.npy", VALUES + 2)
    (tmp_path / "b.zarr").mkdir()
    save(tmp_path / "b.npy", VALUES + 3)
    save(tmp_path / "b.v2.npy", VALUES + 4)
    for asked in (None, "a-2.npy", "a-3.npy", "a-2-2.npy", "b-2.npy", "b.v2.npy"):
        folder_tree = plans.folder_tree(tmp_path)
        if asked:
            folder_tree.at(asked).node()
        shown = {name: int(content(folder_tree, name)[0]) for name in names(folder_tree) if name.endswith(".npy")}
        assert shown == {"a-2.npy": 2, "a.npy": 1, "a-3.npy": 0, "b-2.npy": 3, "b.v2.npy": 4}, asked
    os.remove(tmp_path / "a.NPY")
    assert content(folder_tree, "a-3.npy")[0] == 0
    assert "a.npy" not in names(folder_tree)
    with pytest.raises(SourceError, match=r"^a\.npy: was shown before and its files are gone"):
        folder_tree.at("a.npy").node()  # not what is another file's now
    save(tmp_path / "a.NPY", VALUES + 5)
    assert content(folder_tree, "a.npy")[0] == 5
    assert content(folder_tree, "a-3.npy")[0] == 0


def test_a_new_folder_takes_the_name_of_a_face(tmp_path: Path) -> None:
    save(tmp_path / "a.npy")
    folder_tree = plans.folder_tree(tmp_path)
    assert names(folder_tree) == faces("a")
    (tmp_path / "a.zarr").mkdir()
    assert names(folder_tree) == sorted([*faces("a-2"), "a.zarr"])
    assert names(folder_tree, "a.zarr") == []
    assert folder_tree.at("a-2.zarr/zarr.json").node() is not None
    assert folder_tree.at("a.npy").node() is None


def test_long_names_leave_room_for_endings(tmp_path: Path) -> None:
    save(tmp_path / ("x" * 251 + ".npy"))
    save(tmp_path / ("ä" * 125 + ".npy"))
    folder_tree = plans.folder_tree(tmp_path)
    shown = names(folder_tree)
    assert len(shown) == 10
    for name in shown:
        assert len(os.fsencode(name)) <= 255
        assert folder_tree.at(name).node() is not None
        assert plans.folder_tree(tmp_path).at(name).node() is not None


# changes


def test_new_files_appear_and_removed_ones_vanish(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    folder_tree = plans.folder_tree(tmp_path)
    assert names(folder_tree, "sub") == []
    assert folder_tree.at("sub/a.npy").node() is None
    save(tmp_path / "sub/a.npy")
    assert folder_tree.at("sub/a.npy").node() is not None
    assert names(folder_tree, "sub") == faces("a")
    os.remove(tmp_path / "sub/a.npy")
    assert [folder_tree.at(f"sub/{name}").node() for name in (*faces("a"), "a.zarr/data")] == [None] * 6
    assert names(folder_tree, "sub") == []
    os.rmdir(tmp_path / "sub")
    assert folder_tree.at("sub").node() is None
    assert names(folder_tree) == []


def test_a_changed_set_is_opened_again_with_another_stamp_and_time(tmp_path: Path) -> None:
    save(tmp_path / "a.npy", time=2_000_000_000_000_000_000)
    folder_tree = plans.folder_tree(tmp_path)
    stamp, time = folder_tree.at("a.npy").stamp(), folder_tree.at("a.npy").time()
    assert (stamp != 0, time, folder_tree.at("a.v2.zarr/.zgroup").stamp()) == (True, 2_000_000_000_000_000_000, stamp)
    save(tmp_path / "a.npy", VALUES + 7, time=1_000_000_000_000_000_000)  # older, as cp -p would leave it
    assert folder_tree.at("a.npy").stamp() != stamp
    assert folder_tree.at("a.npy").time() > time
    np.testing.assert_array_equal(content(folder_tree, "a.npy"), VALUES.ravel() + 7)
    save(tmp_path / "a.npy", np.zeros(5, "<u2"))
    assert folder_tree.at("a.npy").node().size == 138  # type: ignore[union-attr]
    assert content(folder_tree, "a.npy").tolist() == [0] * 5
    with pytest.raises(SourceError, match="not this one"):
        folder_tree.at("a.zarr/data/c/0/0/0").node()
    assert folder_tree.at("a.zarr/data/c/0").node() is not None


def test_a_set_that_is_replaced_all_the_time_is_never_absent(tmp_path: Path) -> None:
    """Absent would read as blank. Every answer is of one of the sets that were there, or an error."""
    save(tmp_path / "a.npy", np.full(100, 0, "<u2"))
    folder_tree = plans.folder_tree(tmp_path)
    done, wrong, answers = threading.Event(), [], Counter[str]()

    def replace() -> None:
        for k in range(300):
            save(tmp_path / "new", np.full(100 + k % 3, k, "<u2"))
            os.replace(tmp_path / "new", tmp_path / "a.npy")
        done.set()

    def look() -> None:
        while not done.is_set():
            try:
                stamp, node, got, inner = (
                    folder_tree.at("a.npy").stamp(),
                    folder_tree.at("a.npy").node(),
                    folder_tree.at("a.npy").get(),
                    folder_tree.at("a.zarr/data/c/0").node(),
                )
                if node is None or got is None or inner is None:
                    wrong.append((stamp, node, inner))
                elif folder_tree.at("a.npy").stamp() == stamp:
                    answers["same"] += 1
                    if len(set(np.frombuffer(bytes(got)[128:], "<u2"))) != 1:
                        wrong.append(bytes(got))
            except SourceError:
                answers["error"] += 1

    threads = [threading.Thread(target=call) for call in (replace, look, look, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong
    assert content(folder_tree, "a.npy").tolist() == [299] * 102


def test_what_is_put_back_with_its_size_and_time_may_hold_other_data(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", time=10**18)
    folder_tree = plans.folder_tree(tmp_path)
    stamp = folder_tree.at("a.npy").stamp()
    kept = path.read_bytes()
    os.remove(path)
    assert folder_tree.at("a.npy").stamp() == 0
    path.write_bytes(kept)
    os.utime(path, ns=(10**18, 10**18))
    assert folder_tree.at("a.npy").stamp() not in (0, stamp)
    assert content(folder_tree, "a.npy").size == 24


def test_a_set_that_was_shown_and_breaks_is_an_error_not_absent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save(tmp_path / "a.npy")
    folder_tree = plans.folder_tree(tmp_path)
    assert content(folder_tree, "a.npy").size == 24
    path.write_bytes(b"\x93NUMPY garbage")
    for name in ("a.npy", "a.zarr", "a.zarr/data/c/0/0/0"):
        with pytest.raises(SourceError, match=r"was shown before.*a\.npy"):
            folder_tree.at(name).node()
    assert names(folder_tree) == []
    assert [record.getMessage().startswith("not shown: ") for record in caplog.records] == [True]
    save(path)
    assert content(folder_tree, "a.npy").size == 24
    path.write_bytes(b"\x93NUMPY garbage")
    with pytest.raises(SourceError):
        folder_tree.at("a.npy").node()
    os.remove(path)
    with pytest.raises(SourceError, match="was shown before and its files are gone"):
        folder_tree.at("a.npy").node()


@pytest.mark.parametrize("fault", ["deleted", "a pipe"])
def test_a_set_that_loses_a_file_is_an_error_not_absent(tmp_path: Path, fault: str) -> None:
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(VALUES.tobytes())
    said = {"vfs": 1, "format": "raw", "files": ["a.bin", "b.bin"], "options": {"dtype": "<u2", "sig_shape": "3,4"}}
    (tmp_path / "set.vfs.json").write_text(json.dumps(said))
    folder_tree = plans.folder_tree(tmp_path)
    want = np.tile(VALUES.reshape(-1), 2)
    assert content(folder_tree, "set.npy").tolist() == want.tolist()
    (tmp_path / "b.bin").unlink()
    if fault == "a pipe":
        os.mkfifo(tmp_path / "b.bin")
    for path in ("set.npy", "set.zarr/data/c/0/0/0", "set.v2.zarr"):
        with pytest.raises(SourceError):
            folder_tree.at(path).node()
    (tmp_path / "b.bin").unlink(missing_ok=True)
    (tmp_path / "b.bin").write_bytes(VALUES.tobytes())
    assert content(folder_tree, "set.npy").tolist() == want.tolist()


def test_a_failed_read_names_the_file_and_the_set_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "a.npy", np.zeros(1000, "<u2"))
    folder_tree = plans.folder_tree(tmp_path)
    monkeypatch.setattr(LOOKS, "least", 3600.0)
    assert content(folder_tree, "a.npy").size == 1000
    assert content(folder_tree, "a.npy").size == 1000
    os.truncate(path, 1128)
    with pytest.raises(SourceError, match=r"a\.npy"):
        folder_tree.at("a.npy").get(2000, 2010)


# what is in a folder may be anything


def test_broken_files_are_not_shown_and_logged_once(
    tmp_path: Path, opened: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bad\n\x1b.npy").write_bytes(b"\x93NUMPY garbage")
    (tmp_path / "empty.mib").write_bytes(b"")
    (tmp_path / "unknown.tif").write_bytes(b"nothing that anybody knows")
    save(tmp_path / "good.npy")
    folder_tree = plans.folder_tree(tmp_path)
    for _ in range(3):
        assert names(folder_tree) == faces("good")
        assert folder_tree.at("empty.zarr").node() is None
        assert folder_tree.at("unknown.zarr").node() is None
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert sorted("bad" in line for line in said) == [False, True]
    assert all(line.isprintable() for line in said)
    assert set(opened.values()) == {1}
    save(tmp_path / "unknown.tif.npy")
    (tmp_path / "empty.mib").write_bytes(b"more, but still nothing")
    assert names(folder_tree) == sorted([*faces("good"), *faces("unknown.tif")])
    assert opened["empty.mib"] == 2
    assert opened["unknown.tif"] == 1


def test_a_format_that_raises_anything_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path / "a.npy")
    save(tmp_path / "b.npy")
    real = plans.open_set

    def failing(path: str, *how: Any) -> Any:
        if path.endswith("a.npy"):
            raise RecursionError("deep\nin there")
        return real(path, *how)

    monkeypatch.setattr(plans, "open_set", failing)
    folder_tree = plans.folder_tree(tmp_path)
    assert names(folder_tree) == faces("b")
    assert folder_tree.at("a.npy").node() is None
    assert [record.getMessage() for record in caplog.records] == [
        f"not shown: {tmp_path}/a.npy: RecursionError: deep\\nin there"
    ]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_what_cannot_be_opened_now_is_an_error_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, quiet: None
) -> None:
    save(tmp_path / "a.npy")
    real, left = plans.open_set, [0, 0]

    def failing(path: str, *how: Any) -> Any:
        if left.pop():
            raise SourceError(f"{path}: cannot be opened: {os.strerror(code)}", code)
        return real(path, *how)

    monkeypatch.setattr(plans, "open_set", failing)
    folder_tree = plans.folder_tree(tmp_path)
    left[:] = [0] * 10 + [1, 1]
    with pytest.raises(SourceError, match=os.strerror(code)) as caught:
        folder_tree.at("a.npy").node()
    assert caught.value.errno == code
    with pytest.raises(SourceError):
        names(folder_tree)
    assert names(folder_tree) == faces("a")


def test_links_lead_nowhere_outside_and_not_round_in_circles(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (root / "sub").mkdir(parents=True)
    save(outside / "secret.npy")
    save(root / "sub/a.npy")
    (root / "secret.npy").symlink_to(outside / "secret.npy")
    (root / "out").symlink_to(outside)
    (root / "sub/up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (root / "gone.npy").symlink_to(root / "nothing")
    (root / "inside.npy").symlink_to("sub/a.npy")
    os.mkfifo(root / "pipe.npy")
    folder_tree = plans.folder_tree(root, view=plans.TreeView(show_files=True))
    assert set(everything(folder_tree)) == {
        path for path in everything(folder_tree) if path.split("/")[0] in ("sub", *faces("inside"))
    }
    assert names(folder_tree) == sorted(["sub", *faces("inside")])
    assert names(folder_tree, "sub") == faces("a")
    assert folder_tree.at("out/secret.npy").node() is None
    following = plans.folder_tree(root, OpenOptions(follow_outside=True))
    assert names(following) == sorted(["sub", "out", *faces("inside", "secret")])
    assert names(following, "out") == faces("secret")
    assert len(list(everything(following))) < 200


def test_what_a_set_says_leads_nowhere_outside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (root / "sub").mkdir(parents=True)
    save(outside / "secret.npy")
    save(root / "sub/a.npy")
    for label, name in (("inner", "sub/a.npy"), ("outer", "../outside/secret.npy")):
        (root / f"{label}.vfs.json").write_text(json.dumps({"vfs": 1, "format": "npy", "files": [name]}))
    folder_tree = plans.folder_tree(root)
    assert names(folder_tree) == sorted(["sub", *faces("inner")])
    assert content(folder_tree, "inner.npy").size == 24
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [f"{root}/outer.vfs.json"]
    assert names(plans.folder_tree(root, OpenOptions(follow_outside=True))) == sorted(["sub", *faces("inner", "outer")])


def test_a_folder_that_becomes_a_link_out_of_the_tree_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (root / "sub").mkdir(parents=True)
    save(outside / "secret.npy")
    folder_tree = plans.folder_tree(root)
    with monkeypatch.context() as patch:
        patch.setattr(LOOKS, "least", 1000.0)  # what was looked at before is believed for a while
        assert names(folder_tree) == ["sub"]
    assert names(folder_tree, "sub") == []
    os.rmdir(root / "sub")
    (root / "sub").symlink_to(outside)
    with pytest.raises(SourceError, match="leads out of the tree"):
        folder_tree.at("sub/secret.npy").node()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_an_error_and_the_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    save(tmp_path / "a.npy")
    folder_tree = plans.folder_tree(tmp_path)
    assert names(folder_tree) == sorted(["closed", *faces("a")])
    with pytest.raises(SourceError, match="cannot be listed"):
        names(folder_tree, "closed")


def test_a_tree_that_goes_away_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    folder_tree = plans.folder_tree(root)
    assert names(folder_tree) == []
    os.rmdir(root)
    with pytest.raises(SourceError, match="cannot be listed"):
        names(folder_tree)
    with pytest.raises(SourceError, match="cannot be listed"):
        folder_tree.at("a.npy").node()


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    save(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.npy")))
    folder_tree = plans.folder_tree(tmp_path)
    assert names(folder_tree) == faces("\udcff\udcfe")
    assert content(folder_tree, "\udcff\udcfe.npy").size == 24


# files as they are


def test_files_that_are_no_data_set_are_shown_as_they_are_if_asked_for(scan: Path) -> None:
    (scan / "notes.txt").write_text("written by hand")
    (scan / "bad.npy").write_bytes(b"\x93NUMPY garbage")
    (scan / "void").write_bytes(b"")
    save(scan / "good.npy")
    folder_tree = plans.folder_tree(scan, view=plans.TreeView(show_files=True))
    (scan / "notes.json").write_text("{}")
    extra = {"notes.txt", "notes.json", "bad.npy", "void"}
    assert set(names(folder_tree)) - set(names(plans.folder_tree(scan))) == extra
    for name in extra:
        data = (scan / name).read_bytes()
        assert folder_tree.at(name).node() == Node(False, len(data), json=name == "notes.json")
        assert bytes(folder_tree.at(name).get() or b"") == data
        assert bytes(folder_tree.at(name).get(2, 5) or b"") == data[2:5]
        assert folder_tree.at(name).time() == (scan / name).stat().st_mtime_ns
    stamp = folder_tree.at("notes.txt").stamp()
    (scan / "notes.txt").write_text("written by hand, twice")
    assert folder_tree.at("notes.txt").stamp() not in (0, stamp)
    member = next(scan.glob("*.mib")).name
    assert folder_tree.at(member).node() is None
    os.remove(scan / "notes.txt")
    assert (folder_tree.at("notes.txt").node(), folder_tree.at("notes.txt").stamp()) == (None, 0)
    save(scan / "bad.npy")
    assert folder_tree.at("bad.npy").node().size == 128 + VALUES.nbytes  # type: ignore[union-attr]


def test_a_face_hides_a_file_of_its_name(tmp_path: Path) -> None:
    write_mib(tmp_path, np.zeros((1, 64, 64), np.uint16))
    label = next(tmp_path.glob("*.hdr")).stem
    (tmp_path / f"{label}.npy").write_bytes(b"\x93NUMPY garbage")
    for asked in (None, f"{label}.npy"):
        folder_tree = plans.folder_tree(tmp_path, view=plans.TreeView(show_files=True))
        if asked:
            folder_tree.at(asked).node()
        assert names(folder_tree).count(f"{label}.npy") == 1
        assert folder_tree.at(f"{label}.npy").node().size > 64 * 64 * 2  # type: ignore[union-attr]


# memory


def alive(kind: type[Any]) -> list[Any]:
    """The objects of a class that anything holds on to."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, kind)]


def open_sets(folder: Path) -> list[Hierarchy]:
    return [tree for tree in alive(Hierarchy) if any(str(path).startswith(str(folder)) for path in tree.files)]


def test_sets_that_are_open_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(60):
        save(tmp_path / f"d{k:02}.npy", VALUES + k)
    monkeypatch.setattr(served_sets, "OPEN", 8)
    folder_tree = plans.folder_tree(tmp_path)
    for k in range(60):
        assert folder_tree.at(f"d{k:02}.zarr/data/c/0/0/0").node() is not None
        if k % 20 == 19:
            assert len(open_sets(tmp_path)) == 8
    for k in (0, 30, 59):
        assert content(folder_tree, f"d{k:02}.npy")[0] == k
    monkeypatch.setattr(served_sets, "WEIGHT", 1)
    assert content(folder_tree, "d05.npy")[0] == 5
    assert len(open_sets(tmp_path)) == 1


def test_folders_that_are_remembered_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(20):
        (tmp_path / f"s{k:02}").mkdir()
        save(tmp_path / f"s{k:02}/a.npy", VALUES + k)
    monkeypatch.setattr("vfs.folder_tree.folder_tree.NAMES", 500)
    monkeypatch.setattr(served_sets, "OPEN", 1)  # a set that is open remembers its folder, too
    folder_tree = plans.folder_tree(tmp_path)
    stamps = []
    for _ in range(2):
        stamps.append([folder_tree.at(f"s{k:02}/a.npy").stamp() for k in range(20)])
        assert [content(folder_tree, f"s{k:02}/a.npy")[0] for k in range(20)] == list(range(20))
        assert len([each for each in alive(Listing) if each.folder.path.startswith(str(tmp_path))]) <= 5
    assert stamps[0] == stamps[1]  # what was opened before it was forgotten can be read on


# options


def test_options_go_to_every_set(tmp_path: Path) -> None:
    save(tmp_path / "a.npy", np.zeros((10, 8, 8), "<u2"))
    save(tmp_path / "b.npy", np.zeros((3, 4, 4), "<u2"))
    folder_tree = plans.folder_tree(
        tmp_path, OpenOptions(chunks="frames", dtype="f4"), view=plans.TreeView(zarr_format=3)
    )
    assert names(folder_tree) == ["a.npy", "a.ome.zarr", "a.zarr", "b.npy", "b.ome.zarr", "b.zarr"]
    assert folder_tree.at("a.npy").node().size == 128 + 640 * 4  # type: ignore[union-attr]
    assert folder_tree.at("b.zarr/data/c/2/0/0").node().size == 64  # type: ignore[union-attr]
    (tmp_path / "c.bin").write_bytes(bytes(64))
    raw = plans.folder_tree(tmp_path, OpenOptions(format="raw", dtype="u1"), {"sig_shape": "4,4"})
    assert names(raw) == faces("c")
    assert raw.at("c.npy").node().size == 192  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nav_shape": (2, 2)}, "nav_shape is for one data set"),
        ({"array": "data"}, "array is for one data set"),
        ({"dark": "x.npy"}, "dark is for one data set"),
        ({"chunks": "1,-1,-1"}, "elements per axis are for one data set"),
        ({"chunks": (1, 2)}, "elements per axis are for one data set"),
        ({"chunks": "nonsense"}, "nonsense"),
        ({"backend": "nonsense"}, "backend='nonsense'"),
        ({"dtype": "nonsense"}, "dtype='nonsense'"),
        ({"series": False}, "series is an option of a format"),
        ({"format": "npy", "series": False}, "format npy has no option 'series'"),
        ({"format": "nonsense"}, "no format is called"),
        ({"zarr_format": 4}, "zarr_format=4"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    view = plans.TreeView(zarr_format=options.pop("zarr_format", None))
    with pytest.raises(OptionError, match=message):
        plans.folder_tree(tmp_path, *split(OpenOptions, options), view)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", save(tmp_path / "a.npy")):
        with pytest.raises(OptionError, match="expected a folder"):
            plans.folder_tree(path)
    for call in (
        lambda: vfs.mount([tmp_path, tmp_path], tmp_path, tree=True),
        lambda: vfs.mount(tmp_path, tmp_path, show_files=True),
    ):
        with pytest.raises(OptionError, match="tree=True"):
            call()


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")  # some were stopped
@pytest.mark.skipif(not SHARED.exists(), reason="no real files here")
def test_every_set_of_real_files_is_shown_once_with_all_its_faces(caplog: pytest.LogCaptureFixture) -> None:
    shared = SHARED.resolve()
    folder_tree = plans.folder_tree(shared)
    shown: dict[tuple[str, ...], list[str]] = {}
    stack: list[str] = [""]
    while stack:
        path = stack.pop()
        for name in folder_tree.at(path).children():
            at = f"{path}/{name}" if path else name
            if (shared / at).is_dir():
                stack.append(at)
            else:
                place = folder_tree.find(at)
                assert place is not None
                found = folder_tree.at(at).in_face()
                paths = (place.listing.folder.join(place.name),) if found is None else tuple(found.opening.paths)
                shown.setdefault(paths, []).append(place.ending or "")
    covered: set[str] = set()
    for paths, endings in shown.items():
        group = vfs.open_group(list(paths), backend="buffered")  # all files of a stack
        assert endings == list(set_of(group).tree.faces())
        covered |= {*paths, *(name for array in group.values() for name in array.files)}
    for folder, _, files in os.walk(shared):
        for path in (os.path.join(folder, name) for name in files):
            if path not in covered and path.lower().endswith(folder_tree.rules.endings):
                with pytest.raises(VfsError):
                    vfs.open_group(path, backend="buffered")
    assert len(shown) > 100
