"""Deciding fields of cameras and detectors: headers of frames, and files beside them."""

from __future__ import annotations

from vfs.testing.deciding_fields.fields import DecidedSet, binary, key, pixels, text
from vfs.testing.detector_writers import write_adsc, write_cbf, write_sls, write_spe
from vfs.testing.event_writers import write_eer
from vfs.testing.frame_writers import write_empad, write_frms6, write_seq, write_tvips
from vfs.testing.gatan_writers import write_k2is
from vfs.testing.plane_writers import write_edf
from vfs.testing.writers import write_mib

CAMERAS = (
    DecidedSet(
        "cbf",
        lambda folder: write_cbf(folder / "a.cbf", pixels((5, 6), "i4") >> 8),
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
        "edf",
        lambda folder: write_edf(folder / "a.edf", pixels((2, 5, 6))),
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
        lambda folder: write_eer(folder / "a.eer", list(pixels((3, 9, 21), "u1") > 200)),
        (
            text("5e-11", "9e-11"),
            text('item name="exposureTime" unit="s">1.5', 'item name="exposureTime" unit="s">9.5'),
            text('"numberOfFrames">3', '"numberOfFrames">5'),
        ),
    ),
    DecidedSet(
        "empad",
        lambda folder: write_empad(folder, pixels((2, 3, 128, 128), "f4")),
        (
            text('mode="acquire"', 'mode="unknown"', "*.xml"),
            text("<scan_resolution_y>2", "<scan_resolution_y>3", "*.xml"),
            text("<scale_factor>0.5", "<scale_factor>0.9", "*.xml"),
        ),
    ),
    DecidedSet(
        "fabio",
        lambda folder: write_adsc(folder / "a.img", pixels((5, 6))),
        (
            text("BYTE_ORDER=little_endian", "BYTE_ORDER=big_endian   "),
            text("HEADER_BYTES=512", "HEADER_BYTES=510"),
            text("SIZE1=6", "SIZE1=5"),
            text("SIZE2=5", "SIZE2=6"),
        ),
    ),
    DecidedSet(
        "frms6",
        lambda folder: write_frms6(folder, pixels((6, 6, 5)), scan=(2, 3)),
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
        "k2is",
        lambda folder: write_k2is(folder, pixels((1, 1860, 2048)) & 0xFFF),
        (
            binary("sync", 0, ">I", 0xFFFF0066, "*3.bin"),
            binary("frame", 24, ">I", 777, "*3.bin"),
            binary("x", 28, ">H", 16, "*3.bin"),
            binary("y", 30, ">H", 930, "*3.bin"),
        ),
    ),
    DecidedSet(
        "mib",
        lambda folder: write_mib(folder, pixels((6, 4, 64)) & 0xFFF, scan=(2, 3)),
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
        lambda folder: write_mib(folder, pixels((3, 8, 64)) & 0xFFF, kind="R64", depth=12, quad=True),
        (
            text("   2x2", "   4x1", "*.mib"),
            text("00768,04,", "00768,01,", "*.mib"),
            text("ns,12,", "ns,6, ", "*.mib"),
            text(",0128,", ",0256,", "*.mib"),
        ),
        "quad",
    ),
    DecidedSet(
        "seq",
        lambda folder: write_seq(folder, pixels((4, 5, 6))),
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
        "sls",
        lambda folder: write_sls(folder, pixels((6, 8, 6)), (2, 1), per_file=3),
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
        lambda folder: write_spe(folder / "a.spe", pixels((3, 5, 6))),
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
        lambda folder: write_spe(folder / "a.spe", pixels((3, 5, 6)), lightfield=True, metadata=4),
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
        "tvips",
        lambda folder: write_tvips(folder, pixels((4, 5, 6)), scan=(2, 2)),
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
