"""Starts a mount in a process of its own, and ends it: `vfs.mount()` and `vfs mount --background`."""

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

PATIENCE = 10  # seconds a server gets to finish its requests when it is told to end
FREE = b"."  # tells a server in the background to go on without the process that started it
_ENTRY = "from vfs.fuse.server import main; main()"


class Mount:
    """A mount point that another process serves until `close`, the end of a `with` block, or the end of this process.

    Usable as a path: `os.path.join(mount, "scan.npy")`.

    Attributes:
        path: the mount point, absolute and without links.
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
            make_folder: makes what is shown. It is pickled, and called in the server.
            mountpoint: an existing, empty folder.
            log_level: "error", "warning", "info" or "debug".
            how: what `serve` takes of `sources`, `allow_other` and `workers`.

        Raises:
            MountError: mounting cannot work; the message says why and what to do.
        """
        return cls(*_started(make_folder, mountpoint, {**how, "log_level": log_level, "background": False}))

    def close(self) -> None:
        """Unmount, and wait for the server to end. Files that are still open there fail from then
        on. Further calls do nothing.
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
    """Start a server that outlives this process, and wait until it answers. Takes what
    `Mount.start` takes; its log is a file of its own.

    Args:
        say: reports that the mount is there. Signals wait meanwhile: one either comes before, and
            ends the server too, or after the report.

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
    """Start a server and wait until it answers. Returns: the mount point, absolute and without
    links, and its process.
    """
    path = prepare(mountpoint)  # the server does the same; here an error comes at once
    modules = os.pathsep.join(
        os.path.abspath(name) for name in sys.path if name
    )  # the server imports what this process would, and nothing from the current folder
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _ENTRY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": modules},
            start_new_session=True,  # Ctrl-C is for this process; the server ends when this process tells it to
        )
    except OSError as error:
        raise MountError(
            error.errno or errno.EIO,
            f"{printable(path)}: no server: {sys.executable!r} does not start: {error.strerror}",
        ) from None
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):  # the server died; its answer, or the lack of one, says more
            process.stdin.write(pickle.dumps((os.getpid(), path, make_folder, how)))
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise MountError(
                errno.EIO, f"{printable(path)}: the server ended without a word (exit status {process.wait()})"
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
    """Check that a mount of vfs answers there.

    Raises:
        MountError: none does.
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
    if os.getpid() != owner:  # a forked child ends: the mount is not its own
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
        # Not before: that would end it a second time, when libfuse handles no signals any more
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        mount = mounted(path)
        # Killed; a mount that lives there is somebody's next one
        if mount is not None and mount.kind == KIND and dead(path):
            detach(path, lazy=True)
