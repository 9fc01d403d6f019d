"""Defines the checks that every backend must pass: a test class derives from `BackendTests`, and defines `make`."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.backends import Backend, Window
from vfs.errors import MissingSourceError, SourceChangedError, SourceError, TruncatedSourceError
from vfs.model.files import Files
from vfs.testing.backends import local_files
from vfs.testing.format_suite import quick


class BackendTests:
    """Checks a backend for files. Subclasses define `make`."""

    def make(self, files: Files) -> Backend:
        """Return the backend to test, for these files."""
        raise NotImplementedError

    SIZES = (20_000, 1, 4096, 8193)

    @pytest.fixture
    def paths(self, tmp_path: Path) -> list[Path]:
        """Write files of random bytes."""
        found = []
        for n, size in enumerate(self.SIZES):
            found.append(tmp_path / f"source {n}.bin")
            found[n].write_bytes(np.random.default_rng(n).bytes(size))
        return found

    @pytest.fixture
    def backend(self, paths: list[Path]) -> Backend:
        """Return the backend to test, for the files at `paths`."""
        return self.make(local_files(paths))

    @staticmethod
    def memory(backend: Backend, size: int) -> np.ndarray:
        """Return scratch memory full of junk, or an empty array if a backend needs none."""
        return np.full(size + backend.margin if backend.copies else 0, 0xDB, np.uint8)

    @classmethod
    def bytes_of(cls, backend: Backend, file: int, start: int, stop: int) -> bytes:
        """Return the bytes that `span` reads."""
        return backend.span(file, start, stop, cls.memory(backend, stop - start)).tobytes()

    @quick
    @given(st.data())
    def test_spans_are_the_bytes_of_the_file(self, paths: list[Path], backend: Backend, data: st.DataObject) -> None:
        file = data.draw(st.integers(0, len(paths) - 1))
        start = data.draw(st.integers(0, self.SIZES[file]))
        stop = data.draw(st.integers(start, self.SIZES[file]))
        got = backend.span(file, start, stop, self.memory(backend, stop - start))
        assert got.dtype == np.uint8
        assert got.shape == (stop - start,)
        assert got.tobytes() == paths[file].read_bytes()[start:stop]

    @quick
    @given(st.lists(st.tuples(st.integers(0, 19_990), st.integers(1, 3000)), min_size=1, max_size=8))
    def test_wanted_ranges_are_there(self, paths: list[Path], backend: Backend, found: list[tuple[int, int]]) -> None:
        ranges = np.array([(0, a, min(a + n, 20_000)) for a, n in found], np.int64)
        start, stop = int(ranges[:, 1].min()), int(ranges[:, 2].max())
        got = backend.span(0, start, stop, self.memory(backend, stop - start), ranges)
        content = paths[0].read_bytes()
        for _, a, b in ranges.tolist():
            assert got[a - start : b - start].tobytes() == content[a:b]

    @quick
    @given(
        st.lists(st.tuples(st.integers(0, 19_990), st.integers(1, 3000), st.integers(0, 2)), min_size=1, max_size=8),
        st.sampled_from([1, 2, 8]),
    )
    def test_ranges_are_read_to_their_places(
        self, paths: list[Path], backend: Backend, found: list[tuple[int, int, int]], width: int
    ) -> None:
        if not backend.in_place:
            pytest.skip("reads in windows of its own")
        content = paths[0].read_bytes()
        rows, to, expected = [], 0, b""
        for a, n, gap in found:
            b = a + max(1, min(n, (20_000 - a) // width)) * width
            rows.append((0, a, b, to + gap, 1, 0, (b - a) // width, 0))
            expected += bytes([7]) * (gap * width) + content[a:b]
            to += gap + (b - a) // width
        ranges = np.array(rows, np.int64)
        memory = np.full(to * width, 7, np.uint8)
        backend.span(0, int(ranges[:, 1].min()), int(ranges[:, 2].max()), memory, ranges, width)
        assert memory.tobytes() == expected

    def test_where_the_answer_lies(self, backend: Backend) -> None:
        memory = self.memory(backend, 5000)
        got = backend.span(0, 1234, 6234, memory)
        if backend.copies:
            assert np.shares_memory(got, memory)
            if backend.in_place:
                assert got.ctypes.data == memory.ctypes.data
        else:
            assert not got.flags.writeable
            assert np.shares_memory(got, backend.span(0, 1234, 1235, memory))  # a view of the file, not a copy

    def test_many_windows_at_once(self, paths: list[Path], backend: Backend) -> None:
        assert (backend.fetch is None) == (backend.parallel == 1)
        windows = [Window(file, 1, size, np.empty(size - 1, np.uint8)) for file, size in enumerate(self.SIZES)]
        if backend.fetch is not None:
            backend.fetch(windows)
            assert [one.memory.tobytes() for one in windows] == [path.read_bytes()[1:] for path in paths]

    @pytest.mark.parametrize(("start", "stop"), [(19_000, 20_001), (20_000, 20_001), (30_000, 30_010), (0, 1 << 33)])
    def test_bytes_beyond_the_end(self, paths: list[Path], backend: Backend, start: int, stop: int) -> None:
        with pytest.raises(TruncatedSourceError) as caught:
            backend.span(0, start, stop, self.memory(backend, min(stop - start, 1 << 20)))
        assert str(paths[0]) in str(caught.value)
        assert f"{start:,} to {stop:,}" in str(caught.value)

    def test_wanted_bytes_beyond_the_end(self, paths: list[Path], backend: Backend) -> None:
        ranges = np.array([(0, 10, 20), (0, 19_990, 20_010)], np.int64)
        with pytest.raises(TruncatedSourceError, match="20,010"):
            backend.span(0, 10, 20_010, self.memory(backend, 20_000), ranges)

    def test_a_missing_file_and_its_return(self, paths: list[Path], backend: Backend) -> None:
        before = paths[1].rename(paths[1].with_suffix(".away"))
        for _ in range(2):
            with pytest.raises(MissingSourceError) as caught:
                self.bytes_of(backend, 1, 0, 1)
        assert str(paths[1]) in str(caught.value)
        assert "0 to 1" in str(caught.value)
        before.rename(paths[1])
        assert self.bytes_of(backend, 1, 0, 1) == paths[1].read_bytes()

    @pytest.mark.parametrize("used", [False, True], ids=["never read", "read before"])
    def test_a_truncated_file_and_its_return(self, paths: list[Path], backend: Backend, used: bool) -> None:
        content, times = paths[0].read_bytes(), paths[0].stat()
        if used:
            assert self.bytes_of(backend, 0, 0, 20_000) == content
        os.truncate(paths[0], 9000)
        for start, stop in ((8000, 9001), (0, 20_000)):
            with pytest.raises(TruncatedSourceError, match=f"{start:,} to {stop:,}"):
                self.bytes_of(backend, 0, start, stop)
        with pytest.raises(SourceError):  # it is not the file that was opened, whatever part of it is left
            self.bytes_of(backend, 0, 0, 100)
        paths[0].write_bytes(content)
        os.utime(paths[0], ns=(times.st_atime_ns, times.st_mtime_ns))
        assert self.bytes_of(backend, 0, 0, 20_000) == content

    def test_an_emptied_file(self, paths: list[Path], backend: Backend) -> None:
        os.truncate(paths[2], 0)
        with pytest.raises(TruncatedSourceError, match="source 2"):
            self.bytes_of(backend, 2, 0, 4096)

    @pytest.mark.parametrize("used", [False, True], ids=["never read", "read before"])
    def test_a_changed_file(self, paths: list[Path], backend: Backend, used: bool) -> None:
        if used:
            self.bytes_of(backend, 0, 0, 100)
        with paths[0].open("r+b") as file:  # other bytes, as many
            file.write(b"something else")
        os.utime(paths[0], ns=(0, 12345))
        with pytest.raises(SourceChangedError) as caught:
            self.bytes_of(backend, 0, 0, 100)
        assert str(paths[0]) in str(caught.value)
        assert "0 to 100" in str(caught.value)

    def test_a_folder_instead_of_a_file(self, paths: list[Path], backend: Backend) -> None:
        paths[0].unlink()
        paths[0].mkdir()
        with pytest.raises(SourceError, match="source 0"):
            self.bytes_of(backend, 0, 0, 100)

    def test_a_file_that_was_missing_all_along(self, tmp_path: Path, paths: list[Path]) -> None:
        backend = self.make(local_files([*paths, tmp_path / "never.bin"], missing_ok=True))
        with pytest.raises(MissingSourceError, match=r"never.bin"):
            self.bytes_of(backend, 4, 0, 10)
        shutil.copy(paths[0], tmp_path / "never.bin")
        assert self.bytes_of(backend, 4, 0, 10) == paths[0].read_bytes()[:10]

    def test_many_threads(self, paths: list[Path], backend: Backend) -> None:
        contents = [path.read_bytes() for path in paths]

        def work(seed: int) -> bool:
            rng = np.random.default_rng(seed)
            good = True
            for _ in range(50):
                file = int(rng.integers(len(contents)))
                start, stop = np.sort(rng.integers(0, len(contents[file]) + 1, 2)).tolist()
                good &= self.bytes_of(backend, file, start, stop) == contents[file][start:stop]
            return good

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(16)))

    def test_files_beyond_the_limit_of_descriptors(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Read more files than may be open, each more than once, and keep views of all of them."""
        from vfs.backends import handles

        monkeypatch.setattr(handles, "limit", lambda: 8)
        paths = [tmp_path / f"{n}.bin" for n in range(60)]
        for n, path in enumerate(paths):
            path.write_bytes(bytes([n]) * 100)
        backend = self.make(local_files(paths))
        before = len(os.listdir("/proc/self/fd"))
        kept = [backend.span(n % 60, 10, 20, self.memory(backend, 10)) for n in range(150)]
        assert len(os.listdir("/proc/self/fd")) <= before + 10
        assert all(got.tobytes() == bytes([n % 60]) * 10 for n, got in enumerate(kept))

    def test_descriptors_are_closed_with_the_backend(self, paths: list[Path]) -> None:
        before = len(os.listdir("/proc/self/fd"))
        backend = self.make(local_files(paths))
        self.bytes_of(backend, 0, 0, 10)
        self.bytes_of(backend, 3, 0, 10)
        del backend
        assert len(os.listdir("/proc/self/fd")) <= before
