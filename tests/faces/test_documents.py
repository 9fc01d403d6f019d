"""The JSON documents of zarr hierarchies: dtypes, fill values, and metadata that JSON has no words for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.faces.support import FORMATS, array_of, tree_of
from tests.model.strategies import DTYPES, some
from vfs.faces.documents import plain_json, v2, v3
from vfs.model.command_options import ExportOptions
from vfs.zarr.export import export


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_in_documents(dtype: np.dtype, tmp_path: Path) -> None:
    values = some(dtype, (2, 3), 0)
    face3, face2 = (tree_of(array_of(values, stored=dtype)).zarr(f) for f in FORMATS)
    meta3 = zarr.core.metadata.v3.ArrayV3Metadata.from_dict(json.loads(face3.documents["data/zarr.json"]))
    assert (
        np.dtype(
            meta3.data_type.to_native_dtype()
            if hasattr(meta3.data_type, "to_native_dtype")
            else meta3.data_type.to_numpy()
        )
        == values.dtype
    )
    assert np.dtype(json.loads(face2.documents["data/.zarray"])["dtype"]) == values.dtype
    assert json.loads(face2.documents["data/.zarray"])["dtype"][0] in "<|"


@pytest.mark.parametrize(
    ("dtype", "fill", "written"),
    [
        ("u2", 0, 0), ("u2", 7, 7), ("?", 0, False), ("f4", 0, 0.0),
        ("f4", math.nan, "NaN"), ("f8", math.inf, "Infinity"), ("f8", -math.inf, "-Infinity"),
        ("c8", 0, [0.0, 0.0]), ("c8", complex(math.nan, 1), ["NaN", 1.0]),
    ],
)  # fmt: skip
def test_fill_values(dtype: str, fill: Any, written: Any) -> None:
    array = array_of(np.zeros((2, 3), dtype), said={"fill": fill})
    document = json.loads(tree_of(array).zarr(3).documents["data/zarr.json"])
    assert document["fill_value"] == written
    found = zarr.core.metadata.v3.ArrayV3Metadata.from_dict(document).fill_value
    np.testing.assert_array_equal(found, np.array(fill, dtype))


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("write", [v3, v2])
def test_groups_have_their_own_attributes(write: Any, consolidated: bool, tmp_path: Path) -> None:
    attrs: dict[str, dict[str, Any]] = {"": {"n": 0}, "a": {}, "a/b": {"n": np.int64(2)}}
    for key, document in write({"a/b/c": array_of(np.zeros((2, 3)))}, attrs).items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(document)
    root = zarr.open_group(tmp_path, mode="r", use_consolidated=consolidated)
    assert {path: dict(root[path].attrs if path else root.attrs) for path in attrs} == attrs
    assert root["a/b/c"].shape == (2, 3)


def test_metadata_that_json_cannot_hold() -> None:
    value: dict[Any, Any] = {
        "nan": math.nan, "inf": [math.inf, -math.inf], "np": np.float32(1.5), "int": np.int64(3),
        "bool": np.True_, "array": np.array([[1, 2]]),
        "nans": np.array([math.nan, 1]),
        "bytes": b"\xff ok", "text": "\ud800 é 日", "tuple": (1, 2), "set": {3}, "complex": 1 + 2j,
        "path": Path("a"), "time": np.datetime64("2020-01-01"),
        "none": None,
        "long": np.longdouble(2.5), "big": 2**70, 5: "number", "sur\ud800": 1,
        "record": np.array([(1, 2.5)], [("a", "u1"), ("b", "f4")])[0],
        "nat": np.datetime64("NaT", "s"),
    }  # fmt: skip
    plain = plain_json(value)
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(text) == plain
    assert plain["nan"] == "nan"
    assert plain["inf"] == ["inf", "-inf"]
    assert (plain["np"], plain["int"], plain["bool"], plain["array"], plain["nans"]) == (
        1.5,
        3,
        True,
        [[1, 2]],
        ["nan", 1.0],
    )
    assert plain["bytes"] == "\ufffd ok"
    assert plain["text"] == "? é 日"
    assert (plain["long"], plain["big"], plain["5"], plain["sur?"], plain["record"]) == (
        2.5,
        2**70,
        "number",
        1,
        [1, 2.5],
    )
    for zarr_format in FORMATS:
        face = tree_of(array_of(np.zeros((1, 1)), said={"attrs": value}), vfs=value).zarr(zarr_format)
        root = json.loads(face.documents["zarr.json" if zarr_format == 3 else ".zattrs"])
        assert (root["attributes"] if zarr_format == 3 else root)["vfs"] == plain


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_documents_are_ascii(zarr_format: int, tmp_path: Path) -> None:
    """zarr 2.13, Debian's, opens nothing where one of them is not: those of groups, of arrays, the
    consolidated ones, and what an export writes.
    """
    said = {"units": "µs", "größe": ["日", {"\ud800": "\U0001f52c"}]}
    plain = {"units": "µs", "größe": ["日", {"?": "\U0001f52c"}]}
    tree = tree_of(array_of(np.arange(6).reshape(2, 3), "entry/däta", said={"attrs": said}), vfs=said)
    face = tree.zarr(zarr_format)
    names = {name.rpartition("/")[2] for name in face.documents}
    assert names == ({"zarr.json"} if zarr_format == 3 else {".zgroup", ".zattrs", ".zarray", ".zmetadata"})
    for name, document in face.documents.items():
        assert document.isascii(), name
        json.loads(document)
    array = json.loads(face.documents["entry/däta/zarr.json" if zarr_format == 3 else "entry/däta/.zattrs"])
    assert (array["attributes"] if zarr_format == 3 else array)["vfs"] == plain
    export(face, tmp_path / "out.zarr", ExportOptions())
    written = [path for path in (tmp_path / "out.zarr").rglob("*") if path.name in names]
    assert len(written) >= 3
    assert [path for path in written if not path.read_bytes().isascii()] == []
