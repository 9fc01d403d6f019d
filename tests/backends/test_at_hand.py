"""What is at hand is read in one call of a kernel, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from vfs import kernels
from vfs.backends import make_backend
from vfs.kernels.columns import NO_ROWS
from vfs.testing.backends import local_files

DATA = np.arange(20_000, dtype=np.uint8)


def touched(path: Path) -> None:
    """Change the ctime of a file, and nothing else."""
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        path.chmod(0o600)


CHANGES: dict[str, tuple[Callable[[Path], object], bool]] = {
    "nothing": (lambda path: None, True),
    "written": (lambda path: path.write_bytes(DATA.tobytes()[::-1]), False),
    "truncated": (lambda path: os.truncate(path, 19_999), False),
    "longer": (lambda path: os.truncate(path, 20_001), False),
    "touched": (touched, False),
    "deleted": (Path.unlink, False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_is_not_at_hand(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(DATA.tobytes())
    backend = make_backend("buffered", local_files([path]))
    out = np.zeros(5000, np.uint8)
    read = partial(kernels.native.at_hand.read, NO_ROWS, 0, out, out, 1000, 7)
    assert not backend.at_hand(0, 1007, 6007, read)  # it is not open
    assert not out.any()
    backend.span(0, 0, 10, np.empty(10, np.uint8))
    act, at_hand = CHANGES[change]
    act(path)
    assert backend.at_hand(0, 1007, 6007, read) is at_hand
    assert (out == DATA[1007:6007]).all() == at_hand


def test_bytes_are_decoded_to_their_places(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    values = np.arange(100, dtype=">u2")
    path.write_bytes(b"head" + values.tobytes())
    backend = make_backend("buffered", local_files([path]))
    backend.span(0, 0, 10, np.empty(10, np.uint8))
    rows = np.zeros((1, NO_ROWS.shape[1]), np.int64)
    rows[0, :7] = 0, 20, 60, 10, 1, 0, 20  # bytes 20 to 60, counted from byte 4, become 20 elements from number 10 on
    out = np.zeros(40, np.uint16)
    memory = np.empty(40, np.uint8)
    step = kernels.steps.placing(2, 1, True)
    read = partial(kernels.native.at_hand.read, rows, step, memory, out.view(np.uint8), 4, 20)
    assert backend.at_hand(0, 24, 64, read)
    assert out.tolist() == [0] * 10 + values[10:30].tolist() + [0] * 10
