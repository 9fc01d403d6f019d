"""What `vfs info` shows fits a screen and says all: sets, containers of hundreds of arrays,
folders, what cannot be opened.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import vfs
from tests.cli.support import mount_status, refused, run
from vfs.cli import tables
from vfs.cli.console import mounts_text
from vfs.faces.documents import plain_json
from vfs.fuse.mounts import Found
from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib, write_npy

SCREEN = 22  # lines, of the 24 of a terminal


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary one; also where nothing is a terminal lines have that width."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A container of an image stack, 30 further arrays and 300 single numbers."""
    path = tmp_path / "many.h5"
    with h5py.File(path, "w") as file:
        file.attrs["owner"] = "µ" * 500
        for k in range(300):
            made = file.create_dataset(
                f"entry/instrument/a motor with a long name/number {k:03}", data=np.array([k / 4])
            )
            made.attrs["units"] = "mm" if k % 2 else " "
        for k in range(30):
            file[f"entry/trace{k}/and/a/rather/long/way/down/to/it"] = np.arange(40 + k)
        file["entry/data"] = np.zeros((3, 40, 50), "<u2")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A scan of five files, an image, two subfolders, notes, and a file that is cut."""
    folder = tmp_path / "a day"
    for name in ("raw", "later"):
        (folder / name).mkdir(parents=True)
    write_mib(folder, np.zeros((24, 8, 16), np.uint16), frames_per_file=5, scan=(4, 6))
    write_npy(folder, np.zeros((3, 4)), name="image.npy")
    write_npy(folder / "later", np.zeros((3, 4)), name="below.npy")
    (folder / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    (folder / "notes.txt").write_text("no data")
    return folder


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert run("info", *arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def test_a_guessed_scan_shape_is_said_with_its_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = np.zeros((8 * 13, 4, 64), np.uint16)
    exposure = [9_000_000 if n % 13 == 12 else 500_000 for n in range(len(frames))]
    path = write_mib(tmp_path, frames, exposure_ns=exposure)
    lines = shown(capsys, path)
    assert "    rows of 12 (from the exposures, sure): --nav-shape 8,12 --line-skip 1" in lines
    assert not any("number of frames" in line for line in lines + shown(capsys, path, "-v"))
    asked = ("--nav-shape", "8,12", "--line-skip", "1")
    assert not any("rows of" in line for line in shown(capsys, path, *asked))  # it is a scan now
    first = json.loads("\n".join(shown(capsys, path, "--json")))[0]["nav_shape_guesses"][0]
    assert first.pop("reason").startswith("from the exposures: ")
    assert first == {"nav_shape": [8, 12], "sure": True, "source": "exposures", "line_skip": 1, "sync_offset": 0}
    plain = write_npy(tmp_path, frames)
    assert not any("rows of" in line for line in shown(capsys, plain))
    assert "number of frames" in " ".join(shown(capsys, plain, "-v"))


def test_what_comes_beside_images_is_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Metadata and tables of frames of Velox, which are arrays of numbers too."""
    path = tmp_path / "velox.emd"
    with h5py.File(path, "w") as file:
        for name in ("a", "b"):
            file[f"Data/Image/{name}/Data"] = np.zeros((9, 8, 1), "u2")
            file[f"Data/Image/{name}/Metadata"] = np.frombuffer(b"{}".ljust(9000, b"\0"), np.uint8)[:, None]
            file[f"Data/Image/{name}/FrameLookupTable"] = np.array([0])
    names = [line.split("/")[-1].split()[0] for line in shown(capsys, path) if line.startswith("  Data")]
    assert names == ["Data", "Data", "Metadata", "Metadata", "FrameLookupTable", "FrameLookupTable"]


