"""Starts a mount in another process, and ends it, for `vfs.mount()` and `vfs mount --background`."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vfs.errors import MountError, printable
from vfs.fuse.points import KIND, dead, detach, mounted, prepare

if TYPE_CHECKING:
    from vfs.hierarchy.faces import MountSource

PATIENCE = 10  # seconds that a server has to finish its requests when it is told to end
FREE = b"."  # tells a background server to go on without the process that started it
_ENTRY = "from vfs.fuse.server import main; main()"


class Mount:
    """A mount that another process serves.

    It lasts until `close`, the end of a `with` block, or the end of this process. It can be used as
    a path: `os.path.join(mount, "scan.npy")`.

    Attributes:
        path: the mount point, absolute and without symbolic links.
    """

    def __init__(self, path: str, process: subprocess.Popen[bytes]) -> None:
        self.path = path
        self._end = weakref.finalize(self, _end, path, process, os.getpid())  # also at the end of this process

    @classmethod
    def start(
        cls,
        make_folder: Callable[[], MountSource],
        mountpoint: str | os.PathLike[str],
        *,
        log_level: str = "warning",
        **how: Any,
    ) -> Mount:
        """Start a server and wait until it answers.

        Args:
            make_folder: makes the contents of the mount. It is pickled, and called in the server.
            mountpoint: an existing, empty folder.
            log_level: "error", "warning", "info" or "debug".
            how: arguments `sources`, `allow_other`, `workers` and `direct_io` of `serve`.

        Raises:
            MountError: mounting cannot work; the message says why and what to do.
        """
        return cls(*_started(make_folder, mountpoint, {**how, "log_level": log_level, "background": False}))

    def close(self) -> None:
        """Unmount, and wait for the server to end.

        Reading files that are still open there fails from then on. Further calls do nothing.
        """
        self._end()

    unmount = close

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<vfs.Mount {printable(self.path)}{'' if self._end.alive else ', closed'}>"

    def __enter__(self) -> Mount:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start_in_background(
    make_folder: Callable[[], MountSource],
    mountpoint: str | os.PathLike[str],
    *,
    say: Callable[[], None],
    log_level: str = "warning",
    **how: Any,
) -> None:
    """Start a server that outlives this process, and wait until it answers.

    It takes the arguments of `Mount.start`. The server logs into a file of its own.

    Args:
        say: reports that the mount is ready. Signals are held back meanwhile, so that a signal
            either comes before the report, and ends the server too, or after it.

    Raises:
        MountError: see `Mount.start`; or there is no folder for the log.
    """
    path, process = _started(make_folder, mountpoint, {**how, "log_level": log_level, "background": True})
    assert process.stdin is not None
    assert process.stdout is not None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        try:
            with process.stdout, process.stdin:
                process.stdin.write(FREE)
        except BrokenPipeError:
            raise MountError(
                errno.EIO, f"{printable(path)}: the server ended as soon as it was mounted; its log may say why"
            ) from None
        process.returncode = 0  # nobody will wait for it
        say()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(
    make_folder: Callable[[], MountSource], mountpoint: str | os.PathLike[str], how: Mapping[str, Any]
) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a server and wait until it answers.

    Returns: (the mount point, absolute and without symbolic links; the process of the server).
    """
    path = prepare(mountpoint)  # the server checks the same; here an error comes at once
    modules = os.pathsep.join(
        os.path.abspath(name) for name in sys.path if name
    )  # the server imports from the same places as this process, and not from the current folder
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _ENTRY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": modules},
            start_new_session=True,  # Ctrl-C reaches only this process, which tells the server to end
        )
    except OSError as error:
        raise MountError(
            error.errno or errno.EIO,
            f"{printable(path)}: no server: {sys.executable!r} does not start: {error.strerror}",
        ) from None
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):  # the server died; its answer, or the lack of one, is reported below
            process.stdin.write(pickle.dumps((os.getpid(), path, make_folder, how)))
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise MountError(
                errno.EIO, f"{printable(path)}: the server ended without an answer (exit status {process.wait()})"
            )
        answer = json.loads(line)
        if answer:
            raise MountError(answer["code"], answer["error"])
        _check(path)
        return path, process
    except BaseException:
        _end(path, process, os.getpid())
        raise


def _check(path: str) -> None:
    """Check that a mount of vfs is there and answers.

    Raises:
        MountError: it is not, or does not.
    """
    mount = mounted(path)
    if mount is None or mount.kind != KIND:
        raise MountError(errno.EIO, f"{printable(path)}: unmounted as soon as it was mounted")
    try:
        os.stat(path)
    except OSError as error:
        raise MountError(
            error.errno or errno.EIO, f"{printable(path)}: mounted, but it does not answer: {error.strerror}"
        ) from None


def _end(path: str, process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # a forked child ends; the mount belongs to its parent
        return
    process.terminate()
    try:
        process.wait(PATIENCE)
    except BaseException as error:  # it does not end, or we are interrupted
        process.kill()
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
    finally:
        # Not earlier: that would end the server a second time, when libfuse handles no signals any more
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        mount = mounted(path)
        # The server was killed. A mount that is alive at the same place is a later one of somebody else
        if mount is not None and mount.kind == KIND and dead(path):
            detach(path, lazy=True)
