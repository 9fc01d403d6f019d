"""Starts a mount in another process, and ends it, for `vfs.mount()` and `vfs mount --background`."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from vfs.errors import MountError, printable
from vfs.fuse.how import MountHow
from vfs.fuse.points import KIND, dead, detach, mounted, prepare
from vfs.serving.process import Command, ServerProcess, Taken, end, set_free, start

if TYPE_CHECKING:
    from vfs.contents.contents import Contents


class Mount(ServerProcess):
    """A mount that another process serves.

    It lasts until `close`, the end of a `with` block, or the end of this process. Reading files that are still open
    there fails from then on. It can be used as a path: `os.path.join(mount, "scan.npy")`.

    Attributes:
        path: the mount point, absolute and without symbolic links.
    """

    def __init__(self, path: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__(path, process, partial(_end, path))
        self.path = path

    @classmethod
    def start(
        cls,
        make_folder: Callable[[], Contents],
        mountpoint: str | os.PathLike[str],
        how: MountHow,
        *,
        log_level: str = "warning",
    ) -> Mount:
        """Start a server and wait until it answers.

        Args:
            make_folder: makes the contents of the mount. It is pickled, and called in the server.
            mountpoint: an existing, empty folder.
            how: how to mount.
            log_level: "error", "warning", "info" or "debug".

        Raises:
            MountError: mounting cannot work; the message says why and what to do.
        """
        return _start(make_folder, mountpoint, False, log_level, how, cls)

    unmount = ServerProcess.close

    def __fspath__(self) -> str:
        return self.path


def start_in_background(
    make_folder: Callable[[], Contents],
    mountpoint: str | os.PathLike[str],
    how: MountHow,
    *,
    say: Callable[[], None],
    log_level: str = "warning",
) -> None:
    """Start a server that outlives this process, and wait until it answers.

    It takes the arguments of `Mount.start`. The server logs into a file of its own.

    Args:
        say: reports that the mount is ready, see `vfs.serving.process.set_free`.

    Raises:
        MountError: see `Mount.start`; or there is no folder for the log.
    """
    path, process = _start(make_folder, mountpoint, True, log_level, how, lambda path, process: (path, process))
    set_free(process, path, say, MountError)


def _start(
    make_folder: Callable[[], Contents],
    mountpoint: str | os.PathLike[str],
    background: bool,
    log_level: str,
    how: MountHow,
    take: Callable[[str, subprocess.Popen[bytes]], Taken],
) -> Taken:
    """Start a server and wait until it answers.

    Args:
        take: takes over the mount point, absolute and without symbolic links, and the process of the server.

    Returns: what `take` returns.
    """
    path = prepare(mountpoint)  # the server checks the same; here an error comes at once
    command = Command(make_folder, background, log_level, {"mountpoint": path, "how": how})

    def checked(process: subprocess.Popen[bytes], answer: object) -> Taken:
        _check(path)
        return take(path, process)

    return start("vfs.fuse.server", command, path, checked, partial(_end, path), MountError)


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


def _end(path: str, process: subprocess.Popen[bytes]) -> None:
    """End the server of a mount. A mount point that a killed server left behind is freed."""
    try:
        end(process)
    finally:
        mount = mounted(path)
        # The server was killed. A mount that is alive at the same place is a later one of somebody else
        if mount is not None and mount.kind == KIND and dead(path):
            detach(path, lazy=True)
