"""What `vfs.open_group` returns: `VirtualGroup`, all arrays of a set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from vfs.api.arrays import FollowedArray, VirtualArray
from vfs.errors import UnknownArrayError
from vfs.hierarchy.data_set import zarr_ending
from vfs.hierarchy.following import Following
from vfs.hierarchy.opening import OpenedSet
from vfs.model.naming import first_names

if TYPE_CHECKING:
    import xarray
    import zarr

    from vfs.api.viewing import View
    from vfs.zarr.store import Store


class VirtualGroup(Mapping[str, VirtualArray]):
    """All arrays of a data set: a Mapping of path -> VirtualArray. Made by `vfs.open_group`.

    A path that is not there is an UnknownArrayError, which is a KeyError.
    """

    def __init__(self, opened: OpenedSet, following: Following | None = None) -> None:
        self._shown, self._following = opened, following
        self._in_use: WeakValueDictionary[str, VirtualArray] = WeakValueDictionary()

    @property
    def _opened(self) -> OpenedSet:
        """The set; of one that is still being written its present state, as long as arrays keep their shapes.

        Raises:
            SourceChangedError: a file of it was begun anew, or is gone.
        """
        if self._following is not None:
            now = self._following.now()
            if now is not self._shown and _alike(now, self._shown):
                self._shown = now
        return self._shown

    def _refreshed(self) -> VirtualGroup:
        """Return the group of the set as it is now: this one, unless arrays have other shapes by now."""
        if self._following is None or self._opened is (now := self._following.now()):
            return self
        return VirtualGroup(now, self._following)

    @property
    def name(self) -> str:
        """The name that a mount shows the data set under."""
        return self._opened.name

    @property
    def main(self) -> VirtualArray:
        """The array that was asked for (`array=`), else the one that its format calls the main one, or the largest."""
        return self[self._opened.tree.main]

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the zarr root group."""
        return self._opened.attrs

    def __getitem__(self, path: str) -> VirtualArray:
        with suppress(KeyError):
            return self._in_use[path]
        try:
            kind = VirtualArray if self._following is None else FollowedArray
            opened = self._opened
            opened.arrays[path]  # raises KeyError
            array = kind((opened.opening if self._following is None else self._following.opening, path), self)
        except KeyError:
            raise UnknownArrayError(f"no array {path!r} in {self.name}; there are: {first_names(list(self))}") from None
        return self._in_use.setdefault(path, array)

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened.arrays)

    def __len__(self) -> int:
        return len(self._opened.arrays)

    def __repr__(self) -> str:
        return f"<vfs.VirtualGroup {self.name}: {', '.join(self)}>"

    def store(self, zarr_format: int = 3, face: str = "zarr") -> Store:
        """Make a read-only `zarr.abc.store.Store` over the whole tree, or over its images; picklable.

        Args:
            zarr_format, face: see `VirtualArray.store`.

        Raises:
            OptionError: another zarr format or face, or a set without an image.
        """
        from vfs.api.again import store_again
        from vfs.zarr.store import Store

        if self._following is not None:
            return store_again(self._following.opening, zarr_format, face, self)
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
        from vfs.api.as_xarray import data_tree

        return data_tree(self)

    def show(self, height: int = 600) -> View:
        """Show the page of the main array in a notebook's cell; see `VirtualArray.show`."""
        return self.main.show(height)

    def _repr_html_(self) -> str:
        from vfs.hierarchy.display import group_html

        return group_html(self.name, self._opened.opening.format, self._opened.arrays, self._opened.tree.main)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return "vfs.VirtualGroup", self._opened.opening.identity

    def __reduce__(self) -> tuple[Any, ...]:
        from vfs.api.again import group_again

        return group_again, (self._opened.opening,)


def _alike(one: OpenedSet, other: OpenedSet) -> bool:
    """Return True if two states of a set have the same arrays, of the same shapes."""
    if one.arrays.keys() != other.arrays.keys():
        return False
    return all(one.arrays[path].shape == other.arrays[path].shape for path in one.arrays)
