"""What users meet: names, signatures, what is said to options of wrong types."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import vfs
from vfs import commands
from vfs.formats import formats
from vfs.options import fitting
from vfs.testing.writers import write_npy, write_raw


def test_only_public_names_are_shown(tmp_path: Path) -> None:
    vfs.open(write_npy(tmp_path, np.zeros((4, 5))))  # which loads modules of the package
    assert set(dir(vfs)) == {*vfs.__all__, "__doc__", "__version__"}
    assert all(hasattr(vfs, name) for name in dir(vfs))


# signatures


def options_of(function: Any) -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}


def test_every_way_in_spells_the_same_options() -> None:
    of_open, of_group, of_mount = map(options_of, (vfs.open, vfs.open_group, vfs.mount))
    assert of_open == of_group  # names, defaults and annotations
    assert {name: p for name, p in of_mount.items() if name in of_open} == {name: p for name, p in of_open.items() if name != "cache"}
    for function in (vfs.open, vfs.open_group, vfs.mount):
        assert inspect.signature(function).parameters["options"].kind is inspect.Parameter.VAR_KEYWORD
    text = inspect.getdoc(vfs.open) or ""
    assert all(re.search(rf"^    (\w+, )*{name}(, \w+)*:", text, re.MULTILINE) for name in ("paths", *of_open, "options"))
    of_command = {*inspect.signature(commands._settings).parameters, "cache"} - {"option", "zarr_format"}
    assert of_command == set(of_open)


# options of wrong types


class Odd:
    def __repr__(self) -> str:
        return "a\nb" * 1000


ODD: list[Any] = [5, 1.5, "x", "", b"x", Odd(), [None], {"a": 1}, np.zeros((2, 2)), Path("x"), float("nan"), [1, [2]], int, "\0", "\ud800", {1}, np.bool_(True)]


def refusal(call: Callable[[], object]) -> str:
    """What a call is refused with; "" where the value fits."""
    try:
        call()
    except vfs.VfsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", [*ODD, None, [], ()], ids=lambda value: f"{type(value).__name__}")
def test_values_of_wrong_types_are_option_errors_in_one_line(tmp_path: Path, value: Any) -> None:
    path = write_npy(tmp_path, np.zeros((12, 4, 5), "u2"))
    raw = write_raw(tmp_path, np.zeros((12, 4, 5), "u2"))[0]
    said = {"format": "raw", "dtype": "u2", "sig_shape": (4, 5)}
    calls = [
        *((name, lambda name=name: vfs.open(path, **{name: value})) for name in options_of(vfs.open)),
        *((name, lambda name=name: vfs.open(raw, **{**said, name: value})) for name in formats()["raw"].options),
        *((name, lambda name=name: vfs.mount(path, tmp_path / "gone", **{name: value})) for name in options_of(vfs.mount)),
        ("paths", lambda: vfs.open(value)),
        ("paths", lambda: vfs.open([path, value])),
        ("paths", lambda: vfs.mount(value, tmp_path / "gone")),
        ("paths", lambda: vfs.mount(value, tmp_path / "gone", tree=True)),
        ("mountpoint", lambda: vfs.mount(path, value)),
    ]
    for name, call in calls:
        answer = refusal(call)
        assert "\n" not in answer, name
        assert len(answer) < 600, name


@pytest.mark.parametrize(
    ("annotation", "fits", "wrong"),
    [
        (int, [(np.int64(3), 3), (10**30, 10**30)], [True, np.bool_(True), 1.0, "1", None, np.float32(2), [1]]),
        (int | None, [(None, None), (2, 2)], ["x"]),
        (bool, [(True, True), (np.bool_(False), False)], [0, 1, "yes", None, np.zeros(2, bool)]),
        (float, [(2, 2.0), (np.float32(0.5), 0.5)], [True, "2", 1j]),
        (str, [("", ""), (np.str_("a"), "a")], [b"a", Path("a"), 1]),
        (str | os.PathLike[str], [("a", "a"), (Path("a"), Path("a"))], [b"a", 1]),
        (
            int | str | Sequence[int],
            [([1, np.int64(2)], (1, 2)), (np.array([3, 4]), (3, 4)), ("3,4", "3,4")],
            [{1}, b"ab", [1.5], [[1]], np.zeros((2, 2), int)],
        ),
        (Literal["a", 2], [("a", "a"), (2, 2)], ["b", 2.0, True]),
        (Any, [(None, None), (object, object)], []),
    ],
    ids=str,
)
def test_what_annotations_take(annotation: Any, fits: list[tuple[Any, Any]], wrong: list[Any]) -> None:
    for value, found in fits:
        got = fitting("name", value, annotation)
        assert (type(got), got) == (type(found), found)
    for value in wrong:
        with pytest.raises(vfs.OptionError, match=r"^name=.*: expected "):
            fitting("name", value, annotation)


def test_what_is_said_of_a_wrong_type(tmp_path: Path) -> None:
    path = write_npy(tmp_path, np.zeros((12, 4, 5), "u2"))
    for options, message in (
        ({"array": 3}, "array=3: expected text"),
        ({"format": 7}, "format=7: expected text"),
        ({"backend": None}, "backend=None: expected text"),
        ({"sync_offset": "x"}, "sync_offset='x': expected a whole number"),
        ({"accept_changes": 1}, "accept_changes=1: expected true or false"),
        ({"sig_ndim": "2"}, "sig_ndim='2': expected a whole number"),
        ({"nav_shape": 1.5}, "nav_shape=1.5: expected one or more positive numbers such as 256,256"),
    ):
        with pytest.raises(vfs.OptionError, match=f"^{re.escape(message)}$"):
            vfs.open(path, **options)
    with pytest.raises(vfs.OptionError, match=r"^None: expected the name of a file, several of them in a list, or a glob$"):
        vfs.open(None)  # type: ignore[arg-type]
