"""Sets in use, some of which are still being written: as they are now, how far they are, how to wait for more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError
from vfs.model.wording import option
from vfs.sets.following import Following, followed, frames_of
from vfs.sets.opening import OpenedSet, Opening, warned

if TYPE_CHECKING:
    from vfs.api.growth import GrowthOf


class SetInUse:
    """A set that arrays and groups share, open as long as one of them is there.

    Args:
        opened: the set; following: goes on as it grows, if it is still being written.
    """

    __slots__ = ("_shown", "following")

    def __init__(self, opened: OpenedSet, following: Following | None) -> None:
        self._shown, self.following = opened, following

    @property
    def opened(self) -> OpenedSet:
        """The set; of one that is still being written its present state, as long as arrays keep their shapes.

        Raises:
            SourceChangedError: a file of it was begun anew, or is gone.

        Warns:
            IncompleteWarning: nobody writes it any more, though it is not whole; once.
        """
        if self.following is not None:
            now = self.following.now()
            self.say_stopped(self.following)
            if now is not self._shown and _alike(now, self._shown):
                self._shown = now
        return self._shown

    def say_stopped(self, following: Following) -> None:
        """Give the warning that stopped sets get, if the set stopped and it was not given yet."""
        if following.stopped and not following.told:
            following.told = True
            found = following.current
            warned(replace(found, warnings=(following.stopped, *found.warnings)))

    def refreshed(self) -> SetInUse:
        """Return the set as it is now: this one, unless arrays have other shapes by now. Raises: see `opened`."""
        if self.following is None or self.opened is (now := self.following.now()):
            return self
        return SetInUse(now, self.following)


def in_use(opened: OpenedSet, cache: ChunkCache | None = None) -> SetInUse:
    """Take a set into use. It goes on as the set grows if it was opened with `follow`."""
    return SetInUse(opened, followed(opened, cache))


def _alike(one: OpenedSet, other: OpenedSet) -> bool:
    """Return True if two states of a set have the same arrays, of the same shapes."""
    if one.arrays.keys() != other.arrays.keys():
        return False
    return all(one.arrays[path].shape == other.arrays[path].shape for path in one.arrays)


class Growing:
    """Says how far the set of an array is written. A set that was not opened with `follow` is whole."""

    __slots__ = ()

    _again: tuple[Opening, str]  # how the data set was opened, path of the array in it

    @property
    def _set(self) -> SetInUse:
        """The set of the array; of an array that was unpickled it is opened now."""
        raise NotImplementedError

    @property
    def head(self) -> int:
        """Number of frames that are whole, in the order in which they are recorded.

        Raises:
            SourceChangedError: a file of the set was begun anew, or is gone.
        """
        following = self._set.following
        return frames_of(self._set.opened if following is None else following.now())

    @property
    def complete(self) -> bool:
        """True if all frames are there that there will be.

        Raises: what `head` raises.
        """
        following = self._set.following
        if following is None:
            return True
        following.now()
        self._set.say_stopped(following)
        return following.complete

    def wait(self, frames: int | None = None, timeout: float | None = None) -> bool:
        """Wait until so many frames are whole.

        Args:
            frames: how many; None: all that there will be.
            timeout: seconds; None: until the set is whole, or stopped (`give_up`).

        Returns: True if they are there; False if the time is over, or the set stopped before.

        Raises: what `head` raises.
        """
        following = self._set.following
        if following is None:
            return frames is None or frames <= self.head
        there = following.wait(frames, timeout)
        self._set.say_stopped(following)
        return there

    def _growth(self, executor: Any = None) -> GrowthOf | None:
        """Return what tells how the array grows; None if it does not.

        Raises:
            OptionError: an executor is to make its results.
        """
        from vfs.api.growth import GrowthOf  # loads kernels, which few need

        following = self._set.following
        if following is not None and executor is not None:
            raise OptionError(
                f"{option(follow=True)}: the threads of this process make the results, without an executor"
            )
        return None if following is None else GrowthOf(following, self._again[1])
