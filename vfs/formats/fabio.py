"""Opens files of X-ray detectors that fabio reads: each file is a block that fabio decodes as a whole.

fabio (https://www.silx.org/doc/fabio) knows some thirty kinds; those that begin with a mark of their own, or have an
ending that nobody else has, are told by it. Where each pixel lies only fabio knows, so that reading any part of a frame
decodes its file. When a set is opened, fabio decodes the first file, for the size and the type of a frame. Files of one
frame each are a series; the others are taken to be like the first one, and reading one that is not is an error. The
last one is decoded, too: it may be cut, or have only begun. Of files with several frames each, all are decoded at
opening. fabio runs in another process (`vfs.libraries`), which gets the bytes of a file.

Kinds that fabio opens by the name of a file (HDF5) are read by vfs itself; so are CBF, EDF, SPE, TIFF and NumPy.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import DecodeError, FormatError, OptionError
from vfs.formats import Format
from vfs.formats.numbering import joined
from vfs.model.decode import IntoBlocks
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable
from vfs.model.libraries import Library, LibraryError
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.model.wording import Word, format_option

LIBRARY = Library("fabio", "MIT", "fabio", ("fabio",), "vfs.formats.fabio:FabioFrames")

_MARKS = (
    (b"FORMAT :100", "bruker100image"),
    (b"FORMAT :        86", "brukerimage"),
    (b"{\nHEADER_BYTES", "dtrekimage"),
    (b"OD SAPPHIRE", "oxdimage"),
    (b"\xd2\x04\0\0", "mar345image"),
    (b"\0\0\x04\xd2", "mar345image"),
    (b"M\0\0\0A\0\0\0S\0\0\0K\0\0\0", "fit2dmaskimage"),
    (b"\\$FFF_START", "fit2dimage"),
    (b"R-AXIS", "raxisimage"),
    (b"ESPERANTO FORMAT", "esperantoimage"),
    (b"\n\xb8\x03\0", "pixiimage"),
)
"""The first bytes of files, and what fabio calls their kind."""
_ENDINGS = {".kcd": "kcdimage", ".mpa": "mpaimage", ".sfrm": "bruker100image"}
_BEGIN, _END = tuple(mark for mark, _ in _MARKS), tuple(_ENDINGS)
_OURS = (
    *("cbf", "edf", "spe", "numpy", "tif", "pilatus", "hdf5", "eiger", "lima", "lambda", "sparse", "mrc"),
    *("dm3", "binary"),
)
_MAX_FILE_BYTES = 1 << 32  # bytes of a file
_MAX_FRAMES = 1 << 20


@dataclass(frozen=True)
class FabioDecoder(IntoBlocks):
    """Decodes files by fabio.

    Attributes:
        kind: what fabio calls them.
        dtype: of pixels.
    """

    kind: str
    dtype: np.dtype

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        try:
            found = _frames(f"file {block}", self.kind, data.data)
        except LibraryError as error:
            raise DecodeError(f"file {block}: fabio does not read it: it {error}") from None
        if found.size != out.size or found.dtype != self.dtype:
            raise DecodeError(
                f"file {block}: expected {out.size:,} pixels {self.dtype} like those of the first one, found"
                f" {list(found.shape)} {found.dtype}"
            )
        out[:] = found.reshape(-1)


def _kind_of(path: str, first_bytes: bytes) -> str:
    """Return what fabio calls a file; "" if neither its first bytes nor its name tell."""
    marked = next((kind for mark, kind in _MARKS if first_bytes.startswith(mark)), "")
    return marked or next((kind for ending, kind in _ENDINGS.items() if path.lower().endswith(ending)), "")


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return first_bytes.startswith(_BEGIN) or path.lower().endswith(_END)


class FabioFrames:
    """Decodes files in the fork: answers {"ask": kind} with the frames of the file that is sent, {"ask": "kinds"}."""

    def __init__(self, opening: Mapping[str, Any]) -> None:
        pass

    @staticmethod
    def load() -> None:
        from fabio import fabioformats

        fabioformats.get_all_classes()

    @staticmethod
    def start() -> None:
        pass

    def answer(self, question: Mapping[str, Any], data: np.ndarray) -> tuple[dict[str, Any], np.ndarray | None]:
        from fabio import fabioformats

        if question["ask"] == "kinds":
            return {"kinds": sorted(found.codec_name() for found in fabioformats.get_all_classes())}, None
        stream = io.BytesIO(data.data)
        stream.name = "file"
        image = fabioformats.factory(question["ask"]).read(stream)
        count = int(image.nframes)
        if not 0 < count <= _MAX_FRAMES:
            raise ValueError(f"expected frames, found {count:,}")
        frames = [np.asarray(image.data if count == 1 else image.get_frame(k).data) for k in range(count)]
        made = np.stack(frames)
        if made.ndim != 3 or made.dtype.kind not in "biuf" or not made.size:
            raise ValueError(f"expected frames of numbers, found {list(made.shape)} {made.dtype}")
        return {}, made.astype("u1" if made.dtype.kind == "b" else made.dtype.newbyteorder("="), copy=False)


def _frames(path: str, kind: str, data: bytes | memoryview) -> np.ndarray:
    """Decode a file. Returns: [frames, y, x], in native byte order.

    Raises:
        LibraryError: fabio does not read it.
    """
    from vfs.libraries.library import ask

    return ask(LIBRARY, path, {}, {"ask": kind}, data)[1]


def _known(kind: str, path: str) -> str:
    """Check what a kind is called.

    Raises:
        DependencyError: fabio is not installed.
        FormatError: fabio does not start.
        OptionError: fabio knows no such kind, or vfs reads it without fabio.
    """
    from vfs.libraries.library import ask

    try:
        said, _ = ask(LIBRARY, path, {}, {"ask": "kinds"})
    except LibraryError as error:
        raise FormatError(f"{path}: fabio {error}") from None
    names = [name for name in said["kinds"] if not name.startswith(_OURS)]
    if kind not in names:
        told = f"{format_option(kind=kind)}: expected" if kind else f"{path}: needs {format_option(kind=Word('…'))},"
        raise OptionError(f"{told} one of {', '.join(names)}")
    return kind


def open(paths: Sequence[str], sources: Sources, *, kind: str = "") -> list[StoredArray]:
    """Open files that fabio reads.

    Args:
        kind: what fabio calls the files, such as marccdimage; by default their first bytes or their ending say it

    Raises:
        DependencyError: fabio is not installed.
        FormatError: fabio does not read the first file, or files differ in size or type of frames.
        OptionError: fabio knows no such kind.
    """
    files = Files.stat(sources, paths)
    kind = _known(kind or _kind_of(files.paths[0], sources.read(files.paths[0], 0, 64)), files.paths[0])
    first = _read(sources, files, 0, kind)
    counts = [len(first)] * len(files)
    for k in range(1, len(files) if len(first) > 1 else 1):
        frames = _read(sources, files, k, kind)
        counts[k] = len(frames)
        if frames.shape[1:] != first.shape[1:] or frames.dtype != first.dtype:
            raise FormatError(
                f"{files.paths[k]}: expected frames {list(first.shape[1:])} {first.dtype} as in {files.paths[0]}, found"
                f" {list(frames.shape[1:])} {frames.dtype}"
            )
    cut = _cut_last(sources, files, first, kind) if len(first) == 1 < len(files) else ()
    row = joined(sources, files.paths, np.array(counts, np.int64))
    shape = (row.frames, *first.shape[1:])
    origins, boxes = np.zeros((len(files), 3), np.int64), np.full((len(files), 3), first.shape, np.int64)
    origins[:, 0], boxes[:, 0] = row.first, counts
    held = np.arange(len(files) - len(cut))
    layout = BlockLayout.of(shape, BlockTable(origins[held], boxes[held], held, np.zeros_like(held), files.sizes[held]))
    attrs: dict[str, Any] = {"kind": kind}
    return [
        StoredArray(
            "data",
            files,
            layout,
            FabioDecoder(kind, first.dtype),
            shape,
            ("frame", "y", "x"),
            1,
            block=(max(counts), *first.shape[1:]),
            attrs=attrs,
            absent=(*row.absent, *cut),
        )
    ]


def _cut_last(sources: Sources, files: Files, first: np.ndarray, kind: str) -> tuple[Absence, ...]:
    """Report the last file of a series if fabio does not read it, or not as the first one."""
    path = files.paths[-1]
    try:
        last = _read(sources, files, len(files) - 1, kind)
    except FormatError as error:
        said = str(error)
    else:
        if last.shape == first.shape and last.dtype == first.dtype:
            return ()
        said = (
            f"{path}: expected a frame {list(first.shape[1:])} {first.dtype} as in {files.paths[0]}, found"
            f" {list(last.shape)} {last.dtype}"
        )
    return (Absence(said, FormatError, "shows its frame as blank", {"frames_missing": 1}, (path,)),)


def _read(sources: Sources, files: Files, k: int, kind: str) -> np.ndarray:
    """Decode a file for the size and the type of its frames.

    Raises:
        FormatError: fabio does not read it.
        SourceError: it cannot be read.
    """
    path, size = files.paths[k], int(files.sizes[k])
    if not 0 < size <= _MAX_FILE_BYTES:
        raise FormatError(f"{path}: expected a file of 1 to {_MAX_FILE_BYTES:,} bytes for fabio, found {size:,}")
    try:
        return _frames(path, kind, sources.read(path, 0, size))
    except LibraryError as error:
        raise FormatError(f"{path}: fabio does not read it ({kind}): it {error}") from None


FORMAT = Format(
    "fabio",
    (".img", ".mar2300", ".mar3450", ".kcd", ".mpa", ".sfrm", ".f2d", ".msk", ".esperanto"),
    "https://www.silx.org/doc/fabio",
    "X-ray detectors by fabio: ADSC, Rigaku, Bruker, mar345, Oxford and others, a file a block",
    sniff,
    open,
    library=LIBRARY,
)
