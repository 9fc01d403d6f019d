"""The commands. Each opens data through `vfs.open_group` and shows what it finds; nothing is decided here.

What the user did wrong, and what cannot be read, is one line on stderr, `vfs: …`, and exit status 2; Ctrl-C is 130, a bug 1
with a hint at VFS_DEBUG=1, which shows tracebacks, and a reader of our output who ends (`vfs info … | head`) a quiet 1. Programs
get JSON with `--json` on stdout, notes go to stderr. Everything heavy is imported inside the commands: help comes at once.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from io import TextIOWrapper
from types import FrameType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from vfs.errors import MountError, OptionError, VfsError, printable

if TYPE_CHECKING:
    from vfs.api import VirtualGroup
    from vfs.forest import Forest
    from vfs.formats import Format
    from vfs.mount.status import Status
    from vfs.tree import Shown

app = typer.Typer(
    name="vfs",
    help="Scattered detector files as one zarr store and one mounted directory, without converting anything.",
    epilog="Exit status: 0 done, also of a mount that a signal ended; 1 a bug, or nobody reads the output; 2 what cannot be opened, read, mounted or "
    "understood, with one line that says why; 129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Datasets = Annotated[
    list[str],
    typer.Argument(metavar="DATASET", help="A file that names its set (scan.hdr, scan.mib, set.ome.tif), a quoted glob, or a *.vfs.json description."),
]


class LogLevel(StrEnum):
    """What a mount logs, and what is worse."""

    error = "error"
    warning = "warning"
    info = "info"
    debug = "debug"


Json = Annotated[bool, typer.Option("--json", help="For programs.")]


@dataclass(frozen=True)
class Settings:
    """How data is to be opened: arguments of `vfs.open_group`, and the text of `-o KEY=VALUE`."""

    format: str | None
    options: Mapping[str, str]
    zarr_format: int | None
    common: Mapping[str, Any]


def _settings(
    *,
    format: Annotated[str | None, typer.Option(metavar="NAME", help="Format of the files; by default their first bytes tell.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", metavar="KEY=VALUE", help="Option of the format (see `vfs formats`); any number.")
    ] = None,
    array: Annotated[str | None, typer.Option(metavar="NAME", help="Only this array of a container, as the main one.")] = None,
    chunks: Annotated[str, typer.Option(metavar="SPEC", help="auto, frames, scan, balanced, a size (4MiB), or elements per axis (1,16,-1,-1).")] = "auto",
    nav_shape: Annotated[str | None, typer.Option(metavar="A,B", help="Shape of the scan, slowest axis first.")] = None,
    sync_offset: Annotated[int, typer.Option(metavar="N", help="Skip N frames at the start; negative: N blank frames first.")] = 0,
    roi: Annotated[str | None, typer.Option(metavar="FILE.npy", help="Mask over the scan, or list of positions: only these frames.")] = None,
    dtype: Annotated[str | None, typer.Option(metavar="T", help="Convert pixels to it (f4, u2, ...).")] = None,
    dark: Annotated[str | None, typer.Option(metavar="F", help="File or array of the set that is subtracted from every frame.")] = None,
    gain: Annotated[str | None, typer.Option(metavar="F", help="File or array of the set that every frame is multiplied with.")] = None,
    dead: Annotated[str | None, typer.Option(metavar="F", help="Mask or coordinates of pixels that are replaced by their neighbours.")] = None,
    backend: Annotated[str, typer.Option(metavar="NAME", help="auto, mmap, buffered or direct.")] = "auto",
    accept_changes: Annotated[bool, typer.Option("--accept-changes", help="Read files that change after they were opened, instead of an error.")] = False,
    follow_outside: Annotated[bool, typer.Option("--follow-outside", help="Read files outside the folder of a set, where it or a link names them.")] = False,
    zarr_format: Annotated[int | None, typer.Option(metavar="3|2", help="Only this version of zarr (info: show what it says of the data).")] = None,
) -> Settings:
    """The options that every command has that opens data."""
    if zarr_format not in (None, 2, 3):
        raise OptionError(f"--zarr-format {zarr_format}: expected 3 or 2")
    given: dict[str, str] = {}
    for pair in option or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise OptionError(f"-o {pair}: expected KEY=VALUE")
        if key in given:
            raise OptionError(f"-o {key}: given twice, as {given[key]} and as {value}")
        given[key.replace("-", "_")] = value
    common = {
        "array": array,
        "chunks": chunks,
        "nav_shape": nav_shape,
        "sync_offset": sync_offset,
        "roi": roi,
        "dtype": dtype,
        "dark": dark,
        "gain": gain,
        "dead": dead,
        "backend": backend,
        "accept_changes": accept_changes,
        "follow_outside": follow_outside,
    }
    return Settings(format, given, zarr_format, common)


def _opens(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `_settings`, which it gets as its argument `settings`."""
    shared = inspect.signature(_settings, eval_str=True).parameters

    def run(**given: Any) -> None:
        common = {name: given.pop(name) for name in shared}
        command(**given, settings=_settings(**common))

    own = [p.replace(kind=p.KEYWORD_ONLY) for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "settings"]
    parameters = [*own, *shared.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


@app.callback(invoke_without_command=True)
def _root(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from vfs import __version__

        print(__version__)
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
@_opens
def info(
    datasets: Datasets,
    json_: Json = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Metadata, files, and why the chunks are what they are.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Print a *.vfs.json description instead: it opens as the same arrays.")] = False,
    explicit: Annotated[bool, typer.Option("--explicit", help="With --describe: say where every pixel is, for readers without the format.")] = False,
    *,
    settings: Settings,
) -> None:
    """Print what data sets are: format, arrays, shape, dtype, axes, chunks, files, scale."""
    from vfs import report

    groups = _open_all(datasets, settings)
    version = settings.zarr_format
    if describe:
        if len(groups) > 1:
            raise OptionError(f"--describe takes one data set, found {len(groups)}")
        print(_document(_description(groups[0], explicit)))
    elif json_:
        print(_document([report.as_json(group) | ({"zarr": _zarr_metadata(group, version)} if version else {}) for group in groups]))
    else:
        for group in groups:
            print("\n".join(map(printable, report.as_text(group, verbose))))
            if version:
                print(_document(_zarr_metadata(group, version)))


@app.command()
def formats(json_: Json = False) -> None:
    """List the formats, their extensions and options."""
    from vfs import report
    from vfs.formats import formats as known

    if json_:
        print(_document(report.formats_json(known())))
    else:
        print("\n".join(report.formats_text(known())))


@app.command()
@_opens
def mount(
    datasets: Datasets,
    mountpoint: Annotated[str, typer.Argument(metavar="MOUNTPOINT", help="An empty folder.")],
    tree: Annotated[bool, typer.Option("--tree", help="DATASET is a folder: show its subfolders, and every data set in them.")] = False,
    show_files: Annotated[bool, typer.Option("--show-files", help="With --tree: show files that are no data set, too.")] = False,
    background: Annotated[bool, typer.Option("--background", help="Return when it is mounted, and go on serving.")] = False,
    cache_size: Annotated[str, typer.Option("--cache-size", metavar="BYTES", help="Most bytes of decoded pieces that are kept (2GiB).")] = "256MiB",
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="Reads that are answered side by side; one a core, at least 4.")] = None,
    allow_other: Annotated[bool, typer.Option("--allow-other", help="Let in other users too.")] = False,
    direct_io: Annotated[bool, typer.Option("--direct-io", help="Past the kernel's cache: for reading once; files cannot be mapped.")] = False,
    log_level: Annotated[
        LogLevel | None, typer.Option("--log-level", metavar="LEVEL", help="error, warning, info (in the background), or debug: every request.")
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Show data sets as folders and files (NAME.zarr, NAME.v2.zarr, NAME.npy) until Ctrl-C or `vfs unmount`."""
    with _at_once():
        from vfs.api import folder, open_folder
        from vfs.backends import choice
        from vfs.cache import ChunkCache
        from vfs.console import tell_manager, terminal
        from vfs.mount import serve, start_in_background
        from vfs.report import count
        from vfs.tiling import as_bytes

        level = (log_level or (LogLevel.info if background else LogLevel.warning)).value
        limit = as_bytes(cache_size, "--cache-size")
        how: dict[str, Any] = {"workers": workers, "allow_other": allow_other, "direct_io": direct_io}
        if show_files and not tree:
            raise OptionError("--show-files goes with --tree")
        make: Callable[[], Shown]
        if tree:
            make = _forest(datasets, settings, limit, show_files)
            shown: Shown = make()  # opens nothing
            how["sources"] = [os.path.abspath(datasets[0])]
            what = f"the data sets in {datasets[0]}"
        else:
            cache = ChunkCache(limit)
            backend, _ = choice(settings.common["backend"], serves=True)
            groups = _open_all(datasets, replace(settings, common={**settings.common, "backend": backend, "cache": cache}))
            _warn_of_chunks(groups)
            make = partial(open_folder, [group.opening for group in groups], limit, settings.zarr_format)
            shown = folder(groups, cache, settings.zarr_format)
            how["sources"] = [group.opening.paths[0] for group in groups]
            what = count(len(groups), "data set")
        end = f"`vfs unmount {mountpoint}` ends it"
        if background:
            said = f"{what} at {mountpoint}; {end}, `vfs mounts` says how it does"
            start_in_background(make, mountpoint, say=lambda: _say(said), log_level=level, **how)
            return
        with terminal(level) as console:

            def ready() -> None:
                console.say(_line(f"{what} at {mountpoint}; Ctrl-C or {end}"))
                tell_manager("READY=1")

            def watch(status: Status) -> None:
                console.show(status)
                tell_manager(f"STATUS={status.counts()}")

            last = serve(shown, mountpoint, ready=ready, watch=watch, debug=level == "debug", **how)
            console.end()
            console.say(_line(f"{mountpoint}: {last.summary()}"))


@app.command()
def mounts(json_: Json = False) -> None:
    """List what this user has mounted: from what, since when, bytes served, cache hits, errors."""
    from vfs.console import mounts_json, mounts_text
    from vfs.mount import mounts as found

    if json_:
        print(_document(mounts_json(found())))
    else:
        print("\n".join(mounts_text(found())) or "nothing is mounted")


@app.command()
def unmount(
    mountpoint: Annotated[str | None, typer.Argument(metavar="MOUNTPOINT", help="Where it is mounted.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All that this user has mounted.")] = False,
    lazy: Annotated[bool, typer.Option("--lazy", help="Also where it is in use: what is open there can be read on.")] = False,
) -> None:
    """End a mount, or all of them."""
    from vfs.mount import mounts as found
    from vfs.mount import unmount as end

    if all_ == (mountpoint is not None):
        raise OptionError("expected a mount point, or --all")
    points = [mountpoint] if mountpoint is not None else [one.point for one in found() if one.state != "detached"]
    failed = []
    for point in points:
        try:
            if users := end(point, lazy=lazy):
                _say(f"{point}: still in use by {', '.join(users)}; it is served until they close what they have open")
        except MountError as error:
            failed.append(error)
    for earlier in failed[:-1]:
        _say(str(earlier))
    if failed:
        raise failed[-1]


@app.command()
@_opens
def export(
    datasets: Annotated[list[str], typer.Argument(metavar="DATASET", help="As for info; several files are one set here.")],
    target: Annotated[str, typer.Argument(metavar="OUT.zarr", help="The folder to be made.")],
    *,
    settings: Settings,
) -> None:
    """Write a data set as a real zarr store, with a progress bar."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from vfs.export import export as write
    from vfs.report import count
    from vfs.tiling import size

    group = _open(datasets, settings)
    _warn_of_chunks([group])
    total = sum(array.nbytes for array in group.values())
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with _cleaning(), Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(os.path.basename(target), total=total)
        write(group.tree, target, zarr_format=settings.zarr_format or 3, progress=lambda done: bar.advance(task, done))
    print(f"{target}: {count(len(group), 'array')}, {size(total)}")


@app.command()
def demo(keep: Annotated[str | None, typer.Option("--keep", metavar="DIR", help="Leave the files in this new folder.")] = None) -> None:
    """Write a small scan of several files, mount it, read it back through zarr, and show the result."""
    from vfs.demo import demo as run

    with _cleaning():
        run(keep)


def _line(text: str) -> str:
    return f"vfs: {printable(text)}"


def _say(text: str) -> None:
    print(_line(text), file=sys.stderr, flush=True)


def _open(paths: Sequence[str], settings: Settings) -> VirtualGroup:
    """Open the paths as one set.

    Raises:
        OptionError: an option that the format does not have or of another type; and what `vfs.open_group` raises.
    """
    from vfs.api import open_group
    from vfs.formats import by_name, detect
    from vfs.headers import expand

    names = expand(paths, settings.common["follow_outside"])
    kind = by_name(settings.format) if settings.format else detect(names[0])
    return open_group(names, format=kind.name, **settings.common, **_converted(kind, settings.options))


def _forest(folders: Sequence[str], settings: Settings, cache_size: int, show_files: bool) -> Callable[[], Forest]:
    """What makes what `--tree` shows; can be pickled.

    Raises:
        OptionError: several folders, or an option that is for a single data set.
    """
    from vfs.api import forest
    from vfs.formats import by_name

    if len(folders) != 1:
        raise OptionError(f"--tree shows one folder, found {len(folders)}")
    if settings.options and not settings.format:
        raise OptionError(f"-o {next(iter(settings.options))}: an option of a format; with --tree, say of which one with --format")
    own = _converted(by_name(settings.format), settings.options) if settings.format else {}
    return partial(
        forest, os.path.abspath(folders[0]), cache_size, settings.zarr_format, show_files=show_files, format=settings.format, **settings.common, **own
    )


def _open_all(arguments: Sequence[str], settings: Settings) -> list[VirtualGroup]:
    """Open each argument as a set, but not what belongs to the set of another argument: `scan_*.mib` unquoted is one scan."""
    groups: dict[str, VirtualGroup] = {}
    files: dict[str, set[str]] = {}
    shown: dict[str, list[str]] = {}
    for argument in arguments:
        path = os.path.realpath(argument)
        owner = next((name for name in groups if path in files[name]), None)
        if owner is not None:
            shown.setdefault(owner, []).append(argument)
            continue
        group = _open([argument], settings)
        here = {os.path.realpath(name) for array in group.values() for name in array.files}
        for name in [name for name in groups if os.path.realpath(name) in here]:  # named before the file that names the set
            shown.setdefault(argument, []).extend([name, *shown.pop(name, [])])
            del groups[name], files[name]
        groups[argument], files[argument] = group, here | {path}
    for owner, names in shown.items():
        _say(f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: in the set of {owner}, shown once")
    if len(groups) > 1 and len({_series(name) for name in groups}) == 1:
        _say(f"{len(groups)} files opened as {len(groups)} data sets; a quoted glob ({_series(argument)!r}) opens them as one")
    return list(groups.values())


def _warn_of_chunks(groups: Sequence[VirtualGroup]) -> None:
    for group in groups:
        for path, array in group.items():
            if array.chunking.warning:
                _say(f"warning: {group.name} {path}: {array.chunking.warning}")


def _series(path: str) -> str:
    """A glob for names that differ in their numbers only."""
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    return os.path.join(folder, re.sub(r"\d+", "*", stem) + ending)


def _converted(kind: Format, given: Mapping[str, str]) -> dict[str, Any]:
    """The texts of `-o` as the types that the format's options have.

    `-o dtype` of headerless data is what its pixels are, not what they are to be converted to.
    """
    texts = {"stored_dtype" if key == "dtype" and "stored_dtype" in kind.options else key: text for key, text in given.items()}
    kind.check_options(texts)
    found = {}
    for name, text in texts.items():
        annotation = kind.options[name].annotation
        try:
            found[name] = _value(text, annotation)
        except ValueError:
            wanted = [_NAMES.get(kind_, str(kind_)) for kind_ in _kinds(annotation)]
            raise OptionError(f"-o {name}={text}: expected {' or '.join(wanted)}") from None
    return found


_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _kinds(annotation: Any) -> list[Any]:
    """The types that an option may have, those first that take the fewest texts; for `Literal` its values."""
    if get_origin(annotation) in (Union, UnionType):
        members = [kind for member in get_args(annotation) if member is not NoneType for kind in _kinds(member)]
    else:
        members = [annotation] if get_origin(annotation) is not Literal else list(get_args(annotation))
    order = [bool, int, float]
    return sorted(members, key=lambda kind: order.index(kind) if kind in order else len(order) + (kind is str))


def _value(text: str, annotation: Any) -> Any:
    """The text of an option as one of its types. Raises ValueError where it is none of them."""
    for kind in _kinds(annotation):
        try:
            if kind is bool:
                return _WORDS[text.lower()]
            if kind is int:
                return int(text, 0)
            if kind is float:
                return float(text)
            if not isinstance(kind, type) and get_origin(kind) is None:  # a value of a Literal
                if text == str(kind):
                    return kind
                continue
            return text  # formats parse texts of their own kind: shapes, names
        except (KeyError, ValueError):
            continue
    raise ValueError(text)


def _description(group: VirtualGroup, explicit: bool) -> dict[str, Any]:
    """A description whose names are relative to the current folder, where the set lies in it, else to the folder of the set."""
    from vfs.describe import describe

    here = os.getcwd()
    named = [os.path.dirname(os.path.realpath(name)) for name in group.opening.paths]
    folder = here if os.path.commonpath([here, *named]) == here else os.path.commonpath(named)
    made = describe(group, folder, explicit=explicit, follow_outside=group.opening.boundary.unlimited)
    _say(f"save it in {folder}, as {group.name}.vfs.json: its names are relative to that folder")
    return made


def _zarr_metadata(group: VirtualGroup, version: int) -> Any:
    """The document that zarr clients open the tree by."""
    return json.loads(group.tree.zarr(version).documents["zarr.json" if version == 3 else ".zmetadata"])


def _document(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _terminated(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)  # lets `finally` clean up


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers, *numbers: signal.Signals) -> Iterator[None]:
    """Have signals handled so, in the main thread of a process (elsewhere they are somebody else's); ignored ones stay ignored, as under nohup."""
    here = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers if here and signal.getsignal(number) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _cleaning() -> AbstractContextManager[None]:
    """SIGTERM and SIGHUP let `finally` clean up, as SIGINT does by itself."""
    return _signals(_terminated, signal.SIGTERM, signal.SIGHUP)


def _at_once() -> AbstractContextManager[None]:
    """Ctrl-C ends us wherever we are, as the other signals do, for work that leaves nothing to clean up.

    An exception of a handler gets lost where it strikes inside a callback: of an import, of the compiler, of a weak reference.
    """
    return _signals(signal.SIG_DFL, signal.SIGINT)


@contextmanager
def _process() -> Iterator[None]:
    """What a process of our own needs: it warns in one line, and prints whatever names files have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *where: _say(f"warning: {message}")
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status; see the module."""
    debug = bool(os.environ.get("VFS_DEBUG"))
    try:
        with _process():
            status = app(list(sys.argv[1:] if arguments is None else arguments), prog_name="vfs", standalone_mode=False)
            sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody listens: the interpreter's last flush must not complain
        return 1  # as typer does, where it is the one to notice
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except VfsError as error:
        if debug:
            raise
        return _failed(str(error), 2)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # of click, which newer typers bring along under another name
        if usage is not None:
            where = getattr(getattr(error, "ctx", None), "command_path", "vfs")
            return _failed(f"{usage().rstrip('.')} (see {where} --help)", 2)
        if debug:
            raise
        return _failed(f"{type(error).__name__}: {error} (this is a bug in vfs; VFS_DEBUG=1 shows where)", 1)


def _failed(message: str, status: int) -> int:
    _say(" ".join(message.split()))
    return status


if __name__ == "__main__":
    sys.exit(main())
