"""HDF5 and what is made of it (NeXus, EMD, hspy, Dectris masters): https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html

The file's own tree is the tree of arrays: every data set of numbers under its path. libhdf5 reads the structure when a file is
opened, in a process of its own that a damaged file may make hang or crash (`vfs.h5`); elements are then read from the bytes of the
files, without it: contiguous data sets as one range, chunked ones through their table of chunks, undone filter by filter. Chunks that
were never written, and parts of a virtual data set that nothing is mapped to, read as the fill value.

External links, virtual data sets and external storage lead to other files of the same folder or below it (elsewhere only with
`follow_outside`). The numbered links of a Dectris master (`entry/data/data_000001` …) are one array, `entry/data/data`; where the file behind one of them
is missing, the set does not open, because frames would be missing from it without a word. What cannot be shown (text, compound
types, references, filters that are not known) is listed in the attribute `left_out`, with the reason.

Axes are named and calibrated where HyperSpy, EMD, Velox or NeXus say what they are (`axes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vfs.boundary import current
from vfs.dataset import Dataset, Files
from vfs.errors import DependencyError, FormatError, MissingSourceError, OptionError
from vfs.formats import Format
from vfs.formats.hdf5.axes import Axes, axes_of
from vfs.formats.hdf5.filters import FILTERS
from vfs.formats.hdf5.storage import LeftOutError, Stored, joined, stored
from vfs.h5.helper import survey

_MARK = b"\x89HDF\r\n\x1a\n"
_XMP = b"\x89HMP\r\n\x1a\n"
"""Begins a user block with an XMP packet, which puts the HDF5 mark behind the bytes that are looked at."""


def sniff(path: str, head: bytes) -> bool:
    return any(head[at : at + 8] == _MARK for at in (0, 512, 1024, 2048)) or head[:8] == _XMP


def open(paths: Sequence[str]) -> list[Dataset]:
    """Open an HDF5 file.

    Raises:
        FormatError: the file is damaged, or holds no array of numbers.
        MissingSourceError: a link of a Dectris master leads to a file that is not there.
        DependencyError: h5py is not installed.
        OptionError: several files are named.
    """
    if len(paths) > 1:
        raise OptionError(f"{paths[1]}: an HDF5 set is named by one file; it links to the others")
    path = Files.stat(paths).paths[0]
    known = survey(path, current())
    found: dict[str, Stored] = {}
    left: dict[str, str] = {}
    try:
        for name, data in known.data.items():
            try:
                found[name] = stored(data, known)
            except LeftOutError as reason:
                left[name] = str(reason)
        found = _masters(path, found, left)
        attrs = {**known.groups.get("", {}), **({"left_out": left} if left else {})}
        datasets = [_dataset(path, name, entry, attrs, axes_of(name, entry.shape, known, found)) for name, entry in found.items()]
    except (ValueError, TypeError, OverflowError, IndexError, KeyError, MemoryError) as error:  # numbers of a damaged file that libhdf5 has let through
        if isinstance(error, FormatError | DependencyError):
            raise
        raise FormatError(f"{path}: the HDF5 file cannot be understood: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None
    if not datasets:
        why = "; ".join(f"{name}: {reason}" for name, reason in list(left.items())[:3])
        raise FormatError(f"{path}: expected at least one array of numbers, found none{f' ({why})' if why else ''}")
    return sorted(datasets, key=lambda d: -int(np.prod(d.shape, dtype=object)) * d.dtype.itemsize)


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


def _dataset(path: str, name: str, entry: Stored, root: Mapping[str, Any], axes: Axes | None) -> Dataset:
    nd = len(entry.shape)
    nav = max(0, nd - 2)
    dims = entry.dims or (axes.names if axes else ()) or _dims(nd)
    more: dict[str, Any] = {"filters": [FILTERS[number][0] for number, _ in entry.filters]} if entry.filters else {}
    if axes is not None:
        known = {dim: dict(axis.calibration) for dim, axis in zip(dims, axes.axes, strict=True) if axis.calibration}
        more |= {"calibration": known} if known else {}
        nav = nav if axes.nav_ndim is None else axes.nav_ndim
    attrs = {**entry.attrs, "root": root, **more}
    files = Files.stat(entry.files or [path])
    return Dataset(name, files, entry.layout, entry.decoder, entry.shape, dims, nav, fill=entry.fill, block=entry.chunk, attrs=attrs)


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
    leads=("_master.h5",),
)
