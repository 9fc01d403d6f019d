"""Opens sets and stores again, as pickles of them say, in whatever process unpickles them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfs.api.following import SetInUse, in_use
from vfs.backends import in_dask_worker
from vfs.engine.open_sets import OPEN
from vfs.faces.data_set import zarr_ending
from vfs.faces.face import ZarrFace
from vfs.sets.following import for_workers
from vfs.sets.opening import OpenedSet, Opening

if TYPE_CHECKING:
    from vfs.zarr.store import Store


def opened_again(opening: Opening) -> OpenedSet:
    """Open a set again; in a dask worker once for all tasks, whose pickles come and go, unless headers may change.

    Raises: what `Opening.open` raises.
    """
    if opening.options.may_change or not in_dask_worker():
        return opening.open()
    again: OpenedSet = OPEN.opened(for_workers(opening))
    return again


def store_again(opening: Opening, zarr_format: int, face: str, present: SetInUse | None = None) -> Store:
    """Make the store of a set, which is opened when it is first needed.

    Args:
        present: the set, if it is open here and still being written.
    """
    from vfs.zarr.store import GrowingStore, Store

    again = (store_again, (opening, zarr_format, face))
    name = opening.name + zarr_ending(face, zarr_format)
    if not opening.options.follow:
        return Store(lambda: opened_again(opening).tree.zarr(zarr_format, face), again, name)
    return GrowingStore(PresentFace(opening, zarr_format, face, present), again, name)


class PresentFace:
    """Gives the zarr face of a set that is still being written, as it is at that moment.

    Args:
        present: the set; None opens it when it is first needed.
    """

    def __init__(self, opening: Opening, zarr_format: int, face: str, present: SetInUse | None) -> None:
        self._opening, self._how, self._set = opening, (zarr_format, face), present
        self._made: tuple[OpenedSet, ZarrFace] | None = None

    def __call__(self) -> ZarrFace:
        self._set = self._set or in_use(opened_again(self._opening))
        opened = self._set.opened
        if self._made is None or self._made[0] is not opened:
            self._made = opened, opened.tree.zarr(*self._how)
        return self._made[1]
