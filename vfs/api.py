"""Opening: format, backend and tree put together."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from vfs import tiling
from vfs.array import ArrayReader, mean_frame
from vfs.backends import choice, make_backend
from vfs.boundary import ANYWHERE, Boundary, absolute, within
from vfs.cache import CACHE, ChunkCache
from vfs.corrections import Corrections, check
from vfs.dataset import Absence, Dataset, Files, Saved
from vfs.errors import FormatError, IncompleteWarning, OptionError, SourceChangedError, TruncatedSourceError, UnknownArrayError
from vfs.forest import Forest, Opened
from vfs.forest.listing import log
from vfs.formats import by_name, detect
from vfs.headers import dtype_option, expand, file_name, shape_option
from vfs.layout import FrameLayout, altered
from vfs.options import fitting, kinds
from vfs.scan import positions
from vfs.tree import Folder, Tree

if TYPE_CHECKING:
    import zarr

    from vfs.mount import Mount
    from vfs.store import Store

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Opening:
    """How a set was opened: enough to open it again in another process. Small and quick to pickle."""

    paths: tuple[str, ...]
    format: str
    array: str | None
    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    sources: bytes
    name: str
    boundary: Boundary

    def group(self, cache: ChunkCache | None = None) -> VirtualGroup:
        """Open the set again.

        Args:
            cache: as of `open_group`.

        Raises:
            SourceChangedError: other files are found than were opened, or files of other sizes or times: they hold other data; and
                it was not said that changes are accepted.
        """
        with within(self.boundary), untold():  # links that were named may lead where they led then
            try:
                group = open_group(list(self.paths), format=self.format, array=self.array, cache=cache, **self.settings, **self.options)
            except (FormatError, TruncatedSourceError) as error:
                raise SourceChangedError(f"the set was changed after it was opened: {error}") from None
        if not self.settings.get("accept_changes") and group.opening.sources != self.sources:
            raise SourceChangedError(
                f"{self.paths[0]}: files of the set or of its corrections came, went or changed (size or time) after it was opened; open it again"
            )
        return group.called(self.name)


class VirtualArray(ArrayReader):
    """One array of a set of files: indexable like numpy, and the zarr store it stands in. Made by `vfs.open`.

    It shares all that the reader of its group has; the group holds that reader, not this array. Nothing leads from a group back to what holds
    it, so files are closed at once when the last of these goes.

    One that was pickled opens its files when it is first used, not when it is unpickled: who only passes it on (the scheduler of dask) may not
    have them, and what is wrong with them is said by who reads.

    Args:
        reader: what reads the array; group: the set it is of.
    """

    group: VirtualGroup

    def __init__(self, reader: ArrayReader, group: VirtualGroup) -> None:
        self.__dict__.update(reader.__dict__, group=group)

    @classmethod
    def later(cls, opening: Opening, path: str) -> VirtualArray:
        """An array of a set that is opened again when the array is first used.

        Args:
            path: of the array in the set.
        """
        array = cls.__new__(cls)
        array.__dict__["_later"] = opening, path
        return array

    def __getattr__(self, name: str) -> Any:  # is asked for what is not there yet
        if "_later" not in self.__dict__ or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        opening, path = self.__dict__["_later"]
        group = opening.group()
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
        """This array as a zarr.Array, through `store()` and the fast lane of `vfs.pipeline`."""
        from vfs.pipeline import direct

        return direct(self.store(), self.dataset.path)

    def _repr_html_(self) -> str:
        from vfs.display import array_html

        return array_html(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return VirtualArray.later, self.__dict__.get("_later") or (self.group.opening, self.dataset.path)


class _Arrays(Mapping[str, ArrayReader]):
    """Readers of arrays by their paths, each made when it is first asked for: who opens a set looks at one of them.

    Args:
        make: path -> what makes the array; may not raise.
    """

    def __init__(self, make: Mapping[str, Callable[[], ArrayReader]]) -> None:
        self._make = make
        self._made: dict[str, ArrayReader] = {}

    def __getitem__(self, path: str) -> ArrayReader:
        found = self._made.get(path)
        return self._made.setdefault(path, self._make[path]()) if found is None else found  # of two threads both get the first one's

    def __iter__(self) -> Iterator[str]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)


class VirtualGroup(Mapping[str, VirtualArray]):
    """All arrays of a set: path -> VirtualArray. Made by `vfs.open_group`.

    Attributes:
        absent: what the set should hold and does not, or holds and does not show: see `vfs.dataset.Absence`.
    """

    def __init__(self, tree: Tree, opening: Opening, absent: tuple[Absence, ...] = ()) -> None:
        self.tree = tree
        self.opening = opening
        self.absent = absent
        self._in_use: WeakValueDictionary[str, VirtualArray] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """What a mount calls it."""
        return self.tree.name

    @property
    def main(self) -> VirtualArray:
        """The array that was asked for, else the largest."""
        return self[self.tree.main]

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the root group."""
        return self.tree.attrs

    def __getitem__(self, path: str) -> VirtualArray:
        try:
            reader = self.tree.arrays[path]
        except KeyError:
            raise UnknownArrayError(f"no array {path!r} in {self.name}; there are: {_first(list(self))}") from None
        array = self._in_use.get(path)
        return self._in_use.setdefault(path, VirtualArray(reader, self)) if array is None else array

    def __iter__(self) -> Iterator[str]:
        return iter(self.tree.arrays)

    def __len__(self) -> int:
        return len(self.tree.arrays)

    def called(self, name: str) -> VirtualGroup:
        """This group under another name."""
        self.tree.name = name
        self.opening = replace(self.opening, name=name)
        return self

    def __repr__(self) -> str:
        return f"<vfs.VirtualGroup {self.name}: {', '.join(self)}>"

    def store(self, zarr_format: int = 3) -> Store:
        """A read-only `zarr.abc.store.Store` over the whole tree; picklable."""
        from vfs.store import Store

        return Store(self.tree.zarr(zarr_format), (_store_again, (self.opening, zarr_format)), self.name)

    def zarr(self) -> zarr.Group:
        """The whole tree as a zarr.Group."""
        import zarr

        return zarr.open_group(self.store(), mode="r")

    def _repr_html_(self) -> str:
        from vfs.display import group_html

        return group_html(self.name, self.opening.format, self, self.tree.main)

    def __reduce__(self) -> tuple[Any, ...]:
        return _group_again, (self.opening,)


