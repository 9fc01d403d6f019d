"""The help of a command: what it does, examples and its usual options first, then all that there is to say of it."""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand

from vfs.model.option_fields import USUAL


class GroupedHelp(TyperCommand):
    """A command whose help begins with what people look for: fifteen lines say how it is called."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        first, _, more = inspect.cleandoc(self.help or "").partition("\n\n")
        groups = self._groups(ctx)
        usual = groups.pop(USUAL, None)
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(first)
        self.format_epilog(ctx, formatter)
        if usual:
            _section(formatter, USUAL, usual)
        if more:
            with formatter.section("Details"):
                formatter.write_text(more)
        for name, rows in groups.items():
            if rows:
                _section(formatter, name, rows)

    def _groups(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return heading -> rows: arguments and options with what is said of them."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                groups["Arguments"].append((str(param.metavar or param.name), str(getattr(param, "help", None) or "")))
            elif (record := param.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(record)
        return groups


def _section(formatter: Any, name: str, rows: list[tuple[str, str]]) -> None:
    with formatter.section(name):
        formatter.write_dl(rows)
