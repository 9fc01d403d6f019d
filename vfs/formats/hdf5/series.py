"""Joins arrays that are numbered pieces of one, as their program says, and reports absent ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise

from vfs.errors import FormatError, MissingSourceError, OutsideError, SourceError
from vfs.formats.hdf5.pieces import StoredData, as_stack, joined
from vfs.formats.hdf5.program import Numbered, elsewhere
from vfs.formats.hdf5.programs import PROGRAMS
from vfs.h5.facts import AbsentError, LeftOutError, Lost, Survey
from vfs.model.stored import Absence

_MAX_GONE = 10  # most missing pieces for each existing one


def join_numbered(
    path: str, found: dict[str, StoredData], left: dict[str, str], gone: dict[str, AbsentError], known: Survey
) -> list[Absence]:
    """Replace numbered pieces (Dectris: data_000001, data_000002 …; TopSpin: frames) by one array.

    Pieces with three axes follow each other along the first one. A piece with two axes is one frame.

    Args:
        found: arrays by their paths; changed in place. A joined array reports its missing pieces itself.
        left: reasons for which other arrays cannot be shown; changed in place.
        gone: errors of the arrays in `left` that lie in unreadable files; joined pieces are removed.

    Returns: what to say of pieces that are not joined. If all pieces of an array are gone, nothing.
    """
    said = []
    numbered = [
        (how, whole, pieces)
        for how in (program.numbered for program in PROGRAMS)
        if how
        for whole, pieces in how.find(path, {**found, **left}, known).items()
    ]
    for how, whole, pieces in numbered:
        there = {number: found[name] for number, name in pieces.items() if name in found}
        if len(pieces) < 2 or not there or whole in {*found, *left, *known.groups}:
            said += _before(path, pieces, how.begin) if there else []
            continue
        lost = {name: left[name] for name in pieces.values() if name in left} | _holes(pieces, how)
        try:
            made = _joined(pieces, there, how.begin)
        except LeftOutError as reason:
            left[whole] = str(reason)
            linked = any(elsewhere(path, name, known) for name in pieces.values())
            gaps = {name: why for name, why in lost.items() if name not in gone}
            said += _apart(path, whole, gaps, str(reason), linked)
            continue
        absent = [_lost(path, whole, lost, made.shape[0] - _frames(there.values()), known)] if lost else []
        for name in pieces.values():
            gone.pop(name, None)
            found.pop(name, None)
            left.pop(how.beside(name), None)
        partly_lost = chain.from_iterable(piece.absent for piece in there.values())
        before = () if _begins_with_1(pieces, how.begin) else _before(path, pieces, how.begin)
        others = _of_another_run(path, whole, pieces, there, how.first_image)
        made = replace(made, absent=(*absent, *partly_lost, *before, *others))
        found[whole] = how.in_raster(whole, made, known)
    return said


def _begins_with_1(pieces: Mapping[int, str], begin: int) -> bool:
    """Return True if pieces from 1 to the first one that is there are missing, and not many."""
    return begin == 1 < min(pieces) < _MAX_GONE * len(pieces)


def _joined(pieces: Mapping[int, str], there: Mapping[int, StoredData], begin: int) -> StoredData:
    """Join pieces in the order of their numbers, with room for missing ones.

    Raises:
        LeftOutError: they cannot be joined.
    """
    first, last = 1 if _begins_with_1(pieces, begin) else min(pieces), max(pieces)
    if last - first >= _MAX_GONE * len(pieces) + len(pieces):
        raise LeftOutError(f"its pieces are numbered from {first:,} to {last:,}, and most numbers are missing")
    stacked = dict(zip(there, as_stack([*there.values()]), strict=True))
    parts = [stacked.get(number) for number in range(first, last + 1)]
    return joined(parts, _length(parts))


def _holes(pieces: Mapping[int, str], how: Numbered) -> dict[str, str]:
    """Return the pieces whose numbers are missing: path -> reason; no more than a message can use."""
    numbers = [0] * _begins_with_1(pieces, how.begin) + sorted(pieces)
    found: dict[str, str] = {}
    for before, after in pairwise(numbers):
        if after - before > 1 and after - before < _MAX_GONE * len(pieces) + len(pieces):
            last = pieces[after].rpartition("/")[2]
            why = f"is not there, but {last if last[-1].isdigit() else pieces[after]} is"
            found |= {how.path(number, pieces[after]): why for number in range(before + 1, after)}
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
    files = sum(name not in known.data or elsewhere(path, name, known) for name in lost)
    counts = {"files_missing": files, "frames_missing": blank}
    names = dict.fromkeys(known.data[name].absent for name in lost if name in known.data and known.data[name].absent)
    shows = "shows them as blank, but not those at the end"
    return Absence(said, MissingSourceError, shows, counts, tuple(names), to_come=True)


def _of_another_run(
    path: str,
    whole: str,
    pieces: Mapping[int, str],
    there: Mapping[int, StoredData],
    first_image: Callable[[StoredData], int | None],
) -> list[Absence]:
    """Report pieces that say that they hold other images than those of their place.

    A file of another run, or under another number, may fit in size. Numbers that are alike in all pieces tell nothing.
    """
    lows = {number: first_image(one) for number, one in there.items()}
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
        f" {int(low or 0) - found + usual:,}{_more(len(wrong))}: it belongs to another"
        " acquisition, or has another's name"
    )
    return [Absence(said, FormatError, "shows it in the place of its number")]


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
