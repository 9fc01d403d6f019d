"""Makes kernels of functions: compiled once, kept on disk (`vfs.kernels.kernel_cache`), loaded without the compiler.

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
import sys
from contextlib import suppress
from functools import partial

from numba import config, njit
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.sigutils import normalize_signature

import vfs.kernels.intrinsics as intrinsics
from vfs.errors import DependencyError, printable
from vfs.kernels.deferred import compile_all
from vfs.kernels.kernel_cache import KernelCache
from vfs.kernels.own_folder import made, temporary

inner = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")
"""Decorates functions that only kernels call.

No code is compiled to call them from elsewhere, and they lie in the disk cache of their callers.
"""


inlined = njit(nogil=True, inline="always", error_model="numpy")
"""Decorates functions whose code stands for their calls in kernels."""


def kernel(function=None, **options):
    """Decorate a function at module level: compiled for the types of its arguments when it is first called.

    Args:
        options: of `numba.njit`.
    """
    if function is None:
        return partial(kernel, **options)
    made = njit(nogil=True, **options)(function)
    made._cache = KernelCache(function, made.targetoptions)
    return made


def callback(signature, **options):
    """Decorate a function that C code calls by its address: compiled, or loaded, at once.

    Args:
        signature: types of its result and its arguments, as `numba.cfunc` takes them.
        options: of `numba.cfunc`.
    """

    def decorate(function):
        made = CFunc(function, normalize_signature(signature), {}, options)
        made._cache = KernelCache(function, options)
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
compile_all(
    sys.modules, kernel=kernel, inner=inner, inlined=inlined, intrinsic=lambda of: getattr(intrinsics, of.__name__)
)
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)
