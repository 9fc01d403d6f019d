"""Defines the facts about an HDF5 file, as they come in messages (`vfs.helper.messages`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from vfs.model.sources import Sources
from vfs.sources.boundary import reads_outside

Runs = tuple[tuple[int, int, int], ...]
"""Along an axis: (first in the source, first in the virtual data set, length)."""

Lost = tuple[str, str, bool, int]
"""(reason, path, True if it may not be read, whole frames) of a file that should hold a part of a data set."""


class LeftOutError(Exception):
    """A data set cannot be shown. The message is the reason."""


class NoNumbersError(LeftOutError):
    """A data set holds text or compound types, not numbers."""


class AbsentError(LeftOutError):
    """A data set cannot be shown because a file that should hold it cannot be read.

    Attributes:
        file: path of that file.
        outside: True if it may not be read, because it lies outside the folder of the set.
    """

    def __init__(self, why: str, file: str, outside: bool = False) -> None:
        super().__init__(why)
        self.file = file
        self.outside = outside


@dataclass(frozen=True)
class Mapped:
    """A source of a virtual data set, and the elements that it provides.

    Attributes:
        source: number of its facts in the survey.
        runs: for every axis along which more than one element is mapped, slowest first: axis in
            the source, axis in the virtual data set, and runs of elements in both.
        start, place: first element per axis, in the source and in the virtual data set. On axes
            that are not in `runs` it is the only one.
    """

    source: int
    runs: tuple[tuple[int, int, Runs], ...]
    start: tuple[int, ...]
    place: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Data:
    """A data set.

    Attributes:
        name: its path in the file; "" if it only serves as a source.
        left_out: why it cannot be shown, or "".
        absent: path of the file whose absence is the reason, or "".
        outside: True if that file may not be read.
        file: the file that holds it.
        dtype: of an element in the file, as numpy writes it.
        shape: elements per axis; also of numbers that cannot be shown.
        kind: contiguous, chunked, compact, external or virtual.
        offset: first byte, if contiguous; -1 if nothing was ever written.
        chunk: elements per axis.
        filters: (number, parameters, name) in the order of writing.
        grows: True if it is chunked and may become longer.
        early: True if its chunks got their places when it was made, before they were written.
        table: int64[chunks, ndim + 3]: first element per axis, first byte, bytes stored, mask of
            the filters that were left out.
        held: its bytes, if compact.
        parts: (file, first byte, bytes) of external storage.
            The file of a lost piece is "".
        mapped: sources of a virtual data set.
        lost: files of sources and of external storage that cannot be read, while others can.
        fill: value of elements that were never written.
        attrs: attributes.
        labels: names of its axes, "" for one without a name.
        fields: names of the fields of an element, where it is a compound.
        parts_each: how many numbers an element has, if several: they are the last axis of `shape` and `chunk`.
        ragged: (dtype of events, first byte of the HDF5 file proper) of lists of events: see `vfs.h5.values.ragged`.
        text: the text that it holds, of those that are read: see `vfs.h5.values.text`.
        text_at: (first byte, bytes) of a text that TopSpin writes beside each frame; () for others.
        scales: addresses of the dimension scales of its axes, -1 where there is none; () without any.
        address: its own address in its file, if it is a dimension scale; else -1.
        conventions: attributes for readers of netCDF: text, or numbers with the dtype that they have in the file.
    """

    name: str
    left_out: str = ""
    absent: str = ""
    outside: bool = False
    file: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    kind: str = ""
    offset: int = -1
    chunk: tuple[int, ...] = ()
    filters: tuple[tuple[int, tuple[int, ...], str], ...] = ()
    grows: bool = False
    early: bool = False
    table: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int64))
    held: bytes = b""
    parts: tuple[tuple[str, int, int], ...] = ()
    mapped: tuple[Mapped, ...] = ()
    lost: tuple[Lost, ...] = ()
    fill: int | float | complex = 0
    attrs: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    parts_each: int = 0
    ragged: tuple[str, int] = ("", 0)
    text: str = ""
    text_at: tuple[int, ...] = ()
    scales: tuple[int, ...] = ()
    address: int = -1
    conventions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Survey:
    """All facts of a file.

    Attributes:
        data: name -> facts, in the order of the file; an object with several names has the same
            facts under each.
        sources: facts of sources, by the numbers in `mapped`.
        groups: path -> attributes; "" is the root.
        files: path -> (bytes, modification time in ns) of every HDF5 file that was read.
        writers: path -> program that has this file open for writing.
        growing: path -> words for a file that a program is writing with SWMR.
        origin: where these files are.
    """

    data: Mapping[str, Data]
    sources: tuple[Data, ...]
    groups: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, tuple[int, int]]
    writers: Mapping[str, str]
    growing: Mapping[str, str]
    origin: Sources

    @cached_property
    def scales(self) -> Mapping[tuple[str, int], str]:
        """Names of all dimension scales, without their paths: (file, address) -> name."""
        return {
            (data.file, data.address): name.rpartition("/")[2] for name, data in self.data.items() if data.address >= 0
        }

    @cached_property
    def lengths(self) -> Mapping[tuple[str, int], int]:
        """Length of the axes that a dimension scale stands for, of the longest one: (file, address) -> length."""
        found: dict[tuple[str, int], int] = {}
        for data in self.data.values():
            for address, length in zip(data.scales or (data.address,), data.shape, strict=False):
                if address >= 0:
                    found[data.file, address] = max(length, found.get((data.file, address), 0))
        return found


def _advised(why: str, outside: bool) -> str:
    """Add to a reason the option that reads files outside of the folder: the helper does not know who reads it."""
    return f"{why}; {reads_outside()}" if outside else why


def data_of(said: Mapping[str, Any], tables: list[np.ndarray]) -> Data:
    """Return the facts in a message.

    Raises:
        TypeError, ValueError, KeyError: the message does not hold facts.
    """
    fill = said.get("fill", 0)
    return Data(
        name=said["name"],
        left_out=_advised(said.get("left_out", ""), said.get("outside", False)),
        absent=said.get("absent", ""),
        outside=said.get("outside", False),
        file=said.get("file", ""),
        dtype=said.get("dtype", ""),
        shape=tuple(said.get("shape", ())),
        kind=said.get("kind", ""),
        offset=said.get("offset", -1),
        chunk=tuple(said.get("chunk", ())),
        filters=tuple((number, tuple(values), name) for number, values, name in said.get("filters", ())),
        grows=said.get("grows", False),
        early=said.get("early", False),
        table=tables[0] if tables else np.empty((0, 0), np.int64),
        held=bytes.fromhex(said.get("held", "")),
        parts=tuple((path, at, size) for path, at, size in said.get("parts", ())),
        mapped=tuple(
            Mapped(
                source,
                tuple((a, b, tuple((f, t, n) for f, t, n in runs)) for a, b, runs in axes),
                tuple(start),
                tuple(place),
            )
            for source, axes, start, place in said.get("mapped", ())
        ),
        lost=tuple(
            (_advised(why, outside), path, outside, frames) for why, path, outside, frames in said.get("lost", ())
        ),
        fill=complex(*fill) if isinstance(fill, list) else fill,
        attrs=said.get("attrs", {}),
        labels=tuple(said.get("labels", ())),
        fields=tuple(said.get("fields", ())),
        parts_each=int(said.get("parts_each", 0)),
        ragged=(str(said.get("ragged", ("", 0))[0]), int(said.get("ragged", ("", 0))[1])),
        text=said.get("text", ""),
        text_at=tuple(said.get("text_at", ())),
        scales=tuple(said.get("scales", ())),
        address=said.get("address", -1),
        conventions={
            name: value if isinstance(value, str) else np.array(value[1], value[0])[()]
            for name, value in said.get("conventions", {}).items()
        },
    )
