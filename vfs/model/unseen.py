"""Says what a set expects of files at which nobody looked when it was opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Unseen(Protocol):
    """Knows what files hold at which nobody looked when their set was opened, because others of the set told it.

    Whoever reads such a file for the first time asks for the places that show it, too, and has them checked.

    Attributes:
        pending: bool[files], at which nobody has looked yet. It is written to.
    """

    pending: np.ndarray

    def places(self, file: int) -> Sequence[tuple[int, int]]:
        """Return the first byte and the end of each part of a file that shows what it holds."""

    def check(self, path: str, file: int, parts: Sequence[bytes]) -> None:
        """Compare these parts of a file with what is expected.

        Raises:
            SourceError: it holds something else.
        """
