"""Asks file systems which parts of a file nobody has written: holes, and space that is only kept for it."""

from __future__ import annotations

import os
from contextlib import suppress

from vfs.model.sources import Sources
from vfs.sources.file_systems import file_system
from vfs.sources.local import LocalSources

_MAX_PARTS = 4096  # parts of a file that are asked for
_TELLING = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay"}
"""File systems that tell. Others (NFS, SMB, FAT, FUSE, ZFS that writes) may say of a hole that it is written."""


def holes(sources: Sources, path: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of a file between two bytes that nobody has written: (first byte, the one behind the last).

    They have the size of blocks of the disk. There are none where the file system does not know.

    Raises:
        SourceError: the file cannot be opened.
    """
    found: list[tuple[int, int]] = []
    if not isinstance(sources, LocalSources):
        return found
    fd = sources.open(path)[0]
    try:
        end = min(end, os.fstat(fd).st_size)
        while begin < end and len(found) < _MAX_PARTS:
            first = os.lseek(fd, begin, os.SEEK_HOLE)
            if first >= end:
                break
            begin = end
            with suppress(OSError):  # there are no data behind it
                begin = min(end, os.lseek(fd, first, os.SEEK_DATA))
            found.append((first, begin))
    except (OSError, ValueError):  # file systems that do not know
        pass
    finally:
        os.close(fd)
    return found


def is_sparse(path: str) -> bool:
    """Return True if a file takes less of the disk than it has bytes.

    Of space that is kept for a file a disk tells no longer that nobody has written it once somebody has read it: the
    pages are in memory then. Of holes it does.
    """
    with suppress(OSError):
        found = os.stat(path)
        return found.st_blocks * 512 < found.st_size
    return False


def tells_holes(sources: Sources, path: str) -> bool:
    """Return True if a part of a file without a hole is one that somebody has written, as far as the disk knows."""
    return isinstance(sources, LocalSources) and file_system(path) in _TELLING
