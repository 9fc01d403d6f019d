"""Says how far the set of an array is written, and waits for more."""

from __future__ import annotations

from typing import Any

from vfs.errors import OptionError
from vfs.model.wording import option
from vfs.sets.live_set import LiveSet
from vfs.sets.opening import Opening


class Growing:
    """Says how far the set of an array is written. A set that was not opened with `follow` is whole."""

    __slots__ = ()

    _again: tuple[Opening, str]  # how the data set was opened, path of the array in it

    @property
    def _live(self) -> LiveSet:
        """The set of the array; of an array that was unpickled it is opened now."""
        raise NotImplementedError

    @property
    def head(self) -> int:
        """Number of frames that are whole, in the order in which they are recorded.

        Raises:
            SourceChangedError: a file of the set was begun anew, or is gone.
        """
        return self._live.now().frames

    @property
    def complete(self) -> bool:
        """True if all frames are there that there will be.

        Raises: what `head` raises.
        """
        live = self._live
        live.now()
        live.warn_if_stopped()
        return live.complete

    def wait(self, frames: int | None = None, timeout: float | None = None) -> bool:
        """Wait until so many frames are whole.

        Args:
            frames: how many; None: all that there will be.
            timeout: seconds; None: until the set is whole, or stopped (`give_up`).

        Returns: True if they are there; False if the time is over, or the set stopped before.

        Raises: what `head` raises.
        """
        live = self._live
        there = live.wait(frames, timeout)
        live.warn_if_stopped()
        return there

    def _followed(self, executor: Any = None) -> LiveSet | None:
        """Return the set of the array if it was opened with `follow`, else None.

        Raises:
            OptionError: an executor is to make its results.
        """
        live = self._live
        if live.follows and executor is not None:
            raise OptionError(f"{option(follow=True)}: takes no executor; the threads of this process make the results")
        return live if live.follows else None
