"""Sets whose files are not on this machine: everything that formats ask goes through their sources."""

from __future__ import annotations

import io
import json
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from vfs.backends.sourced import GAP, near
from vfs.errors import MissingSourceError, OutsideError, SourceChangedError, SourceError, TruncatedSourceError
from vfs.h5.asking import Answering, AskedFiles
from vfs.sources.globs import expand
from vfs.sources.names import absolute, beside, is_absolute, is_url
from vfs.testing.format_suite import quick
from vfs.testing.memory_sources import MemorySources
from vfs.testing.writers import write_mib, write_npy

FRAMES = np.arange(6 * 8 * 8, dtype="u2").reshape(6, 8, 8)


@pytest.fixture
def mib(tmp_path: Path) -> MemorySources:
    (tmp_path / "sub").mkdir()
    write_mib(tmp_path / "sub", FRAMES, frames_per_file=2, scan=(2, 3))
    write_npy(tmp_path, FRAMES, name="a.npy")
    return MemorySources.of(tmp_path)


def shown(name: str, sources: MemorySources, **options: Any) -> np.ndarray:
    return np.asarray(vfs.open(name, sources=sources, **options)[...]).reshape(FRAMES.shape)


def test_names_of_files() -> None:
    assert is_url("s3://bucket/x")
    assert not is_url("/a/b://c")
    assert absolute("s3://bucket/x") == "s3://bucket/x"
    assert is_absolute("memory://set/x")
    assert is_absolute("/x")
    assert not is_absolute("x/y")
    assert beside("memory://set/a.hdr", "b.mib") == "memory://set/b.mib"
    assert beside("/a.hdr", "b.mib") == "/b.mib"


def test_a_set_is_found_by_one_of_its_files_and_by_globs(mib: MemorySources) -> None:
    np.testing.assert_array_equal(shown("memory://set/sub/scan.hdr", mib), FRAMES)
    assert expand("memory://set/**/*.hdr", mib) == ["memory://set/sub/scan.hdr"]
    assert expand("memory://set/*", mib) == ["memory://set/a.npy"]  # `sub` is no file
    files = expand("memory://set/sub/*[0-9].mib", mib)
    assert len(files) == 3
    np.testing.assert_array_equal(shown("memory://set/sub/*[0-9].mib", mib), FRAMES)
    with pytest.raises(MissingSourceError, match=r"memory://set/\*.ser: no file matches"):
        vfs.open("memory://set/*.ser", sources=mib)
    with pytest.raises(MissingSourceError, match=r"memory://set/gone.npy: no such file"):
        vfs.open("memory://set/gone.npy", sources=mib)


def test_a_description_names_files_of_its_own_source(mib: MemorySources) -> None:
    for name, files in (("x", ["sub/scan.hdr"]), ("out", ["../secret/scan.hdr"]), ("abs", ["memory://other/scan.hdr"])):
        document = {"vfs": 1, "format": "mib", "files": files, "options": {"roi": "roi.npy"} if name == "x" else {}}
        mib.contents[f"memory://set/{name}.vfs.json"] = json.dumps(document).encode()
    mib.contents["memory://set/roi.npy"] = _npy(np.array([0, 4]))
    array = vfs.open("memory://set/x.vfs.json", sources=mib)
    np.testing.assert_array_equal(array[...], FRAMES[[0, 4]])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], FRAMES[[0, 4]])
    for name in ("out", "abs"):
        with pytest.raises(OutsideError, match="leaves the folder of the description"):
            vfs.open(f"memory://set/{name}.vfs.json", sources=mib)


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_a_file_that_changes_or_ends_is_an_error(mib: MemorySources) -> None:
    name = "memory://set/a.npy"
    array = vfs.open(name, sources=mib)
    whole = mib.contents[name]
    mib.contents[name] = whole + b"x"
    with pytest.raises(SourceChangedError, match=r"a.npy: was changed .*\[reading data"):
        array[...]
    mib.contents[name] = whole[:-10]
    with pytest.raises(TruncatedSourceError, match=r"a.npy: expected bytes .* it looks truncated \[reading data"):
        array[...]
    del mib.contents[name]
    with pytest.raises(MissingSourceError, match=r"a.npy: no such file"):
        array[...]
    mib.contents[name] = whole
    np.testing.assert_array_equal(array[...], FRAMES)


