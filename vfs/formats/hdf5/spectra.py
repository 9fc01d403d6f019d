"""Counts the X-ray events of a stream to spectra for each position of a scan.

A stream is a row of uint16: the channel of an event, or `END`, which ends a position of the scan. Positions follow on
each other along lines, lines along frames, frames along time. The spectra are the sum of all frames. A block is a part
of a line: to make it, the events of that line are read in each frame. Where lines begin is found when the first block
is made, in one pass through the stream, and takes eight bytes a line and frame.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from vfs.errors import DecodeError, SourceChangedError, SourceError
from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.small import read_region
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import GridLayout
from vfs.model.region import Region
from vfs.model.sources import Sources

END = 65535  # of a position
_PASS = 1 << 22  # events that are read at once
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
            ends = events == END
            position = np.cumsum(ends) - ends
            kept = ~ends & (position >= first) & (position < behind)
            channel = events[kept].astype(np.int64)
            if len(channel) and int(channel.max()) >= self.channels:
                check_same(self.sources, self.files)
                raise DecodeError(
                    f"line {line}: expected events of {self.channels:,} channels, found channel {int(channel.max()):,}"
                )
            made += np.bincount((position[kept] - first) * self.channels + channel, minlength=size).astype(self.dtype)
        check_same(self.sources, self.files)
        return made.reshape(shape)

    def _begins(self) -> np.ndarray:
        """Find where lines begin, in one pass."""
        count, seen = self.stream.shape[0], 0
        found = [np.zeros(1, np.int64)]
        for at in range(0, count, _PASS):
            ends = np.flatnonzero(events_of(self.sources, self.stream, at, min(at + _PASS, count)) == END) + at
            found.append(ends[(np.arange(seen, seen + len(ends)) + 1) % self.scan[1] == 0] + 1)
            seen += len(ends)
        if int(found[-1][-1] if len(found[-1]) else found[0][0]) < count:
            found.append(np.array([count], np.int64))  # a line that was stopped
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class SumDecoder(MadeBlocks):
    """Counts the events of several detectors of one scan together.

    Attributes:
        parts: the detectors, whose blocks are alike.
    """

    parts: tuple[SpectraDecoder, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.parts[0].dtype

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        made = self.parts[0].decode_block(data, block, shape)
        for part in self.parts[1:]:
            made += part.decode_block(data, block, shape)
        return made


def check_same(sources: Sources, files: Files) -> None:
    """Check that files are those that were opened, after reads that no backend has seen.

    Raises:
        SourceChangedError: one is another one.
    """
    for file, path in enumerate(files.paths):
        now = sources.state(path)
        if not files.same(file, now):
            said = files.state(file).difference(now)
            raise SourceChangedError(f"{path}: was changed after it was opened ({said}); open it again")


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