def _first(names: Sequence[str]) -> str:
    """The first names of many."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")


def _nearest(name: object, known: Sequence[str]) -> list[str]:
    """All names, those first that are most like the one that was asked for."""
    near = difflib.get_close_matches(name, known[:_COMPARED], _NAMED, cutoff=0.5) if isinstance(name, str) else []
    return [*near, *(path for path in known if path not in near)]


_NAMED = 8
_COMPARED = 1000  # names: more of them take seconds


def _group_again(opening: Opening) -> VirtualGroup:
    return opening.group()


def _store_again(opening: Opening, zarr_format: int) -> Store:
    from vfs.store import Store

    return Store(lambda: opening.group().tree.zarr(zarr_format), (_store_again, (opening, zarr_format)), opening.name)


def _told(absent: Sequence[Absence]) -> tuple[Absence, ...]:
    """What the arrays of a set say is absent, each thing once."""
    return tuple({absence.said: absence for absence in absent}.values())


def _account_for(absent: Sequence[Absence], allowed: bool, main: bool = False) -> None:
    """Refuse a set whose numbers would be wrong, or say in one warning what is absent, at the line outside of vfs that opens the set.

    Args:
        allowed: `allow_incomplete` was said.
        main: the main array is wanted, not whatever there is.

    Raises:
        VfsError: of the class that the format names; the message ends with the option that allows it.
    """
    for absence in absent:
        if absence.refused is not None and not allowed and (main or not absence.main):
            raise absence.refused(f"{absence.said}" + (f"; {ALLOW} {absence.allowed}" if absence.allowed else ""))
    if not _untold.get():
        level, frame = 2, sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "vfs":
            level, frame = level + 1, frame.f_back
        warnings.warn("; ".join(absence.said for absence in absent), IncompleteWarning, stacklevel=level)


ALLOW = "allow_incomplete=True (--allow-incomplete)"


_untold: ContextVar[bool] = ContextVar("untold", default=False)


@contextmanager
def untold() -> Iterator[None]:
    """Open sets without a warning of what is absent: for those who say it themselves, or said it when the set was opened first."""
    token = _untold.set(True)
    try:
        yield
    finally:
        _untold.reset(token)


def open_group(
    paths: Paths,
    *,
    format: str | None = None,
    array: str | None = None,
    nav_shape: int | str | Sequence[int] | None = None,
    sync_offset: int = 0,
    roi: Any = None,
    dtype: Any = None,
    dark: Any = None,
    gain: Any = None,
    dead: Any = None,
    chunks: tiling.ChunkSpec = "auto",
    backend: str = "auto",
    accept_changes: bool = False,
    allow_incomplete: bool = False,
    follow_outside: bool = False,
    cache: ChunkCache | None = None,
    **options: Any,
) -> VirtualGroup:
    """Open all arrays of a set of files. Reads headers, no pixels.

    Args: as of `open`; `array`: only this array, and it is the main one.

    Raises: what `open` raises, but for a main array that is not there.

    Warns:
        IncompleteWarning: the set holds less than it should, or more than is shown; what is shown is right.
    """
    common: dict[str, Any] = {"format": format, "array": array, "sync_offset": sync_offset, "backend": backend, "cache": cache}
    common |= {"accept_changes": accept_changes, "allow_incomplete": allow_incomplete, "follow_outside": follow_outside}
    _check(common)
    names = expand(paths, follow_outside)
    given = [
        os.fspath(name)
        for name in (dark, gain, dead, roi, *options.values())
        if name is not None and isinstance(name, str | os.PathLike) and os.path.isfile(name)
    ]
    with within(ANYWHERE if follow_outside else None, names + given) as boundary:
        kind = detect(names[0]) if format is None else by_name(format)
        if "stored_dtype" in kind.options and dtype is not None and "stored_dtype" not in options:
            options["stored_dtype"], dtype = dtype, None  # headerless data: `dtype` says what the pixels are, there is nothing to convert
        options = kind.fitted(options)
        datasets = kind.open(names, **options)
        if isinstance(datasets, Saved):
            asked = {"array": array, "nav_shape": nav_shape, "roi": roi, "dtype": dtype, "dark": dark, "gain": gain, "dead": dead}
            asked |= {"sync_offset": sync_offset or None, "chunks": None if chunks == "auto" else chunks, "backend": None if backend == "auto" else backend}
            asked |= {"accept_changes": accept_changes or None, "allow_incomplete": allow_incomplete or None}
            again = {**datasets.options, **{name: value for name, value in asked.items() if value is not None}}
            try:
                return open_group(list(datasets.paths), format=datasets.format, cache=cache, **again).called(kind.label(names[0]))
            except OptionError as error:
                raise OptionError(f"{names[0]}: {error}") from None
        datasets = _bounded(datasets, boundary)
        if array is not None:
            if array not in [d.path for d in datasets]:
                raise UnknownArrayError(f"{names[0]}: no array {array!r}; there are: {_first(_nearest(array, [d.path for d in datasets]))}")
            datasets = [d for d in datasets if d.path == array or d.companion]
        scan = None if nav_shape is None else shape_option(nav_shape, "nav_shape")
        mask = None if roi is None else positions(roi)
        main, *others = [d for d in datasets if d.path == array or not d.companion]
        if others:
            main = max((main, *others), key=lambda d: _nbytes(d.shape, d.dtype))
        sources: list[Files] = []
        given_images = (("dark", dark), ("gain", gain), ("dead", dead))
        sig_shape = main.shape[main.nav_ndim :]
        images = {name: _image(name, value, sig_shape, datasets, backend, sources) for name, value in given_images if value is not None}
    corrections = Corrections.of(main.shape[main.nav_ndim :], main.dtype, **images)
    cache = ChunkCache() if cache is None else cache

    def made(shown: Dataset, **how: Any) -> ArrayReader:
        files = shown.files.unremembered() if accept_changes else shown.files
        return ArrayReader(shown, make_backend(backend, files), cache=cache, **how)

    make: dict[str, Callable[[], ArrayReader]] = {}
    absent: tuple[Absence, ...] = ()
    for dataset in datasets:
        mine = dataset is main or (dataset.companion and dataset.nav_ndim > 0 and dataset.shape[: dataset.nav_ndim] == main.shape[: main.nav_ndim])
        shown = dataset.arranged(scan, sync_offset, mask) if mine else dataset
        if dataset is main:
            beside = [one for other in datasets for one in other.absent if one not in main.absent]
            absent, shown_attrs = _told([*shown.absent, *beside]), shown.attrs
            make[dataset.path] = partial(made, shown, dtype=dtype, chunks=chunks, corrections=corrections)
        else:
            make[dataset.path] = partial(made, shown, chunks=_companion_chunks(dataset))
    arrays = _Arrays(make)
    as_stored = array is None and scan is None and mask is None and sync_offset == 0  # conventions of the root describe the arrays as they are stored
    counts = Counter[str]()
    for absence in absent:
        counts.update(absence.counts)
    attrs = {"vfs": {"format": kind.name, **shown_attrs, **({"incomplete": dict(counts)} if counts else {})}, **(main.group_attrs if as_stored else {})}
    settings = {
        "nav_shape": nav_shape,
        "sync_offset": sync_offset,
        "roi": mask,
        "dtype": dtype,
        **{name: _kept(value, datasets) for name, value in given_images if value is not None},
        "chunks": chunks,
        "backend": backend,
        "accept_changes": accept_changes or None,
        "allow_incomplete": allow_incomplete or None,
    }
    kept = {k: v for k, v in settings.items() if v is not None}
    name = kind.label(names[0])
    opening = Opening(tuple([absolute(n) for n in names]), kind.name, array, kept, options, _digest(datasets, sources), name, boundary)
    arrays[main.path]  # says what does not fit
    if absent:
        _account_for(absent, allow_incomplete)
    stands_in = array is None and not allow_incomplete and any(absence.main for absence in absent)
    return VirtualGroup(Tree(name, arrays, attrs, main.path, stands_in), opening, absent)


_MOST_TOLD = 10_000
"""Lines on what is absent that a tree remembers having said."""

_COMMON = {
    name: (parameter.default, parameter.annotation)
    for name, parameter in inspect.signature(open_group, eval_str=True).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
"""The options that do not belong to a format: name -> (default, annotation)."""


def _check(given: Mapping[str, Any]) -> None:
    """Raises:
    OptionError: a common option is of a type that it does not take.
    """
    for name, value in given.items():
        default, annotation = _COMMON[name]
        if value is not default and type(value) not in kinds(annotation):
            fitting(name, value, annotation)


def open(
    paths: Paths,
    *,
    format: str | None = None,
    array: str | None = None,
    nav_shape: int | str | Sequence[int] | None = None,
    sync_offset: int = 0,
    roi: Any = None,
    dtype: Any = None,
    dark: Any = None,
    gain: Any = None,
    dead: Any = None,
    chunks: tiling.ChunkSpec = "auto",
    backend: str = "auto",
    accept_changes: bool = False,
    allow_incomplete: bool = False,
    follow_outside: bool = False,
    cache: ChunkCache | None = None,
    **options: Any,
) -> VirtualArray:
    """Open the main array of a set of files: `open_group(…).main`. Reads headers, no pixels.

    Args:
        paths: a file that names its set, several files, or a glob.
        format: name of the format; None: by the first bytes.
        array: only this array, and it is the main one.
        nav_shape: scan shape, slowest axis first; fewer positions than frames leaves out the rest, more are blank at the end.
        sync_offset: frames to skip at the start; negative: so many blank frames first.
        roi: bool mask over the scan, flat positions, or the name of a .npy file of one of them: the navigation axes become one
            flat axis of the selected frames.
        dtype: convert elements to it (for headerless data: what they are, unless `stored_dtype` says that).
        dark, gain: subtracted from and multiplied with every frame: an array [sig_shape], more of them (their mean), a file that vfs can
            open, or the name of an array of the set. Pixels become float32 (float64 where the files have pixels of eight bytes)
            unless `dtype` says otherwise; float64 is calculated in for float64 and integers of four bytes or more.
        dead: pixels replaced by the mean of their good neighbours: a mask of bool [sig_shape], coordinates [n, 2] (integers), a file, or a name
            likewise. Pixels become floats as above, integers of four bytes float64, which holds them exactly. Integers
            stay what is stored where `dtype` is an integer; their means are rounded then.
        chunks: "auto", "frames", bytes ("4MiB"), or elements per axis.
        backend: "auto" (see `vfs.backends.choice`), "mmap", "buffered" or "direct".
        accept_changes: read files that were changed after they were opened, as they are then, by the headers that were read at opening.
            Otherwise that is an error. What was decoded before and is still in the cache shows what it was.
        allow_incomplete: open a set of which files or parts are missing, so that numbers are absent where they should be: what is not stored is
            blank, what cannot belong to a frame is left out. Otherwise that is an error that says which files and frames.
        follow_outside: what belongs to the set by its name, or by what a file of the set says, may lie outside of the folder of the files that
            are named here, and symbolic links may lead out of it. Otherwise that is an error (in HDF5, an array that is absent): see `vfs.boundary`.
        cache: where decoded pieces are kept, which sets may share; None: a cache of their own, of 256 MiB. Not pickled.
        options: options of the format (`vfs formats` lists them).

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
    common: dict[str, Any] = {
        "format": format,
        "array": array,
        "nav_shape": nav_shape,
        "sync_offset": sync_offset,
        "roi": roi,
        "dtype": dtype,
        "dark": dark,
        "gain": gain,
        "dead": dead,
        "chunks": chunks,
        "backend": backend,
        "accept_changes": accept_changes,
        "allow_incomplete": allow_incomplete,
        "follow_outside": follow_outside,
        "cache": cache,
    }
    with untold():
        group = open_group(paths, **common, **options)
    if group.absent:
        _account_for(group.absent, allow_incomplete, main=array is None)
    return group.main


