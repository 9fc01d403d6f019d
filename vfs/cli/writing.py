"""The commands export, verify and reduce, which write files or compare them, and which `vfs.cli` runs. Everything
heavy is imported inside them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from vfs.cli.common import Settings, open_set, opens, put, refuse, say, signals, warn_of_chunks
from vfs.cli.tables import table, width
from vfs.errors import OptionError
from vfs.model.open_options import ExportOptions

if TYPE_CHECKING:
    from vfs.engine.array import ArrayReader


@opens(ExportOptions)
def export(
    datasets: Annotated[
        list[str], typer.Argument(metavar="DATASET", help="As for `vfs info`, but several files are one data set.")
    ],
    target: Annotated[str, typer.Argument(metavar="OUT.zarr", help="The folder to write. It must not exist yet.")],
    *,
    settings: Settings,
) -> None:
    """Write a data set as a real zarr store, compressed and writable, and print its size on disk.

    With a name that ends in .ome.zarr, the images are written as OME-Zarr, with smaller versions.
    OUT.zarr gets its name only when everything is on the disk. An export that is interrupted leaves OUT.zarr.part,
    which --resume completes. OUT.zarr.sums holds checksums, for `vfs verify OUT.zarr`.
    """
    from vfs.cli.report import count
    from vfs.errors import size
    from vfs.outputs import check_target
    from vfs.zarr.export import check_store_name, face_of, marks_name
    from vfs.zarr.export import export as write

    options = settings.options
    assert isinstance(options, ExportOptions)
    check_store_name(target)
    check_target(target)
    group = open_set(datasets, careful(settings))
    warn_of_chunks([group])
    face = group.tree.zarr(settings.zarr_format or 3, face_of(target))
    total = sum(array.nbytes for array in face.arrays.values())
    try:
        with stopping() as check, _bar(target, total, check, ratio=True) as bar:
            stored = write(
                face,
                target,
                codec=options.codec,
                shards=options.shards,
                sources=group.opening.version,
                resume=options.resume,
                progress=bar,
            )
    except BaseException as error:
        if os.path.exists(marks_name(os.path.abspath(target))) and not isinstance(error, OptionError):
            say(f"{target}: is not complete; the same command with --resume goes on from what {target}.part holds")
        raise
    put(
        f"{target}: {count(len(face.arrays), 'array')}, {size(total)}; {size(stored)} on disk, compression ratio"
        f" {total / stored:,.1f}"
    )
    if options.verify:
        _verified(target, None, total)


def careful(settings: Settings) -> Settings:
    """Have files read with pread, unless another way is asked for: a source that shrinks then kills no process."""
    options = settings.options
    return replace(
        settings, options=options.common(backend="buffered" if options.backend == "auto" else options.backend)
    )


@opens()
def verify(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A zarr store, such as `vfs export` writes.")],
    datasets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATASET]",
            help="What it was made of, with the same options; several files are one data set. Without it, the checksums"
            " in STORE.sums.",
        ),
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Read a store back with tensorstore (else with zarr-python), and compare every element.

    Exit status: 0 if the store is right, 1 if it is not, 2 if there is nothing to compare.
    """
    if not datasets:
        refuse(settings.given("any", "one set", "reading"), "without a DATASET")
        _verified(store, None, None)
        return
    from vfs.zarr.export import face_of

    arrays = open_set(datasets, careful(settings)).tree.zarr(3, face_of(store)).arrays
    _verified(store, arrays, sum(array.nbytes for array in arrays.values()))


def _verified(store: str, arrays: Mapping[str, ArrayReader] | None, total: int | None) -> None:
    """Compare a store, and print what was found.

    Raises:
        typer.Exit: with status 1: it is not right.
    """
    from vfs.cli.report import count
    from vfs.errors import size
    from vfs.zarr.verify import verify as compare

    with stopping() as check, _bar(f"verify {store}", total or 0, check) as bar:
        found = compare(store, arrays, lambda done, total: bar(done, total, 0))
    by = " and ".join(found.by) or "nothing"
    if not found.bad:
        put(f"{store}: {count(found.arrays, 'array')}, {size(found.nbytes)}, as {found.against} says; read by {by}")
        return
    for line in found.findings:
        say(f"{store}: {line}")
    say(f"{store}: {count(found.bad, 'place')} not as {found.against} says; read by {by}")
    raise typer.Exit(1)


