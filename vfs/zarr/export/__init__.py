"""Writes what a zarr face shows as a real zarr store: compressed, sharded where asked, with all arrays and attributes.

Reading and encoding are done in threads; the main thread appends what comes, in order, to the files of the present
unit (`vfs.zarr.export.plan`). Levels of images are made of the blocks that pass by (`vfs.zarr.export.passing`).
`OUT.zarr.part` becomes `OUT.zarr` when everything is on the disk (`vfs.outputs.places`); its documents are written
last, when all chunks are on the disk and the sources are what they were: no reader takes it for a store before.
`OUT.zarr.part.marks` notes what is done (`vfs.zarr.export.journal`).

In zarr v3, chunks that hold only the fill value are not written; readers fill them in.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError, SourceChangedError
from vfs.faces.face import ZarrFace
from vfs.formats import formats
from vfs.model.command_options import ExportOptions
from vfs.model.wording import option
from vfs.outputs.executors import checked
from vfs.outputs.place import OutputPlace
from vfs.outputs.places import place_of
from vfs.outputs.sums import Mark, Subject
from vfs.outputs.zipped import is_zipped
from vfs.own_code import code_key
from vfs.sets.live_set import for_workers
from vfs.zarr.export.arrays import ArrayExport, Encoded, array_exports, checksum, little_memory
from vfs.zarr.export.documents import stored_documents
from vfs.zarr.export.journal import ExportJournal
from vfs.zarr.export.passing import Work, works
from vfs.zarr.export.plan import BATCH
from vfs.zarr.export.spread import ExportWork, written_by
from vfs.zarr.export.units import Unit, check_all, check_state, done_before
from vfs.zarr.unchanged import check_sources, sources_of

if TYPE_CHECKING:
    from vfs.sets.opening import Opening

AHEAD = 64 << 20
"""Bytes of batches that are under way at once, if one is not larger: threads go on while a disk flushes a unit."""

BUSY = 16
"""Threads that have a batch of `BATCH` bytes each, at least, also where these are more than `AHEAD`."""


def export(
    face: ZarrFace,
    target: str | os.PathLike[str],
    options: ExportOptions,
    opening: Opening | None = None,
    *,
    progress: Callable[[int, int, int], object] | None = None,
    executor: Any = None,
) -> int:
    """Write what a face shows as a zarr store: in a folder, one zip file, or a store of objects.

    See `vfs.outputs.places`.

    This takes memory for `AHEAD` bytes of batches, for one if that is larger, or for one of each of `BUSY` threads,
    twice; whatever the shards are.

    Args:
        target: the folder or file to make, or the URL. It must not exist, but the folder above it must.
        options: of them `codec` (see `vfs.zarr.export.codecs.codec`), `shards` (see
            `vfs.zarr.export.arrays.shard_shape`), and `resume`: True to go on with an export that was interrupted, if
            there is one; one that is complete stays.
        opening: how the set was opened; an executor needs it, and an export that is to go on after an interruption.
        progress: is called in this thread with the bytes of the arrays that are done, of all, and of the files
            so far. What it raises ends the export.
        executor: writes the units, on workers which find the sources and `target` by the same names; None: the threads
            of this process do.

    Returns: bytes of the files of the store.

    Raises:
        OptionError: `target` exists already (with `resume`: and is of something else), cannot be written or has the
            ending of another format; an option does not fit; or another export was interrupted there.
        SourceError: bytes of the data set cannot be read.
        ExecutorError: the executor lost a worker for good, or takes no tasks.

    When it fails, `target` does not exist. `OUT.zarr.part` and `OUT.zarr.part.marks` are left if a unit was done.
    """
    check_store_name(target)
    place, sources = place_of(target), b"" if opening is None else opening.version
    with place.errors():
        finished = _begins(place, options.resume, sources)
        exports = array_exports(face, options.codec, options.shards)
        documents = stored_documents(
            face.documents,
            {one.path: one.codec for one in exports},
            {one.path: one.plan.shards for one in exports if one.sharded},
        )
        subject = _subject(face, exports, documents, sources)
        if executor is not None and not place.by_many:
            raise OptionError("executor: one process writes a zip file; export it without, or to a folder")
        beside = sum(map(len, documents.values()))
        if finished and not place.noted():
            return place.complete(subject) + beside
        with closing(place.journal()) as marks:
            journal = ExportJournal(marks, subject, options.resume, anew=not (finished or place.begun()))
            if finished and journal.told is None:  # nothing of it reached the disk
                marks.remove()
                return place.complete(subject) + beside
            if finished:
                stored = journal.stored + beside
            else:
                by = None
                if executor is not None:
                    assert opening is not None
                    how = face_of(target), face.zarr_format, options.codec, options.shards
                    by = checked(executor), ExportWork(for_workers(opening), *how, place.target, code_key())
                try:
                    stored = _made(face, exports, documents, journal, place, progress or _untold, by)
                except BaseException:
                    if not journal.marks:
                        place.clear()
                        marks.remove()
                    raise
            marks.remove()
            return stored


def _untold(done: int, total: int, stored: int) -> None:
    """Tell nobody how far an export is."""


def _begins(place: OutputPlace, resume: bool, sources: bytes) -> bool:
    """Check that an export can begin, or go on, or is complete: see `vfs.outputs.place.OutputPlace.check`."""
    if resume and not sources:
        raise OptionError(
            f"{option(resume=True)}: the sources may change ({option(accept_changes=True)}), so that nothing tells"
            " whether they did"
        )
    return place.check(resume)


def _made(
    face: ZarrFace,
    exports: Sequence[ArrayExport],
    documents: Mapping[str, bytes],
    journal: ExportJournal,
    place: OutputPlace,
    tell: Callable[[int, int, int], object],
    by: tuple[Any, ExportWork] | None,
) -> int:
    """Write a store, and give it its name when it is complete. Return the bytes of its files."""
    place.make(documents)
    with place:
        check_sources(face.arrays.values())
        check_state(exports, journal)  # what an export that was interrupted wrote: it is written again
        if by is None:
            stored = _write(face, exports, place, journal, tell)
        else:
            stored = written_by(*by, exports, place, journal, tell)
        check_all(exports, place, face.zarr_format, journal)
        check_sources(face.arrays.values())  # before the documents: what has these looks complete, and so it is
        if check_state(exports, journal):
            raise _replaced(face.arrays.values())
        return stored + place.finish(documents, journal.sums())


def _replaced(arrays: Iterable[ArrayReader]) -> SourceChangedError:
    """Return the error for sources that got other bytes while they were exported, and kept their times of writing."""
    path, what = next((files.moved for files in sources_of(arrays) if files.moved), ("", ""))
    return SourceChangedError(
        f"{path}: changed while it was exported ({what}); {option(resume=True)} rewrites what came from the old bytes"
    )


def face_of(target: str | os.PathLike[str]) -> str:
    """Return which face of a data set a store shows, by its name: "ome" for OUT.ome.zarr, else "zarr"."""
    ome = os.fspath(target).rstrip("/").endswith((".ome.zarr", ".ome.zarr.zip", ".ozx"))
    return "ome" if ome else "zarr"


def check_store_name(target: str | os.PathLike[str]) -> None:
    """Refuse a name whose ending says that it is a file of another format: a store is a folder, or a zip file.

    Raises:
        OptionError: it has such an ending.
    """
    path = os.fspath(target).rstrip("/")
    if is_zipped(path):
        return
    folder, name = os.path.split(path)
    endings = [*_OTHER_ENDINGS, *(ending for kind in formats().values() for ending in kind.extensions)]
    ending = max((end for end in endings if name.lower().endswith(end)), key=len, default="")
    if ending:
        stem = os.path.join(folder, name[: -len(ending)] or name.strip("."))
        other = {
            ".zip": f"; in one file: {stem}.zarr.zip",
            ".json": f"; {option(to='kerchunk')} writes references",
            ".parquet": f"; {option(to='kerchunk')} writes references",
        }.get(ending, "")
        raise OptionError(
            f"{path}: is the name of a {ending} file, and what is written is a zarr folder: {stem}.zarr{other}"
        )


_OTHER_ENDINGS = (
    *(".nc", ".n5", ".zspy", ".npz", ".mat", ".csv", ".parquet", ".txt", ".json"),
    *(".png", ".jpg", ".jpeg", ".svg", ".pdf"),
    *(".zip", ".tar", ".gz", ".bz2", ".zst", ".xz"),
)
"""Endings of files, and of folders of another layout, that vfs does not read as data sets and that people may want."""


def _subject(face: ZarrFace, exports: Sequence[ArrayExport], documents: Mapping[str, bytes], sources: bytes) -> Subject:
    arrays = {one.path: one.about() for one in exports}
    store = blake2b(repr((sorted(documents.items()), arrays)).encode(), digest_size=16)
    sums = {key: checksum(np.frombuffer(text, np.uint8)) for key, text in documents.items()}
    return Subject(sources.hex(), store.hexdigest(), arrays, face.zarr_format, code_key(), sums)


class _Writing:
    """Writes units in order, while others are read and encoded.

    Args:
        journal: receives the marks of units that are done.
        tell: see `progress` of `export`.
        total: bytes of all arrays.
        done, stored: bytes of the arrays, and of the files, that were done before.
        keep: flushes files and gives them their names, or moves them into an archive. It returns their bytes.
    """

    def __init__(
        self,
        journal: ExportJournal,
        tell: Callable[[int, int, int], object],
        total: int,
        done: int,
        stored: int,
        keep: Callable[[Sequence[str]], int],
    ) -> None:
        self._keep = keep
        self.done, self.stored = done, stored
        self._journal, self._tell, self._total = journal, tell, total
        self._under_way: deque[tuple[Work, Future[list[Encoded]]]] = deque()
        self._moved = 0  # bytes that are in slabs
        self._open: list[Unit] = []
        self._sealing: deque[Future[None]] = deque()
        self._flusher = ThreadPoolExecutor(1, "vfs-flush")

    def add(self, work: Work, encoded: Future[list[Encoded]], ahead: int) -> None:
        """Wait until fewer than `ahead` works are under way, and add one."""
        while len(self._under_way) >= ahead:
            self._next()
        self._under_way.append((work, encoded))
        if work.unit is not None and work.unit not in self._open:
            self._open.append(work.unit)

    def running(self, maker: object) -> list[Future[list[Encoded]]]:
        """Return the works of a maker that are under way."""
        return [encoded for work, encoded in self._under_way if work.maker is maker]

    def finish(self) -> None:
        """Wait for everything."""
        while self._under_way:
            self._next()
        while self._sealing:
            self._sealing.popleft().result()

    def end(self) -> None:
        """Stop at once."""
        for _, encoded in self._under_way:
            encoded.cancel()
        for unit in self._open:
            unit.files.abandon()
        self._flusher.shutdown(cancel_futures=True)

    def _next(self) -> None:
        work, encoded = self._under_way[0]
        chunks = encoded.result()
        if work.unit is not None:
            self.stored += work.unit.take(chunks)
            self.done += work.region.size * work.unit.export.array.dtype.itemsize
        self._under_way.popleft()
        self._moved += work.moved
        if work.unit is not None and not work.unit.left:
            self._seal(work.unit)
        self._tell(self.done + self._moved // 2, self._total, self.stored)

    def _seal(self, unit: Unit) -> None:
        """Have a unit flushed and marked, while others are written."""
        unit.files.close()
        self._open.remove(unit)
        while self._sealing:  # so that little is done again if the process ends
            self._sealing.popleft().result()
        self._sealing.append(self._flusher.submit(self._sealed, unit))

    def _sealed(self, unit: Unit) -> None:
        """Flush the files of a unit, and mark it."""
        mark = Mark(unit.export.path, unit.position, self._keep(unit.files.written), unit.sums.reshape(-1))
        self._journal.add(mark, unit.state)


def _write(
    face: ZarrFace,
    exports: Sequence[ArrayExport],
    place: OutputPlace,
    journal: ExportJournal,
    tell: Callable[[int, int, int], object],
) -> int:
    """Write all units that are not done. Return the bytes of the files of all."""
    done, stored = done_before(exports, place, face.zarr_format, journal)
    writing = _Writing(journal, tell, sum(one.array.nbytes for one in exports), done, stored, place.keep)
    threads = len(os.sched_getaffinity(0))
    most = max(AHEAD, BATCH * min(threads, BUSY))
    with (
        little_memory(face.arrays.values()),
        ExitStack() as files,
        ThreadPoolExecutor(threads, "vfs-export") as pool,
    ):
        try:
            for work in works(exports, place.folder, face.zarr_format, journal, files):
                ahead = max(1, (AHEAD if work.nbytes > BATCH else most) // work.nbytes)
                before = [] if work.after is None else writing.running(work.after)
                writing.add(work, pool.submit(work.encoded, before), ahead)
            writing.finish()
        finally:
            writing.end()
    return journal.stored
