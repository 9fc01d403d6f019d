"""Files of a set that are empty, as a writer leaves them that was stopped: `allow_incomplete` shows the other files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.conformance.rows import ROWS
from vfs.errors import IncompleteWarning, VfsError

SEVERAL = {  # row -> a file of it, by the end of its name
    "mib U16, a scan in four files": "002.mib",
    (UNCOUNTED := "mib U16, files by name"): "003.mib",  # nothing says how many frames there should be
    "npy, complex, several files": "a1.npy",
    "tiff, a sequence": "t4.tif",
    "ome_tiff, several files": "_1.ome.tif",
    "frms6": "_002.frms6",
    "k2is": "_1.bin",
    "cbf": "_005.cbf",
    "fits, a file a frame": "_05.fits",
    "sls": "_f1_3.raw",
    "ndtiff": "_1.tif",
    "tvips, a scan": "_001.tvips",
}


@pytest.mark.parametrize("name", SEVERAL)
def test_the_other_files_of_a_set_are_shown(name: str, tmp_path: Path) -> None:
    row = next(row for row in ROWS if row.name == name)
    named, twin, options = row.write(tmp_path)
    path = next(path for path in sorted(tmp_path.iterdir()) if path.name.endswith(SEVERAL[name]))
    path.write_bytes(b"")
    paths = [*map(str, named)] if isinstance(named, list) else str(named)
    said = ""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", IncompleteWarning)
        try:
            vfs.open(paths, **options)
        except VfsError as error:
            said = str(error)
    assert told or (path.name in said and "allow_incomplete=True" in said)
    with pytest.warns(IncompleteWarning):
        array = vfs.open(paths, allow_incomplete=True, **options)
    assert array.shape == twin.shape or name == UNCOUNTED
    frames, valid = array[...].reshape(-1, *twin.shape[-2:]), array.valid.ravel()
    parts = name == "k2is"  # each file has an eighth of every frame
    expected = twin.reshape(-1, *twin.shape[-2:])
    same = [np.array_equal(shown, frame) for shown, frame in zip(frames, expected, strict=False)]
    blank = [not shown.any() for shown in frames]
    assert all(good or none for good, none in zip(same, blank, strict=True)) != parts
    assert all(((shown == frame) | (shown == 0)).all() for shown, frame in zip(frames, expected, strict=False))
    assert any(same) != parts
    assert len(valid) == 1 or [*valid] == [not none for none in blank]
