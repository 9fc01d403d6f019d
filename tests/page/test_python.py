"""Python that the page gives: in a fresh process it makes the numbers behind the canvas, to the bit."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

import vfs
from tests.page.support import Browsed, patterns, plain, scan_in
from vfs.testing.writers import write_raw

Browse = Callable[..., Browsed]
FRAMES = patterns()
SCAN, SIZE = FRAMES.shape[:2], FRAMES.shape[2:]
RAW: dict[str, Any] = {"format": "raw", "dtype": "u2", "sig_shape": SIZE, "nav_shape": SCAN}
RNG = np.random.default_rng(8)
RUN = """
import sys, numpy
for name in sys.argv[1:]:
    names = {}
    with open(name) as file:
        exec(file.read(), names)
    numpy.save(name, names["frame"] if "frame" in names else names["image"])
"""
"""Runs files of Python, each on its own, and saves what they make beside them."""

ALL = [
    "",
    "detector=ring(15,16,6,12.5)&selection=rectangle(1,2,5,7)&how=sum",
    "detector=rectangle(4,5,13,21)&selection=disk(5,6,3.5)&how=mean",
    "detector=point(11,13)&selection=disk(-0.5,6,4.5)&how=max",
    "detector=frame_sum()&at=3,4",
    "detector=center_of_mass(15.5,16,7)&selection=rectangle(0.5,-1,5.5,4)&how=mean",
]
"""Views of a scan: each detector, and each selection."""


def taken(page: Browsed, view: str) -> Iterator[tuple[str, np.ndarray]]:
    """Look at a view. Gives Python and numbers of each of its pictures."""
    page.open(view)
    page.wait(
        "window.vfs && vfs.frame.status === 'exact'"
        " && (vfs.scan.status === 'exact' || document.querySelector('.scan-panel').hidden)"
    )
    yield page.text_of("Frame", "Python that makes it"), page.numbers("frame")
    if page.page.locator(".scan-panel").is_visible():
        pairs = page.page.evaluate("() => Boolean(vfs.scan.pairs)")
        yield page.text_of("Scan", "Python that makes it"), page.numbers("scan", "pairs" if pairs else "data")


def check(browse: Browse, folder: Path, url: str, views: Sequence[str]) -> list[str]:
    """Compare all pictures of some views with what their Python makes in another process. Returns its texts."""
    page = browse(url)
    found = [one for view in views for one in taken(page, view)]
    page.close()
    made = folder / "snippets"
    made.mkdir()
    for k, (text, _) in enumerate(found):
        (made / f"{k}").write_text(text, encoding="utf-8")
    names = [str(k) for k in range(len(found))]
    done = subprocess.run([sys.executable, "-c", RUN, *names], cwd=made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:] + "\n".join(text for text, _ in found)
    for name, (text, numbers) in zip(names, found, strict=True):
        again = np.load(made / f"{name}.npy").astype(float)
        assert again.shape == numbers.shape, text
        assert np.array_equal(again, numbers, equal_nan=True), text
    return [text for text, _ in found]


def test_one_file(browse: Browse, tmp_path: Path) -> None:
    header = scan_in(tmp_path, FRAMES)
    with vfs.serve(header, port=0) as server:
        texts = check(browse, tmp_path, server.url, ALL)
    assert f'data = vfs.open_group("{header}")["data"]' in texts[0]


def parts(folder: Path, files: int, dtype: Any = np.uint16) -> list[Path]:
    """Write the frames as raw files."""
    return write_raw(folder, FRAMES.reshape(-1, *SIZE).astype(dtype), files=files)


@pytest.mark.thorough
def test_a_list_of_files(browse: Browse, tmp_path: Path) -> None:
    files = parts(tmp_path, 3)
    how = RAW | {"dtype": np.dtype("u2")}
    with vfs.serve([[str(file) for file in files]], port=0, **how) as server:
        texts = check(browse, tmp_path, server.url, ALL[2:4])
    assert all(str(file) in texts[0] for file in files)
    assert 'stored_dtype="<u2"' in texts[0]


@pytest.mark.thorough
def test_many_files(browse: Browse, tmp_path: Path) -> None:
    files = [str(file) for file in parts(tmp_path, 48)]
    for k, (given, glob) in enumerate([(files, True), (files[::-1], False), (files[1:], False)]):
        (tmp_path / f"{k}").mkdir()
        with vfs.serve([given], port=0, **RAW) as server:
            texts = check(browse, tmp_path / f"{k}", server.url, ALL[1:2])
        assert (f'"{tmp_path}/part*.bin"' in texts[0]) == glob
        assert (files[5] in texts[0]) != glob


def test_files_in_several_folders(browse: Browse, tmp_path: Path) -> None:
    files = []
    for k, file in enumerate(parts(tmp_path, 24)):
        folder = tmp_path / f"run [{k:02}]"
        folder.mkdir()
        files.append(str(shutil.move(file, folder / f"frames {k}.bin")))
    how = RAW | {"follow_outside": True}
    with vfs.serve([files], port=0, **how) as server:
        texts = check(browse, tmp_path, server.url, ALL[1:2])
    assert f'"{tmp_path}/run [[]*]/frames *.bin"' in texts[0]


@pytest.mark.thorough
def test_options(browse: Browse, tmp_path: Path) -> None:
    header = scan_in(tmp_path, FRAMES)
    np.save(tmp_path / "gain.npy", RNG.normal(1, 0.1, SIZE).astype(np.float32))
    dead = RNG.random(SIZE) < 0.01
    how = {
        "sync_offset": -5,
        "dark": RNG.normal(1, 0.3, SIZE),
        "gain": tmp_path / "gain.npy",
        "dead": np.argwhere(dead)[:3],
        "nav_shape": (14, 15),
        "allow_incomplete": True,
        "array": "data",
    }
    with vfs.serve(header, port=0, **how) as server:
        texts = check(browse, tmp_path, server.url, ALL[1::2])
    assert f'gain="{tmp_path}/gain.npy"' in texts[0]
    assert "sync_offset=-5" in texts[0]
    assert "allow_incomplete=True" in texts[0]


def test_selected_frames(browse: Browse, tmp_path: Path) -> None:
    header = scan_in(tmp_path, FRAMES)
    for k, roi in enumerate((RNG.random(SCAN) < 0.6, np.arange(100, 160, 2))):
        (tmp_path / f"{k}").mkdir()
        with vfs.serve(header, port=0, roi=roi, dtype="f4") as server:
            views = ["", "detector=ring(15,16,6,12.5)&selection=rectangle(0,2,1,20)&how=sum"]
            check(browse, tmp_path / f"{k}", server.url, views)


@pytest.mark.thorough
def test_sums_of_floats(browse: Browse, tmp_path: Path) -> None:
    """They depend on the order in which they are added up."""
    values = (RNG.normal(size=FRAMES.shape) * 10.0 ** RNG.integers(-9, 9, FRAMES.shape)).astype(np.float32)
    (file,) = write_raw(tmp_path, values.reshape(-1, *SIZE))
    with vfs.serve(file, port=0, **(RAW | {"dtype": "f4"})) as server:
        views = [f"detector={word}&selection=rectangle(0,0,12,16)&how={how}" for word, how in FLOATS.items()]
        texts = check(browse, tmp_path, server.url, views)
    assert "parts=1, workers=" in texts[0]


FLOATS = {"frame_sum()": "sum", "center_of_mass(15,16,9)": "mean", "ring(15,16,3,14)": "max"}


@pytest.mark.thorough
def test_a_scan_of_three_axes(browse: Browse, tmp_path: Path) -> None:
    header = scan_in(tmp_path, FRAMES)
    with vfs.serve(header, port=0, nav_shape=(2, 6, 16)) as server:
        views = [
            "",
            "at=1,2,3&detector=ring(15,16,6,12.5)",
            "at=1,2,3&detector=center_of_mass(15,16,6)&selection=rectangle(1,2,5,7)&how=sum",
            "at=1,0,0&selection=disk(2,6,2.5)&how=mean",
        ]
        check(browse, tmp_path, server.url, views)


def scanned(file: h5py.File, name: str, values: np.ndarray, axes: list[str]) -> None:
    """Write frames of a scan along two axes as HyperSpy does."""
    group = file.create_group(name)
    group["data"] = values
    for k, axis in enumerate(axes):
        group.create_group(f"axis-{k}").attrs.update({"name": axis, "scale": 0.5, "offset": 1.0, "navigate": k < 2})


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a container, an image in colour, and a scan in a folder."""
    folder = tmp_path_factory.mktemp("tree")
    with h5py.File(folder / "container.h5", "w") as file:
        file['entry/movie "1"/data'] = RNG.integers(0, 4096, (5, 20, 30), np.uint16)
        file["stack"] = RNG.normal(size=(3, 4, 12, 10))
        file["complex"] = (RNG.normal(size=(2, 16, 15)) + 1j * RNG.normal(size=(2, 16, 15))).astype(np.complex64)
        file["line"] = RNG.normal(size=40)
        file["flags"] = RNG.random((7, 9)) < 0.5
        file["waves"] = (RNG.normal(size=(3, 4, 12, 10)) + 1j).astype(np.complex64)
        scanned(file, "spectra", RNG.integers(0, 99, (4, 5, 100), np.uint16), ["y", "x", "energy"])
        scanned(
            file, "slices", RNG.integers(0, 99, (4, 5, 9, 8, 3)).astype(float), ["scan_y", "scan_x", "y", "x", "depth"]
        )
        scanned(file, "planes", RNG.integers(0, 99, (4, 5, 3, 9, 8), np.uint8), ["scan_y", "scan_x", "s", "y", "x"])
    colours = RNG.integers(0, 256, (3, 20, 30), np.uint8)
    tifffile.imwrite(folder / "planes.tif", colours, photometric="rgb", planarconfig="separate")
    tifffile.imwrite(folder / "pixels.tif", np.moveaxis(colours, 0, -1), photometric="rgb")
    (folder / "day 1").mkdir()
    scan_in(folder / "day 1", FRAMES)
    return folder


