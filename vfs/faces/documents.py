"""Writes the documents of a zarr hierarchy: the JSON files that describe arrays, groups and attributes.

In both zarr formats the root has consolidated metadata, equal to the documents of the arrays and
groups, and the metadata of a file format are in one attribute called `vfs`. Some details are there
because clients of zarr fail otherwise: `fill_value` is null in v2, and every document is ASCII.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader


def plain_json(value: Any) -> Any:
    """Convert metadata to values that JSON can hold.

    numpy scalars and arrays become numbers and lists; NaN, infinities and bytes become text.
    """
    if isinstance(value, Mapping):
        return {plain_json(str(k)): plain_json(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_json(v) for v in value]
    if isinstance(value, np.longdouble):
        return plain_json(float(value))
    if isinstance(value, np.generic):
        item = value.item()
        return str(item) if isinstance(item, np.generic) else plain_json(item)  # a few have no type in Python
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value if value is None or isinstance(value, bool | int) else str(value)


def document(value: Mapping[str, Any]) -> bytes:
    """Return a document as JSON in ASCII."""
    # ASCII: zarr 2.13 (Debian 12) refuses other characters, even a µ in an attribute; netCDF shows
    # the escape, without its backslash
    return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=1).encode()


def fill_value(array: ArrayReader) -> Any:
    """Return the value of elements that no file holds, as both zarr formats write it."""
    fill = array.fill
    return [json_number(fill.real), json_number(fill.imag)] if array.dtype.kind == "c" else json_number(fill)


def json_number(value: Any) -> Any:
    """Convert a number (of numpy or Python) as zarr v3 writes fill values: NaN and infinities are text."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, float) or math.isfinite(plain):
        return plain
    return "NaN" if math.isnan(plain) else "Infinity" if plain > 0 else "-Infinity"


def _conventions(array: ArrayReader, zarr_format: int) -> dict[str, Any]:
    """Return the attributes at the top level, with the value for missing elements (`_FillValue`) as xarray takes it.

    With zarr v3 it wants a float as base64 of 8 bytes, little-endian: https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html.
    NaN masks nothing that is not NaN already. JSON has no number for infinities, so zarr v2 cannot say them.
    """
    said = plain_json(array.dataset.conventions)
    missing = said.pop("_FillValue", None)
    if missing is None or array.dtype.kind not in "iuf":
        return dict(said)
    try:
        number = float(missing)
    except (TypeError, ValueError):
        return dict(said)
    if zarr_format == 3 and array.dtype.kind == "f":
        missing = base64.standard_b64encode(struct.pack("<d", number)).decode()
    elif math.isinf(number):
        return dict(said)
    return dict(said) if math.isnan(number) else {**said, "_FillValue": missing}


def _own(array: ArrayReader) -> dict[str, Any]:
    """Return the attribute `vfs`: the format's metadata, and in `recorded` what they say in the vocabulary."""
    return dict(plain_json({"vfs": {**array.attrs, **recorded_of(array)}}))


def recorded_of(array: ArrayReader) -> dict[str, Any]:
    """Return the field `recorded` of the attribute `vfs`: what the files say; {} if they say nothing."""
    found = {name: one._asdict() for name, one in array.dataset.recorded.items()}
    return {"recorded": found} if found else {}


def _array_v3(array: ArrayReader) -> dict[str, Any]:
    endian = {"configuration": {"endian": "little"}} if array.dtype.itemsize > 1 else {}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value(array),
        "codecs": [{"name": "bytes", **endian}],
        "attributes": {**_own(array), **_conventions(array, 3)},
        "dimension_names": list(array.dims),
        "storage_transformers": [],
    }


def _array_v2(array: ArrayReader) -> dict[str, Any]:
    return {
        "zarr_format": 2,
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "dtype": array.dtype.newbyteorder("<").str,
        "compressor": None,
        "fill_value": None,  # with 0, xarray turns integers into floats with NaN
        "order": "C",
        "filters": None,
        "dimension_separator": "/",
    }


def v3(arrays: Mapping[str, ArrayReader], groups: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Write the documents of a hierarchy in zarr format 3.

    Args:
        arrays: path -> array.
        groups: path -> attributes, of all groups; "" is the root.

    Returns: key -> document; the root's comes first, the others are in order of their keys.
    """

    def group(path: str) -> dict[str, Any]:
        return {"zarr_format": 3, "node_type": "group", "attributes": plain_json(groups[path])}

    nodes = {path: group(path) for path in groups if path} | {path: _array_v3(array) for path, array in arrays.items()}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": dict(sorted(nodes.items()))}
    root = group("") | {"consolidated_metadata": consolidated}
    return {"zarr.json": document(root)} | {f"{path}/zarr.json": document(node) for path, node in sorted(nodes.items())}


def v2(arrays: Mapping[str, ArrayReader], groups: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Do what `v3` does, for zarr format 2."""
    docs: dict[str, dict[str, Any]] = {}
    for path, attrs in groups.items():
        docs[f"{path}/.zgroup".lstrip("/")] = {"zarr_format": 2}
        if attrs or not path:  # zarr reads groups without this document as groups without attributes
            docs[f"{path}/.zattrs".lstrip("/")] = plain_json(attrs)
    for path, array in sorted(arrays.items()):
        docs[f"{path}/.zarray"] = _array_v2(array)
        own = {**_own(array), "_ARRAY_DIMENSIONS": list(array.dims)}
        docs[f"{path}/.zattrs"] = {**own, **_conventions(array, 2)}
    docs = dict(sorted(docs.items()))  # zarr loses siblings that are not next to each other
    written = {key: document(value) for key, value in docs.items()}
    return {".zmetadata": document({"zarr_consolidated_format": 1, "metadata": docs})} | written
