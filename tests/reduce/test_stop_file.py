"""The file that tells the workers of a pass to stop."""

from __future__ import annotations

from pathlib import Path

from vfs.outputs.stop_file import StopFile, Stopped


def test_who_looks_at_a_stop_file() -> None:
    with StopFile() as stop, Stopped(stop.path) as early:
        assert not early.is_set()
        stop.stop()
        assert early.is_set()
        with Stopped(stop.path) as late:
            assert late.is_set()
    assert not Path(stop.path).exists()


def test_a_stop_file_that_is_gone_says_stop() -> None:
    with StopFile() as stop:
        watching = Stopped(stop.path)
    with watching:
        assert watching.is_set()
    with Stopped(stop.path) as elsewhere:  # as on another machine
        assert not elsewhere.is_set()
