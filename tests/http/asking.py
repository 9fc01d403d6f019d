"""What tests of the page's API share: a scan, and requests that an application answers without a server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from tests.http.support import Asgi
from vfs.contents.contents import Contents
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder
from vfs.server.application import Application
from vfs.testing.inside import set_of

SCAN, FRAME = (6, 9), (12, 20)
VALUES = np.random.default_rng(3).integers(0, 1 << 12, (*SCAN, *FRAME)).astype("u2")


def contents_of(path: Path, **options: Any) -> Contents:
    return folder([set_of(vfs.open_group(path, backend="buffered", **options))], ChunkCache())


def ask(application: Application, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Asgi:
    return asyncio.run(Asgi(application, path, method, body, **headers).run())


def headers_of(done: Asgi) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in done.sent[0]["headers"]}


def told(application: Application, path: str) -> Any:
    done = ask(application, path)
    assert done.status == 200, done.body
    return json.loads(done.body)


def frame(application: Application, path: str) -> tuple[np.ndarray, int]:
    """Ask for a picture. Returns: its numbers, and how many pixels each is the mean of."""
    done = ask(application, path)
    assert done.status == 200, done.body
    about = headers_of(done)
    shape = [int(n) for n in about["x-vfs-shape"].split(",") if n]
    numbers = np.frombuffer(done.body, np.dtype(about["x-vfs-dtype"]).newbyteorder("<")).reshape(shape)
    return numbers, int(about["x-vfs-bin"])


def refused(application: Application, path: str, method: str = "GET", body: bytes = b"") -> tuple[int, str]:
    done = ask(application, path, method, body)
    text = done.body.decode()
    assert text.count("\n") == 1
    assert "access-control-allow-origin" not in headers_of(done)
    return done.status, text


def records(body: bytes) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """The records of a body: heads, and the numbers of each by their names."""
    found, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "little")
        head = json.loads(body[at + 4 : at + 4 + size])
        at += 4 + size
        end, numbers = at + head["bytes"], {}
        for one in head.get("results", [head] if "dtype" in head else []):
            dtype = np.dtype(one["dtype"]).newbyteorder("<")
            count = int(np.prod(one["shape"]))
            numbers[one.get("name", "")] = np.frombuffer(body, dtype, count, at).reshape(one["shape"])
            at += count * dtype.itemsize
        assert at == end
        found.append((head, numbers))
    return found
