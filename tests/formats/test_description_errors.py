"""Descriptions that are not what they should be: one clear line each, with file and place; no crash, no hang."""

from __future__ import annotations

import copy
import io
import json
import os
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

import vfs
from tests.formats.description_sets import columns, link, same, values, write, write_csv, write_npz
from vfs.errors import (
    DecodeError,
    FormatError,
    MissingSourceError,
    OutsideError,
    SourceError,
    TruncatedSourceError,
    VfsError,
)
from vfs.formats import description
from vfs.formats.description import tables
from vfs.model.stored import Saved, StoredArray
from vfs.testing.memory_sources import MemorySources

TWIN = values((4, 6, 8), "<u2")
BLOCKS = [{"file": 0, "offset": 96 * t, "origin": [t, 0, 0], "shape": [1, 6, 8]} for t in range(4)]
HEAD: dict[str, Any] = {"vfs": 1, "dtype": "<u2", "shape": [4, 6, 8], "files": ["a.bin"]}
FRAMES = HEAD | {"frames": {}}
NO: Any = object()  # take the key away


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a.bin, the array as it is; z.bin, compressed; a.npy."""
    (tmp_path / "a.bin").write_bytes(TWIN.tobytes())
    (tmp_path / "z.bin").write_bytes(zlib.compress(TWIN.tobytes()))
    np.save(tmp_path / "a.npy", TWIN)
    return tmp_path


def refused(path: Path, match: str, kind: type[VfsError] = FormatError, **options: Any) -> str:
    """The message of the error that opening gives: it has one line and names the file."""
    with pytest.raises(kind, match=match) as caught:
        vfs.open(path, format="description", **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert type(caught.value) is kind
    return message


PATH = "memory://set/x.vfs.json"
BESIDE = {"a.bin": TWIN.tobytes(), "z.bin": zlib.compress(TWIN.tobytes()), "odd.bin": bytes(97)}


def asked(document: Any) -> list[StoredArray] | Saved:
    """What the schema makes of a document, or of its bytes, with files beside it in memory."""
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    files = {f"memory://set/{name}": data for name, data in BESIDE.items()}
    return description.open([PATH], MemorySources(files | {PATH: content}))


def no_schema(document: Any, match: str, kind: type[VfsError] = FormatError) -> None:
    """The schema refuses a document: see `refused`."""
    with pytest.raises(kind, match=match) as caught:
        asked(document)
    assert "\n" not in str(caught.value)
    assert PATH in str(caught.value)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("document", "match"),
    [
        (HEAD | {"blocks": BLOCKS, "dtype": "O"}, 'dtype: expected a dtype such as <u2.*found "O"'),
        (HEAD | {"frames": {"heder": 1}}, r"frames: the key \"heder\" is not known \(did you mean header\?\)"),
        ({"vfs": 1, "arrays": {}}, "arrays: expected at least one array"),
        ({"vfs": 1, "format": "raw", "files": []}, "files: expected at least one file"),
        ([1, 2], r"expected an object {…}, found \[1, 2\]"),
    ],
)
def test_what_the_schema_refuses_is_refused_by_every_door(folder: Path, document: Any, match: str) -> None:
    """All other refusals of documents are asked of the schema itself."""
    refused(write(folder, document), match)


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with members replaced; a name with dots and numbers leads further in: "blocks.1.shape"."""
    made = copy.deepcopy(document)
    for place, value in changes.items():
        at: Any = made
        *way, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
        for part in way:
            at = at[part]
        if value is NO:
            del at[last]
        else:
            at[last] = value
    return made


