"""Real files: what `vfs.rsciio` gives of them is what RosettaSciIO's own readers give.

Compared are the number of signals, their data, which axes are navigation axes, and where the
elements lie along each axis: steps and offsets in SI units, so that a spelling or a prefix of a unit
is no difference. An axis of which vfs names no unit is not compared with one of which they do: vfs
says less there, not something else.

Not compared are the names of axes: those of vfs are the same in all formats (`scan_y`, `scan_x`,
`y`, `x`), theirs differ from reader to reader. HDF5 is compared where a reader shows what is in the
file, and not a scan that it makes of it: Velox's .emd and prismatic's are not.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # theirs are not ours to mend
    pytest.mark.skipif(importlib.util.find_spec("rsciio") is None, reason="RosettaSciIO is not installed"),
    pytest.mark.skipif(not SHARED.exists(), reason="no real files here"),
]

NO_OME = {"scale": "RosettaSciIO does not read the steps in OME-XML", "unit": "nor their units"}
ONE_OF_SET = {
    "shape": "RosettaSciIO shows the pages of the file that is named, vfs the set that it belongs to",
    "navigate": "so there is one more axis",
    "data": "and more data",
}
METRES = {
    "offset": "RosettaSciIO gives the step in nm, or 1/nm, and leaves the offset in m, or 1/m",
    "scale": "of a .ser without its .emi it takes steps in 1/m for steps in m",
    "unit": "and so gives another unit",
}
MINUS_ONE = {"scale": "MRC of DE-Server say -1, for unknown", "unit": "vfs leaves that out; RosettaSciIO takes nm"}

CASES: list[tuple[str, str, dict[str, str]]] = [
    ("blo/test2/test2.blo", "blockfile", {}),
    ("dm/1D_test-1*.dm3/*", "digitalmicrograph", {}),
    ("dm/1D_test-[2-9].dm3/*", "digitalmicrograph", {}),
    ("dm/1D_test-E*/*", "digitalmicrograph", {}),
    ("dm/2D_*/*", "digitalmicrograph", {}),
    ("dm/3D_test*/*", "digitalmicrograph", {}),
    (
        "dm/3D_EELS_SI.dm4/*",
        "digitalmicrograph",
        {"shape": "vfs shows a spectrum for each position of the scan", "data": "as above", "navigate": "as above"},
    ),
    ("dm/Fei*/*", "digitalmicrograph", {}),
    (
        "dm/ncem_dmTest*/*",
        "digitalmicrograph",
        {"unit": "the file writes A for Å; for RosettaSciIO that is an ampere", "scale": "so steps are others in SI"},
    ),
    ("dm/pytemlib*/*", "digitalmicrograph", {}),
    ("dm/scifi*/*", "digitalmicrograph", {}),
    (
        "dm/ncem_08_carbon.dm3/*",
        "digitalmicrograph",
        dict.fromkeys(("shape", "navigate", "data"), "one spectrum: RosettaSciIO keeps a scan axis of one position"),
    ),
    (
        "empad/series_x10/*.xml",
        "empad",
        {"offset": "RosettaSciIO puts the middle of the detector at 0, the file does not say so"},
    ),
    (
        "hdf5/dectris_arina_test_00/test_00_master.h5",
        "arina",
        {
            "shape": "RosettaSciIO takes the scan for a square; vfs shows frames until nav_shape says the scan",
            "navigate": "so it has two scan axes",
            "data": "and it shows uint32 as uint16",
        },
    ),
    ("hdf5/hspy_example2_v3.1.hspy/*", "hspy", {}),
    ("mib/epsic_test_1bit_notRAW*/*.mib", "quantumdetector", {}),  # nothing was counted
    ("mib/epsic_test_24bit_notRAW*/*.mib", "quantumdetector", {}),
    ("mib/merlin_*_CounterDepth_1_Rows_256/*.mib", "quantumdetector", {}),
    ("mib/merlin_*_CounterDepth_6_Rows_256/*.mib", "quantumdetector", {}),
    ("mib/merlin_*_CounterDepth_12_Rows_256/*.mib", "quantumdetector", {}),
    ("mib/merlin_*_CounterDepth_24_Rows_256/*.mib", "quantumdetector", {}),
    (
        "mib/nav4x2_001*/*.mib",
        "quantumdetector",
        {
            "shape": "the .hdr says nothing of a scan; RosettaSciIO guesses it from time stamps",
            "navigate": "so it has two scan axes",
            "data": "and its frames lie in another shape",
        },
    ),
    ("mib/nav4x2_002*/*.mib", "quantumdetector", {}),
    ("mrc/HAADFscan/*.mrc", "mrc", {}),
    ("mrc/de_20241021_00405/*_movie.mrc", "mrc", {"scale": "vfs reads the step of the scan in the file _info.txt"}),
    ("mrc/de_20241021_00405/*[!e].mrc", "mrc", MINUS_ONE),
    (
        "mrc/de_Custom/*_movie.mrc",
        "mrc",
        {
            "shape": "vfs shows frames where _scan_coordinates.csv says, RosettaSciIO as they were recorded",
            "data": "as above",
            "navigate": "as above",
        },
    ),
    (
        "mrc/mrcfile_EMD-3001.map/*",
        "mrc",
        {
            "scale": "RosettaSciIO takes the steps in the order of the header, whatever MAPC, MAPR and MAPS say",
            "unit": "and gives none of the slowest axis",
        },
    ),
    ("mrc/ncem_temp/*.mrc", "mrc", {"scale": "a step between the images of a stack is none"}),
    ("ome_tiff/bf_*/*", "tiff", {}),
    ("ome_tiff/mm_170918_neutrophil/*.tif", "tiff", NO_OME),
    ("ome_tiff/multifile_master/*Z1.ome.tiff", "tiff", {}),
    ("ome_tiff/multifile_master/*Z[2-5].ome.tiff", "tiff", ONE_OF_SET),
    ("ome_tiff/ome_*/*.tif", "tiff", {}),
    (
        "ome_tiff/omefiles_2010-06/*",
        "tiff",
        {"shape": "vfs puts channels before planes in all files", "data": "so they are in another order"},
    ),
    ("ome_tiff/qupath_cells-2c/*.tif", "tiff", NO_OME),
    ("ome_tiff/viv*/*.tif", "tiff", {}),
    ("raw/ripple_*/*.rpl", "ripple", {}),
    ("ser_emi/*/*.emi", "tia", METRES),
    ("ser_emi/*/*.ser", "tia", METRES),
    (
        "tvips/*/*_000.tvips",
        "tvips",
        {
            "scale": "RosettaSciIO makes an axis of time of the stamps of frames; vfs shows them beside the data",
            "offset": "as above",
            "unit": "as above",
        },
    ),
]
"""Files, the reader in RosettaSciIO, and what differs for which reason."""

AXES = {"scale", "offset", "unit"}


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
    """What differs between two signals."""
    found = set()
    data = np.asarray(theirs["data"])
    mine = np.asarray(ours["data"])
    if mine.shape != data.shape:
        found.add("shape")
    kind = data.dtype if data.dtype.names else data.dtype.newbyteorder("=")
    if mine.dtype != kind or not np.array_equal(mine, data):
        found.add("data")
    if [axis["navigate"] for axis in ours["axes"]] != [axis.get("navigate", True) for axis in theirs["axes"]]:
        found.add("navigate")
    if mine.shape == data.shape:
        for axis, other in zip(ours["axes"], theirs["axes"], strict=True):
            assert axis["size"] == other["size"] == mine.shape[axis["index_in_array"]]
            found |= axis_differences(axis, other)
    return found


def axis_differences(axis: dict[str, Any], other: dict[str, Any]) -> set[str]:
    (factor, kind), (other_factor, other_kind) = si(axis["units"]), si(other.get("units"))
    if kind is None and other_kind is not None:
        return set()
    step, other_step = axis["scale"] * factor, float(other["scale"]) * other_factor
    start, other_start = axis["offset"] * factor, float(other.get("offset", 0)) * other_factor
    found = set() if kind == other_kind else {"unit"}
    if not math.isclose(step, other_step, rel_tol=1e-6):
        found.add("scale")
    if not math.isclose(start, other_start, rel_tol=1e-6, abs_tol=1e-6 * abs(step)):
        found.add("offset")
    return found


def si(unit: object) -> tuple[float, str | None]:
    """The SI unit that a unit is so many of, and its name; (1, None) where there is no unit."""
    import pint

    if not isinstance(unit, str) or not unit.strip():
        return 1.0, None
    base = pint.Quantity(1.0, unit).to_base_units()
    return base.magnitude, str(base.units)


@pytest.mark.parametrize(("files", "reader", "reasons"), CASES, ids=[f"{reader} {files}" for files, reader, _ in CASES])
def test_signals_are_those_of_rosettasciio(files: str, reader: str, reasons: dict[str, str]) -> None:
    read = importlib.import_module(f"rsciio.{reader}").file_reader
    paths = sorted(SHARED.glob(files))
    assert paths, "no such file any more"
    seen: set[str] = set()
    for path in paths:
        ours, theirs = vfs.rsciio.file_reader(path, lazy=True), read(str(path))
        assert len(ours) == len(theirs), path.name
        for mine, other in zip(ours, theirs, strict=True):
            found = differences(mine, other)
            assert found <= set(reasons), (path.name, mine["axes"], other["axes"])
            seen |= found
    assert seen >= set(reasons) - AXES, "does not differ any more"


@pytest.mark.parametrize(
    "name", ["velox_Test SI 16x16 ReducedData*", "pytemlib_EDS-STO", "ncem_STEM_HAADF*", "emd_FFT*"]
)
def test_signals_of_velox_are_in_the_order_of_rosettasciio(name: str) -> None:
    paths = sorted(SHARED.glob(f"hdf5/{name}/*.emd"))
    if not paths:
        pytest.skip("no such file here")
    theirs = importlib.import_module("rsciio.emd").file_reader(str(paths[0]))
    ours = vfs.rsciio.file_reader(paths[0], lazy=True)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert differences(mine, other) == set()
        assert mine["metadata"]["Signal"]["signal_type"] == other["metadata"]["Signal"]["signal_type"]


def test_spectra_of_velox() -> None:
    """The streams of all detectors of a real file, counted, are the spectrum image that RosettaSciIO makes of them."""
    paths = sorted(SHARED.glob("hdf5/velox_Test SI 16x16 215 kx.emd/*.emd"))
    if not paths or importlib.util.find_spec("sparse") is None:
        pytest.skip("no such file here, or no sparse")
    reader = importlib.import_module("rsciio.emd")
    (signal,) = reader.file_reader(str(paths[0]), select_type="spectrum_image")
    group = vfs.open_group(paths[0])
    whole, *streams = [array for name, array in group.items() if name.endswith("/Spectra")]
    assert len(streams) == 4
    total = sum(array[...].astype("u8") for array in streams)
    assert total.sum() == 42_097
    np.testing.assert_array_equal(signal["data"], total)
    np.testing.assert_array_equal(whole[...], total)
