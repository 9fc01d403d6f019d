"""Plans mounts: a plan makes the contents of a mount, also in another process, which serves it.

There are two kinds: a mount of some data sets, and a mount of a folder with all data sets in it
(`--tree`). For both, `vfs.mount` and `vfs mount` make a `MountPlan`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from vfs.backends import choice
from vfs.contents.contents import Contents
from vfs.contents.face_folder import FaceFolder
from vfs.contents.live_folder import LiveFolder
from vfs.engine import chunking
from vfs.engine.cache import CACHE, ChunkCache
from vfs.errors import OptionError, VfsError
from vfs.faces.ngff_versions import check_version
from vfs.folder_tree import FolderTree, MemberSet
from vfs.folder_tree.folder_records import log
from vfs.folder_tree.records import Rules
from vfs.formats import by_name, formats
from vfs.model.command_options import ShowOptions
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import known
from vfs.model.options import dtype_option
from vfs.model.sources import Sources
from vfs.model.wording import ANY, option, option_names
from vfs.sets.live_set import LiveSet, not_over, open_live
from vfs.sets.opening import OpenedSet, Opening, open_set
from vfs.sets.set_sources import folder_name, folder_sources
from vfs.sets.stacks import Stacks, is_stack


@dataclass(frozen=True)
class MountPlan:
    """Makes the contents of a mount.

    Attributes:
        make: function that makes the contents in the process that serves them; it can be pickled.
        here: function that makes the same in this process, from data sets that are open here.
        sources: the files or the folder that the user named.
    """

    make: Callable[[], Contents]
    here: Callable[[], Contents]
    sources: Sequence[str]


def plan_sets(
    sets: Sequence[OpenedSet], cache: ChunkCache, zarr_format: int | None = None, for_urls: bool = False
) -> MountPlan:
    """Plan a mount of open data sets.

    Args:
        cache: see `folder`; the process that serves them makes a cache of the same size.
        zarr_format, for_urls: see `folder`.
    """
    openings = [one.opening for one in sets]
    sources = [opening.paths[0] for opening in openings]
    make = partial(open_folder, openings, cache.limit, zarr_format, for_urls)
    here = partial(_shown, [LiveSet(one, cache) for one in sets], cache, zarr_format, for_urls)
    return MountPlan(make, here, sources)


@dataclass(frozen=True, kw_only=True)
class TreeView:
    """Says what is shown of a folder.

    Attributes:
        zarr_format: 3 or 2 leaves out the face of the other format; None keeps both.
        show_files: also show files that are no data set, as they are.
        single_files: show numbered images each by itself, not as one stack.
        for_urls: see `folder`.
    """

    zarr_format: int | None = None
    show_files: bool = False
    single_files: bool = False
    for_urls: bool = False

    @classmethod
    def of(cls, options: ShowOptions, zarr_format: int | None, for_urls: bool) -> TreeView:
        """Return what options say of a folder."""
        files = {"show_files": options.show_files, "single_files": options.single_files}
        return cls(zarr_format=zarr_format, for_urls=for_urls, **files)


def plan_tree(
    folders: Sequence[Any],
    options: OpenOptions,
    format_options: Mapping[str, Any],
    view: TreeView,
    cache_size: int = CACHE,
) -> MountPlan:
    """Plan a mount of a folder with all data sets in it.

    Args:
        folders: the folder, in a list of one.
        options, format_options: options with which its data sets are opened.
        view, cache_size: see `folder_tree`.

    Raises:
        OptionError: there are several folders; also errors of `folder_tree`.
    """
    if len(folders) != 1 or not isinstance(folders[0], str | os.PathLike):
        raise OptionError(f"{option(tree=True)} shows one folder: name one")
    root = folder_name(folders[0])
    make = partial(folder_tree, root, options, format_options, view, cache_size=cache_size)
    shown = make()  # raises errors now rather than in the process that serves; opens nothing
    return MountPlan(make, lambda: shown, [root])


def open_folder(
    openings: Sequence[Opening], cache_size: int = CACHE, zarr_format: int | None = None, for_urls: bool = False
) -> Contents:
    """Open data sets again and make the contents of their mount, in the process that serves it.

    Args:
        cache_size: most bytes of decoded chunks that are kept for all sets together.
        zarr_format, for_urls: see `folder`.

    Raises: what `Opening.open` raises.
    """
    cache = ChunkCache(cache_size)
    return _shown([open_live(opening, cache) for opening in openings], cache, zarr_format, for_urls)


def _shown(sets: Sequence[LiveSet], cache: ChunkCache, zarr_format: int | None, for_urls: bool) -> Contents:
    """Make the contents of a mount or server of sets, of which some may still be written."""
    if any(one.follows for one in sets):
        return LiveFolder(sets, partial(folder, cache=cache, zarr_format=zarr_format, for_urls=for_urls), cache)
    return folder([one.now() for one in sets], cache, zarr_format, for_urls)


def folder(
    sets: Sequence[OpenedSet],
    cache: ChunkCache,
    zarr_format: int | None = None,
    for_urls: bool = False,
    above: str = "",
) -> FaceFolder:
    """Make the contents of a mount or server of open data sets.

    Args:
        cache: the cache with which the sets were opened.
        zarr_format: 3 or 2 leaves out the face of the other format; None keeps both.
        for_urls: give arrays the names that HTTP shows (`vfs.faces.url_names`).
        above: see `FaceFolder`.
    """
    shown = FaceFolder(
        [one.tree.for_urls() if for_urls else one.tree for one in sets],
        cache,
        [one.opening.paths for one in sets],
        [one.opening.version for one in sets],
        [one.opening for one in sets],
        zarr_format,
        above,
    )
    shown.warnings = {absence.said: one.opening.paths for one in sets for absence in one.absent}
    return shown


def folder_tree(
    root: str | os.PathLike[str],
    options: OpenOptions | None = None,
    format_options: Mapping[str, Any] | None = None,
    view: TreeView | None = None,
    *,
    cache_size: int = CACHE,
) -> FolderTree:
    """Make the contents of a mount or server of a folder, its subfolders and all data sets in them. It opens no files.

    Args:
        options: options with which every data set is opened. With a `format`, only data sets of this
            format are shown. A backend "auto" becomes "buffered".
        format_options: options of that format.
        view: what is shown of the folder.
        cache_size: most bytes of decoded chunks that are kept for all sets together.

    Raises:
        OptionError: `root` is no folder; an option does not fit, or is for a single data set.
        SourceError: `root` is a folder on a server, which cannot be listed.
    """
    options, own = _for_all(options or OpenOptions(), format_options or {})
    view = view or TreeView()
    if view.zarr_format not in (None, 2, 3):
        raise OptionError(f"{option(zarr_format=view.zarr_format)}: expected 3 or 2")
    check_version(options.ngff)
    _check_outside(root, options.pyramid_cache)
    cache = ChunkCache(cache_size)
    opener = _Opener(options, own, cache, view.for_urls, Stacks(view.single_files))
    kinds = [by_name(options.format)] if options.format else list(formats().values())
    name = folder_name(root)
    rules = Rules(folder_sources(name, options), opener, kinds, view.zarr_format, view.show_files)
    shown = FolderTree(name, rules, cache=cache, options=options, format_options=own)
    shown.warnings = opener.told
    return shown


def each_by_itself(tree: FolderTree, above: str) -> FolderTree | None:
    """Return the tree of the same folder that shows numbered images each by itself; None if the tree does so.

    Args:
        above: see `FolderTree`.
    """
    opener = tree.rules.open
    if not isinstance(opener, _Opener) or opener.stacks.single:
        return None
    rules = replace(tree.rules, open=replace(opener, stacks=Stacks(single=True)))
    return FolderTree(
        tree.root, rules, cache=tree.cache, options=tree.options, format_options=tree.format_options, above=above
    )


def _for_all(options: OpenOptions, format_options: Mapping[str, Any]) -> tuple[OpenOptions, dict[str, Any]]:
    """Check options that are for all data sets of a folder, and choose the backend.

    Raises:
        OptionError: one does not fit, or is for a single data set.
    """
    for name in options.said():
        if known(OpenOptions)[name].about.scope == "one set":
            raise OptionError(
                f"{option_names(name)} is for one data set, not for all that are in a folder; mount that one by itself"
            )
    chunking.check_for_many(options.chunks)
    if format_options and not options.format:
        name = next(iter(format_options))
        raise OptionError(f"{name} is an option of a format: say of which one, with {option(format=ANY)}")
    if options.dtype is not None:
        dtype_option(options.dtype)
    backend, _ = choice(options.backend, serves=True)
    return replace(options, backend=backend), by_name(options.format).fitted(format_options) if options.format else {}


def _check_outside(root: str | os.PathLike[str], folder: str | os.PathLike[str] | None) -> None:
    """Check that a folder that is written to lies outside of the one that is shown.

    Raises:
        OptionError: it does not.
    """
    if folder is None:
        return
    try:
        inner, outer = os.path.realpath(folder), os.path.realpath(root)
    except ValueError as error:  # a NUL in its name
        raise OptionError(f"{option(pyramid_cache=os.fspath(folder))}: cannot be used: {error}") from None
    if os.path.commonpath([inner, outer]) == outer:
        raise OptionError(
            f"{option(pyramid_cache=os.fspath(folder))}: lies in {os.fspath(root)}, where nothing is written; name a"
            " folder outside of it"
        )


@dataclass(frozen=True)
class _Opener:
    """Opens a data set of a folder. Logs its warnings, each once as long as `told` remembers it."""

    options: OpenOptions
    format_options: Mapping[str, Any]
    cache: ChunkCache
    for_urls: bool
    stacks: Stacks
    told: dict[str, Sequence[str]] = field(default_factory=dict)

    def __call__(self, path: str, sources: Sources) -> MemberSet:
        options, own, cache, told = self.options, self.format_options, self.cache, self.told
        found = self.stacks.around(open_set(path, options, own, cache, sources), cache)
        growing = None
        if not_over(found):
            shown = partial(folder, cache=cache, for_urls=self.for_urls)
            growing = partial(_growing, found, shown, cache)
        elif found.progress is not None:
            with suppress(VfsError):  # its writer may have it open still
                found = open_set(path, replace(options, follow=False, follow_blank=False), own, cache, sources)
        for said in found.warnings:
            if said not in told:
                if len(told) >= _MAX_TOLD:
                    told.clear()
                told[said] = (path, *found.opening.paths)
                log.warning("%s", said)
        tree = found.tree.for_urls() if self.for_urls else found.tree
        again = time.monotonic() + options.settle if growing else math.inf
        paths, stack = found.opening.paths, is_stack(found, path)
        return MemberSet(tree, found.opening.format, paths, again, found.begun, growing, stack)


def _growing(
    opened: OpenedSet, shown: Callable[[Sequence[OpenedSet]], FaceFolder], cache: ChunkCache, first: int
) -> LiveFolder:
    """Show a set of a folder as it grows."""
    return LiveFolder([LiveSet(opened, cache)], shown, cache, first)


_MAX_TOLD = 10_000
"""Most warnings that are remembered as logged."""
