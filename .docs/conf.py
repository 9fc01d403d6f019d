"""How Sphinx makes the site of `vfs/docs`: `.docs/build.py` lays out what it reads, `scripts/docs` calls that."""

from __future__ import annotations

import re
from typing import Any

import vfs

project = "vfs"
author = "vfs developers"
copyright = author
version = release = vfs.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 3  # links of pages name headings, as on GitHub
html_theme = "furo"
html_title = "vfs"
html_static_path = ["_static"]
templates_path = ["_templates"]  # the search, which knows sections and works from file://
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options: dict[str, Any] = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"
autodoc_typehints = "none"  # the signature says them
python_maximum_signature_line_length = 88  # letters; a parameter a line in longer ones
autodoc_member_order = "bysource"
autodoc_mock_imports = ["virtualizarr"]
napoleon_google_docstring = True
napoleon_use_rtype = False
nitpicky = False


def escaped(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make reStructuredText of a docstring, which is plain text with code between single backticks."""
    for n, line in enumerate(lines):
        parts = re.split(r"(`[^`]+`)", line)
        for k, part in enumerate(parts):
            if k % 2:
                parts[k] = f"`{part}`" + ("" if not parts[k + 1] or not parts[k + 1][0].isalnum() else "\\ ")
            else:
                parts[k] = re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", part)
        lines[n] = "".join(parts)


def shortened(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """Leave modules out of the types in a signature: `Region`, not `vfs.model.region.Region`."""
    if not signature:
        return None
    short = [re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text) if text else text for text in (signature, returned)]
    return short[0] or "", short[1]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", escaped, priority=1)  # before napoleon makes fields of it
    app.connect("autodoc-process-signature", shortened)
