"""What napari knows of vfs before it imports it. What it then gets is in tests/doors/test_napari.py."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.engine.support import halved
from vfs.integrations import napari
from vfs.integrations.upright import open_upright
from vfs.reduce import pyramid
from vfs.testing.stack_writers import write_mrc
from vfs.testing.writers import write_mib


def test_the_manifest_names_the_reader() -> None:
    (entry,) = entry_points(group="napari.manifest", name="vfs")
    package, _, name = entry.value.partition(":")
    assert f"python_name: {napari.__name__}:{napari.get_reader.__name__}\n" in (files(package) / name).read_text()


@pytest.mark.parametrize("name", ["a.h5", "a.HDF5", "a.hdr", "a.xml", "a.seq", "a.map"])
def test_files_of_other_programs_are_left_to_others(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"something else" * 999)
    assert napari.get_reader(str(tmp_path / name)) is None


def test_files_with_an_ending_of_ours_are_opened_even_if_that_fails(tmp_path: Path) -> None:
    (tmp_path / "a.mib").write_bytes(b"something else" * 999)
    reader = napari.get_reader([str(tmp_path / "a.mib")])
    assert reader is not None
    with pytest.raises(vfs.UnknownFormatError, match=r"a\.mib: no format recognises it"):
        reader(str(tmp_path / "a.mib"))


def test_files_that_are_recognised_are_opened(tmp_path: Path) -> None:
    import numpy as np

    path = write_mib(tmp_path, np.zeros((2, 4, 4), "u2"))
    assert path.suffix == ".hdr"
    assert napari.get_reader(str(path)) is napari.read
    assert napari.get_reader([str(path)]) is napari.read
    assert napari.get_reader("https://host/scan.hdr") is napari.read  # nobody is asked


def test_the_top_row_comes_first(tmp_path: Path) -> None:
    frames = np.arange(6 * 16 * 16, dtype="u2").reshape(6, 16, 16)
    path = write_mib(tmp_path, frames)
    assert vfs.open(path).attrs["rows"] == "bottom first"
    ((data, given, _),) = napari.read(str(path))
    assert (np.asarray(data[2]) == frames[2, ::-1]).all()
    assert given["metadata"]["vfs"]["rows"] == "top first"
    stack = write_mrc(tmp_path, frames.astype("i2"), 1)
    assert vfs.open(stack).attrs["rows"] == "bottom first"
    assert (open_upright(stack, turn=True)[2] == frames[2, ::-1]).all()
    (signal,) = vfs.rsciio.file_reader(stack)
    assert (signal["data"] == frames).all(), "as RosettaSciIO has it"


def test_large_images_have_smaller_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(napari, "_LARGE", 100)
    monkeypatch.setattr(pyramid, "COARSEST", 30)
    frames = np.random.default_rng(2).integers(0, 999, (2, 80, 110)).astype("u2")
    np.save(tmp_path / "large.npy", frames)
    ((levels, given, _),) = napari.read(str(tmp_path / "large.npy"))
    assert (given["multiscale"], [level.shape for level in levels]) == (True, [(2, 80, 110), (2, 40, 55), (2, 20, 28)])
    np.testing.assert_array_equal(levels[1][:, 4:9, 2:7][(1,)], halved(frames[1])[4:9, 2:7])
    np.save(tmp_path / "small.npy", frames[:, :, :100])
    ((data, given, _),) = napari.read(str(tmp_path / "small.npy"))
    assert (given["multiscale"], data.shape) == (False, (2, 80, 100))
