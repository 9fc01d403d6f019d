"""Reads `.ebsp`, the patterns of electron backscatter diffraction of Oxford Instruments (AZtec, Channel 5).

There is no public specification; the facts come from the reader in kikuchipy, to whose authors Oxford Instruments gave
them, and from a file that it ships. All numbers are little endian::

    version, int64 | a byte (version 4 on) | table, int64 for each position of the map | pattern | pattern | …
    pattern: header | pixels | footer
    header: map_x, map_y (version 5 on) | compressed | rows | columns | bytes of the pixels, int32 each
    footer: beam_x, beam_y, float64 each (version 1);
            a byte, beam_x if it is 1, a byte, beam_y if it is 1 (version 2 on); nothing (version 0)

The version is stored negative; version 0 has none, and its table begins the file. The table says at which byte the
pattern of each position begins, in any order; 0 where it was not stored: such positions are blank. The table has no
length: the first pattern lies behind it. Pixels have 8 bits, or 16 where there are two bytes for each.

The file says no shape of the map. It follows from beam positions (µm) in the footers, if those of all patterns
that are looked at form one grid; else the positions are one axis. Beam positions are companions, and so are
`map_x` and `map_y`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import read_at
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, per_frame, scan_dims

_NEWEST = 64  # versions beyond this are numbers of another kind
_PIECE = 1 << 16  # entries of the table that are read at a time
_MOST_BLANK = 1 << 22  # entries without a pattern at the beginning of a table
_LOOK = 12  # patterns whose headers and beam positions are looked at
_MOST_SIDE = 1 << 16  # pixels
_NONE = np.zeros(0, "<i8")


def sniff(path: str, head: bytes, sources: Sources) -> bool:
    """Return True for a name that ends in .ebsp, or a version and a table that may be one."""
    if len(head) < 16:
        return False
    if path.lower().endswith(".ebsp"):
        return True
    version = -int.from_bytes(head[:8], "little", signed=True)
    if not 0 < version < _NEWEST:
        return False
    table = np.frombuffer(head[_table_start(version) :][:64].ljust(64, b"\0"), "<i8")
    return bool((table >= 0).all() and table.any() and (table < 1 << 48).all())


def _table_start(version: int) -> int:
    """Return the byte at which the table begins."""
    return 0 if version == 0 else 8 if version < 4 else 9


def _header_dtype(version: int) -> np.dtype:
    names = ["compressed", "rows", "columns", "nbytes"]
    return np.dtype([(name, "<i4") for name in ([*names] if version < 5 else ["map_x", "map_y", *names])])


class _Footer(NamedTuple):
    """Where the beam positions lie behind the pixels.

    Attributes:
        size: bytes of the footer.
        places: "beam_x" and "beam_y" -> byte of the footer, where the position is stored.
    """

    size: int
    places: dict[str, int]


def _footer(sources: Sources, path: str, version: int, at: int) -> _Footer:
    """Read how a footer is made: from version 2 on, a byte in front of each position says whether it is stored."""
    if version < 2:
        return _Footer(16 * version, {"beam_x": 0, "beam_y": 8} if version else {})
    places, size = {}, 0
    for name in ("beam_x", "beam_y"):
        said = read_at(sources, path, 1, at + size)[0]
        if said > 1:
            raise FormatError(f"{path}: expected 0 or 1 in front of {name} at byte {at + size:,}, found {said}")
        if said:
            places[name] = size + 1
        size += 1 + 8 * said
    return _Footer(size, places)


def _table(sources: Sources, path: str, size: int, start: int) -> np.ndarray:
    """Read the table: int64[n], the byte of each pattern, 0 where there is none.

    It ends where the first pattern in the file begins.

    Raises:
        FormatError: there is no such table.
    """
    found: list[np.ndarray] = []
    first, done = size, 0
    while True:
        at = start + 8 * done
        piece = (
            np.frombuffer(read_at(sources, path, min(8 * _PIECE, (size - at) // 8 * 8), at), "<i8")
            if size >= at + 8
            else _NONE
        )
        if not len(piece) or (first == size and done > _MOST_BLANK):
            raise FormatError(f"{path}: expected a table of the places of patterns from byte {start} on, found none")
        # The table ends before the first pattern that its entries name
        firsts = np.minimum.accumulate(np.where(piece > 0, piece, size).clip(max=first))
        ends = np.flatnonzero(at + 8 * np.arange(1, len(piece) + 1) >= firsts)
        found.append(piece[: int(ends[0]) + 1] if len(ends) else piece)
        if len(ends):
            break
        first, done = int(firsts[-1]), done + len(piece)
    table = np.concatenate(found)
    end_of_table = start + 8 * len(table)
    if not table.any():
        raise FormatError(f"{path}: expected a table of the places of patterns from byte {start} on, found none")
    wrong = np.flatnonzero((table < 0) | ((table > 0) & (table < end_of_table)))
    if len(wrong) or int(table[table > 0].min()) != end_of_table:
        place = int(table[wrong[0]]) if len(wrong) else int(table[table > 0].min())
        raise FormatError(
            f"{path}: expected a table of the places of patterns from byte {start} to the first pattern, found the"
            f" place {place:,} in a table that ends at byte {end_of_table:,}"
        )
    return table


class _Pattern(NamedTuple):
    """What patterns look like.

    Attributes:
        shape: (rows, columns).
        dtype: of the pixels.
        header: bytes in front of the pixels.
        footer: what is behind them.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    header: int
    footer: _Footer

    @property
    def pixels(self) -> int:
        """Bytes of the pixels."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def record(self) -> int:
        """Bytes of a pattern with header and footer."""
        return self.header + self.pixels + self.footer.size


def _read_header(sources: Sources, path: str, version: int, at: int) -> np.void:
    dtype = _header_dtype(version)
    found: np.void = np.frombuffer(read_at(sources, path, dtype.itemsize, at), dtype)[0]
    return found


def _pattern(sources: Sources, path: str, version: int, at: int) -> _Pattern:
    """Read what the pattern at a byte looks like.

    Raises:
        FormatError: it is compressed, or the header is garbled.
    """
    header = _read_header(sources, path, version, at)
    rows, columns, nbytes = (int(header[name]) for name in ("rows", "columns", "nbytes"))
    if header["compressed"] == 1:
        raise FormatError(
            f"{path}: its patterns are compressed in a way that nobody published; export them from AZtec as .h5oina, or"
            " uncompressed"
        )
    fits = 0 < rows <= _MOST_SIDE and 0 < columns <= _MOST_SIDE and nbytes in (rows * columns, 2 * rows * columns)
    if header["compressed"] or not fits:
        raise FormatError(
            f"{path}: expected a pattern of 8 or 16 bits a pixel at byte {at:,}, its header says {rows:,} × {columns:,}"
            f" pixels in {nbytes:,} bytes"
        )
    dtype = np.dtype("u1" if nbytes == rows * columns else "<u2")
    return _Pattern(
        (rows, columns), dtype, header.itemsize, _footer(sources, path, version, at + header.itemsize + nbytes)
    )


def _spread(count: int) -> np.ndarray:
    """Return numbers from 0 to count - 1, the first two and the last one among them, few and far apart."""
    return np.unique(np.append(np.linspace(0, count - 1, _LOOK).astype(np.int64), min(1, count - 1)))


def _same_size(sources: Sources, path: str, version: int, pattern: _Pattern, places: np.ndarray) -> None:
    """Check that some patterns have the size of the first one.

    Raises:
        FormatError: one has another size.
    """
    for at in places[_spread(len(places))].tolist():
        header = _read_header(sources, path, version, at)
        found = (int(header["rows"]), int(header["columns"])), int(header["nbytes"])
        if found != (pattern.shape, pattern.pixels):
            raise FormatError(
                f"{path}: expected patterns of {pattern.shape[0]} × {pattern.shape[1]} pixels ({pattern.pixels:,}"
                f" bytes) as the first one, the one at byte {at:,} has {found[0][0]:,} × {found[0][1]:,} ({found[1]:,})"
            )


def _beams(sources: Sources, path: str, pattern: _Pattern, places: np.ndarray) -> np.ndarray:
    """Read the beam positions of patterns at these bytes: float64[n, 2], (x, y) in µm."""
    behind = pattern.header + pattern.pixels
    read = [
        read_at(sources, path, 8, at + behind + pattern.footer.places[name])
        for at in places.tolist()
        for name in ("beam_x", "beam_y")
    ]
    return np.frombuffer(b"".join(read), "<f8").reshape(-1, 2)


def _scan(
    sources: Sources, path: str, pattern: _Pattern, table: np.ndarray, present: np.ndarray
) -> tuple[tuple[int, ...], float]:
    """Find the shape of the map from beam positions, for a map whose rows are as far apart as its columns.

    Args:
        table: int64[n], the place of the pattern of each position of the map.
        present: int64[m], the positions that have one.

    Returns: (shape, step in µm); the positions are one axis, and the step is 0, if patterns do not lie in one grid.
    """
    flat = (len(table),), 0.0
    beside = np.flatnonzero(np.diff(present) == 1)
    if len(pattern.footer.places) < 2 or not len(beside):
        return flat
    pairs = present[beside[_spread(len(beside))]]
    looked = np.unique(np.concatenate([pairs, pairs + 1, present[_spread(len(present))]]))
    x, y = (_beams(sources, path, pattern, table[looked])).T
    # Neighbours in the file's order are neighbours in a row, but for the ends of rows
    steps = np.diff(x)[(np.diff(looked) == 1) & (np.diff(y) == 0)]
    step = float(np.median(steps)) if len(steps) else 0.0
    if not 1e-9 < abs(step) < 1e9 or not np.isfinite([x, y]).all():
        return flat
    column, row = (x - x[0]) / step, np.abs(y - y[0]) / abs(step)
    across = round((looked[-1] - looked[0] - column[-1]) / row[-1]) if row[-1] > 0.5 else len(table)
    if not 0 < across <= len(table) or len(table) % across:
        return flat
    rows, columns = np.divmod(looked, across)
    if not np.allclose([row, column], [rows - rows[0], columns - columns[0]], rtol=1e-6, atol=0.3):
        return flat
    return (across,) if across == len(table) else (len(table) // across, across), abs(step)


def _layout(table: np.ndarray, present: np.ndarray, pattern: _Pattern) -> FrameLayout:
    """Lay out the patterns as frames of one axis. Those that follow one another in map and file are one entry."""
    places = table[present]
    begin = np.flatnonzero((np.diff(present, prepend=-2) != 1) | (np.diff(places, prepend=0) != pattern.record))
    counts = np.diff(np.append(begin, len(present)))
    return FrameLayout.of(
        pattern.shape,
        counts,
        word_bytes=pattern.dtype.itemsize,
        file_header=places[begin],
        frame_header=pattern.header,
        frame_footer=pattern.footer.size,
        first=present[begin],
        files=np.zeros(len(begin), np.int64),
    )


def _absent(path: str, table: np.ndarray, cut: int) -> tuple[Absence, ...]:
    """Report positions of the map without a pattern.

    Args:
        cut: number of patterns that begin, but end behind the end of the file.
    """
    holes = int((table == 0).sum())
    found = []
    if cut:
        said = f"{path}: {cut:,} of {len(table) - holes:,} patterns end behind the end of the file; it looks truncated"
        lost = {"frames_missing": cut}
        found.append(Absence(said, TruncatedSourceError, "shows them as blank", lost, to_come=True))
    stored = table[table > 0]
    if again := len(stored) - len(np.unique(stored)):
        said = f"{path}: {again:,} of {len(table):,} positions of the map show the same pattern as another one"
        found.append(Absence(said))
    if holes:
        said = f"{path}: {holes:,} of {len(table):,} positions of the map have no pattern in the file; they are blank"
        found.append(Absence(said, counts={"frames_missing": holes}))
    return tuple(found)


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open an .ebsp file.

    Raises:
        FormatError: it is garbled, or its patterns are compressed or have several sizes.
        OptionError: several files are named.
        TruncatedSourceError: the file does not hold a whole pattern.
    """
    if len(paths) > 1:
        raise OptionError(f"{paths[1]}: an .ebsp file is a set of its own; open one at a time")
    files = Files.stat(sources, paths)
    path, size = files.paths[0], int(files.sizes[0])
    version = max(0, -int.from_bytes(read_at(sources, path, 8), "little", signed=True))
    if version >= _NEWEST:
        raise FormatError(f"{path}: expected a version from 0 to 6 or a little later, found {version:,}")
    table = _table(sources, path, size, _table_start(version))
    pattern = _pattern(sources, path, version, int(table[table > 0].min()))
    kept = (table > 0) & (table <= size - pattern.record)
    present = np.flatnonzero(kept)
    if not len(present):
        raise TruncatedSourceError(
            f"{path}: expected patterns of {pattern.record:,} bytes from byte {int(table[table > 0].min()):,} on, the"
            f" file has {size:,} bytes; it looks truncated"
        )
    _same_size(sources, path, version, pattern, table[present])
    nav, step = _scan(sources, path, pattern, table, present)
    dims = (*scan_dims(["um"] * len(nav) if step else [""] * len(nav)), "y", "x")
    attrs: dict[str, Any] = {"version": version, "stored_patterns": len(present)}
    if step:
        attrs["calibration"] = {dim: {"scale": step, "offset": 0.0, "unit": "um"} for dim in dims[:-2]}
    main = StoredArray(
        "data",
        files,
        _layout(table, present, pattern).arranged(nav),
        PlainDecoder(pattern.dtype),
        nav + pattern.shape,
        dims,
        len(nav),
        attrs=attrs,
        absent=_absent(path, table, int((table > 0).sum()) - len(present)),
        declared=len(table) if (table > 0).all() else None,
    )
    behind = pattern.header + pattern.pixels
    beams = [
        per_frame(main, name, "<f8", behind + at, attrs={"unit": "um"}) for name, at in pattern.footer.places.items()
    ]
    maps = [per_frame(main, name, "<i4", at) for name, at in (("map_x", 0), ("map_y", 4))] if version > 4 else []
    return [main, *beams, *maps]


FORMAT = Format(
    "ebsp",
    (".ebsp",),
    "https://kikuchipy.org",
    "Oxford Instruments' patterns of electron backscatter diffraction (AZtec), not compressed",
    sniff,
    open,
)
