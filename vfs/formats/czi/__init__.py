"""Reads `.czi` of Zeiss ZEN: planes, or tiles of a mosaic, in sub-blocks that a directory lists.

The facts come from the reader in czifile (https://github.com/cgohlke/czifile) and from libCZI
(https://github.com/ZEISS/libczi). Each scene is an array: `data`, or `scene_0/data`, …; channels of other pixel types
are arrays beside it, and so are the smaller versions that the file holds (`level_1/data`, …). Tiles are put where their
positions say; of tiles that overlap, the one with the higher number (M) is seen. Only axes along which there is more
than one position are shown, besides y and x. Colours are red, green, blue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import DependencyError, FormatError, OptionError, TruncatedSourceError, extra
from vfs.formats import Format
from vfs.formats.czi.segments import TYPES, Places, Tile, header_of, metadata_of, places_of, tiles_of
from vfs.formats.czi.tiles import COMPRESSIONS, NONE, Box, TileDecoder, visible
from vfs.formats.headers import left_out
from vfs.formats.planes import along
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, altered
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray

_AXES = {"V": "v", "I": "i", "R": "r", "H": "h", "T": "t", "C": "c", "Z": "z"}
"""Dimension -> name of the axis, the slowest first: view, illumination, rotation, phase, time, channel, z."""
_MOST_SIDE = 1 << 31
_MOST_BLANK = 1000  # planes for each sub-block


def sniff(path: str, head: bytes, sources: Sources) -> bool:
    return head.startswith(b"ZISRAWFILE\0")


def _level(tile: Tile) -> int:
    """Return how many times smaller a tile is stored than it is in the image."""
    return max(1, round(max(a / b for a, b in zip(tile.size, tile.stored, strict=True))))


def _calibration(root: Element | None) -> dict[str, Any]:
    """Return the calibration of axes: lengths are in metres, times in seconds."""
    found: dict[str, Any] = {}
    if root is None:
        return found
    for node in root.iter("Distance"):
        dim = {"X": "x", "Y": "y", "Z": "z"}.get(node.get("Id", ""))
        scale = _real(node.findtext("Value"))
        if dim and scale:
            found[dim] = {"scale": scale, "offset": 0.0, "unit": "m"}
    step = _real(root.findtext(".//Information/Image/Dimensions/T/Positions/Interval/Increment"))
    if step:
        found["t"] = {"scale": step, "offset": 0.0, "unit": "s"}
    return found


def _real(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _channels(root: Element | None) -> list[str]:
    """Return the names of channels."""
    nodes = [] if root is None else root.findall(".//Information/Image/Dimensions/Channels/Channel")
    return [node.get("Name") or node.get("Id") or "" for node in nodes]


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open a .czi file.

    Raises:
        FormatError: it is garbled, one of several parts, or compressed in another way.
        OptionError: several files are named.
        TruncatedSourceError: no sub-block is there.
        DependencyError: it is compressed, and imagecodecs is not installed.
    """
    if len(paths) > 1:
        raise OptionError(f"{paths[1]}: a .czi file is a set of its own; open one at a time")
    path, files, lost = paths[0], Files.stat(sources, paths), list[Absence]()
    header = header_of(sources, path)
    tiles = tiles_of(sources, path, int(files.sizes[0]), int(header["directory"]), lost)
    if not tiles:
        raise (TruncatedSourceError if lost else FormatError)(f"{path}: expected sub-blocks with pixels, found none")
    _readable(path, tiles)
    root = None
    try:
        root = metadata_of(sources, path, int(header["metadata"]))
    except FormatError as error:
        lost.append(left_out(error))
    attrs = {"channels": _channels(root), "calibration": _calibration(root)}
    scenes: dict[int, dict[tuple[int, int], list[int]]] = {}
    several = len({tile.start.get("S", 0) for tile in tiles if _level(tile) == 1}) > 1
    for k, tile in enumerate(tiles):
        if not several or "S" in tile.start or _level(tile) == 1:  # versions of all scenes together are left out
            kinds = scenes.setdefault(tile.start.get("S", 0), {})
            kinds.setdefault((_level(tile), tile.pixel_type), []).append(k)
    made = []
    for scene, kinds in sorted(scenes.items()):
        above = f"scene_{scene}/" if several else ""
        origin = _origin(tiles, kinds)
        types = list(dict.fromkeys(kind for level, kind in kinds if level == 1))
        levels = sorted({level for level, _ in kinds})
        for (level, kind), rows in sorted(kinds.items()):
            beside = f"type_{kind}/" if len(types) > 1 else ""
            name = above + beside + ("data" if level == 1 else f"level_{levels.index(level)}/data")
            made.append(_array(files, name, [tiles[k] for k in rows], origin, level, attrs))
    first = next((one for one in made if "level_" not in one.path), made[0])
    return [
        altered(one, absent=(*lost, *one.absent), main=one is first or (False if "level_" in one.path else None))
        for one in made
    ]


