"""What other readers of the same files say. They are installed by `scripts/test --differential`;
elsewhere these tests are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def context() -> Any:
    """A LiberTEM context that works in this process."""
    lt = pytest.importorskip("libertem.api")
    with lt.Context.make_with("inline") as made:
        yield made


def frames_of_libertem(context: Any, kind: str, path: Path, **options: Any) -> np.ndarray:
    """Every frame as LiberTEM reads it, in the scan's shape; frames that do not exist are 0."""
    from libertem.udf.raw import PickUDF

    data = context.load(kind, path=str(path), **options)
    nav = tuple(data.shape.nav)
    picked: np.ndarray = context.run_udf(data, PickUDF(), roi=np.ones(nav, bool))["intensity"].raw_data
    return picked.reshape(nav + picked.shape[1:])
