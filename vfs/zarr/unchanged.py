"""Notices sources that change while something is made of them."""

from __future__ import annotations

from collections.abc import Iterable

from vfs.engine.array import ArrayReader
from vfs.errors import SourceChangedError, SourceError
from vfs.model.files import Files


def sources_of(arrays: Iterable[ArrayReader]) -> list[Files]:
    """Return the files of arrays, each set of them once."""
    return list({id(array.backend.files): array.backend.files for array in arrays}.values())


def state_of(arrays: Iterable[ArrayReader]) -> str:
    """Return `Files.identity` of the sources of arrays; "" where whoever opened them accepts any state."""
    files = sources_of(arrays)
    return "" if any(one.accepts for one in files) else " ".join(one.identity() for one in files)


def check_sources(arrays: Iterable[ArrayReader]) -> None:
    """Look at the sources of arrays, and check that none was written since it was opened. It may have been touched.

    Raises:
        SourceChangedError: one was.
    """
    for files in sources_of(arrays):
        files.check_begun_anew()
        for number, path in enumerate(files.paths):
            if files.sizes[number] < 0 or files.written[number] == 0:  # nothing is known that it could differ from
                continue
            try:
                now = files.sources.state(path)
            except SourceError as error:
                raise SourceChangedError(f"{path}: cannot be found any more: {error}; export it again") from None
            if not files.same(number, now):
                differs = files.state(number).difference(now)
                raise SourceChangedError(f"{path}: was changed while it was exported ({differs}); export it again")
