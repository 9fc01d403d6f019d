"""Turns a table of places into an array: the adapter for formats that know where each of their planes lies.

Such a format writes a table, one row a plane: its file, its first byte, its position along the navigation axes. What
is alike in all of them is here: planes that no row names are blank, and files that are missing or end too early are
reported in one way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from vfs.errors import FormatError, MissingSourceError, TruncatedSourceError
from vfs.model.colours import in_order
from vfs.model.decode import BlockDecoder, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable, FrameLayout, FrameRecord, Scan, altered, whole_frame
from vfs.model.stored import Absence, StoredArray

_MAX_BLANK = 1000
"""Most positions for each plane that is stored: a table that names more is garbled, and must not fill the memory."""
_UNCHECKED_PLANES = 1 << 20
"""Planes of which a table may be made without a look at how many there can be."""


def plausible(path: str, planes: int, nbytes: int, size: int) -> int:
    """Return the number of planes that a header says.

    Args:
        nbytes: of a plane; size: of the file.

    Raises:
        FormatError: the file has room for far fewer.
    """
    if planes > max(_UNCHECKED_PLANES, _MAX_BLANK * (size // max(1, nbytes))):
        raise FormatError(
            f"{path}: its header says {planes:,} planes of {nbytes:,} bytes, the file has {size:,} bytes; it looks"
            " garbled or truncated"
        )
    return planes


@dataclass(frozen=True, eq=False)
class StoredPlane:
    """Says how each plane of a table is stored.

    Attributes:
        shape: lengths of its axes; () where a plane is a single element.
        dtype: of elements in the file, in its byte order.
        strides: elements from one index to the next in the file along each axis, from the first element of a plane
            on; None for C order. Not for planes that decode as wholes.
        order: of the colours along the last axis, which `strides` count as they are stored (see
            `vfs.model.colours`); "" if there are none. Decoders put them into theirs.
        decoder: decodes planes as wholes; None where the bytes are the elements.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    _: KW_ONLY
    strides: tuple[int, ...] | None = None
    order: str = ""
    decoder: BlockDecoder | None = None

    @property
    def reach(self) -> int:
        """Elements from the first one of a plane to behind its last one."""
        if self.strides is None:
            return math.prod(self.shape)
        return 1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True, eq=False)
