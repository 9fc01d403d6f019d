"""Checks that sets whose files are not on this machine read as they do here. Part of `FormatTests`."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest

from vfs.api import VirtualGroup, open_group
from vfs.reduce.in_frames import FrameSum
from vfs.testing.arranged import same
from vfs.testing.inside import reader_of
from vfs.testing.memory_sources import MemorySources
from vfs.testing.range_server import RangeServer

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

    def _opened_elsewhere(self, found: WrittenSet, local: dict[str, np.ndarray], top: str, **more: Any) -> VirtualGroup:
        """Open a set at URLs and compare all that it holds with what is read here."""
        options = {name: found.url(value, top) for name, value in found.options.items()}
        urls = [found.url(str(path), top) for path in found.named]
        how = {**options, **more} | ({} if found.row.detected else {"format": found.row.format})
        group: VirtualGroup = open_group(urls, **how)
        assert {path: array.shape for path, array in group.items()} == {path: one.shape for path, one in local.items()}
        for path, array in group.items():
            same(array[...], local[path])
            assert all(file.startswith(f"{top}/") for file in array.files)
        same(group.main[...], found.twin)
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
