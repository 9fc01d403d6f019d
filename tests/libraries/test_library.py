"""A library in another process: what it reads is shown, and what it does to its process is one line here."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs import formats
from vfs.libraries.arrays import library_arrays, library_original
from vfs.libraries.library import MAX_FORKS
from vfs.model.layout import altered
from vfs.model.libraries import Library

LIBRARY = Library("Numbers", "MIT", "none", ("numpy",), "tests.libraries.readers:Numbers", seconds=3.0)
ABSENT = Library("Absent", "MIT", "absent", ("no_such_module_at_all",), "tests.libraries.readers:Numbers")
TOGETHER = Library("Together", "MIT", "none", ("numpy",), "tests.libraries.readers:Together", together=True)
UNSTARTED = altered(TOGETHER, reader="tests.libraries.readers:Unstarted")
DATA = np.arange(48, dtype="u1").reshape(3, 2, 8) + 64


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have formats of these libraries, as an entry point would bring them."""

    def of(name: str, library: Library) -> formats.Format:
        return formats.Format(
            name,
            (f".{name}",),
            "",
            "",
            None,
            lambda paths, sources: library_arrays(library, paths[0], sources, {}),
            original=lambda paths, sources: library_original(library, paths[0], sources, {}),
        )

    libraries = {"numbers": LIBRARY, "absent": ABSENT, "together": TOGETHER, "unstarted": UNSTARTED}
    more = {name: of(name, library) for name, library in libraries.items()}
    entries, loaded = {**formats._entries(), **more}, formats._loaded
    monkeypatch.setattr(formats, "_entries", lambda: entries)
    monkeypatch.setattr(formats, "_loaded", lambda name: more[name] if name in more else loaded(name))


def numbers(folder: Path, content: bytes = DATA.tobytes(), name: str = "a.numbers") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_arrays_of_a_library(tmp_path: Path) -> None:
    group = vfs.open_group(numbers(tmp_path), format="numbers")
    assert list(group) == ["signal_0/data", "signal_0/energy", "signal_1/data"]
    main = group.main
    assert (main.dims, main.attrs["name"]) == (("scan_y", "scan_x", "energy"), "map")
    assert main.calibration["scan_y"] == {"scale": 0.5, "offset": 1.0, "unit": "nm"}
    assert main.calibration["energy"]["values"] == "signal_0/energy"
    np.testing.assert_array_equal(main[...], DATA)
    np.testing.assert_array_equal(main[1:, 1, ::3], DATA[1:, 1, ::3])
    np.testing.assert_array_equal(group["signal_0/energy"][...], np.arange(8.0) ** 2)
    colours = group["signal_1/data"]
    assert (colours.dims, colours.shape) == (("y", "x", "s"), (2, 3, 3))
    assert colours[1, 2].tolist() == [0, 7, 0]
    assert group.original_metadata["signal_0/data"] == {"all": {"of": "it"}}
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(main))[0], DATA[0])


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("crash", "crashes (SIGSEGV)"),
        pytest.param("hang", "gives no answer for 3 seconds", marks=pytest.mark.thorough),
        ("grow", "of memory"),
        ("fail", "says: 'a word\\nand a second line'"),
        ("write {}", "opened for reading only"),
        ("remove {}", "opened for reading only"),
        ("leave {}/../b", "outside of the folder"),
        ("run", "os.system is not for readers"),
    ],
)
def test_what_a_library_does_is_one_line(tmp_path: Path, word: str, said: str) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    other = numbers(folder, name="other")
    (tmp_path / "b").write_bytes(b"")
    word = word.format(other if "/.." not in word else folder)
    path = numbers(folder, f"{word} ".encode() if " " not in word else word.encode())
    with pytest.raises(vfs.FormatError, match="Numbers does not read it: it") as told:
        vfs.open(path, format="numbers")
    assert said in str(told.value)
    assert "\n" not in str(told.value)
    assert other.read_bytes() == DATA.tobytes()
    np.testing.assert_array_equal(vfs.open(numbers(folder), format="numbers")[...], DATA)  # the process is back


def test_a_fork_that_ended_comes_back(tmp_path: Path) -> None:
    array = vfs.open(numbers(tmp_path), format="numbers")
    assert array[0, 0, 0] == 64
    os.kill(array.attrs["pid"], signal.SIGKILL)
    again = vfs.open(tmp_path / "a.numbers", format="numbers")
    assert again.attrs["pid"] != array.attrs["pid"]
    np.testing.assert_array_equal(again[...], DATA)


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    array = vfs.open(numbers(tmp_path), format="numbers")
    numbers(tmp_path, DATA[:2].tobytes())
    with pytest.raises(vfs.SourceChangedError, match=r"a\.numbers"):
        array[0]
    np.testing.assert_array_equal(vfs.open(tmp_path / "a.numbers", format="numbers")[...], DATA[:2])


def test_other_bytes_of_equal_size_and_time_are_read_anew(tmp_path: Path) -> None:
    path = numbers(tmp_path)
    vfs.open(path, format="numbers")[...]
    before, twin = path.stat(), DATA[::-1].copy()
    with path.open("r+b") as file:
        file.write(twin.tobytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    np.testing.assert_array_equal(vfs.open(path, format="numbers")[...], twin)


def test_few_forks_stay(tmp_path: Path) -> None:
    arrays = [vfs.open(numbers(tmp_path, name=f"{k}.numbers"), format="numbers") for k in range(MAX_FORKS + 2)]
    alive = [os.path.exists(f"/proc/{array.attrs['pid']}") for array in arrays]
    assert alive == [False] * 2 + [True] * MAX_FORKS
    np.testing.assert_array_equal(arrays[0][...], DATA)


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(vfs.DependencyError, match=r"a\.numbers: reading it needs Absent \(MIT\): .*install"):
        vfs.open(numbers(tmp_path), format="absent")


def test_one_process_answers_for_all_sets(tmp_path: Path) -> None:
    """A crash of one set is a line, and the others are opened again."""
    arrays = [vfs.open(numbers(tmp_path, name=f"{k}.together"), format="together") for k in range(MAX_FORKS + 2)]
    assert len({tuple(array.attrs["pid"]) for array in arrays}) == 1
    with pytest.raises(vfs.FormatError, match=r"crash\.together: Together does not read it: it crashes \(SIGSEGV\)"):
        vfs.open(numbers(tmp_path, name="crash.together"), format="together")
    assert arrays[0][...].tolist() == [0, 0]
    (again,) = vfs.open(tmp_path / "0.together", format="together").attrs["pid"]
    assert [again] != arrays[0].attrs["pid"]


def test_a_library_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(vfs.FormatError, match=r"a\.numbers: Together does not read it: it does not start: no engine"):
        vfs.open(numbers(tmp_path), format="unstarted")
