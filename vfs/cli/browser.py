"""Opens a server's URL in a browser, and shows its token to nobody else.

All users of a machine can read the command line of a browser. So a browser is given the name of a file that only this
user may read, and that leads to the URL. It lies in the entry of the server, which is removed when the server ends.
"""

from __future__ import annotations

import os
import tempfile
import webbrowser
from html import escape
from pathlib import Path

from vfs.new_files import create
from vfs.serving.entry import PAGE

_TEXT = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>vfs</title>
<p><a href="{url}">the page of vfs serve</a></p>
"""


def open_page(url: str, address: str) -> str:
    """Open a URL of a server in a browser.

    Args:
        url: with the token, if the server has one; what follows a `#` is kept.
        address: the same without the token, as `vfs.server.servers` lists it.

    Returns: a line that says why that cannot be; "" if it was opened.
    """
    shown = url
    if not url.startswith(f"{address.removesuffix('/')}/t/"):  # it holds no secret
        return "" if webbrowser.open(shown) else "no browser was found"
    from vfs.server import servers

    folder = next((one.folder for one in servers() if one.address == address), None)
    if folder is None:
        return "no browser is opened: its command line would show the token, and there is no folder for a file"
    try:
        shown = _leading_to(url, folder)
    except OSError as error:
        return f"no browser is opened: its command line would show the token, and no file can be written: {error}"
    return "" if webbrowser.open(shown) else "no browser was found"


def _leading_to(url: str, folder: str) -> str:
    """Write a file that leads to a URL. Returns its own URL.

    Browsers that are snaps read visible files of the home folder only (snapd's interface `home`): no hidden ones, and
    neither `/tmp` nor `/run`. Where there are snaps, the file is there, and a link to it is in the entry.
    """
    path = os.path.join(folder, PAGE)
    home = os.path.expanduser("~")
    if os.path.isdir(os.path.join(home, "snap")):
        real = os.path.join(tempfile.mkdtemp(prefix="vfs-", dir=home), PAGE)
        os.symlink(real, path)
        path = real
    with open(create(path, 0o600), "w", encoding="utf-8") as file:
        file.write(_TEXT.format(url=escape(url)))
    return Path(path).as_uri()
