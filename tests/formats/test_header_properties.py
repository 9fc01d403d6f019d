"""Headers of every format, drawn: what a writer was told is what a reader finds, and a changed
header is data or one line.

Each kind of set is a function that draws what its headers can say (shapes, types, byte orders,
versions, places, and fields that only go into the attributes), has the conformance rows' writer put
it into files, and says what must come out. The first test opens the files and compares everything;
the second one changes some of their bytes first, and counts the memory. `--thorough` draws
50 times as many.
"""

from __future__ import annotations

import json
import math
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vfs
from tests.formats.damage import attempt
from tests.formats.frame_checks import BACKENDS, frames_of, same
from vfs.testing.backscatter_writers import write_ebsp, write_nordif, write_spd, write_up
from vfs.testing.detector_writers import write_cbf, write_sls, write_spe
from vfs.testing.event_writers import write_eer
from vfs.testing.frame_writers import write_blo, write_empad, write_frms6, write_seq, write_tvips
from vfs.testing.gatan_writers import write_dm, write_k2is
from vfs.testing.microscope_writers import czi_planes, write_czi, write_lif, write_nd2
from vfs.testing.plane_writers import write_edf, write_fits, write_ndtiff
from vfs.testing.stack_writers import write_emi, write_mrc, write_ser
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_mib, write_npy, write_raw, write_ripple

pytestmark = pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")  # scans that were stopped are among them

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Case:
    """A set that was written.

    Attributes:
        paths, options: to open it with; twin: what its main array must hold.
        attrs: what its attributes must hold, among other things; a mapping stands for a mapping
            that holds these entries.
        others: path of a companion -> what it must hold.
        head: bytes of a file that are worth changing.
    """

    paths: Any
    twin: np.ndarray
    options: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, np.ndarray] = field(default_factory=dict)
    head: int = 640


def size(most: int = 9) -> st.SearchStrategy[int]:
    return st.integers(1, most)


def dtype(kinds: Sequence[str], orders: str = "<>") -> st.SearchStrategy[str]:
    return st.builds(lambda order, kind: order + kind, st.sampled_from(orders), st.sampled_from(kinds))


def pixels(shape: Sequence[int], kind: str) -> np.ndarray:
    """Numbers over the whole range of a dtype, in its byte order; the real and the imaginary part of complex ones."""
    made = np.dtype(kind)
    if made.kind == "c":
        parts = frames_of((*shape, 2), f"f{made.itemsize // 2}")
        return parts.view(made.newbyteorder("="))[..., 0].astype(made)
    if made.kind == "b":
        return frames_of(tuple(shape), "u1") > 99
    return frames_of(tuple(shape), made.newbyteorder("=")).astype(made)


RANGES = {"H": (0, 1 << 16), "I": (0, 1 << 32), "i": (-(1 << 31), 1 << 31)}


def number(code: str) -> st.SearchStrategy[Any]:
    if code in "fd":
        return st.floats(allow_nan=False, allow_infinity=False, width=32 if code == "f" else 64)
    return st.integers(RANGES[code][0], RANGES[code][1] - 1)


