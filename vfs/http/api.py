"""Answers what the page asks for below `api/`: what is there, pictures, thumbnails, computations.

The page `serve` (`vfs docs serve`) describes the requests. Everything is bounded: the length of a
request, of a record, and how much a client may ask for at once.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.frames import FrameView
from vfs.errors import OptionError, SourceChangedError, VfsError, printable
from vfs.hierarchy.contents import Contents
from vfs.hierarchy.documents import plain_json
from vfs.hierarchy.faces import ZarrFace
from vfs.http.ahead import Ahead
from vfs.http.answers import Answer
from vfs.http.centre import centre
from vfs.http.computing import Asked, Computation, following
from vfs.http.first_look import FirstLook
from vfs.http.guard import RefusedError
from vfs.http.reads import GoneError, Reads
from vfs.http.records import described as numbers_described
from vfs.http.records import record
from vfs.http.views import LARGEST, LINE, PARTS, described, picture

LONGEST = 64 << 10
"""Most bytes of the body of a request."""
MOST = 1000
"""Most entries of a list that are sent at once."""
ARRAYS = 200
"""Arrays of a set that come with the page."""
AT_ONCE = {"compute": 8, "thumbnails": 8, "frame": 64}
"""Requests of a kind that a client may have under way."""
COMPUTING = 2
"""Computations that are made at once; others wait."""
SIDE = 256  # most rows and columns of a thumbnail

_JSON = b"application/json"
_NUMBERS = b"application/octet-stream"


class Threads(Protocol):
    """Runs work in a thread, for as long as a client waits for it."""

    async def __call__(self, key: Any, work: Callable[[], Any], receive: Any, pool: Reads | None = None) -> Any: ...


class Request(NamedTuple):
    """A request below `api/`.

    Attributes:
        method: as it came; path: what follows `api/`, without a slash at its end.
        query: name -> text; headers: by lower-case name.
        client: address of the client; receive: gives messages of ASGI.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[bytes, bytes]
    client: str
    receive: Callable[[], Awaitable[Any]]


Answering = Callable[[str, Request, Answer], Awaitable[None]]
"""Answers a request, given what its path names."""


