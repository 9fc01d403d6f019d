"""A mount under load: `scripts/load`, for as long as `VFS_LOAD` says, else for
moments.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuse.load import SIZE, load, values, write
from tests.waiting import eventually

SECONDS = float(os.environ.get("VFS_LOAD", "2"))


@pytest.mark.timeout(SECONDS + 600)
def test_under_load_every_byte_is_right_and_nothing_grows(tmp_path: Path) -> None:
    found = load(tmp_path, SECONDS, 8 if SECONDS > 10 else 4, 100_000 if SECONDS > 10 else 2000, 16 << 20)
    assert found["problems"] == []


def test_what_is_compared_with_is_what_is_written(tmp_path: Path) -> None:
    write(tmp_path, 40)
    assert (tmp_path / "part01.raw").read_bytes()[64 : 64 + SIZE] == values(2 * SIZE // 2, 3 * SIZE // 2).astype(
        ">u2"
    ).tobytes()
    assert len(set(values(0, 5000).tolist())) > 4000


@pytest.mark.parametrize(
    ("number", "moment"), [(signal.SIGTERM, "mounted"), (signal.SIGINT, "reading"), (signal.SIGHUP, "writing")]
)
def test_ended_by_a_signal_it_leaves_nothing(tmp_path: Path, number: signal.Signals, moment: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.fuse.load", "--seconds", "60", "--processes", "2", "--chunks", "2000"]
    with subprocess.Popen(
        command, env=environment, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert eventually(lambda: bool(list(tmp_path.glob("*/data/*.raw"))))
            if moment != "writing":
                assert eventually(lambda: str(tmp_path) in mounts())
            if moment == "reading":
                assert eventually(
                    lambda: any(
                        '"reads": 0,' not in path.read_text() for path in tmp_path.glob("*/runtime/vfs/*/status.json")
                    )
                )
            process.send_signal(number)
            said = process.communicate(timeout=250)[1]
        finally:
            process.kill()
    assert (process.returncode, said) == (128 + number, "")
    assert os.listdir(tmp_path) == []
    assert str(tmp_path) not in mounts()


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


HOLES = """
import os
from threading import Thread
import numpy as np
from tests.waiting import eventually
from tests.fuse.load import Seen
from vfs.fuse.heap import give_back, share_heap

share_heap()
del (first := [np.ones(16 << 20, np.uint8)])[:]  # from now on glibc maps nothing shorter
made = []

def make():
    made.extend((np.ones(1 << 20, np.uint8), np.ones(1 << 16, np.uint8)) for _ in range(16))

for _ in range(4):  # one after the other, so that threads would have memory of their own
    thread = Thread(target=make)
    thread.start()
    thread.join()
full = Seen.of(os.getpid()).anonymous
made = [short for _, short in made]
give_back()
print(full - Seen.of(os.getpid()).anonymous)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_holes_between_what_is_kept_are_given_back() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", HOLES], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 60 << 20
