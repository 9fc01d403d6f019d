"""Reads the files that Direct Electron cameras put beside `<base>.seq`.

Files that fit the frames become companions, the others are named in the attribute `left_out`:

- `.dark.mrc` and `.gain.mrc` (`dark`, `gain`): float32 images behind 1,024 bytes of an MRC header
  whose third dimension is wrong;
- `.Config.Metadata.xml` (`bad_pixels`; its FileInfo is the attribute `config`);
- `.metadata`: 256 bytes, then one record per frame. In real files with records of kind 8, the
  camera's geometry (the attribute `camera`) is at byte 272, not at 282 where LiberTEM 0.16 looks.

The map of bad pixels is cut to the frame as it is stored: it is not known if a camera that flips its
images flips the map, too. Open with `dark="dark", gain="gain", dead="mask"` to apply them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError, VfsError
from vfs.formats.headers import exists, fields, parse_xml, read_at, read_side_file
from vfs.model.decode import MadeBlocks, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, FrameLayout, FrameRecord, Scan
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray
from vfs.sources.names import basename

CAMERA = np.dtype(  # Direct Electron's .metadata, the first record
    [
        ("_record_size", "<i4"),  # bytes
        ("_record_version", "<i4"),
        ("_kind", "<i4"),  # 8: the following fields are these
        ("_payload", "<i4"),  # bytes
        ("_size", "<i4"),
        ("_version", "<i4"),
        ("unbinned_frame_size_x", "<i4"),  # sensor pixels
        ("unbinned_frame_size_y", "<i4"),
        ("offset_x", "<i4"),
        ("offset_y", "<i4"),
        ("hardware_binning", "<i4"),
        ("bit_mode", "<i4"),
        ("frame_rate", "<f8"),  # 1/s
        ("rotation_mode", "<i4"),
        ("flip_mode", "<i4"),
    ]
)
_CAMERA_AT = 256  # bytes


@dataclass(frozen=True)
class _BadPixels(MadeBlocks):
    """Decodes to a mask, True in boxes of excluded pixels.

    Args:
        boxes: (y0, y1, x0, x1), half-open.
    """

    boxes: tuple[tuple[int, int, int, int], ...]
    dtype: np.dtype = field(default_factory=lambda: np.dtype(bool))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        mask = np.zeros(shape, self.dtype)
        for y0, y1, x0, x1 in self.boxes:
            mask[y0:y1, x0:x1] = True
        return mask


@dataclass(frozen=True)
class Beside:
    """Holds the contents of the files beside a sequence.

    Attributes:
        sources: where the files are.
        base: path of the .seq from which the names derive.
        config: path of the .Config.Metadata.xml, even if it does not exist.
        root: root of the XML; None if there is no XML.
        attrs: "camera" (from .metadata) and "config" (FileInfo of the XML), if they exist.
        problems: file name -> the reason for which it cannot be used.
    """

    sources: Sources
    base: str
    config: str
    root: Element | None
    attrs: dict[str, Any]
    problems: dict[str, str]

    @classmethod
    def of(cls, sources: Sources, base: str, metadata: str) -> Beside:
        attrs: dict[str, Any] = {}
        problems: dict[str, str] = {}
        config = base + ".Config.Metadata.xml"
        root = None
        if exists(sources, config):
            try:
                root = parse_xml(read_side_file(sources, config), config)
                attrs["config"] = {part.tag: part.get("Value") for part in root.findall("FileInfo/*")}
            except VfsError as error:
                problems[basename(config)] = str(error)
        if exists(sources, metadata):
            try:
                camera = np.frombuffer(read_at(sources, metadata, CAMERA.itemsize, _CAMERA_AT), CAMERA)[0]
                if camera["_kind"] == 8:
                    attrs["camera"] = fields(camera)
            except VfsError as error:
                problems[basename(metadata)] = str(error)
        return cls(sources, base, config, root, attrs, problems)

    @property
    def segment(self) -> int | None:
        """The number of half frames in a record; None if the XML does not have it."""
        text = self.attrs.get("config", {}).get("SegmentPreBuffer") or ""
        return int(text) if re.fullmatch(r"\d{1,9}", text) else None

    def rate(self, split: bool) -> float | None:
        """Return the number of frames per second; None if it is not known.

        Args:
            split: True for files of half frames. The rate in .metadata counts records, which hold
                many half frames, so then the rate comes from the XML.
        """
        said = (
            self.attrs.get("config", {}).get("FrameRate") if split else self.attrs.get("camera", {}).get("frame_rate")
        )
        try:
            return float(said or 0) or None
        except ValueError:
            return None

    def companions(self, sig_shape: tuple[int, ...]) -> tuple[list[StoredArray], dict[str, str]]:
        """Return the arrays that fit frames of this shape, and the reasons for which others do not."""
        found: list[StoredArray] = []
        problems = dict(self.problems)
        makers: tuple[tuple[str, Callable[[str, tuple[int, ...]], StoredArray | None]], ...] = (
            (f"{self.base}.dark.mrc", lambda path, shape: _reference(self.sources, "dark", path, shape)),
            (f"{self.base}.gain.mrc", lambda path, shape: _reference(self.sources, "gain", path, shape)),
            (self.config, self._bad_pixels),
        )
        for path, make in makers:
            name = basename(path)
            if name in problems or not exists(self.sources, path):
                continue
            try:
                made = make(path, sig_shape)
            except VfsError as error:
                problems[name] = str(error)
                continue
            if made is not None:
                found.append(made)
        return found, problems

    def _geometry(self) -> tuple[int, tuple[int, int]]:
        """Return (binning of the camera, origin of its frame in the binned sensor: y, x)."""
        camera = self.attrs.get("camera")
        if camera:
            binning, y, x = camera["hardware_binning"], camera["offset_y"], camera["offset_x"]
        else:
            texts = [
                self.attrs.get("config", {}).get(name) or ""
                for name in ("ImageBinning", "ImageOffsetY", "ImageOffsetX")
            ]
            if not all(re.fullmatch(r"\d{1,6}", text) for text in texts):
                raise FormatError(
                    "has a map of bad pixels, but does not say where in the sensor the frame lies; nor does a .metadata"
                    " file"
                )
            binning, y, x = map(int, texts)
        binning = max(1, binning)
        return binning, (y // binning, x // binning)

    def _bad_pixels(self, path: str, sig_shape: tuple[int, ...]) -> StoredArray | None:
        """Make the mask from the XML's map for the camera's binning, cut to the frame."""
        maps = [] if self.root is None else self.root.findall(".//BadPixelMap")
        if not maps:
            return None
        binning, origin = self._geometry()
        fitting = [one for one in maps if max(1, _whole(one, "Binning", 1)) == binning]
        if not fitting:
            raise FormatError(f"has no map of bad pixels for binning {binning}")
        chosen = max(fitting, key=lambda one: (_whole(one, "Columns"), _whole(one, "Rows")))
        shape = (_whole(chosen, "Rows"), _whole(chosen, "Columns"))
        if any(o < 0 or o + n > whole for o, n, whole in zip(origin, sig_shape, shape, strict=True)):
            raise FormatError(
                f"has a map of bad pixels of {shape[0]} × {shape[1]}; a frame of {sig_shape[0]} × {sig_shape[1]} at"
                f" {origin} does not lie in it"
            )
        boxes = []
        for defect in chosen.iter("Defect"):
            y0, y1 = _span(defect, "Row", shape[0])
            x0, x1 = _span(defect, "Column", shape[1])
            box = (
                max(y0 - origin[0], 0),
                min(y1 - origin[0], sig_shape[0]),
                max(x0 - origin[1], 0),
                min(x1 - origin[1], sig_shape[1]),
            )
            if box[0] < box[1] and box[2] < box[3]:
                boxes.append(box)
        files = Files.stat(self.sources, [path])
        layout = BlockLayout.of_file(sig_shape, files.sizes)
        return StoredArray(
            "bad_pixels",
            files,
            layout,
            _BadPixels(tuple(boxes)),
            sig_shape,
            ("y", "x"),
            0,
            block=sig_shape,
            companion=True,
            mask_bits=1,
        )


def _whole(element: Element, name: str, default: int = 0) -> int:
    text = element.get(name) or str(default)
    if not re.fullmatch(r"\s*\d{1,6}\s*", text):
        raise FormatError(f"expected a number in {name} of {element.tag}, found {text[:40]!r}")
    return int(text)


def _span(defect: Element, name: str, whole: int) -> tuple[int, int]:
    """Return the rows or columns of a defect, half-open: Row="3", Rows="3-7" (both included), or all."""
    text = defect.get(name) or defect.get(name + "s")
    if text is None:
        return 0, whole
    hit = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", text)
    if hit is None:
        raise FormatError(f"expected a number or two in {name} of a Defect, found {text[:40]!r}")
    return int(hit[1]), int(hit[2] or hit[1]) + 1


def _reference(sources: Sources, name: str, path: str, sig_shape: tuple[int, ...]) -> StoredArray:
    """Make the array of a dark or gain image.

    The file has 1,024 bytes of header, width and height first, then float32 pixels.
    """
    files = Files.stat(sources, [path])
    width, height, _, mode = np.frombuffer(read_at(sources, path, 16), "<i4").tolist()
    if (height, width) != sig_shape or mode != 2:
        raise FormatError(
            f"expected an image of {sig_shape[0]} × {sig_shape[1]} float32 (mode 2), found {height} × {width} of mode"
            f" {mode}"
        )
    if files.sizes[0] < 1024 + 4 * width * height:
        raise TruncatedSourceError(
            f"expected {1024 + 4 * width * height:,} bytes, found {files.sizes[0]:,}; the file looks truncated"
        )
    layout = FrameLayout.of(FrameRecord(sig_shape, 4), [1], file_header=1024).arranged(Scan(()))
    return StoredArray(name, files, layout, PlainDecoder(np.dtype("<f4")), sig_shape, ("y", "x"), 0, companion=True)
