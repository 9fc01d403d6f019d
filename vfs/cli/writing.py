"""The commands export, verify and reduce, which write files or compare them, and which `vfs.cli` runs. Everything
heavy is imported inside them.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from vfs.cli.flags import OF_IMAGES, Colours, Settings, opens, refuse
from vfs.cli.opening import is_zarr, open_set
from vfs.cli.printing import put, say, say_how_to_go_on
from vfs.cli.tables import count, table, width
from vfs.errors import OptionError
from vfs.model.command_options import OF_STORES, PAGE_ENDING, SIGNAL_ENDING, TIFF_ENDINGS, ExportOptions, ReduceOptions
from vfs.model.wording import option
from vfs.serving.signals import signals

if TYPE_CHECKING:
    from vfs.engine.array import ArrayReader
    from vfs.reduce.reduction import Reduction
    from vfs.reduce.result import Result
    from vfs.sets.opening import OpenedSet
    from vfs.zarr.result_sums import ResultSums


Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Let a dask cluster do the work: the address of its scheduler, such as tcp://host:8786. Its workers must"
        " find the files by the same names.",
    ),
]


@opens(ExportOptions, usual=("chunks", "verify"))
def export(
    datasets: Annotated[
        list[str], typer.Argument(metavar="DATASET", help="As for `vfs info`, but several files are one data set.")
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="OUT.zarr", help="The folder to write, or s3://bucket/OUT.zarr. It must not exist yet."),
    ],
    scheduler: Scheduler = None,
    *,
    settings: Settings,
) -> None:
    """Write a data set as a real zarr store, compressed and writable.

    With a name that ends in .ome.zarr, the images are written as OME-Zarr, with smaller versions; with one that ends in
    .html, a scan as one page that a browser opens without a server: frames in bins, usual images exact. OUT.tif is a
    hyperstack of ImageJ, OUT.ome.tif OME-TIFF, OUT.hspy a signal of HyperSpy.
    OUT.zarr.zip and OUT.ozx (OME-Zarr) are one zip file.
    With --to kerchunk or icechunk, nothing is copied: references to the bytes of DATASET's own files are written.
    OUT.zarr gets its name only when everything is on the disk. An interrupted export leaves OUT.zarr.part; with
    --resume the next one completes it. OUT.zarr.sums holds checksums, for `vfs verify OUT.zarr`.
    """
    options = settings.options
    assert isinstance(options, ExportOptions)
    if options.to is not None or target.lower().endswith((PAGE_ENDING, SIGNAL_ENDING, *TIFF_ENDINGS)):
        refuse({"--scheduler": scheduler}, "but for a store")
    if options.to is not None:
        _references(datasets, target, settings)
        return
    refuse({"--blank": options.blank}, "without --to")
    if target.lower().endswith((SIGNAL_ENDING, *TIFF_ENDINGS)):
        _array(datasets, target, settings)
    elif target.endswith(PAGE_ENDING):
        _page(datasets, target, settings)
    else:
        _store(datasets, target, scheduler, settings)


def _store(datasets: list[str], target: str, scheduler: str | None, settings: Settings) -> None:
    """Write a real zarr store, and compare it if that is asked for."""
    from vfs.cli.reduce import cluster
    from vfs.errors import size
    from vfs.outputs.places import place_of
    from vfs.zarr.export import check_store_name, face_of
    from vfs.zarr.export import export as write

    options = settings.options
    assert isinstance(options, ExportOptions)
    check_store_name(target)
    place = place_of(target)
    with place.errors():
        complete = place.check(options.resume)
    group = open_set(datasets, careful(settings))
    face = group.tree.zarr(settings.zarr_format or 3, face_of(target))
    total = sum(array.nbytes for array in face.arrays.values())
    begun = False
    try:
        with cluster(scheduler) as client, stopping() as check, _bar(target, total, check, ratio=True) as bar:

            def tell(done: int, total: int, stored: int) -> None:
                nonlocal begun
                begun = True
                bar(done, total, stored)

            stored = write(face, target, options, group.opening, progress=tell, executor=client)
    except BaseException as error:
        if begun or not isinstance(error, OptionError):
            say_how_to_go_on(error, target, place)
        raise
    put(
        f"{target}: {'was complete: ' * complete}{count(len(face.arrays), 'array')}, {size(total)}; {size(stored)} on"
        f" disk, compression ratio {total / stored:,.1f}"
    )
    if options.verify:
        _verified(target, None, total)


def _page(datasets: list[str], target: str, settings: Settings) -> None:
    """Write a scan as a page that stands alone."""
    from vfs.errors import size
    from vfs.outputs.outputs import check_target

    _refuse(OF_STORES, settings, "for a page, which is no store")
    check_target(target)
    from vfs.page import mail

    group = open_set(datasets, careful(settings))
    total = group.main.nbytes
    with stopping() as check, _bar(target, total, check) as bar:
        stored = mail.write(group, target, _in_bytes(bar, total))
    put(f"{target}: {size(stored)}; a browser opens it without vfs")


def _array(datasets: list[str], target: str, settings: Settings) -> None:
    """Write the main array of a set as TIFF, or as a signal of HyperSpy."""
    from vfs.errors import size
    from vfs.outputs.outputs import check_target

    signal = target.lower().endswith(SIGNAL_ENDING)
    _refuse(OF_STORES, settings, f"for a {'signal' if signal else 'TIFF'}, which is no store")
    check_target(target)
    from vfs.zarr.export import hyperspy, tiffs

    group = open_set(datasets, careful(settings))
    with stopping() as check, _bar(target, group.main.nbytes, check) as bar:
        stored = (hyperspy if signal else tiffs).write(group, target, lambda done, total: bar(done, total, 0))
    put(f"{target}: {size(stored)}, of {group.main.dataset.path}")


def _refuse(names: Iterable[str], settings: Settings, where: str) -> None:
    """Refuse options of an export that would have no effect: see `vfs.cli.flags.refuse`."""
    given = settings.options.said() | {"zarr_format": settings.zarr_format}
    refuse({f"--{name.replace('_', '-')}": given.get(name) for name in names}, where)


def _references(datasets: list[str], target: str, settings: Settings) -> None:
    """Write references to the bytes of a data set's own files."""
    from vfs.errors import size
    from vfs.outputs.outputs import check_target
    from vfs.zarr.references import export as refer

    options = settings.options
    assert isinstance(options, ExportOptions)
    assert options.to is not None
    _refuse([name for name in OF_STORES if name != "chunks"], settings, "for references, which are no store")
    check_target(target)
    with stopping() as check:
        found, nbytes = refer(open_set(datasets, careful(settings)), target, options.to, options.blank, check)
    for path, why in found.left_out.items():
        say(f"{path}: omitted: {why}")
    copied = f"; {count(len(found.copied), 'small array')} copied" if found.copied else ""
    put(
        f"{target}: {count(len(found.referenced), 'array')}, {count(found.count, 'reference')} to"
        f" {count(len(found.files), 'file')}{copied}; {size(nbytes)}"
    )


