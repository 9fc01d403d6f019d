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

The file says no shape of the map. It follows from `map_x` and `map_y` (column and row, version 5 on) or from beam
positions (µm) in the footers, if those of all patterns that are looked at form one grid, which may be turned; else the
positions are one axis. Beam positions are companions, and so are `map_x` and `map_y`. From version 2 on, each pattern
has beam positions or not; where it has none they are blank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import read_at
from vfs.formats.recorded import without_records
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, per_frame, scan_dims
from vfs.model.written import Written

_NEWEST = 64  # versions beyond this are numbers of another kind
_PIECE = 1 << 16  # entries of the table that are read at a time
_MAX_BLANK = 1 << 22  # entries without a pattern at the beginning of a table
_LOOK = 12  # patterns whose headers and beam positions are looked at
_MAX_FOOTERS = 1 << 16  # footers that are read: those whose length does not tell what is in them
_MAX_ROWS_LEFT_OUT = 64  # after the first row, where only the beam tells how long it is
_FAR = 1e12  # µm: no beam goes there
_OFF = 0.3  # steps by which a position may miss its place in the grid
_MAX_SIDE = 1 << 16  # pixels
_NONE = np.zeros(0, "<i8")


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for a name that ends in .ebsp, or a version and a table that may be one."""
    if len(first_bytes) < 16:
        return False
    if path.lower().endswith((".ebsp", ".uebsp")):
        return True
    version = -int.from_bytes(first_bytes[:8], "little", signed=True)
    if not 0 < version < _NEWEST:
        return False
    table = np.frombuffer(first_bytes[_table_start(version) :][:64].ljust(64, b"\0"), "<i8")
    return bool((table >= 0).all() and table.any() and (table < 1 << 48).all())


def _table_start(version: int) -> int:
    """Return the byte at which the table begins."""
    return 0 if version == 0 else 8 if version < 4 else 9


def _header_dtype(version: int) -> np.dtype:
    names = ["compressed", "rows", "columns", "nbytes"]
    return np.dtype([(name, "<i4") for name in ([*names] if version < 5 else ["map_x", "map_y", *names])])


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
        if not len(piece) or (first == size and done > _MAX_BLANK):
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
        version: of the file.
        shape: (rows, columns).
        dtype: of the pixels.
        header: bytes in front of the pixels.
    """

    version: int
    shape: tuple[int, int]
    dtype: np.dtype
    header: int

    @property
    def pixels(self) -> int:
        """Bytes of the pixels."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def behind(self) -> int:
        """Bytes in front of the footer."""
        return self.header + self.pixels

    def footer(self, held: np.ndarray) -> np.ndarray:
        """Return the bytes of footers, int64[n], with these beam positions, bool[n, 2]."""
        nbytes: np.ndarray = 8 * held.sum(axis=1) + (2 if self.version > 1 else 0)
        return nbytes


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
    fits = 0 < rows <= _MAX_SIDE and 0 < columns <= _MAX_SIDE and nbytes in (rows * columns, 2 * rows * columns)
    if header["compressed"] or not fits:
        raise FormatError(
            f"{path}: expected a pattern of 8 or 16 bits a pixel at byte {at:,}, its header says {rows:,} × {columns:,}"
            f" pixels in {nbytes:,} bytes"
        )
    dtype = np.dtype("u1" if nbytes == rows * columns else "<u2")
    return _Pattern(version, (rows, columns), dtype, header.itemsize)


def _spread(count: int) -> np.ndarray:
    """Return numbers from 0 to count - 1, the first two and the last one among them, few and far apart."""
    return np.unique(np.append(np.linspace(0, count - 1, _LOOK).astype(np.int64), min(1, count - 1)))


def _same_size(sources: Sources, path: str, pattern: _Pattern, places: np.ndarray) -> None:
    """Check that some patterns have the size of the first one.

    Raises:
        FormatError: one has another size.
    """
    for at in places[_spread(len(places))].tolist():
        header = _read_header(sources, path, pattern.version, at)
        found = (int(header["rows"]), int(header["columns"])), int(header["nbytes"])
        if found != (pattern.shape, pattern.pixels):
            raise FormatError(
                f"{path}: expected patterns of {pattern.shape[0]} × {pattern.shape[1]} pixels ({pattern.pixels:,}"
                f" bytes) as the first one, the one at byte {at:,} has {found[0][0]:,} × {found[0][1]:,} ({found[1]:,})"
            )


def _beams_held(sources: Sources, path: str, pattern: _Pattern, places: np.ndarray) -> np.ndarray:
    """Find out which patterns have beam positions: from version 2 on, a byte in front of each says so.

    Where the next pattern in the file begins tells how long a footer is; few of these bytes are read.

    Args:
        places: int64[n], the byte of each pattern.

    Returns: bool[n, 2], beam_x and beam_y; False also where too many of these bytes would have to be read.

    Raises:
        FormatError: a byte in front of a position has another value.
    """
    if pattern.version < 2 or not len(places):
        return np.full((len(places), 2), pattern.version == 1)
    each, back = np.unique(places, return_inverse=True)
    footer = np.append(np.diff(each), 0) - pattern.behind  # that of the last one is not known
    held = np.repeat((footer == 18)[:, None], 2, axis=1)
    looked = np.union1d(np.flatnonzero((footer != 2) & (footer != 18))[-_MAX_FOOTERS:], _spread(len(each)))
    for k in looked.tolist():
        at = int(each[k]) + pattern.behind
        for n, name in enumerate(("beam_x", "beam_y")):
            said = (sources.read(path, at, 1) or b"\0")[0]
            if said > 1:
                raise FormatError(f"{path}: expected 0 or 1 in front of {name} at byte {at:,}, found {said}")
            held[k, n], at = said, at + 1 + 8 * said
    return np.take(held, back.reshape(-1), axis=0)


def _beam_places(pattern: _Pattern, table: np.ndarray, present: np.ndarray, held: np.ndarray) -> list[np.ndarray]:
    """Return where beam_x and beam_y are: int64 like the table each, 0 where a pattern has none."""
    mark = 1 if pattern.version > 1 else 0  # bytes in front of each
    begins = pattern.behind + np.stack([np.full(len(held), mark), 2 * mark + 8 * held[:, 0]])
    found = []
    for begin, has in zip(begins, held.T, strict=True):
        made = np.zeros_like(table)
        made[present[has]] = (table[present] + begin)[has]
        found.append(made)
    return found


def _beams(sources: Sources, path: str, places: Sequence[np.ndarray], positions: np.ndarray) -> np.ndarray:
    """Read the beam at positions of the map that have it: float64[n, 2], (x, y) in µm."""
    read = [read_at(sources, path, 8, at) for at in np.stack(places)[:, positions].T.reshape(-1).tolist()]
    return np.frombuffer(b"".join(read), "<f8").reshape(-1, 2)


def _scan(
    sources: Sources,
    path: str,
    pattern: _Pattern,
    table: np.ndarray,
    present: np.ndarray,
    places: Sequence[np.ndarray],
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Find the shape of the map, and its steps.

    Args:
        table: int64[n], the place of the pattern of each position of the map.
        present: int64[m], the positions that have one.
        places: of beam_x and beam_y, see `_beam_places`.

    Returns: (shape, steps in µm along its axes; none where the beam is not known). The positions are one axis if
    patterns do not lie in one grid.
    """
    known = present[(np.stack(places)[:, present] > 0).all(axis=0)]  # positions at which the beam is known
    beams = partial(_beams, sources, path, places)
    flat = (len(table),), ()
    if across := _across_by_maps(sources, path, pattern, table, present):
        steps = _steps(beams, known, across)
    else:
        first = _across_by_beams(beams, known, len(table))
        # rows after the first one may have no patterns at all
        tried = [first // n for n in range(1, _MAX_ROWS_LEFT_OUT + 1) if first and not first % n]
        found = [(n, steps) for n in tried if not len(table) % n and (steps := _steps(beams, known, n))]
        if not found:
            return flat
        across, steps = found[0]
    if len(table) % across:
        return flat
    if across == len(table):
        return (across,), steps[-1:]
    return (len(table) // across, across), steps


def _across_by_maps(sources: Sources, path: str, pattern: _Pattern, table: np.ndarray, present: np.ndarray) -> int:
    """Return the columns of the map from map_x and map_y of some patterns; 0 if they are not columns and rows."""
    if pattern.version < 5:
        return 0
    looked = present[_spread(len(present))]
    read = b"".join(read_at(sources, path, 8, at) for at in table[looked].tolist())
    column, row = np.frombuffer(read, "<i4").reshape(-1, 2).T.astype(np.int64)
    last = int(np.argmax(row))
    if row[last] < 1:
        return len(table) if looked[-1] and (column == looked).all() and not row.any() else 0
    across = int(looked[last] - column[last]) // int(row[last])
    fits = across > 0 and (column >= 0).all() and (column < across).all() and (row * across + column == looked).all()
    return across if fits else 0


def _across_by_beams(beams: Callable[[np.ndarray], np.ndarray], known: np.ndarray, positions: int) -> int:
    """Return the columns of the map: the first row ends where the beam does not go on as it did.

    Args:
        beams: reads the beam at positions of the map.
        known: positions at which it is known.
        positions: of the map.
    """
    beside = np.flatnonzero(np.diff(known) == 1)
    if not len(beside):
        return 0
    pairs = known[beside[_spread(len(beside))]]
    steps = beams(pairs + 1) - beams(pairs)
    if not (np.abs(steps) < _FAR).all():
        return 0
    # Neighbours in the file's order are neighbours in a row, but for the ends of rows
    alike = [np.linalg.norm(steps - step, axis=1) <= _OFF * np.linalg.norm(step) for step in steps]
    step = steps[int(np.argmax([one.sum() for one in alike]))]
    if not 1e-9 < np.linalg.norm(step) < 1e9:
        return 0
    begin = beams(known[:1])[0]

    def left(k: int) -> float:
        """Return the positions up to `known[k]` that are not passed along the first row."""
        at = beams(known[k : k + 1])[0]
        passed = (at - begin) @ step / (step @ step) if (np.abs(at) < _FAR).all() else -math.inf
        return float(known[k] - known[0] - passed)

    low, high = 0, len(known) - 1
    if abs(left(high)) < 0.5:
        return positions if abs(step[0]) >= abs(step[1]) else 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if abs(left(middle)) < 0.5 else (low, middle)
    across = left(high)
    return round(across) if 0.5 < across <= positions else 0


def _steps(beams: Callable[[np.ndarray], np.ndarray], known: np.ndarray, across: int) -> tuple[float, ...]:
    """Return the distances of rows and of columns, µm; none if the beam is not on one grid of so many columns."""
    beside = np.flatnonzero(np.diff(known) == 1)
    if not len(beside):
        return ()
    pairs = known[beside[_spread(len(beside))]]
    looked = np.unique(np.concatenate([pairs, pairs + 1, known[_spread(len(known))]]))
    at, (row, column) = beams(looked), np.divmod(looked, across)
    if not (np.abs(at) < _FAR).all():
        return ()
    axes = np.stack([row - row[0], column - column[0]], axis=1).astype(np.float64)
    fit = np.linalg.lstsq(axes, at - at[0], rcond=None)[0]
    lengths = np.linalg.norm(fit, axis=1)
    least = lengths[axes.any(axis=0)].min()
    missed = np.abs(axes @ fit + at[0] - at).max()
    # rows and columns that lie on one line are none
    turned = axes.any(axis=0).all() and abs(np.linalg.det(fit)) < 0.1 * lengths.prod()
    if not least > 1e-9 or lengths.max() > 1e9 or turned or missed > _OFF * least + 1e-6 * np.abs(axes @ fit).max():
        return ()
    return tuple(float(f"{length:.9g}") for length in lengths)


def _layout(pattern: _Pattern, places: np.ndarray, stride: int) -> FrameLayout:
    """Lay out the patterns as frames of one axis. Those that follow one another in map and file are one entry.

    Args:
        places: int64[n], the byte of the pattern of each position of the map, 0 where there is none.
        stride: bytes from one pattern to the next, of most.
    """
    present = np.flatnonzero(places)
    at = places[present]
    begin = np.flatnonzero((np.diff(present, prepend=-2) != 1) | (np.diff(at, prepend=0) != stride))
    counts = np.diff(np.append(begin, len(present)))
    return FrameLayout.of(
        FrameRecord(pattern.shape, pattern.dtype.itemsize, header=pattern.header, footer=stride - pattern.behind),
        counts,
        file_header=at[begin],
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
        said = f"{path}: {cut:,} of {len(table) - holes:,} patterns end beyond the end of the file; it looks truncated"
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
        TruncatedSourceError: the file does not hold a whole pattern.
    """
    files = Files.stat(sources, paths)
    path, size = files.paths[0], int(files.sizes[0])
    version = max(0, -int.from_bytes(read_at(sources, path, 8), "little", signed=True))
    if version >= _NEWEST:
        raise FormatError(f"{path}: expected a version from 0 to 6 or a little later, found {version:,}")
    table = _table(sources, path, size, _table_start(version))
    pattern = _pattern(sources, path, version, int(table[table > 0].min()))
    present = np.flatnonzero((table > 0) & (table <= size - pattern.behind))
    held = _beams_held(sources, path, pattern, table[present])
    footers = pattern.footer(held)
    whole = table[present] <= size - pattern.behind - footers
    present, held, footers = present[whole], held[whole], footers[whole]
    if not len(present):
        raise without_records(path, "patterns", pattern.behind, int(table[table > 0].min()), size)
    _same_size(sources, path, pattern, table[present])
    beams = _beam_places(pattern, table, present, held)
    nav, steps = _scan(sources, path, pattern, table, present, beams)
    dims = (*scan_dims(["um"] * len(nav) if steps else [""] * len(nav)), "y", "x")
    attrs: dict[str, Any] = {"version": version, "stored_patterns": len(present)}
    if steps:
        attrs["calibration"] = {
            dim: {"scale": step, "offset": 0.0, "unit": "um"} for dim, step in zip(dims[:-2], steps, strict=True)
        }
    shown = np.zeros_like(table)
    shown[present] = table[present]
    stride = pattern.behind + int(footers.max())
    main = StoredArray(
        "data",
        files,
        _layout(pattern, shown, stride).arranged(Scan(nav)),
        PlainDecoder(pattern.dtype),
        nav + pattern.shape,
        dims,
        len(nav),
        attrs=attrs,
        absent=(*_absent(path, table, int((table > 0).sum()) - len(present)), *_lone(path, held)),
        written=Written(len(table) if (table > 0).all() else None),
    )
    companions = []
    for name, places in zip(("beam_x", "beam_y"), beams, strict=True):
        if places.any():
            place = altered(main, layout=_layout(pattern, places, stride).arranged(Scan(nav)))
            companions.append(per_frame(place, name, "<f8", 0, attrs={"unit": "um"}, coordinate=True))
    maps = [per_frame(main, name, "<i4", at) for name, at in (("map_x", 0), ("map_y", 4))] if version > 4 else []
    return [main, *companions, *maps]


def _lone(path: str, held: np.ndarray) -> tuple[Absence, ...]:
    """Report patterns without a position of the beam that others have."""
    found = []
    for name, has in zip(("beam_x", "beam_y"), held.T, strict=True):
        if has.any() and not has.all():
            said = f"{path}: {int((~has).sum()):,} of {len(has):,} patterns have no {name}, or none that can be told"
            found.append(Absence(f"{said}; it is blank there"))
    return tuple(found)


FORMAT = Format(
    "ebsp",
    (".ebsp", ".uebsp"),
    "https://kikuchipy.org",
    "Oxford Instruments' patterns of electron backscatter diffraction (AZtec), not compressed",
    sniff,
    open,
    single=True,
)
