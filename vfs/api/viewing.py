"""The page in a notebook: `show`, and what it returns, a `View`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

import numpy as np

from vfs.backends import choice
from vfs.engine.array import ArrayReader
from vfs.errors import DependencyError, OptionError, RegionError, extra
from vfs.folder_tree.plans import open_folder
from vfs.reduce import spelling
from vfs.reduce.reduction import Reduction
from vfs.reduce.shapes import Disk, Rectangle
from vfs.sets.opening import Opening

if TYPE_CHECKING:
    from vfs.server import Server

NOTEBOOKS = (
    *("http://localhost:*", "http://127.0.0.1:*", "https://localhost:*", "https://127.0.0.1:*"),
    *("vscode-webview://*", "vscode-file://vscode-app"),
)
"""Origins of pages in which a cell may show the page: JupyterLab on this machine, and VS Code, which has a cell in
a frame of its window: both count. Behind jupyter-server-proxy the page has the notebook's own origin."""
HEIGHT = 600
"""Pixels."""

_servers: dict[str, Server] = {}  # of sets that are shown, by how they were opened; they end with this process


class View:
    """The page of a data set in a notebook's cell. It ends with the kernel, or with `close`.

    What is drawn there comes back as objects that `reduce` takes, and can be set:

        view = a.show()
        a.reduce(image=view.detector)
        a.reduce(roi=view.selection, pattern=vfs.Mean())
        view.detector = vfs.Ring(64, 64, 20, 40)

    This two-way part needs anywidget (pip install 'vfs[notebook]'); without it a cell shows the page.

    Attributes:
        url: the page, for a browser on the machine of the kernel, or behind what forwards its port.
    """

    def __init__(self, server: Server, reader: ArrayReader, path: str, height: int) -> None:
        self._server = server
        self._reader = reader
        self._height = height
        self._first = urlencode({"array": path}, quote_via=quote)
        self._made: Any = None  # the widget
        self.url = f"{server.url}#{self._first}"

    @property
    def widget(self) -> Any:
        """The anywidget that shows the page, for layouts of ipywidgets.

        Raises:
            DependencyError: anywidget is not installed.
        """
        if self._made is None:
            self._made = _widget()(url=self._server.url, view=self._first, height=self._height)
        return self._made

    @property
    def detector(self) -> Reduction | None:
        """The detector in the frame, as `reduce` takes it; None before the page says one, and where there is none.

        Raises:
            DependencyError: see `widget`.
            OptionError: what is set is no detector that the page draws.
        """
        text = self.widget.detector
        return spelling.read_call(text) if text else None

    @detector.setter
    def detector(self, value: Reduction) -> None:
        if not isinstance(value, Reduction):
            raise OptionError(f"detector={value!r}: expected a reduction, such as vfs.Disk(64, 64, 20)")
        self._say(detector=spelling.spelled(value))

    @property
    def position(self) -> tuple[int, ...]:
        """The index of the frame that is shown, along each navigation axis.

        Raises:
            DependencyError: see `widget`.
            RegionError: there is no such position.
        """
        at = self._fields().get("at", "")
        nav = self._nav
        return tuple(map(int, at.split(",")))[: len(nav)] if at else tuple(n // 2 for n in nav)

    @position.setter
    def position(self, value: Sequence[int]) -> None:
        nav, at = self._nav, tuple(map(int, value))
        if len(at) != len(nav) or not all(0 <= k < n for k, n in zip(at, nav, strict=True)):
            raise RegionError(f"position {at}: expected an index along each axis of the scan of {list(nav)}")
        self._say(at=at)

    @property
    def selection(self) -> np.ndarray | None:
        """bool[scan shape], the positions that are selected, as `roi` takes them; None: one position is.

        Set it as a `vfs.Rectangle` or `vfs.Disk` in the scan, or None.

        Raises:
            DependencyError: see `widget`.
            OptionError: what is set is neither.
        """
        text = self._fields().get("selection")
        shape = spelling.read_call(text) if text else None
        if not isinstance(shape, Rectangle | Disk) or len(self._nav) < 2:
            return None
        inside = shape.inside(self._nav[-2:])
        return np.broadcast_to(inside, self._nav).copy()

    @selection.setter
    def selection(self, value: Rectangle | Disk | None) -> None:
        if not isinstance(value, Rectangle | Disk | None):
            raise OptionError(f"selection={value!r}: expected vfs.Rectangle(…) or vfs.Disk(…) in the scan, or None")
        self._say(selection="" if value is None else _positional(value))

    def close(self) -> None:
        """End the server of this page, and of other views of the same set."""
        for known, server in list(_servers.items()):
            if server is self._server:
                del _servers[known]
        self._server.close()

    @property
    def _nav(self) -> tuple[int, ...]:
        return self._reader.shape[: self._reader.dataset.nav_ndim]

    def _fields(self) -> dict[str, str]:
        return dict(parse_qsl(self.widget.view))

    def _say(self, **changes: Any) -> None:
        """Ask the page for a change of what is looked at; it says itself what it shows then."""
        texts = {name: ",".join(map(str, value)) if name == "at" else value for name, value in changes.items()}
        self.widget.view = urlencode(
            {name: value for name, value in (self._fields() | texts).items() if value}, safe="/,()", quote_via=quote
        )
        if "detector" in changes:
            self.widget.detector = changes["detector"]
        self.widget.send(changes)

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        try:
            return self.widget._repr_mimebundle_(**asked)
        except DependencyError:
            return {"text/plain": repr(self), "text/html": self._frame()}

    def _frame(self) -> str:
        from vfs.server.process import finding

        style = f"width:100%;height:{self._height}px;box-sizing:border-box;border:1px solid #8888"
        return finding(
            lambda address: (
                f'<iframe src="{address}" title="vfs" style="{style}"></iframe>'
                f'<a href="{address}" target="_blank" rel="noreferrer"><small>open in a tab</small></a>'
            ),
            self.url,
        )

    def __repr__(self) -> str:
        return f"<vfs.View {self.url}>"


def _positional(shape: Reduction) -> str:
    """Write a reduction as the page's address has it: ring(64,64,20,40)."""
    text = spelling.spelled(shape)
    word, _, rest = text.partition("(")
    return f"{word}({','.join(piece.partition('=')[2] for piece in rest.removesuffix(')').split(', ') if piece)})"


def show_array(opening: Opening, reader: ArrayReader, path: str, height: int = HEIGHT) -> View:
    """Show an array of a set in a cell, opened as it was.

    Raises:
        ServeError: serving cannot work; the message says why and what to do.
    """
    return View(_served(opening), reader, path, height)


def _served(opening: Opening) -> Server:
    """Return a server of a set: the one that serves it already, if it lives."""
    from vfs.server import ServeHow, Server

    known = opening.identity
    server = _servers.get(known)
    if server is None or not server.running:
        backend, _ = choice(opening.options.backend, serves=True)
        own = replace(opening, options=replace(opening.options, backend=backend))
        make = partial(open_folder, [own], for_urls=True)
        # jupyter-server-proxy passes on the name under which a browser reaches the notebook, which no kernel knows
        how = ServeHow(sources=opening.paths[:1], port=0, embed=NOTEBOOKS, allow_host=("*",))
        _servers[known] = server = Server.start(make, how)
    return server


def _widget() -> Any:
    """Return the class of the widget.

    Raises:
        DependencyError: anywidget is not installed.
    """
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise DependencyError(
            f"what is drawn in a cell comes back by anywidget, which is not installed: {extra('notebook')}"
        ) from None

    from vfs.server.process import REACH

    class PageWidget(anywidget.AnyWidget):
        """The page in a frame: its view as text, and the detector that it shows."""

        _esm = REACH + files("vfs.api").joinpath("view.js").read_text(encoding="utf-8")
        url = traitlets.Unicode().tag(sync=True)
        view = traitlets.Unicode().tag(sync=True)
        detector = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int(HEIGHT).tag(sync=True)

    return PageWidget
