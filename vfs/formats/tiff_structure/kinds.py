"""Says how pages store their pixels: `Kind`.

A page is one directory: a list of tags. Most tags say *how* pixels are stored; pages that agree in
all of these are of one `Kind`. tifffile interprets a kind once, even if many pages have it. It gets a
tiny TIFF in memory that holds only these tags, so that nothing else in a garbled file can mislead
it. The other tags say *where* the pixels are; `vfs.formats.tiff_structure.pages` reads them.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from vfs.errors import DependencyError, extra
from vfs.formats.tiff_structure.headers import BYTES, COMPRESSION, EER, UNSIGNED, Order, quiet, tifffile
from vfs.model.wording import option

# Tags that say how pixels are stored. Of the scalars, only the first number counts
_SCALARS = {256, 257, 259, 262, 266, 274, 277, 278, 284, 292, 317, 322, 323, 32997, 32998}
_LISTS = {258, 338, 339, 347, 530}
HOW = _SCALARS | _LISTS
_JPEG_TABLES = 347
_ORIENTATION = 274
_SIDES = (
    "top left",
    "top right",
    "bottom right",
    "bottom left",
    "left top",
    "right top",
    "right bottom",
    "left bottom",
)
"""Where the first row and the first column are, by the values of Orientation from 1 on."""
_STRIPS, _STRIP_SIZES = 273, 279


@dataclass(frozen=True, eq=False)
class Kind:
    """Describes how pages store their pixels.

    Attributes:
        header: a tiny TIFF with the same tags and without pixels. tifffile makes the decoding
            function from it.
        order: byte order of the file, "<" or ">".
        shaped: shape of a page: (separate samples, depth, length, width, samples in a pixel).
        segment: shape of a strip or tile: (depth, length, width, samples in a pixel).
        tiled: True for tiles, which are stored whole at the edges, False for strips.
        plain: True if pixels are plain numbers of dtype `stored`.
        stored: dtype in the file.
        dtype: dtype of decoded pixels (1-bit pixels become uint8).
        signed: False if the file does not tell if numbers are signed (it has no SampleFormat).
        facts: compression and similar properties, for people.
    """

    header: bytes
    order: Order
    shaped: tuple[int, int, int, int, int]
    segment: tuple[int, int, int, int]
    tiled: bool
    plain: bool
    stored: np.dtype
    dtype: np.dtype
    signed: bool
    facts: dict[str, Any]

    @property
    def axes(self) -> str:
        """The axes of a page as letters: S, Z, Y, X, S; S and Z only if longer than 1.

        The first S stands for separate samples, the last one for samples in a pixel.
        """
        return "".join(letter for letter, n in zip("SZYXS", self.shaped, strict=True) if letter in "YX" or n > 1)

    @property
    def shown(self) -> tuple[int, ...]:
        """The positions of `axes` among the five axes of `shaped`."""
        return tuple(k for k, n in enumerate(self.shaped) if k in (2, 3) or n > 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a page, along `axes`."""
        return tuple(self.shaped[k] for k in self.shown)

    @property
    def nbytes(self) -> int:
        """The number of bytes of a decoded page."""
        return math.prod(self.shaped) * self.dtype.itemsize

    @property
    def compressed(self) -> bool:
        """True if byte counts do not follow from shapes."""
        return bool(self.facts["compression"] != "none")

    @property
    def whole_page(self) -> bool:
        """True if one strip or tile is the whole page (or each of its separate samples)."""
        return self.segment == self.shaped[1:]

    def segment_bytes(self) -> np.ndarray:
        """Return the bytes of every segment as stored, for plain pages: int64[n]."""
        _, size = self.segments()
        each = np.full(len(size), math.prod(self.segment), np.int64) if self.tiled else size.prod(axis=1)
        return np.asarray(each * self.stored.itemsize)

    def in_one_piece(self, offsets: np.ndarray, sizes: np.ndarray) -> bool:
        """Return True if each page can be read as one piece: segments in order, without gaps.

        Args:
            offsets, sizes: int64[p, n] bytes, of the segments of every page.
        """
        depth, length, width, _ = self.segment
        if self.tiled and not self.whole_page and (depth > 1 or width != self.shaped[3] or self.shaped[2] % length):
            return False
        return bool((sizes > 0).all() and (offsets[:, 1:] == offsets[:, :-1] + sizes[:, :-1]).all())

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """The number of segments of a page along separate samples, depth, length and width."""
        s, *rest, _ = self.shaped
        z, y, x = (-(-n // m) for n, m in zip(rest, self.segment[:3], strict=True))
        return s, z, y, x

    def segments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return origin and shape of every segment within `shaped`, in stored order: int64[n, 5] each.

        Shapes end at the page's edge.
        """
        at = np.indices(self.grid).reshape(4, -1).T * np.array((1, *self.segment[:3]))
        origin = np.concatenate([at, np.zeros((len(at), 1), np.int64)], axis=1)
        size = np.minimum(np.array((1, *self.segment)), np.array(self.shaped) - origin)
        return origin, size

    @property
    def frame(self) -> tuple[int, int, int, int, str, bool]:
        """What pages of one array have in common: (depth, length, width, samples, dtype, True for masks).

        Compression, byte order, strips or tiles, and the order of samples may differ.
        """
        separate, depth, length, width, chunky = self.shaped
        mask = bool(self.facts["photometric"] == "mask")  # of 1 bit, for the page before: no frame of a stack
        return depth, length, width, separate * chunky, self.stored.newbyteorder("=").str, mask

    def same(self, other: Kind) -> bool:
        """Return True if pages of both kinds can stand in one array."""
        return self is other or self.frame == other.frame

    def __str__(self) -> str:
        """Return words for a message: "uint16[8, 9]"."""
        return f"{self.stored.newbyteorder('=')}{list(self.shape)}" + (" (a mask)" if self.frame[-1] else "")


@dataclass(frozen=True, eq=False)
class Unreadable:
    """Describes pages that cannot be read.

    Attributes:
        why: words for a message.
        like: the kind that they would have without compression; None if that is not known.
    """

    why: str
    like: Kind | None = None

    def __str__(self) -> str:
        return self.why


def storage_value(order: str, tag: int, kind: int, raw: bytes) -> tuple[int, ...] | bytes | str:
    """Parse the bytes of a tag about storage. Returns its value, or a text about the error in it."""
    if tag == _JPEG_TABLES and raw:
        return raw
    if kind not in UNSIGNED or not raw:
        return f"tag {tag} holds no whole numbers, or too many"
    values = struct.unpack(f"{order}{len(raw) // BYTES[kind]}{UNSIGNED[kind]}", raw)
    return values[:1] if tag in _SCALARS else values


def _tiny(order: str, tags: dict[int, tuple[int, ...] | bytes]) -> bytes:
    """Build a TIFF file of one page with these tags and no pixels."""
    full = {_STRIPS: (8,), _STRIP_SIZES: (1,), **tags}
    base = 8 + 2 + 12 * len(full) + 4
    entries, extra = b"", b""
    for tag, value in sorted(full.items()):
        data = value if isinstance(value, bytes) else struct.pack(f"{order}{len(value)}I", *value)
        where = data.ljust(4, b"\0") if len(data) <= 4 else struct.pack(order + "I", base + len(extra))
        extra += data if len(data) > 4 else b""
        entries += struct.pack(order + "HHI", tag, 7 if isinstance(value, bytes) else 4, len(value)) + where
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return head + struct.pack(order + "H", len(full)) + entries + bytes(4) + extra


@lru_cache(maxsize=1024)
def tiny_page(header: bytes) -> Any:
    """Return tifffile's page of a tiny TIFF, with its decoding function made."""
    with quiet():
        page = tifffile().TiffFile(io.BytesIO(header)).pages.first
        page.decode  # noqa: B018  makes the function now, since its first use is not safe in several threads
    return page


def lower_name(value: Any) -> str:
    return str(getattr(value, "name", value)).lower()


_PREDICTOR = 317
_EVENTS = "electron events of a Falcon camera (compression {}) are no pixels; {} counts them into frames"


def make_kind(order: Order, tags: Mapping[int, tuple[int, ...] | bytes | str]) -> Kind | Unreadable:
    """Return the kind of pages with these tags about storage."""
    made = _kind(order, tags)
    if isinstance(made, Kind):
        return made
    number = tags.get(COMPRESSION, (1,))
    if number == (1,):
        return Unreadable(made)
    bare = _kind(order, {**tags, COMPRESSION: (1,), _PREDICTOR: (1,)})
    why = _EVENTS.format(number[0], option(format="eer")) if number[0] in EER else made
    return Unreadable(why, bare if isinstance(bare, Kind) else None)


def _kind(order: Order, tags: Mapping[int, tuple[int, ...] | bytes | str]) -> Kind | str:
    """Return the kind of pages, or a text that says why they cannot be read."""
    good: dict[int, tuple[int, ...] | bytes] = {}
    for tag, value in tags.items():
        if isinstance(value, str):
            return value
        if isinstance(value, tuple) and max(value) >= 1 << 32:
            return "its sizes are absurd"
        good[tag] = value
    header = _tiny(order, good)
    try:
        page = tiny_page(header)
        shaped = tuple(int(n) for n in page.shaped)
        if 0 in shaped or not shaped:
            return "it has no pixels"
        if page.dtype is None:
            return f"samples of {page.bitspersample} bits, sample format {int(page.sampleformat)}, are not known"
        if not isinstance(page.bitspersample, int) or page.compression != 1 or page.bitspersample % 8:
            import imagecodecs  # noqa: F401
        with quiet():
            page.decode(None, 0)  # raises for what tifffile does not support
        segment = page.tiledepth, page.tilelength, page.tilewidth, shaped[4]
        if not page.is_tiled:
            segment = 1, page.rowsperstrip, page.imagewidth, shaped[4]
        if min(segment) < 1:
            return f"its strips or tiles have shape {segment}"
        dtype = np.dtype(page.dtype).newbyteorder("=")
    except (DependencyError, MemoryError):
        raise
    except ImportError:
        raise DependencyError(f"reading compressed TIFF needs imagecodecs: {extra('tiff')}") from None
    except Exception as error:
        return " ".join(str(error).split())[:200] or type(error).__name__
    shown = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    if math.prod(shaped) * dtype.itemsize >= 1 << 60:
        return f"its size, {'×'.join(str(n) for n in shaped)}, is absurd"
    stored = dtype.newbyteorder(order)
    return Kind(
        header,
        order,
        shaped,  # type: ignore[arg-type]
        segment,
        bool(page.is_tiled),
        _is_plain(page, dtype),
        stored,
        shown,
        339 in tags,
        _facts(page, segment, tags.get(_ORIENTATION)),
    )


def _is_plain(page: Any, dtype: np.dtype) -> bool:
    """Return True if the segments of a page (of tifffile) are its elements as they are, of a dtype."""
    number = (
        page.compression == 1
        and page.predictor == 1
        and page.fillorder == 1
        and page.sampleformat != 5
        and not page.is_subsampled
    )
    bits = page.bitspersample
    return bool(number and isinstance(bits, int) and bits == dtype.itemsize * 8 and dtype.kind in "iufc")


def _facts(page: Any, segment: tuple[int, ...], orientation: object) -> dict[str, Any]:
    """Return how a page (of tifffile) is stored, for the attributes. Pixels are not turned: where the first row is not
    at the top, or the first column not at the left, `orientation` says so.
    """
    bits = page.bitspersample
    first = orientation[0] if isinstance(orientation, tuple) else 1
    turned = {"orientation": _SIDES[first - 1]} if 1 < first <= len(_SIDES) else {}
    return turned | {
        "compression": "none" if page.compression == 1 else lower_name(page.compression),
        "predictor": int(page.predictor),
        "photometric": lower_name(page.photometric),
        "bits_per_sample": list(bits) if isinstance(bits, tuple) else int(bits),
        "segment": ("tiles " if page.is_tiled else "strips ") + "×".join(str(n) for n in segment),
    }
