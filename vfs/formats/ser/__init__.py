"""Reads SER and EMI, files of FEI/Thermo Fisher TIA.

There is no public specification; the layout is known from programs that read it. A `.ser` file
holds one signal: elements (images or spectra) of one shape and dtype. A table holds their offsets::

    header | dimensions of the scan | … elements and tags … | offsets of elements [total], offsets
    of tags [total]
    element: calibrations | dtype | shape | values, the rows of an image bottom-up
    tag:     id | 0 | seconds since 1970 | [x, y of the beam]

In real files both tables have an entry for each allocated element; some writers only write entries
of valid ones. All known programs flip the rows, and so does this one (`rows_flipped` in the
attributes). If a scan was stopped (valid < total), elements that were never written read as 0; a
series becomes shorter. Both give a warning. Time stamps are the companion `timestamp`,
positions of the beam `position_x` and `position_y`.

A scan axis names its unit ("meters"); a step of exactly 1 m is written where nobody calibrated it.
Axes of an element have no unit in the file: TIA counts energies in eV, and pixels in m, of a
diffraction pattern in 1/m. One is far below 1, the other far above. Along y positions count
downwards from the first row that is shown, as in other programs.

An `.emi` file holds the metadata of `NAME_1.ser`, `NAME_2.ser` …, as XML between binary parts, and
names the set. XML that cannot be understood is left out, with a warning. Each .ser file is a signal
of its own: a missing one between them gives a warning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from vfs.errors import FormatError, MissingSourceError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import fields, numbered, parse_xml, read_at, read_side_file, xml_tree
from vfs.formats.ser.emi import emi_metadata, ser_of_another_run
from vfs.formats.series import Lost, between, in_front
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered, mirrored, whole_frame
from vfs.model.metadata import Term, in_form, measured
from vfs.model.sources import Sources
from vfs.model.stored import TOP_FIRST, Absence, StoredArray, nav_dims, scan_dims
from vfs.model.units import spelled
from vfs.model.written import Written
from vfs.sources.names import basename, splitext

HEADER = np.dtype(
    [
        ("_byte_order", "<u2"),  # 0x4949, little endian
        ("_series", "<u2"),  # 0x0197
        ("version", "<u2"),  # 0x0210: offsets of 4 bytes; from 0x0220 on of 8 bytes
        ("_data_type", "<u4"),  # 0x4120 spectra, 0x4122 images
        ("_tag_type", "<u4"),  # 0x4152 time, 0x4142 time and position
        ("total_elements", "<u4"),
        ("valid_elements", "<u4"),
    ]
)
# Value of the element with the number `element`, and units per element
CALIBRATION = np.dtype([("offset", "<f8"), ("delta", "<f8"), ("element", "<i4")])
DTYPES = {1: "<u1", 2: "<u2", 3: "<u4", 4: "<i1", 5: "<i2", 6: "<i4", 7: "<f4", 8: "<f8", 9: "<c8", 10: "<c16"}
_WITH_POSITION = 24  # bytes of a tag that has the position of the beam
_TAG_BYTES = {0x4152: 8, 0x4142: _WITH_POSITION}  # of a tag of each type
_MARK = b"\x49\x49\x97\x01"
_SPECTRA, _IMAGES = 0x4120, 0x4122
_MAX_ELEMENTS = 1 << 28  # most elements; a header with more is garbled
_LARGEST_PIXEL = 1e-3  # m; and one over it is the smallest one of a diffraction pattern, 1/m


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return first_bytes.startswith(b"JK\0\2") and path.lower().endswith(".emi")


@dataclass(frozen=True)
class _SerSeries:
    """Holds the header of a .ser file: scan shape, slowest axis first, its calibrations, and all offsets."""

    header: np.void
    nav: tuple[int, ...]
    axes: list[dict[str, Any]]
    offsets: np.ndarray  # int64[valid], bytes
    tags: np.ndarray  # int64[valid], bytes; empty where there are none
    cut: bool  # True if the file ends within its tags


def _series(sources: Sources, path: str, size: int) -> _SerSeries:
    raw = read_at(sources, path, HEADER.itemsize)
    header = np.frombuffer(raw, HEADER)[0]
    if not raw.startswith(_MARK):
        raise FormatError(f"{path}: expected a .ser file, it begins with {raw[:4]!r}")
    if header["_data_type"] not in (_SPECTRA, _IMAGES):
        raise FormatError(
            f"{path}: expected spectra (0x4120) or images (0x4122), found data type {int(header['_data_type']):#x}"
        )
    width = 8 if header["version"] >= 0x0220 else 4
    table = int.from_bytes(read_at(sources, path, width, HEADER.itemsize), "little")
    count, valid = int(header["total_elements"]), int(header["valid_elements"])
    ndim = int.from_bytes(read_at(sources, path, 4, HEADER.itemsize + width), "little")
    if valid > count or count > _MAX_ELEMENTS or valid < 1 or ndim > 16:
        raise FormatError(
            f"{path}: expected at least one valid element and at most 16 scan axes, the header says {valid:,} of"
            f" {count:,} elements in {ndim} dimensions"
        )
    nav, axes = _scan(sources, path, HEADER.itemsize + width + 4, ndim)
    # TIA describes this scan in a way that is not known: show all elements along one axis
    if int(np.prod(nav, dtype=object)) != count:
        nav, axes = (count,), axes[-1:] if ndim == 1 else []
    if len(nav) == 1:  # a series that was stopped is shorter; a scan that was stopped keeps its shape
        nav = (valid,) if valid > 1 else ()
    # The table is at the end of the file; without it nothing can be shown
    if table < HEADER.itemsize or table + width * valid > size:
        raise TruncatedSourceError(
            f"{path}: the offsets of {valid:,} elements should end at byte {table + width * valid:,}, the file has"
            f" {size:,}; it looks truncated"
        )
    raw = read_at(sources, path, min(2 * count, (size - table) // width) * width, table)
    places = np.frombuffer(raw, f"<i{width}").astype(np.int64)
    tags = next(
        (
            t
            for t in (places[count : count + valid], places[valid : 2 * valid])
            if _are_tags(sources, path, t, valid, size)
        ),
        places[:0],
    )
    width = _TAG_BYTES.get(int(header["_tag_type"]), 0)
    last = max([*tags, *(places[count : count + valid] if len(places) >= count + valid else ())], default=0)
    cut = bool(width) and (len(places) < 2 * valid or int(last) + width > size)
    return _SerSeries(header, nav, axes, places[:valid], tags, cut)


def _are_tags(sources: Sources, path: str, offsets: np.ndarray, count: int, size: int) -> bool:
    """Return True if time tags lie at these offsets."""
    if len(offsets) != count or int(offsets.min()) < HEADER.itemsize or int(offsets.max()) + 8 > size:
        return False
    return int.from_bytes(read_at(sources, path, 2, int(offsets[0])), "little") in (0x4152, 0x4142)


def _scan(sources: Sources, path: str, at: int, ndim: int) -> tuple[tuple[int, ...], list[dict[str, Any]]]:
    """Read shape and calibrations of the scan, slowest axis first. In the file, the fast axis is first."""
    sizes, axes = [], []
    for _ in range(ndim):
        raw = read_at(sources, path, 24, at)
        size = int.from_bytes(raw[:4], "little", signed=True)
        calibration = np.frombuffer(raw[4:], CALIBRATION)[0]
        texts = []
        at += 24
        for _ in range(2):
            length = int.from_bytes(read_at(sources, path, 4, at), "little")
            if length > 4096:
                raise FormatError(f"{path}: expected the name of a scan axis, found one of {length:,} bytes")
            texts.append(read_at(sources, path, length, at + 4).decode("latin1").strip("\0 "))
            at += 4 + length
        if not 1 <= size <= _MAX_ELEMENTS:
            raise FormatError(f"{path}: the header says that a scan axis has {size:,} elements")
        sizes.append(size)
        axes.append({"name": texts[0], "unit": texts[1], **_calibrated(calibration)})
    return tuple(sizes[::-1]), axes[::-1]


def _calibrated(calibration: np.void) -> dict[str, Any]:
    """Return scale and offset of element 0 of an axis."""
    scale = float(calibration["delta"])
    return {"scale": scale, "offset": float(calibration["offset"]) - scale * int(calibration["element"])}


def _unit_of_elements(sig_ndim: int, scale: float) -> str:
    """Return the unit of an axis of the elements, which follows from the size of its steps."""
    if sig_ndim == 1:
        return "eV"
    return "m" if 0 < abs(scale) < _LARGEST_PIXEL else "1/m" if abs(scale) > 1 / _LARGEST_PIXEL else ""


def _elements(
    sources: Sources, path: str, series: _SerSeries, size: int
) -> tuple[np.dtype, tuple[int, ...], list[dict[str, Any]], int]:
    """Read the properties that all elements share, and check every element.

    Returns: (dtype, shape, calibrations of the axes, bytes before the values) of an element.

    Raises:
        FormatError: an element differs from the first one.
        TruncatedSourceError: an element lies beyond the end of the file.
    """
    axes = 2 if series.header["_data_type"] == _IMAGES else 1
    lead = axes * CALIBRATION.itemsize
    before = lead + 2 + 4 * axes
    first = read_at(sources, path, before, int(max(0, series.offsets[0])))
    code = int.from_bytes(first[lead : lead + 2], "little")
    shape = tuple(np.frombuffer(first[lead + 2 :], "<i4").tolist()[::-1])
    if code not in DTYPES or min(shape) < 1:
        raise FormatError(
            f"{path}: element 0 says dtype code {code} and shape {shape}; expected a code from 1 to 10 and positive"
            " lengths"
        )
    dtype = np.dtype(DTYPES[code])
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    low, high = int(series.offsets.min()), int(series.offsets.max())
    if low < HEADER.itemsize or high + before + nbytes > size:
        raise TruncatedSourceError(
            f"{path}: elements of {before + nbytes:,} bytes lie from byte {low:,} to {high + before + nbytes:,}, the"
            f" file has {size:,}; it looks truncated"
        )
    kind = first[lead:]
    for n, at in enumerate(series.offsets.tolist()):
        if sources.read(path, at + lead, len(kind)) != kind:
            raise FormatError(
                f"{path}: element {n} at byte {at:,} has another dtype or shape than element 0; they cannot be one"
                " array"
            )
    steps = [_calibrated(np.frombuffer(first, CALIBRATION, 1, k * CALIBRATION.itemsize)[0]) for k in range(axes)]
    return dtype, shape, [{**one, "unit": _unit_of_elements(axes, one["scale"])} for one in steps[::-1]], before


def _datasets(sources: Sources, path: str, prefix: str, extra: dict[str, Any]) -> list[StoredArray]:
    files = Files.stat(sources, [path])
    size = int(files.sizes[0])
    path = files.paths[0]
    series = _series(sources, path, size)
    dtype, sig, calibrations, before = _elements(sources, path, series, size)
    which = np.zeros(len(series.offsets), np.int64)
    # The first row of the array is the last one of the file
    pieces = mirrored(whole_frame(sig), 0) if len(sig) == 2 else None
    layout = FrameLayout.planes(FrameRecord(sig, dtype.itemsize, pieces=pieces), which, series.offsets + before)
    nav = series.nav
    total, valid = int(series.header["total_elements"]), len(series.offsets)
    dims = ("y", "x") if len(sig) == 2 else ("energy",)
    scan, steps = _axes_of_scan(series)
    attrs = {
        **fields(series.header),
        "rows_flipped": len(sig) == 2,
        **({"rows": TOP_FIRST} if len(sig) == 2 else {}),
        "scan_axes": series.axes,
        "calibration": dict(zip(dims, calibrations, strict=True)) | steps,
        **extra,
    }
    main = StoredArray(
        f"{prefix}data",
        files,
        layout.arranged(Scan(nav)),
        PlainDecoder(dtype),
        nav + sig,
        scan + dims,
        len(nav),
        attrs=attrs,
        written=Written(total),
    )
    found = [main, *_stamps(main, prefix, series)] if len(series.tags) else [main]
    if series.cut:
        shown = "are shown" if len(series.tags) else "are not shown"
        said = f"{path}: ends within the tags of its {valid:,} elements; it looks truncated, and time stamps {shown}"
        found = [altered(one, absent=(Absence(said, to_come=True),)) for one in found]
    if valid < total:
        said = f"{path}: {total:,} elements were allocated, {valid:,} are stored: the acquisition was stopped"
        absent = (Absence(said, counts={"frames_missing": total - valid}, to_come=True),)
        found = [altered(one, absent=one.absent + absent) for one in found]
    return found


def _axes_of_scan(series: _SerSeries) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of the axes of a scan, and the calibration of those that are calibrated."""
    scan = nav_dims(len(series.nav))
    if len(series.axes) != len(series.nav):
        return scan, {}
    spelt = [spelled(axis["unit"]) for axis in series.axes]
    calibrated = [axis["scale"] != 1 or unit != "m" for axis, unit in zip(series.axes, spelt, strict=True)]
    scan = scan_dims(spelt) if all(calibrated) else scan
    return scan, {dim: axis for dim, axis, said in zip(scan, series.axes, calibrated, strict=True) if said}


