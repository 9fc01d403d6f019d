"""What the client scripts share. Each runs in a process of its own and shows what one foreign tool makes of a face::

    python read_zarr.py FACE EXPECTED.npy [ARRAY]

FACE is a folder (a zarr face of a mount, or a copy of one), a URL where the tool takes one, or a pickled `vfs.store.Store` (NAME.pickle)
for tools that read stores. ARRAY is the array's path in it ("data"). EXPECTED.npy holds what must come back, element by element
and in the same dtype. Exit status:

- 0: all is equal; one line of JSON on stdout says what was seen
- 1: something came back that is not what was expected
- 3: the tool reported that it cannot read (what a source that is broken must lead to)
"""

from __future__ import annotations

import json
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

WRONG, UNREADABLE = 1, 3


def source(face: str) -> Any:
    """The store a pickle holds; other faces as they are."""
    if not face.endswith(".pickle"):
        return face
    with open(face, "rb") as file:
        return pickle.load(file)


def regions(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """All of it; across the borders of chunks; the far edge; the first element."""
    yield (slice(None),) * len(shape)
    yield tuple(slice(n // 3, max(n // 3 + 1, n - n // 4)) for n in shape)
    yield tuple(slice(max(0, n - 2), n) for n in shape)
    yield tuple(slice(0, 1) for _ in shape)


def wrong(message: str) -> NoReturn:
    """Say what came back instead of what was expected."""
    print(message, file=sys.stderr)
    sys.exit(WRONG)


def main(read: Callable[[str, str], tuple[Callable[[tuple[slice, ...]], Any], dict[str, Any]]]) -> None:
    """Read a face with a tool and compare.

    Args:
        read: (face, array) -> (function from slices to elements, what else was seen).
    """
    face, expected_file, *rest = sys.argv[1:]
    expected = np.load(expected_file)
    try:
        get, seen = read(face, rest[0] if rest else "data")
        got = [(region, np.asarray(get(region))) for region in regions(expected.shape)]
    except Exception:
        traceback.print_exc()
        sys.exit(UNREADABLE)
    for region, part in got:
        want = expected[region]
        if part.dtype != want.dtype or part.shape != want.shape:
            wrong(f"{region}: expected {want.dtype}{list(want.shape)}, found {part.dtype}{list(part.shape)}")
        if part.tobytes() != want.tobytes():
            wrong(f"{region}: {np.count_nonzero(part != want):,} of {want.size:,} elements differ")
    print(json.dumps(seen | {"dtype": str(expected.dtype), "shape": expected.shape}))
