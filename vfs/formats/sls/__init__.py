"""Reads what the receivers of SLS detectors write (Jungfrau, Eiger, Moench): a master file, and raw files of modules.

The facts come from the reader in aare (https://github.com/slsdetectorgroup/aare). Files are `BASE_master_RUN.json`
(older ones `.raw`, with lines `key : value`) and `BASE_dMODULE_fFILE_RUN.raw`; in each raw file are records of `RECORD`
and the pixels of one module, little endian. Modules fill the detector down its columns, those of one board together.

A module drops frames on its own, so that frames are put where their numbers say, counted from the lowest one; what no
module has is blank. Numbers ascend in a file, so that only few of them are read; where they begin again in a later
file, its frames follow behind those before. The upper half of a module of Eiger is stored from its last row on. The
gain bits of Jungfrau and Moench are shown as they are stored.

Where the receiver kept regions of interest, the raw file of a module has its pixels within a region, and modules
outside of all have none; each region is an array.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vfs.errors import DecodeError, FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import read_at
from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.formats.sls.master import RECORD, TERMS, SlsDetector, SlsRegion, detector_of, read_master
from vfs.model.decode import BlockDecoder, Decoder, MadeBlocks, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable, altered
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.model.written import Written
from vfs.sources.names import basename, split

_MASTER = re.compile(r"(.+)_master_(\d+)\.(json|raw)", re.IGNORECASE)
_MAX_BLANK = 1000  # positions for each frame that is stored
_MAX_GAPS = 1 << 16


class _FrameRun(NamedTuple):
    """Records of a module: index of the file, first record in it, their number, number of the first frame."""

    file: int
    record: int
    records: int
    frame: int


@dataclass(frozen=True, eq=False)
class ModuleDecoder(MadeBlocks):
    """Decodes the pixels of a module as a whole, from its last row on where these are stored so.

    Attributes:
        stored: dtype in the file.
        flipped: bool[blocks].
    """

    stored: np.dtype
    flipped: np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        if data.size != math.prod(shape) * self.stored.itemsize:
            raise DecodeError(f"block {block}: expected the pixels of a module, found {data.size:,} bytes")
        pixels = np.frombuffer(data, self.stored).astype(self.dtype, copy=False).reshape(shape)
        return np.ascontiguousarray(pixels[..., ::-1, :]) if self.flipped[block] else pixels


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return (
        b"Detector Type" in first_bytes
        and b"Frame Padding" in first_bytes
        and _MASTER.fullmatch(basename(path)) is not None
    )


def _data_files(sources: Sources, path: str, modules: Collection[int]) -> list[tuple[int, int, str]]:
    """Find the raw files of a master file. Returns: (module, number, path) of each, sorted.

    Raises:
        TruncatedSourceError: there are none.
    """
    folder, name = split(path)
    parts = _MASTER.fullmatch(name)
    assert parts is not None
    pattern = re.compile(rf"{re.escape(parts[1])}_d(\d{{1,6}})_f(\d{{1,18}})_{parts[2]}\.raw")
    found = [(int(one[1]), int(one[2]), one[0]) for other in sources.names(folder) if (one := pattern.fullmatch(other))]
    found = sorted(one for one in found if one[0] in modules)
    if not found:
        raise TruncatedSourceError(f"{path}: expected files {parts[1]}_d0_f0_{parts[2]}.raw, … beside it, found none")
    return [(module, number, sources.join(folder, name)) for module, number, name in found]


def _frame_number(files: Files, file: int, record: int, size: int) -> int:
    """Read the number of a frame.

    Args:
        size: bytes of a record.
    """
    return int.from_bytes(read_at(files.sources, files.paths[file], 8, record * size), "little")


def _runs(files: Files, file: int, size: int) -> list[_FrameRun]:
    """Find the records of a file whose frames follow on each other, by looking at few numbers.

    Raises:
        FormatError: numbers do not ascend, or there are too many gaps.
    """
    count = int(files.sizes[file]) // size
    if not count:
        return []
    made: list[_FrameRun] = []
    at, number = 0, _frame_number(files, file, 0, size)
    last = _frame_number(files, file, count - 1, size)
    while True:
        low, high, behind = at, count, last
        if last - number == count - 1 - at:
            low = count - 1
        else:  # the last record of the run lies between
            while high - low > 1:
                middle = (low + high) // 2
                found = _frame_number(files, file, middle, size)
                if found - number < middle - at:
                    raise FormatError(
                        f"{files.paths[file]}: expected ascending numbers of frames, found {found:,} in record"
                        f" {middle:,} after {number:,} in record {at:,}"
                    )
                low, high = (middle, high) if found - number == middle - at else (low, middle)
        made.append(_FrameRun(file, at, low + 1 - at, number))
        if low + 1 >= count:
            return made
        if len(made) >= _MAX_GAPS:
            raise FormatError(f"{files.paths[file]}: expected frames with few gaps, found more than {_MAX_GAPS:,}")
        at = low + 1
        before, number = number + low - made[-1].record, _frame_number(files, file, at, size)
        if number <= before or behind < number:
            raise FormatError(
                f"{files.paths[file]}: expected ascending numbers of frames, found {number:,} after {before:,}"
            )


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open a master file, and the raw files of its run.

    Raises:
        FormatError: the master file is garbled, or pixels are stored in another way.
        TruncatedSourceError: there are no frames.
    """
    if _MASTER.fullmatch(basename(paths[0])) is None:
        raise OptionError(f"{paths[0]}: expected a master file, NAME_master_0.json or .raw; open that of the run")
    said = read_master(sources, paths[0])
    detector = detector_of(paths[0], said)
    record = detector.record_sizes
    data_files = _data_files(sources, paths[0], record)
    names = [name for *_, name in data_files]
    files = Files.stat(sources, [*names, paths[0]])
    sizes = np.array([record[module] for module, *_ in data_files], np.int64)
    numbered = [(module, run) for k, (module, *_) in enumerate(data_files) for run in _runs(files, k, int(sizes[k]))]
    if not numbered:
        raise TruncatedSourceError(f"{names[0]}: expected records of {sizes[0]:,} bytes, found no whole one")
    most = said.get("Max Frames Per File")
    each = most if isinstance(most, int) and 0 < most < 1 << 40 else 0
    runs, first, begins_again = _placed(files, numbered, [number * each for _, number, _ in data_files])
    expected = said.get("Frames in File")
    count = max(run.frame + run.records for _, run in runs)
    stored = sum(run.records for _, run in runs)
    if count > _MAX_BLANK * stored:
        raise FormatError(f"{names[0]}: expected frames with numbers near {first:,}, found one {count:,} later")
    if isinstance(expected, int) and count < expected <= _MAX_BLANK * stored:
        count = expected
    written = Written(count if count == expected else None, over=_over(runs, record))
    last = {module: k for k, (module, *_) in enumerate(data_files)}.values()
    cut = tuple(_cut(files, [*last], sizes))
    attrs = {"master": said, "first_frame": first}
    made = []
    for k, region in enumerate(detector.regions):
        own = [(module, run) for module, run in runs if module in region.parts]
        path = "data" if len(detector.regions) == 1 else f"roi_{k}/data"
        held = np.zeros(count, np.int64)
        for _, run in own:
            held[run.frame : run.frame + run.records] += 1
        absent = (*cut, *begins_again, *_blank(files, count, len(region.parts), held))
        if not own:
            raise TruncatedSourceError(f"{paths[0]}: expected raw files of region {k}, found none")
        made.append(
            altered(
                _array(path, files, detector, region, own, record, count), attrs=attrs, absent=absent, written=written
            )
        )
    return made