def mount(
    paths: Paths | Sequence[Paths],
    mountpoint: str | os.PathLike[str],
    *,
    tree: bool = False,
    show_files: bool = False,
    cache_size: int | str = CACHE,
    workers: int | None = None,
    allow_other: bool = False,
    direct_io: bool = False,
    format: str | None = None,
    array: str | None = None,
    nav_shape: int | str | Sequence[int] | None = None,
    sync_offset: int = 0,
    roi: Any = None,
    dtype: Any = None,
    dark: Any = None,
    gain: Any = None,
    dead: Any = None,
    chunks: tiling.ChunkSpec = "auto",
    backend: str = "auto",
    accept_changes: bool = False,
    allow_incomplete: bool = False,
    follow_outside: bool = False,
    **options: Any,
) -> Mount:
    """Show data sets at a mount point, each as `NAME.zarr`, `NAME.v2.zarr` and `NAME.npy`, served by another process.

    Use it in a `with` statement, or call `close()`; it also ends with this process.

    Args:
        paths: one data set as `open` takes it, or a list of them: every item is a data set, a list in the list is one of several files.
        mountpoint: an existing, empty folder.
        tree: `paths` is a folder, which is shown with its subfolders and all data sets in them: see `forest`.
        show_files: with `tree`, files that are no data set are shown, too, as they are.
        cache_size: most bytes of decoded pieces that are kept for all data sets together, also as "1GiB"; 0: none.
        workers: reads that are answered from source files side by side; None: one a core, at least four.
        allow_other: let in other users than this one.
        direct_io: past the kernel's cache, for who reads everything once; files cannot be mapped then.
        format, array, nav_shape, sync_offset, roi, dtype, dark, gain, dead, chunks, accept_changes, allow_incomplete, follow_outside,
            options: as of `open`, for every data set.
        backend: as of `open`, but "auto" is "buffered": a source that shrinks kills the process that reads its map.

    Raises:
        MountError: mounting cannot work; the message says why and what to do.
        VfsError: what `open` raises.
    """
    from vfs.mount import Mount
    from vfs.mount.points import check_apart

    common: dict[str, Any] = {
        "format": format,
        "array": array,
        "nav_shape": nav_shape,
        "sync_offset": sync_offset,
        "roi": roi,
        "dtype": dtype,
        "dark": dark,
        "gain": gain,
        "dead": dead,
        "chunks": chunks,
        "backend": backend,
        "accept_changes": accept_changes,
        "allow_incomplete": allow_incomplete,
        "follow_outside": follow_outside,
    }
    _check(common)
    mountpoint = file_name(mountpoint)
    items = [paths] if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable) else list(paths)
    if not items:
        raise OptionError("nothing to mount: expected at least one data set")
    limit = tiling.as_bytes(cache_size, "cache_size")
    for name, value in {"tree": tree, "show_files": show_files, "allow_other": allow_other, "direct_io": direct_io}.items():
        fitting(name, value, bool)
    how: dict[str, Any] = {"workers": fitting("workers", workers, int | None), "allow_other": allow_other, "direct_io": direct_io}
    if tree:
        if len(items) != 1 or not isinstance(items[0], str | os.PathLike):
            raise OptionError(f"tree=True shows one folder, found {len(items)}")
        root = os.path.abspath(file_name(items[0]))
        check_apart(mountpoint, root)
        make = partial(forest, root, limit, show_files=show_files, **common, **options)
        make()  # says what is wrong at once; opens nothing
        return Mount.start(make, mountpoint, sources=[root], **how)
    if show_files:
        raise OptionError("show_files goes with tree=True")
    common["backend"], _ = choice(backend, serves=True)
    openings = [open_group(item, **common, **options).opening for item in items]
    return Mount.start(partial(open_folder, openings, limit), mountpoint, sources=[opening.paths[0] for opening in openings], **how)


