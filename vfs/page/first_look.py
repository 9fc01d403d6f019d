"""What a page will need first: its files and, if one set is served, kernels, the bright-field disk, its image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.chunk_plan import AtHand
from vfs.errors import VfsError
from vfs.faces.face import Face
from vfs.page.centre import at_hand, centre
from vfs.page.computing import Asked, Computation
from vfs.page.listing import SetListing
from vfs.page.pages import assets
from vfs.page.tiles import levels_of, tile
from vfs.page.views import picture
from vfs.pictures.frames import FrameView
from vfs.reduce.bright_field import middle, scanned
from vfs.reduce.passes import reduce
from vfs.reduce.shapes import Disk

SIDE = 256
"""Rows and columns of a picture that is read to load what reads it."""
LARGE = 2048
"""Rows or columns above which the page looks at levels of a picture (`LARGE` in pyramid.js)."""

IMAGE = "r0"
"""How the page calls the first image that it asks for (scan.js): under another name it would be made again."""


class FirstLook:
    """Looks at the main array of the only set, as a page will.

    Args:
        entries: returns what is served, as `api/list/` says it; more than one is not looked at.
        listing: says what is in a set.
        cache: keeps what is found.
    """

    def __init__(
        self, entries: Callable[[], Sequence[Mapping[str, str]]], listing: SetListing, cache: ChunkCache
    ) -> None:
        self._entries, self._listing, self._cache = entries, listing, cache

    def _only(self) -> tuple[str, Face, ArrayReader] | None:
        """Return key of the array, face and array; None if there are several sets, or folders."""
        entries = self._entries()
        if len(entries) != 1:
            return None
        key = entries[0]["key"]
        face = self._listing.face(key)
        return f"{key}/{face.main}", face, face.arrays[face.main]

    def _disked(self, array: ArrayReader) -> bool:
        """Return True for the main array of the only set, if its frames may have a bright-field disk."""
        return scanned(array) and not self._listing.backscatter(self._entries()[0]["key"])

    def load(self) -> None:
        """Load files and kernels, and find the disk. What is wrong is said when the page asks."""
        assets()
        AtHand.load()
        with suppress(VfsError):
            only = self._only()
            if only is None:
                return
            _, face, array = only
            view, levels = FrameView.of(array), levels_of(face, face.main)
            if levels or (len(view.sizes) == 2 and max(view.sizes) > LARGE):
                tile(face, face.main, view.middle, int(bool(levels)), (0, 0, 1, 1))  # viewers of levels look at these
            if len(view.sizes) != 2 or max(view.sizes) <= LARGE:
                picture(array, view.middle, SIDE)
            if self._disked(array):
                centre(array, middle(array), self._cache)
                reduce(array, {"image": Disk(0, 0, 1)}, roi=[0])

    def disk(self) -> dict[str, Any]:
        """Return {"centre": the disk, the key of its array (`of`), `within`}, if it was found before; else {}."""
        only = self._only()
        if only is None or not self._disked(only[2]):
            return {}
        within = middle(only[2])
        found = at_hand(only[2], within, self._cache)
        return {"centre": {"of": only[0], "within": list(within), **found._asdict()}} if found else {}

    def image(self) -> Computation | None:
        """Return the computation that the page asks for first; None: there is none, or it is not known.

        Raises:
            VfsError: a source cannot be read.
        """
        only = self._only()
        if only is None or not scanned(only[2]):
            return None
        array, within = only[2], middle(only[2])
        if not self._disked(array):
            return Computation(array, Asked({IMAGE: "frame_sum()"}, None, within), self._cache)
        text = "disk({:g}, {:g}, {:g})".format(*centre(array, within, self._cache)[:3])  # as the page writes it
        return Computation(array, Asked({IMAGE: text}, None, within), self._cache)
