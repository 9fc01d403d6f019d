"""Sets in a tree of folders, answered by native code: the same bytes as by themselves, and never
those of another state, or of another set.

All of it is one process (see `tests.fuse.direct`); `tests/fuse/test_tree_mount.py` has the same through mounts.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuse.direct import Direct, every_path, same_as_the_tree
from tests.fuse.support import FAULTS, Scan, damage
from tests.waiting import eventually
from vfs.folder_tree import FolderTree, plans, served_sets
from vfs.folder_tree.listing import Listing
from vfs.folder_tree.records import LOOKS
from vfs.fuse import registry
from vfs.fuse.view import STAMP
from vfs.kernels.native.fuse import lookup
from vfs.kernels.native.words import LINE, TableWord
from vfs.model.open_options import OpenOptions
from vfs.testing.writers import write_mib


@pytest.fixture
def trees(direct: Callable[[FolderTree], Direct], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Direct]:
    def start(root: Path, trusted: float = 1000.0, **options: Any) -> Direct:
        """A tree whose files are looked at again after so many seconds, however long the last look took."""
        monkeypatch.setattr(LOOKS, "least", trusted)
        monkeypatch.setattr(LOOKS, "share", 0.0)
        return direct(plans.folder_tree(root, OpenOptions(**options)))

    return start


def put(path: Path, values: np.ndarray) -> np.ndarray:
    """A file that is there at once, as a whole."""
    aside = path.with_suffix(".unfinished")
    with aside.open("wb") as file:
        np.save(file, values)
    aside.rename(path)
    return values


def look_again(direct: Direct) -> None:
    """Have the top folder, and what is known of the files in it, looked at again, as after a while."""
    top = direct.folder._top  # type: ignore[attr-defined]
    top.folder.trust.end()
    for record in top.records.known.values():
        record.trust.end()


def error_of(call: Callable[[], object]) -> int:
    try:
        call()
    except OSError as error:
        return error.errno or -1
    return 0


def test_names_and_bytes_of_a_set_come_without_the_interpreter(tmp_path: Path, trees: Any) -> None:
    (tmp_path / "may/2024").mkdir(parents=True)
    frames = np.random.default_rng(1).integers(0, 1 << 12, (40, 64, 64)).astype("u2")
    write_mib(tmp_path / "may/2024", frames, kind="R64", depth=12, frames_per_file=15)
    put(tmp_path / "may/plain.npy", frames)
    direct = trees(tmp_path, chunks="frames")
    if not direct.view.is_fuse3:
        pytest.skip("the pointers of this test are those of libfuse 3")
    same_as_the_tree(direct)
    paths = list(every_path(direct.folder))
    chunks = [path for path in paths if path.endswith("/0/0") and not direct.folder.at(path).node().folder]  # type: ignore[union-attr]
    assert len(chunks) == 8 * 40
    for attempt in range(2):
        direct.behind = dict.fromkeys(direct.behind, 0)
        for path in chunks:
            assert direct.stat(path)
            info = direct.open(path)
            assert info.fh & lookup.OURS
            assert not info.keep_cache  # libfuse says so, where nothing changed
            assert direct.read(path, info, 1 << 14, 0) == direct.folder.at(path).get()
            assert direct.list(path[:-4])[2][0] == b"0"
        for path in ("may/2024/scan.npy", "may/plain.npy"):
            info = direct.open(path)
            assert direct.read(path, info, 1 << 20, 128) == frames.tobytes()
        if attempt:
            assert direct.behind == {"read": 0, "open": 0, "getattr": 0, "readdir": 0}


def test_after_a_while_files_are_looked_at_again(tmp_path: Path, trees: Any) -> None:
    values = put(tmp_path / "a.npy", np.arange(50_000, dtype="<u2"))
    direct = trees(tmp_path, trusted=0.05)
    info = direct.open("a.npy")
    for _ in range(3):
        assert direct.read("a.npy", info, 200_000, 128) == values.tobytes()
        direct.slow = 0
        assert eventually(lambda: direct.read("a.npy", info, 8, 128) == values[:4].tobytes() and direct.slow > 0)


@pytest.mark.parametrize("shown", ["<u2", "<u4"], ids=["from files", "decoded"])
def test_who_has_another_state_open_gets_an_error_and_nobody_else(tmp_path: Path, trees: Any, shown: str) -> None:
    old = np.arange(60_000, dtype=shown).reshape(60, 1000)
    source = tmp_path / "a.npy"
    put(source, old.astype("<u2"))
    put(tmp_path / "other.npy", (old + 1).astype("<u2"))
    direct = trees(tmp_path, trusted=0.05, dtype=shown)
    before, other = direct.open("a.npy"), direct.open("other.npy")
    assert before.fh & lookup.OURS
    assert direct.read("a.npy", before, 1 << 20, 128) == old.tobytes()
    source.rename(tmp_path / "aside")  # the file itself stays as it was: only its name is another one's
    put(source, (old + 7).astype("<u2"))
    found: list[Any] = []

    def new() -> bool:
        found.append(direct.open("a.npy"))
        try:
            return direct.read("a.npy", found[-1], 8, 128) == (old + 7).tobytes()[:8]
        except OSError:
            return False

    assert eventually(new)
    assert found[-1].fh != before.fh
    for _ in range(3):
        assert error_of(lambda: direct.read("a.npy", before, 8, 128)) == errno.EIO
        assert direct.read("a.npy", found[-1], 1 << 20, 128) == (old + 7).tobytes()
        assert direct.read("other.npy", other, 1 << 20, 128) == (old + 1).tobytes()
    direct.native_tables.retired.collect()
    direct.native_tables.retired.collect()
    assert len(direct.native_tables.retired) == 0
    assert len(direct.native_tables.registry.sources) == 2
    assert np.count_nonzero(direct.native_tables.registry.table.places) == 2


@pytest.mark.parametrize("fault", FAULTS)
def test_a_source_that_changes_in_a_tree_is_an_error_at_once(tmp_path: Path, trees: Any, fault: str) -> None:
    scan = Scan(tmp_path / "data")
    scan.describe((1, 5, 64, 48))
    direct = trees(tmp_path / "data")  # its files are taken to be what they were for as long as this lasts
    info, twin, frame = direct.open("part0.npy"), scan.twin.tobytes(), 64 * 48 * 2
    assert info.fh & lookup.OURS
    assert direct.read("part0.npy", info, len(twin), 128) == twin
    direct.slow = 0
    assert direct.read("part0.npy", info, len(twin), 128) == twin
    assert direct.slow == 0
    bad = scan.files[1]
    mend = damage(bad, fault)
    for _ in range(2):
        assert error_of(lambda: direct.read("part0.npy", info, 2 * frame, 128 + 20 * frame)) == errno.EIO
    mend()

    def back() -> bool:
        look_again(direct)
        try:
            return direct.read("part0.npy", direct.open("part0.npy"), len(twin), 128) == twin
        except OSError:
            return False

    assert eventually(back)


def test_a_set_that_was_only_closed_is_taken_up_again(
    tmp_path: Path, trees: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_sets, "OPEN", 2)
    values = [put(tmp_path / f"s{k}.npy", np.full((30, 700), k, "<u2")) for k in range(6)]
    direct = trees(tmp_path)
    opened = [direct.open(f"s{k}.npy") for k in range(6)]
    assert len({info.fh for info in opened}) == 6
    assert all(info.fh > STAMP for info in opened)
    assert STAMP + 1 == lookup.OURS
    for _ in range(3):
        for k, info in enumerate(opened):
            direct.slow = 0
            for _ in range(4):
                assert direct.read(f"s{k}.npy", info, 1 << 20, 128) == values[k].tobytes()
            assert direct.slow <= 2  # to open the set; and the first time the file
            assert len(direct.native_tables.registry.sources) <= 2
    put(tmp_path / "s3.npy", np.full((30, 700), 9, "<u2"))
    direct.folder._live._live.clear()  # type: ignore[attr-defined]  # closed, and not trusted
    direct.folder._live._recently_used.clear()  # type: ignore[attr-defined]
    look_again(direct)
    assert error_of(lambda: direct.read("s3.npy", opened[3], 8, 128)) == errno.EIO


def test_what_was_open_is_remembered_for_very_many(tmp_path: Path, trees: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "CLOSED", 8)
    monkeypatch.setattr(served_sets, "OPEN", 1)
    for k in range(40):
        put(tmp_path / f"s{k}.npy", np.full((30, 700), k, "<u2"))
    direct = trees(tmp_path)
    opened = [direct.open(f"s{k}.npy") for k in range(40)]
    assert len(direct.native_tables.registry.stamps) <= 8
    assert direct.read("s39.npy", opened[39], 8, 128) == np.full(4, 39, "<u2").tobytes()
    assert error_of(lambda: direct.read("s0.npy", opened[0], 8, 128)) == errno.EIO  # says: open it again
    assert direct.read("s0.npy", direct.open("s0.npy"), 8, 128) == bytes(8)


def test_readers_while_sets_are_replaced_and_closed(
    tmp_path: Path, trees: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is read is one of the sets that were there, as a whole, or an error; and all that
    was dropped is freed.
    """
    monkeypatch.setattr(served_sets, "OPEN", 3)
    for k in range(8):
        put(tmp_path / f"s{k}.npy", np.full((4, 50, 100), k, "<u2"))
    direct = trees(tmp_path, trusted=0.002, chunks="frames")
    wrong: list[object] = []
    good = [0]
    done = threading.Event()

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not done.is_set():
            k = int(rng.integers(8))
            path, start, size = (
                (f"s{k}.npy", 128, 40_000)
                if rng.random() < 0.5
                else (f"s{k}.zarr/data/c/{rng.integers(4)}/0/0", 0, 10_000)
            )
            try:
                info = direct.open(path)
                got = [direct.read(path, info, size, start) for _ in range(3)]
            except OSError as error:
                if error.errno != errno.EIO:
                    wrong.append(error)
                continue
            values = np.frombuffer(b"".join(got), "<u2")
            if values.size != 3 * size // 2 or len(set(values.tolist())) != 1 or values[0] % 8 != k:
                wrong.append((path, values.size, set(values.tolist())))
            good[0] += 1

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for reader in readers:
        reader.start()
    for n in range(8, 160):
        put(tmp_path / f"s{n % 8}.npy", np.full((4, 50, 100), n, "<u2"))
    assert eventually(lambda: good[0] > 200)
    done.set()
    for reader in readers:
        reader.join(100)
    assert wrong == []
    assert np.all(direct.native_tables.registry.table.words[[TableWord.INSIDE, TableWord.INSIDE + LINE]] == 0)
    assert eventually(lambda: not direct.native_tables.ahead.making)
    direct.native_tables.retired.collect()
    direct.native_tables.retired.collect()
    assert len(direct.native_tables.retired) == 0
    assert set(direct.native_tables.registry.numbers.values()) <= set(direct.native_tables.registry.sources)
    assert (
        np.count_nonzero(direct.native_tables.registry.table.places)
        == len(direct.native_tables.registry.sources)
        <= 2 * 3 * 2
    )
    assert (
        np.count_nonzero(direct.native_tables.names.places)
        == sum(entry is not None for entry in direct.native_tables.names.known.values())
        <= 3 * 5
    )


def test_a_folder_is_listed_while_one_in_it_goes_away(
    tmp_path: Path, trees: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its names are asked for one after the other; one that was read from is an error when it is
    gone, but not of the whole list.
    """
    (tmp_path / "sub").mkdir()
    (tmp_path / "top").mkdir()
    put(tmp_path / "sub/a.npy", np.arange(9))
    os.utime(tmp_path, (10**9, 10**9))  # a change within one tick of the clock of file times would not be seen
    direct = trees(tmp_path, trusted=0.0)
    direct.read("sub/a.npy", direct.open("sub/a.npy"), 100, 0)
    real = FolderTree.names

    def then_renamed(folder: FolderTree, listing: Listing, start: int, until: float) -> list[str]:
        names = list(real(folder, listing, start, until))
        (tmp_path / "sub").rename(tmp_path / "other")
        return names

    monkeypatch.setattr(FolderTree, "names", then_renamed)
    listed = {name: mode for name, _, mode, _, _ in direct.list("")}
    assert listed.keys() == {b".", b"..", b"sub", b"top"}
    assert listed[b"top"]
    assert not listed[b"sub"]  # a name and no more: who asks for it gets the error
    assert error_of(lambda: direct.stat("sub")) == errno.EIO