def patched(draw: Draw, path: Path, order: str, places: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """Write drawn numbers over fields of a header that do not say where anything is: name -> (first
    byte, struct code). Returns what they are.
    """
    said: dict[str, Any] = {}
    data = bytearray(path.read_bytes())
    for name, (at, code) in places.items():
        values = [draw(number(code[-1])) for _ in range(int(code[:-1] or 1))]
        struct.pack_into(order + code, data, at, *values)
        said[name] = values if len(code) > 1 else values[0]
    path.write_bytes(data)
    return said


def possible(step: float) -> bool:
    """Say whether a step is of a size that can be meant: see `vfs.model.calibration`."""
    return 1e-30 <= abs(step) <= 1e30


def raw(draw: Draw, folder: Path) -> Case:
    twin = pixels([draw(size()), draw(size()), draw(size())], draw(dtype(["u1", "u2", "i4", "f4", "f8", "c8", "u8"])))
    room = {name: draw(st.integers(0, 40)) for name in ("file_header", "frame_header", "frame_footer")}
    made = write_raw(folder, twin, files=draw(st.integers(1, len(twin))), **room)
    paths = [path for path in made if path.stat().st_size > room["file_header"]]
    return Case(paths, twin, {"dtype": twin.dtype.str, "sig_shape": twin.shape[1:], **room})


def npy(draw: Draw, folder: Path) -> Case:
    kind = draw(dtype(["u1", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "b1"]))
    shape = draw(st.lists(size(5), max_size=5))
    twin = np.asarray(pixels(shape, kind), order=draw(st.sampled_from("CF")))
    path = write_npy(folder, twin, version=draw(st.sampled_from([(1, 0), (2, 0), (3, 0)])))
    return Case(path, twin, attrs={"descr": twin.dtype.str}, head=128)


def mib(draw: Draw, folder: Path) -> Case:
    kind, depth = draw(
        st.sampled_from([("U08", 6), ("U16", 12), ("U32", 24), ("R64", 1), ("R64", 6), ("R64", 12), ("R64", 24)])
    )
    shape = (draw(size(5)), draw(size(6)), 64 * draw(size(2)))
    n = shape[0]
    twin = frames_of(
        shape, {"U08": "u1", "U16": "u2", "U32": "u4"}.get(kind) or {1: "u1", 6: "u1", 12: "u2", 24: "u4"}[depth]
    ) & ((1 << depth) - 1)
    first, per_file = draw(st.integers(0, 900_000)), draw(st.one_of(st.none(), size(n)))
    header = draw(st.integers(384, 900)) if kind != "R64" else draw(st.sampled_from([384, 768]))
    exposure = draw(st.integers(1, 10**12))
    scan = draw(st.sampled_from([None, (1, n), (n, 1)]))
    path = write_mib(
        folder,
        twin,
        kind=kind,
        depth=depth,
        first_sequence=first,
        frames_per_file=per_file,
        header_bytes=header,
        exposure_ns=exposure,
        scan=scan,
    )
    return Case(path, twin if scan is None else twin.reshape(*scan, *shape[1:]), head=600)


def tiff(draw: Draw, folder: Path) -> Case:
    packed = draw(st.sampled_from([None, None, 10, 12, 14]))
    kind = "u2" if packed else draw(st.sampled_from(["u1", "u2", "u4", "i1", "i2", "i4", "f4", "f8"]))
    samples, planar = draw(st.sampled_from([(), (), (3,)])), draw(st.booleans())
    pages = pixels((draw(size(4)), draw(size(40)), draw(size(40)), *samples), kind)
    pages = pages & ((1 << packed) - 1) if packed else pages
    squeezed: dict[str, Any] = draw(st.sampled_from([{}, {"compression": 8, "encode": zlib.compress}]))
    tile = draw(st.sampled_from([None, (16, 16), (16, 32)]))
    stored = list(np.moveaxis(pages, -1, 1) if samples and planar else pages)
    path = write_tiff(
        folder / "a.tif",
        stored,
        order=draw(st.sampled_from("<>")),
        big=draw(st.booleans()),
        tile=tile,
        strip=None if tile else draw(st.one_of(st.none(), size(40))),
        planar=bool(samples) and planar,
        bits=packed,
        gap=draw(st.integers(0, 9)),
        shuffled=draw(st.booleans()),
        **squeezed,
    )
    got = vfs.open(path)  # length-1 axes are a question of its own; the numbers and the order of the others are not
    return Case(path, (np.moveaxis(pages, -1, 1) if samples and planar else pages).reshape(got.shape), head=2500)


def ome_tiff(draw: Draw, folder: Path) -> Case:
    image = pixels(
        [draw(size(3)) for _ in range(3)] + [draw(size(20)), draw(size(20))],
        draw(st.sampled_from(["u1", "u2", "i4", "f4", "f8", "c8"])),
    )
    path = write_ome_tiff(
        folder,
        image,
        order="XY" + "".join(draw(st.permutations("ZCT"))),
        files=draw(st.integers(1, max(1, min(3, math.prod(image.shape[:3]))))),
        describe=draw(st.sampled_from(["every", "first", "companion"])),
    )
    return Case(path, image, head=2500)


def blo(draw: Draw, folder: Path) -> Case:
    twin = pixels((draw(size(5)), draw(size(5)), *2 * (draw(size(9)),)), draw(st.sampled_from(["u1", "u2"])))
    count = twin.shape[0] * twin.shape[1]
    stored, big = draw(st.integers(1, count)), draw(st.booleans())
    preview = frames_of(twin.shape[:2], "u1")
    note = draw(st.text("abc: 7\r\n", max_size=60)).strip()
    path = write_blo(folder, twin, big_endian=big, stored=stored, preview=preview, note=note)
    places = {
        "flags": (16, "I"),
        "dp_rotation": (22, "H"),
        "scan_rotation": (28, "H"),
        "sx": (30, "d"),
        "sy": (38, "d"),
    }
    places |= {"beam_energy": (46, "I"), "sdp": (50, "H"), "camera_length": (52, "I"), "acquisition_time": (56, "d")}
    said = patched(draw, path, ">" if big else "<", places)
    twin.reshape(count, *twin.shape[2:])[stored:] = 0
    scale = {"scan_y": said["sy"], "scan_x": said["sx"]} | (
        {"y": 100 / said["sdp"], "x": 100 / said["sdp"]} if said["sdp"] else {}
    )
    attrs = {
        "header": said,
        "stored_frames": stored,
    }
    if steps := {name: {"scale": step} for name, step in scale.items() if possible(step) and step > 0}:
        attrs["calibration"] = steps
    numbers = np.where(np.arange(count) < stored, np.arange(count), 0).astype("u4").reshape(twin.shape[:2])
    return Case(path, twin, attrs=attrs, others={"virtual_bright_field": preview, "frame_number": numbers}, head=300)


def dm(draw: Draw, folder: Path) -> Case:
    shape = draw(st.lists(size(6), min_size=1, max_size=3))
    kind = draw(st.sampled_from(["u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8", "c8", "c16", "b1"]))
    name = st.text(st.characters(min_codepoint=33, max_codepoint=255), min_size=1, max_size=12)
    # what tags hold, and what is shown of it: numbers of a width are numbers
    leaf = st.one_of(
        st.builds(np.uint32, st.integers(0, (1 << 32) - 1)),
        st.builds(np.int16, st.integers(-(1 << 15), (1 << 15) - 1)),
        st.builds(np.float64, number("d")),
        st.text(st.characters(min_codepoint=1, max_codepoint=0xD7FF), max_size=20),
        st.lists(number("i"), min_size=2, max_size=5).map(lambda values: np.array(values, "i4")),
        st.tuples(number("i"), number("i")),
    )
    tags = draw(st.dictionaries(name, st.one_of(leaf, st.dictionaries(name, leaf, min_size=1, max_size=3)), max_size=4))
    unit = st.sampled_from(["nm", "1/nm", "µm", "mrad", ""])
    units = [draw(unit) for _ in shape]
    units[2:] = [""] * len(units[2:])  # units may say that the slowest axes are those of the detector: see test_dm
    spelled = {"µm": "um"}
    twin = pixels(shape, kind)
    version, order = draw(st.sampled_from([3, 4])), draw(st.sampled_from("<>"))
    path = write_dm(folder, twin, version=version, order=order, tags=tags, units=units, thumbnail=draw(st.booleans()))
    tags.pop("Meta Data", None)

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(inner) for key, inner in value.items()}
        return (
            value.rstrip("\0")
            if isinstance(value, str)
            else list(value)
            if isinstance(value, tuple)
            else value.tolist()
        )

    dims = (*{1: (), 2: (), 3: ("frame",)}[len(shape)], *(("y", "x") if len(shape) > 1 else ("x",)))
    calibration = {
        dim: {"scale": 0.5 * (n + 1), "offset": -(n + 1.0), "unit": spelled.get(units[n], units[n])}
        for n, dim in enumerate(dims[::-1])
    }
    attrs = {"version": version, "tags": shown(tags), "calibration": calibration}
    return Case(path, twin, attrs=attrs, head=2500)