def open_folder(openings: Sequence[Opening], cache_size: int = CACHE, zarr_format: int | None = None) -> Folder:
    """Open sets again, as what a mount shows. For the process that serves it.

    Args:
        cache_size: most bytes of decoded pieces that are kept for all sets together.
        zarr_format: see `folder`.

    Raises: what `Opening.group` raises.
    """
    cache = ChunkCache(cache_size)
    return folder([opening.group(cache) for opening in openings], cache, zarr_format)


def folder(groups: Sequence[VirtualGroup], cache: ChunkCache, zarr_format: int | None = None) -> Folder:
    """What a mount shows of sets.

    Args:
        cache: the one that the sets were opened with.
        zarr_format: 3 or 2: without the face of the other one; None: both.
    """
    shown = Folder([group.tree for group in groups], cache, [group.opening.paths for group in groups])
    if zarr_format is not None:
        shown.faces = {name: face for name, face in shown.faces.items() if getattr(face, "zarr_format", zarr_format) == zarr_format}
    shown.warnings = [absence.said for group in groups for absence in group.absent]
    return shown


def forest(
    root: str | os.PathLike[str],
    cache_size: int = CACHE,
    zarr_format: int | None = None,
    *,
    show_files: bool = False,
    format: str | None = None,
    **options: Any,
) -> Forest:
    """A folder with its subfolders and all data sets in them, as what a mount shows. Opens nothing.

    Args:
        cache_size: most bytes of decoded pieces that are kept for all sets together.
        zarr_format: 3 or 2: without the face of the other one; None: both.
        show_files: files that are no data set are shown, too, as they are.
        format: only data sets of this format.
        options: what `open` takes, for every data set; not what only fits one scan or detector. The backend is "buffered" unless said otherwise.

    Raises:
        OptionError: it is no folder; an option that does not fit, or is for a single data set.
    """
    _check({name: value for name, value in options.items() if name in _COMMON})
    for name in ("array", "nav_shape", "sync_offset", "roi", "dark", "gain", "dead"):
        if options.get(name, _COMMON[name][0]) is not _COMMON[name][0]:
            raise OptionError(f"{name} is for one data set, not for all that are in a folder; mount that one by itself")
        options.pop(name, None)
    chunks = options.get("chunks", "auto")
    if not isinstance(tiling.parsed(chunks) if isinstance(chunks, str) else chunks, str | int):
        raise OptionError(f"chunks={chunks!r}: elements per axis are for one data set; for a folder take auto, frames, scan, balanced or a size (4MiB)")
    kind = by_name(format) if format else None
    own = {name: value for name, value in options.items() if name not in _COMMON}
    if kind is not None:
        kind.fitted(own)
    elif own:
        raise OptionError(f"{next(iter(own))} is an option of a format: say of which one, with --format (format=)")
    if zarr_format not in (None, 2, 3):
        raise OptionError(f"zarr_format={zarr_format!r}: expected 3 or 2")
    if options.get("dtype") is not None:
        dtype_option(options["dtype"])
    options["backend"], _ = choice(options.get("backend", "auto"), serves=True)
    cache = ChunkCache(cache_size)
    told: dict[str, None] = {}
    opener = partial(_opened, told=told, cache=cache, format=format, **options)
    kinds = None if kind is None else [kind]
    outside = bool(options.get("follow_outside"))
    shown = Forest(root, opener, kinds=kinds, cache=cache, zarr_format=zarr_format, show_files=show_files, follow_outside=outside)
    shown.warnings = told
    return shown


