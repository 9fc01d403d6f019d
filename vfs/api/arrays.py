"""What `vfs.open` returns: `VirtualArray`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vfs.api.following import Growing
from vfs.engine import chunking
from vfs.engine.array import ArrayReader
from vfs.errors import OptionError
from vfs.hierarchy.opening import Opening
from vfs.model.region import ChunkGrid, Region
from vfs.wording import option, option_names

if TYPE_CHECKING:
    import dask.array
    import xarray
    import zarr
    from matplotlib.axes import Axes

    from vfs.api.groups import VirtualGroup
    from vfs.api.viewing import View
    from vfs.reduce.passes import Progress
    from vfs.reduce.reduction import Reduction
    from vfs.reduce.result import Results
    from vfs.zarr.store import Store


_INSTEAD = {
    name: f"a.reduce({name}=vfs.{kind}()) makes it of all frames in one pass, numpy.{name}(a[…]) of a part"
    for name, kind in {
        "mean": "Mean",
        "sum": "Sum",
        "max": "Max",
        "min": "Min",
        "std": "Std",
        "var": "Variance",
    }.items()
} | dict.fromkeys(
    ("T", "transpose", "swapaxes", "reshape", "astype", "flatten", "ravel", "squeeze", "clip", "copy"),
    "read a part first (a[…] is a numpy array), or a.dask() for all of it, a block at a time",
)
"""What numpy has and an array in files does not: what to do instead."""


class VirtualArray(Growing):
    """One array of a data set: is indexed like numpy, and gives the zarr store that it stands in. Made by `vfs.open`.

    Indexing follows numpy's basic indexing (integers, slices with any step, Ellipsis). What comes back belongs to the
    caller; where the bytes in the file already are the answer and the backend maps files, it is a read-only view.
    An index that the array does not have is a RegionError, and bytes that cannot be read are a SourceError.

    No reference leads from a data set back to its arrays, so the files are closed at once when the last array and the
    last group go.

    A pickled array opens its files when it is first used, not when it is unpickled: a process that only passes it on
    (dask's scheduler) may not have the files, and the process that reads reports what is wrong with them.
    """

    __slots__ = ("__weakref__", "_again", "_group", "_reader")

    _again: tuple[Opening, str]  # how the data set was opened, path of the array in it
    _group: VirtualGroup  # not there before the array of a pickle is used
    _reader: ArrayReader  # reads the array; not there either

    def __init__(self, again: tuple[Opening, str], group: VirtualGroup | None = None) -> None:
        self._again = again
        if group is not None:
            self._group = group
            self._reader = group._opened.arrays[again[1]]

    if not TYPE_CHECKING:  # type checkers would take every name for an attribute

        def __getattr__(self, name: str) -> Any:  # Python asks here for what is not there
            if name not in ("_group", "_reader"):
                hint = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")
            opening, path = self._again
            from vfs.api.again import group_again

            group = group_again(opening)
            self.__init__(self._again, group)
            group._in_use[path] = self
            return getattr(self, name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""
        return self._reader.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._reader.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._reader.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, in native byte order."""
        return self._reader.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._reader.nbytes

    @property
    def dims(self) -> tuple[str, ...]:
        """A name per axis."""
        return self._reader.dims

    @property
    def chunks(self) -> tuple[int, ...]:
        """Elements per axis of a chunk."""
        return self._reader.chunks

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The format's metadata."""
        return self._reader.attrs

    @property
    def files(self) -> Sequence[str]:
        """Paths of the files that the elements are read from."""
        return self._reader.files

    @property
    def calibration(self) -> dict[str, dict[str, Any]]:
        """Positions of the elements along each axis: axis name -> {"scale": …, "offset": …, "unit": …}.

        Element k is at `offset + k * scale`, in `unit` ("" where the file names none; `vfs docs formats` lists the
        units). Of an axis with uneven steps scale and offset are None, and "values" is the path of the array of the
        set that holds the positions. Axes that the file says nothing of are not there, nor are those of a scan that
        `nav_shape` or `roi` arranged so that the steps in the file do not hold any more.
        """
        return self._reader.calibration

    @property
    def valid(self) -> np.ndarray:
        """bool[navigation shape]: where a frame is stored; elsewhere the array is blank."""
        return self._reader.valid

    @property
    def group(self) -> VirtualGroup:
        """All arrays of the data set: this one, the others of a container, and companions such as time stamps."""
        return self._group

    def __len__(self) -> int:
        return len(self._reader)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._reader)

    def __getitem__(self, key: Any) -> Any:
        return self._reader[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._reader.__array__(dtype, copy)

    def read(self, region: Region | Sequence[slice] | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """Read a box of the array.

        Args:
            region: a Region, or slices with positive steps (missing axes: whole); None: everything.
            out: array of the region's shape and this array's dtype that the elements are written to. Any strides.

        Returns: `out`, or a new array, or a read-only view of the file where that is the same bytes.

        Raises:
            RegionError: the region does not fit the array.
            OptionError: `out` does not fit the region, or cannot be written to.
            SourceError: bytes are missing, truncated or unreadable; the message names file, bytes and region.
        """
        return self._reader.read(region, out)

    def tiles(
        self,
        shape: chunking.ChunkSpec | None = None,
        *,
        access: str | None = None,
        roi: Any = None,
        workers: int | None = None,
        reuse: bool = False,
        follow: bool = False,
    ) -> Iterator[tuple[Region, np.ndarray]]:
        """Stream the whole array, a tile at a time, navigation axes slowest, with the next tiles being read meanwhile.

        At most `2 * workers` tiles are under way; leaving the loop early ends the reading. Where tiles take a little
        of every frame, neighbouring ones are read together, so that frames are not read anew for each.

        Args:
            shape: elements per axis (-1: the whole axis) or bytes; None: the chunks.
            access: "frames", "scan" or "balanced" instead of a shape.
            roi: only these frames: as `vfs.open` takes it; the navigation axes are then one.
            workers: threads that read, at most 256; None: one a core, at most four; 0: read in the caller's thread,
                without reading ahead.
            reuse: give tiles in memory that is used again, which stays in the processor's cache: a tile is valid
                until the next step.
            follow: of a set that is still being written (opened with `follow`), wait for tiles that are not there
                yet. It ends when the set is whole, or stopped. Without it, they are a `NotYetError`.

        Yields: (region, elements of that region). With `roi`, of the array that shows only these frames.

        Raises:
            OptionError: an argument does not fit.
            SourceError: see `read`.
        """
        growth = self._growth() if follow else None
        if growth is None:
            return self._reader.tiles(shape, access=access, roi=roi, workers=workers, reuse=reuse)
        if roi is not None or reuse:
            raise OptionError(
                f"{option(follow=True)} goes with neither {option_names('roi')} nor {option_names('reuse')}"
            )
        return growth.tiles(lambda of: ChunkGrid(of.shape, of.tile_cut(shape, access).shape), workers)

    def unroi(self, result: Any) -> np.ndarray:
        """Put a result per selected frame back into the scan.

        `a.unroi(a.valid)` is the mask of what was selected and stored.

        Args:
            result: [frames that roi selected, …].

        Returns: [scan shape, …], with NaN, NaT, False, 0, '' or None where nothing was selected.

        Raises:
            OptionError: the array was opened without roi, or `result` has another length.
        """
        return self._reader.unroi(result)

    def store(self, zarr_format: int = 3, face: str = "zarr") -> Store:
        """Make a read-only `zarr.abc.store.Store` over the whole tree of the set; picklable.

        Args:
            zarr_format: 3 or 2.
            face: "zarr" shows all arrays; "ome" shows the images with smaller versions, as OME-NGFF 0.5 (in zarr v3)
                or 0.4 (in v2): the page `ome-zarr` says more.

        Raises:
            OptionError: another zarr format or face, or a set without an image.
        """
        return self._group.store(zarr_format, face)

    def zarr(self) -> zarr.Array[Any]:
        """Open this array as a zarr.Array, through `store()` and the fast lane of `vfs.zarr.pipeline`."""
        from vfs.zarr.pipeline import direct

        return direct(self.store(), self._again[1])

    def xarray(self) -> xarray.DataArray:
        """Show this array as an `xarray.DataArray`, which reads elements when they are used.

        It has the coordinates that the calibration gives, and time stamps of its frames as datetime64. The page
        `xarray` says more.

        Raises:
            DependencyError: xarray is not installed.
            SourceError: the positions along an uneven axis cannot be read.
        """
        from vfs.api.as_xarray import data_array

        return data_array(self)

    def dask(self, block: chunking.ChunkSpec = "128MiB") -> dask.array.Array:
        """Show this array as a dask array, which reads a block when it is computed.

        Its tasks hold neither data nor this array, but how the set was opened. A process that works on them opens
        the set once. Where a part of a block is taken by a slice, only that part is read.

        Args:
            block: elements per axis (-1: the whole axis), or bytes, of which blocks have about as many: whole frames,
                or whole blocks of the file where it has some.

        Raises:
            DependencyError: dask is not installed.
            OptionError: `block` does not fit.
        """
        from vfs.api.as_dask import in_blocks

        return in_blocks(self._reader, self._again[0], block)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        opening, path = self._again
        return "vfs.VirtualArray", opening.identity, path

    def __repr__(self) -> str:
        try:
            reader = object.__getattribute__(self, "_reader")
        except AttributeError:
            opening, path = self._again
            return f"<vfs.VirtualArray {path} of {opening.paths[0]}, not open yet>"
        return f"<vfs.VirtualArray {reader.summary}>"

    def reduce(
        self,
        /,
        *,
        roi: Any = None,
        workers: int | None = None,
        progress: Progress | None = None,
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
        from vfs.reduce.growing import reduce_growing
        from vfs.reduce.partitions import pass_by
        from vfs.reduce.passes import reduce

        growth = self._growth(executor) if follow else None
        if growth is not None:
            growing = reduce_growing(growth, reductions, roi=roi, workers=workers, progress=progress)
            return deque(growing, 1).pop()
        make = pass_by(executor, self._again[0])
        return reduce(self._reader, reductions, roi=roi, workers=workers, progress=progress, make=make)

    def reduce_partial(
        self,
        /,
        *,
        parts: int = 16,
        roi: Any = None,
        workers: int | None = None,
        progress: Progress | None = None,
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
        from vfs.reduce.growing import reduce_growing
        from vfs.reduce.partitions import pass_by
        from vfs.reduce.passes import reduce_partial

        growth = self._growth(executor) if follow else None
        if growth is not None:
            return reduce_growing(growth, reductions, roi=roi, workers=workers, progress=progress)
        make = pass_by(executor, self._again[0])
        return reduce_partial(
            self._reader, reductions, parts=parts, roi=roi, workers=workers, progress=progress, make=make
        )

    def show(self, height: int = 600) -> View:
        """Show the page of this array in a notebook's cell, opened as it was.

        What is drawn there comes back: see `View`.

        Args:
            height: in pixels.

        Raises:
            ServeError: serving cannot work; the message says why and what to do.
        """
        from vfs.api.viewing import show_array

        opening, path = self._again
        return show_array(opening, self._reader, path, height)

    def plot(self, at: Sequence[int] | int | None = None, ax: Axes | None = None, **how: Any) -> Axes:
        """Draw one frame with matplotlib, with the units of its axes.

            a.plot((10, 20))

        Args:
            at: an index for each axis that chooses a frame, or one number that counts all frames; None:
                the frame in the middle.
            ax: where to draw; None: in a new figure.
            how: more arguments for `Axes.imshow` or `Axes.plot`.

        Raises:
            DependencyError: matplotlib is not installed.
            OptionError: there is no such frame.
            SourceError: see `read`.
        """
        from vfs.reduce.pictures import plot_frame

        return plot_frame(self._reader, at, ax, how)

    def _repr_html_(self) -> str:
        from vfs.hierarchy.display import array_html

        return array_html(self._reader)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._again,)


class FollowedArray(VirtualArray):
    """An array of a set that is still being written: each read is of the set as it is at that moment."""

    __slots__ = ()

    def __init__(self, again: tuple[Opening, str], group: VirtualGroup | None = None) -> None:
        self._again = again
        if group is not None:
            self._group = group

    @property
    def _reader(self) -> ArrayReader:  # type: ignore[override]
        return self._group._opened.arrays[self._again[1]]
