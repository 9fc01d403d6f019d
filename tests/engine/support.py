"""What the tests of arrays share: arrays in memory, one that fails, obvious ways to correct frames and halve them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout, FrameRecord, Scan
from vfs.model.stored import StoredArray
from vfs.testing.backends import FailingBackend, MemoryBackend, memory_files


def in_memory(values: np.ndarray, stored: Any = None, nav_ndim: int = 1, header: int = 0, **more: Any) -> ArrayReader:
    """An array of frames in one file in memory."""
    dtype = np.dtype(stored or values.dtype)
    sig = values.shape[nav_ndim:]
    frames = values.reshape(math.prod(values.shape[:nav_ndim]), *sig).astype(dtype)
    content = b"".join(b"\xee" * header + frames[n : n + 1].tobytes() for n in range(len(frames)))
    layout = FrameLayout.of(FrameRecord(sig, dtype.itemsize, header=header), [len(frames)]).arranged(
        Scan(values.shape[:nav_ndim])
    )
    backend = more.pop("backend", MemoryBackend([content], copies=more.pop("copies", False)))
    said = {"path": "data", "dims": tuple("abcdefgh"[: values.ndim]), **more.pop("said", {})}
    dataset = StoredArray(
        files=memory_files([content]),
        layout=layout,
        decoder=PlainDecoder(dtype),
        shape=values.shape,
        nav_ndim=nav_ndim,
        **said,
    )
    return ArrayReader(dataset, backend, **more)


def failing(values: np.ndarray, copies: bool, header: int = 0, **more: Any) -> tuple[ArrayReader, FailingBackend]:
    inner = in_memory(values, header=header).backend
    assert isinstance(inner, MemoryBackend)
    backend = FailingBackend(
        MemoryBackend([c.tobytes() for c in inner.contents], copies=copies, window=64), lambda file, start, stop: False
    )
    return in_memory(values, header=header, backend=backend, **more), backend


def corrected(frames: np.ndarray, dark: Any = None, gain: Any = None, dead: np.ndarray | None = None) -> np.ndarray:
    """The obvious way: whole frames, a loop over excluded pixels."""
    kind = np.float64 if frames.dtype.itemsize == 8 else np.float32
    out = frames.astype(kind)
    if dark is not None:
        out = out - np.asarray(dark, np.float32)
    if gain is not None:
        out = out * np.asarray(gain, np.float32)
    if dead is not None:
        clean = out.copy()
        for y, x in np.argwhere(dead):
            r = 1
            while True:
                near = np.zeros_like(dead)
                near[max(0, y - r) : y + r + 1, max(0, x - r) : x + r + 1] = True
                near &= ~dead
                if near.any():
                    break
                r += 1
            out[..., y, x] = clean[..., near].mean(axis=-1, dtype=np.float64)
    return out


def halved(images: np.ndarray) -> np.ndarray:
    """The obvious way: integers as Python's, which have no last one; floats as float64."""
    high, wide = images.shape[-2:]
    lines = [np.minimum(np.arange(0, n + n % 2).reshape(-1, 2), n - 1) for n in (high, wide)]
    four = [images[..., lines[0][:, a], :][..., lines[1][:, b]] for a in (0, 1) for b in (0, 1)]
    if images.dtype.kind == "b":
        return four[0]
    if images.dtype.kind in "iu":
        return ((sum(one.astype(object) for one in four) + 2) // 4).astype(images.dtype)
    with np.errstate(all="ignore"):
        quarters = [one.astype("f8") / 4 for one in four]
        return ((quarters[0] + quarters[1]) + (quarters[2] + quarters[3])).astype(images.dtype)
