"""A field of a header, the set that has it, and how fields are changed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Change = Callable[[Path], None]


@dataclass(frozen=True)
class DecidingField:
    """A field that decides what is shown.

    Attributes:
        name: as its specification calls it, with the new value where a field has several.
        change: gives it another valid value, in a file.
        file: pattern of the file's name; the first match of the folder is changed.
    """

    name: str
    change: Change
    file: str = "*"


@dataclass(frozen=True)
class DecidedSet:
    """A valid set of a format, and the fields of its files that decide what is shown.

    Attributes:
        format: name of the format.
        write: writes the set into a folder. Returns what `vfs.open` takes.
        fields: those that decide.
        name: tells the sets of a format apart.
        options: of the format.
    """

    format: str
    write: Callable[[Path], Any]
    fields: tuple[DecidingField, ...]
    name: str = ""
    options: Mapping[str, Any] | None = None


def binary(name: str, at: int, code: str, value: Any, file: str = "*") -> DecidingField:
    """A number at a byte of the file; a negative one counts from the end."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        struct.pack_into(code, data, at % len(data), value)
        path.write_bytes(data)

    return DecidingField(name, change, file)


def text(old: str, new: str, file: str = "*", *, encoding: str = "latin1") -> DecidingField:
    """Words of a header: the first ones; `new` has their length wherever the length of the header counts."""

    def change(path: Path) -> None:
        data = path.read_bytes()
        assert old.encode(encoding) in data, f"{path.name} has no {old!r}"
        path.write_bytes(data.replace(old.encode(encoding), new.encode(encoding), 1))

    return DecidingField(f"{old} -> {new}", change, file)


def key(name: str, value: Any, file: str = "*") -> DecidingField:
    """A key of a JSON document; a dot leads into a mapping or a list."""

    def change(path: Path) -> None:
        document = json.loads(path.read_text())
        *outer, last = name.split(".")
        inner = document
        for step in outer:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        inner[int(last) if isinstance(inner, list) else last] = value
        path.write_text(json.dumps(document))

    return DecidingField(f"{name} = {value}", change, file)


def behind(name: str, skip: int, code: str, value: Any, *, encoding: str = "latin1", file: str = "*") -> DecidingField:
    """A number that follows a name, `skip` bytes behind its last letter: tags of DM and ND2."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        at = data.rindex(name.encode(encoding)) + len(name.encode(encoding)) + skip
        struct.pack_into(code, data, at, value)
        path.write_bytes(data)

    return DecidingField(f"{name} = {value}", change, file)


def tag(number: int, value: int, *, name: str, page: int | None = None) -> DecidingField:
    """A tag of a little-endian TIFF file with one value: of a page, or of all."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for k, entries in enumerate(_directories(data)):
            if page in (None, k):
                at = entries[number]
                code = {3: "<H", 4: "<I", 16: "<Q"}[struct.unpack_from("<H", data, at + 2)[0]]
                count = struct.unpack_from("<I", data, at + 4)[0]
                place = at + 8
                if count * struct.calcsize(code) > 4:
                    place = struct.unpack_from("<I", data, place)[0]
                for n in range(count):
                    struct.pack_into(code, data, place + n * struct.calcsize(code), value)
        path.write_bytes(data)

    return DecidingField(f"{name} = {value}", change)


def _directories(data: bytes | bytearray) -> Iterator[dict[int, int]]:
    """Yield, for each page of a little-endian TIFF file of 4 GiB at most, where the entries of its directory are."""
    at = struct.unpack_from("<I", data, 4)[0]
    while at:
        count = struct.unpack_from("<H", data, at)[0]
        places = [at + 2 + 12 * k for k in range(count)]
        yield {struct.unpack_from("<H", data, place)[0]: place for place in places}
        at = struct.unpack_from("<I", data, at + 2 + 12 * count)[0]


def attribute(where: str, name: str, value: Any) -> DecidingField:
    """An attribute of a group or an array of an HDF5 file."""

    def change(path: Path) -> None:
        import h5py

        with h5py.File(path, "a") as file:
            file[where].attrs[name] = value

    return DecidingField(f"{where}@{name} = {value}", change)


def element(where: str, value: Any) -> DecidingField:
    """An array of an HDF5 file that says something of another one."""

    def change(path: Path) -> None:
        import h5py

        with h5py.File(path, "a") as file:
            del file[where]
            file[where] = value

    return DecidingField(f"{where} = {value}", change)


def pixels(shape: tuple[int, ...], kind: str = "u2") -> np.ndarray:
    """Return numbers in which every byte of every pixel differs from its neighbours'."""
    rng = np.random.default_rng(7)
    if kind[0] == "f":
        return rng.random(shape).astype(kind)
    return rng.integers(1, 1 << (8 * int(kind[1]) - (kind[0] == "i")), shape, dtype=kind)
