"""Writes options in messages as the reader of the message types them.

In Python an option is an argument, `plain=True`; in a shell it is a flag, `-o plain=true`. A process
has readers of one kind: those of a shell if a command of vfs runs in it, else those of Python. So the
text of an option is made here and nowhere else, and a message holds one form, not both.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LONG = 80  # characters of a value in a message


class Word(str):
    """A word that stands for a value in a message, such as NAME. It is written without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


ANY = Word("")
"""The value of an option whose name alone is written: `format=` in Python, `--format` in a shell."""

_for_shell = False


def speaks_shell() -> bool:
    """Return True if messages of this process are read in a shell."""
    return _for_shell


@contextmanager
def shell(speaks: bool = True) -> Iterator[None]:
    """Write options as a shell takes them until the block ends, in all threads of this process.

    Args:
        speaks: False to write them as Python takes them.
    """
    global _for_shell
    before, _for_shell = _for_shell, speaks
    try:
        yield
    finally:
        _for_shell = before


def are(n: int, what: str = "") -> str:
    """Return a number with its verb: "1 is", "12 are", "1 byte is", "12 bytes are"."""
    noun = f" {what}{'s' * (n != 1)}" if what else ""
    return f"{n:,}{noun} {'is' if n == 1 else 'are'}"


def option(**values: Any) -> str:
    """Return options that every format has, and those of commands: `nav_shape=(4, 5)`, `--nav-shape 4,5`.

    Args:
        values: option -> its value. `ANY` to write only the name; in a shell, so does True.
    """
    if not _for_shell:
        return _arguments(values)
    return " ".join(_flag(name, value) for name, value in values.items())


def format_option(**values: Any) -> str:
    """Return options of a format: `plain=True`, `-o plain=true`.

    Args:
        values: option -> its value. `ANY` to write only the name.
    """
    if not _for_shell:
        return _arguments(values)
    return " ".join(f"-o {name}{'' if value is ANY else f'={_typed(value)}'}" for name, value in values.items())


def option_names(*options: str) -> str:
    """Return the names of options that every format has, as a list in words: `roi and nav_shape`."""
    said = [flag(name) if _for_shell else name for name in options]
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1])))


def flag(name: str) -> str:
    """Return the flag of an option on the command line."""
    return "--" + name.replace("_", "-")


def shown(value: object) -> str:
    """Write a value as messages show it: in one line, and cut off where it is long."""
    return _cut(" ".join(repr(value).split()))


def _arguments(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())


def _flag(name: str, value: Any) -> str:
    return flag(name) if value is ANY or value is True else f"{flag(name)} {_typed(value)}"


def _typed(value: Any) -> str:
    """Return a value as it is typed in a shell: 4,5 for (4, 5)."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return _cut(",".join(map(_typed, value)))
    if isinstance(value, str) and not isinstance(value, Word):
        return _cut(shlex.quote(value))
    return shown(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
