"""Opens MIB sets of many files on servers, where each look is a request, by looking at some of the files.

Frames of a whole set are numbered on through all its files. So the sizes of the files, which the list of a bucket
says, tell the number of each file's first frame; the first file, one in the middle and the last one confirm them. The
others are looked at when they are read first: one that holds something else is an error then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, starmap

import numpy as np

from vfs.errors import FormatError, SourceError
from vfs.formats.mib.heads import Geometry, MibFiles, geometry_of, parsed, pixels, read_heads
from vfs.formats.mib.lost import BEGIN, NUMBER
from vfs.formats.mib.runs import seconds_of
from vfs.formats.series import may_follow
from vfs.model.files import Files
from vfs.model.name_order import natural
from vfs.model.sources import Sources
from vfs.model.unseen import Unseen

_MANY = 8  # files of a set that are all looked at


@dataclass(frozen=True, eq=False)
class UnseenMib(Unseen):
    """Knows what MIB files hold at which nobody looked: see `vfs.model.unseen`.

    Attributes:
        geometry: of all files; hdr: what the .hdr file says.
        sequences, counts: int64[files], number of the first frame, and how many frames there are.
        record: bytes of a frame with its header.
        begin, end: when the first file and the last one begin, in seconds; None if they do not say.
        heads: the first headers are still to be looked at, too, and not only the last ones.
    """

    pending: np.ndarray
    geometry: Geometry
    hdr: Mapping[str, str]
    sequences: np.ndarray
    counts: np.ndarray
    record: int
    begin: float | None
    end: float | None
    heads: bool

    def places(self, file: int) -> Sequence[tuple[int, int]]:
        last = (self.counts.item(file) - 1) * self.record
        return [(0, self.geometry.header)] * self.heads + [(last, last + BEGIN)]

    def check(self, path: str, file: int, parts: Sequence[bytes]) -> None:
        wrong = (self.heads and self._wrong_begin(path, file, parts[0])) or self._wrong_end(file, parts[-1])
        if wrong:
            raise SourceError(
                f"{path}: {wrong}; nobody looked at it when the set was opened, and vfs check looks at all of its files"
            )

    def _wrong_begin(self, path: str, file: int, first_bytes: bytes) -> str:
        """Say what is not as expected in the first header of a file; "" if all is."""
        try:
            digits, key, words = parsed(lambda most: first_bytes[:most], first_bytes, path)
            geometry = geometry_of(path, *key, self.hdr)
        except FormatError as error:
            return str(error).removeprefix(f"{path}: ")
        if geometry != self.geometry:
            return f"holds {geometry}, the first file holds {self.geometry}"
        if int(digits) != (first := self.sequences.item(file)):
            return f"expected number {first:,} in its first frame header, found {int(digits):,}"
        times = self.begin, seconds_of(first_bytes[words.stop :]), self.end
        if None not in times and not all(starmap(may_follow, pairwise(times))):
            return (
                f"begins at {_time(times[1])}, the files of its set between {_time(self.begin)} and {_time(self.end)}"
            )
        return ""

    def _wrong_end(self, file: int, last: bytes) -> str:
        expected, hit = self.sequences.item(file) + self.counts.item(file) - 1, NUMBER.match(last)
        if hit and int(hit[1]) == expected:
            return ""
        return f"expected number {expected:,} in its last frame header, found {f'{int(hit[1]):,}' if hit else 'none'}"


def look_at_some(
    sources: Sources, paths: Sequence[str], hdr: Mapping[str, str]
) -> tuple[Geometry, MibFiles, list[str]]:
    """Read the first header of every file, or of some if these tell what the others hold.

    Returns, Raises: see `vfs.formats.mib.heads.read_heads`.
    """
    if len(paths) <= _MANY or not sources.far_away:
        return read_heads(sources, paths, hdr)
    names = sorted(paths, key=natural)
    looked = np.array([0, len(names) // 2, len(names) - 1])
    states = sources.known_states(names)
    if states is None:  # a web server says the size of a file where it is asked for that one: with its header
        geometry, found, empty = read_heads(sources, paths, hdr)
        files, at = found.files, np.arange(len(found.files))
    else:
        geometry, found, empty = read_heads(sources, [names[k] for k in looked], hdr)
        files, at = Files.of(names, states, sources), looked
    record = geometry.header + pixels(files.paths[0], geometry)[2]
    counts = files.sizes // record
    sequences = found.sequences[0] + np.cumsum(counts) - counts
    confirmed = found.sequences.shape == at.shape and bool((sequences[at] == found.sequences).all())
    if empty or not confirmed or (counts < 1).any() or (files.sizes[:-1] % record).any():
        return (geometry, found, empty) if states is None else read_heads(sources, paths, hdr)
    pending, stamps = np.ones(len(files), bool), [b""] * len(files)
    pending[looked] = False
    for k, stamp in zip(at.tolist(), found.stamps, strict=True):
        stamps[k] = stamp
    ends = seconds_of(stamps[0]), seconds_of(stamps[-1])
    unseen = UnseenMib(pending, geometry, hdr, sequences, counts, record, *ends, heads=states is not None)
    return geometry, MibFiles(replace(files, unseen=unseen), sequences, found.head, tuple(stamps)), []


def _time(seconds: float | None) -> np.datetime64:
    assert seconds is not None
    return np.datetime64(int(seconds), "s")
