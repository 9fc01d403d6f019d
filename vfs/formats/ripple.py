"""Reads Ripple: a `.rpl` file, which is text, and the `.raw` file of numbers that it describes.

Specification: https://www.nist.gov/services-resources/software/lispixdoc/image-file-formats/raw-file-format.htm
(Lispix, the program that the format comes from). A line of the `.rpl` is a key, a tab and a value; a line that begins
with `;` is a comment::

    width, height, depth    pixels of a map, and how many maps or channels there are
    offset                  bytes of the .raw before the first number
    data-length             bytes of a number: 1, 2, 4, 8
    data-type               signed, unsigned, float
    byte-order              little-endian, big-endian, dont-care
    record-by               image: depth maps of height × width numbers;
                            vector: height × width spectra of depth numbers;
                            dont-care: only one of both, so that there is no difference
    ev-per-chan             eV a channel of the depth

HyperSpy adds `depth-scale`, `depth-origin`, `depth-units`, and the same for width and height. Oxford's INCA writes
lines like `(MLX::WIDTH : 256)`, and Bruker the key `data-Length`: both are understood. Numbers of several bytes in the
order `dont-care` are little endian, as on the machines of all programs that write so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OptionError
from vfs.formats import Format
from vfs.formats.headers import exists, read_side_file
from vfs.formats.recorded import Recorded
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan
from vfs.model.metadata import DEGREES, Term
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray, scan_dims
from vfs.model.units import ENERGIES, LENGTHS, spelled
from vfs.model.wording import format_option
from vfs.model.written import Written
from vfs.sources.names import splitext

_SIZES = ("width", "height", "depth")
_ORDERS = {"little-endian": "<", "big-endian": ">", "dont-care": "<"}
_RECORDS = ("image", "vector", "dont-care")
_KINDS = {"signed": ("i", (1, 2, 4, 8)), "unsigned": ("u", (1, 2, 4, 8)), "float": ("f", (4, 8))}
_LINE = re.compile(r"\(?(?:MLX::)?([A-Za-z][\w-]*)(?:[ \t]*:[ \t]*|[ \t]+|$)(.*)", re.ASCII)
_MARK = re.compile(rb"^[ \t]*\(?(?:MLX::)?(?:data-length|record-by|data-type)[ \t:]", re.MULTILINE | re.IGNORECASE)
_RAW = (".raw", ".RAW", ".Raw")
_MAX_FILE_BYTES = 1 << 62  # bytes: far more than any file has


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for text with two of the keys that every `.rpl` has."""
    text = first_bytes.replace(b"\r", b"\n")  # old Macs end lines with CR
    return b"\0" not in text and len(_MARK.findall(text)) > 1


class _Header(NamedTuple):
    """What a `.rpl` says of its numbers.

    Attributes:
        shape: (height, width, depth).
        dtype: of the stored numbers.
        offset: bytes before the first one.
        record: "image", "vector" or "dont-care".
    """

    shape: tuple[int, int, int]
    dtype: np.dtype
    offset: int
    record: str


def _keys(sources: Sources, path: str) -> dict[str, str]:
    """Return the keys of a `.rpl`, in lower case, and their values. Of a key that is there twice, the last counts."""
    found = {}
    for line in read_side_file(sources, path).decode("latin1").splitlines():
        said = _LINE.match(line.partition(";")[0].strip())
        if said:
            found[said[1].lower()] = said[2].strip().removesuffix(")").strip()
    return found


def _number(keys: Mapping[str, str], key: str, path: str, default: str | None = None) -> int:
    text = keys.get(key) or default
    if text is None or not re.fullmatch(r"\d{1,18}", text):
        raise FormatError(f"{path}: expected a whole number for {key}, found {(text or 'nothing')[:40]!r}")
    return int(text)


def _word(keys: Mapping[str, str], key: str, known: Sequence[str], path: str, default: str | None = None) -> str:
    text = next(iter((keys.get(key) or default or "").lower().split()), "")
    if text not in known:
        raise FormatError(f"{path}: expected {', '.join(known)} for {key}, found {(text or 'nothing')[:40]!r}")
    return text


