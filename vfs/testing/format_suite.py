"""Defines the checks that every format must pass. `vfs.testing.suites` shows how to run them."""

from __future__ import annotations

import errno
import json
import math
import os
import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vfs.api.arrays import VirtualArray, VirtualGroup
from vfs.api.opening import open_group
from vfs.api.showing import mount
from vfs.backends import make_backend
from vfs.engine.array import ArrayReader
from vfs.engine.chunk_access import Chunks
from vfs.errors import MountError, OptionError, OutsideError, SourceError, UnknownFormatError, VfsError
from vfs.faces.documents import plain_json
from vfs.formats import detect
from vfs.kernels.columns import FILE
from vfs.model.name_order import natural
from vfs.model.region import Region
from vfs.model.units import spelled
from vfs.sources.local import LocalSources
from vfs.testing.arranged import check_arranged, check_axes, same
from vfs.testing.backends import FailingBackend
from vfs.testing.counted_suite import CountedTests
from vfs.testing.inside import reader_of, set_of
from vfs.testing.opens import opened_past_the_boundary
from vfs.testing.reference_suite import ReferenceTests
from vfs.testing.remote_suite import RemoteTests
from vfs.testing.rows import Row, WrittenSet, always, of_rows

TRIES = 40  # mutations of a set, and truncations of a file
MAX_CHUNK_BYTES = 1 << 24  # bytes: larger chunks of a set with a garbled header are not read

quick = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors, HealthCheck.too_slow],
)
"""Settings of a property whose examples share a folder, and may take long."""


def _rows(suite: type[FormatTests], name: str) -> list[Row]:
    """Return the rows of a suite to which a check applies."""
    return [row for row in suite.rows if getattr(getattr(suite, name), "applies", always)(row)]


