"""A scan as one HTML file: the page that works from the disk, without a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.page.support import Browsed, patterns, scan_in

Browse = Callable[..., Browsed]
FRAMES = patterns((6, 8), 96)  # bins of 2 x 2 pixels


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scan_in(tmp_path_factory.mktemp("sources"), FRAMES)


@pytest.fixture(scope="module")
def exported(header: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("mail") / "scan.html"
    assert vfs.export(header, target) == target.stat().st_size
    return target


def test_the_page_works_from_the_disk(browse: Browse, exported: Path, header: Path) -> None:
    page = browse(exported.as_uri()).open()
    page.wait("window.vfs && vfs.scan.status === 'exact' && vfs.frame.status === 'binned 2 × 2'")
    banner = page.page.locator(".banner")
    assert "bins of 2 pixels" in banner.inner_text()
    array = vfs.open(header)
    bins = FRAMES.reshape(6, 8, 48, 2, 48, 2).sum(axis=(3, 5)).astype(float)
    assert np.allclose(page.numbers("frame"), bins[3, 4] / 4)
    kinds = {"1": vfs.Disk, "2": vfs.Ring, "3": vfs.Ring, "4": vfs.Ring}
    for key, kind in kinds.items():
        page.press(key)
        page.wait(f"vfs.scan.status === 'exact' && vfs.state.detector.kind === '{kind.__name__.lower()}'")
        shape = {name: value for name, value in page.state("detector").items() if name != "kind"}
        assert np.array_equal(page.numbers("scan"), array.reduce(image=kind(**shape))["image"].data), key
        assert kind is vfs.Disk or shape["r1"] > shape["r0"]
    page.press("6")
    page.wait("vfs.state.detector.kind === 'com' && vfs.scan.status === 'exact'")
    disk = {name: value for name, value in page.state("detector").items() if name != "kind"}
    exact = array.reduce(com=vfs.CenterOfMass(**disk))["com"].data
    assert np.array_equal(page.numbers("scan", "pairs"), exact)
    page.screenshot("mail")
    field = page.named("textbox", "Detector")
    field.fill("rectangle(10, 20, 30, 44)")
    field.press("Enter")
    page.wait("vfs.scan.status === 'of bins of 2 pixels'")
    assert np.array_equal(page.numbers("scan"), FRAMES[..., 10:30, 20:44].sum(axis=(2, 3)))
    page.drag("frame", (20, 32), (22, 36))
    page.page.mouse.up()
    page.wait("vfs.state.detector.x0 === 24 && vfs.scan.status === 'of bins of 2 pixels'")
    assert np.array_equal(page.numbers("scan"), FRAMES[..., 12:32, 24:48].sum(axis=(2, 3)))
    page.named("button", "All positions").click()
    for how, made in {"mean": np.mean, "max": np.max, "std": np.std, "sum": np.sum}.items():
        page.named("combobox", "Frames of the selection").select_option(how)
        start = "standard" if how == "std" else how
        page.wait(f"vfs.frame.caption.startsWith('{start}') && vfs.frame.status === 'binned 2 × 2'")
        assert np.allclose(page.numbers("frame"), made(bins / 4, axis=(0, 1)), rtol=1e-5), how
    page.press("m")
    assert page.page.get_by_role("complementary", name="Metadata").is_visible()
    names: dict[str, np.ndarray] = {}
    text = page.text_of("Scan", "Python that makes it")
    exec(text.replace('"scan.hdr"', repr(str(header))).replace("'scan.hdr'", repr(str(header))), names)
    assert np.array_equal(names["image"], page.numbers("scan"))
    page.close()


def test_numbers_that_are_rounded_are_not_called_exact(browse: Browse, tmp_path: Path) -> None:
    frames = FRAMES[..., ::4, ::4] / 3
    np.save(tmp_path / "scan.npy", frames)
    vfs.export(tmp_path / "scan.npy", tmp_path / "scan.html")
    page = browse((tmp_path / "scan.html").as_uri()).open()
    page.wait("window.vfs && vfs.scan.status === 'exact' && vfs.frame.status === 'rounded'")
    assert "rounded to seven digits" in page.page.inner_text(".banner")
    field = page.named("textbox", "Detector")
    field.fill("rectangle(10, 2, 20, 14)")
    field.press("Enter")
    page.wait("vfs.scan.status === 'of rounded numbers'")
    assert np.allclose(page.numbers("scan"), frames[..., 10:20, 2:14].sum(axis=(2, 3)), rtol=1e-6)
    page.named("button", "All positions").click()
    page.wait("vfs.frame.caption.startsWith('mean') && vfs.frame.status === 'rounded'")
    page.close()


def test_no_folder_is_named_in_the_file(exported: Path, header: Path) -> None:
    assert str(header.parent) not in exported.read_text()


def test_what_is_no_scan_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", np.eye(9))
    with pytest.raises(vfs.VfsError, match="expected a scan of two axes"):
        vfs.export(tmp_path / "image.npy", tmp_path / "image.html")
    assert [file.name for file in tmp_path.iterdir()] == ["image.npy"]
    np.save(tmp_path / "many.npy", np.zeros((1500, 1600, 8, 8), np.uint8))
    with pytest.raises(vfs.VfsError, match="expected fewer positions"):
        vfs.export(tmp_path / "many.npy", tmp_path / "many.html", nav_shape=(1500, 1600))


STORES = {"codec": "zstd", "shards": "auto", "chunks": "frames", "resume": True, "verify": True, "zarr_format": 2}
"""Options of stores."""

PYTHON = """
for name, value in options.items():
    try: vfs.export("gone.mib", target, **{name: value})
    except ValueError as error: print(error)
"""

SHELL = """
for name, value in options.items():
    sys.argv[1:] = ["export", "gone.mib", target, "--" + name.replace("_", "-"), *[str(value)] * (value is not True)]
    try: vfs.__main__.main()
    except SystemExit: pass
"""


@pytest.mark.parametrize(
    ("code", "said"), [(PYTHON, "{}: has no effect on a page"), (SHELL, "--{} has no effect for a page")]
)
def test_options_of_stores_are_refused_before_anything_is_read(tmp_path: Path, code: str, said: str) -> None:
    """By name, in the words of Python and of the shell, and before what is slow to import is."""
    heavy = "print(sorted({'zarr', 'numba', 'numcodecs', 'vfs.page.mail'} & sys.modules.keys()))"
    given = f"import sys, vfs, vfs.__main__\noptions, target = {STORES!r}, {str(tmp_path / 'scan.html')!r}"
    done = subprocess.run(
        [sys.executable, "-c", f"{given}\n{code}\n{heavy}"], capture_output=True, text=True, timeout=250
    )
    for name in STORES:
        word = name.replace("_", "-") if said.startswith("--") else name
        assert said.format(word) in done.stdout + done.stderr
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr
