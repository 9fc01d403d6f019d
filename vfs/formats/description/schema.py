"""Reading JSON with care: every complaint names the file and the place, `x.vfs.json: blocks[17].shape: …`.

`load` reads a document; what it returns is a `Value`, and a Value answers only questions that say what is expected: an object
with these keys, a whole number from here to there, a text. Whoever asks gets a checked value or raises a `FormatError`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from vfs.errors import FormatError, VfsError
from vfs.formats.headers import read_at
from vfs.model.stored import Files

MOST_BYTES = 16 << 20  # of a document, 150,000 blocks: parsed it takes up to 30 times as much, where a table takes little more than itself
MOST_LEVELS = 32  # of nesting
MOST = (1 << 63) - 1


class _Repeated(dict[str, Any]):
    """An object in which a key stands twice."""

    key = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a document.

    Attributes:
        file: the document's path.
        place: where in it, such as "blocks[17].shape"; "" for the whole.
        value: as JSON has it.
    """

    file: str
    place: str
    value: Any

    def fail(self, message: str, kind: Callable[[str], VfsError] = FormatError) -> NoReturn:
        """Raises:
        FormatError: or another `kind`; names file and place.
        """
        raise kind(self.line(message))

    def line(self, message: str) -> str:
        """A message that names file and place."""
        return f"{self.file}: {self.place}: {message}" if self.place else f"{self.file}: {message}"

    def expected(self, what: str) -> NoReturn:
        """Raises:
        FormatError: `what` was expected, this value was found.
        """
        self.fail(f"expected {what}, found {_shown(self.value)}")

    def inside(self, key: str | int, value: Any) -> Value:
        """A value in this one."""
        if isinstance(key, int):
            return Value(self.file, f"{self.place}[{key}]", value)
        name = key if key and key.isprintable() and len(key) <= 60 else _shown(key)
        return Value(self.file, f"{self.place}.{name}" if self.place else name, value)

    def members(self, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Value]:
        """The members of an object that has all `required` keys and none beyond the `optional` ones."""
        if not isinstance(self.value, dict):
            self.expected("an object {…}")
        self._once()
        known = [*required, *optional]
        for key in self.value:
            if key not in known:
                self.fail(f"the key {_shown(key)} is not known{nearest(key, known)}; there can be: {', '.join(known)}")
        for key in required:
            if key not in self.value:
                self.fail(f"the key {key!r} is missing")
        return {key: self.inside(key, value) for key, value in self.value.items()}

    def _once(self) -> None:
        if isinstance(self.value, _Repeated):
            self.fail(f"the key {_shown(self.value.key)} stands there twice")

    def items(self) -> list[Value]:
        """The members of a list."""
        if not isinstance(self.value, list):
            self.expected("a list […]")
        return [self.inside(i, value) for i, value in enumerate(self.value)]

    def integer(self, low: int = 0, high: int = MOST) -> int:
        """A whole number from `low` to `high`, both included."""
        if type(self.value) is not int or not low <= self.value <= high:  # bool is an int, too
            self.expected(f"a whole number from {low:,} to {high:,}" if high < MOST else f"a whole number of at most 63 bits, {low:,} or more")
        return int(self.value)

    def integers(self, low: int = 0, length: int | None = None, high: int = MOST) -> np.ndarray:
        """A list of whole numbers from `low` to `high`, both included, as int64[n]; `length` of them, if that is given."""
        if not isinstance(self.value, list) or (length is not None and len(self.value) != length):
            many = "" if length is None else f"{length:,} "
            self.expected(f"a list of {many}whole numbers")
        if set(map(type, self.value)) <= {int} and all(low <= n <= high for n in self.value):
            return np.array(self.value, np.int64)
        return np.array([item.integer(low, high) for item in self.items()], np.int64)

    def text(self) -> str:
        """A text that is not empty and can be written as UTF-8."""
        if not isinstance(self.value, str) or not self.value or not _writable(self.value):
            self.expected("a text")
        return str(self.value)

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.expected("true or false")
        return self.value

    def metadata(self) -> dict[str, Any]:
        """An object of any JSON."""
        if not isinstance(self.value, dict):
            self.expected("an object {…}")
        self.anything()
        return self.value

    def anything(self) -> Any:
        """Any JSON."""
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


def load(path: str) -> Value:
    """Read a document.

    Raises:
        FormatError: it is too large, no UTF-8, no JSON, nested too deeply.
        SourceError: it cannot be read.
    """
    size = int(Files.stat([path]).sizes[0])
    if size > MOST_BYTES:
        raise FormatError(f'{path}: has {size:,} bytes, expected at most {MOST_BYTES:,}; many blocks belong into a table ("table": "blocks.npz")')
    data = read_at(path, MOST_BYTES, short_ok=True)
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
        raise FormatError(f"{path}: expected JSON with numbers of at most 64 bits, found one of thousands of digits") from None
    if deep or not _shallow(value):
        raise FormatError(f"{path}: expected at most {MOST_LEVELS} levels of nesting")
    return Value(path, "", value)


def _shallow(value: Any) -> bool:
    """True where a document is at most `MOST_LEVELS` deep, so that it can be walked by functions that call themselves."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_LEVELS):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer) if isinstance(inner, dict | list)]
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
    """A value for a message: short, on one line."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list) and (len(value) > 8 or any(isinstance(item, list | dict) for item in value)):
        return f"a list of {len(value):,}"
    text = json.dumps(value) if isinstance(value, str | bool) or value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def nearest(word: str, known: Collection[str]) -> str:
    """The hint " (did you mean …?)", or "" where nothing is like it."""
    near = difflib.get_close_matches(word[:100], known, 1)
    return f" (did you mean {near[0]}?)" if near else ""
