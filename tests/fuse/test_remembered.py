"""Names that the kernel remembers do not make a server grow: `vfs.fuse.remembered`."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path

import numpy as np
import pytest

from tests.fuse.load import Seen
from tests.fuse.support import python
from tests.waiting import eventually
from vfs.fuse import remembered
from vfs.fuse.points import mounted

CHUNKS = 30_000
SERVER = """
    import sys
    from vfs.fuse import remembered
    remembered.KEPT = 4 << 20  # of 180 bytes: some 24,000 names
    from vfs.cli.app import main
    sys.argv[1:1] = ["mount"]
    sys.exit(main())
"""


@pytest.fixture
def server(tmp_path: Path, point: Path) -> Iterator[subprocess.Popen[bytes]]:
    np.save(tmp_path / "scan.npy", np.arange(CHUNKS * 4, dtype=np.uint16).reshape(CHUNKS, 2, 2))
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(SERVER),
        "--chunks",
        "1,2,2",
        str(tmp_path / "scan.npy"),
        str(point),
    ]
    process = subprocess.Popen(command, env={**os.environ, "FUSE_LIBRARY_NAME": "fuse3"})
    try:
        assert eventually(lambda: mounted(str(point)) is not None or process.poll() is not None)
        yield process
    finally:
        process.terminate()
        process.wait(100)


@pytest.mark.skipif(not find_library("fuse3"), reason="no libfuse 3 here")
def test_a_server_gets_the_memory_of_names_back(server: subprocess.Popen[bytes], point: Path) -> None:
    inside = """
        import os, sys, time
        def here():  # a name is gone for a moment
            for _ in range(100):
                try:
                    return os.getcwd()
                except FileNotFoundError:
                    time.sleep(0.1)
        os.chdir(sys.argv[1])
        with open("c/7/0/0", "rb") as kept:
            for k in range(int(sys.argv[2])):
                os.stat(f"{sys.argv[1]}/c/{k}/0/0")
                if k % 1000 == 0:
                    assert here() == sys.argv[1]
            print(list(kept.read()))
        print(os.stat("c/9/0/0").st_size, sorted(os.listdir(".")))
    """

    def grown() -> int:
        os.path.exists(point / "scan.zarr" / f"absent{os.urandom(4).hex()}")  # it looks when it is asked something
        return Seen.of(server.pid).anonymous - idle

    idle = Seen.of(server.pid).anonymous
    for _ in range(2):  # the second time, names have to come again
        assert python(inside, point / "scan.zarr" / "data", CHUNKS).splitlines() == [
            "[28, 0, 29, 0, 30, 0, 31, 0]",
            "8 ['c', 'zarr.json']",
        ]
    assert eventually(lambda: grown() < 9 << 20), grown()  # all 90,000 names take 16 MiB


class Library:
    """What is called of libfuse 3."""

    def __init__(self, memory: list[int]) -> None:
        self.memory = memory
        self.told: list[bytes] = []
        self.fuse_get_session = types.SimpleNamespace()
        self.fuse_lowlevel_notify_inval_entry = self.notify

    def notify(self, session: object, parent: int, name: bytes, length: int) -> int:
        assert (parent, length) == (1, len(name))
        self.told.append(name)
        return {b"known": 0, b"unmounting": -9}.get(name, -2)


def test_the_kernel_is_told_when_names_took_more_than_may_be_kept(tmp_path: Path) -> None:
    memory = [100 << 20]
    library = Library(memory)
    names = remembered.Remembered(types.SimpleNamespace(_libfuse=library, fuse_version_major=3), lambda: memory[0])
    names._session = object()  # type: ignore[assignment]
    (tmp_path / "known").mkdir()
    look = lambda asked, cached: names.look(str(tmp_path), ["known", "unknown"], asked, cached)  # noqa: E731
    assert not look(0, 0)
    memory[0] += 40 << 20
    assert not look(100_000, 30 << 20)  # of that, 30 are of the cache
    assert not look(1000, 0)  # nobody asked for names
    assert look(100_000, 0)
    assert library.told == [b"known", b"unknown"]
    assert not look(101_000, 0)  # it did not help, but hardly anybody asked since
    memory[0] -= 40 << 20
    assert not look(200_000, 0)
    memory[0] += 20 << 20
    assert not look(300_000, 0)
    names.end()
    memory[0] += 20 << 20
    assert look(400_000, 0)
    assert len(library.told) == 2  # the session is gone


def test_nobody_is_told_while_it_is_being_unmounted(tmp_path: Path) -> None:
    """libfuse writes a line on stderr for each name then, and who unmounts would wait as long as nobody reads those."""
    library, memory = Library([]), [100 << 20]
    names = remembered.Remembered(types.SimpleNamespace(_libfuse=library, fuse_version_major=3), lambda: memory[0])
    names._session = object()  # type: ignore[assignment]
    assert not names.look(str(tmp_path), [], 0, 0)
    memory[0] += 40 << 20
    assert names.look(str(tmp_path), ["unknown", "unmounting", "known", "other"], 100_000, 0)
    assert library.told == [b"unknown", b"unmounting"]
