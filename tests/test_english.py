"""Pages, help and messages use none of the phrases that outsiders misread: those in code font in the table of
`vfs/docs/contributing.md`, first column.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import vfs
from tests.sessions import PAGES

_ROWS = PAGES["contributing"].read_text().partition("| our word |")[2].partition("\n\n")[0].splitlines()[2:]
PHRASES = [phrase for row in _ROWS for phrase in re.findall(r"`([^`]+)`", row.split("|")[1])]
MISREAD = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b")


def found(text: str) -> list[str]:
    return MISREAD.findall(" ".join(text.split()))


def said(path: Path) -> Iterator[str]:
    """The texts of a module but its docstrings: messages, and the help of options."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_there_are_phrases() -> None:
    assert len(PHRASES) >= 8
    assert found("frames that are left\nout") == ["left out"]
    assert found("`left_out` outlasts") == []


@pytest.mark.parametrize("name", sorted({*PAGES} - {"changes"}))
def test_pages_have_no_phrase_that_is_misread(name: str) -> None:
    prose = re.sub(r"^```.*?^```$|^#.*?$|`[^`]*`", "", PAGES[name].read_text(), flags=re.M | re.S)
    assert found(prose) == []


def test_messages_have_no_phrase_that_is_misread() -> None:
    root = Path(vfs.__file__).parent
    wrong = [f"{path.relative_to(root)}: {text}" for path in root.rglob("*.py") for text in said(path) if found(text)]
    assert wrong == []
