"""Reads `.czi` of Zeiss ZEN: planes, or tiles of a mosaic, in sub-blocks that a directory lists.

The facts come from the reader in czifile (https://github.com/cgohlke/czifile) and from libCZI
(https://github.com/ZEISS/libczi). Each scene is an array: `data`, or `scene_0/data`, …; channels of other pixel types
are arrays beside it, and so are the smaller versions that the file holds (`level_1/data`, …). Tiles are put where their
positions say; of tiles that overlap, the one with the higher number (M) is seen, where its mask says that its pixels
are valid. Only axes along which there is more than one position are shown, besides y and x.

Tiles are shown as they are stored: those of a fast Airyscan have fewer rows than the image, those of PALM more, and a
step of another length. Where both kinds are in a scene, each is an array: `resolution_0/data`, …
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from xml.etree.ElementTree import Element

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.czi.arrays import array_of, groups_of, unreadable
from vfs.formats.czi.said import TERMS, attrs_of, scene_names
from vfs.formats.czi.segments import header_of, metadata_of, tiles_of
from vfs.formats.headers import left_out, xml_tree
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.metadata import Told
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray


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


def _told(sources: Sources, path: str, at: int) -> dict[str, Any]:
    """Read what the metadata at a byte of the file say."""
    return attrs_of(metadata_of(sources, path, at))


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open a .czi file.

    Raises:
        FormatError: it is garbled, one of several parts, or all of it is compressed in another way.
        TruncatedSourceError: no sub-block is there.
        DependencyError: it is compressed, and imagecodecs is not installed.
    """
    path, files, lost = paths[0], Files.stat(sources, paths), list[Absence]()
    header = header_of(sources, path)
    tiles = tiles_of(sources, path, int(files.sizes[0]), int(header["directory"]), lost)
    if not tiles:
        raise (TruncatedSourceError if lost else FormatError)(f"{path}: expected sub-blocks with pixels, found none")
    root = None
    try:
        root = metadata_of(sources, path, int(header["metadata"]))
    except FormatError as error:
        lost.append(left_out(error))
    told = Told(partial(_told, sources, path, int(header["metadata"])))
    made, names = [], scene_names(root)
    for group in groups_of(tiles):
        if why := unreadable(path, group):
            lost.append(Absence(f"{why}; it is not shown", counts={"frames_left_out": 1}))
        else:
            image, *beside = array_of(files, group, _calibration(root), told)
            called = {"name": names[group.scene]} if group.scene in names else {}
            made += [altered(image, attrs={**image.attrs, **called}), *beside]
    if not made:
        raise FormatError(lost[-1].said.removesuffix("; it is not shown"))
    first = next((one for one in made if "level_" not in one.path), made[0])
    return [
        altered(one, absent=(*lost, *one.absent), main=one is first or (False if "level_" in one.path else None))
        for one in made
    ]


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return the XML of a file. What each sub-block says, and attachments, have a line in `left_out`.

    Raises:
        FormatError, SourceError: the file is garbled or cannot be read.
    """
    header = header_of(sources, paths[0])
    root = metadata_of(sources, paths[0], int(header["metadata"]))
    left = ["metadata of single sub-blocks", *(["attachments"] if header["attachments"] else [])]
    return {**({} if root is None else {root.tag: xml_tree(root)}), "left_out": left}


FORMAT = Format(
    "czi",
    (".czi",),
    "https://github.com/ZEISS/libczi",
    "CZI of Zeiss ZEN: planes and mosaics of all scenes, also compressed by JPEG XR or zstd",
    None,
    open,
    single=True,
    terms=TERMS,
    original=original,
    first_bytes=(b"ZISRAWFILE\0",),
)
