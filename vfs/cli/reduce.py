"""Makes results of a data set in one pass, and writes them to files, for `vfs reduce`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.frames import FrameView
from vfs.errors import DependencyError, OptionError
from vfs.hierarchy.documents import plain_json
from vfs.model.stored import TOP_FIRST
from vfs.outputs import check_target, whole
from vfs.reduce.passes import Pass
from vfs.reduce.passes import reduce as pass_over
from vfs.reduce.reduction import Reduction
from vfs.reduce.result import Result
from vfs.reduce.spelling import attributes
from vfs.zarr.results import write_results

TIFF = (".tif", ".tiff")


def check_out(target: str, wanted: Mapping[str, Reduction]) -> None:
    """Check that results can be written under a name, before anything is read.

    Raises:
        OptionError: there is something already; or the name does not say in which of the known ways,
            or says one that holds a single result.
        DependencyError: tifffile is needed and not installed.
    """
    ending = os.path.splitext(target)[1].lower()
    if ending not in (".zarr", ".npy", *TIFF):
        raise OptionError(f"{target}: expected OUT.zarr for any results, or OUT.npy or OUT.tif for one")
    if ending != ".zarr" and len(wanted) > 1:
        raise OptionError(
            f"{target}: holds one result, found {len(wanted)} ({', '.join(wanted)}); OUT.zarr holds any number"
        )
    if ending in TIFF:
        _tifffile()
    check_target(target)


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
        OptionError: see `check_out`; or a reduction does not fit the frames.
        SourceError: the data cannot be read. Nothing is written.
    """
    check_out(target, wanted)
    results = pass_over(array, wanted, progress=progress, make=make)
    attrs = {
        name: attributes(wanted[name], result.kind, array.dataset.path, result.calibration)
        for name, result in results.items()
    }
    with whole(target) as partial:
        if target.lower().endswith(".zarr"):
            write_results(results, attrs, partial)
            return results
        ((name, result),) = results.items()
        with open(partial, "wb") as file:
            if target.lower().endswith(".npy"):
                np.save(file, result.data)
            else:
                about = attrs[name] | ({"units": result.units} if result.units else {})
                upwards = result.kind == "sig" and FrameView.of(array).upward
                _write_tiff(file, result, about | ({"rows": TOP_FIRST} if upwards else {}), upwards)
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


def _write_tiff(file: Any, result: Result, attrs: Mapping[str, Any], upwards: bool) -> None:
    """Write a result as pages of pictures. One along a single axis is a row.

    Viewers show the first row of a TIFF at the top. So a frame whose bottom row comes first is turned over.
    Floats become float32 and complex numbers complex64; integers have 32 bits where they fit, else 64.
    """
    data = result.data
    if result.kind == "nav" and data.ndim > 2:  # a page for each mask, ring, or y and x
        data = np.moveaxis(data, range(len(result.scan), data.ndim), range(data.ndim - len(result.scan)))
    data = np.atleast_2d(data[..., ::-1, :] if upwards else data)
    if data.dtype.kind == "f":
        data = data.astype(np.float32)
    elif data.dtype.kind == "c":
        data = data.astype(np.complex64)
    elif data.dtype.kind == "b":
        data = data.view(np.uint8)
    elif data.dtype.itemsize == 8:
        short = np.dtype(f"{data.dtype.kind}4")
        limits = np.iinfo(short)
        if not data.size or (data.min() >= limits.min and data.max() <= limits.max):
            data = data.astype(short)
    _tifffile().imwrite(
        file,
        np.ascontiguousarray(data),
        photometric="minisblack",
        description=json.dumps(plain_json({"vfs": attrs})),
        metadata=None,
    )


def _tifffile() -> Any:
    try:
        import tifffile
    except ImportError:
        raise DependencyError("writing TIFF needs tifffile: pip install 'vfs[tiff]'; OUT.npy needs nothing") from None
    return tifffile
