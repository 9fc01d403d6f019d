"""Writes what the wheel puts below `share`: pages for man, and files with which shells complete: `share.py FOLDER`.

`scripts/docs --share` writes them to `.docs/share`. Their text is that of `--help`, so a test says when they are old.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from vfs.cli.app import app
from vfs.cli.completion import SCRIPTS

COMPLETIONS = {
    "bash": "bash-completion/completions/vfs",
    "zsh": "zsh/site-functions/_vfs",
    "fish": "fish/vendor_completions.d/vfs.fish",
}
"""Shell -> where it looks for a command's completion, below `share`."""


class ManFormatter:
    """Writes help in the language of man(7), where click's formatter writes it for a terminal."""

    width = 100

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.lines += [".SH SYNOPSIS", f".B {escaped(prog)}", escaped(args), ".SH DESCRIPTION"]

    def write_text(self, text: str) -> None:
        for paragraph in text.split("\n\n"):
            kept, _, rest = paragraph.rpartition("\b\n")  # click: lines that stay as they are
            first = bool(kept or paragraph.startswith("\b"))
            lines = rest.splitlines() if first else [" ".join(paragraph.split())]
            self.lines += [".PP", *([".nf"] if first else []), *map(escaped, lines), *([".fi"] if first else [])]

    def write_dl(self, rows: Sequence[tuple[str, str]], **_: Any) -> None:
        for term, text in rows:
            self.lines += [".TP", f"\\fB{escaped(term)}\\fR", escaped(" ".join(text.split()))]

    def write_paragraph(self) -> None:
        self.lines.append(".PP")

    def write(self, text: str) -> None:
        self.lines += [escaped(line) for line in text.splitlines() if line.strip()]

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self.lines.append(f".SH {name.upper()}")
        yield

    @contextmanager
    def indentation(self) -> Iterator[None]:
        yield


def escaped(text: str) -> str:
    """Text as man shows it: hyphens that can be copied, no line that begins a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text)


def page(name: str, command: Any, context: Any, others: Sequence[str]) -> str:
    """A page of section 1."""
    formatter = ManFormatter()
    command.format_help(context, formatter)
    short = str(command.short_help or (command.help or "").partition(". ")[0]).rstrip(".")
    see = [f"\\fB{escaped(other)}\\fR(1)" for other in others if other != name]
    return "\n".join(
        [
            f'.TH {escaped(name.upper())} 1 "" "vfs" "vfs"',
            ".SH NAME",
            f"{escaped(name)} \\- {escaped(short)}",
            *formatter.lines,
            ".SH SEE ALSO",
            ",\n".join(see) + "\n.PP",
            "\\fBvfs docs\\fR lists the pages of the manual.\n",
        ]
    )


def files() -> dict[str, str]:
    """Path below `share` -> text."""
    top: Any = typer.main.get_command(app)
    context = top.make_context("vfs", [], resilient_parsing=True)
    shown = {name: top.get_command(context, name) for name in top.list_commands(context)}
    pages = [f"vfs-{name}" for name, command in shown.items() if not command.hidden]
    found = {"man/man1/vfs.1": page("vfs", top, context, pages)}
    for name, command in shown.items():
        if not command.hidden:
            below = command.make_context(name, [], parent=context, resilient_parsing=True)
            found[f"man/man1/vfs-{name}.1"] = page(f"vfs-{name}", command, below, ["vfs"])
    return found | {path: SCRIPTS[shell] + "\n" for shell, path in COMPLETIONS.items()}


def main(folder: Path) -> None:
    for path, text in files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
