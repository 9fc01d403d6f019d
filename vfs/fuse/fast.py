"""Answers a mount's requests in native code, without the interpreter, as far as possible.

This module fills the tables that native code reads. `NativeTables.open` returns the handle
(`fi->fh`) for a file of a face. From then on `serve.read` answers reads of it: from decoded pieces
in the chunk cache, or from the source files if they hold the same bytes (with anything between the
frames, in either byte order, for any scan). Reads that it cannot answer come to `NativeTables.read`,
which opens the file or makes the missing piece. Reads that this cannot answer either, for example
because the source has gone or changed, go through the hierarchy, which raises the error that says
why.

- After a source file was read, its size, times and links are checked before any byte is returned.
- Pieces belong to the chunk cache and count towards its limit. A dropped piece is freed when nobody
  reads it any more (`vfs.serving.native_sources`).
- For a reader that goes from one piece to the next, a thread makes the next piece in advance
  (`vfs.fuse.read_ahead`).
- Nothing belongs to an open file: closing costs nothing, and nothing can leak.
- Sets in a folder tree may change (`vfs.contents.shown.Lifetime`). They are answered natively only
  until their files must be looked at again, and not at all once the tree shows another state of
  them. Then everybody who has a file of the set open gets an error (`NativeTables.check`), because
  all of them share the kernel's pages of it. A set that was only closed meanwhile is opened again
  under its old number.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vfs.contents.contents import Contents
from vfs.contents.shown import InFace, Shown
from vfs.errors import SourceChangedError, SourceError
from vfs.faces.face import FOLDER, Node
from vfs.fuse.freshness import REMEMBERED, Freshness
from vfs.fuse.name_table import NameTable
from vfs.fuse.pieces import PLACES, Piece, PieceTable
from vfs.fuse.read_ahead import ReadAhead
from vfs.fuse.registry import MANY, SourceRegistry
from vfs.fuse.sources import NativeSource
from vfs.fuse.structs import Structs
from vfs.kernels.native import memory
from vfs.kernels.native.fuse import lookup, names, serve, state
from vfs.kernels.native.fuse.files import NO_ANSWER, NOT_OPEN
from vfs.kernels.native.fuse.tables import SourceWord, StateWord
from vfs.serving.native_sources import SourceTable

SMALL = 1 << 16  # bytes: a shorter read is decoded by itself, unless it continues another one


class NativeTables:
    """Fills the tables for native code of this process, and answers the requests that it cannot.

    Only one is active at a time: the last that was started.

    Args:
        folder: the contents of the mount.
        counters: address of int64[len(CounterWord)] in which native reads count.

    Attributes:
        lasting: True if the contents never change.
        sources, names, pieces: the tables that native code reads.
        retired: objects that were taken out of the tables and are freed later.
    """

    def __init__(self, folder: Contents, counters: int) -> None:
        self.folder = folder
        self.lasting = folder.attr_timeout > 0
        self.counters = counters
        table = SourceTable(MANY)
        self.retired = table.retired
        self.pieces = PieceTable(self.retired)
        self.names = NameTable(self.retired)
        self.registry = SourceRegistry(table, self.names)
        self.ahead = ReadAhead(self.pieces)
        self._freshness = Freshness()
        self._known: dict[str, int] = {}  # path -> what `open` returned

    def start(self, structs: Structs, context: int = 0, met: int = 0) -> dict[str, int]:
        """Make native code of the process use these tables.

        Args:
            context: address of fuse_get_context, which tells the user of a request; 0: all users
                may read everything.
            met: address of the table of `vfs.fuse.readers.Readers`.

        Returns: operation of libfuse -> address of its native function. Requests that a function
            cannot answer go to the function that was passed to `behind`.
        """
        words = {
            StateWord.INFO_FH: structs.fh,
            StateWord.INFO_FLAGS: structs.flags,
            StateWord.KEEP_CACHE: structs.keep_cache,
            StateWord.ALWAYS: structs.always,
            StateWord.STAT_BYTES: structs.stat,
            StateWord.STAT_INODE: structs.inode,
            StateWord.COUNTERS: self.counters,
            StateWord.SOURCES: self.registry.table.words.ctypes.data,
            StateWord.PIECES: self.pieces.places.ctypes.data,
            StateWord.PIECE_MASK: PLACES - 1,
            StateWord.NAMES: self.names.places.ctypes.data,
            StateWord.CONTEXT: context,
            StateWord.MET: met,
        }
        for word, value in words.items():
            state.STATE[word] = value
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
        """Set the function that answers the requests which a native operation of `start` cannot answer."""
        slow = {
            "read": StateWord.SLOW_READ,
            "open": StateWord.SLOW_OPEN,
            "getattr": StateWord.SLOW_GETATTR,
            "readdir": StateWord.SLOW_READDIR,
        }
        if operation in slow:  # `fgetattr` leaves it to the function behind `getattr`
            state.STATE[slow[operation]] = address

    def learn(self, shown: Shown, describe: Callable[[Node], bytes]) -> None:
        """Let native code answer for names like this path from now on, as far as it can.

        Args:
            describe: returns struct stat of a file or folder beside the path; its inode number is
                not used.
        """
        held, path = shown.in_face(opens=False), shown.path
        part = None if held is None else held.face.part(held.key)
        if held is None or part is None or (part.header is None and not part.array.ndim):
            return
        array, position, _, header = part
        lifetime = held.watch.lifetime
        numbers = array.grid.counts if header is None else ()
        text = path.rsplit("/", len(position))[0]
        # Of zarr's format 2, the folder of an array holds documents, too
        least = int(header is None and held.face.part(text[len(path) - len(held.key) :]) is None)
        if lifetime is None and text in self.names:
            return
        number = self.registry.register(array, header, lifetime)
        if number < 0 or text in self.names:
            return
        file, folder = (
            describe(Node(False, array.chunk_bytes if header is None else len(header) + array.nbytes)),
            describe(FOLDER),
        )
        with self.registry.lock:
            source = self.registry.sources.get(number)
            if text not in self.names and source is not None:
                self.names.add(text, number, numbers, least, file, folder)
                source.texts.append(text)

    def close(self) -> None:
        """End the thread that reads ahead."""
        self.ahead.close()

    def open(self, shown: Shown) -> int:
        """Return the handle of a file, for `fi->fh`; 0 if it must be read through the hierarchy."""
        found = self._known.get(shown.path)
        if found is None:
            held = shown.in_face()
            found = 0 if held is None else self._handle(held)
            if self.lasting:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[shown.path] = found
        return found

    def _handle(self, held: InFace, again: int | None = None) -> int:
        """Return the handle of the file that a path leads to; 0 if there is none.

        Args:
            again: number for its source; None: a new one.
        """
        part = held.face.part(held.key)
        if part is None or not part.file:
            return 0
        array, position, _, header = part
        number = int(np.ravel_multi_index(position, array.grid.counts)) if position else 0
        source = self.registry.register(array, header, held.watch.lifetime, again)
        return 0 if source < 0 else lookup.handle(source, number)

    def check(self, fh: int, path: str) -> InFace | None:
        """Check that a path still shows the data that was opened as `fh`.

        Returns: the place of the path; None if it never changes.

        Raises:
            SourceChangedError: its sources came, went or changed since then.
        """
        which, _ = lookup.parts(fh)
        if self.lasting:
            return None
        held = self.folder.at(path).in_face()
        lifetime = held and held.watch.lifetime
        if lifetime is None or lifetime.stamp != self.registry.stamps.get(which):
            raise SourceChangedError("its files came, went or changed after it was opened; open it again")
        return held

    def document(self, shown: Shown) -> bool:
        """Return True if a path is a document or a file outside of all faces.

        If the contents of the mount never change, such a file does not change either.
        """
        held = shown.in_face()
        return held is None or held.face.part(held.key) is None

    def fresh(self, fh: int, path: str) -> bool:
        """Return True if the kernel may keep its pages of the file opened as `fh`: see `Freshness.fresh`."""
        which, number = lookup.parts(fh)
        return self._freshness.fresh(path, fh, number, self.registry.sources[which])

    def read(self, fh: int, path: str, to: int, size: int, offset: int) -> int | None:
        """Answer a read that `serve.read` could not answer, and prepare it for the next one like it.

        The bytes go into the memory at `to`.

        Returns: number of bytes; None: read them through the hierarchy, which raises the error that
            says why.

        Raises:
            SourceChangedError: see `check`.
        """
        which, number = lookup.parts(fh)
        source = self.registry.sources.get(which) if self.lasting else self._current(fh, path)
        if source is None:
            return None
        if source.direct and (got := self._from_files(which, source, fh, to, size, offset)) is not None:
            return got
        # Decoded, or in part not in the files: a chunk at an edge, blank frames
        state = source.source_files.moves.item(0)  # another number once a source file was touched
        header = int(source.words[SourceWord.HEAD_BYTES])
        # Bytes behind the header that are wanted, and the pieces that have them
        first, last = max(0, offset - header), min(offset + size, int(source.words[SourceWord.FILE_BYTES])) - header
        if first >= last or offset < 0:
            return None
        piece_0 = number * source.per  # of this file
        pieces = range(piece_0 + first // source.size, piece_0 + (last - 1) // source.size + 1)
        continues = offset in source.ends.copy()  # begins where one of the latest reads ended
        source.ends.append(offset + size)
        copied = max(0, min(header, offset + size) - offset)
        if copied:
            memory.copy(to, source.kept[0].ctypes.data + offset, copied)
        try:
            if source.npy and size < SMALL and not continues and source.piece(pieces[0])[0] not in source.array.cache:
                decoded = source.chunks.run(first, last)  # these bytes alone
                memory.copy(to + copied, decoded.ctypes.data, last - first)
                return copied + last - first if source.source_files.moves.item(0) == state else None
            # A reader that comes from the piece before, or begins a file, will want the next ones
            goes_on = not source.direct and (pieces[0] - 1 in source.recent.copy() or (source.npy and first == 0))
            source.recent.extend(pieces)
            for n in pieces:
                key, make = source.piece(n)
                shown = None if source.direct else Piece(self.pieces, lookup.handle(which, n), False, state)
                piece = source.array.cache.get(key, make, shown)
                if goes_on and n == pieces[0]:
                    self.ahead.go_on(which, source, pieces[-1])
                begin = (n - piece_0) * source.size
                start, stop = max(first, begin), min(last, begin + piece.nbytes)
                memory.copy(to + copied, piece.ctypes.data + start - begin, stop - start)
                copied += stop - start
        except SourceError:  # perhaps about bytes of the piece that this read does not want
            return None
        return copied if source.source_files.moves.item(0) == state else None  # a file changed: bytes may be old ones

    def _current(self, fh: int, path: str) -> NativeSource | None:
        """Return the source that is open as `fh`, and allow native reads of it for a time.

        This is for contents that may change. Returns None if the path shows another source now.

        Raises:
            SourceChangedError: see `check`.
        """
        which, _ = lookup.parts(fh)
        held = self.check(fh, path)
        source = self.registry.sources.get(which)
        if held is None:
            return source
        lifetime = held.watch.lifetime
        if lifetime is not None:
            if source is None or source.frames.lifetime is not lifetime:  # closed meanwhile
                self._handle(held, which)
                source = self.registry.sources.get(which)
            elif not lifetime.dropped:
                self.registry.trust(source, lifetime)
        if source is not None and source.frames.lifetime is not lifetime:
            return None
        return source

    def _from_files(self, which: int, source: NativeSource, fh: int, to: int, size: int, offset: int) -> int | None:
        """Open the source files that are needed and not open, and read from them."""
        seen = set()
        # First all files are opened: otherwise each one that is not open would make the read start
        # again
        for place in (0, to):
            while (got := int(serve.answer(fh, place, size, offset))) < 0:
                file = got - NOT_OPEN
                if got == NO_ANSWER or file in seen:
                    return None
                seen.add(file)
                try:
                    self.registry.reopen(which, source, file)
                except SourceError:
                    return None
        return got

    def collect(self) -> None:
        """Free retired objects that no read is using."""
        self.retired.collect()
        self.retired.collect()
