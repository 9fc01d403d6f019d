"""What a set should hold and does not, or holds and does not show, is an error or a warning: one rule for all formats.

What each format reports is in its own tests; `FormatTests.test_truncated_anywhere` sees to it that none is silent.
"""

from __future__ import annotations

import json
import logging
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.errors import TruncatedSourceError
from vfs.folder_tree import plans
from vfs.formats import Format, npy
from vfs.model.layout import altered
from vfs.model.stored import Absence
from vfs.sets import opening
from vfs.sources.local import LocalSources


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    """Twelve frames."""
    path = tmp_path / "scan.npy"
    np.save(path, np.arange(1, 12 * 8 + 1, dtype=np.uint16).reshape(12, 2, 4))
    return path


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, stack: Path) -> Any:
    """Sets that lack what `short(Absence(…), …)` says."""

    def lacking(*absent: Absence) -> Path:
        def opened(paths: Any, sources: Any) -> Any:
            return [altered(dataset, absent=absent) for dataset in npy.open(paths, sources)]

        format = Format("npy", (".npy",), "", "", None, opened, first_bytes=npy.FORMAT.first_bytes)
        monkeypatch.setattr(opening, "detect", lambda sources, path, given: format)
        monkeypatch.setattr(opening, "by_name", lambda name: format)
        return stack

    return lacking


SKIP = "; that is 1 frame a line: line_skip=1 skips the end of each line"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"nav_shape": (3, 5)}, "nav_shape 3,5 holds 15 frames, 12 are stored: 3 are blank"),
        ({"nav_shape": 10}, "nav_shape 10 holds 10 frames, 12 are stored: 2 are not shown"),
        ({"nav_shape": 10, "sync_offset": 1}, "nav_shape 10 holds 10 frames, 12 are stored: 1 is not shown"),
        ({"nav_shape": 12, "sync_offset": 2}, ""),
        ({"nav_shape": 10, "sync_offset": 2}, ""),
        ({"nav_shape": 13, "sync_offset": -1}, ""),
        ({"nav_shape": 14, "sync_offset": -1}, "nav_shape 14 holds 14 frames, 12 are stored: 1 is blank"),
        ({"sync_offset": 5}, ""),
        ({"nav_shape": (3, 4), "roi": [1, 2]}, ""),
        ({"nav_shape": (2, 5), "roi": [1, 2]}, f"nav_shape 2,5 holds 10 frames, 12 are stored: 2 are not shown{SKIP}"),
        ({"nav_shape": (3, 3)}, f"nav_shape 3,3 holds 9 frames, 12 are stored: 3 are not shown{SKIP}"),
        ({"nav_shape": (2, 2, 2)}, f"nav_shape 2,2,2 holds 8 frames, 12 are stored: 4 are not shown{SKIP}"),
        (
            {"nav_shape": (2, 3)},
            "nav_shape 2,3 holds 6 frames, 12 are stored: 6 are not shown; that is the scan 2 times:"
            " nav_shape=(2, 2, 3) shows all",
        ),
        ({"nav_shape": (2, 4), "sync_offset": 1}, "nav_shape 2,4 holds 8 frames, 12 are stored: 3 are not shown"),
        ({"nav_shape": (3, 3), "line_skip": 1}, ""),
        ({"nav_shape": (1, 11), "line_skip": 4}, ""),  # the end of the last line may be absent
        ({"nav_shape": (2, 3), "line_skip": 2, "sync_offset": 2}, ""),
        (
            {"nav_shape": (3, 2), "line_skip": 1},
            "nav_shape 3,2 holds 6 frames and 1 after each line, 12 are stored: 3 are not shown",
        ),
        (
            {"nav_shape": (4, 3), "line_skip": 1},
            "nav_shape 4,3 holds 12 frames and 1 after each line, 12 are stored: 3 are blank",
        ),
    ],
)
def test_scan_shapes_that_do_not_fit_what_is_stored(stack: Path, how: dict[str, Any], said: str) -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        array = vfs.open(stack, **how)
    assert [str(one.message) for one in given] == ([f"{stack}: {said}"] if said else [])
    assert all(one.category is vfs.IncompleteWarning and one.filename == __file__ for one in given)
    incomplete = array.group.attrs["vfs"].get("incomplete", {})
    if said:
        assert list(incomplete.values()) == [int(said.partition("stored: ")[2].split()[0])]
    else:
        assert not incomplete
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(array))  # it was said
    np.testing.assert_array_equal(again[...], array[...])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"line_skip": 1}, "the frames are one axis; give the scan without the frames to leave out, as nav_shape="),
        ({"line_skip": -1, "nav_shape": (3, 3)}, "line_skip=-1: expected a number of frames, 0 or more"),
        ({"line_skip": 1 << 40, "nav_shape": (3, 3)}, "expected a number of frames"),
        ({"line_skip": 1, "nav_shape": (1 << 20, 1 << 20)}, "holds 1,099,511,627,776 frames, 12 are stored"),
        ({"line_skip": "x"}, "line_skip='x': expected a whole number"),
    ],
)
def test_lines_that_cannot_be_skipped(stack: Path, how: dict[str, Any], said: str) -> None:
    with pytest.raises(vfs.OptionError, match=re.escape(said)):
        vfs.open(stack, allow_incomplete=True, **how)


