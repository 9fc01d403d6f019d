"""Fields of headers that decide what is shown, a table for each format; and what changing one of them must do.

A number is shown only for what a file declares *and* the reader understood. So a field that decides meaning (type of
pixels, byte order, colours, counts, sizes, where the pixels are) is never skipped: if it changes in a valid file,
what is shown changes, a warning says what does not fit, or the set is an error. `check_field` asks exactly this, and
a format made elsewhere can ask it of its own fields:

    check_field(DecidedSet("lantern", write, (binary("width", 8, "<I", 5),)), field, folder)
"""

from __future__ import annotations

import hashlib
import json
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vfs.api import open_group
from vfs.errors import IncompleteWarning, VfsError
from vfs.testing.backscatter_writers import write_ebsp, write_nordif, write_spd, write_up
from vfs.testing.detector_writers import write_adsc, write_cbf, write_sls, write_spe
from vfs.testing.event_writers import write_eer
from vfs.testing.frame_writers import write_blo, write_empad, write_frms6, write_seq, write_tvips
from vfs.testing.gatan_writers import write_dm, write_k2is
from vfs.testing.hdf5_writers import write_abtem, write_nion, write_patterns
from vfs.testing.microscope_writers import czi_planes, czi_xml, write_czi, write_lif, write_nd2
from vfs.testing.plane_writers import write_edf, write_fits, write_ndtiff
from vfs.testing.stack_writers import write_mrc, write_ser
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_mib, write_npy, write_ripple

Change = Callable[[Path], None]
_TOLD = ("calibration", "channels", "axes", "rows", "photometric", "orientation")
"""Attributes that tell what numbers mean."""


@dataclass(frozen=True)
class DecidingField:
    """A field that decides what is shown.

    Attributes:
        name: as its specification calls it, with the new value where a field has several.
        change: gives it another valid value, in a file.
        file: pattern of the file's name; the first match of the folder is changed.
    """

    name: str
    change: Change
    file: str = "*"


@dataclass(frozen=True)
class DecidedSet:
    """A valid set of a format, and the fields of its files that decide what is shown.

    Attributes:
        format: name of the format.
        write: writes the set into a folder. Returns what `vfs.open` takes.
        fields: those that decide.
        name: tells the sets of a format apart.
        options: of the format.
    """

    format: str
    write: Callable[[Path], Any]
    fields: tuple[DecidingField, ...]
    name: str = ""
    options: Mapping[str, Any] | None = None


