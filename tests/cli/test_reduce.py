"""`vfs reduce`."""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
import zarr

import vfs
from tests.cli.support import refused, run, said_at_the_end
from tests.waiting import eventually
from vfs.cli.reduce import reduced
from vfs.sets.describing import describe
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    frames = np.random.default_rng(1).integers(1, 4000, (24, 8, 16)).astype(np.uint16)
    return write_mib(folder, frames, frames_per_file=5, scan=(4, 6))


def test_results_of_one_pass_are_arrays_of_one_store(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.zarr"
    mask = tmp_path / "mask.npy"
    np.save(mask, np.arange(128).reshape(8, 16) % 3 == 0)
    texts = "bf=disk(4, 8, r=3)", f"m=masks({mask})", "com=com", "mean=Mean()", "h=histogram(5, (0, 4000))"
    assert run("reduce", scan, target, *texts) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[:2] == [
        f"{target}: 6.0 KiB of frames",
        "  bf    uint64   scan_y: 4, scan_x: 6",
    ]
    assert err == ""
    expected = vfs.open(scan).reduce(
        bf=vfs.Disk(4, 8, 3),
        m=vfs.Masks(np.load(mask)),
        com=vfs.CenterOfMass(),
        mean=vfs.Mean(),
        h=vfs.Histogram(5, (0, 4000)),
    )
    made = zarr.open_consolidated(str(target), mode="r")
    assert sorted(made.array_keys()) == sorted(expected)
    for name, result in expected.items():
        array = made[name]
        assert isinstance(array, zarr.Array)
        np.testing.assert_array_equal(array[:], result.data)
        assert array.dtype == result.dtype
        assert array.metadata.dimension_names == result.dims  # type: ignore[union-attr]
        assert array.attrs.get("units", "") == result.units
    assert made["bf"].attrs["vfs"] == {"reduction": "disk(cy=4, cx=8, r=3)", "kind": "nav", "of": "data"}
    assert made["h"].attrs["vfs"]["calibration"]["value"]["scale"] == 800.0
    assert sorted(os.listdir(tmp_path)) == ["in", "mask.npy", "out.zarr", "out.zarr.sums"]


def test_one_result_is_a_npy_file(scan: Path, tmp_path: Path) -> None:
    assert run("reduce", scan, tmp_path / "bf.npy", "bf=disk(4, 8, 3)") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "bf.npy"), vfs.open(scan).reduce(bf=vfs.Disk(4, 8, 3))["bf"])


def test_one_result_is_a_tiff_of_short_numbers(scan: Path, tmp_path: Path) -> None:
    a = vfs.open(scan)
    for name, text, dtype in (("bf", "disk(4, 8, 3)", "u4"), ("com", "com", "f4"), ("mean", "mean", "f4")):
        target = tmp_path / f"{name}.tif"
        assert run("reduce", scan, target, f"{name}={text}") == 0
        with tifffile.TiffFile(target) as file:
            found = file.asarray()
            said = json.loads((file.imagej_metadata or {})["Info"])["vfs"]
        expected = {"bf": vfs.Disk(4, 8, 3), "com": vfs.CenterOfMass(), "mean": vfs.Mean()}[name]
        data = a.reduce(made=expected)["made"].data
        assert found.dtype == dtype
        assert said.get("rows") == ("top first" if name == "mean" else None)
        data = data[::-1] if name == "mean" else data  # of Merlin the bottom row comes first; viewers show it above
        np.testing.assert_array_equal(
            found, np.moveaxis(data, 2, 0).astype("f4") if name == "com" else data.astype(dtype)
        )
        assert said["reduction"].startswith(text.partition("(")[0] if name != "com" else "centerofmass")


def test_sums_beyond_32_bits_stay_whole(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((3, 2, 2), (1 << 32) - 1, np.uint32))
    assert run("reduce", tmp_path / "a.npy", tmp_path / "s.tif", "s=sum") == 0
    found = tifffile.imread(tmp_path / "s.tif")
    assert found.dtype == np.uint64
    assert (found == 3 * ((1 << 32) - 1)).all()


