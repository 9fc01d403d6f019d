"""Files that Bio-Formats reads: series, smaller versions, channels; what Java does to its process is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED
from tests.waiting import eventually
from vfs.formats import detect
from vfs.formats.bioformats import LIBRARY
from vfs.libraries.library import _helper
from vfs.model.layout import altered
from vfs.sources.local import LocalSources
from vfs.testing.tiff_writers import write_ome_tiff

for module in LIBRARY.modules:
    pytest.importorskip(module)


def fake(folder: Path, *said: str, content: str = "") -> Path:
    """A file whose name tells Bio-Formats what to make up."""
    path = folder / f"{'&'.join(('x', *said))}.fake"
    path.write_text(content or "[GlobalMetadata]\nlamp = 12\n")
    return path


def opened(path: Path, **options: Any) -> Any:
    return vfs.open_group(path, format="bioformats", **options)


def fork() -> int:
    """The process with the Java virtual machine."""
    running = _helper(LIBRARY).running
    assert running is not None
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


def test_series_of_planes(tmp_path: Path) -> None:
    sizes = ("sizeX=90", "sizeY=70", "sizeZ=3", "sizeC=2", "sizeT=4")
    group = opened(fake(tmp_path, *sizes, "pixelType=uint16", "series=2", "physicalSizeX=0.5nm"))
    assert list(group) == ["image_0/data", "image_1/data"]
    second = group["image_1/data"]
    assert (second.dims, second.shape, second.dtype) == (("t", "c", "z", "y", "x"), (4, 2, 3, 70, 90), np.dtype("u2"))
    for t, c, z in ((0, 0, 0), (3, 1, 2), (1, 0, 2)):  # squares say the numbers of series, plane, z, c, t
        assert second[t, c, z, 5, 5:50:10].tolist() == [1, z + 3 * (c + 2 * t), z, c, t]
    np.testing.assert_array_equal(second[1, :, ::2, 3:20, 5:60], second[...][1, :, ::2, 3:20, 5:60])
    assert group.main.calibration["x"] == {"scale": 0.5, "offset": 0.0, "unit": "nm"}
    assert group.original_metadata["ome_xml"].count("<Image ") == 2


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float", "double", "bit"])
def test_pixel_types(tmp_path: Path, kind: str) -> None:
    array = opened(fake(tmp_path, "sizeX=60", "sizeY=50", "sizeZ=2", f"pixelType={kind}")).main
    assert array.dtype.name == {"float": "float32", "double": "float64", "bit": "uint8"}.get(kind, kind)
    squares = array[0, 0, 1, 5, 5:50:10]
    assert (squares != squares[0]).tolist() == [False, True, True, False, False]  # plane and z are 1, the others 0


def test_colours_and_channels(tmp_path: Path) -> None:
    colours = opened(fake(tmp_path, "sizeC=3", "rgb=3", "sizeX=40", "sizeY=20")).main
    assert (colours.dims, colours.shape) == (("t", "c", "z", "y", "x", "s"), (1, 1, 1, 20, 40, 3))
    pairs = opened(fake(tmp_path, "sizeC=4", "rgb=2", "sizeX=40", "sizeY=20")).main
    assert (pairs.dims[1], pairs.shape) == ("c", (1, 4, 1, 20, 40))
    blue = opened(fake(tmp_path, "sizeC=2", "color_1=65535")).main
    assert blue.metadata["channels"].value[1] == {"colour": "#0000ff"}


def test_smaller_versions_are_levels(tmp_path: Path) -> None:
    path = fake(tmp_path, "sizeX=4000", "sizeY=3000", "resolutions=3", "resolutionScale=2")
    group = opened(path)
    assert [group[name].shape[-2:] for name in group] == [(3000, 4000), (1500, 2000), (750, 1000)]
    assert (list(group)[1:], group.main.shape) == (["level_1/data", "level_2/data"], (1, 1, 1, 3000, 4000))
    tall, wide = group.main._reader.dataset.block[-2:]
    assert tall * wide <= 4 << 20
    assert len(group.main._reader.dataset.layout.grid.counts) == 5
    np.testing.assert_array_equal(group.main[0, 0, 0, 2990:, 7::400], group.main[...][0, 0, 0, 2990:, 7::400])


def test_ours_come_first(tmp_path: Path) -> None:
    planes = np.arange(2 * 3 * 20 * 30, dtype="u2").reshape(1, 2, 3, 20, 30)
    path = write_ome_tiff(tmp_path, planes)
    assert detect(LocalSources(), str(path)).name == "ome_tiff"
    theirs, ours = opened(path).main, vfs.open(path)
    np.testing.assert_array_equal(theirs[...], ours[...])
    assert theirs.dims == ours.dims


def real_files() -> Iterator[Any]:
    for path in sorted((SHARED / "ome_tiff").rglob("*.ome.tif*")) if SHARED.is_dir() else ():
        if path.parent.name not in ("omefiles_2010-06", "viv_multi_channel"):  # it takes these for plain TIFF
            yield pytest.param(path, id=path.name)


@pytest.mark.parametrize("path", [*real_files()])
def test_real_files(path: Path) -> None:
    theirs, ours = opened(path).main, vfs.open(path)
    np.testing.assert_array_equal(theirs[...], ours[...])
    assert {**ours.calibration} == {**ours.calibration, **theirs.calibration}  # it leaves out a z of one plane
    assert theirs.metadata.get("channels") == ours.metadata.get("channels")


def test_one_process_for_all_sets_which_comes_back(tmp_path: Path) -> None:
    sets = [opened(fake(tmp_path, f"sizeX={30 + k}", "sizeY=20")).main for k in range(6)]
    first = fork()
    for k in (0, 5, 2):
        assert sets[k][0, 0, 0, 0].shape == (30 + k,)
    assert fork() == first
    os.kill(first, signal.SIGSEGV)
    assert eventually(lambda: not Path(f"/proc/{first}").exists())
    assert sets[3][0, 0, 0, 1].shape == (33,)
    assert fork() != first


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.nrrd"
    head = "NRRD0001\ntype: uint8\ndimension: 2\nsizes: {} 2\nencoding: raw\n\n"
    path.write_bytes(head.format(3).encode() + bytes(range(6)))
    assert vfs.open(path)[0, 0, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    array = vfs.open(path)
    path.write_bytes(head.format(2).encode() + bytes(range(4)))
    with pytest.raises(vfs.SourceChangedError, match=r"a\.nrrd"):
        array[0, 0, 0, 1]
    assert vfs.open(path)[0, 0, 0].tolist() == [[0, 1], [2, 3]]


def test_files_elsewhere_are_not_read(tmp_path: Path) -> None:
    """A pattern names files: those outside of the folder of the set stay closed, and so does the network."""
    inside, outside = tmp_path / "set", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    path = fake(outside, "sizeX=20", "sizeY=20")
    link = inside / path.name
    link.symlink_to(path)
    (inside / "a.pattern").write_text(f"{outside}/x&sizeX=20&sizeY=20.fake\n")
    with pytest.raises(vfs.FormatError, match=r"a\.pattern: Bio-Formats does not read it"):
        opened(inside / "a.pattern")
    assert opened(link).main.shape[-1] == 20  # the user named it


def test_programs_in_java_connect_to_nothing_and_write_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"")
    entry = """import sys
