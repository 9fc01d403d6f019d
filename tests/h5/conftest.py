"""Fixtures that the tests of reading HDF5 in another process share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from vfs.h5 import helper


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Nobody started yet; nobody left afterwards."""
    helper._shared.close()
    made = helper._SharedHelper()
    monkeypatch.setattr(helper, "IDLE", 1000.0)  # whatever the machine is busy with
    monkeypatch.setattr(helper, "_shared", made)
    yield made
    made.close()
    assert made.helper is None
    assert made.waiting == 0
