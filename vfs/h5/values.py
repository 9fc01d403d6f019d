"""Turns HDF5 attributes, types and fill values into plain numbers and text, with h5py."""

from __future__ import annotations

import math
import re
from typing import Any

import h5py
import numpy as np

from vfs.h5.facts import LeftOutError, NoNumbersError

MAX_ATTRIBUTES = 500
MAX_VALUES = 4096  # of an attribute that is shown
MAX_TEXT = 4096  # characters
_REFERENCES = ("DIMENSION_LIST", "REFERENCE_LIST")  # of dimension scales: see `scales`


def attributes(item: Any) -> dict[str, Any]:
    """Return the attributes that JSON can hold, at most `MAX_ATTRIBUTES`.

    Large ones are left out before they are read.
    """
    found: dict[str, Any] = {}
    for key in _names(item):
        if key in _REFERENCES:
            continue
        try:
            known = item.attrs.get_id(key)
            if math.prod(known.shape or ()) > MAX_VALUES or known.get_storage_size() > 8 * MAX_VALUES:
                continue
            value = _plain(item.attrs[key])
        except (OSError, TypeError, ValueError, RuntimeError, KeyError):
            continue
        if value is not None:
            found[_utf8(str(key))] = value
    return found


def _names(item: Any) -> list[str]:
    if h5py.h5a.get_num_attrs(item.id) <= MAX_ATTRIBUTES:
        return list(item.attrs)
    names: list[str] = []

    def enough(name: bytes, *_: Any) -> bool | None:
        names.append(name.decode("utf-8", "surrogateescape"))
        return len(names) == MAX_ATTRIBUTES or None

    # Sorting 200,000 takes 2 s, taking the first ones as they come 0.01 s
    h5py.h5a.iterate(item.id, enough, order=h5py.h5.ITER_NATIVE)
    return names


