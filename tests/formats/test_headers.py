"""Help for reading headers: what is found and in which order, what is refused, and that no header
takes memory for what is not there.
"""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy

import vfs
from vfs.errors import FormatError, MissingSourceError, OptionError, SourceError, TruncatedSourceError
from vfs.formats.headers import (
    fields,
    npy_header,
    numbered,
    parse_xml,
    read_at,
    read_side_file,
)
from vfs.model.name_order import natural
from vfs.model.options import shape_option
from vfs.model.stored import nav_dims
from vfs.sources.globs import expand
from vfs.sources.local import LocalSources
from vfs.testing.writers import write_npy


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["frame_2", "frame_10", "frame_1", "Frame_1", "frame_01", "frame", "10", "9", "a1b2", "a1b10", "a²", ""]
    assert sorted(names, key=natural) == [
        "",
        "9",
        "10",
        "a1b2",
        "a1b10",
        "a²",
        "frame",
        "Frame_1",
        "frame_01",
        "frame_1",
        "frame_2",
        "frame_10",
    ]


@given(st.lists(st.text("ab01９٣_.", max_size=6)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    ordered = sorted(names, key=natural)
    assert sorted(ordered) == sorted(names)
    backwards = names[::-1]
    backwards.sort(key=natural)
    assert backwards == ordered


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(range(100)))
    return str(path)


@given(st.integers(0, 120), st.integers(0, 120))
def test_bytes_at(tmp_path_factory: pytest.TempPathFactory, size: int, offset: int) -> None:
    path = tmp_path_factory.getbasetemp() / "hundred.bin"
    path.write_bytes(bytes(range(100)))
    there = bytes(range(100))[offset : offset + size]
    assert read_at(LocalSources(), str(path), size, offset, short_ok=True) == there
    if len(there) == size:
        assert read_at(LocalSources(), str(path), size, offset) == there
    else:
        with pytest.raises(
            TruncatedSourceError,
            match=rf"hundred.bin: expected {size} bytes of header at byte {offset}, found {len(there)}",
        ):
            read_at(LocalSources(), str(path), size, offset)


@pytest.mark.parametrize("size", [1, 1 << 40, 1 << 62, 1 << 80])
@pytest.mark.parametrize("offset", [101, 1 << 40, (1 << 64) - 1, 1 << 80, -1, -(1 << 70)])
def test_absurd_places_are_errors_without_memory(file: str, size: int, offset: int) -> None:
    tracemalloc.start()
    assert read_at(LocalSources(), file, size, offset, short_ok=True) == b""
    assert read_at(LocalSources(), file, size, 10, short_ok=True) == bytes(range(10, 100))[:size]
    with pytest.raises(TruncatedSourceError):
        read_at(LocalSources(), file, size, offset)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for act in (read_at, lambda sources, path, size: read_side_file(sources, path)):
        with pytest.raises(MissingSourceError, match="nothing: no such file"):
            act(LocalSources(), str(tmp_path / "nothing"), 4)
        with pytest.raises(SourceError, match="expected a file, found a folder"):
            act(LocalSources(), str(tmp_path), 4)


def test_side_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "side.xml"
    for content in (b"", b"text"):
        path.write_bytes(content)
        assert read_side_file(LocalSources(), str(path)) == content
    with path.open("wb") as huge:
        huge.truncate(1 << 40)
    with pytest.raises(FormatError, match=r"side.xml: expected a text file of at most"):
        read_side_file(LocalSources(), str(path))


def test_globs_are_in_natural_order_and_names_in_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("f10.bin", "f9.bin", "f1.bin", "what[1].bin", "sub/f2.bin"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    Path("f3.bin").mkdir()  # no file

    def there(*names: str) -> list[str]:
        return [f"{tmp_path}/{name}" for name in names]

    assert expand("f*.bin") == there("f1.bin", "f9.bin", "f10.bin")
    assert expand(["f9.bin", "f1.bin"]) == there("f9.bin", "f1.bin")
    assert expand(["f10.bin", "f?.bin", Path("f1.bin")]) == there("f10.bin", "f1.bin", "f9.bin", "f1.bin")
    assert expand("what[1].bin") == there("what[1].bin")  # a name, not a pattern, where there is such a file
    assert expand("**/f2.bin") == there("sub/f2.bin")
    assert expand("nothing.bin") == there("nothing.bin")  # whoever opens it says that it is missing
    with pytest.raises(MissingSourceError, match=r"x\*.bin: no file matches"):
        expand("x*.bin")
    with pytest.raises(OptionError, match="no file given"):
        expand([])


def test_names_of_navigation_axes() -> None:
    assert [nav_dims(n) for n in range(4)] == [(), ("frame",), ("scan_y", "scan_x"), ("t", "scan_y", "scan_x")]
    for n in range(10):
        assert len(set(nav_dims(n))) == len(nav_dims(n)) == n


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        *(
            ("256,256", (256, 256)),
            ("2x3", (2, 3)),
            ("(2, 3)", (2, 3)),
            ("(2,)", (2,)),
            ("7", (7,)),
            (7, (7,)),
            ([2, 3], (2, 3)),
            ((1,), (1,)),
        ),
        *((np.int64(4), (4,)), (np.array([2, 3]), (2, 3))),
    ],
)
def test_shapes(given: Any, shape: tuple[int, ...]) -> None:
    found = shape_option(given, "nav_shape")
    assert found == shape
    assert all(type(n) is int for n in found)


