"""The operations of a mount in one process, called as libfuse calls them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from vfs.contents.contents import Contents
from vfs.fuse.structs import Structs
from vfs.fuse.view import FuseView, library


class Direct:
    """The operations of a mount of a folder, without the mount. Counts what came to the
    interpreter: `slow`, and by operation in `behind`.
    """

    def __init__(self, folder: Contents) -> None:
        module = library()
        self.folder = folder
        self.view = FuseView(folder, module, False)
        self.view._interrupted = lambda: (
            0
        )  # libfuse has no request: asked of one, as a read of a second does, it crashes
        self.module = module
        assert self.view.native_tables
        self.native_tables = self.view.native_tables
        self.behind = dict.fromkeys(("read", "open", "getattr", "readdir"), 0)
        found = self.native_tables.start(Structs.of(module))
        info, stat = ctypes.POINTER(module.fuse_file_info), ctypes.POINTER(module.c_stat)
        self.fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, stat, ctypes.c_int64, ctypes.c_int)
        kinds = {
            "read": (self.view.read, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, info)),
            "open": (self.view.open, (info,)),
            "getattr": (self.view.stat, (stat, info)),
            "readdir": (self.view.readdir, (ctypes.c_void_p, self.fill, ctypes.c_int64, info, ctypes.c_int)),
        }
        self._kept, self.call = [], {}
        for name, (answer, arguments) in kinds.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, *arguments)

            def counted(path: bytes, *rest: Any, name: str = name, answer: Any = answer) -> int:
                self.behind[name] += 1
                if name == "read":
                    rest = (ctypes.c_void_p(rest[0]), *rest[1:])
                return answer(path, *rest)

            self._kept.append(kind(counted))
            self.native_tables.behind(name, ctypes.cast(self._kept[-1], ctypes.c_void_p).value or 0)
            self.call[name] = kind(found[name])

    @property
    def slow(self) -> int:
        return self.behind["read"]

    @slow.setter
    def slow(self, value: int) -> None:
        self.behind["read"] = value

    def open(self, path: str, flags: int = os.O_RDONLY) -> Any:
        info = self.module.fuse_file_info()
        info.flags = flags
        self._check(self.call["open"](b"/" + os.fsencode(path), ctypes.pointer(info)))
        return info

    def read(self, path: str, info: Any, size: int, offset: int) -> bytes:
        """Raises:
        OSError: what the caller of read(2) would get.
        """
        buffer = ctypes.create_string_buffer(size + 64)
        ctypes.memset(buffer, 0xA5, size + 64)
        got = self._check(
            self.call["read"](b"/" + os.fsencode(path), ctypes.addressof(buffer), size, offset, ctypes.pointer(info))
        )
        assert bytes(buffer[size:]) == b"\xa5" * 64  # nothing beyond what was asked for
        return bytes(buffer[:got])

    def stat(self, path: str) -> bytes:
        """The attributes of a path, as they lie in the struct."""
        found = self.module.c_stat()
        self._check(self.call["getattr"](b"/" + os.fsencode(path), ctypes.pointer(found), None))
        return bytes(found)

    def list(
        self, path: str, offset: int = 0, most: int = 1 << 30, flags: int = 1
    ) -> list[tuple[bytes, int, int, int, int]]:
        """(name, inode number, mode, size, offset of the next) of the entries of a folder."""
        found: list[tuple[bytes, int, int, int, int]] = []

        def fill(buffer: int, name: bytes, attributes: Any, at: int, flags: int) -> int:
            if len(found) == most:
                return 1
            to = attributes.contents
            found.append((name, to.st_ino, to.st_mode, to.st_size, at))
            return 0

        self._check(self.call["readdir"](b"/" + os.fsencode(path), None, self.fill(fill), offset, None, flags))
        return found

    @staticmethod
    def _check(status: int) -> int:
        if status < 0:
            raise OSError(-status, os.strerror(-status))
        return status


def every_path(folder: Contents, path: str = "") -> Iterator[str]:
    """All folders and files."""
    yield path
    for name in folder.at(path).children():
        below = f"{path}/{name}" if path else name
        node = folder.at(below).node()
        assert node
        if node.folder:
            yield from every_path(folder, below)
        else:
            yield below


def files_of(folder: Contents) -> list[str]:
    return [path for path in every_path(folder) if (node := folder.at(path).node()) and not node.folder]


def same_as_the_tree(direct: Direct, seed: int = 0, most: int = 40) -> None:
    """Whole files, and parts of any length from any place on."""
    rng = np.random.default_rng(seed)
    every = files_of(direct.folder)
    for path in rng.permutation(every)[:most].tolist() + [path for path in every if path.endswith(".npy")]:
        node = direct.folder.at(path).node()
        assert node
        whole = bytes(direct.folder.at(path).get() or b"")
        assert len(whole) == node.size
        info = direct.open(path)
        ranges = [(0, node.size), (0, node.size + 10), (node.size - 1, 5), (node.size, 5), (node.size + 7, 5)]
        ranges += [
            (int(a), int(n))
            for a, n in zip(rng.integers(0, node.size + 1, 12), rng.integers(1, 20_000, 12), strict=True)
        ]
        ranges += [(int(a) * 4096, 8192) for a in rng.integers(0, node.size // 4096 + 1, 4)]
        for start, size in ranges:
            assert direct.read(path, info, size, start) == whole[start : start + size], (path, start, size)
