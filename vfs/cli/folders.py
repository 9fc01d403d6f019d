"""Lists the data sets in a folder for `vfs info FOLDER` and `vfs check FOLDER`.

Sets are found by the rules of a mounted tree (`vfs.folder_tree.naming`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from typing import Any

from vfs.cli.opening import is_zarr
from vfs.cli.report.sets import SCREEN
from vfs.cli.tables import count, cut, fitting, table, wrapped
from vfs.errors import FormatError, SourceError, printable
from vfs.folder_tree import MemberSet
from vfs.folder_tree.listing import Listing
from vfs.folder_tree.records import Rules
from vfs.formats import by_name, formats
from vfs.model.name_order import in_order
from vfs.model.open_options import OpenOptions
from vfs.model.sources import Sources
from vfs.sets.opening import OpenedSet
from vfs.sets.set_sources import folder_name, folder_sources
from vfs.sets.stacks import MIN_STACKED_FILES, is_stack
from vfs.sources.globs import series
from vfs.sources.names import is_url

_NAMES = 8  # at most so many subfolders are named


@dataclass(frozen=True)
class FoundSets:
    """Holds the data sets that were found in a folder, and counts of its other files.

    Attributes:
        path: the folder, as the user typed it.
        sets: file that names a set -> what is kept of it: for `vfs info` the cells of its row, or its JSON.
        broken: file that looks like a set but cannot be opened -> the reason.
        refused: files that are named as sets are, and that no format recognises.
        folders: names of subfolders.
        others: number of files that belong to no set.
        unknown: number of files that were not looked at.
        stacks: number of sets that are stacks of numbered images.
    """

    path: str
    sets: dict[str, Any]
    broken: dict[str, str]
    refused: Sequence[str]
    folders: Sequence[str]
    others: int
    unknown: int
    stacks: int = 0

    def refuse_empty(self) -> None:
        """Refuse a folder in which there is nothing to list.

        Raises:
            FormatError: it holds neither sets nor folders.
        """
        if not (self.sets or self.broken or self.folders):
            raise FormatError(
                f"{self.path}: expected data sets in this folder, found"
                f" {_others(self.others) if self.others else 'nothing'}"
            )

    def text(self, all: bool = False, columns: int = 80, alone: bool = True, told: set[str] | None = None) -> list[str]:
        """Return lines for people: a row for each set, other contents of the folder, and useful commands.

        Args:
            all: return all rows, not only as many as fit a screen.
            columns: characters of a line.
            alone: say what else there is, and useful commands.
            told: reasons why sets cannot be opened that were printed before, which are not printed again.
        """
        rows = table([(printable(name), *cells) for name, cells in self.sets.items()], columns)
        rows += [
            wrapped(cut(line, 2 * columns - 8), columns, "  ", "    ")
            for line in self._unopened(set() if told is None else told)
        ]
        below = self._below(columns) if alone else []
        shown = rows if all else list(fitting(rows, SCREEN - 2 - len(below)))
        number = (
            f"{'at least ' if self.unknown else ''}{count(len(self.sets), 'data set')}"
            if self.sets
            else "no data set here"
        )
        lines = [f"{printable(self.path)}: {number}", *(line for row in shown for line in row)]
        if left := len(rows) - len(shown) + self.unknown:
            lines.append(f"  … and {left:,} more{', or files of these sets' if self.unknown else ''}: -v lists all")
        return lines + below

    def _unopened(self, told: set[str]) -> Iterator[str]:
        """Yield a line for each reason why sets cannot be opened: a library that is missing is one for many files."""
        files: dict[str, list[str]] = {}
        for name, why in self.broken.items():
            files.setdefault(why, []).append(name)
        for why, names in files.items():
            more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
            reason = "for a reason given above" if why in told else printable(why)
            told.add(why)
            yield f"{printable(names[0])}{more} cannot be opened: {reason}"

    def _below(self, columns: int) -> list[str]:
        """Return the lines below the sets: other contents of the folder, and useful commands."""
        names, lines = [printable(name) for name in self.folders], []
        if names:
            said = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else "")
            lines += wrapped(f"{count(len(names), 'folder')}: {said}", columns, "  ", "    ")
        if self.stacks:
            said = f"{MIN_STACKED_FILES} or more images whose names differ in one number are one stack;"
            said += " `vfs info FILE` opens one"
            lines += wrapped(said, columns, "  ", "    ")
        if self.others:
            lines.append(f"  {_others(self.others)}")
        one = series([os.path.join(self.path, name) for name in self.sets]) if len(self.sets) > 1 else None
        if one:
            lines += wrapped(f"`vfs info {printable(quote(one))}` opens these as one data set", columns)
        here = printable(quote(self.path))
        hints = ["`vfs info FILE` says more of one"] if self.sets else []
        hints += [f"`vfs info -r {here}` lists the data sets below it"] if names else []
        return lines + wrapped(", ".join([*hints, f"`vfs mount --tree {here} MOUNTPOINT` shows all"]), columns)


def look(
    path: str,
    open_one: Callable[[str, Sources], OpenedSet],
    options: OpenOptions,
    keep: Callable[[OpenedSet], Any],
    most: int | None = None,
    told: Callable[[Any], None] | None = None,
) -> FoundSets:
    """Open the sets in a folder, one after the other, but not those in its subfolders.

    Args:
        open_one: opens the set that a file names, with the files of some sources.
        options: with a `format`, only its sets are opened.
        keep: makes of a set what is kept of it.
        most: number of sets after which to stop; None: look at all files.
        told: gets what is kept of a set as soon as it is open, and then nothing of it is kept.

    Raises:
        SourceError: the folder cannot be listed.
    """
    kept: dict[str, Any] = {}
    stacks: set[str] = set()

    def opened(file: str, sources: Sources) -> MemberSet:
        group = open_one(file, sources)
        kept[os.path.basename(file)] = keep(group)
        if is_stack(group, file):
            stacks.add(os.path.basename(file))
        return MemberSet(group.tree, group.opening.format, group.opening.paths)

    kinds = [by_name(options.format)] if options.format else list(formats().values())
    name = folder_name(path)
    listing = Listing(name, Rules(folder_sources(name, options), opened, kinds))
    listing.begin()
    folder, records, names = listing.folder, listing.records, listing.names
    records.told.update(folder.files)  # so that broken sets are not logged: they are printed
    unnamed: dict[str, str] = {}
    while most is None or len(names.base) <= most:
        try:
            if not listing.step():
                break
        except SourceError as error:  # the next ones may open; this one is tried no more
            unnamed[names.pending.pop()] = str(error)
        if told is not None:
            for file in [file for file in kept if names.settled(file)]:
                one = kept.pop(file)
                if file in names.base:
                    told(one)
    unknown = {name for name in names.pending if name not in names.owner}
    broken = unnamed | {
        name: record.error.removeprefix(f"{folder.join(name)}: ")
        for name, record in records.known.items()
        if record.error and name not in names.owner
    }
    sets = in_order([*names.base])
    others = len(folder.files) - len(sets) - len(broken) - len(unknown) - len(names.owner)
    refused = [name for name, record in listing.refused() if name not in broken and name not in names.owner]
    return FoundSets(
        path,
        {name: kept.get(name) for name in sets},
        broken,
        refused,
        in_order([*folder.folders]),
        others,
        len(unknown),
        len(stacks & names.base.keys()),
    )


def below(folder: str) -> list[str]:
    """Return the folders in a folder of this machine without zarr stores and links; none where it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            names = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [path for path in (os.path.join(folder, name) for name in sorted(names)) if not is_zarr(path)]


def folders_below(top: str, list_folder: Callable[[str], list[str]] = below) -> Iterator[str]:
    """Yield a folder and those below it, without zarr stores; links to folders are not followed.

    One that cannot be listed is among them: who looks at it gets the error.

    Args:
        list_folder: see `below`; for a folder of this machine.
    """
    if is_url(name := folder_name(top)):
        yield from _below_url(name)
        return
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        yield folder
        waiting += reversed(list_folder(folder))


def _below_url(top: str) -> Iterator[str]:
    sources, waiting = folder_sources(top, OpenOptions()), [top]
    while waiting:
        folder = waiting.pop()
        yield f"{folder}/"
        with suppress(SourceError):  # who looks at the folder gets the error
            inside = sources.inside(folder, ())
            below = [name for name, state in inside.items() if state is None and not name.endswith(".zarr")]
            waiting += [f"{folder}/{name}" for name in sorted(below, reverse=True)]


def _others(n: int) -> str:
    return f"{count(n, 'file')} of other kinds"
