"""Checks that sets whose files are not on this machine read as they do here. Part of `FormatTests`."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest

from vfs.api.arrays import VirtualGroup
from vfs.api.opening import open_group
from vfs.errors import SourceChangedError
from vfs.reduce.in_frames import FrameSum
from vfs.sources.remote import RemoteSources
from vfs.sources.transfers import Limits
from vfs.testing.arranged import same
from vfs.testing.inside import reader_of
from vfs.testing.memory_sources import MemorySources
from vfs.testing.range_server import OtherReply, RangeServer, ServedRequest

if TYPE_CHECKING:
    from vfs.testing.rows import WrittenSet

TINY = 700
"""Bytes of a request, so few that the tiny files of a row are read with several."""


class RemoteTests:
    """Opens and reads sets of files that are somewhere else: in memory, and on a web server."""

    def test_files_that_are_not_on_this_machine(self, found: WrittenSet) -> None:
        """What a format needs to know it asks its sources. Their files have URLs, and neither paths nor descriptors."""
        local = {path: array[...] for path, array in found.group().items()}
        sources = MemorySources.of(found.folder)
        found.folder.rename(found.folder.with_name("gone"))
        self._same_elsewhere(found, local, "memory://set", sources=sources)

    def test_files_of_a_web_server(self, found: WrittenSet) -> None:
        """All bytes come with requests for ranges; the folder has another name on the server than here."""
        pytest.importorskip("obstore")
        local = {path: array[...] for path, array in found.group().items()}
        away = found.folder.rename(found.folder.with_name("else where"))
        with (
            RangeServer(away.parent) as server,
            mock.patch("vfs.backends.remote.CUT", TINY),
            mock.patch("vfs.engine.stored_reader.TOGETHER", 3 * TINY),
            mock.patch("vfs.backends.remote.RemoteBackend.window", 2 * TINY),
        ):
            self._opened_elsewhere(found, local, f"{server.url}/else where")
            assert all(request.method in ("GET", "HEAD") for request in server.asked)
            self._hostile(found, local, server, away)

    def _hostile(self, found: WrittenSet, local: dict[str, np.ndarray], server: RangeServer, away: Path) -> None:
        """Every fifth request goes wrong, and is made again. Files that are replaced are never read wrongly."""
        top = f"{server.url}/{away.name}"
        urls = [found.url(str(path), top) for path in found.named]
        again = Limits(tries=20, pause=0.001)

        def breaks(one: ServedRequest) -> OtherReply | None:
            return _broken(away.parent, one) if one.number % 5 == 4 else None

        server.hook = breaks
        group = self._opened_elsewhere(found, local, top, sources=RemoteSources.around(urls, limits=again))
        server.hook = None
        group = self._open_elsewhere(found, top, sources=RemoteSources.around(urls))
        at = len(server.asked) + 2

        def replaces(one: ServedRequest) -> None:
            if one.number == at:
                _replace(away)

        server.hook = replaces
        for path, array in group.items():
            try:
                same(array[...], local[path])
            except SourceChangedError:
                assert len(server.asked) >= at

    def _opened_elsewhere(self, found: WrittenSet, local: dict[str, np.ndarray], top: str, **more: Any) -> VirtualGroup:
        """Open a set at URLs and compare all that it holds with what is read here."""
        group = self._open_elsewhere(found, top, **more)
        assert {path: array.shape for path, array in group.items()} == {path: one.shape for path, one in local.items()}
        for path, array in group.items():
            same(array[...], local[path])
            assert all(file.startswith(f"{top}/") for file in array.files)
        same(group.main[...], found.twin)
        return group

    def _open_elsewhere(self, found: WrittenSet, top: str, **more: Any) -> VirtualGroup:
        options = {name: found.url(value, top) for name, value in found.options.items()}
        urls = [found.url(str(path), top) for path in found.named]
        group: VirtualGroup = open_group(
            urls, **{**options, **more} | ({} if found.row.detected else {"format": found.row.format})
        )
        return group

    def _same_elsewhere(self, found: WrittenSet, local: dict[str, np.ndarray], top: str, **more: Any) -> None:
        """The same, and through zarr, pickled and reduced."""
        group = self._opened_elsewhere(found, local, top, **more)
        shown: Any = group.zarr()[reader_of(group.main).dataset.path]
        same(shown[...], found.twin)
        same(pickle.loads(pickle.dumps(group)).main[...], found.twin)
        if group.main.ndim > 2 and found.twin.dtype.kind in "iuf" and reader_of(group.main).dataset.nav_ndim:
            summed = group.main.reduce(sum=FrameSum())["sum"].data
            axes = tuple(range(reader_of(group.main).dataset.nav_ndim, found.twin.ndim))
            np.testing.assert_allclose(summed, found.twin.sum(axis=axes, dtype="f8"), rtol=1e-4)


def _broken(folder: Path, one: ServedRequest) -> OtherReply | None:
    """Return an answer that goes wrong, in one way or another; None where there is no right one."""
    path = folder / one.path.lstrip("/")
    if one.method != "GET" or not path.is_file():
        return OtherReply(503, {"Content-Length": "0"})
    found, first = path.stat(), one.first or 0
    body = path.read_bytes()[first : one.last]
    if not body:
        return None
    headers = {
        "Content-Length": str(len(body)),
        "Content-Range": f"bytes {first}-{first + len(body) - 1}/{found.st_size}",
        "ETag": f'"{found.st_mtime_ns:x}-{found.st_size:x}"',
    }
    some = body[: len(body) // 2]
    return (
        OtherReply(206, headers, [some], closes=True),
        OtherReply(206, headers, [some], resets=True),
        OtherReply(206, headers | {"Content-Length": str(len(some))}, [some]),
        OtherReply(206, headers | {"Content-Length": f"{len(body) + 9}"}, [body, b"more than"]),
        OtherReply(0, {}, [b"HTTP/1.1 206 Partial Content\r\nContent-Length: 1"], closes=True),
        OtherReply(0, resets=True),
    )[one.number // 5 % 6]


def _replace(folder: Path) -> None:
    """Replace all files of a folder with others of the same sizes."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        other = path.with_name("other")
        other.write_bytes(bytes(255 - byte for byte in path.read_bytes()))
        written = path.stat().st_mtime_ns + 10**9
        os.utime(other, ns=(written, written))
        other.replace(path)
