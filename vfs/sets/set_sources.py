"""Chooses where the files of a set come from: this machine, or servers and stores if some of them have URLs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from glob import has_magic
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

from vfs.engine.chunking import as_bytes
from vfs.errors import OptionError
from vfs.kernels.columns import CHANGED
from vfs.model.files import Files
from vfs.model.open_options import OpenOptions
from vfs.model.signatures import Paths
from vfs.model.sources import FolderSources, Sources
from vfs.model.stored import StoredArray
from vfs.model.wording import option
from vfs.sources.archive_names import ENDINGS, InArchive, in_archive
from vfs.sources.boundary import ANYWHERE, Boundary
from vfs.sources.file_systems import file_system
from vfs.sources.globs import expand, file_name, names_given, starts
from vfs.sources.local import LocalSources
from vfs.sources.names import absolute, is_url
from vfs.sources.urls import given as given_url
from vfs.sources.urls import plain

if TYPE_CHECKING:
    from vfs.sources.archives import ArchiveSources
    from vfs.sources.disk_cache import DiskCache
    from vfs.sources.transfers import Limits

MAX_REQUESTS = 128
_COARSE = ("msdos", "vfat")

_MAX_NAMES = 1 << 20  # names that are looked at for a URL: a range of numbers, which are none, may have 10 ** 18


def named_files(
    paths: Paths, sources: Sources | None, options: OpenOptions, format_options: Mapping[str, Any]
) -> tuple[list[str], AbstractContextManager[Sources]]:
    """Find the files that a user names, and the sources for opening the set that they name.

    Args:
        paths: as the user gives them, with globs.
        sources: those that the caller gives; None for this machine, and for servers if some names are URLs.
        options, format_options: these may name more files of the set.

    Raises: what `expand` raises.
    """
    if sources is not None:
        return expand(paths, sources, options.follow_outside), sources.opening()
    several = paths if not isinstance(paths, str | os.PathLike) and isinstance(paths, Iterable) else (paths,)
    first = next(iter(several), None)
    name = os.fspath(first) if isinstance(first, str | os.PathLike) else ""  # searched here, since calls are counted
    if ENDINGS.search(name) and (found := in_archive(name)):
        return _archived(paths, found, options)
    given = [options.dark, options.gain, options.dead, options.roi, *format_options.values()]
    for one in (*islice(several, _MAX_NAMES), *given):
        if isinstance(one, str) and "://" in one and is_url(one):
            return _remote(paths, options, given)
    names = expand(paths, None, options.follow_outside)
    if options.follow_outside:
        return names, LocalSources().opening()
    beside = file_names(given) + (file_names(masks(options)) if options.derive else [])
    return names, LocalSources.around([*names, *map(absolute, beside)])


def _archived(
    paths: Paths, found: InArchive, options: OpenOptions
) -> tuple[list[str], AbstractContextManager[Sources]]:
    """Find files in an archive: see `named_files`.

    Raises:
        OptionError: one is the archive itself, or lies elsewhere.
    """
    named = [in_archive(name) for name in names_given(paths)]
    if not all(one and one.archive == found.archive and one.member for one in named):
        raise OptionError(
            f"{found.archive}: an archive is opened like a folder: expected the names of files in it,"
            f" {found.archive}/NAME; `vfs info {found.archive}` lists them"
        )
    sources = _archive_sources(found, options)
    return expand([one.name for one in named if one], sources), sources.opening()


def _archive_sources(found: InArchive, options: OpenOptions) -> ArchiveSources:
    from vfs.sources.archives import ArchiveSources

    if not is_url(found.archive):
        return ArchiveSources(found.archive, LocalSources())
    from vfs.sources.remote import RemoteSources

    archive = plain(given_url(found.archive))
    folder = archive[: archive.rindex("/") + 1]
    return ArchiveSources(archive, RemoteSources([folder], limits=_limits(options), cache=_cache(options)))


def lasting_names(paths: Paths, names: Sequence[str]) -> tuple[str, ...]:
    """Return what stands for files of which more may come: globs of this machine as they are given, else the files.

    Args:
        paths: as the user gives them.
        names: the files that they name now.
    """
    given = names_given(paths)
    if not any(_is_glob(name) for name in given) or any(is_url(name) for name in given):
        return tuple(names)
    return tuple(map(absolute, given))


def names_now(names: Sequence[str], sources: Sources) -> list[str]:
    """Return the files that `lasting_names` stand for now.

    Raises: what `expand` raises.
    """
    return [found for name in names for found in (expand(name, sources) if _is_glob(name) else [name])]


def _is_glob(name: str) -> bool:
    return has_magic(name) and not is_url(name) and not os.path.exists(name)


def files_of(datasets: Iterable[StoredArray]) -> list[Files]:
    """Return the files of some arrays, once those that several of them share."""
    return list({id(dataset.files): dataset.files for dataset in datasets}.values())


def digest_of(sets: Iterable[Files]) -> bytes:
    """Digest the sizes and times of files."""
    found = blake2b(digest_size=16)
    for files in sets:
        found.update(files.states[:, :CHANGED].tobytes())
        if files.tags:
            found.update("\0".join(files.tags).encode())
    return found.digest()


def not_told_apart(sets: Collection[Files]) -> tuple[str, ...]:
    """Say in a line each which files could be replaced by others of the same size unnoticed: files of servers that give
    them neither times nor tags, and files on disks that note times in steps of two seconds. () if none could.
    """
    return (*_without_proof(sets), *_with_coarse_times(sets))


def _without_proof(sets: Iterable[Files]) -> tuple[str, ...]:
    names = dict.fromkeys(
        path
        for files in sets
        if len(files) and is_url(files.paths[0])
        for file, path in enumerate(files.paths)
        if files.sizes[file] >= 0 and not files.state(file).tells
    )
    if not names:
        return ()
    more = f" and {len(names) - 1:,} others" if len(names) > 1 else ""
    return (
        f"{next(iter(names))}{more}: the server says neither when it was written (Last-Modified) nor a tag that stands"
        " for its bytes (ETag): nobody would notice that another file of the same size took its place",
    )


def _with_coarse_times(sets: Iterable[Files]) -> tuple[str, ...]:
    for files in sets:
        if len(files) and not is_url(files.paths[0]) and file_system(files.paths[0]) in _COARSE:
            return (
                f"{files.paths[0]}: its disk (FAT) notes times of writing in steps of two seconds: nobody would notice"
                " that a file of the same size took its place within that time",
            )
    return ()


def folder_name(given: str | os.PathLike[str]) -> str:
    """Return the absolute name of a folder that a user names, without a slash at its end."""
    name = file_name(given)
    if (found := in_archive(name)) is not None:
        return found.name
    return plain(given_url(name)).rstrip("/") if is_url(name) else absolute(name)


def folder_sources(folder: str, options: OpenOptions) -> FolderSources:
    """Return the sources of all sets in a folder and below it, which lie there unless they may lie anywhere.

    Args:
        folder: its absolute name.

    Raises:
        OptionError: there is no such folder on this machine.
        SourceError: there is none on a server or in an archive, or it cannot be listed.
        FormatError: it lies in an archive that is damaged.
    """
    if (archived := in_archive(folder)) is not None:
        sources = _archive_sources(archived, options)
        sources.folder(folder)
        return sources
    if is_url(folder):
        from vfs.sources.remote import RemoteSources

        found = RemoteSources(
            [f"{folder}/"], anywhere=options.follow_outside, limits=_limits(options), cache=_cache(options)
        )
        found.names(folder)
        return found
    if not os.path.isdir(folder):
        raise OptionError(f"{folder}: expected a folder whose data sets are to be shown")
    return LocalSources(ANYWHERE if options.follow_outside else Boundary((os.path.realpath(folder),)))


def _limits(options: OpenOptions) -> Limits:
    """Return how many requests are under way, and how long they are waited for.

    Raises:
        OptionError: these are none, or too many.
    """
    from vfs.sources.transfers import Limits

    if not 1 <= options.requests <= MAX_REQUESTS:
        raise OptionError(f"{option(requests=options.requests)}: expected a number from 1 to {MAX_REQUESTS}")
    return Limits(parallel=options.requests)


def _cache(options: OpenOptions) -> DiskCache | None:
    """Return what keeps blocks of files of servers on this machine, if that is asked for.

    Raises:
        OptionError: it cannot be used.
    """
    from vfs.sources.disk_cache import DiskCache

    if options.cache_dir is None:
        return None
    cache = DiskCache(absolute(options.cache_dir), as_bytes(options.cache_dir_size, "cache_dir_size"))
    cache.check()
    return cache


def _remote(
    paths: Paths, options: OpenOptions, given: Sequence[Any]
) -> tuple[list[str], AbstractContextManager[Sources]]:
    """Find files of which some have URLs: see `named_files`."""
    from vfs.sources.remote import RemoteSources

    beside = file_names([*given, *(masks(options) if options.derive else [])])
    named = [*starts(paths), *(absolute(given_url(name)) for name in beside)]
    sources = RemoteSources.around(
        named, anywhere=options.follow_outside, limits=_limits(options), cache=_cache(options)
    )
    try:
        return expand(paths, sources), sources
    except BaseException:
        sources.__exit__()
        raise


def masks(options: OpenOptions) -> list[Any]:
    """Return what the reductions of `derive` are given as masks, which may be names of files."""
    return [getattr(one, "array", None) for one in options.derive.values()]


def file_names(values: Iterable[Any]) -> list[str]:
    """Return the values that are names of existing files, or URLs, because options may name files to read."""
    given = [value for value in values if value is not None]  # most are None: five checks take 2 µs
    names = [os.fspath(value) for value in given if isinstance(value, str | os.PathLike)]
    return [name for name in names if "://" in name or os.path.isfile(name)]
