"""Shows archives (`.zip`, `.tar`, `.tar.gz` and the like) as folders: their members are files, read where they are.

What is stored as it is in an archive is a range of its bytes; what is packed is unpacked on the way, as in
`vfs.sources.packed`, from points in between. Nothing is written anywhere. A member of `/data/x.zip` that people call
`/data/x.zip/a/b.mib` is `archive:///data/x.zip/a/b.mib` here, so that nobody takes it for a file of the file system.
"""

from __future__ import annotations

import bz2
import os
import posixpath
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from io import BufferedReader
from typing import Any, BinaryIO

from vfs.errors import DecodeError, FormatError, MissingSourceError, OutsideError, SourceError, VfsError
from vfs.model.file_state import FileState
from vfs.model.sources import FolderLook, FolderSources, Inside, Sources
from vfs.sources.archive_index import BZIP2, DEFLATED, STORED, ZSTD, ArchiveIndex, Member, index_of
from vfs.sources.archive_names import ENDINGS, SCHEME, in_archive
from vfs.sources.local import LocalSources
from vfs.sources.names import is_absolute, is_url
from vfs.sources.packed import MAX_RATIO, GzipDecoder, PackedSources, Unpacking, ZstdDecoder
from vfs.sources.source_stream import SourceStream

_HEADER = struct.Struct("<4s22xHH")  # of a member of a zip file: mark, lengths of name and extra field
_INDEXES = 8  # archives whose lists are kept
_UNPACKED = 8  # members of an archive whose points and last bytes are kept
_DECODERS: dict[int, Callable[[], Any]] = {
    DEFLATED: lambda: GzipDecoder(zlib.decompressobj(-15)),
    BZIP2: bz2.BZ2Decompressor,
    ZSTD: ZstdDecoder,
}


def is_folder_in_archive(name: str) -> bool:
    """Return True for the name of an archive, or of a folder in one; of one on a server, if it ends with a slash."""
    found = in_archive(name)
    if found is None or not found.member:
        return found is not None
    if is_url(found.archive):
        return name.endswith("/")
    try:
        ArchiveSources(found.archive, LocalSources()).folder(found.name)
    except VfsError:
        return False
    return True


class _KnownArchive:
    """What was found out about an archive in one state."""

    def __init__(self, index: ArchiveIndex) -> None:
        self.index = index
        self.starts: dict[str, int] = {}
        self.unpacked: OrderedDict[str, Unpacking] = OrderedDict()
        self.lock = threading.Lock()


_known: OrderedDict[tuple[Any, ...], _KnownArchive] = OrderedDict()
_finding = threading.Lock()


def _after_fork() -> None:
    global _finding
    _finding = threading.Lock()
    _known.clear()


os.register_at_fork(after_in_child=_after_fork)


class _MemberBytes:
    """The bytes of a member in its archive, as `Unpacking` asks for them."""

    def __init__(self, inner: Sources, archive: str, start: int, size: int) -> None:
        self.inner, self.archive, self.start, self.size = inner, archive, start, size

    def read(self, name: str, start: int, size: int) -> bytes:
        return self.inner.read(self.archive, self.start + start, max(0, min(size, self.size - start)))