def _header(keys: Mapping[str, str], path: str) -> _Header:
    """Read what a `.rpl` says of its numbers.

    Raises:
        FormatError: a key is missing, or has a value that cannot be.
    """
    width, height, depth = (_number(keys, key, path, "1" if key == "depth" else None) for key in _SIZES)
    kind, lengths = _KINDS[_word(keys, "data-type", [*_KINDS], path)]
    length = _number(keys, "data-length", path)
    if length not in lengths:
        known = ", ".join(map(str, lengths))
        raise FormatError(f"{path}: expected {known} for data-length of {keys['data-type']} numbers, found {length}")
    order = _ORDERS[_word(keys, "byte-order", [*_ORDERS], path, "dont-care")]
    record = _word(keys, "record-by", _RECORDS, path, "dont-care")
    offset = _number(keys, "offset", path, "0")
    if not 0 < width * height * depth * length < _MAX_FILE_BYTES or offset >= _MAX_FILE_BYTES:
        raise FormatError(
            f"{path}: expected numbers from 1 on that a file can hold, found width {width:,}, height {height:,}, depth"
            f" {depth:,}, offset {offset:,}"
        )
    return _Header((height, width, depth), np.dtype(f"{order}{kind}{length}"), offset, record)


def _shown(header: _Header, path: str) -> tuple[tuple[str, ...], int]:
    """Return (keys of the axes in their stored order, number of navigation axes), without scan axes of one position.

    Raises:
        FormatError: the order of the numbers is not said.
    """
    height, width, depth = header.shape
    alone = header.record == "dont-care"
    if alone and depth > 1 and height * width > 1:
        raise FormatError(
            f"{path}: says record-by dont-care, expected image or vector for {depth:,} × {height:,} × {width:,}"
            f" numbers: choose one with {format_option(record_by='image')}"
        )
    if header.record == "vector" or (alone and depth > 1):
        scan = tuple(key for key, n in (("height", height), ("width", width)) if n > 1)
        return (*scan, "depth"), len(scan)
    if alone and height == 1:
        return ("width",), 0
    return (("depth",) if depth > 1 else ()) + ("height", "width"), int(depth > 1)


def _calibration(keys: Mapping[str, str], key: str) -> dict[str, Any]:
    """Return scale, offset and unit of an axis. Without a scale of its own, the depth has eV a channel."""
    said: dict[str, Any] = {
        "scale": keys.get(f"{key}-scale"),
        "offset": keys.get(f"{key}-origin") or 0.0,
        "unit": keys.get(f"{key}-units") or "",
    }
    if key == "depth" and not said["scale"] and keys.get("ev-per-chan"):
        said |= {"scale": keys["ev-per-chan"], "unit": "eV"}
    return said


def _dims(axes: Sequence[str], nav: int, units: Mapping[str, str], light: bool) -> tuple[str, ...]:
    """Name the axes.

    Spectra have an axis `energy` if its unit is one, `wavelength` if they are of light and it is a length, else
    `channel`. So has a stack of maps.

    Args:
        light: True if the numbers are of cathodoluminescence.
    """

    def spectral(axis: str) -> str:
        unit = units[axis]
        return "energy" if unit in ENERGIES else "wavelength" if light and axis == "depth" and unit in LENGTHS else ""

    scan = scan_dims([units[axis] for axis in axes[:nav]])
    if len(axes) - nav == 2:
        return ((spectral(axes[0]) or scan[0],) if nav == 1 else scan) + ("y", "x")
    return (*scan, spectral(axes[-1]) or ("channel" if axes[-1] == "depth" else "x"))


def _raw_of(sources: Sources, path: str) -> str:
    """Find the file of numbers beside a `.rpl`.

    Raises:
        MissingSourceError: there is none.
    """
    stem = splitext(path)[0]
    for ending in _RAW:
        if exists(sources, stem + ending):
            return stem + ending
    raise MissingSourceError(f"{stem}.raw: no such file; it holds the numbers that {path} describes")


