"""Lists the mounts of this user, and ends them from any process.

It reads the kernel's table of mounts and the entries of servers (`vfs.serving.entry`), but never the
mounts themselves, so a mount that hangs stops nothing here.
"""

from __future__ import annotations

import errno
import os
import time
from typing import NamedTuple

from vfs.errors import MountError, printable
from vfs.fuse.points import KIND, detach, mounted, ours, resolve, users
from vfs.fuse.readers import readers_of
from vfs.serving.entry import alive, drop, entries, keep
from vfs.serving.status import MountStatus

PATIENCE = 5  # seconds that a server has to end after its mount was unmounted
GLANCES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Seconds before another attempt to unmount what nobody seems to use: programs that look at every new mount, such as a
desktop's, have it open for a moment. On a loaded machine that ended in "in use", by nobody.
"""
NAMED = 3  # at most so many processes are named in a message


class Found(NamedTuple):
    """A mount that was found.

    Attributes:
        point: the mount point.
        state: "mounted"; "detached": unmounted while in use, its server runs until all its files
            are closed; "dead": its server has died, and unmounting clears it; "unknown": mounted,
            but without an entry in the folders where entries may lie.
        status: the last status that its server wrote; None if there is none.
        folder: the folder of its entry; None if there is none.
    """

    point: str
    state: str
    status: MountStatus | None
    folder: str | None


def mounts() -> list[Found]:
    """Return all mounts of vfs that this user has made.

    Entries that dead servers left behind are removed if nothing is mounted there any more.
    """
    table = ours()
    found = []
    left = []
    for folder, document, lock in entries("mountpoint"):
        point = document["mountpoint"]
        if lock is not None:
            left.append((folder, document, lock))
            continue
        # A folder above the mount point may have been renamed
        point = next((now for now, mount in table.items() if mount.device == document.get("device")), "")
        found.append(
            Found(point or document["mountpoint"], "mounted" if point else "detached", _status(document), folder)
        )
    known = {one.point for one in found if one.state == "mounted"}
    for folder, document, lock in left:
        point = document["mountpoint"]
        if point in table and point not in known:
            keep(lock)
            known.add(point)
            found.append(Found(point, "dead", _status(document), folder))
        else:
            drop(folder, lock)
    found += [Found(point, "unknown", None, None) for point in table if point not in known]
    return sorted(found, key=lambda one: one.point)


def _status(document: dict[str, object]) -> MountStatus | None:
    try:
        return MountStatus.of(document)
    except ValueError:  # of another version
        return None


def unmount(mountpoint: str | os.PathLike[str], *, lazy: bool = False, force: bool = False) -> list[str]:
    """End a mount of vfs, whichever process serves it. The server then ends, within some seconds.

    Args:
        force: also if other processes have read from it and still run. Zarr clients among them
            would then take absent chunks for blank ones.
        lazy: also if it is in use. The mount point is empty then, but files that are open there
            can be read until they are closed.

    Returns: the processes that still have files open, as "name (pid 123)", as far as they can be
        seen.

    Raises:
        MountError: no mount of vfs is there; it was read from, or is in use (EBUSY; the message
            names the processes, as far as they can be seen); this user may not end it.
    """
    point = resolve(mountpoint)
    shown = printable(point)
    mount = mounted(point)
    if mount is None:
        raise MountError(errno.EINVAL, f"{shown}: nothing is mounted there")
    if mount.kind != KIND:
        raise MountError(errno.EINVAL, f"{shown}: a mount of type {mount.kind}, expected one of vfs; umount ends it")
    servers = [
        one.folder for one in mounts() if one.folder is not None and one.point == point and one.state == "mounted"
    ]
    if not force:
        _check_readers(shown, [name for folder in servers for name in readers_of(folder)])
    code, said, who = *detach(point, lazy), []
    for wait in GLANCES:
        if code != errno.EBUSY or (who := users(mount, detached=False)):
            break
        time.sleep(wait)
        code, said = detach(point, lazy)
    if code == errno.EBUSY:
        by = f" by {', '.join(who)}" if who else ""
        how = "--lazy --force" if force else "--lazy"
        raise MountError(
            code, f"{shown}: in use{by}; close what is open there and try again, or: vfs unmount {how} {shown}"
        )
    if code:
        raise MountError(code, f"{shown}: cannot be unmounted: {said}")
    who = users(mount, detached=True) if lazy else []
    end = time.monotonic() + PATIENCE
    while not who and any(map(alive, servers)) and time.monotonic() < end:
        time.sleep(0.01)
    return who


def _check_readers(shown: str, readers: list[str]) -> None:
    """Refuse to unmount while processes that have read there still run.

    Raises:
        MountError: there are such processes.
    """
    if readers:
        more = f" and {len(readers) - NAMED} more" if len(readers) > NAMED else ""
        who = ", ".join(readers[:NAMED]) + more
        raise MountError(
            errno.EBUSY,
            f"{shown}: still running after reading there: {who}; zarr would show zeros to them; end them first, or: vfs"
            f" unmount --force {shown}",
        )
