"""For how long a look at a file or folder is good."""

from __future__ import annotations

import pytest

from vfs.live import trust


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


def test_one_slow_look_delays_nothing_where_the_shortest_of_some_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at a set that is being written may take a second or ten: it loads or compiles code."""
    monkeypatch.setattr(trust.time, "monotonic", lambda: 100.0)
    trusted = trust.Trust(trust.Pace(least=0.5, share=10, shortest_of=3))
    for took, until in ((1.0, 100.5), (11.0, 100.5), (0.1, 101.0), (4.0, 101.0), (3.0, 101.0), (2.0, 120.0)):
        trusted.renew(began=100.0 - took)
        assert trusted.until == pytest.approx(until)
