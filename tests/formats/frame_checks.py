"""What the tests of formats share: boxes against a numpy twin, what is refused and what is warned of."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.testing.arranged import check_arranged, same

BACKENDS = ("mmap", "buffered")


def frames_of(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Random numbers over the whole range of a dtype."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def regions(shape: tuple[int, ...], count: int = 40, seed: int = 1) -> Iterator[tuple[slice, ...]]:
    """The whole array and random boxes with steps."""
    rng = random.Random(seed)
    yield tuple(slice(None) for _ in shape)
    for _ in range(count):
        cut = []
        for n in shape:
            a, b = sorted((rng.randrange(n + 1), rng.randrange(n + 1)))
            cut.append(slice(a, b, rng.choice((1, 1, 1, 2, 3))))
        yield tuple(cut)


def check_boxes(paths: Any, twin: np.ndarray, path: str = "data", count: int = 40, **options: Any) -> None:
    """Every box of an array equals its twin, under every backend."""
    for backend in BACKENDS:
        array = vfs.open_group(paths, backend=backend, **options)[path]
        for cut in regions(twin.shape, count):
            same(array.read(cut), twin[cut])


def arranged(paths: Any, frames: np.ndarray, **options: Any) -> None:
    """Check that frames [n, ...] can be shown as any scan, for what no row of the suite stores alike."""
    check_arranged(partial(vfs.open, paths, **options), frames, np.zeros_like(frames[0]))


def one_line(error: BaseException) -> str:
    """The message of an error that vfs raised on purpose: one line, not too long."""
    assert isinstance(error, vfs.VfsError), repr(error)
    text = str(error)
    assert text
    assert "\n" not in text
    assert len(text) < 2000
    return text


@contextmanager
def unwarned() -> Iterator[None]:
    """Open a damaged set without a warning of what is absent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vfs.IncompleteWarning)
        yield


def refuses(paths: Any, *words: str, kind: type[vfs.VfsError] = vfs.VfsError, **options: Any) -> str:
    """Opening is refused in one line with these words. Returns: the line."""
    with pytest.raises(kind) as caught:
        vfs.open(paths, **options)
    text = one_line(caught.value)
    for word in words:
        assert word in text, text
    return text


def warned(paths: Any, *words: str, **options: Any) -> vfs.VirtualArray:
    """Opening gives one warning with these words. Returns: the main array."""
    with pytest.warns(vfs.IncompleteWarning) as given:
        array = vfs.open(paths, **options)
    (said,) = [str(one.message) for one in given]
    assert "\n" not in said
    for word in words:
        assert word in said, said
    return array


def incomplete(paths: Any, *words: str, kind: type[vfs.VfsError] = vfs.VfsError, **options: Any) -> vfs.VirtualArray:
    """Opening is refused in one line with these words that names `allow_incomplete`, with which it
    is a warning. Returns: the main array.
    """
    refuses(paths, *words, "allow_incomplete=True", kind=kind, **options)
    return warned(paths, *words, allow_incomplete=True, **options)


def opens_incomplete(
    paths: Any, *words: str, counts: dict[str, int], kind: type[vfs.VfsError] | None = None, **options: Any
) -> vfs.VirtualGroup:
    """`warned`, or with `kind` `incomplete`; and the attributes count. Returns: the group."""
    array = warned(paths, *words, **options) if kind is None else incomplete(paths, *words, kind=kind, **options)
    assert array.group.attrs["vfs"]["incomplete"] == counts
    return array.group
