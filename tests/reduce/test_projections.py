"""Reductions over some axes of the navigation: numpy's of the same axes, by every way to make results."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st

import vfs
from vfs.errors import OptionError
from vfs.reduce.spelling import read_call, spelled
from vfs.testing.writers import write_mib

VALUES = np.random.default_rng(0).integers(0, 4000, (3, 2, 5, 9, 12)).astype("u2")
AXES = ("t", "c", "z")
TWINS: dict[type[vfs.Reduction], Callable[..., np.ndarray]] = {
    vfs.Sum: np.sum,
    vfs.Mean: np.mean,
    vfs.Variance: np.var,
    vfs.Std: np.std,
    vfs.Max: np.max,
    vfs.Min: np.min,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stack") / "a.ome.tif"
    tifffile.imwrite(path, VALUES, metadata={"axes": "TCZYX"})
    return path


@pytest.fixture(scope="module")
def array(path: Path) -> vfs.VirtualArray:
    return vfs.open(path)


@given(
    kind=st.sampled_from([*TWINS]),
    over=st.lists(st.sampled_from(AXES), min_size=1, unique=True),
    ends=st.tuples(st.integers(0, 1), st.integers(2, 5)) | st.none(),
    workers=st.integers(0, 3),
)
def test_equals_numpy(
    array: vfs.VirtualArray, kind: Any, over: list[str], ends: tuple[int, int] | None, workers: int
) -> None:
    part = slice(*ends) if ends else slice(None)
    result = array.reduce(r=kind(over=dict.fromkeys(over, part)), workers=workers)["r"]
    taken = VALUES[tuple(part if axis in over else slice(None) for axis in AXES)]
    np.testing.assert_allclose(result.data, TWINS[kind](taken, axis=tuple(map(AXES.index, over))), rtol=1e-12)
    assert result.dims == (*(axis for axis in AXES if axis not in over), "y", "x")
    assert result.valid.all()
    again = read_call(result.reduction)
    assert spelled(again) == result.reduction


@pytest.mark.parametrize("over", ["z", ("t", "z"), AXES])
def test_every_way_makes_the_same(path: Path, array: vfs.VirtualArray, over: Any) -> None:
    expected = array.reduce(m=vfs.Mean(over=over), one=vfs.FrameSum(), all=vfs.Mean(over=AXES))
    np.testing.assert_allclose(expected["all"].data, VALUES.mean((0, 1, 2)))
    np.testing.assert_array_equal(expected["one"].data, VALUES.sum((3, 4)))
    *_, last = array.reduce_partial(parts=4, m=vfs.Mean(over=over))
    with ThreadPoolExecutor(2) as pool:
        shared = array.reduce(m=pickle.loads(pickle.dumps(vfs.Mean(over=over))), executor=pool)
    derived = vfs.open_group(path, derive={"m": vfs.Mean(over=over)})["derived/m"]
    assert derived.dims == expected["m"].dims
    for made in (last["m"].data, shared["m"].data, derived[...]):
        np.testing.assert_allclose(made, expected["m"].data)


def test_only_selected_frames_count(array: vfs.VirtualArray) -> None:
    chosen = np.random.default_rng(1).random(VALUES.shape[:3]) < 0.5
    chosen[0, 1] = False
    found = array.reduce(roi=chosen, m=vfs.Max(over="z"), n=vfs.Mean(over="z"), all=vfs.Max())
    masked = np.ma.MaskedArray(VALUES, ~np.broadcast_to(chosen[..., None, None], VALUES.shape))
    np.testing.assert_array_equal(found["m"].data, masked.max(2).filled(0))
    np.testing.assert_allclose(found["n"].data, masked.mean(2).filled(np.nan))
    assert np.isnan(found["n"].data[0, 1]).all()
    np.testing.assert_array_equal(found["all"].data, masked.max((0, 1, 2)))


@pytest.mark.parametrize("dtype", [">u2", "<i4", "?", "<f4", "<f8", "<c8"])
def test_any_pixels(tmp_path: Path, dtype: str) -> None:
    values = (np.random.default_rng(2).normal(size=(4, 3, 5, 6)) * 50).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    made = vfs.open(tmp_path / "a.npy", nav_shape=(4, 3)).reduce(s=vfs.Sum(over="scan_y"), v=vfs.Std(over="scan_x"))
    np.testing.assert_allclose(made["s"].data, values.sum(0), rtol=1e-5)
    np.testing.assert_allclose(made["v"].data, (values + 0).astype("c16" if dtype == "<c8" else "f8").std(1), rtol=1e-5)


def test_blank_frames_of_a_group_do_not_count(tmp_path: Path) -> None:
    frames = VALUES.reshape(-1, 9, 12)[:10]
    np.save(tmp_path / "a.npy", frames)
    made = vfs.open(tmp_path / "a.npy", nav_shape=(3, 4)).reduce(m=vfs.Mean(over="scan_x"))["m"].data
    np.testing.assert_allclose(made, [frames[:4].mean(0), frames[4:8].mean(0), frames[8:].mean(0)])


def test_several_axes_are_not_reduced_in_one_without_a_word(array: vfs.VirtualArray, path: Path) -> None:
    said = r"m=max\(\): over which axes\? m=max\(t\), m=max\(c\), m=max\(z\); over all: m=max\(t, c, z\)"
    with pytest.raises(OptionError, match=said):
        array.reduce(m=vfs.Max())
    with pytest.raises(OptionError, match="over which axes"):
        vfs.open(path, derive={"m": "max()"})
    assert array.reduce(m=vfs.FrameSum(), c=vfs.CenterOfMass())["m"].shape == VALUES.shape[:3]
    assert array.reduce(m=vfs.Max(), roi=[0, 3])["m"].shape == (9, 12)  # whoever chooses frames says which
    one_axis = vfs.open(path, roi=np.ones(VALUES.shape[:3], bool))
    assert one_axis.reduce(m=vfs.Max())["m"].shape == (9, 12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max(q)", "no axis 'q' to go over; there are t, c, z"),
        ("max(y)", "no axis 'y' to go over; there are t, c, z"),
        ("max(z=7:9)", "z=7:9: is empty; the axis z has 5 positions"),
    ],
)
def test_what_is_no_axis_is_an_error_of_one_line(array: vfs.VirtualArray, text: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        array.reduce(m=read_call(text))
    assert str(caught.value) == f"m: {said}"


@pytest.mark.parametrize("over", [3, ["z", 1], {"z": 3}, {"z": slice(0, 9, 2)}, {1: slice(3)}, {"z": (1, "a")}])
def test_what_names_no_axes_is_an_error(array: vfs.VirtualArray, over: Any) -> None:
    with pytest.raises(OptionError, match=r"expected names of axes, as in over='z'"):
        array.reduce(m=vfs.Max(over=over))


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("max(z)", "max(z)"),
        ("Max( t , z = 3:9 )", "max(t, z=3:9)"),
        ("mean(z=:4, dtype=f4)", "mean(z=:4, dtype=float32)"),
        ("sum(p)", "sum(p)"),  # not the dtype that numpy calls so
        ("sum(f4)", "sum(dtype=float32)"),
        ("std(scan_y=-2:)", "std(scan_y=-2:)"),
    ],
)
def test_as_text(text: str, again: str) -> None:
    assert spelled(read_call(text)) == again


def test_a_file_is_a_stack_of_imagej(array: vfs.VirtualArray, tmp_path: Path) -> None:
    for over, axes, order in (("z", "TCYX", (0, 1, 2, 3)), ("t", "ZCYX", (1, 0, 2, 3))):
        result = array.reduce(m=vfs.Max(over=over))["m"]
        result.save(tmp_path / f"{over}.tif")
        with tifffile.TiffFile(tmp_path / f"{over}.tif") as file:
            assert file.series[0].axes == axes
            np.testing.assert_array_equal(file.asarray(), result.data.transpose(order))
        assert vfs.open(tmp_path / f"{over}.tif").dims == tuple(axes.lower())


def test_frames_that_are_upside_down_are_saved_upright(tmp_path: Path) -> None:
    frames = VALUES.reshape(-1, 9, 12)[:6]
    write_mib(tmp_path, frames, scan=(2, 3))
    result = vfs.open(tmp_path / "scan.hdr").reduce(m=vfs.Max(over="scan_x"))["m"]
    result.save(tmp_path / "m.tif")
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "m.tif"), result.data[:, ::-1])


NAN: dict[str, Callable[..., Any]] = {
    "Sum": np.nansum,
    "Mean": np.nanmean,
    "Std": np.nanstd,
    "Variance": np.nanvar,
    "Max": np.nanmax,
    "Min": np.nanmin,
}


@pytest.mark.parametrize("name", NAN)
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:All-NaN", "ignore:Degrees of freedom")
def test_nan_is_left_out(tmp_path: Path, name: str) -> None:
    values = np.random.default_rng(3).normal(1e6, 1, (3, 5, 6, 7))
    values[np.random.default_rng(4).random(values.shape) < 0.3] = np.nan
    values[:, :, 2, 3] = np.nan
    np.save(tmp_path / "a.npy", values)
    array = vfs.open(tmp_path / "a.npy")
    kind = getattr(vfs, name)
    for workers in (0, 2):
        made = array.reduce(a=kind(skipna=True), b=kind(over="scan_x", skipna=True), c=kind(), workers=workers)
        np.testing.assert_allclose(made["a"].data, NAN[name](values, axis=(0, 1)), rtol=1e-9)
        np.testing.assert_allclose(made["b"].data, NAN[name](values, axis=1), rtol=1e-9)
        assert np.isnan(made["c"].data).any()
    assert spelled(kind(skipna=True)) == f"{name.lower()}(skipna=True)"
    assert read_call(f"{name.lower()}(skipna=true)") == kind(skipna=True)
    whole = np.arange(60, dtype=np.uint16).reshape(2, 5, 6)
    np.save(tmp_path / "b.npy", whole)
    (plain,) = vfs.open(tmp_path / "b.npy").reduce(a=kind(skipna=True)).values()
    np.testing.assert_allclose(plain.data, NAN[name](whole, axis=0))
