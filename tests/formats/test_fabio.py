"""Files that fabio reads: kinds that it writes itself, series, several frames in a file, damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, refuses, same
from vfs.testing.detector_writers import write_adsc

fabio = pytest.importorskip("fabio")
FRAMES = frames_of((3, 12, 20), "u2")


def test_series(tmp_path: Path) -> None:
    paths = [write_adsc(tmp_path / f"a_{k}.img", frame) for k, frame in enumerate(FRAMES)]
    check_boxes(paths, FRAMES, count=5)
    array = vfs.open(str(tmp_path / "a_*.img"))
    assert array.dims == ("frame", "y", "x")
    assert array.attrs["kind"] == "dtrekimage"
    same(vfs.open(paths[1])[...], FRAMES[1:2])
    paths[1].unlink()
    four = write_adsc(tmp_path / "a_3.img", FRAMES[0])
    twin = np.stack([FRAMES[0], FRAMES[0] * 0, FRAMES[2], FRAMES[0]])
    same(incomplete([paths[0], paths[2], four], "a_1.img", kind=vfs.MissingSourceError)[...], twin)


@pytest.mark.parametrize(("kind", "ending"), [("bruker100image", "sfrm"), ("marccdimage", "mccd"), ("oxdimage", "img")])
def test_kinds_that_fabio_writes(tmp_path: Path, kind: str, ending: str) -> None:
    from fabio import fabioformats

    small = FRAMES[0] % 200
    image = np.zeros((512, 512), "u2")
    image[:12, :20] = small
    path = tmp_path / f"a.{ending}"
    made: Any = fabioformats.get_class_by_name(kind)(data=image.astype("i4") if kind == "oxdimage" else image)
    made.write(str(path))
    array = vfs.open(path, format="fabio", kind=kind)
    same(array[...], np.asarray(fabio.open(str(path)).data)[None].astype(array.dtype))
    same(array[0, :12, :20], small.astype(array.dtype))


def test_files_that_differ_or_do_not_decode(tmp_path: Path) -> None:
    paths = [write_adsc(tmp_path / f"a_{k}.img", frame) for k, frame in enumerate(FRAMES)]
    write_adsc(paths[1], FRAMES[1, :7])
    array = vfs.open(paths)
    same(array[2], FRAMES[2])
    with pytest.raises(vfs.DecodeError, match="file 1: expected 240 pixels"):
        array[1]
    paths[1].write_bytes(b"{\n")
    with pytest.raises(vfs.DecodeError, match="file 1: fabio does not read it"):
        vfs.open(paths)[1]
    write_adsc(paths[0], FRAMES[0], SIZE1="many")
    refuses(paths, "a_0.img: fabio does not read it", kind=vfs.FormatError)
    write_adsc(paths[0], FRAMES[0], SIZE1=1 << 40)
    refuses(paths, "a_0.img: fabio does not read it", kind=vfs.FormatError)


def test_refused(tmp_path: Path) -> None:
    path = write_adsc(tmp_path / "a.img", FRAMES[0])
    for kind in ("none", "edfimage"):
        with pytest.raises(vfs.OptionError, match="dtrekimage"):
            vfs.open(path, format="fabio", kind=kind)
