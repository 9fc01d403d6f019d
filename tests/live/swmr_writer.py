"""Plays an instrument that writes an HDF5 file with SWMR ("single writer, multiple readers"): `SwmrRecording`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np


class SwmrRecording:
    """Writes frames to `entry/data` of an HDF5 file, which others may read meanwhile.

    Args:
        path: the file.
        frames: the frames, along the first axis.
        chunk: shape of a chunk; a frame, by default.
        fixed: give the array its full length at once. Otherwise it is made longer before each frame.
        more: further arguments of `h5py.Group.create_dataset`.

    Attributes:
        path: the file.
        written: number of frames that are written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        frames: np.ndarray,
        chunk: tuple[int, ...] = (),
        *,
        fixed: bool = False,
        **more: Any,
    ) -> None:
        import h5py

        self.path = Path(path)
        self._frames, self._fixed, self.written = frames, fixed, 0
        self._file = h5py.File(path, "w", libver="latest")
        sig, chunk = frames.shape[1:], chunk or (1, *frames.shape[1:])
        about = {"dtype": frames.dtype, "chunks": chunk} | more
        shape, limit = (frames.shape, None) if fixed else ((0, *sig), (None, *sig))
        self._data = self._file.create_dataset("entry/data", shape, maxshape=limit, **about)
        self._times = self._file.create_dataset("entry/time", (0,), "f8", maxshape=(None,), chunks=(16,))
        self._file.swmr_mode = True

    def write(self, count: int = 1, flush: bool = True) -> bool:
        """Write so many frames more. Returns False if nothing is left."""
        for number in range(self.written, min(self.written + count, len(self._frames))):
            if not self._fixed:
                self._data.resize(number + 1, axis=0)
            self._data[number] = self._frames[number]
            self._times.resize(number + 1, axis=0)
            self._times[number] = number / 10
            self.written = number + 1
        if flush:
            self._file.flush()
        return self.written < len(self._frames)

    def finish(self) -> None:
        """Write what is left, and close the file."""
        self.write(len(self._frames))
        self.close()

    def close(self) -> None:
        """Close the file with the frames that are in it."""
        self._file.close()
