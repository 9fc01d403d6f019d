"""HDF5: what is peculiar to it. Layouts, filters, links, virtual data sets, Dectris masters, what is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import check_boxes, frames_of, refuses, same
from tests.formats.hdf5_sets import FILTERS, dectris, hdf5_set, written
from vfs.formats.hdf5 import sniff
from vfs.sources.local import LocalSources
from vfs.testing.inside import reader_of, set_of

h5py = pytest.importorskip("h5py")
hdf5plugin = pytest.importorskip("hdf5plugin")


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("dtype", ["u1", "<u2", ">i4", "<f4", ">f8"])
def test_filters(tmp_path: Path, name: str, dtype: str) -> None:
    twin = (frames_of((7, 33, 21), "u1") % 17).astype(dtype)
    path = written(tmp_path, data=(twin, {"chunks": (3, 16, 11), **FILTERS[name]}))
    check_boxes(path, twin, count=8)


@pytest.mark.parametrize("names", [("r", "i"), ("real", "imag"), ("realFloatHalfEven", "imagFloatHalfEven")])
@pytest.mark.parametrize("width", [4, 8])
def test_pairs_of_floats_are_complex(tmp_path: Path, names: tuple[str, str], width: int) -> None:
    for order in "<>":
        parts = frames_of((2, 4, 5, 6), "f4").astype(f"{order}f{width}")
        pairs = np.zeros(parts.shape[1:], [(name, parts.dtype) for name in names])
        pairs[names[0]], pairs[names[1]] = parts
        path = tmp_path / "set.h5"
        with h5py.File(path, "w") as file:
            for name, options in (
                ("plain", {}),
                ("packed", {"chunks": (1, 4, 3), "compression": "gzip", "shuffle": True}),
            ):
                file.create_dataset(name, data=pairs, **options)
            file.create_dataset("never", shape=(2, 3), dtype=pairs.dtype, fillvalue=pairs[0, 0, 0])
            file["other"] = np.zeros(2, [("r", "f4"), ("i", "f8")])
        twin = (parts[0] + 1j * parts[1]).astype(f"c{2 * width}")
        for name in ("plain", "packed"):
            check_boxes(path, twin, path=name, count=8)
        group = vfs.open_group(path)
        same(group["never"][...], np.full((2, 3), twin[0, 0, 0]))
        assert set(group.main.attrs["root"]["left_out"]) == {"other"}


def test_a_user_block_that_says_what_it_is(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "set.h5", "w", userblock_size=16384) as file:
        file["data"] = np.arange(12)
    with (tmp_path / "set.h5").open("r+b") as file:
        file.write(b"\x89HMP\r\n\x1a\n<?xpacket begin=")
    same(vfs.open(tmp_path / "set.h5")[...], np.arange(12))


@pytest.mark.parametrize("name", ["gzip", "gzip shuffle", "bitshuffle lz4"])
def test_whole_chunks_go_straight_to_where_they_belong(tmp_path: Path, name: str) -> None:
    twin = frames_of((3, 16, 8), "u1").astype(">u2")
    array = vfs.open(written(tmp_path, data=(twin, {"chunks": (1, 16, 8), **FILTERS[name]})))
    same(array[...], twin)
    assert reader_of(array).cache.held == 0
    same(array[1, :3], twin[1, :3])
    assert reader_of(array).cache.held == twin[1].nbytes
    same(array[...], twin)


@pytest.mark.parametrize("shape", [(1000, 700), (2, 300, 400), (50_000,), (3, 5, 64, 96)])
def test_blosc2_in_blocks_of_several_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    twin = (frames_of(shape, "u1") % 7).astype("u2")
    zero, one, nan = np.zeros(shape, "u2"), np.full(shape, 7, "i8"), np.full(shape, np.nan, "f4")
    chunks = {"chunks": tuple(-(-n * 2 // 3) for n in shape), **FILTERS["blosc2"]}
    path = written(tmp_path, twin=(twin, chunks), zero=(zero, chunks), one=(one, chunks), nan=(nan, chunks))
    group = vfs.open_group(path)
    for name, values in (("twin", twin), ("zero", zero), ("one", one), ("nan", nan)):
        same(group[name][...], values)


@pytest.mark.parametrize(("number", "name"), [(32013, "zfp"), (5, "nbit"), (6, "scaleoffset")])
def test_filters_that_are_not_known(tmp_path: Path, number: int, name: str) -> None:
    how: dict[str, Any] = {"zfp": {**hdf5plugin.Zfp()}, "nbit": {}, "scaleoffset": {"scaleoffset": 2}}[name]
    path = written(tmp_path, own=(np.ones(3), {}))
    with h5py.File(path, "a") as file:
        if name == "nbit":
            plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plan.set_chunk((2, 2))
            plan.set_filter(h5py.h5z.FILTER_NBIT)
            h5py.h5d.create(file.id, b"data", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4, 4)), plan)
        else:
            file.create_dataset("data", data=np.ones((4, 4), "f4"), chunks=(2, 2), **how)
    with pytest.raises(
        vfs.FormatError,
        match=(
            rf"set\.h5: data \[4, 4\] cannot be shown: .*filter {number} .*; allow_incomplete=True .* largest of the"
            r" other"
        ),
    ):
        vfs.open(path)  # another array is not the one that the set is about
    with pytest.warns(vfs.IncompleteWarning, match="data .* cannot be shown"):
        left = vfs.open_group(path).main.attrs["root"]["left_out"]
    assert f"filter {number} ({name}), is not supported" in left["data"]
    assert "h5repack" in left["data"]


def test_numbers_that_do_not_fill_their_bytes_are_no_reason_to_show_others(tmp_path: Path) -> None:
    kind = h5py.h5t.STD_U16LE.copy()
    kind.set_precision(12)
    for shape, refused in (((20, 8, 8), True), ((2, 2), False)):
        path = written(tmp_path, flat=(np.ones((8, 8)), {}))
        with h5py.File(path, "a") as file:
            h5py.h5d.create(file.id, b"data", kind, h5py.h5s.create_simple(shape))
            file["text"] = ["much longer than the others"] * 2000
        if refused:
            with pytest.raises(
                vfs.FormatError, match=r"data \[20, 8, 8\] cannot be shown: its numbers are 12 of 16 bits"
            ):
                vfs.open(path)
            with pytest.warns(vfs.IncompleteWarning, match="12 of 16 bits"):
                assert list(vfs.open_group(path)) == ["flat"]
            with pytest.warns(vfs.IncompleteWarning, match="12 of 16 bits"):
                assert reader_of(vfs.open(path, allow_incomplete=True)).dataset.path == "flat"
        assert refused or reader_of(vfs.open(path)).dataset.path == "flat"


@pytest.mark.parametrize("dtype", ["i1", "u8", "f2", "c8", "c16", "?"])
def test_types(tmp_path: Path, dtype: str) -> None:
    twin = frames_of((4, 6, 5), "u1").astype(dtype)
    check_boxes(written(tmp_path, data=(twin, {})), twin)
    check_boxes(written(tmp_path, data=(twin, {"chunks": (2, 4, 3), "compression": "gzip"})), twin)


def test_the_tree_of_the_file_is_the_tree_of_arrays(tmp_path: Path) -> None:
    image, line = frames_of((5, 8, 9), "u2"), frames_of((12,), "f8")
    with h5py.File(tmp_path / "set.nxs", "w") as file:
        file.attrs["creator"] = "test"
        data = file.create_dataset("entry/data/image", data=image)
        data.attrs["units"] = "counts"
        for axis, label in zip(data.dims, ("frame", "row", "column"), strict=True):
            axis.label = label
        file["entry/x/line"] = line
        file["entry/scalar"] = 2.5
        file["entry/again"] = h5py.SoftLink("/entry/data")
        file["entry/loop"] = h5py.SoftLink("/entry")
        file["entry/nowhere"] = h5py.SoftLink("/gone")
        file["entry/text"] = "words"
        file["entry/table"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        file["entry/empty"] = h5py.Empty("f8")
        file.create_dataset("entry/never", shape=(4, 5), dtype="i2", chunks=(2, 2), fillvalue=7)
        file.create_dataset("entry/none", shape=(0, 5), dtype="i2")
    group = vfs.open_group(tmp_path / "set.nxs")
    assert group.name == "set"
    assert set(group) == {
        "entry/data/image",
        "entry/again/image",
        "entry/x/line",
        "entry/scalar",
        "entry/never",
        "entry/none",
    }
    same(group["entry/data/image"][...], image)
    assert group.main.dims == ("frame", "row", "column")
    assert group.main.attrs["units"] == "counts"
    same(group["entry/x/line"][...], line)
    assert group["entry/scalar"][...] == 2.5
    assert (group["entry/never"][...] == 7).all()
    assert group["entry/none"].shape == (0, 5)
    left = group.main.attrs["root"]["left_out"]
    assert group.main.attrs["root"]["creator"] == "test"
    assert set(left) == {"entry/loop", "entry/nowhere", "entry/text", "entry/table", "entry/empty"}
    assert "text" in left["entry/text"]
    store = group.zarr()
    assert (store["entry/data/image"][2] == image[2]).all()


def test_some_chunks_were_never_written(tmp_path: Path) -> None:
    twin = np.full((6, 10), -1, "i4")
    with h5py.File(tmp_path / "set.h5", "w") as file:
        data = file.create_dataset("data", shape=(6, 10), dtype="i4", chunks=(2, 3), fillvalue=-1, compression="gzip")
        data[2:4, 4] = twin[2:4, 4] = 9
    check_boxes(tmp_path / "set.h5", twin)


@pytest.mark.parametrize(("name", "mask"), [("gzip shuffle", 3), ("bitshuffle lz4", 1)])
def test_chunks_that_went_round_a_filter(tmp_path: Path, name: str, mask: int) -> None:
    with h5py.File(tmp_path / "set.h5", "w") as file:
        data = file.create_dataset("data", shape=(4, 6), dtype="<u2", chunks=(2, 6), **FILTERS[name])
        data[:2] = 5
        data.id.write_direct_chunk((2, 0), np.arange(12, dtype="<u2").tobytes(), filter_mask=mask)
    want = np.concatenate([np.full((2, 6), 5), np.arange(12).reshape(2, 6)]).astype("u2")
    check_boxes(tmp_path / "set.h5", want)


def test_a_compact_data_set_and_a_user_block(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "set.h5", "w", userblock_size=512) as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_layout(h5py.h5d.COMPACT)
        small = h5py.h5d.create(file.id, b"small", h5py.h5t.STD_I32BE, h5py.h5s.create_simple((3, 4)), plan)
        small.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(12, dtype="i4").reshape(3, 4))
        file["large"] = np.arange(1000.0)
        file.create_dataset("chunked", data=np.arange(60).reshape(6, 10), chunks=(4, 4))
    group = vfs.open_group(tmp_path / "set.h5")
    assert (group["small"][1:, ::2] == np.arange(12).reshape(3, 4)[1:, ::2]).all()
    assert (group["large"][...] == np.arange(1000)).all()
    assert (group["chunked"][...] == np.arange(60).reshape(6, 10)).all()


@pytest.mark.parametrize(
    "options", [{}, {"chunks": (1, 16, 12), **hdf5plugin.Bitshuffle(cname="lz4")}, {"chunks": (1, 8, 5)}]
)
def test_dectris_masters_are_one_array(tmp_path: Path, options: dict[str, Any]) -> None:
    frames = frames_of((11, 16, 12), "u4") % 1000
    path = dectris(tmp_path, frames, 4, **options)
    group = vfs.open_group(path)
    assert list(group) == ["entry/data/data"]
    check_boxes(path, frames, path="entry/data/data")
    assert len(group.main.files) == 3
    if options.get("chunks") == (1, 16, 12):
        same(vfs.open(path, nav_shape=(3, 4))[...].reshape(12, 16, 12)[:11], frames)
        same(vfs.open(path, sync_offset=2, nav_shape=(9,))[...], frames[2:])
    (tmp_path / "scan_data_000002.h5").unlink()
    refuses(path, "data_000002", "missing", kind=vfs.MissingSourceError)


def test_virtual_data_sets(tmp_path: Path) -> None:
    parts = frames_of((3, 5, 6, 7), "i4")
    layout = h5py.VirtualLayout((3, 5, 6, 7), "i4")
    for k, part in enumerate(parts):
        written(tmp_path, f"part{k}.h5", data=(part, {"chunks": (2, 3, 7), "compression": "gzip"}))
        layout[k] = h5py.VirtualSource(f"part{k}.h5", "data", (5, 6, 7))
    rows = h5py.VirtualLayout((10, 6, 7), "i4", maxshape=None)
    for k in range(2):
        rows[5 * k : 5 * k + 5] = h5py.VirtualSource(f"part{k}.h5", "data", (5, 6, 7))
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file.create_virtual_dataset("stack", layout)
        file.create_virtual_dataset("rows", rows)
    check_boxes(tmp_path / "set.h5", parts, path="stack", count=15)
    check_boxes(tmp_path / "set.h5", parts[:2].reshape(10, 6, 7), path="rows", count=15)


def test_links_stay_in_the_folder_unless_told(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    image = frames_of((4, 5), "u2")
    written(outside, "secret.h5", data=(image, {}))
    with h5py.File(inside / "set.h5", "w") as file:
        file["own"] = image[:2]
        file["other"] = h5py.ExternalLink("../outside/secret.h5", "/data")
        file["gone"] = h5py.ExternalLink("missing.h5", "/data")
    with pytest.warns(
        vfs.IncompleteWarning, match=r"gone links to missing\.h5, which is missing; .*other .*outside the folder"
    ):
        group = vfs.open_group(inside / "set.h5")
    assert list(group) == ["own"]
    assert "outside the folder" in group.main.attrs["root"]["left_out"]["other"]
    assert "missing" in group.main.attrs["root"]["left_out"]["gone"]
    with pytest.warns(vfs.IncompleteWarning, match="gone links"):
        same(vfs.open_group(inside / "set.h5", follow_outside=True)["other"][...], image)


DAMAGED = [name for name in FILTERS if name not in ("plain", "bitshuffle")]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if k % 2 else ()) for k, name in enumerate(DAMAGED)]
)
def test_damaged_chunks_are_errors_or_other_numbers_never_crashes(tmp_path: Path, name: str) -> None:
    twin = (frames_of((4, 64, 64), "u2") % 50).astype("u2")
    path = written(tmp_path, data=(twin, {"chunks": (1, 64, 64), **FILTERS[name]}))
    with h5py.File(path) as file:
        info = file["data"].id.get_chunk_info(1)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    errors = 0
    for _ in range(60):
        data = bytearray(whole)
        for at in rng.integers(info.byte_offset, info.byte_offset + min(info.size, 200), rng.integers(1, 5)):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        array = vfs.open(path)
        same(array[0], twin[0])
        said = ""
        try:
            array[1]
        except vfs.DecodeError as error:
            said = str(error).partition(" [")[0]
            errors += str(path) in said
        if said:  # the same where chunks are decoded in a run
            for all_of_it in (lambda a=array: a[...], lambda a=array: a.reduce(x=vfs.Sum(), workers=0)):
                with pytest.raises(vfs.DecodeError) as caught:
                    all_of_it()
                assert str(caught.value).startswith(said)
    assert errors, name


@pytest.mark.parametrize(
    ("name", "at", "value", "said"),
    [
        ("bitshuffle lz4", 7, 1, r"expected 8,192 bytes, the data say 8,193"),
        ("bitshuffle lz4", 10, 0, r"blocks of 0 elements cannot be"),
        ("bitshuffle lz4", 11, 3, r"blocks of 4097 elements cannot be"),
        ("bitshuffle lz4", 12, 127, r"its blocks reach beyond the end of the data"),
        ("bitshuffle zstd", 16, 0, r"bitshuffle gives up with -\d+"),
    ],
)
def test_what_is_wrong_with_bitshuffled_data(tmp_path: Path, name: str, at: int, value: int, said: str) -> None:
    twin = (frames_of((3, 64, 64), "u2") % 50).astype("u2")
    path = written(tmp_path, data=(twin, {"chunks": (1, 64, 64), **FILTERS[name]}))
    with h5py.File(path) as file:
        info = file["data"].id.get_chunk_info(1)
    data = bytearray(path.read_bytes())
    data[info.byte_offset + at] = value
    path.write_bytes(data)
    array = vfs.open(path)
    where = (
        rf"set\.h5: bytes {info.byte_offset:,} to {info.byte_offset + info.size:,}: chunk 1: bitshuffle does not decode"
    )
    for wanted in (np.s_[1], np.s_[...], np.s_[1, :3]):
        with pytest.raises(vfs.DecodeError, match=rf"{where} it: {said}"):
            array[wanted]


def test_refused(tmp_path: Path) -> None:
    (tmp_path / "foreign.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(500))
    refuses(tmp_path / "foreign.h5", "cannot be understood")
    with h5py.File(tmp_path / "words.h5", "w") as file:
        file["text"] = "words"
    refuses(tmp_path / "words.h5", "expected at least one array", "text")
    path, _, _ = hdf5_set(tmp_path)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["a"] = np.zeros((2, 3))
    refuses([path, tmp_path / "other.h5"], "one file", kind=vfs.OptionError, format="hdf5")


def is_hdf5(path: Path) -> bool:
    """True for a file that begins as HDF5 files do."""
    with path.open("rb") as file:
        return sniff(str(path), file.read(4096), LocalSources())


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")  # of two of them the data are not there
def test_real_files(oracle: dict[str, Any]) -> None:
    seen = 0
    for name, entry in oracle.items():
        if entry["format"] != "hdf5":
            continue
        groups: dict[str, Any] = {}
        for key, array in entry["arrays"].items():
            file, _, path = key.partition(":")
            found = [f for f in entry["files"] if f.endswith(file)]
            if not found:
                continue  # "assembled": what readers make of several files
            if file not in groups:
                groups[file] = vfs.open_group(SHARED / found[0])
            group = groups[file]
            path = path.strip("/")
            one = re.fullmatch(r"(.+)/(\d+)/Data", path)
            if one and path not in group:  # TopSpin: a frame of the array that all of them are
                stack = group[f"{one[1]}/Data"]
                sig = stack.shape[stack.ndim - len(array["shape"]) :]
                values = stack[...].reshape(-1, *sig)[int(one[2])]
            else:
                values = group[path][...]
            if values.dtype.kind == "c" and array["shape"] == [*values.shape, 2]:  # listed as pairs of floats
                values = values.view(values.real.dtype).reshape(array["shape"])
            if "/EBSD/" in path and values.ndim == len(array["shape"]) + 1:  # readers list patterns along one axis
                values = values.reshape(array["shape"])
            assert same_values(values, array), (name, key)
            seen += 1
    assert seen >= 861


def test_names_longer_than_a_folder_can_have(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "long.h5", "w") as file:
        file["short"] = np.zeros((3, 4))
        file["x" * 300] = np.zeros((3, 4))
        file["/".join(["y" * 100] * 3)] = np.zeros((3, 4))
    group = vfs.open_group(tmp_path / "long.h5")
    assert set(group) == {"short", "/".join(["y" * 100] * 3)}
    assert group.main.attrs["root"]["left_out"] == {"x" * 300: "its name has more than 255 bytes"}
    assert set(set_of(group).tree.faces()) == {
        ".zarr",
        ".v2.zarr",
        ".ome.zarr",
        ".ome.v2.zarr",
        ".npy",
    }  # of the other, too, there is no .npy file


def test_a_file_that_is_cut_says_how_long_it_should_be(tmp_path: Path) -> None:
    path = written(tmp_path, data=(frames_of((3, 40, 50), "<u2"), {}))
    whole = path.read_bytes()
    for size in (len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        refuses(path, f"expected {len(whole):,} bytes", f"it has {size:,}; it looks truncated", kind=vfs.FormatError)
