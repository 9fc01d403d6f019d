"""The rows of the suite that every format must pass: sets of files, and which checks apply to them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vfs.api import VirtualArray, VirtualGroup, open_group
from vfs.errors import IncompleteWarning, VfsError

Test = TypeVar("Test", bound=Callable[..., None])
Written = tuple[Any, np.ndarray, Mapping[str, Any]]
"""What a writer gives: the paths that name the set, the array that is in it, options of the format."""


@dataclass(frozen=True)
class Row:
    """One set of files that a format must read: a row of the conformance table.

    Attributes:
        name: of the row, for people.
        format: name of the format.
        write: makes tiny valid files in a folder. Returns (paths, twin, options).
        detected: its first bytes tell the format; else it opens only by name.
        arranged: it has navigation axes that nav_shape, sync_offset and roi apply to, and the twin holds all stored frames.
        fixed: nav_shape, sync_offset and roi are refused. Implies that it is not `arranged`.
        finds_files: the writer writes files that `paths` do not name; the format finds them.
        ordered: the format knows the order of its files, in whatever order they are named.
        cut: frames that a truncated set still holds may be shown; else truncation must be an error.
        counted: something in the files says how many frames the set holds: that its last file is lost can be told.
        factor: bytes read at most for each byte of a frame and of the whole array; headers between frames, whole blocks.
        calibrated: axes of the main array whose scale, offset and unit the files hold.
        companions: names of the arrays beside it.
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


def always(row: Row) -> bool:
    return True


def of_rows(applies: Callable[[Row], bool]) -> Callable[[Test], Test]:
    """Runs a check with the rows that it applies to, so that the list of tests says what is checked."""

    def mark(test: Test) -> Test:
        test.applies = applies  # type: ignore[attr-defined]
        return test

    return mark


@dataclass(frozen=True)
class WrittenSet:
    """A row that was written: its folder, paths, twin and options."""

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

    def open(self, **more: Any) -> VirtualArray:
        """The main array."""
        return self.group(**more).main

    def told(self, **more: Any) -> tuple[VirtualGroup, list[str]]:
        """All arrays, and what was warned of: a line for each warning."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", IncompleteWarning)
            group = self.group(**more)
        return group, [str(one.message) for one in said]

    def group(self, **more: Any) -> VirtualGroup:
        """All arrays."""
        return open_group(more.pop("paths", self.paths), **{"format": self.row.format, **self.options, **more})

    def complaint(self, error: VfsError) -> str:
        """The message of an error about the set: one line that names one of its files."""
        text = str(error)
        assert "\n" not in text, text
        assert any(path.name in text for path in [*self.files, self.first]), text
        return text
