"""Defines the commands mount, mounts and unmount. Heavy modules are imported inside them."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vfs.cli.common import (
    Datasets,
    Json,
    Settings,
    document,
    line,
    open_all,
    opens,
    put,
    raise_all,
    say,
    signals,
    warn_of_chunks,
)
from vfs.cli.tables import width
from vfs.errors import MountError, OptionError, VfsError
from vfs.model.open_options import MountOptions

if TYPE_CHECKING:
    from vfs.fuse.status import Status


class LogLevel(StrEnum):
    """The least severe messages that a mount logs."""

    error = "error"
    warning = "warning"
    info = "info"
    debug = "debug"


@opens(MountOptions)
def mount(
    datasets: Datasets,
    mountpoint: Annotated[
        str,
        typer.Argument(metavar="MOUNTPOINT", help="An empty folder, in which the data sets appear."),
    ],
    background: Annotated[
        bool, typer.Option("--background", help="Return as soon as the mount is ready; a background process serves it.")
    ] = False,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            help=(
                "Log messages of this level and above: error, warning (usual in the foreground), info (usual in the"
                " background), or debug (every request)."
            ),
        ),
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Show data sets in a folder, read-only, until Ctrl-C or `vfs unmount`.

    For each data set, MOUNTPOINT then contains NAME.zarr (zarr version 3), NAME.v2.zarr (version 2)
    and NAME.npy (the largest array as one file). Nothing is converted: bytes are computed when a
    program reads them.
    """
    with _ended_by_ctrl_c():
        from vfs.backends import choice
        from vfs.cli.console import tell_manager, terminal
        from vfs.cli.report import count
        from vfs.engine.cache import ChunkCache
        from vfs.engine.chunking import as_bytes
        from vfs.folder_tree.plans import plan_sets, plan_tree
        from vfs.fuse import start_in_background
        from vfs.fuse.points import check_apart, mounted, resolve

        level = (log_level or (LogLevel.info if background else LogLevel.warning)).value
        options = settings.options
        assert isinstance(options, MountOptions)
        limit = as_bytes(options.cache_size, "--cache-size")
        point = resolve(mountpoint)
        # A mount there is not touched: its server may be stopped, and would not answer
        if not mounted(point) and os.path.isfile(point):
            raise OptionError(f"{mountpoint}: expected a folder to mount on, found a file; the mount point comes last")
        if options.show_files and not options.tree:
            raise OptionError("--show-files goes with --tree")
        if options.tree:
            shown = {"cache_size": limit, "zarr_format": settings.zarr_format, "show_files": options.show_files}
            plan = plan_tree(datasets, options.common(), settings.format_options_of_all(), **shown)
            check_apart(mountpoint, plan.sources[0])
            what = f"the data sets in {datasets[0]}"
        else:
            cache = ChunkCache(limit)
            backend, _ = choice(options.backend, serves=True)
            groups = open_all(datasets, replace(settings, options=replace(options, backend=backend)), cache=cache)
            warn_of_chunks(groups)
            plan = plan_sets(groups, cache, settings.zarr_format)
            what = count(len(groups), "data set")
        how: dict[str, Any] = {
            "workers": options.workers,
            "allow_other": options.allow_other,
            "direct_io": options.direct_io,
            "sources": plan.sources,
        }
        end = f"`vfs unmount {quote(mountpoint)}` ends it"
        if background:
            said = f"{what} at {mountpoint}; {end}, `vfs mounts` shows what it has served"
            start_in_background(plan.make, mountpoint, say=lambda: say(said), log_level=level, **how)
            return
        from vfs.fuse import serve

        with terminal(level) as console:

            def ready() -> None:
                console.say(line(f"{what} at {mountpoint}; Ctrl-C or {end}"))
                tell_manager("READY=1")

            def watch(status: Status) -> None:
                console.show(status)
                tell_manager(f"STATUS={status.counts()}")

            last = serve(plan.here(), mountpoint, ready=ready, watch=watch, debug=level == "debug", **how)
            console.end()
            console.say(line(f"{mountpoint}: {last.summary()}"))


def mounts(json_: Json = False) -> None:
    """List your mounts, one per line, with start, bytes served, cache hits, errors, and source files."""
    from vfs.cli.console import mounts_json, mounts_text
    from vfs.fuse import mounts as found

    if json_:
        put(document(mounts_json(found())))
    else:
        put("\n".join(mounts_text(found(), width())) or "nothing is mounted")


def unmount(
    mountpoint: Annotated[str | None, typer.Argument(metavar="MOUNTPOINT", help="The folder of the mount.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="End all of your mounts.")] = False,
    lazy: Annotated[
        bool, typer.Option("--lazy", help="End a mount even if it is in use. Files that are open stay readable.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="End a mount even if programs that have read it still run. They may then read zeros."
        ),
    ] = False,
) -> None:
    """End a mount, or all of yours.

    This is refused while a program that has read from the mount still runs: such a program may take
    the empty folder for an array of zeros.
    """
    from vfs.fuse import mounts as found
    from vfs.fuse import unmount as end

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


def _ended_by_ctrl_c() -> AbstractContextManager[None]:
    """Make Ctrl-C end the process at once, as other signals do.

    This is for work that leaves nothing to clean up. The usual KeyboardInterrupt gets lost if it is
    raised inside a callback: of an import, of the compiler, of a weak reference.
    """
    return signals(signal.SIG_DFL, signal.SIGINT)
