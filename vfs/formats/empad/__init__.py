"""Reads EMPAD: a `.raw` file and the `.xml` that describes it.

EMPAD is the Electron Microscope Pixel Array Detector. There is no public specification; the facts
come from programs that read it and from https://doi.org/10.1017/S1431927615015664. The raw file of the first generation
holds records of 130 × 128 float32, little endian, and nothing else::

    record: image, 128 rows of 128 pixels | footer, 2 rows of 128 numbers of metadata

The footer is the companion `footer`. The shape of the scan comes from the XML, which exists in
several versions: `scan_parameters` with `scan_resolution_y` and `_x` for modes "acquire" and
"search" (the mode that fits the size of the raw file counts; of two that fit, the one that the raw
file's name says), `type` series with a `count`, `series_count`, or `pix_y` and `pix_x`. Without any
of them, it comes from the raw file's name (`scan_x64_y32.raw`, `series_x10.raw`).

Files of the second generation (EMPAD-G2) have the same names, and frames of 128 × 128 words without a
footer (`vfs.formats.empad.second`): they are told by the size of the file, or their words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OptionError, SourceError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.empad.second import FRAME, PARTS, WORDS, Combined, are, may_be, read_constants
from vfs.formats.headers import depth_of, exists, left_out, parse_xml, read_side_file, xml_tree
from vfs.formats.recorded import Recorded
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.layout.scan_order import surplus
from vfs.model.metadata import Term
from vfs.model.name_order import natural
from vfs.model.signatures import Path
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, nav_dims, per_frame, scan_array
from vfs.model.wording import format_option
from vfs.model.written import Written
from vfs.sources.names import basename, beside, dirname, splitext

_SIDE = 128  # pixels
_FOOTER = 2  # rows
_RECORD = (_SIDE + _FOOTER) * _SIDE * 4  # bytes
_NAMED = re.compile(r"(?:scan_x(\d{1,6})_y(\d{1,6})|series_x(\d{1,9}))\.raw", re.IGNORECASE)
_OLD_VIEWS = [
    f"iom_measurements/optics{mark}get_full_scan_field_of_view" for mark in "./"
]  # text with lengths along two axes, m
_MAX_XML = 100  # XML files of a folder that are searched for the one that names a raw file


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for an XML file with EMPAD's elements, or a raw file with a name that the detector gives."""
    if path.lower().endswith(".raw"):
        return _NAMED.fullmatch(basename(path)) is not None
    start = first_bytes.lstrip(b"\xef\xbb\xbf \t\r\n")
    return (
        start.startswith(b"<")
        and b"<root" in first_bytes
        and any(word in first_bytes for word in (b"<raw_file", b"<pix_x", b"<scan_parameters"))
    )


def _number(root: Element, place: str) -> int | None:
    """Return the whole number, from 1 on, in an element; None if there is none."""
    text = (root.findtext(place) or "").strip()
    return int(text) if re.fullmatch(r"\d{1,9}", text) and int(text) else None


def _scans(root: Element, raw: str) -> Iterator[tuple[int, ...]]:
    """Yield the scan shapes in the metadata, the likeliest first."""
    kind = (root.findtext("type") or "scan").strip().lower()
    counts = [_number(root, "count") if kind == "series" else None, _number(root, "scan_parameters/series_count")]
    yield from ((n,) for n in counts if n)
    modes = {part.get("mode", ""): part for part in reversed(root.findall("scan_parameters"))}
    for part in [modes[mode] for mode in ("acquire", "search", "") if mode in modes]:
        y, x = _number(part, "scan_resolution_y"), _number(part, "scan_resolution_x")
        if y and x:
            yield y, x
    y, x = _number(root, "pix_y"), _number(root, "pix_x")
    if y and x:
        yield y, x
    yield from _scans_in_names(root.find("raw_file"), raw)


def _scans_in_names(element: Element | None, raw: str) -> Iterator[tuple[int, ...]]:
    """Yield the scan shapes in the names of the raw file: the one in the XML and its present one."""
    for name in (_filename(element), basename(raw)):
        hit = _NAMED.fullmatch(name or "")
        if hit:
            shape = (int(hit[3]),) if hit[3] else (int(hit[2]), int(hit[1]))
            if all(shape):
                yield shape


def _filename(element: Element | None) -> str | None:
    """Return the raw file's name in the XML, without its folder (which may be a Windows path)."""
    if element is None:
        return None
    return re.split(r"[/\\]", (element.get("filename") or element.text or "").strip())[-1] or None


