"""Describes sets of files for the suite that every format must pass, and which checks apply to them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vfs.api.arrays import VirtualArray, VirtualGroup
from vfs.api.opening import open_group
from vfs.errors import IncompleteWarning, VfsError

Test = TypeVar("Test", bound=Callable[..., None])
Written = tuple[Any, np.ndarray, Mapping[str, Any]]
"""The result of a writer: the paths that name the set, the array in it, options of the format."""


@dataclass(frozen=True)
class Row:
    """One set of files that a format must read: a row of the conformance table.

    Attributes:
        name: name of the row, for people.
        format: name of the format.
        write: makes tiny valid files in a folder. Returns (paths, twin, options); the twin is the
            array that must be read.
        detected: True if the format is found by the first bytes; else the set opens only by name.
        arranged: True if it has navigation axes to which nav_shape, sync_offset and roi apply, and
            the twin holds all stored frames.
        fixed: True if nav_shape, sync_offset and roi are refused. Then it is not `arranged`.
        finds_files: True if the writer writes files that `paths` do not name, and the format finds
            them.
        ordered: True if the format knows the order of its files, in whatever order they are named.
        cut: True if the frames that a truncated set still holds may be shown; else truncation must
            be an error.
        counted: True if the files tell the number of frames of the set, so that the loss of its last
            file can be noticed.
        factor: most bytes that may be read for each byte of a frame and of the whole array. It is
            more than 1 because of headers between frames, or blocks that are read whole.
        calibrated: axes of the main array whose scale, offset and unit the files hold.
        companions: names of the companions of the main array.
        referenceable: True if the chunks of the main array are in the files as zarr knows them; else references to it
            must be refused.
    """

    name: str
    format: str
    write: Callable[[Path], Written]
    detected: bool = True
    arranged: bool = True
    fixed: bool = False
    finds_files: bool = False
    ordered: bool = False
    cut: bool = True
    counted: bool = True
    factor: float = 1.0
    calibrated: Collection[str] = ()
    companions: Collection[str] = ()
    referenceable: bool = True


def always(row: Row) -> bool:
    return True


def of_rows(applies: Callable[[Row], bool]) -> Callable[[Test], Test]:
    """Run a check only with the rows to which it applies, so that the list of tests has only real ones."""

    def mark(test: Test) -> Test:
        test.applies = applies  # type: ignore[attr-defined]
        return test

    return mark


@dataclass(frozen=True)
class WrittenSet:
    """Holds a row whose files were written: its folder, paths, twin and options."""

    row: Row
    folder: Path
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    twin: np.ndarray
    options: Mapping[str, Any]

    @property
    def first(self) -> Path:
        """The file that names the set."""
        return self.named[0]

    @property
    def named(self) -> list[Path]:
        """The files that are named to open the set."""
        return [Path(path) for path in ([self.paths] if isinstance(self.paths, str | os.PathLike) else self.paths)]

    @property
    def files(self) -> list[Path]:
        """All files in the folder."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def url(self, value: Any, top: str) -> Any:
        """Return the URL of a file of the folder, if `top` is that of the folder; other values stay."""
        inside = isinstance(value, str) and value.startswith(f"{self.folder}/")
        return f"{top}/{value.removeprefix(f'{self.folder}/')}" if inside else value

    def open(self, **more: Any) -> VirtualArray:
        """Open the main array."""
        return self.group(**more).main

    def group_and_warnings(self, **more: Any) -> tuple[VirtualGroup, list[str]]:
        """Open all arrays. Returns (group, a line for each warning)."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", IncompleteWarning)
            group = self.group(**more)
        return group, [str(one.message) for one in said]

    def group(self, **more: Any) -> VirtualGroup:
        """Open all arrays."""
        return open_group(more.pop("paths", self.paths), **{"format": self.row.format, **self.options, **more})

    def complaint(self, error: VfsError) -> str:
        """Return the message of an error about the set: one line that names one of its files."""
        text = str(error)
        assert "\n" not in text, text
        assert any(path.name in text for path in [*self.files, self.first]), text
        return text