BAD_ARRAYS: list[tuple[dict[str, Any], str]] = [
    ({"vfs": NO}, "the key 'vfs' is missing"),
    ({"vfs": 2}, "vfs: version 2 of descriptions is not known"),
    ({"vfs": True}, "vfs: expected a whole number"),
    ({"vfs": "1"}, 'vfs: expected a whole number.*found "1"'),
    ({"frames": {}}, "expected one of blocks, table, frames, format, arrays; found blocks and frames"),
    ({"blocks": NO}, "found none"),
    ({"blocks": {}}, "blocks: expected a list of blocks, found an empty object"),
    ({"blocks": None}, "blocks: expected a list of blocks, found null"),
    ({"dtypes": "<u2"}, r"the key \"dtypes\" is not known \(did you mean dtype\?\)"),
    ({"companion": True}, 'the key "companion" is not known'),
    ({"header": 1}, 'the key "header" is not known'),
    ({"dtype": NO}, "the key 'dtype' is missing"),
    ({"dtype": "O"}, 'dtype: expected a dtype such as <u2.*found "O"'),
    ({"dtype": "<u3"}, "dtype: expected a dtype"),
    ({"dtype": "float128"}, "dtype: expected a dtype"),
    ({"dtype": 7}, "dtype: expected a text, found 7"),
    ({"shape": NO}, "the key 'shape' is missing"),
    ({"shape": []}, r"blocks\[0\].origin: expected a list of 0 whole numbers, found \[0, 0, 0\]"),
    ({"shape": [1] * 33}, "shape: expected at most 32 axes, found 33"),
    ({"shape": [4, -1, 8]}, r"shape\[1\]: expected a whole number.*found -1"),
    ({"shape": [4, 6.0, 8]}, r"shape\[1\]: expected a whole number.*found 6.0"),
    ({"shape": [4, True, 8]}, r"shape\[1\]: expected a whole number.*found true"),
    ({"shape": [4, float("nan"), 8]}, r"shape\[1\]: expected a whole number.*found nan"),
    (
        {"shape": [2**63, 6, 8]},
        r"shape\[0\]: expected a whole number of at most 63 bits, 0 or more, found 9223372036854775808",
    ),
    (
        {"shape": [2**32, 2**30, 8]},
        r"shape: an array of \[4294967296, 1073741824, 8\] uint16 has more than 2\^63 bytes",
    ),
    ({"shape": "4,6,8"}, "shape: expected a list of whole numbers"),
    ({"shape": {"a": 1}}, "shape: expected a list of whole numbers, found an object"),
    ({"dims": ["a", "b"]}, "dims: expected 3 names, as many as `shape` has axes, found 2"),
    ({"dims": ["a", "b", "a"]}, r"dims\[2\]: two axes are called 'a'"),
    ({"dims": ["a", "b", ""]}, r"dims\[2\]: expected a text"),
    ({"dims": ["a", "b", "\ud800"]}, r"dims\[2\]: expected a text"),
    ({"sig_ndim": 4}, "sig_ndim: expected a whole number from 0 to 3, found 4"),
    ({"fill_value": 65536}, "fill_value: expected a whole number from 0 to 65,535, found 65536"),
    ({"fill_value": "NaN"}, "fill_value: expected a whole number"),
    ({"dtype": "<f4", "fill_value": "nan"}, 'fill_value: expected a number, "NaN"'),
    ({"dtype": "<f4", "fill_value": 1e39}, "fill_value: expected a number that float32 can hold, found 1e\\+39"),
    ({"dtype": "<f2", "fill_value": 65536}, "fill_value: expected a number that float16 can hold, found 65536"),
    ({"dtype": "<c8", "fill_value": [1, 2, 3]}, "fill_value: expected a number or"),
    ({"dtype": "bool", "fill_value": 1}, "fill_value: expected true or false"),
    ({"attributes": []}, "attributes: expected an object"),
    ({"attributes": {"a": {"\udc00": 1}}}, r"attributes.a: the key \"\\udc00\" cannot be written as UTF-8"),
    ({"conventions": {"_ARRAY_DIMENSIONS": []}}, "conventions: the attribute '_ARRAY_DIMENSIONS' is written by vfs"),
    ({"files": NO}, "the key 'files' is missing"),
    ({"files": []}, "files: expected at least one file"),
    ({"files": "a.bin"}, r"files: expected a list \[…\]"),
    ({"files": [1]}, r"files\[0\]: expected a text, found 1"),
    ({"files": ["a\0b"]}, r"files\[0\]: expected the name of a file"),
    ({"files": ["a.bin", "/etc/hostname"]}, r"files\[1\]: '/etc/hostname' leaves the folder.*follow_outside=True"),
    ({"files": ["../a.bin"]}, r"files\[0\]: '../a.bin' leaves the folder"),
    ({"files": ["x/../../a.bin"]}, r"files\[0\]: .* leaves the folder"),
    ({"blocks.1": 5}, r"blocks\[1\]: expected an object"),
    ({"blocks.1.shap": [1]}, r"blocks\[1\]: the key \"shap\" is not known \(did you mean shape\?\)"),
    ({"blocks.2.shape": NO}, r"blocks\[2\]: the key 'shape' is missing"),
    ({"blocks.2.shape": [1, 6]}, r"blocks\[2\].shape: expected a list of 3 whole numbers, found \[1, 6\]"),
    ({"blocks.2.shape": [1, 6, "8"]}, r"blocks\[2\].shape\[2\]: expected a whole number.*found \"8\""),
    (
        {"blocks.2.shape": [1, 6, 0]},
        r"blocks\[2\].shape: expected 1 element or more along every axis, found \[1, 6, 0\]",
    ),
    (
        {"blocks.2.shape": [1, 6, 2**63 - 1]},
        (
            r"blocks\[2\].shape: a block at \[2, 0, 0\] of shape \[1, 6, 9223372036854775807\] does not fit into an"
            r" array of \[4, 6, 8\]"
        ),
    ),
    (
        {"blocks.3.origin": [4, 0, 0]},
        r"blocks\[3\].shape: a block at \[4, 0, 0\] of shape \[1, 6, 8\] does not fit into an array",
    ),
    ({"blocks.3.origin": [2**63, 0, 0]}, r"blocks\[3\].origin\[0\]: expected a whole number"),
    (
        {"blocks.3.origin": [-1, 0, 0]},
        r"blocks\[3\].origin: expected elements from the start of the array, 0 or more, found \[-1, 0, 0\]",
    ),
    ({"blocks.3.origin": "abc"}, r"blocks\[3\].origin: expected a list of 3 whole numbers, found \"abc\""),
    (
        {"blocks.3.origin": [2, 0, 0]},
        r"blocks: blocks 2 and 3 overlap: at \[2, 0, 0\] of shape \[1, 6, 8\] and at \[2, 0, 0\]",
    ),
    ({"blocks.0.file": 1}, r"blocks\[0\].file: there are 1 files, counted from 0; found 1"),
    ({"blocks.0.file": -1}, r"blocks\[0\].file: there are 1 files, counted from 0; found -1"),
    ({"blocks.0.file": "a.bin"}, r"blocks\[0\].file: expected a whole number.*found \"a.bin\""),
    ({"blocks.0.offset": -1}, r"blocks\[0\].offset: expected a number of bytes, 0 or more, found -1"),
    ({"blocks.0.offset": 1e3}, r"blocks\[0\].offset: expected a whole number.*found 1000.0"),
    ({"blocks.0.nbytes": 95}, r"blocks\[0\].nbytes: found 95, another size than plain uint16 of shape \[1, 6, 8\] has"),
    ({"blocks.0.nbytes": -5}, r"blocks\[0\].nbytes: expected a whole number"),
    ({"blocks.0.nbytes": None}, r"blocks\[0\].nbytes: expected a whole number.*found null"),
    ({"blocks.0.byte_order": "middle"}, r"blocks\[0\].byte_order: expected little or big, found \"middle\""),
    ({"blocks.0.byte_order": {}}, r"blocks\[0\].byte_order: expected little or big"),
    ({"blocks.0.codec": "zlib"}, r"blocks\[0\].codec: expected an object"),
    ({"blocks.0.codec": {"name": "zlib"}}, r"blocks\[0\].codec: expected a codec of numcodecs such as"),
    ({"blocks.0.codec": {"id": "zlip"}}, r"blocks\[0\].codec: codec .*zlip.*: numcodecs cannot make it"),
    ({"blocks.0.codec": {"id": "pickle"}}, r"blocks\[0\].codec: codec .*pickle.*: makes Python objects"),
    (
        {"blocks.0.codec": [{"id": "zlib"}, {"id": "vlen-bytes"}]},
        r"blocks\[0\].codec\[1\]: codec .*vlen-bytes.*: makes Python objects",
    ),
    (
        {"blocks.0.codec": {"id": "zlib"}, "blocks.0.nbytes": 0},
        r"blocks\[0\].nbytes: expected a number of bytes, 1 or more, found 0",
    ),
    ({"codec": {"id": "zlip"}}, "codec: codec .*zlip.*numcodecs cannot make it"),
    ({"encodings": [{}]}, "encodings: encodings belong to a table"),
    ({"stored_shape": [1, 6]}, "stored_shape: expected a list of 3 whole numbers"),
    (
        {"stored_shape": [1, 5, 8]},
        r"blocks\[0\].shape: a block of shape \[1, 6, 8\] is larger than stored_shape \[1, 5, 8\]",
    ),
    ({"stored_shape": [2**40, 2**40, 8]}, r"stored_shape: a block of .* has more than 2\^63 bytes"),
]


