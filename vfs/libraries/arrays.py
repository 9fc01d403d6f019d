"""The arrays of a set that a library reads: it makes each block when somebody reads it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import DecodeError, FormatError, SourceChangedError
from vfs.libraries.library import SourceMovedError, ask
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import GridLayout
from vfs.model.libraries import Library, LibraryError
from vfs.model.metadata import Term
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray
from vfs.sources.local import LocalSources
from vfs.sources.names import basename

_MAX_COPIED_BYTES = 4 << 30  # bytes of a file that is copied from elsewhere
_STEP = 8 << 20  # bytes
_COPIES = 4
_MAX_AXES = 32


@dataclass(frozen=True, eq=False)
class LibrarySet:
    """A set that a library reads.

    Attributes:
        library: what reads it.
        path: the file that names it.
        sources: where that is.
        options: for the library, values that JSON has.
        state: of a file that is not on this machine, so that another one is copied anew.
    """

    library: Library
    path: str
    sources: Sources
    options: Mapping[str, Any]
    state: tuple[int, int, str]

    @classmethod
    def of(cls, library: Library, path: str, sources: Sources, options: Mapping[str, Any]) -> LibrarySet:
        """Make one.

        Raises:
            SourceError: the file cannot be looked at.
        """
        state = sources.state(path)
        return cls(library, path, sources, options, (state.size, state.written, state.tag))

    def ask(self, question: Mapping[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
        """Ask the library: see `vfs.libraries.library.ask`.

        Raises:
            LibraryError, DependencyError, SourceError: see there.
            SourceChangedError: a file was changed while it was read.
        """
        opening: dict[str, Any] = {"options": self.options}
        if isinstance(self.sources, LocalSources):
            boundary = self.sources.boundary
            opening |= {"path": self.path, "folders": boundary.folders, "files": boundary.files}
        else:
            with _copying:
                folder = _copied(self)
            opening |= {"path": os.path.join(folder, basename(self.path)), "folders": (os.path.realpath(folder),)}
        if self.library.together:
            opening, question = {}, {**question, "set": opening}
        try:
            return ask(self.library, self.path, opening, question)
        except SourceMovedError as error:
            raise SourceChangedError(f"{error}: was changed while {self.library.name} read it; open it again") from None


_copies: OrderedDict[tuple[str, tuple[int, int, str]], tempfile.TemporaryDirectory[str]] = OrderedDict()
_copying = threading.Lock()


def _after_fork() -> None:
    global _copying
    _copying = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _copied(of: LibrarySet) -> str:
    """Copy a file that is not on this machine into a folder of its own, unless it is there. Returns the folder.

    Raises:
        FormatError: it is too large.
        SourceError: it cannot be read.
    """
    key, (size, *_) = (of.path, of.state), of.state
    if key in _copies:
        _copies.move_to_end(key)
        return _copies[key].name
    if size > _MAX_COPIED_BYTES:
        raise FormatError(
            f"{of.path}: {of.library.name} reads files of this machine; expected at most {_MAX_COPIED_BYTES:,} bytes to"
            f" copy, found {size:,}: copy it yourself"
        )
    folder = tempfile.TemporaryDirectory(prefix="vfs-", ignore_cleanup_errors=True)
    with open(os.path.join(folder.name, basename(of.path)), "xb") as copy:
        for start in range(0, size, _STEP):
            copy.write(of.sources.read(of.path, start, min(_STEP, size - start)))
    _copies[key] = folder
    while len(_copies) > _COPIES:
        _copies.popitem(last=False)[1].cleanup()
    return folder.name


@dataclass(frozen=True, eq=False)
class LibraryBlocks(MadeBlocks):
    """Has blocks of a grid made by a library.

    Attributes:
        of: the set.
        number: of the array in the set.
        layout: the grid.
        dtype: of the elements.
    """

    of: LibrarySet
    number: int
    layout: GridLayout
    dtype: np.dtype

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        box = self.layout.box(block)
        ends = list(zip(box.start, box.stop, strict=True))
        try:
            _, made = self.of.ask({"ask": "block", "array": self.number, "box": ends})
        except LibraryError as error:
            raise DecodeError(f"{self.of.library.name} {error}") from None
        if made.shape != box.shape or made.dtype != self.dtype:
            raise DecodeError(
                f"expected {list(box.shape)} {self.dtype} of {self.of.library.name} as when it was opened, found"
                f" {list(made.shape)} {made.dtype}"
            )
        return made.reshape(shape)


def library_arrays(
    library: Library, path: str, sources: Sources, options: Mapping[str, Any], terms: Sequence[Term] = ()
) -> list[StoredArray]:
    """Return the arrays that a library finds in a file.

    Args:
        options: for the library, values that JSON has.
        terms: see `StoredArray`.

    Raises:
        DependencyError: the library is not there.
        FormatError: it does not read the file, or finds no numbers.
        SourceError: the file cannot be read.
        SourceChangedError: it was changed while it was read.
    """
    library.check(path)
    kept = LibrarySet.of(library, path, sources, options)
    said = _told(kept, "arrays")
    local = isinstance(sources, LocalSources)
    files = Files.stat(sources, [path, *(name for name in said["files"] if local and name != path)])
    for number, name in enumerate(files.paths):
        if local and said["files"].get(name, [*files.state(number)[:2]]) != [*files.state(number)[:2]]:
            raise SourceChangedError(f"{name}: was changed while {library.name} read it; open it again")
    made: list[StoredArray] = []
    for number, one in enumerate(said["arrays"]):
        shape, dtype = tuple(one["shape"]), np.dtype(one["dtype"])
        if not 0 < len(shape) <= _MAX_AXES or 0 in shape:
            continue
        layout = GridLayout(shape, tuple(one["block"]))
        made.append(
            StoredArray(
                one["path"],
                files,
                layout,
                LibraryBlocks(kept, number, layout, dtype),
                shape,
                tuple(one["dims"]),
                one["nav_ndim"],
                block=layout.block,
                attrs=one["attrs"],
                companion=one["companion"],
                coordinate=one["companion"],
                main=one.get("main"),
                terms=() if one["companion"] else tuple(terms),
            )
        )
    if all(array.companion for array in made):
        raise FormatError(f"{path}: {library.name} finds no arrays of numbers in it")
    return made


def library_original(library: Library, path: str, sources: Sources, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a file says, as the library has it: array -> a tree.

    Raises: what `library_arrays` raises.
    """
    found: dict[str, Any] = _told(LibrarySet.of(library, path, sources, options), "original")["original"]
    return found


def _told(kept: LibrarySet, what: str) -> dict[str, Any]:
    try:
        return kept.ask({"ask": what})[0]
    except LibraryError as error:
        raise FormatError(f"{kept.path}: {kept.library.name} does not read it: it {error}") from None
