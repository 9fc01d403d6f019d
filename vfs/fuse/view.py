"""Implements the operations of a mount: `FuseView` answers requests of libfuse. `vfs.fuse.loop` runs libfuse.

It uses mfusepy if it can (libfuse 3, else 2), else fusepy (libfuse 2). `FuseView` has the same
methods for all three. It does not use the class that these libraries document but the layer below,
so that bytes are copied once, folders are listed from any offset on, and no exception reaches the
library.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from ctypes.util import find_library
from functools import cache, partial, wraps
from importlib import import_module
from threading import BoundedSemaphore
from typing import Any

import numpy as np

from vfs.buffers import scratch
from vfs.contents.contents import Contents
from vfs.contents.shown import Shown
from vfs.engine.abandon import AbandonedError, asked
from vfs.errors import MountError, NoChunkError, NotYetError, SourceChangedError, SourceError, VfsError, printable
from vfs.faces.absence import looks_like_chunk, may_lead_to_chunks
from vfs.faces.face import Node
from vfs.fuse.askers import EVERYBODY, SECONDS, Asker, Askers
from vfs.fuse.counters import Counters
from vfs.fuse.readers import Readers
from vfs.fuse.remembered import Remembered
from vfs.kernels.native.fuse.paths import path_inode
from vfs.serving.failures import Failures
from vfs.serving.gate import Gate

log = logging.getLogger("vfs.fuse")

_MODES = 4096  # paths whose modes are remembered
# A handle above it belongs to native code (`vfs.kernels.native.fuse.lookup.OURS`); others are stamps
STAMP = (1 << 62) - 1
NOWHERE = errno.EROFS
"""Error of a lookup of a name that nothing has, and that may have led to chunks.

It is not ENOENT, which zarr's clients take for an absent chunk. FUSE's lookup does not say what it is for, and where
it fails, a call that would create the name (mkdir, mknod, symlink, link, open with O_CREAT) gets the same error. So it
is the error of all that writes here.
"""
UNKNOWN = Node(False, -1)  # an entry of a folder of which only the name is known
WORKERS = max(4, os.cpu_count() or 1)
"""The default number of reads that are answered from sources at once.

