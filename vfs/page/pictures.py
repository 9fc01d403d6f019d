"""Answers requests for pictures: one as numbers, or a stream of small ones."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from vfs.contents.contents import Contents
from vfs.engine.cache import ChunkCache
from vfs.errors import SourceChangedError, VfsError, printable
from vfs.faces.face import Face
from vfs.http.answers import Answer
from vfs.http.guard import RefusedError
from vfs.http.limits import Held
from vfs.http.reads import Reads
from vfs.http.requests import Request, flag, has, indices, number, page_of
from vfs.page.backgrounds import without_background
from vfs.page.listing import SetListing
from vfs.page.records import described as numbers_described
from vfs.page.records import record
from vfs.page.tiles import thumbnail, tile, tile_bytes
from vfs.page.views import LARGEST, bytes_of, picture, whites_are_low
from vfs.pictures.frames import FrameView
from vfs.pictures.small_frames import PARTS, checked_view

SIDE = 256  # most rows and columns of a thumbnail
HELD = 256 << 20
"""Most bytes of pictures that are read for a client, or that it was sent and has not taken. The largest one has as
many: 128 MiB of float16, which become float32."""
ALL = 1 << 30
"""Most of them for all clients together."""
KEPT = 16 << 20
"""Bytes of small pictures of large ones that are kept: each took a pass over a picture."""

Found = TypeVar("Found")
_NUMBERS = b"application/octet-stream"


class Working(Protocol):
    """Runs work in a thread, for as long as a client waits for it. Equal keys at the same time share a run."""

    async def __call__(self, key: Any, work: Any, receive: Any, pool: Reads | None = None) -> Any: ...


class Wanted(NamedTuple):
    """A picture that is asked for: two that are equal are read once.

    Attributes:
        key: path of the array; at, most, part, plane: see `vfs.page.views.picture`.
        background: what is taken away of backscatter patterns, as arguments of `WithoutBackground`; "": nothing.
        level, box, side: see `vfs.page.tiles.tile`; a box of no numbers: the picture as a whole.
    """

    key: str
    at: tuple[int, ...]
    most: int
    part: str
    level: int
    box: tuple[int, ...]
    side: int
    plane: tuple[int, ...]
    background: str

    @classmethod
    def of(cls, key: str, request: Request) -> Wanted:
        """Read a request.

        Raises:
            RefusedError: it asks for none.
        """
        part = request.query.get("part", "abs")
        if part not in PARTS:
            raise RefusedError(400, f"part={printable(part[:40])}: expected {', '.join(PARTS)}")
        box = indices(request, "box")
        others = ("max", "plane") if box else ("level", "bin")
        background = request.query.get("background", "")
        if box and background:
            raise RefusedError(400, "background: goes with pictures as a whole, not with box=")
        if len(box) not in (0, 4) or any(name in request.query for name in others):
            raise RefusedError(
                400, "a box: expected box=y0,x0,y1,x1, with or without level= and bin=, and neither max= nor plane="
            )
        most, level = number(request, "max", LARGEST, 1, LARGEST), number(request, "level", 0, 0, 64)
        return cls(
            key,
            indices(request, "at"),
            most,
            part,
            level,
            box,
            number(request, "bin", 1, 1, LARGEST),
            indices(request, "plane"),
            background,
        )

    def etag(self, version: bytes) -> bytes:
        """Return the ETag of the picture in one state of its sources; empty if they may change at any time."""
        if not version:
            return b""
        digest = blake2b(version, digest_size=16)
        digest.update(str(self[1:]).encode())
        digest.update(self.key.encode("utf-8", "surrogateescape"))
        return b'"%s"' % digest.hexdigest().encode()


class Pictures:
    """Answers requests for pictures, in the thread of the event loop.

    Args:
        contents, listing: what is served.
        work: runs what looks at files, also in threads of a pool that is named.

    Attributes:
        pool: the thread that computes smaller versions for small pictures, one after the other.
    """

    def __init__(self, contents: Contents, listing: SetListing, work: Working) -> None:
        self._contents, self._listing, self._work = contents, listing, work
        self._held = Held(HELD, ALL)
        self.pool, self._kept = Reads(1), ChunkCache(KEPT)

    async def frame(self, key: str, request: Request, answer: Answer) -> None:
        """Answer with a picture as numbers."""
        wanted = Wanted.of(key, request)
        etag, nbytes = await self._work(("look", wanted), partial(self._look, wanted), request.receive)
        if etag and has(request, etag):
            await answer.headers(304, [(b"etag", etag)])
            return
        free = await self._held.waited(request.client, nbytes, request.receive)
        try:
            etag, numbers, factor, stored = await self._work(
                ("frame", wanted), partial(self._read, wanted), request.receive
            )
            body = numbers.reshape(-1).view(np.uint8)
            weakref.finalize(body, free).atexit = False
        except BaseException:
            free()
            raise
        about = [
            (b"x-vfs-shape", ",".join(map(str, numbers.shape)).encode()),
            (b"x-vfs-dtype", numbers.dtype.name.encode()),
            (b"x-vfs-bin", b"%d" % factor),
            (b"x-vfs-stored", b"yes" if stored else b"no"),
            (b"content-type", _NUMBERS),
            (b"content-length", b"%d" % numbers.nbytes),
            (b"etag", etag) if etag else (b"cache-control", b"no-store"),
        ]
        if request.method == "HEAD":
            await answer.headers(200, about)
            return
        await answer.begin(200, about)
        await answer.send(memoryview(body), last=True)

    def _look(self, wanted: Wanted) -> tuple[bytes, int]:
        """Return what is known of a picture before it is read: its ETag, and its bytes."""
        face, path, array = self._listing.found(wanted.key)
        if wanted.box:
            nbytes = tile_bytes(face, path, wanted.at, wanted.level, wanted.box, wanted.part)
        else:
            shown = without_background(array, wanted.background)
            nbytes = bytes_of(shown, wanted.at, wanted.most, wanted.part, wanted.plane)
        return wanted.etag(self._contents.at(wanted.key).version()), nbytes

    def _read(self, wanted: Wanted) -> tuple[bytes, np.ndarray, int, bool]:
        """Read a picture. Returns: its ETag, the numbers, the side of its squares; if files hold any of it."""
        face, path, array = self._listing.found(wanted.key)
        if wanted.box:
            read = partial(tile, face, path, wanted.at, wanted.level, wanted.box, wanted.side, wanted.part)
        else:
            shown = without_background(array, wanted.background)
            read = partial(picture, shown, wanted.at, wanted.most, wanted.part, wanted.plane)
        (numbers, factor), version = self._unchanged(wanted.key, read)
        return wanted.etag(version), numbers, factor, checked_view(array, wanted.at, wanted.plane).stored(wanted.at)

    def _unchanged(self, key: str, read: Callable[[], Found]) -> tuple[Found, bytes]:
        """Read a picture from one state of the sources. Returns: what `read` does, and that state."""
        version = self._contents.at(key).version()
        found = read()
        if self._contents.at(key).version() != version:
            raise SourceChangedError(f"{key}: its files changed while they were read; ask again")
        return found, version

    async def thumbnails(self, key: str, request: Request, answer: Answer) -> None:
        """Answer with small pictures of arrays, a record each as soon as it is read."""
        first, count = page_of(request)
        size, whole = number(request, "size", 64, 1, SIDE), flag(request, "whole")
        face = await self._work(("face", key), partial(self._listing.face, key), request.receive)
        await answer.begin(200, [(b"content-type", _NUMBERS)])
        wanted = [face.main] if request.query.get("main") == "1" else list(face.arrays)
        for path in islice(wanted, first, first + count):
            make = partial(self._thumbnail, key, face, path, size, whole)
            pool = self.pool if whole else None
            made = await self._work(("thumbnail", key, path, size, whole), make, request.receive, pool)
            await answer.send(made.data, last=False)
        await answer.send(record({"end": True}).data, last=True)

    def _thumbnail(self, key: str, face: Face, path: str, size: int, whole: bool) -> np.ndarray:
        """Make the record of an array's thumbnail: its picture in the middle.

        One that took a pass over the picture is kept, for as long as its sources stay the same.
        """
        array, name = face.arrays[path], f"{key}/{path}"
        try:
            view, better = FrameView.of(array), False
            found = self._kept.peek((name, size, self._contents.at(name).version()))
            if found is None:
                read = partial(thumbnail, face, path, view.middle, size, whole)
                (numbers, _, better), version = self._unchanged(name, read)
                if whole and version:
                    self._kept.get((name, size, version), lambda: numbers)
            else:
                numbers = found
            if view.upward:
                numbers = np.ascontiguousarray(numbers[::-1])
        except VfsError as error:
            return record({"path": path, "error": printable(str(error))})
        head = numbers_described(path, numbers)
        of = {"shape": list(array.shape), "dtype": array.dtype.name, "inverted": whites_are_low(array)}
        said = {"path": path, "dtype": head["dtype"], "shape": head["shape"], "of": of}
        return record({**said, "sampled": True} if better else said, [numbers])

    def close(self) -> None:
        """End the thread."""
        self.pool.close()