def _stamps(main: StoredArray, prefix: str, series: _SerSeries) -> list[StoredArray]:
    """Make the companions of the tags beside the elements of the main array: when each was taken, and where."""
    nav, which = series.nav, np.zeros(len(series.tags), np.int64)
    told = [("timestamp", "<u4", 4, "seconds since 1970-01-01")]
    if _TAG_BYTES.get(int(series.header["_tag_type"])) == _WITH_POSITION:
        told += [("position_x", "<f8", 8, "m"), ("position_y", "<f8", 16, "m")]
    return [
        StoredArray(
            f"{prefix}{name}",
            main.files,
            FrameLayout.planes(FrameRecord((), np.dtype(kind).itemsize), which, series.tags + at).arranged(Scan(nav)),
            PlainDecoder(np.dtype(kind)),
            nav,
            main.dims[: len(nav)],
            len(nav),
            conventions={"units": units},
            companion=True,
            coordinate=name != "timestamp",
            written=main.written,
        )
        for name, kind, at, units in told
    ]


def _without_members(paths: Sequence[str], sources: Sources) -> Sequence[str]:
    """Return only the .emi file of files that are named, if all others belong to it."""
    named = [path for path in paths if path.lower().endswith(".emi")]
    if len(paths) < 2 or len(named) != 1:
        return paths
    members = {path for _, path in numbered(sources, f"{splitext(named[0])[0]}_", ".ser")}
    return named if {*paths} <= {named[0], *members} else paths


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open a .ser file, or all .ser files that belong to an .emi file.

    Several files become `1/data`, `2/data` …. An .emi may be named together with its .ser files.

    Raises:
        FormatError, TruncatedSourceError: a file is garbled or cut.
        MissingSourceError: an .emi file has no .ser beside it.
    """
    paths = _without_members(paths, sources)
    lost = Lost()
    absent: tuple[Absence, ...] = ()
    if len(paths) > 1:
        members = [(n + 1, path) for n, path in enumerate(paths)]
        extra: dict[str, Any] = {}
    elif read_at(sources, paths[0], 4, short_ok=True) == _MARK:
        members, extra = [(1, paths[0])], {}
    else:
        stem = splitext(paths[0])[0]
        members = numbered(sources, f"{stem}_", ".ser")
        if not members:
            raise MissingSourceError(
                f"{paths[0]}: expected {basename(stem)}_1.ser beside it, found none; the pixels are in the .ser files"
            )
        emi, absent = emi_metadata(sources, paths[0])
        extra = {"emi": emi}
        lost = sum((between(a, b) for (_, a), (_, b) in pairwise(members)), in_front(members[0][1]))
    datasets = [
        dataset
        for n, path in members
        for dataset in _datasets(sources, path, f"{n}/" if len(members) > 1 else "", extra)
    ]
    absent += ser_of_another_run(sources, datasets, extra.get("emi", {}))
    if lost.count:
        absent += (Absence(f"{paths[0]}: {lost}", counts={"files_missing": lost.count}, files=lost.paths),)
    return [altered(dataset, absent=absent + dataset.absent) for dataset in datasets]


_MAX_TAGS_READ = 4096  # whose tags `original` reads


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return the objects of the .emi file that is named, and of each .ser file: header, axes, tags of elements.

    Raises:
        FormatError, SourceError: a .ser file is garbled or cannot be read.
    """
    paths = _without_members(paths, sources)
    made: dict[str, Any] = {}
    if len(paths) == 1 and read_at(sources, paths[0], 4, short_ok=True) != _MARK:
        emi = paths[0]
        parts = re.findall(rb"<ObjectInfo>.*?</ObjectInfo>", read_side_file(sources, emi), re.S)
        for part in parts:
            with suppress(FormatError):  # opening said so
                made.setdefault("emi", []).append(xml_tree(parse_xml(part, emi)))
        paths = [path for _, path in numbered(sources, f"{splitext(emi)[0]}_", ".ser")]
    left: list[str] = []
    made["ser"] = {basename(path): _said_of(sources, path, left) for path in paths}
    return made | ({"left_out": left} if left else {})


