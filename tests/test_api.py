"""Opening: what is given, what comes back, and one clear error for everything that does not fit."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from vfs import formats
from vfs.engine.chunk_access import Chunks
from vfs.folder_tree import plans
from vfs.formats import Format, by_name
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout, FrameRecord
from vfs.model.stored import StoredArray
from vfs.sets import opening
from vfs.testing.backends import local_files
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_npy, write_raw

VALUES = np.arange(12 * 4 * 5, dtype="<u2").reshape(12, 4, 5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_npy(tmp_path, VALUES, name="scan.npy")


def container(paths: Any, sources: Any, *, twice: bool = False) -> list[StoredArray]:
    """A format of three arrays in one file of plain numbers: two of their own right, a little
    different in size, and a companion.
    """
    files = local_files(paths)

    def part(name: str, shape: tuple[int, ...], first: int, companion: bool = False) -> StoredArray:
        layout = FrameLayout.of(FrameRecord(shape[1:], 2), [shape[0]], file_header=first)
        return StoredArray(
            name,
            files,
            layout,
            PlainDecoder(np.dtype("<u2")),
            shape,
            ("frame", "y", "x")[: len(shape)],
            1,
            companion=companion,
            attrs={"name": name},
        )

    return [part("entry/large", (6, 4, 5), 0), part("entry/small", (5, 4, 5), 240), part("stamp", (6,), 440, True)]


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the format `container`."""
    kind = Format(
        "container", (".many",), "", "for tests", lambda path, head, sources: path.endswith(".many"), container
    )
    entries, loaded = {**formats._entries(), "container": None}, formats._loaded
    monkeypatch.setattr(formats, "_entries", lambda: entries)
    monkeypatch.setattr(formats, "_loaded", lambda name: kind if name == "container" else loaded(name))
    path = tmp_path / "set.many"
    path.write_bytes(VALUES.tobytes())
    return path


def test_one_file_several_files_and_a_glob(tmp_path: Path, path: Path) -> None:
    np.testing.assert_array_equal(vfs.open(path)[...], VALUES)
    np.testing.assert_array_equal(vfs.open(str(path))[...], VALUES)
    np.testing.assert_array_equal(vfs.open([path])[...], VALUES)
    for n in (10, 9):
        write_npy(tmp_path, VALUES + n, name=f"f{n}.npy")
    np.testing.assert_array_equal(vfs.open(str(tmp_path / "f*.npy"))[...], np.stack([VALUES + 9, VALUES + 10]))
    np.testing.assert_array_equal(
        vfs.open([tmp_path / "f10.npy", tmp_path / "f9.npy"])[...], np.stack([VALUES + 10, VALUES + 9])
    )


def test_arranging(path: Path) -> None:
    np.testing.assert_array_equal(vfs.open(path, nav_shape=(3, 4))[...], VALUES.reshape(3, 4, 4, 5))
    np.testing.assert_array_equal(vfs.open(path, nav_shape="2x3")[...], VALUES[:6].reshape(2, 3, 4, 5))
    more = vfs.open(path, nav_shape=20)
    np.testing.assert_array_equal(more[:12], VALUES)
    assert not more[12:].any()
    np.testing.assert_array_equal(vfs.open(path, sync_offset=3)[:9], VALUES[3:])
    np.testing.assert_array_equal(vfs.open(path, sync_offset=-3)[3:], VALUES[:9])
    mask = np.zeros((3, 4), bool)
    mask[1, 1:3] = True
    np.save(path.parent / "roi.npy", mask)
    for roi in (mask, mask.reshape(-1), [5, 6], path.parent / "roi.npy", str(path.parent / "roi.npy")):
        shown = vfs.open(path, nav_shape=(3, 4), roi=roi)
        np.testing.assert_array_equal(shown[...], VALUES[5:7])
        assert shown.dims == ("frame", "y", "x")
    np.testing.assert_array_equal(vfs.open(path, roi=[3, 0, 3])[...], VALUES[[3, 0, 3]])


@pytest.mark.parametrize("sync", [2**80, -(2**80), 2**63 - 1, 12, -12])
def test_an_offset_beyond_all_frames_is_blank(path: Path, sync: int) -> None:
    assert not vfs.open(path, sync_offset=sync)[...].any()


