"""Finds the layout of libfuse's structs on this machine, for native code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple


class Structs(NamedTuple):
    """Holds the layout of libfuse's structs.

    Attributes:
        fh, flags: offsets in fuse_file_info, bytes; `flags` is the word of 32 bits that holds
            `keep_cache`.
        keep_cache: the bit of `keep_cache` in that word.
        always: bits of the word that are set whenever a file is opened.
        stat: size of struct stat, bytes.
        inode: offset of st_ino in struct stat, bytes.
    """

    fh: int
    flags: int
    keep_cache: int
    always: int
    stat: int
    inode: int

    @classmethod
    def of(cls, module: Any, always: Sequence[str] = ()) -> Structs:
        """Read the layout from a Python library for libfuse (mfusepy or fusepy).

        Args:
            always: names of the bits of fuse_file_info that are set whenever a file is opened.
        """
        bits = {}
        for name in ("keep_cache", *always):
            info = module.fuse_file_info()
            setattr(info, name, 1)
            [(at, byte)] = [(at, byte) for at, byte in enumerate(bytes(info)) if byte]
            bits[name] = at // 4 * 4, byte << at % 4 * 8
        stat = module.c_stat
        at, keep = bits.pop("keep_cache")
        return cls(
            module.fuse_file_info.fh.offset,
            at,
            keep,
            sum(bit for _, bit in bits.values()),
            ctypes.sizeof(stat),
            stat.st_ino.offset,
        )
