"""Makes kernels of functions: compiled once, kept on disk, loaded without the compiler.

Numba keeps compiled kernels beside the package or, if it may not write there, in the user's home.
If it may write to neither (the package was installed by root and is run by a service), they go to a
folder in the folder for temporary files. That folder must be the user's alone, because code that
lies there is run.

A fork takes numba's lock first, as it takes that of `vfs.kernels`, and both processes release it: a
child that is forked while another thread compiles a kernel, or loads a compiled one, would wait for
that thread for ever. Who imports kernels by `vfs.kernels` never needs numba's lock for it: the two
are taken in this order.
"""

import os
import time
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import cache, partial
from hashlib import blake2b

from numba import config, njit
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys
from numba.core.sigutils import normalize_signature

from vfs.errors import DependencyError, printable
from vfs.kernels.own_folder import made, temporary

PATIENCE = 30.0
"""Seconds that a process waits for another one to compile a kernel. None of ours takes that long."""

inner = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")
"""Decorates functions that only kernels call.

No code is compiled to call them from elsewhere, and they lie in the disk cache of their callers.
"""


@cache
def sources_digest(folder):
    """Return a digest of names, sizes and times of all Python files in a folder and below it."""
    made = blake2b(digest_size=16)
    for above, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(name for name in names if name.endswith(".py")):
            found = os.stat(os.path.join(above, name))
            made.update(f"{os.path.relpath(above, folder)}/{name} {found.st_mtime_ns} {found.st_size}\n".encode())
    return made.hexdigest()


class _Kept(FunctionCache):
    """Numba's disk cache, but it loads what was compiled without making the compiler ready before.

    That takes numba 0.35 s, most of it for imports (scipy.linalg is one of them), and machine code
    needs none of it: only the functions that count references must be there. Where nothing is found,
    numba compiles, and makes the compiler ready by itself.

    One process at a time compiles a kernel, and those that wait for it load what it has made. Else
    all workers of a cluster would compile the same, and processes that write to one index at once
    would lose entries of each other.

    A kernel is compiled anew if any file of `vfs.kernels` changed. Numba looks at the file of the kernel
    itself only, but what it calls or takes from other files is compiled into it: after an update of a
    checkout, old code would go on at addresses that lie elsewhere now.
    """

    _turn = -1  # descriptor of the locked file

    def __init__(self, py_func):
        super().__init__(py_func)
        self._cache_file._source_stamp = self._cache_file._source_stamp, sources_digest(os.path.dirname(__file__))

    def load_overload(self, sig, target_context):
        rtsys.initialize(target_context)
        found = self._load_overload(sig, target_context)
        if found is None:
            self._take_turn()
            found = self._load_overload(sig, target_context)
            if found is not None:
                self._end_turn()
        return found

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        finally:
            self._end_turn()

    def _take_turn(self):
        """Wait until no other process compiles this kernel, and let others wait until it is saved.

        Not for ever: a process whose compiling was interrupted may live on.
        """
        self._end_turn()
        path = os.path.join(self._cache_path, f"{self._impl.filename_base}.lock")
        until = time.monotonic() + PATIENCE
        with suppress(OSError):  # every process for itself where there are no locks
            self._impl.locator.ensure_cache_path()
            self._turn = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            while time.monotonic() < until:
                with suppress(BlockingIOError):
                    flock(self._turn, LOCK_EX | LOCK_NB)
                    return
                time.sleep(0.02)

    def _end_turn(self):
        if self._turn >= 0:
            os.close(self._turn)
            self._turn = -1


def kernel(function=None, **options):
    """Decorate a function at module level: compiled for the types of its arguments when it is first called.

    Args:
        options: of `numba.njit`.
    """
    if function is None:
        return partial(kernel, **options)
    made = njit(nogil=True, **options)(function)
    made._cache = _Kept(function)
    return made


def callback(signature, **options):
    """Decorate a function that C code calls by its address: compiled, or loaded, at once.

    Args:
        signature: types of its result and its arguments, as `numba.cfunc` takes them.
        options: of `numba.cfunc`.
    """

    def decorate(function):
        made = CFunc(function, normalize_signature(signature), {}, options)
        made._cache = _Kept(function)
        made.compile()
        return made

    return decorate


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
        folder = temporary()
        fault = made(folder)
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
