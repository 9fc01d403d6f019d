"""Writes tiny valid files of electron events: EER."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vfs.testing.tiff_writers import write_tiff

_METADATA = """<metadata><item name="exposureTime" unit="s">{}</item><item name="numberOfFrames">{}</item>
<item name="sensorPixelSize.height" unit="m">5e-11</item><item name="sensorPixelSize.width" unit="m">5e-11</item>
</metadata>"""


def events_of(frame: np.ndarray, skip: int = 7, place: int = 4) -> bytes:
    """Encode a frame of bool as events, at any place in their pixels.

    Args:
        skip: bits of the number of pixels to skip.
        place: bits of the place of an event in its pixel.
    """
    rng = np.random.default_rng(0)
    most = (1 << skip) - 1
    made = bits = at = 0

    def put(value: int, width: int) -> None:
        nonlocal made, bits
        made |= value << bits
        bits += width

    for position in [*np.flatnonzero(frame).tolist(), frame.size]:
        for _ in range((position - at) // most):
            put(most, skip)
        put((position - at) % most, skip)
        if position < frame.size:
            put(int(rng.integers(1 << place)), place)
        at = position + 1
    size = -(-bits // 8)
    return made.to_bytes(size + size % 2 + 2, "little")  # the decoder looks a record ahead


def write_eer(
    path: str | Path,
    frames: Sequence[np.ndarray],
    *,
    compression: int = 65001,
    bits: tuple[int, int, int] = (7, 2, 2),
    metadata: bool = True,
    tags: Mapping[int, tuple[int, Sequence[int] | bytes, int]] | None = None,
) -> Path:
    """Write frames of bool [y, x] as electron events.

    Args:
        compression: 65000 (8 bits of skipped pixels), 65001 (7 bits), or 65002, for which `bits` counts.
        bits: bits of a record: skipped pixels, x, y.
        metadata: write those of the acquisition.
        tags: more tags of every page, see `write_tiff`.
    """
    skip, *place = {65000: (8, 2, 2), 65001: (7, 2, 2)}.get(compression, bits)
    more = dict(tags or {})
    if compression == 65002:
        more |= {65007 + k: (3, [n], 1) for k, n in enumerate(bits)}
    if metadata:
        text = _METADATA.format(len(frames) * 0.5, len(frames)).encode()
        more[65001] = (7, text, len(text))
    width = frames[0].shape[1]

    def encode(packed: bytes) -> bytes:
        rows = np.unpackbits(np.frombuffer(packed, np.uint8)).reshape(-1, -(-width // 8) * 8)[:, :width]
        return events_of(rows, skip, sum(place))

    pages = [np.asarray(frame, bool) for frame in frames]
    return write_tiff(path, pages, big=True, compression=compression, encode=encode, gap=2, tags=more)
