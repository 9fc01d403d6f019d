"""Finds which arrays of an HDF5 file its program shows first, and which it never does, by convention.

    NeXus         the attributes `default` from the root on lead to an NXdata group; its attribute
                  `signal` names the array (in older files the array has an attribute signal=1).
                  Without `default`, the signals of all NXdata groups are equals
    Velox         images and spectrum images before single spectra (`vfs.formats.hdf5.velox`)
    TopSpin       scans before their images (`vfs.formats.hdf5.topspin`)
    DM5           the image of the first document (`vfs.formats.hdf5.dm5`)
    EMD           (NCEM, Prismatic, py4DSTEM) what stands in a group with emd_group_type 1 or "array", but
                  for the vectors `dim1` …; data cubes of py4DSTEM before its other arrays
    HyperSpy      `data` of each experiment
    EBSD          (EDAX, Bruker, Oxford, kikuchipy) the patterns in `EBSD/Data`
    DataExchange  `exchange/data`
    CXI           `entry_1/data_1/data`
    Dectris       the pieces `data_000001` …, joined or not, where the groups say no NX_class

https://manual.nexusformat.org/datarules.html#find-the-plottable-data describes the first one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

from vfs.formats.hdf5 import dm5, topspin, velox
from vfs.formats.hdf5.pieces import StoredData
from vfs.h5.facts import Survey
from vfs.model.stored import NEXUS_BITS

_PIECE = re.compile(r"data_\d{6}", re.ASCII)
_DIM = re.compile(r"dim\d+", re.ASCII)
_NEVER = re.compile(
    r"""
    (.*/)?detectorSpecific/.*                                      # Dectris: flat field, masks, tables of corrections
    |(.*/)?detector[^/]*/(pixel_mask|flatfield|countrate_correction)\w*    # NXdetector
    |(.*/)?Thumbnails?([./].*)?                                    # Velox, Imaris, TopSpin
    |Experiments/[^/]+/(metadata|original_metadata|learning_results|models)/.*   # HyperSpy
    |(.*/)?(EBSD|SEM)/Header/.*                                    # EBSD
    |(.*/)?(Position|Spectroscopic)_(Indices|Values)               # USID
    """,
    re.X | re.I,
)
_MASK = re.compile(r"(.*/)?pixel_mask", re.I)  # NXdetector, Dectris, Jungfrau
_CXI_MASK = re.compile(r"entry_\d+/(.*/)?mask(_shared)?")
_CXI_BITS = 0x2FF
"""Bits of a mask of CXI that say a pixel holds no measurement: 0 invalid, 1 saturated, 2 hot, 3 dead, 4 shadowed, 5 in
a mask of peaks, 6 to be ignored, 7 bad, 9 missing. The others tell other things: 8 out of the limits of resolution, 10
noisy, 11 and 12 corrected. See https://www.cxidb.org/cxi.html"""
_DEEP = 10  # steps that `default` may take


def marks(found: Mapping[str, StoredData], survey: Survey) -> dict[str, bool | None]:
    """Return what `StoredArray.main` says, for all data sets of a file; for those that cannot be shown, too.

    If only things are shown that nobody wants to see first, these are not marked, as they are all there is;
    but streams that Velox encodes are.

    Args:
        found: the arrays that are shown.
    """
    names = {**survey.data, **found}.keys()
    first: set[str] = set()
    for convention in (_nexus, velox.first, topspin.first, dm5.first, _emd, _hyperspy, _ebsd, _exchange, _cxi, _pieces):
        first = first or {name for name in convention(found, survey) if name in names}
    encoded = velox.beside(found)
    never = {name for name in names if _NEVER.fullmatch(name) or _is_scale(name, survey)}
    if not found.keys() - never - encoded and not first:
        never = set()
    return {name: True if name in first else False if name in never | encoded else None for name in names}


def mask_bits(name: str, data: StoredData, survey: Survey) -> int:
    """Return what `StoredArray.mask_bits` says."""
    if data.dtype.kind not in "biu":
        return 0
    if "cxi_version" in survey.data and _CXI_MASK.fullmatch(name):
        return _CXI_BITS
    return NEXUS_BITS if _MASK.fullmatch(name) else 0


def _is_scale(name: str, survey: Survey) -> bool:
    """Return True for the positions along an axis of other arrays, as HDF5 and netCDF mark them."""
    return name in survey.data and survey.data[name].attrs.get("CLASS") == "DIMENSION_SCALE"


