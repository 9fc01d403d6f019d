"""A scan in MIB files, and an instrument that writes it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.http.support import Asgi
from vfs.live.file_watch import SEEN
from vfs.live.trust import Pace
from vfs.server.application import Application
from vfs.sets import live_set
from vfs.sources.local import LocalSources
from vfs.testing.recording import Recording
from vfs.testing.writers import write_mib

SCAN, SIDE = (6, 8), 16


class Instrument(NamedTuple):
    """A finished scan, what writes it again, and where."""

    finished: Path
    recording: Recording
    path: Path
    frames: np.ndarray

    def write_frames(self, count: int) -> None:
        """Write so many frames more, and a little of the one behind them."""
        self.recording.write(count * RECORD)

    def finish(self, look: Callable[[], object]) -> None:
        """Write the rest, in two parts between which somebody looks: a file that grew is written up to its end."""
        self.recording.write(self.recording.left - 100)
        look()
        self.recording.finish()


RECORD = 384 + 2 * SIDE * SIDE  # bytes


def instrument_of(folder: Path, preallocate: bool = False) -> Instrument:
    source, copy = folder / "finished", folder / "microscope"
    source.mkdir()
    frames = np.random.default_rng(1).integers(1, 4000, (*SCAN, SIDE, SIDE), dtype="u2")
    named = write_mib(source, frames.reshape(-1, SIDE, SIDE), frames_per_file=20, scan=SCAN)
    files = [named, *sorted(source.glob("*.mib"))]
    recording = Recording(files, copy, preallocate, at_once=0)
    recording.write(named.stat().st_size + 100)  # and a part of the first header
    return Instrument(named, recording, copy / named.name, frames)


def rest(paths: Iterable[Path]) -> None:
    """Have nobody seen to write some files for long."""
    for path in paths:
        if path.exists():
            SEEN.look(LocalSources(), str(path)).since -= 1e6


@pytest.fixture
def instrument(tmp_path: Path) -> Instrument:
    return instrument_of(tmp_path)


@pytest.fixture
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files looked at whenever somebody asks, so that no test waits for a clock."""
    for name in ("LOOKS", "FAR_LOOKS"):
        monkeypatch.setattr(live_set, name, Pace(least=0.0, share=0.0))


def answered(application: Application, path: str) -> Asgi:
    """Ask an application for a path, in a thread: this one may have an event loop of a browser."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(Asgi(application, path).run())).result()
