"""Reads JSON and checks it: messages name file and place, `x.vfs.json: blocks[17].shape: …`.

`Keys` says which keys an object has, and what is meant where one is not given: reading and writing share them.
`load` reads a document and returns a `Value`. A `Value` has a method for each kind of value that may
be expected: an object with certain keys, a whole number in a range, a text. The method returns the
checked value or raises a `FormatError`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np

from vfs.errors import FormatError, VfsError
from vfs.formats.headers import read_at
from vfs.model.files import Files
from vfs.model.sources import Sources

# Most bytes of a document: room for 150,000 blocks. A parsed document takes up to 30 times as much
# memory, a table little more than its size
MAX_BYTES = 16 << 20
MAX_LEVELS = 32  # most levels of nesting
MAX_INTEGER = (1 << 63) - 1


Read = TypeVar("Read")


class Keys:
    """The keys of an object.

    Args:
        required: those that must be given.
        optional: others -> what is meant where one is not given; None: that follows from the rest.
    """

    def __init__(self, *required: str, **optional: Any) -> None:
        self.required, self.optional = required, optional

    def __or__(self, others: Keys) -> Keys:
        """Return these keys and others."""
        required = tuple(dict.fromkeys((*self.required, *others.required)))
        optional = self.optional | others.optional
        return Keys(*required, **{key: meant for key, meant in optional.items() if key not in required})

    def written(self, **values: Any) -> dict[str, Any]:
        """Return an object with these values, without those that are meant where nothing is given."""
        return {
            key: value
            for key, value in values.items()
            if key in self.required or value not in (None, self.optional[key])
        }


class Members(dict[str, "Value"]):
    """The members of an object that were given, by their keys."""

    def __init__(self, given: Mapping[str, Value], keys: Keys) -> None:
        super().__init__(given)
        self._keys = keys

    def read(self, key: str, how: Callable[[Value], Read]) -> Read:
        """Return what `how` reads of a member, or what is meant if it is not given."""
        if key in self:
            return how(self[key])
        meant: Read = self._keys.optional[key]
        return meant


class _Repeated(dict[str, Any]):
    """An object that has a key twice. `key` is that key."""

    key = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a document.

    Attributes:
        file: the document's path.
        place: its place in the document, such as "blocks[17].shape"; "" for the whole document.
        value: the value, as the JSON parser returns it.
    """

    file: str
    place: str
    value: Any

    def fail(self, message: str, kind: Callable[[str], VfsError] = FormatError) -> NoReturn:
        """Raise an error that names file and place.

        Raises:
            FormatError: or another `kind`.
        """
        raise kind(self.line(message))

    def line(self, message: str) -> str:
        """Return a message that names file and place."""
        return f"{self.file}: {self.place}: {message}" if self.place else f"{self.file}: {message}"

    def expected(self, what: str) -> NoReturn:
        """Refuse this value, because `what` was expected.

        Raises:
            FormatError: always.
        """
        self.fail(f"expected {what}, found {_shown(self.value)}")

    def inside(self, key: str | int, value: Any) -> Value:
        """Return a value in this one."""
        if isinstance(key, int):
            return Value(self.file, f"{self.place}[{key}]", value)
        name = key if key and key.isprintable() and len(key) <= 60 else _shown(key)
        return Value(self.file, f"{self.place}.{name}" if self.place else name, value)

    def members(self, keys: Keys) -> Members:
        """Return the members of an object that has all required keys, and no others but the optional ones."""
        if not isinstance(self.value, dict):
            self.expected("an object {…}")
        self._once()
        known = [*keys.required, *keys.optional]
        for key in self.value:
            if key not in known:
                self.fail(f"the key {_shown(key)} is not known{nearest(key, known)}; there can be: {', '.join(known)}")
        for key in keys.required:
            if key not in self.value:
                self.fail(f"the key {key!r} is missing")
        return Members({key: self.inside(key, value) for key, value in self.value.items()}, keys)

    def _once(self) -> None:
        if isinstance(self.value, _Repeated):
            self.fail(f"the key {_shown(self.value.key)} is given twice")

    def items(self) -> list[Value]:
        """Return the members of a list."""
        if not isinstance(self.value, list):
            self.expected("a list […]")
        return [self.inside(i, value) for i, value in enumerate(self.value)]

    def integer(self, low: int = 0, high: int = MAX_INTEGER) -> int:
        """Return a whole number from `low` to `high`, both included."""
        if type(self.value) is not int or not low <= self.value <= high:  # bool is an int, too
            self.expected(
                f"a whole number from {low:,} to {high:,}"
                if high < MAX_INTEGER
                else f"a whole number of at most 63 bits, {low:,} or more"
            )
        return int(self.value)

    def integers(self, low: int = 0, length: int | None = None, high: int = MAX_INTEGER) -> np.ndarray:
        """Return a list of whole numbers from `low` to `high`, both included, as int64[n].

        Args:
            length: required length of the list; None: any length.
        """
        if not isinstance(self.value, list) or (length is not None and len(self.value) != length):
            many = "" if length is None else f"{length:,} "
            self.expected(f"a list of {many}whole numbers")
        if set(map(type, self.value)) <= {int} and all(low <= n <= high for n in self.value):
            return np.array(self.value, np.int64)
        return np.array([item.integer(low, high) for item in self.items()], np.int64)

    def text(self) -> str:
        """Return a text that is not empty and can be written as UTF-8."""
        if not isinstance(self.value, str) or not self.value or not _writable(self.value):
            self.expected("a text")
        return str(self.value)

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            self.expected("true or false")
        return self.value

    def metadata(self) -> dict[str, Any]:
        """Return an object with any JSON in it."""
        if not isinstance(self.value, dict):
            self.expected("an object {…}")
        self.anything()
        return self.value

    def anything(self) -> Any:
        """Return any JSON, after checking its keys."""
        if isinstance(self.value, dict):
            self._once()
            for key, value in self.value.items():
                if not _writable(key):
                    self.fail(f"the key {_shown(key)} cannot be written as UTF-8")
                if isinstance(value, list | dict):
                    self.inside(key, value).anything()
        elif isinstance(self.value, list) and not set(map(type, self.value)) <= {int, float, bool}:
            for i, value in enumerate(self.value):
                if value and isinstance(value, list | dict):
                    self.inside(i, value).anything()
        return self.value


