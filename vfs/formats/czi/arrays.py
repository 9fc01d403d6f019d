"""Makes arrays of the sub-blocks of a CZI file: which of them belong together, and what is seen of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import DependencyError, FormatError, TruncatedSourceError, extra
from vfs.formats.czi.masks import valid_pixels
from vfs.formats.czi.per_plane import companions
from vfs.formats.czi.said import of_array
from vfs.formats.czi.segments import TYPES, Places, Tile, places_of
from vfs.formats.czi.tiles import COMPRESSIONS, NONE, Box, TileDecoder, visible
from vfs.formats.planes import along
from vfs.model.colours import AXIS
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable
from vfs.model.metadata import Told
from vfs.model.stored import Absence, StoredArray

_AXES = {"B": "b", "V": "v", "I": "i", "R": "r", "H": "h", "T": "t", "C": "c", "Z": "z"}
"""Dimension -> name of the axis, the slowest first: block, view, illumination, rotation, phase, time, channel, z."""
_MAX_SIDE = 1 << 31
_MAX_PLANES = 1 << 26
_MAX_BLANK = 1000  # planes for each sub-block


class Group(NamedTuple):
    """The tiles of one array.

    Attributes:
        name: place of the array in the hierarchy.
        tiles: in the order of their numbers (M).
        level: how many times smaller they are stored than they are in the image, if they are a smaller version.
        origin: first row and column of the scene, in pixels of the image.
        scene: number of the scene.
    """

    name: str
    tiles: list[Tile]
    level: int
    origin: tuple[int, int]
    scene: int

    @property
    def ratio(self) -> tuple[float, float]:
        """Rows and columns in the file for each of the image."""
        return (1 / self.level, 1 / self.level) if self.level > 1 else self.tiles[0].ratio


_Key = tuple[int, tuple[float, float], int]
"""Level, rows and columns that are stored for each of the image, pixel type."""


def _key(tile: Tile, full: set[tuple[tuple[str, int], ...]]) -> _Key:
    """Return what the tiles of an array have in common, besides the scene.

    Some programs do not mark smaller versions as such: they are smaller by whole numbers, at a position that has a tile
    of full size.

    Args:
        full: positions that have a tile of full size.
    """
    rows, columns = (round(one, 3) for one in tile.ratio)
    times = max(1, round(max(a / b for a, b in zip(tile.size, tile.stored, strict=True))))
    smaller = times > 1 and all(-(-a // times) >= b >= a // times for a, b in zip(tile.size, tile.stored, strict=True))
    if tile.pyramid or (smaller and _position(tile) in full):
        return times, (1.0, 1.0), tile.pixel_type
    return 1, (rows, columns), tile.pixel_type


def _position(tile: Tile) -> tuple[tuple[str, int], ...]:
    """Return where a tile lies along all dimensions besides those of its plane."""
    return tuple(sorted((letter, at) for letter, at in tile.start.items() if letter not in ("X", "Y", "M")))


def groups_of(tiles: Sequence[Tile]) -> list[Group]:
    """Sort tiles into arrays."""
    full = {_position(tile) for tile in tiles if not tile.pyramid and tile.size == tile.stored}
    keys = [_key(tile, full) for tile in tiles]
    several = len({tile.start.get("S", 0) for tile, key in zip(tiles, keys, strict=True) if key[0] == 1}) > 1
    scenes: dict[int, dict[_Key, list[Tile]]] = {}
    for tile, key in zip(tiles, keys, strict=True):
        if not several or "S" in tile.start or key[0] == 1:  # versions of all scenes together are left out
            scenes.setdefault(tile.start.get("S", 0), {}).setdefault(key, []).append(tile)
    found = []
    for scene, kinds in sorted(scenes.items()):
        above = f"scene_{scene}/" if several else ""
        types = list(dict.fromkeys(kind for level, _, kind in kinds if level == 1))
        ratios = list(dict.fromkeys(ratio for level, ratio, _ in kinds if level == 1))
        whole = ratios.index((1.0, 1.0)) if (1.0, 1.0) in ratios else 0
        levels = sorted({level for level, _, _ in kinds})
        origin = _origin(kinds)
        for (level, ratio, kind), some in sorted(kinds.items(), key=lambda one: (one[0][0], one[0][2])):
            beside = f"type_{kind}/" if len(types) > 1 else ""
            if len(ratios) > 1:
                beside += f"resolution_{ratios.index(ratio) if level == 1 else whole}/"
            name = above + beside + ("data" if level == 1 else f"level_{levels.index(level)}/data")
            found.append(Group(name, sorted(some, key=lambda tile: tile.start.get("M", 0)), level, origin, scene))
    return found


def _origin(kinds: dict[_Key, list[Tile]]) -> tuple[int, int]:
    """Return the first row and column of a scene."""
    tiles = [tile for (level, _, _), some in kinds.items() if level == 1 for tile in some]
    tiles = tiles or [tile for some in kinds.values() for tile in some]
    return min(tile.start.get("Y", 0) for tile in tiles), min(tile.start.get("X", 0) for tile in tiles)


def unreadable(path: str, group: Group) -> str:
    """Say why the tiles of an array cannot be decoded; "" if they can.

    Raises:
        DependencyError: imagecodecs is needed.
    """
    kinds = {tile.compression for tile in group.tiles}
    if unknown := sorted(kinds - COMPRESSIONS.keys()):
        raw = " (raw pixels of a camera or a system)" if unknown[0] >= 100 else ""
        return (
            f"{path}: {group.name}: expected sub-blocks that are not compressed, or by JPEG, LZW, JPEG XR or zstd;"
            f" found compression {unknown[0]}{raw}; ZEN saves the file again"
        )
    if kinds != {NONE}:
        try:
            import imagecodecs  # noqa: F401
        except ImportError:
            raise DependencyError(f"reading compressed CZI needs imagecodecs: {extra('tiff')}") from None
    return ""


class _TiledPlanes(NamedTuple):
    """The planes of the tiles of an array, one after the other.

    Attributes:
        nav: lengths of the navigation axes.
        values: letter of each of them -> what is counted along it.
        tile: int64[planes], number of the tile of each.
        within: int64[planes], which plane of its tile it is.
        at: int64[planes, axes], the position of the tile's first plane from which on the plane lies: see `box_starts`.
        position: int64[planes], flat position along the axes.
        spans: int64[tiles, axes], positions that each tile has.
        order: axes as planes follow each other in a tile, the slowest first.
    """

    nav: tuple[int, ...]
    values: dict[str, list[int]]
    tile: np.ndarray
    within: np.ndarray
    at: np.ndarray
    position: np.ndarray
    spans: np.ndarray
    order: tuple[int, ...]


def _planes(path: str, tiles: list[Tile]) -> _TiledPlanes:
    """Find the planes of tiles, of which most have one.

    Raises:
        FormatError: there are absurdly many, or tiles order theirs differently.
    """
    counts = [dict(tile.spans) for tile in tiles]
    listed = list(dict.fromkeys(letter for one in counts for letter in one))
    orders = {tuple(letter for letter, n in one.items() if n > 1) for one in counts}
    alike = all(sorted(order, key=listed.index) == [*order] for order in orders)
    others = {letter for order in orders for letter in order} - _AXES.keys()
    total = sum(tile.planes for tile in tiles)
    if others or total > _MAX_PLANES or not alike:
        told = ", ".join(sorted(others)) or f"{total:,} planes in {len(orders)} orders"
        raise FormatError(
            f"{path}: expected sub-blocks that hold planes of known dimensions in one order, found {told}"
        )
    letters = [letter for letter in _AXES if letter in listed]
    spans = np.array([[one.get(letter, 1) for letter in letters] for one in counts], np.int64).reshape(len(tiles), -1)
    order = tuple(letters.index(letter) for letter in listed if letter in letters)
    planes = spans.prod(axis=1)
    tile = np.repeat(np.arange(len(tiles)), planes)
    within = np.arange(total) - np.repeat(np.cumsum(planes) - planes, planes)
    rest, at = within.copy(), np.zeros((total, len(letters)), np.int64)
    for k in reversed(order):
        rest, at[:, k] = np.divmod(rest, spans[tile, k])
    values: dict[str, list[int]] = {}
    kept, position = [], np.zeros(total, np.int64)
    for k, letter in enumerate(letters):
        first = np.array([one.start.get(letter, 0) for one in tiles], np.int64)
        counted, where = along((first[tile] + at[:, k]).tolist())
        if len(counted) > 1:
            kept.append(k)
            values[letter] = [int(value) for value in counted]
            position = position * len(counted) + where
    nav = tuple(map(len, values.values()))
    if math.prod(nav) > _MAX_BLANK * total:
        raise FormatError(f"{path}: expected about as many planes as sub-blocks, found {nav} for {len(tiles):,}")
    moved = tuple(kept.index(k) for k in order if k in kept)
    return _TiledPlanes(nav, values, tile, within, at[:, kept], position, spans[:, kept], moved)


def array_of(files: Files, group: Group, calibration: Mapping[str, Any], told: Told) -> list[StoredArray]:
    """Make the array of the tiles of a scene that are stored alike, and its companions.

    Args:
        calibration: of axes of the image.
        told: what the metadata say of all scenes.

    Raises:
        FormatError: positions are absurd.
        TruncatedSourceError: no tile is whole.
    """
    path, tiles = files.paths[0], group.tiles
    planes = _planes(path, tiles)
    boxes: list[Box] = []
    for tile in tiles:
        starts = (tile.start.get(key, 0) - first for key, first in zip("YX", group.origin, strict=True))
        y, x = (
            at // group.level if group.level > 1 else round(at * ratio)
            for at, ratio in zip(starts, group.ratio, strict=True)
        )
        boxes.append((y, x, y + tile.stored[0], x + tile.stored[1]))
    height, width = max(box[2] for box in boxes), max(box[3] for box in boxes)
    if max(height, width) >= _MAX_SIDE or min(min(box[:2]) for box in boxes) < 0:
        raise FormatError(f"{path}: expected tiles within a scene, found one of {height:,} × {width:,} pixels")
    stored, samples = np.dtype(TYPES[tiles[0].pixel_type][0]), TYPES[tiles[0].pixel_type][1]
    sig = (height, width, *((samples,) if samples > 1 else ()))
    there = _places(files, tiles, stored.itemsize * samples)
    layout, decoder, absent = _laid_out(files, tiles, boxes, planes, sig, stored, there)
    nav = planes.nav
    if missing := math.prod(nav) - len(np.unique(planes.position)):
        named = f"{path}: {group.name}: {missing:,} of {math.prod(nav):,} planes"
        said = f"{named} have no sub-block in the file; they are blank"
        absent = (*absent, Absence(said, counts={"frames_missing": missing}))
    dims = (*(_AXES[letter] for letter in planes.values), "y", "x", *(AXIS for _ in range(samples > 1)))
    most = (max(tile.stored[0] for tile in tiles), max(tile.stored[1] for tile in tiles))
    block = (*_most(planes), min(most[0], height), min(most[1], width), *sig[2:])
    channels = sorted({tile.start.get("C", 0) for tile in tiles} | set(planes.values.get("C", ())))
    made = StoredArray(
        group.name,
        files,
        layout,
        decoder,
        nav + sig,
        dims,
        len(nav),
        block=block,
        attrs=_attrs(group, planes, calibration),
        absent=absent,
        told=Told(partial(of_array, told, channels, group.scene, stored)),
    )
    alone = group.level == 1 and len(planes.tile) == len(tiles)
    return [made, *(companions(made, there[0], planes.tile, planes.position) if alone else ())]


def _most(planes: _TiledPlanes) -> tuple[int, ...]:
    """Return the most positions that a tile has along each axis."""
    return tuple(planes.spans.max(axis=0, initial=1).tolist())


def _attrs(group: Group, planes: _TiledPlanes, calibration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an array: steps, positions, and how it is stored."""
    ratio = dict(zip("yx", group.ratio, strict=True))
    return {
        "calibration": {dim: {**one, "scale": one["scale"] / ratio.get(dim, 1)} for dim, one in calibration.items()},
        "axes": {_AXES[letter]: said for letter, said in planes.values.items() if said != [*range(len(said))]},
        "compression": sorted({COMPRESSIONS[tile.compression] for tile in group.tiles}),
        "origin": list(group.origin),
    }


