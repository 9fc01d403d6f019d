"""Reads HDF5 and formats made of it (NeXus, EMD, hspy, Dectris masters).

Specification: https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html

The hierarchy has the file's own paths, with every data set of numbers. When a file is opened, libhdf5
reads its structure, in a process of its own, because a damaged file may make libhdf5 hang or crash
(`vfs.h5`). Elements are then read from the bytes of the files, without libhdf5: contiguous data sets
as one range; chunked ones through their table of chunks, with their filters undone one by one.
Chunks that were never written, and parts of a virtual data set that have no source, read as the fill
value.

External links, virtual data sets and external storage lead to other files in the same folder or
below it (elsewhere only with `follow_outside`). The numbered pieces of a Dectris master
(`entry/data/data_000001` …) are one array, `entry/data/data` (`series`): a piece with two axes is a
frame, and a number that is missing is a loss. Frames of a scan of TopSpin are one array, too
(`topspin`). Arrays in files that cannot be read are absent:
`vfs.open` then refuses the set, `vfs.open_group` shows the rest with a warning. An array that has
lost some of its files (sources of a virtual data set, external storage, pieces) is an error, or with
`allow_incomplete` blank there. So is a file that a program has open for writing: what that program
still holds would read as the fill value. With `follow`, one that is written with SWMR is shown as far as it
is written (`swmr`).

The attribute `left_out` lists data sets that cannot be shown, with the reason: text, compounds,
numbers that do not fill their bytes, unknown filters, names that a hierarchy cannot have
(`vfs.model.naming`). If one of these would be the main array
(`ranks`), it counts as absent.

What the programs say that write HDF5 (which array opens first, names and calibrations of axes, metadata) stands in
`programs`, a file each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vfs.errors import DependencyError, FormatError, OptionError, SourceChangedError
from vfs.formats import Format
from vfs.formats.hdf5 import swmr
from vfs.formats.hdf5.axes import axes_of, dimensions
from vfs.formats.hdf5.filters import FILTERS
from vfs.formats.hdf5.pieces import StoredData, frames
from vfs.formats.hdf5.program import Axes
from vfs.formats.hdf5.programs import PROGRAMS
from vfs.formats.hdf5.ranks import mask_bits, which_main
from vfs.formats.hdf5.said import TERMS
from vfs.formats.hdf5.series import absences, join_numbered, partly, unflushed
from vfs.formats.hdf5.storage import stored
from vfs.formats.hdf5.tree import original
from vfs.h5.facts import AbsentError, LeftOutError, Survey
from vfs.h5.survey import survey
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, altered
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.model.written import INDEX, Written
from vfs.sources.names import basename

ENDINGS = (
    *(".h5", ".hdf5", ".hdf", ".he5", ".h5py"),
    *(".nxs", ".nx5", ".nex", ".nexus", ".nxspe"),  # NeXus
    *(".emd", ".hspy", ".app5", ".dm5", ".nhdf"),  # Velox and EMD, HyperSpy, TopSpin, DigitalMicrograph, Nion Swift
    *(".h5oina", ".h5ebsd", ".edaxh5", ".oh5", ".dream3d"),  # electron backscatter diffraction
    *(".cxi", ".ptyd", ".ptyr", ".sdf5"),  # diffraction and ptychography
    *(".mat", ".nc", ".nc4", ".jld2", ".mnc", ".ims"),  # of version 7.3; netCDF 4; Julia; MINC 2; Imaris
)
"""Endings of files that are HDF5: by them folders find sets, which open by their first bytes."""
_MARK = b"\x89HDF\r\n\x1a\n"
_XMP = b"\x89HMP\r\n\x1a\n"
"""The first bytes of a user block with an XMP packet. The HDF5 mark then lies behind the bytes that `sniff` gets."""

_ONLY_A_DIMENSION = "This is a netCDF dimension but not a netCDF variable"


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return any(first_bytes[at : at + 8] == _MARK for at in (0, 512, 1024, 2048)) or first_bytes[:8] == _XMP


_MAX_TRIED = 8  # files that are asked whether they lead to all others that are named


def _naming(sources: Sources, paths: Sequence[str]) -> tuple[str, Survey]:
    """Return the file that leads to all others that are named, and its structure: masters are asked first.

    Raises:
        OptionError: none does.
        FormatError, SourceError: one of them is damaged or cannot be read.
    """
    order = sorted(dict.fromkeys(Files.stat(sources, paths).paths), key=lambda path: "master" not in basename(path))
    found = [(order[0], survey(sources, order[0]))]
    for path in order[1:_MAX_TRIED]:
        if {*order} <= {found[-1][0], *found[-1][1].files}:
            break
        found.append((path, survey(sources, path)))
    path, known = found[-1]
    if not {*order} <= {path, *known.files}:
        path, known = found[0]
        other = next(one for one in order if one != path and one not in known.files)
        raise OptionError(
            f"{other}: an HDF5 set is named by one file, which leads to the others; {path} does not lead to this one"
        )
    return path, known


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open an HDF5 file, or several of which one leads to all others (a Dectris master and its data).

    Raises:
        FormatError: the file is damaged, or holds no array of numbers.
        MissingSourceError: all its arrays are in files that do not exist.
        OutsideError: all its arrays are in files outside of the folder.
        SourceChangedError: a file was replaced while it was being opened.
        DependencyError: h5py is not installed.
        OptionError: several files are named, and none of them leads to all others.
    """
    path, known = _naming(sources, paths)
    try:
        found, left, main, absent = _arrays(path, known)
        counted: list[StoredArray] = []
        for program in PROGRAMS:
            if program.computed:
                some, unknown = program.computed(
                    found, known, lambda name: _unchanged(Files.stat(sources, found[name].files or (path,)), known)
                )
                counted, left = counted + some, left | unknown
        instead = {*left, *(one.path for one in counted)}  # of what is stored at their paths
        shown = {name: entry for name, entry in found.items() if name not in instead}
        datasets = [*_datasets(sources, path, known, shown, left, main), *counted]
    except (ValueError, TypeError, OverflowError, IndexError, KeyError, MemoryError) as error:
        # libhdf5 accepts some wrong numbers of damaged files
        if isinstance(error, FormatError | DependencyError):
            raise
        raise FormatError(
            f"{path}: the HDF5 file cannot be understood:"
            f" {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from None
    absent = swmr.being_written(known) + absent
    if not datasets:
        for absence in sorted(absent, key=lambda one: one.to_come):
            raise (absence.refused or FormatError)(absence.said)
        why = "; ".join(f"{name}: {reason}" for name, reason in list(left.items())[:3])
        raise FormatError(f"{path}: expected at least one array of numbers, found none{f' ({why})' if why else ''}")
    absent += unflushed(known)
    first, *others = datasets
    return [altered(first, absent=(*first.absent, *absent)), *others]


def _arrays(
    path: str, known: Survey
) -> tuple[dict[str, StoredData], dict[str, str], dict[str, bool | None], list[Absence]]:
    """Return (arrays that can be shown, reasons for which others cannot, which of them are main, absences)."""
    made: dict[int, StoredData] = {}  # an object may have several names
    found: dict[str, StoredData] = {}
    left: dict[str, str] = {}
    gone: dict[str, AbsentError] = {}
    for name, data in known.data.items():
        if str(data.attrs.get("NAME")).startswith(_ONLY_A_DIMENSION):
            continue  # it has no values of its own, and names axes of others
        try:
            if id(data) not in made:
                one = stored(data, known)
                made[id(data)] = replace(one, absent=(*one.absent, *partly(path, name, one.lost)))
            found[name] = made[id(data)]
        except LeftOutError as reason:
            left[name] = str(reason)
            if isinstance(reason, AbsentError):
                gone[name] = reason
    absent = join_numbered(path, found, left, gone, known)
    for join in filter(None, (program.joined for program in PROGRAMS)):
        absent += join(path, found, left, known)
    main = which_main(found, known)
    certain = any(main[name] for name in found) and not any(main.get(name) for name in gone)
    absent += [altered(one, refused=None, main=False) if certain else one for one in absences(path, gone)]
    unshown = {name: why for name, why in left.items() if name not in gone}
    absent += _larger(path, known, found, unshown, main)
    return (
        found,
        left,
        main,
        absent + _empty(path, {name: entry for name, entry in found.items() if main[name] is _deciding(main)}),
    )


def _deciding(main: Mapping[str, bool | None]) -> bool | None:
    """Return what `which_main` says of those among which size decides which one is main."""
    return True if any(main.values()) else None


def _larger(
    path: str,
    known: Survey,
    found: Mapping[str, StoredData],
    left: Mapping[str, str],
    main: Mapping[str, bool | None],
) -> list[Absence]:
    """Report the largest array of numbers that cannot be shown as absent, if it would be the main one.

    Otherwise users would take a smaller one for it.
    """
    deciding = _deciding(main)
    sizes = {
        name: math.prod(known.data[name].shape)
        for name in left
        if name in known.data and known.data[name].shape and main[name] is deciding
    }
    shown = max((math.prod(entry.shape) for name, entry in found.items() if main[name] is deciding), default=0)
    name = max(sizes, key=sizes.__getitem__, default="")
    if not name or sizes[name] <= shown:
        return []
    said = f"{path}: {name} {list(known.data[name].shape)} cannot be shown: {left[name]}"
    return [Absence(said, FormatError, "shows the largest of the other arrays", main=True)]


def _empty(path: str, found: Mapping[str, StoredData]) -> list[Absence]:
    """Report an array without elements that would be the main one if it had some. Smaller ones must not stand for it.

    That is one of three axes or more, more than the largest array has, or one whose single frame is larger.
    """
    largest = max((entry.shape for entry in found.values()), key=math.prod, default=())
    if not math.prod(largest):
        return []
    for name, entry in found.items():
        frame = math.prod(n for n in entry.shape if n)
        if (
            0 in entry.shape
            and len(entry.shape) > 1
            and (len(entry.shape) > max(2, len(largest)) or frame > math.prod(largest))
        ):
            said = f"{path}: {name} {list(entry.shape)} holds no element: nothing was written to it so far"
            return [Absence(said, FormatError, "shows the largest of the other arrays", main=True)]
    return []


def _datasets(
    sources: Sources,
    path: str,
    known: Survey,
    found: Mapping[str, StoredData],
    left: Mapping[str, str],
    main: Mapping[str, bool | None],
) -> list[StoredArray]:
    """Make the arrays, largest first."""
    root = {**known.groups.get("", {}), **({"left_out": left} if left else {})}
    order = sorted(found, key=lambda name: -math.prod(found[name].shape) * found[name].dtype.itemsize)
    axes = {name: axes_of(name, found[name].shape, found, known) for name in order}
    dims = dimensions(
        {name: (found[name].shape, found[name].dims or (of.names if (of := axes[name]) else ())) for name in order}
    )
    files: dict[tuple[str, ...], Files] = {}
    for name in order:
        paths = found[name].files or (path,)
        if paths not in files:
            files[paths] = _unchanged(Files.stat(sources, paths), known)
    beside = {name: said for program in PROGRAMS if program.about for name, said in program.about(found, known).items()}
    made = [
        altered(
            _dataset(
                known,
                name,
                found[name],
                files[found[name].files or (path,)],
                {**beside.get(name, {}), "root": root},
                axes[name],
                dims[name],
            ),
            main=main[name],
        )
        for name in order
    ]
    shown = [_with_declared(path, known, one) if one.nav_ndim else one for one in made]
    for program in PROGRAMS:
        if program.in_scan:
            shown = [program.in_scan(one, found, known) for one in shown]
    return shown


def _with_declared(path: str, known: Survey, array: StoredArray) -> StoredArray:
    """Return an array with the number of frames that it will have; fewer, where the master says so, are said."""
    held, data = math.prod(array.shape[: array.nav_ndim]), known.data.get(array.path)
    if data is not None:
        return array.with_written(declared=None if data.file in known.growing and data.grows else held)
    count, words = next(filter(None, (one.declared(array.path, known) for one in PROGRAMS if one.declared)), (None, ""))
    if count is None or count <= held:
        return array.with_written(declared=count if count == held else None)
    said = f"{path}: says {count:,} images ({words}) of {array.path}, {held:,} are stored"
    fewer = Absence(said, counts={"frames_missing": count - held}, to_come=True)
    return altered(array, absent=(*array.absent, fewer)).with_written(declared=count)


def _unchanged(files: Files, known: Survey) -> Files:
    """Check that the files are still those that libhdf5 read, since the facts hold only for these.

    Raises:
        SourceChangedError: a file was changed or replaced.
    """
    for path, size, time in zip(files.paths, files.sizes.tolist(), files.written.tolist(), strict=True):
        if path not in known.growing and known.files.get(path, (size, time)) != (size, time):
            raise SourceChangedError(f"{path}: changed while the set was being opened; open it again")
    return files


def _dataset(
    known: Survey,
    name: str,
    entry: StoredData,
    files: Files,
    about: Mapping[str, Any],
    axes: Axes | None,
    dims: tuple[str, ...],
) -> StoredArray:
    nav = max(0, len(entry.shape) - 2)
    more: dict[str, Any] = {"filters": [FILTERS[number][0] for number, _ in entry.filters]} if entry.filters else {}
    if axes is not None:
        scales = {dim: dict(axis.calibration) for dim, axis in zip(dims, axes.axes, strict=True) if axis.calibration}
        more |= {"calibration": scales} if scales else {}
        nav = nav if axes.nav_ndim is None else axes.nav_ndim
    layout = entry.layout
    if isinstance(layout, FrameLayout) and len(layout.nav_shape) != nav:
        layout = frames(entry.shape, layout.word_bytes, layout.stream, nav)
    attrs = {**entry.attrs, **about, **more}
    grows = known.growing.keys() & {*entry.files}
    return StoredArray(
        name,
        files,
        layout,
        entry.decoder,
        entry.shape,
        dims,
        nav,
        fill=entry.fill,
        block=entry.chunk,
        attrs=attrs,
        conventions=entry.conventions,
        absent=entry.absent,
        mask_bits=mask_bits(name, entry, known),
        written=Written(
            proof=INDEX if grows and layout.frames is None else None,
            finished=swmr.proved(entry, nav) if nav and grows else None,
        ),
    )


FORMAT = Format(
    "hdf5",
    ENDINGS,
    "https://www.hdfgroup.org/solutions/hdf5/",
    "HDF5, NeXus, EMD, hspy, DM5 and Dectris masters",
    sniff,
    open,
    index_extensions=("_master.h5",),
    terms=TERMS,
    original=original,
)