def _raw_of(sources: Sources, xml: str, root: Element) -> str:
    names = [
        name
        for name in (_filename(root.find("raw_file")), splitext(basename(xml))[0] + ".raw")
        if name and "\0" not in name
    ]
    for name in names:
        if exists(sources, beside(xml, name)):
            return beside(xml, name)
    raise MissingSourceError(
        f"{beside(xml, names[0])}: no such file; {basename(xml)} needs this raw file, or {names[-1]}, beside it"
    )


def _read_xml(sources: Sources, path: str) -> tuple[str, Element, FormatError | None]:
    """Return (path, root, None) of an XML file; if it is EMPAD's but garbled, an empty root and the error.

    Raises:
        FormatError: it is a file of another kind.
    """
    text = read_side_file(sources, path)
    try:
        return path, parse_xml(text, path), None
    except FormatError as error:
        if b"<root" not in text:
            raise
        return path, Element("root"), error


def _xml_of(sources: Sources, raw: str) -> tuple[str, Element, FormatError | None] | None:
    """Find the XML file that belongs to a raw file: one of the same name, else one that names it."""
    own = splitext(raw)[0] + ".xml"
    if exists(sources, own):
        return _read_xml(sources, own)
    try:
        others = [other for other in sources.names(dirname(raw)) if other.lower().endswith(".xml")]
    except SourceError:
        return None  # the folder may allow opening files but not listing them
    for other in sorted(others, key=natural)[:_MAX_XML]:
        path = beside(raw, other)
        try:
            root = parse_xml(read_side_file(sources, path), path)
        except (FormatError, SourceError):
            continue  # the file of another program
        if _filename(root.find("raw_file")) == basename(raw):
            return path, root, None
    return None