@pytest.mark.parametrize(("changes", "match"), BAD_ARRAYS)
def test_bad_arrays_and_blocks(changes: dict[str, Any], match: str) -> None:
    document = changed(HEAD | {"blocks": BLOCKS}, changes)
    no_schema(document, match, OutsideError if "leaves the folder" in match else FormatError)


def test_the_arrays_and_blocks_that_are_changed_are_good(folder: Path) -> None:
    assert np.array_equal(vfs.open(write(folder, HEAD | {"blocks": BLOCKS}))[...], TWIN)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"blocks.3.offset": 289},
            r"blocks\[3\].offset: a block of 96 bytes at byte 289 reaches beyond the end of the file",
        ),
        ({"blocks.3.offset": 385}, r"blocks\[3\].offset: the file ends before byte 385; it looks truncated"),
        ({"blocks.3.offset": 2**63 - 1}, r"blocks\[3\].offset: the file ends before byte 9223372036854775807"),
        (
            {"blocks.3.codec": {"id": "zlib"}, "blocks.3.nbytes": 97},
            r"blocks\[3\].offset: a block of 97 bytes at byte 288 reaches beyond",
        ),
    ],
)
def test_blocks_beyond_the_end_of_a_file(folder: Path, changes: dict[str, Any], match: str) -> None:
    refused(write(folder, changed(HEAD | {"blocks": BLOCKS}, changes)), match, TruncatedSourceError)


