"""The ways in for other programs: `mount` and `serve`, which another process serves."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from vfs.backends import choice
from vfs.engine import chunking
from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError
from vfs.folder_tree.plans import MountPlan, TreeView, plan_sets, plan_tree
from vfs.model.command_options import MountOptions, ServeOptions, ShowOptions
from vfs.model.open_options import split
from vfs.model.signatures import Path, Several, mounts, serves
from vfs.model.wording import option
from vfs.sets.opening import open_set, warned
from vfs.sources.globs import file_name

if TYPE_CHECKING:
    from vfs.fuse import Mount
    from vfs.server import Server

PROXIED = ("JPY_PARENT_PID", "VSCODE_PROXY_URI")
"""Variables of processes that Jupyter, or code-server, started: both have a proxy for servers beside them."""


@mounts(MountOptions)
def mount(paths: Several, mountpoint: Path, **given: Any) -> Mount:
    """Show data sets at a mount point, each as `NAME.zarr`, `NAME.v2.zarr` and `NAME.npy`, served by another process.

    Use it in a `with` statement, or call `close()`; it also ends with this process.

    Args:
        paths: one data set as `open` takes it, or a list of data sets. A list in the list is one data set of several
            files.
        mountpoint: an existing, empty folder.
        {options}

    Returns: the mount; `path` is the mount point.

    Raises:
        MountError: mounting cannot work, or an option of the mount does not fit; the message says why and what to do.
        VfsError: what `open` raises.
    """
    from vfs.fuse import Mount, MountHow
    from vfs.fuse.points import check_apart

    options, format_options = split(MountOptions, given)
    mountpoint = file_name(mountpoint)
    plan = _plan(paths, options, format_options, "mount")
    if options.tree:
        check_apart(mountpoint, plan.sources[0])
    return Mount.start(plan.make, mountpoint, MountHow.of(options, plan.sources))


@serves(ServeOptions)
def serve(paths: Several, **given: Any) -> Server:
    """Serve data sets over HTTP, each as `NAME.zarr`, `NAME.v2.zarr` and `NAME.npy`, from another process.

        with vfs.serve("scan.hdr", port=0) as server:
            zarr.open(server.url + "scan.zarr")

    Use it in a `with` statement, or call `close()`; it also ends with this process.

    Args:
        paths: one data set as `open` takes it, or a list of data sets. A list in the list is one data set of several
            files.
        {options}

    Returns: the server; `url` is where the data sets are, with the `token` that every URL needs.

    Raises:
        ServeError: serving cannot work, an option of the server does not fit, or no web server is installed
            (pip install 'vfs[serve]'); the message says why and what to do.
        VfsError: what `open` raises.
    """
    from vfs.server import ServeHow, Server

    options, format_options = split(ServeOptions, given)
    plan = _plan(paths, options, format_options, "serve")
    how = ServeHow.of(options, plan.sources)
    if how.token != "none" and not how.allow_host and any(name in os.environ for name in PROXIED):
        how = replace(how, allow_host=("*",))  # a proxy passes on the name that a browser knows, which nobody tells
    return Server.start(plan.make, how)


def _plan(paths: Several, options: ShowOptions, format_options: dict[str, Any], verb: str) -> MountPlan:
    """Open the data sets, or find out that the folder can be shown, and plan what the other process is to show."""
    items: Iterable[Any] = [paths] if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable) else paths
    for name in ("show_files", "single_files"):
        if getattr(options, name) and not options.tree:
            raise OptionError(f"{option(**{name: True})} goes with {option(tree=True)}")
    for_urls = isinstance(options, ServeOptions)
    limit = chunking.as_bytes(options.cache_size, "cache_size")
    common = options.common()
    if options.tree:
        view = TreeView.of(options, None, for_urls)
        return plan_tree(list(islice(items, 2)), common, format_options, view, limit)
    backend, _ = choice(common.backend, serves=True)
    common, cache = options.common(backend=backend), ChunkCache(limit)
    # One by one: a range of numbers may be endless
    sets = [warned(open_set(item, common, format_options, cache)) for item in items]
    if not sets:
        raise OptionError(f"nothing to {verb}: expected at least one data set")
    return plan_sets(sets, cache, for_urls=for_urls)
