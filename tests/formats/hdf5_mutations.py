"""Damaged HDF5 files: `python -m tests.formats.hdf5_mutations 10000 [SEED]` changes files of the writers and real ones (where they are), and prints
what came of it.

Only errors of vfs may come, within the time and memory that a file may cost (`vfs.h5.reading`).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.conftest import SHARED
from tests.formats import test_hdf5
from tests.formats.frame_checks import main

MOST = 1_000_000  # bytes of a real file


def copied(path: Path) -> Callable[[Path], tuple[Path, Mapping[str, Any]]]:
    """What puts a real file, with those beside it, into a folder."""

    def make(folder: Path) -> tuple[Path, Mapping[str, Any]]:
        for file in path.parent.iterdir():
            if file.is_file() and file.stat().st_size <= MOST:
                shutil.copyfile(file, folder / file.name)
        return folder / path.name, {"format": "hdf5", "head": 1 << 20}

    return make


def written(make: Callable[[Path], tuple[Path, Mapping[str, Any]]]) -> Callable[[Path], tuple[Path, Mapping[str, Any]]]:
    def wide(folder: Path) -> tuple[Path, Mapping[str, Any]]:
        path, options = make(folder)
        return path, {**options, "head": 1 << 20}

    return wide


if __name__ == "__main__":
    count, seed = (int(sys.argv[n]) if len(sys.argv) > n else default for n, default in ((1, 10_000), (2, 0)))
    main(count, {make.__name__: written(make) for make in test_hdf5.SETS}, seed)
    real = [p for p in sorted(SHARED.glob("hdf5/*/*")) if p.is_file() and p.stat().st_size <= MOST and test_hdf5.is_hdf5(p)]
    main(max(1, count // 10), {path.name: copied(path) for path in real}, seed)
