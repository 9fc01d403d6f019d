"""A pass whose state is kept on the disk now and then, so that one that was interrupted can go on.

`OUT.part` holds all buffers as they were after some part of the frames, `OUT.part.marks` says what is reduced, and how;
in a store of objects they have other names (`vfs.outputs.places`).
Parts depend on the data alone, and the number of threads is kept, too: so the results are the same, to the last digit
of floats, as those of a pass that was not interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.wording import option
from vfs.outputs.journals import Journal, JournalSubject
from vfs.outputs.place import OutputPlace
from vfs.reduce.passes import Pass
from vfs.reduce.result import Results

STEP = 1 << 30
"""Bytes of frames of a part. All threads wait for the last one between two."""
SECONDS = 10.0
"""Time between two states that are kept, at least."""
SHARE = 0.05
"""Share of the time of a pass that may go into keeping its state."""


@dataclass(frozen=True)
class PassSubject(JournalSubject):
    """Identifies a reduction: the same subject gives the same results, bit for bit.

    Attributes:
        sources: digest of the sources and of how they were opened.
        what: digest of all that is asked for.
        state: what `Files.identity` says of the sources now. A state of a pass that is of another one is dropped.
    """

    sources: str
    what: str
    state: str = ""

    def line(self) -> bytes:
        return json.dumps({"vfs_reduce": asdict(self)}).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> PassSubject:
        return cls(**json.loads(line)["vfs_reduce"])

    def unlike(self, told: PassSubject) -> str:
        if (told.sources, told.what) != (self.sources, self.what):
            return "was of other files, or these were changed since, or it had other options, results or code of vfs"
        return ""


class KeptState:
    """The state of a pass, and its journal. Only one process can have them.

    Args:
        place: where they are.
        subject: what is reduced, and how.
        resume: True to go on with one that is there.

    Attributes:
        resumes: True once there is a state to go on from.
        dropped: True if there was one, of files that were touched since. Nothing tells if their bytes are the same, so
            the pass begins anew.
        told: True if a journal that was there tells of this reduction.

    Raises:
        OptionError: another process has it; it is there and `resume` is False; or it is about something else.
        OSError: it cannot be written.
    """

    def __init__(self, place: OutputPlace, subject: PassSubject, resume: bool) -> None:
        self._place, self._part = place, place.holds
        place.check_begun()
        self._lines = place.journal()
        self._due = time.monotonic() + SECONDS
        try:
            there = place.begun()
            self._journal = Journal(self._lines, subject, resume, anew=not (there or place.exists()))
            told = self._journal.told
            self.told = told is not None
            self.resumes = there and told == subject
            self.dropped = there and told not in (None, subject)
            if self.dropped:
                self._begin(subject)
            elif there and not self.resumes:
                place.delete(self._part)
        except BaseException:
            self._lines.close()
            raise

    def _begin(self, subject: PassSubject) -> None:
        """Begin anew, without a state."""
        self._place.delete(self._part)
        self.resumes = False
        self._journal.begin(subject)

    def forget(self, state: str) -> None:
        """Forget what is kept if it is of another state of the files than this one."""
        if state != self._journal.subject.state:
            self._begin(replace(self._journal.subject, state=state))

    def load(self) -> dict[str, np.ndarray]:
        """Return the state that was kept.

        Raises:
            OptionError: it is not whole.
        """
        try:
            with self._place.open(self._part) as file, np.load(file, allow_pickle=False) as state:
                return dict(state)
        except Exception as error:  # numpy and zipfile raise a dozen kinds for what is damaged
            raise self.damaged(error) from None

    def damaged(self, error: Exception) -> OptionError:
        """Return the error for a state that cannot be gone on from."""
        why = str(error) or type(error).__name__
        return OptionError(
            f"{self._part}: holds no state of a reduction, or is damaged ({why}); remove it, and the same command"
            " starts again"
        )

    @property
    def due(self) -> bool:
        """Whether it is time to keep another state."""
        return time.monotonic() >= self._due

    def save(self, state: dict[str, Any]) -> None:
        """Keep a state instead of the one before.

        Raises:
            OptionError: it cannot be written; the one before is still there.
        """
        began = time.monotonic()
        try:
            with self._place.writing(self._part) as file:
                np.savez(file, **state)
        except OSError as error:
            on = f"; {option(resume=True)} continues from the one before" if self.resumes else ""
            raise OptionError(
                f"{self._part}: the state of the pass cannot be kept: {error.strerror or error}{on}"
            ) from None
        self.resumes = True
        now = time.monotonic()
        self._due = now + max(SECONDS, (now - began) / SHARE)

    def remove(self) -> None:
        """Remove the state, and the journal, once the results are complete.

        Raises:
            OptionError: they cannot be removed.
        """
        try:
            self._clear()
        except OSError as error:
            raise OptionError(
                f"{self._place.marks}: cannot be removed: {error.strerror or error}; the results are complete, and"
                f" {option(resume=True)} tries again"
            ) from None

    def _clear(self) -> None:
        self._place.delete(self._part)
        self._lines.remove()

    def close(self) -> None:
        """Let other processes have it; remove it if there is nothing to go on from."""
        if not self.resumes:
            with suppress(OSError):  # what stays is in nobody's way
                self._clear()
        self._lines.close()


class KeptPass(Pass):
    """Makes results of the frames of an array, once, and keeps its state.

    Args:
        saved: its state. One that is there is gone on from.
    """

    def __init__(self, *given: Any, saved: KeptState, **named: Any) -> None:
        super().__init__(*given, **named)
        self._saved, self._files = saved, self.array.backend.files
        self._moves = self._files.moves.item(0)
        saved.forget(self._files.identity())

    def run(self, parts: int) -> Iterator[Results]:
        """Go through all frames, from the state that was kept on. Gives results once."""
        nbytes = self.frames.size * self.frames.dtype.itemsize * self.frames.count
        units = self.supply.units
        n = max(1, min(units, nbytes // STEP))
        first = self._load() if self._saved.resumes else 0
        self._tell()
        for k in range(first, n):
            self.take(units * k // n, units * (k + 1) // n)
            if k + 1 < n and self._saved.due and self._unmoved():
                self._saved.save(self._state(k + 1))
        yield self.results(last=True)

    def _unmoved(self) -> bool:
        """Look at all files: all that was taken, also by views, has to be of the state that is noted."""
        self._files.look()
        return bool(self._files.moves.item(0) == self._moves)

    def _state(self, following: int) -> dict[str, Any]:
        """Return what a pass that goes on has to know.

        Args:
            following: the next part.
        """
        own = [
            (f"own/{worker}/{name}/{key}", buffer)
            for worker, each in enumerate(self.own)
            for name, buffers in each.items()
            for key, buffer in buffers.items()
        ]
        shared = [
            (f"shared/{name}/{key}", buffer) for name, buffers in self.shared.items() for key, buffer in buffers.items()
        ]
        return dict(own + shared) | {
            "next": np.array(following),
            "done": self.done,
            "counted": np.array(self.counted),
            "workers": np.array(self.workers),
        }

    def _load(self) -> int:
        """Take up a state. Return the next part.

        Raises:
            OptionError: it is damaged.
        """
        state = self._saved.load()
        try:
            self.workers = int(state["workers"])
            self.counted = [int(n) for n in state["counted"]]
            while len(self.own) < len(self.counted):
                self.own.append({name: self._zeros(name, nav=False) for name in self.bound})
            for key, value in self._state(0).items():
                if key in ("next", "counted", "workers"):
                    continue
                if (state[key].shape, state[key].dtype) != (value.shape, value.dtype):
                    raise ValueError(f"{key}: expected {value.dtype} {value.shape}")
                value[...] = state[key]
            return int(state["next"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._saved.damaged(error) from None