@pytest.mark.parametrize(
    ("frames", "changes", "match", "kind"),
    [
        ([], {}, "frames: expected an object", FormatError),
        ({"headers": 1}, {}, r"frames: the key \"headers\" is not known \(did you mean header\?\)", FormatError),
        ({"header": -1}, {}, "frames.header: expected a whole number", FormatError),
        ({"footer": 2**63}, {}, "frames.footer: expected a whole number", FormatError),
        ({"first": "4"}, {}, r"frames.first: expected a whole number.*found \"4\"", FormatError),
        ({"first": [0, 0]}, {}, r"frames.first: expected a list of 1 whole numbers, found \[0, 0\]", FormatError),
        (
            {"first": 1},
            {},
            "shape: expected 4 frames, the files have 3; if fewer are stored than the shape has, say in frames.stored",
            TruncatedSourceError,
        ),
        ({"first": 1, "stored": 4}, {}, "frames.stored: expected 4 frames, the files have 3", TruncatedSourceError),
        ({"first": 385, "stored": -1}, {}, "frames.stored: expected a whole number", FormatError),
        ({"first": 385}, {}, "shape: expected 4 frames, the files have 0", FormatError),
        ({"per_file": 3}, {}, "shape: expected 4 frames, the files have 3", TruncatedSourceError),
        (
            {"per_file": [5]},
            {},
            r"frames.per_file\[0\]: .*a.bin: expected 5 frames of 96 bytes from byte 0 on, the file has room for 4",
            TruncatedSourceError,
        ),
        ({"per_file": [2**62]}, {}, "frames.per_file", FormatError),
        ({"first_frame": [2**62]}, {}, r"frames.first_frame\[0\]: expected a whole number", FormatError),
        ({"first_frame": [2**47]}, {"shape": [4, 600, 800]}, "frames: .*more than 2.63 bytes", FormatError),
        ({"file": [1]}, {}, r"frames.file\[0\]: expected a whole number from 0 to 0, found 1", FormatError),
        ({"file": [0, 0], "first_frame": [0, 3]}, {}, "frames: two files of the set hold the same frames", FormatError),
        ({"file": []}, {}, "shape: expected 4 frames, the files have 0", FormatError),
        ({"payload": 95}, {}, r"frames.payload: a frame of \[6, 8\] uint16 has 96 bytes, found 95", FormatError),
        ({"payload": 1}, {}, "frames.payload: expected a whole number from 2", FormatError),
        ({"running_on": 1}, {}, "frames.running_on: expected true or false, found 1", FormatError),
        ({"running_on": True, "per_file": 4}, {}, "frames.per_file: does not go with running_on", FormatError),
        ({"running_on": True}, {"files": ["odd.bin", "a.bin"]}, "frames: .*cannot run across this border", FormatError),
        ({"running_on": True, "first": 5}, {}, "shape: expected 4 frames, the files have 3", TruncatedSourceError),
        ({"sync_offset": 0.5}, {}, "frames.sync_offset: expected a whole number", FormatError),
        ({}, {"shape": [0, 6, 8]}, "shape: expected 1 element or more", FormatError),
        ({"pieces": []}, {}, "frames.pieces: expected 1 to 65,536 pieces, found 0", FormatError),
        (
            {"pieces": [{"origin": [0, 0], "shape": [6, 8], "strides": [8, 1]}]},
            {},
            r"frames.pieces\[0\]: the key 'first' is missing",
            FormatError,
        ),
        (
            {"pieces": [{"origin": [0, 0], "shape": [6, 8], "strides": [8, 1], "first": 1}]},
            {},
            r"frames.pieces\[0\]: reaches from element 1 to 48",
            FormatError,
        ),
        (
            {"pieces": [{"origin": [0, 0], "shape": [6, 8], "strides": [-8, 1], "first": 0}]},
            {},
            r"frames.pieces\[0\]: reaches from element -40",
            FormatError,
        ),
        (
            {"pieces": [{"origin": [1, 0], "shape": [6, 8], "strides": [8, 1], "first": 0}]},
            {},
            "frames.pieces: piece 0 .* does not fit a frame|fit an frame",
            FormatError,
        ),
        (
            {"pieces": [{"origin": [0, 0], "shape": [1, 8], "strides": [8, 1], "first": 0}] * 2},
            {},
            "frames.pieces: pieces 0 and 1 overlap",
            FormatError,
        ),
    ],
)
def test_bad_frames(folder: Path, frames: Any, changes: dict[str, Any], match: str, kind: type[VfsError]) -> None:
    document = HEAD | changes | {"frames": frames}
    if kind is TruncatedSourceError:  # the schema may go on with what is there; opening does not
        (folder / "odd.bin").write_bytes(BESIDE["odd.bin"])
        refused(write(folder, document), match, kind)
    else:
        no_schema(document, match, kind)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"arrays": []}, "arrays: expected an object"),
        ({"arrays": {}}, "arrays: expected at least one array"),
        ({"arrays": {"data": 1}}, "arrays.data: expected an object"),
        ({"arrays": {"data": {}}}, "arrays.data: expected one of blocks, table, frames; found none"),
        ({"arrays": {"data": {"format": "raw"}}}, "arrays.data: expected one of blocks, table, frames; found none"),
        ({"arrays.data.vfs": 1}, r"arrays.data: the key \"vfs\" is not known"),
        ({"arrays.data.companion": True}, "arrays: expected at least one array that is no companion"),
        ({"files": NO}, "arrays.data: the key 'files' is missing"),
        *(
            (
                {"arrays": {name: {"dtype": "u1", "shape": [1], "frames": {}}}},
                "expected a path such as data or entry/data",
            )
            for name in (
                "",
                "/data",
                "data/",
                "a//b",
                "..",
                "a/../b",
                ".zarray",
                "zarr.json",
                "a/c",
                "__x",
                "x" * 201,
                "a\nb",
                "\0",
            )
        ),
        (
            {"arrays.data/x": {"dtype": "|u1", "shape": [1], "frames": {}}},
            r"an array cannot lie within an array \(data\)",
        ),
    ],
)
def test_bad_sets_of_arrays(changes: dict[str, Any], match: str) -> None:
    document = {"vfs": 1, "files": ["a.bin"], "arrays": {"data": {"dtype": "<u2", "shape": [4, 6, 8], "frames": {}}}}
    no_schema(changed(document, changes), match)