def _placed(
    files: Files, runs: Sequence[tuple[int, _FrameRun]], before: Sequence[int]
) -> tuple[list[tuple[int, _FrameRun]], int, tuple[Absence, ...]]:
    """Put the runs of modules where the numbers of their frames say.

    Where the numbers of a module do not ascend from one file to the next, they begin again: these frames, and those of
    the other modules that do so as often, follow behind all before.

    Args:
        runs: with the module of each, in the order of its files.
        before: frames that the files before each file hold, if they are full.

    Returns: (runs with positions in place of numbers; number of the first frame; what to say of numbers that begin
    again).
    """
    rounds: list[list[tuple[int, _FrameRun]]] = []
    at: dict[int, tuple[int, int]] = {}  # module -> round, and number behind its last frame
    said = ""
    for module, run in runs:
        turn, behind = at.get(module, (0, 0))
        if run.frame < behind:
            turn += 1
            said = said or (
                f"{files.paths[run.file]}: numbers of frames begin again at {run.frame:,}, after {behind - 1:,} in"
                " the file before; they are shown after the frames before"
            )
        at[module] = turn, run.frame + run.records
        rounds += [[] for _ in range(turn + 1 - len(rounds))]
        rounds[turn].append((module, run))
    # files that are missing at the start held so many frames
    first = max(0, min(run.frame - before[run.file] for _, run in rounds[0]))
    placed: list[tuple[int, _FrameRun]] = []
    begin, lowest = 0, first
    for turn, some in enumerate(rounds):
        if turn:
            begin = max(run.frame + run.records for _, run in placed)
            lowest = min(run.frame for _, run in some)
        placed += [(module, run._replace(frame=run.frame - lowest + begin)) for module, run in some]
    return placed, first, (Absence(said),) if said else ()


