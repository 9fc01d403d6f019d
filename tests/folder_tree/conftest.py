"""Fixtures that the tests of folder trees share."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from vfs.folder_tree import plans
from vfs.folder_tree.look_ahead import LookAhead
from vfs.folder_tree.records import LOOKS


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was opened as a set, by name. Whatever was looked at is looked at again at once."""
    monkeypatch.setattr(LOOKS, "least", 0.0)
    monkeypatch.setattr(LOOKS, "share", 0.0)
    count: Counter[str] = Counter()
    real = plans.open_set

    def counting(path: str, *how: Any) -> Any:
        if isinstance(path, str):  # not what a description names
            count[os.path.basename(path)] += 1
        return real(path, *how)

    monkeypatch.setattr(plans, "open_set", counting)
    return count


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is opened ahead of who lists a folder."""
    monkeypatch.setattr(LookAhead, "add", lambda self, listing: None)
