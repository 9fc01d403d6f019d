"""Makes results of a data set in one pass, and writes them to files, for `vfs reduce`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

import vfs.zarr.results  # noqa: F401 - adds stores to what results can be saved as
from vfs.api.growth import state_of
from vfs.cli.printing import say, say_how_to_go_on
from vfs.engine.array import ArrayReader
from vfs.errors import DependencyError, OptionError, VerifyError, extra
from vfs.model.pickles import packed
from vfs.model.region import Region
from vfs.model.wording import option
from vfs.outputs.places import place_of
from vfs.own_code import code_key
from vfs.reduce.growing import reduce_growing
from vfs.reduce.kept import KeptPass, KeptState, PassSubject
from vfs.reduce.passes import Pass
from vfs.reduce.passes import reduce as pass_over
from vfs.reduce.projections import check_axes
from vfs.reduce.reduction import Reduction
from vfs.reduce.result import Result, Results
from vfs.reduce.saving import save, saver
from vfs.reduce.spelling import spelled
from vfs.sets.live_set import LiveSet
from vfs.sets.opening import OpenedSet
from vfs.zarr.readers import StoreToRead
from vfs.zarr.result_sums import ResultSums
from vfs.zarr.verify import difference


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
        raise DependencyError(f"--scheduler needs dask.distributed: {extra('dask')}") from None
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
    sums: ResultSums | None,
    make: Callable[..., Pass] = Pass,
) -> Mapping[str, Result]:
    """Make results, and write them. `target` has its name only when it is complete.

    Args:
        progress: see `vfs.reduce`.
        sums: notes what they are; None: nobody does.
        make: makes the pass, see `vfs.reduce.partitions.pass_by`.

    Raises:
        OptionError: see `vfs.reduce.saving.saver`; or a reduction does not fit the frames.
        SourceError: the data cannot be read. Nothing is written.
    """
    chosen = saver(target, wanted)
    for like in _like(array, wanted).values():
        chosen.check(like)  # before anything is read
    results = pass_over(array, wanted, progress=progress, make=make)
    _save(results, target, sums)
    return results


def _like(array: ArrayReader, wanted: Mapping[str, Reduction]) -> Mapping[str, Result]:
    """Return results of the shapes and dtypes that a pass will have."""
    check_axes(array, wanted)
    nav = array.shape[: array.dataset.nav_ndim]
    return Pass(array, wanted, [0] if nav and all(nav) else None, 0).results()


def _save(results: Results, target: str, sums: ResultSums | None) -> None:
    """Write results, and their sums before them: what is there is never without them."""
    if sums is None:
        results.save(target)
        return
    try:
        save(results, target, partial(sums.write, results))
    except BaseException:
        with suppress(OptionError):
            sums.take_back()
        raise


def sums_of(opened: OpenedSet, wanted: Mapping[str, Reduction], target: str, resume: bool) -> ResultSums | None:
    """Return what notes what the results are: of a store always, as an export does, else where a pass may be resumed.

    Raises:
        OptionError: something else has the name of the sums.
    """
    if not (resume or target.endswith(".zarr")):
        return None
    grows = opened.progress is not None  # nothing tells yet which files it is made of
    return ResultSums(target, b"" if grows else opened.opening.version, _asked(opened, wanted))


def _asked(opened: OpenedSet, wanted: Mapping[str, Reduction]) -> str:
    """Return the digest of all that is asked for."""
    asked = sorted((name, spelled(one), packed(one)) for name, one in wanted.items())
    about = repr((asked, opened.main.dataset.path, code_key()))
    return blake2b(about.encode(), digest_size=16).hexdigest()


def reduced_resumable(
    opened: OpenedSet,
    wanted: Mapping[str, Reduction],
    target: str,
    progress: Callable[[int, int], object],
    sums: ResultSums | None,
    resume: bool,
) -> Mapping[str, Result] | None:
    """Make results, and write them: see `reduced`. The state of a long pass is kept, so that it can be resumed.

    Returns: None where `target` was complete already, and at most what lay beside it had to be removed.

    Raises:
        OptionError: see `vfs.reduce.kept.KeptState` too; `target` is complete, and something else or nothing tells
            of what; or nothing tells whether the sources changed.
    """
    array, sources = opened.main, opened.opening.version
    if not sources:
        if resume:
            raise OptionError(
                f"{option(resume=True)}: the sources may change ({option(accept_changes=True)}), so that nothing tells"
                " whether they did"
            )
        return reduced(array, wanted, target, progress, sums)
    place = place_of(target, "reduction")
    with place.errors():
        complete = place.exists()
        if complete and sums is not None and not place.noted():
            sums.check_complete(_like(array, wanted))
            return None
        files = array.backend.files
        files.look()
        state = KeptState(place, PassSubject(sources.hex(), _asked(opened, wanted), files.identity()), resume)
    with closing(state):
        if state.dropped:
            say(f"{place.holds}: is of a time before files of the set were touched; the reduction starts again")
        if complete:  # it was killed behind its last step but one
            state.remove()
            if sums is not None and not state.told:  # nothing of its journal reached the disk
                sums.check_complete(_like(array, wanted))
            return None
        try:
            made = reduced(array, wanted, target, progress, sums, partial(KeptPass, saved=state))
        except BaseException as error:
            if state.resumes and not isinstance(error, OptionError):
                say_how_to_go_on(error, target, place)
            raise
        state.remove()
    return made


def check_readable(target: str) -> None:
    """Refuse to verify what is not read back.

    Raises:
        OptionError: it is a file of a kind that is not.
    """
    if not target.endswith((".zarr", ".npy")):
        raise OptionError(f"{option(verify=True)}: OUT.zarr and OUT.npy are read back, found {target}")


def compared(results: Mapping[str, Result], target: str) -> tuple[list[str], str]:
    """Read results back, and compare them bit by bit.

    Args:
        target: what they were written to, see `check_readable`.

    Returns: a line for each that differs, and the names of the libraries that read.
    """
    differ, by = [], set()
    for name, result in results.items():
        try:
            got, reader = _read_back(target, name, result)
            by.add(reader)
            if (got.shape, got.dtype) != (result.shape, result.dtype):
                differ.append(f"{name}: expected {result.dtype} {result.shape}, found {got.dtype} {got.shape}")
            elif line := difference(name, Region.whole(result.shape), result.data, got):
                differ.append(line)
        except (VerifyError, OSError, ValueError) as error:
            differ.append(f"{name}: {error}")
    return differ, " and ".join(sorted(by))


def compared_with_sums(name: str, target: str, sums: ResultSums) -> list[str]:
    """Read a result in OUT.npy back that was there already, and compare it with its sums: see `compared`."""
    try:
        line = sums.difference(name, np.load(target))
    except (OSError, ValueError, KeyError, TypeError) as error:
        line = f"{name}: {error}"
    return [line] if line else []


def _read_back(target: str, name: str, result: Result) -> tuple[np.ndarray, str]:
    if target.endswith(".npy"):
        return np.load(target), "numpy"
    stored = StoreToRead(target).open(name)
    return stored.read(Region.whole(result.shape)), stored.by


def reduced_growing(
    opened: OpenedSet,
    wanted: Mapping[str, Reduction],
    target: str,
    progress: Callable[[int, int], object],
    sums: ResultSums | None,
) -> Mapping[str, Result]:
    """Make results of a set that is still being written, as frames come, and write them when it is whole or stopped.

    Args:
        opened: the set, opened with `follow`.

    Raises: see `reduced`.
    """
    saver(target, wanted)
    growing = reduce_growing(partial(state_of, LiveSet(opened), opened.tree.main), wanted, progress=progress)
    results = deque(growing, 1).pop()
    _save(results, target, sums)
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
