"""Opens data sets: from the names of files and the options to arrays that can be read.

All opening goes through `open_set`. It takes steps, and each makes a value that is complete:

1. the names of the files, with globs expanded;
2. their format, and the options as this format takes them;
3. the arrays as they are stored (`vfs.sets.choosing`), and the correction images
   (`vfs.sets.correction_images`);
4. the arrays as they are shown: with scan shape, offset and selection;
5. their readers, and with these the `OpenedSet`.

Of a set that is still being written (`follow`) it opens what is there at that moment: `vfs.sets.live_set`
opens it again as it grows.

Only headers and correction images are read.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.errors import (
    FormatError,
    IncompleteWarning,
    MissingSourceError,
    OptionError,
    SourceChangedError,
    TruncatedSourceError,
)
from vfs.faces.data_set import Hierarchy
from vfs.faces.ngff_versions import check_version
from vfs.formats import Format, by_name, detect
from vfs.live.begun import as_before
from vfs.live.doubts import without_holes
from vfs.live.file_watch import SEEN
from vfs.live.growing import WATCHED_FILES, Progress, check_rested, grown, progress_of
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.open_options import OpenOptions, split
from vfs.model.option_fields import known
from vfs.model.pickles import digest
from vfs.model.signatures import Paths
from vfs.model.sources import Sources
from vfs.model.stored import Absence, Saved, StoredArray
from vfs.sets.arranging import Arranged, arranged
from vfs.sets.choosing import StoredSet, by_path, stored_set, without_first
from vfs.sets.correction_images import CorrectionImages, OtherSet, lasting, read_images
from vfs.sets.incomplete import all_absent, counted, refuse
from vfs.sets.kinds import with_background
from vfs.sets.pixel_masks import with_mask
from vfs.sets.set_readers import readers
from vfs.sets.set_sources import (
    digest_of,
    file_names,
    files_of,
    lasting_names,
    masks,
    named_files,
    names_now,
    not_told_apart,
)
from vfs.sources.given import positions
from vfs.sources.globs import expand
from vfs.sources.missing import explained
from vfs.sources.names import absolute
from vfs.sources.packed import unpacking

if TYPE_CHECKING:
    from vfs.reduce.level_store import LevelStore


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
        if self.options.may_change:
            return b""
        own = dict(sorted(self.format_options.items()))
        return digest((self.paths, self.options, own, self.states, self.name))

    @property
    def numbers(self) -> bytes:
        """Digest of the files, their sizes and times, and of the options that decide which numbers there are; empty if
        the files may change meanwhile.
        """
        if self.options.may_change:
            return b""
        about = known(OpenOptions)
        given = {name: value for name, value in self.options.said().items() if about[name].about.scope != "reading"}
        for name in ("derive", "hide"):  # they add and leave out arrays, and change none
            given.pop(name, None)
        own = dict(sorted(self.format_options.items()))
        return digest((self.paths, given, own, self.states))

    @property
    def identity(self) -> str:
        """Text that is the same, in every process, for equal files and options; never twice where files may change."""
        return self.version.hex() or uuid4().hex

    def open(self, cache: ChunkCache | None = None) -> OpenedSet:
        """Open the data set again.

        Args:
            cache: as of `open_set`.

        Raises:
            SourceChangedError: the set has other files now, or files of other sizes or times, and
                `accept_changes` was not given.
            VfsError: what `open_set` raises, for a set that is still being written.
        """
        # Links that were named may still lead outside, to where they led then
        with self.sources.opening() as sources:
            try:
                found = _open_begun(
                    self._names(sources), self.options, self.format_options, cache, sources, name=self.name
                )
            except (FormatError, TruncatedSourceError) as error:
                if self.options.follow:
                    raise
                raise SourceChangedError(f"the set was changed after it was opened: {error}") from None
        if not self.options.may_change and found.opening.states != self.states:
            raise SourceChangedError(
                f"{self.paths[0]}: files of the set or of its corrections came, went or changed (size or time) after it"
                " was opened; open it again"
            )
        return found

    def _names(self, sources: Sources) -> list[str]:
        """Return the names of the files; of a set that is still being written, those that are there now."""
        return names_now(self.paths, sources) if self.options.follow else list(self.paths)

    def changed(self, options: OpenOptions, format_options: Mapping[str, Any], cache: ChunkCache) -> OpenedSet:
        """Open the same files with other options, within the same folders.

        Raises: what `open_set` raises.
        """
        with self.sources.opening() as sources:
            return _open_named(self._names(sources), options, format_options, cache, sources, name=self.name or None)


@dataclass(frozen=True)
class OpenedSet:
    """A data set that is open.

    Attributes:
        tree: its arrays and its name.
        opening: record of how it was opened.
        absent: things that it should hold and does not, or that it holds and vfs does not show.
        progress: how far it is written, if it is still being written; None: it is whole, or was not followed.
        begun: files that are left out because they have only begun, or have yet to come, as far as they are known.
        warnings: a line for each of these, and for each thing that the files of its correction
            images lack.
    """

    tree: Hierarchy
    opening: Opening
    absent: tuple[Absence, ...] = ()
    warnings: tuple[str, ...] = ()
    progress: Progress | None = None
    begun: tuple[str, ...] = ()

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

    @property
    def frames(self) -> int:
        """Number of frames of the main array that are there."""
        if self.progress is not None:
            return self.progress.frames
        dataset = self.main.dataset
        return math.prod(dataset.shape[: dataset.nav_ndim]) - dataset.blanks

    def chosen(self, path: str) -> bool:
        """Return True if somebody asked for the chunks of an array."""
        return path == self.tree.main and self.opening.options.chunks != "auto"


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
    options = options if options.derive is None else _derivable(options)
    names, opening = named_files(paths, sources, options, format_options)
    try:
        with opening as opened:
            found = _open_begun(names, options, format_options, cache, opened, convert=convert)
    except MissingSourceError as error:
        raise explained(error, paths) from None
    if options.follow:  # more files may come that a glob finds
        found = replace(found, opening=replace(found.opening, paths=lasting_names(paths, found.opening.paths)))
    return found


def _derivable(options: OpenOptions) -> OpenOptions:
    """Return the options with `derive` as reductions, not as their texts."""
    return replace(options, derive=_reductions(options.derive))


def _open_begun(
    names: Sequence[str], options: OpenOptions, given: Mapping[str, Any], cache: Any, sources: Sources, **how: Any
) -> OpenedSet:
    """Open the set of some files as `_open_named` does, with `follow` without its newest file if that only begins."""
    if not options.follow:
        return _open_named(names, options, given, cache, sources, **how)

    def opened(chosen: Sequence[str], within: Sources) -> OpenedSet:
        return _open_named(chosen, options, given, cache, within, **how)

    found, begun = as_before(opened, names, sources, options.give_up)
    if begun is None:
        return found
    opening = replace(found.opening, paths=tuple(names), sources=sources)
    return replace(found, begun=(*found.begun, begun), opening=opening)


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
    check_version(options.ngff)
    sources = unpacking(sources, names[0])
    kind = detect(sources, names[0], format_options) if options.format is None else by_name(options.format)
    name = kind.label(names[0]) if name is None else name
    given = convert(kind, format_options) if convert else format_options
    options, format_options = _for_format(kind, options, given)
    kind.check_paths(names)
    found = kind.open(names, sources, **format_options)
    if isinstance(found, Saved):
        return _open_saved(found, names[0], options, cache, sources, name)
    if kind.terms:
        found = [altered(one, terms=kind.terms) for one in found]
    if options.follow:
        for files in files_of(found):
            SEEN.look_at_last(files, WATCHED_FILES)
        found = [grown(one, options) for one in found]
    elif options.holes_missing:
        found = [without_holes(one) for one in found]
    if options.array is not None or options.main is not None or options.hide:
        options = by_path(found, options, names[0])
    masks_of_pixels = [one for one in found if one.mask_bits]
    stored = stored_set(found, options, names[0])
    if options.dead is None:  # else the user says which pixels are dead
        stored = with_mask(stored, masks_of_pixels)
    if len(found) > 1:
        stored = with_background(stored, found, kind.name)
    if options.follow and not stored.main.nav_ndim:
        _check_whole(Files.stat(sources, names[:1]), found, options)
    other = partial(_other_set, backend=options.backend, sources=sources)
    images = read_images(options, stored.all, stored.main, other, masks_of_pixels)
    mask_files = (
        [Files.stat(sources, [absolute(name)]) for name in file_names(masks(options))] if options.derive else []
    )
    if options.roi is not None:
        options = replace(options, roi=positions(sources, options.roi))
    shown = arranged(stored.datasets, stored.main, options, as_stored=bool(images.given))
    as_stored = options.array is None and not options.hide and shown[stored.main.path] == Arranged(stored.main)
    progress = progress_of(stored.main, shown[stored.main.path].dataset, options) if options.follow else None
    if options.follow_blank:
        shown = {path: one._replace(dataset=one.dataset.with_written(head=None)) for path, one in shown.items()}
    arrays = readers(stored.main, shown, options, images.given, ChunkCache() if cache is None else cache)
    main = arrays[stored.main.path]  # makes this reader now, so that options that do not fit it raise an error
    absent = all_absent(stored.all, stored.main, main.dataset)
    begun: tuple[str, ...] = ()
    if progress is not None:
        begun, absent = _begun(absent)
    if absent:
        refuse([absence for absence in absent if not absence.main], options)
    stands_in = any(absence.main for absence in absent) and options.first is None and not options.allow_incomplete
    if options.derive and not stands_in:
        arrays = arrays.with_more(_derived(main, options.derive, list(arrays)))
    attributes = _attributes(stored, main.dataset, absent, str(options.format), progress, as_stored)
    all_files = files_of(stored.all)
    states = b"" if options.follow else digest_of([*all_files, *images.files, *mask_files])
    opening = Opening(tuple(names), _lasting(options, images, stored), format_options, states, name, sources)
    store = None if options.pyramid_cache is None else _level_store(opening, all_files)
    tree = Hierarchy(name, arrays, attributes, stored.main.path, stands_in, store, options.ngff)
    unnoticed = () if options.may_change else not_told_apart(all_files)
    warnings = (*images.warnings, *(absence.said for absence in absent), *unnoticed)
    return OpenedSet(tree, opening, absent, warnings, progress, begun)


def _check_whole(named: Files, found: Sequence[StoredArray], options: OpenOptions) -> None:
    """Check that nobody writes a file that has no frames any more: it may be the beginning of one that will have some.

    Raises:
        NotYetError: it was written just now, or files that it names have yet to come.
    """
    to_come = any(absence.main and absence.files for one in found for absence in one.absent)
    check_rested(named, replace(options, settle=options.give_up) if to_come else options)


def _begun(absent: Sequence[Absence]) -> tuple[tuple[str, ...], tuple[Absence, ...]]:
    """Part what is absent from a set that grows. Returns (files that have only begun, what else is absent)."""
    begun = [path for absence in absent if absence.to_come for path in absence.files]
    return tuple(begun), tuple([absence for absence in absent if not absence.to_come])


def _reductions(given: Any) -> dict[str, Any]:
    """The reductions that `derive` says, in terms that hold in another process, too."""
    from vfs.reduce.derived import reductions  # loads kernels, which few openings need
    from vfs.reduce.in_frames import lasting

    return lasting(reductions(given))


def _derived(main: ArrayReader, wanted: Mapping[str, Any], taken: Sequence[str]) -> Mapping[str, ArrayReader]:
    """The derived arrays of the main array."""
    from vfs.reduce.derived import derived

    return derived(main, wanted, taken)


def _lasting(options: OpenOptions, images: CorrectionImages, stored: StoredSet) -> OpenOptions:
    """Return the options with correction images in a form that works in another process, too."""
    given = {image: lasting(getattr(options, image), stored.all) for image in images.given}
    return replace(options, **given) if given else options


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
    saved: Saved,
    description: str,
    options: OpenOptions,
    cache: ChunkCache | None,
    sources: Sources,
    name: str,
) -> OpenedSet:
    """Open the set that a description stands for. Options given now override those of the description.

    Raises:
        OptionError: an option does not fit; the message names the description.
    """
    try:
        asked = options.said()
        kept = saved.options if not {"array", "main"} & asked.keys() else without_first(saved.options)
        said, own = split(OpenOptions, {**kept, **asked, "format": saved.format})
        said = said if said.derive is None else _derivable(said)
        return _open_named(saved.paths, said, own, cache, sources, name=name)
    except OptionError as error:
        raise OptionError(f"{description}: {error}") from None


def refuse_without_main(found: OpenedSet) -> None:
    """Refuse a set whose main array is absent, for callers that need this array and not any of the set.

    Raises: what `refuse` raises.
    """
    if found.absent and found.opening.options.first is None:
        refuse([absence for absence in found.absent if absence.main], found.opening.options)


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
    stored: StoredSet,
    main: StoredArray,
    absent: Sequence[Absence],
    format: str,
    progress: Progress | None,
    as_stored: bool,
) -> dict[str, Any]:
    """Make the attributes of the root group.

    Args:
        as_stored: the arrays are shown as they are stored. Conventions that a format gives the root describe these,
            so they are left out otherwise.
    """
    counts = counted(absent)
    more = ({"incomplete": counts} if counts else {}) | ({"live": progress.said()} if progress else {})
    made = {"vfs": {"format": format, **main.attrs, **more}}
    return made | dict(stored.main.group_attrs) if as_stored else made


def _level_store(opening: Opening, files: Sequence[Files]) -> LevelStore:
    """Return what keeps the computed levels of a set for the next run: see `vfs.reduce.level_store.level_store`."""
    from vfs.reduce.level_store import level_store  # which few openings need

    options = opening.options
    assert options.pyramid_cache is not None
    ours = by_name(opening.format).open.__module__.startswith("vfs.")
    return level_store(options.pyramid_cache, options.pyramid_cache_size, files, opening.numbers if ours else b"")


def _other_set(path: str | os.PathLike[str], backend: str, sources: Sources) -> OtherSet:
    """Open the set from which a correction image is read."""
    try:
        found = _open_named(expand(path, sources), OpenOptions(backend=backend), {}, None, sources)
    except MissingSourceError as error:
        raise explained(error, path) from None
    refuse_without_main(found)
    return OtherSet(found.tree.arrays[found.tree.main], found.warnings)
