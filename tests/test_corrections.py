"""Dark, gain and excluded pixels equal a plain numpy twin, whatever box is read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from vfs.corrections import Corrections


def twin(frames: np.ndarray, dark: Any = None, gain: Any = None, dead: np.ndarray | None = None) -> np.ndarray:
    """The obvious way: whole frames, a loop over excluded pixels."""
    kind = np.float64 if frames.dtype.itemsize == 8 else np.float32
    out = frames.astype(kind)
    if dark is not None:
        out = out - np.asarray(dark, np.float32)
    if gain is not None:
        out = out * np.asarray(gain, np.float32)
    if dead is not None:
        clean = out.copy()
        for y, x in np.argwhere(dead):
            r = 1
            while True:
                near = np.zeros_like(dead)
                near[max(0, y - r) : y + r + 1, max(0, x - r) : x + r + 1] = True
                near &= ~dead
                if near.any():
                    break
                r += 1
            out[..., y, x] = clean[..., near].mean(axis=-1, dtype=np.float64)
    return out


def written(folder: Path, frames: np.ndarray) -> Path:
    np.save(folder / "frames.npy", frames)
    return folder / "frames.npy"


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 60000, (5, 12, 9)).astype("u2")


def test_dark_and_gain(tmp_path: Path, frames: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    dark, gain = rng.random((12, 9)) * 100, rng.random((12, 9)) + 0.5
    array = vfs.open(written(tmp_path, frames), dark=dark, gain=gain)
    assert array.dtype == np.float32
    np.testing.assert_allclose(array[...], twin(frames, dark, gain), rtol=1e-5)
    np.testing.assert_allclose(array[1:4, 3:11:2, ::-3], twin(frames, dark, gain)[1:4, 3:11:2, ::-3], rtol=1e-5)


def test_dark_only_and_stack_of_darks(tmp_path: Path, frames: np.ndarray) -> None:
    stack = np.random.default_rng(1).integers(0, 100, (7, 12, 9))
    array = vfs.open(written(tmp_path, frames), dark=stack)
    np.testing.assert_allclose(array[...], twin(frames, stack.mean(axis=0)), rtol=1e-5)


@given(data=st.data())
def test_excluded_pixels_also_across_borders(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    h, w = data.draw(st.integers(2, 9)), data.draw(st.integers(2, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    frames = rng.integers(0, 1000, (3, h, w)).astype(data.draw(st.sampled_from(["u1", "u2", "i4", "f4", "f8", ">u2"])))
    dead = rng.random((h, w)) < data.draw(st.sampled_from([0.05, 0.3, 0.8]))
    dead[rng.integers(h), rng.integers(w)] = False
    dark, gain = rng.random((h, w)), rng.random((h, w))
    path = written(tmp_path_factory.mktemp("dead"), frames)
    array = vfs.open(path, dark=dark, gain=gain, dead=dead, chunks=(1, 2, 3), backend=data.draw(st.sampled_from(["mmap", "buffered"])))
    want = twin(frames, dark, gain, dead)
    np.testing.assert_allclose(array[...], want, rtol=1e-4, atol=1e-4)
    a, b = sorted((data.draw(st.integers(0, h)), data.draw(st.integers(0, h))))
    c, d = sorted((data.draw(st.integers(0, w)), data.draw(st.integers(0, w))))
    step = data.draw(st.integers(1, 3))
    np.testing.assert_allclose(array[::2, a:b:step, c:d], want[::2, a:b:step, c:d], rtol=1e-4, atol=1e-4)
    for region, tile in array.tiles():
        np.testing.assert_allclose(tile, want[region.slices], rtol=1e-4, atol=1e-4)


def test_coordinates_files_and_pickles(tmp_path: Path, frames: np.ndarray) -> None:
    dead = np.zeros((12, 9), bool)
    dead[3, 4] = dead[0, 0] = dead[11, 8] = True
    np.save(tmp_path / "dark.npy", np.full((12, 9), 7.5))
    np.save(tmp_path / "dead.npy", dead)
    path = written(tmp_path, frames)
    want = twin(frames, np.full((12, 9), 7.5), None, dead)
    by_coordinates = vfs.open(path, dark=tmp_path / "dark.npy", dead=np.argwhere(dead))
    by_file = vfs.open(path, dark=str(tmp_path / "dark.npy"), dead=str(tmp_path / "dead.npy"))
    for array in (by_coordinates, by_file, pickle.loads(pickle.dumps(by_file))):
        np.testing.assert_allclose(array[...], want, rtol=1e-5)


def test_told_dtype_is_kept(tmp_path: Path, frames: np.ndarray) -> None:
    array = vfs.open(written(tmp_path, frames), dark=np.full((12, 9), 0.0), dtype="u2")
    assert array.dtype == np.uint16
    assert (array[...] == frames).all()


def test_floats_are_corrected_though_no_dtype_changes(tmp_path: Path, frames: np.ndarray) -> None:
    array = vfs.open(written(tmp_path, frames.astype("f4")), dark=np.ones((12, 9)))
    np.testing.assert_allclose(array[2], frames[2].astype("f4") - 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"dark": np.zeros((3, 3))}, "dark has shape"),
        ({"gain": np.zeros((12, 9), complex)}, "gain is complex"),
        ({"dead": np.ones((12, 9), bool)}, "every pixel"),
        ({"dead": np.array([[12, 0]])}, "coordinates reach"),
        ({"dead": np.zeros((4, 4, 4))}, "dead is"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, frames: np.ndarray, what: dict[str, Any], message: str) -> None:
    with pytest.raises(vfs.OptionError, match=message):
        vfs.open(written(tmp_path, frames), **what)


def test_complex_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(vfs.OptionError, match="real pixels"):
        vfs.open(written(tmp_path, np.zeros((2, 3, 4), complex)), dark=np.zeros((3, 4)))


def test_nothing_given_is_nothing() -> None:
    assert Corrections.of((4, 4), np.dtype("u2")) is None
