"""Options with which data is opened: what they take, what is said of the rest, what is kept of them."""

from __future__ import annotations

import enum
import pickle
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.errors import OptionError
from vfs.model.command_options import ExportOptions, MountOptions, ReduceOptions, ServeOptions
from vfs.model.open_options import OpenOptions, split
from vfs.model.option_fields import known
from vfs.model.options import kinds, shape_option
from vfs.model.wording import shell
from vfs.sets.set_sources import file_names

CLASSES = [OpenOptions, MountOptions, ServeOptions, ExportOptions, ReduceOptions]


class Lines:
    """What is of no type that an option takes, and does not fit into a line."""

    def __repr__(self) -> str:
        return "one\ntwo\x1d" + "." * 200


class Name(str, enum.Enum):  # noqa: UP042 - whose str() is not its value
    NPY = "npy"


ODD: list[Any] = [
    Lines(),
    None,
    True,
    3,
    -1,
    10**400,
    2.5,
    float("nan"),
    1j,
    b"x",
    "text",
    [1],
    [None],
    {},
    {"a"},
    np.zeros((2, 2)),
]


@pytest.mark.parametrize("in_shell", [False, True])
@pytest.mark.parametrize("kind", CLASSES)
def test_what_an_option_does_not_take_is_said_in_a_line(kind: type[OpenOptions], in_shell: bool) -> None:
    refused = set()
    for name, (_, annotation, _) in known(kind).items():
        types = kinds(annotation)
        for value in ODD:
            with shell(in_shell):
                try:
                    kept = getattr(kind(**{name: value}), name)
                except OptionError as error:
                    text = str(error)
                    assert text.startswith(f"--{name.replace('_', '-')}" if in_shell else f"{name}=")
                    assert ": expected " in text
                    assert (len(text.splitlines()), len(text) < 200) == (1, True)
                    refused.add(name)
                    continue
            if annotation is not Any and not {int, str} <= {*types}:
                assert isinstance(kept, (*(one for one in types if isinstance(one, type)), tuple, NoneType))
                assert kept is not None or NoneType in get_args(annotation)
    assert refused == {
        name for name, (_, one, _) in known(kind).items() if one is not Any and not {int, str} <= {*kinds(one)}
    }


@pytest.mark.parametrize(
    "value",
    [-1, -0.5, float("nan"), float("-inf"), np.float32("nan"), np.int8(-1), 10**400],
    ids=lambda one: str(one)[:5],
)
@pytest.mark.parametrize("name", ["settle", "give_up"])
def test_what_is_no_time(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=rf"^{name}=.*: expected a number"):
        OpenOptions(**{name: value})
    never: Any = np.float32("inf")
    assert getattr(OpenOptions(**{name: never}), name) == float("inf")


def test_values_become_those_of_python() -> None:
    given = {"format": Name.NPY, "sync_offset": np.int8(3), "settle": 2, "cors": np.array(["a"]), "tree": np.True_}
    made = split(ServeOptions, given)[0]
    found = made.format, made.sync_offset, made.settle, made.cors, made.tree
    assert [(type(one), one) for one in found] == [(str, "npy"), (int, 3), (float, 2.0), (tuple, ("a",)), (bool, True)]


def test_arrays_of_no_axes_are_numbers() -> None:
    alone: Any = np.array(3)
    assert shape_option(alone, "nav_shape") == (3,)
    nothing: Any = np.ma.masked
    with pytest.raises(OptionError, match="expected one or more positive numbers"):
        shape_option(nothing, "nav_shape")


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "format": st.none() | st.sampled_from(["raw", "npy"]),
    "nav_shape": st.none() | st.just("3,4") | st.lists(st.integers(1, 9), min_size=1),
    "sync_offset": st.integers(-3, 3),
    "chunks": st.sampled_from(["auto", "frames", 4096, (1, -1)]),
    "settle": st.sampled_from([0, 2.0, 2, 7.5]),
    "follow": st.booleans(),
    "accept_changes": st.booleans(),
    "host": st.sampled_from(["127.0.0.1", "::"]),
    "cors": st.none() | st.lists(st.text(max_size=3)),
}


@given(
    given=st.fixed_dictionaries({}, optional=VALUES), more=st.dictionaries(st.sampled_from(["plain", "x"]), st.none())
)
def test_options_are_split_said_and_kept(given: dict[str, Any], more: dict[str, Any]) -> None:
    made, own = split(ServeOptions, {**given, **more})
    assert own == more
    assert made == ServeOptions(**given)
    usual = ServeOptions()
    differing = {name: value for name, value in vars(made).items() if value != getattr(usual, name)}
    assert made.said() == differing
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), again) == (ServeOptions, made)
    common = made.common(sync_offset=9)
    assert type(common) is OpenOptions
    assert vars(common) == {name: getattr(made, name) for name in known(OpenOptions)} | {"sync_offset": 9}
    assert made.may_change == (made.follow or made.accept_changes)


def test_options_of_nobody_are_made_once() -> None:
    assert split(OpenOptions, {"plain": True})[0] is split(OpenOptions, {})[0] == OpenOptions()
    assert split(ServeOptions, {})[0] == ServeOptions()
    assert ServeOptions() != OpenOptions()
    assert OpenOptions().said() == {}
    with pytest.raises(TypeError, match="no_such"):
        OpenOptions(no_such=1)  # type: ignore[call-arg]


def test_options_that_name_files(tmp_path: Path) -> None:
    file = tmp_path / "dark.npy"
    file.touch()
    url = "https://example.org/gain.npy"
    given = [None, file, str(file), url, tmp_path, "dark", "a\0b", b"x", 3, np.zeros(3), [str(file)]]
    assert file_names(given) == [str(file), str(file), url]
