"""Headers and queries, as they are read: without a server and without files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.errors import OptionError
from vfs.http import conditions
from vfs.http.conditions import Span, caching_of, etag_of, matched, names, wanted
from vfs.http.guard import RefusedError
from vfs.http.requests import query_of

ETAGS = st.binary(max_size=8).map(lambda some: b'"%s"' % some.hex().encode())


@given(size=st.integers(1, 99), first=st.integers(0, 120), last=st.none() | st.integers(0, 120))
def test_ranges_are_those_of_slices(size: int, first: int, last: int | None) -> None:
    header = b"bytes=%d-%s" % (first, b"" if last is None else b"%d" % last)
    if last is not None and last < first:
        assert wanted(header, size) is None
    elif first >= size:
        with pytest.raises(ValueError, match=r"^$"):
            wanted(header, size)
    else:
        expected = range(size)[first : None if last is None else last + 1]
        assert wanted(header, size) == Span(expected.start, expected.stop)
    if first:
        assert wanted(b"bytes=-%d" % first, size) == Span(max(0, size - first), size)


@pytest.mark.parametrize("header", [None, b"", b"bytes=", b"bytes=-", b"lines=0-1", b"bytes=0-1,3-4", b"bytes=a-b"])
def test_what_is_no_range_is_all(header: bytes | None) -> None:
    assert wanted(header, 10) is None


@given(etags=st.lists(ETAGS, min_size=1, max_size=4), other=ETAGS)
def test_lists_of_etags(etags: list[bytes], other: bytes) -> None:
    listed = b" , ".join(etags)
    weak = b",".join(b"W/" + one for one in etags)
    assert names(listed, etags[-1])
    assert names(weak, etags[0], weak=True)
    assert not names(weak, etags[0])
    assert names(listed, other) == (other in etags)
    assert names(b" * ", other)
    assert matched({b"if-none-match": listed}, other) == (other in etags)


def test_other_bytes_than_those_that_are_wanted_are_refused() -> None:
    with pytest.raises(RefusedError) as refused:
        matched({b"if-match": b'"a"'}, b'"b"')
    assert refused.value.status == 412
    assert not matched({b"if-match": b'"b"'}, b'"b"')


@given(key=st.text("ab/0123456789c", max_size=20))
def test_keys_of_one_state_have_etags_of_their_own(key: str) -> None:
    above, coordinates = conditions.split(key)
    assert above + coordinates == key
    assert etag_of(b"1", key) == etag_of(b"1", key)
    assert len({etag_of(b"1", key), etag_of(b"2", key), etag_of(b"1", f"{key}/x"), etag_of(b"", key)}) == 4
    assert etag_of(b"", key) != etag_of(b"", key)


@pytest.mark.parametrize(
    ("raw", "query"),
    [(b"", {}), (b"at=3,4&max=5", {"at": "3,4", "max": "5"}), (b"at=", {"at": ""}), (b"a=%26+b", {"a": "& b"})],
)
def test_queries(raw: bytes, query: dict[str, str]) -> None:
    assert query_of(raw) == query


@pytest.mark.parametrize("raw", [b"at", b"=&=", b"a=1&a=1", b"a=\xff", b"&".join(b"a%d=1" % k for k in range(25))])
def test_garbled_queries_are_refused(raw: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        query_of(raw)
    assert refused.value.status == 400


def test_how_answers_may_be_cached() -> None:
    assert caching_of("Public,max-age=3600 , immutable") == b"public, max-age=3600, immutable"
    assert caching_of("no-store") == b"no-store"


@pytest.mark.parametrize(
    "text", ["", "max_age=5", "max-age", "max-age=", "max-age=-1", "public=1", "public,", "a\r\nb: c"]
)
def test_what_no_cache_knows(text: str) -> None:
    with pytest.raises(OptionError, match=r"^cache_control=.*expected directives") as refused:
        caching_of(text)
    assert str(refused.value).isprintable()
