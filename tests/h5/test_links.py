"""What libhdf5 may open: nothing by its name. Links, virtual data sets and raw files lead where
`vfs.sources.boundary` lets them, and never to a pipe.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.h5 import survey
from vfs.sources.boundary import Boundary
from vfs.sources.local import LocalSources
from vfs.testing.inside import reader_of

h5py = pytest.importorskip("h5py")
UNLIMITED = h5py.h5s.UNLIMITED


def growing(
    file: Any,
    name: str,
    *mapped: tuple[bytes, bytes, tuple[Any, ...], tuple[Any, ...]],
    length: int = 2,
    dtype: Any = None,
) -> None:
    """A virtual data set (n, 3) that grows with its sources: (file, data set, selection in it,
    selection in the source), each (start, count, stride, block).
    """
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space = h5py.h5s.create_simple((length, 3), (UNLIMITED, 3))
    for source, path, here, there in mapped:
        of = h5py.h5s.create_simple((2, 3), (UNLIMITED, 3))
        for selected, (start, count, stride, block) in ((space, here), (of, there)):
            selected.select_hyperslab((start, 0), (count, 1), (stride, 3), (block, 3))
        plan.set_virtual(space, source, path, of)
    h5py.h5d.create(file.id, name.encode(), dtype or h5py.h5t.STD_I32LE, space, plan)


ALL = (0, UNLIMITED, 1, 1)


def raw_text(file: Any, name: bytes) -> None:
    """A text whose characters are in a raw file."""
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_external(name, 0, 16)
    text = h5py.h5t.C_S1.copy()
    text.set_size(16)
    h5py.h5d.create(file.id, b"text", text, h5py.h5s.create(h5py.h5s.SCALAR), plan)


@pytest.mark.parametrize("absolute", [True, False])
def test_a_pipe_is_never_waited_for(tmp_path: Path, absolute: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    name = str(tmp_path / "pipe") if absolute else "pipe"
    with h5py.File(tmp_path / "set.h5", "w", libver="latest") as file:
        file["data"] = np.arange(5.0)
        file["link"] = h5py.ExternalLink(name, "/x")
        file["soft"] = h5py.SoftLink("/link/y")
        file["group/softer"] = h5py.SoftLink("../soft/y")
        file["group/soft"] = h5py.SoftLink("/soft")
        growing(file, "growing", (name.encode(), b"data", ALL, ALL))
        growing(file, "words", (name.encode(), b"data", ALL, ALL), dtype=h5py.h5t.C_S1)
        growing(file, "group/title", (name.encode(), b"data", ALL, ALL), dtype=h5py.h5t.C_S1)
        raw_text(file, name.encode())
    with pytest.warns(vfs.IncompleteWarning):
        group = vfs.open_group(tmp_path / "set.h5")
    left = group.attrs["vfs"]["root"]["left_out"]
    assert list(group) == ["data"]
    for entry in ("link", "soft", "group/soft", "growing"):
        assert left[entry].endswith(
            "pipe, which cannot be opened (expected a file, found something else (a pipe or a device))"
        ), entry
    assert set(left) == {"link", "soft", "group/soft", "group/softer", "growing", "words", "group/title", "text"}


def test_a_path_through_links_ends_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    with h5py.File(outside / "secret.h5", "w") as file:
        file["x/y"] = file["data"] = np.full((5, 3), 7, "i4")
        file.attrs["note"] = "secret"
    (inside / "there.h5").symlink_to("../outside/secret.h5")
    with h5py.File(inside / "middle.h5", "w") as file:
        file["x"] = h5py.ExternalLink(str(outside / "secret.h5"), "/")
    with h5py.File(inside / "set.h5", "w", libver="latest") as file:
        file["own"] = np.arange(5.0)
        file["twice"] = h5py.ExternalLink("middle.h5", "/x")
        file["through"] = h5py.ExternalLink("middle.h5", "/x/x/y")
        file["linked"] = h5py.ExternalLink("there.h5", "/data")
        for name in ("there.h5", str(outside / "secret.h5")):
            growing(file, f"growing {len(name) > 10}", (name.encode(), b"data", ALL, ALL))
    with pytest.warns(vfs.IncompleteWarning):
        group = vfs.open_group(inside / "set.h5")
    assert list(group) == ["own"]
    left = group.attrs["vfs"]["root"]["left_out"]
    assert set(left) == {"twice", "through", "linked", "growing True", "growing False"}
    assert all("outside the folder" in why for why in left.values()), left
    assert "secret" not in str(left).replace("secret.h5", "")
    assert set(vfs.open_group(inside / "set.h5", follow_outside=True)) >= {
        "twice/data",
        "through",
        "linked",
        "growing True",
        "growing False",
    }


def two_files(folder: Path) -> None:
    for name, note in (("set.h5", "harmless"), ("other.h5", "secret")):
        with h5py.File(folder / name, "w") as file:
            file["data"] = np.arange(12.0)
            file.attrs["note"] = note


def test_the_file_that_was_checked_is_the_one_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link put in its place after the boundary has looked: the attributes behind it were shown."""
    two_files(tmp_path)
    asked = survey.LIBHDF5.ask

    def swapped(path: str, *args: Any) -> Any:
        (tmp_path / "set.h5").rename(tmp_path / "moved.h5")
        (tmp_path / "set.h5").symlink_to("other.h5")
        return asked(path, *args)

    monkeypatch.setattr(survey.LIBHDF5, "ask", swapped)
    assert (
        survey.survey(LocalSources(Boundary((str(tmp_path),))), str(tmp_path / "set.h5")).groups[""]["note"]
        == "harmless"
    )


