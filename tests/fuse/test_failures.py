"""The log of failing reads: the first ones with all they say, then a count."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.fuse.support import Scan, python
from vfs.serving import failures
from vfs.serving.failures import FIRST, WINDOW, Failures

log = logging.getLogger("vfs.fuse")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(to: Failures, times: int, file: str = "/data/scan2.raw") -> None:
    for k in range(times):
        what = (
            f"data[{k}:{k + 5}, 0:64]: {file}: expected bytes {k * 4096:,} to {k * 4096 + 4096:,}, the file has 17; it"
            " looks truncated"
        )
        to.add(what, f"a.npy: read of 4,096 bytes at {k * 4096:,} failed: {what}")


def test_the_first_lines_are_written_as_they_are_and_the_others_counted(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    to = Failures(log, clock)
    fail(to, 1000)
    assert len(caplog.messages) == FIRST
    assert caplog.messages[3].endswith(
        "data[3:8, 0:64]: /data/scan2.raw: expected bytes 12,288 to 16,384, the file has 17; it looks truncated"
    )
    assert all("scan2.raw: expected bytes" in line for line in caplog.messages)
    assert caplog.messages[-1].endswith("(more of this kind are only counted, for 60 seconds)")
    clock.now = WINDOW
    fail(to, 1)
    assert len(caplog.messages) == FIRST + 1
    assert caplog.messages[-1].endswith("(and 990 more of this kind before)")
    fail(to, 1000)
    assert len(caplog.messages) == 2 * FIRST
    to.close()
    assert len(caplog.messages) == 2 * FIRST + 1
    assert caplog.messages[-1].startswith(
        "data[# #]: /data/scan2.raw: expected bytes # to # the file has #; it looks truncated (and 991 more"
    )
    to.close()
    assert len(caplog.messages) == 2 * FIRST + 1


def test_files_and_reasons_are_told_apart(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    to = Failures(log, clock)
    for k in range(100):
        fail(to, 2, f"/data 7/scan{k}.raw")
    assert len(caplog.messages) == 200
    for reason in ("no such file", "cannot be opened: Permission denied"):
        to.add(f"/data/a.raw: {reason}", reason)
    assert len(caplog.messages) == 202


def test_memory_is_bounded(clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "KINDS", 10)
    to = Failures(log, clock)
    fail(to, 50, "first")
    for k in range(20):
        fail(to, 1, f"file{k}.raw")
    assert [line for line in caplog.messages if "and 40 more" in line]  # said when it is forgotten
    told = len(caplog.messages)
    fail(to, 1, "first")
    assert len(caplog.messages) == told + 1  # as if it had never been told


def test_a_damaged_file_that_is_copied_does_not_fill_the_log(
    scan: Scan, point: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = scan.files[2]
    bad_bytes = bad.stat().st_size
    with scan.mount(point, chunks=(1, 1, 64, 48)):
        with bad.open("r+b") as file:
            file.truncate(bad_bytes // 2)
        code = """
            import os, sys
            from pathlib import Path
            failed = 0
            for face in ("part0.zarr/data/c", "part0.v2.zarr/data"):
                for row in range(6):
                    for column in range(10):
                        for _ in range(4):
                            try:
                                Path(sys.argv[1], face, str(row), str(column), "0", "0").read_bytes()
                            except OSError as error:
                                failed += 1
            print(failed)
        """
        failed = int(python(code, point))
    lines = [line for line in capfd.readouterr().err.splitlines() if "truncated" in line]
    assert failed >= 8 * 7
    assert FIRST < len(lines) <= 2 * FIRST + 2  # truncated and changed are two reasons
    assert all(str(bad) in line for line in lines)
    assert all("expected bytes" in line for line in lines)
    assert " more of this kind before)" in lines[-1]