@quick
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5)), min_size=1, max_size=20))
def test_ranges_that_lie_near_are_read_at_once(some: list[tuple[int, int]]) -> None:
    rows = np.array([(0, first * GAP, first * GAP + size, 0) for first, size in some], np.int64)
    groups = near(rows)
    assert all(any(first <= a and b <= last for first, last in groups) for _, a, b, _ in rows.tolist())
    assert all(b - a > GAP for (_, a), (b, _) in pairwise(groups))
    ends = {edge for _, a, b, _ in rows.tolist() for edge in (a, b)}
    assert ends >= {edge for group in groups for edge in group}


def test_hdf5_links_lead_to_files_of_the_same_source_and_nowhere_else(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("hdf5plugin")
    (tmp_path / "sub").mkdir()
    with h5py.File(tmp_path / "sub/linked.h5", "w") as file:
        file.create_dataset("data", data=FRAMES, chunks=(1, 8, 8), compression="gzip")
    FRAMES.tofile(tmp_path / "frames.raw")
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file["own"] = FRAMES[:2]
        file["linked"] = h5py.ExternalLink("sub/linked.h5", "data")
        file["gone"] = h5py.ExternalLink("gone.h5", "data")
        file["out"] = h5py.ExternalLink("../secret.h5", "data")
        file["bad"] = h5py.ExternalLink("frames.raw", "data")
        file.create_dataset("raw", FRAMES.shape, "<u2", external=[("frames.raw", 0, FRAMES.nbytes)])
        layout = h5py.VirtualLayout(FRAMES.shape, "u2")
        layout[...] = h5py.VirtualSource("sub/linked.h5", "data", FRAMES.shape)
        file.create_virtual_dataset("virtual", layout)
    sources = MemorySources.of(tmp_path)
    with pytest.warns(vfs.IncompleteWarning):
        group = vfs.open_group("memory://set/set.h5", sources=sources)
    assert set(group) == {"own", "linked", "raw", "virtual"}
    for name in ("linked", "raw", "virtual"):
        np.testing.assert_array_equal(group[name][...], FRAMES)
    left = group.main.attrs["root"]["left_out"]
    assert "missing" in left["gone"]
    assert "outside the folder" in left["out"]
    assert "cannot be read as HDF5" in left["bad"]
    sources.contents["memory://set/set.h5"] = sources.contents["memory://set/set.h5"][:3000]
    with pytest.raises(vfs.FormatError, match=r"set.h5"):
        vfs.open_group("memory://set/set.h5", sources=sources)


def test_the_other_process_reads_only_files_that_links_led_to() -> None:
    sources = MemorySources({f"memory://set/{name}": bytes(10) for name in ("a.h5", "sub/b.h5", "c.h5")})
    answering = Answering(sources, "memory://set/a.h5")
    files = AskedFiles(answering.theirs.detach())

    def ask(*question: Any) -> bytes:
        files.socket.send(json.dumps(question).encode())
        answering.answer()
        return files.said()

    try:
        assert ask("read", "memory://set/a.h5", 2, 100) == bytes(8)
        with pytest.raises(OutsideError, match="was not named"):
            ask("read", "memory://set/sub/b.h5", 0, 10)
        assert ask("join", "memory://set\0sub/b.h5") == b"memory://set/sub/b.h5"
        assert json.loads(ask("state", "memory://set/sub/b.h5")) == [10, 1]
        with pytest.raises(OutsideError):
            ask("join", "memory://set\0../x.h5")
        assert ask("join", "memory://set\0none.h5") == b"memory://set/none.h5"
        with pytest.raises(SourceError, match="no such file"):
            ask("state", "memory://set/none.h5")
    finally:
        files.socket.close()
        assert not answering.answer()
        answering.close()