@pytest.mark.parametrize(
    ("changes", "match", "kind"),
    [
        ({"format": "rwa"}, "format: no format is called 'rwa' .did you mean raw", FormatError),
        ({"format": None}, "format: expected a text", FormatError),
        ({"files": NO}, "the key 'files' is missing", FormatError),
        ({"files": []}, "files: expected at least one file", FormatError),
        ({"files": ["b.bin"]}, r"files\[0\]: .*b.bin: no such file", MissingSourceError),
        ({"files": ["../a.bin"]}, r"files\[0\]: .* leaves the folder", OutsideError),
        ({"shape": [1]}, 'the key "shape" is not known', FormatError),
        ({"options": []}, "options: expected an object", FormatError),
        (
            {"options.sig_shap": 1},
            r"options.sig_shap: format raw has no option 'sig_shap' \(did you mean sig_shape\?\)",
            FormatError,
        ),
        (
            {"options.file_header": "4"},
            'options.file_header: expected what the option takes .a whole number., found "4"',
            FormatError,
        ),
        (
            {"options.file_header": True},
            "options.file_header: expected what the option takes .a whole number., found true",
            FormatError,
        ),
        ({"options.running_on": 1}, "options.running_on: expected what the option takes", FormatError),
        ({"options.sig_shape": {"y": 6}}, "options.sig_shape: expected what the option takes", FormatError),
        ({"options.sync_offset": 1.5}, "options.sync_offset: expected a whole number", FormatError),
        ({"options.nav_shape": [2, None]}, r"options.nav_shape\[1\]: expected a whole number", FormatError),
        ({"options.roi": [[1], [2, 3]]}, "options.roi: expected numbers in rows of equal length", FormatError),
        ({"options.roi": ["a"]}, "options.roi: expected a list of at most", FormatError),
        ({"options.roi": "roi.npy"}, r"options.roi: .*roi.npy: no such file", MissingSourceError),
        ({"options.dark": "../dark.npy"}, "options.dark: .* leaves the folder", OutsideError),
        ({"options.dtype": 2}, "options.dtype: expected a text", FormatError),
        ({"options.sig_shape": "6,x"}, "sig_shape='6,x'", vfs.OptionError),
        ({"options.nav_shape": [0]}, "nav_shape", vfs.OptionError),
        (
            {"options.file_header": 2**62},
            "file_header=4611686018427387904: expected a number of bytes",
            vfs.OptionError,
        ),
        (
            {"options.sig_shape": [2**40, 2**30]},
            "has more bytes than any file",
            vfs.OptionError,
        ),
        ({"options.chunks": [1, 2]}, "chunks", vfs.OptionError),
        ({"options.array": "x"}, "no array 'x'", vfs.UnknownArrayError),
    ],
)
def test_bad_saved_sets(folder: Path, changes: dict[str, Any], match: str, kind: type[VfsError]) -> None:
    document = {"vfs": 1, "format": "raw", "files": ["a.bin"], "options": {"stored_dtype": "<u2", "sig_shape": [6, 8]}}
    path = write(folder, changed(document, changes))
    if kind is vfs.UnknownArrayError:  # what the inner set says of itself
        with pytest.raises(kind, match=match):
            vfs.open(path)
    else:
        refused(path, match, kind)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "expected JSON: .* at line 1, column 1"),
        (b"{", "expected JSON: .* at line 1, column 2"),
        (b'{"vfs": 1,\n "dtype": }', "expected JSON: .* at line 2, column 11"),
        (b'{"vfs": 1} {}', "expected JSON: .* at line 1, column 12"),
        (b'{"vfs": 1, "dtype": "\xff"}', "expected JSON in UTF-8, byte 21 is 0xff"),
        (b"[1, 2]", r"expected an object {…}, found \[1, 2\]"),
        (b"null", "expected an object {…}, found null"),
        (b'{"vfs": 1, "vfs": 1, "blocks": []}', r'the key "vfs" is given twice'),
        (
            json.dumps(HEAD | {"frames": {}})[:-1].encode() + b', "attributes": {"a": {"b": 1, "b": 2}}}',
            r'attributes.a: the key "b" is given twice',
        ),
        (b'{"vfs": ' + b"9" * 5000 + b"}", "numbers of at most 64 bits"),
        (b'{"vfs": ' + b"[" * 40 + b"]" * 40 + b"}", "expected at most 32 levels of nesting"),
        (b'{"vfs": ' + b"[" * 500_000 + b"]" * 500_000 + b"}", "expected at most 32 levels of nesting"),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "expected at most 32 levels of nesting"),
    ],
)
def test_bad_json(content: bytes, match: str) -> None:
    no_schema(content, match)


def test_a_huge_document(folder: Path) -> None:
    path = folder / "x.vfs.json"
    path.write_bytes(b'{"vfs": 1, "blocks": [' + b" " * (100 << 20) + b"]}")
    tracemalloc.start()
    refused(path, r"has 104,857,\d+ bytes, expected at most 16,777,216; put many blocks into a table")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_no_file_and_no_description(folder: Path) -> None:
    refused(folder / "missing.vfs.json", "no such file", MissingSourceError)
    (folder / "d.vfs.json").mkdir()
    refused(folder / "d.vfs.json", "expected a file, found a folder", SourceError)
    os.mkfifo(folder / "f.vfs.json")
    refused(folder / "f.vfs.json", "expected a file, found something else", SourceError)


# files


