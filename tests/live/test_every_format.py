"""Follows sets of every format while they are written: what is read is what the finished set has, or an error."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conformance.rows import FIRST, ROWS
from vfs.live.trust import Pace
from vfs.sets import live_set
from vfs.testing.recording import Recording
from vfs.testing.rows import Row

NEVER = 1e9  # seconds: nothing counts because nobody writes
STEPS = 12
INDEX = (".hdr", ".xml", ".emi", ".gtg", ".rpl", ".txt", ".json")

FOLLOWED = {"mib", "raw", "tvips", "seq", "blo", "mrc", "frms6", "npy", "ripple", "nordif", "edax", "spd"}
"""Formats of which frames are seen before the set is whole, in this test."""


@pytest.fixture(autouse=True)
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_set, "LOOKS", Pace(least=0.0, share=0.0))


def recorded(row: Row, folder: Path, preallocate: bool, index_first: bool) -> tuple[Recording, Any, np.ndarray, Any]:
    """Write a set of a row, and return what records it again, the paths that name the copy, and what it holds."""
    source, copy = folder / "source", folder / "copy"
    source.mkdir()
    paths, twin, options = row.write(source)
    files = sorted(one for one in source.rglob("*") if one.is_file())
    index = [one for one in files if one.suffix.lower() in INDEX]
    others = [one for one in files if one not in index]
    order = index + others if index_first else others + index
    if any(one.parent != source for one in files):
        pytest.skip("its files are in several folders")
    recording = Recording(order, copy, preallocate, at_once=0)
    named = [paths] if isinstance(paths, (str, Path)) else list(paths)
    there = [str(one).replace(str(source), str(copy)) for one in named]
    shown = {k: v.replace(str(source), str(copy)) if isinstance(v, str) else v for k, v in options.items()}
    return recording, there if len(there) > 1 else there[0], twin, shown


def check(array: Any, twin: np.ndarray) -> int:
    """Read every frame of an array: those that can be read are those of the twin. Return how many they are."""
    nav = array.group[array._again[1]]._reader.dataset.nav_ndim
    sig = array.shape[nav:]
    whole = twin.reshape(-1, *sig) if twin.size and twin.size % max(1, int(np.prod(sig))) == 0 else None
    read = 0
    for number, position in enumerate(np.ndindex(*array.shape[:nav])):
        try:
            frame = array[position]
        except vfs.SourceError:
            continue
        read += 1
        if array.shape == twin.shape:
            wanted = twin[position]
        else:
            assert whole is not None
            wanted = whole[number]
        np.testing.assert_array_equal(frame, wanted, err_msg=f"frame {number} of {array.shape}, head {array.head}")
    return read


HOW = ("grows", "full size at once", "index last")


def pairs() -> Iterator[Any]:
    """Each row and each way; by day the first row of a format in all ways, and each of the others in one."""
    for number, row in enumerate(row for row in ROWS if row.arranged or row.format == "ome_tiff"):
        for way, how in enumerate(HOW):
            by_day = row in FIRST or way == number % len(HOW)
            yield pytest.param(row, how, id=f"{row.name}-{how}", marks=() if by_day else pytest.mark.thorough)


@pytest.mark.parametrize(("row", "how"), list(pairs()))
def test_what_is_read_is_what_will_be_there(row: Row, how: str, tmp_path: Path) -> None:
    seed = sum(map(ord, row.name + how))
    recording, paths, twin, options = recorded(row, tmp_path, how == "full size at once", how != "index last")
    chance = random.Random(seed)
    total, array, before = recording.left, None, 0
    common = {"follow": True, "settle": NEVER, "give_up": NEVER}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while recording.write(chance.randint(1, max(1, 2 * total // STEPS))):
            try:
                fresh = vfs.open(paths, **common, **options)
            except vfs.VfsError:
                continue
            read = check(fresh, twin)
            if how == "grows" and read:
                before += 1
            array = fresh if array is None else array
            try:
                check(array.refresh(), twin)
            except vfs.SourceChangedError:
                array = None
        finished = vfs.open(paths, follow=True, settle=0.0, **options)
        assert finished.wait(timeout=0) or not finished._live.progress.of
        last = finished.refresh()
        np.testing.assert_array_equal(np.asarray(last[...]).reshape(twin.shape), twin)
        if array is not None:
            check(array.refresh(), twin)
    if row.format in FOLLOWED and how == "grows" and len(twin) > 1:
        assert before, "nothing was seen before the set was whole"
