"""Defines the commands mount, mounts and unmount. Heavy modules are imported inside them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from vfs.cli.flags import Datasets, Json, Settings, opens
from vfs.cli.opening import folder_given, is_folder, open_all, warn_of_chunks
from vfs.cli.printing import document, line, put, raise_all, say
from vfs.cli.tables import count, width
from vfs.cli.unit import Unit, put_unit
from vfs.errors import MountError, OptionError, ServeError, VfsError
from vfs.model.command_options import MountOptions, ServeOptions, ShowOptions
from vfs.model.option_fields import USUAL
from vfs.serving.signals import signals

if TYPE_CHECKING:
    from vfs.folder_tree.plans import MountPlan
    from vfs.serving.status import Status


class LogLevel(StrEnum):
    """The least severe messages that a mount or server logs."""

    error = "error"
    warning = "warning"
    info = "info"
    debug = "debug"


Background = Annotated[
    bool,
    typer.Option(
        "--background",
        help="Return as soon as all is ready; a process in the background serves it.",
        rich_help_panel=USUAL,
    ),
]
Level = Annotated[
    LogLevel | None,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        help=(
            "Log messages of this level and above: error, warning (usual in the foreground), info (usual in the"
            " background), or debug (every request)."
        ),
    ),
]


@opens(MountOptions, usual=("tree", "nav_shape"))
def mount(
    datasets: Datasets,
    mountpoint: Annotated[
        str,
        typer.Argument(metavar="MOUNTPOINT", help="An empty folder, in which the data sets appear."),
    ],
    background: Background = False,
    log_level: Level = None,
    unit: Unit = False,
    *,
    context: typer.Context,
    settings: Settings,
) -> None:
    """Show data sets in a folder, read-only, until Ctrl-C or `vfs unmount`.

    For each data set, MOUNTPOINT then contains NAME.zarr (zarr version 3), NAME.v2.zarr (version 2)
    and NAME.npy (the main array as one file), and of images NAME.ome.zarr (OME-Zarr). Nothing is
    converted: bytes are computed when a program reads them.
    """
    with ended_by_ctrl_c():
        from vfs.cli.console import tell_manager, terminal
        from vfs.fuse import MountHow, start_in_background
        from vfs.fuse.points import check_apart, mounted, resolve

        level = (log_level or (LogLevel.info if background else LogLevel.warning)).value
        options = settings.options
        assert isinstance(options, MountOptions)
        point = resolve(mountpoint)
        # A mount there is not touched: its server may be stopped, and would not answer
        if not mounted(point) and os.path.isfile(point):
            raise OptionError(f"{mountpoint}: expected a folder to mount on, found a file; the mount point comes last")
        plan, what = planned(datasets, settings)
        if options.tree:
            check_apart(mountpoint, plan.sources[0])
        how = MountHow.of(options, plan.sources)
        if unit:
            if not os.path.isdir(point):
                raise OptionError(f"{mountpoint}: no such folder; make it first: mkdir -p {quote(mountpoint)}")
            put_unit(f"vfs mount, at {point}", context.obj, background=background)
            return
        end = f"`vfs unmount {quote(mountpoint)}` ends it"
        if background:
            said = f"{what} at {mountpoint}; {end}, `vfs mounts` shows what it has served"
            start_in_background(plan.make, mountpoint, how, say=lambda: say(said), log_level=level)
            return
        from vfs.fuse import serve
        from vfs.serving.logs import LogHow

        with terminal(level) as console:

            def ready() -> None:
                console.say(line(f"{what} at {mountpoint}; Ctrl-C or {end}"))
                tell_manager("READY=1")

            def watch(status: Status) -> None:
                console.show(status)
                tell_manager(f"STATUS={status.counts()}")

            last = serve(plan.here(), mountpoint, how, ready=ready, watch=watch, log_how=LogHow(debug=level == "debug"))
            console.end()
            console.say(line(f"{mountpoint}: {last.summary()}"))


def planned(datasets: Sequence[str], settings: Settings) -> tuple[MountPlan, str]:
    """Plan what a mount or server is to show.

    Returns: (the plan, what it shows, in words).

    Raises:
        VfsError: a data set cannot be opened, or options do not fit.
    """
    from vfs.backends import choice
    from vfs.engine.cache import ChunkCache
    from vfs.engine.chunking import as_bytes
    from vfs.folder_tree.plans import TreeView, plan_sets, plan_tree

    options = settings.options
    assert isinstance(options, ShowOptions)
    for_urls = isinstance(options, ServeOptions)
    limit = as_bytes(options.cache_size, "cache_size")
    for name in ("show_files", "single_files"):
        if getattr(options, name) and not options.tree:
            raise OptionError(f"--{name.replace('_', '-')} goes with --tree")
    if options.tree:
        view = TreeView.of(options, settings.zarr_format, for_urls)
        plan = plan_tree(datasets, options.common(), settings.format_options_of_all(), view, limit)
        return plan, f"the data sets in {datasets[0]}"
    if for_urls and (folders := [path for path in datasets if is_folder(path)]):
        raise folder_given(folders[0], serve=True)
    cache = ChunkCache(limit)
    backend, _ = choice(options.backend, serves=True)
    groups = open_all(datasets, replace(settings, options=replace(options, backend=backend)), cache=cache)
    warn_of_chunks(groups)
    return plan_sets(groups, cache, settings.zarr_format, for_urls), count(len(groups), "data set")


def mounts(json_: Json = False) -> None:
    """List your mounts and servers, one per line, with start, bytes served, cache hits, errors, and source files."""
    from vfs.cli.console import mounts_json, mounts_text
    from vfs.fuse import mounts as found
    from vfs.server import servers

    if json_:
        put(document(mounts_json(found(), servers())))
    else:
        put("\n".join(mounts_text(found(), servers(), width())) or "nothing is mounted or served")


def unmount(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="MOUNTPOINT|ADDRESS", help="The folder of the mount, or the URL or HOST:PORT of a server."
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="End all of your mounts and servers.", rich_help_panel=USUAL)
    ] = False,
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
    """End a mount or a server, or all of yours.

    For a mount this is refused while a program that has read from it still runs: such a program may
    take the empty folder for an array of zeros.
    """
    from vfs.fuse import mounts as found
    from vfs.fuse import unmount as end
    from vfs.server import end as end_server
    from vfs.server import is_address, servers

    if all_ == (place is not None):
        raise OptionError("expected a mount point, the address of a server, or --all")
    if place is not None:
        addresses, points = ([place], []) if is_address(place) else ([], [place])
    else:
        addresses = [one.address for one in servers()]
        points = [one.point for one in found() if one.state != "detached"]
    failed: list[VfsError] = []
    for address in addresses:
        try:
            end_server(address)
        except ServeError as error:
            failed.append(error)
    for point in points:
        try:
            if users := end(point, lazy=lazy, force=force):
                say(f"{point}: still in use by {', '.join(users)}; it is served until they close what they have open")
        except MountError as error:
            failed.append(error)
    raise_all(failed)


def ended_by_ctrl_c() -> AbstractContextManager[None]:
    """Make Ctrl-C end the process at once, as other signals do.

    This is for work that leaves nothing to clean up. The usual KeyboardInterrupt gets lost if it is
    raised inside a callback: of an import, of the compiler, of a weak reference.
    """
    return signals(signal.SIG_DFL, signal.SIGINT)