def test_a_scan_a_thousand_times_larger_is_refused(stack: Path) -> None:
    with pytest.raises(vfs.OptionError, match=r"nav_shape 12001 holds 12,001 frames, 12 are stored.*allow_incomplete"):
        vfs.open(stack, nav_shape=12001)
    with pytest.warns(vfs.IncompleteWarning, match="11,989 are blank"):
        assert vfs.open(stack, nav_shape=12001, allow_incomplete=True).valid.sum() == 12
    with pytest.warns(vfs.IncompleteWarning, match="11,988 are blank"):
        vfs.open(stack, nav_shape=12000)


CUT = Absence("scan.npy: cut", TruncatedSourceError, "drops the rest", {"bytes_left_over": 3})
LOST = Absence("scan.npy: 2 files are missing", counts={"files_missing": 2}, files=("scan2.npy",))


def test_what_would_be_wrong_is_an_error_that_names_the_option(short: Any) -> None:
    path = short(LOST, CUT)
    for opens in (vfs.open, vfs.open_group):
        with pytest.raises(TruncatedSourceError, match=r"^scan.npy: cut; allow_incomplete=True drops the rest$"):
            opens(path)
        with pytest.warns(vfs.IncompleteWarning, match=r"^scan.npy: 2 files are missing; scan.npy: cut$") as given:
            opens(path, allow_incomplete=True)
        assert len(given) == 1
    with pytest.warns(vfs.IncompleteWarning):
        group = vfs.open_group(path, allow_incomplete=True)
    assert group.attrs["vfs"]["incomplete"] == {"files_missing": 2, "bytes_left_over": 3}


def test_without_its_main_array_a_set_opens_as_a_group_only(short: Any) -> None:
    path = short(Absence("scan.npy: its data are missing", vfs.MissingSourceError, "opens what there is", main=True))
    with pytest.warns(vfs.IncompleteWarning, match="its data are missing"):
        assert list(vfs.open_group(path)) == ["data"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(vfs.MissingSourceError, match="its data are missing"):
            vfs.open(path)
    with pytest.warns(vfs.IncompleteWarning):
        vfs.open(path, array="data")
    with pytest.warns(vfs.IncompleteWarning):
        vfs.open(path, allow_incomplete=True)


def test_a_tree_logs_it_once(short: Any, caplog: pytest.LogCaptureFixture) -> None:
    path = short(LOST)
    opener = plans.folder_tree(path.parent).rules.open
    with caplog.at_level(logging.WARNING, "vfs.fuse"):
        opener(str(path), LocalSources())
        opener(str(path), LocalSources())
    assert [record.getMessage() for record in caplog.records] == [LOST.said]


def test_the_commands_say_it_in_a_line(stack: Path, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "vfs", *words], capture_output=True, text=True, timeout=250)

    done = run("info", str(stack), "--nav-shape", "3,5", "--json")
    assert done.stderr == f"vfs: warning: {stack}: --nav-shape 3,5 holds 15 frames, 12 are stored: 3 are blank\n"
    (said,) = json.loads(done.stdout)
    assert said["incomplete"] == [done.stderr.removeprefix("vfs: warning: ").strip()]
    assert said["absent"] == {"frames_missing": 3}
    done = run("export", str(stack), str(tmp_path / "out.zarr"), "--nav-shape", "5,5000")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--allow-incomplete shows them so" in done.stderr
    done = run("export", str(stack), str(tmp_path / "out.zarr"), "--nav-shape", "5,5000", "--allow-incomplete")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)


def test_what_a_correction_image_lacks_is_said(short: Any, tmp_path: Path) -> None:
    dark = short(LOST)
    for opens in (vfs.open, vfs.open_group):
        with pytest.warns(
            vfs.IncompleteWarning, match=r"^scan.npy: 2 files are missing; scan.npy: 2 files are missing$"
        ):
            opens(dark, dark=dark)
