"""Opens sets again, as pickles of them say, in whatever process unpickles them."""

from __future__ import annotations

from vfs.backends import in_dask_worker
from vfs.engine.open_sets import OPEN
from vfs.sets.live_set import for_workers
from vfs.sets.opening import OpenedSet, Opening


def opened_again(opening: Opening) -> OpenedSet:
    """Open a set again; in a dask worker once for all tasks, whose pickles come and go, unless headers may change.

    Raises: what `Opening.open` raises.
    """
    if opening.options.may_change or not in_dask_worker():
        return opening.open()
    again: OpenedSet = OPEN.opened(for_workers(opening))
    return again