def bad_options(folder: Path) -> list[dict[str, Any]]:
    (folder / "empty.npy").touch()
    (folder / "text.npy").write_text("no array")
    np.save(folder / "floats.npy", np.ones(3))
    np.savez(folder / "several.npz", a=np.ones(2))
    return [
        *({"nav_shape": shape} for shape in (0, (2, -1), "a", (2**40, 2**40), 1.5, (10**30,))),
        *({"sync_offset": offset} for offset in (1.5, "x", None)),
        *(
            {"roi": roi}
            for roi in (np.zeros(12, bool), np.ones((3, 4), bool), [12], [-1], [], [0.5], [[1]], [2**70], {"a": 1})
        ),
        *({"roi": folder / name} for name in ("gone.npy", "empty.npy", "text.npy", "floats.npy", "several.npz", "")),
        *(
            {"dtype": "x9"},
            {"dtype": "S4"},
            {"dtype": object},
            {"chunks": "many"},
            {"chunks": (1, 2)},
            {"chunks": 0},
            {"chunks": None},
        ),
        *({"backend": "fast"}, {"backend": None}, {"format": "nonsense"}, {"colour": 1}, {"sig_ndim": 9}),
        *({"dark": np.ones((2, 2))}, {"dead": np.ones((4, 5), bool)}),
    ]


def test_options_that_do_not_fit(tmp_path: Path, path: Path) -> None:
    for options in bad_options(tmp_path):
        with pytest.raises((vfs.OptionError, vfs.MissingSourceError)) as caught:
            vfs.open(path, **options)
        assert str(caught.value), options
        assert "\n" not in str(caught.value), options
        assert len(str(caught.value)) < 600, options


def test_names_that_are_nearly_right(path: Path) -> None:
    with pytest.raises(vfs.OptionError, match=r"did you mean npy\?"):
        vfs.open(path, format="npz")
    with pytest.raises(vfs.OptionError, match=r"did you mean sig_ndim\?"):
        vfs.open(path, sig_dim=2)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "foreign.npy").write_bytes(b"GIF89a" + bytes(100))
    for given, error, says in (
        (tmp_path / "gone.npy", vfs.MissingSourceError, "gone.npy: no such file"),
        (tmp_path / "*.none", vfs.MissingSourceError, "no file matches"),
        (tmp_path, vfs.SourceError, "expected a file, found a folder: name a file"),
        (tmp_path / "empty", vfs.FormatError, "empty: expected a detector file, found an empty one"),
        (
            tmp_path / "foreign.npy",
            vfs.UnknownFormatError,
            r"foreign.npy: no format recognises it \(its name looks like npy",
        ),
        ([], vfs.OptionError, "no file given"),
        ("", vfs.MissingSourceError, "^expected the name of a file, found an empty one$"),
        (tmp_path / "emptys", vfs.MissingSourceError, rf"no such file; did you mean {tmp_path}/empty\?"),
        (f"{tmp_path}\\empty", vfs.MissingSourceError, rf"no such file; did you mean {tmp_path}/empty\?"),
        (tmp_path / "none" / "a.npy", vfs.MissingSourceError, f"there is no folder {tmp_path}/none"),
        ("~/gone.npy", vfs.MissingSourceError, f"only a shell takes ~ .*: {Path.home()}/gone.npy"),
        (r"C:\data\a.npy", vfs.MissingSourceError, "a path of Windows, which WSL shows as /mnt/c/data/a.npy"),
    ):
        with pytest.raises(error, match=says):
            vfs.open(given)


# containers


def test_a_group_is_a_mapping(many: Path) -> None:
    group = vfs.open_group(many)
    assert list(group) == ["entry/large", "entry/small", "stamp"]
    assert len(group) == 3
    assert group.main is group["entry/large"]
    assert reader_of(vfs.open(many)).dataset.path == "entry/large"
    assert group.name == "set"
    assert group.attrs == {"vfs": {"format": "container", "name": "entry/large"}}
    np.testing.assert_array_equal(group["entry/small"][...], VALUES[6:11])
    np.testing.assert_array_equal(group["stamp"][...], VALUES.reshape(-1)[220:226])
    with pytest.raises(
        vfs.UnknownArrayError, match="no array 'entry' in set; there are: entry/large, entry/small, stamp"
    ):
        group["entry"]
    with pytest.raises(KeyError):
        group["entry"]
    lines = repr(group).splitlines()
    assert lines[0] == "<vfs.VirtualGroup set: 3 arrays"
    assert [line.partition(":")[0].strip() for line in lines[1:3]] == ["entry/large", "entry/small"]
    assert lines[3] == "  and 1 more array>", "a companion is none that people look for"


