"""Defines `Format`, and finds the format of a file.

A format is one module here (or in any package) with a `Format`, registered by an entry point of the
group `vfs.formats`. It reads headers and sizes and returns data sets; the engine reads the pixels.
Keyword-only parameters of its `open` are its options; their lines in the docstring are the help of
the options.
"""

from __future__ import annotations

import difflib
import inspect
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from vfs.errors import NOT_INSTALLED, DependencyError, FormatError, OptionError, UnknownFormatError
from vfs.formats.first_bytes import may_be
from vfs.formats.headers import exists
from vfs.model.libraries import Library
from vfs.model.metadata import Term
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import known as known_options
from vfs.model.options import fitting, kinds
from vfs.model.signatures import Path
from vfs.model.sources import Sources
from vfs.model.stored import Saved, StoredArray
from vfs.model.wording import ANY, format_option, option, option_names
from vfs.own_code import check
from vfs.sources.names import absolute, basename, splitext
from vfs.sources.packed import bare, unpacking

FIRST_BYTES = 4096  # of a file, which `sniff` receives
_FILE = {*kinds(Path)}  # annotation of an option that names a file
HEADERLESS = "raw"  # a format that is never detected, only chosen by name


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        name: name of the format, as in `--format NAME`.
        extensions: endings of files that name a set, lower case, with the dot. The longest one that
            fits is cut off to name a data set.
        url: address of the specification or of the maker.
        summary: one line about the format.
        sniff: (path, first bytes, sources) -> True if the file is of this format. It gets at most
            `FIRST_BYTES`, must be cheap, and may not raise. Few formats need to ask the sources for more.
            None: only `first_bytes` tell.
        open: (paths, sources, *, options) -> data sets. `main` of each says whether it is what the makers' own
            program shows first; where no data set says so, the largest is. One path names its set;
            several paths are the set. A file that only records how another set is opened returns a `Saved`.
        index_extensions: endings of files whose only purpose is to name a set. When a folder is
            searched for sets, they come before the other files.
        single: True if one file is a set, or names it: several that are given are refused.
        terms: what the metadata of its arrays say, in the vocabulary of `vfs.model.metadata`.
        first_bytes: beginnings of files that are of this format, whatever else is in them. `sniff` is asked of others.
        original: (paths, sources) -> all that the files of a set say, a tree of values that JSON can hold, read when
            somebody asks for it. Its entry `left_out` has a line for each thing that is not there, such as thumbnails.
            None: the metadata of the arrays are all.
        library: the library of others that reads the files; None: vfs reads them itself.
    """

    name: str
    extensions: tuple[str, ...]
    url: str
    summary: str
    sniff: Callable[[str, bytes, Sources], bool] | None
    open: Callable[..., Sequence[StoredArray] | Saved]
    index_extensions: tuple[str, ...] = ()
    single: bool = False
    terms: tuple[Term, ...] = ()
    first_bytes: tuple[bytes, ...] = ()
    original: Callable[[Sequence[str], Sources], Mapping[str, Any]] | None = None
    library: Library | None = None

    def claims(self, path: str, first_bytes: bytes, sources: Sources) -> bool:
        """Return True if a file is of this format, by its first bytes."""
        return first_bytes.startswith(self.first_bytes) or (
            self.sniff is not None and self.sniff(bare(path), first_bytes, sources)
        )

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options of the format: name -> parameter of `open`."""
        return _options(self.open)

    def help(self, option: str) -> str:
        """Return the help of an option, from the docstring of `open`."""
        found = re.search(rf"^\s+{option}: (.+(?:\n {{8,}}.+)*)", inspect.getdoc(self.open) or "", re.M)
        return " ".join(found[1].split()) if found else ""

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Refuse options that the format does not have.

        Raises:
            OptionError: it does not have one of them.
        """
        options = self.options
        for name in given:
            if name not in options:
                near = difflib.get_close_matches(name, options, 1)
                known = ", ".join(options) or "none"
                others = " and ".join(other.name for other in formats().values() if name in other.options)
                common = difflib.get_close_matches(name, known_options(OpenOptions), 1, cutoff=0.7)  # of all formats
                if near or (common and not others):
                    hint = f" (did you mean {near[0] if near else option_names(common[0])}?)"
                else:
                    hint = f", {others} has" if others else ""
                raise OptionError(f"format {self.name} has no option {name!r}{hint}; its options: {known}")

    def check_paths(self, paths: Sequence[str]) -> None:
        """Refuse several files where one is a set.

        Raises:
            OptionError: several are given.
        """
        if self.single and len(paths) > 1:
            raise OptionError(
                f"{paths[1]}: each file is, or names, a set of its own in the format {self.name}; open one at a time"
            )

    def fitted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Convert options to the types that the format takes. The names of files become absolute.

        Raises:
            OptionError: the format has no such option, or it takes another type.
        """
        options = self.options
        if not given.keys() <= options.keys():
            self.check_options(given)
        found = {}
        for name, value in given.items():
            annotation = options[name].annotation
            found[name] = (
                value if {type(value), Any} & {*kinds(annotation)} else fitting(name, value, annotation, format_option)
            )
            if {*kinds(annotation)} >= _FILE and value is not None:
                found[name] = absolute(found[name])
        return found

    def label(self, path: str) -> str:
        """Return the name of a data set: the file's name without the format's ending, or without its last one."""
        name = bare(basename(path))
        for ending in sorted(self.extensions, key=len, reverse=True):
            if name.lower().endswith(ending) and len(name) > len(ending):
                return name[: -len(ending)]
        return splitext(name)[0] or name


