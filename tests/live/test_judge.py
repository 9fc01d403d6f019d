"""The judge of `scripts/fuzz live`: it lets pass what nothing tells, and no other fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.live.unordered import LACKING, RIGHT, WRONG, Sums, of_frame, of_sums, run

FRAMES = np.random.default_rng(1).integers(1, 4000, (4, 8, 32)).astype("<u2")
NUMBERS = [1, 2]


def lacking(number: int, first: int, stop: int) -> np.ndarray:
    """Return all frames, one of which has zeros from one byte to another."""
    frames = FRAMES.copy()
    frames[number].reshape(-1).view(np.uint8)[first:stop] = 0
    return frames


def sums(frames: np.ndarray) -> Sums:
    taken = frames[NUMBERS].astype(np.int64)
    return Sums(NUMBERS, taken.sum((1, 2)), taken.sum(0))


@pytest.mark.parametrize(("first", "stop", "verdict"), [(9, 9, RIGHT), (9, 40, LACKING), (9, 41, WRONG)])
def test_a_frame_and_its_sums_may_lack_one_short_run(first: int, stop: int, verdict: str) -> None:
    shown = lacking(2, first, stop)
    assert of_frame(shown[2], FRAMES[2]) == verdict
    assert of_sums(sums(shown), shown.__getitem__, FRAMES) == verdict


@pytest.mark.parametrize("alone", [FRAMES, lacking(1, 9, 40), lacking(2, 17, 40), lacking(3, 9, 40)])
def test_sums_lack_what_their_frames_lack_and_nothing_else(alone: np.ndarray) -> None:
    """A difference that could be a short run of zeros is no excuse where the frame has none, or another one."""
    assert of_sums(sums(lacking(2, 9, 40)), alone.__getitem__, FRAMES) == WRONG


def test_sums_of_a_frame_that_is_not_there_yet_are_wrong() -> None:
    def alone(number: int) -> np.ndarray:
        raise vfs.NotYetError(f"frame {number} is not written yet")

    assert of_sums(sums(FRAMES), alone, FRAMES) == WRONG


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
@pytest.mark.parametrize("seed", [4308, 4478])
def test_sums_that_lack_what_nothing_tells_are_let_pass(tmp_path: Path, seed: int) -> None:
    seen = run(tmp_path, seed, slow=False)
    assert seen[RIGHT]
    assert not seen[WRONG]
