"""Joins arrays in several HDF5 files, and reports absent ones.

A Dectris master holds or links to numbered pieces (`data_000001`, `data_000002` …), which become one
array. Dectris numbers them from 1 with six digits, so those before the first one that is there are missing, too, unless
that would be most. Other programs use fewer digits: pieces with other numbers of digits are joined only if each lies in
another file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OutsideError, SourceError
from vfs.formats.hdf5.pieces import StoredData, as_stack, joined
from vfs.formats.hdf5.programs import topspin
from vfs.formats.headers import read_at
from vfs.h5.facts import AbsentError, LeftOutError, Lost, Survey
from vfs.model.sources import Sources
from vfs.model.stored import Absence

_DIGITS = 6  # of Dectris
_MOST_FRAMES = 1 << 40  # a number of images is taken for garbled from there on
_MOST_GONE = 10  # most missing pieces for each existing one


def join_numbered(
    path: str, found: dict[str, StoredData], left: dict[str, str], gone: dict[str, AbsentError], known: Survey
) -> list[Absence]:
    """Replace numbered pieces (Dectris: data_000001, data_000002 …) by one array, `data`, and the frames of TopSpin.

    Pieces with three axes follow each other along the first one. A piece with two axes is one frame.

    Args:
        found: arrays by their paths; changed in place. A joined array reports its missing pieces itself.
        left: reasons for which other arrays cannot be shown; changed in place.
        gone: errors of the arrays in `left` that lie in unreadable files; joined pieces are removed.

    Returns: what to say of pieces that are not joined. If all pieces of an array are gone, nothing.
    """
    said = []
    scans = topspin.pieces({*found, *left})
    for whole, pieces in (_pieces(path, {*found, *left}, known) | scans).items():
        there = {number: found[name] for number, name in pieces.items() if name in found}
        begin = 0 if whole in scans else 1
        if len(pieces) < 2 or not there or whole in {*found, *left, *known.groups}:
            said += _before(path, pieces, begin) if there else []
            continue
        lost = {name: left[name] for name in pieces.values() if name in left} | _holes(pieces, whole in scans)
        try:
            made = _joined(pieces, there, whole in scans)
        except LeftOutError as reason:
            left[whole] = str(reason)
            linked = any(_elsewhere(path, name, known) for name in pieces.values())
            gaps = {name: why for name, why in lost.items() if name not in gone}
            said += _apart(path, whole, gaps, str(reason), linked)
            continue
        absent = [_lost(path, whole, lost, made.shape[0] - _frames(there.values()), known)] if lost else []
        for name in pieces.values():
            gone.pop(name, None)
            found.pop(name, None)
            left.pop(topspin.beside(name), None)
        partly_lost = chain.from_iterable(piece.absent for piece in there.values())
        before = () if _begins_with_1(pieces, whole in scans) else _before(path, pieces, begin)
        others = _of_another_run(path, whole, pieces, there)
        made = replace(made, absent=(*absent, *partly_lost, *before, *others))
        found[whole] = topspin.arranged(whole, made, known) if whole in scans else made
    return said


def _pieces(path: str, names: Iterable[str], known: Survey) -> dict[str, dict[int, str]]:
    """Return the pieces of each array: its path -> number -> path of the piece, in the order of the numbers."""
    series: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        above, _, last = name.rpartition("/")
        digits = re.fullmatch(r"data_(\d{1,9})", last, re.ASCII)
        if digits and (len(digits[1]) == _DIGITS or _elsewhere(path, name, known)):
            series.setdefault(f"{above}/data".lstrip("/"), []).append((int(digits[1]), name))
    made = {whole: dict(sorted(pieces)) for whole, pieces in series.items()}
    return {whole: pieces for whole, pieces in made.items() if len(pieces) == len(series[whole])}


def _elsewhere(path: str, name: str, known: Survey) -> bool:
    """Return True if a data set should lie in another file."""
    data = known.data.get(name)
    return data is not None and (data.absent or data.file or path) != path


def _begins_with_1(pieces: Mapping[int, str], of_scan: bool) -> bool:
    """Return True if pieces before the first one that is there are missing: not many, and no frames of TopSpin."""
    return not of_scan and 1 < min(pieces) < _MOST_GONE * len(pieces)


def _joined(pieces: Mapping[int, str], there: Mapping[int, StoredData], of_scan: bool) -> StoredData:
    """Join pieces in the order of their numbers, with room for missing ones.

    Raises:
        LeftOutError: they cannot be joined.
    """
    first, last = 1 if _begins_with_1(pieces, of_scan) else min(pieces), max(pieces)
    if last - first >= _MOST_GONE * len(pieces) + len(pieces):
        raise LeftOutError(f"its pieces are numbered from {first:,} to {last:,}, and most numbers are missing")
    stacked = dict(zip(there, as_stack([*there.values()]), strict=True))
    parts = [stacked.get(number) for number in range(first, last + 1)]
    return joined(parts, _length(parts))


def _holes(pieces: Mapping[int, str], of_scan: bool) -> dict[str, str]:
    """Return the pieces whose numbers are missing: path -> reason; no more than a message can use.

    Args:
        of_scan: the pieces are frames of TopSpin, ID/0/Data …, else data_000001 ….
    """
    numbers = [0] * _begins_with_1(pieces, of_scan) + sorted(pieces)
    found: dict[str, str] = {}
    for before, after in pairwise(numbers):
        if after - before > 1 and after - before < _MOST_GONE * len(pieces) + len(pieces):
            why = f"is not there, but {pieces[after] if of_scan else pieces[after].rpartition('/')[2]} is"
            at = re.search(r"\d+(?=/Data$)" if of_scan else r"\d+$", pieces[after])
            assert at is not None
            start, width = pieces[after][: at.start()], 0 if of_scan else len(at[0])
            end = pieces[after][at.end() :]
            found |= {f"{start}{number:0{width}d}{end}": why for number in range(before + 1, after)}
    return found


def _frames(parts: Iterable[StoredData]) -> int:
    return sum(part.shape[0] for part in as_stack([*parts]))


def _length(parts: Sequence[StoredData | None]) -> int:
    """Return the number of frames in every piece but the last one, which may have fewer.

    Raises:
        LeftOutError: the numbers differ, so the number of frames in a missing piece is not known.
    """
    lengths = {part.shape[0] for part in parts[:-1] if part is not None and part.shape}
    if None in parts and len(lengths) != 1:
        raise LeftOutError("the number of frames in its missing pieces is not known")
    return next(iter(lengths), 0)


def _lost(path: str, whole: str, lost: Mapping[str, str], blank: int, known: Survey) -> Absence:
    name, why = next(iter(sorted(lost.items())))
    said = f"{path}: {whole}: {name} {why}{_more(len(lost))}: frames are missing"
    files = sum(name not in known.data or _elsewhere(path, name, known) for name in lost)
    counts = {"files_missing": files, "frames_missing": blank}
    names = dict.fromkeys(known.data[name].absent for name in lost if name in known.data and known.data[name].absent)
    shows = "shows them as blank, but not those at the end"
    return Absence(said, MissingSourceError, shows, counts, tuple(names), to_come=True)


def _of_another_run(path: str, whole: str, pieces: Mapping[int, str], there: Mapping[int, StoredData]) -> list[Absence]:
    """Report pieces that say that they hold other images than those of their place (Dectris: `image_nr_low`).

    A file of another run, or under another number, may fit in size. Numbers that are alike in all pieces tell nothing.
    """
    lows = {number: _first_image(one) for number, one in there.items()}
    numbers = sorted(there)
    if None in lows.values() or len({*lows.values()}) < 2:
        return []
    frames = dict(zip(numbers, [one.shape[0] for one in as_stack([there[number] for number in numbers])], strict=True))
    each = max(frames.values())
    places, at = {}, 0
    for number, following in zip(numbers, [*numbers[1:], numbers[-1] + 1], strict=True):
        places[number] = int(lows[number] or 0) - at
        at += frames[number] + each * (following - number - 1)
    usual = Counter(places.values()).most_common(1)[0][0]
    wrong = [number for number in numbers if places[number] != usual]
    if not wrong:
        return []
    low, found = lows[wrong[0]], places[wrong[0]]
    said = (
        f"{path}: {whole}: {pieces[wrong[0]]} says that it begins with image {low:,}, by its number it would begin with"
        f" {int(low or 0) - found + usual:,}{_more(len(wrong))}: it is of another run, or has another's name"
    )
    return [Absence(said, FormatError, "shows it in the place of its number")]


def _first_image(piece: StoredData) -> int | None:
    """Return the number that a piece gives its first image; None if it gives none."""
    low = np.asarray(piece.attrs.get("image_nr_low"))
    return int(low) if low.dtype.kind in "iu" and low.size == 1 else None


def _apart(path: str, whole: str, lost: Mapping[str, str], why: str, linked: bool) -> list[Absence]:
    """Say that pieces are not joined.

    It is an error if some are lost, of which nothing else is said, or if they are files of their own: then the set is
    about all of them, and one may be of another run.
    """
    said = f"{path}: the numbered pieces of {whole} stay apart: {why}"
    if not lost:
        return [Absence(said, FormatError, "shows the largest of them", main=True) if linked else Absence(said)]
    name, reason = next(iter(sorted(lost.items())))
    more = f"{said} ({name} {reason}{_more(len(lost))})"
    return [Absence(more, MissingSourceError, "shows those that are there", {"files_missing": len(lost)}, main=True)]


def _before(path: str, pieces: Mapping[int, str], begin: int) -> list[Absence]:
    """Say that the first piece has a number that only a later one gets.

    Args:
        begin: the number of the first piece, as it is written.
    """
    first = min(pieces)
    said = f"{path}: {pieces[first]} is the first of its numbered pieces: those before it are not in the file"
    return [Absence(said)] if first > begin else []


def declared(sources: Sources, known: Survey, whole: str, held: int) -> int | None:
    """Return the number of frames that all numbered pieces of an array will hold, as a Dectris master says.

    Args:
        whole: path of the array.
        held: number of frames that are there.

    Returns: None where the file does not say it, or says fewer.
    """
    about = whole.rpartition("/")[0].rpartition("/")[0]
    count = 1
    for name in ("nimages", "ntrigger"):  # images for each trigger, and triggers
        data = known.data.get(f"{about}/instrument/detector/detectorSpecific/{name}".lstrip("/"))
        if data is None or data.shape or data.offset < 0 or np.dtype(data.dtype).kind not in "iu":
            return None
        dtype = np.dtype(data.dtype)
        count *= int(np.frombuffer(read_at(sources, data.file, dtype.itemsize, data.offset), dtype)[0])
    return count if held <= count < _MOST_FRAMES else None


def absences(path: str, gone: Mapping[str, AbsentError]) -> list[Absence]:
    """Report the arrays in files that cannot be read.

    There is one line for files that do not exist, and one for files that may not be read.
    """
    lost = [(f"{path}: {name} {error}", error.file, error.outside, 0) for name, error in gone.items()]
    return [
        replace(one, allowed="shows the largest of the other arrays", main=True)
        for one in _of_files(lost, lambda said, many: f"{said}{many}")
    ]


def partly(path: str, name: str, lost: Sequence[Lost]) -> tuple[Absence, ...]:
    """Report the files that should hold a part of an array and cannot be read."""
    said = _of_files(lost, lambda why, many: f"{path}: {name} {why}{many}: parts of the array are missing")
    return tuple(replace(one, allowed="shows them as blank") for one in said)


def unflushed(known: Survey) -> list[Absence]:
    """Report the files that a program has open for writing: what it has not passed on yet looks as if never written."""
    return [
        Absence(
            f"{path}: {writer} has it open for writing, and may hold elements that are not in the file yet",
            SourceError,
            "shows what is in the file",
        )
        for path, writer in list(known.writers.items())[:1]
    ]


def _of_files(lost: Sequence[Lost], line: Callable[[str, str], str]) -> list[Absence]:
    said = []
    for outside, refused in ((False, MissingSourceError), (True, OutsideError)):
        some = [one for one in lost if one[2] == outside]
        if some:
            files, frames = tuple(dict.fromkeys(file for _, file, _, _ in some)), sum(n for _, _, _, n in some)
            counts = {"files_missing": len(files), **({"frames_missing": frames} if frames else {})}
            said.append(Absence(line(some[0][0], _more(len(some))), refused, "", counts, files))
    return said


def _more(count: int) -> str:
    return f" (and {count - 1:,} more like it)" if count > 1 else ""