def careful(settings: Settings) -> Settings:
    """Have files read with pread, unless another way is asked for: a source that shrinks then kills no process."""
    options = settings.options
    return replace(
        settings, options=options.common(backend="buffered" if options.backend == "auto" else options.backend)
    )


@opens(usual=("nav_shape",))
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

    if is_zarr(datasets[0]):
        typed = " ".join(map(shlex.quote, ("vfs", "verify", datasets[0], store)))
        raise OptionError(f"{datasets[0]}: is a zarr store, which stands before what it was made of: {typed}")
    arrays = open_set(datasets, careful(settings)).tree.zarr(3, face_of(store)).arrays
    _verified(store, arrays, sum(array.nbytes for array in arrays.values()))


def _verified(store: str, arrays: Mapping[str, ArrayReader] | None, total: int | None) -> None:
    """Compare a store, and print what was found.

    Raises:
        typer.Exit: with status 1: it is not right.
    """
    from vfs.errors import size
    from vfs.zarr.verify import verify as compare

    with stopping() as check, _bar(f"verify {store}", total or 0, check) as bar:
        found = compare(store, arrays, lambda done, total: bar(done, total, 0))
    by = f"; read by {' and '.join(found.by)}" if found.by else ""
    if not found.bad:
        put(f"{store}: {count(found.arrays, 'array')}, {size(found.nbytes)}, as {found.against} says{by}")
        return
    for line in found.findings:
        say(f"{store}: {line}")
    say(f"{store}: {count(found.bad, 'place')} not as {found.against} says{by}")
    raise typer.Exit(1)