def _said_of(sources: Sources, path: str, left: list[str]) -> dict[str, Any]:
    series = _series(sources, path, Files.stat(sources, [path]).sizes.item())
    lead = CALIBRATION.itemsize * (2 if series.header["_data_type"] == _IMAGES else 1)
    rows, code = [], 0
    for n, at in enumerate(series.offsets[:_MAX_TAGS_READ].tolist()):
        raw = read_at(sources, path, lead + 2, at)
        code = code or int.from_bytes(raw[lead:], "little")
        row: dict[str, Any] = {"axes": [fields(one) for one in np.frombuffer(raw[:lead], CALIBRATION)]}
        if len(series.tags):
            size = _TAG_BYTES.get(int(series.header["_tag_type"]), 8)
            tag = read_at(sources, path, size, int(series.tags[n]))
            row |= {"tag_type": int.from_bytes(tag[:2], "little"), "time": int.from_bytes(tag[4:8], "little")}
            row |= {"position": np.frombuffer(tag[8:], "<f8").tolist()} if size == 24 else {}
        rows.append(row)
    more = len(series.offsets) - len(rows)
    left += [f"{basename(path)}: axes and tags of {more:,} more elements"] if more else []
    header = {name.lstrip("_"): value for name, value in zip(HEADER.names or (), series.header.item(), strict=True)}
    width = 8 if series.header["version"] >= 0x0220 else 4
    header["table"] = int.from_bytes(read_at(sources, path, width, HEADER.itemsize), "little")
    return {**header, "scan_axes": series.axes, "data_type_of_elements": code, "elements": rows}


