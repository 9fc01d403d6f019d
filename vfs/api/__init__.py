"""The ways in: `open`, `open_group` and `mount`.

The modules of this package do the work:

- `opening`: from files and options to arrays that can be read;
- `groups`: `VirtualArray` and `VirtualGroup`, an open data set as Python sees it;
- `plans`: what a mount is to show;
- `signatures`: puts the options, which are fields of `vfs.open_options.OpenOptions`, into the signatures here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfs import tiling
from vfs.api.groups import VirtualArray, VirtualGroup, group_of
from vfs.api.opening import open_set
from vfs.api.plans import plan_sets, plan_tree
from vfs.api.signatures import Path, Paths, Several, mounts, opens
from vfs.backends import choice
from vfs.cache import ChunkCache
from vfs.errors import OptionError
from vfs.headers import file_name
from vfs.open_options import MountOptions, OpenOptions, option, split

if TYPE_CHECKING:
    from vfs.mount import Mount

__all__ = ["VirtualArray", "VirtualGroup", "mount", "open", "open_group"]


@dataclass(frozen=True, kw_only=True)
class OpenHere(OpenOptions):
    """The options of `open` and `open_group`, which open data in this process."""

    cache: ChunkCache | None = option(
        None,
        "Keeps decoded chunks; data sets may share one. By default each has its own, of 256 MiB.",
        more="It is not pickled.",
    )


@opens(OpenHere)
def open_group(paths: Paths, **given: Any) -> VirtualGroup:
    """Open all arrays of a data set. Reads headers, no pixels.

    Args:
        paths: a file that names its set, several files, or a glob.
        {options}

    Raises: what `open` raises; but where the main array is not there, the others of the set open.

    Warns:
        IncompleteWarning: the set holds less than it should, or more than is shown; what is shown is right.
    """
    here, format_options = split(OpenHere, given)
    return group_of(open_set(paths, here, format_options, here.cache))


@opens(OpenHere)
def open(paths: Paths, **given: Any) -> VirtualArray:
    """Open the main array of a data set: `open_group(…).main`. Reads headers, no pixels.

    Args:
        paths: a file that names its set, several files, or a glob.
        {options}

    Raises:
        UnknownFormatError, FormatError: the files are not what they should be.
        OptionError: an option does not fit.
        UnknownArrayError: `array` is not in the set.
        OutsideError: a file lies outside of the folder of the set.
        SourceError: a file is missing or cannot be read.
        MissingSourceError: the main array is not there, though others of the set are.

    Warns:
        IncompleteWarning: the set holds less than it should, or more than is shown; what is shown is right.
    """
    here, format_options = split(OpenHere, given)
    return group_of(open_set(paths, here, format_options, here.cache), main=True).main


@mounts(MountOptions)
def mount(paths: Several, mountpoint: Path, **given: Any) -> Mount:
    """Show data sets at a mount point, each as `NAME.zarr`, `NAME.v2.zarr` and `NAME.npy`, served by another process.

    Use it in a `with` statement, or call `close()`; it also ends with this process.

    Args:
        paths: one data set as `open` takes it, or a list of data sets. A list in the list is one data set of several
            files.
        mountpoint: an existing, empty folder.
        {options}

    Raises:
        MountError: mounting cannot work; the message says why and what to do.
        VfsError: what `open` raises.
    """
    from vfs.mount import Mount

    options, format_options = split(MountOptions, given)
    mountpoint = file_name(mountpoint)
    items = [paths] if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable) else list(paths)
    if not items:
        raise OptionError("nothing to mount: expected at least one data set")
    if options.show_files and not options.tree:
        raise OptionError("show_files goes with tree=True")
    limit = tiling.as_bytes(options.cache_size, "cache_size")
    common = options.common()
    if options.tree:
        shown = {"cache_size": limit, "show_files": options.show_files}
        plan = plan_tree(items, mountpoint, common, format_options, **shown)
    else:
        backend, _ = choice(common.backend, serves=True)
        common, cache = options.common(backend=backend), ChunkCache(limit)
        plan = plan_sets([group_of(open_set(item, common, format_options, cache)) for item in items], cache)
    how: dict[str, Any] = {
        "workers": options.workers,
        "allow_other": options.allow_other,
        "direct_io": options.direct_io,
    }
    return Mount.start(plan.make, mountpoint, sources=plan.sources, **how)