def test_files_that_are_not_there(folder: Path) -> None:
    message = refused(
        write(folder, FRAMES | {"files": ["a.bin", "sub/b.bin"]}),
        r"files\[1\]: .*sub/b.bin: no such file",
        MissingSourceError,
    )
    assert message.startswith(str(folder / "x.vfs.json"))
    refused(
        write(folder, FRAMES | {"files": ["a.bin/b"]}), r"files\[0\]: .*cannot be opened: Not a directory", SourceError
    )
    refused(
        write(folder, FRAMES | {"files": ["x" * 300]}),
        r"files\[0\]: .*cannot be opened: File name too long",
        SourceError,
    )
    refused(write(folder, FRAMES | {"files": ["."]}), r"files\[0\]: .*expected a file", SourceError)


def test_long_names_are_told_short(folder: Path) -> None:
    long = "é" * 100_000
    documents = [
        FRAMES | {"files": [long]},
        FRAMES | {long: 1},
        FRAMES | {"dtype": long},
        FRAMES | {"attributes": {long: "\ud800", "\ud800": 1}},
    ]
    documents += [
        {"vfs": 1, "format": name, "files": ["a.npy"], "options": {option: 1}}
        for name, option in ((long, "dtype"), ("npy", long))
    ]
    documents += [
        HEAD | {"blocks": BLOCKS, "codec": {"id": long}},
        {"vfs": 1, "files": ["a.bin"], "arrays": {long: {}}},
    ]
    for document in documents:
        assert len(refused(write(folder, document), "x.vfs.json")) < 1000