def _plain(value: Any) -> Any:
    """Convert an attribute to JSON. Returns None if that is not possible."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return [
            _plain(entry) if isinstance(entry, str | bytes) else str(entry)[:MAX_TEXT]
            for entry in value.reshape(-1).tolist()
        ]
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufSU":
        value = np.asarray(value, "f8").tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, bytes):
        return value.split(b"\0")[0].decode("utf-8", "replace")[:MAX_TEXT]
    if isinstance(value, str):
        return _utf8(value)[:MAX_TEXT]
    return value if isinstance(value, bool | int | float) else None


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


_NION = re.compile(r"data(/\d{1,9})?", re.ASCII)
_MAX_PROPERTIES = 1 << 20  # characters: metadata of several detectors take some 10,000
_ABTEM = re.compile(r"units|name")
_MAX_AXES = 16


def properties(name: str, item: Any) -> str:
    """Return the attribute in which Nion Swift describes its data, JSON of more than `MAX_TEXT`; else ""."""
    if not _NION.fullmatch(name) or "properties" not in item.attrs:
        return ""
    try:
        said = item.attrs["properties"]
    except (OSError, TypeError, ValueError, RuntimeError):
        return ""
    return _utf8(said) if isinstance(said, str) and len(said) <= _MAX_PROPERTIES else ""


_TEXTS = re.compile(
    r"((Presentation/)?Displays|SharedProperties)/Image\w+/[^/]+|Data/SpectrumStream/[^/]+/AcquisitionSettings"
    r"|(.*/)?EBSD/Header/(Grid Type|grid_type)",
    re.ASCII,
)
_OF_FIXED_LENGTH = re.compile(
    r"[^/]+/(title|start_time|end_time|sample/name|user[^/]*/name)"  # NeXus
    r"|[^/]+/instrument/[^/]*(/[^/]*)?/(description|detector_number|sensor_material|gain_setting)"
    r"|[^/]+/instrument/[^/]*/detectorSpecific/(data_collection_date|software_version)"
    r"|(.*/)?(EBSD|SEM)/Header/[^/]+|[ \w]*(manufacturer|version)",  # electron backscatter diffraction
    re.ASCII | re.IGNORECASE,
)


_QUANTIFIED = re.compile(r"(Data|SharedProperties)/EDSSpectrumQuantificationSettings/[^/]+", re.ASCII | re.IGNORECASE)
_SELECTED = re.compile(r'"elementSelection"\s*:\s*\[[^\]]*\]')
_MAX_SETTINGS = 1 << 20  # characters


def _selected(item: Any) -> str:
    """Return the object with the elements that somebody chose to quantify, of settings of Velox; "" if nobody did."""
    try:
        said = item[()] if item.size == 1 else b""
    except (OSError, TypeError, ValueError, RuntimeError):
        return ""
    whole = next(iter(np.asarray(said).reshape(-1).tolist()), b"")
    plain = whole.decode("utf-8", "replace") if isinstance(whole, bytes) else str(whole)
    found = _SELECTED.search(plain) if len(plain) <= _MAX_SETTINGS else None
    return f"{{{found[0]}}}" if found and len(found[0]) < MAX_TEXT else ""


def text(name: str, item: Any) -> str:
    """Return the text in a data set, of those that say something about others; else "".

    They say how Velox shows images or encodes spectra, which elements it quantifies, which grid a map has, and, with
    NULs between the texts, units and names of abTEM's axes; of fixed length also what NeXus and programs of backscatter
    diffraction record. Others are not read: libhdf5 may crash on damaged texts of variable length.
    """
    if _QUANTIFIED.fullmatch(name) and item.dtype.kind in "OS":
        return _selected(item)
    if _ABTEM.fullmatch(name) and item.dtype.kind == "S" and len(item.shape) == 1 and item.size <= _MAX_AXES:
        try:
            return "\0".join(_plain(one) for one in item[()].tolist())
        except (OSError, TypeError, ValueError, RuntimeError):
            return ""
    if not _TEXTS.fullmatch(name) and not (_OF_FIXED_LENGTH.fullmatch(name) and _here(item)):
        return ""
    if item.size != 1 or item.dtype.kind not in "OS" or item.dtype.itemsize > MAX_TEXT:
        return ""
    try:
        return _plain(np.asarray(item[()]).reshape(-1)[0]) or ""
    except (OSError, TypeError, ValueError, RuntimeError):
        return ""


def _here(item: Any) -> bool:
    """Return True for a text of fixed length that lies in its file in one piece: no other file is asked for it."""
    made = item.id.get_create_plist()
    if made.get_layout() not in (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS) or made.get_external_count():
        return False
    kind = item.id.get_type()
    return isinstance(kind, h5py.h5t.TypeStringID) and not kind.is_variable_str()


_OF_A_FRAME = re.compile(r"(.*/)?\d{1,9}/Metadata", re.ASCII)


def text_at(name: str, item: Any) -> tuple[int, ...]:
    """Return (first byte, bytes) of a text of fixed length that TopSpin writes beside each frame; else ().

    There are as many as frames, so they are not read here.
    """
    if not _OF_A_FRAME.fullmatch(name) or item.size != 1 or item.dtype.kind != "S":
        return ()
    start = item.id.get_offset() if item.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS else None
    return () if start is None else (int(start), min(item.dtype.itemsize, MAX_TEXT))


def labels(attrs: dict[str, Any], ndim: int) -> list[str]:
    """Return the names of axes by HDF5's own convention; none if the file does not use it."""
    said = attrs.get("DIMENSION_LABELS")
    return said if isinstance(said, list) and len(said) == ndim and all(isinstance(name, str) for name in said) else []


def scales(item: Any, ndim: int) -> list[int]:
    """Return the addresses of the dimension scales of all axes, -1 where there is none; [] if there are none at all.

    Names are not asked for: libhdf5 would search the whole file for each.
    """
    if not h5py.h5a.exists(item.id, b"DIMENSION_LIST"):
        return []
    try:
        lists = item.attrs["DIMENSION_LIST"]
        return [_address(item, of) for of in lists] if len(lists) == ndim else []
    except (OSError, TypeError, ValueError, RuntimeError, KeyError):
        return []


def _address(item: Any, references: Any) -> int:
    if not len(references) or not references[0]:
        return -1
    return int(h5py.h5o.get_info(h5py.h5r.dereference(references[0], item.id)).addr)


_ONE_NUMBER = frozenset(("_FillValue", "scale_factor", "add_offset"))
_NUMBERS = _ONE_NUMBER | {"missing_value", "valid_min", "valid_max", "valid_range", "actual_range"}
_NUMBERS |= {"flag_values", "flag_masks"}
_TEXT = frozenset(
    (
        *("_Unsigned", "units", "units_metadata", "calendar", "standard_name", "long_name", "axis", "positive"),
        *("flag_meanings", "coordinates", "bounds", "climatology", "grid_mapping", "cell_measures", "cell_methods"),
        *("grid_mapping_name", "crs_wkt", "spatial_ref", "formula_terms", "ancillary_variables"),
    )
)
"""Attributes by which readers of netCDF decode and arrange variables, by what they hold.

See https://cfconventions.org, appendix A, and for `_Unsigned` the conventions of the netCDF users' guide.
"""
_MEANT = ("bool", "timedelta64")
"""How the attribute `dtype` begins that xarray gives to what netCDF has no type for."""
_PACKED = frozenset(("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned"))


