"""Defines `vfs info`, which describes data sets, or lists those in folders."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vfs.cli.flags import OF_IMAGES, Datasets, Json, Settings, opens, refuse
from vfs.cli.opening import folder_given, is_folder, is_zarr, open_all
from vfs.cli.printing import document, put, raise_all, say
from vfs.cli.tables import width
from vfs.errors import FormatError, OptionError, VfsError
from vfs.model.option_fields import USUAL
from vfs.sources.names import is_url

if TYPE_CHECKING:
    from vfs.cli.folders import FoundSets
    from vfs.model.sources import Sources
    from vfs.sets.opening import OpenedSet


@opens(refused=OF_IMAGES, where="for info, which shows no levels", usual=("nav_shape",))
def info(
    datasets: Datasets,
    json_: Json = False,
    csv_: Annotated[
        bool,
        typer.Option(
            "--csv",
            help="Print a table for spreadsheets, one row a data set; with --json, as JSON.",
            rich_help_panel=USUAL,
        ),
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            count=True,
            show_default=False,
            help="Print everything: all arrays, their metadata, and the files; -vv also all that the files say.",
            rich_help_panel=USUAL,
        ),
    ] = 0,
    recursive: Annotated[
        bool,
        typer.Option(
            "-r",
            "--recursive",
            help="Of a folder, also list the data sets in all folders below it.",
            rich_help_panel=USUAL,
        ),
    ] = False,
    describe: Annotated[
        bool,
        typer.Option(
            "--describe", help="Print a description instead; saved as *.vfs.json, it opens as the same arrays."
        ),
    ] = False,
    explicit: Annotated[
        bool,
        typer.Option("--explicit", help="With --describe: list where every pixel is, so that opening needs no format."),
    ] = False,
    *,
    settings: Settings,
) -> None:
    """Say what data sets are: format, files, arrays, shape, axes, scale, chunks.

    For a folder, print one line for each data set in it; with --recursive, also for those in folders below.
    """
    folders = [name for name in datasets if is_folder(name)]
    if csv_:
        refuse({"-v": verbose, "--describe": describe}, "with --csv, which prints a table")
        refuse({"--zarr-format": settings.zarr_format}, "with --csv")
    _check_info(settings, len(datasets), folders, json_=json_, verbose=verbose, describe=describe, explicit=explicit)
    if not folders:
        refuse({"--recursive": recursive}, "without a folder")
    failed: list[VfsError] = []
    groups = open_all([name for name in datasets if name not in folders], settings, failed)
    if csv_:
        _print_table(groups, folders, settings, json_, recursive, failed)
        return
    from vfs.cli.report.documents import as_json
    from vfs.cli.report.sets import set_cells

    found = _folders(folders, settings, as_json if json_ else set_cells, json_ or bool(verbose), recursive, failed)
    if describe and groups:
        put(document(_description(groups[0], explicit)))
    elif json_:
        _print_json(groups, list(found), settings.zarr_format)
    else:
        _print_text(groups, found, verbose, recursive, settings.zarr_format)
    raise_all(failed)


def _print_table(
    groups: Sequence[OpenedSet],
    folders: Sequence[str],
    settings: Settings,
    json_: bool,
    recursive: bool,
    failed: list[VfsError],
) -> None:
    """Print a row for each set as soon as it is open, and one for each that cannot be opened."""
    from vfs.cli.rows import Table, broken, row

    table = Table(json_)
    for group in groups:
        table.add(row(group))
    for error in failed:
        table.add(broken("", str(error)))
    unlisted: list[VfsError] = []
    for folder in _folders(folders, settings, row, True, recursive, unlisted, table.add):
        for name, why in folder.broken.items():
            table.add(broken(os.path.join(folder.path, name), why))
    table.end()
    raise_all(failed + unlisted)


def _print_json(groups: Sequence[OpenedSet], folders: Sequence[FoundSets], version: int | None) -> None:
    from vfs.cli import rows
    from vfs.cli.report.documents import as_json

    entries = [as_json(group) | ({"zarr": _zarr_metadata(group, version)} if version else {}) for group in groups]
    for folder in folders:
        broken = {os.path.join(folder.path, name): why for name, why in folder.broken.items()}
        entries += [*folder.sets.values(), *(rows.broken(path, why) for path, why in broken.items())]
        for path, why in broken.items():
            say(f"{path} cannot be opened: {why}")
    put(document(entries))


def _print_text(
    groups: Sequence[OpenedSet], folders: Iterable[FoundSets], verbose: int, recursive: bool, version: int | None
) -> None:
    from vfs.cli.report import sets
    from vfs.cli.whole import tree_lines

    if len(groups) > sets.SEVERAL and not verbose and not version:
        put("\n".join(sets.as_rows(groups, width())))
        groups = []
    for group in groups:
        put("\n".join(sets.as_text(group, verbose > 0, width())))
        if verbose > 1:
            for line in tree_lines(group, width()):
                put(line)
        if version:
            put(document(_zarr_metadata(group, version)))
    told: set[str] = set()
    for folder in folders:
        put("\n".join(folder.text(verbose > 0 or recursive, width(), alone=not recursive, told=told)))


def _check_info(
    settings: Settings,
    datasets: int,
    folders: Sequence[str],
    *,
    json_: bool,
    verbose: int,
    describe: bool,
    explicit: bool,
) -> None:
    """Refuse options of `info` that have no effect in combination or on a folder.

    Raises:
        OptionError: such options are given.
    """
    if describe and datasets > 1:
        raise OptionError(f"--describe takes one data set, found {datasets}")
    if describe and folders:
        raise folder_given(folders[0])
    if describe:
        refuse(
            {"--json": json_, "-v": verbose, "--zarr-format": settings.zarr_format},
            "with --describe, which prints a description",
        )
    if json_:
        refuse({"-v": verbose}, "with --json, which prints everything")
    if not describe:
        refuse({"--explicit": explicit}, "without --describe")
    if explicit:
        refuse(settings.given("reading"), "with --explicit: a description that says where pixels are")
    if folders:
        given = settings.given("one set", "reading") | {"--zarr-format": bool(settings.zarr_format)}
        refuse(given, f"on {folders[0]}, a folder; name one data set of it")


def _folders(
    paths: Sequence[str],
    settings: Settings,
    keep: Callable[[OpenedSet], Any],
    all: bool,
    recursive: bool,
    failed: list[VfsError],
    told: Callable[[Any], None] | None = None,
) -> Iterator[FoundSets]:
    """Find the data sets in folders, one folder after the other.

    Args:
        keep, told: see `vfs.cli.folders.look`.
        all: look at all files of a folder, not only at as many as fit a screen.
        recursive: also look at the folders below, and leave out those that hold no set.
        failed: receives an error for each folder that cannot be listed.
    """
    if not paths:
        return
    from vfs.cli.folders import folders_below, look
    from vfs.cli.report.sets import SCREEN
    from vfs.sets.opening import open_set as open_one
    from vfs.sets.opening import warned
    from vfs.sets.stacks import Stacks

    own, stacks = settings.format_options_of_all(), Stacks()

    def opened(file: str, sources: Sources) -> OpenedSet:
        return warned(stacks.around(open_one(file, settings.options, own, sources=sources)))

    for path in paths:
        some = False
        for folder in folders_below(path) if recursive else [path]:
            try:
                if is_zarr(folder):
                    raise folder_given(folder)
                found = look(folder, opened, settings.options, keep, None if all or recursive else SCREEN, told)
                found.refuse_empty()
            except FormatError as error:  # neither sets nor folders
                if not recursive:
                    failed.append(error)
                continue
            except VfsError as error:
                failed.append(error)
                continue
            if not recursive or found.sets or found.broken:
                some = True
                yield found
        if recursive and not some:
            failed.append(FormatError(f"{path}: no data set there or below"))


def _description(group: OpenedSet, explicit: bool) -> dict[str, Any]:
    """Describe a set, with names relative to the current folder if the set lies in it, else to its own."""
    from vfs.sets.describing import common_folder, describe

    here, paths = os.getcwd(), group.opening.paths
    folder = common_folder([name if is_url(name) else os.path.realpath(name) for name in paths])
    folder = here if not is_url(folder) and os.path.commonpath([here, folder]) == here else folder
    made = describe(group, folder, explicit=explicit, follow_outside=group.opening.sources.anywhere)
    say(f"save it in {folder}, as {group.name}.vfs.json: its names are relative to that folder")
    return made


def _zarr_metadata(group: OpenedSet, version: int) -> Any:
    """Return the zarr document that clients read first: consolidated metadata of version 3 or 2."""
    return json.loads(group.tree.zarr(version).documents["zarr.json" if version == 3 else ".zmetadata"])