@pytest.mark.parametrize(
    "given",
    ["", "a", "1,,2", "1;2", "0", "-1,2", "1.5", 0, -1, 1.5, None, [], [1, None], [0.5], True, "9" * 5000, [[1, 2]]],
    ids=lambda g: repr(g)[:20],
)
def test_shapes_that_are_none(given: Any) -> None:
    with pytest.raises(OptionError, match="nav_shape="):
        shape_option(given, "nav_shape")


def test_numbered_series(tmp_path: Path) -> None:
    for name in ("s_2.bin", "s_10.BIN", "s_1.bin", "s_x.bin", "s_3.bin.bak", "t_4.bin", "s_.bin"):
        (tmp_path / name).touch()
    start = str(tmp_path / "s_")
    found = [(1, f"{start}1.bin"), (2, f"{start}2.bin"), (10, f"{start}10.BIN")]
    assert numbered(LocalSources(), start, ".bin") == found
    assert numbered(LocalSources(), str(tmp_path / "z"), ".bin") == []
    (tmp_path / "s_01.bin").touch()
    with pytest.raises(FormatError, match="same number in its series"):
        numbered(LocalSources(), start, ".bin")
    with pytest.raises(SourceError, match="nowhere: no such folder"):
        numbered(LocalSources(), str(tmp_path / "nowhere" / "s_"), ".bin")


