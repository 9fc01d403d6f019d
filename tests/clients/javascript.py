"""Asks a client in JavaScript, under Node or in headless Chromium, for elements: `talk.mjs` runs it."""

from __future__ import annotations

import atexit
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np


class Talk:
    """A client that runs, and answers a line of JSON with another.

    Args:
        module: a file beside this one, which exports `open(face, array)` and `get(starts, stops)`.
        where: "node" or "chromium".
        more: modules of packages that are bundled beside it.
    """

    def __init__(self, module: str, where: str, *more: str) -> None:
        folder = Path(__file__).parent
        self._node = subprocess.Popen(
            ["node", folder / "talk.mjs", folder / module, where, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._end)

    def _end(self) -> None:
        self._node.communicate()  # the end of its input ends it, and the browser

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a function of the module.

        Raises:
            OSError: it threw.
        """
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps([name, arguments]) + "\n")
        self._node.stdin.flush()
        answer = json.loads(self._node.stdout.readline() or '{"error": "it ended"}')
        if "error" in answer:
            raise OSError(answer["error"])
        return answer["value"]

    def read(self, face: str, array: str) -> Any:
        """What `compare.main` wants."""
        opened = self.ask("open", face, array)

        def get(region: tuple[slice, ...]) -> Any:
            bounds = [piece.indices(n)[:2] for piece, n in zip(region, opened["shape"], strict=True)]
            held = self.ask("get", [first for first, _ in bounds], [last for _, last in bounds])
            return np.array(held, "u1").view(opened["dtype"]).reshape([last - first for first, last in bounds])

        return get, opened


def version(package: str) -> str:
    """The version of a package from npm, which is installed in the working directory."""
    return str(json.loads(Path(f"node_modules/{package}/package.json").read_text())["version"])