def conventions(item: Any, attrs: dict[str, Any], of_netcdf: bool) -> dict[str, Any]:
    """Return the attributes in `_NUMBERS` and `_TEXT`: name -> text, or [dtype, number or list of numbers].

    Their dtypes count: a reader of netCDF unpacks numbers as the dtype of the scale factor says.

    Args:
        attrs: the attributes as `attributes` gives them.
        of_netcdf: True if netCDF wrote the file, or the data set has dimension scales. Of others only
            dimension scales and what is packed have such attributes: elsewhere their words may mean other things.
    """
    if not (of_netcdf or _PACKED & attrs.keys() or attrs.get("CLASS") == "DIMENSION_SCALE"):
        return {}
    found: dict[str, Any] = {}
    for name in sorted((_NUMBERS | _TEXT) & attrs.keys()):
        said = attrs[name]
        one = said[0] if isinstance(said, list) and len(said) == 1 else said
        if name in _TEXT and isinstance(one, str):
            found[name] = one
        elif name in _NUMBERS and _are_numbers(one) and (name not in _ONE_NUMBER or not isinstance(one, list)):
            found[name] = [item.attrs.get_id(name).dtype.newbyteorder("=").str, one]
    if of_netcdf and str(attrs.get("dtype")).startswith(_MEANT):
        found["dtype"] = attrs["dtype"]
    return found


def _are_numbers(said: Any) -> bool:
    numbers = said if isinstance(said, list) else [said]
    return len(numbers) > 0 and all(type(one) in (int, float) for one in numbers)


EVENTS = "electron_events/frames"
"""What stempy calls lists of events, of their own length each: `number` returns where they are, not what they hold."""


_REFERENCE = np.dtype(("<u4", 4))


def stored(item: Any) -> np.dtype:
    """Return the dtype of an element as it is in the file."""
    return np.dtype(f"V{_REFERENCE.itemsize}") if ragged(item)[0] else item.dtype


def ragged(item: Any) -> tuple[str, int]:
    """Return (dtype of events, bytes before the HDF5 file proper) of lists of events of stempy; ("", 0) of others.

    An element in the file is four numbers of 32 bits: its length, where it is (two of them), and its number there.
    """
    of = h5py.check_vlen_dtype(item.dtype) if (item.name or "").strip("/") == EVENTS else None
    made = item.file.id.get_create_plist()
    if not isinstance(of, np.dtype) or of.kind not in "iu" or made.get_sizes() != (8, 8):
        return "", 0
    compact = item.id.get_create_plist().get_layout() == h5py.h5d.COMPACT
    return ("", 0) if compact else (of.str, int(made.get_userblock()))


_COMPLEX = (r"(r|re)$|real", r"(i|im)$|imag")


def number(item: Any) -> tuple[np.dtype, int]:
    """Return the dtype of the numbers in a data set, and how many of them each element has.

    A pair of equal floats called (r, i), (real, imag) or (realFloatHalfEven, imagFloatHalfEven) is
    a complex number. Another compound of equal numbers (R, G, B, A) has so many of them.

    Raises:
        LeftOutError: it holds no numbers, or numbers whose bytes in the file differ from those in
            memory.
    """
    try:
        dtype = item.dtype
    except TypeError as error:  # bit fields, opaque types
        raise NoNumbersError(f"{str(error).splitlines()[0]}: no array of numbers") from None
    if ragged(item)[0]:
        return _REFERENCE.base, _REFERENCE.shape[0]
    made, count = _counted(_paired(dtype))
    if made.kind not in "biufc" or made.itemsize > (16 if made.kind == "c" else 8) or made.subdtype is not None:
        of = h5py.check_vlen_dtype(dtype)
        kind = "text or objects" if made.kind in "OSU" else f"type {str(made)[:200]}"
        if isinstance(of, np.dtype):
            kind = f"a list of {of} of its own length for each element (HyperSpy calls that ragged)"
        raise NoNumbersError(f"{kind}, no array of numbers")
    _check_full(item.id.get_type())
    return made, count


