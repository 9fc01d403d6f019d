"""The clients' results as tables at the end of a run: `record_property("mounted", {…})` adds a line
to that of the mount, "served" to that of the server. What was not installed stands below.
"""

from __future__ import annotations

import pytest

from tests.page.conftest import browse as browse
from tests.page.conftest import chromium as chromium

TABLES = {
    "mounted": ("client", "version", "face", "whole", "crossing", "edge", "unreadable source"),
    "served": (
        *("client", "version", "face", "whole", "crossing", "edge"),
        *("404", "422", "422 later", "401", "401 later", "cut", "gone"),
    ),
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report for found in terminalreporter.stats.values() for report in found if isinstance(report, pytest.TestReport)
    ]
    for table, columns in TABLES.items():
        rows = [
            value
            for report in reports
            if report.when == "call"
            for name, value in report.user_properties
            if name == table
        ]
        if rows:
            terminalreporter.section(f"clients, {table}")
            _write(terminalreporter, columns, rows)


def _write(terminalreporter: pytest.TerminalReporter, columns: tuple[str, ...], rows: list[dict[str, str]]) -> None:
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:  # the tests of one client and face are one line
        line = lines.setdefault((row["client"], row["face"]), {})
        for column in columns:
            parts = dict.fromkeys(part for part in (line.get(column), row.get(column)) if part)
            line[column] = "; ".join(parts)
    found = [columns, *(tuple(line[column] or "-" for column in columns) for _, line in sorted(lines.items()))]
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    for cells in found:
        terminalreporter.write_line(
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        )
    missing = sorted({line["client"] for line in lines.values() if "NOT INSTALLED" in line["version"]})
    if missing:
        terminalreporter.write_line(f"NOT TESTED, AS THEY COULD NOT BE INSTALLED: {', '.join(missing)}", red=True)
