"""A set consists of the files that somebody named and of what lies in their folder, whatever files
say and links lead to.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.sets import frms6_set
from vfs.cli.app import main
from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.sources.boundary import ANYWHERE, Boundary, open_file
from vfs.sources.local import LocalSources
from vfs.sources.names import absolute
from vfs.testing.inside import set_of
from vfs.testing.opens import opened_past_the_boundary
from vfs.testing.stack_writers import write_mrc
from vfs.testing.writers import write_mib, write_npy

readlink = os.readlink

TWIN = np.arange(12 * 16, dtype="<u2").reshape(12, 16)


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A folder beside `outside`, which holds `secret.npy`."""
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
    write_npy(tmp_path / "outside", TWIN, name="secret.npy")
    return tmp_path / "inside"


@pytest.fixture
def secret(inside: Path) -> Path:
    return inside.parent / "outside" / "secret.npy"


def test_what_lies_within(inside: Path, secret: Path) -> None:
    (inside / "sub").mkdir()
    (inside / "out").symlink_to(secret.parent)
    (inside / "link").symlink_to(secret)
    (inside / "in").symlink_to(inside / "sub")
    beside = inside.with_name("inside2")
    beside.mkdir()
    bound = Boundary.around([inside / "a.npy"])
    for name, held in {
        "a": True,
        "sub/b": True,
        "in/b": True,
        "out/secret.npy": False,
        "link": False,
        "../inside2/x": False,
        "..": False,
        ".": True,
    }.items():
        for _ in range(2):  # what is known of a folder makes no difference
            assert bound.covers(str(inside / name)) is held, name
    assert not bound.covers("/etc/passwd")
    assert ANYWHERE.covers("/etc/passwd")
    assert bound.unlimited is False
    named = Boundary.around([inside / "link"])
    assert named.covers(str(inside / "link"))
    assert not named.covers(str(secret.with_name("other.npy")))
    assert pickle.loads(pickle.dumps(named)) == named


def test_folders_are_where_links_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    real = os.path.realpath(tmp_path)
    named = [tmp_path / "link" / "b" / "x.mib", tmp_path / "link" / "gone" / "x.mib"]
    folders = (f"{real}/a/b", f"{real}/a/gone")
    assert Boundary.around(named).folders == folders

    def no_proc(path: Any, **how: Any) -> str:
        raise FileNotFoundError(path)

    with monkeypatch.context() as patch:
        patch.setattr(
            os,
            "readlink",
            lambda path, **how: no_proc(path) if str(path).startswith("/proc") else readlink(path, **how),
        )
        assert Boundary.around(named).folders == folders


@pytest.mark.parametrize(
    "path",
    [
        "/a",
        "/",
        "//",
        "//a",
        "///a",
        "/a/",
        "/a//b",
        "/a/./b",
        "/a/../b",
        "/a/..",
        "/.a/b",
        "a",
        "",
        ".",
        "a/b/",
        "/a/b.c",
        "/..",
        "/a b/\u00b5",
    ],
)
def test_absolute_paths_are_those_of_python(path: str) -> None:
    assert absolute(path) == os.path.abspath(path)
    assert absolute(Path(path)) == os.path.abspath(Path(path))


def test_a_folder_of_nearly_the_same_name_is_another(tmp_path: Path) -> None:
    bound = Boundary((str(tmp_path / "set"),))
    assert bound.holds(str(tmp_path / "set" / "x"))
    assert bound.holds(str(tmp_path / "set"))
    assert not bound.holds(str(tmp_path / "set2" / "x"))
    assert ANYWHERE.holds("/any")


def test_opening_a_file(inside: Path, secret: Path) -> None:
    bound = Boundary.around([inside / "a"])
    (inside / "link").symlink_to(secret)
    with pytest.raises(
        OutsideError,
        match=rf"{inside}/link: leads to {secret}, outside of {inside}, the folder of the set; follow_outside=True",
    ) as caught:
        open_file(str(inside / "link"), bound)
    assert isinstance(caught.value, PermissionError)
    with pytest.raises(OutsideError, match=rf"^{secret}: lies outside of {inside}, "):
        open_file(str(secret), bound)
    with pytest.raises(OutsideError, match=rf"^{secret}: lies outside of {inside}, "):
        bound.check(str(secret))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(OutsideError):
            open_file(str(secret), bound)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(open_file(str(inside / "link"), ANYWHERE))
    os.close(open_file(str(inside / "link"), Boundary.around([inside / "link"])))
    with pytest.raises(MissingSourceError, match="none: no such file"):
        open_file(str(inside / "none"), bound)


