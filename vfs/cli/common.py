"""Shared parts of the commands: the options for opening data, opening it, and printing."""

from __future__ import annotations

import codecs
import glob
import inspect
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vfs.cli.waiting import may_open_later
from vfs.errors import (
    FormatError,
    MissingSourceError,
    OptionError,
    SourceChangedError,
    SourceError,
    TruncatedSourceError,
    UnknownFormatError,
    VfsError,
    printable,
)
from vfs.model.naming import ROOTS
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import FILES, READING, USUAL, Known, Scope, known
from vfs.model.options import from_text, kinds, named
from vfs.model.wording import flag
from vfs.sources.missing import why_missing
from vfs.sources.names import is_url
from vfs.sources.urls import given as given_url
from vfs.streams import give_up

if TYPE_CHECKING:
    from vfs.engine.cache import ChunkCache
    from vfs.formats import Format
    from vfs.outputs.place import OutputPlace
    from vfs.sets.opening import OpenedSet

_LOOKS = 0.5  # seconds between two tries to open a set that is not there yet, with --follow

Datasets = Annotated[
    list[str],
    typer.Argument(
        metavar="DATASET",
        help=(
            "A file of a data set (scan.hdr, scan.mib, set.ome.tif), a quoted glob ('part*.raw'), or a description "
            "(*.vfs.json)."
        ),
    ),
]


OF_IMAGES = ("ngff", "pyramid_cache", "pyramid_cache_size")
"""Options of the faces that show images with levels, which have no effect on commands that show none."""


CHANGED = SourceChangedError, TruncatedSourceError
"""Errors behind which nothing that was interrupted goes on: that needs the same data."""


Colours = Annotated[
    str, typer.Option(metavar="MAP", help="Colours of pictures: grey, viridis, magma, inferno or diverging.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@dataclass(frozen=True)
class Settings:
    """The options for opening data that stand on a command line.

    Attributes:
        options: the options for every format.
        format_options: option of the format -> its text, from `-o KEY=VALUE`.
        zarr_format: 3 or 2; None if the command line does not say.
    """

    options: OpenOptions
    format_options: Mapping[str, str]
    zarr_format: int | None

    def given(self, *scopes: Scope) -> dict[str, bool]:
        """Return the options for every format whose values are not the default, as {"--name": True}.

        Args:
            scopes: return only options about one of these.
        """
        return {
            flag(name): True for name in self.options.said() if known(type(self.options))[name].about.scope in scopes
        }

    def format_options_of_all(self) -> dict[str, Any]:
        """Return the options of the format, converted, for all data sets of a folder.

        Raises:
            OptionError: such options are given without --format.
        """
        from vfs.formats import by_name

        if self.format_options and not self.options.format:
            raise OptionError(
                f"-o {next(iter(self.format_options))}: an option of a format; for a folder, name the format with"
                " --format"
            )
        return converted(by_name(self.options.format), self.format_options) if self.options.format else {}


def _flags(options: type[OpenOptions], refused: Collection[str], usual: Collection[str]) -> list[inspect.Parameter]:
    """Return the options of a class as parameters for typer; those that are refused are in no help, usual ones first.

    They include -o and --zarr-format, which are fields of no class. Options that the class adds to
    `OpenOptions` come first in the help, since they belong to the command itself.
    """
    common = known(OpenOptions)
    own = [_flag(name, option, refused, usual) for name, option in known(options).items() if name not in common]
    first, *others = [_flag(name, option, refused, usual) for name, option in common.items()]
    version = typer.Option(
        metavar="3|2",
        help="Version of zarr: export writes this one, mount shows only this one, info prints its metadata.",
        hidden="zarr_format" in refused,
        rich_help_panel=READING,
    )
    zarr_format = _parameter("zarr_format", Annotated[int | None, version], None)
    return [*own, first, _parameter("option", _PAIRS, None), *others, zarr_format]


_PAIRS = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        help="Set an option of the format (`vfs formats` lists them). May be repeated.",
        rich_help_panel=FILES,
    ),
]


def _flag(name: str, option: Known, refused: Collection[str], usual: Collection[str]) -> inspect.Parameter:
    """Return an option as a parameter for typer.

    Typer parses numbers and switches; other values stay texts, which the user of the option parses.
    """
    default, annotation, about = option
    taken: Any = list[str] if about.several else _TYPED.get(kinds(annotation), str)
    names = (flag(name),) if taken is bool else ()  # one flag, not --name/--no-name
    typed = typer.Option(
        *names,
        metavar=about.metavar,
        help=about.help,
        hidden=about.hidden or name in refused,
        rich_help_panel=USUAL if name in usual else about.group or None,
    )
    return _parameter(name, Annotated[taken | None if default is None else taken, typed], default)


