"""Runs libfuse with the operations of a view (`vfs.fuse.view`), until the mount ends."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection
from typing import Any

from vfs.fuse.ending import Ending
from vfs.fuse.structs import Structs
from vfs.fuse.view import FuseView


def _operations(module: Any, init: Callable[[], None], destroy: Callable[[], None]) -> Any:
    """Return an object that tells the library which operations exist; `FuseView` implements them.

    The kernel asks only once for an operation that is None.
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
        "release",
        "releasedir",
        "ioctl",
    )
    answered = ("getattr", "open", "opendir", "read", "readdir", "statfs")
    members = {
        **dict.fromkeys(lean),
        **dict.fromkeys(answered, declared),
        "init": started,
        "destroy": ended,
        "use_ns": True,
    }
    return type("Operations", (module.Operations,), members)()


def loop(view: FuseView, module: Any, point: str, init: Callable[[], None], ending: Ending) -> None:
    """Mount, and answer requests until the mount ends or `ending` ends it.

    Raises:
        RuntimeError: with the library's number for the error.
    """
    listing = ["readdir_fuse_2", "readdir_fuse_3"] if hasattr(module, "fuse_version_major") else ["readdir"]
    answers = {
        "fgetattr": view.stat,
        "open": view.open,
        "opendir": view.opendir,
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
        "negative_timeout": view.folder.entry_timeout,  # zarr clients often ask for absent names
        "auto_cache": not view.native_tables.lasting,  # else `FuseView.open` tells if the kernel keeps its pages
        "ac_attr_timeout": 0,
        "use_ino": True,
    }
    if view.askers:  # the kernel must not cache names and attributes, which it would tell to all users
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
        view.native_tables.close()


def _with(plain: type[Any], view: FuseView, structs: Structs, some: Collection[str]) -> type[Any]:
    """Return a subclass of the library's struct of operations that uses the native operations of a view.

    The native operations, all or only `some`, replace those that the library puts there, and pass
    on to these the requests that they cannot answer.
    """
    native_tables = view.native_tables
    fast = {
        name: call
        for name, call in native_tables.start(structs, *view.native_hooks()).items()
        if not some or name in some
    }
    behind = []

    class Operations(plain):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            if name in fast:
                behind.append(value)
                native_tables.behind(name, ctypes.cast(value, ctypes.c_void_p).value or 0)
                value = type(value)(fast[name])
            super().__setattr__(name, value)

    return Operations
