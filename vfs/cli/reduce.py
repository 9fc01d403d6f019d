"""Makes results of a data set in one pass, and writes them to files, for `vfs reduce`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import vfs.zarr.results  # noqa: F401 - adds stores to what results can be saved as
from vfs.api.growth import GrowthOf
from vfs.engine.array import ArrayReader
from vfs.errors import DependencyError, OptionError
from vfs.hierarchy.following import Following
from vfs.hierarchy.opening import OpenedSet
from vfs.reduce.growing import reduce_growing
from vfs.reduce.passes import Pass
from vfs.reduce.passes import reduce as pass_over
from vfs.reduce.reduction import Reduction
from vfs.reduce.result import Result
from vfs.reduce.saving import saver


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Connect to the scheduler of a dask cluster; None: to no one.

    Yields: a `dask.distributed.Client`, or None.

    Raises:
        DependencyError: dask.distributed is not installed.
        OptionError: it is no address, or nobody answers there.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
        from distributed.comm import parse_address, parse_host_port
        from distributed.comm.registry import get_backend
    except ImportError:
        raise DependencyError("--scheduler needs dask.distributed: pip install 'vfs[dask]'") from None
    try:
        protocol, place = parse_address(address)
        get_backend(protocol), parse_host_port(place)  # a Client that is refused these goes on for 20 s in a thread
        client = Client(address, timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise OptionError(
            f"--scheduler {address}: expected the address of a running dask scheduler, such as tcp://host:8786; {said}"
        ) from None
    with client:
        yield client


_ANSWER = 10  # seconds that a scheduler may take to answer


def reduced(
    array: ArrayReader,
    wanted: Mapping[str, Reduction],
    target: str,
    progress: Callable[[int, int], object],
    make: Callable[..., Pass] = Pass,
) -> Mapping[str, Result]:
    """Make results, and write them. `target` has its name only when it is complete.

    Args:
        progress: see `vfs.reduce`.
        make: makes the pass, see `vfs.reduce.partitions.pass_by`.

    Raises:
        OptionError: see `vfs.reduce.saving.saver`; or a reduction does not fit the frames.
        SourceError: the data cannot be read. Nothing is written.
    """
    chosen = saver(target, wanted)
    nav = array.shape[: array.dataset.nav_ndim]
    for like in Pass(array, wanted, [0] if nav and all(nav) else None, 0).results().values():
        chosen.check(like)  # before anything is read
    results = pass_over(array, wanted, progress=progress, make=make)
    results.save(target)
    return results


def reduced_growing(
    opened: OpenedSet, wanted: Mapping[str, Reduction], target: str, progress: Callable[[int, int], object]
) -> Mapping[str, Result]:
    """Make results of a set that is still being written, as frames come, and write them when it is whole or stopped.

    Args:
        opened: the set, opened with `follow`.

    Raises: see `reduced`.
    """
    saver(target, wanted)
    following = Following(opened, None)
    growing = reduce_growing(GrowthOf(following, opened.tree.main), wanted, progress=progress)
    results = deque(growing, 1).pop()
    results.save(target)
    return results


def lines(results: Mapping[str, Result]) -> Sequence[Sequence[str]]:
    """Say what was made, a row each."""
    return [
        (
            name,
            str(result.dtype),
            ", ".join(f"{dim}: {n}" for dim, n in zip(result.dims, result.shape, strict=True)),
        )
        for name, result in results.items()
    ]
