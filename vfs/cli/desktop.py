"""Installs vfs among the programs of the desktop, so that a file manager opens data in the page.

The desktop entry follows the Desktop Entry Specification 1.4 of freedesktop.org, and lies where the XDG Base Directory
Specification says: in the user's own folder, for which nobody needs to be root.
"""

from __future__ import annotations

import os
import re
import sys

from vfs.errors import OptionError
from vfs.new_files import create
from vfs.outputs.outputs import whole

MARK = "# Written by `vfs serve --install-desktop`, which may replace it\n"
"""The first line of an entry: one without it is somebody else's."""
KINDS = ("inode/directory", "application/octet-stream", "application/x-hdf", "application/x-hdf5", "image/tiff")
"""MIME types of what is offered to vfs. Of most detector files the desktop only knows that they are bytes."""
_ENTRY = """{mark}[Desktop Entry]
Type=Application
Version=1.4
Name=vfs
GenericName=Viewer of detector data
Comment=Look at scans, stacks and movies of microscopes in the browser
Exec={command} %F
Icon=applications-science
Terminal=true
Categories=Science;
MimeType={kinds};
"""


def install() -> str:
    """Write the desktop entry, in place of an older one of vfs. Return its path.

    Raises:
        OptionError: it cannot be written, or another program's entry has its name.
    """
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = os.path.join(data if os.path.isabs(data) else os.path.expanduser("~/.local/share"), "applications")
    path = os.path.join(folder, "vfs.desktop")
    try:
        os.makedirs(folder, exist_ok=True)
        if os.path.lexists(path):
            with open(path, encoding="utf-8", errors="replace") as old:
                if old.readline() != MARK:
                    raise OptionError(f"{path}: expected an entry that vfs wrote, found another; remove it first")
            os.unlink(path)
        with whole(path) as partial, open(create(partial), "w", encoding="utf-8") as file:
            file.write(entry([sys.executable, "-P", "-m", "vfs"]))
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def entry(command: list[str]) -> str:
    """Return the text of the entry.

    Args:
        command: the program and its arguments, to which the desktop adds the names of the chosen files.
    """
    return _ENTRY.format(mark=MARK, command=" ".join(map(_quoted, command)), kinds=";".join(KINDS))


def _quoted(word: str) -> str:
    """Quote a word as `Exec` wants it: once for its own rules, once more for those of all texts of an entry."""
    safe = re.sub(r'(["`$\\])', r"\\\1", word).replace("%", "%%")
    return f'"{safe}"'.replace("\\", "\\\\") if re.search(r"[^\w./+:@-]", word) else safe
