"""The ways in that open data in this process: `open` and `open_group`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfs.api.arrays import VirtualArray, VirtualGroup
from vfs.engine.cache import ChunkCache
from vfs.model.open_options import OpenOptions, split
from vfs.model.option_fields import option
from vfs.model.signatures import Paths, opens
from vfs.model.sources import Sources
from vfs.sets.live_set import LiveSet
from vfs.sets.opening import open_set, refuse_without_main, warned

if TYPE_CHECKING:
    from vfs.api.viewing import View


@dataclass(frozen=True, kw_only=True)
class OpenHere(OpenOptions):
    """The options of `open` and `open_group`, which open data in this process."""

    cache: ChunkCache | None = option(
        None,
        "Keeps decoded chunks; data sets may share one. By default each has its own, of 256 MiB.",
        more="It is not pickled.",
    )
    sources: Sources | None = option(
        None,
        "Where the files are, if not on this machine: an object with the verbs of `vfs.model.sources.Sources`.",
        more="`paths` are then names that it knows, such as URLs.",
    )


@dataclass(frozen=True, kw_only=True)
class ShowHere(OpenHere):
    """The options of `show`."""

    height: int = option(600, "Height of the cell, pixels.")


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
    return VirtualGroup(LiveSet(warned(open_set(paths, here, format_options, here.cache, here.sources)), here.cache))


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
        DependencyError: the format needs an optional package; the message says which.

    Warns:
        IncompleteWarning: the set holds less than it should, or more than is shown; what is shown is right.
    """
    here, format_options = split(OpenHere, given)
    opened = open_set(paths, here, format_options, here.cache, here.sources)
    refuse_without_main(opened)
    return VirtualGroup(LiveSet(warned(opened), here.cache)).main


@opens(ShowHere)
def show(paths: Paths, **given: Any) -> View:
    """Show the page of a data set in a notebook's cell: `open(…).show(height)`.

    Args:
        paths: a file that names its set, several files, or a glob.
        {options}

    Raises: what `open` raises, and
        ServeError: serving cannot work; the message says why and what to do.

    Warns:
        IncompleteWarning: see `open`.
    """
    height = split(ShowHere, given)[0].height
    return open(paths, **{name: value for name, value in given.items() if name != "height"}).show(height)