def _over(runs: Sequence[tuple[int, _FrameRun]], modules: Collection[int]) -> int:
    """Return the number of frames that no module will add to: each has a later one.

    Args:
        runs: at their positions, with the module of each.
        modules: all of them.
    """
    last = dict.fromkeys(modules, 0)
    for module, run in runs:
        last[module] = max(last[module], run.frame + run.records)
    return min(last.values())


def _array(
    path: str,
    files: Files,
    detector: SlsDetector,
    region: SlsRegion,
    runs: Sequence[tuple[int, _FrameRun]],
    record: dict[int, int],
    count: int,
) -> StoredArray:
    """Make the array of a region.

    Args:
        runs: of its modules, at their positions.
        record: bytes of a record of each module.
        count: frames.
    """
    module = np.repeat([k for k, _ in runs], [run.records for _, run in runs])
    frame = np.concatenate([np.arange(run.records) + run.frame for _, run in runs])
    file = np.repeat([run.file for _, run in runs], [run.records for _, run in runs])
    offset = np.concatenate([(np.arange(run.records) + run.record) * record[k] + RECORD.itemsize for k, run in runs])
    shape, dims = (count, *region.shape), ("frame", "y", "x")
    flipped = np.zeros(max(region.parts) + 1, bool)
    flipped[[*region.parts]] = [part.flipped for part in region.parts.values()]
    if len(region.parts) == 1 and not flipped.any():
        table = PlaneTable(file, offset, frame, files.paths[-1])
        return table.array(path, files, shape[:1], StoredPlane(region.shape, detector.stored), dims, {})
    places = np.zeros((len(flipped), 4), np.int64)
    places[[*region.parts]] = [part[:4] for part in region.parts.values()]
    origin = np.concatenate([frame[:, None], places[module, :2]], 1)
    boxes = np.concatenate([np.ones((len(frame), 1), np.int64), places[module, 2:]], 1)
    block = (1, *places[module, 2:].max(axis=0).tolist())
    decoder: Decoder | BlockDecoder = PlainDecoder(detector.stored)
    if flipped.any():
        nbytes = boxes.prod(axis=1) * detector.stored.itemsize
        layout = BlockLayout.of(shape, BlockTable(origin, boxes, file, offset, nbytes))
        decoder = ModuleDecoder(detector.stored, flipped[module])
    else:
        layout = BlockLayout.of(shape, BlockTable(origin, boxes, file, offset), word_bytes=detector.stored.itemsize)
    return StoredArray(path, files, layout, decoder, shape, dims, 1, block=block)


def _cut(files: Files, last: Sequence[int], sizes: np.ndarray) -> Iterator[Absence]:
    """Report records that are not whole.

    Args:
        last: the last file of each module.
        sizes: int64[files], bytes of a record of each.
    """
    rest = files.sizes[:-1] % sizes
    if rest.any():
        k = int(np.flatnonzero(rest)[0])
        found = f"found {int(rest[k]):,} bytes of one at the end; it looks truncated"
        said = f"{files.paths[k]}: expected whole records of {sizes[k]:,} bytes, {found}"
        counts = {"bytes_left_over": int(rest.sum())}
        to_come = not np.delete(rest, last).any()
        yield Absence(said, TruncatedSourceError, "shows the frames that are whole", counts, to_come=to_come)


def _blank(files: Files, count: int, modules: int, held: np.ndarray) -> Iterator[Absence]:
    """Report frames that some module, or no module has.

    Args:
        held: number of modules that have each frame.
    """
    if short := int((held < modules).sum()):
        none = int((held == 0).sum())
        said = (
            f"{files.paths[-1]}: {short:,} of {count:,} frames lack modules ({none:,} all of {modules:,}); these pixels"
            " are blank"
        )
        yield Absence(said, counts={"frames_missing": short}, to_come=True, scattered=True)


FORMAT = Format(
    "sls",
    (".json",),
    "https://github.com/slsdetectorgroup/aare",
    "raw files of SLS detectors (Jungfrau, Eiger, Moench): a master file and the raw files of its modules",
    sniff,
    open,
    single=True,
    terms=TERMS,
)
