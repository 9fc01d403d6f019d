"""Deciding fields of electron microscopes: patterns, spectra, and what stores them in one file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vfs.testing.backscatter_writers import write_ebsp, write_nordif, write_spd, write_up
from vfs.testing.deciding_fields.fields import DecidedSet, attribute, behind, binary, element, pixels, text
from vfs.testing.frame_writers import write_blo
from vfs.testing.gatan_writers import write_dm
from vfs.testing.hdf5_writers import write_abtem, write_nion, write_patterns
from vfs.testing.stack_writers import write_mrc, write_ser
from vfs.testing.writers import write_ripple

_SQUARE_MAP = {"nRows": 3, "nColumns": 4, "Step Y": 2.0, "Step X": 1.0, "Grid Type": "SqrGrid"}


def _hspy(folder: Path) -> Path:
    import h5py

    path = folder / "a.hspy"
    with h5py.File(path, "w") as file:
        file.attrs["file_format"] = "HyperSpy"
        file["Experiments/one/data"] = pixels((3, 4, 6))
        for k, name in enumerate(("frame", "y", "x")):
            said = {"name": name, "scale": 0.5, "offset": 1.0, "units": "nm", "navigate": k == 0, "size": (3, 4, 6)[k]}
            file["Experiments/one"].create_group(f"axis-{k}").attrs.update(said)
    return path


def _nexus(folder: Path) -> Path:
    import h5py

    path = folder / "a.nxs"
    with h5py.File(path, "w") as file:
        file.attrs["default"] = "entry"
        entry = file.create_group("entry")
        entry.attrs.update(NX_class="NXentry", default="one")
        for name in ("one", "two"):
            data = entry.create_group(name)
            data.attrs.update(NX_class="NXdata", signal="counts", axes=["t", "y", "x"])
            data["counts"], data["errors"] = pixels((3, 4, 6)), pixels((3, 4, 6))[::-1]
            for axis, size in zip("tyx", (3, 4, 6), strict=True):
                data[axis] = np.arange(size) * 0.5
                data[axis].attrs["units"] = "mm"
    return path


_ELEMENT = 30 + 8 + 4 + 2 * (4 + 16 + 8 + 8 + 4 + 6)  # of write_ser: behind the header and two axes of the scan

MICROSCOPES = (
    DecidedSet(
        "blo",
        lambda folder: write_blo(folder, pixels((3, 4, 6, 6), "u1")),
        (
            binary("MAGIC: swapped", 6, "<H", 0x0201),
            binary("Data_offset_1", 8, "<I", 241),
            binary("Data_offset_2", 12, "<I", 255),
            binary("DP_SZ", 20, "<H", 5),
            binary("NX", 24, "<H", 3),
            binary("NY", 26, "<H", 2),
            binary("SX", 30, "<d", 9.5),
            binary("SY", 38, "<d", 9.5),
            binary("SDP", 50, "<H", 99),
        ),
    ),
    DecidedSet(
        "dm",
        lambda folder: write_dm(folder, pixels((3, 5, 7), "i2"), thumbnail=False),
        (
            behind("DataType", 12, "<I", 10),
            behind("DataType", 12, "<I", 7),
            behind("PixelDepth", 12, "<I", 4),
            behind("Units", 16, "<H", ord("p")),
            behind("Scale", 12, "<f", 9.5),
            behind("Origin", 12, "<f", 9.5),
            binary("byte order", 8, ">I", 0),
            binary("version", 0, ">I", 4),
        ),
    ),
    DecidedSet(
        "ebsp",
        lambda folder: write_ebsp(folder, pixels((2, 3, 5, 6), "u1")),
        (
            binary("version", 0, "<q", -1),
            binary("version", 0, "<q", -5),
            binary("table", 8, "<q", 0),
            binary("table: another's", 8, "<q", 8 + 48),
            binary("is compressed", 8 + 48, "<i", 1),
            binary("pattern height", 8 + 48 + 4, "<i", 4),
            binary("pattern width", 8 + 48 + 8, "<i", 7),
            binary("n_bytes", 8 + 48 + 12, "<i", 60),
            binary("beam_x", 8 + 48 + 16 + 30 + 1, "<d", 99.5),
        ),
    ),
    DecidedSet(
        "edax",
        lambda folder: write_up(folder, pixels((3, 4, 5, 6))),
        (
            binary("version", 0, "<I", 1),
            binary("columns of a pattern", 4, "<I", 5),
            binary("rows of a pattern", 8, "<I", 4),
            binary("first pattern", 12, "<I", 60),
            binary("columns of the map", 17, "<I", 3),
            binary("rows of the map", 21, "<I", 2),
            binary("hexagonal", 25, "<B", 1),
            binary("step along x", 26, "<d", 9.5),
            binary("step along y", 34, "<d", 9.5),
        ),
    ),
    DecidedSet(
        "hdf5",
        _hspy,
        (
            attribute("Experiments/one/axis-0", "scale", 9.5),
            attribute("Experiments/one/axis-1", "units", "mm"),
            attribute("Experiments/one/axis-1", "offset", 9.0),
            attribute("Experiments/one/axis-0", "name", "z"),
        ),
        "HyperSpy",
    ),
    DecidedSet(
        "hdf5",
        _nexus,
        (
            attribute("entry/one", "axes", ["z", "y", "x"]),
            element("entry/one/y", np.arange(4) * 9.5),
            attribute("entry/one/x", "units", "um"),
        ),
        "NeXus",
    ),
    DecidedSet(
        "hdf5",
        lambda folder: write_nion(folder / "a.h5", pixels((3, 4, 6)), (False, 2, 1), [(0.0, 0.5, "nm")] * 3),
        (
            text('"offset": 0.0', '"offset": 7.0'),
            text('"scale": 0.5', '"scale": 9.5'),
            text('"units": "nm"', '"units": "um"'),
            text('"is_sequence": false', '"is_sequence":  true'),
            text('"collection_dimension_count": 2', '"collection_dimension_count": 1'),
            text('"datum_dimension_count": 1', '"datum_dimension_count": 2'),
        ),
        "Nion Swift",
    ),
    DecidedSet(
        "hdf5",
        lambda folder: write_abtem(folder / "a.h5", pixels((3, 4, 6)), [("x", (0.0, 0.5, "mrad"))] * 3),
        (
            element("units", np.array([b"nm"] * 3)),
            element("name", np.array([b"z", b"y", b"x"])),
        ),
        "abTEM",
    ),
    DecidedSet(
        "hdf5",
        lambda folder: write_patterns(folder / "a.h5", pixels((12, 5, 6), "u1"), _SQUARE_MAP),
        (element("1/EBSD/Header/Grid Type", "HexGrid"),),
        "EBSD",
    ),
    DecidedSet(
        "mrc",
        lambda folder: write_mrc(folder, pixels((3, 5, 7), "i2"), 1, extended=64),
        (
            *(binary(f"N{'XYZ'[k]}", 4 * k, "<i", (6, 4, 2)[k]) for k in range(3)),
            *(binary(f"MODE = {mode}", 12, "<i", mode) for mode in (0, 2, 6, 12)),
            *(binary(f"M{'XYZ'[k]}", 28 + 4 * k, "<i", 99) for k in range(2)),
            binary("CELLA x", 40, "<f", 99),
            binary("MAPC", 64, "<i", 2),
            binary("MAPS", 72, "<i", 1),
            binary("NSYMBT", 92, "<i", 62),
        ),
    ),
    DecidedSet(
        "nordif",
        lambda folder: write_nordif(folder, pixels((3, 4, 5, 6), "u1")),
        (
            text("Resolution\t6x5", "Resolution\t5x6", "*.txt"),
            text("samples\t3x4", "samples\t4x3", "*.txt"),
            text("size\t1.500", "size\t9.500", "*.txt"),
            text("µm", "nm", "*.txt"),
        ),
    ),
    DecidedSet(
        "ripple",
        lambda folder: write_ripple(folder, pixels((3, 4, 6), "i2"), offset=4, ev_per_chan=10, width_scale=0.5),
        (
            *(
                text(f"{name}\t{old}", f"{name}\t{new}", "*.rpl")
                for name, old, new in (
                    ("width", 6, 5),
                    ("height", 4, 3),
                    ("depth", 3, 2),
                    ("offset", 4, 2),
                    ("data-length", 2, 1),
                    ("data-type", "signed", "unsigned"),
                    ("data-type", "signed", "float"),
                    ("byte-order", "little-endian", "big-endian"),
                    ("record-by", "image", "vector"),
                    ("ev-per-chan", 10, 99),
                    ("width-scale", 0.5, 9.5),
                )
            ),
        ),
    ),
    DecidedSet(
        "ser",
        lambda folder: write_ser(folder, pixels((2, 3, 5, 7), "i4")),
        (
            binary("ByteOrder", 0, "<H", 0x4D4D),
            binary("SeriesVersion", 4, "<H", 0x0210),
            binary("DataTypeID", 6, "<I", 0x4120),
            binary("TotalNumberElements", 14, "<I", 5),
            binary("ValidNumberElements", 18, "<I", 4),
            binary("OffsetArrayOffset", 22, "<q", 900),
            binary("NumberDimensions", 30, "<i", 1),
            binary("DimensionSize", 34, "<i", 2),
            binary("CalibrationDelta of the scan", 46, "<d", 9.5),
            binary("CalibrationDelta of x", _ELEMENT + 8, "<d", 9.5),
            binary("DataType: float", _ELEMENT + 40, "<h", 7),
            binary("DataType: unsigned", _ELEMENT + 40, "<h", 3),
            binary("ArraySizeX", _ELEMENT + 42, "<i", 6),
            binary("ArraySizeY", _ELEMENT + 46, "<i", 4),
        ),
    ),
    DecidedSet(
        "spd",
        lambda folder: write_spd(folder, pixels((3, 4, 7))),
        (
            *(
                binary(name, at, "<i", value, "*.spd")
                for name, at, value in (
                    ("nPoints", 24, 3),
                    ("nLines", 28, 2),
                    ("nChannels", 32, 6),
                    ("countBytes", 36, 1),
                    ("dataOffset", 40, 1090),
                )
            ),
            binary("evPerChannel", 384, "<i", 5, "*.spc"),
            binary("startEnergy", 448, "<f", 1.5, "*.spc"),
            binary("micronsPerPixelX", 64, "<f", 9.5, "*.ipr"),
        ),
    ),
)
