"""What arrays of sets that are still being written have besides: how far they are, and how to wait for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vfs.errors import OptionError
from vfs.hierarchy.following import Following, frames_of
from vfs.wording import option

if TYPE_CHECKING:
    from vfs.api.arrays import VirtualArray
    from vfs.api.groups import VirtualGroup
    from vfs.api.growth import GrowthOf


class Growing:
    """Says how far the set of an array is written. A set that was not opened with `follow` is whole."""

    __slots__ = ()

    _group: VirtualGroup
    _again: tuple[Any, str]

    @property
    def head(self) -> int:
        """Number of frames that are whole, in the order in which they are recorded.

        Raises:
            SourceChangedError: a file of the set was begun anew, or is gone.
        """
        following = self._following()
        return frames_of(self._group._opened if following is None else following.now())

    @property
    def complete(self) -> bool:
        """True if all frames are there that there will be.

        Raises: what `head` raises.
        """
        following = self._following()
        if following is None:
            return True
        following.now()
        return following.complete

    def wait(self, frames: int | None = None, timeout: float | None = None) -> bool:
        """Wait until so many frames are whole.

        Args:
            frames: how many; None: all that there will be.
            timeout: seconds; None: until the set is whole, or stopped (`give_up`).

        Returns: True if they are there; False if the time is over, or the set stopped before.

        Raises: what `head` raises.
        """
        following = self._following()
        if following is None:
            return frames is None or frames <= self.head
        return following.wait(frames, timeout)

    def _growth(self, executor: Any = None) -> GrowthOf | None:
        """Return what tells how the array grows; None if it does not.

        Raises:
            OptionError: an executor is to make its results.
        """
        from vfs.api.growth import GrowthOf  # loads kernels, which few need

        following = self._following()
        if following is not None and executor is not None:
            raise OptionError(
                f"{option(follow=True)}: the threads of this process make the results, without an executor"
            )
        return None if following is None else GrowthOf(following, self._again[1])

    def refresh(self) -> VirtualArray:
        """Return this array as long as it is now, where its first axis grows with the set; else the array itself.

        Raises: what `head` raises.
        """
        return self._group._refreshed()[self._again[1]]

    def _following(self) -> Following | None:
        """What follows the set; None if nothing does. It opens the set of an array that was unpickled."""
        return self._group._following
