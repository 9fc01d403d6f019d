"""Defines the messages that pass through a pipe: a JSON object, with tables of integers.

A message is `HEAD` (bytes of JSON, bytes of tables), the JSON, and the tables one after the other
as int64 in native order; the JSON says their shapes. If a stream ends within a message, that
message is ignored.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

HEAD = struct.Struct("=QQ")


def packed(said: Mapping[str, Any], *tables: np.ndarray) -> bytes:
    """Return a message."""
    text = json.dumps({**said, "tables": [table.shape for table in tables]}).encode()
    raw = b"".join(np.ascontiguousarray(table, np.int64).tobytes() for table in tables)
    return HEAD.pack(len(text), len(raw)) + text + raw


def unpacked(stream: memoryview) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
    """Yield the messages of a stream.

    Raises:
        ValueError: the bytes are not messages.
    """
    at = 0
    while at + HEAD.size <= len(stream):
        text, raw = HEAD.unpack_from(stream, at)
        at += HEAD.size
        if at + text + raw > len(stream):
            return
        said = json.loads(bytes(stream[at : at + text]))
        at += text
        tables = []
        for shape in said.pop("tables"):
            size = 8 * math.prod(shape)
            tables.append(np.frombuffer(bytes(stream[at : at + size]), np.int64).reshape(shape))  # bytes: aligned
            at += size
            raw -= size
        at += raw
        yield said, tables
