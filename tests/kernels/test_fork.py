"""A process may fork while another thread compiles a kernel, or imports its module."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import vfs
from tests.waiting import eventually
from vfs import kernels
from vfs.kernels.importing import loading
from vfs.testing.writers import write_npy


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("lock", [global_compiler_lock, loading], ids=["compiles", "imports"])
def test_a_child_forked_while_a_thread_compiles_reads_on(tmp_path: Path, lock: Any) -> None:
    """It waited for ever for numba's lock, whose holder it does not have."""
    frames = np.arange(60, dtype=">u2").reshape(3, 4, 5)
    array = vfs.open(write_npy(tmp_path, frames), dtype="f4")
    assert (array[...] == frames).all()
    held, done = threading.Event(), threading.Event()

    def compiles() -> None:
        with lock:
            held.set()
            done.wait(1)

    thread = threading.Thread(target=compiles)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        status = 3
        try:
            with lock:
                status = 0 if (array[...] == frames).all() else 4
        finally:
            os._exit(status)
    done.set()
    thread.join()
    ended = eventually(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
    if not ended:
        os.kill(child, signal.SIGKILL)
    assert (ended, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) == (True, 0)
    with lock:  # let go of here, too
        assert (array[...] == frames).all()


def test_kernels_import_each_other_by_full_names() -> None:
    """What is imported from the package itself takes its lock, whoever holds the locks of modules."""
    for path in Path(kernels.__path__[0]).rglob("*.py"):
        assert not re.search(r"^ *from vfs(.kernels)? import", path.read_text(), re.M), path
