"""Colour maps of pictures: one is usual everywhere, and `--colours` chooses another for a command.

They are those of the page (`colours.js`): tables of 256 colours, smooth between a few.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.wording import shown

USUAL = "grey"
ANCHORS = {
    USUAL: "000000 ffffff",
    "viridis": "440154 482878 3e4a89 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725",
    "magma": "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
    "inferno": "000004 1b0c41 4a0c6b 781c6d a52c60 cf4446 ed6925 fb9b06 f7d13d fcffa4",
    "diverging": "1f3a6e 3f6fb0 8fb4d8 f2f1ee e3a385 bf5340 701c28",
}
"""Name of a map -> colours at equal distances."""
_chosen: ContextVar[str] = ContextVar("colours", default=USUAL)


def choose(name: str) -> None:
    """Draw in the colours of a map from now on, in this context.

    Raises:
        OptionError: there is none of this name.
    """
    if name not in ANCHORS:
        raise OptionError(f"--colours {shown(name)}: expected {', '.join(ANCHORS)}")
    _chosen.set(name)


def colours() -> np.ndarray:
    """Return the map that was chosen, uint8[256, 3], from the smallest number to the largest; nobody may change it."""
    return _table(_chosen.get())


def for_matplotlib() -> Any:
    """Return the map that was chosen, as matplotlib takes it."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(colours() / 255, _chosen.get())


@cache
def _table(name: str) -> np.ndarray:
    anchors = np.array([list(bytes.fromhex(one)) for one in ANCHORS[name].split()], float)
    last = len(anchors) - 1
    t = np.linspace(0, 1, 256) * last
    k = np.minimum(last - 1, t.astype(int))
    u = (t - k)[:, None]
    a, b, c, d = (anchors[np.clip(k + step, 0, last)] for step in (-1, 0, 1, 2))
    if last == 1:
        made = b + u * (c - b)
    else:  # a smooth curve through them
        made = b + 0.5 * u * (c - a + u * (2 * a - 5 * b + 4 * c - d + u * (3 * (b - c) + d - a)))
    table: np.ndarray = np.floor(np.clip(made, 0, 255) + 0.5).astype(np.uint8)
    table.flags.writeable = False
    return table