def _shown(position: np.ndarray, tile: np.ndarray, boxes: list[list[Box]]) -> tuple[np.ndarray, list[Box]]:
    """Find what is seen of planes.

    Args:
        position, tile: int64[planes], flat position and number of the tile of each.
        boxes: of each tile, which do not overlap.

    Returns: for each piece that is seen (number of its plane, box of the array's plane).
    """
    if len(np.unique(position)) == len(position):
        which = np.repeat(np.arange(len(tile)), [len(boxes[k]) for k in tile.tolist()])
        return which, [box for k in tile.tolist() for box in boxes[k]]
    rows, found = list[int](), list[Box]()
    known: dict[tuple[tuple[Box, ...], ...], list[list[Box]]] = {}
    order = np.lexsort((tile, position))
    for group in np.split(order, np.flatnonzero(np.diff(position[order])) + 1):
        mosaic = tuple(tuple(boxes[k]) for k in tile[group].tolist())
        if mosaic not in known:
            known[mosaic] = visible(mosaic)
        for plane, parts in zip(group.tolist(), known[mosaic], strict=True):
            rows += [plane] * len(parts)
            found += parts
    return np.array(rows, np.int64), found


def _places(files: Files, tiles: list[Tile], element: int) -> tuple[Places, np.ndarray, tuple[Absence, ...]]:
    """Find the pixels of tiles.

    Args:
        element: bytes of a pixel.

    Returns: (their places, bool[tiles] that says which are whole, a report of the others).

    Raises:
        FormatError: a sub-block is not where the directory says.
        TruncatedSourceError: none is whole.
    """
    path, size = files.paths[0], int(files.sizes[0])
    places = places_of(files.sources, path, tiles)
    least = np.array([math.prod(tile.stored) * tile.planes * element for tile in tiles], np.int64)
    least[[tile.compression != NONE for tile in tiles]] = 1
    here = places.offset + np.maximum(places.nbytes, least) + places.attached <= size
    if (short := np.flatnonzero(here & (places.nbytes < least))).size:
        k = int(short[0])
        raise FormatError(
            f"{path}: expected {int(least[k]):,} bytes of pixels in the sub-block at byte {tiles[k].at:,}, found"
            f" {int(places.nbytes[k]):,}"
        )
    if here.all():
        return places, here, ()
    k = int(np.flatnonzero(~here)[0])
    said = (
        f"{path}: expected a sub-block of {int(places.nbytes[k]):,} bytes at byte {int(places.offset[k]):,}, the"
        f" file has {size:,} bytes; it looks truncated; sub-blocks that are not whole: {int((~here).sum()):,}"
    )
    if not here.any():
        raise TruncatedSourceError(said)
    counts = {"blocks_missing": int((~here).sum())}
    return places, here, (Absence(said, TruncatedSourceError, "shows them as blank", counts),)


