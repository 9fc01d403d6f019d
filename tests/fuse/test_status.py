"""Counters, and what other programs are told of a mount."""

from __future__ import annotations

import ctypes
import errno
import threading
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

from tests.fuse.support import Failing
from vfs.api.opening import open_group
from vfs.contents.face_folder import FaceFolder
from vfs.fuse.counters import FIELDS, NATIVE, Counters
from vfs.fuse.view import FuseView, library
from vfs.kernels.native.fuse.tables import CounterWord
from vfs.serving.status import MountStatus
from vfs.testing.inside import set_of


def test_counters_of_many_threads_and_of_native_code_add_up() -> None:
    counters = Counters()
    address = counters.native_address

    def work() -> None:
        for _ in range(5000):
            counters.add(reads=1, nbytes=10)
            counters.add(errors=1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    native = (ctypes.c_int64 * len(CounterWord)).from_address(address)
    for position, value in enumerate((7, 5, 1 << 40, 3, 2, 1)):
        native[position] = value
    for thread in threads:
        thread.join()
    assert counters.native_address == address == counters.table[NATIVE].ctypes.data
    assert address % 64 == 0
    assert counters.totals() == {
        "requests": 80007,
        "reads": 40005,
        "bytes": 400_000 + (1 << 40),
        "hits": 3,
        "misses": 2,
        "errors": 40001,
    }
    assert set(FIELDS) < {field.name for field in fields(MountStatus)}


def test_a_view_counts_what_it_answers(small: Path) -> None:
    view = FuseView(FaceFolder([set_of(open_group(small)).tree]), library(), False)
    buffer, info = ctypes.create_string_buffer(200), SimpleNamespace(contents=SimpleNamespace(fh=0))
    assert view.read(b"/small.npy", buffer, 200, 0, info) == 200
    assert view.read(b"/small.npy", buffer, 200, 200, info) == 120
    assert view.read(b"/small.npy", buffer, 200, 320, info) == 0
    assert view.read(b"/none.npy", buffer, 200, 0, info) == -errno.ENOENT
    totals = view.counters.totals()
    assert (totals["requests"], totals["reads"], totals["bytes"]) == (4, 4, 320)


def test_a_view_counts_what_fails() -> None:
    view = FuseView(Failing(ZeroDivisionError("x")), library(), False)  # type: ignore[arg-type]
    info = SimpleNamespace(contents=SimpleNamespace(fh=0))
    assert view.read(b"/f", ctypes.create_string_buffer(200), 150, 0, info) == -errno.EIO
    assert view.counters.totals() == {"requests": 1, "reads": 1, "bytes": 0, "hits": 0, "misses": 0, "errors": 1}
