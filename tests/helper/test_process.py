"""Any library can be asked in a process of its own: these tests ask one that is no library at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from vfs.helper.messages import packed, unpacked
from vfs.helper.process import Helper

LIBRARY = """
import os
import numpy as np
from vfs.helper.messages import packed
from vfs.helper.server import serve

def read(request, file, write):
    head = os.read(file, 4)
    write(packed({"head": head.decode(), "word": os.environ["WORD"], **request}, np.arange(3)))
    if head == b"bad!":
        os.abort()
    write(packed({"end": True}))

serve(lambda: read)
"""


@pytest.fixture
def helper() -> Iterator[Helper]:
    made = Helper("files of tests", LIBRARY, {"WORD": "said"})
    yield made
    made.close()
    assert (made.running, made.waiting) == (None, 0)


@pytest.mark.parametrize(
    ("head", "ended", "messages"), [("good", "ends without an answer (status 0)", 2), ("bad!", "crashes (SIGABRT)", 1)]
)
def test_a_file_is_read_by_a_library_elsewhere(
    tmp_path: Path, helper: Helper, head: str, ended: str, messages: int
) -> None:
    path = tmp_path / "file"
    path.write_text(head)
    with path.open("rb") as file:
        answer = helper.ask(str(path), {"asked": 5}, file.fileno())
    assert answer.ended == ended
    said = list(unpacked(answer.stream))
    assert len(said) == messages
    assert said[0][0] == {"head": head, "word": "said", "asked": 5}
    assert said[0][1][0].tolist() == [0, 1, 2]
    assert helper.running is not None
    assert helper.running.process.poll() is None  # the next file does not notice
    assert os.getpgid(helper.running.process.pid) != os.getpgid(0)  # Ctrl-C does not reach it


def test_a_message_that_is_cut_is_left_out() -> None:
    whole = packed({"n": 1}, np.arange(6).reshape(2, 3)) + packed({"n": 2})
    for size in range(len(whole)):
        found = [said["n"] for said, _ in unpacked(memoryview(whole[:size]))]
        assert found in ([], [1])
    (first, tables), (second, none) = unpacked(memoryview(whole))
    assert (first, second, none) == ({"n": 1}, {"n": 2}, [])
    assert tables[0].tolist() == [[0, 1, 2], [3, 4, 5]]