@cache
def _options(open: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return {n: p for n, p in inspect.signature(open, eval_str=True).parameters.items() if p.kind is p.KEYWORD_ONLY}


@cache
def _entries() -> dict[str, EntryPoint]:
    """Return the entry points of formats, by name.

    Raises:
        DependencyError: there are none, not even those of vfs.
    """
    found = {entry.name: entry for entry in sorted(entry_points(group="vfs.formats"), key=lambda e: e.name)}
    if not found:
        raise DependencyError(f"no format is known: {NOT_INSTALLED}")
    return found


@cache
def _loaded(name: str) -> Format | None:
    """Import the format of that name; None if it does not load.

    Raises:
        DependencyError: it may be of another version than what is loaded: see `vfs.own_code.check`.
    """
    entry = _entries()[name]
    check()
    try:
        found: Format = entry.load()
    except Exception as error:  # a module of another package may raise anything
        warnings.warn(f"format {name} ({entry.value}) does not load: {error}", RuntimeWarning, stacklevel=3)
        return None
    return found


@cache
def formats() -> dict[str, Format]:
    """Return every known format by name, from the entry points `vfs.formats`.

    Raises:
        DependencyError: there is none.

    Warns:
        RuntimeWarning: a package's format does not load; the others work.
    """
    return {name: found for name in _entries() if (found := _loaded(name)) is not None}


def _named_by(sources: Sources, path: str) -> str:
    """Return the name of a file beside this one that has its stem and names a set; "" if there is none."""
    stem = splitext(path)[0]
    endings = (e for f in formats().values() for e in f.index_extensions)
    tried = (stem + e for ending in endings for e in (ending, ending.upper()))
    return next((basename(other) for other in tried if other != path and exists(sources, other)), "")


def by_name(name: str) -> Format:
    """Return the format with a name. The others are not imported.

    Raises:
        OptionError: there is no such format.
    """
    if name in _entries() and (found := _loaded(name)) is not None:
        return found
    known = formats()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name).lower(), known, 1)
    raise OptionError(
        f"no format is called {name!r}{f' (did you mean {near[0]}?)' if near else ''}; known: {', '.join(known)}"
    )


_WEB_PAGE = "a web page, as some downloads leave it in place of the file", "download it again"
_NO_DATA = {
    b"<!doctype html": _WEB_PAGE,
    b"<html": _WEB_PAGE,
    b"version https://git-lfs": ("a pointer of Git LFS", "`git lfs pull` fetches the file itself"),
    b"/annex/objects/": ("a pointer of git-annex", "`git annex get` fetches the file itself"),
}
"""Beginnings of files that stand in for data, in lower case -> (what they are, what to do)."""


def detect(sources: Sources, path: str, given: Collection[str] = ()) -> Format:
    """Return the format of a file by its first bytes; if that leaves it open, by the options that are given.

    Args:
        given: names of options of formats.

    Raises:
        MissingSourceError, SourceError: it cannot be read.
        FormatError: it is empty.
        UnknownFormatError: no format claims it.
    """
    sources = unpacking(sources, path)
    first_bytes = sources.read(path, 0, FIRST_BYTES)
    if not first_bytes:
        raise FormatError(f"{path}: expected a detector file, found an empty one")
    named = bare(path).lower()
    asked = (_loaded(name) for name in _entries() if may_be(name, named, first_bytes))
    claims = [f for f in asked if f is not None and f.claims(path, first_bytes, sources)]
    if len(claims) == 1:
        return claims[0]
    candidates = [f for f in claims or formats().values() if given and {*given} <= f.options.keys()]
    if not claims and not candidates:  # one that has some of them says which one it does not have
        shared = {f.name: len(f.options.keys() & {*given}) for f in formats().values()}
        most = max([1, *shared.values()])
        candidates = [f for f in formats().values() if shared[f.name] == most]
    if len(candidates) == 1:
        return candidates[0]
    if candidates and not claims:
        names = " or ".join(f.name for f in candidates)
        raise UnknownFormatError(
            f"{path}: no format recognises it, and {', '.join(given)} may be of {names};"
            f" choose one with {option(format=ANY)}"
        )
    if claims:
        raise UnknownFormatError(
            f"{path}: could be {' or '.join(f.name for f in claims)}; choose one with {option(format=ANY)}"
        )
    if name := _named_by(sources, path):
        raise UnknownFormatError(f"{path}: no format recognises it by itself; {name} beside it names a set: open that")
    for mark, (found, advice) in _NO_DATA.items():
        if first_bytes.lstrip()[: len(mark)].lower() == mark:
            raise UnknownFormatError(f"{path}: expected a detector file, found {found}; {advice}")
    like = [f.name for f in formats().values() if path.lower().endswith(f.extensions) and f.name != HEADERLESS]
    hint = f"its name looks like {' or '.join(like)}, its content does not; " if like else ""
    raise UnknownFormatError(
        f"{path}: no format recognises it ({hint}it begins with {first_bytes[:8]!r}); pixels without headers open with,"
        f" for example, {format_option(stored_dtype='u2', sig_shape=(256, 256))}"
    )