def _opened(path: str, told: dict[str, None], **options: Any) -> Opened:
    """Open a set of a tree. What is absent goes to the log, once as long as `told` remembers it."""
    with untold():
        group = open_group(path, **options)
    for absence in group.absent:
        if absence.said not in told:
            if len(told) >= _MOST_TOLD:
                told.clear()
            told[absence.said] = None
            log.warning("%s", absence.said)
    return Opened(group.tree, group.opening.format, group.opening.paths)


def _companion_chunks(dataset: Dataset) -> tiling.ChunkSpec:
    """Chunks of an array that is not the main one: fields of records that lie far apart, a read for each, in small ones: who opens a set
    (xarray does) may look at the first chunk of every array.
    """
    layout, size = dataset.layout, _nbytes(dataset.shape[dataset.nav_ndim :], dataset.dtype)
    apart = dataset.companion and isinstance(layout, FrameLayout) and layout.stride > 2 * size
    return max(1, _FIELDS * size) if apart else "auto"


_FIELDS = 1024


def _digest(datasets: Sequence[Dataset], more: Sequence[Files]) -> bytes:
    """Stands for the sizes and times of all files of a set, and of those that corrections came from."""
    found = blake2b(digest_size=16)
    for files in [*{id(dataset.files): dataset.files for dataset in datasets}.values(), *more]:
        found.update(files.sizes.tobytes() + files.times.tobytes())
    return found.digest()


