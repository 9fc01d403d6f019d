"""Descriptions whose files are missing or cut: an error, and what is shown with `allow_incomplete`
where it is known where the rest belongs.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.description_sets import values, write
from tests.formats.frame_checks import opens_incomplete, refuses
from vfs.errors import MissingSourceError, TruncatedSourceError

TWIN = values((4, 6, 8), "<u2")
HEAD: dict[str, Any] = {"vfs": 1, "dtype": "<u2", "shape": [4, 6, 8]}


def parts(tmp_path: Path, **frames: Any) -> Path:
    """The four frames in a file each."""
    for k in range(4):
        (tmp_path / f"p{k}.bin").write_bytes(TWIN[k].tobytes())
    return write(tmp_path, HEAD | {"files": [f"p{k}.bin" for k in range(4)], "frames": frames})


@pytest.mark.parametrize("frames", [{}, {"per_file": 1}, {"per_file": [1, 1, 1, 1]}, {"first_frame": [0, 1, 2, 3]}])
@pytest.mark.parametrize("lost", [(0,), (1, 2), (3,)])
def test_frames_of_files_that_are_not_there(tmp_path: Path, frames: Any, lost: tuple[int, ...]) -> None:
    path = parts(tmp_path, **frames)
    blank = TWIN.copy()
    for k in lost:
        (tmp_path / f"p{k}.bin").unlink()
        blank[k] = 0
    counts = {"files_missing": len(lost), "frames_missing": len(lost)}
    with pytest.raises(
        MissingSourceError,
        match=rf"files\[{lost[0]}\]: .*p{lost[0]}.bin: no such file.* shows what they hold as blank$",
    ):
        vfs.open(path)
    with pytest.warns(vfs.IncompleteWarning, match=rf"p{lost[0]}.bin: no such file"):
        group = vfs.open_group(path, allow_incomplete=True)
    assert group.attrs["vfs"]["incomplete"] == counts
    np.testing.assert_array_equal(group.main[...], blank)
    np.testing.assert_array_equal(group.main.valid, blank.any(axis=(1, 2)))


@pytest.mark.parametrize(("frames", "cut"), [({"per_file": 1}, 1), ({"per_file": [1, 1, 1, 1]}, 1), ({}, 3)])
def test_frames_of_files_that_are_cut(tmp_path: Path, frames: Any, cut: int) -> None:
    path = parts(tmp_path, **frames)
    (tmp_path / f"p{cut}.bin").write_bytes(b"cut")
    words = (
        [f"p{cut}.bin: expected 1 frames of 96 bytes from byte 0 on, the file has room for 0; it looks truncated"]
        if frames
        else ["expected 4 frames"]
    )
    group = opens_incomplete(path, *words, counts={"frames_missing": 1}, kind=TruncatedSourceError)
    blank = TWIN.copy()
    blank[cut] = 0
    np.testing.assert_array_equal(group.main[...], blank)


def test_frames_of_which_nothing_says_where_they_belong(tmp_path: Path) -> None:
    path = parts(tmp_path)
    (tmp_path / "p1.bin").write_bytes(b"cut")
    assert "allow_incomplete" not in refuses(
        path, "expected 4 frames, the files have 3", kind=TruncatedSourceError, allow_incomplete=True
    )
    (tmp_path / "p2.bin").unlink()
    assert "allow_incomplete" not in refuses(
        path, "p2.bin: no such file", kind=MissingSourceError, allow_incomplete=True
    )
    path = parts(tmp_path, running_on=True)
    (tmp_path / "p2.bin").unlink()
    assert "allow_incomplete" not in refuses(
        path, "p2.bin: no such file", kind=MissingSourceError, allow_incomplete=True
    )
    for file in tmp_path.glob("p*.bin"):
        file.unlink()
    refuses(path, "p0.bin: no such file, nor are 3 others there", kind=MissingSourceError, allow_incomplete=True)


@pytest.mark.parametrize("codec", [None, {"id": "zlib"}])
def test_blocks_that_are_not_there(tmp_path: Path, codec: Any) -> None:
    pack = zlib.compress if codec else bytes
    data = [pack(frame.tobytes()) for frame in TWIN]
    for k in range(4):
        (tmp_path / f"p{k}.bin").write_bytes(data[k])
    blocks = [
        {"file": k, "offset": 0, "origin": [k, 0, 0], "shape": [1, 6, 8], "codec": codec, "nbytes": len(data[k])}
        for k in range(4)
    ]
    path = write(tmp_path, HEAD | {"files": [f"p{k}.bin" for k in range(4)], "blocks": blocks})
    blank = TWIN.copy()
    blank[1] = 0
    (tmp_path / "p1.bin").unlink()
    np.testing.assert_array_equal(
        opens_incomplete(path, "p1.bin: no such", counts={"files_missing": 1}, kind=MissingSourceError).main[...], blank
    )
    (tmp_path / "p1.bin").write_bytes(data[1][:-1])
    group = opens_incomplete(
        path, "blocks[1].offset", "reaches beyond", counts={"blocks_missing": 1}, kind=TruncatedSourceError
    )
    np.testing.assert_array_equal(group.main[...], blank)
    assert group.main.valid.tolist() == [True, False, True, True]
    for file in tmp_path.glob("p*.bin"):
        file.write_bytes(b"")
    assert "allow_incomplete" not in refuses(
        path, "it looks truncated, and 3 more", kind=TruncatedSourceError, allow_incomplete=True
    )
