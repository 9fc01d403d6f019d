"""Keeps elements in a file without a name beside an unfinished store: it is gone when the process is."""

from __future__ import annotations

import os
import tempfile
from typing import IO, Self

import numpy as np


class UnnamedFile:
    """A file without a name, for elements that memory is not to hold. Any thread may write and read.

    Args:
        folder: on the disk of which it is.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, folder: str) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  (open as long as this)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()

    def __del__(self) -> None:
        self._file.close()

    @property
    def room(self) -> int:
        """Bytes that it can have, with those that it has."""
        disk = os.fstatvfs(self._file.fileno())
        return disk.f_bavail * disk.f_frsize + os.fstat(self._file.fileno()).st_blocks * 512

    def write(self, at: int, elements: np.ndarray) -> None:
        """Write contiguous elements from a byte on.

        Raises:
            OSError: the disk is full, or fails.
        """
        data = elements.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(data):
            done += os.pwrite(self._file.fileno(), data[done:], at + done)

    def read(self, at: int, out: np.ndarray) -> None:
        """Read elements from a byte on.

        Args:
            out: contiguous.

        Raises:
            OSError: the disk fails.
        """
        data = out.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(data):
            got = os.preadv(self._file.fileno(), [data[done:]], at + done)
            if not got:
                raise OSError(0, "a file beside the store, which holds parts of it, was cut")
            done += got
