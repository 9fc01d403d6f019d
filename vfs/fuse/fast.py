"""The way past the interpreter: what `vfs.kernels.fuse.serve` has to know to answer reads by itself.

`NativeServer.open` says what to put into `fi->fh` for a file of a face. From then on `serve.read` answers reads of it from decoded pieces that the
chunk cache holds, or, where the source files hold the very bytes (with anything between the frames, in either byte order, as any scan), from
those files. What it cannot answer comes to `NativeServer.read`, which opens the file or makes the piece that was missing; what that cannot answer, for
one because the source is gone or was changed, is read through the tree, which says what is wrong.

- A source file is asked for its size, time and name after it was read, and before anything of it is handed out.
- Pieces are those of the chunk cache, whose limit counts. What it drops is freed when nobody reads it any more (see `vfs.kernels.fuse.serve`).
- Who reads on from one piece to the next finds that one made already: a worker makes it meanwhile.
- Nothing belongs to an open file: closing costs nothing, and nothing can be left behind.
- What lies in a tree of folders may change (`vfs.hierarchy.faces.Life`): it is answered from here only up to the time at which its files have to be looked at
  again, and not at all once another state of it is shown: then who has it open gets an error (`NativeServer.check`), as all who have
  it open share the kernel's pages of it. A set that was only closed meanwhile is taken up again under the number that is open.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from vfs.backends.buffered import BufferedBackend
from vfs.backends.handles import limit
from vfs.engine.array import ArrayReader
from vfs.errors import SourceChangedError, SourceError, VfsError
from vfs.fuse.sources import SECONDS, NativeSource
from vfs.fuse.structs import Structs
from vfs.hierarchy.faces import FOLDER, Lifetime, MountSource, Node, NpyFace, ResolvedPath, ZarrFace
from vfs.kernels.fuse import lookup, names, native, paths, serve
from vfs.kernels.fuse.files import NO_ANSWER, NOT_OPEN
from vfs.kernels.fuse.tables import LINE, NAME_PLACES, PROBES, PieceWord, SourceWord, StateWord

MANY = 1 << 16  # sources at most, and places for pieces; what finds none goes through the interpreter
CLOSED = 1 << 17  # sources of which is remembered what they were, about
OVER = 1  # ns of the clock: long ago
LEAST = 1 << 20  # bytes of a cache that is worth cutting files into pieces for
SMALL = 1 << 16  # bytes: a shorter read that does not go on where another ended is decoded by itself
REMEMBERED = 1 << 16  # names, and files of names
FEW = 64  # files that are looked at whenever something is opened
DEPTH = 2  # pieces that are made ahead of a reader


class Piece:
    """A piece that the chunk cache holds, in the table where `serve.read` finds it. See `vfs.engine.cache.EvictionListener`."""

    __slots__ = ("ahead", "key", "lane", "made", "piece", "words")

    def __init__(self, lane: NativeServer, key: int, ahead: bool, made: int) -> None:
        self.lane, self.key, self.ahead, self.made = lane, key, ahead, made

    def put(self, piece: np.ndarray) -> None:
        self.piece = piece
        self.words = np.array([self.key, piece.ctypes.data, piece.nbytes, self.ahead, 1, self.made], np.int64)
        self.lane.show(self)

    def used(self) -> bool:
        found = bool(self.words[PieceWord.USED])
        self.words[PieceWord.USED] = 0
        return found

    def drop(self) -> None:
        self.lane.hide(self)


class NativeServer:
    """What native reads of this process go by. There is one at a time: the last that was started.

    Args:
        folder: what is shown.
        counters: address of int64[≥ 4] that native reads count in: requests, reads, bytes, pieces that were there.
    """

    def __init__(self, folder: MountSource, counters: int) -> None:
        self.folder = folder
        self.lasting = folder.steady > 0  # what is shown never changes
        self._lock = threading.Lock()
        self._numbers: dict[tuple[int, bool], int] = {}  # of sources, by array and kind
        self._all: dict[int, NativeSource] = {}
        self._stamps: dict[int, int] = {}  # of those that may change, also of some that are not kept any more
        self._next = 0
        self._known: dict[str, int] = {}
        self._holders: dict[int, list[int]] = {}
        self._forgot: dict[str, int] = {}  # files of which the kernel forgot its pages -> `Files.moves` then
        self._retired: list[list[Any]] = []  # [which counters were seen at 0 since, what is to be freed]
        self._open: OrderedDict[tuple[int, int], NativeSource] = OrderedDict()  # by source and file, the one opened last at the end
        self._ahead = ThreadPoolExecutor(1, "vfs-ahead", initializer=signal.pthread_sigmask, initargs=(signal.SIG_BLOCK, signal.valid_signals()))
        self._making: set[tuple[int, int]] = set()
        self.sources = np.zeros(MANY, np.int64)
        self.pieces = np.zeros(MANY, np.int64)
        self.names = np.zeros(NAME_PLACES, np.int64)
        self._learned: dict[str, tuple[int, list[np.ndarray]] | None] = {}  # where names are, and what they are made of
        self.counters = counters

    def start(self, structs: Structs, context: int = 0, met: int = 0) -> dict[str, int]:
        """Make this the lane of the process.

        Args:
            context: address of libfuse's function that says who asks; 0: nobody minds.
            met: address of the table of `vfs.fuse.readers.Readers`.

        Returns: addresses of operations for libfuse. What they do not answer they leave to those that `behind` is told.
        """
        words = {
            StateWord.INFO_FH: structs.fh,
            StateWord.INFO_FLAGS: structs.flags,
            StateWord.KEEP_CACHE: structs.keep_cache,
            StateWord.ALWAYS: structs.always,
            StateWord.STAT_BYTES: structs.stat,
            StateWord.STAT_INODE: structs.inode,
            StateWord.COUNTERS: self.counters,
            StateWord.SOURCES: self.sources.ctypes.data,
            StateWord.PIECES: self.pieces.ctypes.data,
            StateWord.PIECE_MASK: MANY - 1,
            StateWord.NAMES: self.names.ctypes.data,
            StateWord.CONTEXT: context,
            StateWord.MET: met,
            StateWord.SOURCE_PLACES: MANY,
        }
        for word, value in words.items():
            native.STATE[word] = value
        fast = {"read": serve.read, "open": names.open_file, "getattr": names.get_attributes, "fgetattr": names.get_attributes, "readdir": names.read_folder}
        return {name: int(call.address) for name, call in fast.items()}

    @staticmethod
    def behind(operation: str, address: int) -> None:
        """Which function answers what the operation of `start` leaves to it."""
        slow = {"read": StateWord.SLOW_READ, "open": StateWord.SLOW_OPEN, "getattr": StateWord.SLOW_GETATTR, "readdir": StateWord.SLOW_READDIR}
        if operation in slow:  # `fgetattr` leaves it to the function behind `getattr`
            native.STATE[slow[operation]] = address

    def learn(self, path: str, describe: Callable[[Node], bytes]) -> None:
        """See that names like a path are known from now on, where they can be.

        Args:
            describe: attributes of a file or folder beside the path as libfuse takes them; their inode number does not matter.
        """
        numbers: tuple[int, ...]
        header: bytes | None
        held = self.folder.held(path)
        if held is None:
            return
        face, key, life = held
        if isinstance(face, NpyFace) and not key:
            array, header, text, numbers, least = face.array, face.header, path, (), 0
        elif isinstance(face, ZarrFace) and (chunk := face.chunk(key)) is not None and chunk[0].ndim:
            array, position, _ = chunk
            header, numbers, least = None, array.grid.counts, int(face.zarr_format == 2)
            text = path.rsplit("/", len(position))[0]
        else:
            return
        if life is None and text in self._learned:
            return
        which = self._source(array, header, life)
        if which < 0 or text in self._learned:
            return
        encoded = np.frombuffer(os.fsencode(text), np.uint8)
        file = np.frombuffer(describe(Node(False, array.chunk_bytes if header is None else len(header) + array.nbytes)), np.uint8)
        folder = np.frombuffer(describe(FOLDER), np.uint8)
        counts = np.array(numbers, np.int64)
        hashed = int(paths.path_hash(encoded.ctypes.data, encoded.size))
        addresses = [encoded.size, encoded.ctypes.data, which, len(numbers), least, counts.ctypes.data, file.ctypes.data, folder.ctypes.data]
        words = np.array([hashed, *addresses], np.int64)
        at = int(lookup.place(hashed, NAME_PLACES - 1))
        with self._lock:
            source = self._all.get(which)
            if text in self._learned or source is None:
                return
            free = [place for k in range(PROBES) if self.names[place := (at + k) % NAME_PLACES] == 0]
            self._learned[text] = (free[0], [encoded, file, folder, counts, words]) if free else None
            source.texts.append(text)
            if free:
                native.write_word(self.names.ctypes.data, free[0], words.ctypes.data)

    def close(self) -> None:
        """End the worker."""
        self._ahead.shutdown(cancel_futures=True)

    def open(self, path: str) -> int:
        """What stands for a file from now on; 0: it has to be read through the tree."""
        found = self._known.get(path)
        if found is None:
            held = self.folder.held(path, True)
            found = 0 if held is None else self._handle(held)
            if self.lasting:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[path] = found
        return found

    def _handle(self, held: ResolvedPath, again: int | None = None) -> int:
        """Args: again: the number that the source is to have."""
        face, key, life = held
        if isinstance(face, NpyFace) and not key:
            number, source = 0, self._source(face.array, face.header, life, again)
        elif isinstance(face, ZarrFace) and (chunk := face.chunk(key)) is not None and chunk[2]:
            array, position, _ = chunk
            counts = array.grid.counts
            number, source = int(np.ravel_multi_index(position, counts)) if counts else 0, self._source(array, None, life, again)
        else:
            return 0
        return 0 if source < 0 else lookup.handle(source, number)

    def _source(self, array: ArrayReader, header: bytes | None, life: Lifetime | None, again: int | None = None) -> int:
        """The number of a source, which is good from now on, for a time; -1: it cannot be one."""
        key = id(array), header is not None
        with self._lock:
            found = self._numbers.get(key) if again is None else None
            if found is None:
                found = self._made(array, header, key, life, again)
            source = self._all.get(found)
        if life is not None and source is not None and source.life is life:
            self._trust(source, life)
        return found

    def _made(self, array: ArrayReader, header: bytes | None, key: tuple[int, bool], life: Lifetime | None, again: int | None) -> int:
        made = NativeSource(array, header)
        fits = made.direct or (made.size <= array.cache.limit and (made.whole or array.cache.limit >= LEAST))
        number = self._free() if again is None else again
        free = number >= 0 and number not in self._all and self.sources[number % MANY] == 0
        if not (free and fits and made.count < lookup.FILES_MOST):
            if life is None:
                self._numbers[key] = -1
            return -1
        made.words[SourceWord.NUMBER] = number
        made.life = life
        self._numbers.setdefault(key, number)
        self._all[number] = made
        if life is not None:
            made.words[SourceWord.UNTIL] = OVER
            self._remember(number, life.stamp)
            life.told.append(partial(self._over, number, life))
        native.write_word(self.sources.ctypes.data, number % MANY, made.words.ctypes.data)
        return number

    def _free(self) -> int:
        """A number that no source ever had; -1: there is no place for another one."""
        while len(self._all) < MANY and self._next < lookup.SOURCES_MOST:
            number, self._next = self._next, self._next + 1
            if self.sources[number % MANY] == 0:
                return number
        return -1

    def _remember(self, number: int, stamp: int) -> None:
        if len(self._stamps) >= CLOSED:
            for old in [old for old in islice(self._stamps, CLOSED // 2) if old not in self._all]:
                del self._stamps[old]
        self._stamps[number] = stamp

    def _trust(self, source: NativeSource, life: Lifetime) -> None:
        """Let a source be answered from here up to the time at which its files have to be looked at."""
        source.answer_until(max(OVER, int(life.until * 1e9)))
        if life.dropped:  # perhaps before its end was something that we would be told
            self._over(int(source.words[SourceWord.NUMBER]), life)

    def _over(self, number: int, life: Lifetime) -> None:
        """A source is not good any more, for the time being, or, where it is dropped, for ever."""
        with self._lock:
            source = self._all.get(number)
            if source is None or source.life is not life:
                return
            source.answer_until(OVER)
            if not life.dropped:
                return
            del self._all[number]
            native.write_word(self.sources.ctypes.data, number % MANY, 0)
            key = id(source.array), source.npy
            if self._numbers.get(key) == number:
                del self._numbers[key]
            for file in list(source.descriptors):
                self._close(number, source, file)
            for text in source.texts:
                entry = self._learned.pop(text, None)
                if entry is not None:
                    native.write_word(self.names.ctypes.data, entry[0], 0)
                    self._retired.append([0, entry])
            self._retired.append([0, source])
        self._collect()

    def check(self, fh: int, path: str) -> ResolvedPath | None:
        """Where a path lies, if that may change, and is what was opened as `fh`.

        Raises:
            SourceChangedError: its sources were others then.
        """
        which, _ = lookup.parts(fh)
        if self.lasting:
            return None
        held = self.folder.held(path, True)
        if held is None or held.life is None or held.life.stamp != self._stamps.get(which):
            raise SourceChangedError("its files came, went or changed after it was opened; open it again")
        return held

    def document(self, path: str) -> bool:
        """Whether a path is a text that never changes, where what is shown never does."""
        held = self.folder.held(path, True)
        return held is None or (isinstance(held.face, ZarrFace) and held.key in held.face.documents)

    def fresh(self, fh: int, path: str) -> bool:
        """Whether the files that hold what is open are those that were opened, and the kernel forgot its pages of it since one was touched."""
        which, number = lookup.parts(fh)
        source = self._all[which]
        now = time.monotonic()
        if len(source.array.files) > FEW and source.npy:
            if now - source.looked[0] >= SECONDS:
                source.looked = now, self._unchanged(source, range(len(source.array.files)))
            return source.looked[1] and self._forgotten(path, source)
        holders = self._holders.get(fh)
        if holders is None:
            holders = source.holders(number)
            if len(self._holders) >= REMEMBERED:
                self._holders.clear()
            self._holders[fh] = holders
        return self._unchanged(source, holders) and self._forgotten(path, source)

    @staticmethod
    def _unchanged(source: NativeSource, holders: Any) -> bool:
        files, unchanged = source.sources, True
        for file in holders:  # all of them: each may make stale what is kept
            try:
                unchanged &= files.same(file, os.stat(files.paths[file])) and files.sizes.item(file) >= 0
            except OSError:
                unchanged = False
        return unchanged

    def _forgotten(self, path: str, source: NativeSource) -> bool:
        """Whether all pages of a file are of the present state of its sources; if not, from now on: the kernel forgets them when it hears so."""
        moves = source.sources.moves.item(0)
        if not moves or self._forgot.get(path) == moves:
            return True
        if len(self._forgot) >= REMEMBERED:
            self._forgot.clear()
        self._forgot[path] = moves
        return False

    def read(self, fh: int, path: str, to: int, size: int, offset: int) -> int | None:
        """What `serve.read` did not answer: see that it can, and answer.

        Returns: bytes read into the memory at `to`; None: it has to be read through the tree, which has to be checked.

        Raises:
            SourceChangedError: see `check`.
        """
        which, number = lookup.parts(fh)
        held = self.check(fh, path)
        source = self._all.get(which)
        if held is not None and held.life is not None:
            if source is None or source.life is not held.life:  # closed meanwhile
                self._handle(held, which)
                source = self._all.get(which)
            elif not held.life.dropped:
                self._trust(source, held.life)
        if source is None or (held is not None and source.life is not held.life):
            return None
        if not source.direct:
            try:
                return self._from_pieces(which, source, number, to, size, offset)
            except SourceError:  # perhaps of bytes of the piece that nobody asks for now
                return None
        seen = set()
        for place in (0, to):  # first all files are opened: else what was read would be read again for each one that is not
            while (got := int(serve.answer(fh, place, size, offset))) < 0:
                file = got - NOT_OPEN
                if got == NO_ANSWER or file in seen:
                    return None
                seen.add(file)
                try:
                    self._reopen(which, source, file)
                except SourceError:
                    return None
        return got

    def _reopen(self, which: int, source: NativeSource, file: int) -> None:
        assert isinstance(source.array.backend, BufferedBackend)
        with self._lock:  # before it is opened: the limit may have been lowered
            full = len(self._open) >= max(4, limit() // 2)
            while len(self._open) >= max(4, limit() // 2):
                (other, one), its = next(iter(self._open.items()))
                self._close(other, its, one)
        if full:
            self.collect()
        opened = source.array.backend.handles.get(file, 0, 0)
        with self._lock:
            if self._all.get(which) is not source:  # dropped meanwhile
                return
            self._close(which, source, file)
            source.descriptors[file] = opened
            native.write_word(source.opened.ctypes.data, file, opened.fd + 1)
            self._open[which, file] = source
        self._collect()

    def _close(self, which: int, source: NativeSource, file: int) -> None:
        opened = source.descriptors.pop(file, None)
        if opened is not None:
            native.write_word(source.opened.ctypes.data, file, 0)
            del self._open[which, file]
            self._retired.append([0, opened])

    def _from_pieces(self, which: int, source: NativeSource, number: int, to: int, size: int, offset: int) -> int | None:
        head = int(source.words[SourceWord.HEAD_BYTES])
        first, last = max(0, offset - head), min(offset + size, int(source.words[SourceWord.FILE_BYTES])) - head
        if first >= last or offset < 0:
            return None
        a, b = number * source.per + first // source.size, number * source.per + (last - 1) // source.size
        goes_on = offset in source.ends.copy()
        source.ends.append(offset + size)
        if source.npy and size < SMALL and not goes_on and source.key(a) not in source.array.cache:
            return None
        made = source.sources.moves.item(0)
        follows = a - 1 in source.recent.copy() or (source.npy and first == 0)
        source.recent.extend(range(a, b + 1))
        done = 0
        if offset < head:
            done = min(head, offset + size) - offset
            self._copy(to, source.kept[0], offset, done)
        for n in range(a, b + 1):
            piece = source.piece(n, Piece(self, lookup.handle(which, n), False, made)).reshape(-1).view(np.uint8)
            if n == a and follows:
                self._make_ahead(which, source, b)
            begin = (n - number * source.per) * source.size
            lo, hi = max(first, begin), min(last, begin + piece.size)
            self._copy(to + done, piece, lo - begin, hi - lo)
            done += hi - lo
        return done if source.sources.moves.item(0) == made else None  # some of it may be of before

    @staticmethod
    def _copy(to: int, piece: np.ndarray, start: int, count: int) -> None:
        native.copy(to, piece.ctypes.data + start, count)

    def _make_ahead(self, which: int, source: NativeSource, number: int) -> None:
        """Have the pieces after one made, as long as they take but little of the cache."""
        cache = source.array.cache
        for n in range(number + 1, min(source.count, number + 1 + DEPTH)):
            if source.key(n) in cache:
                continue
            with self._lock:
                if (which, n) in self._making or len(self._making) >= 2 * DEPTH or source.size * (len(self._making) + 2) > cache.limit // 4:
                    continue
                self._making.add((which, n))
            with suppress(RuntimeError):  # shut down
                self._ahead.submit(self._make, which, source, n)

    def _make(self, which: int, source: NativeSource, n: int) -> None:
        try:
            with suppress(VfsError, MemoryError, OSError):  # who comes for it gets the error
                source.piece(n, Piece(self, lookup.handle(which, n), True, source.sources.moves.item(0)))
        finally:
            with self._lock:
                self._making.discard((which, n))

    def show(self, piece: Piece) -> None:
        """Put a piece into the table."""
        with self._lock:
            at = int(lookup.place(piece.key, MANY - 1))
            free = [place for k in range(PROBES) if self.pieces[place := (at + k) % MANY] == 0]
            self._place(free[0] if free else at, piece.words.ctypes.data)
        self._collect()

    def hide(self, piece: Piece) -> None:
        """Take it out, and free it when nobody reads it any more."""
        with self._lock:
            at = int(lookup.place(piece.key, MANY - 1))
            address = piece.words.ctypes.data
            for k in range(PROBES):
                if self.pieces[(at + k) % MANY] == address:
                    self._place((at + k) % MANY, 0)
            self._retired.append([0, piece])
        self._collect()

    def _place(self, at: int, address: int) -> None:
        native.write_word(self.pieces.ctypes.data, at, address)

    def collect(self) -> None:
        """Free what was retired, if nobody is reading it just now."""
        self._collect()
        self._collect()

    def _collect(self) -> None:
        """Free what was retired and is not in use any more."""
        state = native.STATE
        with self._lock:
            for bit in (0, 1):
                if native.read_word(state.ctypes.data, StateWord.INSIDE + LINE * bit) == 0:
                    for entry in self._retired:
                        entry[0] |= 1 << bit
            self._retired = [entry for entry in self._retired if entry[0] != 3]
            state[StateWord.EPOCH] ^= 1
