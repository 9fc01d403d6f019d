"""Derived arrays: results that are computed when they are read."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from vfs.engine.cache import ChunkCache
from vfs.faces.npy_face import NpyFace
from vfs.model.command_options import ExportOptions
from vfs.reduce import derived
from vfs.reduce.passes import Pass
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib
from vfs.zarr.export import export

SCAN, FRAME = (6, 5), (8, 16)
WANTED = {
    "bf": vfs.Disk(4, 8, 3),
    "com": vfs.CenterOfMass(),
    "mean": vfs.Mean(),
    "h": vfs.Histogram(5, (0, 4000)),
}


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    frames = np.random.default_rng(1).integers(1, 4000, (28, *FRAME)).astype(np.uint16)  # the last two are blank
    return write_mib(folder, frames, frames_per_file=7, scan=(1, 28))


@pytest.fixture(autouse=True)
def two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is of two rows and a half, which is two."""
    monkeypatch.setattr(derived, "FRAMES", 2 * 5 * 256 + 700)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], int]]:
    """What each pass made, and of how many frames."""
    seen: list[tuple[tuple[str, ...], int]] = []
    real = Pass.run

    def run(self: Pass, parts: int) -> Any:
        seen.append((tuple(self.bound), self.frames.count))
        return real(self, parts)

    monkeypatch.setattr(Pass, "run", run)
    return seen


def group(scan: Path, **options: Any) -> vfs.VirtualGroup:
    return vfs.open_group(scan, nav_shape=SCAN, derive=WANTED, **options)


def expected(scan: Path) -> dict[str, np.ndarray]:
    return {name: result.data for name, result in vfs.open(scan, nav_shape=SCAN).reduce(**WANTED).items()}


def test_they_are_what_reduce_gives(scan: Path) -> None:
    g, a = group(scan), vfs.open(scan, nav_shape=SCAN)
    assert [path for path in g if path.startswith("derived/")] == [f"derived/{name}" for name in WANTED]
    assert reader_of(g.main).dataset.path == "data"
    for name, result in a.reduce(**WANTED).items():
        array = g[f"derived/{name}"]
        np.testing.assert_array_equal(array[...], result.data)
        assert (array.shape, array.dtype, array.dims) == (result.shape, result.dtype, result.dims)
        assert array.calibration == result.calibration
        assert array.attrs["kind"] == result.kind
    assert g["derived/bf"].attrs["reduction"] == "disk(cy=4, cx=8, r=3)"
    assert np.isnan(g["derived/com"][5, 4]).all(), "a blank frame"
    assert g["derived/com"][3, 2].tolist() == expected(scan)["com"][3, 2].tolist()


