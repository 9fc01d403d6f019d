"""Reads every row of the conformance table while its files misbehave: `python -m tests.faults.child WAY FOLDER`.

WAY is `buffered`, `direct` (the backends) or `mount`. Sets are written to FOLDER. The answer is a
JSON document on the standard output: `wrong`, a line for each row, read and fault that went wrong,
and `met`, which faults were met below which function.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.faults import calls

calls.put_below()

import numpy as np  # noqa: E402

import vfs.backends.buffered  # noqa: E402
import vfs.backends.direct  # noqa: E402
import vfs.engine.stored_reader  # noqa: E402
import vfs.kernels.fetch as fetch  # noqa: E402
from tests.conformance.rows import ROWS  # noqa: E402
from vfs.api.arrays import VirtualGroup  # noqa: E402
from vfs.buffers import lender, scratch  # noqa: E402
from vfs.engine.array import ArrayReader  # noqa: E402
from vfs.errors import SourceError  # noqa: E402
from vfs.kernels.columns import FILE, START, STOP  # noqa: E402
from vfs.kernels.ranges import in_lines  # noqa: E402
from vfs.model.region import Region  # noqa: E402
from vfs.testing.inside import reader_of, set_of  # noqa: E402
from vfs.testing.rows import Row, WrittenSet  # noqa: E402

BY_ITSELF = ("hdf5, events of Velox", "hdf5, events of stempy")
"""Rows whose decoder reads with `Sources.read`, below which there are no faults here."""
ELSEWHERE = ("bioformats", "fabio", "rosettasciio")
"""Formats whose files a library reads in another process, where there are none, either."""
WINDOW = 1 << 13
"""Bytes read at once: two frames of most rows, so that a set has several windows."""

REQUEST = 1 << 14
"""Bytes of a read of a mounted file, a few of which make a set."""


class _Named:
    """`vfs.kernels`, but what the kernels that fetch read is counted under their names."""

    fetch = SimpleNamespace(
        **vars(fetch)
        | {name: calls.named(name, getattr(fetch, name)) for name in ("decode_windows", "read_places", "read_ranges")}
    )

    def __getattr__(self, name: str) -> Any:
        return getattr(vfs.kernels, name)


for reads in (vfs.engine.stored_reader, vfs.backends.buffered, vfs.backends.direct):
    assert reads.kernels is vfs.kernels
    reads.kernels = _Named()


class _Soiled:
    """numpy, but fresh memory holds junk: what was freed before a read that fails may hold the very
    numbers that it should have read.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(*args: Any, **how: Any) -> np.ndarray:
        made = np.empty(*args, **how)
        if not made.dtype.hasobject:
            ctypes.memset(made.ctypes.data, 0xA5, made.nbytes)
        return made


def soil() -> None:
    """Give `_Soiled` to all modules that are there by now, but for the kernels: they compile what they find."""
    for name, module in list(sys.modules.items()):
        if name.startswith("vfs.") and not name.startswith("vfs.kernels") and getattr(module, "np", None) is np:
            module.np = _Soiled()


class Case(NamedTuple):
    """One way to read a set.

    Attributes:
        read: gives bytes, or raises `SourceError`.
        expected: the bytes.
        places: (file, byte) of some bytes without which it cannot be read.
    """

    name: str
    read: Callable[[], bytes]
    expected: bytes
    places: Sequence[tuple[str, int]]


