"""The commands mount, mounts and unmount, which `vfs.cli` runs. Everything heavy is imported inside them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vfs.commands import Datasets, Json, Settings, document, line, open_all, opens, put, raise_all, say, signals, warn_of_chunks
from vfs.errors import MountError, OptionError, VfsError
from vfs.tables import width

if TYPE_CHECKING:
    from vfs.forest import Forest
    from vfs.mount.status import Status
    from vfs.tree import Shown


class LogLevel(StrEnum):
    """The least severe messages that a mount logs."""

    error = "error"
    warning = "warning"
    info = "info"
    debug = "debug"


@opens
def mount(
    datasets: Datasets,
    mountpoint: Annotated[str, typer.Argument(metavar="MOUNTPOINT", help="An empty folder, which shows the data sets while they are mounted.")],
    tree: Annotated[bool, typer.Option("--tree", help="DATASET is a folder: show it with its subfolders and every data set in them.")] = False,
    show_files: Annotated[bool, typer.Option("--show-files", help="With --tree: also show files that are no data set.")] = False,
    background: Annotated[bool, typer.Option("--background", help="Return when it is mounted; a process in the background serves it.")] = False,
    cache_size: Annotated[str, typer.Option("--cache-size", metavar="BYTES", help="Memory for decoded chunks that are kept (2GiB).")] = "256MiB",
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="How many reads are answered at once. Without it one a core, at least 4.")
    ] = None,
    allow_other: Annotated[bool, typer.Option("--allow-other", help="Let in other users, each to what he could read of the files himself.")] = False,
    direct_io: Annotated[bool, typer.Option("--direct-io", help="Bypass the kernel's cache: for reading once. Files cannot be mapped then.")] = False,
    log_level: Annotated[
        LogLevel | None,
        typer.Option("--log-level", metavar="LEVEL", help="error, warning (in the foreground), info (in the background), or debug: every request."),
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Show data sets in a folder, read-only, until Ctrl-C or `vfs unmount`.

    MOUNTPOINT then has for each data set NAME.zarr (zarr version 3), NAME.v2.zarr (version 2) and NAME.npy (the
    largest array as one file). Nothing is converted: bytes are computed when they are read.
    """
    with _at_once():
        from vfs.api import folder, open_folder
        from vfs.backends import choice
        from vfs.cache import ChunkCache
        from vfs.console import tell_manager, terminal
        from vfs.mount import start_in_background
        from vfs.mount.points import check_apart, mounted, resolve
        from vfs.report import count
        from vfs.tiling import as_bytes

        level = (log_level or (LogLevel.info if background else LogLevel.warning)).value
        limit = as_bytes(cache_size, "--cache-size")
        how: dict[str, Any] = {"workers": workers, "allow_other": allow_other, "direct_io": direct_io}
        point = resolve(mountpoint)
        if not mounted(point) and os.path.isfile(point):  # what is mounted there is not asked: its server may be stopped
            raise OptionError(f"{mountpoint}: expected a folder to mount on, found a file; the mount point comes last")
        if show_files and not tree:
            raise OptionError("--show-files goes with --tree")
        make: Callable[[], Shown]
        if tree:
            make = _forest(datasets, settings, limit, show_files)
            shown: Shown = make()  # opens nothing
            check_apart(mountpoint, datasets[0])
            how["sources"] = [os.path.abspath(datasets[0])]
            what = f"the data sets in {datasets[0]}"
        else:
            cache = ChunkCache(limit)
            backend, _ = choice(settings.common["backend"], serves=True)
            groups = open_all(datasets, replace(settings, common={**settings.common, "backend": backend, "cache": cache}))
            warn_of_chunks(groups)
            make = partial(open_folder, [group.opening for group in groups], limit, settings.zarr_format)
            shown = folder(groups, cache, settings.zarr_format)
            how["sources"] = [group.opening.paths[0] for group in groups]
            what = count(len(groups), "data set")
        end = f"`vfs unmount {quote(mountpoint)}` ends it"
        if background:
            said = f"{what} at {mountpoint}; {end}, `vfs mounts` shows what it has served"
            start_in_background(make, mountpoint, say=lambda: say(said), log_level=level, **how)
            return
        from vfs.mount import serve

        with terminal(level) as console:

            def ready() -> None:
                console.say(line(f"{what} at {mountpoint}; Ctrl-C or {end}"))
                tell_manager("READY=1")

            def watch(status: Status) -> None:
                console.show(status)
                tell_manager(f"STATUS={status.counts()}")

            last = serve(shown, mountpoint, ready=ready, watch=watch, debug=level == "debug", **how)
            console.end()
            console.say(line(f"{mountpoint}: {last.summary()}"))


def mounts(json_: Json = False) -> None:
    """List your mounts, a line each: since when, bytes served, share of cache hits, errors, from which files."""
    from vfs.console import mounts_json, mounts_text
    from vfs.mount import mounts as found

    if json_:
        put(document(mounts_json(found())))
    else:
        put("\n".join(mounts_text(found(), width())) or "nothing is mounted")


def unmount(
    mountpoint: Annotated[str | None, typer.Argument(metavar="MOUNTPOINT", help="The folder it is mounted on.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="End all of your mounts.")] = False,
    lazy: Annotated[bool, typer.Option("--lazy", help="Also end one that is in use: what is open there can be read on.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also end one whose readers still run: to them, what is gone may look like zeros.")] = False,
) -> None:
    """End a mount, or all of yours.

    Refused while a program that has read there still runs: it would take the empty folder for zeros.
    """
    from vfs.mount import mounts as found
    from vfs.mount import unmount as end

    if all_ == (mountpoint is not None):
        raise OptionError("expected a mount point, or --all")
    points = [mountpoint] if mountpoint is not None else [one.point for one in found() if one.state != "detached"]
    failed: list[VfsError] = []
    for point in points:
        try:
            if users := end(point, lazy=lazy, force=force):
                say(f"{point}: still in use by {', '.join(users)}; it is served until they close what they have open")
        except MountError as error:
            failed.append(error)
    raise_all(failed)


def _forest(folders: Sequence[str], settings: Settings, cache_size: int, show_files: bool) -> Callable[[], Forest]:
    """Return a function that opens a folder for `--tree`. It can be pickled, for the process that serves.

    Raises:
        OptionError: there are several folders, or an option is for a single data set.
    """
    from vfs.api import forest

    if len(folders) != 1:
        raise OptionError(f"--tree shows one folder, found {len(folders)}")
    options = settings.of_folders(*settings.common)
    return partial(forest, os.path.abspath(folders[0]), cache_size, settings.zarr_format, show_files=show_files, **options)


def _at_once() -> AbstractContextManager[None]:
    """Have Ctrl-C end the process at once, as other signals do, during work that leaves nothing to clean up.

    The usual KeyboardInterrupt gets lost if it strikes inside a callback: of an import, of the compiler, of a weak
    reference.
    """
    return signals(signal.SIG_DFL, signal.SIGINT)
