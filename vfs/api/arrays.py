"""What opening returns: `VirtualArray`, one array of a set, and `VirtualGroup`, all of them. One leads to the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from vfs.api.again import opened_again
from vfs.api.elsewhere import INSTEAD, OF_TWO_AXES, asker
from vfs.api.facts import ArrayFacts
from vfs.api.reducing import Reducing
from vfs.engine import chunking
from vfs.engine.array import ArrayReader
from vfs.errors import OptionError, UnknownArrayError
from vfs.faces.data_set import zarr_ending
from vfs.faces.face import ZarrFace
from vfs.model.metadata import Said
from vfs.model.naming import first_names
from vfs.model.region import ChunkGrid, Region
from vfs.model.wording import option, option_names
from vfs.sets.choosing import path_named
from vfs.sets.live_set import LiveSet
from vfs.sets.opening import OpenedSet, Opening
from vfs.sets.original import Originals

if TYPE_CHECKING:
    import dask.array
    import xarray
    import zarr
    from matplotlib.axes import Axes

    from vfs.api.viewing import View
    from vfs.zarr.store import Store


class VirtualArray(ArrayFacts, Reducing):
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

    _group: VirtualGroup  # not there before the array of a pickle is used; nor is `_reader`, which reads the array

    def __init__(self, again: tuple[Opening, str], group: VirtualGroup | None = None) -> None:
        self._again = again
        if group is not None:
            self._group = group
            self._reader = group._opened.arrays[again[1]]

    if not TYPE_CHECKING:  # type checkers would take every name for an attribute

        def __getattr__(self, name: str) -> Any:  # Python asks here for what is not there
            if name == "to_numpy":  # what `plt.plot` and pandas ask for; `read` is the name for people
                return self.__array__
            if name not in ("_group", "_reader"):
                hint = f": {INSTEAD[name]}" if name in INSTEAD else ""
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")
            opening, path = self._again
            group = group_again(opening)
            self.__init__(self._again, group)
            group._in_use[path] = self
            return getattr(self, name)

    @property
    def _live(self) -> LiveSet:
        return self._group._live

    @property
    def original_metadata(self) -> Mapping[str, Any]:
        """Everything that the files say, as they say it: a tree of JSON values, read when it is asked for.

        Of DigitalMicrograph it is the tags, of HDF5 the attributes and small values of all groups, of TIFF the tags of
        the pages. The entry `left_out` has a line for each thing that is not there. Of formats whose headers are short
        it is `attrs`.

        Raises:
            SourceError, FormatError: the files cannot be read any more.
        """
        return self._group._originals.of(self._group._opened, self._again[1])

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
        colours = self.ndim == 3 and self.shape[-1] in (3, 4)
        if self.ndim > 2 and not colours and (who := asker()) in OF_TWO_AXES:
            at = ", ".join(str(n // 2) for n in self.shape[: self._reader.dataset.nav_ndim])
            frame = f": a[{at}] is one of its frames, which a.plot(({at})) draws" if at else ": take a part of it, a[…]"
            raise TypeError(
                f"{self._reader.dataset.path} has shape {list(self.shape)}, and {who} takes two axes at most{frame};"
                " a.reduce(…) makes images and patterns of all"
            )
        try:
            return self._reader.__array__(dtype, copy)
        except MemoryError as error:
            raise MemoryError(
                f"{error}; a.reduce(…) makes results of all frames, a.dask() goes block by block"
            ) from None

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
        live = self._followed() if follow else None
        if live is None:
            return self._reader.tiles(shape, access=access, roi=roi, workers=workers, reuse=reuse)
        if roi is not None or reuse:
            raise OptionError(
                f"{option(follow=True)} goes with neither {option_names('roi')} nor {option_names('reuse')}"
            )
        from vfs.api.growth import tiles  # loads kernels, which few need

        return tiles(live, self._again[1], lambda of: ChunkGrid(of.shape, of.tile_cut(shape, access).shape), workers)

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

    def refresh(self) -> VirtualArray:
        """Return this array as long as it is now, where its first axis grows with the set; else the array itself.

        Raises: what `head` raises.
        """
        group = self._group
        return (group if group._opened is group._live.now() else VirtualGroup(group._live))[self._again[1]]

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
        from vfs.api.as_xarray import ForXarray, data_array

        return data_array(ForXarray(self._group._opened, self._group.__getitem__), self._again[1])

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
        from vfs.pictures.results import plot_frame

        return plot_frame(self._reader, at, ax, how)

    def _repr_html_(self) -> str:
        from vfs.pictures.display import array_html

        return array_html(self._reader)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._again,)


class GrowingArray(VirtualArray):
    """An array of a set that is still being written: each read is of the set as it is at that moment."""

    __slots__ = ()

    def __init__(self, again: tuple[Opening, str], group: VirtualGroup | None = None) -> None:
        self._again = again
        if group is not None:
            self._group = group

    @property
    def _reader(self) -> ArrayReader:  # type: ignore[override]
        return self._group._opened.arrays[self._again[1]]


class VirtualGroup(Mapping[str, VirtualArray]):
    """All arrays of a data set: a Mapping of path -> VirtualArray. Made by `vfs.open_group`.

    A name that a program gave to one array ("HAADF") is taken for its path, too. A path that is not there is an
    UnknownArrayError, which is a KeyError.
    """

    def __init__(self, live: LiveSet) -> None:
        self._live, self._shown = live, live.current
        self._in_use: WeakValueDictionary[str, VirtualArray] = WeakValueDictionary()
        self._faces: dict[tuple[int, str], tuple[OpenedSet, ZarrFace]] = {}
        self._originals = Originals()

    @property
    def _opened(self) -> OpenedSet:
        """The set as it is now; of one that is still being written, as long as its arrays keep their shapes."""
        if self._live.follows:
            self._shown = self._live.like(self._shown)
        return self._shown

    def _face(self, zarr_format: int, face: str) -> ZarrFace:
        """Return a zarr face of the set as it is now. It is made once for each state."""
        opened, made = self._opened, self._faces.get((zarr_format, face))
        if made is None or made[0] is not opened:
            made = self._faces[zarr_format, face] = opened, opened.tree.zarr(zarr_format, face)
        return made[1]

    @property
    def name(self) -> str:
        """The name that a mount shows the data set under."""
        return self._opened.name

    @property
    def main(self) -> VirtualArray:
        """The array that was asked for (`array=`), else the one that its format calls the main one, or the largest."""
        return self[self._opened.tree.main]

    @property
    def metadata(self) -> Mapping[str, Said]:
        """What the files say of the acquisition: `VirtualArray.metadata` of the main array."""
        return self.main.metadata

    @property
    def original_metadata(self) -> Mapping[str, Any]:
        """Everything that the files say: `VirtualArray.original_metadata` of all arrays.

        Raises: what that raises.
        """
        return self._originals.of(self._opened)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the zarr root group."""
        return self._opened.attrs

    def __getitem__(self, path: str) -> VirtualArray:
        with suppress(KeyError):
            return self._in_use[path]
        try:
            self._opened.arrays[path]  # raises KeyError
            array = (GrowingArray if self._live.follows else VirtualArray)((self._live.opening, path), self)
        except KeyError:
            datasets = (reader.dataset for reader in self._opened.arrays.values())
            if isinstance(path, str) and (named := path_named(path, datasets, self.name)):
                return self[named]
            raise UnknownArrayError(f"no array {path!r} in {self.name}; there are: {first_names(list(self))}") from None
        return self._in_use.setdefault(path, array)

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened.arrays)

    def __len__(self) -> int:
        return len(self._opened.arrays)

    def __repr__(self) -> str:
        from vfs.pictures.display import group_text

        return group_text(self.name, self._opened.arrays)

    def store(self, zarr_format: int = 3, face: str = "zarr") -> Store:
        """Make a read-only `zarr.abc.store.Store` over the whole tree, or over its images; picklable.

        Args:
            zarr_format, face: see `VirtualArray.store`.

        Raises:
            OptionError: another zarr format or face, or a set without an image.
        """
        from vfs.zarr.store import Store

        if self._live.follows:
            return store_again(self._live.opening, zarr_format, face, self)
        tree, again = self._opened.tree, (store_again, (self._opened.opening, zarr_format, face))
        return Store(tree.zarr(zarr_format, face), again, tree.name + zarr_ending(face, zarr_format))

    def zarr(self) -> zarr.Group:
        """Open the whole tree as a zarr.Group."""
        import zarr

        return zarr.open_group(self.store(), mode="r")

    def xarray(self) -> xarray.DataTree:
        """Show all arrays as an `xarray.DataTree`, which reads elements when they are used.

        Arrays of a folder whose axes agree are one Dataset. The page `xarray` says more.

        Raises:
            DependencyError: xarray is not installed.
            SourceError: the positions along an uneven axis cannot be read.
        """
        from vfs.api.as_xarray import ForXarray, data_tree

        return data_tree(ForXarray(self._opened, self.__getitem__))

    def show(self, height: int = 600) -> View:
        """Show the page of the main array in a notebook's cell; see `VirtualArray.show`."""
        return self.main.show(height)

    def _repr_html_(self) -> str:
        from vfs.pictures.display import group_html

        return group_html(self.name, self._opened.opening.format, self._opened.arrays, self._opened.tree.main)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return "vfs.VirtualGroup", self._opened.opening.identity

    def __reduce__(self) -> tuple[Any, ...]:
        return group_again, (self._opened.opening,)


def group_again(opening: Opening) -> VirtualGroup:
    """Open the group of a set again."""
    return VirtualGroup(LiveSet(opened_again(opening)))


def store_again(opening: Opening, zarr_format: int, face: str, group: VirtualGroup | None = None) -> Store:
    """Make the store of a set, which is opened when it is first needed.

    Args:
        group: the set, if it is open here and still being written.
    """
    from vfs.zarr.store import GrowingStore, Store

    again = (store_again, (opening, zarr_format, face))
    name = opening.name + zarr_ending(face, zarr_format)
    if not opening.options.follow:
        return Store(lambda: opened_again(opening).tree.zarr(zarr_format, face), again, name)
    opened = cache(lambda: group_again(opening) if group is None else group)
    return GrowingStore(lambda: opened()._face(zarr_format, face), again, name)
