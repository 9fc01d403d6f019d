"""Builds the site from `vfs/docs`: `build.py OUT`. `scripts/docs` runs it in the environment of the tests.

The pages are those of the manual, in the order of `.docs/index.md`. Two pages are made here: what every command says
of itself (`--help`), and the docstring of every public name. Sphinx is strict: a warning fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import vfs

ROOT = Path(__file__).parents[1]
BLOCKS = ("p", "li", "tr", "td", "th", "pre", "dt", "dd", "div")  # between them are words apart


def build(out: Path) -> int:
    """Returns: Sphinx's exit status."""
    with tempfile.TemporaryDirectory(prefix="vfs-docs-") as temporary:
        source = Path(temporary) / "source"
        shutil.copytree(ROOT / "vfs/docs", source)
        for name in ("_static", "_templates"):
            shutil.copytree(ROOT / ".docs" / name, source / name)
        for name in ("conf.py", "index.md"):
            shutil.copy(ROOT / ".docs" / name, source / name)
        (source / "reference-commands.md").write_text(commands())
        (source / "reference-python.md").write_text(python())
        shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-b", "html", source, out],
            check=False,
        )
    if not done.returncode:
        (out / "_static/sections.js").write_text(f"window.SECTIONS = {json.dumps(sections(out))};\n")
    for left in ("objects.inv", "searchindex.js", ".buildinfo", ".doctrees"):
        if (out / left).is_dir():
            shutil.rmtree(out / left)
        else:
            (out / left).unlink(missing_ok=True)
    return done.returncode


class Sections(HTMLParser):
    """Takes the sections out of a page: `found` has heading, anchor and text of each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page, self.found, self.ids = page, [], [""]
        self.depth = self.hidden = self.title = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag == "article":
            self.depth = 1
        if tag == "section":
            self.ids.append(said.get("id") or "")
        if self.depth and re.fullmatch("h[1-3]", tag):
            self.title = 1
            self.found.append({"page": self.page, "anchor": self.ids[-1], "heading": "", "text": ""})
        if tag in ("script", "style") or said.get("class") == "headerlink":
            self.hidden = 1
        elif tag in BLOCKS and self.found:
            self.found[-1]["text"] += " "

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.depth = 0
        if tag == "section":
            self.ids.pop()
        if tag in ("script", "style", "a"):
            self.hidden = 0
        if re.fullmatch("h[1-3]", tag):
            self.title = 0

    def handle_data(self, data: str) -> None:
        if self.depth and self.found and not self.hidden:
            self.found[-1]["heading" if self.title else "text"] += data


def sections(out: Path) -> list[dict[str, str]]:
    """Every section of the site, for its search: `page`, `anchor`, `heading` (behind that of its page) and `text`."""
    made = []
    for path in sorted(out.glob("*.html")):
        if path.stem in ("genindex", "py-modindex", "search"):
            continue
        page = Sections(path.stem)
        page.feed(path.read_text())
        for n, one in enumerate(page.found):
            text = " ".join(one["text"].split())
            heading = one["heading"] if not n else f"{page.found[0]['heading']} › {one['heading']}"
            made.append({**one, "heading": heading, "text": text, "anchor": one["anchor"] if n else ""})
    return made


def commands() -> str:
    """Each command with what `--help` prints."""
    text = "# Commands in full\n\nWhat `--help` prints. [Commands](commands.md) explains it.\n\n"
    for name in ("", *listed()):
        title = f"vfs {name}".strip()
        text += f"## {title}\n\n```text\n{said(*name.split(), '--help')}\n```\n\n"
    return text


def listed() -> list[str]:
    """The commands, in the order of `vfs --help`."""
    block = said("--help").partition("Commands:")[2].partition("\n\n")[0]
    return re.findall(r"^  ([a-z]\S*)", block, re.MULTILINE)


def said(*arguments: str) -> str:
    command = [sys.executable, "-P", "-m", "vfs", *arguments]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def python() -> str:
    """Every public name, by its docstring. `vfs.virtualizarr` is in no `__all__`, since it needs VirtualiZarr."""
    groups: dict[str, list[str]] = {
        "Opening and showing": [],
        "Reductions and results": [],
        "For other tools": ["virtualizarr"],
        "Errors": [],
    }
    for name in vfs.__all__:
        thing = getattr(vfs, name)
        if isinstance(thing, type) and issubclass(thing, Warning | Exception):
            groups["Errors"].append(name)
        elif isinstance(thing, ModuleType):  # vfs.rsciio: what HyperSpy takes for a reader
            groups["For other tools"].append(name)
        elif getattr(thing, "__module__", "").startswith("vfs.reduce"):
            groups["Reductions and results"].append(name)
        else:
            groups["Opening and showing"].append(name)
    text = "# Python in full\n\nThe docstring of every public name. `uint16[scan_y, scan_x]` is a type and a shape.\n\n"
    for title, names in groups.items():
        names.sort(key=lambda name: (name[0].isupper(), not name.startswith("open")))  # functions first
        text += f"## {title}\n\n" + "".join(map(entry, names))
    return text


def entry(name: str) -> str:
    """One public name, with its members."""
    thing = None if name == "virtualizarr" else getattr(vfs, name)
    members = "   :members:\n   :inherited-members: object, Mapping\n   :special-members: __call__\n"
    if thing is None or isinstance(thing, ModuleType):
        kind, options = "module", members
    elif isinstance(thing, type) and issubclass(thing, Warning | Exception):
        kind, options = "exception", "   :no-index-entry:\n"
    elif isinstance(thing, type):
        kind, options = "class", members + "   :no-index-entry:\n"
    else:
        kind, options = "function", "   :no-index-entry:\n"
    return f"### vfs.{name}\n\n```{{eval-rst}}\n.. auto{kind}:: vfs.{name}\n{options}```\n\n"


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]).resolve()))
