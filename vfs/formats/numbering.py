"""Finds the missing files of a series that is numbered by the names of its files.

Files are a series if their names differ only in numbers, and one of the numbers is a counter. A
counter grows from file to file: from at least half of the files (more than half, if the step is
not 1) it is one step to the next file, from all others a multiple of the step. The step is the
smallest difference. So `img_000, img_010, img_020` has a step of 10 and no hole, and `img_1, img_2,
img_4` lacks one file. If two or more numbers change, but none of them grows from file to file
(`z0_t0, z0_t1, z1_t0, …`), the files are a grid, if at least three quarters of its places are
filled. Signs of numbers count (see `vfs.model.name_order`).

Dates and times (8 digits or more, without leading zeros), numbers with a unit (`300K`) and fractions
(`1.5`) are no counters. Upper and lower case mean the same (`IMG_1, img_2, IMG_4`). A hole of more
than ten times as many files as exist does not count as one. A file that exists but was not named was
left out on purpose: the series has no hole there. Names cannot tell of files that are lost before the
first one or behind the last one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from vfs.errors import MissingSourceError, SourceError
from vfs.formats.headers import exists
from vfs.formats.series import MAX_NAMED, padded
from vfs.model.name_order import numbers_in
from vfs.model.sources import Sources
from vfs.model.stored import Absence
from vfs.sources.names import basename, split

_MAX_GONE = 10  # most missing files for each existing one
_GRID = 0.75  # least share of the places of a grid that are filled
_DATE = 8  # digits
_START = np.zeros(1, np.int64)
_UNIT = re.compile(r" ?(?:[kM]?e?V|[kmunpµ]?[msAVTWL]|[kMG]?Hz|K|C|deg|Å|%)(?![A-Za-z0-9])|\.[0-9]{1,2}(?![0-9])")
_FRACTION = re.compile(r"[0-9]\.$")


@dataclass(frozen=True, eq=False)
class Joined:
    """Places the frames of files that follow one another.

    Attributes:
        first: int64[files], index of the first frame of each file.
        frames: number of all frames, including those of missing files.
        absent: the missing files.
    """

    first: np.ndarray
    frames: int
    absent: tuple[Absence, ...] = ()


def joined(sources: Sources, paths: Sequence[str], counts: Sequence[int] | np.ndarray) -> Joined:
    """Put files one after the other, with room for files that are missing by the numbers in the names.

    Args:
        sources: asked whether a file that seems to be missing exists: then the user left it out on purpose.
        paths: paths of the files, in order.
        counts: frames of each file. A missing file gets room for as many as the others have; if
            these differ, it gets no room.
    """
    if len(paths) == 1:
        return Joined(_START, int(counts[0]))
    n = np.asarray(counts, np.int64)
    begin = n.cumsum() - n
    series = _series(sources, paths) if len(paths) > 2 else None
    if series is None:
        return Joined(begin, int(n.sum()))
    each = int(n[0])
    alike = bool((n[:-1] == each).all() and n[-1] <= each)
    gone = len(series.gone)
    said = (
        f"{series.told}: missing, {'one file' if gone == 1 else f'{gone:,} files'} between {basename(paths[0])}"
        f" and {basename(paths[-1])}"
    )
    if not alike:
        allowed = "lets the files that are there follow on each other"
        return Joined(
            begin, int(n.sum()), (Absence(said, MissingSourceError, allowed, {"files_missing": gone}, series.names),)
        )
    spans = list(islice(_spans(series.gone, each), 4))
    said += f" (frame{'s' * (gone * each > 1)} {', '.join(spans[:3])}{', …' * (len(spans) > 3)})"
    first = series.places * each
    found = {"files_missing": gone, "frames_missing": gone * each}
    return Joined(
        first,
        int(first[-1] + n[-1]),
        (Absence(said, MissingSourceError, "shows their frames as blank", found, series.names),),
    )


def _spans(gone: np.ndarray, each: int) -> Iterator[str]:
    """Yield the frames of missing files for a message: "3", "7 to 9"."""
    for run in np.split(gone, np.flatnonzero(np.diff(gone) != 1) + 1):
        first, last = int(run[0]) * each, (int(run[-1]) + 1) * each - 1
        yield f"{first:,}" if first == last else f"{first:,} to {last:,}"


@dataclass(frozen=True, eq=False)
class _Series:
    """Describes a series with holes.

    Attributes:
        places: int64[files], position of each file in the series.
        gone: int64[m], positions of the missing files.
        names: paths of missing files, as far as they are known.
        told: names of the first of them, for messages.
    """

    places: np.ndarray
    gone: np.ndarray
    names: tuple[str, ...]
    told: str


@dataclass(frozen=True, eq=False)
class _NumberedNames:
    """Holds names that differ only in numbers.

    Attributes:
        texts: the texts before, between and behind the numbers.
        digits: for each number, its digits in each name.
        numbers: int64[numbers, files], values of the digits, with signs.
        signs: for each number, how names write a minus and a plus; "" where its sign is no part of it.
        mixed: True if names write the texts in upper and lower case; `texts` are as the first one has them.
    """

    texts: tuple[str, ...]
    digits: list[list[str]]
    numbers: np.ndarray
    signs: tuple[tuple[str, str], ...]
    mixed: bool = False

    @classmethod
    def of(cls, before: str, between: Sequence[str], behind: str) -> _NumberedNames | None:
        """Find the numbers in names. Returns None if the names differ in more than numbers.

        Args:
            before, behind: the texts with which all names begin and end.
            between: the rest of each name.
        """
        mixed = False
        if all(map(_is_number, between)):
            texts, digits = ["", ""], [list(between)]
        else:
            split = [re.split(r"([0-9]+)", text) for text in between]
            texts = split[0][::2]
            mixed = any(parts[::2] != texts for parts in split)
            if mixed and len({tuple(map(str.lower, parts[::2])) for parts in split}) > 1:
                return cls._with_signs([before + text + behind for text in between])
            if len(texts) < 2:
                return None
            digits = [list(column) for column in zip(*[parts[1::2] for parts in split], strict=True)]
        every = (before + texts[0], *texts[1:-1], texts[-1] + behind)
        made = cls._made(every, digits, [("", "")] * len(digits))
        return made and replace(made, mixed=mixed)._varying()

    @classmethod
    def _with_signs(cls, names: Sequence[str]) -> _NumberedNames | None:
        """Find the numbers in names that differ in signs, too. Returns None for decimals: they do not count."""
        found = numbers_in(names)
        if found is None or not all(place.signed or len({*place.signs}) == 1 for place in found[0]):
            return None
        places, behind = found
        if any(any(place.fractions) or place.powers for place in places):
            return None
        texts = [place.before + ("" if place.signed else place.signs[0]) for place in places]
        signs = [place.written if place.signed else ("", "") for place in places]
        made = cls._made((*texts, behind), [list(place.wholes) for place in places], signs)
        if made is not None:
            minus = np.array([[place.signed and place.negative(k) for k in range(len(names))] for place in places])
            made = replace(made, numbers=np.where(minus, -made.numbers, made.numbers))
        return made and made._varying()

    @classmethod
    def _made(
        cls, texts: tuple[str, ...], digits: list[list[str]], signs: Sequence[tuple[str, str]]
    ) -> _NumberedNames | None:
        if max(len(text) for column in digits for text in column) > 18:
            return None
        return cls(texts, digits, np.array([list(map(int, column)) for column in digits], np.int64), tuple(signs))

    def _varying(self) -> _NumberedNames | None:
        """Return the same names, with numbers that are equal in all of them treated as text."""
        texts, keep = [self.texts[0]], []
        for k, column in enumerate(self.digits):
            if len(set(column)) > 1 or np.ptp(self.numbers[k]):
                keep.append(k)
                texts.append(self.texts[k + 1])
            else:
                texts[-1] += self._sign(k, int(self.numbers[k, 0])) + column[0] + self.texts[k + 1]
        if not keep:
            return None
        signs = tuple([self.signs[k] for k in keep])
        return replace(
            self, texts=tuple(texts), digits=[self.digits[k] for k in keep], numbers=self.numbers[keep], signs=signs
        )

    def _sign(self, k: int, number: int) -> str:
        """Return the sign of a number as the names write it."""
        return self.signs[k][number >= 0]

    def counts(self, k: int) -> bool:
        """Return False if a number is a date, has a unit, or is part of a fraction."""
        column, behind = self.digits[k], self.texts[k + 1]
        if min(map(len, column)) >= _DATE and not any(text.startswith("0") for text in column):
            return False
        return not (
            _UNIT.match(behind)
            or self._is_fraction(k)
            or (behind == "." and k + 1 < len(self.digits) and self._is_fraction(k + 1))
        )

    def _is_fraction(self, k: int) -> bool:
        """Return True for one or two digits after "1."."""
        before = self.texts[k]
        return max(map(len, self.digits[k])) < 3 and (_FRACTION.search(before) is not None or (k > 0 and before == "."))

    def name(self, numbers: Sequence[int]) -> str:
        """Return the name with other numbers, padded with zeros like the existing names."""
        out = [self.texts[0]]
        for k, (number, column, text) in enumerate(zip(numbers, self.digits, self.texts[1:], strict=True)):
            out += [self._sign(k, number), str(abs(number)).zfill(padded(column)), text]
        return "".join(out)


def _alike(texts: Sequence[str]) -> int:
    """Return the length of the common beginning of all texts, without digits at its end."""
    first, last = min(texts), max(texts)
    n = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return len(first[:n].rstrip("0123456789"))


def _even(texts: Sequence[str]) -> bool:
    """Return True if all numbers are the same step apart, as in most series: a quick check."""
    if not all(map(_is_number, texts)):
        return False
    numbers = list(map(int, texts))
    step = numbers[1] - numbers[0]
    return step != 0 and numbers == list(range(numbers[0], numbers[0] + step * len(numbers), step))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _series(sources: Sources, paths: Sequence[str]) -> _Series | None:
    """Find the series of some files and its holes. Returns None if there are no holes, or no series."""
    start = _alike(paths)
    end = min(_alike([path[::-1] for path in paths]), min(map(len, paths)) - start)
    between = [path[start : len(path) - end] for path in paths]
    names = None if _even(between) else _NumberedNames.of(paths[0][:start], between, paths[0][len(paths[0]) - end :])
    if names is None:
        return None
    if names.numbers[0, 0] > names.numbers[0, -1]:  # named backwards
        back = _of_names(
            sources, replace(names, digits=[column[::-1] for column in names.digits], numbers=names.numbers[:, ::-1])
        )
        if back is None:
            return None
        last = len(back.places) + len(back.gone) - 1
        return _Series(last - back.places[::-1], last - back.gone[::-1], back.names, back.told)
    return _of_names(sources, names)


def _of_names(sources: Sources, names: _NumberedNames) -> _Series | None:
    counters = [k for k in range(len(names.digits)) if names.counts(k)]
    growing = [k for k in counters if (np.diff(names.numbers[k]) > 0).all()]
    steps = {k: _step(names.numbers[k]) for k in growing}
    if any(step and int(np.ptp(names.numbers[k])) == step * (names.numbers.shape[1] - 1) for k, step in steps.items()):
        return None  # one of the numbers is a counter without holes
    k = next((k for k in growing if steps[k]), None)
    if k is not None:
        return _of_one(sources, names, k, steps[k])
    grid = len(counters) == len(names.digits) > 1 and not growing and not names.mixed
    return _of_grid(sources, names) if grid else None


def _step(numbers: np.ndarray) -> int:
    """Return the step of a counter from its values in ascending order; 0 if they are not those of a counter."""
    gaps = np.diff(numbers)
    step = int(gaps.min())
    alike = int((gaps == step).sum())
    missing = int(gaps.sum()) // step - len(gaps)
    good = 2 * alike + (step == 1) > len(gaps) and not (gaps % step).any() and missing <= _MAX_GONE * len(numbers)
    return step if good else 0


def _of_one(sources: Sources, names: _NumberedNames, k: int, step: int) -> _Series | None:
    """Find the holes of a series whose counter is number `k` of the names."""
    values = names.numbers[k]
    places = (values - values[0]) // step
    gone = np.setdiff1d(np.arange(places[-1] + 1), places, assume_unique=True)
    called = [names.name([int(values[0] + place * step)]) for place in gone] if len(names.digits) == 1 else []
    if called and not names.mixed:
        there = {place for place, name in zip(gone.tolist(), called, strict=True) if exists(sources, name)}
    else:
        there = {(number - int(values[0])) // step for number in _listed(sources, names, k)}
    return _closed(
        places, gone, there, called, f"number {{}} of {names.texts[0]}…{names.texts[-1]}", values[0] + gone * step
    )


def _listed(sources: Sources, names: _NumberedNames, k: int) -> set[int]:
    """Return the values of number `k` in all such names in the folder of the files."""
    folder, start = split(names.texts[0])
    text = re.escape(start)
    for (minus, plus), behind in zip(names.signs, names.texts[1:], strict=True):
        sign = f"{re.escape(minus)}|{re.escape(plus)}"
        text += f"({sign})([0-9]+){re.escape(behind)}"
    pattern = re.compile(text, re.IGNORECASE * names.mixed)
    try:
        hits = [pattern.fullmatch(name) for name in sources.names(folder)]
    except SourceError:
        return set()
    return {
        int(hit[2 * k + 2]) * (-1 if names.signs[k][0] and hit[2 * k + 1] == names.signs[k][0] else 1)
        for hit in hits
        if hit and len(hit[2 * k + 2]) <= 18
    }


def _of_grid(sources: Sources, names: _NumberedNames) -> _Series | None:
    """Find the holes of a grid of two or more numbers, of which the last one changes fastest."""
    axes = []
    for column in names.numbers:
        values = np.unique(column)
        step = _step(values)
        if not step:
            return None
        axes.append(np.arange(values[0], values[-1] + 1, step))
    shape = [len(axis) for axis in axes]
    if math.prod(shape) * _GRID > names.numbers.shape[1]:
        return None
    at = [np.searchsorted(axis, column) for axis, column in zip(axes, names.numbers, strict=True)]
    places = np.ravel_multi_index(tuple(at), shape)
    if not (np.diff(places) > 0).all() or places[-1] + 1 == len(places):
        return None
    # The scan may have been stopped before the last place
    gone = np.setdiff1d(np.arange(places[-1]), places, assume_unique=True)
    positions = np.unravel_index(gone, shape)
    called = [
        names.name(numbers)
        for numbers in zip(*[axis[i].tolist() for axis, i in zip(axes, positions, strict=True)], strict=True)
    ]
    there = {place for place, name in zip(gone.tolist(), called, strict=True) if exists(sources, name)}
    return _closed(places, gone, there, called)


def _closed(
    places: np.ndarray,
    gone: np.ndarray,
    there: set[int],
    called: Sequence[str],
    unnamed: str = "",
    numbers: np.ndarray | None = None,
) -> _Series | None:
    """Return the series without the missing files that exist (`there`): the user left them out on purpose."""
    keep = np.array([place not in there for place in gone.tolist()], bool)
    if not keep.any():
        return None
    gone = gone[keep]
    every = np.sort(np.concatenate([places, gone]))
    names = tuple(name for name, kept in zip(called, keep.tolist(), strict=True) if kept) if called else ()
    if names:
        told = ", ".join([names[0], *map(basename, names[1:3])])
    else:
        assert numbers is not None
        told = unnamed.format(", ".join(map(str, numbers[keep][:3].tolist())))
    return _Series(
        np.searchsorted(every, places),
        np.searchsorted(every, gone),
        names[:MAX_NAMED],
        told + ", …" * (len(gone) > 3),
    )
