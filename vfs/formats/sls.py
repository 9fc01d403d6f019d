"""Reads what the receivers of SLS detectors write (Jungfrau, Eiger, Moench): a master file, and raw files of modules.

The facts come from the reader in aare (https://github.com/slsdetectorgroup/aare). Files are `BASE_master_RUN.json`
(older ones `.raw`, with lines `key : value`) and `BASE_dMODULE_fFILE_RUN.raw`; in each raw file are records of `RECORD`
and the pixels of one module, little endian. Modules fill the detector down its columns, those of one board together.

A module drops frames on its own, so that frames are put where their numbers say, counted from the lowest one; what no
module has is blank. Numbers ascend, so that only few of them are read. The upper half of a module of Eiger is stored
from its last row on. The gain bits of Jungfrau and Moench are shown as they are stored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import DecodeError, FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import read_at, read_side_file
from vfs.formats.planes import PlaneTable
from vfs.model.decode import BlockDecoder, Decoder, MadeBlocks, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, altered
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.sources.names import basename, split

RECORD = np.dtype(
    [
        ("frame", "<u8"),  # number of the frame
        ("exposure_length", "<u4"),
        ("packets", "<u4"),  # that were received
        ("bunch", "<u8"),
        ("timestamp", "<u8"),
        ("module", "<u2"),
        ("row", "<u2"),
        ("column", "<u2"),
        ("_reserved", "<u2"),
        ("debug", "<u4"),
        ("round_robin", "<u2"),
        ("detector", "u1"),
        ("version", "u1"),
        ("_packet_mask", "V64"),
    ]
)
_MASTER = re.compile(r"(.+)_master_(\d+)\.(json|raw)", re.IGNORECASE)
_TYPES = {8: "u1", 16: "<u2", 32: "<u4"}
_OPEN = 4294967295  # a border of a region of interest that is not set
_MOST_MODULES = 4096
_MOST_SIDE = 1 << 16
_MOST_BLANK = 1000  # positions for each frame that is stored
_MOST_GAPS = 1 << 16


class _SlsDetector(NamedTuple):
    """A detector: modules along y and x, pixels of a module, dtype, and (row, column) of each module by its number."""

    grid: tuple[int, int]
    module: tuple[int, int]
    stored: np.dtype
    places: list[tuple[int, int]]
    flipped: bool  # modules in even rows begin with their last row


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


def sniff(path: str, head: bytes, sources: Sources) -> bool:
    return b"Detector Type" in head and b"Frame Padding" in head and _MASTER.fullmatch(basename(path)) is not None


def _master(sources: Sources, path: str) -> dict[str, Any]:
    """Read a master file.

    Raises:
        FormatError: it is garbled.
    """
    data = read_side_file(sources, path)
    found: Any = None
    try:
        if data.lstrip().startswith(b"{"):
            found = json.loads(data)
        else:
            pairs = (line.partition(":") for line in data.decode("latin-1").splitlines())
            found = {key.strip(): _plain(value.strip()) for key, colon, value in pairs if colon}
    except (ValueError, RecursionError):
        pass
    if not isinstance(found, dict) or "Detector Type" not in found:
        raise FormatError(
            f"{path}: expected a master file of an SLS detector, with a Detector Type; it begins {data[:20]!r}"
        )
    return found


def _plain(text: str) -> Any:
    """Return a value of an older master file: a number, a pair x, y, or text."""
    pair = re.fullmatch(r"\[(\d{1,9}), *(\d{1,9})\]", text)
    if pair:
        return {"x": int(pair[1]), "y": int(pair[2])}
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def _pair(said: dict[str, Any], key: str) -> tuple[int, int]:
    """Return (y, x) of a key; (0, 0) if it has none."""
    pair = said.get(key)
    if not isinstance(pair, dict) or type(pair.get("y")) is not int or type(pair.get("x")) is not int:
        return 0, 0
    return pair["y"], pair["x"]


def _detector(path: str, said: dict[str, Any]) -> _SlsDetector:
    """Return the detector of a master file.

    Raises:
        FormatError: it says no detector, or one whose pixels are stored in another way.
    """
    kind = str(said["Detector Type"])
    grid, module, bits = _pair(said, "Geometry"), _pair(said, "Pixels"), said.get("Dynamic Range", 16)
    size = said.get("Image Size", said.get("Image Size in bytes"))
    if not (0 < math.prod(grid) <= _MOST_MODULES and all(0 < n <= _MOST_SIDE for n in module) and bits in _TYPES):
        raise FormatError(
            f"{path}: expected Geometry, Pixels and a Dynamic Range of 8, 16 or 32 bits, found"
            f" {grid[1]} × {grid[0]} modules of {module[1]} × {module[0]} pixels, {str(bits)[:20]} bits"
        )
    stored = np.dtype(_TYPES[bits])
    old_moench = kind == "Moench" and module[0] == 400 and "Analog Samples" in said
    if "ChipTestBoard" in kind or old_moench or said.get("Quad") == 1 or not _whole(said, grid, module):
        what = (
            "a region of interest, a quad, or samples of a test board" if not old_moench else "samples of a Moench 03"
        )
        raise FormatError(f"{path}: expected the pixels of whole modules, found {what}; aare reads them")
    if isinstance(size, int) and size != math.prod(module) * stored.itemsize:
        raise FormatError(
            f"{path}: expected images of {math.prod(module) * stored.itemsize:,} bytes for each module, the master file"
            f" says {size:,}"
        )
    boards = said.get("Number of UDP Interfaces")
    step = (boards, 1) if isinstance(boards, int) and boards > 0 else (1, 2) if kind == "Eiger" else (1, 1)
    places = [
        (row + y, column + x)
        for column in range(0, grid[1], step[1])
        for row in range(0, grid[0], step[0])
        for y in range(step[0])
        for x in range(step[1])
    ]
    if len(places) != math.prod(grid) or not all(y < grid[0] and x < grid[1] for y, x in places):
        raise FormatError(
            f"{path}: expected boards of {step[0]} × {step[1]} parts that fill {grid[0]} × {grid[1]} modules"
        )
    return _SlsDetector(grid, module, stored, places, kind == "Eiger")


def _whole(said: dict[str, Any], grid: tuple[int, int], module: tuple[int, int]) -> bool:
    """Return True if no region of interest was set, or one that is the whole detector."""
    regions = said.get("Receiver Rois", [said["Receiver Roi"]] if isinstance(said.get("Receiver Roi"), dict) else [])
    full = {"xmin": 0, "xmax": grid[1] * module[1] - 1, "ymin": 0, "ymax": grid[0] * module[0] - 1}
    return isinstance(regions, list) and all(
        isinstance(one, dict) and (all(one.get(key) in (_OPEN, -1) for key in full) or {**full, **one} == full)
        for one in regions
    )


def _data_files(sources: Sources, path: str, modules: int) -> list[tuple[int, int, str]]:
    """Find the raw files of a master file. Returns: (module, number, path) of each, sorted.

    Raises:
        TruncatedSourceError: there are none.
    """
    folder, name = split(path)
    parts = _MASTER.fullmatch(name)
    assert parts is not None
    pattern = re.compile(rf"{re.escape(parts[1])}_d(\d{{1,6}})_f(\d{{1,18}})_{parts[2]}\.raw")
    found = [(int(one[1]), int(one[2]), one[0]) for other in sources.names(folder) if (one := pattern.fullmatch(other))]
    found = sorted(one for one in found if one[0] < modules)
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
                        f" {middle:,} behind {number:,} in record {at:,}"
                    )
                low, high = (middle, high) if found - number == middle - at else (low, middle)
        made.append(_FrameRun(file, at, low + 1 - at, number))
        if low + 1 >= count:
            return made
        if len(made) >= _MOST_GAPS:
            raise FormatError(f"{files.paths[file]}: expected frames with few gaps, found more than {_MOST_GAPS:,}")
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
        OptionError: several files are named.
        TruncatedSourceError: there are no frames.
    """
    if len(paths) > 1:
        raise OptionError(f"{paths[1]}: a master file names a run; open one at a time")
    if _MASTER.fullmatch(basename(paths[0])) is None:
        raise OptionError(f"{paths[0]}: expected a master file, NAME_master_0.json or .raw; open that of the run")
    said = _master(sources, paths[0])
    detector = _detector(paths[0], said)
    data_files = _data_files(sources, paths[0], len(detector.places))
    names = [name for *_, name in data_files]
    files = Files.stat(sources, [*names, paths[0]])
    size = RECORD.itemsize + math.prod(detector.module) * detector.stored.itemsize
    runs = [(module, run) for k, (module, *_) in enumerate(data_files) for run in _runs(files, k, size)]
    if not runs:
        raise TruncatedSourceError(f"{names[0]}: expected records of {size:,} bytes, found no whole one")
    most = said.get("Max Frames Per File")
    each = most if isinstance(most, int) and 0 < most < 1 << 40 else 0
    # files that are missing at the start held so many frames
    first = max(0, min(run.frame - data_files[run.file][1] * each for _, run in runs))
    expected = said.get("Frames in File")
    count = max(run.frame + run.records for _, run in runs) - first
    stored = sum(run.records for _, run in runs)
    if count > _MOST_BLANK * stored:
        raise FormatError(f"{names[0]}: expected frames with numbers near {first:,}, found one {count:,} later")
    if isinstance(expected, int) and count < expected <= _MOST_BLANK * stored:
        count = expected
    module = np.repeat([k for k, _ in runs], [run.records for _, run in runs])
    frame = np.concatenate([np.arange(run.records) + run.frame - first for _, run in runs])
    file = np.repeat([run.file for _, run in runs], [run.records for _, run in runs])
    offset = np.concatenate([(np.arange(run.records) + run.record) * size + RECORD.itemsize for _, run in runs])
    about: dict[str, Any] = {"passed": _passed(runs, len(detector.places), first)}
    about["declared"] = count if count == expected else None
    last = {module: k for k, (module, *_) in enumerate(data_files)}
    absent = _absent(files, [*last.values()], size, count, len(detector.places), np.bincount(frame, minlength=count))
    attrs = {"master": said, "first_frame": first}
    shape = (count, *(n * m for n, m in zip(detector.grid, detector.module, strict=True)))
    if len(detector.places) == 1 and not detector.flipped:
        table = PlaneTable(file, offset, frame, paths[0])
        made = table.array("data", files, shape[:1], shape[1:], ("frame", "y", "x"), detector.stored, attrs)
        return [altered(made, absent=absent, **about)]
    layout, decoder = _modules(detector, shape, module, frame, file, offset)
    block = (1, *detector.module)
    dims = ("frame", "y", "x")
    return [
        StoredArray("data", files, layout, decoder, shape, dims, 1, block=block, attrs=attrs, absent=absent, **about)
    ]


