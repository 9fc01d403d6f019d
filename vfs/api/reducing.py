"""What arrays have besides that makes results of their frames: `reduce`, `reduce_partial`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from vfs.api.following import Growing
from vfs.engine.array import ArrayReader
from vfs.sets.live_set import for_workers

if TYPE_CHECKING:
    from vfs.reduce.passes import OnProgress
    from vfs.reduce.reduction import Reduction
    from vfs.reduce.result import Results


class Reducing(Growing):
    """Makes results of the frames of an array."""

    __slots__ = ()

    _reader: ArrayReader  # reads the array; of an array that was unpickled, its set is opened now

    def reduce(
        self,
        /,
        *,
        roi: Any = None,
        workers: int | None = None,
        progress: OnProgress | None = None,
        executor: Any = None,
        follow: bool = False,
        **reductions: Reduction,
    ) -> Results:
        """Make results of the frames: any number of them in one pass, which reads and decodes every frame once.

            r = a.reduce(bf=vfs.Disk(cy=128, cx=128, r=20), mean=vfs.Mean())
            r["bf"].data

        Frames that are not stored do not count. Integers are added up exactly; floats in float64,
        in an order that depends on the number of threads.

        Args:
            roi: only these frames, as `vfs.open` takes it.
            workers: threads, at most 256; None: one a core, at most four; 0 or 1: only the caller's. With
                `executor` how many partitions it works on at once; None: as it says.
            progress: called with (frames done, frames in all) about ten times a second, by the thread that calls this.
            executor: does the work: a pool of `concurrent.futures`, a `dask.distributed.Client`, or
                whatever has `submit`. It gets the scan in partitions, and opens the set itself.
            follow: of a set that is still being written (opened with `follow`), take frames as they come, each once,
                until the set is whole or stopped. Without it, frames that are not there yet are a `NotYetError`.
            reductions: what to make, by the names that the results get.

        Returns: name -> `Result`, in the order of `reductions`.

        Raises:
            OptionError: an argument does not fit, or a sum of integers does not fit into 64 bits.
            SourceError: see `read`.
            ExecutorError: the executor lost a worker for good, or takes no tasks.
        """
        import vfs.zarr.results  # noqa: F401 - adds stores to what results can be saved as
        from vfs.api.growth import state_of
        from vfs.reduce.growing import reduce_growing
        from vfs.reduce.partitions import pass_by
        from vfs.reduce.passes import reduce
        from vfs.reduce.projections import check_axes

        if roi is None:
            check_axes(self._reader, reductions)
        live = self._followed(executor) if follow else None
        if live is not None:
            state = partial(state_of, live, self._again[1])
            growing = reduce_growing(state, reductions, roi=roi, workers=workers, progress=progress)
            return deque(growing, 1).pop()
        make = pass_by(executor, partial(for_workers, self._again[0]))
        return reduce(self._reader, reductions, roi=roi, workers=workers, progress=progress, make=make)

    def reduce_partial(
        self,
        /,
        *,
        parts: int = 16,
        roi: Any = None,
        workers: int | None = None,
        progress: OnProgress | None = None,
        executor: Any = None,
        follow: bool = False,
        **reductions: Reduction,
    ) -> Iterator[Results]:
        """Do what `reduce` does, and give what there is of the results again and again.

        Nothing goes on between two of them; leaving the loop ends the pass.

        Args:
            parts: how many times at most; each is of about as many frames more.
            roi, workers, progress, executor, reductions: see `reduce`. An executor goes on between two results.
            follow: see `reduce`. Results come whenever there are more frames.

        Yields: what `reduce` returns: results of the frames so far, `valid` where there are any; the last time of all.

        Raises: what `reduce` raises.
        """
        import vfs.zarr.results  # noqa: F401 - adds stores to what results can be saved as
        from vfs.api.growth import state_of
        from vfs.reduce.growing import reduce_growing
        from vfs.reduce.partitions import pass_by
        from vfs.reduce.passes import reduce_partial
        from vfs.reduce.projections import check_axes

        if roi is None:
            check_axes(self._reader, reductions)
        live = self._followed(executor) if follow else None
        if live is not None:
            state = partial(state_of, live, self._again[1])
            return reduce_growing(state, reductions, roi=roi, workers=workers, progress=progress)
        make = pass_by(executor, partial(for_workers, self._again[0]))
        return reduce_partial(
            self._reader, reductions, parts=parts, roi=roi, workers=workers, progress=progress, make=make
        )
