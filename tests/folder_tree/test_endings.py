"""What `vfs.open` opens by its content is shown in folders, which know files by their endings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.conformance.rows import ROWS
from vfs.cli.folders import look
from vfs.formats import by_name
from vfs.formats.hdf5 import ENDINGS
from vfs.model.open_options import OpenOptions
from vfs.sets.opening import open_set
from vfs.testing.backscatter_writers import write_ebsp
from vfs.testing.suites import Row

WANTED = (".h5oina", ".edaxh5", ".h5ebsd", ".oh5", ".cxi", ".ptyd", ".sdf5", ".mat", ".nc", ".ims")


def test_folders_show_every_ending_of_hdf5_and_ebsp(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    twin = np.arange(24, dtype="u1").reshape(2, 3, 4)
    assert {*WANTED} <= {*ENDINGS}
    names = {f"{k:02}{ending.upper() if k % 2 else ending}" for k, ending in enumerate(ENDINGS)} | {"map.uebsp"}
    for name in names - {"map.uebsp"}:
        with h5py.File(tmp_path / name, "w") as file:
            file["x/data"] = twin
    write_ebsp(tmp_path, twin.reshape(1, 2, 3, 4), name="map.uebsp")

    def opened(path: str, sources: object) -> object:
        return open_set(path, OpenOptions(), {}, None, sources)  # type: ignore[arg-type]

    found = look(str(tmp_path), opened, OpenOptions(), lambda one: one)  # type: ignore[arg-type]
    assert {*found.sets} == names
    assert all(vfs.open(tmp_path / name).size == 24 for name in names)


@pytest.mark.parametrize("row", [row for row in ROWS if row.detected], ids=lambda row: row.name)
def test_a_set_that_is_detected_has_an_ending_of_its_format(row: Row, tmp_path: Path) -> None:
    paths, _, _ = row.write(tmp_path)
    first = str(paths if isinstance(paths, str | Path) else paths[0]).lower()
    kind = by_name(row.format)
    assert first.endswith((*kind.extensions, *kind.index_extensions)), first