def test_a_file_that_is_removed_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_files(tmp_path)
    asked = survey.LIBHDF5.ask

    def swapped(path: str, *args: Any) -> Any:
        os.replace(tmp_path / "other.h5", tmp_path / "set.h5")
        return asked(path, *args)

    monkeypatch.setattr(survey.LIBHDF5, "ask", swapped)
    with pytest.raises(
        vfs.SourceChangedError, match=r"set\.h5: replaced or removed while it was being opened; open it again"
    ):
        vfs.open(tmp_path / "set.h5")


def test_a_file_that_is_replaced_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its chunks are says nothing of the bytes of another one."""
    for name in ("set.h5", "part.h5", "other.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["data"] = np.arange(12.0)
            if name == "set.h5":
                file["linked"] = h5py.ExternalLink("part.h5", "data")
    os.utime(tmp_path / "other.h5", (1, 1))
    asked = survey.LIBHDF5.ask

    def swapped(*args: Any) -> Any:
        answer = asked(*args)
        os.replace(tmp_path / "other.h5", tmp_path / "part.h5")
        return answer

    monkeypatch.setattr(survey.LIBHDF5, "ask", swapped)
    with pytest.raises(
        vfs.SourceChangedError, match=r"part\.h5: changed while the set was being opened; open it again"
    ):
        vfs.open(tmp_path / "set.h5")


def test_virtual_data_sets_are_as_long_as_their_sources(tmp_path: Path) -> None:
    """libhdf5 would open the sources to say so."""
    for k, n in enumerate((5, 3, 4, 0)):
        with h5py.File(tmp_path / f"part{k}.h5", "w") as file:
            file.create_dataset(
                "data", data=np.arange(3 * n, dtype="i4").reshape(n, 3) + 100 * k, chunks=(2, 3), maxshape=(None, 3)
            )
    even, odd, series = (0, UNLIMITED, 2, 1), (1, UNLIMITED, 2, 1), (0, UNLIMITED, 2, 2)
    with h5py.File(tmp_path / "set.h5", "w", libver="latest") as file:
        growing(file, "all", (b"part0.h5", b"data", ALL, ALL), length=1)
        growing(file, "interleaved", (b"part0.h5", b"data", even, ALL), (b"part1.h5", b"data", odd, ALL))
        growing(file, "every other", (b"part0.h5", b"data", ALL, even), length=40)
        growing(file, "later", (b"part2.h5", b"data", (6, UNLIMITED, 1, 1), (1, UNLIMITED, 1, 1)))
        growing(file, "pairs", (b"part0.h5", b"data", (1, UNLIMITED, 5, 2), ALL))
        growing(file, "empty", (b"part3.h5", b"data", ALL, ALL))
        growing(file, "series", (b"part%b.h5", b"data", series, (0, 1, 2, 2)))
    with h5py.File(tmp_path / "set.h5") as file:
        twins = {name: file[name][...] for name in file}
    group = vfs.open_group(tmp_path / "set.h5")
    left = group.attrs["vfs"]["root"].get("left_out", {})
    assert {name: group[name].shape for name in group} == {
        name: twin.shape for name, twin in twins.items() if name not in left
    }, left
    assert set(left) <= {"series"}  # its last source is too short for its place
    for name in group:
        assert np.array_equal(group[name][...], twins[name]), name


def test_an_object_with_many_names(desk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A group that holds the next one twice, and so on, has 2^40 paths; 20,000 arrays of them took 20 s."""
    desk.entry = f"import vfs.h5.reading as r; r.MAX_AGAIN, r.MAX_NAMES = 100, 400\n{desk.entry}"
    with h5py.File(tmp_path / "set.h5", "w") as file:
        groups = [file.create_group(f"g{k:02d}") for k in range(40)]
        for one, following in pairwise(groups):
            one["a"] = one["b"] = following
        groups[-1]["data"] = np.arange(6).reshape(2, 3)
        file["again"] = file["g39"]
    group = vfs.open_group(tmp_path / "set.h5")
    assert (
        group.attrs["vfs"]["root"]["left_out"]["…"] == "more than 100 further names of objects that are shown already"
    )
    first, again = f"g00{'/a' * 39}/data", "again/data"
    assert 2 < len(group) <= 101
    assert {first, again} <= set(group)
    assert reader_of(group[first]).dataset.layout is reader_of(group[again]).dataset.layout
    assert np.array_equal(group[again][...], np.arange(6).reshape(2, 3))
