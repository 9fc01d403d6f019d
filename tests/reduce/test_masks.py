"""Masks as kernels take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vfs
from vfs.reduce import masks
from vfs.reduce.passes import Pass
from vfs.reduce.reduction import FrameType
from vfs.reduce.sums import MaskedSums, WeightedSums
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_mib, write_npy


@given(size=st.integers(1, 400), data=st.data())
def test_runs_hold_the_mask_and_end_with_it(size: int, data: st.DataObject) -> None:
    """What lies before and behind it is memory of somebody else, where only its rows were read."""
    mask = np.zeros(size, bool)
    mask[data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=9))] = True
    runs = masks.runs_of(mask)
    held = np.zeros(size, bool)
    for first, last in runs.tolist():
        assert first < last
        held[first:last] = True
    inside = np.flatnonzero(mask)
    assert held[mask].all()
    assert (runs.min(), runs.max()) == (inside[0], inside[-1] + 1)
    assert len(masks.runs_of(np.zeros(size, bool))) == 0


@given(y=st.integers(0, 5), x=st.integers(0, 6), rows=st.integers(1, 3), columns=st.integers(1, 4))
def test_kernels_look_at_no_row_that_they_do_not_ask_for(y: int, x: int, rows: int, columns: int) -> None:
    frames = FrameType((8, 10), np.dtype("u2"), 1)
    mask = np.zeros((1, 8, 10), bool)
    mask[0, y : y + rows, x : x + columns] = True
    masked = MaskedSums("x", mask, frames, None)
    f8 = np.dtype("f8")
    weighted = WeightedSums(mask.reshape(1, -1) * 0.5, f8, f8, frames, True)
    for reduction, low, high in (
        (masked, masked.masks[0][0].min(), masked.masks[0][0].max()),
        (weighted, *_looked_at(weighted)),
    ):
        first, last = reduction.rows(frames)
        assert (first, last) == (y, min(8, y + rows))
        assert first * 10 <= low < high <= last * 10


def _looked_at(sums: WeightedSums) -> tuple[int, int]:
    """First and last pixel (half-open) that the kernels look at."""
    looked = [np.arange(*sums.span)] * bool(sums.full) + [where for where, _ in sums.lists.values()]
    return int(np.concatenate(looked).min()), int(np.concatenate(looked).max()) + 1


@given(places=st.lists(st.integers(0, 8 * 9000 - 1), min_size=1, max_size=9), by=st.sampled_from([4, 8]))
@settings(deadline=None)
def test_masks_of_frames_that_come_backwards(places: list[int], by: int) -> None:
    """Each pixel counts once, and no row is looked at that was not before."""
    mask = np.zeros(8 * 9000, bool)
    mask[places] = True
    mask[places[0] : places[0] + 40_000] = True  # longer than a run may be
    runs, words = masks.turned(masks.runs_of(mask), masks.words_of(mask, np.dtype("u2")), by)
    looked = np.zeros(mask.size, int)
    for first, last in runs.tolist():
        looked[first:last] += 1
    stored = np.arange(mask.size).reshape(-1, by)[:, ::-1].reshape(-1)  # the pixel that lies at each place
    assert (looked[mask[stored]] == 1).all()
    assert looked.max() == 1
    assert (words != 0).tolist() == mask[stored].tolist()
    inside = np.flatnonzero(mask)
    assert (runs.min(), runs.max()) == (inside[0] // by * by, -(-(inside[-1] + 1) // by) * by)


@pytest.mark.parametrize(("depth", "by"), [(6, 8), (12, 4)])
@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_frames_that_come_backwards(tmp_path: Path, depth: int, by: int, backend: str) -> None:
    frames = np.random.default_rng(depth).integers(0, 1 << depth, (7, 24, 32)).astype("u2")
    array = vfs.open(write_mib(tmp_path, frames, kind="R64", depth=depth), backend=backend)
    work: dict[str, vfs.Reduction] = {
        "disk": vfs.Disk(11, 13.5, 6.2),
        "near": vfs.CenterOfMass(10.5, 17.2, 5.3),
        "all": vfs.CenterOfMass(),
    }
    source = Pass(reader_of(array), work).supply
    assert [(block.turned, block.elements) for block in source.blocks(0, 7)] == [(by, None)]
    there = array.reduce(**work)
    decoded = array.reduce(**work, total=vfs.Sum())
    y, x = np.mgrid[:24, :32]
    disk, near = (y - 11) ** 2 + (x - 13.5) ** 2 < 6.2**2, (y - 10.5) ** 2 + (x - 17.2) ** 2 < 5.3**2
    for got in (there, decoded):
        assert (got["disk"].data == frames[:, disk].sum(1)).all()
        for name, mask, cy, cx in (("near", near, 10.5, 17.2), ("all", y >= 0, 0, 0)):
            weight = frames * mask
            total = weight.sum((1, 2))
            wanted = np.stack([(weight * (a - c)).sum((1, 2)) / total for a, c in ((y, cy), (x, cx))], axis=1)
            np.testing.assert_allclose(got[name].data, wanted, rtol=1e-12, atol=1e-12)
    assert (decoded["total"].data == frames.sum(0)).all()


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_the_edges_of_a_file(tmp_path: Path, backend: str) -> None:
    frames = np.arange(4 * 40 * 50, dtype="u2").reshape(4, 40, 50)
    array = vfs.open(write_npy(tmp_path, frames), backend=backend)
    results = array.reduce(first=vfs.Point(0, 0))
    assert (results["first"].data == frames[:, 0, 0]).all()
    assert (array.reduce(last=vfs.Point(39, 49))["last"].data == frames[:, 39, 49]).all()


@given(
    dtype=st.sampled_from(["u1", ">u2", "<f4", ">f8"]),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 60), st.integers(1, 60)),
    backend=st.sampled_from(["mmap", "buffered"]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_last_byte_of_a_page(
    tmp_path: Path, dtype: str, shape: tuple[int, int, int], backend: str, seed: int
) -> None:
    """Behind it no memory may be touched: none is mapped there."""
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 100, shape).astype(dtype)
    header = -frames.nbytes % 4096
    path = tmp_path / "x.raw"
    path.write_bytes(bytes(header) + frames.tobytes())
    array = vfs.open(path, format="raw", dtype=dtype, sig_shape=shape[1:], file_header=header, backend=backend)
    mask = rng.random(shape[1:])
    last = vfs.Point(shape[1] - 1, shape[2] - 1)
    got = array.reduce(sum=vfs.Sum(), max=vfs.Max(), last=last, each=vfs.FrameSum(), m=vfs.Masks(mask))
    values = frames.astype("f8")
    np.testing.assert_allclose(got["sum"].data, values.sum(0))
    np.testing.assert_allclose(got["max"].data, values.max(0))
    np.testing.assert_allclose(got["last"].data, values[:, -1, -1])
    np.testing.assert_allclose(got["each"].data, values.sum((1, 2)))
    np.testing.assert_allclose(got["m"].data, (values * mask).sum((1, 2)))