def test_complex_results_are_complex_pictures(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).normal(size=(5, 4, 6)) * (1 + 2j)
    np.save(tmp_path / "in.npy", frames)
    assert run("reduce", tmp_path / "in.npy", tmp_path / "out.tif", "a=sum") == 0
    np.testing.assert_allclose(tifffile.imread(tmp_path / "out.tif"), frames.sum(axis=0), 1e-5)


@pytest.mark.parametrize("text", ["histogram(5, (0, 100))", "framesum"])
def test_one_result_along_a_single_axis_is_a_tiff_of_one_row(tmp_path: Path, text: str) -> None:
    np.save(tmp_path / "a.npy", np.arange(7 * 12).reshape(7, 3, 4))
    assert run("reduce", tmp_path / "a.npy", tmp_path / "o.tif", f"o={text}") == 0
    assert run("reduce", tmp_path / "a.npy", tmp_path / "o.npy", f"o={text}") == 0
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "o.tif"), np.load(tmp_path / "o.npy")[None])


def test_options_of_opening_and_roi(scan: Path, tmp_path: Path) -> None:
    roi = np.zeros((4, 6), bool)
    roi[1:3, 2:4] = True
    np.save(tmp_path / "roi.npy", roi)
    options = "--roi", tmp_path / "roi.npy", "--dtype", "f4"
    assert run("reduce", scan, tmp_path / "s.npy", "s=framesum", *options) == 0
    made = np.load(tmp_path / "s.npy")
    expected = np.where(roi, vfs.open(scan)[:].astype("f8").sum(axis=(2, 3)), np.nan)
    np.testing.assert_array_equal(made, expected)


