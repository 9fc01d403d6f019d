"""Counts the X-ray events that Velox (Thermo Fisher) records, to spectra for each position of the scan.

The facts come from the reader in RosettaSciIO (https://github.com/hyperspy/rosettasciio). The row of uint16
`Data/SpectrumStream/ID/Data` has the channel of an event, or 65535, which ends a position of the scan. Positions follow
on each other along lines, lines along frames, frames along time. `AcquisitionSettings` has the number of channels
(`bincount`), and `RasterScanDefinition` where positions were recorded; how many there are is what the images of the
file have, since that definition may be larger. `FrameLocationTable` is where each frame begins.

The array `Data/SpectrumStream/ID/Spectra` has the sum of all frames. A block is a part of a line: to make it, the
events of that line are read in each frame. Where lines begin is found when the first block is made, in one pass through
the stream, and takes eight bytes a line and frame.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vfs.errors import DecodeError, SourceChangedError, SourceError
from vfs.formats.hdf5 import velox
from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.small import read_region, read_small
from vfs.h5.facts import Survey
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import GridLayout
from vfs.model.region import Region
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray

_STREAM = re.compile(r"(Data/SpectrumStream/[^/]+)/Data", re.ASCII)
_IMAGE = re.compile(r"Data/Image/[^/]+/Data", re.ASCII)
_END = 65535  # of a position
_BLOCK = 1 << 21  # counts of a block
_PASS = 1 << 22  # events that are read at once
_FIRST = 1 << 25  # most events of a frame that is looked at when the set is opened
_MOST_CHANNELS = 1 << 15
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class SpectraDecoder(MadeBlocks):
    """Counts the events of a part of a line. Blocks have no bytes: it reads the stream by itself.

    Attributes:
        sources: where the files are.
        stream: the events.
        files: the files that hold them, as they were when the set was opened.
        scan: lines, positions of a line.
        channels: of a spectrum.
        block: positions of a block.
        lines: what is known of the stream: int64[lines of all frames + 1], the event with which each begins. Empty
            before the first pass.
    """

    sources: Sources
    stream: StoredData
    files: Files
    scan: tuple[int, int]
    channels: int
    block: int
    lines: list[np.ndarray] = field(default_factory=list)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint32)

    @property
    def layout(self) -> GridLayout:
        return GridLayout((*self.scan, self.channels), (1, self.block, self.channels))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        (line, first, _), (_, behind, _) = (box := self.layout.box(block)).start, box.stop
        with _lock:
            if not self.lines:
                self.lines.append(self._begins())
        begins = self.lines[0]
        size = (behind - first) * self.channels
        made = np.zeros(size, self.dtype)
        for k in range(line, len(begins) - 1, self.scan[0]):
            events = events_of(self.sources, self.stream, int(begins[k]), int(begins[k + 1]))
            ends = events == _END
            position = np.cumsum(ends) - ends
            kept = ~ends & (position >= first) & (position < behind)
            channel = events[kept].astype(np.int64)
            if len(channel) and int(channel.max()) >= self.channels:
                self._check_same()
                raise DecodeError(
                    f"line {line}: expected events of {self.channels:,} channels, found channel {int(channel.max()):,}"
                )
            made += np.bincount((position[kept] - first) * self.channels + channel, minlength=size).astype(self.dtype)
        self._check_same()
        return made.reshape(shape)

    def _check_same(self) -> None:
        """Check that the files are those that were opened, after reads that no backend has seen.

        Raises:
            SourceChangedError: one is another one.
        """
        for file, path in enumerate(self.files.paths):
            now = self.sources.state(path)
            if not self.files.same(file, now):
                said = self.files.state(file).difference(now)
                raise SourceChangedError(f"{path}: was changed after it was opened ({said}); open it again")

    def _begins(self) -> np.ndarray:
        """Find where lines begin, in one pass."""
        count, seen = self.stream.shape[0], 0
        found = [np.zeros(1, np.int64)]
        for at in range(0, count, _PASS):
            ends = np.flatnonzero(events_of(self.sources, self.stream, at, min(at + _PASS, count)) == _END) + at
            found.append(ends[(np.arange(seen, seen + len(ends)) + 1) % self.scan[1] == 0] + 1)
            seen += len(ends)
        if int(found[-1][-1] if len(found[-1]) else found[0][0]) < count:
            found.append(np.array([count], np.int64))  # a line that was stopped
        return np.concatenate(found)


def events_of(sources: Sources, stream: StoredData, start: int, stop: int) -> np.ndarray:
    """Read events: uint16[stop - start].

    Raises:
        SourceError: the file does not have them.
        DecodeError: they cannot be decoded.
    """
    region = Region((start, 0), (stop, 1), (1, 1))
    if stop > start and stream.layout.read_ranges(region)[1] < stop - start:
        raise SourceError(f"{stream.files[0]}: events {start:,} to {stop:,} of the stream were never written")
    return read_region(sources, stream, region).reshape(-1)


def counted_spectra(
    sources: Sources, found: Mapping[str, StoredData], known: Survey, files: Mapping[str, Files]
) -> tuple[list[StoredArray], dict[str, str]]:
    """Make the arrays of streams.

    Args:
        files: files of each data set that is a stream.

    Returns: (the arrays, reasons why there is none for other streams).
    """
    made, left = [], {}
    shapes: set[tuple[int, ...]] = {
        entry.shape[:2] for name, entry in found.items() if _IMAGE.fullmatch(name) and len(entry.shape) == 3
    }
    for name in streams(found):
        group, stream = name.rpartition("/")[0], found[name]
        said = velox.settings(group, known)
        channels = _channels(said)
        if not channels or "RasterScanDefinition" not in said:
            continue  # a spectrum of one place
        try:
            scan = _scan(sources, found.get(f"{group}/FrameLocationTable"), stream, shapes)
        except SourceError as error:
            left[f"{group}/Spectra"] = str(error)
            continue
        if scan is None:
            left[f"{group}/Spectra"] = "the number of its positions is that of no image in the file"
            continue
        width = max(1, min(scan[1], _BLOCK // channels))
        decoder = SpectraDecoder(sources, stream, files[name], scan, channels, width)
        about = velox.metadata(group, found, known)
        attrs = {
            "name": _detector(about),
            "events": stream.shape[0],
            **({"metadata": about} if about else {}),
            "calibration": _calibration(about),
        }
        shape = (*scan, channels)
        made.append(
            StoredArray(
                f"{group}/Spectra",
                files[name],
                decoder.layout,
                decoder,
                shape,
                ("scan_y", "scan_x", "energy"),
                2,
                block=(1, width, channels),
                attrs=attrs,
                absent=stream.absent,
                computed=True,
            )
        )
    return made, left


def streams(found: Mapping[str, StoredData]) -> list[str]:
    """Return the names of data sets that are streams of events."""
    return [
        name
        for name, entry in found.items()
        if _STREAM.fullmatch(name) and len(entry.shape) == 2 and entry.shape[1] == 1 and entry.dtype == np.uint16
    ]


def _channels(said: Mapping[str, Any]) -> int:
    """Return the number of channels; 0 if they are not known, or events have another encoding."""
    text = str(said.get("bincount", ""))
    plain = text.isascii() and text.isdigit() and len(text) < 9 and said.get("StreamEncoding", "uint16") == "uint16"
    return int(text) if plain and 0 < int(text) <= _MOST_CHANNELS else 0


def _scan(
    sources: Sources, table: StoredData | None, stream: StoredData, shapes: set[tuple[int, ...]]
) -> tuple[int, int] | None:
    """Return lines and positions of a scan: those of the images that have as many pixels as the first frame positions.

    Raises:
        SourceError: the stream cannot be read.
    """
    begins = None if table is None else read_small(sources, table)
    stop = stream.shape[0]
    if begins is not None and len(begins) > 1 and 0 < int(begins[1]) <= stop:
        stop = int(begins[1])
    if stop > _FIRST:
        return None
    count = int((events_of(sources, stream, 0, stop) == _END).sum())
    fitting = [shape for shape in shapes if math.prod(shape) == count]
    return (int(fitting[0][0]), int(fitting[0][1])) if len(fitting) == 1 else None


def _detector(said: Mapping[str, Any]) -> str:
    result = said.get("BinaryResult")
    name = result.get("Detector") if isinstance(result, dict) else None
    return name if isinstance(name, str) else ""


def _calibration(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the calibration of axes: places in the unit of the file, energies in eV."""
    found: dict[str, Any] = {}
    result, detectors = said.get("BinaryResult"), said.get("Detectors")
    if isinstance(result, dict):
        size, offset = result.get("PixelSize"), result.get("Offset")
        for dim, side, letter in (("scan_y", "height", "y"), ("scan_x", "width", "x")):
            if isinstance(size, dict):
                place = _real(offset.get(letter)) if isinstance(offset, dict) else 0.0
                unit = result.get(f"PixelUnit{letter.upper()}", "")
                found[dim] = {"scale": _real(size.get(side)), "offset": place, "unit": unit}
    own = _detector(said)
    for one in detectors.values() if isinstance(detectors, dict) else ():
        if isinstance(one, dict) and own and one.get("DetectorName") == own and "Dispersion" in one:
            scale, offset = _real(one["Dispersion"]), _real(one.get("OffsetEnergy"))
            found["energy"] = {"scale": scale, "offset": offset, "unit": "eV"}
    return found


def _real(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0
