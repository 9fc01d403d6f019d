"""For how long a look at a file or folder is good."""

from __future__ import annotations

import pytest

from vfs.folder_tree import trust


def test_what_takes_long_to_look_at_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(trust.time, "monotonic", lambda: now[0])
    trusted = trust.Trust()
    assert not trusted.holds()
    trusted.renew(began=100.0)
    assert (trusted.holds(), trusted.until) == (True, 100.0 + trust.CHECK)
    trusted.renew(began=98.0)
    assert trusted.until == 100.0 + 2 * trust.SHARE
    now[0] = trusted.until
    assert not trusted.holds()
    trusted.renew(began=now[0])
    trusted.end()
    assert not trusted.holds()
