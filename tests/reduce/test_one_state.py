"""Passes over files that move meanwhile: see `vfs.model.one_state`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.states import COUNT, HOW, OTHER, REPLACE, SIDE, TOUCH, Moving
from vfs.engine.open_sets import OPEN
from vfs.reduce import partitions

Made = Callable[[vfs.VirtualArray, Callable[..., Any]], Any]


def threads(a: vfs.VirtualArray, tell: Callable[..., Any]) -> Any:
    return a.reduce(s=vfs.FrameSum(), workers=1, progress=tell)


def pool(a: vfs.VirtualArray, tell: Callable[..., Any]) -> Any:
    with ThreadPoolExecutor(1) as executor:  # its tasks open the set by themselves, as those of other processes do
        return a.reduce(s=vfs.FrameSum(), executor=executor, progress=tell)


def parts(a: vfs.VirtualArray, tell: Callable[..., Any]) -> Any:
    done = 0
    for found in a.reduce_partial(s=vfs.FrameSum(), parts=8, workers=0):
        assert np.count_nonzero(found["s"].valid) > done  # those that were given do not come again
        done = np.count_nonzero(found["s"].valid)
        tell()
    return found


WAYS = {"threads": threads, "pool": pool, "parts": parts}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moving]:
    monkeypatch.setattr(partitions, "PARTITION", 1 << 18)
    monkeypatch.setattr(partitions, "RETURNED", 0)
    monkeypatch.setattr("vfs.reduce.blocks.FRAMES", 64)
    monkeypatch.setattr("vfs.reduce.blocks.READ", 1 << 17)
    monkeypatch.setattr("vfs.reduce.passes.TOLD", 0.0)
    yield Moving(tmp_path, random.Random(0))
    OPEN.close()


def told(file: Moving, way: str, at: int, again: int = 0, backend: str = "auto", **more: Any) -> tuple[Any, Any]:
    """Make a result of a file that is moved once, or after it again and again. Returns it, and which twins it is of."""
    calls = 0

    def tell(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == at or (again and calls > at and calls % again == 0):
            file.move(tell.kind)  # type: ignore[attr-defined]

    tell.kind = more.pop("kind")  # type: ignore[attr-defined]
    found = WAYS[more.pop("made", way)](vfs.open(file.path, backend=backend, **HOW, **more), tell)["s"].data
    assert found.size == COUNT
    assert file.moves
    return found, set((found / SIDE**2 >= OTHER).reshape(-1).tolist())


@pytest.mark.parametrize("how", [*REPLACE, *TOUCH])
@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("way", WAYS)
def test_a_pass_begins_again_once(file: Moving, way: str, backend: str, how: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("tests.states.REPLACE", (how,))
    monkeypatch.setattr("tests.states.TOUCH", (how,))
    # A worker may come while the file is written, or between two steps of what replaces it
    while_written = way == "pool" and how in ("copied", "in_place", "kept", "moved")
    with pytest.raises(vfs.SourceError) if while_written else nullcontext():
        _, twins = told(file, way, 3, backend=backend, kind="replaced" if how in REPLACE else "touched")
        assert len(twins) == 1
        if while_written:
            raise vfs.SourceError("it did not")


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_moves_on_is_an_error_or_accepted(file: Moving, way: str) -> None:
    with pytest.raises(vfs.SourceChangedError, match=r"x\.raw: .*again and again.*(ctime|inode) .*accept_changes=True"):
        told(file, way, 3, again=2, kind="touched")
    found, _ = told(file, way, 3, again=2, kind="touched", accept_changes=True)
    assert np.isfinite(found).all()


def test_a_tile_is_of_the_state_of_those_before(file: Moving) -> None:
    tiles = vfs.open(file.path, **HOW).tiles("64KiB", workers=0)
    next(tiles)
    file.move("replaced")
    with pytest.raises(vfs.SourceChangedError, match="again and again"):
        list(tiles)


def test_the_map_of_a_file_that_is_written_in_place_is_looked_at_again(file: Moving, monkeypatch: Any) -> None:
    a = vfs.open(file.path, dtype="f4", backend="mmap", **HOW)
    before, real, moved = np.array(a[0]), type(a._reader).read_once, []

    def read_once(*given: Any) -> None:
        real(*given)
        if not moved:
            moved.append(os.stat(file.path).st_ino)
            file._other ^= True
            file.in_place()

    monkeypatch.setattr(type(a._reader), "read_once", read_once)
    assert abs(float(a[0].max()) - float(before.max())) == OTHER
    assert os.stat(file.path).st_ino == moved[0]


@pytest.mark.parametrize("way", ["threads", "parts", "read"])
def test_frames_of_two_acquisitions_are_an_error(tmp_path: Path, way: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("vfs.reduce.passes.TOLD", 0.0)
    path, head = tmp_path / "x.raw", np.arange(63)
    np.full((64, 16, 16), 7, "<u2").tofile(path)
    how = {"stored_dtype": "<u2", "sig_shape": (16, 16), "nav_shape": (200,), "format": "raw", "backend": "buffered"}
    a, anew = vfs.open(path, follow=True, **how), np.full((80, 16, 16), 9, "<u2").tobytes()
    calls = 0

    def tell(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            path.write_bytes(anew)

    def read() -> None:
        a[:10]
        path.write_bytes(anew)
        a[10:20]

    def parts() -> None:
        for _ in a.reduce_partial(s=vfs.FrameSum(), roi=head, parts=6, workers=0):
            tell()

    ways = {"read": read, "parts": parts}
    with pytest.raises(vfs.SourceChangedError, match="another acquisition"):
        ways.get(way, lambda: a.reduce(s=vfs.FrameSum(), roi=head, workers=0, progress=tell))()
