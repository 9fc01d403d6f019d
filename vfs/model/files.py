"""The files of a set, with the state that each had when the set was opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from vfs.errors import MissingSourceError, SourceChangedError
from vfs.kernels.columns import CHANGED, SIZE, WRITTEN
from vfs.model.file_state import UNKNOWN, FileState
from vfs.model.sources import Sources

TRIES = range(5)
"""Attempts to read elements: they are read again if a file was touched meanwhile, but not for ever."""

_moves = count(1)


@dataclass(frozen=True, eq=False)
class Files:
    """The files of a set, in the order that `FILE` of a read range counts.

    `vfs.model.file_state.FileState` says when a file is the same, and when it was touched. A file
    that was touched is read as it is now, and all cached data of the set are stale: `moves` is part
    of the keys of caches.

    Attributes:
        paths: absolute paths.
        states: int64[n, 3], a row for each file: `FileState.size` and `written` at opening, and
            `changed` when it was last looked at. The columns are named in `vfs.kernels.columns`.
            `changed` is not pickled, nor is `moves`.
        sources: where the files are read from.
        tags: `FileState.tag` of each file at opening; () if none has one.
        sizes: int64[n], bytes of each file at opening; -1 if they are not known. A view of `states`.
        moves: int64[1], a number that changes each time a file is found to be touched; 0 if none was.
    """

    paths: tuple[str, ...]
    states: np.ndarray
    sources: Sources
    tags: tuple[str, ...] = ()
    moves: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    sizes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.__dict__["sizes"] = self.states[:, SIZE]  # many ask

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        states = self.states.copy()
        states[:, CHANGED] = 0
        return type(self), (self.paths, states, self.sources, self.tags)

    @classmethod
    def of(cls, paths: Sequence[str], states: Sequence[FileState], sources: Sources) -> Files:
        """Return files that have these states.

        Args:
            paths: absolute paths.
        """
        *columns, tags = zip(*states, strict=True) if states else ((),) * 4
        table = np.ascontiguousarray(np.array(columns, np.int64).T)
        return cls(tuple(paths), table, sources, tags if any(tags) else ())

    @classmethod
    def stat(cls, sources: Sources, paths: Sequence[str], missing_ok: bool = False) -> Files:
        """Look at every file once.

        Args:
            paths: absolute.
            missing_ok: accept missing files; then only reading from them is an error.

        Raises:
            MissingSourceError: a file is not there and `missing_ok` is False.
            OutsideError: a file lies outside of the boundary of the set.
            SourceError: a file cannot be looked at, or is a folder or device.
        """
        states: list[FileState] = []
        for name in paths:
            try:
                states.append(sources.state(name))
            except MissingSourceError:
                if not missing_ok:
                    raise
                states.append(UNKNOWN)
        return cls.of(paths, states, sources)

    @property
    def written(self) -> np.ndarray:
        """int64[n] `FileState.written` of each file at opening (a view of `states`)."""
        return self.states[:, WRITTEN]

    def state(self, file: int) -> FileState:
        """Return the state of a file at opening; `changed` is that of the last look at it."""
        size, written, changed = self.states[file].tolist()
        return FileState(size, written, changed, self.tags[file] if self.tags else "")

    def same(self, file: int, now: FileState) -> bool:
        """Return `FileState.same`, and note in `states` and `moves` if the file was touched."""
        before = self.state(file)
        if not before.same(now):
            return False
        if now.changed != before.changed:
            if before.changed:  # first this: a thread that sees the new time must see the new number, too
                self.moves[0] = next(_moves)
            self.states[file, CHANGED] = now.changed
        return True

    def still(self, file: int) -> bool:
        """Look where the path of a file leads now. Return `same`; of a file that was missing, True while it is."""
        known = self.sizes[file] >= 0
        try:
            found = os.stat(self.paths[file])
        except OSError:
            return not known
        return self.same(file, FileState.of(found)) if known else not stat.S_ISREG(found.st_mode)

    def restless(self) -> SourceChangedError:
        """Return the error for files that are touched again and again while they are read."""
        return SourceChangedError(
            f"{self.paths[0]}: this file, or another one of its set, changes again and again while it is read; read it"
            " when that is over"
        )

    def unremembered(self) -> Files:
        """Return the same files with unknown states, so that they are read even after they changed."""
        states = self.states.copy()
        states[:, [SIZE, WRITTEN]] = UNKNOWN.size, UNKNOWN.written
        return Files(self.paths, states, self.sources, moves=self.moves)

    def joined(self, others: Files) -> Files:
        """Return these files and `others` behind them, from the same sources."""
        tags = tuple([files.tags or ("",) * len(files) for files in (self, others)])
        both = tags[0] + tags[1]
        return Files(
            self.paths + others.paths,
            np.concatenate((self.states, others.states)),
            self.sources,
            both if any(both) else (),
        )

    def __len__(self) -> int:
        return len(self.paths)