def load(sources: Sources, path: str) -> Value:
    """Read a document.

    Raises:
        FormatError: it is too large, not UTF-8, not JSON, or nested too deeply.
        SourceError: it cannot be read.
    """
    size = int(Files.stat(sources, [path]).sizes[0])
    if size > MAX_BYTES:
        raise FormatError(
            f'{path}: has {size:,} bytes, expected at most {MAX_BYTES:,}; put many blocks into a table ("table":'
            ' "blocks.npz")'
        )
    data = read_at(sources, path, MAX_BYTES, short_ok=True)
    deep = False
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: expected JSON in UTF-8, byte {error.start:,} is {data[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}: expected JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        value = None
        deep = True
    except ValueError:  # Python refuses to read numbers of more than 4,300 digits
        raise FormatError(
            f"{path}: expected JSON with numbers of at most 64 bits, found one of thousands of digits"
        ) from None
    if deep or not _shallow(value):
        raise FormatError(f"{path}: expected at most {MAX_LEVELS} levels of nesting")
    return Value(path, "", value)


def _shallow(value: Any) -> bool:
    """Return True if a document is at most `MAX_LEVELS` deep, so that recursive functions can walk it."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_LEVELS):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return True
    return False


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    repeated = _Repeated(made)
    seen: set[str] = set()
    repeated.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return repeated


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _shown(value: Any) -> str:
    """Return a value for a message: short, on one line."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list) and (len(value) > 8 or any(isinstance(item, list | dict) for item in value)):
        return f"a list of {len(value):,}"
    text = json.dumps(value) if isinstance(value, str | bool) or value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def nearest(word: str, known: Collection[str]) -> str:
    """Return the hint " (did you mean …?)", or "" if no known word is similar."""
    near = difflib.get_close_matches(word[:100], known, 1)
    return f" (did you mean {near[0]}?)" if near else ""
