"""Writes files and folders that appear only when they are complete: stores of an export, results of `vfs reduce`.

Each is written beside its final name, flushed to the disk, and renamed at the end, so what has the final name is
always complete. A name that is taken is refused. `vfs.outputs.journals` notes beside it how far it is.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import groupby
from shlex import quote

from vfs.errors import OptionError, VfsError
from vfs.new_files import folder_below

TEMPORARY = ".part"
"""Ending of the names that files of an unfinished store have before they are on the disk."""
_FLUSHED = 16  # files that are flushed at the same time


@contextmanager
def whole(target: str | os.PathLike[str], replace: bool = False) -> Iterator[str]:
    """Have a file or folder appear only when it is complete.

    Args:
        replace: a file that has this name is replaced; the caller knows which one that is.

    Yields: the name that it is written under, beside its own; it is renamed at the end. Whatever
        fails, nothing is left behind.

    Raises:
        OptionError: it cannot be written, or see `check_target`.
    """
    target = check_target(target, replace)
    partial = f"{target}.{secrets.token_hex(8)}.part"  # a name that nobody knows: libraries write there, too
    try:
        yield partial
        flush_all(partial)
        appear(partial, target, replace)
    except BaseException as error:
        _remove(partial)
        if isinstance(error, OSError) and not isinstance(error, VfsError):
            raise unwritten(target, error) from None
        raise


def _remove(partial: str) -> None:
    """Remove a file, or a folder into which threads of a library may still be writing that has failed."""
    if not os.path.isdir(partial):
        with suppress(OSError):  # what is to be told is why it could not be written
            os.unlink(partial)
        return
    for pause in (0, 0.01, 0.1, 0.5, 1):
        time.sleep(pause)
        shutil.rmtree(partial, ignore_errors=True)
        if not os.path.lexists(partial):
            return


def appear(partial: str, target: str, replace: bool = False) -> None:
    """Give what is complete its final name, and have the disk hold that.

    Raises:
        OptionError: there is something of this name.
    """
    check_target(target, replace)  # for what came meanwhile: a file would be replaced
    os.rename(partial, target)
    flush(os.path.dirname(target))


def unwritten(target: str, error: OSError) -> OptionError:
    """Return the error for a file or folder that cannot be written."""
    return OptionError(f"{target}: cannot be written: {error.strerror or error}")


def flush(path: str) -> int:
    """Have the disk hold what was written to a file, or the names in a folder. Return its bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def flush_together(paths: Sequence[str]) -> int:
    """Flush files or folders, many at once. Return their bytes.

    A disk writes its journal for several files as fast as for one. 512 files of 128 KiB took 0.6 to 1.1 s one after the
    other, and 0.1 to 0.2 s so (ext4).
    """
    if len(paths) < 2:
        return sum(map(flush, paths))
    count = min(_FLUSHED, len(paths))
    with ThreadPoolExecutor(count, "vfs-flush") as pool:
        return sum(pool.map(lambda first: sum(map(flush, paths[first::count])), range(count)))


def flush_all(path: str) -> None:
    """Flush a file, or a folder and all below it."""
    found = list(os.walk(path))
    flush_together([os.path.join(folder, name) for folder, _, names in found for name in names])
    flush_together([folder for folder, _, _ in found] or [path])


def seal(paths: Sequence[str], top: str) -> int:
    """Flush files to the disk, give them their names, and flush these. Return the bytes of the files.

    Args:
        top: the folder below which they are.
    """
    size = flush_together([path + TEMPORARY for path in paths])
    for above, some in groupby(paths, os.path.dirname):
        with folder_below(top, os.path.relpath(above, top)) as folder:
            for name in map(os.path.basename, some):
                os.replace(name + TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)
    flush_together(folders_above(paths, top))
    return size


def folders_above(paths: Iterable[str], top: str) -> list[str]:
    """Return the folders that files below `top` are in, and those above these, with `top`."""
    found: set[str] = set()
    for path in paths:
        while path != top:
            path = os.path.dirname(path)
            if path in found:
                break
            found.add(path)
    return sorted(found)


def check_target(target: str | os.PathLike[str], replace: bool = False) -> str:
    """Check that a file or folder can be made, and return its absolute path.

    Args:
        replace: it may exist.

    Raises:
        OptionError: it exists already, the folder above it does not, or it is a URL.
    """
    if "://" in os.fspath(target):
        raise OptionError(f"{target}: only stores (OUT.zarr) are written to URLs; write it here, and copy it")
    target = os.path.abspath(target)
    if os.path.lexists(target) and not replace:
        raise OptionError(f"{target}: exists already; remove it, or give another name")
    if not os.path.isdir(os.path.dirname(target)):
        raise OptionError(
            f"{target}: there is no folder {os.path.dirname(target)}; make it first: mkdir -p"
            f" {quote(os.path.dirname(target))}"
        )
    return target