def shown(paths: Any, format_name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Return all that is shown of a set: shapes, types, axes, steps, colours, elements, and what is said of it.

    Returns: the message, where the set or an element of it is an error.
    """
    found: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", IncompleteWarning)
        try:
            group = open_group(paths, format=format_name, **(options or {}))
            for path, array in group.items():
                digest = hashlib.sha256(np.ascontiguousarray(array[...]).tobytes()).hexdigest()
                told = {key: array.attrs.get(key) for key in _TOLD}
                told_text = json.dumps(told, default=str, sort_keys=True)
                found[path] = (array.shape, array.dtype.str, array.dims, digest, told_text)
        except VfsError as error:
            return str(error)
    return found, [str(one.message) for one in said]


def check_field(decided: DecidedSet, field: DecidingField, folder: Path) -> None:
    """Write a set, change a field in it, and fail where exactly the same is shown as before."""
    paths = decided.write(folder)
    before = shown(paths, decided.format, decided.options)
    assert not isinstance(before, str), f"the set as it was written is an error: {before}"
    file = next(path for path in sorted(folder.rglob(field.file)) if path.is_file())
    content = file.read_bytes()
    field.change(file)
    assert file.read_bytes() != content, f"{field.name}: the change changed nothing"
    after = shown(paths, decided.format, decided.options)
    assert after != before, f"{decided.format}: {field.name} was changed, and the same is shown as before"
    assert not isinstance(after, str) or "\n" not in after, after


# How fields are changed


def binary(name: str, at: int, code: str, value: Any, file: str = "*") -> DecidingField:
    """A number at a byte of the file; a negative one counts from the end."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        struct.pack_into(code, data, at % len(data), value)
        path.write_bytes(data)

    return DecidingField(name, change, file)


def text(old: str, new: str, file: str = "*", *, encoding: str = "latin1") -> DecidingField:
    """Words of a header: the first ones; `new` has their length wherever the length of the header counts."""

    def change(path: Path) -> None:
        data = path.read_bytes()
        assert old.encode(encoding) in data, f"{path.name} has no {old!r}"
        path.write_bytes(data.replace(old.encode(encoding), new.encode(encoding), 1))

    return DecidingField(f"{old} -> {new}", change, file)


def key(name: str, value: Any, file: str = "*") -> DecidingField:
    """A key of a JSON document; a dot leads into a mapping or a list."""

    def change(path: Path) -> None:
        document = json.loads(path.read_text())
        *outer, last = name.split(".")
        inner = document
        for step in outer:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        inner[int(last) if isinstance(inner, list) else last] = value
        path.write_text(json.dumps(document))

    return DecidingField(f"{name} = {value}", change, file)


def behind(name: str, skip: int, code: str, value: Any, *, encoding: str = "latin1", file: str = "*") -> DecidingField:
    """A number that follows a name, `skip` bytes behind its last letter: tags of DM and ND2."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        at = data.rindex(name.encode(encoding)) + len(name.encode(encoding)) + skip
        struct.pack_into(code, data, at, value)
        path.write_bytes(data)

    return DecidingField(f"{name} = {value}", change, file)


def tag(number: int, value: int, *, name: str, page: int | None = None) -> DecidingField:
    """A tag of a little-endian TIFF file with one value: of a page, or of all."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for k, entries in enumerate(_directories(data)):
            if page in (None, k):
                at = entries[number]
                code = {3: "<H", 4: "<I", 16: "<Q"}[struct.unpack_from("<H", data, at + 2)[0]]
                count = struct.unpack_from("<I", data, at + 4)[0]
                place = at + 8
                if count * struct.calcsize(code) > 4:
                    place = struct.unpack_from("<I", data, place)[0]
                for n in range(count):
                    struct.pack_into(code, data, place + n * struct.calcsize(code), value)
        path.write_bytes(data)

    return DecidingField(f"{name} = {value}", change)


def _directories(data: bytes | bytearray) -> Iterator[dict[int, int]]:
    """Yield, for each page of a little-endian TIFF file of 4 GiB at most, where the entries of its directory are."""
    at = struct.unpack_from("<I", data, 4)[0]
    while at:
        count = struct.unpack_from("<H", data, at)[0]
        places = [at + 2 + 12 * k for k in range(count)]
        yield {struct.unpack_from("<H", data, place)[0]: place for place in places}
        at = struct.unpack_from("<I", data, at + 2 + 12 * count)[0]


def attribute(where: str, name: str, value: Any) -> DecidingField:
    """An attribute of a group or an array of an HDF5 file."""

    def change(path: Path) -> None:
        import h5py

        with h5py.File(path, "a") as file:
            file[where].attrs[name] = value

    return DecidingField(f"{where}@{name} = {value}", change)


def element(where: str, value: Any) -> DecidingField:
    """An array of an HDF5 file that says something of another one."""

    def change(path: Path) -> None:
        import h5py

        with h5py.File(path, "a") as file:
            del file[where]
            file[where] = value

    return DecidingField(f"{where} = {value}", change)


# The sets


def _pixels(shape: tuple[int, ...], kind: str = "u2") -> np.ndarray:
    """Return numbers in which every byte of every pixel differs from its neighbours'."""
    rng = np.random.default_rng(7)
    if kind[0] == "f":
        return rng.random(shape).astype(kind)
    return rng.integers(1, 1 << (8 * int(kind[1]) - (kind[0] == "i")), shape, dtype=kind)


def _described(folder: Path) -> Path:
    (folder / "a.bin").write_bytes(_pixels((600,), "u1").tobytes())
    (folder / "b.bin").write_bytes(_pixels((700,), "u1").tobytes()[::-1])
    blocks = [
        {"file": 0, "offset": 10, "origin": [0, 0, 0], "shape": [1, 4, 6]},
        {"file": 1, "offset": 20, "origin": [1, 0, 0], "shape": [2, 4, 6]},
    ]
    document = {"vfs": 1, "dtype": "<u2", "shape": [3, 4, 6], "dims": ["t", "y", "x"], "files": ["a.bin", "b.bin"]}
    (folder / "x.vfs.json").write_text(json.dumps({**document, "blocks": blocks}))
    return folder / "x.vfs.json"


def _described_frames(folder: Path) -> Path:
    (folder / "a.bin").write_bytes(_pixels((600,), "u1").tobytes())
    frames = {"header": 3, "footer": 5, "first": 7}
    document = {"vfs": 1, "dtype": "<u2", "shape": [4, 4, 6], "files": ["a.bin"], "frames": frames}
    (folder / "x.vfs.json").write_text(json.dumps(document))
    return folder / "x.vfs.json"


_SQUARE_MAP = {"nRows": 3, "nColumns": 4, "Step Y": 2.0, "Step X": 1.0, "Grid Type": "SqrGrid"}


def _hspy(folder: Path) -> Path:
    import h5py

    path = folder / "a.hspy"
    with h5py.File(path, "w") as file:
        file.attrs["file_format"] = "HyperSpy"
        file["Experiments/one/data"] = _pixels((3, 4, 6))
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
            data["counts"], data["errors"] = _pixels((3, 4, 6)), _pixels((3, 4, 6))[::-1]
            for axis, size in zip("tyx", (3, 4, 6), strict=True):
                data[axis] = np.arange(size) * 0.5
                data[axis].attrs["units"] = "mm"
    return path


def _gray(folder: Path, **how: Any) -> Path:
    return write_tiff(folder / "a.tif", list(_pixels((3, 8, 16))), **how)


def _fits(folder: Path) -> Path:
    return write_fits(folder / "a.fits", _pixels((3, 4, 6)))


_ELEMENT = 30 + 8 + 4 + 2 * (4 + 16 + 8 + 8 + 4 + 6)  # of write_ser: behind the header and two axes of the scan

DECIDED = (
    DecidedSet(
        "blo",
        lambda folder: write_blo(folder, _pixels((3, 4, 6, 6), "u1")),
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
        "cbf",
        lambda folder: write_cbf(folder / "a.cbf", _pixels((5, 6), "i4") >> 8),
        (
            text('"x-CBF_BYTE_OFFSET"', '"x-CBF_PACKED"     '),
            text("signed 32-bit integer", "signed 16-bit integer"),
            text("signed 32-bit integer", "unsigned 32-bit integer"),
            text("Number-of-Elements: 30", "Number-of-Elements: 29"),
            text("Fastest-Dimension: 6", "Fastest-Dimension: 5"),
            text("Second-Dimension: 5", "Second-Dimension: 6"),
            text("Content-Transfer-Encoding: BINARY", "Content-Transfer-Encoding: BASE64"),
            text("172e-6 m x", "100e-6 m x"),
        ),
    ),
    DecidedSet(
        "czi",
        lambda folder: write_czi(folder / "a.czi", czi_planes(_pixels((2, 3, 5, 6)), "TZ"), xml=czi_xml(["a"])),
        (
            *(
                behind("DV", 0, code, value)
                for code, value in (("<i", 2), ("<i", 12))  # PixelType of the last entry of the directory
            ),
            text("2.5E-07", "5.5E-07"),
        ),
    ),
    DecidedSet(
        "description",
        _described,
        (
            key("dtype", ">u2", "*.json"),
            key("dtype", "<i2", "*.json"),
            key("shape", [3, 4, 7], "*.json"),
            key("dims", ["z", "y", "x"], "*.json"),
            key("files", ["b.bin", "a.bin"], "*.json"),
            key("blocks.0.file", 1, "*.json"),
            key("blocks.0.offset", 11, "*.json"),
            key("blocks.0.origin", [2, 0, 0], "*.json"),
            key("blocks.0.shape", [1, 4, 5], "*.json"),
            key("blocks.0.codec", {"id": "zlib"}, "*.json"),
            key("vfs", 2, "*.json"),
        ),
    ),
    DecidedSet(
        "description",
        _described_frames,
        (
            key("frames.header", 4, "*.json"),
            key("frames.footer", 6, "*.json"),
            key("frames.first", 8, "*.json"),
            key("frames.per_file", 3, "*.json"),
        ),
        "frames",
    ),
    DecidedSet(
        "dm",
        lambda folder: write_dm(folder, _pixels((3, 5, 7), "i2"), thumbnail=False),
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
        lambda folder: write_ebsp(folder, _pixels((2, 3, 5, 6), "u1")),
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
        lambda folder: write_up(folder, _pixels((3, 4, 5, 6))),
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
        "edf",
        lambda folder: write_edf(folder / "a.edf", _pixels((2, 5, 6))),
        (
            text("LowByteFirst", "HighByteFirst"),
            text("UnsignedShort", "SignedShort"),
            text("UnsignedShort", "FloatValue"),
            text("Dim_1 = 6", "Dim_1 = 5"),
            text("Dim_2 = 5", "Dim_2 = 6"),
            text("Size = 60", "Size = 62"),
            text("PSize_1 = 7.5e-05", "PSize_1 = 9.5e-05"),
            text("PSize_2 = 0.000172", "PSize_2 = 0.000999"),
            text("HeaderID = EH:000001:000000:000000 ;", "Compression = GzipCompression      ;"),
        ),
    ),
    DecidedSet(
        "eer",
        lambda folder: write_eer(folder / "a.eer", list(_pixels((3, 9, 21), "u1") > 200)),
        (
            text("5e-11", "9e-11"),
            text('item name="exposureTime" unit="s">1.5', 'item name="exposureTime" unit="s">9.5'),
            text('"numberOfFrames">3', '"numberOfFrames">5'),
        ),
    ),
    DecidedSet(
        "empad",
        lambda folder: write_empad(folder, _pixels((2, 3, 128, 128), "f4")),
        (
            text('mode="acquire"', 'mode="unknown"', "*.xml"),
            text("<scan_resolution_y>2", "<scan_resolution_y>3", "*.xml"),
            text("<scale_factor>0.5", "<scale_factor>0.9", "*.xml"),
        ),
    ),
    DecidedSet(
        "fabio",
        lambda folder: write_adsc(folder / "a.img", _pixels((5, 6))),
        (
            text("BYTE_ORDER=little_endian", "BYTE_ORDER=big_endian   "),
            text("HEADER_BYTES=512", "HEADER_BYTES=510"),
            text("SIZE1=6", "SIZE1=5"),
            text("SIZE2=5", "SIZE2=6"),
        ),
    ),
    DecidedSet(
        "fits",
        _fits,
        (
            text("BITPIX  =                   16", "BITPIX  =                    8"),
            text("BITPIX  =                   16", "BITPIX  =                  -32"),
            text("NAXIS   =                    3", "NAXIS   =                    2"),
            text("NAXIS1  =                    6", "NAXIS1  =                    5"),
            text("NAXIS3  =                    3", "NAXIS3  =                    2"),
            text("BZERO   =                32768", "BZERO   =                    0"),
            text("BSCALE  =                    1", "BSCALE  =                    2"),
            text("CDELT1  =                 0.25", "CDELT1  =                 0.99"),
            text("CUNIT1  = 'mm", "CUNIT1  = 'um"),
        ),
    ),
    DecidedSet(
        "frms6",
        lambda folder: write_frms6(folder, _pixels((6, 6, 5)), scan=(2, 3)),
        (
            binary("header bytes", 0, "<H", 1000, "*.frms6"),
            binary("frame header bytes", 2, "<H", 62, "*.frms6"),
            binary("version", 7, "<B", 5, "*.frms6"),
            binary("width", 88, "<H", 8, "*.frms6"),
            binary("height", 90, "<H", 2, "*.frms6"),
            binary("frames", 1020, "<I", 4, "*.frms6"),
            text("stemImageSize=2x3", "stemImageSize=3x2", "*.hdr"),
            text("signalFrames=6", "signalFrames=7", "*.hdr"),
            text("darkFrames=0", "darkFrames=2", "*.hdr"),
            text("bin: 1", "bin: 2", "*.hdr"),
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
        lambda folder: write_nion(folder / "a.h5", _pixels((3, 4, 6)), (False, 2, 1), [(0.0, 0.5, "nm")] * 3),
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
        lambda folder: write_abtem(folder / "a.h5", _pixels((3, 4, 6)), [("x", (0.0, 0.5, "mrad"))] * 3),
        (
            element("units", np.array([b"nm"] * 3)),
            element("name", np.array([b"z", b"y", b"x"])),
        ),
        "abTEM",
    ),
    DecidedSet(
        "hdf5",
        lambda folder: write_patterns(folder / "a.h5", _pixels((12, 5, 6), "u1"), _SQUARE_MAP),
        (element("1/EBSD/Header/Grid Type", "HexGrid"),),
        "EBSD",
    ),
    DecidedSet(
        "k2is",
        lambda folder: write_k2is(folder, _pixels((1, 1860, 2048)) & 0xFFF),
        (
            binary("sync", 0, ">I", 0xFFFF0066, "*3.bin"),
            binary("frame", 24, ">I", 777, "*3.bin"),
            binary("x", 28, ">H", 16, "*3.bin"),
            binary("y", 30, ">H", 930, "*3.bin"),
        ),
    ),
    DecidedSet(
        "lif",
        lambda folder: write_lif(folder / "a.lif", {"a": ("cyx", _pixels((2, 5, 6)))}),
        tuple(
            text(old, new, encoding="utf-16-le")
            for old, new in (
                ('Resolution="16"', 'Resolution="08"'),
                ('DataType="0"', 'DataType="1"'),
                ('NumberOfElements="6"', 'NumberOfElements="5"'),
                ('DimID="2"', 'DimID="3"'),
                ('BytesInc="12"', 'BytesInc="10"'),
                ('BytesInc="60"', 'BytesInc="58"'),
                ('Length="2e-06"', 'Length="9e-06"'),
                ('LUTName="Green"', 'LUTName="White"'),
                ('MemoryBlockID="MemBlock_0"', 'MemoryBlockID="MemBlock_9"'),
            )
        ),
    ),
    DecidedSet(
        "mib",
        lambda folder: write_mib(folder, _pixels((6, 4, 64)) & 0xFFF, scan=(2, 3)),
        (
            text("MQ1,000001", "MQ1,000003", "*.mib"),
            text("000001,00384", "000001,00383", "*.mib"),
            text(",0064,0004,", ",0032,0004,", "*.mib"),
            text(",0064,0004,", ",0064,0008,", "*.mib"),
            text(",U16,", ",U08,", "*.mib"),
            text(",U16,", ",R64,", "*.mib"),
            text("ScanX:\t3", "ScanX:\t2", "*.hdr"),
            text("ScanY:\t2", "ScanY:\t3", "*.hdr"),
            text("(Number):\t6", "(Number):\t7", "*.hdr"),
        ),
    ),
    DecidedSet(
        "mib",
        lambda folder: write_mib(folder, _pixels((3, 8, 64)) & 0xFFF, kind="R64", depth=12, quad=True),
        (
            text("   2x2", "   4x1", "*.mib"),
            text("00768,04,", "00768,01,", "*.mib"),
            text("ns,12,", "ns,6, ", "*.mib"),
            text(",0128,", ",0256,", "*.mib"),
        ),
        "quad",
    ),
    DecidedSet(
        "mrc",
        lambda folder: write_mrc(folder, _pixels((3, 5, 7), "i2"), 1, extended=64),
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
        "nd2",
        lambda folder: write_nd2(folder / "a.nd2", _pixels((2, 3, 2, 5, 6)), ("t", "z"), channels=2),
        tuple(
            behind(f"{name}\0", 0, code, value, encoding="utf-16-le")
            for name, code, value in (
                ("uiWidth", "<I", 5),
                ("uiWidthBytes", "<I", 26),
                ("uiHeight", "<I", 4),
                ("uiComp", "<I", 1),
                ("uiBpcInMemory", "<I", 8),
                ("uiBpcInMemory", "<I", 32),
                ("uiSequenceCount", "<I", 5),
                ("eCompression", "<I", 0),
                ("uiCount", "<I", 3),
                ("eType", "<I", 2),
                ("dCalibration", "<d", 9.5),
                ("dZStep", "<d", 9.5),
            )
        ),
    ),
    DecidedSet(
        "ndtiff",
        lambda folder: write_ndtiff(folder, _pixels((2, 2, 5, 6)), {"z": (0, 1), "channel": ("a", "b")}),
        (
            text('"z": 0', '"z": 7', "*.index"),
            text('"channel": "a"', '"channel": "c"', "*.index"),
            text('"channel"', '"chanoel"', "*.index"),
            text("run_NDTiffStack.tif", "run_NDTiffStacc.tif", "*.index"),
            *(
                behind("run_NDTiffStack.tif", 4 * k, "<I", value, file="*.index")
                for k, value in enumerate((80, 5, 4, 0, 1))
            ),
            text('"z-step_um": 2.0', '"z-step_um": 9.0', "*.tif"),
            text('"PixelSizeUm": 0.25', '"PixelSizeUm": 0.75', "*.tif"),
        ),
    ),
    DecidedSet(
        "nordif",
        lambda folder: write_nordif(folder, _pixels((3, 4, 5, 6), "u1")),
        (
            text("Resolution\t6x5", "Resolution\t5x6", "*.txt"),
            text("samples\t3x4", "samples\t4x3", "*.txt"),
            text("size\t1.500", "size\t9.500", "*.txt"),
            text("µm", "nm", "*.txt"),
        ),
    ),
    DecidedSet(
        "npy",
        lambda folder: write_npy(folder, _pixels((3, 4, 6))),
        (
            text("'<u2'", "'>u2'"),
            text("'<u2'", "'<i2'"),
            text("'<u2'", "'<f2'"),
            text("'fortran_order': False", "'fortran_order': True "),
            text("(3, 4, 6)", "(4, 3, 6)"),
            text("(3, 4, 6)", "(3, 4, 5)"),
            binary("version", 6, "<B", 9),
            binary("header length", 8, "<H", 117),
        ),
    ),
    DecidedSet(
        "ome_tiff",
        lambda folder: write_ome_tiff(folder, _pixels((2, 2, 3, 5, 6))),
        (
            text('DimensionOrder="XYZCT"', 'DimensionOrder="XYCZT"'),
            text('Type="uint16"', 'Type="uint8" '),
            text('Type="uint16"', 'Type="int16" '),
            text('SizeX="6"', 'SizeX="5"'),
            text('SizeZ="3"', 'SizeZ="2"'),
            text('SizeC="2"', 'SizeC="1"'),
            text('SizeT="2"', 'SizeT="3"'),
            text('IFD="0"', 'IFD="1"'),
            text('PlaneCount="12"', 'PlaneCount="11"'),
            text('FirstZ="0"', 'FirstZ="1"'),
            text('Name="dye 0"', 'Name="dye 9"'),
            text('PhysicalSizeX="0.5"', 'PhysicalSizeX="9.5"'),
            text('PhysicalSizeYUnit="nm"', 'PhysicalSizeYUnit="mm"'),
            text('TimeIncrement="3"', 'TimeIncrement="9"'),
        ),
    ),
    DecidedSet(
        "ripple",
        lambda folder: write_ripple(folder, _pixels((3, 4, 6), "i2"), offset=4, ev_per_chan=10, width_scale=0.5),
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
        "seq",
        lambda folder: write_seq(folder, _pixels((4, 5, 6))),
        (
            binary("version", 28, "<i", 3),
            *(
                binary(name, at, "<I", value)
                for name, at, value in (
                    ("ImageWidth", 548, 5),
                    ("ImageHeight", 552, 4),
                    ("ImageBitDepth", 556, 8),
                    ("ImageSizeBytes", 564, 58),
                    ("ImageFormat", 568, 200),
                    ("AllocatedFrames", 572, 3),
                    ("Origin", 576, 2),
                    ("TrueImageSize", 580, 510),
                )
            ),
            binary("FrameRate", 584, "<d", 9.5),
            binary("Compression", 620, "<H", 1),
        ),
    ),
    DecidedSet(
        "ser",
        lambda folder: write_ser(folder, _pixels((2, 3, 5, 7), "i4")),
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
        "sls",
        lambda folder: write_sls(folder, _pixels((6, 8, 6)), (2, 1), per_file=3),
        (
            key("Dynamic Range", 32, "*.json"),
            key("Image Size in bytes", 46, "*.json"),
            key("Pixels.x", 5, "*.json"),
            key("Geometry.y", 1, "*.json"),
            key("Frames in File", 7, "*.json"),
            key("Detector Type", "Eiger", "*.json"),
            key("Receiver Roi.xmin", 2, "*.json"),
            binary("frame number", 0, "<Q", 9, "*_d0_f0_3.raw"),
        ),
    ),
    DecidedSet(
        "spe",
        lambda folder: write_spe(folder / "a.spe", _pixels((3, 5, 6))),
        (
            binary("xdim", 42, "<H", 5),
            binary("ydim", 656, "<H", 4),
            *(binary(f"datatype = {kind}", 108, "<h", kind) for kind in (0, 1, 2, 5, 6, 8)),
            binary("NumFrames", 1446, "<i", 2),
            binary("NumFrames", 1446, "<i", 4),
            binary("XMLOffset", 678, "<Q", 4110),
        ),
    ),
    DecidedSet(
        "spe",
        lambda folder: write_spe(folder / "a.spe", _pixels((3, 5, 6)), lightfield=True, metadata=4),
        (
            text('type="Frame" count="3"', 'type="Frame" count="2"'),
            text("MonochromeUnsigned16", "MonochromeUnsigned8 "),
            text("MonochromeUnsigned16", "MonochromeFloating32"),
            text('width="6"', 'width="5"'),
            text('height="5"', 'height="4"'),
            text('stride="64"', 'stride="62"'),
        ),
        "LightField",
    ),
    DecidedSet(
        "spd",
        lambda folder: write_spd(folder, _pixels((3, 4, 7))),
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
    DecidedSet(
        "tiff",
        _gray,
        (
            tag(256, 15, name="ImageWidth"),
            tag(257, 7, name="ImageLength"),
            tag(258, 8, name="BitsPerSample"),
            tag(259, 8, name="Compression"),
            tag(262, 0, name="PhotometricInterpretation"),
            tag(277, 2, name="SamplesPerPixel"),
            tag(278, 4, name="RowsPerStrip"),
            tag(339, 2, name="SampleFormat"),
            tag(339, 3, name="SampleFormat"),
            tag(273, 9, name="StripOffsets", page=1),
            tag(279, 200, name="StripByteCounts", page=1),
            text("II*", "MM*"),
        ),
    ),
    DecidedSet(
        "tiff",
        lambda folder: write_tiff(
            folder / "a.tif",
            list(_pixels((2, 8, 16, 3), "u1")),
            compression=5,
            encode=_lzw,
            tags={317: (3, [1], 1), 266: (3, [1], 1), 274: (3, [1], 1)},
        ),
        (
            tag(317, 2, name="Predictor"),
            tag(259, 1, name="Compression"),
            tag(284, 2, name="PlanarConfiguration"),
            tag(262, 5, name="PhotometricInterpretation"),
            tag(262, 6, name="PhotometricInterpretation"),
            tag(266, 2, name="FillOrder"),
            tag(274, 3, name="Orientation"),
        ),
        "colours",
    ),
    DecidedSet(
        "tvips",
        lambda folder: write_tvips(folder, _pixels((4, 5, 6)), scan=(2, 2)),
        (
            *(
                binary(name, 4 * k, "<i", value)
                for k, (name, value) in enumerate(
                    (
                        ("size", 250),
                        ("version", 1),
                        ("x size", 5),
                        ("y size", 4),
                        ("bits", 8),
                    )
                )
            ),
            binary("pixel size", 36, "<i", 99),
            binary("frame header bytes", 48, "<i", 100),
            binary("counter", 256, "<I", 9),
            binary("rotator index, scan x", 256 + 44, "<I", 9),
        ),
    ),
)
"""Every format's fields. A field that only describes (a date, a comment) is none of these."""

NONE = {"raw": "headerless: the caller says everything"}
"""Formats whose files have no such field, and why."""


def _lzw(data: bytes) -> bytes:
    """Encode as LZW with codes of 9 bits, a clear code after each 250 bytes."""
    codes: list[int] = []
    for k in range(0, len(data), 250):
        codes += [256, *data[k : k + 250]]
    bits = "".join(f"{code:09b}" for code in [*codes, 257])
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")