from vfs.formats.bioformats.reader import BioFormatsReader
from vfs.libraries.java import java_class
BioFormatsReader.start()
url, file = "http://127.0.0.1:9/a", sys.argv[1]
for name, of in ("URLHandle", url), ("RandomAccessInputStream", file), ("RandomAccessOutputStream", file):
    try:
        java_class(f"loci.common.{name}")(of)
    except java_class("java.lang.Throwable") as error:
        print(error.getMessage())
"""
    ran = subprocess.run([sys.executable, "-c", entry, tmp_path / "there"], capture_output=True, text=True, check=True)
    lines = ran.stdout.splitlines()
    assert [line.split('"')[1] for line in lines] == ["java.net.SocketPermission", *["java.io.FilePermission"] * 2]
    assert all(line.startswith("access denied") for line in lines)


def test_damage_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.dcm").write_bytes(bytes(128) + b"DICM" + b"\xff" * 300)
    with pytest.raises(vfs.FormatError, match=r"a\.dcm: Bio-Formats does not read it: it says: [^\n]+$"):
        vfs.open(tmp_path / "a.dcm")
    with pytest.raises(vfs.FormatError, match="unknown file format"):
        opened(write(tmp_path / "a.bin"))
    wide = opened(fake(tmp_path, "sizeX=1500000000", "sizeY=1")).main
    assert wide[0, 0, 0, 0, 5:10].tolist() == [0] * 5  # a part of a row is read


def write(path: Path) -> Path:
    path.write_bytes(bytes(range(200)))
    return path


@pytest.mark.thorough
def test_a_reader_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = altered(LIBRARY, seconds=8.0)
    monkeypatch.setattr("vfs.formats.bioformats.LIBRARY", quick)
    array = opened(fake(tmp_path, "sizeX=20", "sizeY=20", "sleepOpenBytes=60000")).main
    with pytest.raises(vfs.DecodeError, match=r"x&[^\n]*: Bio-Formats gives no answer for 8 seconds"):
        array[0]
    assert opened(fake(tmp_path, "sizeX=20", "sizeY=20")).main[0].shape == (1, 1, 20, 20)
