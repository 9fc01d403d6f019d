"""Looks up mount points and their users, checks that mounting can work, and unmounts."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple, TypeVar

from vfs.errors import MountError, printable
from vfs.fuse.readers import readers_of
from vfs.model.wording import option
from vfs.serving.entry import entries, keep
from vfs.sources.names import is_url

log = logging.getLogger("vfs.fuse")

KIND = "fuse.vfs"  # type of our mounts in /proc/self/mountinfo
DEVICE = "/dev/fuse"
CONFIG = "/etc/fuse.conf"  # of fusermount
MTAB = "/etc/mtab"
"""What fusermount reads before it ends a mount for users: without it, which bare systems have not, one would stay."""
PATIENCE = 3.0  # seconds that the server of a mount has to answer
T = TypeVar("T")
CONTAINER = "a container needs --device /dev/fuse --cap-add SYS_ADMIN"


class Mounted(NamedTuple):
    """Holds a line of /proc/self/mountinfo: id of the mount, "major:minor" of its device, file system type."""

    id: int
    device: str
    kind: str


def _table() -> Iterator[tuple[str, Mounted, bytes]]:
    """Yield (mount point, the mount, options of its file system) of every mount.

    If several are mounted on the same directory, the later one is on top.
    """
    with open("/proc/self/mountinfo", "rb") as table:
        for line in table:
            fields, _, rest = line.partition(b" - ")
            parts = fields.split()
            kind, *_, options = rest.split()
            name = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), parts[4])
            yield os.fsdecode(name), Mounted(int(parts[0]), parts[2].decode(), kind.decode()), options


def mounted(point: str) -> Mounted | None:
    """Return the topmost mount on a directory; None if nothing is mounted there.

    Args:
        point: the directory, absolute and without symbolic links.
    """
    return {name: mount for name, mount, _ in _table()}.get(point)


def place(mount: Mounted) -> str | None:
    """Return the present mount point of a mount, since a folder above it may have been renamed.

    Returns None if the mount is gone, or something else is mounted over it.
    """
    on_top = {name: found for name, found, _ in _table()}
    return next((name for name, found in on_top.items() if found == mount), None)


def ours() -> dict[str, Mounted]:
    """Return the mounts of vfs that this user has made, by mount point."""
    mine = b"user_id=%d" % os.geteuid()
    return {name: mount for name, mount, options in _table() if mount.kind == KIND and mine in options.split(b",")}


def users(mount: Mounted, *, detached: bool) -> list[str]:
    """Find the processes that use a mount: a file open or mapped, or the working folder in it.

    It asks the kernel by the number of the mount, so it also works for a detached mount. It never
    asks the file system itself.

    Args:
        detached: True if the mount is detached. If nobody uses it any more, its numbers are free,
            and the next mount, of any kind, gets them; so processes that see a mount with these
            numbers are left out.

    Returns: "name (pid 123)" of each process that this user may look at.
    """
    major, minor = map(int, mount.device.split(":"))
    device = f" {major:02x}:{minor:02x} "
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
        with suppress(OSError):
            if (
                pid != os.getpid()
                and _uses(f"/proc/{pid}", mount.id, device)
                and not (detached and _sees(f"/proc/{pid}", mount))
            ):
                with open(f"/proc/{pid}/comm", errors="replace") as file:
                    found.append(f"{printable(file.read().strip())} (pid {pid})")
    return found


def _uses(process: str, number: int, device: str) -> bool:
    for name in ("cwd", "root"):
        with suppress(OSError):
            fd = os.open(f"{process}/{name}", os.O_PATH | os.O_CLOEXEC)
            try:
                if _mount_number(f"/proc/self/fdinfo/{fd}") == number:
                    return True
            finally:
                os.close(fd)
    for fd_name in os.listdir(f"{process}/fdinfo"):
        with suppress(OSError):
            if _mount_number(f"{process}/fdinfo/{fd_name}") == number:
                return True
    with open(f"{process}/maps", errors="replace") as maps:
        return any(device in line for line in maps)


def _sees(process: str, mount: Mounted) -> bool:
    """Return True if a process sees a mount with that number or device."""
    with open(f"{process}/mountinfo") as table:
        return any(int(line.split()[0]) == mount.id or line.split()[2] == mount.device for line in table)


def _mount_number(fdinfo: str) -> int:
    with open(fdinfo) as file:
        found = re.search(r"^mnt_id:\s*(\d+)", file.read(), re.M)
    return int(found[1]) if found else -1


def resolve(mountpoint: str | os.PathLike[str]) -> str:
    """Return a mount point, absolute and without symbolic links.

    Raises:
        MountError: it cannot be the name of a folder, or a mount above it does not answer.
    """
    name = os.fsdecode(mountpoint)
    if not name or "\0" in name:
        raise MountError(
            errno.EINVAL, f"{printable(name)!r} cannot be a mount point: expected the name of an empty folder"
        )
    found = _in_time(lambda: _resolved(name))
    if found is None:
        raise MountError(
            errno.ETIMEDOUT,
            f"{printable(name)}: a mount above does not answer; if its server is stopped: kill -CONT, or unmount it"
            " first",
        )
    return found


def _resolved(name: str) -> str:
    """Return a name, absolute and without symbolic links.

    A mount at that name is not touched: its server may be stopped, and would not answer.
    """
    above, last = os.path.split(
        os.path.abspath(name) if os.path.basename(name.rstrip("/")) in ("", ".", "..") else name.rstrip("/")
    )
    point = os.path.join(os.path.realpath(above), last)
    return point if mounted(point) else os.path.realpath(name)


def _in_time(call: Callable[[], T]) -> T | None:
    """Make a call in another thread, and return its result.

    Returns None if there is no result in time, because a server does not answer, for example a
    stopped one.

    Raises:
        OSError: the call raised it.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return answer.result(PATIENCE)
    except TimeoutError:
        return None


