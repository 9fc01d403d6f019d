"""Descriptions: every form of them equals its numpy twin; blocks in no grid, frames, tables,
several arrays, how a set is opened.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vfs
from tests.formats.description_sets import (
    CODECS,
    BlockSet,
    block_sets,
    columns,
    regions,
    same,
    values,
    write,
    write_csv,
    write_npz,
)
from vfs.cli.report.documents import as_json
from vfs.errors import OptionError, SourceChangedError, UnknownFormatError
from vfs.formats import detect
from vfs.kernels.columns import FILE, LINES
from vfs.model.decode import PlainDecoder
from vfs.model.layout import BlockLayout
from vfs.sets.describing import describe
from vfs.sources.local import LocalSources
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_npy

BACKENDS = ("mmap", "buffered")


def row(folder: Path) -> tuple[Path, np.ndarray, dict[str, Any]]:
    """Returns (paths, twin, options) for suites that hold for every format."""
    twin = values((12, 6, 5), ">u2")
    twin[4, :, 3:] = 9
    blocks, data = [], b""
    for t in range(12):
        for x, width in ((0, 3), (3, 2)):
            if (t, x) != (4, 3):
                blocks.append({"file": 0, "offset": len(data) + 16, "origin": [t, 0, x], "shape": [1, 6, width]})
                data += b"\xee" * 16 + twin[t, :, x : x + width].tobytes()
    (folder / "part.bin").write_bytes(data)
    head = {"vfs": 1, "dtype": ">u2", "shape": [12, 6, 5], "fill_value": 9, "files": ["part.bin"]}
    return write(folder, head | {"blocks": blocks}), twin.astype("u2"), {}


def check(path: Path, twin: np.ndarray, region: tuple[slice, ...], **options: Any) -> None:
    """Whole array, a box, and a pickled copy equal the twin, under both backends."""
    for backend in BACKENDS:
        array = vfs.open(path, backend=backend, **options)
        same(array[...], twin)
        same(array.read(region), twin[region])
        same(pickle.loads(pickle.dumps(array)).read(region), twin[region])


# blocks


@settings(max_examples=60)
@given(st.data())
def test_blocks_of_any_shape_and_place(data: st.DataObject) -> None:
    made = data.draw(block_sets())
    with TemporaryDirectory() as folder:
        head, blocks = made.write(Path(folder))
        path = write(Path(folder), head | {"blocks": blocks})
        check(path, made.twin, regions(data.draw, made.twin.shape))
        layout = reader_of(vfs.open(path)).dataset.layout
        assert isinstance(layout, BlockLayout)
        assert layout.whole is not made.plain  # plain blocks of one byte order are read as ranges
        assert (layout.place[:, FILE] < made.files).all()


@settings(max_examples=40)
@given(st.data())
def test_tables_say_the_same(data: st.DataObject) -> None:
    made = data.draw(block_sets(dtype="<u2"))
    with TemporaryDirectory() as name:
        folder = Path(name)
        head, blocks = made.write(folder)
        table, kinds = columns(blocks, made.twin.ndim)
        if made.unsaid:  # both columns may be left out then
            del table["nbytes"], table["encoding"]
        shuffled = {key: table[key] for key in data.draw(st.permutations(sorted(table)))}
        encodings = {"encodings": kinds or [{}]} if "encoding" in table else {}
        region = regions(data.draw, made.twin.shape)
        for table_name in (
            write_csv(folder / "t.csv", shuffled, data.draw(st.sampled_from(["\n", "\r\n"]))),
            write_npz(
                folder / "t.npz",
                {
                    key: np.array(column, data.draw(st.sampled_from(["<i8", ">u4", "<u8"])))
                    for key, column in shuffled.items()
                },
            ),
            write_npz(
                folder / "c.npz", {key: np.array(column, np.int64) for key, column in shuffled.items()}, compressed=True
            ),
        ):
            check(write(folder, head | {"table": table_name} | encodings), made.twin, region)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dtype", ["<u2", ">f8"])
def test_every_codec_for_all_blocks(tmp_path: Path, codec: Any, dtype: str) -> None:
    twin = values((4, 6, 8), dtype)
    boxes = [((t, 0, 0), (t + 1, 6, 8)) for t in range(4)]
    head, blocks = BlockSet(twin, 0, boxes, [codec] * 4, [None] * 4, 2).write(tmp_path)
    for block in blocks:
        block.pop("codec", None)
    check(write(tmp_path, head | {"blocks": blocks, "codec": codec}), twin, (slice(1, 4, 2), slice(2, 5), slice(7, 8)))


def test_a_codec_of_all_blocks_can_be_lifted_for_one(tmp_path: Path) -> None:
    twin = values((2, 3), "<u2")
    head, blocks = BlockSet(twin, 0, [((0, 0), (1, 3)), ((1, 0), (2, 3))], [CODECS[1], None], [None, None], 1).write(
        tmp_path
    )
    del blocks[0]["codec"]
    blocks[1]["codec"] = None
    same(vfs.open(write(tmp_path, head | {"blocks": blocks, "codec": CODECS[1]}))[...], twin)


def test_a_coded_block_reaches_to_the_end_of_its_file_by_default(tmp_path: Path) -> None:
    twin = values((2, 3), "<u2")
    head, blocks = BlockSet(twin, 0, [((0, 0), (2, 3))], [{"id": "zstd"}], [None], 1).write(tmp_path)
    del blocks[0]["nbytes"]
    same(vfs.open(write(tmp_path, head | {"blocks": blocks}))[...], twin)


def test_blocks_stored_whole_stick_out_of_the_array(tmp_path: Path) -> None:
    twin = values((5, 7), "<u2")
    padded = np.pad(twin, ((0, 1), (0, 1)), constant_values=0xFFFF)
    tiles = [(y, x) for y in (0, 3) for x in (0, 4)]
    for codec in (None, {"id": "zlib"}):
        head, blocks = BlockSet(
            padded, 0, [((y, x), (y + 3, x + 4)) for y, x in tiles], [codec] * 4, [None] * 4, 1
        ).write(tmp_path)
        for block, (y, x) in zip(blocks, tiles, strict=True):
            block["shape"] = [min(3, 5 - y), min(4, 7 - x)]
        document = head | {"shape": [5, 7], "stored_shape": [3, 4], "blocks": blocks}
        check(write(tmp_path, document), twin, (slice(2, 5), slice(3, 7, 3)))


@pytest.mark.parametrize(
    ("dtype", "fill", "value"),
    [
        ("<f4", "NaN", math.nan),
        ("<f8", "-Infinity", -math.inf),
        ("<f4", 1, 1.0),
        ("<c8", ["NaN", 2.5], complex(math.nan, 2.5)),
        ("<i2", -3, -3),
        ("bool", True, True),
    ],
)
def test_what_no_block_covers_reads_as_the_fill_value(tmp_path: Path, dtype: str, fill: Any, value: Any) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(64))
    group = vfs.open_group(
        write(
            tmp_path, {"vfs": 1, "dtype": dtype, "shape": [2, 3], "files": ["a.bin"], "blocks": [], "fill_value": fill}
        )
    )
    expected = np.full((2, 3), value, dtype)
    assert np.array_equal(group.main[...], expected, equal_nan=dtype != "bool")
    assert np.array_equal(group.zarr()["data"][...], expected, equal_nan=dtype != "bool")


def test_an_array_without_elements(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"")
    array = vfs.open(write(tmp_path, {"vfs": 1, "dtype": "<u2", "shape": [0, 3], "files": ["a.bin"], "blocks": []}))
    assert array[...].shape == (0, 3)


def test_an_array_without_axes(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"hd\x07\x00")
    for how in ({"frames": {"first": 2}}, {"blocks": [{"file": 0, "offset": 2, "origin": [], "shape": []}]}):
        array = vfs.open(write(tmp_path, {"vfs": 1, "dtype": "<u2", "shape": [], "files": ["a.bin"], **how}))
        assert array.shape == ()
        assert array[()] == 7


def test_names_and_metadata(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(400))
    head = {"vfs": 1, "dtype": "<u2", "shape": [3, 4, 5], "files": ["a.bin"], "frames": {}}
    plain = vfs.open(write(tmp_path, head))
    assert plain.dims == ("frame", "y", "x")
    assert reader_of(plain).dataset.nav_ndim == 1
    document = head | {
        "dims": ["t", "u", "v"],
        "sig_ndim": 1,
        "attributes": {"who": "me"},
        "conventions": {"units": "e"},
        "group_attributes": {"ome": 1},
    }
    group = vfs.open_group(write(tmp_path, document, "Some Name.vfs.json"))
    assert group.name == "Some Name"
    assert group.main.dims == ("t", "u", "v")
    assert reader_of(group.main).dataset.nav_ndim == 2
    assert group.main.attrs == {"who": "me"}
    shown = group.zarr()
    assert dict(shown.attrs) == {"vfs": {"format": "description", "who": "me"}, "ome": 1}
    assert shown["data"].attrs["units"] == "e"


def test_large_plain_blocks_are_not_read_whole(tmp_path: Path) -> None:
    """One element of a block in a file of a terabyte (a hole): as ranges that is nothing."""
    with (tmp_path / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)
        file.seek((1 << 40) - 2)
        file.write(b"\x05\x00")
    block = {"file": 0, "offset": 0, "origin": [0, 0, 0], "shape": [1 << 13, 1 << 13, 1 << 13]}
    head = {"vfs": 1, "dtype": "<u2", "shape": [1 << 13] * 3, "files": ["huge.bin"]}
    for backend in BACKENDS:
        assert vfs.open(write(tmp_path, head | {"blocks": [block]}), backend=backend)[-1, -1, -1] == 5


def test_row(tmp_path: Path) -> None:
    path, twin, options = row(tmp_path)
    check(path, twin, (slice(3, 6), slice(None), slice(1, 5, 2)), **options)
    same(vfs.open(path, nav_shape=(4, 4), sync_offset=-2)[0, 2], twin[0])
    same(vfs.open(path, roi=[7, 1])[...], twin[[7, 1]])


# frames


@settings(max_examples=60)
@given(st.data())
def test_frames_apart(data: st.DataObject) -> None:
    draw = data.draw
    sig = tuple(draw(st.lists(st.integers(1, 5), min_size=0, max_size=3)))
    twin_dtype = draw(st.sampled_from(["<u2", ">i4", "|u1"]))
    counts = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any))
    header, footer = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    firsts = draw(st.lists(st.integers(0, 9), min_size=len(counts), max_size=len(counts)))
    gaps = draw(st.lists(st.integers(0, 2), min_size=len(counts), max_size=len(counts)))
    begin = [sum(gaps[: k + 1]) + sum(counts[:k]) for k in range(len(counts))]
    order = draw(st.permutations(range(len(counts))))
    offset = draw(st.integers(-3, 3))
    total = draw(st.integers(1, begin[-1] + counts[-1] + 2))
    frames = values((begin[-1] + counts[-1], *sig), twin_dtype)
    twin = np.full((total, *sig), 3, twin_dtype)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for k, file in enumerate(order):
            content = b"\xcd" * firsts[k]
            for n in range(begin[k], begin[k] + counts[k]):
                content += b"\xcd" * header + frames[n : n + 1].tobytes() + b"\xcd" * footer
                if 0 <= n - offset < total:
                    twin[n - offset] = frames[n]
            # The last footer may be missing
            (folder / f"f{file}").write_bytes(content[: len(content) - footer] if counts[k] else content)
        described: dict[str, Any] = {
            "header": header,
            "footer": footer,
            "first": firsts,
            "per_file": counts,
            "sync_offset": offset,
        }
        described |= {"stored": begin[-1] + counts[-1]} if begin[-1] + counts[-1] < total else {}
        described |= {"first_frame": begin} if any(gaps) or draw(st.booleans()) else {}
        described |= {"file": list(order)} if list(order) != sorted(order) or draw(st.booleans()) else {}
        head = {"vfs": 1, "dtype": twin_dtype, "shape": list(twin.shape), "sig_ndim": len(sig), "fill_value": 3}
        document = head | {"files": [f"f{k}" for k in range(len(counts))], "frames": described}
        check(write(folder, document), twin, regions(draw, twin.shape))


@settings(max_examples=40)
@given(st.data())
def test_frames_that_run_on(data: st.DataObject) -> None:
    draw = data.draw
    header, footer, first = (2 * draw(st.integers(0, 3)) for _ in range(3))
    twin = values((draw(st.integers(1, 6)), 3, 4), "<u2")
    stream = b"".join(b"\xcd" * header + frame.tobytes() + b"\xcd" * footer for frame in twin)
    cuts = sorted(2 * draw(st.integers(0, len(stream) // 2)) for _ in range(draw(st.integers(0, 4))))
    with TemporaryDirectory() as name:
        for k, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(stream)], strict=True)):
            (Path(name) / f"f{k}").write_bytes(b"\xab" * first + stream[a:b])
        head = {"vfs": 1, "dtype": "<u2", "shape": list(twin.shape), "files": [f"f{k}" for k in range(len(cuts) + 1)]}
        document = head | {"frames": {"running_on": True, "header": header, "footer": footer, "first": first}}
        check(write(Path(name), document), twin, regions(draw, twin.shape))


def test_frames_of_one_number_for_all_files(tmp_path: Path) -> None:
    twin = values((7, 2, 3), "<u2")
    for k in range(3):
        (tmp_path / f"f{k}").write_bytes(b"hd" + twin[3 * k : 3 * k + 3].tobytes())
    head = {"vfs": 1, "dtype": "<u2", "shape": [7, 2, 3], "files": ["f0", "f1", "f2"]}
    for frames in ({"first": 2}, {"first": 2, "per_file": 3}, {"first": [2, 2, 2], "per_file": [3, 3, 1]}):
        check(write(tmp_path, head | {"frames": frames}), twin, (slice(2, 7), slice(1), slice(2)))
    scan = vfs.open(write(tmp_path, head | {"shape": [2, 3, 2, 3], "frames": {"first": 2, "sync_offset": 1}}))
    same(scan[...], twin[1:].reshape(2, 3, 2, 3))
    assert scan.dims == ("scan_y", "scan_x", "y", "x")


def test_pieces_of_frames(tmp_path: Path) -> None:
    """The lower half is stored first and upside down; rows have two elements more than are shown."""
    twin = values((3, 4, 5), "<u2")
    stored = np.full((3, 4, 7), 0xEEEE, "<u2")
    stored[:, 0], stored[:, 1] = (np.pad(twin[:, k], ((0, 0), (0, 2)), constant_values=0xEEEE) for k in (3, 2))
    stored[:, 2:, :5] = twin[:, :2]
    (tmp_path / "a.bin").write_bytes(stored.tobytes())
    pieces = [
        {"origin": [2, 0], "shape": [2, 5], "strides": [-7, 1], "first": 7},
        {"origin": [0, 0], "shape": [2, 5], "strides": [7, 1], "first": 14},
    ]
    head = {"vfs": 1, "dtype": "<u2", "shape": [3, 4, 5], "files": ["a.bin"]}
    check(
        write(tmp_path, head | {"frames": {"payload": 56, "pieces": pieces}}),
        twin,
        (slice(1, 3), slice(1, 4), slice(0, 5, 2)),
    )


# several arrays


def test_arrays_and_companions(tmp_path: Path) -> None:
    frames, times = values((6, 2, 3), "<u2"), values((6,), "<f8")
    (tmp_path / "a.bin").write_bytes(
        b"".join(t.tobytes() + frame.tobytes() for t, frame in zip(times, frames, strict=True))
    )
    (tmp_path / "b.bin").write_bytes(frames[0].tobytes())
    document = {
        "vfs": 1,
        "files": ["a.bin"],
        "arrays": {
            "entry/data": {"dtype": "<u2", "shape": [6, 2, 3], "frames": {"header": 8}},
            "time": {
                "dtype": "<f8",
                "shape": [6],
                "sig_ndim": 0,
                "frames": {"footer": 12},
                "companion": True,
                "conventions": {"units": "s"},
            },
            "entry/sum": {"dtype": "<u2", "shape": [2, 3], "files": ["b.bin"], "frames": {}},
        },
    }
    path = write(tmp_path, document)
    group = vfs.open_group(path)
    assert list(group) == ["entry/data", "time", "entry/sum"]
    for name, twin in (("entry/data", frames), ("time", times), ("entry/sum", frames[0])):
        same(group[name][...], twin)
        same(np.asarray(group.zarr()[name][...]), twin)
    scan = vfs.open_group(path, nav_shape=(2, 3), roi=[5, 0])  # the companion is arranged like the main array
    same(scan["time"][...], times[[5, 0]])
    same(scan.main[...], frames[[5, 0]])
    same(scan["entry/sum"][...], frames[0])
    same(vfs.open(path, array="entry/sum")[...], frames[0])


def arrays_of(folder: Path, sizes: Mapping[str, int], **marks: bool) -> Path:
    """Describe arrays of some numbers of rows, and which of them opens first."""
    made = {}
    for name, rows in sizes.items():
        (folder / f"{name}.bin").write_bytes(values((rows, 3), "<u2").tobytes())
        made[name] = {"dtype": "<u2", "shape": [rows, 3], "files": [f"{name}.bin"], "frames": {}}
        made[name] |= {"main": marks[name]} if name in marks else {}
    return write(folder, {"vfs": 1, "arrays": made})


def test_the_main_array_is_the_same_everywhere(tmp_path: Path) -> None:
    path = arrays_of(tmp_path, {"table": 9, "image": 4, "detail": 3}, table=False, image=True, detail=True)
    group, named = vfs.open_group(path), vfs.open(path, array="table")
    assert list(group) == ["image", "detail", "table"]
    assert (group.main.shape, vfs.open(path).shape, named.shape) == ((4, 3), (4, 3), (9, 3))
    faces = set_of(group).tree.faces()
    assert set(faces) == {".zarr", ".v2.zarr", ".ome.zarr", ".ome.v2.zarr", ".npy", ".table.npy", ".detail.npy"}
    assert faces[".npy"].root.size == 128 + 4 * 6
    assert as_json(set_of(group))["main"] == "image"
    for explicit in (False, True):  # a description of it says the same
        for set_, shape in ((group, (4, 3)), (named.group, (9, 3))):
            again = write(tmp_path, describe(set_of(set_), explicit=explicit), "again.vfs.json")
            assert vfs.open(again).shape == shape


def test_a_set_without_a_main_array_opens_as_a_group_only(tmp_path: Path) -> None:
    path = arrays_of(tmp_path, {"table": 9, "mask": 4}, table=False, mask=False)
    with pytest.raises(vfs.FormatError, match=r"expected images .* only what comes beside them: table, mask; .*array="):
        vfs.open(path)
    with pytest.warns(vfs.IncompleteWarning, match="table, mask"):
        group = vfs.open_group(path)
    assert ".npy" not in set_of(group).tree.faces()
    same(vfs.open(path, array="mask")[...], values((4, 3), "<u2"))
    with pytest.warns(vfs.IncompleteWarning):
        assert vfs.open(path, allow_incomplete=True).shape == (9, 3)


# how a set is opened


def test_a_set_keeps_how_it_is_opened(tmp_path: Path) -> None:
    twin = values((12, 4, 5), "<u2")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.bin").write_bytes(b"head" + twin.tobytes())
    options = {
        "dtype": "<u2",
        "sig_shape": [4, 5],
        "file_header": 4,
        "nav_shape": [3, 4],
        "sync_offset": 2,
        "roi": [1, 9],
        "chunks": [1, 2, 5],
        "backend": "buffered",
        "accept_changes": True,
    }
    path = write(tmp_path, {"vfs": 1, "format": "raw", "files": ["in/a.bin"], "options": options}, "kept.vfs.json")
    group = vfs.open_group(path)
    same(group.main[...], twin[[3, 11]])
    assert group.main.chunks == (1, 2, 5)
    assert group.name == "kept"
    assert set_of(group.main.group).opening.format == "raw"
    shutil.rmtree(tmp_path / "in" / "nothing", ignore_errors=True)
    for again in (pickle.loads(pickle.dumps(group)), pickle.loads(pickle.dumps(group.main)).group):
        assert again.name == "kept"
        same(again.main[...], twin[[3, 11]])
    # what is asked for has precedence; dtype converts, though for raw data the saved one says what the pixels are
    asked = vfs.open(path, nav_shape=(12,), roi=[0], dtype="f4", chunks="frames")
    same(asked[...], twin[[2]].astype("f4"))
    assert asked.chunks == (1, 4, 5)


def test_saved_corrections_array_and_mask(tmp_path: Path) -> None:
    twin = values((4, 3, 3), "|u1")
    write_npy(tmp_path, twin, name="a.npy")
    write_npy(tmp_path, np.full((3, 3), 2.0), name="dark.npy")
    options: dict[str, Any] = {
        "dark": "dark.npy",
        "gain": [[2] * 3] * 3,
        "dead": [[1, 1]],
        "roi": [True, False, True, False],
        "array": "data",
    }
    array = vfs.open(write(tmp_path, {"vfs": 1, "format": "npy", "files": ["a.npy"], "options": options}))
    expected = (twin[[0, 2]].astype("f4") - 2) * 2
    assert array.dtype == np.float32
    same(array[:, 0], expected[:, 0])
    assert not np.array_equal(array[:, 1, 1], expected[:, 1, 1])  # replaced
    write_npy(tmp_path, np.array([3]), name="roi.npy")
    same(
        vfs.open(write(tmp_path, {"vfs": 1, "format": "npy", "files": ["a.npy"], "options": {"roi": "roi.npy"}}))[...],
        twin[[3]],
    )


def test_a_saved_mib_set(tmp_path: Path) -> None:
    frames = values((6, 4, 4), "<u2")
    write_mib(tmp_path, frames, frames_per_file=2)
    path = write(tmp_path, {"vfs": 1, "format": "mib", "files": ["scan.hdr"], "options": {"nav_shape": "2,3"}})
    assert np.array_equal(vfs.open(path)[...], frames.reshape(2, 3, 4, 4))


def test_a_description_can_keep_how_another_is_opened(tmp_path: Path) -> None:
    path, twin, _ = row(tmp_path)
    outer = write(
        tmp_path,
        {"vfs": 1, "format": "description", "files": [path.name], "options": {"nav_shape": [3, 4]}},
        "outer.vfs.json",
    )
    group = vfs.open_group(outer)
    assert group.name == "outer"
    same(group.main[...], twin.reshape(3, 4, 6, 5))
    write(tmp_path, {"vfs": 1, "format": "description", "files": ["outer.vfs.json"]}, "loop.vfs.json")
    with pytest.raises(
        vfs.FormatError, match=r"loop.vfs.json: files\[0\]: .*outer.vfs.json is itself a description with a format"
    ):
        vfs.open(tmp_path / "loop.vfs.json")


# what a description is, and what may change


def test_detected_by_name_and_content(tmp_path: Path) -> None:
    path, _, _ = row(tmp_path)
    assert detect(LocalSources(), str(path)).name == "description"
    shutil.copy(path, tmp_path / "other.json")
    assert detect(LocalSources(), str(tmp_path / "other.json")).name == "description"
    (tmp_path / "marked.vfs.json").write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # a byte order mark
    assert vfs.open(tmp_path / "marked.vfs.json").shape == (12, 6, 5)
    for name, content in (("a.json", b'{"version": 1}'), ("a.vfs.json", b"PK\x03\x04")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UnknownFormatError):
            detect(LocalSources(), str(tmp_path / name))
    with pytest.raises(OptionError, match="expected one description, found 2"):
        vfs.open([path, path])


def test_a_changed_description_is_another_set(tmp_path: Path) -> None:
    path, _, _ = row(tmp_path)
    pickled = pickle.dumps(vfs.open(path))
    document = json.loads(path.read_text())
    document["fill_value"] = 1
    path.write_text(json.dumps(document, indent=1))
    with pytest.raises(SourceChangedError):
        pickle.loads(pickled)[0]


def test_pickles_into_a_fresh_process(tmp_path: Path) -> None:
    made = BlockSet(values((4, 5), "<u2"), 0, [((0, 0), (4, 5))], [CODECS[1]], ["big"], 1)
    head, blocks = made.write(tmp_path)
    (tmp_path / "p").write_bytes(pickle.dumps(vfs.open(write(tmp_path, head | {"blocks": blocks}))))
    code = (
        f"import pickle, sys; a = pickle.load(open({str(tmp_path / 'p')!r}, 'rb'));"
        " sys.stdout.write(str(int(a[...].sum(dtype='u8'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ
    )
    assert int(done.stdout) == made.twin.sum(dtype="u8")


def test_a_million_blocks(tmp_path: Path) -> None:
    """They open, a box of them is planned from those it meets, and the right one is told where two overlap."""
    n = 100
    at = np.stack(np.unravel_index(np.random.default_rng(0).permutation(n**3), (n, n, n)), axis=1)
    low, size = at * [1, 2, 3], np.tile([1, 2, 3], (n**3, 1))
    table = {"file": np.arange(n**3) % 3, "offset": np.arange(n**3) * 12}
    table |= {f"origin_{k}": low[:, k] for k in range(3)} | {f"shape_{k}": size[:, k] for k in range(3)}
    for k in range(3):
        with (tmp_path / f"f{k}").open("wb") as file:
            file.truncate(12 * n**3)
    head = {"vfs": 1, "dtype": "<u2", "shape": [n, 2 * n, 3 * n], "files": ["f0", "f1", "f2"]}
    path = write(tmp_path, head | {"table": write_npz(tmp_path / "t.npz", table)})
    array = vfs.open(path)
    assert isinstance(reader_of(array).dataset.decoder, PlainDecoder)
    rows, covered = reader_of(array).dataset.layout.read_ranges(vfs.Region.box((5, 4, 3), (6, 8, 9)))
    assert covered == 4 * 6
    assert rows[:, LINES].tolist() == [2] * 4
    table["shape_1"][1234] += 1
    x, y, z = low[1234].tolist()
    write_npz(tmp_path / "t.npz", table)
    if y + 3 <= 2 * n:
        with pytest.raises(vfs.FormatError, match=rf"t.npz: blocks \d+ and \d+ overlap.*at \[{x}, {y}, {z}\]"):
            vfs.open(path)
