"""Describes a set for people, in as many lines as fit a screen, and several sets in a row each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vfs.backends import choice
from vfs.cli import guesses
from vfs.cli.report.arrays import axis_lengths, cells, details_of, metadata_lines, number_row
from vfs.cli.report.facts import file_sizes, is_read, left_out
from vfs.cli.tables import GLUE, SHOWN, bounded, count, cut, fitting, paragraph, table
from vfs.engine.array import ArrayReader
from vfs.errors import printable, size
from vfs.faces.documents import plain_json
from vfs.model import spoken
from vfs.model.name_order import in_doubt
from vfs.sets.opening import OpenedSet

SCREEN = 22  # lines: a usual terminal has 24, of which the command above and the prompt below take two
NUMBERS = 6  # at most so many of these lines are for arrays of one element, if not all arrays fit
REASONS = 3  # at most so many reasons why data sets are not shown
_NO_NUMBERS = "no array of numbers"  # end of the reason for text, compound types and the like
SEVERAL = 4  # at most so many sets are printed in full, one after the other; if there are more, each gets a row
ORDERED = 6  # at most so many names are printed where the order of files is in doubt


def as_text(group: OpenedSet, verbose: bool = False, columns: int = 80) -> Iterator[str]:
    """Describe a set for people, line by line: as much as fits a screen, the main array first.

    Args:
        verbose: describe everything: all arrays with their metadata, the files, and how they are read.
        columns: characters of a line.
    """
    files = file_sizes(group)
    missing = sum(nbytes < 0 for nbytes in files.values())
    total = size(sum(nbytes for nbytes in files.values() if nbytes > 0))
    yield cut(
        f"{printable(group.name)}: {group.opening.format}, {count(len(files), 'file')},"
        f" {total}{f', {missing} missing' if missing else ''}",
        columns,
    )
    if group.progress is not None and not group.progress.complete:
        yield cut(f"  live: {group.progress}", columns)
    yield from _file_order(group, columns)
    said = spoken.line(group.main.dataset.recorded)
    yield from paragraph(said, columns, 2) if said else ()
    paths = _ordered(group)
    left = _left_out(group, verbose, columns)
    room = SCREEN - len(left) - bool(said)
    blocks = _blocks(group, paths if verbose else paths[:room], verbose, columns)
    if not verbose and (len(paths) > room or sum(map(len, blocks)) >= room):
        blocks = _bounded(group, paths, room, columns)
    for block in blocks:
        yield from block
    yield from left
    if verbose:
        yield from _more(group, files, columns)


def _file_order(group: OpenedSet, columns: int) -> list[str]:
    """Return lines with the order of several files that were named, if there is more than one way to see it."""
    files = group.main.files
    if len(files) < 2 or {*files} != {*group.opening.paths} or not in_doubt(files):
        return []
    names = [os.path.basename(path) for path in files]
    shown = names if len(names) <= ORDERED else [*names[: ORDERED - 1], "…", names[-1]]
    return paragraph(f"order of the files: {', '.join(shown)}", columns, 2)


def as_rows(groups: Sequence[OpenedSet], columns: int = 80) -> list[str]:
    """Describe several sets for people, one row each, as many as fit a screen."""
    rows = table(
        [(printable(os.path.basename(group.opening.paths[0])), *set_cells(group)) for group in groups], columns
    )
    shown = list(fitting(rows, SCREEN - 1))
    more = f"and {len(rows) - len(shown):,} more; " if len(shown) < len(rows) else ""
    return [*(line for row in shown for line in row), f"{more}`vfs info FILE` says more of one, -v of all"]


def set_cells(group: OpenedSet) -> tuple[str, str, str, str]:
    """Return the cells of a set's row: format, number of files, bytes, and its arrays.

    The last cell has dtype and axes of the main array, and the number of other arrays.
    """
    files, main = file_sizes(group), group.main
    others = len(group.arrays) - 1
    more = f", {others}{GLUE}more{GLUE}array{'s' * (others > 1)}" if others else ""
    return (
        group.opening.format,
        count(len(files), "file"),
        size(sum(n for n in files.values() if n > 0)),
        f"{main.dtype.name} {axis_lengths(main) or 'one number'}{more}",
    )


def _ordered(group: OpenedSet) -> list[str]:
    """Sort the paths of arrays for people: the main array, then arrays, then those of one element, then what only
    comes beside others, as metadata and tables of frames do.
    """
    return sorted(
        group.arrays,
        key=lambda path: (path != group.tree.main, _is_beside(group.arrays[path]), group.arrays[path].size == 1),
    )


def _is_beside(array: ArrayReader) -> bool:
    return array.dataset.main is False


def _left_out(group: OpenedSet, verbose: bool, columns: int) -> list[str]:
    """Return lines on which array is the main one because somebody said so, on what is hidden, and on data sets that
    cannot be shown, by reason: those without numbers last.
    """
    names: dict[str, list[str]] = {}
    for name, why in left_out(group).items():
        names.setdefault(why, []).append(name)
    reasons = sorted(names, key=lambda why: why.endswith(_NO_NUMBERS))
    options = group.opening.options
    asked = {"main array, as asked": options.main, "hidden": _first(options.hide or (), SHOWN)}
    chosen = [
        row for word, said in asked.items() if said for row in paragraph(printable(f"{word}: {said}"), columns, 2)
    ]
    said = [printable(f"not shown: {_first(names[why], SHOWN if verbose else 2)}: {why}") for why in reasons]
    if verbose:
        return [*chosen, *(line for text in said for line in paragraph(text, columns, 2))]
    more = len(said) - REASONS
    lines = [f"  {cut(text, columns - 2)}" for text in said[:REASONS]]
    return [*chosen, *lines, *([f"  not shown for {count(more, 'more reason')}: -v lists them"] if more > 0 else [])]


def _first(names: Sequence[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _bounded(group: OpenedSet, paths: Sequence[str], room: int, columns: int) -> list[list[str]]:
    """Return as many lines about arrays as there is room for, in a list for each array.

    These are all lines of the main array, rows of some others and of some arrays of one element,
    and the number of arrays that are left out.
    """
    main = _blocks(group, paths[:1], False, columns)
    room -= 2 + len(main[0])  # two lines are for the set and for the number of arrays left out
    arrays = [path for path in paths[1:] if not _is_beside(group.arrays[path])]
    numbers = [path for path in arrays if group.arrays[path].size == 1]
    others = [path for path in paths[1:] if path not in {*numbers}][:room]
    rows = _rows(group, [*others, *numbers[:room]], columns)
    kept = sum(map(len, rows[len(others) :][:NUMBERS]))
    shown = [*fitting(rows[: len(others)], room - kept)]
    shown += fitting(rows[len(others) :], room - sum(map(len, shown)))
    return [
        *main,
        *shown,
        [f"  … and {count(len(paths) - 1 - len(shown), 'more array')}: -v lists them, --json says all"],
    ]


def _blocks(group: OpenedSet, paths: Sequence[str], verbose: bool, columns: int) -> list[list[str]]:
    """Return the lines of each array: its row, then its details."""
    rows = _rows(group, paths, columns)
    details = [list(details_of(group, path, verbose, columns)) for path in paths]
    for path, lines in zip(paths, details, strict=True):
        for text in guesses.as_text(group, verbose) if path == group.tree.main else ():
            lines += paragraph(text, columns)
    if verbose:
        said: Mapping[str, Any] = {}
        for path, lines in zip(paths, details, strict=True):
            lines += metadata_lines(group.arrays[path], said, columns)
            said = said or plain_json(group.main.attrs)  # the main array comes first
    return [[*row, *lines] for row, lines in zip(rows, details, strict=True)]


def _rows(group: OpenedSet, paths: Sequence[str], columns: int) -> list[list[str]]:
    """Return the lines of each array's row: cells of a table, or the value of an array of one element."""
    several = [path for path in paths if not is_read(group.arrays[path])]
    rows = dict(zip(several, table([cells(group.arrays[path]) for path in several], columns), strict=True))
    return [rows.get(path) or number_row(path, group.arrays[path], columns) for path in paths]