def _passed(runs: Sequence[tuple[int, _FrameRun]], modules: int, first: int) -> int:
    """Return the number of frames that no module will add to: each has a later one, and numbers ascend.

    Args:
        runs: with the module of each.
        modules: their number.
        first: number of the first frame.
    """
    last = dict.fromkeys(range(modules), first)
    for module, run in runs:
        last[module] = max(last[module], run.frame + run.records)
    return min(last.values()) - first


def _modules(
    detector: _SlsDetector,
    shape: tuple[int, ...],
    module: np.ndarray,
    frame: np.ndarray,
    file: np.ndarray,
    offset: np.ndarray,
) -> tuple[BlockLayout, Decoder | BlockDecoder]:
    """Lay out the pixels of modules: int64[n] each, module, frame, file and first byte."""
    places = np.array(detector.places, np.int64)[module]
    origin = np.concatenate([frame[:, None], places * np.array(detector.module)], 1)
    boxes = np.broadcast_to((1, *detector.module), origin.shape)
    if not detector.flipped:
        layout = BlockLayout.of(shape, origin, boxes, file, offset, word_bytes=detector.stored.itemsize)
        return layout, PlainDecoder(detector.stored)
    nbytes = np.full(len(file), math.prod(detector.module) * detector.stored.itemsize)
    layout = BlockLayout.of(shape, origin, boxes, file, offset, nbytes, whole=True)
    return layout, ModuleDecoder(detector.stored, places[:, 0] % 2 == 0)


