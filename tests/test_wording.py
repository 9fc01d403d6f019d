"""Options in messages: as arguments in Python, as flags in a shell, and never both."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from vfs.cli import app
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import known
from vfs.model.wording import ANY, Word, format_option, option, option_names, shell
from vfs.testing.writers import write_mib

MANY = {"nav_shape": (4, 5), "line_skip": 1}
WORDS = {"nav_shape": (Word("LINES"), Word("COLUMNS"))}


@pytest.mark.parametrize(
    ("values", "python", "flags", "of_format"),
    [
        ({"follow_outside": True}, "follow_outside=True", "--follow-outside", "-o follow_outside=true"),
        ({"series": False}, "series=False", "--series false", "-o series=false"),
        (MANY, "nav_shape=(4, 5), line_skip=1", "--nav-shape 4,5 --line-skip 1", "-o nav_shape=4,5 -o line_skip=1"),
        (WORDS, "nav_shape=(LINES, COLUMNS)", "--nav-shape LINES,COLUMNS", "-o nav_shape=LINES,COLUMNS"),
        ({"format": ANY}, "format=", "--format", "-o format"),
        ({"gain_map": "a b.mat"}, "gain_map='a b.mat'", "--gain-map 'a b.mat'", "-o gain_map='a b.mat'"),
    ],
)
def test_the_two_ways(values: dict[str, object], python: str, flags: str, of_format: str) -> None:
    assert option(**values) == format_option(**values) == python
    with shell():
        assert (option(**values), format_option(**values)) == (flags, of_format)
        with shell(False):
            assert option(**values) == python
    assert option(**values) == python


def test_names() -> None:
    assert option_names("nav_shape", "sync_offset", "roi") == "nav_shape, sync_offset and roi"
    with shell():
        assert option_names("nav_shape") == "--nav-shape"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_what_a_shell_is_told_it_takes(text: str) -> None:
    """What is typed after the flag is the value, whatever is in it."""
    with shell():
        assert shlex.split(option(array=text)) == ["--array", text]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose names look like options."""
    made = tmp_path / "plain=True --follow-outside (follow_outside=True)"
    made.mkdir()
    return made


def test_each_reader_gets_one_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner, scan = folder / "inner", folder / "scan.hdr"
    inner.mkdir()
    np.save(folder / "a.npy", np.ones((3, 4)))
    np.save(inner / "b.npy", np.ones((3, 4)))
    (inner / "a.npy").symlink_to(folder / "a.npy")
    (folder / "none.x").write_bytes(b"nothing of interest" * 9)
    write_mib(folder, np.ones((42, 4, 4), "u2"), scan=(6, 7))
    for path, options, python, typed in (
        (inner / "*.npy", {}, "; follow_outside=True reads it", "; --follow-outside reads it"),
        (folder / "none.x", {}, "stored_dtype='u2', sig_shape=(256, 256)", "-o stored_dtype=u2 -o sig_shape=256,256"),
        (scan, {"nav_shape": "4,x"}, "nav_shape='4,x': expected", "--nav-shape 4,x: expected"),
        (scan, {"chunks": "3,4"}, "chunks='3,4': expected", "--chunks 3,4: expected"),
    ):
        with pytest.raises(vfs.VfsError) as caught:
            vfs.open(path, **options)
        flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        assert app.main(["info", str(path), *flags]) == 2
        shown = capsys.readouterr().err
        for text, has, lacks in ((str(caught.value), python, typed), (shown, typed, python)):
            said = text.replace(str(folder), "FOLDER")
            assert has in said
            assert lacks not in said
            assert said.startswith(("FOLDER", "vfs: FOLDER")) or path == scan


def test_a_warning_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_mib(folder, np.ones((48, 4, 4), "u2"), scan=(6, 7))
    with pytest.warns(vfs.IncompleteWarning, match=r": line_skip=1 skips"):
        vfs.open(folder / "scan.hdr")
    assert app.main(["info", str(folder / "scan.hdr")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert ": --line-skip 1 skips" in said
    assert "line_skip" not in said


def test_no_message_writes_an_option_by_hand() -> None:
    """Each text with an option that every format has goes through `vfs.model.wording`."""
    names = [name for name in known(OpenOptions) if name != "dtype"]  # reductions have a dtype of their own
    by_hand = re.compile("|".join([rf"\b{name}=|--{name.replace('_', '-')}\b" for name in names]))
    found, root = [], Path(vfs.__file__).parent
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] in ("cli", "testing", "integrations"):  # each speaks to readers of one kind
            continue
        tree = ast.parse(path.read_text())
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        found += [(path.name, one.value) for one in texts if id(one) not in docs and by_hand.search(one.value)]
    assert found == []
