"""Compresses chunks, with the codecs of numcodecs, and says in both zarr formats how that was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.command_options import ExportOptions
from vfs.model.wording import option

DEFAULT = ExportOptions.codec
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_NAMES = ("zstd", "lz4", "lz4hc", "blosclz", "zlib")
_BLOCK = 1 << 20
"""Bytes that zstd of blosc compresses by themselves. Blosc would choose fewer: 128 KiB at level 3.

At level 3 with bitshuffle, counts of 16 bits were encoded at 1.5 and camera frames at 1.9 of the speed, to 0.97 and 0.8
of the size. Of 13 real sets none became larger (0.27 to 0.99 of the size); 12 were encoded at 0.95 to 1.7 of the speed,
one at 0.6, to 0.84 of the size; they were decoded at 0.9 to 1.8. lz4, blosclz and zlib gain nothing.
"""
_MAX_BLOSC_BYTES = (1 << 31) - (
    1 << 10
)  # bytes that blosc takes at once: https://github.com/Blosc/c-blosc, BLOSC_MAX_BUFFERSIZE


@dataclass(frozen=True)
class Codec:
    """Compresses the chunks of one array.

    Attributes:
        v3: the codec in the metadata of zarr v3: one object, or none.
        v2: the compressor in the metadata of zarr v2; None for none.
        encode: takes a contiguous array and returns bytes that stay as they are when the array is used again.
        most: bytes of a chunk that it takes.
    """

    v3: tuple[Mapping[str, Any], ...]
    v2: Mapping[str, Any] | None
    encode: Callable[[np.ndarray], bytes]
    most: int | None = None


def codec(spec: str, itemsize: int) -> Codec:
    """Make a codec for elements of `itemsize` bytes.

    Args:
        spec: "none"; "zstd" or "zstd:LEVEL", 1 to 22; "blosc", or "blosc:NAME:LEVEL:SHUFFLE" as far as it is given:
            NAME zstd, lz4, lz4hc, blosclz or zlib, LEVEL 0 to 9, SHUFFLE noshuffle, shuffle or bitshuffle.

    Raises:
        OptionError: it is none of these.
    """
    kind, *words = spec.split(":")
    if kind == "none" and not words:
        return Codec((), None, _plain)
    if kind == "zstd" and len(words) <= 1:
        return _zstd(_level(spec, words[0] if words else "3", 1, 22))
    if kind == "blosc" and len(words) <= 3:
        name, level, shuffle = [*words, *DEFAULT.split(":")[1 + len(words) :]]
        return _blosc(
            _one_of(spec, name, _NAMES), _level(spec, level, 0, 9), _one_of(spec, shuffle, _SHUFFLES), itemsize
        )
    raise OptionError(f"{option(codec=spec)}: expected none, zstd, zstd:LEVEL, blosc, or blosc:NAME:LEVEL:SHUFFLE")


def _plain(chunk: np.ndarray) -> bytes:
    return chunk.tobytes()


def _zstd(level: int) -> Codec:
    from numcodecs import Zstd

    made = Zstd(level)
    v3 = {"name": "zstd", "configuration": {"level": level, "checksum": False}}
    return Codec((v3,), {"id": "zstd", "level": level}, made.encode)  # tensorstore refuses "checksum"


def _blosc(name: str, level: int, shuffle: str, itemsize: int) -> Codec:
    from numcodecs import Blosc

    block = _BLOCK if name == "zstd" else 0  # as blosc chooses
    made = Blosc(name, level, _SHUFFLES.index(shuffle), block)
    how = {"typesize": itemsize, "cname": name, "clevel": level, "shuffle": shuffle, "blocksize": block}
    return Codec(({"name": "blosc", "configuration": how},), made.get_config(), made.encode, _MAX_BLOSC_BYTES)


def _level(spec: str, word: str, least: int, most: int) -> int:
    if word.isascii() and word.isdecimal() and least <= int(word[:9]) <= most:
        return int(word)
    raise OptionError(f"{option(codec=spec)}: expected a level from {least} to {most}, found {word!r}")


def _one_of(spec: str, word: str, known: Sequence[str]) -> str:
    if word in known:
        return word
    raise OptionError(f"{option(codec=spec)}: expected one of {', '.join(known)}, found {word!r}")