class FormatTests(CountedTests, RemoteTests, ReferenceTests):
    """Checks that a format reads sets of files correctly. Subclasses define `rows`."""

    rows: ClassVar[Sequence[Row]] = ()

    def __init_subclass__(cls) -> None:
        """Remove the checks that apply to none of the rows, so that the list of tests has only real ones."""
        super().__init_subclass__()
        for name in [name for name in dir(cls) if name.startswith("test_")]:
            if getattr(cls, name) is not None and not _rows(cls, name):
                setattr(cls, name, None)

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """Run every check that takes a row, or a set, with each row to which it applies."""
        if "row" in metafunc.fixturenames:
            metafunc.parametrize("row", _rows(metafunc.cls, metafunc.function.__name__), ids=lambda row: row.name)

    @pytest.fixture
    def found(self, row: Row, tmp_path: Path) -> WrittenSet:
        """Write the row's files."""
        folder = tmp_path / "a set"
        folder.mkdir()
        return WrittenSet(row, folder, *row.write(folder))

    # what a set is

    @of_rows(lambda row: not row.detected)
    def test_opens_only_by_name(self, found: WrittenSet) -> None:
        with pytest.raises(UnknownFormatError):
            detect(LocalSources(), str(found.first))

    @of_rows(lambda row: row.detected)
    def test_detected_and_claimed_by_nobody_else(self, found: WrittenSet) -> None:
        assert detect(LocalSources(), str(found.first)).name == found.row.format
        same(open_group(found.paths, **found.options).main[...], found.twin)

    def test_what_it_says(self, found: WrittenSet) -> None:
        group = found.group()
        same(found.open()[...], found.twin)
        for path, array in group.items():
            assert reader_of(array).dataset.path == path
            assert group._opened.tree.weight > 0, "a tree of folders counts the memory of its sets"
            assert all(type(n) is int for n in array.shape), array.shape
            assert len(array.dims) == array.ndim == len(set(array.dims))
            assert all(isinstance(name, str) and name for name in array.dims)
            assert array.dtype.isnative
            assert 0 <= reader_of(array).dataset.nav_ndim <= array.ndim
            assert set(array.files) <= {str(file) for file in found.files}
            text = json.dumps(plain_json(array.attrs), allow_nan=False)
            text += json.dumps(dict(array.original_metadata), allow_nan=False)
            assert " at 0x" not in text, "an attribute that is shown as the object it is"
            assert array[...].shape == array.shape
            assert array.attrs.get("calibration", {}) == array.calibration
            for known in array.calibration.values():
                assert math.isfinite(known["scale"])
                assert math.isfinite(known["offset"])
                assert known["unit"] == spelled(known["unit"])
        assert set(group.main.calibration) == set(found.row.calibrated)
        assert {path for path, array in group.items() if reader_of(array).dataset.companion} == set(
            found.row.companions
        )
        assert group.name
        assert group[next(iter(group))] is group.main
        assert not reader_of(found.open()).dataset.companion
        assert bool({*found.files} - {*found.named}) == found.row.finds_files

    @quick
    @given(data=st.data())
    def test_any_box_is_the_twin(self, found: WrittenSet, data: st.DataObject) -> None:
        array = self._kept(found, data.draw(st.sampled_from(["mmap", "buffered"])))
        cut = []
        for n in found.twin.shape:
            a, b = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
            cut.append(slice(a, b, data.draw(st.sampled_from([1, 1, 2, 3]))))
        same(array.read(cut), found.twin[tuple(cut)])

    _arrays: ClassVar[dict[tuple[Path, str], VirtualArray]] = {}

    def _kept(self, found: WrittenSet, backend: str) -> VirtualArray:
        """Return an array that stays open for all examples of one test."""
        key = (found.folder, backend)
        if key not in self._arrays:
            for old in [k for k in self._arrays if k[0] != found.folder]:
                del self._arrays[old]
            self._arrays[key] = found.open(backend=backend)
        return self._arrays[key]

    @pytest.mark.filterwarnings("ignore:.*direct I/O is refused:RuntimeWarning")
    @pytest.mark.parametrize("backend", ["mmap", "buffered", "direct"])
    def test_the_same_under_every_backend(self, found: WrittenSet, backend: str) -> None:
        array = found.open(backend=backend)
        same(array[...], found.twin)
        for region, tile in array.tiles():
            same(tile, found.twin[region.slices])

    def test_converted(self, found: WrittenSet) -> None:
        to = "c16" if found.twin.dtype.kind == "c" else "f8"
        same(found.open(dtype=to, **self._means_stored(found))[...], found.twin.astype(to))

    @staticmethod
    def _means_stored(found: WrittenSet) -> dict[str, Any]:
        """Return the stored dtype of headerless data, which must be given apart from the requested `dtype`."""
        return {"stored_dtype": found.options["dtype"]} if "dtype" in found.options else {}

    # other arrangements

    @of_rows(lambda row: row.fixed)
    def test_refuses_to_be_arranged(self, found: WrittenSet) -> None:
        for wanted in ({"nav_shape": 2}, {"sync_offset": 1}, {"roi": [0]}, {"nav_shape": (1, 2), "line_skip": 1}):
            with pytest.raises(OptionError, match=r"do not apply|: for a scan or a series of frames"):
                found.open(**wanted)

    @of_rows(lambda row: row.arranged)
    @pytest.mark.filterwarnings("ignore:.*nav_shape [0-9,]+ holds:vfs.errors.IncompleteWarning")
    def test_arranged(self, found: WrittenSet) -> None:
        array = found.open()
        k = reader_of(array).dataset.nav_ndim
        frames = found.twin.reshape(-1, *found.twin.shape[k:])
        check_arranged(found.open, frames, np.full(frames.shape[1:], reader_of(array).fill))
        mask = (np.arange(len(frames)) % 3 == 1) | (np.arange(len(frames)) == 0)
        same(found.open(roi=mask.reshape(found.twin.shape[:k]))[...], frames[mask])
        same(found.open(roi=[len(frames) - 1, 0, 0])[...], frames[[len(frames) - 1, 0, 0]])

    def test_axes_in_another_order(self, found: WrittenSet) -> None:
        dataset = reader_of(found.open()).dataset
        check_axes(found.open, found.twin, dataset.dims, dataset.nav_ndim)

    @of_rows(lambda row: row.ordered)
    def test_files_in_any_order(self, found: WrittenSet) -> None:
        assert len(found.named) > 1
        for order in (found.named[::-1], [*found.named[1:], found.named[0]]):
            same(found.open(paths=order)[...], found.twin)

    # in other hands

    def test_pickled(self, found: WrittenSet) -> None:
        array = found.open()
        small = pickle.dumps(array)
        assert len(small) < 8000
        same(pickle.loads(small)[...], found.twin)
        assert list(pickle.loads(pickle.dumps(array.group))) == list(array.group)

    def test_through_zarr(self, found: WrittenSet) -> None:
        array = found.open()
        shown = array.zarr()
        same(np.asarray(shown[...]), found.twin)
        assert shown.metadata.dimension_names == array.dims  # type: ignore[union-attr]
        for path, other in array.group.items():
            np.testing.assert_array_equal(np.asarray(array.group.zarr()[path]), other[...])

    def test_both_trees_hold_the_same_chunks(self, found: WrittenSet) -> None:
        array = found.open()
        trees = {f: set_of(array.group).tree.zarr(f) for f in (3, 2)}
        path = reader_of(array).dataset.path
        for position in np.ndindex(*reader_of(array).grid.counts):
            name = "/".join(map(str, position))
            got = [trees[3].get(f"{path}/c/{name}".rstrip("/")), trees[2].get(f"{path}/{name or 0}")]
            assert [bytes(chunk or b"") for chunk in got] == [Chunks(reader_of(array)).make(position).tobytes()] * 2

    def test_through_a_mount(self, tmp_path: Path) -> None:
        """Mount all rows at once, each through a description that keeps its options."""
        sets = []
        for n, row in enumerate(self.rows):
            folder = tmp_path / f"set {n}"
            folder.mkdir()
            found = WrittenSet(row, folder, *row.write(folder))
            named = [os.path.relpath(path, folder) for path in found.named]
            said = {"vfs": 1, "format": row.format, "files": named, "options": dict(found.options)}
            description = folder / f"row {n}.vfs.json"
            description.write_text(json.dumps(said))
            sets.append((found.first if row.format == "description" else description, found.twin))
        point = tmp_path / "mnt"
        point.mkdir()
        try:
            shown = mount([[path] for path, _ in sets], point)
        except MountError as error:
            if error.errno not in (errno.ENOSYS, errno.ENODEV, errno.EPERM, errno.EACCES):
                raise
            pytest.skip(f"NOTHING WAS READ THROUGH A MOUNT, FUSE does not work here: {error}")
        with shown:
            names = sorted(
                (name for name in os.listdir(point) if name.count(".") == 1 and name.endswith(".npy")), key=natural
            )
            assert len(names) == len(sets)
            twins = {Path(path).name.split(".")[0]: twin for path, twin in sets}
            for name in names:
                mapped = np.load(point / name, mmap_mode="r")
                same(mapped, twins[name.split(".")[0]])
                del mapped

    # what is wrong

    def _survives(self, found: WrittenSet, **more: Any) -> VirtualGroup | None:
        """Open a damaged set, and read a little of every array.

        Returns None if that is refused, in one line that names a file.
        """
        try:
            group, _ = found.group_and_warnings(**more)
            for array in group.values():
                if array.size and reader_of(array).chunk_bytes <= MAX_CHUNK_BYTES:
                    Chunks(reader_of(array)).make((0,) * array.ndim)
                    Chunks(reader_of(array)).make(tuple(n - 1 for n in reader_of(array).grid.counts))
        except VfsError as error:
            found.complaint(error)
            return None
        return group

    def test_gone(self, found: WrittenSet) -> None:
        array = found.open()
        rows, _ = reader_of(array).dataset.layout.read_ranges(Region.whole(array.shape))
        needed = Path(array.files[rows[-1, FILE]])
        away = needed.rename(needed.with_name("gone away"))
        with pytest.raises(SourceError) as caught:
            array[...]
        assert needed.name in str(caught.value)
        assert "[reading " in str(caught.value)
        away.rename(needed)
        same(array[...], found.twin)
        found.first.unlink()
        with pytest.raises(VfsError) as missing:
            found.open()
        assert found.first.name in str(missing.value)

    def test_failing(self, found: WrittenSet) -> None:
        array = found.open()
        backend = FailingBackend(make_backend("buffered", reader_of(array).dataset.files))
        reader = ArrayReader(reader_of(array).dataset, backend)
        with pytest.raises(SourceError, match=r"asked to fail \[reading"):
            reader.read()
        backend.fails = lambda file, start, stop: False
        same(reader.read(), found.twin)

    def test_links_that_lead_out_of_the_folder(self, found: WrittenSet, tmp_path: Path) -> None:
        """Only links that the user named are followed, and only to their targets when the set was opened."""
        named = set(found.named)
        outside = tmp_path / "outside"
        outside.mkdir()

        def move(path: Path) -> None:
            target = outside / path.name
            path.rename(target)
            path.symlink_to(target)

        for path in found.files:
            if path not in named:
                move(path)
                said, files = self._outside(found)
                if said:
                    assert path.name in said
                    assert "follow_outside=True" in said
                else:  # the set does not need this file, or opens without it
                    assert str(path) not in files
                same(found.open(follow_outside=True)[...], found.twin)
                path.unlink()
                (outside / path.name).rename(path)
        for backend in ("mmap", "buffered"):
            array = found.open(backend=backend)
            path = Path(array.files[0])
            move(path)
            with pytest.raises(OutsideError, match="leads to"):
                array.read()
            (outside / path.name).rename(path)
        for path in named:
            move(path)
        array = found.open()
        same(array[...], found.twin)
        same(pickle.loads(pickle.dumps(array))[...], found.twin)

    @staticmethod
    def _outside(found: WrittenSet) -> tuple[str, set[str]]:
        """Return (why a set is refused, the files that it opens with); one of them is empty."""
        try:
            group = found.group()
        except OutsideError as error:
            return found.complaint(error), set()
        return "", {name for array in group.values() for name in array.files}

    def test_files_are_opened_through_the_boundary(self, found: WrittenSet) -> None:
        """Only `vfs.sources` opens files: a checked path may become a pipe, or a link that leads out."""
        with opened_past_the_boundary(found.folder) as opened:
            for backend in ("mmap", "buffered"):
                for array in found.group(backend=backend).values():
                    array.read()
            if found.row.detected:
                detect(LocalSources(), str(found.first))
        assert not opened, opened

    def test_empty(self, found: WrittenSet) -> None:
        for path in found.files:
            path.write_bytes(b"")
        with pytest.raises(VfsError) as caught:
            found.open()
        found.complaint(caught.value)
        if found.row.detected:
            with pytest.raises(VfsError) as caught:
                open_group(found.paths, **found.options)
            found.complaint(caught.value)

    FOREIGN = (b"GIF89a" + bytes(5000), b"just text, nothing else\n" * 300, bytes(9000), b"\xff" * 9000, b"\0")

    @of_rows(lambda row: row.detected)
    def test_foreign(self, found: WrittenSet) -> None:
        for content in self.FOREIGN:
            found.first.write_bytes(content)
            with pytest.raises(VfsError) as caught:
                found.open()[...]
            found.complaint(caught.value)
            with pytest.raises(VfsError):
                open_group(found.paths, **found.options).main[...]

    @of_rows(lambda row: not row.detected)
    def test_foreign_bytes_are_data_or_one_line(self, found: WrittenSet) -> None:
        """Foreign bytes are valid headerless data, or are refused in one line."""
        for content in self.FOREIGN:
            found.first.write_bytes(content)
            self._survives(found)

    def test_truncated_anywhere(self, found: WrittenSet) -> None:
        array = found.open()
        k, fill = reader_of(array).dataset.nav_ndim, reader_of(array).fill
        frames = found.twin.reshape(-1, *found.twin.shape[k:])
        told = 0
        # the place of a frame in headerless files follows only from the number of frames in front
        # of it: cut the last file only
        for path in {found.first, Path(array.files[-1])} if found.row.detected else {Path(array.files[-1])}:
            whole = path.read_bytes()
            for n, size in enumerate(
                sorted(
                    {*range(0, min(len(whole), 400), 53), *np.linspace(0, len(whole) - 1, TRIES).astype(int).tolist()}
                )
            ):
                path.write_bytes(whole[:size])
                try:
                    group, said = found.group_and_warnings(backend=("mmap", "buffered")[n % 2])
                    got = group.main[...]
                except VfsError as error:
                    found.complaint(error)
                    told += 1
                    continue
                if got.shape == found.twin.shape and np.array_equal(got, found.twin, equal_nan=got.dtype.kind in "fc"):
                    continue  # nothing of the array was lost
                assert found.row.cut, f"{path.name} of {size} bytes: an array of {got.shape}, expected an error"
                assert said, f"{path.name} of {size} bytes: an array of {got.shape} without a word"
                assert all("\n" not in line and "nav_shape" not in line for line in said)
                told += 1
                if got.shape != found.twin.shape and not found.row.arranged:
                    continue  # the rest looks like another scan, which begins elsewhere
                flat = got.reshape(-1, *frames.shape[1:])
                for shown, frame in zip(flat, frames, strict=False):
                    assert np.array_equal(shown, frame, equal_nan=shown.dtype.kind in "fc") or (shown == fill).all()
                assert (flat[len(frames) :] == fill).all()
            path.write_bytes(whole)
        assert told > TRIES // 2

    @of_rows(lambda row: row.finds_files)
    def test_a_file_is_lost(self, found: WrittenSet) -> None:
        """Remove each file in turn, except for named ones.

        Opening then fails with an error that names the file, or warns; frames that are left stay at
        their places.
        """
        for path in [path for path in found.files if path not in found.named]:
            away = path.rename(found.folder.parent / "away")
            try:
                group, said = found.group_and_warnings()
            except VfsError as error:
                self._names(error, path)
            else:
                whole = group.main.shape == found.twin.shape and np.array_equal(group.main[...], found.twin)
                untold = not found.row.counted and path == max(
                    [*found.files, path], key=lambda file: natural(file.name)
                )
                assert said or whole or untold, f"{path.name} is gone: an array of {group.main.shape} without a word"
                self._left(group, found)
            try:
                group, said = found.group_and_warnings(allow_incomplete=True)
            except VfsError as error:
                self._names(error, path)
            else:
                self._left(group, found)
            away.rename(path)

    @staticmethod
    def _names(error: VfsError, path: Path) -> None:
        assert "\n" not in str(error)
        assert path.name in str(error)

    @staticmethod
    def _left(group: VirtualGroup, found: WrittenSet) -> None:
        """Check that the frames left of a set are at their places, and the others are blank."""
        array = group.main
        got, valid = array[...], array.valid.ravel()
        if got.shape != found.twin.shape and not found.row.arranged:
            return  # the rest looks like another scan, which begins elsewhere
        flat = got.reshape(-1, *got.shape[reader_of(array).dataset.nav_ndim :])
        frames = found.twin.reshape(
            -1, *found.twin.shape[reader_of(array).dataset.nav_ndim + found.twin.ndim - got.ndim :]
        )
        assert flat.shape[1:] == frames.shape[1:]
        for shown, frame, stored in zip(flat, frames, valid, strict=False):
            assert ((shown == reader_of(array).fill) | (stored & (shown == frame)) | (stored & (shown != shown))).all()
        assert not valid[len(frames) :].any()
        assert (flat[len(frames) :] == reader_of(array).fill).all()

    def test_garbled_anywhere(self, found: WrittenSet) -> None:
        rng = random.Random(found.row.name)
        for path in found.files:
            whole = path.read_bytes()
            for _ in range(max(8, TRIES // len(found.files))):
                made = bytearray(whole)
                for _ in range(rng.choice((1, 1, 2, 8))):
                    at = rng.randrange(min(len(made), rng.choice((64, 1024, len(made)))))
                    width = rng.choice((1, 1, 2, 4, 8))
                    made[at : at + width] = rng.choice(
                        (bytes(width), b"\xff" * width, rng.randbytes(width), b"9" * width)
                    )
                path.write_bytes(bytes(made))
                self._survives(found, backend=rng.choice(("mmap", "buffered")))
            path.write_bytes(whole)

    def test_options_that_it_does_not_have(self, found: WrittenSet) -> None:
        with pytest.raises(OptionError, match="colour"):
            found.open(colour="red")
        for wrong in ({"chunks": "many"}, {"backend": "fast"}, {"dtype": "x9"}, {"roi": [10**9]}, {"nav_shape": -3}):
            with pytest.raises(OptionError):
                found.open(**wrong)
