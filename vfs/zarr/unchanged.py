"""Notices sources that change while something is made of them."""

from __future__ import annotations

from collections.abc import Iterable

from vfs.engine.array import ArrayReader
from vfs.errors import SourceChangedError, SourceError


def check_sources(arrays: Iterable[ArrayReader]) -> None:
    """Check that no source of arrays was written since it was opened.

    Raises:
        SourceChangedError: one was.
    """
    for files in {id(array.dataset.files): array.dataset.files for array in arrays}.values():
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