A disk is faster with several, a processor only with as many as it has cores.
"""


@cache
def library() -> Any:
    """Return mfusepy on libfuse 3 or 2, else fusepy on libfuse 2.

    Raises:
        MountError: neither can be used.
    """
    chosen = "FUSE_LIBRARY_NAME" in os.environ or "FUSE_LIBRARY_PATH" in os.environ
    if not chosen and find_library("fuse3"):
        os.environ["FUSE_LIBRARY_NAME"] = "fuse3"  # if both are installed, mfusepy would take libfuse 2
    reasons = []
    try:
        for name in ("mfusepy", "fuse"):
            try:
                module = import_module(name)
            except (ImportError, OSError, AttributeError) as error:
                # AttributeError: the library does not know this version of libfuse
                reasons.append(f"{name}: {error}")
                continue
            if hasattr(module, "FUSE"):  # the package fuse-python is also imported as `fuse`
                return module
            reasons.append(f"{name}: not fusepy but another package of that name")
    finally:
        if not chosen:
            os.environ.pop("FUSE_LIBRARY_NAME", None)
    raise MountError(
        errno.ENOSYS,
        f"mounting needs libfuse: install it (apt install fuse3, dnf install fuse3) ({printable('; '.join(reasons))})",
    )


def version(module: Any) -> int:
    """Return the version of libfuse that a library uses: 2 or 3."""
    return int(getattr(module, "fuse_version_major", 2))


def inode(path: str) -> int:
    """Return the inode number of a path, which follows from the path alone: 1 for the root, never 0."""
    if not path:
        return 1
    text = np.frombuffer(os.fsencode(path), np.uint8)
    return int(path_inode(text.ctypes.data, text.size))


def _answer(call: Callable[..., int]) -> Callable[..., int]:
    """Turn a method of `FuseView` into a function for the library.

    The function counts the request and decodes the path. It turns an unexpected exception into EIO
    and a line in the log. Where `stat` finds no chunk, it is `NOWHERE`.
    """
    reads = int(call.__name__ == "read")
    looks = call.__name__ == "stat"

    @wraps(call)
    def answer(view: FuseView, path: bytes, *args: Any) -> int:
        key = os.fsdecode(path)[1:]
        try:
            done = call(view, key, *args)
            view.counters.add(reads=reads, nbytes=max(0, done) * reads)
            return done
        except NotYetError:  # nothing is wrong, and it is asked for again and again
            view.counters.add(reads=reads)
            return -errno.EIO
        except Exception as error:
            view.counters.add(reads=reads, errors=1)
            what = str(error) if isinstance(error, VfsError) else f"{type(error).__name__}: {error}"
            where = f" of {args[1]:,} bytes at {args[2]:,}" if reads else ""
            view.failures.add(
                printable(what), printable(f"{key}: {call.__name__}{where} failed: {what}"), trace=view.debug
            )
            return -(NOWHERE if looks and isinstance(error, NoChunkError) else errno.EIO)

    return answer


class FuseView:
    """Answers requests of libfuse from a folder: with 0, a number of bytes, or minus an error number.

    Pointers are those of ctypes: `buf` points to a struct of the library or to memory, `info` to its
    fuse_file_info.
    """

    def __init__(
        self,
        folder: Contents,
        module: Any,
        debug: bool,
        *,
        allow_other: bool = False,
        workers: int = WORKERS,
        direct_io: bool = False,
        readers: Readers | None = None,
    ) -> None:
        self.folder = folder
        self.direct_io = direct_io
        self.debug = debug
        self.askers = Askers(module.fuse_get_context) if allow_other else None
        self._modes: dict[tuple[str, str], tuple[float, bool]] = {}
        self.working = BoundedSemaphore(workers)  # libfuse may have more threads, and each may hold two chunks
        self.counters = Counters()
        self.failures = Failures(log)
        self.gate = Gate()
        self.remembered = Remembered(module)
        self.readers = readers
        self._context = module._libfuse.fuse_get_context
        self._interrupted: Callable[[], int] = module._libfuse.fuse_interrupted  # 1: who asks was killed, or gave up
        # Folders at the top of the mount that were looked up
        roots = {name: folder.at(name).node() for name in folder.faces}
        self.looked_up = {name: None for name, root in roots.items() if root and root.folder}
        self.is_fuse3 = version(module) == 3
        self.struct: type[Any] = module.c_stat
        self.owner = (os.getuid(), os.getgid())
        self.blocks = sum(-(-node.size // 4096) for node in roots.values() if node)
        from vfs.fuse.fast import NativeTables  # loads the compiler, which starting a server does not need

        self.native_tables = NativeTables(folder, self.counters.native_address)

    def native_hooks(self) -> tuple[int, int]:
        """Return addresses for `NativeTables.start`: of fuse_get_context, and of the table of readers.

        An address is 0 if the user of a request does not matter, or readers are not recorded.
        """
        if self.readers is None:
            return 0, 0
        return ctypes.cast(self._context, ctypes.c_void_p).value or 0, self.readers.table.ctypes.data

    def _note_lookup(self, key: str, node: Node) -> None:
        if node.folder and key and "/" not in key:
            self.looked_up[key] = None

    def _describe(self, to: Any, shown: Shown, node: Node) -> None:
        key = shown.path
        to.st_ino = inode(key)
        to.st_mode = self._mode(key, node)
        to.st_nlink = 1  # for a folder, 1 means "not counted"; 2 would mean that it has no subfolders
        to.st_uid, to.st_gid = self.owner
        to.st_size = node.size
        to.st_blocks = -(-node.size // 512)
        seconds, nanoseconds = divmod(shown.time(), 10**9)
        for when in (to.st_atimespec, to.st_mtimespec, to.st_ctimespec):
            when.tv_sec = seconds
            when.tv_nsec = nanoseconds

    def _mode(self, key: str, node: Node) -> int:
        """Return the mode of a path, readable by all if everybody may read it. Each request is checked, too."""
        readers = 0o444 if self.askers and self._for_all(key) else 0o400
        return stat.S_IFDIR | readers | readers >> 2 if node.folder else stat.S_IFREG | readers

    def _refused(self, key: str, inside: bool = False) -> bool:
        """Return True if the user of the current request may not see a path.

        Without --allow-other it is False, since the kernel lets in no other user.

        Args:
            inside: check the right to see the contents of the folder at this path.
        """
        asker = self.askers.asker() if self.askers else None
        return asker is not None and self._kept_out(key, asker, inside)

    def _kept_out(self, key: str, asker: Asker, inside: bool, all_files: bool = True) -> bool:
        """Return True if a user may not see a path.

        Args:
            inside: see `_refused`.
            all_files: False to check only the known files of a set that is not open.
        """
        assert self.askers is not None
        folder, rest = self.folder.place(key)
        if not rest:
            if inside:
                return bool(folder) and not self.askers.may_list(folder, asker)
            return bool(folder and key) and not self.askers.may_enter(os.path.dirname(folder), asker)
        if folder and not self.askers.may_enter(folder, asker):
            return True
        within = "/" in rest
        return (inside or within) and bool(
            self.askers.unreadable(self.folder.at(key).source_files(all_files or within), asker)
        )

    def _for_all(self, key: str) -> bool:
        """Return True if everybody may read a path.

        The answer may be up to a second old: it only determines the mode, and each request is
        checked anew.
        """
        folder, rest = self.folder.place(key)
        at = folder, rest.partition("/")[0]
        until, answer = self._modes.get(at, (0.0, False))
        now = time.monotonic()
        if now >= until:
            answer = not self._kept_out(key, EVERYBODY, True, False)
            if len(self._modes) >= _MODES:
                self._modes.clear()
            self._modes[at] = now + SECONDS, answer
        return answer

    @_answer
    def stat(self, key: str, buf: Any, info: Any) -> int:
        if not info and self._refused(key):
            return -errno.EACCES
        shown = self.folder.at(key)
        node = self._node(shown)
        if node is None:
            return self._absent(key)
        self._note_lookup(key, node)
        self._learn(shown)
        to = buf.contents
        ctypes.memset(buf, 0, ctypes.sizeof(to))
        self._describe(to, shown, node)
        return 0

    def _node(self, shown: Shown) -> Node | None:
        """Return the node of a path; of a chunk that its array does not have, what it would be.

        `read` gives EIO for such a chunk: programs that look with `stat` whether a chunk is there
        would take an error of `stat` for an absent chunk.

        Raises:
            NoChunkError: the path looks like a chunk, but no array has chunks of this kind there.
        """
        try:
            return shown.node()
        except NoChunkError as error:
            if error.stands_in is None:
                raise
            return Node(*error.stands_in)

    def _absent(self, key: str) -> int:
        """Return the error for a path that does not exist: `NOWHERE` if there may have been chunks below it."""
        return -(NOWHERE if may_lead_to_chunks(key) else errno.ENOENT)

    @_answer
    def opendir(self, key: str, info: Any) -> int:
        """Open a folder. Refuse a folder of chunks that is opened as a file.

        Whoever does this knows an array with fewer axes, for which it is a chunk. Python's `open`
        would turn it into an IsADirectoryError, which zarr takes for an absent chunk.

        Raises:
            NoChunkError: it is opened as a file.
        """
        if info and not info.contents.flags & os.O_DIRECTORY and looks_like_chunk(key):
            shown = self.folder.at(key)
            shown.node()  # raises it for a folder that only stands in for one
            held = shown.in_face()
            if held is not None and held.face.part(held.key) is not None:
                raise NoChunkError("is a folder of chunks and was opened as a file; open the array again")
        return 0

    def _learn(self, shown: Shown) -> None:
        """Let native code answer for names like this one from now on, as far as it can."""

        def describe(node: Node) -> bytes:
            to = self.struct()
            self._describe(to, shown, node)
            return bytes(to)

        self.native_tables.learn(shown, describe)

    @_answer
    def open(self, key: str, info: Any) -> int:
        if self._refused(key, True):
            return -errno.EACCES
        if self.readers is not None:
            self.readers.meet(self._context().contents.pid)
        shown = self.folder.at(key)
        node = self._node(shown)
        if node is None:
            return self._absent(key)
        if node.folder:
            return -errno.EISDIR
        to = info.contents
        if to.flags & os.O_ACCMODE != os.O_RDONLY:
            return -errno.EROFS
        to.direct_io = self.direct_io
        to.fh = self.native_tables.open(shown)
        self._learn(shown)
        if self.native_tables.lasting:
            # If this is False, the kernel drops its pages of the file
            to.keep_cache = self.native_tables.fresh(to.fh, key) if to.fh else self.native_tables.document(shown)
        elif not to.fh:
            to.fh = shown.stamp() & STAMP
        return 0

    @_answer
    def read(self, key: str, buf: Any, size: int, offset: int, info: Any) -> int:
        fh, to = info.contents.fh if info else 0, ctypes.cast(buf, ctypes.c_void_p).value or 0
        asked.gone = partial(self._reader_gone, key)
        try:
            try:
                with self.gate.shared():
                    with self.working:
                        got = self.native_tables.read(fh, key, to, size, offset) if fh > STAMP else None
                    return self._from_tree(key, to, size, offset, fh) if got is None else got
            except MemoryError:
                pass  # leaving this block frees the exception, and with it the memory taken so far
            except SourceError as error:
                if error.errno != errno.ENOMEM:
                    raise
            with self.gate.alone():  # try again with no other request in progress, and so with their memory
                self.folder.cache.clear()
                scratch.clear()
                self.native_tables.collect()
                got = self.native_tables.read(fh, key, to, size, offset) if fh > STAMP else None
                return self._from_tree(key, to, size, offset, fh) if got is None else got
        except AbandonedError:
            return -errno.EINTR
        finally:
            asked.gone = None  # libfuse may be asked of a request only while it is under way

    def _reader_gone(self, key: str) -> bool:
        """Return True if nobody waits for the present read of a file any more."""
        return self._interrupted() == 1 or (self.readers is not None and not self.readers.hold(key))

    def _from_tree(self, key: str, to: int, size: int, offset: int, fh: int) -> int:
        """Read from the hierarchy: documents, and bytes that native reads could not read.

        For bytes that cannot be read, this raises the error that says why.
        """
        self._check(key, fh)
        shown = self.folder.at(key)
        node = shown.node()
        if node is None:
            return -errno.ENOENT
        expected = max(0, min(size, node.size - offset))
        if expected == 0:
            return 0
        with self.working:
            data = shown.get(offset, offset + expected)
        got = 0 if data is None else data.nbytes
        if data is None or got != expected:
            raise AssertionError(f"expected {expected:,} bytes, got {got:,}")
        self._check(key, fh)  # a second time, since the set may have been opened again meanwhile
        ctypes.memmove(to, np.frombuffer(data, np.uint8).ctypes.data, got)
        return got

    def _check(self, key: str, fh: int) -> None:
        """Refuse a file whose sources were others when it was opened.

        All programs that have it open share the kernel's pages of it, so none of them gets new data.

        Raises:
            SourceChangedError: the sources are others now.
        """
        if fh > STAMP:
            self.native_tables.check(fh, key)
        elif self.folder.at(key).stamp() & STAMP != fh:
            raise SourceChangedError("its files came, went or changed after it was opened; open it again")

    @_answer
    def statfs(self, key: str, buf: Any) -> int:
        to = buf.contents
        to.f_bsize = to.f_frsize = 4096
        to.f_blocks = self.blocks
        to.f_bfree = to.f_bavail = to.f_files = to.f_ffree = to.f_favail = 0
        to.f_namemax = 255
        return 0

    @_answer
    def readdir(self, key: str, buf: Any, fill: Any, offset: int, info: Any, flags: int = 0) -> int:
        if self._refused(key, True):
            return -errno.EACCES
        # libfuse copies more bytes than fusepy's struct has, so there must be memory beyond its end
        to = self.struct.from_buffer(bytearray(ctypes.sizeof(self.struct) + 256))
        plus = bool(flags & 1)  # FUSE_READDIR_PLUS: the attributes are wanted, too
        last = ((2 if plus else 0),) if self.is_fuse3 else ()  # FUSE_FILL_DIR_PLUS
        listed = self.folder.at(key)
        self._learn(listed)
        for position, name, path in self._names(listed, offset):
            shown, node = self._listed(path)
            if node is None:
                continue
            ctypes.memset(ctypes.byref(to), 0, ctypes.sizeof(to))
            to.st_ino = inode(path)
            if plus and node is not UNKNOWN:
                self._note_lookup(path, node)
                self._describe(to, shown, node)
            elif node is not UNKNOWN:
                to.st_mode = self._mode(path, node)
            if fill(buf, os.fsencode(name), to, position, *((0,) if node is UNKNOWN and last else last)):
                break  # the buffer is full; the kernel asks again from the last position that it got
        return 0

    def _listed(self, path: str) -> tuple[Shown, Node | None]:
        """Return an entry of a folder, and its node.

        The node is `UNKNOWN` if it went away since the folder was listed: only its name is listed then,
        and requests about it get the error.
        """
        try:
            shown = self.folder.at(path)
            return shown, shown.node()
        except SourceError:
            return Shown(path), UNKNOWN

    def _names(self, shown: Shown, offset: int) -> Iterator[tuple[int, str, str]]:
        """Yield (offset of the next entry, name, path) of the entries of a folder from an offset on.

        "." and ".." are the first two.
        """
        key = shown.path
        if offset < 1:
            yield 1, ".", key
        if offset < 2:
            yield 2, "..", key.rpartition("/")[0]
        after = max(0, offset - 2)
        for position, name in enumerate(shown.children(after), after + 3):
            yield position, name, f"{key}/{name}" if key else name
