"""Deciding fields of planes with colours, channels and times, and of arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vfs.testing.deciding_fields.fields import DecidedSet, behind, binary, key, pixels, tag, text
from vfs.testing.microscope_writers import czi_planes, czi_xml, write_czi, write_lif, write_nd2
from vfs.testing.plane_writers import write_fits, write_ndtiff
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_npy


def _described(folder: Path) -> Path:
    (folder / "a.bin").write_bytes(pixels((600,), "u1").tobytes())
    (folder / "b.bin").write_bytes(pixels((700,), "u1").tobytes()[::-1])
    blocks = [
        {"file": 0, "offset": 10, "origin": [0, 0, 0], "shape": [1, 4, 6]},
        {"file": 1, "offset": 20, "origin": [1, 0, 0], "shape": [2, 4, 6]},
    ]
    document = {"vfs": 1, "dtype": "<u2", "shape": [3, 4, 6], "dims": ["t", "y", "x"], "files": ["a.bin", "b.bin"]}
    (folder / "x.vfs.json").write_text(json.dumps({**document, "blocks": blocks}))
    return folder / "x.vfs.json"


def _described_frames(folder: Path) -> Path:
    (folder / "a.bin").write_bytes(pixels((600,), "u1").tobytes())
    frames = {"header": 3, "footer": 5, "first": 7}
    document = {"vfs": 1, "dtype": "<u2", "shape": [4, 4, 6], "files": ["a.bin"], "frames": frames}
    (folder / "x.vfs.json").write_text(json.dumps(document))
    return folder / "x.vfs.json"


def _gray(folder: Path, **how: Any) -> Path:
    return write_tiff(folder / "a.tif", list(pixels((3, 8, 16))), **how)


def _fits(folder: Path) -> Path:
    return write_fits(folder / "a.fits", pixels((3, 4, 6)))


def _lzw(data: bytes) -> bytes:
    """Encode as LZW with codes of 9 bits, a clear code after each 250 bytes."""
    codes: list[int] = []
    for k in range(0, len(data), 250):
        codes += [256, *data[k : k + 250]]
    bits = "".join(f"{code:09b}" for code in [*codes, 257])
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


PLANES = (
    DecidedSet(
        "czi",
        lambda folder: write_czi(folder / "a.czi", czi_planes(pixels((2, 3, 5, 6)), "TZ"), xml=czi_xml(["a"])),
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
        "lif",
        lambda folder: write_lif(folder / "a.lif", {"a": ("cyx", pixels((2, 5, 6)))}),
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
        "nd2",
        lambda folder: write_nd2(folder / "a.nd2", pixels((2, 3, 2, 5, 6)), ("t", "z"), channels=2),
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
        lambda folder: write_ndtiff(folder, pixels((2, 2, 5, 6)), {"z": (0, 1), "channel": ("a", "b")}),
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
        "npy",
        lambda folder: write_npy(folder, pixels((3, 4, 6))),
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
        lambda folder: write_ome_tiff(folder, pixels((2, 2, 3, 5, 6))),
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
            list(pixels((2, 8, 16, 3), "u1")),
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
)
