"""The operations of the mount: `FuseView` answers the requests of libfuse from a folder, `loop` runs libfuse.

mfusepy is taken first (libfuse 3, else 2), then fusepy (libfuse 2). `FuseView` has the same methods
for all three, below the class that either of them documents, so that bytes move once, folders are
listed from any offset on, and nothing raises into the library.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from ctypes.util import find_library
from functools import cache, wraps
from importlib import import_module
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

import numpy as np

from vfs.buffers import scratch
from vfs.errors import MountError, SourceChangedError, SourceError, VfsError, printable
from vfs.fuse.askers import EVERYBODY, SECONDS, Asker, Askers
from vfs.fuse.counters import Counters
from vfs.fuse.ending import Ending
from vfs.fuse.failures import Failures
from vfs.fuse.gate import Gate
from vfs.fuse.readers import Readers
from vfs.fuse.remembered import Remembered
from vfs.fuse.structs import Structs
from vfs.hierarchy.faces import MountSource, Node, ZarrFace
from vfs.kernels.fuse.paths import path_inode

if TYPE_CHECKING:
    pass

log = logging.getLogger("vfs.fuse")

_MODES = 4096  # paths whose modes are remembered
# What is open is above it where native code knows it (`vfs.kernels.fuse.lookup.OURS`), else a stamp
STAMP = (1 << 62) - 1
UNKNOWN = Node(False, -1)  # an entry of a folder of which nothing is known but its name
WORKERS = max(4, os.cpu_count() or 1)
"""Reads that are answered from sources side by side, where nobody says otherwise: a disk wants
several, a processor no more than it has cores.
"""


@cache
def library() -> Any:
    """mfusepy on libfuse 3 or 2, else fusepy on libfuse 2.

    Raises:
        MountError: neither can be used.
    """
    chosen = "FUSE_LIBRARY_NAME" in os.environ or "FUSE_LIBRARY_PATH" in os.environ
    if not chosen and find_library("fuse3"):
        os.environ["FUSE_LIBRARY_NAME"] = "fuse3"  # mfusepy by itself would take libfuse 2 where both are
    reasons = []
    try:
        for name in ("mfusepy", "fuse"):
            try:
                module = import_module(name)
            except (ImportError, OSError, AttributeError) as error:
                # AttributeError: a libfuse of a version it does not know
                reasons.append(f"{name}: {error}")
                continue
            if hasattr(module, "FUSE"):  # fuse-python also calls itself `fuse`
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
    """The version of libfuse that a library uses: 2 or 3."""
    return int(getattr(module, "fuse_version_major", 2))


def inode(path: str) -> int:
    """The inode number of a path: from its text alone, 1 for the root, never 0."""
    if not path:
        return 1
    text = np.frombuffer(os.fsencode(path), np.uint8)
    return int(path_inode(text.ctypes.data, text.size))


def _answer(call: Callable[..., int]) -> Callable[..., int]:
    """A method of `FuseView` as the library calls it: counted, the path decoded, and whatever goes
    wrong inside an EIO with a line in the log.
    """
    reads = int(call.__name__ == "read")

    @wraps(call)
    def answer(view: FuseView, path: bytes, *args: Any) -> int:
        key = os.fsdecode(path)[1:]
        try:
            done = call(view, key, *args)
            view.counters.add(reads=reads, nbytes=max(0, done) * reads)
            return done
        except Exception as error:
            view.counters.add(reads=reads, errors=1)
            what = str(error) if isinstance(error, VfsError) else f"{type(error).__name__}: {error}"
            where = f" of {args[1]:,} bytes at {args[2]:,}" if reads else ""
            view.failures.add(
                printable(what), printable(f"{key}: {call.__name__}{where} failed: {what}"), trace=view.debug
            )
            return -errno.EIO

    return answer


class FuseView:
    """What libfuse asks, answered from a folder: 0, a number of bytes, or minus an error number. Never raises.

    Pointers come as ctypes makes them: `buf` to the library's struct or to memory, `info` to its fuse_file_info.
    """

    def __init__(
        self,
        folder: MountSource,
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
        self.working = BoundedSemaphore(workers)  # however many threads libfuse has: each of them may hold two chunks
        self.counters = Counters()
        self.failures = Failures(log)
        self.gate = Gate()
        self.remembered = Remembered(module)
        self.readers = readers
        self._context = module._libfuse.fuse_get_context
        # Folders at the top that were shown
        self.tops = {name: None for name, face in folder.faces.items() if isinstance(face, ZarrFace)}
        self.three = version(module) == 3
        self.struct: type[Any] = module.c_stat
        self.owner = (os.getuid(), os.getgid())
        sizes = (face.node("") for face in folder.faces.values())
        self.blocks = sum(-(-node.size // 4096) for node in sizes if node)
        from vfs.fuse.fast import NativeServer  # the compiler: not for those who only start a server

        self.native_server = NativeServer(folder, self.counters.native_address)

    def asking(self) -> tuple[int, int]:
        """Addresses of the function that says who asks, and of the table of those who are known to
        read; 0: nobody minds.
        """
        if self.readers is None:
            return 0, 0
        return ctypes.cast(self._context, ctypes.c_void_p).value or 0, self.readers.table.ctypes.data

    def _met(self, key: str, node: Node) -> None:
        if node.folder and key and "/" not in key:
            self.tops[key] = None

    def _describe(self, to: Any, key: str, node: Node) -> None:
        to.st_ino = inode(key)
        to.st_mode = self._mode(key, node)
        to.st_nlink = 1  # for a folder: "not counted"; 2 would mean that it has no folders in it
        to.st_uid, to.st_gid = self.owner
        to.st_size = node.size
        to.st_blocks = -(-node.size // 512)
        seconds, nanoseconds = divmod(self.folder.time(key), 10**9)
        for when in (to.st_atimespec, to.st_mtimespec, to.st_ctimespec):
            when.tv_sec = seconds
            when.tv_nsec = nanoseconds

    def _mode(self, key: str, node: Node) -> int:
        """The mode of a path: readable by all where everybody may read it. Other users are checked when they ask."""
        readers = 0o444 if self.askers and self._for_all(key) else 0o400
        return stat.S_IFDIR | readers | readers >> 2 if node.folder else stat.S_IFREG | readers

    def _refused(self, key: str, inside: bool = False) -> bool:
        """Say whether the user who asks now may not see a path (`inside`: what is in it). Without
        --allow-other the kernel lets in no other user.
        """
        asker = self.askers.asker() if self.askers else None
        return asker is not None and self._kept_out(key, asker, inside)

    def _kept_out(self, key: str, asker: Asker, inside: bool, all_files: bool = True) -> bool:
        """Args: all_files: false: of a set that is not open the files that are known will do."""
        assert self.askers is not None
        folder, rest = self.folder.place(key)
        if not rest:
            if inside:
                return bool(folder) and not self.askers.may_list(folder, asker)
            return bool(folder and key) and not self.askers.may_enter(os.path.dirname(folder), asker)
        if folder and not self.askers.may_enter(folder, asker):
            return True
        within = "/" in rest
        return (inside or within) and bool(self.askers.kept_by(self.folder.sources(key, all_files or within), asker))

    def _for_all(self, key: str) -> bool:
        """Say whether everybody may read a path, as of the last second: this is only shown as the
        mode; each request is checked anew.
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
        node = self.folder.node(key)
        if node is None:
            return -errno.ENOENT
        self._met(key, node)
        self._learn(key)
        to = buf.contents
        ctypes.memset(buf, 0, ctypes.sizeof(to))
        self._describe(to, key, node)
        return 0

    def _learn(self, key: str) -> None:
        """Have native code answer for names like this one from now on, where it can."""

        def describe(node: Node) -> bytes:
            to = self.struct()
            self._describe(to, key, node)
            return bytes(to)

        self.native_server.learn(key, describe)

    @_answer
    def open(self, key: str, info: Any) -> int:
        if self._refused(key, True):
            return -errno.EACCES
        if self.readers is not None:
            self.readers.meet(self._context().contents.pid)
        node = self.folder.node(key)
        if node is None:
            return -errno.ENOENT
        if node.folder:
            return -errno.EISDIR
        to = info.contents
        if to.flags & os.O_ACCMODE != os.O_RDONLY:
            return -errno.EROFS
        to.direct_io = self.direct_io
        to.fh = self.native_server.open(key)
        self._learn(key)
        if self.native_server.lasting:
            # where this is False the kernel forgets the pages that it has of the file
            to.keep_cache = self.native_server.fresh(to.fh, key) if to.fh else self.native_server.document(key)
        elif not to.fh:
            to.fh = self.folder.stamp(key) & STAMP
        return 0

    @_answer
    def read(self, key: str, buf: Any, size: int, offset: int, info: Any) -> int:
        fh, to = info.contents.fh if info else 0, ctypes.cast(buf, ctypes.c_void_p).value or 0
        try:
            with self.gate.shared():
                with self.working:
                    got = self.native_server.read(fh, key, to, size, offset) if fh > STAMP else None
                return self._from_tree(key, to, size, offset, fh) if got is None else got
        except MemoryError:
            pass  # outside of this the exception, and with it what was got so far, is gone
        except SourceError as error:
            if error.errno != errno.ENOMEM:
                raise
        with self.gate.alone():  # one request after the other, with the memory that is given back
            self.folder.cache.clear()
            scratch.clear()
            self.native_server.collect()
            got = self.native_server.read(fh, key, to, size, offset) if fh > STAMP else None
            return self._from_tree(key, to, size, offset, fh) if got is None else got

    def _from_tree(self, key: str, to: int, size: int, offset: int, fh: int) -> int:
        """Read what no native source has: a document, or bytes that cannot be read, for which this
        raises the error that says why.
        """
        self._check(key, fh)
        node = self.folder.node(key)
        if node is None:
            return -errno.ENOENT
        expected = max(0, min(size, node.size - offset))
        if expected == 0:
            return 0
        with self.working:
            data = self.folder.get(key, offset, offset + expected)
        got = 0 if data is None else data.nbytes
        if data is None or got != expected:
            raise AssertionError(f"expected {expected:,} bytes, got {got:,}")
        self._check(key, fh)  # not only before: it may have been opened anew meanwhile
        ctypes.memmove(to, np.frombuffer(data, np.uint8).ctypes.data, got)
        return got

    def _check(self, key: str, fh: int) -> None:
        """Raises:
        SourceChangedError: the file was opened when its sources were others. All who have it open
            share the kernel's pages of it.
        """
        if fh > STAMP:
            self.native_server.check(fh, key)
        elif self.folder.stamp(key) & STAMP != fh:
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
        # fusepy's struct is shorter than the one that libfuse copies: give it memory beyond its end
        to = self.struct.from_buffer(bytearray(ctypes.sizeof(self.struct) + 256))
        plus = bool(flags & 1)  # FUSE_READDIR_PLUS: somebody will ask for the attributes too
        last = ((2 if plus else 0),) if self.three else ()  # FUSE_FILL_DIR_PLUS
        self._learn(key)
        for position, name, path in self._names(key, offset):
            node = self._listed(path)
            if node is None:
                continue
            ctypes.memset(ctypes.byref(to), 0, ctypes.sizeof(to))
            to.st_ino = inode(path)
            if plus and node is not UNKNOWN:
                self._met(path, node)
                self._describe(to, path, node)
            elif node is not UNKNOWN:
                to.st_mode = self._mode(path, node)
            if fill(buf, os.fsencode(name), to, position, *((0,) if node is UNKNOWN and last else last)):
                break  # full; the kernel asks again from the last position it got
        return 0

    def _listed(self, path: str) -> Node | None:
        """What an entry of a folder is. `UNKNOWN` if it went away since the folder was looked at: a
        name, and who asks for more gets the error.
        """
        try:
            return self.folder.node(path)
        except SourceError:
            return UNKNOWN

    def _names(self, key: str, offset: int) -> Iterator[tuple[int, str, str]]:
        """(offset of the next entry, name, path) of the entries of a folder from an offset on; "."
        and ".." are the first two.
        """
        if offset < 1:
            yield 1, ".", key
        if offset < 2:
            yield 2, "..", key.rpartition("/")[0]
        after = max(0, offset - 2)
        for position, name in enumerate(self.folder.children(key, after), after + 3):
            yield position, name, f"{key}/{name}" if key else name


