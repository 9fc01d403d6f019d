"""Finds the files of an FRMS6 set and reads their headers."""

from __future__ import annotations

import configparser
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OptionError
from vfs.formats import series
from vfs.formats.headers import exists, left_out, numbered, read_at, read_side_file
from vfs.model.sources import Sources
from vfs.model.stored import Absence
from vfs.sources.names import splitext

HEADER = np.dtype(
    [
        ("header_bytes", "<u2"),  # 1024
        ("frame_header_bytes", "<u2"),  # 64
        ("_padding", "V3"),
        ("version", "u1"),  # 6
        ("comment", "S80"),
        ("width", "<u2"),  # stored columns: twice those of the image
        ("height", "<u2"),  # stored rows: half of those of the image
        ("comment_2", "S928"),
        ("frames", "<u4"),  # 0 in older files: as many as there are
    ]
)
FRAME_HEADER = np.dtype(
    [
        ("_padding", "V4"),
        ("timestamp_seconds", "<u4"),
        ("timestamp_microseconds", "<u4"),
        ("frame_number", "<u4"),
        ("_padding_2", "V12"),
        ("comment", "S36"),
    ]
)
_NUMBER = re.compile(r"_(\d+)\.frms6$", re.IGNORECASE)


@dataclass(frozen=True)
class Frms6Set:
    """Holds the files of a set.

    Attributes:
        signal: files with signal, in order.
        dark: the file with dark frames; None if it is missing.
        hdr: the .hdr; None if it is missing.
        numbers: numbers of the signal files, if they were found by the name of one of them. The
            first file of a series has number 1.
        lost: signal files that are missing between these.
    """

    signal: list[str]
    dark: str | None
    hdr: str | None
    numbers: Sequence[int] = ()
    lost: series.Lost = field(default_factory=series.Lost)


def find_members(sources: Sources, paths: Sequence[str]) -> Frms6Set:
    """Find the files of the set that one path names, or which are all given.

    Raises:
        OptionError: several .hdr files are given.
        MissingSourceError: there is no file with signal.
    """
    hdrs = [path for path in paths if path.lower().endswith(".hdr")]
    data = [path for path in paths if path not in hdrs]
    if len(hdrs) > 1:
        raise OptionError(f"{hdrs[1]}: several .hdr files; an FRMS6 set has one")
    first = (data or hdrs)[0]
    base = _NUMBER.sub("", first) if data else splitext(first)[0]
    hdr = hdrs[0] if hdrs else next((path for path in (base + ".hdr", base + ".HDR") if exists(sources, path)), None)
    if len(data) > 1:
        numbers = [_NUMBER.search(path) for path in data]
        if all(numbers):
            data.sort(key=lambda path: int(_NUMBER.search(path)[1]))  # type: ignore[index]
        dark = [path for path in data if (hit := _NUMBER.search(path)) and int(hit[1]) == 0]
        return Frms6Set([path for path in data if path not in dark], dark[0] if dark else None, hdr)
    if data and base == data[0]:
        return Frms6Set(data, None, hdr)  # no number: a file of its own
    found = dict(numbered(sources, base + "_", ".frms6"))
    darks = found.pop(0, None)
    if not found:
        raise MissingSourceError(f"{base}_001.frms6: no such file; it would be the first file with signal")
    signal = list(found.values())
    lost = sum((series.between(a, b) for a, b in pairwise(signal)), series.in_front(signal[0]))
    return Frms6Set(signal, darks, hdr, list(found), lost)


def information(sources: Sources, path: str | None) -> tuple[dict[str, str], tuple[Absence, ...]]:
    """Read the .hdr.

    Returns: ({name of an entry in lower case: text}, what cannot be understood).

    Raises:
        FormatError: it is a file of another kind.
    """
    if path is None:
        return {}, ()
    text = read_side_file(sources, path).decode("latin1")
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    try:
        parser.read_string(text)
        section = dict(parser["measurementInfo"])
    except (configparser.Error, KeyError) as error:
        said = f"{path}: expected an INI file with the section measurementInfo: {str(error).splitlines()[0]}"
        if "measurementInfo" not in text:
            raise FormatError(said) from None
        return {}, (left_out(FormatError(said)),)
    return {name: (value or "").strip().strip('"') for name, value in section.items()}, ()


def read_header(sources: Sources, path: str) -> np.void:
    """Read the header of a data file.

    Raises:
        FormatError: it is none of FRMS6, or its numbers are not plausible.
    """
    header: np.void = np.frombuffer(read_at(sources, path, HEADER.itemsize), HEADER)[0]
    if (header["header_bytes"], header["frame_header_bytes"], header["version"]) != (1024, 64, 6):
        raise FormatError(
            f"{path}: expected an FRMS6 header (1024 bytes, frame headers of 64, version 6), "
            f"found {header['header_bytes']}, {header['frame_header_bytes']} and {header['version']}"
        )
    if header["width"] < 2 or header["width"] % 2 or header["height"] < 1:
        raise FormatError(
            f"{path}: the header says {header['height']} stored rows of {header['width']} pixels; expected an even"
            " width, both above 0"
        )
    return header