def test_what_is_no_file_is_refused_and_not_waited_for(inside: Path) -> None:
    os.mkfifo(inside / "pipe")
    (inside / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(inside / "socket"))
        for name in ("pipe", "folder", "socket"):
            with pytest.raises(
                SourceError,
                match=rf"{name}: (expected a file, found |cannot be opened: No such device or address)",
            ):
                open_file(str(inside / name), ANYWHERE)
            with pytest.raises(SourceError, match=f"{name}: "):
                vfs.open(inside / name)
    assert main(["info", str(inside / "pipe")]) == 2


def test_the_folders_of_a_set_keep_it_within(inside: Path, secret: Path) -> None:
    """While a set is opened its folders stay open, and files are found in them: links are followed
    to where they lead all the same.
    """
    own = write_npy(inside, TWIN, name="a.npy")
    (inside / "sub").mkdir()
    write_npy(inside / "sub", TWIN, name="b.npy")
    (inside / "in").symlink_to("a.npy")
    (inside / "out").symlink_to(secret)
    (inside / "in_folder").symlink_to("sub")
    (inside / "out_folder").symlink_to(secret.parent)
    write_npy(secret.parent, TWIN, name="other.npy")
    (inside / "gone").symlink_to("nowhere")
    os.mkfifo(inside / "pipe")
    (inside / "pipe_link").symlink_to("pipe")
    before = len(os.listdir("/proc/self/fd"))
    with LocalSources.around([str(own)]) as sources:
        for _ in range(2):
            for name in ("a.npy", "in", "sub/b.npy", "in_folder/b.npy", "sub/../a.npy", "sub//b.npy"):
                path = str(inside / "x")[:-1] + name
                fd, found = sources.open(path)
                assert found.st_size == os.fstat(fd).st_size == sources.state(path).size
                assert os.read(fd, 6) == b"\x93NUMPY" == sources.read(path, 0, 6)
                os.close(fd)
            for name, error in {
                "out": OutsideError,
                "out_folder/secret.npy": OutsideError,
                "sub/../../outside/secret.npy": OutsideError,
                "gone": MissingSourceError,
                "none": MissingSourceError,
                "none/a.npy": MissingSourceError,
                "a.npy/": SourceError,
                "pipe": SourceError,
                "pipe_link": SourceError,
                "sub": SourceError,
                "sub/..": SourceError,
                "": SourceError,
            }.items():
                path = str(inside / "x")[:-1] + name
                for look in (sources.state, sources.open, sources.stream, lambda path: sources.read(path, 0, 6)):
                    with pytest.raises(error, match=re.escape(path)):
                        look(path)
    assert len(os.listdir("/proc/self/fd")) == before
    with LocalSources().opening() as sources:
        os.close(sources.open(str(inside / "out"))[0])
        os.close(sources.open(str(inside / "out_folder" / "secret.npy"))[0])
    with LocalSources.around([str(inside / "out")]) as sources:  # that link was named
        os.close(sources.open(str(inside / "out"))[0])
        with pytest.raises(OutsideError):
            sources.open(str(inside / "out_folder" / "other.npy"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_set_of_many_folders_needs_few_descriptors(inside: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    paths = []
    for k in range(60):
        (inside / str(k)).mkdir()
        paths.append(write_npy(inside / str(k), TWIN, name="a.npy"))
    for named in (paths, [inside / "x.npy"]):
        with LocalSources.around([str(path) for path in named]) as sources:
            for path in paths:
                assert len(sources.read(str(path), 0, 100)) == 100
                assert len(os.listdir("/proc/self/fd")) <= before + 32
        assert len(os.listdir("/proc/self/fd")) == before
    array = vfs.open(paths)
    np.testing.assert_array_equal(array[-1], TWIN)


def test_a_file_whose_place_was_deleted_as_it_was_opened(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_npy(inside, TWIN, name="a.npy")
    bound = Boundary.around([path])
    fd = open_file(str(path), bound)
    path.unlink()
    bound.check_open(str(path), fd)
    os.close(fd)
    write_npy(inside, TWIN, name="a.npy")
    monkeypatch.setattr(os, "readlink", lambda name: (_ for _ in ()).throw(FileNotFoundError(2, "no /proc")))
    os.close(open_file(str(path), bound))


def test_what_a_glob_finds_is_not_named(inside: Path, secret: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_npy(inside, TWIN, name="a1.npy")
    (inside / "a2.npy").symlink_to(secret)
    with pytest.raises(OutsideError, match=r"a2.npy: leads to .*secret.npy, outside of .*inside, "):
        vfs.open(f"{inside}/a*.npy")
    assert vfs.open(f"{inside}/a*.npy", follow_outside=True).shape == (2, 12, 16)
    assert vfs.open([inside / "a1.npy", inside / "a2.npy"]).shape == (2, 12, 16)  # whoever names a link means it
    assert main(["info", f"{inside}/a*.npy"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--follow-outside" in err
    assert err.count("\n") == 1
    assert main(["info", f"{inside}/a*.npy", "--follow-outside"]) == 0
    sub = inside / "sub"
    sub.mkdir()
    (sub / "a3.npy").symlink_to(inside / "a1.npy")
    assert vfs.open(f"{inside}/s*/a*.npy").shape == (12, 16)  # within what is searched


def test_a_description_cannot_allow_itself_to_look_elsewhere(inside: Path, secret: Path) -> None:
    path = inside / "x.vfs.json"
    path.write_text(
        json.dumps({"vfs": 1, "format": "hdf5", "files": ["x.vfs.json"], "options": {"follow_outside": True}})
    )
    with pytest.raises(vfs.FormatError, match=r"options.follow_outside: format hdf5 has no option"):
        vfs.open(path)
    write_npy(inside, TWIN, name="a.npy")
    for option in ("dark", "roi"):
        path.write_text(
            json.dumps({"vfs": 1, "format": "npy", "files": ["a.npy"], "options": {option: "../outside/secret.npy"}})
        )
        with pytest.raises(OutsideError, match=rf"options.{option}: .*leaves the folder of the description"):
            vfs.open(path)


def test_what_a_description_stands_for_is_bound_by_its_folder(inside: Path, secret: Path) -> None:
    """Also where what it names is opened by a format that finds more by itself, and is opened again
    in another process.
    """
    frames = np.arange(4 * 8 * 8, dtype="u2").reshape(4, 8, 8)
    sub = inside / "sub"
    sub.mkdir()
    write_mib(sub, frames, frames_per_file=2)
    path = inside / "x.vfs.json"
    path.write_text(json.dumps({"vfs": 1, "format": "mib", "files": ["sub/scan.hdr"]}))
    group = vfs.open_group(path)
    np.testing.assert_array_equal(group.main[...].reshape(4, 8, 8), frames)
    assert set_of(group).opening.sources.boundary.folders == (str(inside),)
    away = pickle.dumps(group)
    member = sorted(sub.glob("*.mib"))[1]
    member.rename(secret.with_name("scan2.mib"))
    member.symlink_to(secret.with_name("scan2.mib"))
    for again in (lambda: vfs.open_group(path), lambda: pickle.loads(away)):
        with pytest.raises(OutsideError, match=r"sub/\S+.mib: leads to .*scan2.mib, outside of"):
            again()
    np.testing.assert_array_equal(vfs.open(path, follow_outside=True)[...].reshape(4, 8, 8), frames)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(vfs.open(path, follow_outside=True)))[...].reshape(4, 8, 8), frames
    )


def test_corrections_that_somebody_names_may_lie_anywhere(inside: Path, secret: Path) -> None:
    write_npy(inside, np.ones((3, 12, 16), "u2"), name="a.npy")
    path = inside / "x.vfs.json"
    path.write_text(json.dumps({"vfs": 1, "format": "npy", "files": ["a.npy"]}))
    mask = secret.with_name("roi.npy")
    np.save(mask, np.array([True, False, True]))
    for name in (path, inside / "a.npy"):
        got = (
            vfs.open(name, dark=str(secret), roi=str(mask), sig_ndim=2)
            if name.suffix == ".npy"
            else vfs.open(name, dark=secret, roi=str(mask))
        )
        np.testing.assert_array_equal(got[1], 1 - TWIN.astype("f4"))


def test_files_that_options_name_may_lie_anywhere_of_descriptions_not(inside: Path, tmp_path: Path) -> None:
    path, twin, options = frms6_set(inside)
    table = tmp_path / "gains.csv"
    height, width = twin.shape[-2:]
    table.write_text("\n".join(";".join(["2"] * height) for _ in range(width)))
    assert vfs.open(path, **options, gain_map=str(table)).shape == twin.shape
    saved = inside / "x.vfs.json"
    saved.write_text(
        json.dumps(
            {"vfs": 1, "format": "frms6", "files": [Path(path).name], "options": {**options, "gain_map": str(table)}}
        )
    )
    with pytest.raises(OutsideError, match=r"gains.csv: lies outside"):
        vfs.open(saved)


def test_a_link_that_was_named_may_not_be_turned_elsewhere(inside: Path, secret: Path) -> None:
    link, other = inside / "link.npy", secret.with_name("other.npy")
    link.symlink_to(secret)
    other.write_bytes(secret.read_bytes())
    os.utime(other, ns=(0, secret.stat().st_mtime_ns))
    group = vfs.open_group(link)
    away = pickle.dumps(group)
    np.testing.assert_array_equal(pickle.loads(away).main[...], TWIN)
    link.unlink()
    link.symlink_to(other)  # of the same size and time
    with pytest.raises(OutsideError, match=r"leads to .*other.npy"):
        group.main[...]
    with pytest.raises(OutsideError, match=r"leads to .*other.npy"):
        pickle.loads(away)
    np.testing.assert_array_equal(vfs.open(link)[...], TWIN)


def hdf5(path: Path, **members: Any) -> None:
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("hdf5plugin")
    with h5py.File(path, "w") as file:
        for name, member in members.items():
            file[name] = member


def test_links_behind_links_of_hdf5(inside: Path, secret: Path) -> None:
    """libhdf5 follows the links inside of a path by itself: what it finds is looked at, too."""
    h5py = pytest.importorskip("h5py")
    hdf5(secret.with_name("secret.h5"), data=TWIN)
    hdf5(inside / "way.h5", out=h5py.ExternalLink("../outside/secret.h5", "/"), own=TWIN[:2])
    hdf5(
        inside / "set.h5",
        own=TWIN,
        direct=h5py.ExternalLink("../outside/secret.h5", "/data"),
        through=h5py.ExternalLink("way.h5", "/out/data"),
    )
    with h5py.File(inside / "set.h5", "a") as file:
        file["hop"] = h5py.ExternalLink("way.h5", "/")
        file["soft"] = h5py.SoftLink("/hop/out/data")
        layout = h5py.VirtualLayout(TWIN.shape, TWIN.dtype)
        layout[...] = h5py.VirtualSource("way.h5", "out/data", TWIN.shape)
        file.create_virtual_dataset("virtual", layout)
    with pytest.warns(vfs.IncompleteWarning, match="outside the folder"):
        group = vfs.open_group(inside / "set.h5")
    assert set(group) == {"own", "hop/own"}
    left = group.main.attrs["root"]["left_out"]
    for name in ("direct", "through", "soft", "virtual", "hop/out"):
        assert "outside the folder; follow_outside=True" in left[name], name
    group = vfs.open_group(inside / "set.h5", follow_outside=True)
    for name in ("own", "direct", "through", "soft", "virtual", "hop/out/data"):
        np.testing.assert_array_equal(group[name][...], TWIN)


def _side(folder: Path, kind: str) -> tuple[Path, dict[str, Any]]:
    """A set whose files a library reads: packed, with metadata of other programs, with a table, with a mask."""
    frames = np.arange(3 * 4 * 5, dtype="<i2").reshape(3, 4, 5)
    if kind == "packed":
        return write_mrc(folder, frames, 1, name="set.mrc.gz"), {}
    if kind == "tifffile":
        tifffile = pytest.importorskip("tifffile")
        tifffile.imwrite(folder / "a.tif", frames, imagej=True)
        return folder / "a.tif", {}
    np.save(folder / "roi.npy", np.array([0, 2]))
    if kind == "mask":
        return write_npy(folder, frames), {"roi": str(folder / "roi.npy")}
    (folder / "a.bin").write_bytes(frames.tobytes())
    columns = {
        "files": [0],
        "offset": [0],
        "origin_0": [0],
        "origin_1": [0],
        "origin_2": [0],
        "shape_0": [3],
        "shape_1": [4],
        "shape_2": [5],
    }
    np.savez(folder / "t.npz", **{name: np.array(column) for name, column in columns.items()})
    document = {"vfs": 1, "dtype": "<i2", "shape": [3, 4, 5], "files": ["a.bin"], "table": "t.npz"}
    (folder / "a.vfs.json").write_text(json.dumps(document))
    return folder / "a.vfs.json", {}


@pytest.mark.parametrize("kind", ["packed", "tifffile", "mask", "table"])
def test_what_libraries_read_is_opened_for_them(tmp_path: Path, kind: str) -> None:
    """By its path they would open whatever has it by then: another user's file, or a pipe."""
    path, options = _side(tmp_path, kind)
    with opened_past_the_boundary(tmp_path) as opened:
        vfs.open(path, **options).read()
    assert opened == []
    with opened_past_the_boundary(tmp_path) as opened:
        path.read_bytes()
    assert len(opened) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only who owns a file, or root, may lease it")
def test_a_leased_file_is_waited_for_but_no_pipe_that_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"abc")
    real = os.open

    def busy(name: Any, flags: int, *args: Any, **more: Any) -> int:
        if name == str(path) and flags & os.O_NONBLOCK and not flags & os.O_PATH:
            if swap:
                path.unlink(missing_ok=True)
                os.mkfifo(path)
            raise BlockingIOError(11, "leased")
        return real(name, flags, *args, **more)

    monkeypatch.setattr(os, "open", busy)
    swap = False
    fd = open_file(str(path), ANYWHERE)
    assert os.read(fd, 3) == b"abc"
    os.close(fd)
    swap = True
    with pytest.raises(SourceError, match="expected a file"):
        open_file(str(path), ANYWHERE)
