"""Tells for how long a file or folder counts as unchanged after it was checked."""

from __future__ import annotations

import time
from dataclasses import dataclass

CHECK = 0.5  # seconds that a file or folder is taken to be as it was when it was looked at
SHARE = 10  # looking at a set again takes at most one part of so many of the time: a large one is looked at less often
_NEVER = -1e9


@dataclass(slots=True)
class Trust:
    """Tells whether something has to be looked at again. At first, it has to.

    Attributes:
        checked: when it was last found unchanged, or opened (monotonic seconds).
        pause: seconds that this is good for.
    """

    checked: float = _NEVER
    pause: float = CHECK

    @property
    def until(self) -> float:
        """The time (monotonic seconds) from which it has to be looked at again."""
        return self.checked + self.pause

    def holds(self) -> bool:
        """True while it need not be looked at again."""
        return time.monotonic() - self.checked < self.pause

    def renew(self, began: float) -> None:
        """Note that a look at it ends now. The longer the look took, the later is the next one.

        Args:
            began: when the look began (monotonic seconds).
        """
        self.checked = time.monotonic()
        self.pause = max(CHECK, SHARE * (self.checked - began))

    def end(self) -> None:
        """Have it looked at again before it is used."""
        self.checked = _NEVER