def test_drawings_have_the_colours_that_are_wanted(scan: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    coloured = {}
    for name, more in (("viridis", ["--colours", "viridis"]), ("usual", [])):
        assert run("reduce", scan, tmp_path / f"{name}.png", "s=sum", *more) == 0
        pixels = np.asarray(image.open(tmp_path / f"{name}.png").convert("RGB")).astype(int)
        coloured[name] = np.ptp(pixels, axis=-1).max() > 50
    assert coloured == {"viridis": True, "usual": False}


def test_wrong_calls_are_one_line_and_write_nothing(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.npy"
    np.save(tmp_path / "small.npy", np.ones((3, 3), bool))

    def said(*arguments: object) -> str:
        return refused(capsys, "reduce", *arguments)

    assert "frames have pixels from 0, 0 to 7, 15" in said(scan, out, "bf=disk(4, 80, 3)")
    assert "expected numbers or bool of shape [8, 16]" in said(scan, out, f"m=masks({tmp_path / 'small.npy'})")
    assert "no kind 'disc' (did you mean disk?); there are sum, mean" in said(scan, out, "bf=disc(4, 8, 3)")
    assert "the name a is taken" in said(scan, tmp_path / "o.zarr", "a=sum", "a=mean")
    assert "holds one result, found 2 (a, b); for any: OUT.png" in said(scan, out, "a=sum", "b=mean")
    assert "OUT.zarr for any results, OUT.npy, OUT.tif" in said(scan, tmp_path / "o.jpg", "a=sum")
    assert "a: OUT.csv holds numbers along one axis, found 8 x 16; OUT.npy" in said(scan, tmp_path / "o.csv", "a=sum")
    assert "no folder" in said(scan, tmp_path / "x" / "o.npy", "a=sum")
    assert "exists already" in said(scan, tmp_path / "small.npy", "a=sum")
    assert "--chunks has no effect" in said(scan, out, "a=sum", "--chunks", "frames")
    assert "NAME=KIND(...) is missing" in said(scan, out)
    assert "OUT NAME=KIND(...)…, OUT is missing" in said(scan, "bf=disk(4, 8, 3)")
    assert ", OUT is missing" in said(scan, "m=mean")
    assert sorted(os.listdir(tmp_path)) == ["in", "small.npy"]


def test_a_broken_source_leaves_nothing(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = scan.parent / "scan005.mib"
    opened = reader_of(vfs.open(scan, backend="buffered"))
    os.truncate(last, last.stat().st_size - 100)
    with pytest.raises(vfs.SourceError, match=r"scan005\.mib"):
        reduced(opened, {"s": vfs.Sum()}, str(tmp_path / "o.zarr"), lambda done, frames: None, None)
    assert os.listdir(tmp_path) == ["in"]


def test_a_full_disk_leaves_nothing(scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.save", full)
    assert "o.npy: cannot be written: No space left" in refused(capsys, "reduce", scan, tmp_path / "o.npy", "s=sum")
    assert os.listdir(tmp_path) == ["in"]


def test_without_tifffile_one_line_says_what_to_install(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "tifffile":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert "pip install 'vfs[tiff]'" in refused(capsys, "reduce", scan, tmp_path / "o.tif", "s=sum")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_pass_leaves_nothing(tmp_path: Path, number: signal.Signals, status: int) -> None:
    source = tmp_path / "large.npy"
    with source.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 18, 1 << 10, 1 << 10)}
        )
        file.truncate(file.tell() + (1 << 38))  # 256 GiB of hole
    folder = tmp_path / "out"
    folder.mkdir()
    begun = tmp_path / "begun"
    code = (
        "import sys, vfs.cli.reduce as r; real = r.reduced\n"
        "def told(array, wanted, target, progress, *more):\n"
        "    def tell(done, frames):\n"
        f"        open({str(begun)!r}, 'w').close() if done else None\n"
        "        progress(done, frames)\n"
        "    return real(array, wanted, target, tell, *more)\n"
        "r.reduced = told\n"
        "from vfs.cli.app import main; sys.exit(main())"
    )
    command = [sys.executable, "-P", "-c", code, "reduce", str(source), str(folder / "o.zarr"), "s=sum"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert eventually(lambda: running.poll() is not None or begun.exists())
        running.send_signal(number)
        err = said_at_the_end(running)
    assert running.returncode == status, err
    assert "Traceback" not in err
    assert os.listdir(folder) == []


# --derive


def test_derived_arrays_are_listed_and_exported(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    derive = "--derive", "bf=disk(4, 8, 3)", "--derive", "mean=mean"
    assert run("info", scan, *derive) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-2:]] == [
        ["derived/bf", "uint64", "192", "B", "scan_y:", "4,", "scan_x:", "6"],
        ["derived/mean", "float64", "1.0", "KiB", "y:", "8,", "x:", "16"],
    ]
    with pytest.MonkeyPatch.context() as patched:  # no pass for a number that nobody asked for
        patched.setattr("vfs.reduce.passes.Pass.run", None)
        for how in ([], ["--json"], ["-v"]):
            assert run("info", scan, *how, "--derive", "h=histogram(1, (0, 9))") == 0
    assert "derived/h" in capsys.readouterr().out
    assert run("export", scan, tmp_path / "o.zarr", *derive) == 0
    made = zarr.open_group(tmp_path / "o.zarr", mode="r")
    np.testing.assert_array_equal(made["derived/bf"][...], vfs.open(scan).reduce(bf=vfs.Disk(4, 8, 3))["bf"])


def test_a_description_keeps_what_is_derived(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", scan, "--describe", "--derive", "bf=disk(4, 8, 3)") == 0
    made = json.loads(capsys.readouterr().out)
    assert made["options"]["derive"] == {"bf": "disk(cy=4, cx=8, r=3)"}
    file = scan.parent / "x.vfs.json"
    made["files"] = [scan.name]
    file.write_text(json.dumps(made))
    np.testing.assert_array_equal(
        vfs.open_group(file)["derived/bf"][...], vfs.open(scan).reduce(bf=vfs.Disk(4, 8, 3))["bf"]
    )
    for text in ("m_asks('/etc/x.npy')", 3):
        made["options"]["derive"] = {"m": text}
        file.write_text(json.dumps(made))
        with pytest.raises(vfs.FormatError, match="expected the text of a reduction, as disk"):
            vfs.open(file)


def test_a_description_names_the_file_of_masks(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = scan.parent / "x.vfs.json"
    name = 'it\'s "m".npy'
    np.save(scan.parent / name, np.random.default_rng(0).random((2, 8, 16)))
    group = vfs.open_group(scan, derive={"m": vfs.Masks(scan.parent / name, dtype="f4")})
    made = describe(set_of(group), scan.parent)
    assert made["options"]["derive"] == {"m": {"masks": name, "dtype": "float32"}}
    file.write_text(json.dumps(made))
    again = vfs.open_group(file)["derived/m"][...]
    np.testing.assert_array_equal(again, group["derived/m"][...], strict=True)
    np.save(tmp_path / "elsewhere.npy", np.ones((8, 16)))
    for masks, kind in (
        ("../elsewhere.npy", vfs.OutsideError),
        ("gone.npy", vfs.MissingSourceError),
        (5, vfs.FormatError),
    ):
        made["options"]["derive"] = {"m": {"masks": masks}}
        file.write_text(json.dumps(made))
        with pytest.raises(kind, match=r"x\.vfs\.json: options\.derive\.m\.masks: "):
            vfs.open(file)
    said = refused(capsys, "info", scan, "--describe", "--derive", f"m=masks({tmp_path / 'elsewhere.npy'})")
    assert "lies outside of" in said
    with pytest.raises(vfs.OptionError, match="masks in memory have no description; save them beside the files"):
        describe(set_of(vfs.open_group(scan, derive={"m": vfs.Masks(np.ones((8, 16)))})), scan.parent)


def test_derive_is_refused_where_it_has_no_effect(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    derive = "--derive", "bf=sum"
    assert "--derive has no effect" in refused(capsys, "look", scan, *derive)
    assert "--derive has no effect" in refused(capsys, "reduce", scan, tmp_path / "o.npy", "a=sum", *derive)
    assert "--derive has no effect" in refused(capsys, "info", scan.parent, *derive)
    assert "there are sum, mean" in refused(capsys, "info", scan, "--derive", "bf=som")


def test_a_dask_cluster_may_do_the_work(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed")
    target = tmp_path / "bf.npy"
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=":0"
    ) as cluster:
        assert run("reduce", scan, target, "bf=disk(4, 8, 3)", "--scheduler", cluster.scheduler_address) == 0
        assert run("export", scan, tmp_path / "o.zarr", "--scheduler", cluster.scheduler_address) == 0
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "o.zarr", mode="r")["data"][:], vfs.open(scan)[...])
    expected = vfs.open(scan).reduce(bf=vfs.Disk(4, 8, 3))["bf"].data
    np.testing.assert_array_equal(np.load(target), expected, strict=True)
    assert capsys.readouterr().err == ""


def test_a_scheduler_that_is_not_there_is_one_line(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("vfs.cli.reduce._ANSWER", 0.2)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        assert run("reduce", scan, tmp_path / "bf.npy", "bf=disk(4, 8, 3)", "--scheduler", address) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"vfs: --scheduler {address}: expected the address of a running dask scheduler")


def test_what_is_no_address_of_a_scheduler_begins_no_client(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", None)  # one that is refused an address ends 20 s later, by a traceback
    for address in ("nonsense://x:1", "x", "tcp://x:y"):
        assert run("reduce", scan, tmp_path / "bf.npy", "bf=disk(4, 8, 3)", "--scheduler", address) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"vfs: --scheduler {address}: expected the address of a running dask scheduler")
    assert not (tmp_path / "bf.npy").exists()


def test_an_image_that_was_recorded_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = json.dumps({"BinaryResult": {"DetectorIndex": "0", "Detector": "HAADF"}}).encode().ljust(400, b"\0")
    with h5py.File(tmp_path / "velox.emd", "w") as file:
        file["Data/Image/abc/Data"] = np.zeros((4, 5, 1), np.uint16)
        file["Data/Image/abc/Metadata"] = np.frombuffer(said, np.uint8)[:, None]
    message = refused(capsys, "reduce", tmp_path / "velox.emd", tmp_path / "o.tif", "haadf")
    assert "haadf: Data/Image/abc/Data (HAADF) is an image that was recorded" in message
    assert "`vfs look` shows it, with --array Data/Image/abc/Data" in message
