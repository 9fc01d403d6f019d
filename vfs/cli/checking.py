"""The command check, which `vfs.cli` runs. Everything heavy is imported inside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from vfs.cli.flags import OF_IMAGES, Json, Settings, converted, opens, refuse
from vfs.cli.opening import is_folder
from vfs.cli.printing import document, put
from vfs.cli.writing import careful, stopping
from vfs.errors import FormatError
from vfs.model.option_fields import USUAL

if TYPE_CHECKING:
    from vfs.cli.check import Checked
    from vfs.cli.hands import Hands
    from vfs.model.sources import Sources
    from vfs.sets.opening import OpenedSet

    Printed = Callable[[], AbstractContextManager[Callable[[Checked], None]]]


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
    from vfs.cli.hands import Hands

    _refuse(datasets, settings)
    with stopping() as stop:
        hands = Hands(stop)
        try:
            status = _check(datasets, settings, read, _json if json_ else _lines, hands)
        except SystemExit as ended:  # Ctrl-C
            status = ended.code if isinstance(ended.code, int) else 1
        if not hands.rest():
            sys.stdout.flush()
            os._exit(status)  # Python would wait for threads that a file system holds
    raise typer.Exit(status)


def _check(datasets: list[str], settings: Settings, read: bool, printed: Printed, hands: Hands) -> int:
    """Check sets, print what is found of each, and return the exit status."""
    from vfs.cli.check import How
    from vfs.cli.check import check as checked
    from vfs.sets.opening import open_set

    options = careful(settings).options.common(allow_incomplete=True)
    found, status = 0, 0
    with _bar() as bar, printed() as show:

        def tell(nbytes: int, more: int) -> None:
            hands.look()
            bar(found, nbytes, more if read else 0)

        def open_one(path: str, sources: Sources | None) -> OpenedSet:
            return open_set(path, options, settings.format_options, None, sources, convert=converted)

        for one in checked(datasets, How(open_one, options, read, tell, hands)):
            found, status = found + 1, max(status, one.state)
            show(one)
            bar(found, 0, 0)
    if not found:
        raise FormatError(f"{', '.join(datasets)}: no data set there")
    return status


@contextmanager
def _lines() -> Iterator[Callable[[Checked], None]]:
    """Print a line for each set."""
    yield lambda one: put(one.line())


@contextmanager
def _json() -> Iterator[Callable[[Checked], None]]:
    """Print a list of objects, each as soon as its set was checked. It is whole also where Ctrl-C ends it."""
    before = "["

    def show(one: Checked) -> None:
        nonlocal before
        put(f"{before}\n{document(one.json(), indent=None)}", end="")
        before = ","

    try:
        yield show
    finally:
        put("[]" if before == "[" else "\n]")


def _refuse(datasets: list[str], settings: Settings) -> None:
    """Refuse options without effect.

    Raises:
        OptionError: one is given.
    """
    given = settings.given("one set", "reading")
    if not (settings.format_options or any(given.values())):  # none is asked what it is that may not answer
        return
    folders = [name for name in datasets if is_folder(name)]
    if folders:
        settings.format_options_of_all()
        refuse(given, f"on {folders[0]}, a folder; name one data set of it")


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
