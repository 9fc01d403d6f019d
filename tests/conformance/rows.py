"""The sets that every format is tested with: a row a kind of set."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats import hdf5_sets, seq_sets, sets
from vfs.formats.bioformats import LIBRARY
from vfs.formats.tvips import FIELDS
from vfs.testing.backscatter_writers import write_ebsp, write_nordif, write_spd, write_up
from vfs.testing.detector_writers import write_adsc, write_cbf, write_sls, write_spe
from vfs.testing.event_writers import write_eer
from vfs.testing.frame_writers import write_empad_g2, write_tvips
from vfs.testing.hdf5_writers import write_counted
from vfs.testing.microscope_writers import czi_planes, write_czi, write_lif, write_nd2, write_xlef
from vfs.testing.plane_writers import write_edf, write_fits, write_ndtiff, write_tiled_fits
from vfs.testing.suites import Row, Written
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_mib, write_npy, write_raw, write_ripple

RNG = np.random.default_rng(0)
FRAMES = RNG.integers(0, 60_000, (12, 32, 64)).astype("<u2")  # 4 KiB a frame


def raw(**how: Any) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        files = how.get("files", 1)
        headers = {name: value for name, value in how.items() if name != "files"}
        return (
            write_raw(folder, FRAMES.astype(">u2"), files=files, **headers),
            FRAMES,
            {"dtype": ">u2", "sig_shape": "32,64", **headers},
        )

    return write


def raw_scan(folder: Path) -> Written:
    paths = write_raw(folder, FRAMES, frame_header=16, files=3)
    return paths, FRAMES.reshape(3, 4, 32, 64), {"dtype": "<u2", "shape": "3,4,32,64", "frame_header": 16}


def raw_running_on(folder: Path) -> Written:
    content = b"".join(b"head" + frame.tobytes() for frame in FRAMES)
    paths = []
    for n, (a, b) in enumerate([(0, 1004), (1004, 30_000), (30_000, len(content))]):
        paths.append(folder / f"part{n}.bin")
        paths[n].write_bytes(b"first" + content[a:b])
    return (
        paths,
        FRAMES,
        {"dtype": "<u2", "sig_shape": "32,64", "file_header": 5, "frame_header": 4, "running_on": True},
    )


def ripple(dtype: str, record: str = "image", offset: int = 0) -> Callable[[Path], Written]:
    scales = {
        f"{axis}_{key}": value for axis in ("height", "width") for key, value in (("scale", 0.5), ("units", "nm"))
    }

    def write(folder: Path) -> Written:
        twin = FRAMES[:, :6, :8] if record == "vector" else FRAMES
        path = write_ripple(folder, twin.astype(dtype), record=record, offset=offset, ev_per_chan=10, **scales)
        return path, twin.astype(np.dtype(dtype).newbyteorder("=")), {}

    return write


def ebsp(version: int) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        twin = FRAMES.reshape(3, 4, 32, 64)
        return write_ebsp(folder, twin, version=version, order=[*range(6, 12), *range(6)]), twin, {}

    return write


def nd2(**how: Any) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        channels, colours = how.get("channels", 1), how.get("colours", 1)
        sig = ((channels,) if channels > 1 else ()) + (32, 64) + ((colours,) if colours > 1 else ())
        twin = np.resize(FRAMES, (3, 4, *sig))
        path = write_nd2(folder / "a.nd2", twin, ("t", "z"), **how)
        return path, twin if colours == 1 else np.ascontiguousarray(twin[..., ::-1]), {}  # blue is stored first

    return write


def lif(folder: Path) -> Written:
    twin = FRAMES.reshape(3, 2, 2, 32, 64)
    thumbnail = ("y", "x"), FRAMES[0, :8, :8]
    stamps = " ".join(f"{0x1D71114EB8B44F0 + 10**7 * k:x}" for k in range(12))
    times = f'</ImageDescription><TimeStampList NumberOfTimeStamps="12">{stamps}</TimeStampList>'

    def timed(xml: str) -> str:
        return xml.replace("</ImageDescription>", times, 1)

    return write_lif(folder / "a.lif", {"a": ("tczyx", twin), "b": thumbnail}, xml=timed), twin, {}


def xlef(kind: str) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        twin = FRAMES.reshape(3, 4, 32, 64)
        return write_xlef(folder, {"a": ("tzyx", twin)}, kind=kind), twin, {}

    return write


def czi(folder: Path) -> Written:
    twin = FRAMES.reshape(3, 4, 32, 64)
    said = "<METADATA><Tags><AcquisitionTime>2016-02-12T09:47:{:02}Z</AcquisitionTime></Tags></METADATA>"
    return write_czi(folder / "a.czi", czi_planes(twin, "TZ"), said=said.format), twin, {}


def czi_packed(folder: Path) -> Written:
    twin = FRAMES.reshape(3, 4, 32, 64)
    left, right = czi_planes(twin[..., :40], "TZ", {"M": 0}), czi_planes(twin[..., 30:], "TZ", {"M": 1, "X": 30})
    path = write_czi(folder / "a.czi", [*right, *left], compression=5, encode=zstd)
    return path, twin, {}


def zstd(pixels: np.ndarray) -> bytes:
    from numcodecs import Zstd

    return bytes(Zstd().encode(pixels))


def events(folder: Path) -> Written:
    counts = np.random.default_rng(1).poisson(0.1, (3, 6, 8, 512))
    return hdf5_sets.write_events(folder / "a.emd", counts, about=False), counts.sum(0, dtype="u4"), {}


def counted(folder: Path) -> Written:
    twin = np.random.default_rng(1).poisson(0.05, (3, 4, 32, 64)).astype("u2")
    lists = [np.repeat(np.arange(2048), frame.reshape(-1)) for frame in twin.reshape(12, 32, 64)]
    return write_counted(folder / "a.h5", lists, (3, 4), (32, 64), np.arange(12)), twin, {}


def sls(grid: tuple[int, int], **how: Any) -> Callable[[Path], Written]:
    return lambda folder: (write_sls(folder, FRAMES, grid, **how), FRAMES, {})


def cbf(folder: Path) -> Written:
    frames = FRAMES.astype("i4") * 100
    return [write_cbf(folder / f"a_{k:03}.cbf", frame) for k, frame in enumerate(frames)], frames, {}


def fabio(folder: Path) -> Written:
    pytest.importorskip("fabio")
    return [write_adsc(folder / f"a_{k:03}.img", frame) for k, frame in enumerate(FRAMES)], FRAMES, {}


def rosettasciio(folder: Path) -> Written:
    semper = pytest.importorskip("rsciio.semper")
    frames = FRAMES.astype("f4")
    axes = [
        {"name": name, "size": size, "scale": 0.5, "offset": 0.0, "units": "nm", "navigate": False}
        for name, size in zip("zyx", frames.shape, strict=True)
    ]
    about = {"General": {"title": "frames"}}
    signal = {"data": frames, "axes": axes, "metadata": about, "original_metadata": {}}
    semper.file_writer(str(folder / "a.unf"), signal)
    return folder / "a.unf", frames, {}


def bioformats(folder: Path) -> Written:
    for module in LIBRARY.modules:
        pytest.importorskip(module)
    path = folder / "a.nrrd"
    head = "NRRD0004\ntype: uint16\ndimension: 3\nsizes: 64 32 12\nendian: little\nencoding: raw\n\n"
    path.write_bytes(head.encode() + FRAMES.tobytes())
    return path, FRAMES[None, None], {}


def eer(each: int) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        events = FRAMES > 50_000
        options = {"frames_per_sum": each} if each > 1 else {}
        return write_eer(folder / "a.eer", list(events)), events.reshape(-1, each, 32, 64).sum(1, dtype="u1"), options

    return write


def up(folder: Path) -> Written:
    twin = FRAMES.reshape(3, 4, 32, 64)
    return write_up(folder, twin), twin, {}


def spe(lightfield: bool) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        how: dict[str, Any] = {"lightfield": True, "metadata": 16} if lightfield else {}
        return write_spe(folder / "a.spe", FRAMES, **how), FRAMES, {}

    return write


def spd(folder: Path) -> Written:
    twin = FRAMES.reshape(3, 4, 2048)
    return write_spd(folder, twin), twin, {}


def ndtiff(folder: Path) -> Written:
    axes = {"time": (0, 1), "channel": ("GFP", "DAPI"), "z": (0, 1, 2)}
    twin = FRAMES.reshape(2, 2, 3, 32, 64)
    return write_ndtiff(folder, twin, axes, files=3, said=lambda at: {"ElapsedTime-ms": at["z"]}), twin, {}


def edf(dtype: str, files: int = 1) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        parts = np.array_split(FRAMES.astype(dtype), files)
        return [write_edf(folder / f"a_{k:04d}.edf", part) for k, part in enumerate(parts)], FRAMES.astype(dtype), {}

    return write


def fits(dtype: str) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        twin = (FRAMES >> 1).astype(dtype).reshape(3, 4, 32, 64)
        return write_fits(folder / "a.fits", twin), twin, {}

    return write


def fits_in_tiles(folder: Path) -> Written:
    twin = FRAMES.reshape(3, 4, 32, 64)
    return write_tiled_fits(folder / "a.fits.fz", twin, (1, 1, 32, 64)), twin, {}


def fits_a_file_a_frame(folder: Path) -> Written:
    twin = FRAMES.astype("f4")
    return [write_fits(folder / f"a_{k:02d}.fits", frame) for k, frame in enumerate(twin)], twin, {}


def nordif(folder: Path) -> Written:
    twin = FRAMES.astype("u1").reshape(3, 4, 32, 64)
    return write_nordif(folder, twin, backgrounds={"acquisition": twin[0, 0]}), twin, {}


def npy(values: np.ndarray, files: int = 1) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        paths = [write_npy(folder, values + np.array(n, values.dtype), name=f"a{n}.npy") for n in range(files)]
        twin = values if files == 1 else np.stack([values + np.array(n, values.dtype) for n in range(files)])
        return (paths if files > 1 else paths[0]), twin, {}

    return write


def mib(
    frames: np.ndarray = FRAMES & 0xFFF, scan: tuple[int, int] | None = None, by_name: bool = False, **how: Any
) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        path = write_mib(folder, frames, scan=scan, **how)
        paths: Any = sorted(folder.glob("*.mib")) if by_name else path
        return paths, frames if scan is None else frames.reshape(*scan, *frames.shape[1:]), {}

    return write


def tiff(**how: Any) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        return write_tiff(folder / "stack.tif", list(FRAMES), **how), FRAMES, {}

    return write


def tiff_sequence(folder: Path) -> Written:
    return [write_tiff(folder / f"t{n}.tif", [frame]) for n, frame in enumerate(FRAMES)], FRAMES, {}


def ome_tiff(**how: Any) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        image = FRAMES.reshape(2, 2, 3, 32, 64)
        return write_ome_tiff(folder, image, **how), image, {}

    return write


OME_PLANES = "".join(
    f'<Plane TheT="{t}" TheC="{c}" TheZ="{z}" DeltaT="{t + z / 8}" PositionX="{c}" PositionXUnit="mm"/>'
    for t, c, z in np.ndindex(2, 2, 3)
)
"""What OME-XML says of each plane."""


def described(folder: Path, name: str, document: dict[str, Any], twin: np.ndarray) -> Written:
    path = folder / f"{name}.vfs.json"
    path.write_text(json.dumps({"vfs": 1, **document}))
    return path, twin, {}


def description_of_frames(folder: Path) -> Written:
    paths = write_raw(folder, FRAMES, file_header=40, frame_header=8, files=2)
    frames = {"header": 8, "first": 40}
    return described(
        folder,
        "frames",
        {"dtype": "<u2", "shape": [12, 32, 64], "files": [path.name for path in paths], "frames": frames},
        FRAMES,
    )


def description_of_blocks(codec: bool) -> Callable[[Path], Written]:
    """Boxes of several shapes, last one first, in two files; with a hole."""

    def write(folder: Path) -> Written:
        twin = FRAMES.copy()
        twin[3, :16] = 0
        contents, blocks = [b"front", b""], []
        for n in reversed(range(12)):
            for y in (16, 0) if n % 2 else (0,):
                box = (n, y, 0), (1, 16 if n % 2 else 32, 64)
                if box[0] == (3, 0, 0):
                    continue
                data = FRAMES[n, y : y + box[1][1]].tobytes()
                data = zlib.compress(data) if codec else data
                blocks.append(
                    {
                        "file": n % 2,
                        "offset": len(contents[n % 2]),
                        "origin": box[0],
                        "shape": box[1],
                        "nbytes": len(data),
                    }
                )
                contents[n % 2] += data
        for n, content in enumerate(contents):
            (folder / f"part{n}.bin").write_bytes(content)
        more = {"codec": {"id": "zlib"}} if codec else {}
        document = {
            "dtype": "<u2",
            "shape": [12, 32, 64],
            "files": ["part0.bin", "part1.bin"],
            "blocks": blocks,
            **more,
        }
        return described(folder, "packed" if codec else "blocks", document, twin)

    return write


def description_of_an_opening(folder: Path) -> Written:
    paths = write_raw(folder, FRAMES, files=3)
    options = {"dtype": "<u2", "sig_shape": "32,64", "nav_shape": [3, 4]}
    return described(
        folder,
        "opening",
        {"format": "raw", "files": [path.name for path in paths], "options": options},
        FRAMES.reshape(3, 4, 32, 64),
    )


def empad_g2(folder: Path) -> Written:
    words = np.random.default_rng(3).integers(0, 1 << 30, (2, 3, 128, 128)).astype("u4")
    return write_empad_g2(folder, words), words, {}


def tvips(folder: Path) -> Written:
    return write_tvips(folder, FRAMES, frames_per_file=5), FRAMES, {}


def tvips_by_name(folder: Path) -> Written:
    tvips(folder)
    return sorted(folder.glob("*.tvips")), FRAMES, {}


def hdf5(**how: Any) -> Callable[[Path], Written]:
    def write(folder: Path) -> Written:
        return hdf5_sets.written(folder, data=(FRAMES, how)), FRAMES, {}

    return write


def ims(folder: Path) -> Written:
    twin = FRAMES[:12].reshape(2, 3, 2, *FRAMES.shape[1:])
    return hdf5_sets.write_ims(folder / "a.ims", twin, padded=(4, 64, 128), chunks=(1, 32, 64)), twin, {}


def hspy(folder: Path) -> Written:
    path = hdf5_sets.written(folder, "set.hspy", Experiments__one__data=(FRAMES, {}))
    with hdf5_sets.h5py.File(path, "a") as file:
        for k, name in enumerate(("frame", "y", "x")):
            axis = {"name": name, "scale": 0.5, "offset": 1.0, "units": "nm", "navigate": k == 0}
            file["Experiments/one"].create_group(f"axis-{k}").attrs.update(axis)
    return path, FRAMES, {}


STAMPS = ("timestamp", "exposure")
TVIPS = tuple(name for name, *_ in FIELDS)
BITS = (FRAMES & 1).astype("u1")
_AS_WRITTEN = (
    Row("raw", "raw", raw(), detected=False),
    Row(
        "raw, headers everywhere, three files",
        "raw",
        raw(file_header=100, frame_header=37, frame_footer=5, files=3),
        detected=False,
        factor=1.01,
    ),
    Row("raw, a scan in three files", "raw", raw_scan, detected=False, factor=1.01),
    Row("raw, running on", "raw", raw_running_on, detected=False, factor=1.01),
    Row("ripple of images", "ripple", ripple(">u2", offset=100), calibrated=("energy", "y", "x"), finds_files=True),
    Row(
        "ripple of spectra",
        "ripple",
        ripple("<f4", "vector"),
        factor=1.3,
        calibrated=("scan_y", "scan_x", "energy"),
        finds_files=True,
    ),
    Row("npy", "npy", npy(FRAMES), cut=False),
    Row("npy, big-endian", "npy", npy(FRAMES.astype(">f4")), cut=False),
    Row("npy, Fortran order", "npy", npy(np.asfortranarray(FRAMES)), cut=False, arranged=False, fixed=True),
    Row("npy, complex, several files", "npy", npy((FRAMES[:3] + 1j * FRAMES[3:6]).astype("c8"), 3), cut=False),
    Row("npy, no axes", "npy", npy(np.array(7, ">i4")), cut=False, arranged=False, fixed=True),
    Row("npy, one axis", "npy", npy(np.arange(1000, dtype="<i8")), cut=False, arranged=False, fixed=True),
    Row("mib U16", "mib", mib(), factor=1.09, companions=STAMPS, finds_files=True),
    Row(
        "mib U16, a scan in four files",
        "mib",
        mib(scan=(3, 4), frames_per_file=3),
        factor=1.07,
        companions=STAMPS,
        finds_files=True,
    ),
    Row(
        "mib U16, files by name",
        "mib",
        mib(frames_per_file=5, by_name=True),
        ordered=True,
        factor=1.08,
        companions=STAMPS,
        finds_files=True,
    ),
    Row(
        "mib U08, no hdr", "mib", mib((FRAMES & 63).astype("u1"), kind="U08", hdr=False), factor=1.18, companions=STAMPS
    ),
    Row("mib U32", "mib", mib(FRAMES.astype("u4") * 99, kind="U32"), factor=1.05, companions=STAMPS, finds_files=True),
    Row("mib R64 1 bit", "mib", mib(BITS, kind="R64", depth=1), factor=0.3, companions=STAMPS, finds_files=True),
    Row(
        "mib R64 6 bit",
        "mib",
        mib((FRAMES & 63).astype("u1"), kind="R64", depth=6),
        factor=1.18,
        companions=STAMPS,
        finds_files=True,
    ),
    Row("mib R64 12 bit", "mib", mib(kind="R64", depth=12), factor=1.09, companions=STAMPS, finds_files=True),
    Row(
        "mib R64 24 bit",
        "mib",
        mib(FRAMES.astype("u4") * 200, kind="R64", depth=24),
        factor=1.05,
        companions=STAMPS,
        finds_files=True,
    ),
    Row(
        "mib R64 12 bit, quad",
        "mib",
        mib(kind="R64", depth=12, quad=True),
        factor=1.18,
        companions=STAMPS,
        finds_files=True,
    ),
    Row("tiff", "tiff", tiff(), factor=1.04, cut=False),
    Row(
        "tiff, big-endian BigTIFF in strips", "tiff", tiff(order=">", big=True, strip=7, gap=3), factor=1.08, cut=False
    ),
    Row("tiff, tiles", "tiff", tiff(tile=(16, 48)), factor=1.54, cut=False),
    Row("tiff, compressed", "tiff", tiff(compression=8, encode=zlib.compress, strip=10), factor=1.02, cut=False),
    Row("tiff, a sequence", "tiff", tiff_sequence, cut=False),
    Row(
        "ome_tiff",
        "ome_tiff",
        ome_tiff(said=OME_PLANES),
        arranged=False,
        factor=1.07,
        calibrated="xyzt",
        companions=("timestamp", "stage_x"),
    ),
    Row(
        "ome_tiff, several files",
        "ome_tiff",
        ome_tiff(files=3, order="XYCTZ"),
        arranged=False,
        factor=1.1,
        calibrated="xyzt",
        finds_files=True,
    ),
    Row(
        "ome_tiff, a companion",
        "ome_tiff",
        ome_tiff(files=2, describe="companion"),
        arranged=False,
        factor=1.04,
        calibrated="xyzt",
        finds_files=True,
    ),
    Row("description of frames", "description", description_of_frames, factor=1.01, finds_files=True),
    Row("description of blocks", "description", description_of_blocks(False), finds_files=True),
    Row("description of compressed blocks", "description", description_of_blocks(True), factor=1.01, finds_files=True),
    Row("description of how a set is opened", "description", description_of_an_opening, finds_files=True),
    Row(
        "blo",
        "blo",
        sets.blo_set,
        factor=1.08,
        calibrated=("scan_y", "scan_x", "y", "x"),
        companions=("frame_number", "virtual_bright_field"),
    ),
    Row("dm", "dm", sets.dm_set, cut=False, calibrated=("frame", "y", "x")),
    Row(
        "ebsp",
        "ebsp",
        ebsp(2),
        factor=1.3,
        calibrated=("scan_y", "scan_x"),
        companions=("beam_x", "beam_y"),
    ),
    Row(
        "ebsp, version 5",
        "ebsp",
        ebsp(5),
        factor=1.3,
        calibrated=("scan_y", "scan_x"),
        companions=("beam_x", "beam_y", "map_x", "map_y"),
    ),
    Row("edax", "edax", up, calibrated=("scan_y", "scan_x")),
    Row(
        "empad",
        "empad",
        sets.empad_set,
        factor=1.02,
        calibrated=("scan_y", "scan_x"),
        companions=("footer",),
        finds_files=True,
    ),
    Row("empad, second generation", "empad", empad_g2, companions=("analog", "counter", "gain")),
    Row(
        "frms6",
        "frms6",
        sets.frms6_set,
        factor=1.81,
        companions=("timestamp_seconds", "timestamp_microseconds", "frame_number", "dark"),
        finds_files=True,
    ),
    Row("hdf5", "hdf5", hdf5_sets.hdf5_set, factor=1.69),
    Row("hdf5, in one piece", "hdf5", hdf5()),
    Row("hdf5, a chunk a frame", "hdf5", hdf5(chunks=(1, 32, 64), compression="gzip", shuffle=True), factor=1.01),
    Row("hdf5, five frames a chunk", "hdf5", hdf5(chunks=(5, 32, 20), compression="gzip"), factor=5.2),
    Row("hdf5 of HyperSpy", "hdf5", hspy, calibrated=("frame", "y", "x")),
    Row("hdf5 of Imaris", "hdf5", ims, calibrated=("t", "z", "y", "x"), arranged=False),
    Row("hdf5, events of Velox", "hdf5", events, fixed=True, arranged=False, factor=1.5),
    Row("hdf5, events of stempy", "hdf5", counted, fixed=True, arranged=False, cut=False, factor=1.5),
    Row("k2is", "k2is", sets.k2is_set, factor=1.03, finds_files=True),
    Row("mrc", "mrc", sets.mrc_set, calibrated="xy"),
    Row(
        "nordif",
        "nordif",
        nordif,
        calibrated=("scan_y", "scan_x"),
        companions=("background",),
        finds_files=True,
    ),
    Row(
        "seq",
        "seq",
        seq_sets.seq_set,
        factor=7.5,
        calibrated=("frame",),
        companions=("timestamp_seconds", "timestamp_milliseconds", "timestamp_microseconds"),
    ),
    Row(
        "ser",
        "ser",
        sets.ser_set,
        cut=False,
        factor=1.35,
        calibrated=("scan_y", "scan_x", "y", "x"),
        companions=("timestamp", "position_x", "position_y"),
    ),
    Row("nd2", "nd2", nd2(), companions=("timestamp",), calibrated=("t", "z", "y", "x"), factor=2),
    Row(
        "nd2, channels",
        "nd2",
        nd2(channels=2, padding=6),
        companions=("timestamp",),
        calibrated=("t", "z", "y", "x"),
        factor=1.6,
    ),
    Row(
        "nd2, compressed",
        "nd2",
        nd2(colours=3, packed=True),
        companions=("timestamp",),
        calibrated=("t", "z", "y", "x"),
        factor=1.1,
    ),
    Row("lif", "lif", lif, calibrated=("t", "z", "y", "x"), companions=("image_0/timestamp",)),
    Row("lif, a project of TIFF files", "lif", xlef("tif"), calibrated=("t", "z", "y", "x"), finds_files=True),
    Row("lif, a project of one .lof", "lif", xlef("lof"), calibrated=("t", "z", "y", "x"), finds_files=True),
    Row("czi", "czi", czi, calibrated=("y", "x"), factor=1.1, companions=("timestamp",)),
    Row("czi, tiles that overlap", "czi", czi_packed, calibrated=("y", "x"), factor=1.2),
    Row("sls", "sls", sls((1, 1)), finds_files=True, factor=1.1),
    Row("sls, eight modules", "sls", sls((4, 2), interfaces=2), finds_files=True, factor=1.3),
    Row("sls, eiger", "sls", sls((2, 2), detector="Eiger"), finds_files=True, factor=1.2),
    Row("cbf", "cbf", cbf, calibrated=("y", "x"), counted=False, factor=1.8),
    Row("fabio", "fabio", fabio, counted=False, cut=False, factor=2.2),
    Row("bioformats", "bioformats", bioformats, cut=False, factor=1.1),
    Row("rosettasciio", "rosettasciio", rosettasciio, cut=False, factor=1.1, calibrated="xyz"),
    Row("eer", "eer", eer(1), calibrated=("frame", "y", "x")),
    Row("eer, sums", "eer", eer(3), arranged=False, factor=1.6, calibrated=("frame", "y", "x")),
    Row("edf", "edf", edf(">u2"), calibrated=("y", "x"), counted=False, factor=1.3),
    Row("edf, three files", "edf", edf("<f4", 3), calibrated=("y", "x"), counted=False, factor=1.3),
    Row("fits", "fits", fits("f4"), calibrated=("y", "x"), factor=1.1),
    Row("fits, top bits turned", "fits", fits("u2"), calibrated=("y", "x"), factor=1.1),
    Row("fits, compressed", "fits", fits_in_tiles, calibrated=("y", "x"), counted=False, arranged=False),
    Row("fits, a file a frame", "fits", fits_a_file_a_frame, calibrated=("y", "x"), counted=False, factor=1.6),
    Row(
        "ndtiff",
        "ndtiff",
        ndtiff,
        calibrated=("z", "y", "x"),
        finds_files=True,
        factor=1.02,
        companions=("timestamp",),
    ),
    Row("spd", "spd", spd, calibrated=("scan_y", "scan_x", "energy"), finds_files=True),
    Row("spe", "spe", spe(False), factor=1.1),
    Row("spe of LightField", "spe", spe(True), factor=1.1),
    Row(
        "tvips",
        "tvips",
        tvips,
        counted=False,
        factor=1.03,
        calibrated=("frame", "y", "x"),
        companions=TVIPS,
        finds_files=True,
    ),
    Row(
        "tvips, files by name",
        "tvips",
        tvips_by_name,
        ordered=True,
        counted=False,
        factor=1.03,
        calibrated=("frame", "y", "x"),
        companions=TVIPS,
    ),
    Row(
        "tvips, a scan",
        "tvips",
        sets.tvips_set,
        arranged=False,
        counted=False,
        factor=2.2,
        calibrated="yx",
        companions=TVIPS,
        finds_files=True,
    ),
)

COMPUTED = (
    *(
        "raw, running on",
        "npy, Fortran order",
        "frms6",
        "k2is",
        "ser",
        "fits, top bits turned",
        "fits, compressed",
        "eer",
        "eer, sums",
    ),
    *("hdf5, events of Velox", "hdf5, events of stempy"),
    *("mib R64 1 bit", "mib R64 6 bit", "mib R64 12 bit", "mib R64 24 bit", "mib R64 12 bit, quad"),
    *("tiff, big-endian BigTIFF in strips", "tiff, compressed", "description of blocks"),
    *(
        "description of compressed blocks",
        "nd2, channels",
        "nd2, compressed",
        "czi, tiles that overlap",
        "sls, eiger",
        "cbf",
        "fabio",
        "bioformats",
        "rosettasciio",
    ),
)
"""Names of the rows whose chunks nobody can refer to."""
ROWS = tuple(replace(row, referenceable=row.name not in COMPUTED) for row in _AS_WRITTEN)
assert {row.name for row in ROWS} >= {*COMPUTED}
FIRST = tuple({row.format: row for row in reversed(ROWS)}.values())
"""A row of each format."""
