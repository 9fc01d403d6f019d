"""References: what can be referred to, what is written, and that zarr reads it as vfs does."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Literal

import h5py
import hdf5plugin
import numcodecs
import numpy as np
import pandas as pd
import pytest
import zarr

import vfs
from tests.conformance.rows import ROWS
from tests.conftest import SHARED
from tests.formats.hdf5_sets import dectris
from tests.zarr.reference_readers import WAYS, by_fsspec, by_icechunk, check, refused, same, sets_below, written
from vfs.cli.app import main
from vfs.errors import DecodeError, IncompleteWarning, NotReferenceableError, OptionError, TruncatedSourceError
from vfs.faces.references import referenceable, references
from vfs.testing.inside import reader_of, set_of
from vfs.testing.rows import WrittenSet
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib, write_npy, write_raw
from vfs.zarr.references import export, kerchunk, shown
from vfs.zarr.references import icechunk as icechunk_writer

pytestmark = [
    pytest.mark.zarr,
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3"),
    pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated"),  # it is that of fsspec 2026.9
]

FRAMES = np.random.default_rng(3).integers(0, 4000, (24, 8, 16)).astype(np.uint16)
REFERENCEABLE = [row for row in ROWS if row.referenceable]


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write_mib(tmp_path / "in", FRAMES, frames_per_file=5, scan=(4, 6))


def raw(folder: Path, frames: np.ndarray = FRAMES, files: int = 1, **options: Any) -> vfs.VirtualGroup:
    """Write raw files, and open them with these options."""
    own = {name: options.pop(name) for name in ("frame_header",) if name in options}
    paths = write_raw(folder, frames, files=files, **own)
    return vfs.open_group(paths, format="raw", stored_dtype=frames.dtype, sig_shape=frames.shape[1:], **own, **options)


def why(data: vfs.VirtualGroup | vfs.VirtualArray, **options: Any) -> str:
    """Return why references to the main array are refused."""
    array = data.main if isinstance(data, vfs.VirtualGroup) else data
    with pytest.raises(NotReferenceableError) as raised:
        references(reader_of(array), **options)
    return str(raised.value)


# equal to what vfs reads


@pytest.mark.parametrize("row", REFERENCEABLE, ids=lambda row: row.name)
def test_other_readers_read_every_format(row: Any, tmp_path: Path) -> None:
    (tmp_path / "a set").mkdir()
    found = WrittenSet(row, tmp_path / "a set", *row.write(tmp_path / "a set"))
    group = found.group()
    for name in WAYS:
        assert reader_of(group.main).dataset.path in check(group, tmp_path, name, blank=True)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no real files here")
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.thorough)])
def test_other_readers_read_real_files(tmp_path: Path, every: int) -> None:
    """Each in one of the ways, in turns."""
    groups, ways = sets_below(SHARED)[::every], list(WAYS)
    for n in range(len(groups)):
        (tmp_path / str(n)).mkdir()
    no = [group for n, group in enumerate(groups) if refused(group, tmp_path / str(n), ways[n % len(ways)])]
    assert len(no) < len(groups) / 4
    assert {referenceable(reader_of(group.main))[0] for group in no} <= {False}


@pytest.mark.parametrize("name", WAYS)
def test_names_of_files_may_have_any_characters(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "50% of #1, ü? [a]"
    folder.mkdir()
    group = raw(folder, files=3)
    assert check(group, tmp_path, name) == ["data"]


def test_names_that_references_cannot_hold_are_refused(tmp_path: Path) -> None:
    """Names that are no UTF-8 were a traceback, and Icechunk did not read a name with a line feed."""
    for odd, those in (("a\udc80", ("refs.parquet", "refs.icechunk")), ("a\nb", ("refs.icechunk",))):
        (tmp_path / odd).mkdir()
        group = raw(tmp_path / odd)
        for name in those:
            with pytest.raises(NotReferenceableError, match=r"cannot name a file with .*; rename it"):
                written(group, tmp_path, name)
        assert check(group, tmp_path / odd, "refs.json") == ["data"]
    assert not list(tmp_path.glob("refs*"))


@pytest.mark.parametrize("name", WAYS)
def test_what_is_stopped_leaves_nothing(name: str, scan: Path, tmp_path: Path) -> None:
    """Ctrl-C in a shell: a signal was only noted, and everything was written all the same."""

    def stop() -> None:
        raise SystemExit(130)

    with pytest.raises(SystemExit):
        export(set_of(vfs.open_group(scan)), tmp_path / name, WAYS[name][0], check=stop)
    assert not list(tmp_path.glob("refs*"))


# which chunks


def chunks(data: vfs.VirtualGroup, **options: Any) -> tuple[int, ...]:
    return references(reader_of(data.main), **options).chunks


def test_frames_between_headers_are_a_chunk_each(scan: Path, tmp_path: Path) -> None:
    found = references(reader_of(vfs.open(scan)))
    assert (found.chunks, found.counts) == ((1, 1, 8, 16), (4, 6, 1, 1))
    tables = list(found.tables(7))
    assert [len(table.file) for table in tables] == [7, 7, 7, 3]
    assert np.concatenate([table.file for table in tables]).tolist() == [n // 5 for n in range(24)]
    assert tables[0].offset[:5].tolist() == [384 + n * (384 + 256) for n in range(5)]


def test_frames_in_a_row_share_chunks_that_divide_the_scan(tmp_path: Path) -> None:
    assert chunks(raw(tmp_path, nav_shape=(4, 6))) == (4, 6, 8, 16)
    large = np.zeros((6, 512, 1024), np.uint16)  # 1 MiB each
    assert chunks(raw(tmp_path, large)) == (2, 512, 1024)


def test_frames_in_a_row_are_apart_where_runs_go_on_in_another_file(tmp_path: Path) -> None:
    assert chunks(raw(tmp_path, files=5)) == (1, 8, 16)


def test_large_frames_are_cut_into_equal_parts(tmp_path: Path) -> None:
    path = tmp_path / "large.raw"
    with path.open("wb") as file:
        file.truncate(5000 * 3000 * 4)
    group = vfs.open_group(path, format="raw", stored_dtype="<f4", sig_shape=(5000, 3000))
    rows = chunks(group)[-2]
    assert rows * 3000 * 4 <= 8 << 20
    assert 5000 % rows == 0
    assert chunks(group) == (1, rows, 3000)


def test_asked_for_chunks_are_taken_or_refused(tmp_path: Path) -> None:
    group = raw(tmp_path, nav_shape=(4, 6), chunks=(1, 3, 8, 16))
    vfs.export(group, tmp_path / "refs.json", to="kerchunk")
    refs = json.loads((tmp_path / "refs.json").read_text())["refs"]
    assert json.loads(refs["data/.zarray"])["chunks"] == [1, 3, 8, 16]
    assert refs["data/3.1.0.0"] == [f"file://{group.main.files[0]}", (18 + 3) * 256, 3 * 256]
    for asked, said in (
        ((4, 6, 8, 8), "no runs of bytes"),
        ((1, 4, 8, 16), "do not divide"),
        ((1, 1, 3, 16), "do not divide"),
    ):
        wrong = raw(tmp_path, nav_shape=(4, 6), chunks=asked)
        assert said in why(wrong, chosen=True)
    between = raw(tmp_path, frame_header=16, nav_shape=(4, 6), chunks=(1, 6, 8, 16))
    assert "without gaps" in why(between, chosen=True)


# what is refused


def test_what_has_to_be_computed_is_refused_by_name(tmp_path: Path) -> None:
    group = raw(tmp_path, derive={"sum": vfs.Sum()})
    assert "computed" in why(group["derived/sum"])
    assert "converted" in why(raw(tmp_path, dtype="float32"))
    assert "corrected" in why(raw(tmp_path, dark=np.ones(FRAMES.shape[1:])))
    packed = vfs.open_group(write_mib(tmp_path, FRAMES, kind="R64", depth=24, scan=(4, 6)))
    assert "4 of its pixels are packed into 8 bytes" in why(packed)
    mirrored = vfs.open_group(write_mib(tmp_path, FRAMES, scan=(4, 6)), flip_y=True)
    assert "mirrored" in why(mirrored)
    fortran = vfs.open_group(write_npy(tmp_path, np.asfortranarray(FRAMES)))
    assert "one after the other" in why(fortran)
    with h5py.File(tmp_path / "compact.h5", "w") as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(file.id, b"data", h5py.h5t.STD_U16LE, h5py.h5s.create_simple((8, 16)), plan)
    assert "stored compact" in why(vfs.open_group(tmp_path / "compact.h5"))


def test_the_error_says_what_to_do_instead(scan: Path, tmp_path: Path) -> None:
    with pytest.raises(NotReferenceableError, match=r"scan.hdr: data: .*mirrored.*`vfs export` to OUT.zarr"):
        vfs.export(scan, tmp_path / "refs.json", to="kerchunk", flip_y=True)
    assert not list(tmp_path.glob("refs*"))


def test_blank_frames_are_refused_unless_readers_may_fill_them_in(scan: Path, tmp_path: Path) -> None:
    group = vfs.open_group(scan, sync_offset=-3)
    assert "3 of its 24 chunks" in why(group)
    for name in WAYS:
        with pytest.raises(NotReferenceableError, match="blank=True"):
            written(group, tmp_path, name)
        assert "data" in check(group, tmp_path, name, blank=True)
    whole = vfs.open_group(scan)
    vfs.export(whole, tmp_path / "whole.json", to="kerchunk", blank=True)
    fills = [
        json.loads(json.loads((tmp_path / name).read_text())["refs"]["data/.zarray"])["fill_value"]
        for name in ("refs.json", "whole.json")
    ]
    assert fills == [0, None]  # a number masks in xarray, and makes floats


def test_a_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    group = raw(tmp_path)
    reader_of(group.main).dataset.files.sizes[0] -= 1
    with pytest.raises(TruncatedSourceError, match="looks truncated"):
        vfs.export(group, tmp_path / "refs.json", to="kerchunk")


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = raw(tmp_path)

    def and_change(*args: Any) -> None:
        os.utime(group.main.files[0], (1, 1))
        write(*args)

    write = kerchunk.write_json
    monkeypatch.setattr(kerchunk, "write_json", and_change)
    with pytest.raises(vfs.SourceChangedError, match="changed while"):
        vfs.export(group, tmp_path / "refs.json", to="kerchunk")
    assert not list(tmp_path.glob("refs*"))


def test_a_disk_that_is_read_only_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, what was not written cannot be removed either: that was said, and to be a bug in vfs."""
    group = raw(tmp_path)

    def refuse(*args: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(kerchunk, "write_json", refuse)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(OptionError, match=r"refs\.json: cannot be written: Read-only file system"):
        vfs.export(group, tmp_path / "refs.json", to="kerchunk")


def test_options_that_have_no_effect_are_refused(scan: Path, tmp_path: Path) -> None:
    for options in ({"codec": "none"}, {"resume": True}, {"zarr_format": 2}):
        with pytest.raises(OptionError, match="no effect on references"):
            vfs.export(scan, tmp_path / "refs.json", to="kerchunk", **options)
    with pytest.raises(OptionError, match="blank"):
        vfs.export(scan, tmp_path / "refs.zarr", blank=True)
    with pytest.raises(OptionError, match="expected kerchunk or icechunk"):
        vfs.export(scan, tmp_path / "refs.json", to="netcdf")
    with pytest.raises(OptionError, match=r"OUT.json .* or OUT.parquet"):
        vfs.export(scan, tmp_path / "refs.zarr", to="kerchunk")
    (tmp_path / "refs.json").touch()
    with pytest.raises(OptionError, match="exists already"):
        vfs.export(scan, tmp_path / "refs.json", to="kerchunk")


# small arrays


def test_small_arrays_are_copied_and_others_left_out(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = vfs.open_group(scan)
    for name in WAYS:
        assert check(group, tmp_path, name) == ["data", "timestamp", "exposure"]
    monkeypatch.setattr(shown, "COPIED", 100)
    (tmp_path / "again").mkdir()
    with pytest.warns(IncompleteWarning, match="timestamp is omitted: its elements are not stored as plain numbers"):
        assert list(written(group, tmp_path / "again", "refs.json")) == ["data"]


# Icechunk


def test_a_file_that_is_written_again_is_an_error_of_icechunk(tmp_path: Path) -> None:
    group = raw(tmp_path)
    path = Path(group.main.files[0])
    os.utime(path, (1_000_000_000.25, 1_000_000_000.25))
    group = vfs.open_group(path, format="raw", stored_dtype="<u2", sig_shape=(8, 16))
    found = written(group, tmp_path, "refs.icechunk")
    same(found["data"], group.main)
    os.utime(path)
    with pytest.raises(Exception, match="checksum of the object owning the virtual chunk has changed"):
        by_icechunk(tmp_path / "refs.icechunk")["data"][...]  # type: ignore[index]


@pytest.mark.parametrize("group", [7, 100])
def test_commits_are_bounded(scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    """Also within a group of references that are made at once: one that was larger than the limit passed whole."""
    import icechunk

    monkeypatch.setattr(icechunk_writer, "MAX_REFERENCES", 10)
    from vfs.faces import references as places

    monkeypatch.setattr(places, "AT_ONCE", group)
    monkeypatch.setattr(places.References.tables, "__defaults__", (group,))
    assert "data" in check(vfs.open_group(scan), tmp_path, "refs.icechunk")
    storage = icechunk.local_filesystem_storage(str(tmp_path / "refs.icechunk"))
    commits = list(icechunk.Repository.open(storage).ancestry(branch="main"))
    assert len(commits) == 4  # an empty one, then of 10, of 10, and of 4


# Parquet


def test_parquet_has_ten_thousand_places_a_file(tmp_path: Path) -> None:
    frames = np.arange(20_500, dtype=np.uint16).reshape(-1, 1, 1)
    group = raw(tmp_path, frames, frame_header=8)
    found = written(group, tmp_path, "refs.parquet")
    names = sorted(path.name for path in (tmp_path / "refs.parquet/data").iterdir())
    assert names == ["refs.0.parq", "refs.1.parq", "refs.2.parq"]
    for n in (0, 9_999, 10_000, 20_499):
        assert int(found["data"][n, 0, 0]) == n  # type: ignore[index]
    for engine in ("fastparquet", "pyarrow"):  # both of which fsspec takes
        table = pd.read_parquet(tmp_path / "refs.parquet/data/refs.2.parq", engine=engine)
        assert table["offset"].dtype == table["size"].dtype == np.int64
        assert table["offset"].tolist() == [8 + n * 10 for n in range(20_000, 20_500)]
        assert set(table["path"]) == {f"file://{group.main.files[0]}"}


def test_a_folder_of_a_group_is_references_in_parquet(tmp_path: Path) -> None:
    """fsspec knows no groups in Parquet, so xarray found none of what lies in a group."""
    master = dectris(tmp_path, FRAMES, 10)
    group = vfs.open_group(master)
    path = reader_of(group.main).dataset.path
    above, _, name = path.rpartition("/")
    assert above
    found = written(group, tmp_path, "refs.parquet")
    same(found[path], group.main)
    below = by_fsspec(tmp_path / "refs.parquet" / above)
    same(below[name], group.main)
    assert dict(below.attrs) == dict(group.zarr()[above].attrs)


# HDF5

FILTERS: dict[str, Any] = {
    "bitshuffle": {**hdf5plugin.Bitshuffle(cname="none")},
    "bitshuffle lz4": {**hdf5plugin.Bitshuffle(cname="lz4")},
    "bitshuffle zstd": {**hdf5plugin.Bitshuffle(cname="zstd")},
    "lz4": {**hdf5plugin.LZ4()},
    "blosc2": {**hdf5plugin.Blosc2()},
    "lzf with a checksum": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "gzip with a checksum": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "blosc": {**hdf5plugin.Blosc(cname="zstd", shuffle=2)},
    "zstd": {**hdf5plugin.Zstd()},
    "bzip2": {**hdf5plugin.BZip2()},
}


@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize("dtype", ["<u2", ">u4"])
def test_chunks_of_hdf5_are_read_through_codecs(how: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "set.h5"
    elements = FRAMES[:, :, :15] % 3  # HDF5 leaves out filters that make a chunk no smaller
    with h5py.File(path, "w") as file:  # chunks reach beyond the array
        file.create_dataset("data", data=elements.astype(dtype), chunks=(5, 6, 8), **FILTERS[how])
    group = vfs.open_group(path)
    for name in WAYS:
        assert check(group, tmp_path, name) == ["data"]


def test_a_dectris_master_is_read_by_zarr_alone(tmp_path: Path) -> None:
    """Zarr and fsspec find the codec by themselves: the program that reads imports nothing else."""
    master = dectris(tmp_path, FRAMES, 10, chunks=(1, 8, 16), **hdf5plugin.Bitshuffle(cname="lz4"))
    vfs.export(master, tmp_path / "refs.json", to="kerchunk")
    group = vfs.open_group(master)
    path = reader_of(group.main).dataset.path
    program = f"""
        import fsspec, zarr
        mapper = fsspec.filesystem("reference", fo={str(tmp_path / "refs.json")!r}).get_mapper("")
        store = zarr.storage.FsspecStore.from_mapper(mapper)
        print(int(zarr.open_array(store, path={path!r}, mode="r", zarr_format=2)[:].sum()))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == FRAMES.sum()


def test_filters_that_all_chunks_left_out_are_no_codecs(tmp_path: Path) -> None:
    """A filter mask is honoured where it is that of all chunks, else refused by name."""
    path = tmp_path / "masked.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (4, 8), "<u2", chunks=(2, 8), shuffle=True, compression="gzip")
        for row in (0, 2):
            data.id.write_direct_chunk((row, 0), np.arange(16, dtype="<u2").tobytes(), filter_mask=3)
    found = references(reader_of(vfs.open(path)))
    assert found.encoding.codecs == ()
    assert check(vfs.open_group(path), tmp_path, "refs.json") == ["data"]
    with h5py.File(path, "r+") as file:
        file["data"][2:] = 7
    assert "1 of its 2 chunks did not go through all filters (shuffle, deflate)" in why(vfs.open(path))


@pytest.mark.parametrize("order", ["<", ">"])
def test_tiles_of_tiff_that_are_packed_with_zstd(tmp_path: Path, order: Literal["<", ">"]) -> None:
    """They were refused: zarr was said to have no codec for them."""
    pages = [frame.astype(f"{order}u2") for frame in FRAMES[:3].repeat(2, axis=1)]
    path = write_tiff(
        tmp_path / "a.tif", pages, order=order, tile=(16, 16), compression=50000, encode=numcodecs.Zstd(3).encode
    )
    group = vfs.open_group(path)
    for name in ("refs.json", "refs.icechunk"):
        assert check(group, tmp_path, name) == ["data"]


def test_chunks_that_were_never_written_are_blank(tmp_path: Path) -> None:
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("sparse", (64, 64, 64), "<f4", chunks=(16, 64, 64), fillvalue=2.5)[20:40] = 1
    group = vfs.open_group(path, array="sparse")
    assert "2 of its 4 chunks" in why(group)
    for name in WAYS:
        assert check(group, tmp_path, name, blank=True) == ["sparse"]
    with h5py.File(path, "w") as file:
        file.create_dataset("never", (64, 64), "<f4", chunks=(16, 64), fillvalue=2.5)
    (tmp_path / "none").mkdir()
    for name in WAYS:  # fsspec did not open a folder without a file of references
        assert check(vfs.open_group(path), tmp_path / "none", name, blank=True) == ["never"]


def codec(name: str, how: dict[str, Any], elements: np.ndarray, tmp_path: Path) -> tuple[Any, bytes]:
    """Return the codec for a filter of HDF5, and a chunk."""
    path = tmp_path / f"{name}.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", data=elements, chunks=elements.shape, **how)
        chunk = data.id.read_direct_chunk((0,) * elements.ndim)[1]
    found = references(reader_of(vfs.open(path)))
    return numcodecs.get_codec(dict(found.encoding.codecs[0])), bytes(chunk)


def test_the_codec_does_not_trust_bytes(tmp_path: Path) -> None:
    made, chunk = codec("lz4", FILTERS["bitshuffle lz4"], FRAMES, tmp_path)
    assert made.decode(chunk).tobytes() == FRAMES.tobytes()
    out = np.empty(FRAMES.nbytes, np.uint8)
    assert made.decode(chunk, out=out) is out
    assert out.tobytes() == FRAMES.tobytes()
    for bad in (b"", chunk[:11], chunk[: len(chunk) // 2], b"\xff" * len(chunk), chunk[:8] + b"\0" * 4 + chunk[12:]):
        with pytest.raises(DecodeError, match="bitshuffle does not decode the chunk"):
            made.decode(bad)
    with pytest.raises(TypeError, match="only reads"):
        made.encode(FRAMES)
    assert numcodecs.get_codec(made.get_config()) == made


@pytest.mark.parametrize(
    "config",
    [{"filter": 1, "values": [], "nbytes": -1}, {"filter": "x", "values": [], "nbytes": 1}, {"filter": 1}, None],
)
def test_a_wrong_configuration_is_one_line(config: Any) -> None:
    from vfs.zarr.hdf5_codec import ZarrHdf5

    with pytest.raises(OptionError, match=r"codec vfs\.hdf5: expected filter, values and nbytes"):
        ZarrHdf5.from_dict({"name": "vfs.hdf5", "configuration": config})


def test_an_unknown_filter_is_one_line() -> None:
    with pytest.raises(OptionError, match="no HDF5 filter 12345"):
        numcodecs.get_codec({"id": "vfs.hdf5", "filter": 12345, "values": [], "nbytes": 4}).decode(b"1234")


def test_zarr_knows_the_codec(tmp_path: Path) -> None:
    made = zarr.registry.get_codec_class("vfs.hdf5").from_dict(
        {"name": "vfs.hdf5", "configuration": {"filter": 32008, "values": [0, 3, 2, 0, 2], "nbytes": 64}}
    )
    assert made.to_dict()["configuration"] == {"filter": 32008, "values": [0, 3, 2, 0, 2], "nbytes": 64}


# the commands


def test_the_command_says_what_was_written(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "refs.json"
    assert main(["export", str(scan), str(out), "--to", "kerchunk"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{out}: 1 array, 24 references to 5 files; 2 small arrays copied; ")
    assert said.err == ""
    out.unlink()
    monkeypatch.setattr(shown, "COPIED", 10)
    assert main(["export", str(scan), str(out), "--to", "kerchunk"]) == 0
    assert "vfs: timestamp: omitted: its elements are not stored as plain numbers" in capsys.readouterr().err
    for words, said_of_it in (
        (["--sync-offset", "-2"], "2 of its 24 chunks, which readers would fill in; --blank allows that"),
        (["--codec", "none"], "--codec has no effect for references"),
        (["-o", "flip_y=true"], "its frames are mirrored"),
    ):
        assert main(["export", str(scan), str(tmp_path / "more.json"), "--to", "kerchunk", *words]) == 2
        error = capsys.readouterr().err
        assert said_of_it in error
        assert error.count("\n") == 1


def test_info_says_what_size_makes_of_an_array(
    scan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vfs.faces.references.LOOKED_AT", 10)
    monkeypatch.setattr("vfs.cli.report.arrays.LISTED", 5)
    monkeypatch.setattr("vfs.cli.report.arrays.MAPPED", 1000)
    assert main(["info", "-v", "--chunks", "frames", str(scan)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "referenceable: 24 chunks of 1 x 1 x 8 x 16; the first 10 were looked at" in said
    assert "a mount has 6 chunks in one folder" in said
    assert "its .npy is larger than the 128 TiB that a program can map" in said


def test_info_says_what_is_referenceable(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "-v", str(scan)]) == 0
    assert "    referenceable: 24 chunks of 1 x 1 x 8 x 16\n" in capsys.readouterr().out
    assert main(["info", "-v", str(scan), "-o", "flip_y=true"]) == 0
    assert "    not referenceable: its frames are mirrored\n" in capsys.readouterr().out
    assert main(["info", "-v", str(scan), "--chunks", "1,1,3,16"]) == 0  # export refuses these
    assert "    not referenceable: chunks of 1 x 1 x 3 x 16 do not divide" in capsys.readouterr().out
    assert main(["info", str(scan)]) == 0
    assert "referenceable" not in capsys.readouterr().out
    assert main(["info", "--json", str(scan)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    said = found["arrays"]
    assert said["data"]["referenceable"] is True
    assert said["timestamp"]["referenceable"] is False
    assert "not stored as plain numbers" in said["timestamp"]["referenceable_reason"]