class PlaneTable:
    """The places of equal planes.

    Attributes:
        file: int64[n], index of the file of each plane.
        offset: int64[n], its first byte.
        position: int64[n], its position in the navigation axes, flat in C order; of several planes at one position
            the last one is shown.
        source: path of the file that says so, for messages.
        nbytes: int64[n], bytes of each plane in its file; None: as many as its elements have.
    """

    file: np.ndarray
    offset: np.ndarray
    position: np.ndarray
    source: str
    nbytes: np.ndarray | None = None

    def array(
        self,
        path: str,
        files: Files,
        nav: tuple[int, ...],
        plane: StoredPlane,
        dims: tuple[str, ...],
        attrs: Mapping[str, Any],
    ) -> StoredArray:
        """Make the array.

        Args:
            path: place of the array in the hierarchy.
            nav: lengths of the navigation axes.
            plane: how each plane is stored.
            dims: names of the navigation axes, and of those of a plane.

        Raises:
            FormatError: far more positions than planes.
            MissingSourceError, TruncatedSourceError: no plane is there.
        """
        positions, sig, stored, strides = math.prod(nav), plane.shape, plane.dtype, plane.strides
        nbytes = np.full(len(self.file), plane.reach * stored.itemsize) if self.nbytes is None else self.nbytes
        if positions > _MAX_BLANK * len(self.file):
            raise FormatError(
                f"{self.source}: expected about as many planes as positions, found {len(self.file):,} planes for"
                f" axes of {' × '.join(f'{n:,}' for n in nav)} positions"
            )
        named = np.full(positions, -1, np.int64)
        named[self.position] = np.arange(len(self.file))
        row = named[named >= 0]
        sizes = files.sizes[self.file[row]]
        gone, cut = sizes < 0, (sizes >= 0) & (self.offset[row] + nbytes[row] > sizes)
        absent = (
            *self._gone(files, row[gone]),
            *self._cut(files, row[cut], nbytes),
            *self._unnamed(path, positions, len(row)),
            *self._again(path, named),
        )
        if (gone | cut).all():
            raise (absent[0].refused or FormatError)(absent[0].said)
        named[np.isin(named, row[gone | cut])] = -1
        offsets, which = np.where(named < 0, -1, self.offset[named]), np.where(named < 0, 0, self.file[named])
        layout = FrameLayout.planes(
            FrameRecord((plane.reach,) if strides else sig, stored.itemsize), which, offsets
        ).arranged(Scan(nav))
        if strides is not None:
            pieces = whole_frame(sig, strides)
            pieces = in_order(pieces, len(sig) - 1, plane.order) if plane.order else pieces
            layout = altered(layout, sig_shape=sig, pieces=pieces)
        made = StoredArray(
            path, files, layout, PlainDecoder(stored), nav + sig, dims, len(nav), attrs=attrs, absent=absent
        )
        if plane.decoder is None:
            return made
        blocks = self._blocks(named, nbytes, nav, sig)
        return altered(made, layout=blocks, decoder=plane.decoder, block=(1,) * len(nav) + sig)

    def _blocks(self, named: np.ndarray, nbytes: np.ndarray, nav: tuple[int, ...], sig: tuple[int, ...]) -> BlockLayout:
        """Lay out planes that decode as wholes.

        Args:
            named: int64[positions], the row of the plane at each, -1 where there is none.
            nbytes: int64[n], bytes of each plane in its file.
        """
        at = np.flatnonzero(named >= 0)
        return BlockLayout.of(
            nav + sig,
            BlockTable(
                _origins(at, nav, len(sig)),
                np.broadcast_to((1,) * len(nav) + sig, (len(at), len(nav + sig))),
                self.file[named[at]],
                self.offset[named[at]],
                nbytes[named[at]],
                numbers=named[at],
            ),
        )

    def _gone(self, files: Files, rows: np.ndarray) -> tuple[Absence, ...]:
        """Report planes whose files do not exist."""
        if not len(rows):
            return ()
        names = tuple(files.paths[k] for k in np.unique(self.file[rows]).tolist())
        more = f", and {len(names) - 1:,} more files" * (len(names) > 1)
        said = f"{names[0]}: no such file{more}; {self.source} says that {len(rows):,} planes are there"
        counts = {"files_missing": len(names), "frames_missing": len(rows)}
        return (Absence(said, MissingSourceError, "shows their planes as blank", counts, names, to_come=True),)

    def _cut(self, files: Files, rows: np.ndarray, nbytes: np.ndarray) -> tuple[Absence, ...]:
        """Report planes that reach beyond the ends of their files."""
        if not len(rows):
            return ()
        k, at = int(self.file[rows[0]]), int(self.offset[rows[0]])
        said = (
            f"{files.paths[k]}: expected a plane of {int(nbytes[rows[0]]):,} bytes at byte {at:,}, the file has"
            f" {int(files.sizes[k]):,} bytes; it looks truncated; planes that are not whole: {len(rows):,}"
        )
        lost = {"frames_missing": len(rows)}
        return (Absence(said, TruncatedSourceError, "shows them as blank", lost, to_come=True),)

    def _unnamed(self, path: str, positions: int, planes: int) -> tuple[Absence, ...]:
        """Report positions at which no plane was recorded: a warning, for all that was recorded is shown."""
        if positions == planes:
            return ()
        said = f"{self.source}: {planes:,} planes for {positions:,} positions of {path}; the others are blank"
        return (Absence(said, counts={"frames_missing": positions - planes}, to_come=True, scattered=True),)

    def _again(self, path: str, named: np.ndarray) -> tuple[Absence, ...]:
        """Report planes that are not shown, since a later one has the same position; one named twice is none.

        Args:
            named: int64[positions], the row of the plane that is shown at each.
        """
        shown = named[self.position]
        other = (self.file != self.file[shown]) | (self.offset != self.offset[shown])
        if not other.any():
            return ()
        count = int(other.sum())
        said = (
            f"{self.source}: {count:,} {'plane has' if count == 1 else 'planes have'} the position of a later one in"
            f" {path}, which is shown"
        )
        return (Absence(said, counts={"frames_left_out": count}),)


def _origins(positions: np.ndarray, nav: tuple[int, ...], sig_ndim: int) -> np.ndarray:
    """Return the first element of planes at flat positions, int64[n, axes]."""
    made = np.zeros((len(positions), len(nav) + sig_ndim), np.int64)
    for k, at in enumerate(np.unravel_index(positions, nav) if nav else ()):
        made[:, k] = at
    return made


def along(values: Sequence[int | str]) -> tuple[list[int | str], np.ndarray]:
    """Sort what planes are called along one axis.

    Args:
        values: a number or a name for each plane.

    Returns: (every value once: numbers ascending, names as they first appear; int64[n], position of each plane).
    """
    unique = list(dict.fromkeys(values))
    if all(isinstance(value, int) for value in unique):
        unique.sort()
    at = {value: k for k, value in enumerate(unique)}
    return unique, np.fromiter(map(at.__getitem__, values), np.int64, len(values))
