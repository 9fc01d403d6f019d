"""Mounts a hierarchy or a folder tree: translates paths and error numbers for FUSE.

A mount shows a `vfs.contents.contents.Contents`, called `folder` below.

    serve(folder, mountpoint, how)           serves a mount until it is unmounted or a signal ends it
    Mount.start(make, mountpoint, how)       serves it in another process, while the caller goes on (`vfs.mount()`)
    start_in_background(make, mountpoint, …) serves it in another process, which outlives the caller
    mounts()                                 lists all mounts of this user, with the status of their servers
    unmount(mountpoint)                      ends a mount, from any process

A program that uses the mount sees this:

- Everything is read-only: the kernel answers every write with EROFS (the mount option `ro`). Only
  the user who mounted may enter. That user owns everything, with modes 0400 and 0500. With
  `allow_other`, everybody may enter, and modes are 0444 and 0555, except for sets with a source
  file that not everybody may read: these stay 0400 and 0500. Times are those of the newest source
  when the set was opened. Inode numbers follow from the path alone and are the same in the next
  mount.
- ENOENT means that a name does not exist. If a source cannot be read, `read` fails with EIO, and a
  line in the log `vfs.fuse` names file, bytes and region; `stat` and `open` still succeed, with the
  full size. A read returns all bytes or an error, because programs take the rest of a short read
  for zeros. Failures are not cached: when the source is back, reads succeed again.
- A folder is listed from any offset on and one name at a time, even if it has millions.
- The kernel caches names and attributes, which never change, and the pages of files that were read.
  Whenever a file is opened, the server looks at its source files: if one has changed (size, time,
  name), the kernel drops its pages, and a read fails with EIO. If there are more than 64 source
  files, the server looks at them once a second. A program that keeps a file open, or mapped, may
  still see pages that were read before: they hold the source as it was when the set was opened.
  With `direct_io` the kernel keeps no pages at all.
- The server asks the kernel to forget names before they take much of its memory
  (`vfs.fuse.remembered`).
"""

from typing import TYPE_CHECKING, Any

from vfs.fuse.how import MountHow
from vfs.fuse.mounts import mounts, unmount
from vfs.fuse.process import Mount, start_in_background

if TYPE_CHECKING:
    from vfs.fuse.server import serve

__all__ = ["Mount", "MountHow", "mounts", "serve", "start_in_background", "unmount"]


def __getattr__(name: str) -> Any:
    if name != "serve":
        raise AttributeError(f"module 'vfs.fuse' has no attribute {name!r}")
    from vfs.fuse.server import serve  # loads numba and kernels, which the other functions here do not need

    globals()[name] = serve
    return serve
