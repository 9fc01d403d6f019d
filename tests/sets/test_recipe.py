"""Recipes: Python that opens a set as it was opened. The page's tests run whole ones."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.model.open_options import OpenOptions
from vfs.sets import recipe
from vfs.sets.recipe import Recipe
from vfs.testing.writers import write_mib, write_npy

ODD = "both \" and ', \udcff and a\nline"


class Whole(IntEnum):
    few = 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((None, True, -3, 0.1, 1e-300, -np.inf), (None, True, -3, 0.1, 1e-300, -np.inf)),
        ([ODD, (1,), ()], [ODD, (1,), ()]),
        ({"a": [np.float32(0.1), np.uint8(3)]}, {"a": [float(np.float32(0.1)), 3]}),
        ([np.str_("data"), np.float64(1.5), np.int64(3), Whole.few], ["data", 1.5, 3, 2]),
        (vfs.Disk(np.float64(1.5), 2, r=np.float32(3)), vfs.Disk(1.5, 2, 3.0)),
        (Path("/some/where"), "/some/where"),
        (np.dtype(">u2"), ">u2"),
        (np.float16, "<f2"),
        (vfs.Disk(cy=1, cx=2.5, r=3, dtype="f4"), vfs.Disk(cy=1, cx=2.5, r=3, dtype="f4")),
        (vfs.Mean(), vfs.Mean()),
    ],
)
def test_values_that_python_reads_again(value: Any, expected: Any) -> None:
    assert eval(recipe._Writer().write(value), {"vfs": vfs}) == expected


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(3, 2),
        np.zeros((0, 2), ">i4"),
        np.array([[np.nan, 1j]]),
        np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32),
        np.random.default_rng(0).random((40, 30)) < 0.5,
        np.arange(100, dtype=">u2").reshape(4, 5, 5),
        np.arange(100)[::2],
    ],
)
def test_arrays_that_python_reads_again(array: np.ndarray) -> None:
    writer = recipe._Writer()
    names: dict[str, Any] = {}
    text = writer.write(array)
    exec("\n".join([*writer.imports, f"made = {text}"]), names)
    made = names["made"]
    assert (made.dtype, made.shape) == (array.dtype, array.shape)
    assert made.tobytes() == array.tobytes()


class Own(vfs.Mean):
    """A reduction that only this process knows."""


def test_values_that_have_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "PACKED", 1000)
    file = str(write_npy(tmp_path, np.zeros((4, 40, 30))))
    kept = {
        "cache_dir": tmp_path,
        "pyramid_cache": tmp_path,
        "pyramid_cache_size": 1,
    }  # names of folders are no numbers
    dark = np.random.default_rng(0).normal(size=(40, 30))
    options = OpenOptions(dark=dark, derive={"own": Own()}, sync_offset=1, **kept)
    made = Recipe.of([file], options, {})
    assert made.options == {"sync_offset": "1"}
    assert made.absent == ["dark", "derive"]
    assert made.words is None
    steps = {"scan_x": {"scale": 5.3, "unit": "nm"}, "energy": {"scale": 0.5, "offset": -20, "unit": "eV"}}
    signed = OpenOptions(
        sync_offset=-3, axes="-scan_x,scan_y|y,x", allow_incomplete=True, hide=["a", "b/c"], calibration=steps
    )
    assert Recipe.of([file], signed, {}).words == [
        file,
        "--hide=a",
        "--hide=b/c",
        "--sync-offset=-3",
        "--axes=-scan_x,scan_y|y,x",
        "--calibration=scan_x=5.3 nm",
        "--calibration=energy=0.5 eV from -20.0",
        "--allow-incomplete",
    ]
    assert Recipe.of([file, file], OpenOptions(), {}).words is None


def test_the_format_is_named_where_vfs_would_not_find_it(tmp_path: Path) -> None:
    file = str(write_mib(tmp_path, np.zeros((4, 8, 8), np.uint16)))
    assert Recipe.of([file], OpenOptions(format="mib"), {}).options == {}
    raw = {"stored_dtype": np.dtype("u1"), "sig_shape": (4, 4)}
    made = Recipe.of([file], OpenOptions(format="raw", backend="buffered", chunks="scan"), raw)
    assert made.options == {"format": '"raw"', "stored_dtype": '"|u1"', "sig_shape": "(4, 4)"}
    assert made.words == [file, "--format=raw", "-o", "stored_dtype=|u1", "-o", "sig_shape=4,4"]
    assert Recipe.of([file], OpenOptions(), {}).name == "scan"


def test_files_of_options_have_absolute_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(write_npy(tmp_path, np.zeros(4)))
    monkeypatch.chdir(tmp_path)
    assert Recipe.of([file], OpenOptions(format="npy"), {"map": "array.npy"}).options["map"] == f'"{file}"'
