"""Shows files that are packed as a whole (`.gz`, `.bz2`, `.xz`, `.zst`) as what is in them, to any format.

A packed file has no places: what lies in the middle is found by unpacking all before it. The first look at a file goes
through it once, for its size. Of gzip it keeps points to begin at again (the state of the decoder, which takes 40 KiB),
`MAX_POINTS` of a file, so that a frame in the middle takes a part of a second. The others have such points only where
a file is several one after the other, as pbzip2 and pzstd write them; else they are read from the beginning, unless
what is wanted lies behind what was read last. Memory is bounded: nothing is unpacked as a whole.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import pickle
import re
import sys
import threading
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Protocol
from weakref import WeakSet

from vfs.errors import DecodeError, TruncatedSourceError
from vfs.model.file_state import FileState
from vfs.model.sources import Sources
from vfs.sources.source_stream import SourceStream

ENDINGS = (".gz", ".bz2", ".xz", ".zst")
bare: Callable[[str], str] = partial(
    re.compile(rf"(?<=[^/])(?:{'|'.join(map(re.escape, ENDINGS))})\Z", re.IGNORECASE).sub, ""
)
"""Returns the name of a file without the ending that says how it is packed."""
_OF_TAR = (".tgz", ".tbz", ".tbz2", ".txz")  # archives, which are no files of another format without it
MAX_POINTS = 256  # of a file: 10 MiB
_APART = 4 << 20  # bytes between them, at first
_STEP = 1 << 14  # packed bytes that are decoded at once
_BLOCK = 1 << 20  # packed bytes that are read at once
_PIECE = 1 << 20  # bytes that are unpacked at once
MAX_RATIO = 20_000  # bytes that a packed byte may hold; more are of no measurement
_WINDOW = 8 << 20  # bytes of what was unpacked last that are kept: several threads read a file not quite in order
_FILES = 8  # whose points and last bytes are kept


_Key = tuple[str, FileState]


class _AroundDecoder:
    """Ends where the decoder that it goes around ends, and has the bytes behind that."""

    inner: Any

    @property
    def eof(self) -> bool:
        return bool(self.inner.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self.inner.unused_data)


class GzipDecoder(_AroundDecoder):
    """Decodes members of gzip one after the other, as `bz2.BZ2Decompressor` and `lzma.LZMADecompressor` decode."""

    def __init__(self, inner: Any = None) -> None:
        self.inner = zlib.decompressobj(31) if inner is None else inner
        self.tail = b""

    def copy(self) -> GzipDecoder:
        made = GzipDecoder(self.inner.copy())
        made.tail = self.tail
        return made

    def decompress(self, data: bytes, most: int) -> bytes:
        made: bytes = self.inner.decompress(self.tail + data, most)
        self.tail = self.inner.unconsumed_tail
        return made

    @property
    def needs_input(self) -> bool:
        return not self.tail


def zstd_of_python() -> Any:
    """Return the standard library's module for zstd, or its backport before Python 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


class ZstdDecoder(_AroundDecoder):
    """Decodes frames of zstd one after the other, as `bz2.BZ2Decompressor` does; windows of up to 128 MiB."""

    def __init__(self) -> None:
        zstd = zstd_of_python()
        self.inner, self.error = zstd.ZstdDecompressor(), zstd.ZstdError

    def decompress(self, data: bytes, most: int) -> bytes:
        try:
            made: bytes = self.inner.decompress(data, most)
        except self.error as error:
            raise ValueError(error) from None
        return made

    @property
    def needs_input(self) -> bool:
        return bool(self.inner.needs_input)


_DECODERS: Mapping[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": GzipDecoder,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lzma.LZMADecompressor,
    b"\x28\xb5\x2f\xfd": ZstdDecoder,
    b"P*M\x18": ZstdDecoder,  # a frame without content, with which pzstd begins
}


class _Point(NamedTuple):
    """A point to go on from: byte of the file that is read next, byte that is unpacked next, decoder of a member (None
    between two), bytes that were read and belong to the next member.
    """

    at: int = 0
    to: int = 0
    decoder: Any = None
    rest: bytes = b""

    def copy(self) -> _Point | None:
        """Return a point that can be gone on from again; None where the decoder has no copies."""
        if self.decoder is None:
            return self
        return self._replace(decoder=self.decoder.copy()) if isinstance(self.decoder, GzipDecoder) else None


