"""Reads what an HDF5 file says beside its arrays: attributes, texts, small numbers; in the process that reads HDF5."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from vfs.h5.links import Opened, first_line
from vfs.h5.reading import FactsReader
from vfs.helper.messages import packed

MAX_ATTRIBUTES = 20_000  # of an object
MAX_VALUES = 1 << 16  # of an attribute, or of a data set of texts or compounds
MAX_NUMBERS = 1024  # of a data set of numbers: more are an array
MAX_TEXT = 1 << 20  # characters
MAX_VALUES_BYTES = 32 << 20  # bytes of all values

_REFERENCES = ("DIMENSION_LIST", "REFERENCE_LIST")  # of dimension scales


class TreeReader(FactsReader):
    """Walks through a file and writes what it says.

    Messages are those of `vfs.h5.reading.read`; of a data set {"name": …, "attrs": …} and "value", or "shape" and
    "dtype" where it has more numbers than metadata have. {"name": …, "left_out": reason} says what is not there.
    """

    room = MAX_VALUES_BYTES

    def attributes(self, item: Any, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for k, key in enumerate(item.attrs):
            if k == MAX_ATTRIBUTES:
                self.left_out(f"{name}/@…", f"more than {MAX_ATTRIBUTES:,} attributes")
                break
            if key in _REFERENCES:
                continue
            try:
                known = item.attrs.get_id(key)
                if int(np.prod(known.shape or (), dtype=object)) > MAX_VALUES:
                    self.left_out(f"{name}/@{_utf8(key)}", f"{list(known.shape)} values")
                    continue
                found[_utf8(key)] = self._within(f"{name}/@{_utf8(key)}", plain(item.attrs[key]))
            except (OSError, TypeError, ValueError, RuntimeError, KeyError) as error:
                self.left_out(f"{name}/@{_utf8(key)}", first_line(error))
        return found

    def say(self, name: str, at: Opened, item: Any) -> None:
        """Write what a data set says."""
        if self.again_as(name, at, item):
            return
        said: dict[str, Any] = {"name": name, "attrs": self.attributes(item, name)}
        try:
            said |= self._value(name, item)
        except (OSError, TypeError, ValueError, RuntimeError, KeyError) as error:
            self.left_out(name, first_line(error))
        self.write(packed(said))

    def _value(self, name: str, item: Any) -> dict[str, Any]:
        if item.shape is None:
            return {"value": None}
        numbers = item.dtype.kind in "biufc"
        if item.size <= (MAX_NUMBERS if numbers else MAX_VALUES) and item.dtype.itemsize <= MAX_TEXT:
            return {"value": self._within(name, plain(item[()]))}
        if item.dtype == np.uint8 and item.ndim == 2 and item.shape[0] <= MAX_TEXT and name.endswith("Metadata"):
            text = item[:, 0].tobytes().split(b"\0")[0]  # Velox: a column for each frame
            if text[:1] == b"{":
                if item.shape[1] > 1:
                    self.left_out(name, f"those of {item.shape[1] - 1:,} frames after the first one")
                return {"value": self._within(name, plain(text))}
        return {"shape": list(item.shape), "dtype": str(item.dtype)[:200]}

    def _within(self, name: str, value: Any) -> Any:
        """Return a value, as long as all together are not too many."""
        size = len(json.dumps(value))
        if size > self.room:
            self.left_out(name, f"{size:,} bytes, after {MAX_VALUES_BYTES:,} of others")
            return None
        self.room -= size
        return value


def plain(value: Any) -> Any:
    """Convert a value to what JSON can hold. Complex numbers are pairs, compounds have their fields' names."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, bytes | str | np.void):
        value = value.item()
    if isinstance(value, np.void):
        return (
            {_utf8(name): plain(value[name]) for name in value.dtype.names}
            if value.dtype.names
            else value.tobytes().hex()
        )
    if isinstance(value, Mapping):
        return {_utf8(str(name)): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, bytes):
        return _decoded(value.split(b"\0")[0][:MAX_TEXT])
    if isinstance(value, str):
        return _utf8(value)[:MAX_TEXT]
    if value is None or isinstance(value, h5py.Empty):
        return None
    return value if isinstance(value, bool | int | float) else str(value)[:200]


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _decoded(text: bytes) -> str:
    """Return a text in UTF-8, or in what older programs write."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin1")