def test_numbered_series_with_signs_in_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a(+.[1", "a(+.[²", "a(+.[1x", "a(+.[", "A(+.[2"):
        Path(name).touch()
    start = f"{tmp_path}/a(+.["
    assert numbered(LocalSources(), start, "") == [(1, f"{start}1")]
    assert numbered(LocalSources(), start, "X") == [(1, f"{start}1x")]
    assert numbered(LocalSources(), f"{start}1", "1x") == []  # of which one begins before the other ends


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<a>",
        b"<a/><b/>",
        b"\0\0",
        b'<?xml version="1.0" encoding="nonsense"?><a/>',
        b"<a>\xff</a>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
    ],
)
def test_xml_that_is_none(text: bytes) -> None:
    with pytest.raises(FormatError, match=r"side.xml: "):
        parse_xml(text, "side.xml")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_xml_that_declares_entities_is_refused_in_every_encoding(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE r [<!ENTITY a "aaaa">]><r>&a;</r>'
    with pytest.raises(FormatError, match="entities"):
        parse_xml(text.encode(encoding), "x.xml")


def test_xml_and_fields() -> None:
    assert parse_xml("<r><a>µ</a></r>".encode(), "x.xml").findtext("a") == "µ"
    assert parse_xml(b"<a x='1'><b/></a>", "side.xml").attrib == {"x": "1"}
    record = np.zeros((), [("name", "S8"), ("_reserved", "u4"), ("size", "<u2", 2), ("gain", ">f4")])[()]
    record["name"], record["size"], record["gain"] = b"ab \0cd", (3, 4), 1.5
    assert fields(record) == {"name": "ab", "size": [3, 4], "gain": 1.5}


@pytest.mark.parametrize(
    "dtype",
    [
        "<u2",
        ">u2",
        "|u1",
        "|b1",
        "|i1",
        "<f4",
        ">c8",
        "<c16",
        "<f2",
        ">i8",
        "|S3",
        "<M8[ns]",
        "<U2",
        "<f16",
        [("a", "<u2")],
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (1, 0, 4), (2,) * 12, (1,) * 32])
def test_npy_headers_are_what_numpy_says(dtype: Any, shape: tuple[int, ...]) -> None:
    for fortran in (False, True):
        stream = io.BytesIO()
        npy.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": fortran, "shape": shape})
        size = stream.tell()
        stream.write(b"numbers " * 100)
        for before in (b"", b"in an archive"):
            stream = io.BytesIO(before + stream.getvalue())
            stream.seek(len(before))
            assert npy_header(stream, 1 << 16) == (shape, fortran, np.dtype(dtype))
            assert stream.tell() == len(before) + size


@pytest.mark.parametrize(
    "change",
    [
        ("'shape'", "'shade'"),
        ("(2, 3), ", "(2, 03),"),
        ("(2, 3)", "(2 ,3)"),
        ("False", "Falso"),
        ("<u2", "<u3"),
        ("<u2", "<c4"),
        (", }", ", \n"),
        ("2, 3", "2, -"),
    ],
)
def test_garbled_npy_headers_are_numpys_business(change: tuple[str, str]) -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros((2, 3), "<u2"))
    data = stream.getvalue().replace(*(part.encode() for part in change))
    for cut in (data, data[:100]):
        try:
            with io.BytesIO(cut) as whole:
                assert npy.read_magic(whole) == (1, 0)
                expected: Any = npy.read_array_header_1_0(whole)
        except Exception as error:
            with pytest.raises(type(error)):
                npy_header(io.BytesIO(cut), 1 << 16)
        else:
            assert npy_header(io.BytesIO(cut), 1 << 16) == expected
    with pytest.raises(ValueError, match="large"):
        npy_header(stream := io.BytesIO(stream.getvalue()), 64)


def test_what_a_file_begins_with_is_read_once_until_its_set_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    name = str(path)
    path.write_bytes(bytes(range(100)))

    def grown(count: int) -> bytes:
        with path.open("ab") as file:
            file.write(bytes(count))
        return path.read_bytes()

    with LocalSources.around([name]) as sources:
        assert sources.read(name, 0, 64) == bytes(range(64))
        whole = grown(10)
        assert sources.state(name).size == 100
        assert read_at(sources, name, 10, 20) == whole[20:30]
        path.unlink()  # the file that was opened is read, whatever has its name now
        assert sources.read(name, 60, 40) == whole[60:100]
        assert sources.read(name, 60, 50) == whole[60:100]
        path.write_bytes(whole)
        with sources.opening() as others:  # another set
            assert others.state(name).size == 110
            assert others.read(name, 0, 200) == whole
            grown(10)
            assert others.read(name, 60, 200) == whole[60:]
            assert others.read(name, 200, 5) == others.read(name, -5, 5) == b""
            with pytest.raises(TruncatedSourceError, match="found 0"):
                read_at(others, name, 5, 200)
        assert sources.state(name).size == 100
    assert sources.state(name).size == 120
    assert len(sources.read(name, 0, 200)) == 120


def test_a_file_that_names_its_set_is_opened_once(tmp_path: Path) -> None:
    path = write_npy(tmp_path, np.zeros((4, 3, 2), "<u2"))
    opened: list[str] = []
    real = os.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            os, "open", lambda name, *how, **more: opened.append(os.path.basename(name)) or real(name, *how, **more)
        )
        vfs.open(path)
    assert opened.count(path.name) == 1


def test_a_npy_header_is_read_again_where_python_itself_stumbled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not as numpy writes it: numpy has to look at it
    text = b"{'fortran_order': False, 'descr': '>u2', 'shape': (2, 3)}".ljust(117) + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(12))
    real, calls = npy.read_array_header_1_0, []

    def stumbling(stream: Any, max_header_size: int) -> Any:
        calls.append(stream.read(4))
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=66, after=60)")
        stream.seek(-4, os.SEEK_CUR)
        return real(stream, max_header_size=max_header_size)

    monkeypatch.setattr(npy, "read_array_header_1_0", stumbling)
    with open(tmp_path / "a.npy", "rb") as file:
        assert npy_header(file, 1 << 16) == ((2, 3), False, np.dtype(">u2"))
        assert file.tell() == 128
    assert len(set(calls)) == 1
