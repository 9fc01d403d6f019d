"""Results and frames as pictures: HTML for notebooks, and matplotlib, with numbers, units and directions checked."""

from __future__ import annotations

import base64
import io
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from matplotlib.axes import Axes
from PIL import Image

import vfs
from vfs.pictures.results import drawn, wheel_colours
from vfs.reduce.result import Results
from vfs.testing.writers import write_mib, write_npy

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture(autouse=True)
def _closed() -> object:
    """Close the figures of a test: twenty open ones are a warning."""
    import matplotlib.pyplot as plt

    yield None
    plt.close("all")


@pytest.fixture
def frames(tmp_path: Path) -> vfs.VirtualArray:
    """A scan of 3 × 4 frames of 5 × 6; its steps are 2 nm, pixels 0.1 1/nm from -0.3 on."""
    values = np.random.default_rng(0).integers(1, 100, (12, 5, 6)).astype("u2")
    nm = {"scale": 2, "unit": "nm"}
    calibration = {"scan_y": nm, "scan_x": nm, "x": {"scale": 0.1, "offset": -0.3, "unit": "1/nm"}}
    return vfs.open(write_npy(tmp_path, values), nav_shape=(3, 4), calibration=calibration)


def made(result: vfs.Result) -> Axes:
    axes = result.plot()
    axes.figure.canvas.draw()
    return axes


def picture_in(html: str) -> np.ndarray:
    (data,) = re.findall(r"base64,([^']+)'", html)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_a_result_is_drawn_where_it_lies(frames: vfs.VirtualArray) -> None:
    results = frames.reduce(bf=vfs.Sum(), all=vfs.FrameSum())
    image = made(results["all"])
    assert np.array_equal(image.images[0].get_array(), results["all"].data)
    assert image.images[0].get_extent() == [-1, 7, 5, -1]
    assert (image.get_xlabel(), image.get_ylabel(), image.get_title()) == ("scan_x (nm)", "scan_y (nm)", "all")
    pattern = made(results["bf"])
    assert np.array_equal(pattern.images[0].get_array(), results["bf"].data)
    assert pattern.images[0].get_extent() == pytest.approx([-0.35, 0.25, 4.5, -0.5])
    assert (pattern.get_xlabel(), pattern.get_ylabel()) == ("x (1/nm)", "y")


def test_the_bar_of_a_pattern_ends_with_its_largest_value(tmp_path: Path) -> None:
    values = np.zeros((2, 16, 16), "u2")
    values[:, 4:9, 4:9] = 301  # its ticks are at 300 and, beyond the end, 350
    picture = vfs.open(write_npy(tmp_path, values)).plot(0).images[0]
    assert picture.norm(350) > 1


def test_lines_and_numbers_are_drawn_too(frames: vfs.VirtualArray) -> None:
    results = frames.reduce(h=vfs.Histogram(4, (0, 100)))
    (line,) = made(results["h"]).lines
    assert line.get_xdata().tolist() == [12.5, 37.5, 62.5, 87.5]
    assert np.array_equal(line.get_ydata(), results["h"].data)
    assert "<polyline" in results._repr_html_()
    one = vfs.Result("n", "single", np.asarray(2.5), (), "nm", {}, (), None, np.asarray(True))
    assert [text.get_text() for text in made(one).texts] == ["2.5 nm"]
    assert "2.5 nm" in one._repr_html_()


def test_all_results_stand_side_by_side(frames: vfs.VirtualArray) -> None:
    results = frames.reduce(a=vfs.Sum(), b=vfs.FrameSum(), c=vfs.CenterOfMass())
    assert isinstance(results, Results)
    figure = results.plot()
    assert [axes.get_title() for axes in figure.axes if axes.get_title()] == ["a", "b", "c"]
    assert results._repr_html_().count("<img ") == 3
    with pytest.raises(vfs.OptionError, match="no result"):
        Results().plot()


def test_of_further_axes_the_middle_is_drawn(frames: vfs.VirtualArray) -> None:
    result = frames.reduce(rings=vfs.RadialSum(2, 2))["rings"]
    one = drawn(result)
    middle = result.shape[-1] // 2
    assert (one.dims, one.about) == (("scan_y", "scan_x"), f"ring {middle}")
    assert np.array_equal(one.values, result.data[..., middle])


def test_directions_are_colours_of_a_wheel() -> None:
    y, x = np.mgrid[-1:1:3j, -1:1:3j]
    pixels, full = wheel_colours(np.stack([y, x], axis=-1))
    assert full == pytest.approx(2**0.5)
    assert pixels[1, 1].tolist() == [0, 0, 0]  # no difference from the mean is black
    turned, _ = wheel_colours(np.stack([-y, x], axis=-1), upward=True)
    assert np.array_equal(turned, pixels)
    one, _ = wheel_colours(np.array([[[np.nan, 0.0], [1.0, 1.0]]]))
    assert one[0, 0].tolist() == [0, 0, 0]