@pytest.mark.parametrize("name", ["entry/large", "entry/small", "stamp"])
def test_any_array_can_be_the_main_one(many: Path, name: str) -> None:
    array = vfs.open(many, array=name)
    assert reader_of(array).dataset.path == name
    assert array.group.main is array
    np.testing.assert_array_equal(array[...], vfs.open_group(many)[name][...])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], array[...])
    assert vfs.open(many, array=name, dtype="f8").dtype == np.float64
    with pytest.raises(vfs.UnknownArrayError, match="there are: entry/large, entry/small, stamp"):
        vfs.open(many, array="other")


def test_the_main_array_stays_the_main_one_however_little_of_it_is_shown(many: Path) -> None:
    for options in ({"roi": [0]}, {"nav_shape": 1}, {"dtype": "u1"}):
        array = vfs.open(many, **options)
        assert reader_of(array).dataset.path == "entry/large"
        assert set_of(array.group).tree.main == "entry/large"


def test_companions_go_with_the_scan_and_others_do_not(many: Path) -> None:
    group = vfs.open_group(many, nav_shape=(2, 2), sync_offset=1)
    np.testing.assert_array_equal(group["stamp"][...], VALUES.reshape(-1)[221:225].reshape(2, 2))
    assert group["entry/small"].shape == (5, 4, 5)


# openings


def test_an_opening_is_what_was_given(path: Path) -> None:
    array = vfs.open(path, nav_shape=(3, 4), chunks="frames", backend="buffered")
    how = set_of(array.group).opening
    assert how.paths == (str(path),)
    assert how.format == "npy"
    assert pickle.loads(pickle.dumps(how)) == how
    np.testing.assert_array_equal(how.open().tree.arrays["data"][...], array[...])


def test_a_set_that_changed_is_not_opened_again_as_the_same(path: Path) -> None:
    small = pickle.dumps(vfs.open(path))
    os.utime(path, ns=(0, 1))
    again = pickle.loads(small)
    for _ in range(2):
        with pytest.raises(vfs.SourceChangedError, match=r"scan.npy: .* open it again"):
            again[0]