def _operations(module: Any, init: Callable[[], None], destroy: Callable[[], None]) -> Any:
    """Which operations there are, for the library; what they do is in `FuseView`. The kernel never
    asks again for what is None.
    """

    def declared(self: Any, *args: Any) -> int:
        raise AssertionError("answered by View")

    def started(self: Any, path: str) -> None:
        init()

    def ended(self: Any, path: str) -> None:
        destroy()

    lean = (
        "getxattr",
        "listxattr",
        "setxattr",
        "removexattr",
        "flush",
        "fsync",
        "fsyncdir",
        "access",
        "opendir",
        "release",
        "releasedir",
        "ioctl",
    )
    answered = ("getattr", "open", "read", "readdir", "statfs")
    members = {
        **dict.fromkeys(lean),
        **dict.fromkeys(answered, declared),
        "init": started,
        "destroy": ended,
        "use_ns": True,
    }
    return type("Operations", (module.Operations,), members)()


def loop(view: FuseView, module: Any, point: str, init: Callable[[], None], ending: Ending) -> None:
    """Mount and answer until unmounted, or until `ending` says so.

    Raises:
        RuntimeError: the library's number for what went wrong.
    """
    listing = ["readdir_fuse_2", "readdir_fuse_3"] if hasattr(module, "fuse_version_major") else ["readdir"]
    answers = {
        "fgetattr": view.stat,
        "open": view.open,
        "read": view.read,
        "statfs": view.statfs,
        **dict.fromkeys(listing, view.readdir),
    }
    run = type("Loop", (module.FUSE,), {name: staticmethod(answer) for name, answer in answers.items()})
    options: dict[str, Any] = {
        "foreground": True,
        "debug": view.debug,
        "ro": True,
        "fsname": "vfs",
        "subtype": "vfs",
        "attr_timeout": view.folder.attr_timeout,
        "entry_timeout": view.folder.entry_timeout,
        "negative_timeout": view.folder.entry_timeout,  # zarr tools ask for absent names all the time
        "auto_cache": not view.native_server.lasting,  # else `FuseView.open` says what the kernel may keep
        "ac_attr_timeout": 0,
        "use_ino": True,
    }
    if view.askers:  # each asks for himself: what the kernel remembers of names and attributes it tells to all
        options |= {"allow_other": True, "attr_timeout": 0}
    plain = module.fuse_operations

    def start() -> None:
        view.remembered.begin()
        ending.begin()
        init()

    def end() -> None:
        view.remembered.end()
        ending.end()

    try:
        module.fuse_operations = _with(
            plain, view, Structs.of(module, ["direct_io"] * view.direct_io), ("read",) if view.askers else ()
        )
        run(_operations(module, start, end), point, **options)
    finally:
        module.fuse_operations = plain
        view.native_server.close()


def _with(plain: type[Any], view: FuseView, structs: Structs, some: Collection[str]) -> type[Any]:
    """The library's struct of operations, in which those of a view's native_server stand before
    what the library puts there: all, or only `some`.
    """
    native_server = view.native_server
    fast = {
        name: call for name, call in native_server.start(structs, *view.asking()).items() if not some or name in some
    }
    behind = []

    class Operations(plain):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            if name in fast:
                behind.append(value)
                native_server.behind(name, ctypes.cast(value, ctypes.c_void_p).value or 0)
                value = type(value)(fast[name])
            super().__setattr__(name, value)

    return Operations
