"""Foreign tools in full, through a mount: `scripts/test --clients`, which installs them first (`install.py`).

Each reads a whole array, a region across the borders of chunks and the far edge, on the faces it
knows, and is compared with numpy. Then a source is deleted or truncated under the mount before
anything was read: the tool must report an error, and whatever else it returns must be right. A tool
that is known to return something else is marked with the reason, and the day it stops doing so is
noticed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import vfs

from .clients import CHUNKS, FACES, MOUNTED, Answer, Client, Record, Scan, cases, need, outcome, run, status
from .compare import RIGHT, UNREADABLE

if not os.environ.get("VFS_CLIENTS"):
    pytest.skip("foreign tools in full are opt-in: scripts/test --clients", allow_module_level=True)


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    return Scan.written(tmp_path)


@pytest.fixture
def point(scan: Scan, tmp_path: Path) -> Iterator[Path]:
    """The scan mounted."""
    (tmp_path / "mnt").mkdir()
    with vfs.mount(scan.path, tmp_path / "mnt", chunks=CHUNKS):
        yield tmp_path / "mnt"


def read(client: Client, face: str, point: Path, scan: Scan, record: Record, column: str = "") -> Answer:
    """What a client saw; a line of the table, of which `column` is what it made of a failure."""
    line = {"client": client.name, "face": face}
    need(client, line, record, "mounted")
    answer = run(client, str(point / FACES[face]), scan.expected)
    offered = set(answer.regions.values()) != {"not offered"}
    if not column:
        line |= {
            name: answer.regions.get(name, status(answer.ended)).replace("not offered", "")
            for name in ("whole", "crossing", "edge")
        }
    elif offered:
        line[column] = outcome(answer) + (f" ({client.lies})" if client.lies else "")
    record("mounted", line | {"version": answer.seen.get("version", "")})
    if not offered:
        pytest.skip(f"{client.name} {answer.seen['version']} does not know the {face} face")
    return answer


@pytest.mark.parametrize(("client", "face"), cases(MOUNTED))
def test_reads(client: Client, face: str, point: Path, scan: Scan, record_property: Record) -> None:
    answer = read(client, face, point, scan, record_property)
    assert answer.ended == 0
    assert set(answer.regions.values()) <= {"equal", "not offered"}
    assert answer.regions["whole"] == "equal"


@pytest.mark.parametrize("broken", ["deleted", "truncated"])
@pytest.mark.parametrize(("client", "face"), cases(MOUNTED))
def test_an_unreadable_source_is_an_error(
    client: Client, face: str, broken: str, point: Path, scan: Scan, record_property: Record
) -> None:
    if broken == "deleted":
        scan.second.unlink()
    else:
        os.truncate(scan.second, 1000)
    regions, _, ended = read(client, face, point, scan, record_property, "unreadable source")
    right = ended == -signal.SIGBUS if client.killed else ended == UNREADABLE and regions["whole"] == "unreadable"
    if client.lies:
        assert not right, f"{client.name} is said to lie ({client.lies}), but it reported the error"
        pytest.xfail(client.lies)
    assert right, regions
    assert set(regions.values()) <= set(RIGHT)
