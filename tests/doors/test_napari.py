"""What a user of napari gets who opens a file: layers that know their axes, and read only what is shown."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED
from tests.engine.support import halved
from vfs.errors import SourceError
from vfs.pictures import frames as looking
from vfs.testing.frame_writers import write_blo
from vfs.testing.gatan_writers import write_dm
from vfs.testing.stack_writers import write_emi, write_ser
from vfs.testing.tiff_writers import write_ome_tiff
from vfs.testing.writers import write_mib

Opened = Callable[..., list[Any]]


@pytest.fixture
def viewer() -> Any:
    """A viewer without a window. It has the plugins of one with a window."""
    pytest.importorskip("napari")
    from napari.components import ViewerModel
    from napari.plugins import _initialize_plugins

    _initialize_plugins()
    return ViewerModel()


@pytest.fixture
def scan(tmp_path: Path) -> tuple[Path, np.ndarray]:
    frames = np.random.default_rng(1).integers(0, 1000, (48, 16, 16)).astype("u2")
    return write_mib(tmp_path, frames, scan=(6, 8), frames_per_file=10), frames.reshape(6, 8, 16, 16)


def shown(layer: Any) -> np.ndarray:
    return np.asarray(layer._slice.image.raw)


def test_a_scan_is_a_layer_of_which_one_frame_is_read(
    viewer: Any, scan: tuple[Path, np.ndarray], shapes_read: list[tuple[int, ...]]
) -> None:
    path, frames = scan
    (layer,) = viewer.open(path, plugin="vfs")
    assert (layer.name, layer.axis_labels) == ("scan", ("scan_y", "scan_x", "y", "x"))
    assert viewer.dims.axis_labels == ("scan_y", "scan_x", "y", "x")
    assert isinstance(layer.data, vfs.VirtualArray)
    assert layer.metadata["vfs"] == layer.data.attrs
    assert set(shapes_read) == {(1, 1, 16, 16)}
    assert len(shapes_read) <= 7  # five to choose the contrast; napari shows the first frame, then that in the middle
    for step in ((0, 0), (5, 7), (2, 3)):
        shapes_read.clear()
        viewer.dims.set_current_step((0, 1), step)
        assert (shown(layer) == frames[step][::-1]).all()  # the top row first
        assert set(shapes_read) <= {(1, 1, 16, 16)}
        assert len(shapes_read) <= 2


def test_an_array_is_added_as_it_is(
    viewer: Any, scan: tuple[Path, np.ndarray], shapes_read: list[tuple[int, ...]]
) -> None:
    path, frames = scan
    layer = viewer.add_image(vfs.open(path, nav_shape=(4, 12), chunks="frames"))
    viewer.dims.set_current_step((0, 1), (3, 11))
    assert (shown(layer) == frames[5, 7]).all()
    assert set(shapes_read) == {(1, 1, 16, 16)}


def test_steps_offsets_and_units(viewer: Any, tmp_path: Path) -> None:
    path = write_blo(tmp_path, np.random.default_rng(2).integers(0, 200, (3, 4, 8, 8)).astype("u1"))
    known = vfs.open(path).calibration
    (layer,) = viewer.open(path, plugin="vfs")  # and no layer of the virtual bright-field image, nor of frame numbers
    assert layer.scale.tolist() == [known[dim]["scale"] for dim in layer.axis_labels]
    assert layer.translate.tolist() == [known[dim]["offset"] for dim in layer.axis_labels]
    import pint

    assert list(layer.units) == [pint.Unit(known[dim]["unit"]) for dim in layer.axis_labels]


def test_axes_without_step_are_in_pixels_without_unit_dimensionless(viewer: Any, tmp_path: Path) -> None:
    (plain,) = viewer.open(write_mib(tmp_path, np.ones((2, 8, 8), "u2")), plugin="vfs")
    assert [str(unit) for unit in plain.units] == ["pixel"] * 3
    assert plain.scale.tolist() == [1, 1, 1]
    path = tmp_path / "set.vfs.json"
    np.arange(60.0).tofile(tmp_path / "data.bin")
    axes = {"frame": {"scale": 2.0, "unit": "furlongs per beer"}, "y": {"scale": 0.5, "offset": -1.0}}
    frames = {"vfs": 1, "dtype": "<f8", "shape": [3, 4, 5], "files": ["data.bin"], "dims": ["frame", "y", "x"]}
    path.write_text(json.dumps({**frames, "frames": {}, "attributes": {"calibration": axes}}))
    (odd,) = viewer.open(path, plugin="vfs")
    assert [str(unit) for unit in odd.units] == ["dimensionless", "dimensionless", "pixel"]
    assert (odd.scale.tolist(), odd.translate.tolist()) == ([2, 0.5, 1], [0, -1, 0])


def test_a_hot_pixel_does_not_make_all_else_black(viewer: Any, tmp_path: Path) -> None:
    frames = np.random.default_rng(3).integers(100, 200, (9, 64, 64)).astype("u2")
    frames[:, 5, 5] = 60000
    (layer,) = viewer.open(write_mib(tmp_path, frames), plugin="vfs")
    low, high = layer.contrast_limits
    assert 100 <= low < 110
    assert 190 < high < 200


@pytest.mark.parametrize("value", [0, 7])
def test_frames_that_are_all_the_same_are_shown(viewer: Any, tmp_path: Path, value: int) -> None:
    (layer,) = viewer.open(write_mib(tmp_path, np.full((3, 8, 8), value, "u2")), plugin="vfs")
    assert layer.contrast_limits[0] < layer.contrast_limits[1]
    assert (shown(layer) == value).all()


def test_a_frame_that_cannot_be_read_does_not_hide_the_others(
    viewer: Any, scan: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = scan
    bad: set[tuple[int, ...]] = set()

    def looked(view: Any, position: Any, *size: int) -> Any:
        if not bad or tuple(int(k) for k in position) in bad:
            raise SourceError("scan001.mib: bytes 5 to 9 cannot be read")
        return looking.look(view, position, *size)

    monkeypatch.setattr("vfs.integrations.napari.look", looked)
    bad.add((2, 7))
    (layer,) = viewer.open(path, plugin="vfs")
    assert layer.contrast_limits[1] > 900
    bad.clear()
    with pytest.raises(vfs.SourceError, match=r"^scan001.mib: bytes 5 to 9 cannot be read$"):
        viewer.open(path, plugin="vfs")


def test_colours(viewer: Any, tmp_path: Path) -> None:
    image = np.random.default_rng(4).integers(0, 255, (2, 1, 1, 40, 50, 3)).astype("u1")
    (layer,) = viewer.open(write_ome_tiff(tmp_path, image), plugin="vfs")
    assert layer.rgb
    assert layer.axis_labels == ("t", "c", "z", "y", "x")
    viewer.dims.set_current_step(0, 1)
    assert (shown(layer) == image[1, 0, 0]).all()


def test_colours_of_digital_micrograph(viewer: Any, tmp_path: Path) -> None:
    (layer,) = viewer.open(write_dm(tmp_path, np.arange(1200, dtype="u4").reshape(30, 40), colour=23), plugin="vfs")
    assert (layer.rgb, layer.axis_labels, layer.data.shape) == (True, ("y", "x"), (30, 40, 4))


def test_a_pyramid_is_one_layer(viewer: Any, tmp_path: Path, shapes_read: list[tuple[int, ...]]) -> None:
    image = np.random.default_rng(5).integers(0, 99, (2, 1, 1, 64, 96)).astype("u2")
    smaller = [[plane[::2, ::2], plane[::4, ::4]] for plane in image[:, 0, 0]]
    (layer,) = viewer.open(write_ome_tiff(tmp_path, image, smaller=smaller), plugin="vfs")
    assert layer.multiscale
    assert [level.shape[-2:] for level in layer.data] == [(64, 96), (32, 48), (16, 24)]
    assert {shape[0] for shape in shapes_read} == {1}
    shapes_read.clear()
    viewer.dims.set_current_step(0, 1)
    assert (shown(layer) == smaller[1][1]).all()
    assert {shape[0] for shape in shapes_read} == {1}


def test_a_pyramid_in_colours(viewer: Any, tmp_path: Path) -> None:
    image = np.random.default_rng(5).integers(0, 99, (2, 1, 1, 64, 96, 3)).astype("u1")
    smaller = [[plane[::2, ::2]] for plane in image[:, 0, 0]]
    (layer,) = viewer.open(write_ome_tiff(tmp_path, image, smaller=smaller), plugin="vfs")
    assert (layer.rgb, layer.multiscale, layer.ndim) == (True, True, 5)
    viewer.dims.set_current_step(0, 1)
    assert (shown(layer) == smaller[1][0]).all()
    layer.locked_data_level = 0
    assert (shown(layer) == image[1, 0, 0]).all()


def test_channels_are_layers_that_are_added_up(viewer: Any, tmp_path: Path, shapes_read: list[tuple[int, ...]]) -> None:
    """Whether there are smaller versions or not."""
    image = np.random.default_rng(5).integers(0, 900, (2, 3, 2, 64, 96)).astype("u2")
    image[:, 1] //= 30
    path = write_ome_tiff(tmp_path, image)
    for levels in (False, True):
        if levels:
            smaller = [[plane[::2, ::2], plane[::4, ::4]] for plane in image.reshape(-1, 64, 96)]
            path = write_ome_tiff(tmp_path, image, smaller=smaller)
        layers = viewer.open(path, plugin="vfs")
        assert [layer.name.partition(": ")[2] for layer in layers] == ["dye 0", "dye 1", "dye 2"]
        assert [layer.colormap.colors[-1][:3].tolist() for layer in layers] == np.eye(3).tolist()
        assert {(str(layer.blending), layer.visible, layer.multiscale) for layer in layers} == {
            ("additive", True, levels)
        }
        assert [layer.contrast_limits[1] // 100 for layer in layers] == [8, 0, 8]
        shapes_read.clear()
        viewer.dims.set_current_step((0, 1), (1, 0))
        for k, layer in enumerate(layers):
            assert (layer.axis_labels, layer.scale.tolist()) == (("t", "z", "y", "x"), [3, 2, 0.25, 0.5])
            fine = layer.data[0] if levels else layer.data
            assert (fine.shape, np.asarray(fine[1, 0]).tolist()) == ((2, 2, 64, 96), image[1, k, 0].tolist())
        assert {math.prod(shape[:-2]) for shape in shapes_read} == {1}
        viewer.layers.clear()


def test_levels_of_a_served_image_with_the_plugin_of_ome(viewer: Any, tmp_path: Path) -> None:
    """Each channel is a layer with levels, its name, colour, contrast and steps."""
    pytest.importorskip("napari_ome_zarr")
    image = np.random.default_rng(5).integers(0, 900, (2, 3, 2, 700, 600)).astype("u2")
    path = write_ome_tiff(tmp_path, image)
    with vfs.serve(path, port=0) as server:
        url = f"{server.url.rstrip('/')}/{path.name.partition('.')[0]}.ome.zarr"
        layers = viewer.open(url, plugin="napari-ome-zarr")
        for number, (layer, colour) in enumerate(zip(layers, ("red", "green", "blue"), strict=True)):
            assert (layer.name, layer.colormap.name) == (f"cells: dye {number}", colour)
            assert layer.multiscale
            assert 0 <= layer.contrast_limits[0] < 50 < 850 < layer.contrast_limits[1] <= 900
            assert (layer.axis_labels, layer.scale.tolist()) == (
                ("t", "z", "y", "x"),
                [3, 2, 0.00025, 0.5],
            )  # y in um, as x
            whole, half = (np.asarray(level[1]) for level in layer.data)
            assert (whole == image[1, number]).all()
            assert (half == halved(image[1, number])).all()


def test_other_images_of_the_set_are_hidden_and_cost_nothing(
    viewer: Any, tmp_path: Path, shapes_read: list[tuple[int, ...]]
) -> None:
    images = np.random.default_rng(6).integers(1, 99, (2, 16, 16)).astype("u2")
    for k, image in enumerate(images, 1):
        write_ser(tmp_path, image, name=f"set_{k}")
    write_ser(tmp_path, np.ones((3, 8, 9), "u2"), name="set_3")  # frames of another size
    first, second = viewer.open(write_emi(tmp_path), plugin="vfs")
    assert [(first.name, first.visible), (second.name, second.visible)] in (
        [("set", True), ("set 2", False)],
        [("set", True), ("set 1", False)],
    )
    assert len(shapes_read) <= 4
    shapes_read.clear()
    second.visible = True
    assert (shown(second) == second.data[...]).all()
    assert second.contrast_limits == [second.data[...].min(), second.data[...].max()]  # napari chooses


def test_no_more_layers_than_a_list_can_show(viewer: Any, tmp_path: Path) -> None:
    for k in range(25):
        write_ser(tmp_path, np.ones((4, 4), "u2"), name=f"set_{k + 1}")
    with pytest.warns(UserWarning, match=r"set_1.ser: 4 more images are no layers; add one as viewer.add_image"):
        layers = viewer.open(write_emi(tmp_path), plugin="vfs")
    assert len(layers) == 21


def test_a_list_of_files_is_one_set(viewer: Any, tmp_path: Path) -> None:
    paths = []
    for k in range(3):
        folder = tmp_path / str(k)
        folder.mkdir()
        paths.append(write_dm(folder, np.full((4, 5), k, "u2"), name=f"part_{k}"))
    (layer,) = viewer.open(paths, stack=True, plugin="vfs")
    assert layer.data.shape == (3, 4, 5)
    assert [int(layer.data[k].max()) for k in range(3)] == [0, 1, 2]


# what cannot be opened


def test_an_error_is_the_line_that_it_is_elsewhere(viewer: Any, tmp_path: Path) -> None:
    path = tmp_path / "scan.mib"
    path.write_bytes(b"nothing of the kind" * 99)
    with pytest.raises(vfs.UnknownFormatError) as here:
        vfs.open(path)
    with pytest.raises(vfs.UnknownFormatError) as there:
        viewer.open(path, plugin="vfs")
    assert str(there.value) == str(here.value)


@pytest.mark.parametrize("name", ["scan.xml", "scan.h5"])
def test_a_file_of_another_program_is_left_to_its_plugin(viewer: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<html></html>")
    with pytest.raises(ValueError, match="but refused the file"):
        viewer.open(tmp_path / name, plugin="vfs")


def test_a_spectrum_is_no_image(viewer: Any, tmp_path: Path) -> None:
    path = write_ser(tmp_path, np.ones(9, "f4"), sig_ndim=1)
    with pytest.raises(vfs.OptionError, match=r"set_1.ser: data has the axes \(energy: 9\); napari shows images"):
        viewer.open(path, plugin="vfs")


# with a window

_WINDOW = """
import sys
import napari, numpy
viewer = napari.Viewer()
(layer,) = viewer.open(sys.argv[1], plugin="vfs")
viewer.dims.set_current_step((0, 1), (3, 4))
viewer.scale_bar.visible = True
viewer.screenshot(sys.argv[3], canvas_only=False, flash=False)
numpy.save(sys.argv[2], viewer.screenshot(canvas_only=True, flash=False))
viewer.close()
"""


def test_a_real_window_shows_the_frame(display: str, tmp_path: Path) -> None:
    """Look at napari.png in the folder that pytest keeps."""
    pytest.importorskip("napari")
    frames = np.zeros((6, 8, 16, 16), "u2")
    frames[3, 4, :, 8:] = 500  # the right half of this frame is bright
    path, canvas = write_mib(tmp_path, frames.reshape(-1, 16, 16), scan=(6, 8)), tmp_path / "canvas.npy"
    command = [sys.executable, "-c", _WINDOW, str(path), str(canvas), str(tmp_path / "napari.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    seen = np.load(canvas)[..., :3].max(axis=-1)
    middle = seen[seen.shape[0] // 2]
    half = len(middle) // 2
    assert middle[: half - 10].max() < 60  # napari's background, and black
    assert middle[half + 10 : half + 60].min() > 200


def test_real_files_open(viewer: Any) -> None:
    """Their arrays are in their layers, and the frame that is shown is that of `vfs.open`."""
    names = (
        "blo/test2/test2.blo",
        "hdf5/dectris_arina_test_00/test_00_master.h5",
        "mrc/mrcfile_EMD-3001.map/EMD-3001.map",
        "ome_tiff/qupath_cells/cells.ome.tif",
        "ser_emi/ncem_16_STOimage/16_STOimage.emi",
        "seq/pims_norpix6/sample_norpix6.seq",
    )
    if not SHARED.exists():
        pytest.skip("no real files here")
    for name in names:
        layer, *_ = viewer.open(SHARED / name, plugin="vfs")
        array = vfs.open(SHARED / name)
        index = tuple(int(k) for k in viewer.dims.current_step[-layer.ndim :])[:-2]
        assert layer.data.shape == array.shape, name
        assert (np.squeeze(shown(layer)) == np.squeeze(array[index])).all(), name
        viewer.layers.clear()