def _absent(
    files: Files, last: Sequence[int], size: int, count: int, modules: int, held: np.ndarray
) -> tuple[Absence, ...]:
    """Report frames that some module, or no module has, and records that are not whole.

    Args:
        last: the last file of each module.
        size: bytes of a record.
        held: number of modules that have each frame.
    """
    absent = []
    names = files.paths[:-1]
    rest = files.sizes[:-1] % size
    if rest.any():
        k = int(np.flatnonzero(rest)[0])
        said = (
            f"{names[k]}: expected whole records of {size:,} bytes, found {int(rest[k]):,} bytes of one at the end; it"
            " looks truncated"
        )
        counts = {"bytes_left_over": int(rest.sum())}
        to_come = not np.delete(rest, last).any()
        shows = "shows the frames that are whole"
        absent.append(Absence(said, TruncatedSourceError, shows, counts, to_come=to_come))
    if short := int((held < modules).sum()):
        none = int((held == 0).sum())
        said = (
            f"{files.paths[-1]}: {short:,} of {count:,} frames lack modules ({none:,} all of {modules:,}); these pixels"
            " are blank"
        )
        absent.append(Absence(said, counts={"frames_missing": short}, to_come=True, scattered=True))
    return tuple(absent)


FORMAT = Format(
    "sls",
    (".json",),
    "https://github.com/slsdetectorgroup/aare",
    "raw files of SLS detectors (Jungfrau, Eiger, Moench): a master file and the raw files of its modules",
    sniff,
    open,
)
