"""Frames of every kind of layout, arranged and corrected in every way: results are those of the array that is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.backends.buffered import BufferedBackend
from vfs.reduce import blocks
from vfs.reduce.passes import Pass
from vfs.testing.backends import CountingBackend
from vfs.testing.frame_writers import write_empad, write_frms6, write_seq
from vfs.testing.gatan_writers import write_k2is
from vfs.testing.inside import reader_of
from vfs.testing.stack_writers import write_mrc
from vfs.testing.writers import write_mib, write_npy, write_raw

ALL: dict[str, vfs.Reduction] = {
    "sum": vfs.Sum(),
    "mean": vfs.Mean(),
    "max": vfs.Max(),
    "min": vfs.Min(),
    "std": vfs.Std(),
    "each": vfs.FrameSum(),
    "disk": vfs.Disk(7, 9, 4.5),
    "few": vfs.Point(9, 3),
    "centre": vfs.CenterOfMass(),
    "near": vfs.CenterOfMass(7, 9, 4),
    "rings": vfs.RadialSum(7, 9, 6),
    "counts": vfs.Histogram(16, (0, 4096)),
}


def frames_of(n: int, shape: tuple[int, int], most: int, dtype: str = "u2") -> np.ndarray:
    return np.random.default_rng(5).integers(0, most, (n, *shape), endpoint=True).astype(dtype)


def h5(**options: Any) -> Callable[[Path], Any]:
    def write(folder: Path) -> Any:
        h5py = pytest.importorskip("h5py")
        pytest.importorskip("hdf5plugin")
        with h5py.File(folder / "x.h5", "w") as file:
            file.create_dataset("data", data=frames_of(24, (16, 20), 4000).reshape(4, 6, 16, 20), **options)
        return vfs.open(folder / "x.h5")

    return write


def bitshuffle(folder: Path) -> Any:
    plugin = pytest.importorskip("hdf5plugin")
    return h5(chunks=(1, 3, 16, 20), **plugin.Bitshuffle())(folder)


SETS: dict[str, Callable[[Path], Any]] = {
    "mib_u08": lambda f: vfs.open(
        write_mib(f, frames_of(24, (16, 20), 63, "u1"), kind="U08", frames_per_file=5), nav_shape=(4, 6)
    ),
    "mib_u16": lambda f: vfs.open(
        write_mib(f, frames_of(24, (16, 20), 4095), kind="U16", frames_per_file=7), nav_shape=(4, 6)
    ),
    "mib_u32": lambda f: vfs.open(write_mib(f, frames_of(24, (16, 20), 1 << 23, "u4"), kind="U32"), nav_shape=(4, 6)),
    "mib_r64_1": lambda f: vfs.open(
        write_mib(f, frames_of(24, (16, 64), 1, "u1"), kind="R64", depth=1), nav_shape=(4, 6)
    ),
    "mib_r64_6": lambda f: vfs.open(
        write_mib(f, frames_of(24, (16, 64), 63, "u1"), kind="R64", depth=6), nav_shape=(4, 6)
    ),
    "mib_r64_12": lambda f: vfs.open(
        write_mib(f, frames_of(24, (16, 64), 4095), kind="R64", depth=12, frames_per_file=9), nav_shape=(4, 6)
    ),
    "mib_r64_24": lambda f: vfs.open(
        write_mib(f, frames_of(24, (16, 64), 1 << 23, "u4"), kind="R64", depth=24), nav_shape=(4, 6)
    ),
    "mib_r64_quad": lambda f: vfs.open(
        write_mib(f, frames_of(24, (32, 128), 4095), kind="R64", depth=12, quad=True), nav_shape=(4, 6)
    ),
    "empad": lambda f: vfs.open(write_empad(f, frames_of(24, (128, 128), 4095, "f4"), raw=None), nav_shape=(4, 6)),
    "seq": lambda f: vfs.open(write_seq(f, frames_of(24, (16, 20), 4095)), nav_shape=(4, 6)),
    "mrc": lambda f: vfs.open(write_mrc(f, frames_of(24, (16, 20), 4095), 6), nav_shape=(4, 6)),
    "npy": lambda f: vfs.open(write_npy(f, frames_of(24, (16, 20), 4095).reshape(4, 6, 16, 20))),
    "raw_over_borders": lambda f: vfs.open(
        write_raw(f, frames_of(24, (16, 20), 4095), files=4),
        format="raw",
        dtype="u2",
        sig_shape=(16, 20),
        nav_shape=(4, 6),
    ),
    "h5_plain": h5(),
    "h5_chunks": h5(chunks=(2, 2, 7, 20)),
    "h5_gzip": h5(chunks=(1, 6, 16, 20), compression="gzip"),
    "h5_bitshuffle": bitshuffle,
}


def check_all(
    array: vfs.VirtualArray, workers: int = 0, stored: np.ndarray | None = None, only: str = "", **options: Any
) -> None:
    """Compare all results with numpy's of what is read of the array, or `only` one."""
    chosen = {only: ALL[only]} if only else ALL
    reductions = {name: one for name, one in chosen.items() if name not in ("few", "near") or array.shape[-2] > 9}
    n = reader_of(array).dataset.nav_ndim
    shown = np.asarray(array.read()).reshape(-1, *array.shape[n:])
    for name, result in array.reduce(**reductions, workers=workers, **options).items():
        twin(name, result, shown if stored is None else shown[stored], stored)


def twin(name: str, result: vfs.Result, shown: np.ndarray, stored: np.ndarray | None) -> None:
    f, got = shown.astype(float), result.selected if stored is None or result.kind != "nav" else result.selected[stored]
    y, x = np.mgrid[: f.shape[1], : f.shape[2]]
    far = np.sqrt((y - 7.0) ** 2 + (x - 9.0) ** 2)

    def centre(kept: np.ndarray, cy: float, cx: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            return (
                np.stack([(kept * (y - cy)).sum((1, 2)), (kept * (x - cx)).sum((1, 2))], 1) / kept.sum((1, 2))[:, None]
            )

    wanted = {
        "sum": lambda: f.sum(0),
        "mean": lambda: f.mean(0),
        "max": lambda: f.max(0),
        "min": lambda: f.min(0),
        "std": lambda: f.std(0),
        "each": lambda: f.sum((1, 2)),
        "disk": lambda: f[:, far < 4.5].sum(1),
        "few": lambda: f[:, 9, 3],
        "centre": lambda: centre(f, 0, 0),
        "near": lambda: centre(f * (far < 4), 7, 9),
        "rings": lambda: np.stack([f[:, far.astype(int) == k].sum(1) for k in range(6)], 1),
        "counts": lambda: np.histogram(f, 16, (0, 4096))[0],
    }[name]()
    assert got.shape == wanted.shape, name
    np.testing.assert_allclose(got.astype(float), wanted, rtol=1e-9, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("name", SETS)
def test_every_layout(tmp_path: Path, name: str) -> None:
    array = SETS[name](tmp_path)
    assert array.shape[:2] == (4, 6)
    check_all(array)
    check_all(array, workers=3)
    for only in ("sum", "max", "min", "std") if "r64" in name else ():  # frames where they lie, backwards
        check_all(array, only=only)


@pytest.mark.parametrize("name", ["h5_gzip", "h5_bitshuffle"])
def test_blocks_that_are_planned_together(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = SETS[name](tmp_path)
    frames = array.read().reshape(24, 16, 20)
    for unit, segment in ((1, 1 << 20), (1, 5000), (4000, 9000)):
        monkeypatch.setattr(blocks, "UNIT", unit)
        monkeypatch.setattr(blocks, "SEGMENT", segment)
        check_all(array)
        check_all(array, workers=2)
        chosen = [5, 23, 0, 5, 17, 18, 6]
        for key, result in array.reduce(**ALL, roi=chosen, workers=2).items():
            twin(key, result, frames[chosen], None)


def test_blocks_that_span_too_much_of_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = h5(chunks=(4, 6, 4, 20), compression="gzip")(tmp_path)
    for limit in (1 << 30, 4000, 1):
        monkeypatch.setattr(blocks, "BOX", limit)
        check_all(array)
        check_all(array, workers=2)


@pytest.mark.parametrize("options", [{"chunks": (2, 2, 7, 20)}, {"chunks": (3, 4, 5, 6), "compression": "gzip"}])
def test_every_block_is_read_once(tmp_path: Path, options: dict[str, Any]) -> None:
    array = h5(**options)(tmp_path)
    array.reduce(**ALL)  # which loads kernels, and that counts
    array = vfs.open(tmp_path / "x.h5", backend="buffered")
    reader_of(array).backend = counting = CountingBackend(BufferedBackend(reader_of(array).dataset.files))
    array.reduce(**ALL, workers=2)
    assert array.nbytes / 4 < counting.nbytes <= (tmp_path / "x.h5").stat().st_size


@pytest.mark.parametrize("name", ["mib_u16", "mib_r64_12", "npy", "h5_chunks", "h5_gzip"])
def test_selected_frames_of_every_layout(tmp_path: Path, name: str) -> None:
    array = SETS[name](tmp_path)
    chosen = [5, 23, 0, 5, 17]
    frames = array.read().reshape(-1, *array.shape[2:])
    for roi in (chosen, np.isin(np.arange(24), chosen).reshape(4, 6)):
        picked = frames[chosen] if isinstance(roi, list) else frames[np.flatnonzero(roi)]
        for workers in (0, 2):
            results = array.reduce(**ALL, roi=roi, workers=workers)
            for key, result in results.items():
                twin(key, result, picked, None)
            assert results["disk"].data.shape == (4, 6)
            assert (results["disk"].valid == np.isin(np.arange(24), chosen).reshape(4, 6)).all()


def test_frames_in_other_layouts_over_file_borders(tmp_path: Path) -> None:
    """A frame that begins in one file and ends in the next is put together; the others are taken where they are."""
    frames = frames_of(24, (16, 20), 4095)
    content = frames.tobytes()
    for k, (a, b) in enumerate([(0, 3000), (3000, 7002), (7002, len(content))]):
        (tmp_path / f"part{k}.gtg").write_bytes(content[a:b])
    description = {
        "vfs": 1,
        "dtype": "<u2",
        "shape": [24, 16, 20],
        "dims": ["frame", "y", "x"],
        "files": [f"part{k}.gtg" for k in range(3)],
    }
    parts = [
        {"file": 0, "offset": 0, "origin": [0, 0, 0], "shape": [4, 16, 20]},
        {"file": 1, "offset": 0, "origin": [7, 0, 0], "shape": [2, 16, 10]},
        {"file": 1, "offset": 800, "origin": [7, 0, 10], "shape": [2, 16, 10]},
    ]
    (tmp_path / "x.vfs.json").write_text(json.dumps(description | {"blocks": parts}))
    array = vfs.open(tmp_path / "x.vfs.json")
    stored = array.valid
    assert np.flatnonzero(stored).tolist() == [0, 1, 2, 3, 7, 8]
    check_all(array, stored=stored)
    check_all(array, stored=stored, workers=2)


def test_k2is(tmp_path: Path) -> None:
    frames = frames_of(2, (1860, 2048), 4095)
    array = vfs.open(write_k2is(tmp_path, frames))
    shown = array.read()
    results = array.reduce(sum=vfs.Sum(), disk=vfs.Disk(900, 1000, 40), centre=vfs.CenterOfMass(900, 1000, 40))
    y, x = np.mgrid[:1860, :2048]
    near = (y - 900) ** 2 + (x - 1000) ** 2 < 1600
    assert (results["sum"].data == shown.sum(0)).all()
    assert (results["disk"].data == shown[:, near].sum(1)).all()


OVER_FRAMES = {name: ALL[name] for name in ("sum", "mean", "max", "min", "std")}


@pytest.fixture(scope="module")
def sectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scan of 3 × 4 positions, of which the last two are not stored."""
    frames = np.zeros((10, 1860, 2048), "u2")
    frames[:, :, :500] = frames_of(10, (1860, 500), 4094)
    return write_k2is(tmp_path_factory.mktemp("k2is"), frames + 1, scan=(3, 4))


@pytest.mark.parametrize("dtype", [None, "f4"])
@pytest.mark.parametrize(("crop", "patches"), [((925, 940, 250, 515), 6), ((0, 1860, 90, 300), 4)])
def test_sectors_of_a_camera_are_taken_one_after_the_other(
    sectors: Path, crop: tuple[int, ...], patches: int, dtype: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "PATCHED", 1)
    with pytest.warns(vfs.IncompleteWarning):
        array = vfs.open(sectors, crop=crop, dtype=dtype, allow_incomplete=True)
    assert len(Pass(reader_of(array), OVER_FRAMES).supply.patches) == patches
    shown = array.read().reshape(12, *array.shape[2:])
    for roi in (np.arange(12), [11, 3, 3, 10, 9, 0, 1, 2, 4, 5, 6, 7, 8, 8]):
        stored = np.asarray(roi) < 10
        for workers in (0, 3):
            results = array.reduce(**OVER_FRAMES, roi=roi, workers=workers)
            for name, result in results.items():
                twin(name, result, shown[roi][stored], None)
    told: list[tuple[int, int]] = []
    ends = []
    for parts in array.reduce_partial(**OVER_FRAMES, parts=3, workers=0, progress=lambda *done: told.append(done)):
        ends.append(told[-1][0])
        for name, result in parts.items():
            twin(name, result, shown[: ends[-1]], None)
    assert ends == [4, 8, 10]


def test_reductions_that_look_at_frames_get_them_as_wholes(sectors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "PATCHED", 1)
    with pytest.warns(vfs.IncompleteWarning):
        array = vfs.open(sectors, crop=(925, 941, 250, 510), allow_incomplete=True)
    check_all(array, stored=np.arange(12) < 10)
    assert not Pass(reader_of(array), ALL).supply.patches


def test_frms6(tmp_path: Path) -> None:
    frames = frames_of(24, (16, 32), 4095)
    array = vfs.open(write_frms6(tmp_path, frames))
    shown = array.read().reshape(-1, *array.shape[-2:])
    for workers in (0, 2):
        results = array.reduce(sum=vfs.Sum(), rows=vfs.Rectangle(2, 0, 7, 11), workers=workers)
        np.testing.assert_allclose(results["sum"].data, shown.sum(0), rtol=1e-6)
        np.testing.assert_allclose(results["rows"].selected, shown[:, 2:7, :11].sum((1, 2)), rtol=1e-6)


IMAGES = {
    "dark": np.random.default_rng(7).random((16, 20)) * 9,
    "gain": np.random.default_rng(8).random((16, 20)) + 0.5,
}
DEAD = np.array([[0, 0], [7, 9], [7, 10], [15, 3]])


@pytest.mark.parametrize(
    "options",
    [
        IMAGES,
        {"dead": DEAD},
        {"dead": DEAD, "dtype": "u2"},
        IMAGES | {"dead": DEAD, "dtype": "f8"},
        {"dtype": "f4"},
        {"dtype": "u1"},
        {"dtype": "i8"},
    ],
)
@pytest.mark.parametrize("kind", ["U16", pytest.param("raw", marks=pytest.mark.thorough)])
def test_corrected_and_converted_as_in_the_array(tmp_path: Path, options: dict[str, Any], kind: str) -> None:
    frames = frames_of(24, (16, 20), 4095)
    if kind == "U16":
        array = vfs.open(write_mib(tmp_path, frames, kind="U16"), nav_shape=(5, 6), sync_offset=-2, **options)
    else:
        more = {"stored_dtype": "u2", **options}
        array = vfs.open(
            write_raw(tmp_path, frames, frame_header=3),
            format="raw",
            sig_shape=(16, 20),
            frame_header=3,
            nav_shape=(5, 6),
            sync_offset=-2,
            **more,
        )
    stored = array.valid.reshape(-1)
    assert np.flatnonzero(stored).tolist() == list(range(2, 26))
    check_all(array, stored=stored)
    check_all(array, stored=stored, workers=3)


def test_an_array_that_was_opened_with_roi(tmp_path: Path) -> None:
    path = write_mib(tmp_path, frames_of(24, (16, 20), 4095), kind="U16")
    whole = vfs.open(path, nav_shape=(4, 6))
    mask = np.zeros((4, 6), bool)
    mask[1, 2:5] = mask[3, 0] = True
    array = vfs.open(path, nav_shape=(4, 6), roi=mask)
    results, same = array.reduce(**ALL), whole.reduce(**ALL, roi=mask)
    for name in ALL:
        np.testing.assert_array_equal(results[name].data, same[name].data)
        assert results[name].dims == same[name].dims
        assert (results[name].valid == same[name].valid).all()
    again = array.reduce(disk=ALL["disk"], roi=[3, 0])["disk"]
    assert np.argwhere(again.valid).tolist() == [[1, 2], [3, 0]]
    assert again.bounding == (slice(1, 4), slice(0, 3))
    assert again.data[3, 0] == again.selected[0] == same["disk"].data[3, 0]


def test_a_single_frame(tmp_path: Path) -> None:
    image = frames_of(1, (16, 20), 4095)[0]
    array = vfs.open(write_npy(tmp_path, image))
    results = array.reduce(sum=vfs.Sum(), disk=vfs.Disk(7, 9, 3), centre=vfs.CenterOfMass())
    if reader_of(array).dataset.nav_ndim == 0:
        assert (results["sum"].data == image).all()
        assert results["disk"].data.shape == ()
        with pytest.raises(vfs.OptionError, match="roi does not apply"):
            array.reduce(x=vfs.Sum(), roi=[0])


def test_holes_in_a_scan(tmp_path: Path) -> None:
    """Files that are missing: their frames are blank, and do not count."""
    path = write_mib(tmp_path, frames_of(24, (16, 20), 4095), kind="U16", frames_per_file=5, missing=[1, 3])
    with pytest.warns(vfs.IncompleteWarning):
        array = vfs.open(path, allow_incomplete=True)
    stored = array.valid.reshape(-1)
    assert 0 < stored.sum() < 24
    check_all(array, stored=stored)
    result = array.reduce(m=vfs.Mean(), d=vfs.CenterOfMass())
    assert np.isnan(result["d"].selected[~stored]).all()


def test_nothing_is_stored(tmp_path: Path) -> None:
    array = vfs.open(write_mib(tmp_path, frames_of(3, (16, 20), 4095), kind="U16"), sync_offset=5)
    results = array.reduce(**ALL, low=vfs.Min(), high=vfs.Max(dtype="f4"))
    assert not any(result.valid.any() for result in results.values())
    assert (results["low"].data == 0).all()
    assert np.isnan(results["high"].data).all()
    assert np.isnan(results["mean"].data).all()
    assert np.isnan(results["std"].data).all()
    assert (results["sum"].data == 0).all()
    assert (results["each"].data == 0).all()
    assert results["each"].masked.mask.all()
    assert results["each"].bounding == results["each"].inner == (slice(0, 0),)


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_large_frames_are_taken_several_at_once(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = frames_of(9, (64, 64), 4095)
    monkeypatch.setattr(blocks, "LARGE", 3 * frames[0].nbytes + 5)
    monkeypatch.setattr(blocks, "READ", 1)
    lengths = []

    class Lengths(vfs.Reduction):
        tile_bytes, tile_frames = 1, 5

        def buffers(self, frames: Any) -> Any:
            return {"x": ("nav", "i8", ())}

        def process(self, tile: np.ndarray, region: vfs.Region, buffers: Any) -> None:
            lengths.append(len(tile))

    array = vfs.open(write_npy(tmp_path, frames), backend=backend)
    results = array.reduce(sum=vfs.Sum(), x=Lengths(), workers=0)
    assert lengths == [3, 3, 3]
    assert (results["sum"].data == frames.sum(0)).all()
    assert (array.reduce(sum=vfs.Sum(), workers=0)["sum"].data == frames.sum(0)).all()
