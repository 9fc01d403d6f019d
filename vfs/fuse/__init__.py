"""Mounting: paths and error numbers over what is shown (`vfs.hierarchy.faces.MountSource`). The only package that imports FUSE.

    serve(folder, mountpoint)                 shows a folder until it is unmounted or a signal ends it
    Mount.start(make_folder, mountpoint)      the same in a process of its own, for a caller who wants to go on: `vfs.mount()`
    start_in_background(make_folder, mountpoint)  the same, outliving the caller
    mounts()                                  all mounts of this user, and what their servers tell
    unmount(mountpoint)                       ends it from anywhere

What a program sees there:

- Everything is read-only: the kernel answers every write with EROFS (the mount option `ro`). Only the user who mounted is let in, and owns
  everything, with modes 0400 and 0500; with `allow_other` everybody is, 0444 and 0555, but for sets of which a file was for some only (without mode
  0044) when the set was opened: these stay 0400 and 0500. Times are those of the newest source when the set was
  opened, inode numbers follow from the path alone and are the same in the next mount.
- ENOENT only for names that do not exist. A source that cannot be read is EIO at `read`, with a line in the log `vfs.fuse` that names file,
  bytes and region; `stat` and `open` still succeed, with the full size. A read is whole or it is an error: what a short one leaves out
  would be zeros to the reader. What failed is not kept: when the source is back, so are the reads.
- A folder is listed from any offset on and a name at a time, however many it has.
- The kernel remembers names and attributes, which never change, and the pages of files that were read. Whenever a file is opened, the source files that
  hold it are looked at: if one is not what it was (size, time, name), the kernel forgets its pages, and a read is EIO. What lies in more than 64
  files is looked at once a second. Who keeps a file open, or mapped, may go on seeing pages that were read before: they are what the source
  was when the set was opened. With `direct_io` the kernel keeps no pages at all.
  Many names are forgotten together before they take much of the server's memory (`vfs.fuse.remembered`).

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
