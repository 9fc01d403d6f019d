"""What the tests of the zarr store share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from zarr.core.buffer import Buffer, default_buffer_prototype

from vfs.testing.writers import write_mib


def plain(buffer: Buffer | None) -> bytes | None:
    return None if buffer is None else buffer.to_bytes()


P = default_buffer_prototype()


def content(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, and the sums beside it."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return found | {"sums": Path(f"{folder}.sums").read_bytes()}


def exported_scan(folder: Path) -> Path:
    """Write the scan that tests of exports export, into a new folder `in`: 4 x 6 frames in five files."""
    frames = np.random.default_rng(1).integers(0, 4000, (24, 8, 16)).astype(np.uint16)
    frames[8:20] = 0  # whole chunks of it hold only the fill value
    (folder / "in").mkdir()
    return write_mib(folder / "in", frames, frames_per_file=5, scan=(4, 6))


class StoppedError(Exception):
    """Raised by a progress, to end an export."""


def stop_after(bytes_: int) -> Callable[[int, int, int], None]:
    """Return a progress that ends an export when so many bytes are done."""

    def progress(done: int, total: int, stored: int) -> None:
        if done >= bytes_:
            raise StoppedError

    return progress
