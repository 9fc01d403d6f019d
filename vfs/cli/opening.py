"""Opens the data sets that a command names."""

from __future__ import annotations

import glob
import os
import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vfs.cli.flags import Settings, converted
from vfs.cli.printing import raise_all, say
from vfs.cli.waiting import may_open_later
from vfs.errors import (
    FormatError,
    MissingSourceError,
    OptionError,
    SourceError,
    UnknownFormatError,
    VfsError,
)
from vfs.model.naming import ROOTS
from vfs.sources.archive_names import in_archive
from vfs.sources.missing import why_missing
from vfs.sources.names import is_url
from vfs.sources.urls import given as given_url

if TYPE_CHECKING:
    from vfs.engine.cache import ChunkCache
    from vfs.sets.opening import OpenedSet

_LOOKS = 0.5  # seconds between two tries to open a set that is not there yet, with --follow


def open_set(
    paths: Sequence[str], settings: Settings, main: bool = False, cache: ChunkCache | None = None
) -> OpenedSet:
    """Open the paths as one set. With --follow it waits for what is not there yet, for `give_up` seconds at most.

    Args:
        main: require the main array: a set without it is an error, even if it has other arrays.
        cache: see `vfs.open`.

    Raises:
        OptionError: the format does not have an option, or not of this type.
        VfsError: see `vfs.open_group`.
    """
    until, said = time.monotonic() + settings.options.give_up, False
    while True:
        try:
            return _opened(paths, settings, main, cache)
        except (FormatError, SourceError) as error:
            options = settings.options
            if not options.follow or time.monotonic() >= until or not may_open_later(error, paths, options.settle):
                raise
            if not said:
                said = True
                say(f"{error}; waits until it can be opened (--give-up {settings.options.give_up:g})")
            time.sleep(min(_LOOKS, max(0.0, until - time.monotonic())))


def _opened(paths: Sequence[str], settings: Settings, main: bool, cache: ChunkCache | None) -> OpenedSet:
    from vfs.sets.opening import open_set as opened
    from vfs.sets.opening import refuse_without_main, warned

    for path in paths:
        _check_name(path)
    found = opened(paths, settings.options, settings.format_options, cache, convert=converted)
    if main:
        refuse_without_main(found)
    return warned(found)


def _check_name(path: str) -> None:
    """Refuse a path that cannot be a data set.

    Raises:
        OptionError: the path is empty, or a folder.
        MissingSourceError: the file does not exist; the message proposes an existing name that is
            similar.
    """
    if not path:
        raise OptionError("expected the name of a file, found an empty one")
    if is_folder(path):
        raise folder_given(path)
    if is_url(path) or in_archive(path):
        return
    if os.path.lexists(path) or glob.has_magic(path):
        return
    raise MissingSourceError(why_missing(path))


def is_folder(name: str) -> bool:
    """Return True for a folder of this machine, an archive, a folder in one, and for a URL with a slash at its end."""
    if in_archive(name) is not None:
        from vfs.sources.archives import is_folder_in_archive

        return is_folder_in_archive(name)
    return name.endswith("/") if is_url(name) else os.path.isdir(name)


def _real(name: str) -> str:
    """Return the real path of a file of this machine; a URL stays."""
    return given_url(name) if is_url(name) else os.path.realpath(name)


def folder_given(path: str, serve: bool = False) -> OptionError:
    """Return the error for a folder where a file is expected.

    Args:
        serve: say how it is served, not how it is mounted.
    """
    if is_zarr(path):
        return OptionError(f"{path}: is a zarr store already; open it with any program that reads zarr")
    typed = shlex.quote(path)
    shows = f"serve --tree {typed}" if serve else f"mount --tree {typed} MOUNTPOINT"
    return OptionError(
        f"{path}: is a folder; `vfs info {typed}` lists the data sets in it, `vfs {shows}` shows them all"
    )


def is_zarr(folder: str) -> bool:
    """Return True if a folder is a zarr group or array."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in ROOTS)


def open_all(
    arguments: Sequence[str], settings: Settings, failed: list[VfsError] | None = None, cache: ChunkCache | None = None
) -> list[OpenedSet]:
    """Open each argument as a set, but skip files that belong to the set of another argument.

    So `scan_*.mib` without quotes, which the shell turns into many names, opens as one scan, and so
    do the files of a set of which one alone opens, such as a .raw and its .rpl.

    Args:
        failed: receives the errors of sets that cannot be opened; None: raise the first one.
        cache: see `vfs.open`.
    """
    from vfs.sources.globs import series

    groups: dict[str, OpenedSet] = {}
    files: dict[str, set[str]] = {}
    shown: dict[str, list[str]] = {}
    unknown: dict[str, UnknownFormatError] = {}  # may belong to the set of a later argument
    for argument in arguments:
        path = _real(argument)
        owner = next((name for name in groups if path in files[name]), None)
        if owner is not None:
            shown.setdefault(owner, []).append(argument)
            continue
        try:
            group = open_set([argument], settings, cache=cache)
        except UnknownFormatError as error:
            unknown[argument] = error
            continue
        except VfsError as error:
            if failed is None:
                raise
            failed.append(error)
            continue
        here = {_real(name) for array in group.arrays.values() for name in array.files}
        # These arguments came before the one whose set has them
        for name in [name for name in (*groups, *unknown) if _real(name) in here]:
            shown.setdefault(argument, []).extend([name, *shown.pop(name, [])])
            for seen in (groups, files, unknown):
                seen.pop(name, None)
        groups[argument], files[argument] = group, here | {path}
    if failed is None:
        raise_all([*unknown.values()][:1])
    else:
        failed += unknown.values()
    for owner, names in shown.items():
        say(f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: in the set of {owner}, shown once")
    if len(groups) > 1 and (pattern := series([*groups])):
        say(f"{len(groups)} files opened as {len(groups)} data sets; a quoted glob ({pattern!r}) opens them as one")
    return list(groups.values())


def warn_of_chunks(groups: Sequence[OpenedSet]) -> None:
    """Warn on stderr about arrays whose chunks make every read much larger than the request."""
    for group in groups:
        for path, array in group.arrays.items():
            if array.chunking.warning:
                say(f"warning: {group.name} {path}: {array.chunking.warning}")
