"""The files of a set, with the state that each had when the set was opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from vfs.errors import MissingSourceError, SourceChangedError, SourceError
from vfs.kernels.columns import CHANGED, SIZE, WRITTEN
from vfs.model.file_state import UNKNOWN, FileState
from vfs.model.sources import Sources, expect
from vfs.model.unseen import Unseen

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
        unseen: what those hold at which nobody looked at opening; None if there are none such.
        sizes: int64[n], bytes of each file at opening; -1 if they are not known. A view of `states`.
        inodes: int64[n, 2], device and inode of each file that may still be written (`growing`): such a file is the
            same as long as it is this one, whatever is added to it. None for files that are not written any more.
        moves: int64[1], a number that changes each time a file is found to be touched; 0 if none was.
    """

    paths: tuple[str, ...]
    states: np.ndarray
    sources: Sources
    tags: tuple[str, ...] = ()
    unseen: Unseen | None = None
    moves: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    inodes: np.ndarray | None = None
    sizes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.__dict__["sizes"] = self.states[:, SIZE]  # many ask

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        states = self.states.copy()
        states[:, CHANGED] = 0
        return type(self), (self.paths, states, self.sources, self.tags, self.unseen)

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
        if len(paths) > 1:
            expect(sources, paths)
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
        if self.inodes is not None:  # it is written, which touches nothing that was read
            return True
        if now.changed != before.changed:
            if before.changed:  # first this: a thread that sees the new time must see the new number, too
                self.moves[0] = next(_moves)
            self.states[file, CHANGED] = now.changed
        return True

    def still(self, file: int) -> bool:
        """Look where the path of a file leads now. Return `same`; of a file that was missing, True while it is."""
        known = self.sizes[file] >= 0
        try:
            if "://" in self.paths[file]:
                return self.same(file, self.sources.state(self.paths[file]))
            found = os.stat(self.paths[file])
        except OSError:
            return not known
        return self.same(file, FileState.of(found)) if known else not stat.S_ISREG(found.st_mode)

    def all_still(self, files: Sequence[int]) -> list[bool]:
        """Return `still` for some files. Sources that take long to answer are asked for all of them at once."""
        states = getattr(self.sources, "states", None)
        if states is None:
            return [self.still(file) for file in files]
        now = states([self.paths[file] for file in files])
        return [isinstance(one, FileState) and self.same(file, one) for file, one in zip(files, now, strict=True)]

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
        return Files(self.paths, states, self.sources, unseen=self.unseen, moves=self.moves)

    def growing(self) -> Files:
        """Return the same files with unknown states, to which more may be added while they are read.

        Raises:
            SourceError: one of them is gone.
        """
        found = np.zeros((len(self), 2), np.int64)
        for k, path in enumerate(self.paths):
            if os.path.isabs(path) and self.sizes[k] >= 0:
                try:
                    at = os.stat(path)
                except OSError as error:
                    raise SourceError(f"{path}: cannot be looked at: {error.strerror}") from None
                found[k] = at.st_dev, at.st_ino
        return replace(self.unremembered(), moves=np.zeros(1, np.int64), inodes=found)

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
