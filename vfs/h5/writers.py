"""Finds out if a program is writing an HDF5 file, and says what to do then.

libhdf5 marks files of newer kinds as open for writing. The mark stays when the writer dies, and libhdf5 then
recommends to remove it with `h5clear`. That damages a file that is still written. So it is recommended
for a copy only, and only where no writer is found. Files of older kinds have no mark, but a writer locks
them (`flock`): what it has not passed to the file yet cannot be told from what was never written.

Only processes of this machine are seen, and what others have open only if they belong to this user.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

Inode = tuple[int, int]
"""(device, inode)"""

_MARKED = "h5clear"
"""A word of libhdf5's message about a file that is marked as open for writing, and of no other."""


class BusyError(OSError):
    """A file is marked as open for writing, or cannot be understood while a program has it open for writing."""


def locks() -> dict[Inode, int]:
    """Return the process that holds the write lock of each file: (device, inode) -> process.

    See proc_locks(5): number, kind, mode, READ or WRITE, process, major:minor:inode, first and last byte.
    A blocked request has "->" behind the number.
    """
    found: dict[Inode, int] = {}
    with suppress(OSError, ValueError), open("/proc/locks") as file:
        for words in map(str.split, file):
            if words[1] == "FLOCK" and words[3] == "WRITE":
                major, minor, inode = words[5].split(":")
                found[os.makedev(int(major, 16), int(minor, 16)), int(inode)] = int(words[4])
    return found


def program(process: int) -> str:
    """Name a process for a message."""
    with suppress(OSError), open(f"/proc/{process}/comm", errors="replace") as file:
        return f"process {process} ({file.read().strip()})"
    return "a program"


def explained(message: str, found: os.stat_result) -> OSError:
    """Return the error for a file that libhdf5 refuses.

    Args:
        message: what libhdf5 says.
        found: the file.
    """
    writer = next(_writers((found.st_dev, found.st_ino)), None) or locks().get((found.st_dev, found.st_ino))
    marked = _MARKED in message
    if writer is not None:
        why = "" if marked else f", and it cannot be understood so far ({message})"
        harm = "; h5clear would damage it" if marked else ""
        return BusyError(f"{program(writer)} has it open for writing{why}; open it when that has closed it{harm}")
    if not marked:
        return OSError(message)
    changed = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.st_mtime))
    return BusyError(
        f"it is marked as open for writing, and was last changed at {changed}: a program of another machine or user is"
        " writing it, or its writer has died. As long as it changes, or `fuser FILE` on the writer's machine names a"
        " process, wait until it is closed. After that, `h5clear -s` on a copy makes the copy readable"
    )


def _writers(inode: Inode) -> Iterator[int]:
    """Yield the processes that have a file open for writing, as far as they belong to this user."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, ValueError):
            for number in os.listdir(f"/proc/{process}/fd"):
                with suppress(OSError):
                    found = os.stat(f"/proc/{process}/fd/{number}")
                    if (found.st_dev, found.st_ino) == inode and _for_writing(process, number):
                        yield int(process)


def _for_writing(process: str, number: str) -> bool:
    with open(f"/proc/{process}/fdinfo/{number}") as file:
        flags = next(line.split()[1] for line in file if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
