"""Who has read from a mount and still runs."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from vfs.fuse import readers
from vfs.fuse.readers import Process, Readers, readers_of
from vfs.serving.entry import READERS


def sleeping() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "100"])


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_a_process_is_met_once_by_any_of_its_threads_and_until_it_ends(tmp_path: Path) -> None:
    met = Readers(str(tmp_path))
    met.meet(0)  # cannot be seen from here
    met.meet(threading.get_native_id())
    thread = threading.Thread(target=lambda: met.meet(threading.get_native_id()))
    thread.start()
    thread.join()
    other = sleeping()
    try:
        met.meet(other.pid)
        met.look_again()
        met.meet(other.pid)
        ours, theirs = (tmp_path / READERS).read_text().splitlines()
        assert ours.startswith(f"{os.getpid()} ")
        assert theirs.startswith(f"{other.pid} ")
        # Who asks knows of himself
        assert met.living()[1:] == readers_of(str(tmp_path)) == [f"sleep (pid {other.pid})"]
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # a zombie reads nothing
        assert readers_of(str(tmp_path)) == []
    finally:
        end(other)


def test_a_number_that_was_given_out_again_is_another_process(tmp_path: Path) -> None:
    other = sleeping()
    try:
        process = readers._process_of(other.pid)
        assert process
        (tmp_path / READERS).write_text(f"{process.pid} {process.start - 1}\nno numbers\n7\n")
        assert readers_of(str(tmp_path)) == []
    finally:
        end(other)
    assert readers_of(str(tmp_path / "none")) == []


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_PROCESSES", 4)
    met = Readers(str(tmp_path))
    met._met = {Process(-n, n): None for n in range(1, 5)}  # which have ended
    others = [sleeping() for _ in range(4)]
    try:
        for other in others:
            met.meet(other.pid)
        assert len(met._met) <= 4
        assert readers_of(str(tmp_path))[-1] == f"sleep (pid {others[-1].pid})"
    finally:
        for other in others:
            end(other)
