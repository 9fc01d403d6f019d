"""Mounts a hierarchy: translates paths and error numbers for FUSE. No other package imports it.

What is shown is a `vfs.hierarchy.faces.MountSource`.

    serve(folder, mountpoint)                 shows a folder until it is unmounted or a signal ends it
    Mount.start(make_folder, mountpoint)      the same in a process of its own, for a caller who wants to go
                                              on: `vfs.mount()`
    start_in_background(make_folder, mountpoint)  the same, outliving the caller
    mounts()                                  all mounts of this user, and what their servers say
    unmount(mountpoint)                       ends it from anywhere

What a program sees there:

- Everything is read-only: the kernel answers every write with EROFS (the mount option `ro`). Only
  the user who mounted is let in. He owns everything, with modes 0400 and 0500. With `allow_other`
  everybody is let in, with modes 0444 and 0555, but to sets whose files not everybody may read:
  these stay 0400 and 0500. Times are those of the newest source when the set was opened. Inode
  numbers follow from the path alone and are the same in the next mount.
- ENOENT only for names that do not exist. A source that cannot be read is EIO at `read`, with a
  line in the log `vfs.fuse` that names file, bytes and region; `stat` and `open` still succeed,
  with the full size. A read is whole or it is an error: a reader would take what a short one leaves
  out for zeros. A failure is not kept: when the source is back, reads succeed again.
- A folder is listed from any offset on and a name at a time, however many it has.
- The kernel remembers names and attributes, which never change, and the pages of files that were
  read. Whenever a file is opened, the source files that hold it are looked at: if one is not what
  it was (size, time, name), the kernel forgets its pages, and a read is EIO. Where there are more
  than 64 of them they are looked at once a second. Who keeps a file open, or mapped, may go on
  seeing pages that were read before: they are what the source was when the set was opened. With
  `direct_io` the kernel keeps no pages at all.
- The kernel is asked to forget names before they take much of the server's memory (`vfs.fuse.remembered`).
"""

from typing import TYPE_CHECKING, Any

from vfs.fuse.mounts import mounts, unmount
from vfs.fuse.process import Mount, start_in_background

if TYPE_CHECKING:
    from vfs.fuse.server import serve

__all__ = ["Mount", "mounts", "serve", "start_in_background", "unmount"]


def __getattr__(name: str) -> Any:
    if name != "serve":
        raise AttributeError(f"module 'vfs.fuse' has no attribute {name!r}")
    from vfs.fuse.server import serve  # who starts a server, lists mounts or ends one needs neither numba nor kernels

    globals()[name] = serve
    return serve
