"""Says what a set expects of files at which nobody looked when it was opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Unseen(Protocol):
    """Knows what files hold that opening did not look at, because other files of the set told it.

    The first read of such a file also asks for the places that prove it, and has them checked.

    Attributes:
        pending: bool[files], True for files that nobody has looked at yet. It is written to.
    """

    pending: np.ndarray

    def places(self, file: int) -> Sequence[tuple[int, int]]:
        """Return the first byte and the end of each part of a file that shows what it holds."""

    def check(self, path: str, file: int, parts: Sequence[bytes]) -> None:
        """Compare these parts of a file with what is expected.

        Raises:
            SourceError: it holds something else.
        """