def _valid(files: Files, tiles: list[Tile], boxes: list[Box], places: Places, here: np.ndarray) -> list[list[Box]]:
    """Return the valid pixels of tiles, as boxes of the array's plane.

    Raises:
        FormatError: a mask is garbled.
    """
    found = [[box] for box in boxes]
    ends = places.offset + places.nbytes
    for k in np.flatnonzero(here & (places.attached > 0)).tolist():
        cut = valid_pixels(files.sources, files.paths[0], int(ends[k]), int(places.attached[k]), tiles[k].stored)
        if cut is not None:
            y, x = boxes[k][:2]
            found[k] = [(y + top, x + left, y + bottom, x + right) for top, left, bottom, right in cut]
    return found


def _laid_out(
    files: Files,
    tiles: list[Tile],
    boxes: list[Box],
    planes: _TiledPlanes,
    sig: tuple[int, ...],
    stored: np.dtype,
    there: tuple[Places, np.ndarray, tuple[Absence, ...]],
) -> tuple[BlockLayout, Decoder | BlockDecoder, tuple[Absence, ...]]:
    """Lay out tiles.

    Args:
        boxes: box of each in the array's plane.
        there: what `_places` returns.

    Raises:
        FormatError: a mask is garbled.
        TruncatedSourceError: none that is seen is whole.
    """
    samples = math.prod(sig[2:])
    pixel = stored.itemsize * samples
    places, here, absent = there
    which, parts = _shown(planes.position, planes.tile, _valid(files, tiles, boxes, places, here))
    keep = here[planes.tile[which]]
    if not keep.any():  # those that are whole lie below others
        raise TruncatedSourceError(
            absent[0].said if absent else f"{files.paths[0]}: expected a valid pixel, found none"
        )
    which, shown = which[keep], np.array(parts, np.int64).reshape(-1, 4)[keep]
    tile, nav = planes.tile[which], planes.nav
    whole = np.array(boxes, np.int64)[tile]
    leading = np.stack(np.unravel_index(planes.position[which], nav), 1) if nav else np.zeros((len(which), 0), np.int64)
    tail = np.zeros((len(which), len(sig) - 2), np.int64)
    origins = np.concatenate([leading, shown[:, :2], tail], 1)
    shapes = np.concatenate([np.ones_like(leading), shown[:, 2:] - shown[:, :2], tail + samples], 1)
    file = np.zeros(len(which), np.int64)
    most = np.array([tile.stored for tile in tiles], np.int64)
    if samples == 1 and all(tile.compression == NONE for tile in tiles) and (shown == whole).all():
        offsets = places.offset[tile] + planes.within[which] * most[tile].prod(axis=1) * pixel
        return (
            BlockLayout.of(nav + sig, BlockTable(origins, shapes, file, offsets), word_bytes=stored.itemsize),
            PlainDecoder(stored),
            absent,
        )
    pitch = _most(planes) + tuple(most.max(0).tolist()) + sig[2:]
    starts = np.concatenate([planes.at[which], shown[:, :2] - whole[:, :2], tail], 1)
    kinds = np.array([tile.compression for tile in tiles], np.uint8)
    decoder = TileDecoder(stored, samples, most, kinds, planes.spans, planes.order, pitch)
    layout = BlockLayout.of(
        nav + sig,
        BlockTable(
            origins,
            shapes,
            file,
            places.offset[tile],
            places.nbytes[tile],
            numbers=tile,
            box_starts=starts if starts.any() else None,
        ),
        pitch=pitch,
    )
    return layout, decoder, absent
