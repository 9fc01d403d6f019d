"""Finds the newest file of a set that is still being written, for sets that cannot be opened because it has only begun.

A file of a series says nothing while its header is not whole: it is empty, ends within its header, or was given its
full size and holds zeros. Such a set is opened as it was before that file came. Only the newest file may have begun:
of several that are named, the last one; of those beside a file that stands for its set, the one with the highest
numbers of all that are called alike. Any other file that cannot be read is an error, and so is the newest one when
nobody was seen to write it for long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from vfs.errors import FormatError, SourceError, VfsError
from vfs.live.file_watch import SEEN
from vfs.model.sources import Sources
from vfs.sources.local import LocalSources, LocalWithout
from vfs.sources.names import split

T = TypeVar("T")
_NUMBER = re.compile(r"[0-9]+")


def as_before(
    opened: Callable[[Sequence[str], Sources], T], names: Sequence[str], sources: Sources, give_up: float
) -> tuple[T, str | None]:
    """Open a set, without its newest file if that one has only begun.

    Args:
        opened: opens the set that some files name in some sources.
        names: the files that name it; sources: where they are.
        give_up: seconds in which nobody is seen to write a file, after which it counts as it is.

    Returns: (the set, the file that was left out or None).

    Raises: what `opened` raises.
    """
    try:
        return opened(names, sources), None
    except (FormatError, SourceError) as error:
        begun = _newest(names, sources, give_up)
        others = [name for name in names if name != begun]
        if begun is None:
            raise
        left = LocalWithout(sources, begun) if isinstance(sources, LocalSources) else sources
        if left is sources and len(others) == len(names):
            raise
        with suppress(VfsError):
            return opened(others, left), begun
        raise error


def _newest(names: Sequence[str], sources: Sources, give_up: float) -> str | None:
    """Return the file of a set that may have only begun; None if there is none: see `as_before`.

    Beside a single file there may be several series: that in which a file was written last is the one that grows.
    """
    last, written = names[-1], dict[str, int]()
    if len(names) == 1:
        folder, name = split(names[0])
        with suppress(SourceError):
            for one in sources.names(folder):
                if one != name:
                    with suppress(SourceError):
                        written[sources.join(folder, one)] = sources.state(sources.join(folder, one)).written
        if not written:
            return None
        alike = _NUMBER.sub("0", max(written, key=lambda path: (written[path], _numbers(path))))
        last = max((path for path in written if _NUMBER.sub("0", path) == alike), key=_numbers)
    return last if SEEN.look(sources, last).quiet < give_up else None


def _numbers(path: str) -> list[int]:
    """Return the numbers in a name."""
    return [int(digits) for digits in _NUMBER.findall(path)]