def check_apart(mountpoint: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Refuse a mount point inside the folder that is to be shown there.

    The server would wait for its own answers, and everybody else for the server.

    Raises:
        MountError: the mount point lies in that folder.
    """
    if is_url(os.fspath(folder)):
        return
    point, root = resolve(mountpoint), os.path.realpath(folder)
    if point == root or point.startswith(root.rstrip("/") + "/"):
        raise MountError(
            errno.EINVAL,
            f"{printable(point)}: lies in {printable(root)}, which is to be shown there; choose a mount point outside"
            " of it",
        )


def fusermount(version: int) -> str | None:
    """Find the program that a libfuse of that version calls if it may not mount by itself."""
    return shutil.which("fusermount3" if version == 3 else "fusermount")


def detach(point: str, lazy: bool = False) -> tuple[int, str]:
    """Unmount.

    Args:
        lazy: also if it is in use.

    Returns: (0, "") or the error number and the reason.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    no_follow, detach = 8, 2  # UMOUNT_NOFOLLOW, MNT_DETACH
    if libc.umount2(os.fsencode(point), no_follow | (detach if lazy else 0)) == 0:
        return 0, ""
    code = ctypes.get_errno()
    tool = fusermount(3) or fusermount(2)
    if code != errno.EPERM or tool is None:
        return code, os.strerror(code)
    done = subprocess.run(
        [tool, "-u", *(["-z"] if lazy else []), point],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    said = printable(done.stderr.strip())
    if done.returncode == 0:
        return 0, ""
    return errno.EBUSY if "busy" in said else errno.EPERM, said


def prepare(mountpoint: str | os.PathLike[str], version: int | None = None, allow_other: bool = False) -> str:
    """Check that mounting there can work. A dead mount of vfs is cleared, with a line in the log.

    Args:
        version: version of libfuse, 2 or 3; None: not known yet.
        allow_other: True to let in other users than the one who mounts.

    Returns: the mount point, absolute and without symbolic links.

    Raises:
        MountError: it cannot work; the message says why and what to do.
    """
    point = resolve(mountpoint)
    shown = printable(point)
    _check_device()
    mount = mounted(point)
    if mount is not None and mount.kind.startswith("fuse"):
        _check_mounted(point, mount)
    try:
        names = os.listdir(point)
    except FileNotFoundError:
        raise MountError(errno.ENOENT, f"{shown}: no such folder; make it first: mkdir -p {shown}") from None
    except NotADirectoryError:
        raise MountError(errno.ENOTDIR, f"{shown}: expected an empty folder to mount on, found a file") from None
    except OSError as error:
        raise MountError(error.errno or errno.EIO, f"{shown}: cannot be mounted on: {error.strerror}") from None
    if names:
        held = printable(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        raise MountError(errno.ENOTEMPTY, f"{shown}: expected an empty folder to mount on, it holds {held}")
    if os.geteuid() != 0:
        if version and fusermount(version) is None:
            package = "fuse3" if version == 3 else "fuse"
            raise MountError(
                errno.EPERM,
                f"not permitted to mount: there is no fusermount; install it (apt install {package}, dnf install"
                f" {package})",
            )
        if not os.path.exists(MTAB):
            raise MountError(
                errno.EPERM, f"no mount could be ended: there is no {MTAB}; as root: ln -s /proc/self/mounts {MTAB}"
            )
        if allow_other and not _others_may():
            raise MountError(
                errno.EPERM,
                f"{option(allow_other=True)}: not permitted: {CONFIG} has no line user_allow_other; root can add it",
            )
        if not os.access(point, os.W_OK):
            raise MountError(
                errno.EACCES,
                f"{shown}: not permitted to mount there: you cannot write to that folder; choose one of your own",
            )
    return point


def _others_may() -> bool:
    """Return True if fusermount allows users to let other users in."""
    try:
        with open(CONFIG, errors="replace") as file:
            return any(line.strip() == "user_allow_other" for line in file)
    except OSError:
        return True  # the file cannot be read: fusermount will report the error


def _check_device() -> None:
    """Check that /dev/fuse can be used.

    Raises:
        MountError: it cannot.
    """
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError as error:
        raise MountError(
            errno.EACCES,
            f"not permitted to open {DEVICE}: {error.strerror}; it should have mode 0666 for all users; {CONTAINER}",
        ) from None
    except OSError as error:
        raise MountError(
            errno.ENODEV,
            f"no {DEVICE} ({error.strerror}): load the kernel module: modprobe fuse (as root); {CONTAINER}",
        ) from None


def _check_mounted(point: str, mount: Mounted) -> None:
    """Clear a mount of vfs whose server died.

    Raises:
        MountError: its server lives, or it is not a mount of vfs.
    """
    shown = printable(point)
    if not dead(point):
        hint = f"vfs unmount {shown}" if mount.kind == KIND else f"fusermount -u {shown}"
        raise MountError(
            errno.EBUSY, f"{shown}: something is mounted there already ({mount.kind}); to end that: {hint}"
        )
    if mount.kind != KIND:
        raise MountError(
            errno.ENOTCONN,
            f"{shown}: a dead mount of type {mount.kind} is in the way; clear it with fusermount -u {shown}",
        )
    left = _readers(point)
    code, said = detach(point, lazy=True)
    if code:
        raise MountError(
            code,
            f"{shown}: a mount whose server died is in the way and cannot be cleared: {said}; try fusermount -uz"
            f" {shown}",
        )
    log.warning("%s: cleared a mount whose server had died", shown)
    if left:
        log.warning(
            "%s: still running after reading there: %s; end them, or have them open their arrays again: they would read"
            " zeros of arrays that have fewer axes now, and of folders that are gone",
            shown,
            ", ".join(left),
        )


def _readers(point: str) -> list[str]:
    """Return the processes that have read from a dead mount and still run, as "name (pid 123)"."""
    found = []
    for folder, document, lock in entries("mountpoint"):
        if lock is not None:
            if document["mountpoint"] == point:
                found += readers_of(folder)
            keep(lock)
    return found


def dead(point: str) -> bool:
    """Return True if the server of the mount there is gone. A server that does not answer is not gone."""
    try:
        # This always asks the server; `stat` may be answered from the kernel's cache
        _in_time(lambda: os.statvfs(point))
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    return False
