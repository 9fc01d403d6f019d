"""Starts an HTTP server in another process, and ends it, for `vfs.serve()` and `vfs serve --background`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vfs.server.how import ServeHow
from vfs.serving.process import Command, ServerProcess, end, set_free, start

if TYPE_CHECKING:
    from vfs.contents.contents import Contents

REACH = files("vfs.server").joinpath("reach.js").read_text(encoding="utf-8")
"""JavaScript: `reach(url)` finds where a browser reaches a server of this machine."""


class Server(ServerProcess):
    """An HTTP server that another process runs.

    It lasts until `close`, the end of a `with` block, or the end of this process.

    Attributes:
        url: where its contents are, with the token: `url + "scan.zarr"` is a data set.
        address: the same without the token.
    """

    def __init__(self, url: str, address: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__(address, process, end)
        self.url = url
        self.address = address

    @classmethod
    def start(cls, make: Callable[[], Contents], how: ServeHow, *, log_level: str = "warning") -> Server:
        """Start a server and wait until it answers.

        Args:
            make: makes the contents. It is pickled, and called in the server.
            how: how to serve.
            log_level: "error", "warning", "info" or "debug".

        Raises:
            ServeError: serving cannot work, or an argument does not fit; the message says why and what to do.
        """
        command = Command(make, False, log_level, {"how": how})
        return start(
            "vfs.server.server", command, how.name, lambda process, said: cls(said["url"], said["address"], process)
        )

    def _repr_html_(self) -> str:
        link = f'<a href="{{}}" target="_blank" rel="noreferrer">{escape(self.address)}</a>'
        return finding(link.format, self.url)

    @property
    def token(self) -> str:
        """The token in the path of every URL; "" for none."""
        return urlsplit(self.url).path.removeprefix("/t/").strip("/")


def reached(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return where a browser reaches a server of this machine: on a JupyterHub through jupyter-server-proxy.

    Args:
        url: http://127.0.0.1:8765/t/TOKEN/…
        environ: JUPYTERHUB_SERVICE_PREFIX says where the notebooks of a user are on the hub.
    """
    prefix = environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
    if not prefix:
        return url
    port, _, path = url.partition("://")[2].partition(":")[2].partition("/")
    return f"{prefix.rstrip('/')}/proxy/{port}/{path}"


def finding(html: Callable[[str], str], url: str) -> str:
    """Return HTML that leads to a server of this machine: whoever shows it looks for the way from there.

    Args:
        html: makes HTML with an address, escaped, as `href` or `src`.
        url: http://127.0.0.1:8765/t/TOKEN/…
    """
    address = reached(url)
    named = json.dumps(f'[href="{address}"], [src="{address}"]')
    script = (  # what is on its way already is ended: of two ways that a frame goes at once, the wrong one may win
        f"const all = document.querySelectorAll({named});\n"
        "for (const one of all) if (one.src) one.src = 'about:blank';\n"
        f"reach({json.dumps(url)}).then((place) => {{\n"
        f"  for (const one of all) one[one.href ? 'href' : 'src'] = place || {json.dumps(address)};\n}});"
    )
    return f"{html(escape(address, quote=True))}<script>(() => {{\n{REACH}{script}\n}})();</script>"


def start_in_background(
    make: Callable[[], Contents], how: ServeHow, *, say: Callable[[str, str], None], log_level: str = "info"
) -> None:
    """Start a server that outlives this process, and wait until it answers.

    It takes the arguments of `Server.start`. The server logs into a file of its own.

    Args:
        say: called with (address, URL with the token), see `vfs.serving.process.set_free`.

    Raises:
        ServeError: see `Server.start`; or there is no folder for the log.
    """
    command = Command(make, True, log_level, {"how": how})
    process, answer = start("vfs.server.server", command, how.name, lambda process, said: (process, said))
    set_free(process, answer["address"], lambda: say(answer["address"], answer["url"]))
