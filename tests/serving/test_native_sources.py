"""The table of native sources: numbers, and when what was taken out is freed."""

from __future__ import annotations

import numpy as np

from vfs.kernels.native.words import LINE, FrameWord, TableWord
from vfs.serving.native_sources import SourceTable


def test_no_number_is_used_twice_and_a_place_only_when_it_is_free() -> None:
    table = SourceTable(4)
    words = [np.zeros(len(FrameWord), np.int64) for _ in range(6)]
    for n in range(4):
        assert table.number() == n
        table.add(n, words[n])
    assert table.number() == -1
    table.remove(words[2], words[2])
    assert table.number() == 6
    table.add(6, words[4])
    assert table.number(2) == table.number() == -1  # another one has the place
    table.remove(words[4], words[4])
    assert table.number(2) == 2


def test_a_source_is_kept_while_somebody_is_inside_or_has_put_it_down() -> None:
    held: set[int] = set()
    table = SourceTable(4, lambda: held)
    words = np.zeros(len(FrameWord), np.int64)
    for at in (TableWord.INSIDE, TableWord.INSIDE + LINE):
        table.add(table.number(), words)
        table.words[at] = 1
        table.remove("kept", words)
        for wait in ("somebody is inside", "it was put down", ""):
            table.words[at], held = int(wait == "somebody is inside"), {words.ctypes.data} if wait else set()
            table.retired.collect()
            table.retired.collect()
            assert [*table.retired] == ["kept"] * bool(wait)