def test_blocks_cover_whole_rows(scan: Path) -> None:
    g = group(scan, chunks="frames")
    assert {name: g[f"derived/{name}"].chunks for name in WANTED} == {
        "bf": (2, 5),
        "com": (2, 5, 2),
        "mean": FRAME,
        "h": (5,),
    }
    assert derived._rows((1000,), derived.FRAMES // 10) == (10,)
    assert derived._rows((7, 100), derived.FRAMES // 10) == (1, 100), "no less than a row"
    assert derived._rows((3, 4, 5), derived.FRAMES // 10) == (1, 2, 5)
    assert derived._rows((3, 4, 5), 1) == (3, 4, 5)
    assert derived._rows((), 1) == ()


@pytest.mark.parametrize("nav", [(2, 3, 5), (1, 2, 5, 3)])
def test_blocks_that_do_not_divide_an_axis_in_the_middle(scan: Path, nav: tuple[int, ...]) -> None:
    a, g = vfs.open(scan, nav_shape=nav), vfs.open_group(scan, nav_shape=nav, derive=WANTED)
    rows = g["derived/bf"].chunks
    assert rows[-2] > 1
    assert nav[-2] % rows[-2]
    for name, result in a.reduce(**WANTED).items():
        array = g[f"derived/{name}"]
        last = (slice(-1, None),) * (len(nav) if result.kind == "nav" else 0)
        np.testing.assert_array_equal(array[last], result.data[last])
        np.testing.assert_array_equal(array[...], result.data)


def test_results_of_a_block_are_made_in_one_pass_and_kept(
    scan: Path, passes: list[tuple[tuple[str, ...], int]]
) -> None:
    g = group(scan)
    assert passes == [], "nothing is read when it is opened"
    g["derived/bf"][2, 1], g["derived/bf"][3, 1]
    assert passes == [(("bf", "com"), 10)]
    g["derived/com"][2:4].sum()
    assert len(passes) == 1
    g["derived/com"][...].sum()
    assert passes[1:] == [(("bf", "com"), 10)] * 2
    g["derived/mean"][0, 0], g["derived/h"][1], g["derived/mean"][...]
    assert passes[3:] == [(("mean", "h"), 30)], "what is of all frames is made whole, once"


def test_results_of_all_frames_stay_when_the_cache_is_full(
    scan: Path, passes: list[tuple[tuple[str, ...], int]]
) -> None:
    g = group(scan, cache=ChunkCache(0))
    assert g["derived/mean"][0, 0] == g["derived/mean"][0, 0]
    assert len(passes) == 1


def test_of_files_that_change_the_last_results_are_kept(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches: list[ChunkCache] = []
    monkeypatch.setattr(derived, "ChunkCache", lambda size: (caches.append(ChunkCache(size)), caches[-1])[1])
    g = group(scan, backend="buffered", accept_changes=True)
    mean = g["derived/mean"]
    last = sorted(scan.parent.glob("*.mib"))[-1]
    for k in range(3):
        last.write_bytes(last.read_bytes()[:-1] + bytes([k]))
        g.main[...], mean[0, 0]  # the first one finds the change
        np.testing.assert_array_equal(mean[...], expected(scan)["mean"])
        assert [cache.held for cache in caches] == [mean.nbytes + g["derived/h"].nbytes]


def test_readers_of_one_block_at_the_same_time_share_its_pass(
    scan: Path, passes: list[tuple[tuple[str, ...], int]]
) -> None:
    g, start = group(scan), threading.Barrier(8)

    def read(k: int) -> Any:
        start.wait(100)
        return g[f"derived/{('bf', 'com', 'mean', 'h')[k % 4]}"][:1].tolist()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, range(8)))
    assert found[:4] == found[4:]
    assert sorted(passes) == [(("bf", "com"), 10), (("mean", "h"), 30)]


def test_pickles(scan: Path) -> None:
    g = group(scan)
    again = pickle.loads(pickle.dumps(g))
    assert list(again) == list(g)
    np.testing.assert_array_equal(again["derived/mean"][...], g["derived/mean"][...])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(g["derived/bf"]))[...], g["derived/bf"][...])
    store = pickle.loads(pickle.dumps(g.store()))
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["derived/bf"][...], g["derived/bf"][...])


@pytest.mark.parametrize("version", [3, 2])
def test_stores_and_exports_hold_them(scan: Path, tmp_path: Path, version: int) -> None:
    g = group(scan)
    export(set_of(g).tree.zarr(version), tmp_path / "o.zarr", ExportOptions())
    shown = zarr.open_consolidated(g.store(version), mode="r", zarr_format=version)
    written = zarr.open_consolidated(str(tmp_path / "o.zarr"), mode="r", zarr_format=version)
    for name, data in expected(scan).items():
        for tree in (shown, written):
            array = tree[f"derived/{name}"]
            np.testing.assert_array_equal(array[...], data)
            assert array.attrs["vfs"]["of"] == "data"
    assert shown["derived/com"].attrs["units"] == "px"
    if version == 3:
        assert shown["derived/com"].metadata.dimension_names == ("scan_y", "scan_x", "axis")


def test_npy_faces_hold_them(scan: Path, tmp_path: Path) -> None:
    faces = set_of(group(scan)).tree.faces()
    assert ".derived.h.npy" not in faces, "it has one axis"
    for name in ("bf", "com", "mean"):
        face = faces[f".derived.{name}.npy"]
        assert isinstance(face, NpyFace)
        whole = face.get("")
        assert whole is not None
        (tmp_path / "x.npy").write_bytes(whole)
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), expected(scan)[name])
        part = face.get("", 100, 333)
        assert part is not None
        assert bytes(part) == bytes(whole)[100:333]


