"""The names in a folder in the order in which they are listed, while some come and go."""

from __future__ import annotations

MANY = 1000  # entries from which it is worth closing gaps


class Entries:
    """Names at places. A name keeps its place while it is there, so a program in the middle of a listing misses none.

    A name that goes leaves a gap; a name that comes is put at the end.
    """

    def __init__(self) -> None:
        self._names: list[str | None] = []
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        """Number of places, gaps included."""
        return len(self._names)

    def at(self, place: int) -> str:
        """The name at a place; "/", which is the name of nothing, for a gap."""
        return self._names[place] or "/"

    def show(self, name: str) -> None:
        """Put a name at the end, unless it is there already."""
        if self._places.setdefault(name, len(self._names)) == len(self._names):
            self._names.append(name)

    def hide(self, name: str) -> None:
        """Take a name away, if it is there."""
        place = self._places.pop(name, None)
        if place is not None:
            self._names[place] = None

    def close_gaps(self) -> None:
        """Move names up where more than half of many places are gaps.

        Only for a time when no program is in the middle of a listing: places change.
        """
        if MANY < len(self._names) < 2 * self._names.count(None):
            kept = [name for name in self._names if name is not None]
            self._places = {name: place for place, name in enumerate(kept)}
            self._names = [*kept]
