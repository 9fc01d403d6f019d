"""HDF5 and what is made of it (NeXus, EMD, hspy, Dectris masters): https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html

The file's own tree is the tree of arrays: every data set of numbers under its path. h5py reads the structure when a file
is opened; elements are then read from the bytes of the files, without it: contiguous data sets as one range, chunked ones through
their table of chunks, undone filter by filter. Chunks that were never written read as the fill value.

External links and virtual data sets lead to other files of the same folder or below it (elsewhere only with `follow_outside`). The numbered
links of a Dectris master (`entry/data/data_000001` …) are one array, `entry/data/data`; where the file behind one of them is
missing, the set does not open, because frames would be missing from it without a word. What cannot be shown (text, compound
types, references, filters that are not known) is listed in the attribute `left_out`, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vfs.boundary import ALLOW, current
from vfs.dataset import Dataset, Files
from vfs.errors import DependencyError, FormatError, MissingSourceError, OptionError, SourceError
from vfs.formats import Format
from vfs.formats.hdf5.storage import LeftOutError, Stored, attributes, joined, stored

_MARK = b"\x89HDF\r\n\x1a\n"
_MOST_ARRAYS = 20_000


def sniff(path: str, head: bytes) -> bool:
    return any(head[at : at + 8] == _MARK for at in (0, 512, 1024, 2048))


def open(paths: Sequence[str]) -> list[Dataset]:
    """Open an HDF5 file.

    Raises:
        FormatError: the file is damaged, or holds no array of numbers.
        MissingSourceError: a link of a Dectris master leads to a file that is not there.
        DependencyError: h5py is not installed.
        OptionError: several files are named.
    """
    try:
        import h5py
        import hdf5plugin  # noqa: F401  registers its filters: h5py refuses to look at data sets it could not read
    except ImportError as error:
        raise DependencyError(f"{paths[0]}: reading HDF5 needs h5py and hdf5plugin: pip install 'vfs[hdf5]' ({error})") from None
    if len(paths) > 1:
        raise OptionError(f"{paths[1]}: an HDF5 set is named by one file; it links to the others")
    path = Files.stat(paths).paths[0]
    book = _Book(h5py)
    try:
        with h5py.File(path, "r", locking=False) as file:
            found, left = book.walk(file)
            found = _masters(path, found, left)
            attrs = {**attributes(file), **({"left_out": left} if left else {})}
            datasets = [_dataset(path, name, entry, attrs, book) for name, entry in found.items()]
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        if isinstance(error, SourceError | FormatError | OptionError):
            raise
        raise FormatError(f"{path}: the HDF5 file cannot be understood: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None
    if not datasets:
        why = "; ".join(f"{name}: {reason}" for name, reason in list(left.items())[:3])
        raise FormatError(f"{path}: expected at least one array of numbers, found none{f' ({why})' if why else ''}")
    return sorted(datasets, key=lambda d: -int(np.prod(d.shape, dtype=object)) * d.dtype.itemsize)


class _Book:
    """The files of a set as they are come across, and what is in them."""

    def __init__(self, h5py: Any) -> None:
        self.h5py = h5py

    def target(self, name: str, of: str) -> str:
        """The path of a file that another one names.

        Raises:
            LeftOutError: it lies outside the folder; it is not there.
        """
        path = os.path.realpath(os.path.join(os.path.dirname(of), name))
        self.check(path, name)
        if not os.path.isfile(path):
            raise LeftOutError(f"links to {name}, which is missing")
        return path

    def check(self, path: str, name: str) -> None:
        """Raises:
        LeftOutError: a file lies outside the folder. libhdf5 follows links behind links by itself.
        """
        if not current().covers(path):
            raise LeftOutError(f"links to {name}, outside the folder; {ALLOW} reads it nevertheless")

    def walk(self, file: Any) -> tuple[dict[str, Stored], dict[str, str]]:
        """Every array of a file by path, and what was left out with the reason."""
        found: dict[str, Stored] = {}
        left: dict[str, str] = {}
        for name, item in self._items(file, "", left, set()):
            if len(found) + len(left) > _MOST_ARRAYS:
                left["…"] = f"more than {_MOST_ARRAYS:,} data sets"
                break
            try:
                found[name] = stored(item, self)
            except LeftOutError as reason:
                left[name] = str(reason)
        return found, left

    def _items(self, group: Any, prefix: str, left: dict[str, str], above: set[Any]) -> Iterator[tuple[str, Any]]:
        """(path, data set), depth first; links are followed, circles are not."""
        if len(above) > 64:
            left[prefix] = "nested too deeply"
            return
        for key in group:
            name = f"{prefix}{key}"
            link = group.get(key, getlink=True)
            if any(part in ("", ".", "..") for part in key.split("/")) or not key.isprintable():
                left[prefix + ascii(key)] = "its name cannot be a path"
                continue
            try:
                if isinstance(link, self.h5py.ExternalLink):
                    target = self.target(link.filename, group.file.filename)
                    other = self.h5py.File(target, "r", locking=False)
                    item = other[link.path]
                else:
                    item = group[key]
                self.check(item.file.filename, item.file.filename)
            except LeftOutError as reason:
                left[name] = str(reason)
                continue
            except (KeyError, OSError, RuntimeError) as error:
                left[name] = f"its link leads nowhere ({str(error).splitlines()[0][:200]})"
                continue
            if isinstance(item, self.h5py.Dataset):
                yield name, item
            elif isinstance(item, self.h5py.Group):
                mark = (item.file.filename, self.h5py.h5o.get_info(item.id).addr)
                if mark in above:
                    left[name] = "a link back to a group above"
                    continue
                yield from self._items(item, f"{name}/", left, above | {mark})


def _masters(path: str, found: dict[str, Stored], left: dict[str, str]) -> dict[str, Stored]:
    """Numbered pieces of one array (Dectris: data_000001, data_000002 …) joined along their first axis.

    Raises:
        MissingSourceError: the file behind a piece is not there.
    """
    series: dict[str, list[str]] = {}
    for name in sorted({*found, *left}):
        above, _, last = name.rpartition("/")
        if last.startswith("data_") and last[5:].isdecimal() and len(last) == 11:
            series.setdefault(above, []).append(name)
    for above, names in series.items():
        gone = [name for name in names if name in left]
        if gone and len(gone) < len(names):
            raise MissingSourceError(f"{path}: {gone[0]} {left[gone[0]]}; without it frames would be missing in the middle of the array")
        if not gone and len(names) > 1:
            try:
                whole = joined([found[name] for name in names])
            except LeftOutError as reason:
                left[f"{above}/data"] = str(reason)
                continue
            found = {
                f"{above}/data" if name == names[0] else name: whole if name == names[0] else entry for name, entry in found.items() if name not in names[1:]
            }
    return found


def _dataset(path: str, name: str, entry: Stored, root: dict[str, Any], book: _Book) -> Dataset:
    nd = len(entry.shape)
    nav = max(0, nd - 2)
    attrs = {**entry.attrs, "root": root, **entry.notes}
    files = Files.stat(entry.files or [path])
    return Dataset(name, files, entry.layout, entry.decoder, entry.shape, entry.dims or _dims(nd), nav, fill=entry.fill, block=entry.chunk, attrs=attrs)


def _dims(nd: int) -> tuple[str, ...]:
    """Names of axes that nothing names."""
    return tuple(f"dim_{k}" for k in range(nd - 2)) + ("y", "x")[max(0, 2 - nd) :]


FORMAT = Format(
    "hdf5",
    (".h5", ".hdf5", ".hdf", ".nxs", ".emd", ".hspy", ".nx5", ".he5", ".nex", ".app5"),
    "https://www.hdfgroup.org/solutions/hdf5/",
    "HDF5, NeXus, EMD, hspy and Dectris masters",
    sniff,
    open,
)