def _more(group: OpenedSet, files: Mapping[str, int], columns: int) -> Iterator[str]:
    """Yield lines about the way in which files are read, and the names of the files, by folder."""
    for line in _backend(group):
        yield from paragraph(line, columns, 2)
    folders: dict[str, list[str]] = {}
    for path, nbytes in files.items():
        folder, name = os.path.split(path)
        folders.setdefault(folder, []).append(f"{printable(name)}  {size(nbytes) if nbytes >= 0 else 'missing'}")
    for folder, lines in folders.items():
        yield f"  files in {printable(folder)}:"
        yield from (f"    {line}" for line in bounded(lines, "more: --json says all"))


def _backend(group: OpenedSet) -> Iterator[str]:
    """Yield a line on the backend that reads the files, and one on that of a mount if it differs."""
    if (transfers := getattr(group.opening.sources, "transfers", None)) is not None:
        counts, parallel = transfers.counts, transfers.limits.parallel
        kept = f"; {size(counts.kept)} from the cache" if transfers.cache is not None else ""
        yield f"requests so far: {counts.requests:,}, with {size(counts.nbytes)}; up to {parallel} at a time{kept}"
        return
    asked = group.opening.options.backend
    chosen, why = choice(asked)
    yield f"backend: {chosen}{' (auto)' if asked == 'auto' else ', as asked'}; it {why}"
    served, reason = choice(asked, serves=True)
    if served != chosen:
        yield f"backend of a mount: {served} (auto); it {reason}"
