"""Guessed scan shapes: from intervals and exposures that tests make up, and from numbers of frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.scan_times import times
from vfs.model import likeness
from vfs.model.scan_guess import ScanGuess, best_first, from_count, from_exposures, from_intervals, of_line


def options(guess: ScanGuess) -> tuple[tuple[int, int], int, int, bool]:
    return guess.nav_shape, guess.line_skip, guess.sync_offset, guess.sure


@given(
    st.integers(8, 40),
    st.integers(8, 60),
    st.integers(0, 3),
    st.integers(0, 5),
    st.floats(0, 0.3),
    st.floats(1.5, 9),
    st.integers(0, 99),
)
def test_longer_intervals_are_ends_of_lines(
    rows: int, columns: int, skip: int, before: int, jitter: float, flyback: float, seed: int
) -> None:
    stamps = times(rows, columns, skip=skip, before=before, jitter=jitter, flyback=flyback, seed=seed)
    for unit in (stamps, stamps / 1e9, stamps.astype(np.uint64)):
        first, *others = from_intervals(unit, len(stamps))
        assert options(first) == ((rows, columns), skip, before, True)
        assert not any(one.sure for one in others)
    assert first.reason.startswith("from the time stamps: ")


@given(st.integers(0, 10**6), st.integers(2, 2000), st.sampled_from(range(6)))
def test_random_time_stamps_are_never_sure(seed: int, count: int, kind: int) -> None:
    random = np.random.default_rng(seed)
    interval = [
        random.exponential(1, count),
        random.integers(0, 3, count).astype(float),
        random.lognormal(0, 2, count),
        random.normal(10, 1, count),
        (random.random(count) < 0.05) * 10 + 1.0,
        np.round(random.exponential(3, count)) + 1,
    ][kind]
    guesses = from_intervals(1000 + np.cumsum(interval), count) + from_exposures(np.abs(interval), count)
    assert not any(one.sure for one in guesses)


@pytest.mark.parametrize("dwell", [1.1, 0.3, 1.25, 10.01, 1])
def test_rounded_clocks_are_no_lines(dwell: float) -> None:
    rounded = (1e6 + np.arange(20_000) * dwell).astype(np.int64)
    assert not any(one.sure for one in from_intervals(rounded, len(rounded)))
    exact = np.full(20_000, dwell)
    exact[299::300] += 7
    rounded = (1e6 + np.cumsum(np.append(0, exact[:-1]))).astype(np.int64)
    assert options(from_intervals(rounded, len(rounded))[0]) == ((66, 300), 0, 0, True)


def test_what_else_explains_a_pause_is_said() -> None:
    stamps = times(40, 50)
    for more, word in (
        ({"file": np.arange(2000) // 50}, "files begin there"),
        ({"step": 4e6}, "one step of the clock"),
    ):
        guess = from_intervals(stamps, 2000, **more)[0]  # type: ignore[arg-type]
        assert guess.nav_shape == (40, 50)
        assert not guess.sure
        assert word in guess.reason
    assert options(from_intervals(stamps, 2000, file=np.arange(2000) // 400)[0])[3]  # some ends only
    assert "batches" in from_intervals(times(40, 50, flyback=1000), 2000)[0].reason
    lost = np.delete(stamps, [777])
    guess = from_intervals(lost, 1999)[0]
    assert (guess.nav_shape, guess.sure) == ((39, 50), False)
    assert "as if frames were lost" in guess.reason


def test_a_stopped_scan_and_unknown_stamps() -> None:
    stamps = times(40, 50)[:1975]
    stamps[[3, 49, 50, 1200]] = 0
    assert options(from_intervals(stamps, 1975)[0]) == ((39, 50), 0, 0, True)
    assert "25 frames after the last whole line" in from_intervals(stamps, 1975)[0].reason
    ends = np.r_[0:500, 1500:1975]
    assert options(from_intervals(stamps[ends], 1975, at=ends)[0]) == ((39, 50), 0, 0, True)
    assert (
        from_intervals(stamps[::-1], 1975) == from_intervals(np.zeros(9, int), 9) == from_intervals(stamps[:5], 5) == []
    )


def test_frames_with_another_exposure_are_left_out() -> None:
    exposure = np.full(30 * 42, 0.5)
    exposure[40::42] = exposure[41::42] = 3.0
    first, second = from_exposures(exposure, len(exposure))
    assert options(first) == ((30, 40), 2, 0, True)
    assert options(second) == ((30, 42), 0, 0, False)
    assert from_exposures(np.full(50, 0.5), 50) == []


def test_lines_within_a_series_of_scans_are_not_sure_where_both_repeat() -> None:
    """Bursts at each position, and lines: nothing tells which of them is the line."""
    interval = np.full(6000, 1e6)
    interval[9::10] += 3e6
    interval[199::200] += 50e6
    guesses = best_first(from_intervals(10**15 + np.cumsum(np.append(0, interval[:-1])).astype(int), 6000))
    assert {one.nav_shape for one in guesses} == {(600, 10), (30, 200)}
    assert not any(one.sure for one in guesses)


@given(st.integers(0, 100_000))
def test_shapes_of_a_number_of_frames(count: int) -> None:
    found = from_count(count)
    assert len(found) <= 6
    assert all(a * b == count and min(a, b) > 1 and not one.sure for one in found for a, b in [one.nav_shape])
    assert len({one.nav_shape for one in found}) == len(found)
    ratios = [max(one.nav_shape) / min(one.nav_shape) for one in found]
    assert ratios == sorted(ratios)


def test_the_best_is_first_and_contradictions_are_not_sure() -> None:
    a, b = (of_line(columns, 100, "reason", "time stamps") for columns in (10, 20))
    assert a is not None
    assert b is not None
    assert best_first([a, ScanGuess((5, 20), "x", True, "exposures"), b])[0].sure
    assert len(best_first([a, b, a, *from_count(100)])) == 5
    assert not any(one.sure for one in best_first([ScanGuess((n, 100 // n), "x", True, "y") for n in (5, 10)]))
    assert of_line(60, 100, "reason", "time stamps") is None


# likeness


@pytest.mark.parametrize(("rows", "columns"), [(40, 33), (20, 64), (64, 20)])
def test_frames_are_like_those_one_line_later(rows: int, columns: int) -> None:
    random = np.random.default_rng(1)
    y, x = np.mgrid[:rows, :columns].reshape(2, -1, 1, 1)
    v, u = np.mgrid[:16, :24]
    frames = 20 + 10 * np.sin(x / 4 + u / 3) + 6 * np.cos(y / 5 + v / 2) + 5 * (x > columns // 3)
    assert likeness.lags(likeness.binned(random.poisson(np.maximum(frames, 0))))[0] == columns


def test_frames_that_are_not_alike_give_no_lag() -> None:
    random = np.random.default_rng(2)
    assert likeness.lags(likeness.binned(random.poisson(5, (900, 12, 12)))) == []
    assert likeness.lags(likeness.binned(np.ones((900, 12, 12)))) == []
    assert likeness.lags(likeness.binned(np.full((90, 12), np.nan))) == []
    drift = np.arange(900)[:, None, None] + random.normal(0, 1, (900, 8, 8))
    assert likeness.lags(likeness.binned(drift)) == []