def _counted(dtype: np.dtype) -> tuple[np.dtype, int]:
    """Return (dtype of the fields, their number) of a compound of equal numbers without gaps; else (dtype, 1)."""
    fields = [dtype.fields[name][:2] for name in dtype.names or ()]  # type: ignore[index]
    one = fields[0][0] if fields else dtype
    places = [k * one.itemsize for k in range(len(fields))]
    if len(fields) < 2 or fields != [(one, at) for at in places] or dtype.itemsize != len(fields) * one.itemsize:
        return dtype, 1
    return one, len(fields)


def _paired(dtype: np.dtype) -> np.dtype:
    if (
        dtype.names is not None
        and len(dtype.names) == 2
        and all(re.match(p, name, re.I) for p, name in zip(_COMPLEX, dtype.names, strict=True))
    ):
        (one, at), (two, then) = (dtype.fields[name][:2] for name in dtype.names)  # type: ignore[index]
        if (
            one == two
            and one.kind == "f"
            and one.itemsize in (4, 8)
            and at == 0
            and then == one.itemsize
            and dtype.itemsize == 2 * one.itemsize
        ):
            return np.dtype(f"{one.byteorder}c{dtype.itemsize}")
    return dtype


_FLOATS = {2: h5py.h5t.IEEE_F16LE, 4: h5py.h5t.IEEE_F32LE, 8: h5py.h5t.IEEE_F64LE}
_BITS = [getattr(h5py.h5t, f"STD_B{bits}{order}") for bits in (8, 16, 32, 64) for order in ("LE", "BE")]


def _check_full(stored: Any) -> None:
    """Check that numbers have the same bytes in the file as in memory.

    libhdf5 would convert others, but vfs reads plain bytes.

    Raises:
        LeftOutError: the bytes differ.
    """
    kind, bits = stored.get_class(), 8 * stored.get_size()
    if kind == h5py.h5t.COMPOUND:
        for k in range(stored.get_nmembers()):
            _check_full(stored.get_member_type(k))
    elif kind in (h5py.h5t.ENUM, getattr(h5py.h5t, "COMPLEX", None)):
        _check_full(stored.get_super())
    elif kind == h5py.h5t.BITFIELD:
        if not any(stored.equal(usual) for usual in _BITS):
            raise LeftOutError(f"its numbers do not fill their {bits} bits; only numbers that do are shown")
    elif stored.get_order() not in (h5py.h5t.ORDER_LE, h5py.h5t.ORDER_BE):
        raise LeftOutError("its numbers have an unknown byte order")
    elif kind == h5py.h5t.FLOAT and not _usual(stored):
        raise LeftOutError(f"its numbers are floats of {bits} bits of another kind than IEEE 754 has")
    elif stored.get_precision() != bits or stored.get_offset() != 0:
        raise LeftOutError(
            f"its numbers are {stored.get_precision()} of {bits} bits, from bit {stored.get_offset()} on; only numbers"
            " that fill their bits are shown"
        )


def _usual(stored: Any) -> bool:
    usual = _FLOATS.get(stored.get_size())
    return usual is not None and all(
        getattr(stored, what)() == getattr(usual, what)() for what in ("get_fields", "get_ebias", "get_norm")
    )


def fill(item: Any, dtype: np.dtype) -> Any:
    """Return the value of elements that were never written, a pair for complex numbers."""
    try:
        value = np.asarray(item.fillvalue)
    except (RuntimeError, TypeError, ValueError):
        return 0
    if value.size != 1 or value.dtype.kind not in "biufcV":
        return 0
    if value.dtype.names is not None and dtype.kind != "c":
        parts = {float(part) for part in value.reshape(1)[0]}
        if len(parts) > 1:
            raise LeftOutError("its fields have several fill values")
        return parts.pop()
    if dtype.kind == "c":
        one = value.reshape(1).view(dtype)[0] if value.dtype.kind == "V" else value.reshape(1)[0]
        return [float(one.real), float(one.imag)]
    return value.reshape(1)[0].item()


def held(item: Any) -> bytes:
    """Return the bytes of a compact data set as they are in the file: at most 64 KiB."""
    if item.size * item.dtype.itemsize > 1 << 16:
        raise LeftOutError(f"{item.size:,} elements in the file's header, which can hold 64 KiB")
    out = np.empty(item.shape, item.dtype)
    if out.size:
        item.read_direct(out)
    return out.tobytes()
