"""Keeps the names in a folder in the order in which they are listed, while names come and go."""

from __future__ import annotations

TOGETHER = 256
"""Most names that are handed on at once: one that is removed meanwhile is not replaced by a gap."""
MANY = 1000  # gaps are closed only in lists of more places


class Entries:
    """Holds names at places. A name keeps its place, so that a program in the middle of a listing misses none.

    A name that is removed leaves a gap; a new name is put at the end.
    """

    def __init__(self) -> None:
        self._names: list[str | None] = []
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        """Number of places, gaps included."""
        return len(self._names)

    def some(self, place: int) -> list[str]:
        """Return names from a place on, at most `TOGETHER`; "/" for a gap, because no file can have that name."""
        return [name or "/" for name in self._names[place : place + TOGETHER]]

    def show(self, name: str) -> None:
        """Put a name at the end, unless it is there already."""
        if self._places.setdefault(name, len(self._names)) == len(self._names):
            self._names.append(name)

    def hide(self, name: str) -> None:
        """Remove a name, if it is there."""
        place = self._places.pop(name, None)
        if place is not None:
            self._names[place] = None

    def close_gaps(self) -> None:
        """Move names up if more than half of many places are gaps.

        Places change, so no program may be in the middle of a listing.
        """
        if MANY < len(self._names) < 2 * self._names.count(None):
            kept = [name for name in self._names if name is not None]
            self._places = {name: place for place, name in enumerate(kept)}
            self._names = [*kept]
