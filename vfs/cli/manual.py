"""Lists, prints and searches the pages of the manual, which are files of this package."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Mapping

from vfs.cli.printing import put
from vfs.cli.tables import table, width, wrapped
from vfs.errors import OptionError

ORDER = (
    "install",
    "tutorial-scan",
    "tutorial-python",
    "tutorial-sharing",
    "page",
    "live",
    "folders",
    "notebook",
    "metadata",
    "which-face",
    "recipes",
    "mount",
    "xarray",
    "dask",
    "napari",
    "hyperspy",
    "ome-zarr",
    "remote",
    "reductions",
    "export",
    "virtualizarr",
    "serve",
    "drives",
    "security",
    "troubleshooting",
    "commands",
    "formats",
    "glossary",
    "two-pages",
    "how-it-works",
    "figures",
    "decisions",
    "comparison",
    "adding-a-format",
    "protocol",
    "contributing",
    "changes",
)
"""The pages in the order in which they are read: that of the README."""


def show(topic: str | None, search: str | None) -> None:
    """List the pages, print one, or search for words in one or all.

    Raises:
        OptionError: there is no such page, or no paragraph has these words.
    """
    found = pages()
    if topic is not None and topic not in found:
        near = difflib.get_close_matches(topic, found, 3)
        raise OptionError(
            f"no page {topic!r}; " + (f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(found)}")
        )
    if search is not None:
        put("\n".join(_searched(search, found if topic is None else {topic: found[topic]})))
    elif topic is None:
        rows = table([(name, text.split("\n\n")[1]) for name, text in found.items()], width())
        put("\n".join([line for row in rows for line in row] + ["`vfs docs TOPIC` prints one"]))
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(found[topic], hyperlinks=False))  # names of pages, not links to files
    else:
        put(found[topic].rstrip())


def pages() -> dict[str, str]:
    """Read the pages of the manual.

    Returns: topic -> text in Markdown, in the order of `ORDER`. Its first paragraph, below the title, is a
        one-line summary of the page.
    """
    from importlib.resources import files

    folder = files("vfs").joinpath("docs")
    return {name: folder.joinpath(f"{name}.md").read_text(encoding="utf-8") for name in ORDER}


def _searched(words: str, among: Mapping[str, str]) -> list[str]:
    """Return the paragraphs that have each of some words, or words that begin so, whatever their case, below the name
    of their page and heading.

    Raises:
        OptionError: there is none, or no word.
    """
    wanted = [re.compile(rf"(?<![^\W_]){re.escape(word)}") for word in words.casefold().split()]  # words begin so
    if not wanted:
        raise OptionError("--search: expected a word, or several, found none")
    lines: list[str] = []
    for topic, text in among.items():
        last = None
        for heading, piece in _pieces(text):
            if not all(word.search(f"{heading}\n{piece}".casefold()) for word in wanted):
                continue
            if heading != last:
                lines.append(f"{topic}: {heading}")
            last = heading
            lines += wrapped(" ".join(piece.split()), width(), "  ", "  ")
    if not lines:
        where = "no page" if len(among) > 1 else f"nothing in the page {next(iter(among))}"
        raise OptionError(f"{where} has a paragraph with {words!r}; try fewer words, or the beginning of one")
    return lines


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield the heading and the text of each piece of a page: a paragraph, a point of a list, a row of a table, or a
    line of code.
    """
    heading, piece, code = "", [""], False
    for line in [*text.splitlines(), ""]:
        title = line.startswith("#") and not code
        starts = title or code or not line.strip() or line.startswith(("- ", "|", "```"))
        if starts and "".join(piece).strip():
            yield heading, "\n".join(piece)
        if starts:
            piece = []
        if line.startswith("```"):
            code = not code
        elif title:
            heading = line.lstrip("# ")
        elif not line.startswith(("|--", "<!--")):
            piece.append(line)