def open(
    paths: Sequence[str],
    sources: Sources,
    *,
    record_by: Literal["image", "vector"] | None = None,
    byte_order: Literal["little", "big"] | None = None,
) -> list[StoredArray]:
    """Open a Ripple set by its .rpl file.

    Args:
        record_by: image or vector: replaces what the .rpl says of the order of the numbers
        byte_order: little or big: replaces what the .rpl says

    Raises:
        FormatError: the .rpl is garbled, or says what cannot be.
        MissingSourceError: the .raw does not exist.
        OptionError: files of several sets are named.
        TruncatedSourceError: the .raw does not hold a whole record.
    """
    named = [path for path in paths if not path.lower().endswith(".raw")]
    if len(named) != 1 or len(paths) > 2:
        raise OptionError(f"{paths[-1]}: a Ripple set is one .rpl and its .raw; open one .rpl at a time")
    path = Files.stat(sources, named).paths[0]
    keys = _keys(sources, path)
    if record_by is not None:
        keys["record-by"] = record_by
    if byte_order is not None:
        keys["byte-order"] = f"{byte_order}-endian"
    header = _header(keys, path)
    axes, nav = _shown(header, path)
    files = Files.stat(sources, [path for path in paths if path not in named] or [_raw_of(sources, path)])
    sizes = dict(zip(("height", "width", "depth"), header.shape, strict=True))
    shape = tuple(sizes[axis] for axis in axes)
    word = header.dtype.itemsize
    recorded = Recorded.of(files, "records", math.prod(shape[nav:]) * word, header.offset, declarer=path)
    layout = FrameLayout.of(FrameRecord(shape[nav:], word), [recorded.stored], file_header=header.offset)
    said = {axis: _calibration(keys, axis) for axis in axes}
    light = keys.get("signal", "").strip().upper() == "CL"
    dims = _dims(axes, nav, {axis: spelled(one["unit"]) for axis, one in said.items()}, light)
    attrs = {"rpl": keys, "calibration": dict(zip(dims, said.values(), strict=True))}
    if title := keys.get("title"):
        attrs["title"] = title
    return [
        StoredArray(
            "data",
            files,
            layout.arranged(Scan(shape[:nav])),
            PlainDecoder(header.dtype),
            shape,
            dims,
            nav,
            attrs=attrs,
            absent=recorded.absences("a scan", shape[:nav], whole=True),
            written=Written(math.prod(shape[:nav]) if nav else None),
        )
    ]


def _when(rpl: Any) -> str | None:
    """Return the time that HyperSpy writes as a date and a time of the day."""
    date, clock = (str(rpl.get(key, "")) for key in ("date", "time")) if isinstance(rpl, Mapping) else ("", "")
    return f"{date}T{clock}" if clock else date


TERMS = (
    Term("title", "rpl:title"),
    Term("time", "rpl", take=_when),
    Term("beam_energy", "rpl:beam-energy", 1e3, zero=False),
    Term("convergence_angle", "rpl:convergence-angle", 1e-3, zero=False),
    Term("collection_angle", "rpl:collection-angle", 1e-3, zero=False),
    Term("live_time", "rpl:live-time", zero=False),
    Term("stage.alpha", "rpl:tilt-stage", DEGREES),
    Term("eds.azimuth", "rpl:azimuth-angle", DEGREES),
    Term("eds.elevation", "rpl:elevation-angle", DEGREES),
    *(Term("eds.resolution", f"rpl:{key}", zero=False) for key in ("energy-resolution", "detector-peak-width-ev")),
)
"""What HyperSpy and DTSA-II write into a .rpl, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "ripple",
    (".rpl",),
    "https://www.nist.gov/services-resources/software/lispix",
    "Ripple (Lispix): a .rpl that describes the numbers in the .raw beside it",
    sniff,
    open,
    terms=TERMS,
    index_extensions=(".rpl",),
)