def _readable(path: str, tiles: Sequence[Tile]) -> None:
    """Check that all sub-blocks can be decoded.

    Raises:
        FormatError: some are compressed in another way.
        DependencyError: imagecodecs is needed.
    """
    kinds = {tile.compression for tile in tiles}
    if unknown := sorted(kinds - COMPRESSIONS.keys()):
        raise FormatError(
            f"{path}: expected sub-blocks that are not compressed, or by JPEG XR or zstd; found compression"
            f" {unknown[0]}; ZEN saves the file anew"
        )
    if kinds != {NONE}:
        try:
            import imagecodecs  # noqa: F401
        except ImportError:
            raise DependencyError(f"reading compressed CZI needs imagecodecs: {extra('tiff')}") from None


def _origin(tiles: Sequence[Tile], kinds: dict[tuple[int, int], list[int]]) -> tuple[int, int]:
    """Return the first row and column of a scene."""
    rows = [k for (level, _), some in kinds.items() if level == 1 for k in some] or [
        k for r in kinds.values() for k in r
    ]
    return min(tiles[k].start.get("Y", 0) for k in rows), min(tiles[k].start.get("X", 0) for k in rows)


def _array(
    files: Files, name: str, tiles: list[Tile], origin: tuple[int, int], level: int, attrs: dict[str, Any]
) -> StoredArray:
    """Make the array of the tiles of a scene that are stored alike.

    Args:
        origin: first row and column of the scene.
        level: how many times smaller they are stored.

    Raises:
        FormatError: positions are absurd.
        TruncatedSourceError: no tile is whole.
    """
    path = files.paths[0]
    tiles = sorted(tiles, key=lambda tile: tile.start.get("M", 0))
    axes = {letter: along([tile.start.get(letter, 0) for tile in tiles]) for letter in _AXES}
    axes = {letter: (values, at) for letter, (values, at) in axes.items() if len(values) > 1}
    nav = tuple(len(values) for values, _ in axes.values())
    if math.prod(nav) > _MOST_BLANK * len(tiles):
        raise FormatError(f"{path}: expected about as many planes as sub-blocks, found {nav} for {len(tiles):,}")
    position = np.zeros(len(tiles), np.int64)
    for values, at in axes.values():
        position = position * len(values) + at
    boxes: list[Box] = []
    for tile in tiles:
        y, x = ((tile.start.get(key, 0) - first) // level for key, first in zip("YX", origin, strict=True))
        boxes.append((y, x, y + tile.stored[0], x + tile.stored[1]))
    height, width = max(box[2] for box in boxes), max(box[3] for box in boxes)
    if max(height, width) >= _MOST_SIDE or min(min(box[:2]) for box in boxes) < 0:
        raise FormatError(f"{path}: expected tiles within a scene, found one of {height:,} × {width:,} pixels")
    stored, samples = np.dtype(TYPES[tiles[0].pixel_type][0]), TYPES[tiles[0].pixel_type][1]
    sig = (height, width, *((samples,) if samples > 1 else ()))
    rows = _shown(position, boxes)
    layout, decoder, absent = _laid_out(files, tiles, boxes, rows, position, nav, sig, stored, samples)
    missing = math.prod(nav) - len(np.unique(position))
    if missing:
        said = f"{path}: {name}: {missing:,} of {math.prod(nav):,} planes have no sub-block in the file; they are blank"
        absent = (*absent, Absence(said, counts={"frames_missing": missing}))
    dims = (*(_AXES[letter] for letter in axes), "y", "x", *("s" for _ in range(samples > 1)))
    said_axes = {_AXES[letter]: values for letter, (values, _) in axes.items() if values != [*range(len(values))]}
    known = {
        dim: {**one, "scale": one["scale"] * (level if dim in "yx" else 1)} for dim, one in attrs["calibration"].items()
    }
    packed = sorted({COMPRESSIONS[tile.compression] for tile in tiles})
    more = {**attrs, "calibration": known, "axes": said_axes, "compression": packed, "origin": list(origin)}
    most = (max(tile.stored[0] for tile in tiles), max(tile.stored[1] for tile in tiles))
    block = (1,) * len(nav) + (min(most[0], height), min(most[1], width)) + sig[2:]
    return StoredArray(name, files, layout, decoder, nav + sig, dims, len(nav), block=block, attrs=more, absent=absent)


def _shown(position: np.ndarray, boxes: list[Box]) -> list[tuple[int, Box]]:
    """Return (number of the tile, box of the plane) of all that is seen of the tiles."""
    rows: list[tuple[int, Box]] = []
    known: dict[tuple[Box, ...], list[list[Box]]] = {}
    order = np.argsort(position, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(position[order])) + 1):
        mosaic = tuple(boxes[k] for k in group.tolist())
        if mosaic not in known:
            known[mosaic] = visible(list(mosaic))
        rows += [(k, part) for k, parts in zip(group.tolist(), known[mosaic], strict=True) for part in parts]
    return rows


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
    plain = all(tile.compression == NONE for tile in tiles)
    if plain:
        least = np.array([math.prod(tile.stored) * element for tile in tiles], np.int64)
        here = places.offset + np.maximum(places.nbytes, least) <= size
        if (short := np.flatnonzero(here & (places.nbytes < least))).size:
            k = int(short[0])
            raise FormatError(
                f"{path}: expected {int(least[k]):,} bytes of pixels in the sub-block at byte {tiles[k].at:,}, found"
                f" {int(places.nbytes[k]):,}"
            )
    else:
        here = places.offset + places.nbytes <= size
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


