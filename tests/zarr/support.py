"""What the tests of the zarr store share."""

from __future__ import annotations

from pathlib import Path

from zarr.core.buffer import Buffer, default_buffer_prototype


def plain(buffer: Buffer | None) -> bytes | None:
    return None if buffer is None else buffer.to_bytes()


P = default_buffer_prototype()


def content(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, and the sums beside it."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return found | {"sums": Path(f"{folder}.sums").read_bytes()}
