"""Plans of chunks, of pieces and of runs, followed row by row: what they place is what numpy cuts."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.support import in_memory
from tests.model.strategies import piece_tables
from vfs.backends import make_backend
from vfs.engine import chunk_plan
from vfs.engine.array import ArrayReader
from vfs.engine.chunk_plan import MAX_BOX_RANGES, FrameStep, plan_of, run_plan
from vfs.kernels.columns import COUNT, DEST, FILE, LINES, NEXT, PITCH, START, STEP, STOP
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, whole_frame
from vfs.model.stored import StoredArray
from vfs.testing.backends import MemoryBackend, local_files, memory_files

JUNK = b"\xee"


class Frames(NamedTuple):
    """Frames in files, with or without numpy.

    Attributes:
        stored: dtype of the elements in the files; contents: these.
        values: the array.
        file: for each position, the file that holds its frame; -1: none does.
    """

    dataset: StoredArray
    stored: np.dtype
    contents: list[bytes]
    values: np.ndarray
    file: np.ndarray


@st.composite
def stored_scans(draw: st.DrawFn, turned: bool = True) -> Frames:
    """Frames with axes in any order and direction, with bytes between them, cut into files, from any frame on."""
    sig = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    nav = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    counts = draw(st.lists(st.integers(0, 8), min_size=1, max_size=3))
    dtype = np.dtype(draw(st.sampled_from(["<u2", ">u2", "u1", "<f4"])))
    size, n = math.prod(sig), sum(counts)
    pieces, where = draw(piece_tables(sig, 1)) if turned else (None, np.arange(size).reshape(sig))
    before, head, foot = (draw(st.integers(0, 3)) for _ in range(3))
    offset = draw(st.integers(-2, 3))
    frames = np.random.default_rng(0).integers(1, 200, (n, size)).astype(dtype)
    records = [JUNK * head + frame.tobytes() + JUNK * foot for frame in frames]
    ends = np.cumsum(counts)
    contents = [JUNK * before + b"".join(records[b - a : b]) for a, b in zip(counts, ends, strict=True)]
    layout = FrameLayout.of(
        FrameRecord(sig, dtype.itemsize, header=head, footer=foot, pieces=pieces), counts, file_header=before
    ).arranged(Scan(nav, offset))
    shown = np.arange(math.prod(nav)) + offset
    there = (shown >= 0) & (shown < n)
    values = np.zeros((len(shown), *sig), dtype.newbyteorder("="))
    values[there] = frames[shown[there]][:, where.reshape(-1)].reshape(-1, *sig)
    file = np.where(there, np.searchsorted(ends, shown, "right"), -1)
    dims = tuple("abcdef"[: len(nav) + len(sig)])
    dataset = StoredArray("data", memory_files(contents), layout, PlainDecoder(dtype), nav + sig, dims, len(nav))
    return Frames(dataset, dtype, contents, values.reshape(nav + sig), file.reshape(nav))


def followed(rows: np.ndarray, contents: Sequence[bytes], stored: np.dtype, size: int) -> np.ndarray:
    """The elements that ranges place, as their columns say: each of them once."""
    out, times = np.zeros(size, stored), np.zeros(size, int)
    for row in rows:
        for line in range(max(1, row[LINES])):
            there = np.frombuffer(contents[row[FILE]], stored, row[COUNT], row[START] + line * row[PITCH])
            to = row[DEST] + line * row[NEXT] + row[STEP] * np.arange(row[COUNT])
            out[to] = there
            times[to] += 1
    assert (times == 1).all()
    return out


def written(folder: str | Path, contents: Sequence[bytes]) -> Files:
    paths = [Path(folder) / str(k) for k in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return local_files(paths)


def moved(rows: np.ndarray, file: int, base: int) -> np.ndarray:
    made = rows.copy()
    made[:, [START, STOP]] += base
    made[:, FILE] = file
    return made


@given(scan=stored_scans(), data=st.data(), piece=st.sampled_from([1, 20, 1 << 20]))
def test_plans_place_what_numpy_cuts(scan: Frames, data: st.DataObject, piece: int) -> None:
    """Whole chunks of one file, as one plan and piece by piece; of others there is none."""
    (dataset, stored, contents, values, file), nav = scan, scan.file.shape
    last = [(k,) if len(nav) == 1 else (1, k) for k in range(1, nav[-1] + 1)]
    cut = data.draw(st.sampled_from(last + [(k, nav[1]) for k in range(2, nav[0] + 1) if len(nav) == 2]))
    sig = values.shape[len(nav) :]
    array = ArrayReader(dataset, MemoryBackend(contents, copies=True), chunks=cut + sig)
    frame = math.prod(sig)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_plan, "PIECE", piece)
        plan = plan_of(array)
        assert plan is not None
        pieces, hand = plan.pieces, plan.at_hand
    assert pieces is not None
    assert hand is not None
    assert (hand.first, hand.last) == (plan.first, plan.last)
    assert plan.count == math.prod(cut)
    for position in np.ndindex(*(n // c + 2 for n, c in zip(nav, cut, strict=True))):
        box = tuple(slice(p * c, p * c + c) for p, c in zip(position, cut, strict=True))
        held = file[box]
        place = plan.place(position + (0,) * len(sig))
        assert (place is not None) == (held.shape == cut and held.min() == held.max() >= 0)
        if place is None:
            continue
        assert place[0] == held.flat[0]
        wanted = values[box].reshape(-1)
        rows = plan.rows(*place)
        np.testing.assert_array_equal(followed(rows, contents, stored, wanted.size), wanted)
        if pieces.decoding is None:
            assert (plan.run, pieces.frames, pieces.span) == (True, plan.count, frame * stored.itemsize)
            at = place[1] + pieces.first
            assert contents[place[0]][at : at + wanted.nbytes] == wanted.tobytes()
            continue
        for first in range(0, plan.count, pieces.frames):  # the last piece may have fewer
            count = min(pieces.frames, plan.count - first)
            ranges = moved(pieces.decoding.ranges[: count * pieces.decoding.rows], place[0], place[1])
            ranges[:, [START, STOP]] += first * plan.layout.stride
            made = followed(ranges, contents, stored, count * frame)
            np.testing.assert_array_equal(made, wanted[first * frame : (first + count) * frame])
            assert ranges[:, START].min() == place[1] + first * plan.layout.stride + pieces.first
            assert ranges[:, STOP].max() == ranges[:, START].min() + pieces.span + (count - 1) * plan.layout.stride


def test_chunks_that_have_no_plan() -> None:
    """Those of cut frames and of parts of lines of the scan, and beyond the array and the files."""
    values = np.arange(4 * 6 * 5 * 7, dtype="u2").reshape(4, 6, 5, 7)
    for chunks in ((2, 3, 5, 7), (1, 6, 5, 4), (4, 6, 1, 7), (4, 1, 5, 7), (1, 1, 3, 7)):
        assert plan_of(in_memory(values, nav_ndim=2, chunks=chunks)) is None
    array = in_memory(values, nav_ndim=2, header=3, chunks=(2, 6, 5, 7))
    plan = plan_of(array)
    assert plan is not None
    assert not plan.run
    assert [plan.place((k, 0, 0, 0)) is not None for k in (-1, 0, 1, 2)] == [False, True, True, False]
    assert plan.place((0, 0, 1, 0)) is plan.place((0, 0, 0, -1)) is None
    layout = plan.layout
    for short in (
        replace(layout, stored=layout.stored - 1),
        replace(layout, stream=layout.stream - [[0, 1, 0, 0]]),
        replace(layout, offset=1),
    ):
        plan.layout = short
        assert [plan.place((k, 0, 0, 0)) is not None for k in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("strides", "begin", "in_parts"),
    [((6, 1), 0, True), ((-6, -1), 35, True), ((6, -1), 5, True), ((-6, 1), 30, True), ((1, 6), 0, False)],
)
def test_turned_frames_are_no_runs(strides: tuple[int, int], begin: int, in_parts: bool) -> None:
    """One range has all bytes of them too. Of transposed ones, lines overlap in the output."""
    layout = FrameLayout.of(FrameRecord((6, 6), 2), [3])
    pieces = whole_frame((6, 6), strides)
    pieces[0, -2] = begin
    content, decoder = np.arange(108, dtype="u2").tobytes(), PlainDecoder(np.dtype("u2"))
    turned = replace(layout, pieces=pieces)
    dataset = StoredArray("data", memory_files([content]), turned, decoder, (3, 6, 6), ("n", "y", "x"), 1)
    array = ArrayReader(dataset, MemoryBackend([content]), chunks=(1, 6, 6))
    plan, straight = plan_of(array), strides == (6, 1)
    assert plan is not None
    assert (plan.last - plan.first, plan.run, plan.straight) == (72, straight, straight)
    assert (run_plan(array) is not None) == straight
    assert (FrameStep.in_parts(array) is not None) == in_parts


@given(scan=stored_scans())
def test_steps_make_frames_of_parts(scan: Frames) -> None:
    array = ArrayReader(scan.dataset, MemoryBackend(scan.contents, copies=True))
    step = FrameStep.in_parts(array)
    assert step is not None or (array.frame_run is not None and not array.frame_run.in_order)
    nav = scan.file.ndim
    for position in zip(*np.nonzero(scan.file >= 0), strict=True):
        wanted = scan.values[position].reshape(-1)
        plan = plan_of(ArrayReader(scan.dataset, array.backend, chunks=(1,) * nav + scan.values.shape[nav:]))
        place = None if plan is None else plan.place((*map(int, position), *(0 for _ in scan.values.shape[nav:])))
        assert place is not None
        if step is not None:
            made = followed(moved(step.ranges, *place), scan.contents, scan.stored, wanted.size)
            np.testing.assert_array_equal(made, wanted)
            assert step.first + step.span <= len(scan.contents[place[0]]) - place[1]


@given(scan=stored_scans(turned=False), data=st.data())
def test_runs_are_slices_of_the_flat_array(scan: Frames, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = replace(scan.dataset, files=written(folder, scan.contents))
        array = ArrayReader(dataset, make_backend("buffered", dataset.files))
        plan, flat = run_plan(array), scan.values.reshape(-1)
        assert plan is not None
        array.read()  # opens the files
        assert plan.read(0, 0, np.empty(0, np.uint8))
        for _ in range(3):
            first, last = sorted(data.draw(st.tuples(*[st.integers(0, flat.size)] * 2)))
            out = np.full((last - first) * flat.itemsize, 0xEE, np.uint8)
            held = scan.file.reshape(-1)[first // plan.size : -(-last // plan.size)]
            assert plan.read(first, last, out) == bool((held >= 0).all())
            if (held >= 0).all():
                np.testing.assert_array_equal(out.view(flat.dtype), flat[first:last])


def test_runs_end_where_a_file_does(tmp_path: Path) -> None:
    """And those of many frames are not read so."""
    values = np.arange(80 * 6, dtype="u2")
    contents = [values[:14].tobytes(), values[14:].tobytes()]  # frame 2 lies in both
    layout = FrameLayout.running_on(FrameRecord((6,), 2), [len(content) for content in contents])
    files = written(tmp_path, [contents[0] + JUNK * 8, contents[1]])
    dataset = StoredArray("data", files, layout, PlainDecoder(values.dtype), (80, 6), ("n", "x"), 1)
    array = ArrayReader(dataset, make_backend("buffered", files))
    plan, out = run_plan(array), np.zeros(values.nbytes, np.uint8)
    assert plan is not None
    assert not plan.read(0, 12, out[:24])  # no file is open
    array.read()
    for first, last in ((0, 14), (3, 14), (18, 18 + 6 * MAX_BOX_RANGES)):
        assert plan.read(first, last, out[: 2 * (last - first)])
        np.testing.assert_array_equal(out[: 2 * (last - first)].view("u2"), values[first:last])
    for first, last in ((0, 15), (14, 18), (18, 19 + 6 * MAX_BOX_RANGES)):
        assert not plan.read(first, last, out[: 2 * (last - first)])
