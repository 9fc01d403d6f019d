"""The command check, which `vfs.cli` runs. Everything heavy is imported inside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from vfs.cli.common import OF_IMAGES, Json, Settings, converted, document, is_folder, opens, put, refuse
from vfs.cli.writing import careful, stopping
from vfs.errors import FormatError
from vfs.model.option_fields import USUAL

if TYPE_CHECKING:
    from vfs.cli.check import Checked
    from vfs.hierarchy.opening import OpenedSet
    from vfs.model.sources import Sources


@opens(
    refused=("chunks", "derive", "allow_incomplete", *OF_IMAGES, "zarr_format"),
    where="for check, which reads what is stored, and opens sets that lack something",
)
def check(
    datasets: Annotated[
        list[str],
        typer.Argument(metavar="DATASET", help="A file of a data set; or a folder: all sets in it and below it."),
    ],
    json_: Json = False,
    read: Annotated[
        bool,
        typer.Option(
            "--read",
            help="Also read every element, so that every block is decoded, and compare checksums.",
            rich_help_panel=USUAL,
        ),
    ] = False,
    *,
    settings: Settings,
) -> None:
    """Say of each data set whether it is whole, in a line each.

    Exit status: 0 if all are whole, 1 if something is absent or left over, 2 if a set cannot be read.
    """
    from vfs.cli.check import How
    from vfs.cli.check import check as checked
    from vfs.hierarchy.opening import open_set

    _refuse(datasets, settings)
    options = careful(settings).options.common(allow_incomplete=True)
    found: list[Checked] = []
    with stopping() as stop, _bar() as bar:

        def tell(nbytes: int, more: int) -> None:
            stop()
            bar(len(found), nbytes, more if read else 0)

        def open_one(path: str, sources: Sources | None) -> OpenedSet:
            return open_set(path, options, settings.format_options, None, sources, convert=converted)

        how = How(open_one, options, read, tell)
        for one in checked(datasets, how):
            found.append(one)
            tell(0, 0)
            if not json_:
                put(one.line())
    if not found:
        raise FormatError(f"{', '.join(datasets)}: no data set there")
    if json_:
        put(document([one.json() for one in found]))
    raise typer.Exit(max(one.state for one in found))


def _refuse(datasets: list[str], settings: Settings) -> None:
    """Refuse options without effect.

    Raises:
        OptionError: one is given.
    """
    folders = [name for name in datasets if is_folder(name)]
    if folders:
        settings.format_options_of_all()
        refuse(settings.given("one set", "reading"), f"on {folders[0]}, a folder; name one data set of it")


@contextmanager
def _bar() -> Iterator[Callable[[int, int, int], None]]:
    """Show people how many sets were checked, and how fast they are read.

    Yields: what is to be called with the number of sets, the bytes that were read since its last call, and those of
        sets that were found since.
    """
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[sets]:,} checked"),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
    )
    shown = Console(stderr=True)
    own = sys.stdout.isatty()  # lines on the same terminal go above the bar; those for a pipe stay as they are
    with Progress(
        *columns, console=shown, disable=not sys.stderr.isatty(), redirect_stdout=own, transient=True
    ) as progress:
        task = progress.add_task("", total=None, sets=0)

        total = 0

        def tell(sets: int, nbytes: int, more: int) -> None:
            nonlocal total
            total += more
            progress.update(task, advance=nbytes, sets=sets, total=total or None)

        yield tell
