"""Joins arrays in several HDF5 files, and reports absent ones.

A Dectris master links to numbered pieces, which become one array.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vfs.errors import MissingSourceError, OutsideError
from vfs.formats.hdf5.storage import StoredData, joined
from vfs.h5.facts import AbsentError, LeftOutError, Survey
from vfs.model.stored import Absence


def join_numbered(
    path: str, found: dict[str, StoredData], left: dict[str, str], gone: dict[str, AbsentError], known: Survey
) -> list[Absence]:
    """Replace numbered pieces (Dectris: data_000001, data_000002 …) by one array, `data`.

    The pieces follow each other along its first axis.

    Args:
        found: arrays by their paths; changed in place.
        left: reasons for which other arrays cannot be shown; changed in place.
        gone: errors of the arrays in `left` that lie in unreadable files; joined pieces are removed.

    Returns: absent parts of joined arrays. If all pieces of an array are gone, it is not joined.
    """
    pieces: dict[str, list[str]] = {}
    for name in sorted({*found, *left}):
        above, _, last = name.rpartition("/")
        if re.fullmatch(r"data_\d{6}", last, re.ASCII):
            pieces.setdefault(f"{above}/data".lstrip("/"), []).append(name)
    absent = []
    for whole, names in pieces.items():
        lost = [name for name in names if name in left]
        if len(names) < 2 or len(lost) == len(names) or whole in {*found, *left, *known.groups}:
            continue
        try:
            there = [found.get(name) for name in names]
            length = _length(there)
            made = joined(there, length)
        except LeftOutError as reason:
            left[whole] = str(reason)
            continue
        if lost:
            absent.append(
                _lost(
                    path,
                    whole,
                    {name: left[name] for name in lost},
                    made.shape[0] - sum(part.shape[0] for part in there if part),
                )
            )
        for name in names:
            gone.pop(name, None)
            found.pop(name, None)
        found[whole] = made
    return absent


def _length(parts: Sequence[StoredData | None]) -> int:
    """Return the number of frames in every piece but the last one, which may have fewer.

    Raises:
        LeftOutError: the numbers differ, so the number of frames in a missing piece is not known.
    """
    lengths = {part.shape[0] for part in parts[:-1] if part is not None and part.shape}
    if None in parts and len(lengths) != 1:
        raise LeftOutError("the number of frames in its missing pieces is not known")
    return next(iter(lengths), 0)


def _lost(path: str, whole: str, lost: Mapping[str, str], blank: int) -> Absence:
    name, why = next(iter(lost.items()))
    said = f"{path}: {whole}: {name} {why}{_more(len(lost))}: frames are missing"
    counts = {"files_missing": len(lost), "frames_missing": blank}
    return Absence(said, MissingSourceError, "shows them as blank, but not those at the end", counts)


def absences(path: str, gone: Mapping[str, AbsentError]) -> list[Absence]:
    """Report the arrays in files that cannot be read.

    There is one line for files that do not exist, and one for files that may not be read.
    """
    said = []
    for outside, refused in ((False, MissingSourceError), (True, OutsideError)):
        some = {name: error for name, error in gone.items() if error.outside == outside}
        for name, error in list(some.items())[:1]:
            files = tuple(dict.fromkeys(error.file for error in some.values()))
            line = f"{path}: {name} {error}{_more(len(some))}"
            said.append(
                Absence(
                    line,
                    refused,
                    "shows the largest of the other arrays",
                    {"files_missing": len(files)},
                    files,
                    main=True,
                )
            )
    return said


def _more(count: int) -> str:
    return f" (and {count - 1:,} more like it)" if count > 1 else ""