@opens(
    ReduceOptions,
    refused=("chunks", "derive", *OF_IMAGES, "zarr_format"),
    where="for reduce, which takes frames as they come and writes zarr 3",
    usual=("nav_shape", "resume"),
)
def reduce(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="As for `vfs info`.")],
    target: Annotated[
        str,
        typer.Argument(
            metavar="OUT",
            help="A new name, which says what is written. OUT.zarr (or s3://bucket/OUT.zarr), .png, .svg, .pdf: any"
            " results. .tif, .hspy (both with calibration), .npy, .csv: one result.",
        ),
    ],
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=KIND(...)",
            help="A result: bf, abf, adf, haadf, com; or, in quotes, its name and what it is, as"
            " 'bf=disk(cy=128, cx=128, r=20)'.",
        ),
    ],
    scheduler: Scheduler = None,
    colours: Colours = "grey",
    *,
    settings: Settings,
) -> None:
    """Make results of all frames in one pass, and write them.

    Words that need no name: bf, abf, adf, haadf (around the bright-field disk, which is found in frames), com.
    Kinds: sum, mean, std, variance, max, min (a pixel), framesum, disk(cy, cx, r), ring(cy, cx, r0, r1),
    rectangle(y0, x0, y1, x1), point(y, x), masks(FILE.npy), centerofmass, radialsum(cy, cx) (a position of the scan),
    histogram(bins, range). `vfs docs reductions` says more. OUT has its name only when it is complete. A long pass
    that is interrupted leaves OUT.part, which --resume goes on from.
    """
    from vfs.cli.reduce import check_readable, lines, sums_of
    from vfs.errors import size
    from vfs.pictures.colour_maps import choose
    from vfs.reduce.saving import saver
    from vfs.reduce.spelling import read_all, spelled
    from vfs.reduce.usual import UsualDetector

    choose(colours)
    wanted = read_all(results)
    options = settings.options
    assert isinstance(options, ReduceOptions)
    saver(target, wanted, options.resume)
    if options.verify:
        check_readable(target)
    if options.resume:
        refuse({"--scheduler": scheduler, "--follow": options.follow}, "with --resume")
    found = open_set([dataset], settings, main=True)
    array = found.main
    if not array.dataset.nav_ndim:
        _refuse_recorded(found, [name for name, one in wanted.items() if isinstance(one, UsualDetector)])
    sums = sums_of(found, wanted, target, options.resume)
    made = _reduced(found, wanted, target, scheduler, sums, options.resume)
    if made is None:
        put(f"{target}: was complete")
        if options.verify:
            _compared_with_sums(target, wanted, sums)
        return
    rows = [line for row in table(lines(made), width()) for line in row]
    places = [  # of what was found in the set: where the disk is, which pixels do not count
        f"  {name}: {made[name].reduction}" for name, one in wanted.items() if made[name].reduction != spelled(one)
    ]
    put("\n".join([f"{target}: {size(array.nbytes)} of frames", *rows, *places]))
    if options.verify:
        _compared(made, target)


def _reduced(
    found: OpenedSet,
    wanted: Mapping[str, Reduction],
    target: str,
    scheduler: str | None,
    sums: ResultSums | None,
    resume: bool,
) -> Mapping[str, Result] | None:
    """Make results in a pass, by whoever is to make it, and write them; None: they were complete."""
    from vfs.cli.reduce import cluster, reduced, reduced_growing, reduced_resumable
    from vfs.reduce.partitions import pass_by
    from vfs.sets.live_set import for_workers

    array = found.main
    with cluster(scheduler) as client, stopping() as check, _bar(target, array.nbytes, check) as bar:
        tell = _in_bytes(bar, array.nbytes)
        if found.progress is not None:
            refuse({"--scheduler": scheduler}, "with --follow")
            return reduced_growing(found, wanted, target, tell, sums)
        if client is None:
            return reduced_resumable(found, wanted, target, tell, sums, resume)
        return reduced(array, wanted, target, tell, sums, pass_by(client, partial(for_workers, found.opening)))


def _compared(made: Mapping[str, Result], target: str) -> None:
    """Compare results with what was written, and print what was found.

    Raises:
        typer.Exit: with status 1: they differ.
    """
    from vfs.cli.reduce import compared

    differ, by = compared(made, target)
    _say_whether(target, differ, f"as computed; read by {by}")


def _compared_with_sums(target: str, names: Iterable[str], sums: ResultSums | None) -> None:
    """Compare results that were there already with their sums: see `_compared`."""
    if target.endswith(".zarr"):
        _verified(target, None, None)
        return
    from vfs.cli.reduce import compared_with_sums

    assert sums is not None
    (name,) = names
    _say_whether(target, compared_with_sums(name, target, sums), f"as {sums.name} says; read by numpy")


def _say_whether(target: str, differ: Iterable[str], right: str) -> None:
    """Print what differs, or else that it is right.

    Raises:
        typer.Exit: with status 1: something differs.
    """
    for line in differ:
        say(f"{target}: {line}")
    if differ:
        raise typer.Exit(1)
    put(f"{target}: {right}")


def _refuse_recorded(found: OpenedSet, names: Iterable[str]) -> None:
    """Refuse to compute the image of a detector of which the instrument has recorded one: there is no scan of frames.

    Raises:
        OptionError: an array of the set has this name.
    """
    for name in names:
        for array in found.tree.arrays.values():
            if array.dataset.label.lower() == name:
                raise OptionError(
                    f"{name}: {array.dataset.title} is an image that was recorded, and there is no scan of frames to"
                    f" make one of; `vfs look` shows it, with {option(array=array.dataset.path)}"
                )


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
