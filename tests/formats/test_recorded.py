"""Files of a header and records of one length: every format answers alike what they lack, and what is left over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, opens_incomplete, refuses, same
from vfs.testing.backscatter_writers import write_nordif, write_spd, write_up
from vfs.testing.frame_writers import write_blo
from vfs.testing.writers import write_ripple

TWIN = frames_of((3, 4, 6, 6), "u1") | np.uint8(1)
Write = Callable[[Path, np.ndarray], tuple[Path, Path]]


def blo(folder: Path, frames: np.ndarray) -> tuple[Path, Path]:
    return (path := write_blo(folder, frames)), path


def edax(folder: Path, frames: np.ndarray) -> tuple[Path, Path]:
    return (path := write_up(folder, frames)), path


def nordif(folder: Path, frames: np.ndarray) -> tuple[Path, Path]:
    return write_nordif(folder, frames), folder / "Pattern.dat"


def spd(folder: Path, frames: np.ndarray) -> tuple[Path, Path]:
    return (path := write_spd(folder, frames.reshape(3, 4, 36))), path


def ripple(folder: Path, frames: np.ndarray) -> tuple[Path, Path]:
    return write_ripple(folder, frames.reshape(3, 4, 36), record="vector"), folder / "map.raw"


WRITERS: dict[Write, tuple[str, int]] = {
    blo: ("patterns", 42),
    edax: ("patterns", 36),
    nordif: ("patterns", 36),
    spd: ("spectra", 36),
    ripple: ("records", 36),
}
"""What writes a set, and returns (what names it, its records) -> (the word for a record, its bytes)."""


def shown(group: vfs.VirtualGroup) -> np.ndarray:
    return group.main[...].reshape(12, 6, 6)


@pytest.mark.parametrize("write", WRITERS)
def test_bytes_behind_the_last_record_are_said(tmp_path: Path, write: Write) -> None:
    path, data = write(tmp_path, TWIN)
    data.write_bytes(data.read_bytes() + bytes(7))
    said = f"7 bytes are left over after the last whole one of its {WRITERS[write][0]}"
    same(shown(opens_incomplete(path, data.name, said, counts={"bytes_left_over": 7})), TWIN.reshape(12, 6, 6))


@pytest.mark.parametrize("rest", [0, 7])
@pytest.mark.parametrize("write", WRITERS)
def test_more_records_than_declared_are_said(tmp_path: Path, write: Write, rest: int) -> None:
    path, data = write(tmp_path, TWIN)
    unit, record = WRITERS[write]
    data.write_bytes(data.read_bytes() + data.read_bytes()[-2 * record :] + bytes(rest))
    counts = {"frames_left_out": 2} | ({"bytes_left_over": 7} if rest else {})
    if write is nordif and rest:
        group = opens_incomplete(
            path, "7 bytes that are none", "another acquisition", counts=counts, kind=vfs.FormatError
        )
    else:
        words = [f"3 × 4, 14 {unit} are stored; 2 are not shown"] + ["7 bytes are left over"] * bool(rest)
        group = opens_incomplete(path, data.name, *words, counts=counts)
        again = vfs.open(path, nav_shape=(2, 7)) if not rest else group.main
        same(again[...].reshape(-1, 6, 6)[:12], TWIN.reshape(12, 6, 6))
    same(shown(group), TWIN.reshape(12, 6, 6))


@pytest.mark.parametrize("write", WRITERS)
def test_fewer_records_than_declared_are_said(tmp_path: Path, write: Write) -> None:
    path, data = write(tmp_path, TWIN)
    unit, record = WRITERS[write]
    data.write_bytes(data.read_bytes()[: -record - 10])
    kind = vfs.TruncatedSourceError if write is ripple else None  # no scan that was stopped: written at once
    said = f"3 × 4, 10 of 12 {unit} are stored; {'it looks truncated' if kind else 'the others are blank'}"
    counts = {"frames_missing": 2, "bytes_left_over": record - 10}
    group = opens_incomplete(path, data.name, said, counts=counts, kind=kind)
    same(shown(group)[:10], TWIN.reshape(12, 6, 6)[:10])
    assert not shown(group)[10:].any()
    data.write_bytes(data.read_bytes()[: -10 * record])
    refuses(path, data.name, f"expected {unit} of {record} bytes", "truncated", kind=vfs.TruncatedSourceError)


def test_records_that_nobody_wrote_are_counted_once(tmp_path: Path) -> None:
    path = write_blo(tmp_path, TWIN)
    path.write_bytes(path.read_bytes()[: -5 * 42] + bytes(5 * 42))
    opens_incomplete(path, "given its full size at once", "6 of 12 patterns", counts={"frames_missing": 6})


@pytest.mark.parametrize("name", ["blo", "czi", "ebsp", "edax", "eer", "lif", "nd2", "ndtiff", "sls", "spd"])
def test_sets_of_one_file_are_opened_one_at_a_time(tmp_path: Path, name: str) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(b"anything")
    refuses(
        paths,
        f"b: each file is, or names, a set of its own in the format {name}",
        "one at a time",
        kind=vfs.OptionError,
        format=name,
    )


def test_part_of_a_record_may_have_yet_to_come(tmp_path: Path) -> None:
    path = write_up(tmp_path, TWIN, version=1)  # says no number of patterns
    path.write_bytes(path.read_bytes()[:-7])
    refuses(path, "29 bytes are left over", kind=vfs.TruncatedSourceError)
    same(vfs.open(path, follow=True)[:11], TWIN.reshape(12, 6, 6)[:11])
