"""The tables of words that Python and native code share."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np

from vfs.kernels.native.fuse.tables import SourceWord
from vfs.kernels.native.http.words import ANSWER_WORDS, AnswerWord, ChunkSource
from vfs.kernels.native.words import LINE, SECOND, STATX, TABLE_WORDS, FrameWord, TableWord, Words, offset


def test_words_count_from_0_and_none_is_named_twice() -> None:
    for kind in Words.__subclasses__():
        assert len(kind) == len(kind.__members__), kind
        if kind not in (TableWord, AnswerWord, SourceWord, ChunkSource):
            assert list(kind) == list(range(len(kind)))


def test_what_many_threads_write_to_shares_no_cache_line() -> None:
    written = {TableWord.EPOCH // LINE, TableWord.INSIDE // LINE, TableWord.INSIDE // LINE + 1}
    assert len(written) == 3
    others = {word // LINE for word in TableWord if word not in (TableWord.EPOCH, TableWord.INSIDE)}
    assert not written & others
    assert (max(written) + 1) * LINE <= TABLE_WORDS
    lines = {word: word // LINE for word in AnswerWord}
    counted = {AnswerWord.REQUESTS, AnswerWord.BYTES}  # once for a request
    assert not {lines[word] for word in counted | {AnswerWord.IDLE}} & {lines[w] for w in AnswerWord if w < 2 * LINE}
    assert lines[AnswerWord.IDLE] not in {lines[word] for word in counted}
    assert (max(lines.values()) + 1) * LINE <= ANSWER_WORDS


def test_each_native_source_begins_with_the_words_of_its_frames() -> None:
    for kind in (SourceWord, ChunkSource):
        assert list(kind) == list(range(len(FrameWord), len(FrameWord) + len(kind)))
    assert list(FrameWord) == list(range(len(FrameWord)))


def test_a_struct_statx_says_what_stat_does(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(12345))
    os.utime(path, ns=(5, 1_700_000_000_123_456_789))
    expected = path.stat()
    found = np.zeros(1, STATX)
    everything = 0xFFF
    assert ctypes.CDLL(None).statx(-100, os.fsencode(path), 0, everything, ctypes.c_void_p(found.ctypes.data)) == 0
    assert STATX.itemsize == 256
    assert (found["size"][0], found["links"][0], found["inode"][0]) == (12345, 1, expected.st_ino)
    for name, time in (("written", expected.st_mtime_ns), ("changed", expected.st_ctime_ns)):
        assert (found[name]["seconds"][0], found[name]["nanoseconds"][0]) == divmod(time, SECOND)
    memory = found.view(np.uint8)
    assert memory[offset(STATX, "written", "nanoseconds") :][:4].view("u4")[0] == 123_456_789