def _instrument(mode: Any) -> str | None:
    """Return TEM or STEM, with which the mode of a microscope begins."""
    first = str(mode).partition(" ")[0]
    return first if first in ("TEM", "STEM") else None


_ACQUIRED = partial(in_form, "%a %b %d %H:%M:%S %Y")

TERMS = (
    Term("authors", "emi:*:User"),
    Term("time", "emi:*:AcquireDate", take=_ACQUIRED),
    Term("microscope", "emi:*:Microscope"),
    Term("manufacturer", "emi:*:Manufacturer"),
    Term("instrument", "emi:*:Mode", take=_instrument),
    Term("beam_energy", "emi:*:AcceleratingVoltage", zero=False),
    Term("magnification", "emi:*:Magnification", take=measured, zero=False),
    Term("camera_length", "emi:*:Camera length", take=measured, zero=False),
    Term("defocus", "emi:*:Defocus", take=measured),
    Term("spot_size", "emi:*:Spot size"),
    Term("dwell_time", "emi:*:DwellTimePath", zero=False),
    Term("frame_time", "emi:*:FrameTime", zero=False),
    Term("exposure_time", "emi:*:IntegrationTime", zero=False),
    Term("scan_rotation", "emi:*:Stem rotation", take=measured),
    Term("stage.alpha", "emi:*:Stage A", take=measured),
    Term("stage.beta", "emi:*:Stage B", take=measured),
    Term("stage.x", "emi:*:Stage X", take=measured),
    Term("stage.y", "emi:*:Stage Y", take=measured),
    Term("stage.z", "emi:*:Stage Z", take=measured),
)
"""What an .emi says, in the vocabulary of `vfs.model.metadata`: of its objects, what all that say it agree on."""

FORMAT = Format(
    "ser",
    (".ser", ".emi"),
    "https://www.thermofisher.com",
    "FEI/Thermo Fisher TIA images and spectra",
    sniff,
    open,
    index_extensions=(".emi",),
    terms=TERMS,
    original=original,
    first_bytes=(_MARK,),
)