class ArchiveSources(FolderSources):
    """The files in an archive.

    Args:
        archive: its name.
        inner: where it is.
    """

    anywhere = False
    as_stored = False

    def __init__(self, archive: str, inner: Sources) -> None:
        packed = ENDINGS.search(archive)
        ending = packed[1].lower() if packed else ""
        self.archive, self._is_zip = archive, ending == "zip"
        plain = ending in ("zip", "tar") or isinstance(inner, PackedSources)
        self.inner = inner if plain else PackedSources(inner)
        self.lasting: Sources = self.inner  # beyond an opening
        self.far_away = inner.far_away
        self._opened = ExitStack()

    def __reduce__(self) -> tuple[type, tuple[str, Sources]]:
        return type(self), (self.archive, self.lasting)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArchiveSources) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.archive, self.lasting))

    @property
    def top(self) -> str:
        """The name of the archive as a folder."""
        return f"{SCHEME}{self.archive}"

    def _list(self) -> tuple[_KnownArchive, FileState]:
        """Return what is in the archive, read anew where it changed.

        Raises:
            FormatError: it is no archive.
            SourceError: it cannot be read.
        """
        state = self.inner.state(self.archive)
        key = (self.archive, state)
        with _finding:
            known = _known.get(key)
            if known is None:
                raw = SourceStream(partial(self.inner.read, self.archive), state.size)
                known = _known[key] = _KnownArchive(index_of(self.archive, raw, self._is_zip, self.far_away))
            _known.move_to_end(key)
            while len(_known) > _INDEXES:
                _known.popitem(last=False)
        return known, state

    def _path(self, name: str) -> str:
        if name != self.top and not name.startswith(f"{self.top}/"):
            raise OutsideError(f"{name}: lies outside of {self.archive}")
        return name[len(self.top) :].strip("/")

    def _member(self, name: str) -> tuple[_KnownArchive, Member, FileState]:
        path = self._path(name)
        known, state = self._list()
        member = known.index.members.get(path)
        if member is None:
            if path in known.index.folders:
                raise SourceError(f"{name}: expected a file, found a folder")
            raise MissingSourceError(f"{name}: no such file in this archive")
        if member.why:
            raise SourceError(f"{name}: {member.why}")
        if member.method != STORED and member.size > MAX_RATIO * (member.packed + 4096):
            raise DecodeError(f"{name}: {member.packed:,} packed bytes hold {member.size:,}, as no measurement does")
        return known, member, state

    def state(self, name: str) -> FileState:
        _, member, state = self._member(name)
        return state._replace(size=member.size)

    def read(self, name: str, start: int, size: int) -> bytes:
        known, member, state = self._member(name)
        size = max(0, min(size, member.size - start))
        if start < 0 or not size:
            return b""
        at = self._start(known, name, member, state)
        if member.method == STORED:
            return self.inner.read(self.archive, at + start, size)
        with known.lock:
            found = known.unpacked.get(name)
            if found is None:
                window = _MemberBytes(self.lasting, self.archive, at, member.packed)
                found = Unpacking(window, (name, state._replace(size=member.packed)), _DECODERS[member.method])
                found.size = member.size
                known.unpacked[name] = found
            known.unpacked.move_to_end(name)
            while len(known.unpacked) > _UNPACKED:
                known.unpacked.popitem(last=False)
        return found.read(start, size)

    def _start(self, known: _KnownArchive, name: str, member: Member, state: FileState) -> int:
        """Return the first byte of a member in the archive.

        Raises:
            FormatError: it is not there.
        """
        if not known.index.headed:
            at = member.at
        elif (at := known.starts.get(name, -1)) < 0:
            head = self.inner.read(self.archive, member.at, _HEADER.size)
            mark, named, more = _HEADER.unpack(head) if len(head) == _HEADER.size else (b"", 0, 0)
            if mark != b"PK\3\4":
                raise FormatError(f"{name}: expected its header at byte {member.at:,} of {self.archive}, found none")
            at = known.starts[name] = member.at + _HEADER.size + named + more
        if at + member.packed > state.size:
            raise FormatError(
                f"{name}: expected {member.packed:,} bytes from byte {at:,} of {self.archive} on, which has"
                f" {state.size:,}; it looks truncated"
            )
        return at

    def stream(self, name: str) -> BinaryIO:
        return BufferedReader(SourceStream(partial(self.read, name), self.state(name).size), 1 << 16)

    def names(self, folder: str) -> Sequence[str]:
        return list(self._folder(folder)[0])

    def _folder(self, folder: str) -> tuple[dict[str, bool], FileState]:
        known, state = self._list()
        found = known.index.folders.get(self._path(folder))
        if found is None:
            raise MissingSourceError(f"{folder}: no such folder in this archive")
        return found, state

    def join(self, folder: str, name: str) -> str:
        path = posixpath.normpath(posixpath.join("/", self._path(folder), name))
        inside = posixpath.normpath(posixpath.join(self._path(folder), name))
        if is_absolute(name) or inside.split("/")[0] == "..":
            raise OutsideError(f"{name}: lies outside of {self.archive}")
        return f"{self.top}{path}"

    def opening(self) -> ArchiveSources:
        opened = ExitStack()
        made = ArchiveSources(self.archive, opened.enter_context(self.inner.opening()))
        made.lasting, made._opened = self.lasting, opened
        return made

    def __enter__(self) -> ArchiveSources:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        self.inner = self.lasting

    def know(self, folder: str, inside: Inside) -> None:
        """Do nothing: what is in a folder is known for as long as the archive does not change."""

    def folder(self, name: str) -> FolderLook:
        _, state = self._folder(name)
        return FolderLook(name, state, state.written)

    def inside(self, folder: str, above: Collection[str]) -> Inside:
        found, state = self._folder(folder)
        members, path = self._list()[0].index.members, self._path(folder)
        made: dict[str, FileState | None] = {}
        for name, below in found.items():
            made[name] = None if below else state._replace(size=members[f"{path}/{name}".lstrip("/")].size)
        return made

    def look(self, name: str) -> tuple[FileState, int] | None:
        try:
            _, member, state = self._member(name)
        except (SourceError, FormatError):
            return None
        return state._replace(size=member.size), member.at

    def holds_any(self, folder: str, names: Collection[str]) -> bool:
        try:
            return not self._folder(folder)[0].keys().isdisjoint(names)
        except SourceError:
            return False
