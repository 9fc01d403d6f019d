"""Lists the mounts of this user, and ends them from any process.

It asks the kernel's table of mounts and what servers have written down (`vfs.fuse.entry`), never
the mounts themselves: one that hangs stops nothing here.
"""

from __future__ import annotations

import errno
import os
import time
from typing import NamedTuple

from vfs.errors import MountError, printable
from vfs.fuse.entry import alive, drop, entries, keep
from vfs.fuse.points import KIND, detach, mounted, ours, resolve, users
from vfs.fuse.readers import readers_of
from vfs.fuse.status import Status

PATIENCE = 5  # seconds that a server gets to end after it was unmounted
NAMED = 3  # processes that a message names


class Found(NamedTuple):
    """A mount.

    Attributes:
        point: where.
        state: "mounted"; "detached": taken away while in use, its server goes on until nobody has
            anything of it open; "dead": its server has died, and unmounting clears it; "unknown":
            mounted, but nothing is written down of it where we look.
        status: what its server told last; None: nothing.
        folder: of what is written down of it; None: nothing.
    """

    point: str
    state: str
    status: Status | None
    folder: str | None


def mounts() -> list[Found]:
    """All mounts of ours that this user has made. What servers that died have left behind is
    removed, where nothing is mounted there any more.
    """
    table = ours()
    found = []
    left = []
    for folder, document, lock in entries():
        point = document["mountpoint"]
        if lock is not None:
            left.append((folder, document, lock))
            continue
        # Its folder may have got another name
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


def _status(document: dict[str, object]) -> Status | None:
    try:
        return Status.of(document)
    except ValueError:  # of another version
        return None


def unmount(mountpoint: str | os.PathLike[str], *, lazy: bool = False, force: bool = False) -> list[str]:
    """End a mount of ours, whoever serves it. The server ends by itself; it gets some seconds for that.

    Args:
        force: also where other processes have read from it and still run: zarr clients among them
            would take for blank what is absent then.
        lazy: also where it is in use: nothing is there any more, and those who have something open
            can go on reading that.

    Returns: who has, "name (pid 123)", as far as that can be seen.

    Raises:
        MountError: nothing of ours is mounted there; it was read from, or is in use (EBUSY; the
            message says by whom, as far as that can be seen); not permitted.
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
    code, said = detach(point, lazy)
    if code == errno.EBUSY:
        who = users(mount, detached=False)
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
    """Raises:
    MountError: there are some.
    """
    if readers:
        more = f" and {len(readers) - NAMED} more" if len(readers) > NAMED else ""
        who = ", ".join(readers[:NAMED]) + more
        raise MountError(
            errno.EBUSY,
            f"{shown}: {who} read there and may go on, where zarr would then show zeros; end that first, or: vfs"
            f" unmount --force {shown}",
        )