def _laid_out(
    files: Files,
    tiles: list[Tile],
    boxes: list[Box],
    rows: list[tuple[int, Box]],
    position: np.ndarray,
    nav: tuple[int, ...],
    sig: tuple[int, ...],
    stored: np.dtype,
    samples: int,
) -> tuple[BlockLayout, Decoder | BlockDecoder, tuple[Absence, ...]]:
    """Lay out tiles, of which `rows` are seen.

    Raises:
        FormatError: a sub-block is not where the directory says.
        TruncatedSourceError: none that is seen is whole.
    """
    places, here, absent = _places(files, tiles, stored.itemsize * samples)
    plain = all(tile.compression == NONE for tile in tiles)
    rows = [row for row in rows if here[row[0]]]
    if not rows:  # those that are whole lie below others
        raise TruncatedSourceError(absent[0].said)
    which = np.array([k for k, _ in rows], np.int64)
    shown = np.array([box for _, box in rows], np.int64)
    whole = np.array([boxes[k] for k, _ in rows], np.int64)
    leading = np.stack(np.unravel_index(position[which], nav), 1) if nav else np.zeros((len(which), 0), np.int64)
    tail = np.zeros((len(which), len(sig) - 2), np.int64)
    origins = np.concatenate([leading, shown[:, :2], tail], 1)
    shapes = np.concatenate([np.ones_like(leading), shown[:, 2:] - shown[:, :2], tail + samples], 1)
    where = np.zeros(len(which), np.int64), places.offset[which]
    if plain and samples == 1 and (shown == whole).all():
        layout = BlockLayout.of(nav + sig, origins, shapes, *where, word_bytes=stored.itemsize)
        return layout, PlainDecoder(stored), absent
    most = np.array([tile.stored for tile in tiles], np.int64)
    pitch = (1,) * len(nav) + tuple(most.max(0).tolist()) + sig[2:]
    starts = np.concatenate([np.zeros_like(leading), shown[:, :2] - whole[:, :2], tail], 1)
    decoder = TileDecoder(stored, samples, most, np.array([tile.compression for tile in tiles], np.uint8))
    layout = BlockLayout.of(
        nav + sig,
        origins,
        shapes,
        *where,
        places.nbytes[which],
        whole=True,
        pitch=pitch,
        numbers=which,
        box_starts=starts if starts.any() else None,
    )
    return layout, decoder, absent


FORMAT = Format(
    "czi",
    (".czi",),
    "https://github.com/ZEISS/libczi",
    "CZI of Zeiss ZEN: planes and mosaics of all scenes, also compressed by JPEG XR or zstd",
    sniff,
    open,
)
