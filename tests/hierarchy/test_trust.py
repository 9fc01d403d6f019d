"""For how long a look at a file or folder is good."""

from __future__ import annotations

import pytest

from vfs.hierarchy import trust


def test_what_takes_long_to_look_at_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(trust.time, "monotonic", lambda: now[0])
    trusted = trust.Trust(trust.Pace(least=0.5, share=10))
    assert not trusted.holds()
    trusted.renew(began=100.0)
    assert (trusted.holds(), trusted.until) == (True, 100.5)
    trusted.renew(began=98.0)
    assert trusted.until == 120.0
    now[0] = trusted.until
    assert not trusted.holds()
    trusted.extend(now[0])
    assert trusted.until == 140.0
    trusted.renew(began=now[0])
    trusted.end()
    assert not trusted.holds()
