from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.support import array_of, tree_of
from vfs.faces.url_names import url_paths

NAMES = st.text("ab#?%_4-2 ", min_size=1, max_size=4)


def test_names_that_a_url_would_cut_are_changed_and_others_stay() -> None:
    assert url_paths(["Ch #1", "Ch _1", "a?b/c%20d", "a_b/c", "%41", "ä b"]) == {
        "Ch #1": "Ch _1-2",
        "Ch _1": "Ch _1",
        "a?b/c%20d": "a_b-2/c_20d",
        "a_b/c": "a_b/c",
        "%41": "_41",
        "ä b": "ä b",
    }


@given(st.lists(st.lists(NAMES, min_size=2, max_size=2), unique_by=tuple))
def test_no_two_arrays_get_one_name(parts: list[list[str]]) -> None:
    paths = ["/".join(names) for names in parts]
    shown = url_paths(paths)
    assert list(shown) == paths
    assert len(set(shown.values())) == len(paths)
    assert not any(letter in path for path in shown.values() for letter in "#?%")
    assert all(shown[path] == path for path in paths if not any(letter in path for letter in "#?%"))


def test_a_set_over_http_holds_the_same_arrays() -> None:
    first, second = array_of(np.zeros((2, 3), "u1"), "Ch #1"), array_of(np.zeros((2, 4), "u1"), "plain")
    tree = tree_of(first, second)
    shown = tree.for_urls()
    assert dict(shown.arrays) == {"Ch _1": first, "plain": second}
    assert shown.arrays[shown.main] is tree.arrays[tree.main]
    assert shown.zarr(3).get("Ch _1/zarr.json") is not None