@opens()
def reduce(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="As for `vfs info`.")],
    target: Annotated[
        str, typer.Argument(metavar="OUT", help="OUT.zarr for any results; OUT.npy or OUT.tif for one. A new name.")
    ],
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=KIND(...)",
            help="A result, in quotes: its name, and what it is, as 'bf=disk(cy=128, cx=128, r=20)'.",
        ),
    ],
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Let a dask cluster do the work: the address of its scheduler, such as tcp://host:8786. Its workers"
            " must find the files by the same names.",
        ),
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Make results of all frames in one pass, and write them.

    Kinds: sum, mean, std, variance, max, min (a pixel), framesum, disk(cy, cx, r), ring(cy, cx, r0, r1),
    rectangle(y0, x0, y1, x1), point(y, x), masks(FILE.npy), centerofmass, radialsum(cy, cx) (a position of the scan),
    histogram(bins, range). `vfs docs reductions` says more. OUT has its name only when it is complete.
    """
    from vfs.cli.reduce import check_out, cluster, lines, reduced
    from vfs.errors import size
    from vfs.reduce.partitions import pass_by
    from vfs.reduce.spelling import read_all

    given = settings.options.said()
    refuse(
        {"--chunks": given.get("chunks"), "--derive": given.get("derive"), "--zarr-format": settings.zarr_format},
        "for reduce, which takes frames as they come and writes zarr version 3",
    )
    wanted = read_all(results)
    check_out(target, wanted)
    found = open_set([dataset], settings, main=True)
    array = found.main
    with cluster(scheduler) as client, stopping() as check, _bar(target, array.nbytes, check) as bar:
        made = reduced(array, wanted, target, _in_bytes(bar, array.nbytes), pass_by(client, found.opening))
    rows = table(lines(made), width())
    put("\n".join([f"{target}: {size(array.nbytes)} of frames", *(line for row in rows for line in row)]))


@contextmanager
def _bar(
    target: str, total: int, check: Callable[[], None], ratio: bool = False
) -> Iterator[Callable[[int, int, int], None]]:
    """Show people how far a command is, how fast, and how long it takes.

    Args:
        target: what is written.
        total: bytes that there are to do.
        check: what `stopping` yields.
        ratio: True to show the compression ratio.

    Yields: what is to be called with the bytes that are done, those that there are, and those that were written. It
        ends the command where a signal asked for that.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        *[TextColumn("ratio {task.fields[ratio]:.1f}")] * ratio,
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(os.path.basename(target), total=total, ratio=1.0)

        def tell(done: int, total: int, stored: int) -> None:
            check()
            progress.update(task, completed=done, total=total, ratio=done / max(1, stored))

        yield tell


def _in_bytes(bar: Callable[[int, int, int], None], total: int) -> Callable[[int, int], None]:
    """Turn the progress of a pass, in frames done of all frames, into that of a bar."""
    return lambda done, frames: bar(total * done // frames if frames else total, total, 0)


@contextmanager
def stopping() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C, SIGTERM and SIGHUP end a command between two of its steps, so that it leaves no unfinished files.

    A first signal is only noted. An exception out of its handler would come anywhere in the main thread: where Python
    drops it (`__del__`, callbacks of C), or where a lock was just taken that then stays taken. A second signal does
    raise at once, for a step that does not end.

    Yields: what is to be called after every step. It raises SystemExit with the exit status of the signal.
    """
    noted = 0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            terminated(number, frame)
        noted = number

    def check() -> None:
        if noted:
            terminated(noted, None)

    with signals(note, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield check


def terminated(number: int, frame: FrameType | None) -> None:
    """End the process with the exit status of a signal."""
    raise SystemExit(128 + number)  # an exception, so that `finally` blocks run
