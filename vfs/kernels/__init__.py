"""Numba kernels: arrays and integers in, arrays out. Nothing else in vfs imports numba.

Every kernel stands at module level (only then it reaches numba's disk cache), releases the GIL and
runs on one thread. The kernels of `vfs.kernels.fuse` are the exception to "arrays in, arrays out":
libfuse calls them with addresses, and they read tables of words there.

Numba keeps compiled kernels beside the package or, if it may not write there, in the user's home.
If it may write to neither (the package was installed by root and is run by a service), they go to a
folder in the folder for temporary files. That folder must be the user's alone, because code that
lies there is run.

A fork takes numba's lock first, and both processes release it. Otherwise a child that is forked
while another thread compiles a kernel, or loads a compiled one, would find the lock held by a
thread that it does not have, and its first read would wait for ever.
"""

import os
import tempfile
from contextlib import suppress

from numba import config, njit
from numba.core.compiler_lock import global_compiler_lock

from vfs.boundary import not_ours
from vfs.errors import DependencyError, printable


def _nothing() -> None:
    pass


def _keep_compiled() -> None:
    """Make sure that compiled kernels can be kept on disk: without that, numba refuses to define them.

    Raises:
        DependencyError: there is no place for them.
    """
    # If the home is unknown, numba would make a folder "~" in the current one
    if os.path.isabs(os.path.expanduser("~")):
        with suppress(RuntimeError):  # "no locator available"
            njit(cache=True)(_nothing)
            return
    folder = ""
    try:
        folder = os.path.join(tempfile.gettempdir(), f"vfs-{os.geteuid()}")
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        fault = not_ours(folder)
    except OSError as error:
        fault = str(error.strerror)
    if fault:
        raise DependencyError(
            f"no folder for compiled kernels: {printable(folder)}: {fault}; set NUMBA_CACHE_DIR to a folder of yours"
        )
    # Also for processes that we start
    os.environ["NUMBA_CACHE_DIR"] = config.CACHE_DIR = os.path.join(folder, "kernels")


if config.DISABLE_JIT:
    raise DependencyError(
        "NUMBA_DISABLE_JIT is set: numba would not compile, and most of vfs works only compiled; unset it"
    )
_keep_compiled()
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)