def test_links_that_lead_out_are_not_followed(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    link(folder / "a.bin", inner / "link.bin")
    link(folder, inner / "sub")
    link(inner / "real.bin", inner / "within.bin")
    (inner / "real.bin").write_bytes(TWIN.tobytes())
    for name in ("link.bin", "sub/a.bin", "../a.bin", str(folder / "a.bin")):
        path = write(inner, FRAMES | {"files": [name]})
        refused(path, r"files\[0\]: .* leaves the folder of the description; .*follow_outside=True", OutsideError)
        same(vfs.open(path, follow_outside=True)[...], TWIN)
        saved = write(
            inner, {"vfs": 1, "format": "raw", "files": [name], "options": {"stored_dtype": "<u2", "sig_shape": "6,8"}}
        )
        refused(saved, "leaves the folder", OutsideError)
        same(vfs.open(saved, follow_outside=True)[...], TWIN)
    same(vfs.open(write(inner, FRAMES | {"files": ["within.bin"]}))[...], TWIN)
    link(inner, folder / "way")  # the description may itself be reached through a link
    same(vfs.open(folder / "way" / "x.vfs.json")[...], TWIN)
    refused(
        write(inner, HEAD | {"files": ["real.bin"], "table": "../t.csv"}), "table: .* leaves the folder", OutsideError
    )


# blocks that do not decode


@pytest.mark.parametrize(
    ("content", "codec", "match"),
    [
        (b"garbage!", {"id": "zlib"}, "does not decode"),
        (zlib.compress(TWIN.tobytes())[:-20], {"id": "zlib"}, "does not decode"),
        (zlib.compress(TWIN.tobytes()[:-1]), {"id": "zlib"}, "expected 384 bytes after decoding, found 383"),
        (zlib.compress(TWIN.tobytes() + b"\0"), {"id": "zlib"}, "expected 384 bytes after decoding, found 385"),
        (b"garbage!" * 10, {"id": "blosc"}, "does not decode"),
        (b"\xff\xff\xff\x7f" + b"garbage!" * 10, {"id": "lz4"}, "does not decode"),
        (b"garbage!" * 10, {"id": "zstd"}, "does not decode"),
        (b"garbage!" * 10, {"id": "lzma"}, "does not decode"),
        (TWIN.tobytes(), {"id": "astype", "encode_dtype": "<u2", "decode_dtype": "O"}, "does not decode"),
        (zlib.compress(bytes(1 << 26)), {"id": "zlib"}, "expected 384 bytes after decoding, found 385"),
        (
            zlib.compress(bytes(1 << 26)),
            [{"id": "shuffle", "elementsize": 2}, {"id": "zlib"}],
            "zlib makes more than the 384 bytes",
        ),
        (
            bytes(1024),
            [{"id": "astype", "encode_dtype": "u1", "decode_dtype": "c16"}] * 5,
            "astype would make more than",
        ),
        (bytes(1024), [{"id": "packbits"}] * 8, "packbits would make more than"),
        (bytes(1024), {"id": "delta", "dtype": "f8", "astype": "u1"}, "delta would make more than the 384 bytes"),
        (zlib.compress(bytes(1 << 26)), [{"id": "zlib"}] * 3, "zlib makes more than"),
        (
            numcodecs.Blosc().encode(bytes(1 << 26)),
            [{"id": "zlib"}, {"id": "blosc"}],
            "blosc makes 67,108,864 bytes, there is room for 65,968",
        ),
        (
            numcodecs.Zstd().encode(bytes(1 << 26)),
            [{"id": "crc32"}, {"id": "zstd"}],
            "zstd makes 67,108,864 bytes, there is room for 388",
        ),
        (numcodecs.LZ4().encode(bytes(1 << 26)), [{"id": "zlib"}, {"id": "lz4"}], "lz4 makes 67,108,864 bytes"),
    ],
)
def test_blocks_that_do_not_decode(folder: Path, content: bytes, codec: Any, match: str) -> None:
    (folder / "z.bin").write_bytes(content)
    block = {"file": 0, "offset": 0, "origin": [0, 0, 0], "shape": [4, 6, 8]}
    array = vfs.open(write(folder, HEAD | {"files": ["z.bin"], "codec": codec, "blocks": [block]}), backend="buffered")
    tracemalloc.start()
    with pytest.raises(DecodeError, match=match) as caught:
        array[0]
    assert tracemalloc.get_traced_memory()[1] < 4 << 20  # a block that would unpack to 64 MiB does not
    tracemalloc.stop()
    assert f"{folder / 'z.bin'}: bytes 0 to" in str(caught.value)


# tables


def table_set(folder: Path) -> tuple[dict[str, Any], dict[str, list[int]]]:
    table, _ = columns(BLOCKS, 3)
    del table["encoding"], table["nbytes"]
    return HEAD | {"table": "t.csv"}, table


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda text: text.replace("file", "fiel"), r"t.csv: the column 'fiel' is not known \(did you mean file\?\)"),
        (lambda text: text.replace("origin_2", "origin_1"), "t.csv: the column 'origin_2' is missing"),
        (lambda text: text.replace("offset", "file,offset"), "t.csv: the column 'file' is given twice"),
        (lambda text: "", "t.csv: the column '' is not known"),
        (lambda text: text.replace("96,", "x,"), "t.csv: line 3, column offset: expected a whole number, found 'x'"),
        (lambda text: text.replace("96,", ","), "t.csv: line 3, column offset: expected a whole number, found ''"),
        (
            lambda text: text.replace("96,", "96.0,"),
            "t.csv: line 3, column offset: expected a whole number, found '96.0'",
        ),
        (
            lambda text: text.replace("96,", "9223372036854775808,"),
            "line 3, column offset: expected a whole number of at most 63 bits, found '9223372036854775808'",
        ),
        (lambda text: text.replace("96,", "0x60,"), "line 3, column offset: expected a whole number, found '0x60'"),
        (lambda text: text.replace("96,", "9 6,"), "line 3, column offset: expected a whole number, found '9 6'"),
        (lambda text: text.replace("96,", "-,"), "line 3, column offset: expected a whole number, found '-'"),
        (lambda text: text.replace("96,", "\xff,"), "line 3, column offset: expected a whole number"),
        (
            lambda text: text.replace("96,", "-96,"),
            "t.csv: line 3, column offset: expected a number of bytes, 0 or more, found -96",
        ),
        (lambda text: text.replace("96,", "7,"), None),
        (
            lambda text: text.replace("0,96,1,", "1,96,1,"),
            "t.csv: line 3, column file: there are 1 files, counted from 0; found 1",
        ),
        (
            lambda text: text.replace("\n0,96", "\n\n0,96"),
            "t.csv: line 3, column file: expected a whole number, found ''",
        ),
        (lambda text: text.replace("\n0,96,1", "\n0,96"), "t.csv: line 3: expected 8 cells, found fewer"),
        (lambda text: text.replace("\n0,96,1", "\n0,96,1,1"), "t.csv: line 3: expected 8 cells, found more"),
        (
            lambda text: text.replace("192,2,0,0,1,", "192,2,0,0,3,"),
            r"t.csv: line 4, column shape_0: a block at \[2, 0, 0\] of shape \[3, 6, 8\] does not fit",
        ),
        (
            lambda text: text.replace("192,2,0,0,", "192,2,0,-1,"),
            r"t.csv: line 4, column origin_2: expected elements from the start of the array",
        ),
        (
            lambda text: text.replace("192,2,0,0,1,6", "192,2,0,0,1,0"),
            r"t.csv: line 4, column shape_1: expected 1 element or more along every axis, found \[1, 0, 8\]",
        ),
        (lambda text: text.replace("192,2,0,", "192,1,0,"), r"t.csv: blocks 1 and 2 overlap"),
    ],
)
def test_bad_csv(folder: Path, edit: Callable[[str], str], match: str | None) -> None:
    document, table = table_set(folder)
    write_csv(folder / "t.csv", table)
    path = write(folder, document)
    same(vfs.open(path)[...], TWIN)
    text = (folder / "t.csv").read_text()
    assert edit(text) != text
    (folder / "t.csv").write_text(edit(text), encoding="latin-1")
    if match is None:  # two blocks may show the same bytes
        assert vfs.open(path).shape == TWIN.shape
    else:
        refused(path, match)


def test_csv_as_other_programs_write_it(folder: Path) -> None:
    document, table = table_set(folder)
    write_csv(folder / "t.csv", table)
    text = (folder / "t.csv").read_text()
    head, rows = text.split("\n", 1)
    quoted = ",".join(f'"{name}"' for name in head.split(","))
    for variant in (
        f"\ufeff{text}",
        f"{quoted}\n{rows}",
        text.rstrip("\n"),
        text.replace(",", " , "),
        text.replace("\n", "\r\n").rstrip(),
    ):
        (folder / "t.csv").write_text(variant, encoding="utf-8", newline="")
        same(vfs.open(write(folder, document))[...], TWIN)


