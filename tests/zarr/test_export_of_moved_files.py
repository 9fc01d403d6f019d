"""Exports of files that move meanwhile, or before the export is resumed: see `vfs.model.one_state`."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.cli.support import run
from tests.states import COUNT, HOW, OTHER, SIDE, Moving
from vfs.engine.open_sets import OPEN
from vfs.reduce import kept
from vfs.zarr.verify import verify

SHARDS: dict[str, Any] = {"chunks": "frames", "shards": (4, -1, -1, -1), **HOW}


class StoppedError(Exception):
    pass


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Moving:
    monkeypatch.setattr("tests.states.REPLACE", ("renamed",))  # the others take two steps, and may be met half way
    return Moving(tmp_path, random.Random(0))


def twins(target: Path) -> set[bool]:
    assert not verify(str(target)).bad
    store: Any = zarr.storage.ZipStore(target, mode="r") if target.suffix == ".zip" else str(target)
    values = np.asarray(zarr.open_group(store, mode="r")["data"][:])
    assert values.size == COUNT * SIDE * SIDE
    return set((values >= OTHER).reshape(-1).tolist())


def export(file: Moving, target: Path, kind: str, stop: bool = False, **how: Any) -> None:
    """Export a file that moves when a part of it is written."""
    left = [kind]

    def tell(done: int, of: int, stored: int) -> None:
        if left and done > of // 3:
            if stop:
                raise StoppedError
            file.move(left.pop())

    vfs.export(file.path, target, progress=tell, **SHARDS, **how)
    assert not left


@pytest.mark.parametrize("name", ["o.zarr", "o.zarr.zip"])
def test_an_export_is_of_one_state(file: Moving, tmp_path: Path, name: str) -> None:
    export(file, tmp_path / f"touched.{name}", "touched")
    assert len(twins(tmp_path / f"touched.{name}")) == 1
    with pytest.raises(vfs.SourceChangedError, match=r"x\.raw: changed while .*(ctime|inode).*resume=True"):
        export(file, tmp_path / name, "replaced")
    vfs.export(file.path, tmp_path / name, resume=True, **SHARDS)
    assert twins(tmp_path / name) == {file._other}


@pytest.mark.parametrize("kind", ["touched", "replaced"])
@pytest.mark.parametrize("name", ["o.zarr", "o.zarr.zip"])
def test_what_was_written_before_is_compared_with_the_files(file: Moving, tmp_path: Path, name: str, kind: str) -> None:
    with pytest.raises(StoppedError):
        export(file, tmp_path / name, kind, stop=True)
    file.move(kind)
    vfs.export(file.path, tmp_path / name, resume=True, **SHARDS)
    assert twins(tmp_path / name) == {file._other}


def test_units_of_workers_say_of_which_state_they_are(file: Moving, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        export(file, tmp_path / "o.zarr", "touched", executor=pool)
        with pytest.raises(vfs.SourceChangedError, match=r"x\.raw"):
            export(file, tmp_path / "p.zarr", "replaced", executor=pool)
    OPEN.close()
    assert len(twins(tmp_path / "o.zarr")) == 1


@pytest.mark.parametrize("kind", ["touched", "replaced"])
def test_a_state_of_a_pass_is_of_the_files_as_they_were(
    file: Moving, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("SECONDS", -1.0), ("STEP", 1 << 18), ("SHARE", 1e9)):
        monkeypatch.setattr(kept, name, value)
    real, saved = kept.KeptState.save, []

    def save(state: kept.KeptState, values: dict[str, Any]) -> None:
        real(state, values)
        saved.append(0)
        if len(saved) == 4:
            raise SystemExit(143)

    target = tmp_path / "s.npy"
    how = ("--format", "raw", "-o", "stored_dtype=<u2", "-o", f"sig_shape={SIDE},{SIDE}", "--resume")
    with monkeypatch.context() as patch:
        patch.setattr(kept.KeptState, "save", save)
        with pytest.raises(SystemExit):
            run("reduce", file.path, target, "s=framesum()", *how)
    file.move(kind)
    assert run("reduce", file.path, target, "s=framesum()", *how) == 0
    assert "the reduction starts again" in capfd.readouterr().err
    assert set((np.load(target) / SIDE**2 >= OTHER).tolist()) == {file._other}