VIEWS = {
    "container.zarr": [
        'array=entry/movie+"1"/data&at=3',
        "array=stack&at=2,1",
        *(f"array=complex&at=1&part={part}" for part in ("abs", "phase", "real", "imag")),
        "array=line",
        "array=flags",
        "array=waves&at=1,2&part=phase",
        "array=spectra/data&detector=rectangle(0,5,1,19)&selection=rectangle(0,1,2,4)",
        "array=spectra/data&detector=point(0,7)&at=1,2",
        "array=slices/data&at=3,1,2&selection=disk(2,2,1.5)",
        "array=planes/data&at=3,1",
        "array=planes/data&selection=rectangle(0,1,2,4)&how=sum",
    ],
    "planes.zarr": [""],
    "pixels.zarr": [""],
    "day 1/scan.zarr": ALL[:3],
}


def test_a_tree(browse: Browse, tree: Path, tmp_path: Path) -> None:
    with vfs.serve(tree, tree=True, port=0) as server:
        check(
            browse, tmp_path, server.url, [f"set={plain(key)}&{view}" for key, views in VIEWS.items() for view in views]
        )


@pytest.mark.thorough
def test_a_container_that_is_served_by_itself(browse: Browse, tree: Path, tmp_path: Path) -> None:
    with vfs.serve(tree / "container.h5", port=0) as server:
        check(browse, tmp_path, server.url, VIEWS["container.zarr"])


