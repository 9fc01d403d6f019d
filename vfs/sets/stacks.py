"""Takes numbered images in a folder as one stack: what people mean by a folder of 1,000 TIFFs, EDF or CBF frames.

The rule: `MIN_STACKED_FILES` or more in one folder, whose names differ in one number, each with one image, all alike.
It is that of all folders that are shown; a file that somebody names is the set that it is by itself.
"""

from __future__ import annotations

import math
from dataclasses import replace

from vfs.engine.cache import ChunkCache
from vfs.errors import VfsError
from vfs.sets.opening import OpenedSet
from vfs.sets.reopening import NUMBER, alike
from vfs.sources.names import absolute, basename, split

MIN_STACKED_FILES = 20
"""Files that are a stack, at least: fewer are seen at a glance as what they are."""
_FRAMES = frozenset({"tiff", "edf", "cbf", "fabio"})
"""Formats in which cameras write a file for each frame."""
_MAX_REFUSED = 10_000


class Stacks:
    """Finds the stacks among the sets of folders.

    Args:
        single: each file by itself.
    """

    def __init__(self, single: bool = False) -> None:
        self.single = single
        self._refused: set[str] = set()  # names without their number, with the folder, that are no stack

    def around(self, found: OpenedSet, cache: ChunkCache | None = None) -> OpenedSet:
        """Return the stack that a set of one file belongs to; the set itself if it belongs to none.

        Args:
            cache: keeps decoded chunks.
        """
        if self.single or found.opening.options.follow or not _is_image(found):
            return found
        folder, name = split(found.opening.paths[0])
        key = f"{folder}/{NUMBER.sub('#', name)}"
        if key in self._refused:
            return found
        paths = alike(found.opening)
        if len(paths) >= MIN_STACKED_FILES and _in_one_number([basename(one) for one in paths]):
            try:
                opening = replace(found.opening, paths=paths)
                made = opening.changed(opening.options, opening.format_options, cache or ChunkCache())
            except VfsError:
                pass  # they are not alike
            else:
                if not made.absent and made.frames == len(paths):
                    return made
        if len(self._refused) >= _MAX_REFUSED:
            self._refused.clear()
        self._refused.add(key)
        return found


def is_stack(found: OpenedSet, path: str) -> bool:
    """Return True for a set that `Stacks.around` made of a file and others; False for one that a description names."""
    return len(found.opening.paths) > 1 and absolute(path) in found.opening.paths


def _is_image(found: OpenedSet) -> bool:
    """Return True for a set of one file with one image."""
    main, opening = found.main, found.opening
    alone = len(opening.paths) == len(main.files) == 1 and opening.options.format in _FRAMES
    return alone and main.ndim >= 2 and math.prod(main.shape[:-2]) == 1


def _in_one_number(names: list[str]) -> bool:
    """Return True if names that differ only in numbers differ in one of them."""
    digits = [NUMBER.findall(name) for name in names]
    return sum(len({*place}) > 1 for place in zip(*digits, strict=True)) == 1