def _calibration(root: Element, nav: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Return the scales that the XML has.

    The field of view (m) is that of the longer side, stored multiplied by `scale_factor` in the first generation;
    older files hold the text "(x, y)" in m. A scan covers the part `scan_size` of it. `calibrated_pixelsize`
    counts 1e9 / nm, `calibrated_diffraction_angle` rad. The centre of the detector is 0.
    """
    scales: dict[str, tuple[float, float, str]] = {}
    view, part = "iom_measurements/full_scan_field_of_view", _part_of_view(root, nav)
    x, factor = _float(root.findtext(f"{view}/x")), _float(root.findtext(f"{view}/scale_factor"))
    if second := _float(root.findtext("iom_measurements/ColumnOpticsGetFullScanFieldOfViewx")):
        x, factor = second, 1.0
    told = next(filter(None, map(root.findtext, _OLD_VIEWS)), "")
    pair = [_float(length) for length in told.strip("()[] ").split(",")]
    if part is None or len(nav) != 2:
        pass
    elif len(pair) == 2 and all(pair):
        scales |= {
            name: (length * part / n, 0.0, "m")
            for name, length, n in zip(nav_dims(2), pair, nav, strict=True)
            if length
        }
    elif x and factor:
        scales |= dict.fromkeys(nav_dims(2), (x / factor * part / max(nav), 0.0, "m"))
    pixel = _float(root.findtext("iom_measurements/calibrated_pixelsize"))
    angle = _float(root.findtext("iom_measurements/calibrated_diffraction_angle"))
    if pixel or angle:
        step, unit = (pixel * 1e9, "1/nm") if pixel else (angle or 0.0, "rad")
        scales |= dict.fromkeys(("y", "x"), (step, -_SIDE / 2 * step, unit))
    return {name: {"scale": scale, "offset": offset, "unit": unit} for name, (scale, offset, unit) in scales.items()}


def _part_of_view(root: Element, nav: tuple[int, ...]) -> float | None:
    """Return the part of the field of view that a scan covers: 1 where nothing says it, None where modes differ.

    The mode is that whose scan is shown; where none is, the one that acquires.
    """
    parts = root.findall("scan_parameters")
    shown = [one for one in parts if (_number(one, "scan_resolution_y"), _number(one, "scan_resolution_x")) == nav]
    shown = shown or [one for one in parts if one.get("mode") == "acquire"]
    found = {_float(one.findtext("scan_size")) or 1.0 for one in shown or parts}
    return found.pop() if len(found) == 1 else None if found else 1.0


def _float(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value != 0 else None


def open(
    paths: Sequence[str], sources: Sources, *, generation: int | None = None, constants: Path | None = None
) -> list[StoredArray]:
    """Open an EMPAD data set by its .xml file, its .raw file, or both.

    If the metadata name only one scan shape and the raw file is shorter, the scan was stopped: its
    end is blank. A file whose size fits no scan in the metadata is shown as one axis.

    Args:
        generation: 1 or 2 (EMPAD-G2); by default the size of the file says it
        constants: a folder with the constants of an EMPAD-G2's pixels, G1A.r32 to B2B.r32: `data` then has
            intensities, not words

    Raises:
        FormatError: the XML has absurd values, or is garbled and only it has the name of the raw file.
        MissingSourceError: the raw file does not exist.
        OptionError: `generation` has another value, or `constants` are given for the first one.
        TruncatedSourceError: the raw file does not hold a record.
    """
    if generation not in (None, 1, 2):
        raise OptionError(f"{format_option(generation=generation)}: expected 1 or 2")
    raw, xml, root, garbled = _members(paths, sources)
    files = Files.stat(sources, [raw])
    scans = list(_scans(root, raw))
    sure = len(root.findall("scan_parameters")) < 2 and len(set(scans)) == 1
    told = () if garbled is None else (left_out(garbled),)
    words = generation == 2 or (generation is None and _of_words(sources, raw, int(files.sizes[0]), scans))
    if constants is not None and not words:
        raise OptionError(
            f"{format_option(constants=str(constants))}: expected words of EMPAD-G2, found 130 × 128 float32"
        )
    record, declarer = FRAME if words else _RECORD, basename(xml) if xml else "its name"
    recorded = Recorded.of(files, "records", record, declarer=declarer)
    nav, doubt = _choose_scan(root, recorded, scans, sure)
    attrs = {
        "xml": basename(xml) if xml else None,
        "metadata": xml_tree(root),
        "stored_frames": recorded.stored,
        "calibration": _calibration(root, nav),
    }
    layout = FrameLayout.of(FrameRecord((_SIDE, _SIDE), 4, footer=record - FRAME), [recorded.stored]).arranged(
        Scan(nav)
    )
    main = scan_array(
        files,
        layout,
        PlainDecoder(WORDS if words else np.dtype("<f4")),
        attrs=attrs,
        absent=told + doubt + _absences(recorded, scans, nav, record),
        written=Written(math.prod(nav) if sure else None),
    )
    if words:
        return _second(main, None if constants is None else Combined(read_constants(sources, str(constants)), nav[-1]))
    return [
        main,
        per_frame(main, "footer", ("<f4", (_FOOTER, _SIDE)), _SIDE * _SIDE * 4, dims=("footer_row", "x")),
    ]


def _of_words(sources: Sources, raw: str, size: int, scans: Sequence[tuple[int, ...]]) -> bool:
    """Return True if a raw file holds words: by its size, or if that fits no scan, by its first frame."""
    fits = [
        not size % each and (not scans or size // each in {*map(math.prod, scans)}) and size > 0
        for each in (FRAME, _RECORD)
    ]
    if fits == [False, True]:
        return False
    return (may_be if fits == [True, False] else are)(sources.read(raw, 0, FRAME))


def _second(main: StoredArray, combined: Combined | None) -> list[StoredArray]:
    """Return the arrays of the second generation: the words, or the intensities that are `combined` of them, and parts.

    The parts are companions.
    """
    attrs = {**main.attrs, "generation": 2, "intensities": combined is not None}
    parts = [altered(main, path=name, decoder=part, attrs={}, companion=True) for name, part in PARTS.items()]
    return [altered(main, decoder=combined or main.decoder, attrs=attrs), *parts]


def _members(paths: Sequence[str], sources: Sources) -> tuple[str, str | None, Element, FormatError | None]:
    """Find the two files of a set by one of them, or by both.

    Returns: (the .raw file, the .xml file or None, the root of its elements, what is wrong with it).
    """
    xmls = [path for path in paths if path.lower().endswith(".xml")]
    raws = [path for path in paths if path not in xmls]
    if len(xmls) > 1 or len(raws) > 1:
        raise OptionError(f"{paths[1]}: an EMPAD data set is one .raw and one .xml file; open one at a time")
    root, xml = Element("root"), None
    garbled: FormatError | None = None
    if xmls:
        Files.stat(sources, xmls)
        xml, root, garbled = _read_xml(sources, xmls[0])
    elif found := _xml_of(sources, Files.stat(sources, raws).paths[0]):
        xml, root, garbled = found
    if depth_of(root) > 50:
        raise FormatError(
            f"{xml}: expected EMPAD metadata, found elements within elements {depth_of(root)} levels deep"
        )
    try:
        return (raws[0] if raws else _raw_of(sources, xmls[0], root)), xml, root, garbled
    except MissingSourceError as error:
        raise garbled or error from None


def _choose_scan(
    root: Element, recorded: Recorded, scans: Sequence[tuple[int, ...]], sure: bool
) -> tuple[tuple[int, ...], tuple[Absence, ...]]:
    """Choose the shape of the scan to show.

    It is the one that fits the stored records, of several the one in the raw file's name; else the only
    one in the metadata if that is larger (`sure`), else one axis.

    Returns: (shape, what to say if others are as likely).
    """
    raw, stored = recorded.path, recorded.stored
    fitting = [scan for scan in dict.fromkeys(scans) if math.prod(scan) == stored and not recorded.rest]
    if not fitting:
        return (scans[0] if sure and math.prod(scans[0]) > stored else (stored,)), ()
    names = [*_scans_in_names(root.find("raw_file"), raw)]
    nav = next((scan for scan in names if scan in fitting), fitting[0])
    if len(fitting) < 2 or (nav in names and nav in scans[: len(scans) - len(names)]):
        return nav, ()
    shapes = [" × ".join(map(str, scan)) for scan in (nav, *(scan for scan in fitting if scan != nav))]
    said = f"{raw}: its metadata and its name say scans of {' and '.join(shapes)}, which both fit; {shapes[0]} is shown"
    return nav, (Absence(said, arrangement=True),)


def _absences(
    recorded: Recorded, scans: Sequence[tuple[int, ...]], nav: tuple[int, ...], record: int
) -> tuple[Absence, ...]:
    """Report data that a raw file lacks, or that lie beyond whole records and scans.

    Args:
        scans: scan shapes in the XML or the names.
        nav: shape of the scan that is shown.
        record: bytes of a frame in the file.
    """
    if nav in scans or not scans:
        return recorded.absences("a scan", nav if scans else None)
    stored, rest = recorded.stored, recorded.rest
    wanted = " or ".join(" × ".join(map(str, scan)) for scan in dict.fromkeys(scans))
    said = (
        f"{recorded.path}: expected {wanted} records of {record:,} bytes, as {recorded.declarer} says; it holds"
        f" {stored:,} whole records{f' and {rest:,} bytes' if rest else ''}"
    )
    said += "" if rest else next(filter(None, (surplus(scan, stored, shown=False) for scan in scans)), "")
    kind = TruncatedSourceError if stored < min(map(math.prod, scans)) else FormatError
    lost = {"bytes_left_over": rest} if rest else {}
    return (Absence(said, kind, "takes these as one axis", lost),)


def _instrument(stem: Any) -> str | None:
    return "STEM" if stem == "True" else None


_MEASURED = "metadata:iom_measurements:"

TERMS = (
    Term("title", "metadata:name"),
    Term("time", "metadata:timestamp:isoformat"),
    Term("software", "metadata:software_version"),
    Term("instrument", f"{_MEASURED}is_column_in_stem_mode", take=_instrument),
    Term("beam_energy", f"{_MEASURED}high_voltage", zero=False),
    Term("beam_energy", f"{_MEASURED}source.get_voltage", zero=False),
    Term("beam_energy", f"{_MEASURED}ColumnSourceHighVoltage", zero=False),
    Term("camera_length", f"{_MEASURED}nominal_camera_length", zero=False),
    Term("camera_length", f"{_MEASURED}optics.get_cameralength", zero=False),
    Term("camera_length", f"{_MEASURED}ColumnOpticsGetCameraLengthNominalCameraLength", zero=False),
    Term("spot_size", f"{_MEASURED}spot_size_index"),
    Term("exposure_time", "metadata:exposure_time", 1e-3, zero=False),
    Term("exposure_time", "metadata:scan:exposure_time", zero=False),
    Term("scan_rotation", f"{_MEASURED}scan_rotation"),
    Term("scan_rotation", f"{_MEASURED}column.get_scanrotation"),
    Term("scan_rotation", f"{_MEASURED}ColumnGetScanRotation"),
    Term("spot_size", f"{_MEASURED}ColumnOpticsSpotSizeIndex"),
    Term("magnification", f"{_MEASURED}ColumnOpticsGetMagnificationNominalMagnification", zero=False),
    Term("serial_number", "metadata:pdcu:SerialNumber"),
    Term("detector", "metadata:sensor:type"),
)
"""What the XML says, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "empad",
    (".xml", ".raw"),
    "https://doi.org/10.1017/S1431927615015664",
    "EMPAD, both generations: a .raw file and the .xml that describes it",
    sniff,
    open,
    index_extensions=(".xml",),
    terms=TERMS,
)