def test_who_only_passes_an_array_on_opens_no_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler of dask unpickles graphs and may not have the files; it said "Error during
    deserialization of the task graph".
    """
    array = vfs.open(path)
    small, store, values = pickle.dumps(array), pickle.dumps(array.store()), np.load(path)
    path.rename(path.with_suffix(".away"))
    again = pickle.loads(small)
    assert "scan.npy, not open yet" in repr(again)
    assert pickle.dumps(again) == small
    assert pickle.dumps(pickle.loads(store)) == store
    with pytest.raises(vfs.MissingSourceError, match=r"scan.npy: no such file"):
        again.shape  # noqa: B018
    with pytest.raises(vfs.MissingSourceError, match=r"scan.npy: no such file"):
        pickle.loads(store).get_sync("zarr.json")
    path.with_suffix(".away").rename(path)
    np.testing.assert_array_equal(again[...], values)
    assert repr(again) == repr(array)
    assert pickle.dumps(again) == small
    assert pickle.loads(store) == array.store()
    assert not hasattr(again, "anything")

    opened = []
    really = opening.Opening.open
    monkeypatch.setattr(opening.Opening, "open", lambda *args: (opened.append(args), really(*args))[1])
    dask = pytest.importorskip("dask.array")
    lazy = dask.from_array(array, chunks=-1).sum(), dask.from_zarr(array.zarr()).sum()
    pickle.loads(pickle.dumps(lazy))
    assert opened == []  # nor does who names it by what it is
    assert lazy[0].compute() == lazy[1].compute() == values.sum()


@pytest.mark.parametrize("name", ["dark", "gain", "dead"])
def test_a_correction_that_changed_is_noticed(path: Path, tmp_path: Path, name: str) -> None:
    image = tmp_path / "image.npy"
    np.save(image, np.ones(np.load(path).shape[-2:], "f4") * (name != "dead"))
    array = vfs.open(path, **{name: image})
    kept = [pickle.dumps(array), pickle.dumps(array.store())]
    np.testing.assert_array_equal(pickle.loads(kept[0])[...], array[...])
    np.save(image, np.load(image) * 2)
    os.utime(image, ns=(0, 1))
    again, store = map(pickle.loads, kept)
    for use in (lambda: again.shape, lambda: store.get_sync("zarr.json")):
        with pytest.raises(
            vfs.SourceChangedError, match=r"scan.npy: files of the set or of its corrections .* changed"
        ):
            use()
    assert vfs.open(path, **{name: image}).store() != array.store()


def test_fields_of_records_have_small_chunks(tmp_path: Path) -> None:
    """Who looks at the first chunk of every array does not read a field of every record of the set."""
    mib = vfs.open_group(write_mib(tmp_path, np.zeros((3000, 4, 4), "u2"), kind="U16"), nav_shape=(10, 300))
    assert mib["timestamp"].chunks == (2, 300)
    assert mib.main.chunks == (10, 300, 4, 4)


def test_a_set_whose_changes_are_accepted_is_opened_again(path: Path) -> None:
    array = vfs.open(path, accept_changes=True)
    kept = [pickle.dumps(array), pickle.dumps(array.store()), pickle.dumps(array.group)]
    np.save(path, np.load(path) + 1)
    os.utime(path, ns=(0, 1))
    again, store, group = map(pickle.loads, kept)
    for found in (again, zarr.open_array(store, path="data", mode="r"), group.main, array):
        np.testing.assert_array_equal(found[...], np.load(path))
    np.save(path, np.load(path) + 1)
    np.testing.assert_array_equal(again[...], np.load(path))


def test_headerless_data_takes_dtype_as_what_it_is(tmp_path: Path) -> None:
    paths = write_raw(tmp_path, VALUES)
    same = vfs.open(paths, format="raw", dtype="<u2", sig_shape=(4, 5))
    assert same.dtype == np.uint16
    np.testing.assert_array_equal(same[...], VALUES)
    both = vfs.open(paths, format="raw", stored_dtype="<u2", dtype="f4", sig_shape="4,5")
    np.testing.assert_array_equal(both[...], VALUES.astype("f4"), strict=True)
    assert pickle.loads(pickle.dumps(both)).dtype == np.float32


def test_arrays_are_let_go_of(path: Path) -> None:
    array = vfs.open(path)
    array[0]
    Chunks(reader_of(array)).cached((0, 0, 0))
    gone = weakref.ref(array)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    del array
    gc.collect()
    assert gone() is None
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_what_import_and_open_load(path: Path) -> None:
    script = f"""
import sys, vfs
light = [m for m in ("numpy", "numba", "zarr") if m in sys.modules]
a = vfs.open({str(path)!r}, backend="buffered")
a[0, 1, 2]
heavy = [m for m in ("zarr", "fuse", "mfusepy", "tifffile", "h5py", "dask") if m in sys.modules]
print(light, heavy)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=250)
    assert done.stdout.strip() == "[] []", done.stderr


def test_what_a_mount_shows_shares_one_cache_of_the_size_asked_for(path: Path, tmp_path: Path) -> None:
    other = write_npy(tmp_path, VALUES, name="other.npy")
    openings = [set_of(vfs.open_group(name, chunks=(4, 4, 5))).opening for name in (path, other)]
    shown = plans.open_folder(openings, 200)  # a chunk has 160 bytes
    assert shown.cache.limit == 200
    for name in ("scan", "other"):
        for _ in range(2):
            assert shown.at(f"{name}.zarr/data/c/1/0/0").get(3, 50) == VALUES[4:8].tobytes()[3:50]
    assert (shown.cache.hits, shown.cache.misses, shown.cache.held) == (2, 2, 160)
    assert set(plans.open_folder(openings, zarr_format=2).faces) == {
        "scan.v2.zarr",
        "scan.ome.v2.zarr",
        "scan.npy",
        "other.v2.zarr",
        "other.ome.v2.zarr",
        "other.npy",
    }


@pytest.mark.parametrize("size", ["many", -1, "-1", 1.5, None, True, "5 miles"])
def test_a_cache_size_that_is_none(path: Path, size: Any) -> None:
    with pytest.raises(vfs.OptionError, match=r"cache_size=.*: expected a number of bytes, also as \"512MiB\""):
        vfs.mount(path, "/nowhere", cache_size=size)


