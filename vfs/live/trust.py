"""Tells for how long a file or folder counts as unchanged after it was looked at."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_NEVER = -1e9


@dataclass(slots=True)
class Pace:
    """Says how often files are looked at.

    Attributes:
        least: seconds for which a look is good at least.
        share: looks take at most one part of so many of the time: large sets are looked at less often. 0: however long
            looks take.
        shortest_of: the shortest of so many last looks tells how long they take; at least 1. One that is slow by chance
            (code is loaded, the machine is busy) then delays nothing.
    """

    least: float
    share: float
    shortest_of: int = 1


@dataclass(slots=True)
class Trust:
    """Tells whether something has to be looked at again. At first, it has to.

    Attributes:
        pace: how often it is looked at.
        until: the time (monotonic seconds) from which it has to be looked at again.
        pause: seconds for which the last look at all of it is good.
        took: seconds that the last looks took.
    """

    pace: Pace
    until: float = _NEVER
    pause: float = 0.0
    took: list[float] = field(default_factory=list)

    def holds(self) -> bool:
        """True while it need not be looked at again."""
        return time.monotonic() < self.until

    def renew(self, began: float) -> None:
        """Note that a look at it ends now. The longer the look took, the later is the next one.

        Args:
            began: when the look began (monotonic seconds).
        """
        now = time.monotonic()
        self.took = [*self.took, now - began][-self.pace.shortest_of :]
        known = min(self.took) if len(self.took) == self.pace.shortest_of else 0.0
        self.pause = max(self.pace.least, self.pace.share * known)
        self.until = now + self.pause

    def extend(self, now: float) -> None:
        """Have it not looked at for as long after a time (monotonic seconds) as the last look was good for."""
        self.until = now + max(self.pause, self.pace.least)

    def end(self) -> None:
        """Have it looked at again before it is used."""
        self.until = _NEVER