class ReadsBytes(Protocol):
    """ReadsBytes bytes of a file, as `Sources.read` does."""

    def read(self, name: str, start: int, size: int) -> bytes: ...


class Unpacking:
    """Unpacks a file from any byte on.

    Args:
        sources: where the file is; or what reads the part of another file that holds it.
        key: its path and state.
        new: makes a decoder.
    """

    def __init__(self, sources: ReadsBytes, key: _Key, new: Callable[[], Any]) -> None:
        self.sources, self.key, self.new = sources, key, new
        self.path, self.packed = key[0], key[1].size
        self.lock = threading.Lock()
        self.apart = _APART
        self.points: list[_Point] = []
        self.now = _Point()
        self.pieces: deque[tuple[int, bytes]] = deque()  # what was unpacked last, and where it begins
        self.block = 0, b""  # packed bytes that were read last, and where they begin
        self.size = -1

    def read(self, start: int, size: int) -> bytes:
        """Unpack bytes, fewer only at the end.

        Raises:
            SourceError: the file cannot be read.
            DecodeError, TruncatedSourceError: it does not unpack.
        """
        made = bytearray()
        with self.lock:
            size = max(0, min(size, self.size - start)) if self.size >= 0 else size
            while len(made) < size:
                at = start + len(made)
                begin, piece = next((one for one in self.pieces if one[0] <= at < one[0] + len(one[1])), (0, b""))
                if piece:
                    made += piece[at - begin : at - begin + size - len(made)]
                elif not self._on_the_way(at):
                    break
        return bytes(made)

    def _on_the_way(self, at: int) -> bool:
        """Unpack the next piece on the way to a byte, from the nearest place before it; return False at the end."""
        before = next((point for point in reversed(self.points) if point.to <= at), None)
        if at < self.now.to or (before is not None and before.to > self.now.to):
            self.now = (before.copy() if before is not None else None) or _Point()
        return self._piece()

    def whole_size(self) -> int:
        """Return how many bytes there are, going through the file once.

        Raises: what `read` raises.
        """
        with self.lock:
            if self.size < 0:
                while self._piece():
                    if self.now.to > MAX_RATIO * (self.packed + 4096):
                        raise DecodeError(
                            f"{self.path}: {self.packed:,} packed bytes hold more than {self.now.to:,}, as no"
                            " measurement does"
                        )
                self.size = self.now.to
        return self.size

    def _packed(self, at: int) -> bytes:
        begin, block = self.block
        if not begin <= at < begin + len(block):
            begin, block = self.block = at, self.sources.read(self.path, at, _BLOCK)
        return block[at - begin : at - begin + _STEP]

    def _piece(self) -> bool:
        """Unpack the next piece; return False at the end."""
        at, to, decoder, rest = self.now
        while True:
            if not rest and (decoder is None or decoder.needs_input):
                rest = self._packed(at)
                if not rest and decoder is None:
                    return False
                if not rest:
                    raise TruncatedSourceError(f"{self.path}: ends before what is packed in it; it looks truncated")
                at += len(rest)
            if decoder is None:
                rest = rest if at <= _STEP and not to else rest.lstrip(b"\0")  # padding behind a member
                if not rest:
                    continue
                decoder = self.new()
            try:
                made = decoder.decompress(rest, _PIECE)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise DecodeError(f"{self.path}: does not unpack: {error}") from None
            rest = b""
            if decoder.eof:
                rest, decoder = decoder.unused_data, None
            if made:
                self.pieces.append((to, made))
                while sum(len(piece) for _, piece in self.pieces) > _WINDOW:
                    self.pieces.popleft()
                self.now = _Point(at, to + len(made), decoder, rest)
                self._keep()
                return True

    def _keep(self) -> None:
        """Keep a point here, if the last one is far enough; of too many every second one is dropped."""
        if self.now.to < (self.points[-1].to if self.points else 0) + self.apart:
            return
        if (point := self.now.copy()) is not None:
            self.points.append(point)
            if len(self.points) > MAX_POINTS:
                self.points, self.apart = self.points[1::2], 2 * self.apart


