"""Whole sets as signals of HyperSpy: numbers, axes and metadata are those of the reader for HyperSpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import vfs
from tests.cli.support import refused, run
from vfs.testing.writers import write_mib
from vfs.zarr.export import hyperspy

STEPS = ("--calibration", "scan_y=2nm", "--calibration", "y=0.5mrad")


def signal(path: Path) -> tuple[np.ndarray, list[dict[str, Any]], Any]:
    """Return numbers, axes and what the metadata say of a file, as RosettaSciIO reads it."""
    with h5py.File(path) as file:
        (made,) = file["Experiments"].values()
        axes = [dict(made[f"axis-{k}"].attrs) for k in range(made["data"].ndim)]
        flat: dict[str, Any] = {}
        made["metadata"].visititems(lambda name, group: flat.update({f"{name}/{k}": v for k, v in group.attrs.items()}))
        return made["data"][...], axes, flat


@pytest.mark.parametrize("block", [1, 32 << 20])
def test_a_scan_is_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(hyperspy, "BLOCK", block)
    monkeypatch.setattr(hyperspy, "CHUNK", 300)
    frames = np.random.default_rng(1).integers(0, 9000, (12, 8, 16)).astype(np.uint16)
    write_mib(tmp_path, frames, scan=(3, 4))
    assert run("export", tmp_path / "scan.hdr", tmp_path / "out.hspy", *STEPS) == 0
    numbers, axes, said = signal(tmp_path / "out.hspy")
    np.testing.assert_array_equal(numbers, frames.reshape(3, 4, 8, 16)[..., ::-1, :])  # the top row first
    assert [(axis["name"], bool(axis["navigate"])) for axis in axes] == [
        ("scan_y", True),
        ("scan_x", True),
        ("y", False),
        ("x", False),
    ]
    assert [(axis["scale"], axis["offset"], axis["units"]) for axis in axes][::2] == [(2, 0, "nm"), (0.5, -3.5, "mrad")]
    assert (said["Signal/signal_type"], said["General/title"]) == ("electron_diffraction", "scan")
    again = vfs.open(tmp_path / "out.hspy")
    np.testing.assert_array_equal(again[...], numbers)


def test_what_is_no_signal_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.zeros((0, 4), "u2"))
    assert "expected numbers for OUT.hspy" in refused(capsys, "export", tmp_path / "a.npy", tmp_path / "a.hspy")
    np.save(tmp_path / "b.npy", np.zeros((5, 4), "u2"))
    said = refused(capsys, "export", tmp_path / "b.npy", tmp_path / "b.hspy", "--codec", "none")
    assert "--codec has no effect" in said
    assert not list(tmp_path.glob("*.hspy*"))
