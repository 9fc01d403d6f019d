"""Records: heads in JSON with numbers behind them, one after the other in a body that comes bit by bit.

A record is a uint32 (little-endian) n, n bytes of JSON in UTF-8, and as many bytes of numbers as its
member `bytes` says. Numbers are little-endian, in C order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vfs.faces.documents import plain_json


def sendable(numbers: np.ndarray) -> np.ndarray:
    """Return numbers as a browser can hold them: little-endian, in C order, of one of eight dtypes.

    Those are uint8, int8, uint16, int16, uint32, int32, float32 and float64. bool becomes uint8,
    float16 float32, and any other float64 (int64 loses what is beyond 2 ** 53).
    """
    kind, size = numbers.dtype.kind, numbers.dtype.itemsize
    if kind == "b":
        numbers = numbers.view(np.uint8)
    elif kind == "f" and size < 4:
        numbers = numbers.astype(np.float32)
    elif kind in "mM":
        numbers = np.where(np.isnat(numbers), np.nan, numbers.astype(np.int64).astype(np.float64))
    elif (kind in "iu" and size > 4) or (kind == "f" and size > 8):
        numbers = numbers.astype(np.float64)
    return np.asarray(numbers, numbers.dtype.newbyteorder("<"), order="C")


def record(head: Mapping[str, Any], parts: Sequence[np.ndarray] = ()) -> np.ndarray:
    """Write a record.

    Args:
        head: what JSON can hold; `bytes` is added.
        parts: numbers as `sendable` returns them.

    Returns: uint8[bytes].
    """
    text = json.dumps(plain_json({**head, "bytes": sum(part.nbytes for part in parts)}), allow_nan=False).encode()
    flat = [np.frombuffer(len(text).to_bytes(4, "little") + text, np.uint8)]
    flat += [part.reshape(-1).view(np.uint8) for part in parts]
    return np.concatenate(flat)


def head_of(made: np.ndarray) -> dict[str, Any]:
    """Read the head of a record, uint8[bytes]."""
    size = int.from_bytes(made[:4].tobytes(), "little")
    head: dict[str, Any] = json.loads(made[4 : 4 + size].tobytes())
    return head


def described(name: str, numbers: np.ndarray) -> dict[str, Any]:
    """Say what numbers of a record are: name, dtype and shape."""
    return {"name": name, "dtype": numbers.dtype.name, "shape": list(numbers.shape)}