def places(array: ArrayReader, box: Sequence[slice]) -> list[tuple[str, int]]:
    """The first byte of the first range of a box, one in the middle, and the last one of the last."""
    rows, _ = array.dataset.layout.read_ranges(Region.of(box, array.shape), 1 << 16)
    rows = in_lines(rows, 0)
    first, middle, last = rows[0], rows[len(rows) // 2], rows[-1]
    found = [(first, first[START]), (middle, (middle[START] + middle[STOP]) // 2), (last, last[STOP] - 1)]
    return [(array.files[row[FILE]], int(byte)) for row, byte in found]


def forget(group: VirtualGroup) -> None:
    """Have nothing that was read or decoded before, and small windows."""
    scratch.clear()
    lender.clear()
    for array in group.values():
        reader_of(array).cache.clear()
        reader_of(array).backend.window = WINDOW


def _read(group: VirtualGroup, array: ArrayReader, box: Sequence[slice]) -> bytes:
    forget(group)
    return array.read(box).tobytes()


def _read_zarr(group: VirtualGroup, shown: Any) -> bytes:
    forget(group)
    return np.asarray(shown[...]).tobytes()


def in_process(found: WrittenSet, backend: str) -> Generator[Case]:
    """All of an array, a little of each of its rows, and the same with numbers converted; once also
    through zarr, and the arrays beside it.
    """
    group = found.group(backend=backend)
    array, twin = group.main, found.twin.astype(found.twin.dtype.newbyteorder("="))
    readers: dict[str, tuple[ArrayReader, np.ndarray]] = {"": (reader_of(array), twin)}
    if twin.dtype.kind in "iu":
        readers[" as f4"] = (
            ArrayReader(reader_of(array).dataset, reader_of(array).backend, dtype="f4", cache=reader_of(array).cache),
            twin.astype("f4"),
        )
    whole = tuple(slice(0, n) for n in array.shape)
    for name, (reader, values) in readers.items():
        for box in [whole, (*whole[:-1], slice(1, 4))][: 1 + (array.ndim > 2)]:
            text = ", ".join(f"{part.start}:{part.stop}" for part in box)
            yield Case(
                f"[{text}]{name}",
                lambda reader=reader, box=box: _read(group, reader, box),
                values[box].tobytes(),
                places(reader, box),
            )
    if backend == "direct":
        return
    shown = array.zarr()
    yield Case("zarr", lambda: _read_zarr(group, shown), twin.tobytes(), places(reader_of(array), whole))
    for path, beside in group.items():
        if beside is not array and beside.files:
            box = tuple(slice(0, n) for n in beside.shape)
            yield Case(path, lambda beside=beside, box=box: _read(group, beside, box), beside.read().tobytes(), ())


class Answered:
    """Takes what a mount would log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, what: str, line: str, trace: bool = False) -> None:
        self.lines.append(line)


def mounted(found: WrittenSet) -> Generator[Case]:
    """The files of a mount, the .npy face and all chunks, read as libfuse has them read."""
    from tests.fuse.direct import Direct, files_of  # the compiler: not for those who read in this process
    from vfs.contents.face_folder import FaceFolder
    from vfs.kernels.native.fuse import serve, state

    group = found.group(backend="buffered")
    direct = Direct(FaceFolder([set_of(group).tree]))
    direct.call["read"] = calls.named("serve.read", direct.call["read"])
    serve.answer = calls.named("serve.answer", serve.answer)
    every = files_of(direct.folder)
    folder = f"{group.name}.zarr/{reader_of(group.main).dataset.path}/c"
    chunks = [path for path in every if path == folder or path.startswith(f"{folder}/")]
    known = places(reader_of(group.main), [slice(0, n) for n in group.main.shape])
    try:
        for name, paths in (("npy", [f"{group.name}.npy"]), ("chunks", chunks)):
            expected = [bytes(direct.folder.at(path).get() or b"") for path in paths]
            assert name == "chunks" or expected[0].endswith(
                np.ascontiguousarray(found.twin, found.twin.dtype.newbyteorder("<")).tobytes()
            )
            yield Case(
                name,
                lambda paths=paths, expected=expected: _read_files(group, direct, paths, expected),
                b"".join(expected),
                known,
            )
    finally:
        direct.native_tables.close()
        state.STATE[:] = 0


def _read_files(group: VirtualGroup, direct: Any, paths: list[str], expected: list[bytes]) -> bytes:
    """All bytes of files. What could be read of them where some of it could not must be as expected, too.

    Raises:
        SourceError: with what was logged, where a read failed with EIO.
    """
    forget(group)
    direct.folder.cache.clear()
    direct.view.failures = said = Answered()
    got, failed = [], 0
    for path, content in zip(paths, expected, strict=True):
        info = direct.open(path)
        for start in range(0, len(content), REQUEST):
            try:
                got.append(direct.read(path, info, REQUEST, start))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                got.append(content[start : start + REQUEST])
                failed += 1
    found = b"".join(got)
    if failed and found == b"".join(expected):
        assert len(said.lines) == failed, said.lines
        raise SourceError(said.lines[0])
    return found


def judged(case: Case, fault: calls.Fault, folder: Path, refused: str) -> Iterator[str]:
    """What is wrong with how a fault ends.

    Args:
        refused: name of the file that an error has to name; "": the fault must not be noticed.
    """
    try:
        with calls.on(fault, folder):
            got = case.read()
    except SourceError as error:
        said = str(error)
        if not refused:
            yield f"an error: {said}"
        elif error.errno != errno.EIO or refused not in said or "bytes " not in said or "\n" in said:
            yield f"an error without the file, its bytes or EIO: {error.errno}, {said}"
    else:
        if refused:
            yield f"{'the right' if got == case.expected else 'wrong'} numbers, expected an error"
        elif got != case.expected:
            yield "wrong numbers"


def faults(case: Case) -> Iterator[tuple[calls.Fault, str]]:
    """Every fault that leaves the files as they are, and the name of the file that cannot be read then."""
    yield calls.Short(), ""
    yield calls.Interrupted(), ""
    for path, byte in case.places:
        yield calls.Bad(path, byte), os.path.basename(path)
        yield calls.Bad(path, byte, ends=True), os.path.basename(path)


def problems(cases: Callable[[], Generator[Case]], folder: Path) -> Iterator[str]:
    """What is wrong with a set: a line for each fault that ended otherwise than it should."""
    for fault in (calls.Short(), calls.Interrupted()):
        with closing(cases()) as opened:
            with calls.on(fault, folder):
                case = next(opened)
            if case.read() != case.expected:
                yield f"{case.name}: {fault} while it is opened: wrong numbers"
    for case in cases():
        soil()
        assert case.read() == case.expected, f"{case.name}: wrong numbers without any fault"
        for fault, refused in faults(case):
            for problem in judged(case, fault, folder, refused):
                yield f"{case.name}: {fault}: {problem}"
        if case.read() != case.expected:
            yield f"{case.name}: wrong numbers once the faults are gone"
    for k in range(3):  # what was cut off does not come back: each time the set is opened anew
        with closing(cases()) as opened:
            case = next(opened)
            if k:  # also once everything is open
                case.read()
            path, byte = case.places[k]
            kept, before = Path(path).read_bytes(), os.stat(path)
            fault = calls.Shrinking(path, byte)
            for problem in judged(case, fault, folder, os.path.basename(path)):
                yield f"{case.name}: {fault}: {problem}"
        Path(path).write_bytes(kept)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def checked(way: str, row: Row, folder: Path) -> Iterator[str]:
    """What is wrong with a row."""
    folder.mkdir()
    found = WrittenSet(row, folder, *row.write(folder))
    try:
        yield from problems(lambda: mounted(found) if way == "mount" else in_process(found, way), folder)
    except Exception:  # every other row still has its say
        yield traceback.format_exc()


def main(way: str, folder: str) -> None:
    warnings.filterwarnings("ignore", message=".*direct I/O is refused")
    here = [row for row in ROWS if row.name not in BY_ITSELF and row.format not in ELSEWHERE]
    rows = here[:: 3 if way == "direct" else 1]  # it asks no format
    wrong = [
        f"{row.name}: {problem}" for k, row in enumerate(rows) for problem in checked(way, row, Path(folder, str(k)))
    ]
    json.dump({"wrong": wrong, "met": calls.met()}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
