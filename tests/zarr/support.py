"""What the tests of the zarr store share."""

from __future__ import annotations

from zarr.core.buffer import Buffer, default_buffer_prototype


def plain(buffer: Buffer | None) -> bytes | None:
    return None if buffer is None else buffer.to_bytes()


P = default_buffer_prototype()