def test_derived_arrays(browse: Browse, tmp_path: Path) -> None:
    header = scan_in(tmp_path, FRAMES)
    masks = RNG.random((2, *SIZE)) < 0.5
    np.save(tmp_path / "masks.npy", masks)
    derive = {
        "bf": vfs.Disk(cy=15, cx=16, r=6),
        "mean": "mean",
        "radial": vfs.RadialSum(cy=15, cx=16, bins=9),
        "both": vfs.Masks(str(tmp_path / "masks.npy")),
        "given": vfs.Masks(masks),
    }
    with vfs.serve(header, port=0, derive=derive) as server:
        views = [f"array=derived/{name}" for name in derive]
        texts = check(browse, tmp_path, server.url, [*views, "array=data"])
    assert "derive=" in texts[0]
    assert "derive=" not in texts[-1]


def served_again(text: str) -> np.ndarray:
    """Run Python that serves an array until Enter is pressed. Returns the array as zarr reads it."""
    import zarr  # here: the other tests do not depend on which zarr there is

    addresses: list[str] = []
    images: list[np.ndarray] = []

    def look(_: str) -> None:
        images.append(np.asarray(zarr.open_array(addresses[-1], mode="r")[:]))

    exec(text, {"print": addresses.append, "input": look})
    return images[0]


