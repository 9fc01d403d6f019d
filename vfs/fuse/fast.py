"""Answers a mount's requests without the interpreter where that can be done: fills the tables that
native code reads.

`NativeServer.open` says what to put into `fi->fh` for a file of a face. From then on `serve.read`
answers reads of it from decoded pieces that the chunk cache holds or, where the source files hold
the very bytes (with anything between the frames, in either byte order, for any scan), from those
files. What it cannot answer comes to `NativeServer.read`, which opens the file or makes the piece
that was missing. What that cannot answer either, for example because the source is gone or was
changed, is read through the tree, which says what is wrong.

- A source file is asked for its size, times and links after it was read, and before anything of it is handed out.
- Pieces are those of the chunk cache, whose limit counts. What it drops is freed when nobody reads
  it any more (`vfs.fuse.pieces`).
- A reader that goes on from one piece to the next finds the next one made: a thread makes it
  meanwhile (`vfs.fuse.read_ahead`).
- Nothing belongs to an open file: closing costs nothing, and nothing can be left behind.
- What lies in a folder tree may change (`vfs.hierarchy.faces.Lifetime`). It is answered natively
  only up to the time at which its files have to be looked at again, and not at all once another
  state of it is shown: then those who have it open get an error (`NativeServer.check`), because all
  who have it open share the kernel's pages of it. A set that was only closed meanwhile is opened
  again under its old number.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vfs.errors import SourceChangedError, SourceError
from vfs.fuse.freshness import REMEMBERED, Freshness
from vfs.fuse.name_table import NameTable
from vfs.fuse.pieces import PLACES, Piece, PieceTable, Retired
from vfs.fuse.read_ahead import ReadAhead
from vfs.fuse.registry import MANY, SourceRegistry
from vfs.fuse.sources import NativeSource
from vfs.fuse.structs import Structs
from vfs.hierarchy.faces import FOLDER, MountSource, Node, NpyFace, ResolvedPath, ZarrFace
from vfs.kernels.fuse import lookup, names, native, serve
from vfs.kernels.fuse.files import NO_ANSWER, NOT_OPEN
from vfs.kernels.fuse.tables import SourceWord, StateWord

SMALL = 1 << 16  # bytes: a shorter read that does not go on where another ended is decoded by itself


class NativeServer:
    """Tells native code of this process what is shown, and answers what it leaves to the interpreter.

    There is one at a time: the last that was started.

    Args:
        folder: what is shown.
        counters: address of int64[len(CounterWord)] that native reads count in.

    Attributes:
        lasting: what is shown never changes.
        sources, names, pieces: what native code finds. retired: what was taken out of them and is freed later.
    """

    def __init__(self, folder: MountSource, counters: int) -> None:
        self.folder = folder
        self.lasting = folder.attr_timeout > 0
        self.counters = counters
        self.retired = Retired()
        self.pieces = PieceTable(self.retired)
        self.names = NameTable(self.retired)
        self.sources = SourceRegistry(self.names, self.retired)
        self.ahead = ReadAhead(self.pieces)
        self._freshness = Freshness()
        self._known: dict[str, int] = {}  # path -> what `open` returned

    def start(self, structs: Structs, context: int = 0, met: int = 0) -> dict[str, int]:
        """Make this what native code of the process goes by.

        Args:
            context: address of fuse_get_context, which says who asks; 0: it does not matter who asks.
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
            StateWord.SOURCES: self.sources.places.ctypes.data,
            StateWord.PIECES: self.pieces.places.ctypes.data,
            StateWord.PIECE_MASK: PLACES - 1,
            StateWord.NAMES: self.names.places.ctypes.data,
            StateWord.CONTEXT: context,
            StateWord.MET: met,
            StateWord.SOURCE_PLACES: MANY,
        }
        for word, value in words.items():
            native.STATE[word] = value
        fast = {
            "read": serve.read,
            "open": names.open_file,
            "getattr": names.get_attributes,
            "fgetattr": names.get_attributes,
            "readdir": names.read_folder,
        }
        return {name: int(call.address) for name, call in fast.items()}

    @staticmethod
    def behind(operation: str, address: int) -> None:
        """Say which function answers what an operation of `start` leaves to the interpreter."""
        slow = {
            "read": StateWord.SLOW_READ,
            "open": StateWord.SLOW_OPEN,
            "getattr": StateWord.SLOW_GETATTR,
            "readdir": StateWord.SLOW_READDIR,
        }
        if operation in slow:  # `fgetattr` leaves it to the function behind `getattr`
            native.STATE[slow[operation]] = address

    def learn(self, path: str, describe: Callable[[Node], bytes]) -> None:
        """Have native code answer for names like a path from now on, where it can.

        Args:
            describe: returns struct stat of a file or folder beside the path; the inode number in it does not matter.
        """
        numbers: tuple[int, ...]
        header: bytes | None
        held = self.folder.resolve(path)
        if held is None:
            return
        face, key, lifetime = held
        if isinstance(face, NpyFace) and not key:
            array, header, text, numbers, least = face.array, face.header, path, (), 0
        elif isinstance(face, ZarrFace) and (chunk := face.chunk(key)) is not None and chunk[0].ndim:
            array, position, _ = chunk
            header, numbers, least = None, array.grid.counts, int(face.zarr_format == 2)
            text = path.rsplit("/", len(position))[0]
        else:
            return
        if lifetime is None and text in self.names:
            return
        number = self.sources.register(array, header, lifetime)
        if number < 0 or text in self.names:
            return
        file, folder = (
            describe(Node(False, array.chunk_bytes if header is None else len(header) + array.nbytes)),
            describe(FOLDER),
        )
        with self.sources.lock:
            source = self.sources.sources.get(number)
            if text not in self.names and source is not None:
                self.names.add(text, number, numbers, least, file, folder)
                source.texts.append(text)

    def close(self) -> None:
        """End reading ahead."""
        self.ahead.close()

    def open(self, path: str) -> int:
        """Return the handle of a file, for `fi->fh`; 0: it has to be read through the tree."""
        found = self._known.get(path)
        if found is None:
            held = self.folder.resolve(path, True)
            found = 0 if held is None else self._handle(held)
            if self.lasting:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[path] = found
        return found

    def _handle(self, held: ResolvedPath, again: int | None = None) -> int:
        """Return the handle of the file that a path lies in; 0: none. Args: again: the number that
        its source is to have.
        """
        face, key, lifetime = held
        if isinstance(face, NpyFace) and not key:
            number, source = 0, self.sources.register(face.array, face.header, lifetime, again)
        elif isinstance(face, ZarrFace) and (chunk := face.chunk(key)) is not None and chunk[2]:
            array, position, _ = chunk
            counts = array.grid.counts
            number, source = (
                int(np.ravel_multi_index(position, counts)) if counts else 0,
                self.sources.register(array, None, lifetime, again),
            )
        else:
            return 0
        return 0 if source < 0 else lookup.handle(source, number)

    def check(self, fh: int, path: str) -> ResolvedPath | None:
        """Check that a path still shows what was opened as `fh`. Returns where it lies, None where it never changes.

        Raises:
            SourceChangedError: its sources came, went or changed since then.
        """
        which, _ = lookup.parts(fh)
        if self.lasting:
            return None
        held = self.folder.resolve(path, True)
        if held is None or held.lifetime is None or held.lifetime.stamp != self.sources.stamps.get(which):
            raise SourceChangedError("its files came, went or changed after it was opened; open it again")
        return held

    def document(self, path: str) -> bool:
        """Say whether a path is a document, or a file in no face: where what is shown never
        changes, it does not either.
        """
        held = self.folder.resolve(path, True)
        return held is None or (isinstance(held.face, ZarrFace) and held.key in held.face.documents)

    def fresh(self, fh: int, path: str) -> bool:
        """Say whether the kernel may keep the pages that it has of what was opened: see `Freshness.fresh`."""
        which, number = lookup.parts(fh)
        return self._freshness.fresh(path, fh, number, self.sources.sources[which])

    def read(self, fh: int, path: str, to: int, size: int, offset: int) -> int | None:
        """Answer a read that `serve.read` did not, and make what it needs to answer the next one
        like it. The bytes go into the memory at `to`.

        Returns: number of bytes; None: they have to be read through the tree, which says what is wrong.

        Raises:
            SourceChangedError: see `check`.
        """
        which, number = lookup.parts(fh)
        source = self.sources.sources.get(which) if self.lasting else self._current(fh, path)
        if source is None:
            return None
        if source.direct:
            return self._from_files(which, source, fh, to, size, offset)
        made, head = source.sources.moves.item(0), int(source.words[SourceWord.HEAD_BYTES])
        first, last = max(0, offset - head), min(offset + size, int(source.words[SourceWord.FILE_BYTES])) - head
        if first >= last or offset < 0:
            return None
        a, b = number * source.per + first // source.size, number * source.per + (last - 1) // source.size
        goes_on = offset in source.ends.copy()
        source.ends.append(offset + size)
        alone = source.npy and size < SMALL and not goes_on and source.piece(a)[0] not in source.array.cache
        follows = a - 1 in source.recent.copy() or (source.npy and first == 0)
        done = max(0, min(head, offset + size) - offset)
        if done:
            native.copy(to, source.kept[0].ctypes.data + offset, done)
        try:
            if alone:
                piece = source.chunks.run(first, last)
                native.copy(to + done, piece.ctypes.data, last - first)
                return done + last - first if source.sources.moves.item(0) == made else None
            source.recent.extend(range(a, b + 1))
            for n in range(a, b + 1):
                key, make = source.piece(n)
                piece = source.array.cache.get(key, make, Piece(self.pieces, lookup.handle(which, n), False, made))
                if n == a and follows:
                    self.ahead.go_on(which, source, b)
                begin = (n - number * source.per) * source.size
                lo, hi = max(first, begin), min(last, begin + piece.nbytes)
                native.copy(to + done, piece.ctypes.data + lo - begin, hi - lo)
                done += hi - lo
        except SourceError:  # perhaps of bytes of the piece that nobody asks for now
            return None
        return done if source.sources.moves.item(0) == made else None  # some of it may be of before

    def _current(self, fh: int, path: str) -> NativeSource | None:
        """Return the source that is open as `fh`, where sources may change, and allow native reads
        of it for a time; None: it is not this one any more.

        Raises:
            SourceChangedError: see `check`.
        """
        which, _ = lookup.parts(fh)
        held = self.check(fh, path)
        source = self.sources.sources.get(which)
        if held is not None and held.lifetime is not None:
            if source is None or source.lifetime is not held.lifetime:  # closed meanwhile
                self._handle(held, which)
                source = self.sources.sources.get(which)
            elif not held.lifetime.dropped:
                self.sources.trust(source, held.lifetime)
        return None if held is not None and source is not None and source.lifetime is not held.lifetime else source

    def _from_files(self, which: int, source: NativeSource, fh: int, to: int, size: int, offset: int) -> int | None:
        """Open the source files that are needed and not open, and read from them."""
        seen = set()
        # First all files are opened: else what was read would be read again for each one that is
        # not
        for place in (0, to):
            while (got := int(serve.answer(fh, place, size, offset))) < 0:
                file = got - NOT_OPEN
                if got == NO_ANSWER or file in seen:
                    return None
                seen.add(file)
                try:
                    self.sources.reopen(which, source, file)
                except SourceError:
                    return None
        return got

    def collect(self) -> None:
        """Free what was retired, if nobody is reading it just now."""
        self.retired.collect()
        self.retired.collect()
