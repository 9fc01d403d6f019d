"""Fixtures that the tests of reading HDF5 in another process share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from vfs.h5 import survey
from vfs.helper import process
from vfs.helper.process import Helper


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Nobody started yet; nobody left afterwards."""
    usual = survey.LIBHDF5
    usual.close()
    made = Helper(usual.what, usual.entry, usual.env)
    monkeypatch.setattr(process, "IDLE", 1000.0)  # whatever the machine is busy with
    monkeypatch.setattr(survey, "LIBHDF5", made)
    yield made
    made.close()
    assert made.running is None
    assert made.waiting == 0
