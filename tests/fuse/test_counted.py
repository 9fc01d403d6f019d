"""How much is read through a mount: real bytes, as the kernel counts them for the process that serves it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

import vfs
from tests.conformance.rows import FIRST, ROWS
from tests.fuse.support import server_of
from vfs.testing.counted import counted
from vfs.testing.inside import reader_of
from vfs.testing.suites import Row

ASKING = 600
"""Bytes: requests of the kernel for a file are read by the server, too, 64 bytes each; a frame of
most rows has 4 KiB.
"""


def described(row: Row, folder: Path, name: str) -> Path:
    """A set of a row under a name of its own, by way of a description."""
    folder.mkdir()
    paths, _, options = row.write(folder)
    made = folder / f"{name}.vfs.json"
    if row.format == "description":
        return Path(paths).rename(made)
    files = [paths] if isinstance(paths, str | os.PathLike) else paths
    made.write_text(
        json.dumps(
            {
                "vfs": 1,
                "format": row.format,
                "files": [os.path.relpath(path, folder) for path in files],
                "options": dict(options),
            }
        )
    )
    return made


def content(path: Path) -> int:
    """Bytes of a file, all read, past Python's buffers."""
    with open(path, "rb", buffering=0) as file:
        return len(file.read())


def contents(paths: Sequence[Path]) -> int:
    return sum(map(content, paths))


def chunks_of(array: Path) -> list[Path]:
    """The files of an array's chunks; the one of an array without axes is called `c`."""
    return [Path(where, name) for where, _, names in os.walk(array / "c") for name in names] or [array / "c"]


def excess(rows: Sequence[Row], folder: Path, point: Path) -> dict[Row, str]:
    """Rows of which more is read through a mount than they state, and what.

    Of every row the first reading counts: its files are not open, and nothing is kept. Another set
        like it is read before, which loads kernels.
    """
    folder.mkdir()
    kinds = ("before", "npy", "chunks")
    sets = {
        f"{kind}{n}": described(row, folder / f"{kind}{n}", f"{kind}{n}")
        for n, row in enumerate(rows)
        for kind in kinds
    }
    wrong = {}
    with vfs.mount([[path] for path in sets.values()], point) as mount:
        server = server_of(mount).pid
        for n, row in enumerate(rows):
            array = reader_of(vfs.open_group(sets[f"before{n}"]).main).dataset.path
            before, chunks = (chunks_of(point / f"{kind}{n}.zarr" / array) for kind in ("before", "chunks"))
            contents([point / f"before{n}.npy", *before])
            for paths in ([point / f"npy{n}.npy"], chunks):
                asked, nbytes = counted(partial(contents, paths), server)
                if nbytes > row.factor * asked + ASKING * len(paths):
                    wrong[row] = f"{row.name}: {nbytes:,} bytes were read for {asked:,} of {paths[0]}"
    return wrong


@pytest.mark.skipif(
    not os.path.exists("/proc/self/io"), reason="NOTHING THAT IS READ IS COUNTED: this kernel has no /proc/self/io"
)
@pytest.mark.parametrize("rows", [FIRST, pytest.param(ROWS, marks=pytest.mark.thorough)], ids=["first", "all"])
def test_no_more_is_read_than_stated(tmp_path: Path, point: Path, rows: Sequence[Row]) -> None:
    wrong = excess(rows, tmp_path / "once", point)
    if wrong:  # a server also looks at who reads, now and then: hardly twice at the same row
        wrong = excess([*wrong], tmp_path / "twice", point)
    assert not wrong, "\n".join(wrong.values())