def empad(draw: Draw, folder: Path) -> Case:
    xml = draw(st.sampled_from(["acquire", "search", "pix", "series", "series_count", "name", None]))
    nav = (draw(size(3)), draw(size(2))) if xml in ("acquire", "search", "pix") else (draw(size(4)),)
    twin = pixels((*nav, 128, 128), "f4")
    footer = draw(number("f"))
    path = write_empad(
        folder,
        twin,
        xml=xml,
        footer=footer,
        raw=f"series_x{nav[0]}.raw" if xml in ("name", None) else draw(st.sampled_from([None, "b.raw"])),
    )
    return Case(
        path,
        twin,
        attrs={"stored_frames": math.prod(nav)},
        others={"footer": np.full((*nav, 2, 128), footer, "f4")},
        head=500,
    )


def frms6(draw: Draw, folder: Path) -> Case:
    scan, binning = (draw(size(3)), draw(size(3))), draw(st.sampled_from([1, 2, 4, 16]))
    twin = pixels((math.prod(scan), 2 * draw(size(5)), draw(size(9))), "u2")
    dark = draw(st.sampled_from([None, pixels((2, *twin.shape[1:]), "u2")]))
    path = write_frms6(
        folder,
        twin,
        binning=binning,
        frames_per_file=draw(st.one_of(st.none(), size(len(twin)))),
        dark=dark,
        counted=draw(st.booleans()),
        scan=scan,
    )
    attrs = {"binning": binning, "hdr": {"stemimagesize": f"{scan[0]}x{scan[1]}"}, "stored_frames": len(twin)}
    return Case(
        path,
        twin.reshape(*scan, *twin.shape[1:]),
        attrs=attrs,
        others={} if dark is None else {"dark": dark},
        head=1100,
    )


