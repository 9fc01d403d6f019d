"""Orders the names of files by the numbers in them: frame_2 before frame_10, tilt_-10 before tilt_0.

Upper and lower case mean the same: IMG_1, img_2, IMG_3.

A sign before a number belongs to it only if the names show that it does. Names that differ in
nothing but numbers and signs are looked at together, place by place:

- a minus, if other names have a plus or no sign there (`tilt-10, tilt0`), or if it follows on
  something that separates already (`tilt_-10, tilt_-20`). A minus that all names have is a hyphen
  (`run-1, run-2`);
- `n`, `m`, `neg` or `minus`, if other names have `p`, `pos` or `plus` there, or nothing.

Digits behind a point are decimals of a number with a sign, or if only some of the names have them
(`1, 1.5, 2`), or if they do not count (`0.25, 0.5`). Else they are a number of their own: 1.10
comes behind 1.9. Behind a comma or a `p` they are decimals of a number with a sign (`n1p5, p0p5`), and behind
an `e` with a sign is the power of ten (`1e-3`, `2.5e+01`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

Key = tuple[list[str | int | Decimal], str]

_NUMBER = re.compile(
    r"(minus|plus|neg|pos|[-+\u2212\u2013nmp])?((?<![0-9]\.)[0-9]+\.[0-9]+(?!\.?[0-9])|[0-9]+)", re.IGNORECASE
)
_MARK = re.compile(r"[-+\u2212\u2013NMPSGnmpsg](?=[0-9])|(?<=[0-9])\.(?=[0-9])")  # where a sign ends, or decimals begin
_LETTERS = frozenset("nmpNMP")
_DASHES = frozenset("-\u2212\u2013")
_DECIMAL_MARKS = frozenset(
    {(",", ""), ("", "p"), ("", "P")}
)  # the text before decimals, and what looks like their sign
_POSITIVE = {"n": "p", "m": "p", "neg": "pos", "minus": "plus"}
_MAX_POWER = 4  # digits of a power of ten
_SEPARATES = frozenset("_ =(,[/@")


def natural(name: str) -> Key:
    """Return a sort key that compares runs of digits as numbers: frame_2 comes before frame_10."""
    parts = re.split(r"([0-9]+)", name.lower())
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name


@dataclass(frozen=True)
class NumbersInNames:
    """Holds the numbers that stand at one place in names which differ only in numbers and signs.

    Attributes:
        before: the text before the number and its sign, the same in all names.
        signs: the sign in each name as it is written; "" where there is none.
        wholes, fractions: the digits before and behind the point in each name.
        begins: True if the names begin with them.
        alone: True if no other names stand beside these.
        powers: the power of ten in each name, with its sign; () where names have none.
    """

    before: str
    signs: tuple[str, ...]
    wholes: tuple[str, ...]
    fractions: tuple[str, ...]
    begins: bool
    alone: bool
    powers: tuple[int, ...] = ()

    @cached_property
    def signed(self) -> bool:
        """True if the signs belong to the numbers."""
        signs = {sign.lower() for sign in self.signs}
        dashes, rest = signs & _DASHES, signs - _DASHES
        if dashes:
            return rest <= {"", "+"} and (bool(rest) or self.begins or self.before[-1:] in _SEPARATES)
        negative = signs & _POSITIVE.keys()
        if len(negative) != 1 or not self.alone:
            return False
        (word,) = negative
        rest = signs - negative
        known = bool(rest) and rest <= {"", _POSITIVE[word]}
        return known and (len(word) > 1 or _POSITIVE[word] in rest or not self.before[-1:].isalpha())

    @cached_property
    def decimal(self) -> bool:
        """True if digits behind a point are decimals."""
        digits = set(self.fractions)
        if self.powers:
            return True
        if digits == {""}:
            return False
        if "" in digits or self.signed:
            return True
        counts = sorted({int(text) for text in digits})
        padded = any(text[0] == "0" for text in digits)
        return len({*map(len, digits)}) > 1 and (padded or counts[-1] - counts[0] >= len(counts))

    @property
    def doubtful(self) -> bool:
        """True if somebody may see another order in the numbers, although the names do not show it."""
        if not self.signed and {*self.signs} <= _DASHES and self.before and len({*self.wholes}) > 1:
            return not any(text[0] == "0" for text in self.wholes if text != "0")
        return not self.decimal and len({*map(len, self.fractions)}) > 1

    def negative(self, k: int) -> bool:
        """Return True if number `k` has a sign that makes it negative."""
        return self.signs[k].lower() in _DASHES | _POSITIVE.keys()

    @property
    def written(self) -> tuple[str, str]:
        """How the names write a minus and a plus: as the first of each; "" where there is none."""
        numbers = range(len(self.signs))
        minus, plus = (next((self.signs[k] for k in numbers if self.negative(k) == it), "") for it in (True, False))
        return minus, plus

    def parts(self, k: int) -> list[str | int | Decimal]:
        """Return text, number … of name `k`, for sorting."""
        before = self.before if self.signed else self.before + self.signs[k]
        sign = -1 if self.signed and self.negative(k) else 1
        whole, fraction = self.wholes[k], self.fractions[k]
        if self.powers:
            return [before, sign * Decimal(f"{whole}.{fraction or 0}e{self.powers[k]}")]
        if not fraction:
            return [before, sign * int(whole)]
        if self.decimal:
            return [before, sign * Decimal(f"{whole}.{fraction}")]
        return [before, int(whole), ".", int(fraction)]


def numbers_in(names: Sequence[str], alone: bool = True) -> tuple[list[NumbersInNames], str] | None:
    """Find the numbers in names that differ only in numbers and signs.

    Args:
        alone: False if other names stand beside these.

    Returns: (the numbers of each place, the text behind the last of them); None if the names differ
        in more than that.
    """
    split = [_NUMBER.split(name) for name in names]
    texts = split[0][::3]
    if any(parts[::3] != texts for parts in split):
        return None
    places: list[NumbersInNames] = []
    for k, before in enumerate(texts[:-1]):
        signs = tuple([parts[3 * k + 1] or "" for parts in split])
        digits = [parts[3 * k + 2].partition(".") for parts in split]
        wholes, fractions = tuple([whole for whole, _, _ in digits]), tuple([decimals for _, _, decimals in digits])
        made = NumbersInNames(before, signs, wholes, fractions, not before and k == 0, alone)
        joined = _joined(places[-1], made) if places else None
        places[-1:] = [joined] if joined else [*places[-1:], made]
    return places, texts[-1]


def _joined(number: NumbersInNames, behind: NumbersInNames) -> NumbersInNames | None:
    """Return one number of two that stand beside each other, if the second one is its decimals or its power of ten."""
    signs = {*behind.signs}
    if number.powers or any(behind.fractions):
        return None
    if behind.before in ("e", "E") and signs <= {*_DASHES, "+"} and max(map(len, behind.wholes)) < _MAX_POWER:
        powers = tuple([int(f"{'-' if behind.negative(k) else ''}{n}") for k, n in enumerate(behind.wholes)])
        return replace(number, powers=powers)
    marked = len(signs) == 1 and (behind.before, *signs) in _DECIMAL_MARKS
    if marked and number.signed and not any(number.fractions):
        return replace(number, fractions=behind.wholes)
    return None


def _groups(names: Sequence[str]) -> list[list[int]]:
    """Return the indices of names that differ only in numbers and signs."""
    found: dict[tuple[str, ...], list[int]] = {}
    for k, name in enumerate(names):
        found.setdefault(tuple(_NUMBER.split(name.lower())[::3]), []).append(k)
    return list(found.values())


def _looked_at(names: Sequence[str]) -> list[tuple[list[int], list[NumbersInNames], str]]:
    """Return the indices of the names of each group, with their numbers."""
    groups = _groups(names)
    found = []
    for group in groups:
        made = numbers_in([names[k].lower() for k in group], alone=len(groups) == 1)
        assert made is not None
        found.append((group, *made))
    return found


def in_order(names: Sequence[str]) -> list[str]:
    """Sort the names of files: by their numbers, and by the signs that belong to these."""
    marks = {tuple(_MARK.findall(name)) for name in names}
    if len(marks) < 2 and all(_LETTERS.issuperset(found) for found in marks):  # most series
        return sorted(names, key=natural)
    keys: list[Key] = []
    for group, places, behind in _looked_at(names):
        for n, k in enumerate(group):
            keys.append(([part for place in places for part in place.parts(n)] + [behind], names[k]))
    return [name for _, name in sorted(keys)]


def in_doubt(names: Sequence[str]) -> bool:
    """Return True if there is more than one way to see the order of some names."""
    if len(names) < 2:
        return False
    if list(names) != in_order(names) or list(names) != sorted(names, key=natural):
        return True
    return any(place.doubtful for _, places, _ in _looked_at(names) for place in places)
