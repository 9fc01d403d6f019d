"""Dark, gain and excluded pixels equal a plain numpy twin, whatever box is read."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.engine.support import corrected
from vfs.cli import app
from vfs.engine.corrections import Corrections
from vfs.engine.reader import RegionReader
from vfs.kernels import correct
from vfs.testing.frame_writers import write_frms6
from vfs.testing.gatan_writers import write_dm
from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import write_tiff


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
    np.testing.assert_allclose(array[...], corrected(frames, dark, gain), rtol=1e-5)
    np.testing.assert_allclose(array[1:4, 3:11:2, ::-3], corrected(frames, dark, gain)[1:4, 3:11:2, ::-3], rtol=1e-5)


def test_dark_only_and_stack_of_darks(tmp_path: Path, frames: np.ndarray) -> None:
    stack = np.random.default_rng(1).integers(0, 100, (7, 12, 9))
    array = vfs.open(written(tmp_path, frames), dark=stack)
    np.testing.assert_allclose(array[...], corrected(frames, stack.mean(axis=0)), rtol=1e-5)


@pytest.mark.parametrize("lead", [(7,), (2, 3), (1, 1)])
def test_reference_frames_in_a_file_however_many_axes_they_have(
    tmp_path: Path, frames: np.ndarray, lead: tuple[int, ...]
) -> None:
    dark = np.random.default_rng(1).integers(0, 100, (*lead, 12, 9)).astype("u2")
    np.save(tmp_path / "dark.npy", dark)
    want = corrected(frames, dark.reshape(-1, 12, 9).mean(axis=0))
    np.testing.assert_allclose(vfs.open(written(tmp_path, frames), dark=tmp_path / "dark.npy")[...], want, rtol=1e-5)
    np.testing.assert_allclose(vfs.open(written(tmp_path, frames), dark=dark)[...], want, rtol=1e-5)


def test_files_that_do_not_fit_are_not_read_nor_many_frames_at_once(
    tmp_path: Path, frames: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan that was given for a dark image by mistake was read to its end, all of it into memory,
    to find that it does not fit.
    """
    seen: list[int] = []
    read = RegionReader.read

    def noted(self: RegionReader, region: Any = None, out: Any = None) -> np.ndarray:
        got = read(self, region, out)
        seen.append(got.size)
        return got

    monkeypatch.setattr(RegionReader, "read", noted)
    monkeypatch.setattr("vfs.engine.array._AT_ONCE", 3 * 12 * 9 * 2)
    path = written(tmp_path, frames)
    for name, shape in (("dark", (50, 9, 12)), ("dead", (50, 12, 9)), ("gain", (50, 9))):
        np.save(tmp_path / "other.npy", np.ones(shape, "u2"))
        with pytest.raises(vfs.OptionError, match=f"other.npy: {name} "):
            vfs.open(path, **{name: tmp_path / "other.npy"})
    assert seen == []
    stack = np.random.default_rng(1).integers(0, 100, (50, 12, 9)).astype("u2")
    np.save(tmp_path / "other.npy", stack)
    array = vfs.open(path, dark=tmp_path / "other.npy")
    assert sum(seen) == stack.size
    assert max(seen) == 3 * 12 * 9
    np.testing.assert_allclose(array[...], corrected(frames, stack.mean(axis=0)), rtol=1e-5)