_TYPED = {(bool,): bool, (int,): int, (float,): float}


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _settings(
    options: type[OpenOptions], *, option: Sequence[str] | None, zarr_format: int | None, **common: Any
) -> Settings:
    """Make `Settings` from the values that typer parsed.

    Raises:
        OptionError: a value is empty, or the zarr format is neither 3 nor 2.
    """
    if zarr_format not in (None, 2, 3):
        raise OptionError(f"--zarr-format {zarr_format}: expected 3 or 2")
    for name, value in common.items():
        if value == "":
            raise OptionError(f"{flag(name)}: expected a value, found an empty one")
    common = {name: None if value == [] else value for name, value in common.items()}  # what may be given several times
    return Settings(options(**common), _pairs(option or ()), zarr_format)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Split the texts of `-o` into {key: value}. Keys may be written with - for _.

    Raises:
        OptionError: a text is not KEY=VALUE; a key is given twice.
    """
    given: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OptionError(f"-o {text}: expected KEY=VALUE (`vfs formats` lists the options)")
        key = key.replace("-", "_")
        if key in given:
            raise OptionError(f"-o {key}: given twice, as {given[key]} and as {value}")
        given[key] = value
    return given


def opens(
    options: type[OpenOptions] = OpenOptions,
    refused: Collection[str] = (),
    where: str = "",
    usual: Collection[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options for opening data to a command, which receives them as its argument `settings`.

    Args:
        options: the class whose fields are the options.
        refused: names of options that have no effect on this command: an error, and not in its help.
        where: completes the message "--option has no effect …".
        usual: names of options that the help has first.
    """

    def opening(command: Callable[..., None]) -> Callable[..., None]:
        flags = _flags(options, refused, usual)

        def run(**given: Any) -> None:
            typed = {parameter.name: given.pop(parameter.name) for parameter in flags}
            settings = _settings(options, **typed)
            said = settings.options.said() | {"zarr_format": settings.zarr_format}
            refuse({flag(name): said.get(name) for name in refused}, where)
            command(**given, settings=settings)

        signature = inspect.signature(command, eval_str=True)
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.name != "settings"]
        parameters = [*own, *flags]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return opening


def line(text: str) -> str:
    """Return a note as it is printed: one line that starts with the name of the program."""
    return f"vfs: {printable(text)}"


def say(text: str) -> None:
    """Print a note on stderr. Does not fail if stderr cannot be written to."""
    try:
        print(line(text), file=sys.stderr, flush=True)
    except OSError:
        give_up(2)


def say_how_to_go_on(error: BaseException, target: str, place: OutputPlace) -> None:
    """Say what to do with what is unfinished: in the message of the error, or after Ctrl-C in its own.

    Args:
        error: ended it, and is raised again.
        target: what is unfinished.
        place: where it is written.
    """
    if place.noted():
        how = f"the same command with --resume continues from what {place.holds} holds"
        if isinstance(error, CHANGED):
            how = f"remove {place.holds} and {place.marks}, and start again"
    elif place.begun():  # somebody removed what tells of it
        how = f"remove {place.holds}, and start again"
    else:
        return
    if isinstance(error, VfsError):
        error.args = (*error.args[:-1], f"{error}; {how}")
    else:
        say(f"{target}: is not complete; {how}")


def put(text: str, end: str = "\n") -> None:
    """Print the result of a command on stdout.

    Args:
        end: what comes behind it.

    Raises:
        typer.Exit: with status 2, after a note: stdout cannot be written to.
        BrokenPipeError: the program that reads stdout has ended.
    """
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        give_up(1)
        say(f"standard output cannot be written to: {error.strerror}")
        raise typer.Exit(2) from None


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
    if is_url(path):
        return
    if os.path.lexists(path) or glob.has_magic(path):
        return
    raise MissingSourceError(why_missing(path))


def is_folder(name: str) -> bool:
    """Return True for a folder of this machine, and for a URL with a slash at its end."""
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


def refuse(given: Mapping[str, object], where: str) -> None:
    """Refuse options that would have no effect.

    Args:
        given: option as it is typed -> its value, false if it is not given.
        where: completes the message "--option has no effect …".

    Raises:
        OptionError: one of them is given.
    """
    for name, value in given.items():
        if value:
            raise OptionError(f"{name} has no effect {where}")


def raise_all(failed: Sequence[VfsError]) -> None:
    """Print errors, one line each, but the last one, which is raised. Does nothing without errors."""
    for error in failed[:-1]:
        say(str(error))
    if failed:
        raise failed[-1]


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


def converted(kind: Format, given: Mapping[str, str]) -> dict[str, Any]:
    """Convert the texts of `-o` to the types of the format's options.

    For headerless data, `-o dtype` says what the pixels in the file are; `--dtype` says what to
    convert them to.

    Raises:
        OptionError: the format has no such option, or a text is not a value of it.
    """
    texts = dict(given)
    if "dtype" in texts and "stored_dtype" in kind.options:
        if "stored_dtype" in texts:
            raise OptionError("-o dtype and -o stored_dtype are the same option; give one")
        texts["stored_dtype"] = texts.pop("dtype")
    kind.check_options(texts)
    found = {}
    for name, text in texts.items():
        annotation = kind.options[name].annotation
        try:
            found[name] = from_text(text, annotation)
        except ValueError:
            raise OptionError(f"-o {name}={text}: expected {named(annotation)}") from None
    return found


def document(value: Any, indent: int | None = 1) -> str:
    """Return a value as JSON that people can read, too: indented, and not escaped where stdout takes all characters."""
    return json.dumps(value, indent=indent, ensure_ascii=_is_narrow(sys.stdout))


def _is_narrow(stream: Any) -> bool:
    """Return True if a stream has an encoding that lacks characters: those would be escaped as Python does."""
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name != "utf-8"