def _bounded(datasets: Sequence[Dataset], boundary: Boundary) -> list[Dataset]:
    """The same data sets, their files to be read within a boundary only."""
    if all(dataset.files.boundary is boundary for dataset in datasets):
        return list(datasets)
    files = {id(dataset.files): replace(dataset.files, boundary=boundary) for dataset in datasets}
    return [altered(dataset, files=files[id(dataset.files)]) for dataset in datasets]


def _nbytes(shape: Sequence[int], dtype: np.dtype) -> int:
    size = dtype.itemsize
    for n in shape:
        size *= n
    return size


def _image(name: str, given: Any, sig_shape: tuple[int, ...], datasets: Sequence[Dataset], backend: str, sources: list[Files]) -> Any:
    """A correction image: an array as it is; a name of an array of the set, or a file, read: of many frames their mean, in bounded memory.

    Args:
        name: what it is for; sources: files that do not belong to the set are added to them.

    Raises:
        OptionError: it does not fit the frames; then nothing of it is read.
    """
    if not isinstance(given, str | os.PathLike):
        return given
    array: ArrayReader | None = next((ArrayReader(d, make_backend(backend, d.files)) for d in datasets if d.path == given), None)
    if array is None:
        array = open(given, backend=backend)
        sources.append(array.dataset.files)
    try:
        check(name, array.shape, array.dtype, sig_shape)
    except OptionError as error:
        raise OptionError(f"{os.fspath(given)}: {error}") from None
    if name == "dead" or array.ndim == len(sig_shape):
        return array.read()
    return mean_frame(array, len(sig_shape))


def _kept(given: Any, datasets: Sequence[Dataset]) -> Any:
    """A correction as it is pickled: files by their absolute path, arrays of the set by their name."""
    if any(dataset.path == given for dataset in datasets if isinstance(given, str)):
        return given
    return os.path.abspath(given) if isinstance(given, str | os.PathLike) and os.path.exists(given) else given
