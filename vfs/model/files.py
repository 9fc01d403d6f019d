"""The files of a set, with the state that each had when the set was opened."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from typing import Any

import numpy as np

from vfs.errors import MissingSourceError, SourceChangedError, SourceError
from vfs.kernels.columns import CHANGED, SIZE, WRITTEN
from vfs.model.file_state import UNKNOWN, FileState
from vfs.model.sources import Sources
from vfs.model.unseen import Unseen
from vfs.model.wording import option

_moves = count(1)
_noting = threading.Lock()
INODE, DEVICE = range(2)


def _after_fork() -> None:  # the lock may be held by a thread that the child does not have
    global _noting
    _noting = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, eq=False)
class Files:
    """The files of a set, in the order that `FILE` of a read range counts.

    `vfs.model.file_state.FileState` says when a file is the same, and when it was touched. A file
    that was touched is read as it is now, and all cached data of the set are stale: `moves` is part
    of the keys of caches. `vfs.model.one_state` says what that means for what is made of several reads.

    Attributes:
        paths: absolute paths.
        states: int64[n, 3], a row for each file: `FileState.size` and `written` at opening, and
            `changed` when it was last looked at. The columns are named in `vfs.kernels.columns`.
            `changed` is not pickled, nor is `moves`.
        sources: reads the files.
        tags: `FileState.tag` of each file at opening; () if none has one.
        unseen: files that opening did not look at; None if it looked at all.
        sizes: int64[n], bytes of each file at opening; -1 if they are not known. A view of `states`.
        nodes: int64[n, 2], inode and device of each file when it was last looked at; 0 if they are not known. They are
            made where they are not given, and not pickled.
        moves: int64[1], a number that changes each time a file is found to be touched; 0 if none was.
        moved: path of the file that was found to be touched last, and what moved of it; empty if none was.
        grows: the files may still be written (`growing`): such a file stays the same, whatever is added to it.
        accepts: the caller accepts whatever a read returns of files that move meanwhile.
        proofs: for each growing file, the sentence that it was restarted, or ""; `growing` shares them.
    """

    paths: tuple[str, ...]
    states: np.ndarray
    sources: Sources
    tags: tuple[str, ...] = ()
    unseen: Unseen | None = None
    nodes: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    moves: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    moved: list[str] = field(default_factory=list)
    grows: bool = False
    accepts: bool = False
    proofs: list[Callable[[], str]] = field(default_factory=list)
    sizes: np.ndarray = field(init=False)
    _identity: list[str] = field(init=False, default_factory=list)  # what `identity` returns, once it is known

    def __post_init__(self) -> None:
        self.__dict__["sizes"] = self.states[:, SIZE]  # many ask
        if len(self.nodes) != len(self.paths):
            self.__dict__["nodes"] = np.zeros((len(self.paths), 2), np.int64)

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
        *columns, tags, inodes, devices = zip(*states, strict=True) if states else ((),) * 6
        table = np.ascontiguousarray(np.array(columns, np.int64).T)
        nodes = np.ascontiguousarray(np.array([inodes, devices], np.int64).T)
        return cls(tuple(paths), table, sources, tags if any(tags) else (), nodes=nodes)

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
            sources.expect(paths)
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
        """Return the state of a file at opening; what else is not of its content is that of the last look at it."""
        size, written, changed = self.states[file].tolist()
        return FileState(size, written, changed, self.tags[file] if self.tags else "", *self.nodes[file].tolist())

    def same(self, file: int, now: FileState) -> bool:
        """Return `FileState.same`, and note in `states`, `nodes` and `moves` if the file was touched."""
        before = self.state(file)
        if not before.same(now):
            return False
        # A file that is written touches nothing that was read
        if not self.grows and (now.changed, now.inode, now.device) != (before.changed, before.inode, before.device):
            with _noting:
                self._note(file, now)
        return True

    def _note(self, file: int, now: FileState) -> None:
        what = self.state(file).touched(now)
        if what:  # first this: a thread that sees the new time must see the new number, too
            self.moved[:] = self.paths[file], what
            self.moves[0] = next(_moves)
        self.states[file, CHANGED] = now.changed
        self.nodes[file] = now.inode, now.device
        self._identity.clear()

    def look(self) -> None:
        """Look at all files that are on this machine, and note those that were touched, as a read of them would."""
        for file, path in enumerate(() if self.grows else self.paths):
            if "://" not in path:
                self.still(file)

    def changed(self, file: int) -> SourceChangedError:
        """Return the error for a file that is not the one that was opened."""
        path = self.paths[file]
        try:
            now = self.sources.again(path)
        except OSError as error:
            return SourceChangedError(f"{path}: cannot be found any more: {error.strerror}; put it back")
        return SourceChangedError(
            f"{path}: was changed after it was opened ({self.state(file).difference(now)}); open it again, or with"
            f" {option(accept_changes=True)}"
        )

    def identity(self) -> str:
        """Return a digest of the states of all files, as they were when each was last looked at.

        Parts that several processes made are of one state if each says the same here. Without devices: their numbers
        are given when a disk is mounted, and others after a restart or on another machine.
        """
        with _noting:
            if not self._identity:
                found = blake2b(self.states.tobytes(), digest_size=16)
                found.update(self.nodes[:, INODE].tobytes())
                self._identity.append(found.hexdigest())
            return self._identity[0]

    def still(self, file: int) -> bool:
        """Look where the path of a file leads now. Return `same`; of a file that was missing, True while it is."""
        known, path = self.sizes[file] >= 0, self.paths[file]
        try:
            if known or self.accepts or "://" in path:
                return self.same(file, self.sources.again(path))
            self.sources.state(path)
        except OSError:
            return not known
        return False

    def all_still(self, files: Sequence[int]) -> list[bool]:
        """Return `still` for some files. Sources that take long to answer are asked for all of them at once."""
        if not self.sources.far_away:
            return [self.still(file) for file in files]
        now = self.sources.states([self.paths[file] for file in files])
        return [isinstance(one, FileState) and self.same(file, one) for file, one in zip(files, now, strict=True)]

    def restless(self) -> SourceChangedError:
        """Return the error for files that are touched again while something is made of them anew."""
        path, what = self.moved or (self.paths[0], "or another one of its set")
        return SourceChangedError(
            f"{path}: this file changes again and again while it is read ({what}), and nothing tells whether its bytes"
            f" do; read it when that is over, or if they do not, open it with {option(accept_changes=True)}"
        )

    def check_begun_anew(self) -> None:
        """Check that files to which more may be added hold what they held. Others are not looked at.

        Raises:
            SourceChangedError: they do not.
        """
        for begun_anew in self.proofs if self.grows else ():
            if said := begun_anew():
                raise SourceChangedError(said)

    def left(self, file: int, now: FileState) -> bool:
        """Return True if an open file is another one than that which had its name at the last look, and note that what
        is read of it is of a state that is over.
        """
        node = tuple(self.nodes[file].tolist())
        if self.grows or not node[0] or node == (now.inode, now.device):
            return False
        with _noting:
            self.moves[0] = next(_moves)
        return True

    def differs(self, where: str) -> None:
        """Note that a process elsewhere found a file in another state than this one."""
        with _noting:
            self.moved[:] = self.paths[0], f"or another one of its set: ctime or inode are others {where}"
            self.moves[0] = next(_moves)

    def unremembered(self) -> Files:
        """Return the same files with unknown states, so that they are read even after they changed."""
        states = self.states.copy()
        states[:, [SIZE, WRITTEN]] = UNKNOWN.size, UNKNOWN.written
        return replace(self, states=states, tags=(), nodes=self.nodes.copy(), accepts=True)

    def growing(self) -> Files:
        """Return the same files with unknown states, to which more may be added while they are read.

        Raises:
            SourceError: one of them is gone.
        """
        nodes = np.zeros((len(self), 2), np.int64)
        for k, path in enumerate(self.paths):
            if "://" not in path and self.sizes[k] >= 0:
                try:
                    now = self.sources.again(path)
                except OSError as error:
                    raise SourceError(f"{path}: cannot be looked at: {error.strerror}") from None
                nodes[k] = now.inode, now.device
        moves = np.zeros(1, np.int64)
        return replace(self.unremembered(), moves=moves, nodes=nodes, grows=True, accepts=False)

    def joined(self, others: Files) -> Files:
        """Return these files and `others` behind them, from the same sources."""
        tags = tuple([files.tags or ("",) * len(files) for files in (self, others)])
        both = tags[0] + tags[1]
        return Files(
            self.paths + others.paths,
            np.concatenate((self.states, others.states)),
            self.sources,
            both if any(both) else (),
            nodes=np.concatenate((self.nodes, others.nodes)),
        )

    def __len__(self) -> int:
        return len(self.paths)
