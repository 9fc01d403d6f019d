"""Owns an open set as it is now: `LiveSet`, which Python, mounts, servers and workers ask for it.

A set that was not opened with `follow` stays what it is, and its files are not looked at. For another one, `now` looks
at its files, at most every `LOOKS.least` seconds: one `stat` of each file that may still grow, and of the folders in
which more may appear. If one of them changed, it opens the set again, which reads headers only. A set that cannot be
opened for a moment (a half-written header) stays as it was.

A set that has all frames and saw no write for `settle` seconds (some writers add to a header at the end), or no write
for `give_up` seconds, is opened once more as finished, and its files are not looked at again. A file that was restarted
is another acquisition: readers get an error, and a mount or server continues with the new one (`begin_anew`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from vfs.engine.cache import ChunkCache
from vfs.errors import SourceChangedError, VfsError
from vfs.live.doubts import still_doubted
from vfs.live.file_watch import SEEN, FrameFingerprint, look_at, quiet, tells_writes
from vfs.live.growing import WATCHED_FILES, Progress
from vfs.live.trust import Pace, Trust
from vfs.model.file_state import FileState
from vfs.model.pickles import packed
from vfs.sets.opening import OpenedSet, Opening, warned
from vfs.sources.local import LocalSources
from vfs.sources.names import split

LOOKS = Pace(least=0.2, share=10, shortest_of=3)
"""How often files of this machine are looked at."""
FAR_LOOKS = Pace(least=1.0, share=10, shortest_of=3)
"""How often files of servers are looked at."""
STEP = 0.05  # seconds between two looks of somebody who waits, at least


class LiveSet:
    """Owns a set that is open, as it is now.

    Args:
        opened: the set.
        cache: keeps decoded chunks.

    Attributes:
        opening: how it was opened at first.
        follows: True if it was opened with `follow`.
        ended: True if nothing is looked at any more: the set is whole, or stopped, or was not opened with `follow`.
        stopped: why it ended before it was whole; "" if it did not.
        wrong: what is wrong with its files: one was begun anew, or is gone; "" if nothing is.
        acquisition: number that grows whenever it goes on with another acquisition (`begin_anew`).
    """

    def __init__(self, opened: OpenedSet, cache: ChunkCache | None = None) -> None:
        self._opened, self._cache = opened, cache
        self.opening = opened.opening
        self.follows = opened.opening.options.follow
        self.ended, self.stopped, self._warned = not self.follows, "", False
        self.wrong = ""
        self.acquisition = 0
        if self.follows:
            self._lock = threading.RLock()
            self._follow(opened)

    def _follow(self, opened: OpenedSet) -> None:
        """Begin to look at the files of a set.

        Raises:
            SourceError: its frames cannot be read.
        """
        self._fingerprint = FrameFingerprint(opened.main.dataset)
        self._opened, self.opening = opened, opened.opening
        self.ended, self.stopped, self.wrong = False, "", ""
        options = self.opening.options
        self._files, self._begun = opened.tree.file_sets, _begun(opened)  # that are looked at
        self._settle, self._give_up = options.settle, options.give_up
        self._shorter = ""  # a file that became shorter
        self._replaced = False  # another file has the name of one
        self._trust = Trust(LOOKS if isinstance(self.opening.sources, LocalSources) else FAR_LOOKS)
        self._prove(opened)
        self._seen = self._stat()
        self._end_if_whole()

    @property
    def pause(self) -> float:
        """Seconds for which the last answer of `now` is good."""
        return LOOKS.least if self.ended else self._trust.pause

    @property
    def progress(self) -> Progress | None:
        """How far the set was written when it was opened last; None where it cannot grow."""
        return self._opened.progress

    @property
    def complete(self) -> bool:
        """True if all frames are there that there will be, as far as is known."""
        progress = self.progress
        if progress is None or self.ended:
            return not self.stopped
        return progress.complete and not still_doubted(self._opened.tree.file_sets)

    @property
    def current(self) -> OpenedSet:
        """The set as it was opened last, without a look at its files."""
        return self._opened

    def now(self) -> OpenedSet:
        """Return the set as it is now.

        Raises:
            SourceChangedError: one of its files was begun anew, or is gone.
        """
        if not self.ended and not self._trust.holds():
            with self._lock:
                if not self._trust.holds() and not self.ended:
                    began = time.monotonic()
                    self._look()
                    self._trust.renew(began)
        if self.wrong:
            raise SourceChangedError(self.wrong)
        return self._opened

    def begin_anew(self) -> OpenedSet | None:
        """Go on with what took the place of a set that is `wrong`: another acquisition, under the same names.

        Returns: the set as it is now; None if it cannot be opened.
        """
        with suppress(VfsError):
            self._follow(self.opening.open(self._cache))
            self.acquisition += 1
            return self.now()
        return None

    def like(self, before: OpenedSet) -> OpenedSet:
        """Return the set as it is now as long as its arrays have the shapes that they had before, else as it was.

        Raises: what `now` raises.

        Warns:
            IncompleteWarning: nobody writes it any more, though it is not whole; once.
        """
        now = self.now()
        self.warn_if_stopped()
        return now if now is before or _alike(now, before) else before

    def warn_if_stopped(self) -> None:
        """Give the warning that stopped sets get, if the set stopped and nobody was warned yet."""
        if self.stopped and not self._warned:
            self._warned = True
            warned(replace(self._opened, warnings=(self.stopped, *self._opened.warnings)))

    def wait(self, frames: int | None = None, timeout: float | None = None) -> bool:
        """Wait until so many frames are whole, or all of them.

        Args:
            frames: how many; None: all that there will be.
            timeout: seconds; None: until the set is whole or stopped.

        Returns: True if they are; False if the time is over, or the set stopped before.

        Raises: what `now` raises.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            self.now()
            progress = self.progress
            if progress is not None and (self.complete if frames is None else progress.frames >= frames):
                return True
            if self.ended:
                return not self.stopped if frames is None else self._opened.frames >= frames
            pause = max(STEP, self._trust.until - time.monotonic())
            if until is not None:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                pause = min(pause, left)
            time.sleep(pause)

    def _look(self) -> None:
        """Look at the files, and open the set again if they were written."""
        found = self._stat()
        self._check_same(found)
        if self.wrong:
            return
        if found == self._seen and all(map(tells_writes, found.values())) and not self._unsettled():
            self._end_if_whole()
        else:
            with suppress(VfsError):  # it is being written just now: the next look tells more
                self._renew(found)
        if not self.ended and self._quiet >= self._give_up:
            self._stop()

    def _renew(self, found: dict[str, FileState]) -> None:
        """Open the set again.

        Raises: what `Opening.open` raises.
        """
        opened = self.opening.open(self._cache)
        less = self._shorter and opened.frames < self._opened.frames
        # It was begun anew since the look, or a file came in front of others
        if less or not self._fingerprint.same() or not self._fingerprint.stay(opened.main.dataset):
            self._note_begun_anew(self._shorter or self.opening.paths[0])
            return
        self._seen = found
        self._files, self._begun = opened.tree.file_sets, _begun(opened)  # also of new files without a frame
        if opened.progress != self._opened.progress or opened.progress is None or self._replaced:
            self._show(opened)
        self._end_if_whole()

    @property
    def _quiet(self) -> float:
        """Seconds for which nobody was seen to write a file of the set."""
        return quiet(self._seen)

    def _unsettled(self) -> bool:
        """Return True if a frame counts by now because nobody wrote since it came."""
        progress = self.progress
        return progress is not None and progress.unsettled and self._quiet >= self._settle

    def _show(self, opened: OpenedSet) -> None:
        """Show another state of the set. What was decoded stays in the cache if it is the same chunk."""
        old, new = self._opened.main, opened.main
        same = (old.shape, old.chunks, old.dtype) == (new.shape, new.chunks, new.dtype)
        if same and not new.decodes_whole and not self.opening.options.follow_blank:
            new.token = old.token
        self._opened = opened
        self._fingerprint = FrameFingerprint(new.dataset)
        self._prove(opened)

    def _prove(self, opened: OpenedSet) -> None:
        """Have readers compare the frames of a set with those that were there: see `vfs.model.one_state`."""
        fingerprint, said = self._fingerprint, _begun_anew(self.opening.paths[0])  # readers need not hold this set
        for files in opened.tree.file_sets:
            files.proofs[:] = [lambda: "" if fingerprint.same() else said]

    def _end_if_whole(self) -> None:
        progress = self.progress
        if progress is None or (self.complete and self._quiet >= self._settle):
            self._end(progress is None)

    def _end(self, at_last: bool) -> None:
        """Open the set as a finished one.

        Args:
            at_last: if that fails, it stays as it is. Otherwise it is followed on: its writer may have it open still.
        """
        missing = self.opening.options.holes_missing or (at_last and self._give_up > 0)
        options = replace(self.opening.options, follow=False, follow_blank=False, holes_missing=missing)
        try:
            with self.opening.sources.opening():
                opened = self.opening.changed(options, self.opening.format_options, self._cache or ChunkCache())
        except VfsError as error:
            if not at_last:
                return
            self.stopped = str(error)
        else:
            if not self._fingerprint.same():  # since the last look
                self.wrong = _begun_anew(self.opening.paths[0])
                return
            self._show(opened)
        self.ended = True

    def _stop(self) -> None:
        """Note that nobody writes the set any more."""
        progress = self.progress
        frames = 0 if progress is None else progress.frames
        if progress is None or (progress.of is not None and not progress.complete):
            of = "" if progress is None or progress.of is None else f" of {progress.of:,}"
            self.stopped = (
                f"{self.opening.paths[0]}: stopped: {frames:,}{of} frames are there, and nothing was written for"
                f" {self._give_up:g} s"
            )
        self._end(at_last=True)

    # What tells that files were written

    def _stat(self) -> dict[str, FileState]:
        """Look at the files that may grow, at those that were named, and at their folders."""
        paths = dict.fromkeys((*self.opening.paths, *self._begun))
        for files in self._files:
            paths |= dict.fromkeys(files.paths if len(files) <= WATCHED_FILES else files.paths[-WATCHED_FILES:])
        if isinstance(self.opening.sources, LocalSources):
            paths |= dict.fromkeys(split(path)[0] for path in list(paths))
        found: dict[str, FileState] = {}
        for path in paths:
            if (look := look_at(self.opening.sources, path)) is not None:
                SEEN.note(path, found.setdefault(path, look))
        return found

    def _check_same(self, found: Mapping[str, FileState]) -> None:
        """Note if a file is not the one that it was: it is gone, is another one, or has other frames.

        It costs a read of two pieces of frames, and only when a file was written. Another file under the name of one
        (rsync makes one each time that it copies a file that grows), or one that became shorter, is the same if all
        frames that were whole are still there: programs that give a file more room than it needs cut it in the end.
        """
        self._shorter, self._replaced = "", False
        for path, before in self._seen.items():
            now = found.get(path)
            known = any(path in files.paths for files in self._opened.tree.file_sets)
            if not known:
                continue
            if now is None:
                self.wrong = f"{path}: is gone; it was being written, and frames of it were read: open the set again"
            elif (now.device, now.inode) != (before.device, before.inode):
                self._replaced = True
            if now is not None and now.size < before.size:
                self._shorter = path
        if (
            not self.wrong
            and found != self._seen
            and not (self._fingerprint.same() and (self._fingerprint or not self._replaced))
        ):
            self._note_begun_anew(self._shorter or self.opening.paths[0])

    def _note_begun_anew(self, path: str) -> None:
        """Note that a file was begun anew."""
        SEEN.forget(tuple(self._seen))
        self.wrong = _begun_anew(path)