class _Known:
    """What was found out about packed files: their sizes, and for the last `_FILES` of them what unpacks them."""

    def __init__(self) -> None:
        self.files: OrderedDict[_Key, Unpacking] = OrderedDict()
        self.sizes: dict[_Key, int] = {}
        self.named: dict[str, str] = {}  # without the ending that says how it is packed -> the file of that name
        self.lock = threading.Lock()
        _all_known.add(self)

    def remember(self, file: Unpacking) -> Unpacking:
        with self.lock:
            found = self.files.setdefault(file.key, file)
            found.size = self.sizes.get(file.key, found.size)
            self.files.move_to_end(file.key)
            while len(self.files) > _FILES:
                self.files.popitem(last=False)
        return found

    def size(self, file: Unpacking) -> int:
        self.sizes[file.key] = size = file.whole_size()
        return size


_all_known: WeakSet[_Known] = WeakSet()


def _after_fork() -> None:
    for known in _all_known:  # threads that are gone may hold their locks
        known.lock = threading.Lock()
        known.files.clear()


os.register_at_fork(after_in_child=_after_fork)


class PackedSources(Sources):
    """Sources in which packed files are what is packed in them.

    Args:
        inner: where they are.
        known: what was found out about files before.
    """

    as_stored = False

    def __init__(self, inner: Sources, known: _Known | None = None) -> None:
        self.inner = inner
        self.far_away = inner.far_away
        self._known = _Known() if known is None else known

    def __reduce__(self) -> tuple[type, tuple[Sources]]:
        return type(self), (self.inner,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedSources) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((PackedSources, self.inner))

    @property
    def anywhere(self) -> bool:
        return self.inner.anywhere

    def state(self, name: str) -> FileState:
        return self._unpacked(name, self.inner.state(name))

    def again(self, name: str) -> FileState:
        return self._unpacked(name, self.inner.again(name))

    def _unpacked(self, name: str, state: FileState) -> FileState:
        found = self._of(name, state)
        return state if found is None else state._replace(size=self._known.size(found))

    def read(self, name: str, start: int, size: int) -> bytes:
        name = self._known.named.get(name, name)
        found = self._of(name, self.inner.state(name)) if is_packed(name) else None
        return self.inner.read(name, start, size) if found is None else found.read(start, size)

    def stream(self, name: str) -> BinaryIO:
        if self._of(name, self.inner.state(name)) is None:
            return self.inner.stream(name)
        return io.BufferedReader(SourceStream(partial(self.read, name), self.state(name).size), _STEP)

    def names(self, folder: str) -> Sequence[str]:
        return self.inner.names(folder)

    def join(self, folder: str, name: str) -> str:
        return self.inner.join(folder, name)

    @contextmanager
    def opening(self) -> Iterator[Sources]:
        with self.inner.opening() as opened:
            yield PackedSources(opened, self._known)

    def _of(self, name: str, state: FileState) -> Unpacking | None:
        """Return what unpacks a file in a state; None if it is not packed."""
        if not is_packed(name):
            return None
        key = (name, state)  # all of it: places in a file of before are none in one with its size and mtime
        found = self._known.files.get(key)
        if found is None:
            head = self.inner.read(name, 0, 6)
            new = next((new for mark, new in _DECODERS.items() if head.startswith(mark)), None)
            # Outside of an opening, whose open files it must not keep
            found = new and Unpacking(pickle.loads(pickle.dumps(self.inner)), key, new)
        return found and self._known.remember(found)


def is_packed(name: str) -> bool:
    """Return True for the name of a file that is packed."""
    return name.lower().endswith((*ENDINGS, *_OF_TAR))


def unpacking(sources: Sources, name: str) -> Sources:
    """Return sources that show packed files as what is in them, if the file that names a set is packed."""
    if (plain := bare(name)) == name or isinstance(sources, PackedSources):
        return sources
    made = PackedSources(sources)
    made._known.named[plain] = name
    return made
