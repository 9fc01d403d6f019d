"""`vfs/docs/serve.md` says of each foreign tool what `scripts/test --clients` measures."""

from __future__ import annotations

import re
from pathlib import Path

import vfs

from .clients import SERVED

PAGE = Path(vfs.__file__).with_name("docs") / "serve.md"


def test_every_tool_that_lies_is_named() -> None:
    """What is bold in a tool's row is what it makes of failures instead of an error."""
    table = PAGE.read_text().partition("<!-- clients:")[2].partition("<!-- /clients -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    said = {row[0]: set(re.findall(r"\*\*(.*?)\*\*", row[-1])) or {"an error"} for row in rows[2:]}
    measured: dict[str, set[str]] = {}
    for client in SERVED:
        measured.setdefault(client.name.partition(",")[0], set()).update(client.makes.values())
    assert said == {tool: found or {"an error"} for tool, found in measured.items()}
    errors = {row[0] for row in rows[2:] if row[-1].startswith("an error")}
    assert errors == {tool for tool, found in measured.items() if not found}
