"""A table of the errors that tests meet, to review their words: `scripts/test -p tests.messages --messages FILE`.

A row is a message with FILE, N and 'TEXT' in the place of names, numbers and quoted words, and in how many tests
somebody read it; the most frequent come first.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from vfs.errors import VfsError

_READ: set[tuple[str, str]] = set()  # message, test
_TEST = [""]
_PLACES = (
    (re.compile(r"^(?:--[a-z-]+|\w+=).*?(?=: expected)"), "OPTION=VALUE"),
    (re.compile(r"https?://[^\s;,)]+"), "URL"),
    (re.compile(r"(?:/[^\s/:;,'\"()]+)+/?"), "FILE"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "'TEXT'"),
    (re.compile(r"\d+(?:[,.]\d+)*(?:e[+-]?\d+)?(?: [KMGTP]iB)?"), "N"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--messages", type=Path, help="write the table of errors here")


def pytest_configure(config: pytest.Config) -> None:
    text = VfsError.__str__

    def read(error: VfsError) -> str:
        said = text(error)
        shown = said
        for pattern, place in _PLACES:
            shown = pattern.sub(place, shown)
        _READ.add((shown, _TEST[0]))
        return said

    VfsError.__str__ = read  # type: ignore[method-assign]


def pytest_runtest_setup(item: pytest.Item) -> None:
    _TEST[0] = item.nodeid


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Workers hand what was read to their parent in files, which ends after them."""
    out: Path | None = session.config.getoption("--messages")
    if out is None:
        return
    if worker := getattr(session.config, "workerinput", None):
        rows = [f"{message}\t{test}" for message, test in _READ]
        out.with_name(f"{out.name}.{worker['workerid']}").write_text("\n".join(rows), encoding="utf-8")
        return
    for part in out.parent.glob(f"{out.name}.gw*"):
        _READ.update(tuple(row.rsplit("\t", 1)) for row in part.read_text(encoding="utf-8").split("\n") if row)  # type: ignore[arg-type]
        part.unlink()
    counts = Counter(message for message, _ in _READ)
    table = "\n".join(f"| {count} | {message} |" for message, count in counts.most_common())
    out.write_text(f"| tests | message |\n|---|---|\n{table}\n", encoding="utf-8")
