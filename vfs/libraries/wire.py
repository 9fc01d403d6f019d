"""Defines the messages between this process and a fork: `HEAD` (bytes of JSON, bytes of data), JSON, data."""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

HEAD = struct.Struct("=QQ")
MAX_JSON_BYTES = 1 << 26  # bytes of JSON


def plain(value: Any) -> Any:
    """Convert what JSON does not know: numbers and small arrays of numpy, bytes; of others their text."""
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "biufSU" else str(value)
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= 1024 and value.dtype.kind in "biufSU" else f"array {list(value.shape)}"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple | set | frozenset) else str(value)


def send(to: socket.socket, said: Mapping[str, Any], data: bytes | memoryview = b"") -> None:
    """Send a message.

    Raises:
        OSError: the other end is closed.
    """
    text = json.dumps(said, default=plain, skipkeys=True).encode()
    to.sendall(HEAD.pack(len(text), len(data)) + text)
    if len(data):
        to.sendall(data)


def waits(of: socket.socket, seconds: float) -> bool:
    """Wait until something comes. Returns False if nothing does."""
    poll = select.poll()
    poll.register(of, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def received(of: socket.socket) -> tuple[dict[str, Any], np.ndarray]:
    """Receive a message: what is said, and uint8[n].

    Raises:
        EOFError: the other end is closed.
        OSError: it broke.
    """
    text, size = HEAD.unpack(_filled(of, np.empty(HEAD.size, np.uint8)).tobytes())
    if text > MAX_JSON_BYTES:
        raise EOFError
    said: dict[str, Any] = json.loads(_filled(of, np.empty(text, np.uint8)).tobytes())
    return said, _filled(of, np.empty(size, np.uint8))


def _filled(of: socket.socket, memory: np.ndarray) -> np.ndarray:
    view, at = memory.data, 0
    while at < len(memory):
        got = of.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return memory