def test_without_a_cache_everything_is_read_all_the_same(path: Path) -> None:
    shown = plans.open_folder([set_of(vfs.open_group(path, chunks=(4, 4, 5))).opening], 0)
    for _ in range(2):
        assert shown.at("scan.zarr/data/c/1/0/0").get(3, 50) == VALUES[4:8].tobytes()[3:50]
    assert shown.cache.held == 0


def test_arrays_are_made_when_they_are_asked_for_and_once(many: Path) -> None:
    group = vfs.open_group(many)
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: reader_of(group["stamp"]).token, range(64)))
    assert found == {reader_of(group["stamp"]).token}
    assert group["stamp"].group is group
    assert reader_of(group["stamp"]).cache is reader_of(group.main).cache


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\r\n<!DOCTYPE html><html>404", "a web page, .*; download it again"),
        (b"<HTML><body>log in", "a web page"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n",
            "a pointer of Git LFS; `git lfs pull`",
        ),
        (b"/annex/objects/SHA256E-s4--00.mrc\n", "a pointer of git-annex; `git annex get`"),
    ],
)
@pytest.mark.parametrize("name", ["scan.mib", "scan.h5", "scan.hdr", "scan.raw", "scan.xml"])
def test_what_stands_in_for_data_is_called_by_its_name(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(vfs.UnknownFormatError, match=f"{name}: expected a detector file, found {said}"):
        vfs.open(tmp_path / name)


def test_options_name_the_format_of_a_file_that_none_recognises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(4 * 8 * 8, dtype="u2").reshape(4, 8, 8)
    for name in ("x.raw", "x.anything"):
        values.tofile(tmp_path / name)
        group = vfs.open_group(tmp_path / name, stored_dtype="u2", sig_shape=(8, 8))
        np.testing.assert_array_equal(group.main[:], values)
        again = pickle.loads(pickle.dumps(group.main))
        np.testing.assert_array_equal(again[1], values[1])
    with pytest.raises(vfs.OptionError, match="needs the dtype of its pixels, such as stored_dtype='u2'"):
        vfs.open(tmp_path / "x.raw", sig_shape=(8, 8))
    with pytest.raises(vfs.UnknownFormatError, match=r"stored_dtype='u2', sig_shape=\(256, 256\)"):
        vfs.open(tmp_path / "x.raw", nothing=1)
    for name, said in {
        "offset": "its options: stored_dtype, ",
        "stored_type": r"\(did you mean stored_dtype\?\)",
    }.items():
        with pytest.raises(vfs.OptionError, match=f"format raw has no option '{name}'.*{said}"):
            vfs.open(tmp_path / "x.raw", sig_shape=(8, 8), **{name: "u2"})
    np.save(tmp_path / "x.npy", values)
    for name in ("nav_shap", "navigation_shape", "scan_shape"):  # of all formats, and as others call it
        with pytest.raises(vfs.OptionError, match=rf"no option '{name}' \(did you mean nav_shape\?\)"):
            vfs.open(tmp_path / "x.npy", **{name: (2, 2)})
    with pytest.raises(vfs.OptionError, match="format npy has no option 'stored_dtype', raw has"):
        vfs.open(tmp_path / "x.npy", stored_dtype="u2")
    raw = by_name("raw")
    monkeypatch.setattr("vfs.formats.formats", lambda: {"raw": raw, "other": replace(raw, name="other")})
    with pytest.raises(vfs.UnknownFormatError, match="sig_shape may be of raw or other; choose one with format="):
        vfs.open(tmp_path / "x.raw", sig_shape=(8, 8))


@pytest.mark.parametrize("what", ["info scan.npy", "formats", "--version", "doctor"])
def test_on_the_path_only_it_says_that_it_is_not_installed(path: Path, what: str) -> None:
    """Nobody knows its formats then: they are entry points."""
    code = """
        import importlib.metadata as metadata, sys
        found, known = metadata.Distribution.from_name, metadata.entry_points
        def from_name(name):
            if name == "vfs":
                raise metadata.PackageNotFoundError(name)
            return found(name)
        metadata.Distribution.from_name = from_name
        metadata.entry_points = lambda **how: () if how["group"] == "vfs.formats" else known(**how)
        from vfs.cli.app import main
        sys.exit(main(sys.argv[1:]))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), *what.split()]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=250)
    if what == "doctor":
        assert (done.returncode, done.stderr) == (0, "")
        assert "its formats, and what it needs: pip install -e the checkout of it" in done.stdout
    else:
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "vfs is on Python's path, but not installed: pip install" in done.stderr
