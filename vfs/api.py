"""The ways in: `open`, `open_group` and `mount`; and what they return, `VirtualArray` and `VirtualGroup`.

Options, formats, backends and the hierarchy are put together here. What does the work:

- `vfs.hierarchy.opening`: from files and options to arrays that can be read;
- `vfs.folder_tree.plans`: what a mount is to show;
- `vfs.model.signatures`: puts the options, which are fields of
  `vfs.model.open_options.OpenOptions`, into the signatures here.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from vfs.backends import choice
from vfs.engine import chunking
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.errors import IncompleteWarning, OptionError, UnknownArrayError
from vfs.folder_tree.plans import plan_sets, plan_tree
from vfs.formats.headers import file_name
from vfs.hierarchy.opening import OpenedSet, Opening, first_names, open_set, refuse_without_main
from vfs.model.open_options import MountOptions, OpenOptions, option, split
from vfs.model.signatures import Path, Paths, Several, mounts, opens

if TYPE_CHECKING:
    import zarr

    from vfs.fuse import Mount
    from vfs.zarr.store import Store

__all__ = ["VirtualArray", "VirtualGroup", "mount", "open", "open_group"]


class VirtualArray(ArrayReader):
    """One array of a data set: is indexed like numpy, and gives the zarr store that it stands in. Made by `vfs.open`.

    It shares all attributes of the group's reader; the group holds that reader, not this array. No reference leads
    from a group back to its arrays, so the files are closed at once when the last array and the group go.

    A pickled array opens its files when it is first used, not when it is unpickled: a process that only passes it on
    (dask's scheduler) may not have the files, and the process that reads reports what is wrong with them.

    Args:
        reader: reads the array.
        group: the data set that the array belongs to.
    """

    group: VirtualGroup

    def __init__(self, reader: ArrayReader, group: VirtualGroup) -> None:
        self.__dict__.update(reader.__dict__, group=group)

    @classmethod
    def later(cls, opening: Opening, path: str) -> VirtualArray:
        """Make an array whose data set is opened again when the array is first used.

        Args:
            opening: how the data set was opened.
            path: path of the array in it.
        """
        array = cls.__new__(cls)
        array.__dict__["_later"] = opening, path
        return array

    def __getattr__(self, name: str) -> Any:  # is called for attributes that are not there yet
        if "_later" not in self.__dict__ or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        opening, path = self.__dict__["_later"]
        group = VirtualGroup(opening.open())
        VirtualArray.__init__(self, group.tree.arrays[path], group)
        self.__dict__.pop("_later", None)
        return getattr(self, name)

    def __repr__(self) -> str:
        if "_later" in self.__dict__:
            opening, path = self.__dict__["_later"]
            return f"<vfs.VirtualArray {path} of {opening.paths[0]}, not open yet>"
        return super().__repr__()

    def store(self, zarr_format: int = 3) -> Store:
        """A read-only `zarr.abc.store.Store` over the whole tree of the set; picklable.

        Args:
            zarr_format: 3 or 2.

        Raises:
            OptionError: another zarr format.
        """
        return self.group.store(zarr_format)

    def zarr(self) -> zarr.Array[Any]:
        """This array as a zarr.Array, through `store()` and the fast lane of `vfs.zarr.pipeline`."""
        from vfs.zarr.pipeline import direct

        return direct(self.store(), self.dataset.path)

    def _repr_html_(self) -> str:
        from vfs.hierarchy.display import array_html

        return array_html(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return VirtualArray.later, self.__dict__.get("_later") or (self.group.opening, self.dataset.path)


class VirtualGroup(Mapping[str, VirtualArray]):
    """All arrays of a data set: a Mapping of path -> VirtualArray. Made by `vfs.open_group`.

    Attributes:
        tree: the arrays with what reads them.
        opening: how the data set was opened.
        absent: what the set should hold and does not, or holds and does not show: see `vfs.model.stored.Absence`.
    """

    def __init__(self, opened: OpenedSet) -> None:
        self.tree = opened.tree
        self.opening = opened.opening
        self.absent = opened.absent
        self._in_use: WeakValueDictionary[str, VirtualArray] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """The name that a mount shows the data set under."""
        return self.tree.name

    @property
    def main(self) -> VirtualArray:
        """The array that was asked for (`array=`), else the largest one."""
        return self[self.tree.main]

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the zarr root group."""
        return self.tree.attrs

    def __getitem__(self, path: str) -> VirtualArray:
        try:
            reader = self.tree.arrays[path]
        except KeyError:
            raise UnknownArrayError(f"no array {path!r} in {self.name}; there are: {first_names(list(self))}") from None
        array = self._in_use.get(path)
        return self._in_use.setdefault(path, VirtualArray(reader, self)) if array is None else array

    def __iter__(self) -> Iterator[str]:
        return iter(self.tree.arrays)

    def __len__(self) -> int:
        return len(self.tree.arrays)

    def __repr__(self) -> str:
        return f"<vfs.VirtualGroup {self.name}: {', '.join(self)}>"

    def store(self, zarr_format: int = 3) -> Store:
        """A read-only `zarr.abc.store.Store` over the whole tree; picklable."""
        from vfs.zarr.store import Store

        return Store(self.tree.zarr(zarr_format), (_store_again, (self.opening, zarr_format)), self.name)

    def zarr(self) -> zarr.Group:
        """The whole tree as a zarr.Group."""
        import zarr

        return zarr.open_group(self.store(), mode="r")

    def _repr_html_(self) -> str:
        from vfs.hierarchy.display import group_html

        return group_html(self.name, self.opening.format, self, self.tree.main)

    def __reduce__(self) -> tuple[Any, ...]:
        return _group_again, (self.opening,)


def group_of(found: OpenedSet, *, main: bool = False) -> VirtualGroup:
    """The arrays of an open set. Says in one warning what is absent, at the line outside of vfs that opens the set.

    Args:
        main: the main array is wanted, not whatever there is.

    Raises:
        VfsError: the main array is wanted and not there; of the class that the format names.
    """
    if main:
        refuse_without_main(found)
    if found.warnings:
        level, frame = 2, sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "vfs":
            level, frame = level + 1, frame.f_back
        warnings.warn("; ".join(found.warnings), IncompleteWarning, stacklevel=level)
    return VirtualGroup(found)


def _group_again(opening: Opening) -> VirtualGroup:
    return VirtualGroup(opening.open())


def _store_again(opening: Opening, zarr_format: int) -> Store:
    from vfs.zarr.store import Store

    return Store(lambda: opening.open().tree.zarr(zarr_format), (_store_again, (opening, zarr_format)), opening.name)


@dataclass(frozen=True, kw_only=True)
class OpenHere(OpenOptions):
    """The options of `open` and `open_group`, which open data in this process."""

    cache: ChunkCache | None = option(
        None,
        "Keeps decoded chunks; data sets may share one. By default each has its own, of 256 MiB.",
        more="It is not pickled.",
    )


@opens(OpenHere)
def open_group(paths: Paths, **given: Any) -> VirtualGroup:
    """Open all arrays of a data set. Reads headers, no pixels.

    Args:
        paths: a file that names its set, several files, or a glob.
        {options}

    Raises: what `open` raises; but where the main array is not there, the others of the set open.

    Warns:
        IncompleteWarning: the set holds less than it should, or more than is shown; what is shown is right.
    """
    here, format_options = split(OpenHere, given)
    return group_of(open_set(paths, here, format_options, here.cache))


@opens(OpenHere)
def open(paths: Paths, **given: Any) -> VirtualArray:
    """Open the main array of a data set: `open_group(…).main`. Reads headers, no pixels.

    Args:
        paths: a file that names its set, several files, or a glob.
        {options}

    Raises:
        UnknownFormatError, FormatError: the files are not what they should be.
        OptionError: an option does not fit.
        UnknownArrayError: `array` is not in the set.
        OutsideError: a file lies outside of the folder of the set.
        SourceError: a file is missing or cannot be read.
        MissingSourceError: the main array is not there, though others of the set are.

    Warns:
        IncompleteWarning: the set holds less than it should, or more than is shown; what is shown is right.
    """
    here, format_options = split(OpenHere, given)
    return group_of(open_set(paths, here, format_options, here.cache), main=True).main


@mounts(MountOptions)
def mount(paths: Several, mountpoint: Path, **given: Any) -> Mount:
    """Show data sets at a mount point, each as `NAME.zarr`, `NAME.v2.zarr` and `NAME.npy`, served by another process.

    Use it in a `with` statement, or call `close()`; it also ends with this process.

    Args:
        paths: one data set as `open` takes it, or a list of data sets. A list in the list is one data set of several
            files.
        mountpoint: an existing, empty folder.
        {options}

    Raises:
        MountError: mounting cannot work; the message says why and what to do.
        VfsError: what `open` raises.
    """
    from vfs.fuse import Mount
    from vfs.fuse.points import check_apart

    options, format_options = split(MountOptions, given)
    mountpoint = file_name(mountpoint)
    items = [paths] if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable) else list(paths)
    if not items:
        raise OptionError("nothing to mount: expected at least one data set")
    if options.show_files and not options.tree:
        raise OptionError("show_files goes with tree=True")
    limit = chunking.as_bytes(options.cache_size, "cache_size")
    common = options.common()
    if options.tree:
        shown = {"cache_size": limit, "show_files": options.show_files}
        plan = plan_tree(items, common, format_options, **shown)
        check_apart(mountpoint, plan.sources[0])
    else:
        backend, _ = choice(common.backend, serves=True)
        common, cache = options.common(backend=backend), ChunkCache(limit)
        plan = plan_sets([group_of(open_set(item, common, format_options, cache)) for item in items], cache)
    how: dict[str, Any] = {
        "workers": options.workers,
        "allow_other": options.allow_other,
        "direct_io": options.direct_io,
    }
    return Mount.start(plan.make, mountpoint, sources=plan.sources, **how)
