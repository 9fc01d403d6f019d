"""The pages about tools that only these tests have: their sessions print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sessions import IN_DOORS, PAGES, check_sessions


@pytest.mark.parametrize("name", IN_DOORS)
def test_sessions_print_what_the_page_shows(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip(name)
    if name == "napari":
        request.getfixturevalue("display")  # its viewer is a window
    check_sessions(PAGES[name], tmp_path)
