"""Finds files by names and patterns: `scan_*.mib`, `**` for folders in folders."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import filter as fitting
from glob import has_magic
from typing import Any

from vfs.errors import MissingSourceError, OptionError, SourceError
from vfs.model.name_order import in_order, numbers_in
from vfs.model.signatures import Paths
from vfs.model.sources import Sources
from vfs.model.wording import shown
from vfs.sources.boundary import Boundary
from vfs.sources.local import LocalSources
from vfs.sources.names import absolute, beside, is_url, split, splitext
from vfs.sources.urls import given as given_url
from vfs.sources.urls import without_query

_WILD = re.compile(r"[*?[]")


def expand(
    paths: Paths,
    sources: Sources | None = None,
    follow_outside: bool = False,
) -> list[str]:
    """Turn names and globs into the names of files, which are absolute from here on.

    Files that a glob finds are in the order of the numbers in their names (see
    `vfs.model.name_order`), named files in the given order.

    Args:
        sources: where to look for them; None for this machine.
        follow_outside: a glob may find links that lead out of the folder in which it searches.

    Raises:
        OutsideError: a glob finds such a link.
        OptionError: nothing is given.
        MissingSourceError: a glob finds nothing.
    """
    found = []
    for item in paths if not isinstance(paths, str | os.PathLike) and isinstance(paths, Iterable) else (paths,):
        name = file_name(item)
        name = given_url(name) if "://" in name else name
        path = absolute(name) if name else name  # an empty name is not that of the folder
        if not has_magic(name) or _wildcard(name) < 0:
            found.append(path)
            continue
        looked = LocalSources() if sources is None else sources
        if _files(looked, [path]):
            found.append(path)
            continue
        start, pattern = _fixed(path)
        hits = in_order(_files(looked, [*_matches(looked, start, pattern.split("/"))]))
        if not hits:
            raise MissingSourceError(f"{name}: no file matches")
        if sources is None and not follow_outside:  # the user named the glob, not these files
            searched = Boundary.around([f"{start}/x"])
            for hit in hits:
                searched.check(hit)
        found += hits
    twice = [name for name, count in Counter(filter(is_url, found)).items() if count > 1]
    if twice:
        raise OptionError(f"{twice[0]}: is given more than once; URLs that differ only after a ? are one file here")
    if not found:
        raise OptionError("no file given: expected a file, several files, or a glob")
    return found


def starts(paths: Paths) -> list[str]:
    """Return a name in each folder in which `expand` looks for files: that of a file, or one for what a glob finds."""
    names = [absolute(given_url(name)) for name in names_given(paths) if name]
    return [f"{_fixed(name)[0]}/x" if _wildcard(name) >= 0 else name for name in names]


def _fixed(pattern: str) -> tuple[str, str]:
    """Cut a pattern into the folder in which it searches, and the rest."""
    cut = pattern.rindex("/", 0, _wildcard(pattern))
    return pattern[:cut], pattern[cut + 1 :]


def _wildcard(name: str) -> int:
    """Return where the first wildcard of a name is, -1 if it has none. The host of a URL has none: `http://[::1]/x`."""
    found = _WILD.search(name, name.find("/", name.index("://") + 3) if is_url(name) else 0)
    return found.start() if found else -1


def _matches(sources: Sources, folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield the names below a folder that fit a pattern. Those without a wildcard may not exist."""
    part, *rest = parts
    if not has_magic(part):
        names: Sequence[str] = [part]
    else:
        try:
            names = sources.names(folder or "/")
        except SourceError:
            return
        pattern = "*" if part == "**" else part
        hidden = pattern.startswith(".")
        names = [name for name in fitting(names, pattern) if hidden or not name.startswith(".")]
    if part == "**" and rest:
        yield from _matches(sources, folder, rest)
    for name in names:
        path = f"{folder}/{name}"
        if part == "**":
            if not rest:
                yield path
            yield from _matches(sources, path, parts)
        elif rest:
            yield from _matches(sources, path, rest)
        else:
            yield path


def _files(sources: Sources, names: Sequence[str]) -> list[str]:
    """Return those names that are files. Sources that take long to answer are asked for all of them at once."""
    found = zip(names, sources.states(names), strict=True)
    return [name for name, state in found if not isinstance(state, SourceError)]


def series(paths: Sequence[str]) -> str | None:
    """Return a glob for files whose names differ only in numbers and their signs; None if they differ in more."""
    folders, names = zip(*map(split, paths), strict=True)
    stems, endings = zip(*map(splitext, names), strict=True)
    found = numbers_in(stems)
    if found is None or len({*folders}) > 1 or len({*endings}) > 1:
        return None
    places, behind = found
    if not all(place.signed or len({*place.signs}) == 1 for place in places):
        return None
    texts = [place.before + ("" if place.signed else place.signs[0]) + "*" for place in places]
    return beside(paths[0], "".join(texts) + behind + str(endings[0]))


def names_given(paths: Paths) -> list[str]:
    """Return what a user gives, one name or several, as a list.

    Raises:
        OptionError: one of them cannot be the name of a file.
    """
    several = paths if not isinstance(paths, str | os.PathLike) and isinstance(paths, Iterable) else (paths,)
    return list(map(file_name, several))


def file_name(given: Any) -> str:
    """Return the text of a name or path, after checking that it can be the name of a file; a URL without its query.

    Raises:
        OptionError: it cannot.
    """
    try:
        name = os.fspath(given)
        if isinstance(name, str) and "\0" not in name and (name.isascii() or os.fsencode(name)):
            return without_query(name) if "?" in name else name
    except (TypeError, UnicodeEncodeError):
        pass
    raise OptionError(f"{shown(given)}: expected the name of a file, several of them in a list, or a glob")