class Api:
    """Answers requests below `api/`. It is called in the thread of the event loop.

    Args:
        contents: what is served.
        threads: runs work in threads.
        failed: counts and logs an error, given the path that it is about.
    """

    def __init__(self, contents: Contents, threads: Threads, failed: Callable[[str, Exception], str]) -> None:
        self.contents = contents
        self._failed = failed
        self._threads = threads
        self._under_way: Counter[tuple[str, str]] = Counter()
        self._streams: dict[str, asyncio.Event] = {}  # id -> set when the stream is to stop
        self.computing = Reads(COMPUTING)
        self.ahead = Ahead(self.computing)
        self.look = FirstLook(self._all, self._face, contents.cache)

    async def answer(self, request: Request, answer: Answer) -> None:
        """Answer a request.

        Raises:
            RefusedError: it asks for nothing that is here.
            VfsError: a source cannot be read.
        """
        what, _, rest = request.path.partition("/")
        known: dict[str, Answering] = {
            "list": self._list,
            "set": self._set,
            "array": self._array,
            "python": self._python,
            "frame": self._frame,
            "thumbnails": partial(self._until_stopped, self._thumbnails),
            "centre": self._centre,
            "compute": partial(self._until_stopped, self._compute),
            "stop": self._stop,
        }
        if what not in known:
            raise RefusedError(404, f"api/ has {', '.join(known)}")
        allowed = {"compute": ("POST",), "stop": ("POST",), "thumbnails": ("GET",)}.get(what, ("GET", "HEAD"))
        if request.method not in allowed:
            raise RefusedError(405, f"api/{what}: expected {allowed[0]}", allow=", ".join((*allowed, "OPTIONS")))
        try:
            with self._counted(what, request.client):
                await known[what](rest, request, answer)
        except OptionError as error:
            if answer.status:
                raise
            raise RefusedError(400, printable(str(error))) from None

    @contextmanager
    def _counted(self, what: str, client: str) -> Iterator[None]:
        """Count a request while it is under way.

        Raises:
            RefusedError: the client has too many.
        """
        key = (what, client)
        if self._under_way[key] >= AT_ONCE.get(what, 1 << 30):
            raise RefusedError(429, f"{AT_ONCE[what]} requests for api/{what} are under way; wait for one of them")
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]

    async def _until_stopped(self, stream: Answering, key: str, request: Request, answer: Answer) -> None:
        """Send a stream, until `_stop` ends it: not every proxy says that its client has gone away.

        Raises:
            RefusedError: another one under way has its id.
        """
        name = request.query.get("id")
        if name is None:
            await stream(key, request, answer)
            return
        if name in self._streams:
            raise RefusedError(400, f"id={printable(name[:40])}: another request under way has it")
        stopped = self._streams[name] = asyncio.Event()
        try:
            await stream(key, request._replace(receive=partial(_message, request.receive, stopped)), answer)
        except GoneError:
            if not stopped.is_set():
                raise
            if not answer.status:
                await answer.begin(200, [(b"content-type", _NUMBERS)])
            await answer.send(record({"error": "it was stopped"}).data, last=True)
        finally:
            del self._streams[name]

    async def _stop(self, name: str, request: Request, answer: Answer) -> None:
        """Stop a stream. It is no error that there is none: it may just have ended."""
        stopped = self._streams.get(name)
        if stopped is not None:
            stopped.set()
        await _json(answer, request, {"stopped": stopped is not None})

    async def _work(self, request: Request, work: Callable[[], Any]) -> Any:
        """Run work in a thread; equal requests at the same time share a run."""
        key = ("api", request.path, tuple(sorted(request.query.items())))
        return await self._threads(key, work, request.receive)

    # What is there

    async def _list(self, path: str, request: Request, answer: Answer) -> None:
        first, count = _page(request)
        listed = await self._work(request, partial(self._listed, path, first, count))
        await _json(answer, request, listed)

    def first(self) -> dict[str, Any]:
        """Answer what the page asks first: what is there and, where that is one set, what is in it.

        Of folders that may hold many sets, nothing is looked at before somebody asks.
        """
        if not self.contents.faces:
            return {}
        known: dict[str, Any] = {"listing": self._listed("", 0, MOST)}
        entries = known["listing"]["entries"]
        if len(entries) == 1:
            with suppress(VfsError):  # said when the page asks
                known["set"] = self._described(entries[0]["key"], 0, ARRAYS)
                known |= self.look.disk()
        return known

    def _all(self) -> list[dict[str, str]]:
        """Return the first two entries of what is served, unless folders are."""
        entries: list[dict[str, str]] = self._listed("", 0, 2)["entries"] if self.contents.faces else []
        return entries

    def _listed(self, path: str, first: int, count: int) -> dict[str, Any]:
        contents = self.contents
        node = contents.node(path)
        if node is None or not node.listed:
            raise RefusedError(404, f"no folder is called {printable(path[:200])}")
        entries: list[dict[str, str]] = []
        more = False
        for entry in islice(self._entries(path), first, None):
            if len(entries) == count:
                more = True
                break
            entries.append(entry)
        return {"path": path, "entries": entries, "more": more, "tree": not contents.faces}

    def _entries(self, path: str) -> Iterator[dict[str, str]]:
        """Give the folders and data sets of a folder."""
        for entry in self.contents.sets(path):
            yield {"name": printable(entry.name), "kind": "set" if entry.is_set else "folder", "key": entry.path}

    async def _set(self, key: str, request: Request, answer: Answer) -> None:
        first, count = _page(request)
        await _json(answer, request, await self._work(request, partial(self._described, key, first, count)))

    def _described(self, key: str, first: int, count: int) -> dict[str, Any]:
        face = self._face(key)
        stem = key.removesuffix(".zarr").removesuffix(".v2")
        npy = f"{stem}.npy"
        return {
            "key": key,
            "name": printable(stem.rpartition("/")[2]),
            "sources": [printable(path) for path in islice(self.contents.sources(key, False), 1)],
            "warnings": [printable(text) for text in islice(self.contents.warnings, 100)],
            "npy": npy if self.contents.node(npy) is not None else None,
            "count": len(face.arrays),
            "arrays": [
                described(path, array, path == face.main)
                for path, array in islice(face.arrays.items(), first, first + count)
            ],
        }

    async def _array(self, key: str, request: Request, answer: Answer) -> None:
        await _json(answer, request, await self._work(request, partial(self._one, key)))

    def _one(self, key: str) -> dict[str, Any]:
        face, path, array = self._found(key)
        return described(path, array, path == face.main) | {
            "attrs": plain_json(dict(array.attrs)),
            "files": len(array.files),
        }

    async def _python(self, key: str, request: Request, answer: Answer) -> None:
        await _json(answer, request, await self._work(request, partial(self._opened, key)))

    def _opened(self, key: str) -> dict[str, Any]:
        """Say how the set behind a key was opened, for people who open it themselves."""
        recipe = self.contents.recipe(key)
        if recipe is None:
            raise RefusedError(404, f"no data set is called {printable(key[:200])}")
        return asdict(recipe)

    def _face(self, key: str) -> ZarrFace:
        """Return the zarr face that a key is the path of.

        Raises:
            RefusedError: there is none.
        """
        resolved = self.contents.resolve(key, opening=True)
        if resolved is None or resolved.key or not isinstance(resolved.face, ZarrFace):
            raise RefusedError(404, f"no data set is called {printable(key[:200])}")
        return resolved.face

    def _found(self, key: str) -> tuple[ZarrFace, str, ArrayReader]:
        """Return the array that a key is the path of, with its set.

        Raises:
            RefusedError: there is none.
        """
        resolved = self.contents.resolve(key, opening=True)
        if resolved is None or not isinstance(resolved.face, ZarrFace) or resolved.key not in resolved.face.arrays:
            raise RefusedError(404, f"no array is called {printable(key[:200])}")
        return resolved.face, resolved.key, resolved.face.arrays[resolved.key]

    # Pictures

    async def _frame(self, key: str, request: Request, answer: Answer) -> None:
        at, most = _indices(request), _number(request, "max", LARGEST, 1, LARGEST)
        part = request.query.get("part", "abs")
        if part not in PARTS:
            raise RefusedError(400, f"part={printable(part[:40])}: expected {', '.join(PARTS)}")
        tag, numbers, factor = await self._work(
            request, partial(self._picture, key, at, most, part, request.headers.get(b"if-none-match"))
        )
        if numbers is None:
            await answer.headers(304, [(b"etag", tag)])
            return
        about = [
            (b"x-vfs-shape", ",".join(map(str, numbers.shape)).encode()),
            (b"x-vfs-dtype", numbers.dtype.name.encode()),
            (b"x-vfs-bin", b"%d" % factor),
            (b"content-type", _NUMBERS),
            (b"content-length", b"%d" % numbers.nbytes),
            *([(b"etag", tag)] if tag else []),
        ]
        if request.method == "HEAD":
            await answer.headers(200, about)
            return
        await answer.begin(200, about)
        await answer.send(memoryview(numbers.reshape(-1).view(np.uint8)), last=True)

    def _picture(
        self, key: str, at: tuple[int, ...], most: int, part: str, has: bytes | None
    ) -> tuple[bytes, np.ndarray | None, int]:
        """Read a picture. Returns: its ETag, the numbers (None: the client has them), the side of its squares."""
        _, _, array = self._found(key)
        version = self.contents.version(key)
        tag = b""
        if version:
            digest = blake2b(version, digest_size=16)
            digest.update(f"{key} {at} {most} {part}".encode("utf-8", "surrogateescape"))
            tag = b'"%s"' % digest.hexdigest().encode()
            if has is not None and tag in has:
                return tag, None, 1
        shown = array.dataset.nav_ndim < array.ndim or array.ndim > 1
        numbers, factor = picture(array, at, most if shown else min(most, LINE), part)
        if self.contents.version(key) != version:
            raise SourceChangedError(f"{key}: its files changed while they were read; ask again")
        return tag, numbers, factor

    async def _thumbnails(self, key: str, request: Request, answer: Answer) -> None:
        first, count = _page(request)
        size = _number(request, "size", 64, 1, SIDE)
        face = await self._work(request, partial(self._face, key))
        await answer.begin(200, [(b"content-type", _NUMBERS)])
        wanted = {face.main: face.arrays[face.main]} if request.query.get("main") == "1" else face.arrays
        for path, array in list(islice(wanted.items(), first, first + count)):
            made = await self._threads(
                ("thumbnail", key, path, size), partial(_thumbnail, path, array, size), request.receive
            )
            await answer.send(made.data, last=False)
        await answer.send(record({"end": True}).data, last=True)

    # Computations

    def load(self) -> None:
        """Load what a page will need, before one is asked for: kernels take a tenth of a second. Then begin."""

        def loaded(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self.begin()

        self.computing.start("load", self.look.load).add_done_callback(loaded)

    def begin(self) -> None:
        """Begin with what the page will ask for first, or go on with it."""
        self.ahead.begin(self.look.image)

    async def _centre(self, key: str, request: Request, answer: Answer) -> None:
        within = _indices(request, "within")

        def find() -> dict[str, float]:
            return centre(self._found(key)[2], within, self.contents.cache)._asdict()

        await _json(answer, request, await self._work(request, find))

    async def _compute(self, key: str, request: Request, answer: Answer) -> None:
        asked = Asked.of(_read_json(await _body(request)))
        cache: ChunkCache = self.contents.cache

        def begin() -> Computation:
            self.contents.version(key)  # its files may have changed
            return Computation(self._found(key)[2], asked, cache)

        computation = await self._threads(object(), begin, request.receive)
        self.ahead.met(computation.key)
        coming: asyncio.Future[Any] | None = None
        steps, before = computation.steps(), None
        try:
            while (step := following(steps, before)) is not None:  # it is made while the one before is sent
                coming = asyncio.ensure_future(self._threads(step.key, step.make, request.receive, self.computing))
                if before is not None:
                    await self._send(answer, before)
                before = await coming
            if before is not None:
                await self._send(answer, before)
        except (VfsError, MemoryError) as error:
            if not answer.status:
                raise
            said = printable(self._failed(key, error))
            await answer.send(record({"error": said}).data, last=True)
            return
        finally:
            if coming is not None:
                coming.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await coming
        await answer.send(record({"end": True}).data, last=True)

    async def _send(self, answer: Answer, made: np.ndarray) -> None:
        """Send a record; before the first, say what comes."""
        if not answer.status:
            await answer.begin(200, [(b"content-type", _NUMBERS)])
        await answer.send(made.data, last=False)

    def close(self) -> None:
        """End the threads."""
        self.computing.close()


def _thumbnail(path: str, array: ArrayReader, size: int) -> np.ndarray:
    """Make the record of an array's thumbnail: its picture in the middle."""
    try:
        numbers, _ = picture(array, FrameView.of(array).middle, size)
    except VfsError as error:
        return record({"path": path, "error": printable(str(error))})
    head = numbers_described(path, numbers)
    return record({"path": path, "dtype": head["dtype"], "shape": head["shape"]}, [numbers])


def _page(request: Request) -> tuple[int, int]:
    return _number(request, "first", 0, 0, 1 << 40), _number(request, "count", MOST, 1, MOST)


def _number(request: Request, name: str, usual: int, least: int, most: int) -> int:
    """Read a number of the query.

    Raises:
        RefusedError: it is none, or out of range.
    """
    text = request.query.get(name)
    if text is None:
        return usual
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:
        raise RefusedError(400, f"{name}={printable(text[:40])}: expected a number from {least} to {most}")
    return int(text)


def _indices(request: Request, name: str = "at") -> tuple[int, ...]:
    text = request.query.get(name, "")
    if not text:
        return ()
    parts = text.split(",")
    if len(parts) > 64 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise RefusedError(400, f"{name}={printable(text[:40])}: expected indices, as in {name}=3,4")
    return tuple(map(int, parts))


def query_of(raw: bytes) -> dict[str, str]:
    """Read the query of a URL.

    Raises:
        RefusedError: it is garbled.
    """
    try:
        return dict(parse_qsl(raw.decode("ascii"), max_num_fields=20, strict_parsing=True)) if raw else {}
    except ValueError:
        raise RefusedError(400, "expected a query as in ?at=3,4&max=512") from None


async def _message(receive: Callable[[], Awaitable[Any]], stopped: asyncio.Event) -> Any:
    """Return the next message of a client; once its stream is to stop, that it has gone away."""
    coming, stop = asyncio.ensure_future(receive()), asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((coming, stop), return_when=asyncio.FIRST_COMPLETED)
        return {"type": "http.disconnect"} if stopped.is_set() else await coming
    finally:
        coming.cancel()
        stop.cancel()


async def _body(request: Request) -> bytes:
    """Read the body of a request.

    Raises:
        RefusedError: it is too long.
    """
    body = b""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > LONGEST:
            raise RefusedError(413, f"a request has at most {LONGEST >> 10} KiB")
        if not message.get("more_body"):
            return body


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(400, "expected a body in JSON") from None


async def _json(answer: Answer, request: Request, value: Any) -> None:
    text = json.dumps(value, allow_nan=False).encode()
    tag = b'"%s"' % blake2b(text, digest_size=16).hexdigest().encode()
    if tag in request.headers.get(b"if-none-match", b""):
        await answer.headers(304, [(b"etag", tag)])
        return
    await answer.whole(200, text, _JSON, [(b"etag", tag)])
