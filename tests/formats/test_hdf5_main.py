"""Which array of an HDF5 file opens first: the one that the program which wrote it shows first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import vfs
from tests.formats.hdf5_sets import write_velox
from vfs.cli.report.sets import as_text
from vfs.page.views import described
from vfs.testing.inside import set_of

NXDATA, NXENTRY, NXDETECTOR = {"NX_class": "NXdata"}, {"NX_class": "NXentry"}, {"NX_class": "NXdetector"}
IMAGE, LONG, CUBE = (3, 4), (200,), (5, 3, 4)


def hdf5(folder: Path, arrays: Mapping[str, Any], attrs: Mapping[str, Mapping[str, Any]] | None = None) -> Path:
    """Write arrays, of zeros where only a shape is given, and attributes of arrays and groups."""
    path = folder / "set.h5"
    with h5py.File(path, "w") as file:
        for name, data in arrays.items():
            file[name] = np.zeros(data, "<u2") if isinstance(data, tuple) else data
        for name, said in (attrs or {}).items():
            (file.require_group(name) if name.strip("/") not in arrays else file[name]).attrs.update(said)
    return path


MOTOR = {"entry/data/motor": LONG, "entry/data/counts": IMAGE}


@pytest.mark.parametrize(
    ("arrays", "attrs", "expected"),
    [
        pytest.param(
            MOTOR, {"entry": NXENTRY, "entry/data": NXDATA | {"signal": "counts"}}, "entry/data/counts", id="signal"
        ),
        pytest.param(
            MOTOR,
            {"entry": NXENTRY, "entry/data": NXDATA, "entry/data/counts": {"signal": "1"}},
            "entry/data/counts",
            id="the signal of an older file",
        ),
        pytest.param(
            MOTOR,
            {"entry": NXENTRY, "entry/data": NXDATA, "entry/data/counts": {"signal": np.array([1])}},
            "entry/data/counts",
            id="the signal as an array",
        ),
        pytest.param(
            {"a/data/data": CUBE, "b/first/s": IMAGE, "b/second/s": LONG},
            {
                "/": {"default": "b"},
                "a": NXENTRY,
                "b": NXENTRY | {"default": "first"},
                "a/data": NXDATA | {"signal": "data"},
                "b/first": NXDATA | {"signal": "s"},
                "b/second": NXDATA | {"signal": "s"},
            },
            "b/first/s",
            id="default",
        ),
        pytest.param(
            {"a/data/data": CUBE, "b/x/s": IMAGE, "a/instrument/detector/big": (9, 9, 9)},
            {"/": {"default": "/b/x"}, "a": NXENTRY, "b": NXENTRY, "b/x": NXDATA | {"signal": "s"}},
            "b/x/s",
            id="default as a path",
        ),
        pytest.param(
            {"a/data/s": IMAGE, "b/data/s": CUBE, "c": (9, 9, 9)},
            {
                "a": NXENTRY,
                "b": NXENTRY,
                "a/data": NXDATA | {"signal": "s"},
                "b/data": NXDATA | {"signal": b"s"},
            },
            "b/data/s",
            id="several entries",
        ),
        pytest.param(
            {"entry/data/data": IMAGE, "entry/instrument/detector/detectorSpecific/flatfield": (9, 9)},
            {"entry": NXENTRY, "entry/data": NXDATA},
            "entry/data/data",
            id="an NXdata group that names no signal",
        ),
        pytest.param(
            {"entry/instrument/det/data": IMAGE, "entry/sample/positions": LONG},
            {"entry": NXENTRY, "entry/instrument/det": NXDETECTOR},
            "entry/instrument/det/data",
            id="a detector without NXdata",
        ),
        pytest.param(
            {"entry/data/data_000001": CUBE, "entry/data/data_000002": CUBE, "entry/positions": (999,)},
            {"entry": NXENTRY, "entry/data": NXDATA | {"signal": "data_000001"}},
            "entry/data/data",
            id="numbered pieces of one array",
        ),
        pytest.param(
            {"entry/data/data_000001": IMAGE, "entry/instrument/detector/detectorSpecific/pixel_mask": (30, 40)},
            None,
            "entry/data/data_000001",
            id="Dectris without attributes",
        ),
        pytest.param(
            {"x/data": (3,), "x/dim1": np.zeros(9), "y/realslice": (2,), "y/dim1": np.zeros(9)},
            {"x": {"emd_group_type": 1}, "y": {"emd_group_type": 1}},
            "x/data",
            id="EMD",
        ),
        pytest.param(
            {"r/cube/data": IMAGE, "r/cube/dim0": LONG, "r/probe/data": (9, 9), "r/metadatabundle/c/qx0": (20, 20)},
            {
                "r/cube": {"emd_group_type": "array", "python_class": "DataCube"},
                "r/probe": {"emd_group_type": "array", "python_class": "Probe"},
            },
            "r/cube/data",
            id="py4DSTEM",
        ),
        pytest.param(
            {
                "Experiments/a/data": (2,),
                "Experiments/b/data": IMAGE,
                "Experiments/b/learning_results/factors": CUBE,
                "Experiments/b/original_metadata/x": (9, 9, 9),
            },
            None,
            "Experiments/b/data",
            id="hspy",
        ),
        pytest.param(
            {"Scan 1/EBSD/Data/Pattern": CUBE, "Scan 1/EBSD/Header/Schematic": (9, 9, 3), "Scan 1/EBSD/Data/CI": LONG},
            None,
            "Scan 1/EBSD/Data/Pattern",
            id="EBSD",
        ),
        pytest.param(
            {"exchange/data": IMAGE, "exchange/data_white": CUBE, "exchange/theta": LONG},
            None,
            "exchange/data",
            id="APS",
        ),
        pytest.param(
            {"cxi_version": np.int32(160), "entry_1/data_1/data": IMAGE, "entry_1/instrument_1/mask": CUBE},
            None,
            "entry_1/data_1/data",
            id="CXI",
        ),
        pytest.param(
            {"temperature": IMAGE, "time": LONG},
            {"time": {"CLASS": "DIMENSION_SCALE"}},
            "temperature",
            id="netCDF",
        ),
        pytest.param({"Thumbnail/Data": CUBE, "DataSet/Data": IMAGE}, None, "DataSet/Data", id="a thumbnail"),
        pytest.param(
            {"time": (3,), "x": LONG}, {n: {"CLASS": "DIMENSION_SCALE"} for n in ("time", "x")}, "x", id="all"
        ),
        pytest.param({"a": IMAGE, "b": CUBE}, None, "b", id="no convention"),
        pytest.param(
            {"e/d/s": IMAGE, "big": CUBE},
            {"/": {"default": "nowhere"}, "e": NXENTRY, "e/d": NXDATA | {"signal": "s"}},
            "e/d/s",
            id="a default that leads nowhere",
        ),
        pytest.param(
            {"e/d/s": IMAGE, "e/d/big": CUBE},
            {"e": NXENTRY, "e/d": NXDATA | {"signal": "gone"}},
            "e/d/big",
            id="a signal that is not there",
        ),
    ],
)
def test_the_array_of_the_convention_opens(
    tmp_path: Path, arrays: Mapping[str, Any], attrs: Mapping[str, Mapping[str, Any]] | None, expected: str
) -> None:
    group = vfs.open_group(hdf5(tmp_path, arrays, attrs))
    assert set_of(group).tree.main == next(iter(group)) == expected


def test_a_lost_file_counts_only_where_it_would_be_shown_first(tmp_path: Path) -> None:
    path = hdf5(tmp_path, MOTOR, {"entry": NXENTRY, "entry/data": NXDATA | {"signal": "counts"}})
    with h5py.File(path, "r+") as file:
        file["entry/more"] = h5py.ExternalLink("lost.h5", "data")
    with pytest.warns(vfs.IncompleteWarning, match=r"lost\.h5"):
        assert vfs.open(path).shape == IMAGE
    with h5py.File(path, "r+") as file:
        file["entry/data"].attrs["signal"] = "lost"
        file["entry/data/lost"] = h5py.ExternalLink("lost.h5", "data")
    with pytest.raises(vfs.MissingSourceError, match=r"lost\.h5"):
        vfs.open(path)


# Velox

HALF = [("realFloatHalfEven", "<f4"), ("imagFloatHalfEven", "<f4")]


def velox(folder: Path, arrays: Mapping[str, Any], texts: Mapping[str, Any] | None = None, **said: Any) -> Path:
    """Write arrays `KIND/ID` as Velox does, each with its metadata, and texts of JSON."""
    made: dict[str, Any] = {}
    for name, data in arrays.items():
        result = said.get(name, {"DetectorIndex": "0", "Detector": "HAADF"})
        text = result if isinstance(result, bytes) else json.dumps({"BinaryResult": result}).encode()
        made[f"Data/{name}/Data"] = np.zeros(data, "<u2") if isinstance(data, tuple) else data
        made[f"Data/{name}/Metadata"] = np.frombuffer(text.ljust(9000, b"\0"), np.uint8)[:, None]
        made[f"Data/{name}/FrameLookupTable"] = np.arange(5000)
    path = hdf5(folder, made)
    with h5py.File(path, "r+") as file:
        for name, value in (texts or {}).items():
            file[name] = np.array([json.dumps(value).encode()], h5py.string_dtype())
    return path


def shown(label: str, image: str, priority: str) -> dict[str, Any]:
    return {"display": {"label": label, "priority": priority}, "dataPath": f"/Data/Image/{image}"}


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"Image/a": (9, 9, 1), "SpectrumStream/b": (5000, 1), "SpectrumImage/c": (9000, 1)}, "Image/a"),
        ({"Image/a": (2, 3, 1), "Image/b": (4, 4, 2), "Spectrum/c": (4096, 1)}, "Image/b"),
        ({"Spectrum/c": (64, 1), "Spectrum/d": (64, 5), "SpectrumStream/b": (5000, 1)}, "Spectrum/d"),
        ({"Image/a": (9, 9, 1), "EelsSpectrumImage/e": (9, 9, 64)}, "EelsSpectrumImage/e"),
        ({"Image/a": (9, 9, 1), "Image/f": np.zeros((9, 5, 1), HALF)}, "Image/a"),
        ({"Image/f": np.zeros((9, 5, 1), HALF)}, "Image/f"),
        ({"Image/a": (9, 9, 1), "Image/d": np.zeros((9, 9, 1), "<c8")}, "Image/d"),
    ],
)
def test_velox_opens_as_what_was_measured(tmp_path: Path, arrays: Mapping[str, Any], expected: str) -> None:
    assert set_of(vfs.open_group(velox(tmp_path, arrays))).tree.main == f"Data/{expected}/Data"


def test_metadata_of_velox_that_is_no_json(tmp_path: Path) -> None:
    deep = b'{"a": ' * 300 + b"1" + b"}" * 300
    for text in (b"\xff" * 500, b"[]", b'{"BinaryResult": 3}', b"{" * 5000, deep):
        group = vfs.open_group(velox(tmp_path, {"Image/a": (2, 3, 1)}, **{"Image/a": text}))
        assert set_of(group).tree.main == "Data/Image/a/Data"
        assert set_of(group).main.dataset.label == ""
        assert group["Data/Image/a/Data"].attrs.get("metadata") == ({"BinaryResult": 3} if b"3" in text[:20] else None)


def test_a_file_of_streams_opens_as_a_group_only(tmp_path: Path) -> None:
    path = velox(tmp_path, {"SpectrumStream/b": (5000, 1), "SpectrumImage/c": (9000, 1)})
    with pytest.raises(vfs.FormatError, match="SpectrumStream/b/Data"):
        vfs.open(path)
    assert vfs.open(path, array="Data/SpectrumStream/b/Data").shape == (5000, 1)


def test_names_and_order_of_velox(tmp_path: Path) -> None:
    arrays = {"Image/a": (9, 9, 1), "Image/b": (4, 4, 1), "Image/c": (4, 4, 1), "Spectrum/s": (64, 1)}
    computed = {"Image/c": {"Detector": "SuperXG2"}, "Spectrum/s": {"DetectorIndex": "3", "Detector": "SuperXG21"}}
    old = {
        "Presentation/Displays/ImageDisplay/1": shown("DF%232", "a", "900"),
        "Presentation/Displays/ImageDisplay/2": shown("HAADF", "b", "1000"),
        "Presentation/Displays/ImageDisplay/3": shown("Ca", "c", "2000"),
        "Presentation/Displays/ImageDisplay/4": ["no object"],
    }
    new = {
        "Displays/ImageDisplay/1": {"title": "DF#2", "id": "1", "data": "/SharedProperties/ImageSeriesDataReference/r"},
        "Displays/ImageDisplay/2": {"title": "Colours"},
        "SharedProperties/ImageSeriesDataReference/r": {"dataPath": "/Data/Image/a"},
    }
    for texts, main, names in (
        (old, "b", ["DF#2", "HAADF", "Ca", "SuperXG21"]),
        (new, "a", ["DF#2", "HAADF", "SuperXG2", "SuperXG21"]),
    ):
        found = set_of(vfs.open_group(velox(tmp_path, arrays, texts, **computed)))
        assert found.tree.main == f"Data/Image/{main}/Data"
        assert [found.arrays[f"Data/{name}/Data"].dataset.label for name in arrays] == names
        assert found.arrays["Data/Spectrum/s/Data"].attrs["metadata"] == {"BinaryResult": computed["Spectrum/s"]}
        label = names["ab".index(main)]
        assert found.main.attrs["name"] == described("", found.main, True)["label"] == label
        assert f"Data/Image/{main}/Data ({label})" in "\n".join(as_text(found))
        assert not list(found.arrays)[-1].endswith("/Data")  # what is never shown first comes last


def test_metadata_of_hyperspy(tmp_path: Path) -> None:
    path = hdf5(tmp_path, {"Experiments/a/data": np.zeros((4, 5)), "Experiments/b/data": np.zeros((4, 5))})
    deep = "/".join("x" * 300)
    with h5py.File(path, "r+") as file:
        for name, attrs in {
            "metadata": {"title": "a"},
            "metadata/General/One": {"date": "2026", "numbers": [1, 2]},
            "metadata/title": {"of": "no dictionary"},
            "original_metadata": {"kV": 200.0},
            f"metadata/{deep}": {"y": 1},
        }.items():
            file.create_group(f"Experiments/a/{name}").attrs.update(attrs)
    group = vfs.open_group(path)
    assert group["Experiments/a/data"].attrs["metadata"] == {
        "title": "a",
        "General": {"One": {"date": "2026", "numbers": [1, 2]}},
    }
    assert group["Experiments/a/data"].attrs["original_metadata"] == {"kV": 200.0}
    assert "metadata" not in group["Experiments/b/data"].attrs


def test_a_group_takes_names_that_programs_gave(tmp_path: Path) -> None:
    group = vfs.open_group(write_velox(tmp_path / "a.emd"))
    assert group["HAADF"] is not group["HAADF (2)"]
    with h5py.File(tmp_path / "a.emd", "a") as file:
        del file["Data/Image/i1"]
    group = vfs.open_group(tmp_path / "a.emd")
    assert group["HAADF"] is group["Data/Image/i2/Data"]
    assert group[" HAADF "] is group["HAADF"]
    assert "HAADF" in group
    assert "HAADF" not in list(group)
    for other in ("", " ", "HAADF2", 5):
        with pytest.raises(vfs.UnknownArrayError):
            group[other]  # type: ignore[index]
    shown = repr(group)
    assert "  HAADF: uint16, y: 4, x: 5, frame: 2\n" in shown
    assert "Metadata" not in shown
    assert shown.endswith("more arrays>")
