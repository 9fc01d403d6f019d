"""Opens data sets: from the names of files and the options to arrays that can be read.

All opening goes through `open_set`. It takes steps, and each makes a value that is complete:

1. the names of the files, with globs expanded;
2. their format, and the options as this format takes them;
3. the arrays as they are stored (`_StoredSet`), and the correction images (`_Images`);
4. the arrays as they are shown: with scan shape, offset and selection;
5. their readers, and with these the `OpenedSet`.

Only headers and correction images are read.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import Any
from uuid import uuid4

import numpy as np

from vfs.backends import make_backend
from vfs.engine.array import ArrayReader, mean_frame
from vfs.engine.cache import ChunkCache
from vfs.engine.corrections import check
from vfs.errors import (
    FormatError,
    IncompleteWarning,
    OptionError,
    SourceChangedError,
    TruncatedSourceError,
    UnknownArrayError,
)
from vfs.formats import Format, by_name, detect
from vfs.hierarchy.arranging import arranged
from vfs.hierarchy.data_set import Hierarchy
from vfs.hierarchy.set_readers import readers
from vfs.kernels.columns import CHANGED
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.naming import first_names, nearest
from vfs.model.open_options import OpenOptions, file_names, split
from vfs.model.pickles import digest, packed
from vfs.model.signatures import Paths
from vfs.model.sources import Sources
from vfs.model.stored import Absence, Saved, StoredArray, main_of
from vfs.sources.given import positions
from vfs.sources.globs import expand
from vfs.sources.local import LocalSources
from vfs.sources.names import absolute
from vfs.wording import ANY, option

_ORDER = {True: 0, None: 1, False: 2}


@dataclass(frozen=True)
class Opening:
    """Records how a data set was opened, so that it can be opened again in another process.

    It is small and quick to pickle.

    Attributes:
        paths: absolute paths of the files that were named.
        options: the options for all formats. `format` is the format that was found; files have
            absolute paths.
        format_options: the options of the format.
        states: digest of the sizes and times of all files, to notice changes.
        name: name of the data set; "": the one that its format derives from its first file.
        sources: where its files are.
    """

    paths: tuple[str, ...]
    options: OpenOptions
    format_options: Mapping[str, Any]
    states: bytes
    name: str
    sources: Sources

    @property
    def format(self) -> str:
        """Name of the format."""
        return str(self.options.format)

    @property
    def version(self) -> bytes:
        """Digest of the files, their sizes and times, and of all options; empty if the files may change meanwhile."""
        if self.options.accept_changes:
            return b""
        own = dict(sorted(self.format_options.items()))
        return digest((self.paths, self.options, own, self.states, self.name))

    @property
    def identity(self) -> str:
        """Text that is the same, in every process, for equal files and options; never twice where files may change."""
        return self.version.hex() or uuid4().hex

    def packed(self) -> bytes:
        """Pickle this record: equal records give the same bytes, wherever they have been."""
        return packed(self)

    def open(self, cache: ChunkCache | None = None) -> OpenedSet:
        """Open the data set again.

        Args:
            cache: as of `open_set`.

        Raises:
            SourceChangedError: the set has other files now, or files of other sizes or times, and
                `accept_changes` was not given.
        """
        # Links that were named may still lead outside, to where they led then
        with self.sources.opening() as sources:
            try:
                found = _open_named(list(self.paths), self.options, self.format_options, cache, sources, name=self.name)
            except (FormatError, TruncatedSourceError) as error:
                raise SourceChangedError(f"the set was changed after it was opened: {error}") from None
        if not self.options.accept_changes and found.opening.states != self.states:
            raise SourceChangedError(
                f"{self.paths[0]}: files of the set or of its corrections came, went or changed (size or time) after it"
                " was opened; open it again"
            )
        return found

    def changed(self, options: OpenOptions, format_options: Mapping[str, Any], cache: ChunkCache) -> OpenedSet:
        """Open the same files with other options, within the same folders.

        Raises: what `open_set` raises.
        """
        with self.sources.opening() as sources:
            return _open_named(list(self.paths), options, format_options, cache, sources, name=self.name or None)


@dataclass(frozen=True)
class OpenedSet:
    """A data set that is open.

    Attributes:
        tree: its arrays and its name.
        opening: record of how it was opened.
        absent: things that it should hold and does not, or that it holds and vfs does not show.
        warnings: a line for each of these, and for each thing that the files of its correction
            images lack.
    """

    tree: Hierarchy
    opening: Opening
    absent: tuple[Absence, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.tree.name

    @property
    def arrays(self) -> Mapping[str, ArrayReader]:
        """Path of each array -> its reader."""
        return self.tree.arrays

    @property
    def main(self) -> ArrayReader:
        """Reader of the array that was asked for, else of the main one."""
        return self.tree.arrays[self.tree.main]

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the zarr root group."""
        return self.tree.attrs


