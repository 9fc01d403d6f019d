"""Mounting: paths and error numbers over what is shown (`vfs.tree.Shown`). The only package that imports FUSE.

    serve(folder, mountpoint)                 shows a folder until it is unmounted or a signal ends it
    Mount.start(make_folder, mountpoint)      the same in a process of its own, for a caller who wants to go on: `vfs.mount()`
    unmount(mountpoint)                       ends it from anywhere

What a program sees there:

- Everything is read-only: the kernel answers every write with EROFS (the mount option `ro`). Modes are 0444 and 0555, the owner is who mounted,
  times are those of the newest source when the set was opened, inode numbers follow from the path alone and are the same in the next mount.
- ENOENT only for names that do not exist. A source that cannot be read is EIO at `read`, with a line in the log `vfs.mount` that names file,
  bytes and region; `stat` and `open` still succeed, with the full size. A read is whole or it is an error: what a short one leaves out
  would be zeros to the reader. What failed is not kept: when the source is back, so are the reads.
- A folder is listed from any offset on and a name at a time, however many it has.

`vfs.mount` is also a function, and that is what the attribute of the package means (see `vfs/__init__.py`): write `from vfs.mount import serve`.
"""

from vfs.mount.points import unmount
from vfs.mount.process import Mount
from vfs.mount.server import serve

__all__ = ["Mount", "serve", "unmount"]