@pytest.mark.parametrize("name", ["one", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("few", "many"))])
def test_python_serves_the_image_as_zarr(browse: Browse, tmp_path: Path, name: str) -> None:
    files = [str(file) for file in parts(tmp_path, 48)]
    given: Any = {"one": lambda: scan_in(tmp_path, FRAMES), "few": lambda: [files[:24]], "many": lambda: [files]}[
        name
    ]()
    how = {"one": {}, "few": RAW | {"nav_shape": (6, 16)}, "many": RAW}[name]
    with vfs.serve(given, port=0, **how) as server:
        page = browse(server.url)
        for view, what in (("detector=ring(15,16,6,12.5)", "data"), ("detector=center_of_mass(15,16,6)", "pairs")):
            page.open(view).settled()
            numbers = page.numbers("scan", what)
            assert np.array_equal(served_again(page.text_of("Scan", "Python that serves it as zarr")), numbers)
        if name == "one":
            check_command(page, tmp_path)
        page.close()


def check_command(page: Browsed, folder: Path) -> None:
    """Run the command that the page gives, and compare its results with what is shown."""
    import zarr

    views = "rectangle(3,4,20,22);center_of_mass(15,16,6);frame_sum()"
    page.open(f"detectors={views}&active=0&selection=rectangle(0,0,12,16)&how=max").settled()
    maps = [np.array(one["data"]) for one in page.state("maps")]
    text = page.text_of("Scan", "Command that reduces all to a file")
    vfs_command, *words = shlex.split(text)
    assert vfs_command == "vfs"
    target = folder / "reduced.zarr"
    words[2] = str(target)
    done = subprocess.run([sys.executable, "-m", "vfs", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = zarr.open_group(target, mode="r")
    assert np.array_equal(made["rectangle"][:].ravel(), maps[0])
    assert np.array_equal(made["com"][:].ravel(), np.array(page.state("maps")[1]["pairs"]))
    assert np.array_equal(made["sum"][:].ravel(), maps[2])
    assert np.array_equal(made["frame"][:], page.numbers("frame"))


@pytest.mark.thorough
def test_the_zarr_address_is_that_of_the_array(browse: Browse, tree: Path, tmp_path: Path) -> None:
    import zarr

    files = [str(file) for file in parts(tmp_path, 3)]
    with vfs.serve([files], port=0, **RAW) as server:
        page = browse(server.url).open().settled()
        address = page.text_of("Frame", "Address of the zarr array")
        assert np.array_equal(zarr.open_array(address, mode="r")[1, 2], FRAMES[1, 2])
        menu = page.page.locator('[role=group][aria-label="Frame: take away"]').text_content() or ""
        assert "zarr array" in menu
        assert "serves" not in menu
        assert "false" not in menu
        page.close()
    with vfs.serve(tree, tree=True, port=0) as server:
        page = browse(server.url).open(f"set={plain('day 1/scan.zarr')}").settled()
        address = page.text_of("Frame", "Address of the zarr array")
        assert np.array_equal(zarr.open_array(address, mode="r")[1, 2], FRAMES[1, 2])
        page.close()