@dataclass(frozen=True)
class _StoredSet:
    """The arrays of a data set as they are stored.

    Attributes:
        datasets: all arrays: the main one, its equals, others, and last those that are never main.
        main: the array that was asked for, else the one that `main_of` returns.
    """

    datasets: Sequence[StoredArray]
    main: StoredArray


@dataclass(frozen=True)
class _Images:
    """Correction images.

    Attributes:
        given: the arrays for `dark`, `gain` and `dead`, as far as these options are given.
        sets: the data sets that they were read from, if their files do not belong to the set that
            is opened.
    """

    given: Mapping[str, Any]
    sets: Sequence[OpenedSet]


def open_set(
    paths: Paths,
    options: OpenOptions,
    format_options: Mapping[str, Any],
    cache: ChunkCache | None = None,
    sources: Sources | None = None,
    *,
    convert: Callable[[Format, Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> OpenedSet:
    """Open a data set. It gives no warnings: absent things are listed in the result.

    Args:
        paths: a file that names its set, several files, or a glob.
        options: options for all formats.
        format_options: options of the format.
        cache: cache for decoded chunks; None makes one.
        sources: where the files are. None: on this machine; the set may consist of the named files, and
            of files in their folders.
        convert: converts `format_options` from text to values, once the format is known.

    Raises: what `vfs.open` raises, except for the error that the main array is absent.
    """
    names = expand(paths, sources, options.follow_outside)
    options = options if options.derive is None else _derivable(options)
    with _opening_sources(sources, names, options, format_options) as opened:
        return _open_named(names, options, format_options, cache, opened, convert=convert)


def _opening_sources(
    sources: Sources | None, names: Sequence[str], options: OpenOptions, format_options: Mapping[str, Any]
) -> AbstractContextManager[Sources]:
    """Return the sources for opening a set that some files name; options may name more files of it."""
    if sources is not None:
        return sources.opening()
    if options.follow_outside:
        return LocalSources().opening()
    masks = _masks(options) if options.derive else []
    given = [options.dark, options.gain, options.dead, options.roi, *masks, *format_options.values()]
    return LocalSources.around([*names, *map(absolute, file_names(given))])


def _masks(options: OpenOptions) -> list[Any]:
    """Return what the reductions of `derive` are given as masks, which may be names of files."""
    return [getattr(one, "array", None) for one in options.derive.values()]


def _derivable(options: OpenOptions) -> OpenOptions:
    """Return the options with `derive` as reductions, not as their texts."""
    return replace(options, derive=_reductions(options.derive))


def _open_named(
    names: Sequence[str],
    options: OpenOptions,
    format_options: Mapping[str, Any],
    cache: ChunkCache | None,
    sources: Sources,
    *,
    convert: Callable[[Format, Mapping[str, Any]], Mapping[str, Any]] | None = None,
    name: str | None = None,
) -> OpenedSet:
    """Open the set of some files: see `open_set`.

    Args:
        names: absolute names of files, without globs.
        sources: where they are; it is the opening of this set, or of the one that stands for it.
        name: name of the set; None for the name that the format derives from the first file.
    """
    kind = detect(sources, names[0], format_options) if options.format is None else by_name(options.format)
    name = kind.label(names[0]) if name is None else name
    given = convert(kind, format_options) if convert else format_options
    options, format_options = _for_format(kind, options, given)
    found = kind.open(names, sources, **format_options)
    if isinstance(found, Saved):
        return _open_saved(found, names[0], options, cache, sources, name)
    stored = _stored(found, options.array, names[0])
    images = _images(options, stored, sources)
    mask_files = (
        [Files.stat(sources, [absolute(name)]) for name in file_names(_masks(options))] if options.derive else []
    )
    if options.roi is not None:
        options = replace(options, roi=positions(sources, options.roi))
    shown = arranged(stored.datasets, stored.main, options, as_stored=bool(images.given))
    arrays = readers(stored.main, shown, options, images.given, ChunkCache() if cache is None else cache)
    main = arrays[stored.main.path]  # makes this reader now, so that options that do not fit it raise an error
    absent = _absent(stored, main.dataset)
    if absent:
        _refuse([absence for absence in absent if not absence.main], options)
    stands_in = options.array is None and not options.allow_incomplete and any(absence.main for absence in absent)
    if options.derive and not stands_in:
        arrays = arrays.with_more(_derived(main, options.derive, list(arrays)))
    tree = Hierarchy(name, arrays, _attributes(stored, main.dataset, absent, options), stored.main.path, stands_in)
    opening = _opening(names, stored, options, format_options, images, mask_files, name, sources)
    return OpenedSet(
        tree,
        opening,
        absent,
        (*chain.from_iterable(each.warnings for each in images.sets), *(absence.said for absence in absent)),
    )


def _reductions(given: Any) -> dict[str, Any]:
    """The reductions that `derive` says, in terms that hold in another process, too."""
    from vfs.reduce.derived import reductions  # loads kernels, which few openings need
    from vfs.reduce.in_frames import lasting

    return lasting(reductions(given))


def _derived(main: ArrayReader, wanted: Mapping[str, Any], taken: Sequence[str]) -> Mapping[str, ArrayReader]:
    """The derived arrays of the main array."""
    from vfs.reduce.derived import derived

    return derived(main, wanted, taken)


def _opening(
    names: Sequence[str],
    stored: _StoredSet,
    options: OpenOptions,
    format_options: Mapping[str, Any],
    images: _Images,
    mask_files: Sequence[Files],
    name: str,
    sources: Sources,
) -> Opening:
    """Record how a set was opened, in a form that works in another process, too."""
    lasting = {image: _lasting(getattr(options, image), stored.datasets) for image in images.given}
    states = _digest(stored.datasets, images.sets, mask_files)
    options = replace(options, **lasting) if lasting else options
    return Opening(tuple(names), options, format_options, states, name, sources)


def _for_format(kind: Format, options: OpenOptions, given: Mapping[str, Any]) -> tuple[OpenOptions, dict[str, Any]]:
    """Return the options for all formats, and the options of the format, as that format takes them.

    For data without headers `dtype` gives the dtype of the stored pixels, and nothing is converted.

    Raises:
        OptionError: the format has no such option, or does not take that value.
    """
    if "stored_dtype" in kind.options and options.dtype is not None and "stored_dtype" not in given:
        return options.common(format=kind.name, dtype=None), kind.fitted({**given, "stored_dtype": options.dtype})
    return options.common(format=kind.name), kind.fitted(given)


def _open_saved(
    saved: Saved, description: str, options: OpenOptions, cache: ChunkCache | None, sources: Sources, name: str
) -> OpenedSet:
    """Open the set that a description stands for. Options given now override those of the description.

    Raises:
        OptionError: an option does not fit; the message names the description.
    """
    try:
        said, own = split(OpenOptions, {**saved.options, **options.said(), "format": saved.format})
        said = said if said.derive is None else _derivable(said)
        return _open_named(saved.paths, said, own, cache, sources, name=name)
    except OptionError as error:
        raise OptionError(f"{description}: {error}") from None


def _stored(found: Sequence[StoredArray], wanted: str | None, file: str) -> _StoredSet:
    """Return the arrays that a format found, or the wanted one with its companions.

    Raises:
        UnknownArrayError: there is no array of that name.
    """
    datasets = [dataset.calibrated() if "calibration" in dataset.attrs else dataset for dataset in found]
    if wanted is not None:
        paths = [dataset.path for dataset in datasets]
        if wanted not in paths:
            raise UnknownArrayError(f"{file}: no array {wanted!r}; there are: {first_names(nearest(wanted, paths))}")
        main = datasets[paths.index(wanted)]
        datasets = [dataset for dataset in datasets if dataset is main or dataset.companion]
    else:
        main = main_of(datasets) or _standing_in(datasets, file)
    others = sorted((one for one in datasets if one.path != main.path), key=lambda one: _ORDER[one.main])
    return _StoredSet([main, *others], main)


def _standing_in(datasets: Sequence[StoredArray], file: str) -> StoredArray:
    """Return the largest array of a set in which no array may be the main one; it says that the main one is absent."""
    found = main_of([altered(dataset, main=None) for dataset in datasets if not dataset.companion])
    assert found is not None
    own = [dataset.path for dataset in datasets if not dataset.companion]
    said = (
        f"{file}: expected images or other data to show first, found only what comes beside them: {first_names(own)};"
        f" open one of these by its name with {option(array=ANY)}"
    )
    absence = Absence(said, FormatError, "shows the largest of them", main=True)
    return altered(found, absent=(*found.absent, absence))


def _absent(stored: _StoredSet, main: StoredArray) -> tuple[Absence, ...]:
    """Collect the absences that the arrays report, each one once.

    Args:
        main: the main array as it is shown.
    """
    beside = [absence for other in stored.datasets for absence in other.absent if absence not in stored.main.absent]
    return tuple({absence.said: absence for absence in (*main.absent, *beside)}.values())


def _refuse(absent: Sequence[Absence], options: OpenOptions) -> None:
    """Refuse a set whose numbers would be wrong, unless that is allowed.

    Raises:
        VfsError: of the class that the format names; the message ends with the option that allows it.
    """
    for absence in absent:
        if absence.refused is not None and not options.allow_incomplete:
            raise absence.refused(
                f"{absence.said}" + (f"; {option(allow_incomplete=True)} {absence.allowed}" if absence.allowed else "")
            )


def refuse_without_main(found: OpenedSet) -> None:
    """Refuse a set whose main array is absent, for callers that need this array and not any of the set.

    Raises: what `_refuse` raises.
    """
    if found.absent and found.opening.options.array is None:
        _refuse([absence for absence in found.absent if absence.main], found.opening.options)


def warned(found: OpenedSet) -> OpenedSet:
    """Give one warning with all that a set lacks, at the line outside of vfs that opens it. Return the set.

    Warns:
        IncompleteWarning: the set lacks something.
    """
    if found.warnings:
        level, frame = 2, sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "vfs":
            level, frame = level + 1, frame.f_back
        warnings.warn("; ".join(found.warnings), IncompleteWarning, stacklevel=level)
    return found


def _attributes(
    stored: _StoredSet, main: StoredArray, absent: Sequence[Absence], options: OpenOptions
) -> dict[str, Any]:
    """Make the attributes of the root group.

    Conventions that a format gives the root describe the arrays as they are stored. So they are left
    out if the arrays are shown in another way.
    """
    counts = Counter[str]()
    for absence in absent:
        counts.update(absence.counts)
    made = {"vfs": {"format": options.format, **main.attrs, **({"incomplete": dict(counts)} if counts else {})}}
    given = (options.array, options.nav_shape, options.roi, options.axes, options.calibration)
    as_stored = all(one is None for one in given) and not options.sync_offset and not options.line_skip
    return made | dict(stored.main.group_attrs) if as_stored else made


def _images(options: OpenOptions, stored: _StoredSet, sources: Sources) -> _Images:
    """Read the correction images that the options name.

    Raises:
        OptionError: an image does not fit the frames. Errors from opening its file are raised, too.
    """
    given: dict[str, Any] = {}
    sets: list[OpenedSet] = []
    sig_shape = stored.main.shape[stored.main.nav_ndim :]
    for name in ("dark", "gain", "dead"):
        value = getattr(options, name)
        if value is None:
            continue
        if isinstance(value, str | os.PathLike):
            own = next((one for one in stored.datasets if one.path == value), None)
            if own is not None:
                array = ArrayReader(own, make_backend(options.backend, own.files))
            else:
                sets.append(_other_set(value, options.backend, sources))
                array = sets[-1].tree.arrays[sets[-1].tree.main]
            value = _image(name, value, array, sig_shape)
        given[name] = value
    return _Images(given, sets)


def _other_set(path: str | os.PathLike[str], backend: str, sources: Sources) -> OpenedSet:
    """Open the set from which a correction image is read."""
    found = _open_named(expand(path, sources), OpenOptions(backend=backend), {}, None, sources)
    refuse_without_main(found)
    return found


def _image(name: str, given: str | os.PathLike[str], array: ArrayReader, sig_shape: tuple[int, ...]) -> np.ndarray:
    """Read a correction image; of many frames it is the mean, computed in bounded memory.

    Args:
        name: dark, gain or dead.
        given: the file or array that the option names, for the error.
        array: reader of the image.

    Raises:
        OptionError: the image does not fit the frames; then nothing of it is read.
    """
    try:
        check(name, array.shape, array.dtype, sig_shape)
    except OptionError as error:
        raise OptionError(f"{os.fspath(given)}: {error}") from None
    if name == "dead" or array.ndim == len(sig_shape):
        return array.read()
    return mean_frame(array, len(sig_shape))


def _lasting(given: Any, datasets: Sequence[StoredArray]) -> Any:
    """Return a correction option as it is pickled: files have absolute paths, arrays of the set their names."""
    if any(dataset.path == given for dataset in datasets if isinstance(given, str)):
        return given
    return os.path.abspath(given) if isinstance(given, str | os.PathLike) and os.path.exists(given) else given


def _digest(datasets: Sequence[StoredArray], more: Sequence[OpenedSet], mask_files: Sequence[Files]) -> bytes:
    """Digest the sizes and times of all files of a set, and of those that corrections and masks came from."""
    found = blake2b(digest_size=16)
    more_files = [*(each.tree.arrays[each.tree.main].dataset.files for each in more), *mask_files]
    for files in [*{id(dataset.files): dataset.files for dataset in datasets}.values(), *more_files]:
        found.update(files.states[:, :CHANGED].tobytes())
    return found.digest()
