"""Every reduction equals its slow twin, for pixels of every dtype, some of them stored big-endian."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vfs
from tests.reduce.twins import CX, CY, RINGS, SHAPE, TWINS, WEIGHTS, R, check, exactly, far
from vfs.reduce import histogram
from vfs.testing.writers import write_npy, write_raw

INTEGERS = ("?", "<u1", ">u2", "<i2", ">i4", "<u4", "i1", "<u8", ">i8")
FLOATS = ("<f4", ">f8", "<f2")


def filled(dtype: str, count: int = 23, seed: int = 0) -> np.ndarray:
    """Frames of the whole range of a dtype (of 8-byte integers such that no sum overflows)."""
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "f":
        return (rng.normal(size=(count, *SHAPE)) * 50).astype(kind)
    if kind.kind == "b":
        return rng.random((count, *SHAPE)) < 0.4
    info = np.iinfo(kind)
    shift = 12 if kind.itemsize == 8 else 0
    made = rng.integers(info.min >> shift, info.max >> shift, (count, *SHAPE), kind.newbyteorder("="), endpoint=True)
    made[::5] //= 1 << min(20, 8 * kind.itemsize - 5)
    return made.astype(kind)


def fitting(frames: np.ndarray) -> dict[str, vfs.Reduction]:
    """All reductions, but for those that refuse pixels that large."""
    return {name: reduction for name, (reduction, _) in TWINS.items()}


BY_DAY = ("?", ">u2", ">i8", "<f4")
"""Each dtype compiles some twenty kernels: of each size, kind and order one by day."""


@pytest.mark.parametrize(
    "dtype", [pytest.param(one, marks=() if one in BY_DAY else pytest.mark.thorough) for one in (*INTEGERS, *FLOATS)]
)
def test_equals_its_twin(tmp_path: Path, dtype: str) -> None:
    frames = filled(dtype)
    array = vfs.open(write_npy(tmp_path, frames))
    for name, result in array.reduce(**fitting(frames), workers=0).items():
        check(name, result.data, frames, rtol=1e-6 if dtype == "<f2" else 1e-9)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_part_of_any_scan(tmp_path: Path, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([">u2", ">i8", "<f4"]))
    frames = filled(dtype, data.draw(st.integers(1, 30)))
    header, footer = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 3))
    files = data.draw(st.integers(1, min(3, len(frames))))
    frames = frames[: len(frames) // files * files]
    paths = write_raw(tmp_path, frames, frame_header=header, frame_footer=footer, files=files)
    nav = data.draw(st.sampled_from([(len(frames),), (2, -(-len(frames) // 2)), (3, 7)]))
    offset = data.draw(st.integers(-5, 5))
    array = vfs.open(
        paths,
        format="raw",
        dtype=dtype,
        sig_shape=SHAPE,
        frame_header=header,
        frame_footer=footer,
        nav_shape=nav,
        sync_offset=offset,
        backend=data.draw(st.sampled_from(["mmap", "buffered"])),
    )
    total = int(np.prod(nav))
    roi = data.draw(st.none() | st.lists(st.integers(0, total - 1), min_size=1, max_size=12))
    names = data.draw(st.lists(st.sampled_from(sorted(TWINS)), min_size=1, max_size=4, unique=True))
    results = array.reduce(**{name: TWINS[name][0] for name in names}, roi=roi, workers=data.draw(st.integers(0, 3)))

    positions = np.arange(total) if roi is None else np.array(roi)
    stored = (positions + offset >= 0) & (positions + offset < len(frames))
    shown = frames[(positions + offset)[stored]]
    for name in names:
        result = results[name]
        if result.kind != "nav":
            if len(shown):
                check(name, result.data, shown)
            assert result.valid.all() == bool(len(shown))
            continue
        check(name, result.selected[stored], shown)
        valid = np.zeros(total, bool)
        valid[positions[stored]] = True
        assert (result.valid == valid.reshape(nav)).all()
        blank = result.data[~result.valid]
        assert np.isnan(blank).all() if blank.dtype.kind == "f" else (blank == 0).all()
        assert (
            result.data[result.valid] == result.masked.compressed().reshape(-1, *result.shape[len(nav) :])
        ).all() or result.dtype.kind == "f"


def test_nothing_is_rounded(tmp_path: Path) -> None:
    """What float64 would round."""
    frames = np.full((7, 2, 3), (1 << 52) + 1, "u8")
    frames[0, 0, 0] = 1
    array = vfs.open(write_npy(tmp_path, frames))
    results = array.reduce(sum=vfs.Sum(), each=vfs.FrameSum())
    assert (results["sum"].data.astype(object) == exactly(frames).sum(axis=0)).all()
    assert (results["each"].data.astype(object) == exactly(frames).sum(axis=(1, 2))).all()


@pytest.mark.parametrize(("dtype", "value"), [("u8", 1 << 63), ("i8", 1 << 62), ("i8", -(1 << 63))])
@pytest.mark.parametrize("reduction", [vfs.Sum, vfs.Mean, vfs.FrameSum, lambda **more: vfs.RadialSum(0, 0, **more)])
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.thorough), 2])
def test_a_sum_too_large_is_an_error(tmp_path: Path, dtype: str, value: int, reduction: Any, workers: int) -> None:
    array = vfs.open(write_npy(tmp_path, np.full((2, 2, 2), value, dtype)))
    with pytest.raises(vfs.OptionError, match=r"a sum is larger than u?int64 holds; dtype='f8'"):
        array.reduce(x=reduction(), workers=workers)
    got = array.reduce(x=reduction(dtype="f8"), workers=workers)["x"].data
    assert got.dtype == "f8"
    assert got.flat[0] in (value * 2.0, value * 4.0, value, value * 1.0)


def test_what_no_ring_holds_cannot_overflow(tmp_path: Path) -> None:
    frames = np.full((2, 1, 4), 1 << 63, "u8")
    frames[:, :, 0] = 5
    got = vfs.open(write_npy(tmp_path, frames)).reduce(x=vfs.RadialSum(0, 0, 1), y=vfs.Disk(0, 0, 1))
    assert (got["x"].data == 5).all()
    assert (got["y"].data == 5).all()


def test_weights_whose_sums_may_be_too_large_are_refused(tmp_path: Path) -> None:
    array = vfs.open(write_npy(tmp_path, np.ones((2, 2, 2), "u4")))
    with pytest.raises(
        vfs.OptionError, match=r"^m: Masks: uint32 pixels times these weights may be larger than int64 holds"
    ):
        array.reduce(m=vfs.Masks(np.full((2, 2), 1 << 40)))
    assert (array.reduce(m=vfs.Masks(np.full((2, 2), 1 << 40), dtype="f8"))["m"].data == 2.0**42).all()
    large = array.reduce(m=vfs.Masks(np.full((2, 2), (1 << 25) + 1)))["m"].data  # beyond 2 ** 53 may be, so in int64
    assert large.dtype == np.int64
    assert (large == 4 * ((1 << 25) + 1)).all()


@pytest.mark.parametrize("name", ["disk", "weights", "centre_near", "radial_few", "yes_and_no"])
def test_what_is_outside_does_not_count(tmp_path: Path, name: str) -> None:
    """Not even where it is no number."""
    frames = filled("<f4")
    looked = {"weights": 0, "yes_and_no": 1}
    frames[3, 5, 6] = np.nan
    frames[4, 5, 6] = np.inf
    reduction, twin = TWINS[name]
    if name in looked:
        weights = np.array(reduction.array, float)  # type: ignore[attr-defined]
        weights[:, 5, 6] = 0
        weights[:, 0, 0] = 1
        reduction = vfs.Masks(weights if name == "weights" else weights > 0)
        wanted = np.stack(
            [
                np.where(one != 0, frames, 0).astype(float).reshape(23, -1)
                @ (one if name == "weights" else one > 0).reshape(-1)
                for one in weights
            ],
            1,
        )
    else:
        wanted = twin(np.where(np.isfinite(frames), frames, 0))
    got = vfs.open(write_npy(tmp_path, frames)).reduce(x=reduction)["x"].data
    np.testing.assert_allclose(got, wanted.astype(float), rtol=1e-9, atol=1e-9)


def test_no_number_spreads_as_in_numpy(tmp_path: Path) -> None:
    frames = filled("<f8")
    frames[3, 1, 1], frames[7, 2, 2], frames[8, 2, 3] = np.nan, np.inf, -np.inf
    results = vfs.open(write_npy(tmp_path, frames)).reduce(
        sum=vfs.Sum(), max=vfs.Max(), min=vfs.Min(), mean=vfs.Mean(), each=vfs.FrameSum(), workers=2
    )
    for name, wanted in {
        "sum": frames.sum(0),
        "max": frames.max(0),
        "min": frames.min(0),
        "mean": frames.mean(0),
        "each": frames.sum((1, 2)),
    }.items():
        np.testing.assert_allclose(results[name].data, wanted, rtol=1e-9, atol=1e-9, err_msg=name)


def test_variance_of_what_hardly_varies(tmp_path: Path) -> None:
    """The squares of large numbers cancel: these must not."""
    for dtype, large in (("u2", 65000), ("i2", -32000), ("u4", 4_000_000_000), ("f8", 1e9), ("i8", -(1 << 30))):
        frames = np.full((1000, 2, 2), large, dtype)
        frames[::2, 0, 0] += 1
        for workers in (0, 3):
            got = vfs.open(write_npy(tmp_path, frames)).reduce(v=vfs.Variance(), s=vfs.Std(), workers=workers)
            np.testing.assert_allclose(
                got["v"].data, [[0.25, 0], [0, 0]], rtol=1e-12 if dtype[1] == "2" else 1e-8, err_msg=dtype
            )
            np.testing.assert_allclose(got["s"].data, [[0.5, 0], [0, 0]], rtol=1e-8)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_results_of_the_dtype_that_was_asked_for(tmp_path: Path, dtype: str) -> None:
    frames = filled("<u2") // 512
    array = vfs.open(write_npy(tmp_path, frames))
    makers: list[Any] = [vfs.Sum, vfs.Mean, vfs.Std, vfs.Variance, vfs.Max, vfs.FrameSum]
    for make in makers:
        got, exact = array.reduce(x=make(dtype=dtype), y=make()).values()
        assert got.dtype == dtype
        np.testing.assert_allclose(got.data, exact.data, rtol=2e-3 if dtype == "f2" else 1e-6)
    masks = array.reduce(
        x=vfs.Masks(np.abs(TWINS["weights"][0].array) / 50, dtype=dtype), y=vfs.Disk(2, 2, 2, dtype=dtype)
    )  # type: ignore[attr-defined]
    assert {result.dtype for result in masks.values()} == {np.dtype(dtype)}


def test_sparse_masks(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    frames = filled("<u2")
    array = vfs.open(write_npy(tmp_path, frames))
    masks = TWINS["weights"][0].array  # type: ignore[attr-defined]
    for make in (sparse.csr_matrix, sparse.coo_array, sparse.lil_matrix, sparse.dia_matrix):
        for dense in (masks, masks > 0, (masks * 9).astype("i4")):
            got = array.reduce(x=vfs.Masks(make(dense.reshape(5, -1))), y=vfs.Masks(dense))
            assert (got["x"].data == got["y"].data).all()
            assert got["x"].dtype == got["y"].dtype
        one = array.reduce(x=vfs.Masks(make(masks[1])), y=vfs.Masks(masks[1]))
        assert (one["x"].data == one["y"].data).all()
    with pytest.raises(vfs.OptionError, match=r"array is float64\[2, 7\]"):
        array.reduce(x=vfs.Masks(sparse.csr_matrix(np.ones((2, 7)))))


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i4", ">u8", ">i2", "f2", "i1", "u8", ">i8"])
def test_masks_of_any_dtype_order_and_strides(tmp_path: Path, dtype: str) -> None:
    frames = filled("<u2")
    array = vfs.open(write_npy(tmp_path, frames))
    mask = np.random.default_rng(1).integers(0, 8, (6, 14)).astype(dtype)
    for one in (mask[:, ::2], np.asfortranarray(mask[:, :7]), mask[::-1, 6::-1], mask[:, :7] > 3):
        wanted = (frames.astype("i8") * one.astype("i8")).sum((1, 2))
        assert (array.reduce(x=vfs.Masks(one))["x"].data == wanted).all()


def test_masks_of_nothing(tmp_path: Path) -> None:
    array = vfs.open(write_npy(tmp_path, filled("<u2")))
    for mask in (np.zeros((6, 7)), np.zeros((6, 7), bool), np.zeros((2, 6, 7), "i2")):
        assert not array.reduce(x=vfs.Masks(mask))["x"].data.any()


def test_weights_that_add_up_to_more_than_64_bits(tmp_path: Path) -> None:
    array = vfs.open(write_npy(tmp_path, np.ones((2, 2, 2), "u1")))
    for dtype, weight in (("u8", 2**64 - 1), ("i8", -(2**63)), ("i8", 2**62)):
        mask = np.full((2, 2), weight, dtype)
        with pytest.raises(vfs.OptionError, match="may be larger than int64 holds"):
            array.reduce(x=vfs.Masks(mask))
        assert (array.reduce(x=vfs.Masks(mask, dtype="f8"))["x"].data == 4.0 * weight).all()


def test_a_standard_deviation_whose_square_does_not_fit(tmp_path: Path) -> None:
    frames = np.zeros((4, 1, 1), "u2")
    frames[::2] = 2000
    result = vfs.open(write_npy(tmp_path, frames)).reduce(x=vfs.Std(dtype="f2"))["x"]
    assert result.data == np.float16(1000)


def test_own_reductions_get_pixels_as_they_are(tmp_path: Path) -> None:
    class Kinds(vfs.Reduction):
        def buffers(self, frames: Any) -> Any:
            return {"x": ("nav", "U20", ())}

        def process(self, tile: np.ndarray, region: vfs.Region, buffers: Any) -> None:
            buffers["x"][:] = str(tile.dtype)

    for dtype in ("f2", "bool", "c8", ">u2", "i8"):
        array = vfs.open(write_npy(tmp_path, np.ones((3, 2, 2), dtype)))
        assert set(array.reduce(x=Kinds())["x"].data) == {str(np.dtype(dtype).newbyteorder("="))}


@pytest.mark.parametrize("dtype", ["<c8", ">c16"])
@pytest.mark.parametrize("workers", [0, 2])
def test_complex_pixels(tmp_path: Path, dtype: str, workers: int) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    weights = WEIGHTS * (1 + 1j * rng.normal(size=SHAPE))
    weights[:, 0, 0] = 0
    frames = (rng.normal(size=(23, *SHAPE)) + 1j * rng.normal(size=(23, *SHAPE))).astype(dtype)
    wide = frames.astype("c16")
    dotted = np.einsum("nyx,kyx->nk", wide, weights)
    under = np.stack([wide[:, one > 0].sum(axis=1) for one in WEIGHTS], 1)
    expected = {
        "sum": (vfs.Sum(), wide.sum(axis=0)),
        "mean": (vfs.Mean("c8"), wide.mean(axis=0).astype("c8")),
        "variance": (vfs.Variance(), wide.var(axis=0)),
        "std": (vfs.Std("f4"), wide.std(axis=0).astype("f4")),
        "each": (vfs.FrameSum(), wide.sum(axis=(1, 2))),
        "disk": (vfs.Disk(CY, CX, R), wide[:, far(SHAPE) < R].sum(axis=1)),
        "point": (vfs.Point(5, 0), wide[:, 5, 0]),
        "rings": (vfs.RadialSum(CY, CX, 2), np.stack([wide[:, k == RINGS].sum(axis=1) for k in range(2)], 1)),
        "yes_and_no": (vfs.Masks(WEIGHTS > 0), under),
        "real": (vfs.Masks(weights.real), np.einsum("nyx,kyx->nk", wide, weights.real)),
        "weights": (vfs.Masks(weights), dotted),
        "weight": (vfs.Masks(weights[1]), dotted[:, 1]),
        "sparse": (vfs.Masks(sparse.csr_array(weights.reshape(len(weights), -1))), dotted),
    }
    paths = write_raw(tmp_path, frames, frame_header=10)
    array = vfs.open(paths, format="raw", dtype=dtype, sig_shape=SHAPE, frame_header=10, nav_shape=(4, 6))
    results = array.reduce(**{name: reduction for name, (reduction, _) in expected.items()}, workers=workers)
    for name, (_, wanted) in expected.items():
        got = results[name].selected
        if results[name].kind == "nav":
            assert np.isnan(got[23]).all()  # is not stored
            got = got[:23]
        assert got.dtype == wanted.dtype
        assert len(results[name].dims) == results[name].ndim
        np.testing.assert_allclose(got, wanted, 1e-5 if wanted.itemsize in (4, 8) and name in ("mean", "std") else 1e-9)
    frames[0, 0, 0] = np.nan  # where masks are 0
    write_raw(tmp_path, frames, frame_header=10)
    again = vfs.open(paths, format="raw", dtype=dtype, sig_shape=SHAPE, frame_header=10).reduce(x=vfs.Masks(weights))
    np.testing.assert_allclose(again["x"].data[1:], dotted[1:], 1e-9)
    assert np.isfinite(again["x"].data[0]).all()


def test_complex_masks_of_real_pixels(tmp_path: Path) -> None:
    frames, weights = filled(">u2"), WEIGHTS * (1 + 1j)
    array = vfs.open(write_npy(tmp_path, frames))
    got = array.reduce(x=vfs.Masks(weights), y=vfs.Masks(weights[1], dtype="c8"))
    wanted = np.einsum("nyx,kyx->nk", frames, weights)
    np.testing.assert_allclose(got["x"].data, wanted, 1e-9)
    assert got["y"].dtype == np.complex64
    np.testing.assert_allclose(got["y"].data, wanted[:, 1], 1e-3)


def test_frames_of_one_axis_and_of_three(tmp_path: Path) -> None:
    for shape in ((11,), (2, 3, 4)):
        frames = np.random.default_rng(0).integers(0, 100, (9, *shape)).astype("u2")
        paths = write_raw(tmp_path, frames)
        array = vfs.open(paths, format="raw", dtype="u2", sig_shape=shape)
        mask = np.random.default_rng(1).random(shape)
        got = array.reduce(
            sum=vfs.Sum(), each=vfs.FrameSum(), m=vfs.Masks(mask), most=vfs.Max(), h=vfs.Histogram(4, (0, 99))
        )
        assert (got["sum"].data == frames.sum(0)).all()
        assert (got["each"].data == frames.reshape(9, -1).sum(1)).all()
        np.testing.assert_allclose(got["m"].data, (frames * mask).reshape(9, -1).sum(1))
        if len(shape) == 1:
            window = array.reduce(a=vfs.Rectangle(0, 3, 1, 7), b=vfs.Point(0, 4), c=vfs.Disk(0, 4, 2))
            assert (window["a"].data == frames[:, 3:7].sum(1)).all()
            assert (window["b"].data == frames[:, 4]).all()
            assert (window["c"].data == frames[:, 3:6].sum(1)).all()
        else:
            with pytest.raises(vfs.OptionError, match="Disk: expected frames of two axes"):
                array.reduce(x=vfs.Disk(1, 1, 1))


def test_more_frames_than_short_sums_hold(tmp_path: Path) -> None:
    """Sums of pixels of 2 bytes begin in 4: not for more than 32,768 frames."""
    for dtype, value in (("u2", 65535), ("i2", -32768)):
        frames = np.full((100_000, 1, 2), value, dtype)
        got = vfs.open(write_npy(tmp_path, frames)).reduce(sum=vfs.Sum(), v=vfs.Variance(), workers=0)
        assert (got["sum"].data == value * 100_000).all()
        assert (got["v"].data == 0).all()


@pytest.mark.parametrize("dtype", ["<u2", ">i2", "i1", ">f4"])
def test_rings_and_counts_of_frames_that_are_taken_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    frames = np.random.default_rng(2).integers(-99, 99, (9, 61, 79)).astype(dtype)
    y, x = np.mgrid[:61, :79]
    rings = np.floor(np.hypot(y - 20, x - 30)).astype(int)
    wide = frames.astype("i8" if frames.dtype.kind == "i" else "u8" if frames.dtype.kind == "u" else "f8")
    expected = np.stack([wide[:, rings == k].sum(axis=1) for k in range(rings.max() + 1)], 1)
    counts = np.histogram(wide, 7, (-50, 50))[0]
    array = vfs.open(write_npy(tmp_path, frames))
    for most in (1 << 32, frames[0].size * 2, 10):  # of all, after two frames, none: a frame has more pixels
        monkeypatch.setattr(histogram, "MAX_COUNTED", most)
        made = array.reduce(rings=vfs.RadialSum(20, 30), h=vfs.Histogram(7, (-50, 50)), workers=2)
        np.testing.assert_array_equal(made["rings"].data, expected)
        np.testing.assert_array_equal(made["h"].data, counts)