def _nexus(found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    groups = survey.groups
    kinds = {path: str(about.get("NX_class", "")) for path, about in groups.items()}
    roots = [""] if "default" in groups.get("", {}) else [path for path, kind in kinds.items() if kind == "NXentry"]
    inside = _inside({**survey.data, **found})
    of: list[str] = []
    for root in roots or [""]:
        end = _default(root, survey)
        if end in survey.data or end in found:
            of.append(end)
        else:
            of += [name for path in _within(end, kinds, "NXdata") for name in _signals(path, inside, found, survey)]
    return of or [name for path in _within("", kinds, "NXdetector") for name in _signals(path, inside, found, survey)]


def _default(path: str, survey: Survey) -> str:
    """Return the path to which the attributes `default` lead from a group."""
    for _ in range(_DEEP):
        said = survey.groups[path].get("default")
        if not isinstance(said, str) or not said:
            return path
        then = posixpath.normpath(posixpath.join("/", path, said)).strip("/")
        if then not in survey.groups:
            return then if then in survey.data else path
        path = then
    return path


def _within(path: str, kinds: Mapping[str, str], kind: str) -> list[str]:
    """Return the groups of a kind in a group, itself included: those that lie highest."""
    start = f"{path}/" if path else ""
    there = [name for name, is_a in kinds.items() if is_a == kind and (name == path or name.startswith(start))]
    depth = min((name.count("/") for name in there), default=0)
    return [name for name in there if name.count("/") == depth]


def _signals(path: str, inside: Mapping[str, list[str]], found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    """Return the signal of an NXdata or NXdetector group. Numbered pieces may have been joined to one array `data`."""
    start = f"{path}/" if path else ""
    said = survey.groups[path].get("signal")
    said = said[0] if isinstance(said, list) and said else said
    if isinstance(said, str) and said:
        name = posixpath.normpath(posixpath.join("/", path, said)).strip("/")
        whole = f"{start}data"
        return [whole if _PIECE.fullmatch(said) and whole in found and name not in found else name]
    names = inside.get(path, [])
    marked = [name for name in names if name in survey.data and _one(survey.data[name].attrs.get("signal"))]
    pieces = [name for name in names if _PIECE.fullmatch(name.rpartition("/")[2]) and f"{start}data" not in names]
    return marked or [name for name in names if name == f"{start}data"] or pieces


def _one(value: object) -> bool:
    return str(value[0] if isinstance(value, list) and value else value).strip() == "1"


def _inside(names: Iterable[str]) -> dict[str, list[str]]:
    """Return group -> the data sets directly in it."""
    inside: dict[str, list[str]] = {}
    for name in names:
        inside.setdefault(name.rpartition("/")[0], []).append(name)
    return inside


def _emd(found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    groups = [path for path, about in survey.groups.items() if about.get("emd_group_type") in (1, "1", "array")]
    cubes = [path for path in groups if survey.groups[path].get("python_class") == "DataCube" or "/datacubes/" in path]
    inside = _inside(found) if groups else {}
    of = {
        path: [name for name in inside.get(path, []) if not _DIM.fullmatch(name.rpartition("/")[2])] for path in groups
    }
    data = {path: [name for name in names if name.rpartition("/")[2] == "data"] for path, names in of.items()}
    return [name for path in cubes or groups for name in data[path] or of[path]]


def _hyperspy(found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    return _like(r"Experiments/[^/]+/data", found)


def _ebsd(found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    return [name for name in _like(r"(.*/)?EBSD/Data/[^/]*patterns?", found) if len(found[name].shape) > 2]


def _exchange(found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    return _like(r"exchange/data", found)


def _cxi(found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    return _like(r"entry_\d+/data_\d+/data", found) if "cxi_version" in survey.data else []


def _pieces(found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    """Return what was joined of numbered pieces that hold frames; else such pieces, which stay apart."""
    numbered = {name for name in {**survey.data, **found} if _PIECE.fullmatch(name.rpartition("/")[2])}
    wholes = {f"{name.rpartition('/')[0]}/data".lstrip("/") for name in numbered} - survey.data.keys()
    names = [name for name in found if name in wholes] or sorted(numbered & found.keys())
    return [name for name in names if len(found[name].shape) > 1]


def _like(pattern: str, found: Mapping[str, StoredData]) -> list[str]:
    return [name for name in found if re.fullmatch(pattern, name, re.I)]
