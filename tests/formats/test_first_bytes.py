"""A format that is not asked about a file does not claim it: `vfs.formats.first_bytes`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import SHARED
from tests.fuzz import writers
from vfs.formats import FIRST_BYTES, Format, detect, formats
from vfs.formats.first_bytes import may_be
from vfs.sources.boundary import ANYWHERE
from vfs.sources.local import LocalSources
from vfs.sources.packed import bare

SOURCES = LocalSources(ANYWHERE)
WORDS = [
    *(mark for kind in formats().values() for mark in kind.first_bytes),
    *(
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b" \r\n",
        b"\t",
        b"\0",
        b"<",
        b"{",
        b"HDR,",
        b"\x89HDF\r\n\x1a\n",
        b"II*\0",
        b"MM\0*",
    ),
    *(b"[NORDIF]\t", b"SIMPLE  =" + b" " * 20 + b"T", b'"vfs": 1', b"HEADER_ID = EH:1; Dim_1 = 4; ByteOrder =", b"}"),
    *(b"<root>", b"<raw_file", b"[measurementInfo]", b"\0\4\x40\0\1\0\0\6", b"\0\0\0\3", b"\0\0\0\4", b"\0\0\0\1"),
    *(b'xmlns="http://www.openmicroscopy.org"><OME ', '<x:OME a="openmicroscopy.org"'.encode("utf-16-le")),
    *('<LMSDataContainerHeader a="">'.encode("utf-16-le"), b"<LMSDataContainerHeader", b"x\0\0\0\x40\0\0\0*"),
    *(b"data-length\t4\n", b"record-by\tvector\r", b"Detector Type", b"Frame Padding", b"\xfb" + b"\xff" * 7),
    *(b"\xff\xff\0U", b"\xda\xce\xbe\n", b"JK\0\2", b"\0\1\0\0\2\0\0\0", b"MAP ", b"\xd2\4\0\0", b"R-AXIS", bytes(512)),
    *(bytes(208), bytes(1024), b"\x67\x45\x23\1", b"\3\0\0\0", b"\x1f\x8b\x08\0", b"BZh9"),
]
NAMES = sorted({f"a{ending}" for kind in formats().values() for ending in kind.extensions})
NAMES += ["Pattern.dat", "scan_x4_y4.raw", "NDTiff.index", "a_001.tvips", "a.seq.metadata", "a_master_1.json", "a"]


def asked_and_claiming(path: Path) -> tuple[list[Format], list[str]]:
    """The formats that are asked about a file, and the names of those that claim it."""
    with path.open("rb") as file:
        head = file.read(FIRST_BYTES)
    kinds = [*formats().values()]
    asked = [kind for kind in kinds if may_be(kind.name, bare(str(path)).lower(), head)]
    return asked, [kind.name for kind in kinds if kind.claims(str(path), head, SOURCES)]


def check_each_in(folder: Path) -> None:
    files = [Path(root) / file for root, _, names in os.walk(folder) for file in names]
    for path in files:
        asked, claiming = asked_and_claiming(path)
        assert {*claiming} <= {kind.name for kind in asked}, path
        assert len(asked) < 8, path  # others are not imported
    assert files


@pytest.mark.parametrize("name", [name for name in writers() if not name.startswith("real ")])
def test_files_of_all_formats_are_asked_about(name: str, tmp_path: Path) -> None:
    writers()[name](tmp_path)
    check_each_in(tmp_path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no real files here")
def test_real_files_are_asked_about() -> None:
    check_each_in(SHARED)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.sampled_from(WORDS) | st.binary(max_size=24), min_size=1, max_size=8), name=st.sampled_from(NAMES)
)
def test_no_format_claims_what_it_is_not_asked_about(words: list[bytes], name: str, tmp_path: Path) -> None:
    for length in (0, FIRST_BYTES):
        (tmp_path / name).write_bytes(b"".join(words).ljust(length, words[-1][-1:] or b"\0"))
        asked, claiming = asked_and_claiming(tmp_path / name)
        assert {*claiming} <= {kind.name for kind in asked}


def test_each_format_of_vfs_has_a_row(tmp_path: Path) -> None:
    ours = [name for name, kind in formats().items() if kind.open.__module__.partition(".")[0] == "vfs"]
    asked_of_all = [name for name in ours if may_be(name, "a", b"\1\2\3\4\5\6\7\10")]
    assert not asked_of_all, "vfs/formats/first_bytes.py: a row for each"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY")
    assert detect(SOURCES, str(tmp_path / "a.npy")).name == "npy"