def test_with_roi_they_have_the_frames_that_it_selects(scan: Path) -> None:
    roi = [3, 17, 11]
    g = vfs.open_group(scan, nav_shape=SCAN, roi=roi, derive=WANTED)
    np.testing.assert_array_equal(g["derived/bf"][...], expected(scan)["bf"].reshape(-1)[roi])
    assert g["derived/com"].dims == ("frame", "axis")


def test_what_cannot_be_read_is_an_error_and_tried_again(scan: Path) -> None:
    last = sorted(scan.parent.glob("*.mib"))[-1]
    whole = last.read_bytes()
    g = group(scan, backend="buffered", accept_changes=True)
    store = g.zarr()
    os.truncate(last, len(whole) - 100)
    for read in (lambda: g["derived/bf"][5], lambda: g["derived/mean"][0, 0], lambda: store["derived/bf"][5]):
        with pytest.raises(vfs.SourceError, match=last.name):
            read()
    np.testing.assert_array_equal(g["derived/bf"][:2], expected_part(g))
    last.write_bytes(whole)
    np.testing.assert_array_equal(g["derived/bf"][5], group(scan)["derived/bf"][5])


def expected_part(g: vfs.VirtualGroup) -> np.ndarray:
    return g.main.reduce(bf=WANTED["bf"], roi=np.arange(10))["bf"].selected.reshape(2, 5)


def test_masks_of_a_file_are_those_at_opening(scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = np.arange(128).reshape(FRAME) % 3 == 0
    np.save(tmp_path / "m.npy", mask)
    monkeypatch.chdir(tmp_path)
    g = vfs.open_group(scan, derive=["m=masks(m.npy)"])
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(g))
    (tmp_path / "m.npy").unlink()
    for found in (g, again):
        np.testing.assert_array_equal(found["derived/m"][...], vfs.open(scan).reduce(m=vfs.Masks(mask))["m"].data)
    np.save(tmp_path / "m.npy", ~mask)
    changed = vfs.open_group(scan, derive=[f"m=masks({tmp_path}/m.npy)"])
    assert set_of(changed).opening.version != set_of(g).opening.version  # no token and no ETag stands for both


def test_texts_and_reductions_are_the_same(scan: Path) -> None:
    made = [
        vfs.open_group(scan, derive=given)["derived/bf"][...]
        for given in ({"bf": vfs.Disk(4, 8, 3)}, {"bf": "disk(4, 8, 3)"}, ["bf=disk(4, 8, 3)"], "bf=disk(4, 8, 3)")
    ]
    for one in made[1:]:
        np.testing.assert_array_equal(one, made[0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bf": vfs.Disk(4, 800, 3)}, "derive: bf: .* frames have pixels from 0, 0 to 7, 15"),
        ({"bf": "disc()"}, r"derive: bf: no kind 'disc' \(did you mean disk\?\); there are sum, mean"),
        ({"b/f": vfs.Sum()}, "expected a name"),
        ({"bf": 3}, r"bf: 3: expected a reduction"),
        (3, r"derive=3: expected"),
        (["bf=sum", "bf=mean"], "the name bf is taken"),
    ],
)
def test_bad_arguments_are_one_line_when_it_is_opened(scan: Path, given: Any, said: str) -> None:
    with pytest.raises(vfs.OptionError, match=said):
        vfs.open_group(scan, derive=given)


def test_a_name_that_an_array_of_the_set_has_is_refused(scan: Path) -> None:
    a = reader_of(vfs.open(scan))
    with pytest.raises(vfs.OptionError, match="the set has an array derived/bf"):
        derived.derived(a, {"bf": vfs.Sum()}, ["data", "derived/bf"])


def test_an_interrupt_ends_the_pass_and_the_next_reader_begins_anew(
    scan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g, before = group(scan), threading.active_count()

    def interrupted(self: Pass) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Pass, "_tell", interrupted)
        for name in ("mean", "bf"):
            with pytest.raises(KeyboardInterrupt):
                g[f"derived/{name}"][...]
    assert threading.active_count() == before
    for name in ("mean", "bf"):
        np.testing.assert_array_equal(g[f"derived/{name}"][...], expected(scan)[name])