def hdf5(draw: Draw, folder: Path) -> Case:
    h5py = pytest.importorskip("h5py")
    twin = pixels(
        draw(st.lists(size(7), min_size=1, max_size=4)),
        draw(dtype(["u1", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8"])),
    )
    chunks = tuple(draw(size(n)) for n in twin.shape)
    how = draw(
        st.sampled_from(
            [
                {},
                {"chunks": chunks},
                {"chunks": chunks, "compression": "gzip"},
                {"chunks": chunks, "shuffle": True, "fletcher32": True},
            ]
        )
    )
    word = st.text("abcXYZ_0", min_size=1, max_size=5)
    said = draw(
        st.dictionaries(
            word,
            st.one_of(st.integers(-(1 << 40), 1 << 40), number("d"), st.text("abc µ", min_size=1, max_size=9)),
            max_size=3,
        )
    )
    name = "/".join(draw(st.lists(word, min_size=1, max_size=3)))
    path = folder / "set.h5"
    with h5py.File(
        path,
        "w",
        libver=draw(st.sampled_from(["earliest", "v108", "latest"])),
        userblock_size=draw(st.sampled_from([0, 512, 1024])),
        track_order=draw(st.booleans()),
    ) as file:
        data = file.create_dataset(name, data=twin, **how)
        data.attrs.update(said)
    return Case(path, twin, attrs=said, others={name: twin.astype(twin.dtype.newbyteorder("="))}, head=1 << 14)


def k2is(draw: Draw, folder: Path) -> Case:
    n = draw(st.integers(2, 3))
    image = np.arange(1860 * 2048, dtype="u2").reshape(1860, 2048) & 4095
    frames = np.broadcast_to(image, (n, 1860, 2048))
    first, last = ([draw(st.integers(0, 31)) for _ in range(8)] for _ in range(2))
    number = draw(st.integers(0, (1 << 32) - 8))
    path = write_k2is(folder, frames, first=first, last=last, first_id=number)
    cut = (1 if any(first) else 0) + (1 if any(last) else 0)
    return (
        Case(path, frames[cut:], {}, {"frames": n - cut, "frame_id": number + any(first)}, head=64)
        if n > cut
        else k2is(draw, folder)
    )


def mrc(draw: Draw, folder: Path) -> Case:
    mode = draw(st.sampled_from([0, 1, 2, 3, 4, 6, 12, 101]))
    shape = (draw(size(4)), draw(size()), draw(size()), *((2,) if mode == 3 else ()))
    sections = pixels(shape, {0: "i1", 1: "i2", 2: "f4", 3: "i2", 4: "c8", 6: "u2", 12: "f2", 101: "u1"}[mode])
    sections = sections & 15 if mode == 101 else sections
    order, ispg = draw(st.sampled_from("<>")), draw(st.sampled_from([0, 1]))
    name = draw(
        st.sampled_from(["set.mrc", "set.map", "set.mrcs"] + (["set.mrc.gz", "set.mrc.bz2"] if mode != 101 else []))
    )
    fei = draw(st.booleans())
    path = write_mrc(
        folder,
        sections,
        mode,
        order=order,
        ispg=ispg,
        extended=draw(st.sampled_from([0, 80, 512])),
        fei=fei,
        mark=draw(st.booleans()),
        name=name,
    )
    places = {
        "nstart": (16, "3i"),
        "angles": (52, "3f"),
        "min": (76, "f"),
        "max": (80, "f"),
        "mean": (84, "f"),
        "origin": (196, "3f"),
        "rms": (216, "f"),
    }
    said = {} if name.endswith(("z", "2")) else patched(draw, path, order, places)
    twin = sections[0] if len(sections) == 1 and ispg == 0 else sections
    tilted = fei and len(sections) > 1
    scale = {"x": 2.0, "y": 3.0} | ({"z": 4.0} if ispg and not tilted and not name.startswith("set.mrcs") else {})
    attrs = {
        **said,
        "mode": mode,
        "byte_order": "big" if order == ">" else "little",
        "calibration": {dim: {"scale": n, "unit": "angstrom"} for dim, n in scale.items()},
    }
    tilts = 0.1 * np.arange(len(sections)) if twin is sections else np.array(0.0)
    return Case(
        path,
        twin,
        attrs=attrs,
        others={"alpha_tilt": tilts} if fei else {},
        head=1100,
    )


def seq(draw: Draw, folder: Path) -> Case:
    version = draw(st.sampled_from([3, 4, 5]))
    twin = pixels((draw(size(6)), draw(size()), draw(size())), draw(st.sampled_from(["u1", "u2", "u4"])))
    nbytes = twin[0].nbytes
    path = write_seq(
        folder,
        twin,
        version=version,
        record=draw(st.sampled_from([None, nbytes, nbytes + 8, nbytes + 31])),
        allocated=draw(number("I")),
    )
    places = {
        "bit_depth_real": (560, "I"),
        "origin": (576, "I"),
        "frame_rate": (584, "d"),
        "description_format": (592, "i"),
        "flags": (604, "I"),
    }
    places |= {
        "time_offset_us": (612, "i"),
        "reference_time_s": (624, "i"),
        "reference_time_ms": (628, "H"),
        "reference_time_us": (630, "H"),
    }
    said = patched(draw, path, "<", places)
    rate = said["frame_rate"]
    steps = {"frame": {"scale": 1 / rate, "unit": "s"}} if 0 < rate < 1e12 and possible(1 / rate) else {}
    calibration = {"calibration": steps} if steps else {}
    return Case(
        path,
        twin,
        attrs={"header": {**said, "description": "made for a test"}, "stored_frames": len(twin), **calibration},
    )


def ser(draw: Draw, folder: Path) -> Case:
    sig_ndim, nav = draw(st.sampled_from([1, 2])), draw(st.lists(st.integers(2, 4), min_size=1, max_size=2))
    kind = draw(st.sampled_from(["u1", "u2", "u4", "i1", "i2", "i4", "f4", "f8", "c8", "c16"]))
    twin = pixels((*nav, *(draw(size(9)) for _ in range(sig_ndim))), kind)
    total = math.prod(nav)
    valid, version = draw(st.integers(1, total)), draw(st.sampled_from([0x0210, 0x0220, 0x0221]))
    path = write_ser(folder, twin, sig_ndim=sig_ndim, version=version, valid=valid, short_tables=draw(st.booleans()))
    attrs: dict[str, Any] = {
        "version": version,
        "total_elements": total,
        "valid_elements": valid,
        "rows_flipped": sig_ndim == 2,
    }
    flat = twin.reshape(total, *twin.shape[len(nav) :])
    flat[valid:] = 0
    if len(nav) == 1:
        twin = flat[:valid] if valid > 1 else flat[0]
    dims = {1: ("scan_x",), 2: ("scan_y", "scan_x")}[len(nav)] if len(nav) > 1 or valid > 1 else ()
    attrs["calibration"] = {dim: {"scale": 0.5, "offset": 9.0, "unit": "m"} for dim in dims}
    if draw(st.booleans()):
        path = write_emi(folder)
        attrs["emi"] = {"object_1": {"High tension": "200 kV"}}
    return Case(path, twin, attrs=attrs, head=400)


def tvips(draw: Draw, folder: Path) -> Case:
    version, gap = draw(st.sampled_from([1, 2])), draw(st.sampled_from([12, 40, 76, 108, 256]))
    twin = pixels((draw(st.integers(2, 8)), draw(size()), draw(size())), draw(st.sampled_from(["u1", "u2"])))
    n = len(twin)
    start, scan = draw(st.integers(0, 2)), draw(st.sampled_from([None, (2, 2), (3, 2), (2, 3)]))
    scan = scan if scan and start + math.prod(scan) <= n and version == 2 and gap >= 76 else None
    path = write_tvips(
        folder,
        twin,
        version=version,
        header_bytes=gap,
        frames_per_file=draw(st.one_of(st.none(), size(n))),
        scan=scan,
        scan_start=start if scan else 0,
    )
    names = ("x_offset", "y_offset", "x_binning", "y_binning", "pixel_size", "high_tension", "magnification")
    said = patched(draw, path, "<", {name: (20 + 4 * k, "i") for k, name in enumerate(names)})
    seconds = 1_600_000_000 + np.arange(n, dtype="u4")
    if scan:
        of_scan = slice(start, start + math.prod(scan))  # frames behind it were recorded after the scan
        twin, seconds = twin[of_scan].reshape(*scan, *twin.shape[1:]), seconds[of_scan].reshape(scan)
    return Case(
        path,
        twin,
        attrs={"header": said, "stored_frames": n, "scan_start": start if scan else 0},
        others={"timestamp_seconds": seconds},
        head=500,
    )


def ripple(draw: Draw, folder: Path) -> Case:
    kind = draw(dtype(["u1", "i1", "u2", "i4", "u8", "f4", "f8"]))
    record, offset = draw(st.sampled_from(["image", "vector"])), draw(st.integers(0, 99))
    twin = pixels([draw(st.integers(2, 9)) for _ in range(3)], kind)
    step = draw(st.floats(0.1, 10))
    path = write_ripple(folder, twin, record=record, offset=offset, height_scale=step, height_units="nm")
    of = {"scan_y" if record == "vector" else "y": {"scale": step, "unit": "nm"}}
    return Case(path, twin, attrs={"calibration": of, "rpl": {"offset": str(offset)}}, head=300)


def patterns(draw: Draw) -> np.ndarray:
    """A map of at least two rows and columns, whose shape follows from positions."""
    kind = draw(st.sampled_from(["u1", "u2"]))
    return pixels((*(draw(st.integers(2, 5)) for _ in range(2)), draw(size()), draw(size())), kind)


def ebsp(draw: Draw, folder: Path) -> Case:
    twin, version = patterns(draw), draw(st.integers(1, 7))
    count = twin.shape[0] * twin.shape[1]
    order, step = draw(st.permutations(range(count))), draw(st.floats(0.01, 100))
    y, x = np.mgrid[: twin.shape[0], : twin.shape[1]]
    others = {"beam_x": x * step, "beam_y": y * step}
    attrs = {"version": version, "stored_patterns": count, "calibration": {"scan_x": {"scale": pytest.approx(step)}}}
    return Case(write_ebsp(folder, twin, version=version, order=order, step=step), twin, attrs=attrs, others=others)


def edax(draw: Draw, folder: Path) -> Case:
    twin, version, hexagonal = patterns(draw), draw(st.sampled_from([1, 3, 4])), draw(st.booleans())
    path = write_up(folder, twin, version=version, hexagonal=hexagonal)
    said = patched(draw, path, "<", {"step_x": (26, "d"), "step_y": (34, "d")}) if version > 1 else {}
    count = twin.shape[0] * twin.shape[1]
    shown = twin.reshape(count, *twin.shape[2:]) if version == 1 or hexagonal else twin
    return Case(path, shown, attrs={"header": {"version": version, **said}, "stored_patterns": count}, head=42)


def nordif(draw: Draw, folder: Path) -> Case:
    twin = patterns(draw).astype("u1")
    background = frames_of((draw(size()), draw(size())), "u1")
    path = write_nordif(folder, twin, points={(3, 4): background}, backgrounds={"calibration": background})
    others = {"calibration": background[None], "calibration_background": background}
    return Case(path, twin, attrs={"stored_patterns": twin.shape[0] * twin.shape[1]}, others=others, head=300)


def spd(draw: Draw, folder: Path) -> Case:
    twin = pixels([draw(size()) for _ in range(3)], draw(st.sampled_from(["u1", "u2", "u4"])))
    path = write_spd(folder, twin)
    said = patched(draw, path, "<", {"version": (16, "i"), "spectra": (20, "i"), "frames": (44, "I")})
    return Case(path, twin, attrs={"header": said, "calibration": {"energy": {"scale": 0.01}}}, head=48)


def spe(draw: Draw, folder: Path) -> Case:
    lightfield = draw(st.booleans())
    types = ["u2", "u4", "f4"] if lightfield else ["u1", "i2", "u2", "i4", "u4", "f4", "f8"]
    twin = pixels([draw(size()) for _ in range(3)], draw(st.sampled_from(types)))
    metadata = draw(st.integers(0, 40)) if lightfield else 0
    path = write_spe(folder / "a.spe", twin, lightfield=lightfield, metadata=metadata)
    said = patched(draw, path, "<", {"exposure": (10, "f"), "wavelength": (72, "f")})
    return Case(path, twin, attrs={"header": said}, head=4100)


def edf(draw: Draw, folder: Path) -> Case:
    twin = pixels([draw(size()) for _ in range(3)], draw(dtype(["i1", "u1", "u2", "i4", "u8", "f4", "f8"])))
    keys = {"Count_Time": draw(st.floats(0, 1e9)), "Title": draw(st.text("abc ={}äµ", max_size=2000).map(str.strip))}
    path = write_edf(folder / "a.edf", twin, **keys)
    return Case(path, twin, attrs={"header": {"HeaderID": "EH:000001:000000:000000"}})


def fits(draw: Draw, folder: Path) -> Case:
    twin = pixels([draw(size()) for _ in range(draw(st.integers(2, 5)))], draw(st.sampled_from(FITS_TYPES)))
    return Case(write_fits(folder / "a.fits", twin), twin, attrs={"header": {"NAXIS1": twin.shape[-1]}}, head=800)


FITS_TYPES = ["i1", "u1", "<i2", "<u2", ">i4", "<u4", "<i8", "<u8", "<f4", ">f8"]


def ndtiff(draw: Draw, folder: Path) -> Case:
    labels = {
        "time": st.lists(st.integers(-9, 1 << 40), min_size=1, max_size=3, unique=True).map(sorted),
        "channel": st.lists(st.text(max_size=9), min_size=1, max_size=3, unique=True),
        "z": st.integers(1, 4).map(lambda n: [*range(n)]),
    }
    axes = {name: draw(values) for name, values in labels.items() if draw(st.booleans())}
    shape = [*map(len, axes.values()), draw(size()), draw(size()), *draw(st.sampled_from([(), (3,)]))]
    colours = len(shape) > len(axes) + 2
    twin = pixels(shape, "u1" if colours else draw(st.sampled_from(["u1", "<u2"])))
    path = write_ndtiff(folder, twin, axes, files=draw(st.integers(1, 3)), version=draw(st.integers(2, 3)))
    return Case(path, twin, attrs={"summary": {"z-step_um": 2.0}})


def nd2(draw: Draw, folder: Path) -> Case:
    loops = [name for name in ("t", "position", "z") if draw(st.booleans())]
    channels, colours = draw(st.sampled_from([(1, 1), (2, 1), (5, 1), (1, 3)]))
    sig = ((channels,) if channels > 1 else ()) + (draw(size()), draw(size())) + ((colours,) if colours > 1 else ())
    twin = pixels([*(draw(size(4)) for _ in loops), *sig], draw(st.sampled_from(["u1", "<u2", "<f4"])))
    path = write_nd2(
        folder / "a.nd2",
        twin,
        loops,
        channels=channels,
        colours=colours,
        version=draw(st.integers(2, 3)),
        packed=draw(st.booleans()),
        padding=8 * draw(st.integers(0, 2)),
        mapped=True,
    )
    twin = twin if colours == 1 else twin[..., ::-1]  # blue is stored first
    return Case(path, twin, attrs={"uiComp": channels * colours}, head=15_000)


def lif(draw: Draw, folder: Path) -> Case:
    axes = draw(st.permutations(["t", "z", "c"]))[: draw(st.integers(0, 3))]
    dims = (*axes, *draw(st.sampled_from([("y", "x"), ("z2", "x"), ("y", "x", "s")])))
    dims = tuple("z" if dim == "z2" else dim for dim in dims if dim != "z" or "z2" not in dims)
    dims = tuple(dim for dim in dims if dim != "c" or "s" not in dims)
    shape = [3 if dim == "s" else draw(st.integers(2, 5)) for dim in dims]
    twin = pixels(shape, draw(st.sampled_from(["u1", "<u2", "<u4", "<f4", "<f8"])))
    path = write_lif(folder / "a.lif", {"a": (dims, twin)}, version=draw(st.integers(1, 2)))
    return Case(path, twin, attrs={"name": "a"}, head=3000)


def czi(draw: Draw, folder: Path) -> Case:
    dims = draw(st.sampled_from(["", "T", "C", "Z", "TC", "TZ", "CZ", "TCZ", "VZ", "HC"]))
    samples = draw(st.sampled_from([1, 1, 3]))
    kind = (
        draw(st.sampled_from(["u1", "<u2", "<f4", "<i4", "<f8"]))
        if samples == 1
        else draw(st.sampled_from(["u1", "<u2"]))
    )
    twin = pixels(
        [*(draw(st.integers(2, 3)) for _ in dims), draw(size()), draw(size()), *((3,) if samples > 1 else ())], kind
    )
    start = {"S": 0, "X": draw(st.integers(-100, 100)), "Y": draw(st.integers(-100, 100))}
    packed: dict[str, Any] = {"compression": 5, "encode": zstd} if draw(st.booleans()) else {}
    path = write_czi(folder / "a.czi", czi_planes(twin, dims, start), **packed)
    return Case(path, twin, attrs={"origin": [start["Y"], start["X"]]}, head=2000)


def zstd(plane: np.ndarray) -> bytes:
    from numcodecs import Zstd

    return bytes(Zstd().encode(plane))


def eer(draw: Draw, folder: Path) -> Case:
    events = np.random.default_rng(draw(size())).random((draw(size()), draw(size()), draw(size(40)))) < draw(
        st.floats(0, 1)
    )
    bits = draw(st.tuples(st.integers(5, 9), st.integers(2, 4), st.integers(2, 3)))
    compression = draw(st.sampled_from([65000, 65001, 65002]))
    path = write_eer(folder / "a.eer", list(events), compression=compression, bits=bits)
    return Case(path, events.astype("u1"), attrs={"frames": len(events), "metadata": {"numberOfFrames": len(events)}})


def cbf(draw: Draw, folder: Path) -> Case:
    twin = pixels([draw(size(4)), draw(size()), draw(size())], "i4") >> draw(st.integers(0, 31))
    header = draw(st.lists(st.text("abc 12.:", min_size=1, max_size=30).map(str.strip), max_size=5))
    paths = [
        write_cbf(folder / f"a_{k}.cbf", frame, "".join(f"# {line}\n" for line in header))
        for k, frame in enumerate(twin)
    ]
    return Case(paths, twin, attrs={"header": header})


def sls(draw: Draw, folder: Path) -> Case:
    detector, modules, interfaces = draw(
        st.sampled_from(
            [("Jungfrau", (1, 1), None), ("Jungfrau", (4, 1), 2), ("Moench", (1, 2), 1), ("Eiger", (2, 2), None)]
        )
    )
    shape = [draw(size()), *(n * draw(size(4)) for n in modules)]
    twin = pixels(shape, draw(st.sampled_from(["u1", "<u2", "<u4"])))
    first = draw(st.integers(1, 1 << 40))
    path = write_sls(
        folder,
        twin,
        modules,
        detector=detector,
        interfaces=interfaces,
        per_file=draw(size(4)),
        first=first,
        version=draw(st.sampled_from([6.1, 7.2])),
    )
    return Case(path, twin, attrs={"first_frame": first})


def description(draw: Draw, folder: Path) -> Case:
    case = raw(draw, folder)
    header, footer, first = (case.options[name] for name in ("frame_header", "frame_footer", "file_header"))
    document = {
        "vfs": 1,
        "dtype": case.options["dtype"],
        "shape": case.twin.shape,
        "files": [path.name for path in case.paths],
    }
    per_file = -(-len(case.twin) // len(case.paths))
    counts = [max(0, min(per_file, len(case.twin) - k * per_file)) for k in range(len(case.paths))]
    path = folder / "a.vfs.json"
    path.write_text(
        json.dumps({**document, "frames": {"header": header, "footer": footer, "first": first, "per_file": counts}})
    )
    return Case(path, case.twin, head=300)


KINDS = {
    f.__name__: f
    for f in (
        raw,
        npy,
        mib,
        tiff,
        ome_tiff,
        blo,
        cbf,
        czi,
        dm,
        ebsp,
        edax,
        edf,
        eer,
        empad,
        fits,
        frms6,
        hdf5,
        k2is,
        lif,
        mrc,
        nd2,
        ndtiff,
        nordif,
        ripple,
        seq,
        ser,
        sls,
        spd,
        spe,
        tvips,
        description,
    )
}
COSTS = {"k2is": 10, "empad": 2, "mib": 2}  # a set of these is as dear as so many of the others
EXAMPLES = max(6, settings().max_examples // 5)


def holds(found: Any, said: Any) -> None:
    """`found` is `said`, or a mapping that holds it."""
    if isinstance(said, Mapping):
        assert isinstance(found, Mapping)
        for name, value in said.items():
            assert name in found, name
            holds(found[name], value)
    else:
        assert found == said


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_header_says_is_what_is_shown(kind: str) -> None:
    @settings(max_examples=max(2, EXAMPLES // COSTS.get(kind, 1)))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            case = KINDS[kind](data.draw, Path(folder))
            group = vfs.open_group(
                case.paths, format=kind, backend=data.draw(st.sampled_from(BACKENDS)), **case.options
            )
            same(group.main[...], case.twin)
            holds(group.main.attrs, case.attrs)
            for path, twin in case.others.items():
                same(group[path][...], twin)

    check()


INTEGERS = st.one_of(
    st.sampled_from([0, 1, 2, 255, 256, 65535, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1]),
    st.integers(0, (1 << 64) - 1),
)
PIECES = st.one_of(
    st.builds(
        lambda value, width, order: (value & ((1 << 8 * width) - 1)).to_bytes(width, order),
        INTEGERS,
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from(["little", "big"]),
    ),
    st.binary(min_size=1, max_size=8),
    st.sampled_from([b"-1", b"0", b"9999999999", b"1e99", b"nan", b"<", b">", b'"', b",", b"="]),
)
EDITS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(["over", "over", "over", "in", "out", "end"]), PIECES),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, edits: Sequence[tuple[float, str, bytes]], head: int) -> bytes:
    """Bytes written over others, put in or taken out, or the end cut off, somewhere in the first `head` ones."""
    made = bytearray(data)
    for share, how, piece in edits:
        at = int(share * min(head, len(made)))
        if how == "end":
            del made[int(share * len(made)) :]
        elif how == "in":
            made[at:at] = piece
        else:
            made[at : at + len(piece)] = piece if how == "over" else b""
    return bytes(made)


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_header_is_data_or_one_line(kind: str) -> None:
    @settings(max_examples=max(2, EXAMPLES // COSTS.get(kind, 1)))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            case = KINDS[kind](data.draw, Path(folder))
            backend = data.draw(st.sampled_from(BACKENDS))
            assert attempt(Path(folder), case.paths, format=kind, backend=backend, **case.options)[0] == "opened"
            victim = data.draw(st.sampled_from(sorted(Path(folder).iterdir())))
            victim.write_bytes(edited(victim.read_bytes(), data.draw(EDITS), case.head))
            attempt(Path(folder), case.paths, format=kind, backend=backend, **case.options)

    check()
