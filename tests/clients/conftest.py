"""The clients' results as a table at the end of a run: `record_property("client", {…})` adds a line."""

from __future__ import annotations

import pytest

COLUMNS = ("client", "version", "face", "whole", "crossing", "edge", "unreadable source")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report for found in terminalreporter.stats.values() for report in found if isinstance(report, pytest.TestReport)
    ]
    rows = [
        value
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == "client"
    ]
    if not rows:
        return
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:  # the tests of one client and face are one line
        line = lines.setdefault((row["client"], row["face"]), {})
        for column in COLUMNS:
            parts = dict.fromkeys(part for part in (line.get(column), row.get(column)) if part)
            line[column] = "; ".join(parts)
    table = [COLUMNS, *(tuple(line[column] or "-" for column in COLUMNS) for _, line in sorted(lines.items()))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    terminalreporter.section("clients through the mount")
    for cells in table:
        terminalreporter.write_line(
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        )
