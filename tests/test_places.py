"""Every place where a new format, face, option, reduction, request or command has to be named.

Each failure has a line for each thing that is missing, which says what to add in which file. Nothing is installed or
written for it, and all of it takes seconds: `scripts/test tests/test_places.py` says what is left to do.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Collection, Iterable
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import vfs
from tests.conformance.rows import ROWS
from tests.formats.deciding_fields import DECIDED, NONE
from tests.http.asking import contents_of
from tests.http.support import application_of
from tests.sessions import PAGES, README, ROOT
from vfs.cli import app
from vfs.formats import Format, formats
from vfs.reduce import CLASSES
from vfs.sets.reopening import SETTABLE
from vfs.sources.packed import bare
from vfs.testing.inside import set_of
from vfs.testing.writers import write_npy

OF_NAPARI = {
    **dict.fromkeys((".tif", ".tiff", ".btf", ".tf8", ".lsm", ".stk", ".npy"), "napari opens them itself"),
    **dict.fromkeys((".raw", ".bin", ".dat", ".img"), "nothing recognises them"),
    **dict.fromkeys((".csv", ".pro"), "tables and settings of any program"),
    ".ome": "the ending of a companion is .companion.ome",
    ".json": "that of a master file of SLS detectors, and of everything else",
    **dict.fromkeys(("setting.txt", "pattern.dat", "ndtiff.index"), "names, no endings, and others have the same"),
}
"""Endings that the manifest of napari leaves out, and why."""


class Place(NamedTuple):
    """A place where every one of some names stands.

    Attributes:
        where: file; add: what to add there for one that is missing, with {} for its name.
        named: returns the names that stand there.
        but: names that need not stand there.
    """

    where: str
    add: str
    named: Callable[[], Collection[str]]
    but: Collection[str] = ()


def lines(place: Place, names: Iterable[str]) -> str:
    """A line for each name that is missing, and for each that stands there and means nothing."""
    wanted, there = {*names} - {*place.but}, {*place.named()}
    lacks = [f"{place.where}: add {place.add.format(name)}" for name in sorted(wanted - there)]
    return "\n".join(lacks + [f"{place.where}: {name} means nothing (any more)" for name in sorted(there - wanted)])


def ours() -> dict[str, str]:
    """The formats of vfs itself, installed or not: name -> where the entry point leads."""
    found: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "vfs.formats"
    ]
    return found


def loaded() -> dict[str, Format]:
    return {name: import_module(entry.partition(":")[0]).FORMAT for name, entry in ours().items()}


def defining() -> set[str]:
    """The modules of vfs.formats that define a `FORMAT`."""
    folder = ROOT / "vfs/formats"
    return {
        f"vfs.formats.{path.parent.name if path.stem == '__init__' else path.stem}:FORMAT"
        for path in [*folder.glob("[a-z]*.py"), *folder.glob("*/__init__.py")]
        if re.search(r"^FORMAT = ", path.read_text(), re.MULTILINE)
    }


def drawn() -> set[str]:
    """The formats that tests/formats/test_header_properties.py draws: what its `KINDS` names."""
    tree = ast.parse((ROOT / "tests/formats/test_header_properties.py").read_text())
    (kinds,) = (node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KINDS")
    return {node.id for node in ast.walk(kinds) if isinstance(node, ast.Name)} - {"KINDS", "f"}


def section(page: str, begin: str, end: str) -> str:
    return PAGES[page].read_text().partition(begin)[2].partition(end)[0]


def words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text)}


FORMATS = (
    Place(
        "tests/conformance/rows.py", 'Row("{0}", "{0}", …), and what writes its files', lambda: {r.format for r in ROWS}
    ),
    Place(
        "README.md",
        "[{0}](vfs/docs/formats.md#{0}) under 'Formats'",
        lambda: {*re.findall(r"formats\.md#(\w+)", README.read_text())} - {"descriptions"},
        {"description"},
    ),
    Place(
        "vfs/docs/formats.md",
        "### {0} under 'All formats' in the order of names; VFS_WRITE_DOCS=1 scripts/test"
        " tests/test_docs.py -k sections_of_formats fills it in, and you say behind it what is particular to {0}",
        lambda: re.findall(r"^### (\w+)$", section("formats", "## All formats", "\n## "), re.M),
    ),
    Place(
        "vfs/docs/formats.md",
        "a row for {} to the table of calibration, with `none` where its files say nothing of axes",
        lambda: {*re.findall(r"^\| (\w+) ", section("formats", "<!-- calibration -->", "<!-- /"), re.M)} - {"format"},
    ),
    Place(
        "vfs/docs/live.md",
        "{} under 'What can be followed': to the table, or where it says what cannot",
        lambda: words(section("live", "## What can be followed", "\n## ")) & {*ours()},
    ),
    Place(
        "tests/formats/test_header_properties.py",
        "def {0}(draw, folder), and {0} to KINDS",
        drawn,
        {"bioformats", "fabio", "rosettasciio"},
    ),
)


def test_every_module_of_a_format_has_an_entry_point() -> None:
    known = {*ours().values()}
    assert not sorted(defining() ^ known), "\n".join(
        f'pyproject.toml, "vfs.formats": add {entry.rpartition(".")[2].partition(":")[0]} = "{entry}"'
        if entry in defining()
        else f'pyproject.toml, "vfs.formats": {entry} leads to no module with a FORMAT'
        for entry in sorted(defining() ^ known)
    )


def test_every_entry_point_is_installed() -> None:
    lacks = sorted({*ours()} - {*formats()})
    assert not lacks, f"{', '.join(lacks)}: pip install -e . reads the entry points of pyproject.toml again"


@pytest.mark.parametrize("place", FORMATS, ids=lambda place: f"{place.where}: {place.add[:12]}")
def test_every_format_is_named(place: Place) -> None:
    said = lines(place, ours())
    assert not said, said


def test_every_ending_is_named_in_the_manifest_of_napari() -> None:
    text = (ROOT / "vfs/integrations/napari.yaml").read_text()
    place = Place(
        "vfs/integrations/napari.yaml",
        '- "*{}", or to OF_NAPARI in tests/test_places.py, with a reason',
        lambda: [bare(ending) for ending in re.findall(r'- "\*(\.[\w.]+)"', text)],
        OF_NAPARI,
    )
    said = lines(place, chain.from_iterable(one.extensions for one in loaded().values()))
    assert not said, said
    assert text.count('- "') == len({*re.findall('- ".*"', text)}), "a pattern stands twice"


def test_every_format_has_its_deciding_fields() -> None:
    assert {decided.format for decided in DECIDED} | {*NONE} == {*ours()}


@pytest.mark.parametrize("page", ["README", "mount", "serve"])
def test_every_face_is_named(page: str, tmp_path: Path) -> None:
    path = write_npy(tmp_path, np.zeros((2, 4, 4), "u2"))
    endings = [kind.ending for kind in set_of(vfs.open_group(path)).tree.face_kinds()]
    named = {
        ending for ending in endings if re.search(rf"\| `?[^|]*NAME{re.escape(ending)}[`/]", PAGES[page].read_text())
    }
    place = Place(f"{page}.md", "a row for NAME{} to the table of faces", lambda: named)
    assert len(endings) >= 5
    assert not lines(place, endings), lines(place, endings)


def commands(capsys: pytest.CaptureFixture[str]) -> list[str]:
    app.main(["--help"])
    return re.findall(r"^  ([a-z]+)", capsys.readouterr().out.partition("Commands:")[2].partition("\n\n")[0], re.M)


def test_every_command_and_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGES["commands"].read_text()
    named = " ".join(re.split(r"(?<!\\)\|", row)[1] for row in text.splitlines() if row.startswith("|"))
    known = commands(capsys)
    assert known
    said = [f"vfs/docs/commands.md: add a row | `vfs {one} …` |" for one in known if f"| `vfs {one}" not in text]
    lacks: dict[str, list[str]] = {}
    for command in known:
        app.main([command, "--help"])
        for option in re.findall(r"(?<= )--[a-z][a-z-]+", capsys.readouterr().out):
            if not re.search(rf"`{option}[` ]", named) and option != "--help":
                lacks.setdefault(option, []).append(command)
    said += [f"vfs/docs/commands.md: add a row | `{one} …` |, of vfs {', '.join(of)}" for one, of in lacks.items()]
    assert not said, "\n".join(said)


def test_what_the_page_may_set_is_named() -> None:
    text = section("protocol", "**A set opened anew**", "\n\n")
    place = Place("vfs/docs/protocol.md", "`{}` to 'A set opened anew'", lambda: words(text) & {*SETTABLE})
    assert not lines(place, SETTABLE), lines(place, SETTABLE)


def test_every_request_is_named(tmp_path: Path) -> None:
    requests = application_of(contents_of(write_npy(tmp_path, np.zeros((2, 4, 4), "u2")))).api.kinds
    named = re.findall(r"^\| `(?:GET|POST) api/(\w+)", PAGES["protocol"].read_text(), re.M)
    place = Place("vfs/docs/protocol.md", "a row for api/{}", lambda: named)
    assert not lines(place, requests), lines(place, requests)


def test_every_reduction_is_named() -> None:
    names = {*CLASSES}
    for place in (
        Place("vfs/__init__.py", "{} to __all__, and import it for type checkers", lambda: {*vfs.__all__} & names),
        Place(
            "vfs/docs/reductions.md",
            "`{}` to the table of classes",
            lambda: words(section("reductions", "| class |", "\n\n")) & names,
        ),
    ):
        assert not lines(place, names), lines(place, names)