def npz_of(**members: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return made.getvalue()


def npy_of(array: Any, pretend: str | None = None) -> bytes:
    made = io.BytesIO()
    np.lib.format.write_array(made, np.asarray(array), allow_pickle=True)
    content = made.getvalue()
    return content.replace(f"({len(array)},)".encode(), pretend.encode(), 1) if pretend else content


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"offset": npy_of([0.0, 96.0, 192.0, 288.0])},
            "column offset: expected a one-dimensional array of integers, found float64",
        ),
        (
            {"offset": npy_of(np.array([0, 1, 2, 3], object))},
            "column offset: expected a one-dimensional array of integers, found object",
        ),
        (
            {"offset": npy_of([[0, 96, 192, 288]])},
            r"column offset: expected a one-dimensional array of integers, found int64\[1, 4\]",
        ),
        ({"offset": npy_of([0, 96, 192])}, "column offset has 3 rows, expected 4 as in file"),
        (
            {"offset": npy_of(np.array([0, 96, 192, 2**63], np.uint64))},
            r"offset\[3\]: expected a whole number of at most 63 bits, found 9223372036854775808",
        ),
        ({"offset": npy_of([0, 96, 192, -1])}, r"t.npz: offset\[3\]: expected a number of bytes, 0 or more, found -1"),
        (
            {"offset": npy_of([0, 96, 192, 288], "(5,)")},
            "column offset: the header says 5 rows of int64, 40 bytes; found 32",
        ),
        ({"offset": npy_of([0, 96, 192, 288], "(1099511627776,)")}, "t.npz"),
        ({"offset": b"\x93NUMPY\x01\x00\xff\xff"}, "t.npz: expected a .npz file"),
        ({"offset": b"nothing"}, "t.npz: expected a .npz file"),
        ({"offset": b"\x93NUMPY\x09\x00\x10\x00" + b"x" * 100}, "t.npz: "),
        ({"ofset": npy_of([0])}, r"t.npz: the column 'ofset' is not known \(did you mean offset\?\)"),
        ({"file": npy_of([0, 0, 0, 0])}, "t.npz: the column 'file' is given twice"),
        ({"encoding": npy_of([0, 0, 0, 1])}, r"t.npz: encoding\[3\]: there are 1 encodings, counted from 0; found 1"),
        ({"nbytes": npy_of([96, 96, 96, -1])}, r"t.npz: nbytes\[3\]: expected a number of bytes, 1 or more, found -1"),
    ],
)
def test_bad_npz(folder: Path, change: dict[str, bytes], match: str) -> None:
    _, table = table_set(folder)
    members = {"files" if name == "file" else name: npy_of(column) for name, column in table.items()}
    path = write(folder, HEAD | {"table": "t.npz"})
    (folder / "t.npz").write_bytes(npz_of(**members))
    same(vfs.open(path)[...], TWIN)
    (folder / "t.npz").write_bytes(npz_of(**members | change))
    refused(path, match)


def test_bombs_are_not_unpacked(folder: Path) -> None:
    """Columns of zeros, 1000 to 1: refused by what their headers say, before they are unpacked."""
    _, table = table_set(folder)
    path = write(folder, HEAD | {"table": "t.npz"})
    many = io.BytesIO()
    np.lib.format.write_array_header_1_0(many, {"descr": "<i8", "fortran_order": False, "shape": (12_000_000,)})
    bomb = many.getvalue() + bytes(96_000_000)
    (folder / "t.npz").write_bytes(
        npz_of(files=bomb, **{name: npy_of(column) for name, column in table.items() if name != "file"})
    )
    assert (folder / "t.npz").stat().st_size < 1 << 20
    tracemalloc.start()
    refused(path, "has 12,000,000 rows of 8 columns; expected at most 8,388,608")
    (folder / "t.npz").write_bytes(
        npz_of(
            files=b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(96_000_000),
            **{name: b"" for name in table if name != "file"},
        )
    )
    tracemalloc.reset_peak()
    refused(path, "t.npz")
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_a_table_too_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document, table = table_set(folder)
    monkeypatch.setattr(tables, "_MAX_ROWS", 3)
    write_csv(folder / "t.csv", table)
    refused(write(folder, document), "t.csv: has 4 rows of 8 columns; expected at most 3")
    monkeypatch.setattr(tables, "_MAX_BYTES", 20)
    refused(write(folder, document), r"t.csv: has \d+ bytes, expected at most 20")


@pytest.mark.parametrize(
    ("changes", "match", "kind"),
    [
        ({"table": "t.txt"}, "table: .*t.txt: expected a table called .csv or .npz", FormatError),
        ({"table": "none.csv"}, "table: .*none.csv: no such file", MissingSourceError),
        ({"table": ["t.csv"]}, "table: expected a text", FormatError),
        ({"encodings": []}, "encodings: expected a column `encoding` in the table", FormatError),
        ({"encodings": [{}]}, "encodings: expected a column `encoding` in the table", FormatError),
        ({"encodings": [{"codecs": 1}]}, r"encodings\[0\]: the key \"codecs\" is not known", FormatError),
    ],
)
def test_bad_use_of_tables(folder: Path, changes: dict[str, Any], match: str, kind: type[VfsError]) -> None:
    document, table = table_set(folder)
    write_csv(folder / "t.csv", table)
    (folder / "t.txt").write_text("")
    refused(write(folder, document | changes), match, kind)


def test_a_garbled_archive(folder: Path) -> None:
    _, table = table_set(folder)
    write_npz(folder / "t.npz", table)
    whole = (folder / "t.npz").read_bytes()
    path = write(folder, HEAD | {"table": "t.npz"})
    for content in (b"", b"PK", whole[:-1], whole[:100], whole[:500] + whole[600:], b"\0" * 1000):
        (folder / "t.npz").write_bytes(content)
        refused(path, "t.npz")
