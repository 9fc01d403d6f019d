"""How libfuse's structs are laid out, in the words of who reads and writes them without the library's Python module."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple


class Structs(NamedTuple):
    """How libfuse's structs are laid out: bytes from their start, and masks.

    Attributes:
        fh, flags: of fuse_file_info, the latter the word of 32 bits that holds `keep_cache`.
        keep_cache: its bit of that word; always: bits of the word that are set whenever a file is opened.
        stat: how long struct stat is; inode: where st_ino lies in it.
    """

    fh: int
    flags: int
    keep_cache: int
    always: int
    stat: int
    inode: int

    @classmethod
    def of(cls, module: Any, always: Sequence[str] = ()) -> Structs:
        """Those of a library (mfusepy or fusepy), with these bits of fuse_file_info always set."""
        bits = {}
        for name in ("keep_cache", *always):
            info = module.fuse_file_info()
            setattr(info, name, 1)
            [(at, byte)] = [(at, byte) for at, byte in enumerate(bytes(info)) if byte]
            bits[name] = at // 4 * 4, byte << at % 4 * 8
        stat = module.c_stat
        at, keep = bits.pop("keep_cache")
        return cls(module.fuse_file_info.fh.offset, at, keep, sum(bit for _, bit in bits.values()), ctypes.sizeof(stat), stat.st_ino.offset)
