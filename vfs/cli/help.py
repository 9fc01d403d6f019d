"""The help of a command: what it does and examples first, then its own options, then all others in groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class GroupedHelp(TyperCommand):
    """A command whose help begins with what people look for: one screen says how it is called."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                groups["Arguments"].append((str(param.metavar or param.name), str(getattr(param, "help", None) or "")))
            elif (record := param.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(record)
        for name, rows in groups.items():
            if rows:
                with formatter.section(name):
                    formatter.write_dl(rows)
