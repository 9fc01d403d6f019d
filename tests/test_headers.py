"""What formats share: natural order, series of numbered files, XML that is safe to parse, shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

import vfs
from vfs.headers import expand, natural, nav_dims, numbered, parse_xml, read_at, shape_option


def test_natural_order() -> None:
    names = ["f_10.tif", "f_9.tif", "f_1.tif", "e_100.tif", "f_09.tif", "f.tif"]
    assert sorted(names, key=natural) == ["e_100.tif", "f.tif", "f_1.tif", "f_09.tif", "f_9.tif", "f_10.tif"]


def test_numbered_series(tmp_path: Path) -> None:
    for name in ("scan2.mib", "scan10.MIB", "scan1.mib", "scan_x.mib", "other3.mib", "scan3.mib.bak"):
        (tmp_path / name).touch()
    assert [(n, Path(p).name) for n, p in numbered(str(tmp_path / "scan"), ".mib")] == [(1, "scan1.mib"), (2, "scan2.mib"), (10, "scan10.MIB")]
    (tmp_path / "scan01.mib").touch()
    with pytest.raises(vfs.FormatError, match="same number"):
        numbered(str(tmp_path / "scan"), ".mib")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_xml_that_declares_entities_is_refused_in_every_encoding(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE r [<!ENTITY a "aaaa">]><r>&a;</r>'
    with pytest.raises(vfs.FormatError, match="entities"):
        parse_xml(text.encode(encoding), "x.xml")


def test_xml() -> None:
    assert parse_xml("<r><a>µ</a></r>".encode(), "x.xml").findtext("a") == "µ"
    with pytest.raises(vfs.FormatError, match=r"x\.xml"):
        parse_xml(b"<r>", "x.xml")


def test_expand(tmp_path: Path) -> None:
    for n in (1, 2, 10):
        (tmp_path / f"f{n}.raw").touch()
    (tmp_path / "odd[1].raw").touch()
    assert [Path(p).name for p in expand(tmp_path / "f*.raw")] == ["f1.raw", "f2.raw", "f10.raw"]
    assert [Path(p).name for p in expand(str(tmp_path / "odd[1].raw"))] == ["odd[1].raw"]
    assert expand(["b", "a"]) == ["b", "a"]
    with pytest.raises(vfs.MissingSourceError, match="no file matches"):
        expand(str(tmp_path / "g*.raw"))
    with pytest.raises(vfs.OptionError, match="no file given"):
        expand([])


def test_read_at(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    assert read_at(str(path), 3, 4) == b"456"
    assert read_at(str(path), 30, 4, short_ok=True) == b"456789"
    with pytest.raises(vfs.TruncatedSourceError, match="looks truncated"):
        read_at(str(path), 30, 4)
    with pytest.raises(vfs.SourceError, match="cannot be read"):
        read_at(str(tmp_path), 3)


def test_shapes_and_names_of_axes() -> None:
    assert shape_option("256,128", "s") == shape_option("256x128", "s") == shape_option((256, 128), "s") == (256, 128)
    assert shape_option(7, "s") == (7,)
    for wrong in ("", "0,3", "-1", "4,x", (), "4..5"):
        with pytest.raises(vfs.OptionError, match="s="):
            shape_option(wrong, "s")
    assert [nav_dims(n) for n in range(4)] == [(), ("frame",), ("scan_y", "scan_x"), ("t", "scan_y", "scan_x")]
    assert len(set(nav_dims(6))) == 6
