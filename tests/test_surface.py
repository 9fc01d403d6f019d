"""What users meet: names, signatures, what is said to options of wrong types."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import vfs
from vfs.api.exporting import ExportHere
from vfs.api.opening import OpenHere, ShowHere
from vfs.cli.app import main
from vfs.cli.flags import OF_IMAGES
from vfs.formats import formats
from vfs.model.command_options import ExportOptions, MountOptions, ServeOptions
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import known
from vfs.model.options import fitting, kinds
from vfs.model.wording import flag
from vfs.sets.describing import describe
from vfs.testing.inside import set_of
from vfs.testing.writers import write_npy, write_raw


def test_only_public_names_are_shown(tmp_path: Path) -> None:
    vfs.open(write_npy(tmp_path, np.zeros((4, 5))))  # which loads modules of the package
    assert set(dir(vfs)) == {*vfs.__all__, "__doc__", "__version__"}
    assert all(hasattr(vfs, name) for name in dir(vfs))


ARRAY = {"shape", "dtype", "dims", "chunks", "nbytes", "attrs", "files", "read", "tiles", "reduce", "store", "zarr"} | {
    "dask"
}
"""Names of an array in section 1 of the design."""
BESIDE = {"reduce_partial", "ndim", "size", "calibration", "valid", "unroi", "group", "xarray", "plot", "show"} | {
    *("head", "complete", "wait", "refresh", "masked_pixels", "metadata", "original_metadata"),
}
"""Names of an array that pages in vfs/docs promise besides."""
GROUP = {
    "get",
    "items",
    "keys",
    "values",
    "store",
    "zarr",
    "main",
    "name",
    "attrs",
    "metadata",
    "original_metadata",
    "xarray",
    "show",
}
"""Names of a group: those of a Mapping, and those that the design or a page promises."""


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_public_classes_show_the_contract_and_no_more(tmp_path: Path) -> None:
    group = vfs.open_group(write_npy(tmp_path, np.zeros((4, 5))))
    again = pickle.loads(pickle.dumps(group.main))
    assert public(vfs.VirtualArray) == public(group.main) == public(again) == ARRAY | BESIDE
    assert again[0].shape == (5,)  # now it is open
    assert public(again) == ARRAY | BESIDE
    assert public(vfs.VirtualGroup) == public(group) == GROUP
    for kind in (vfs.VirtualArray, vfs.VirtualGroup):
        assert all(inspect.getdoc(getattr(kind, name)) for name in public(kind))


def test_an_array_takes_no_other_attributes(tmp_path: Path) -> None:
    array = vfs.open(write_npy(tmp_path, np.zeros((4, 5))))
    with pytest.raises(AttributeError, match="'VirtualArray' object has no attribute 'gird'"):
        array.gird  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError):
        array.chunsk = (1, 5)  # type: ignore[attr-defined]


# signatures


def options_of(function: Any) -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (vfs.open, OpenHere),
        (vfs.open_group, OpenHere),
        (vfs.show, ShowHere),
        (vfs.export, ExportHere),
        (vfs.mount, MountOptions),
        (vfs.serve, ServeOptions),
    ],
    ids=["open", "open_group", "show", "export", "mount", "serve"],
)
def test_a_way_in_takes_the_fields_of_its_options(function: Any, kind: type[OpenOptions]) -> None:
    taken = options_of(function)
    assert {name: (p.default, p.annotation) for name, p in taken.items()} == {
        each.name: (each.default, each.type) for each in fields(kind)
    }
    assert inspect.signature(function).parameters["options"].kind is inspect.Parameter.VAR_KEYWORD
    text = " ".join((inspect.getdoc(function) or "").split())
    for name, option in known(kind).items():
        assert f"{name}: {option.about.help}" in text
    assert "{options}" not in text


def test_the_contract_of_open() -> None:
    """Section 1 of the design: names and defaults that users may rely on."""
    promised = dict.fromkeys(("format", "array", "nav_shape", "roi", "dtype", "dark", "gain", "dead")) | {
        "sync_offset": 0,
        "chunks": "auto",
        "backend": "auto",
    }
    for function in (vfs.open, vfs.open_group, vfs.export, vfs.mount, vfs.serve):
        taken = options_of(function)
        assert {name: taken[name].default for name in promised} == promised


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("info", OpenOptions),
        ("export", ExportOptions),
        ("look", OpenOptions),
        ("mount", MountOptions),
        ("serve", ServeOptions),
    ],
)
def test_a_command_has_a_flag_for_every_option(
    command: str, kind: type[OpenOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    refused = {"info": {*OF_IMAGES}, "look": {"chunks", "derive", *OF_IMAGES}}.get(command, set())
    for name, option in known(kind).items():
        hidden = option.about.hidden or name in refused
        assert (flag(name) in text) != hidden
        assert (option.about.help in text) != hidden


def test_options_are_pickled_as_what_is_said() -> None:
    assert OpenOptions().said() == {}
    options = OpenOptions(nav_shape=(2, 3), chunks="frames", sync_offset=0)
    assert options.said() == {"nav_shape": (2, 3), "chunks": "frames"}
    assert pickle.loads(pickle.dumps(options)) == options
    assert b"backend" not in pickle.dumps(options)
    assert MountOptions(tree=True, dtype="u2").common() == OpenOptions(dtype="u2")


def test_a_description_keeps_every_option_that_it_may_say(tmp_path: Path) -> None:
    path = write_npy(tmp_path, np.arange(240, dtype="u2").reshape(12, 4, 5))
    values = {
        "array": "data",
        "main": "data",
        "hide": ["data"],
        "sync_offset": 1,
        "roi": [0, 1],
        "dtype": "<f4",
        "dark": np.ones((4, 5)),
        "gain": np.ones((4, 5)),
        "dead": [[0, 1]],
        "derive": {"mean": "mean()"},
        "axes": "frame,-y,x",
        "calibration": "y=2nm",
    }
    values |= {
        "nav_shape": (3, 4),
        "chunks": "frames",
        "backend": "buffered",
        "accept_changes": True,
        "allow_incomplete": True,
    }
    options = {name: option for name, option in known(OpenOptions).items() if option.about.saved != "never"}
    for name, option in options.items():  # what is not named above takes a value of its type
        values.setdefault(name, {bool: True, int: 1, float: 1.5, str: "text"}.get(kinds(option.annotation)[0]))
    description = tmp_path / "set.vfs.json"
    description.write_text(json.dumps(describe(set_of(vfs.open_group(path, **values)), tmp_path)))
    again = set_of(vfs.open_group(description)).opening.options
    assert set(again.said()) == {*options, "format"}
    assert (again.nav_shape, again.dtype, again.backend) == ([3, 4], "<f4", "buffered")


# options of wrong types


class Odd:
    def __repr__(self) -> str:
        return "a\nb" * 1000


ODD: list[Any] = [
    np.bool_(True),
    5,
    1.5,
    "x",
    "",
    b"x",
    Odd(),
    [None],
    {"a": 1},
    np.zeros((2, 2)),
    Path("x"),
    float("nan"),
    [1, [2]],
    int,
    "\0",
    "\ud800",
    {1},
]


def refusal(call: Callable[[], object]) -> str:
    """What a call is refused with; "" where the value fits."""
    try:
        call()
    except vfs.VfsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", [*ODD, None, [], ()], ids=lambda value: f"{type(value).__name__}")
def test_values_of_wrong_types_are_option_errors_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.chdir(tmp_path)  # some values are names of files and folders that are made
    path = write_npy(tmp_path, np.zeros((12, 4, 5), "u2"))
    raw = write_raw(tmp_path, np.zeros((12, 4, 5), "u2"))[0]
    said = {"format": "raw", "dtype": "u2", "sig_shape": (4, 5)}
    calls = [
        *((name, lambda name=name: vfs.open(path, **{name: value})) for name in options_of(vfs.open)),
        *((name, lambda name=name: vfs.open(raw, **{**said, name: value})) for name in formats()["raw"].options),
        *(
            (name, lambda name=name: vfs.mount(path, tmp_path / "gone", **{name: value}))
            for name in options_of(vfs.mount)
        ),
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
    with pytest.raises(
        vfs.OptionError, match=r"^None: expected the name of a file, several of them in a list, or a glob$"
    ):
        vfs.open(None)  # type: ignore[arg-type]
    with pytest.raises(vfs.OptionError, match=r"^cors='x': expected a list of texts$"):
        vfs.serve(path, cors="x")


def test_numbers_that_would_fill_the_memory_are_a_line(tmp_path: Path) -> None:
    path = write_npy(tmp_path, np.zeros((12, 4, 5), "u2"))
    raw: dict[str, Any] = {"format": "raw", "dtype": "u2"}
    array, many = vfs.open(path), range(10**18)
    calls: list[Callable[[], object]] = [
        lambda: vfs.open(many),  # type: ignore[arg-type]
        lambda: vfs.open(path, **raw, sig_shape=many),
        lambda: vfs.open(path, **raw, shape=(1,) * 100_000),
        lambda: array.reduce(s=vfs.Sum(), roi=many),
        lambda: array.reduce(s=vfs.Sum(), workers=10**30, roi=10**18),
        lambda: array.reduce(s=vfs.Masks(many)),
        lambda: vfs.export(path, tmp_path / "out.zarr", shards=many),  # type: ignore[arg-type]
        lambda: array.plot(many),
        lambda: array.plot(1e300),  # type: ignore[arg-type]
        *(partial(vfs.open, path, **{name: many}) for name in ("nav_shape", "roi", "dark", "gain", "dead", "chunks")),
    ]
    for call in calls:
        with pytest.raises(vfs.OptionError) as caught:
            call()
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 300
    assert [array[:: 10**30, 0, 0].shape, array[:: -(10**30), 0, 0].shape] == [(1,), (1,)]
    assert [region.shape for region, _ in array.tiles((5, -1, -1), workers=10**30)] == [(5, 4, 5), (5, 4, 5), (2, 4, 5)]
