"""Reads whose windows a kernel fetches and decodes by itself give what reads window by window give,
and the same errors.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from vfs import kernels
from vfs.errors import SourceChangedError, TruncatedSourceError
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_mib, write_raw

FRAMES = np.random.default_rng(4).integers(0, 4096, (24, 16, 64)).astype("u2")
PLAIN = {"swapped": ">u2", "bytes": "u1", "signed": ">i4", "floats": ">f8"}
PACKED = {"bits": 1, "lanes": 12, "halves": 24}


def opened(folder: Path, name: str, **options: Any) -> vfs.VirtualArray:
    """A set of that name in a folder, of three files with headers, read with pread."""
    if name in PACKED:
        depth = PACKED[name]
        frames = (FRAMES % 2).astype("u1") if depth == 1 else FRAMES.astype("u4") * 4096 + 17 if depth == 24 else FRAMES
        path = folder / "scan.hdr"
        if not path.exists():
            write_mib(folder, frames, kind="R64", depth=depth, frames_per_file=9)
        return vfs.open(path, backend="buffered", **options)
    dtype = PLAIN[name]
    if not list(folder.glob("*.bin")):
        write_raw(
            folder,
            (FRAMES.astype(float) - 2000 * (dtype[1] in "if")).astype(dtype),
            frame_header=7,
            file_header=5,
            files=3,
        )
    shape = {"sig_shape": (16, 64), "frame_header": 7, "file_header": 5}
    return vfs.open(
        str(folder / "*.bin"), format="raw", backend="buffered", **shape, **{"stored_dtype": dtype, **options}
    )


@pytest.mark.parametrize("name", [*PLAIN, *PACKED])
@given(data=st.data())
def test_equal_to_reads_window_by_window(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """Also where a window has to be cut, or only some of its lines are wanted."""
    folder = tmp_path_factory.getbasetemp() / f"reading-{name}"
    folder.mkdir(exist_ok=True)
    array = opened(
        folder,
        name,
        sync_offset=data.draw(st.sampled_from([0, 0, -2, 3])),
        dtype=data.draw(st.sampled_from([None, "f4", "f8"])),
    )
    ends = [sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))) for n in array.shape]
    cut = tuple(slice(a, b, data.draw(st.sampled_from([1, 1, 2, 5]))) for a, b in ends)
    with mock.patch.object(reader_of(array).backend, "window", data.draw(st.sampled_from([64, 700, 9000, 1 << 19]))):
        got = array.read(cut)
        with mock.patch.object(reader_of(array).backend, "lend", return_value=None):
            np.testing.assert_array_equal(got, array.read(cut), strict=True)


@pytest.mark.parametrize("name", ["swapped", "lanes", "halves"])
def test_a_kernel_goes_through_all_windows_of_a_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = opened(tmp_path, name)
    expected = array[...]
    calls = []
    kernel = kernels.fetch.decode_windows

    def counted(rows: np.ndarray, wins: np.ndarray, *rest: Any) -> int:
        calls.append(len(wins))
        return kernel(rows, wins, *rest)  # type: ignore[no-any-return]

    monkeypatch.setattr(kernels.fetch, "decode_windows", counted)
    monkeypatch.setattr(reader_of(array).backend, "window", 1000)
    monkeypatch.setattr(reader_of(array).backend, "span", lambda *args: pytest.fail("was read by itself"))
    np.testing.assert_array_equal(array.read(), expected)
    assert len(calls) == 3
    assert min(calls) > 10


@pytest.mark.parametrize("options", [{}, {"dtype": "f4"}, {"gain": np.ones((16, 64), "f4")}])
def test_what_goes_wrong_is_said(tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the kernel meets, the file and its bytes are named."""
    array = opened(tmp_path, "swapped", **options)
    reader_of(array).backend.window = 1000
    array.read()
    path = Path(array.files[1])
    whole, time = path.read_bytes(), path.stat().st_mtime_ns
    kernel = kernels.fetch.decode_windows

    def meanwhile(before: Callable[[], None] = lambda: None, after: Callable[[], None] = lambda: None) -> None:
        def wrapped(*args: Any) -> int:
            before()
            bad: int = kernel(*args)
            after()
            return bad

        monkeypatch.setattr(kernels.fetch, "decode_windows", wrapped)

    meanwhile(before=lambda: os.truncate(path, 5000))
    with pytest.raises(
        TruncatedSourceError,
        match=r"part1\.bin: expected bytes [\d,]+ to [\d,]+, the file has 5,000; it looks truncated \[reading ",
    ):
        array.read()
    path.write_bytes(whole)
    os.utime(path, ns=(time, time))
    meanwhile()
    array.read()
    meanwhile(after=lambda: os.utime(path, ns=(1, 1)))
    with pytest.raises(
        SourceChangedError, match=r"part1\.bin: expected bytes [\d,]+ to [\d,]+, but the file was changed"
    ):
        array.read()


def test_a_window_that_can_be_read_after_all_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may end a call of the system before anything was read."""
    array = opened(tmp_path, "halves")  # these add to what is there: nothing may be decoded twice
    expected = array[...]
    reader_of(array).backend.window = 1000
    kernel = kernels.fetch.decode_windows

    def interrupted(rows: np.ndarray, wins: np.ndarray, *rest: Any) -> int:
        done: int = kernel(rows, wins[:2], *rest)
        return 2 if done < 0 and len(wins) > 2 else done

    monkeypatch.setattr(kernels.fetch, "decode_windows", interrupted)
    np.testing.assert_array_equal(array.read(), expected)
