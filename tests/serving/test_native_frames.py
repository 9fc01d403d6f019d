"""What native code is shown of an array: where its frames lie, which of its files are open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vfs.backends.handles import Descriptor, Handles
from vfs.kernels.native.words import FrameWord
from vfs.model.layout import FrameLayout, FrameRecord, Scan
from vfs.serving.native_frames import OVER, NativeFrames
from vfs.testing.backends import local_files


def word_at(address: int, number: int) -> int:
    """Read a word behind an address, as native code does."""
    from vfs.kernels.native import memory

    return int(memory.read_word(address, number))


def test_native_code_is_shown_where_frames_lie_and_what_is_open(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(100))
    (tmp_path / "b.bin").write_bytes(bytes(60))
    files = local_files([tmp_path / "a.bin", tmp_path / "b.bin"])
    layout = FrameLayout.of(FrameRecord((2, 5), 2), [5, 3]).arranged(Scan((4, 2)))
    words = np.full(len(FrameWord) + 2, 7, np.int64)
    frames = NativeFrames(words, files, layout)
    assert words[len(FrameWord) :].tolist() == [7, 7]  # the others belong to the kind of source
    assert words[FrameWord.STREAM_ROWS] == len(layout.stream) == 2
    assert [word_at(words[FrameWord.HOW], k) for k in range(4)] == layout.how[0][:4].tolist()
    assert words[FrameWord.CHOICES] == 0
    assert words[FrameWord.STATES] == files.states.ctypes.data
    frames.answer_until(2.5)
    assert words[FrameWord.UNTIL] == 2_500_000_000
    frames.answer_until(OVER)
    assert words[FrameWord.UNTIL] == 1  # 0 would be for ever
    opened = Handles(files, Descriptor).get(1, 0, 60)
    frames.show(1, opened)
    assert [word_at(words[FrameWord.DESCRIPTORS], k) for k in range(2)] == [0, opened.fd + 1]
    assert os.fstat(word_at(words[FrameWord.DESCRIPTORS], 1) - 1).st_size == 60
    assert frames.hide(1) is opened
    assert frames.hide(1) is None
    assert [word_at(words[FrameWord.DESCRIPTORS], k) for k in range(2)] == [0, 0]


class Told:
    """The lifetime of a set which somebody finds changed while it is asked how long it is good."""

    stamp = 1
    dropped = False

    def __init__(self) -> None:
        self.told: list[Callable[[], None]] = []
        self.times = [10.0]

    @property
    def until(self) -> float:
        if not self.times:
            return -1e9
        good = self.times.pop()
        for tell in self.told.copy():
            tell()
        return good


def test_what_a_set_says_while_it_is_asked_counts(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(10))
    words = np.zeros(len(FrameWord), np.int64)
    frames = NativeFrames(words, local_files([tmp_path / "a.bin"]), None)
    lifetime, said = Told(), []
    frames.follow(lifetime, lambda: said.append(int(words[FrameWord.UNTIL])))
    assert words[FrameWord.UNTIL] == 1
    frames.trust(lifetime.until)
    assert said == [1]
    assert words[FrameWord.UNTIL] == 1  # not 10 seconds: its files must be looked at again
    lifetime.times = [20.0, 20.0]
    lifetime.told.clear()
    frames.trust(lifetime.until)
    assert words[FrameWord.UNTIL] == 20_000_000_000
    lifetime.dropped, lifetime.times = True, [30.0, 30.0]
    frames.trust(lifetime.until)
    assert words[FrameWord.UNTIL] == 1
    frames.end()


def test_of_frames_that_it_does_not_read_native_code_knows_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(10))
    words = np.full(len(FrameWord), 7, np.int64)
    files = local_files([tmp_path / "a.bin"])
    NativeFrames(words, files, None)
    assert words[FrameWord.MOVES] == files.moves.ctypes.data
    assert not words[FrameWord.HOW : FrameWord.DESCRIPTORS].any()