def test_attributes_that_are_arrays_of_one_number_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The library of netCDF writes each number so; a scale of packed values was a ValueError."""
    path = tmp_path / "packed.nc"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("t2m", data=np.zeros((3, 40, 50), "i2"))
        data.attrs.update(
            {"scale_factor": np.array([0.5]), "scales": np.array([1, 2]), "resolution": np.array([], "f4")}
        )
    lines = shown(capsys, path)
    assert "    scale_factor: 0.5; scales: [1, 2]" in lines
    assert not any("resolution" in line for line in lines)
    said = json.loads("\n".join(shown(capsys, path, "--json")))[0]["arrays"]["t2m"]["scale"]
    assert said == {"scale_factor": 0.5, "scales": [1, 2]}


# tables


def test_a_table_fits_whatever_is_in_it() -> None:
    rows = [
        ("a name", "u2", f"y:{tables.GLUE}12, x:{tables.GLUE}34"),
        ("n" * 60, "float64", ", ".join(f"axis_{k}:{tables.GLUE}1000" for k in range(9))),
    ]
    first, second = tables.table(rows, 80)
    assert first == ["  a name  u2       y: 12, x: 34"]
    assert second[0] == "  " + "n" * 60
    assert all(len(line) <= 80 for line in second)
    assert " ".join(" ".join(second[1:]).split()) == "float64 " + ", ".join(f"axis_{k}: 1000" for k in range(9))
    assert all(line.count("axis") == line.count("1000") for line in second), "broken within an axis"
    assert tables.table([], 80) == []


@pytest.mark.parametrize(("given", "width"), [("100", 100), ("3", 40), ("", 80)])
def test_lines_are_as_long_as_the_terminals(given: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", given)
    assert tables.width() == width


def test_mounts_fit() -> None:
    status = mount_status(sources=("/data/" + "deep/" * 10 + "scan.hdr", "b"), bytes=1 << 40, hits=9, misses=1)
    rows = mounts_text([Found("/m", "mounted", status, "/run/a"), Found("/mnt/" + "x" * 50, "dead", None, None)])
    assert rows[0].split() == ["WHERE", "SINCE", "SERVED", "HITS", "ERRORS", "FROM"]
    assert [line for line in rows if len(line) > 80 and len(line.split()) > 1] == []
    assert "/mnt/" + "x" * 50 in rows
    assert "? ? ? ? ? (its server has ended; unmount it)" in " ".join(" ".join(rows).split())


def test_one_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("formats", "raw") == run("formats", "raw", "--json") == 0
    text, _, data = capsys.readouterr().out.partition("\n[")
    assert text.startswith("raw  ")
    assert "-o sig_shape=" in text
    assert [entry["name"] for entry in json.loads("[" + data)] == ["raw"]
    assert "did you mean mib?" in refused(capsys, "formats", "MIB")


def test_formats_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("formats") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and len(line.split()) > 1] == []


# containers


def test_a_container_of_hundreds_of_arrays_fits_a_screen(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, many)
    assert len(lines) == SCREEN
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split()[:2] == ["entry/data", "uint16"]
    assert lines[2].startswith("    chunks: 3 x 40 x 50, ")
    assert "  entry/instrument/a motor with a long name/number 001 = 0.25 mm" in lines
    names = [line for line in lines if line.startswith("  entry/")]
    assert lines[-1] == f"  … and {331 - len(names)} more arrays: -v lists them, --json says all"
    assert len([name for name in names if "trace" in name]) >= 3

    out = "\n".join(shown(capsys, many, "-v"))
    for path in vfs.open_group(many):
        assert f"  {path}" in out
    assert "  entry/instrument/a motor with a long name/number 298 = 74.5\n" in out
    assert out.count("owner") == 1, "what all arrays say alike is said once"


def test_json_says_once_what_all_arrays_say(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", "--json", many) == 0
    out = capsys.readouterr().out
    (entry,) = json.loads(out)
    assert out.count("µµ") == 250
    group = vfs.open_group(many)
    assert set(entry["arrays"]) == set(group)
    for path, array in group.items():
        assert {**entry["shared_attrs"], **entry["arrays"][path]["attrs"]} == plain_json(array.attrs)
    assert entry["arrays"]["entry/instrument/a motor with a long name/number 003"]["value"] == 0.75
    assert "value" not in entry["arrays"]["entry/data"]


def test_the_order_of_files_is_said_where_there_is_more_than_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for angle in range(-40, 41, 10):
        write_npy(tmp_path, np.full((2, 3), angle), name=f"tilt_{angle}.npy")
    for k in range(3):
        write_npy(tmp_path, np.full((2, 3), k), name=f"run-{k:03}.npy")
    tilts = vfs.open(tmp_path / "tilt_*.npy")
    assert tilts[:, 0, 0].tolist() == [*range(-40, 41, 10)]
    order = "tilt_-40.npy, tilt_-30.npy, tilt_-20.npy, tilt_-10.npy, tilt_0.npy, …, tilt_40.npy"
    assert run("info", tmp_path / "tilt_*.npy") == 0
    assert f"order of the files: {order}" in " ".join(capsys.readouterr().out.split())
    assert run("info", tmp_path / "run-*.npy") == 0
    assert "order of" not in capsys.readouterr().out
    assert run("info", *tmp_path.glob("tilt_*.npy")) == 0  # as a shell names them, which opens each
    assert f"a quoted glob ({str(tmp_path / 'tilt_*.npy')!r}) opens them as one" in capsys.readouterr().err


def test_a_number_that_cannot_be_read_is_no_reason_to_fail(
    many: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise vfs.SourceError("gone")

    monkeypatch.setattr("vfs.engine.array.ArrayReader.read", fails)
    assert "  entry/instrument/a motor with a long name/number 000 = cannot be read" in shown(capsys, many)


def test_real_files_fit_a_screen(oracle: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    from tests.conftest import SHARED

    found = [
        path
        for pattern in ("hdf5/*/*.h*5", "hdf5/*/*.nxs", "mib/*/*.hdr", "dm/*4/*.dm4", "ser_emi/*/*.emi")
        for path in sorted(SHARED.glob(pattern))
    ]
    assert len(found) > 20
    for path in found:
        if run("info", path) == 0:
            lines = capsys.readouterr().out.splitlines()
            assert len(lines) <= SCREEN, path
            assert [line for line in lines if len(line) > 80] == [], path


# several, and folders


def test_what_opens_is_shown_and_then_what_does_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = folder / "image.npy", folder / "cut.npy"
    for options in ([], ["--json"]):
        assert run("info", *options, bad, good, folder / "imag.npy") == 2
        out, err = capsys.readouterr()
        assert (
            ([entry["name"] for entry in json.loads(out)] == ["image"])
            if options
            else out.startswith("image: npy, 1 file")
        )
        first, second = err.splitlines()
        assert first.startswith(f"vfs: {bad}: ")
        assert second == f"vfs: {folder / 'imag.npy'}: no such file; did you mean {good}?"


def test_a_folder_is_a_list_of_its_sets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, folder)
    assert lines[0] == f"{folder}: 2 data sets"
    assert lines[1].split()[:4] == ["image.npy", "npy", "1", "file"]
    assert lines[2].split()[:4] == ["scan.hdr", "mib", "5", "files"]
    assert "scan_y: 4, scan_x: 6, y: 8, x: 16, 2 more arrays" in " ".join(" ".join(lines).split())
    (broken,) = (line for line in lines if "cannot be opened" in line)
    assert broken.startswith("  cut.npy cannot be opened: ")
    assert "  2 folders: later, raw" in lines
    assert "  1 file of other kinds" in lines
    hints = f"lists the data sets below it, `vfs mount --tree '{folder}' MOUNTPOINT` shows all"
    assert hints in " ".join(" ".join(lines).split())
    assert run("info", "--json", folder) == 0
    out, err = capsys.readouterr()
    *whole, broken = json.loads(out)
    assert [entry["name"] for entry in whole] == ["image", "scan"]
    assert (broken["name"], broken["path"]) == ("cut.npy", str(folder / "cut.npy"))
    assert broken["error"] in err
    assert err.startswith(f"vfs: {folder / 'cut.npy'} cannot be opened: ")


def test_folders_below_are_listed_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "later" / "night").mkdir(parents=True)
    write_npy(folder / "later" / "night", np.zeros((3, 4)), name="last.npy")
    lines = shown(capsys, "-r", tmp_path)
    assert [line for line in lines if not line.startswith("  ")] == [
        f"{folder}: 2 data sets",
        f"{folder / 'later'}: 1 data set",
        f"{folder / 'later' / 'night'}: 1 data set",
    ]
    assert sum(" cannot be opened: " in line for line in lines) == 1
    assert run("info", "--json", "--recursive", tmp_path) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)][::4] == ["image", "last"]
    assert "no data set there or below" in refused(capsys, "info", "-r", folder / "raw")
    assert "--recursive has no effect without a folder" in refused(capsys, "info", "-r", folder / "image.npy")


def test_a_library_that_is_missing_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ninety TIFFs it was ninety times what to type."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for k in range(4):
            write_tiff(tmp_path / folder / f"{'xyzw'[k]}.tif", [np.zeros((4, 5), "u1")])
    monkeypatch.setitem(sys.modules, "tifffile", None)
    said = " ".join(" ".join(shown(capsys, "-r", tmp_path)).split())
    assert said.count("pip install 'vfs[tiff]'") == 1
    assert said.count(".tif and 3 more cannot be opened: ") == 2
    assert said.endswith("cannot be opened: for a reason given above")


def test_a_folder_of_many_sets_fits_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k in range(40):
        write_npy(tmp_path, np.zeros((3, 4)), name=f"part{k}.npy")
    lines = shown(capsys, tmp_path)
    assert len(lines) <= SCREEN
    assert lines[1].startswith("  part0.npy ")
    assert lines[2].startswith("  part1.npy "), "in natural order"
    listed = sum(line.startswith("  part") for line in lines)
    assert any(line.startswith(f"  … and {40 - listed} more") for line in lines)
    assert "part*.npy'` opens these as one data set" in " ".join(lines)
    assert sum(line.startswith("  part") for line in shown(capsys, "-v", tmp_path)) == 40


def test_a_folder_without_sets(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, tmp_path)[:2] == [f"{tmp_path}: no data set here", "  1 folder: a day"]
    assert "expected data sets in this folder, found nothing" in refused(capsys, "info", folder / "raw")
    store = tmp_path / "o.zarr"
    assert run("export", folder / "image.npy", store) == 0
    capsys.readouterr()
    assert "is a zarr store already" in refused(capsys, "info", store)


def test_many_sets_are_a_row_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k in range(30):
        write_npy(tmp_path, np.zeros((3, 4)), name=f"part{k:02}.npy")
    files = sorted(tmp_path.glob("*.npy"))
    for number, rows in ((4, 0), (5, 5), (30, 21)):
        assert run("info", *files[:number]) == 0
        out, err = capsys.readouterr()
        lines = out.splitlines()
        assert len(lines) <= SCREEN
        assert sum(line.startswith("  part") for line in lines) == rows
        assert err.startswith(f"vfs: {number} files opened as {number} data sets; a quoted glob")
    assert lines[-1] == "and 9 more; `vfs info FILE` says more of one, -v of all"
    assert run("info", "-v", *files[:5]) == 0
    assert capsys.readouterr().out.count("chunks: ") == 5


def test_an_array_that_is_not_there_is_answered_with_some_that_are(
    many: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "info", many, "--array", "entry/dat")
    assert "no array 'entry/dat'; there are: entry/data, " in said
    assert said.endswith(" and 323 more\n")
    with pytest.raises(vfs.UnknownArrayError, match=r"no array 'entry/dat' in many; there are: .* and 323 more$"):
        vfs.open_group(many)["entry/dat"]


@pytest.mark.parametrize("command", [["mount"], ["export"], ["info", "--describe"]])
def test_where_a_set_is_wanted_a_folder_is_told_what_to_do(
    folder: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    last = [] if command[0] == "info" else [tmp_path / "there"]
    said = refused(capsys, *command, folder, *last)
    assert (
        f"{folder}: is a folder; `vfs info '{folder}'` lists the data sets in it, `vfs mount --tree '{folder}'"
        " MOUNTPOINT` shows them all" in said
    )
    said = refused(capsys, "serve", folder)
    assert f"lists the data sets in it, `vfs serve --tree '{folder}'` shows them all" in said


# options without effect


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["FILE", "--explicit"], "--explicit has no effect without --describe"),
        (["FILE", "--json", "-v"], "-v has no effect with --json"),
        (["FILE", "--describe", "--json"], "--json has no effect with --describe"),
        (["FILE", "--describe", "-v"], "-v has no effect with --describe"),
        (["FILE", "--describe", "--zarr-format", "3"], "--zarr-format has no effect with --describe"),
        (["FILE", "--describe", "--explicit", "--chunks", "frames"], "--chunks has no effect with --explicit"),
        (["FILE", "--describe", "--explicit", "--accept-changes"], "--accept-changes has no effect with --explicit"),
        (
            ["FILE", "--sync-offset", "1"],
            "--sync-offset: for a scan or a series of frames, and data is a single one of ",
        ),
        (["FILE", "-o", "series=false"], "format npy has no option 'series', mib has"),
        (["FILE", "-o", "sig-ndim=1", "-o", "sig_ndim=2"], "given twice"),
        (
            ["FILE", "--format", "raw", "-o", "dtype=u2", "-o", "stored_dtype=u1", "-o", "sig_shape=2,2"],
            "are the same option",
        ),
        (["FILE", "--roi", ""], "--roi: expected a value, found an empty one"),
        ([""], "expected the name of a file"),
        (["FOLDER", "--chunks", "frames"], "--chunks has no effect on"),
        (["FOLDER", "--nav-shape", "2,2"], "--nav-shape has no effect on"),
        (["FOLDER", "--zarr-format", "2"], "--zarr-format has no effect on"),
        (["FOLDER", "-o", "sig_ndim=1"], "name the format with --format"),
        (
            ["FILE", "--chunks", "1,"],
            "--chunks 1,: expected an element count, or -1 for all of it, for each of 2 axes, shape (3, 4)",
        ),
        (["FILE", "--format", "NPY"], "did you mean npy?"),
        (["FOLDER/no/image.npy"], "there is no folder"),
        (
            ["FOLDER/notes.txt"],
            "pixels without headers open with, for example, -o stored_dtype=u2 -o sig_shape=256,256",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(
    folder: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [text.replace("FILE", str(folder / "image.npy")).replace("FOLDER", str(folder)) for text in arguments]
    assert says in refused(capsys, "info", *told)


def test_a_mount_point_that_comes_first_is_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "mount", tmp_path, folder / "image.npy")
    assert (
        said
        == f"vfs: {folder / 'image.npy'}: expected a folder to mount on, found a file; the mount point comes last\n"
    )


def test_what_holds_for_all_sets_of_a_folder_is_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, folder, "--format", "npy", "-o", "sig_ndim=1", "--dtype", "f4")
    assert [line.split()[:2] for line in lines if " npy " in line] == [["image.npy", "npy"]]
    assert "float32 frame: 3, x: 4" in " ".join(" ".join(lines).split())


def test_what_cannot_be_shown_is_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros((3, 40, 50), "u2")
        file["group/table"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        for k in range(4):
            file[f"text{k}"] = "words"
        file["reference"] = file["data"].ref
        file.create_dataset("packed", data=np.ones((4, 4)), chunks=(2, 2), scaleoffset=2)
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((2, 2))
        for number, name in ((32003, b"snappy"), (40000, b"other")):
            plan.set_filter(number, h5py.h5z.FLAG_OPTIONAL)
            h5py.h5d.create(file.id, name, h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4, 4)), plan)
            plan.remove_filter(number)
        h5py.h5d.create(file.id, b"opaque", h5py.h5t.create(h5py.h5t.OPAQUE, 8), h5py.h5s.create_simple((4,)))
    lines = shown(capsys, path)
    assert len(lines) <= SCREEN
    assert [line.split(": its")[0] for line in lines[-4:-1]] == [
        f"  not shown: {name}" for name in ("other", "packed", "snappy")
    ]
    assert "more reasons: -v lists them" in lines[-1]
    everything = " ".join(" ".join(shown(capsys, path, "-v")).split())
    for text in (
        "packed: its compression, HDF5 filter 6 (scaleoffset), is not supported; `h5repack",
        "snappy: its compression, HDF5 filter 32003 (snappy), is not supported",
        "other: its compression, HDF5 filter 40000 (not registered), is not supported",
        "not shown: reference, text0, text1, text2, text3: text or objects, no array of numbers",
        "group/table: type",
        "opaque: ",
    ):
        assert text in everything
    found = json.loads("".join(shown(capsys, path, "--json")))[0]["left_out"]
    assert set(found) == {
        "packed",
        "snappy",
        "other",
        "reference",
        "opaque",
        "group/table",
        *(f"text{k}" for k in range(4)),
    }
    assert "snappy" in found["snappy"]


def test_frames_in_an_order_of_their_own_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*arguments: object) -> str:
        assert run("info", *arguments) == 0
        return capsys.readouterr().out

    path = write_mib(tmp_path, np.zeros((24, 8, 16), np.uint16), scan=(4, 5))
    assert "    scan:" not in told(path, "--nav-shape", "4,6")
    assert "    scan: 1 frame after each line not shown\n" in told(path, "--line-skip", "1")
    (tmp_path / "run_info.txt").write_text("Scan - Size X = 6\nScan - Size Y = 4\nScan - Type = Serpentine\n")
    movie = write_mrc(tmp_path, np.zeros((24, 8, 16), np.uint16), 6, name="run_movie.mrc")
    assert "    scan: serpentine, as the _info.txt says\n" in told(movie)