def test_merlin_is_drawn_upright(tmp_path: Path) -> None:
    values = np.zeros((4, 8, 8), "u2")
    values[:, 0] = 9  # the first row of the file is the bottom of the picture
    array = vfs.open(write_mib(tmp_path, values), nav_shape=(2, 2))
    results = array.reduce(mean=vfs.Mean(), com=vfs.CenterOfMass())
    shown = picture_in(results["mean"]._repr_html_())
    assert shown[-1].max() > shown[0].max()
    for axes in (made(results["mean"]), array.plot((1, 1))):
        assert axes.get_ylim() == (-0.5, 7.5)
        assert np.array_equal(axes.images[0].get_array(), values[0])
    assert results["com"].upward


def test_what_does_not_hold_is_left_out(frames: vfs.VirtualArray) -> None:
    chosen = np.zeros((3, 4), bool)
    chosen[1, 1:3] = True
    result = frames.reduce(roi=chosen, s=vfs.FrameSum())["s"]
    image = made(result).images[0].get_array()
    assert np.array_equal(~np.ma.getmaskarray(image), chosen)
    blue = picture_in(result._repr_html_())[0, 0]  # as what is no number
    assert blue.tolist() == [40, 60, 120]
    held = result.data[chosen]
    assert f"{held.min()} to {held.max()}" in result._repr_html_()


def test_a_frame_is_drawn(frames: vfs.VirtualArray) -> None:
    axes = frames.plot((2, 1))
    assert np.array_equal(axes.images[0].get_array(), frames[2, 1])
    assert axes.get_title().endswith("scan_y 2, scan_x 1")
    with pytest.raises(vfs.OptionError, match="expected scan_y 0 to 2"):
        frames.plot((3, 0))
    with pytest.raises(vfs.OptionError, match=r"one tuple: a\.plot\(\(10, 20\)\)"):
        frames.plot(2, 1)  # type: ignore[arg-type]
    for draw in (axes.imshow, axes.plot, axes.hist, axes.pcolormesh, axes.contour, axes.boxplot, axes.matshow):
        with pytest.raises(TypeError, match=r"a\[1, 2\] is one of its frames, which a\.plot\(\(1, 2\)\) draws"):
            draw(frames)
    with pytest.raises(TypeError, match="matplotlib takes two axes at most"):
        axes.scatter(frames, frames)
    with pytest.raises(TypeError, match="pandas takes two axes at most"):
        pandas.DataFrame(frames)
    assert np.array_equal(np.asarray(frames), frames.to_numpy())
    assert axes.imshow(frames[2, 1]).get_array().shape == frames.shape[2:]


def test_names_and_units_of_files_are_text() -> None:
    hostile = "<script>x</script>"
    result = vfs.Result(
        "a", "sig", np.arange(6.0).reshape(2, 3), (hostile, "x"), hostile, {}, (), None, np.asarray(True)
    )
    assert "<script" not in result._repr_html_()


def test_without_matplotlib_a_line_says_so(frames: vfs.VirtualArray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(vfs.DependencyError, match=r"pip install 'vfs\[plot\]'"):
        frames.plot()


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        *(("mean", "vfs.Mean()"), ("T", "a.dask()"), ("var", "vfs.Variance()"), ("values", "a.read()")),
        *(("argmax", "a.dask()"), ("isel", "a.xarray()"), ("inav", "vfs.rsciio"), ("units", "a.calibration")),
    ],
)
def test_what_numpy_has_says_where_to_go(frames: vfs.VirtualArray, name: str, instead: str) -> None:
    assert not hasattr(frames, name)
    with pytest.raises(AttributeError, match=re.escape(instead)):
        getattr(frames, name)


def test_what_numpy_has_of_results_is_that_of_their_data(frames: vfs.VirtualArray) -> None:
    results = frames.reduce(s=vfs.FrameSum())
    result = results["s"]
    with pytest.raises(AttributeError, match=r"by their names, \['s'\]"):
        results.s  # noqa: B018
    with pytest.raises(AttributeError, match=r"vfs\.open opens a set"):
        vfs.imread  # noqa: B018
    with pytest.raises(AttributeError, match="`vfs --help` in a shell"):
        vfs.info  # noqa: B018
    with pytest.raises(vfs.UnknownArrayError, match="no result 'bf'; there are: s"):
        results["bf"]
    with pytest.raises(vfs.OptionError, match=r"s=FrameSum: is a class; FrameSum\(…\) is a reduction"):
        frames.reduce(s=vfs.FrameSum)
    assert pickle.loads(pickle.dumps(results)).keys() == {"s"}
    with pytest.raises(AttributeError, match=r"'mean': \.data\.mean is that of its numbers"):
        result.mean  # noqa: B018
    with pytest.raises(AttributeError, match=r"'meen'$"):
        result.meen  # noqa: B018
    assert np.array_equal(pickle.loads(pickle.dumps(result)), result.data)