def _begun(opened: OpenedSet) -> Sequence[str]:
    """Return the files to look at that have only begun. The folder tells of those that are not there yet."""
    if not isinstance(opened.opening.sources, LocalSources):  # there is no folder to look at
        return opened.begun[:WATCHED_FILES]
    return [path for path in opened.begun if os.path.lexists(path)][-WATCHED_FILES:]


def _begun_anew(path: str) -> str:
    return f"{path}: was restarted and is another acquisition: open the set again"


def not_over(opened: OpenedSet) -> bool:
    """Return True if a set that was opened with `follow` may still be written, by what was seen of its files."""
    if opened.progress is None:
        return False
    options = opened.opening.options
    paths = [path for files in opened.tree.file_sets for path in files.paths]
    return quiet(paths) < (options.settle if opened.progress.complete else options.give_up)


def open_live(opening: Opening, cache: ChunkCache | None) -> LiveSet:
    """Open a set again.

    Args:
        cache: keeps decoded chunks.

    Raises: what `Opening.open` raises.
    """
    return LiveSet(opening.open(cache), cache)


def for_workers(opening: Opening) -> bytes:
    """Pickle what `OpenSets` of `vfs.engine.open_sets` opens in another process: equal sets give equal bytes."""
    return packed(partial(open_live, opening))


def _alike(one: OpenedSet, other: OpenedSet) -> bool:
    """Return True if two states of a set have the same arrays, of the same shapes."""
    if one.arrays.keys() != other.arrays.keys():
        return False
    return all(one.arrays[path].shape == other.arrays[path].shape for path in one.arrays)
