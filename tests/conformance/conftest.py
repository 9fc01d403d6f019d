"""Says which rows go through which door by day: each row through one, one row of each format through all of them."""

from __future__ import annotations

import pytest

from tests.conformance.rows import FIRST

DOORS = {
    "test_files_of_a_web_server",
    "test_files_that_are_not_on_this_machine",
    "test_links_that_lead_out_of_the_folder",
    "test_axes_in_another_order",
    "test_through_zarr",
    "test_pickled",
    "test_gone",
    "test_both_trees_hold_the_same_chunks",
    "test_the_command_line_says_it_in_one_line",
    "test_no_more_is_read_than_stated",
    "test_a_kernel_reads_no_more_than_window_by_window",
    "test_converted",
}
"""Tests of what is below or above a format: rows of one format differ only rarely here."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of further rows of a format as thorough."""
    for item in items:
        if not isinstance(item, pytest.Function) or item.path.parent.name != "conformance":
            continue
        if item.originalname in DOORS and item.callspec.params["row"] not in FIRST:
            item.add_marker("thorough")