@given(data=st.data())
def test_excluded_pixels_also_across_borders(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    h, w = data.draw(st.integers(2, 9)), data.draw(st.integers(2, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    frames = rng.integers(0, 1000, (3, h, w)).astype(data.draw(st.sampled_from(["u1", "u2", "i4", "f4", "f8", ">u2"])))
    dead = rng.random((h, w)) < data.draw(st.sampled_from([0.05, 0.3, 0.8]))
    dead[rng.integers(h), rng.integers(w)] = False
    dark, gain = rng.random((h, w)), rng.random((h, w))
    path = written(tmp_path_factory.mktemp("dead"), frames)
    array = vfs.open(
        path,
        dark=dark,
        gain=gain,
        dead=dead,
        chunks=(1, 2, 3),
        backend=data.draw(st.sampled_from(["mmap", "buffered"])),
    )
    want = corrected(frames, dark, gain, dead)
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
    want = corrected(frames, np.full((12, 9), 7.5), None, dead)
    by_coordinates = vfs.open(path, dark=tmp_path / "dark.npy", dead=np.argwhere(dead))
    by_file = vfs.open(path, dark=str(tmp_path / "dark.npy"), dead=str(tmp_path / "dead.npy"))
    for array in (by_coordinates, by_file, pickle.loads(pickle.dumps(by_file))):
        np.testing.assert_allclose(array[...], want, rtol=1e-5)


def _written(folder: Path, name: str, image: np.ndarray) -> Path:
    """An image as a file, in the format that the name's ending says."""
    path = folder / name
    if path.suffix == ".npy":
        np.save(path, image)
    elif path.suffix == ".tif":
        write_tiff(path, [image])
    elif path.suffix == ".mrc":
        mode = {"i1": 0, "f4": 2}[image.dtype.str[1:]]
        return write_mrc(folder, image[None], mode, name=name)
    else:
        return write_dm(folder, image, name=path.stem)
    return path


@pytest.mark.parametrize(
    ("ending", "mask", "real"),
    [
        (".npy", "?", "f8"),
        (".npy", "i4", "u2"),
        (".tif", "?", "f4"),
        (".tif", "u1", "u2"),
        (".mrc", "i1", "f4"),
        (".dm3", "u1", "f4"),
    ],
)
def test_images_in_files_of_any_format_also_through_the_command_line(
    tmp_path: Path, frames: np.ndarray, ending: str, mask: str, real: str
) -> None:
    rng = np.random.default_rng(3)
    dark, gain = (rng.random((12, 9)) * 100).astype(real), (rng.random((12, 9)) * 2 + 1).astype(real)
    dead = rng.random((12, 9)) < 0.1
    named = [("dark", dark), ("gain", gain), ("dead", (dead * 100).astype(mask))]
    given = {name: str(_written(tmp_path, f"{name}{ending}", image)) for name, image in named}
    path, want = written(tmp_path, frames), corrected(frames, dark, gain, dead)
    array = vfs.open(path, **given)
    np.testing.assert_allclose(array[...], want, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(array))[1:3, 2:, ::2], want[1:3, 2:, ::2], rtol=1e-4, atol=1e-3
    )
    assert (
        app.main(
            [
                "export",
                str(path),
                str(tmp_path / "out.zarr"),
                *(part for name, file in given.items() for part in (f"--{name}", file)),
            ]
        )
        == 0
    )
    np.testing.assert_allclose(
        zarr.open_array(tmp_path / "out.zarr" / "data", mode="r")[...], want, rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("shape", [(0,), (0, 2), (0, 12, 9)])
def test_nothing_is_excluded(tmp_path: Path, frames: np.ndarray, shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(vfs.open(written(tmp_path, frames), dead=np.zeros(shape))[...], frames.astype("f4"))


def test_a_mask_of_one_frame(tmp_path: Path, frames: np.ndarray) -> None:
    dead = np.zeros((1, 1, 12, 9), "u1")
    dead[..., 3, 4] = 1
    np.testing.assert_allclose(
        vfs.open(written(tmp_path, frames), dead=dead)[...], corrected(frames, dead=dead[0, 0] > 0), rtol=1e-5
    )


def test_a_files_own_images_by_their_names_also_through_the_command_line(
    tmp_path: Path, frames: np.ndarray, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FRMS6 keeps dark frames in a file of the set. Its name is not taken for that of a file."""
    (tmp_path / "dark").write_text("something else")
    monkeypatch.chdir(tmp_path)
    dark = np.random.default_rng(4).integers(0, 300, (3, 12, 9)).astype("u2")
    path = write_frms6(tmp_path, frames, dark=dark)
    want = corrected(frames, dark.mean(axis=0))[None]
    by_name = vfs.open(path, dark="dark")
    np.testing.assert_allclose(by_name[...], want, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(by_name))[...], want, rtol=1e-4, atol=1e-2)
    assert (
        app.main(
            [
                "export",
                str(path),
                str(tmp_path / "out.zarr"),
                "--dark",
                "dark",
                "--dead",
                str(_written(tmp_path, "dead.tif", dark[0] < 20)),
            ]
        )
        == 0
    )
    want = corrected(frames, dark.mean(axis=0), dead=dark[0] < 20)[None]
    np.testing.assert_allclose(
        zarr.open_array(tmp_path / "out.zarr" / "data", mode="r")[...], want, rtol=1e-4, atol=1e-2
    )
    capsys.readouterr()
    assert app.main(["info", str(path), "--dark", "darkness"]) == 2
    assert capsys.readouterr().err.startswith(f"vfs: {path.parent / 'darkness'}: no such file")


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
        ({"dead": np.array([[-1, 0]])}, r"coordinates reach from \[-1, 0\]"),
        ({"dead": np.zeros((4, 4, 4))}, "dead is"),
        ({"dead": [[1], [1, 2]]}, "dead: expected an array"),
        ({"dark": [[1], [1, 2]]}, "dark: expected an array"),
        ({"dark": np.zeros((0, 12, 9))}, r"dark has shape \(0, 12, 9\)"),
        ({"dark": np.zeros((12 * 9,))}, "dark has shape"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, frames: np.ndarray, what: dict[str, Any], message: str) -> None:
    with pytest.raises(vfs.OptionError, match=message):
        vfs.open(written(tmp_path, frames), **what)


@pytest.mark.parametrize("good", [(slice(512), 0), (-1, -1)], ids=["a column", "the corner"])
def test_a_mask_that_excludes_nearly_everything_is_refused_at_once(tmp_path: Path, good: Any) -> None:
    """Looking for neighbours took hours, and the columns that half a large detector would have to
    be filled from took 4 GiB.
    """
    dead = np.ones((1024, 1024), bool)
    dead[good] = False
    with pytest.raises(
        vfs.OptionError, match=r"dead: 1,04\d,\d{3} of 1,048,576 pixels are excluded, up to 1,023 pixels from .*True"
    ):
        vfs.open(written(tmp_path, np.zeros((1, 1024, 1024), "u1")), dead=dead)


def test_more_neighbours_than_memory_is_for_are_refused(
    tmp_path: Path, frames: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = np.zeros((12, 9), bool)
    dead[2:8] = True
    want = corrected(frames, dead=dead)
    path = written(tmp_path, frames)
    np.testing.assert_allclose(vfs.open(path, dead=dead)[...], want, rtol=1e-5)
    monkeypatch.setattr("vfs.engine.corrections.SOURCES", 100)
    with pytest.raises(vfs.OptionError, match="54 of 108 pixels are excluded, up to 3 pixels"):
        vfs.open(path, dead=dead)


@given(data=st.data())
def test_neighbours_are_all_good_pixels_at_the_smallest_distance(data: st.DataObject) -> None:
    h, w = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    dead = np.random.default_rng(data.draw(st.integers(0, 99))).random((h, w)) < data.draw(
        st.sampled_from([0.1, 0.6, 0.95])
    )
    dead.flat[data.draw(st.integers(0, dead.size - 1))] = False
    good = np.argwhere(~dead)
    far = correct.distances(dead)
    pixels, begins, sources = correct.neighbours(dead, far, 1 << 20)
    assert pixels.tolist() == np.flatnonzero(dead).tolist()
    for k, (y, x) in enumerate(np.argwhere(dead)):
        away = abs(good - (y, x)).max(axis=1)
        assert far[y, x] == away.min()
        assert sources[begins[k] : begins[k + 1]].tolist() == (good[away == away.min()] @ (w, 1)).tolist()
    assert not far[~dead].any()


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "?", "i1", ">u8"])
def test_pixels_of_every_kind(tmp_path: Path, dtype: str) -> None:
    """Half precision was an error in the middle of reading."""
    frames = (np.random.default_rng(2).random((5, 12, 9)) * 100).astype(dtype)
    dead = np.zeros((12, 9), bool)
    dead[0, :3] = dead[11, 8] = True
    dark, gain = np.full((12, 9), 3), np.full((12, 9), 0.5)
    array = vfs.open(written(tmp_path, frames), dark=dark, gain=gain, dead=dead, chunks=(2, 5, 4))
    assert array.dtype == (np.float64 if frames.dtype.itemsize == 8 else np.float32)
    np.testing.assert_allclose(array[...], corrected(frames, dark, gain, dead), rtol=1e-5)
    np.testing.assert_allclose(array[::2, 3:, 1::3], corrected(frames, dark, gain, dead)[::2, 3:, 1::3], rtol=1e-5)


def test_complex_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(vfs.OptionError, match="real pixels"):
        vfs.open(written(tmp_path, np.zeros((2, 3, 4), complex)), dark=np.zeros((3, 4)))


def test_nothing_given_is_nothing() -> None:
    assert Corrections.of((4, 4), np.dtype("u2")) is None


@pytest.mark.parametrize("stored", ["?", "i1", "u2", "u4", ">i4", "i8", "u8"])
def test_excluded_pixels_of_integers_are_exact(tmp_path: Path, stored: str) -> None:
    """Good pixels bit for bit, excluded ones the mean of their neighbours, rounded to the nearest,
    halves to even; also where sums have no room.
    """
    kind = np.dtype(stored)
    low, high = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    rng = np.random.default_rng(0)
    numbers = rng.integers(low, high, (4, 6, 7), kind.newbyteorder("=") if kind.kind != "b" else "u1", endpoint=True)
    numbers[0] = high
    numbers[1, :, :2] = low
    frames = numbers.astype(kind)
    dead = np.zeros((6, 7), bool)
    dead[0, 0] = dead[2, 3] = dead[3, 3] = dead[5, 6] = True
    want = frames.astype(object) + 0
    for y, x in np.argwhere(dead):
        box = (slice(max(0, y - 1), y + 2), slice(max(0, x - 1), x + 2))
        for n in range(4):
            near = [int(v) for v, bad in zip(frames[n][box].ravel(), dead[box].ravel(), strict=True) if not bad]
            want[n, y, x] = round(Fraction(sum(near), len(near)))
    for backend in ("mmap", "buffered"):
        array = vfs.open(
            written(tmp_path, frames), dead=dead, dtype=kind.newbyteorder("="), chunks=(1, 2, 3), backend=backend
        )
        for got, part in (
            (array[...], want),
            (array.zarr()[...], want),
            (array[1:, 2:5:2, 3:], want[1:, 2:5:2, 3:]),
            (array[2, 3, 3], want[2, 3, 3]),
        ):
            assert np.array_equal(np.asarray(got), np.asarray(part).astype(kind))
            assert np.asarray(got).dtype == kind.newbyteorder("=")
    # Corrected as stored, then converted as numpy does
    wide = vfs.open(written(tmp_path, frames), dead=dead, dtype="i2")
    assert np.array_equal(wide[...], want.astype(kind).astype("i2"))


def test_what_corrections_are_calculated_in(tmp_path: Path) -> None:
    """float32, which holds integers up to 16,777,216; more where it is asked for, or stored."""
    frames = np.full((2, 3, 4), 16_777_217, "u4")
    path = written(tmp_path, frames)
    dead, third = np.eye(3, 4, dtype=bool), np.full((3, 4), 1 / 3)
    assert vfs.open(path, dark=third).dtype == vfs.open(path, dark=third, dead=dead).dtype == np.float32
    assert vfs.open(path, dead=dead).dtype == np.float64  # excluding pixels leaves the good ones what they are
    assert vfs.open(path, dead=dead)[0, 0, 1] == 16_777_217
    for dtype in ("u4", "i8", "f8", "c16"):
        assert (vfs.open(path, dead=dead, dtype=dtype)[...] == frames).all()
        assert (vfs.open(path, dark=np.ones((3, 4)), dtype=dtype)[...] == frames - 1).all()
    assert (vfs.open(path, dark=third, gain=third, dead=dead, dtype="f8")[...] == (16_777_217 - 1 / 3) * (1 / 3)).all()
    doubles = np.full((2, 3, 4), 1 + 1e-12)
    assert (vfs.open(written(tmp_path, doubles), dark=third)[...] == doubles - third).all()
    selected = vfs.open(written(tmp_path, frames), dead=dead, dtype="u4")
    for _, tile in selected.tiles(roi=[1]):
        assert (tile == frames[1]).all()


def test_integers_that_may_be_a_mask_or_coordinates(tmp_path: Path) -> None:
    frames = np.arange(2 * 3 * 2, dtype="u2").reshape(2, 3, 2)
    path = written(tmp_path, frames)
    given = [[0, 1], [1, 0], [0, 0]]
    np.save(tmp_path / "dead.npy", given)
    for dead in (given, np.array(given), tmp_path / "dead.npy"):
        with pytest.raises(
            vfs.OptionError,
            match=r"dead is int64\[3, 2\], which may be a mask of \[3, 2\] or .*coordinates: give a mask of bool",
        ):
            vfs.open(path, dead=dead)
    mask = np.array(given, bool)
    np.testing.assert_array_equal(vfs.open(path, dead=mask)[...], corrected(frames, dead=mask))
    # Two coordinates are no mask
    np.testing.assert_array_equal(vfs.open(path, dead=[[0, 1], [1, 0]])[...], corrected(frames, dead=mask))
