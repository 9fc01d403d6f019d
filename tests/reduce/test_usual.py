"""Detectors around the bright-field disk, which is looked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.reduce import growing
from vfs.reduce.growing import State
from vfs.reduce.usual import usual_detectors
from vfs.testing.inside import reader_of

WORDS = {
    "bf": vfs.BrightField(),
    "abf": vfs.AnnularBrightField(),
    "adf": vfs.AnnularDarkField(),
    "haadf": vfs.HighAngleDarkField(),
}


def patterns(scan: tuple[int, ...]) -> np.ndarray:
    """Frames with a disk of radius 7 at (20, 25), uint16[*scan, 48, 50]."""
    y, x = np.mgrid[:48, :50]
    light = np.where(np.hypot(y - 20, x - 25) < 7, 500, 10)
    return np.random.default_rng(1).poisson(np.broadcast_to(light, (*scan, 48, 50))).astype(np.uint16)


@pytest.mark.parametrize("scan", [(3, 4), (12,), (2, 3, 2)])
def test_detectors_find_the_disk(tmp_path: Path, scan: tuple[int, ...]) -> None:
    frames = patterns(scan)
    np.save(tmp_path / "a.npy", frames)
    found = vfs.open(tmp_path / "a.npy", sig_ndim=2).reduce(**WORDS)
    y, x = np.mgrid[:48, :50]
    far = np.hypot(y - 20, x - 25)
    numbers = {"bf": (0, 7), "abf": (3.5, 7), "adf": (7, 13.8), "haadf": (13.8, 20.5)}
    for name, (r0, r1) in numbers.items():
        said = [float(part.partition("=")[2]) for part in found[name].reduction.rstrip(")").split("(")[1].split(",")]
        np.testing.assert_allclose(said, [20, 25, r1] if name == "bf" else [20, 25, r0, r1], atol=0.6)
        about = (far >= said[2]) & (far < said[3]) if name != "bf" else far < said[2]
        np.testing.assert_array_equal(found[name].data, (frames * about).sum(axis=(-2, -1)))


def test_the_place_is_found_once(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", patterns((3, 4)))
    a = vfs.open(tmp_path / "a.npy", derive=["bf", "dark=adf(dtype=f4)"])
    expected = a.reduce(bf=vfs.BrightField(), dark=vfs.AnnularDarkField("f4"))
    with ThreadPoolExecutor(2) as pool:
        shared = a.reduce(bf=vfs.BrightField(), dark=vfs.AnnularDarkField("f4"), executor=pool)
    for name, result in expected.items():
        derived = a.group[f"derived/{name}"]
        np.testing.assert_array_equal(derived[:], result)
        np.testing.assert_array_equal(shared[name], result)
        assert derived.attrs["reduction"] == result.reduction == shared[name].reduction
    assert expected["dark"].dtype == np.float32
    assert expected["bf"].reduction.startswith("disk(cy=20.")


def test_without_a_disk_nothing_is_guessed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(1).poisson(5, (3, 4, 32, 32)))
    np.save(tmp_path / "spectra.npy", np.ones((3, 4, 5)))
    with pytest.raises(vfs.OptionError, match=r"^dark: found no bright-field disk .* say where it is"):
        vfs.open(tmp_path / "a.npy").reduce(dark=vfs.AnnularDarkField())
    with pytest.raises(vfs.OptionError, match="derive: bf: found no bright-field disk"):
        vfs.open(tmp_path / "a.npy", derive=["bf"])
    with pytest.raises(vfs.OptionError, match="bf: data: expected a scan of frames with two axes"):
        vfs.open(tmp_path / "spectra.npy", sig_ndim=1).reduce(bf=vfs.BrightField())


def test_small_frames_have_detectors_too() -> None:
    for height, width in ((4, 4), (1, 9), (30, 8)):
        for one in usual_detectors(height / 2, width / 2, 50, height, width).values():
            numbers = [value for value in list(vars(one).values())[2:-1] if value is not None]
            assert numbers == sorted(numbers)
            assert numbers[-1] >= 0.8


def test_a_growing_scan_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = patterns((3, 2, 2))
    path = tmp_path / "a.raw"
    whole = frames.tobytes()
    path.write_bytes(whole[:5000])  # a frame, but none of the middle picture of the scan, in which the disk is found
    parts = [whole[5000:24500], whole[24500:40000], whole[40000:]]

    def now() -> State:
        how: dict[str, Any] = {"stored_dtype": "u2", "sig_shape": (48, 50), "nav_shape": (3, 2, 2)}
        return State(reader_of(vfs.open(path, follow=True, settle=0.0, **how)), not parts)

    def pause(seconds: float) -> None:
        with path.open("ab") as file:
            file.write(parts.pop(0))

    monkeypatch.setattr(growing.time, "sleep", pause)
    results = list(growing.reduce_growing(now, {"bf": vfs.BrightField()}))
    assert len({one["bf"].reduction for one in results}) == 1
    assert results[-1]["bf"].data.shape == (3, 2, 2)
    assert results[-1]["bf"].valid.all()
    assert len(results) == 3
