"""Prints what commands say: results on stdout, notes and errors on stderr."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from vfs.errors import (
    SourceChangedError,
    TruncatedSourceError,
    VfsError,
    printable,
)
from vfs.streams import give_up

if TYPE_CHECKING:
    from vfs.outputs.place import OutputPlace

CHANGED = SourceChangedError, TruncatedSourceError
"""Errors behind which nothing that was interrupted goes on: that needs the same data."""


def line(text: str) -> str:
    """Return a note as it is printed: one line that starts with the name of the program."""
    return f"vfs: {printable(text)}"


def say(text: str) -> None:
    """Print a note on stderr. Does not fail if stderr cannot be written to."""
    try:
        print(line(text), file=sys.stderr, flush=True)
    except OSError:
        give_up(2)


def say_how_to_go_on(error: BaseException, target: str, place: OutputPlace) -> None:
    """Say what to do with what is unfinished: in the message of the error, or after Ctrl-C in its own.

    Args:
        error: ended it, and is raised again.
        target: what is unfinished.
        place: where it is written.
    """
    if place.noted():
        how = f"the same command with --resume continues from what {place.holds} holds"
        if isinstance(error, CHANGED):
            how = f"remove {place.holds} and {place.marks}, and start again"
    elif place.begun():  # somebody removed what tells of it
        how = f"remove {place.holds}, and start again"
    else:
        return
    if isinstance(error, VfsError):
        error.args = (*error.args[:-1], f"{error}; {how}")
    else:
        say(f"{target}: is not complete; {how}")


def put(text: str, end: str = "\n") -> None:
    """Print the result of a command on stdout.

    Args:
        end: what comes behind it.

    Raises:
        typer.Exit: with status 2, after a note: stdout cannot be written to.
        BrokenPipeError: the program that reads stdout has ended.
    """
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        give_up(1)
        say(f"standard output cannot be written to: {error.strerror}")
        raise typer.Exit(2) from None


def raise_all(failed: Sequence[VfsError]) -> None:
    """Print errors, one line each, but the last one, which is raised. Does nothing without errors."""
    for error in failed[:-1]:
        say(str(error))
    if failed:
        raise failed[-1]


def document(value: Any, indent: int | None = 1) -> str:
    """Return a value as JSON that people can read, too: indented, and not escaped where stdout takes all characters."""
    return json.dumps(value, indent=indent, ensure_ascii=_is_narrow(sys.stdout))


def _is_narrow(stream: Any) -> bool:
    """Return True if a stream has an encoding that lacks characters: those would be escaped as Python does."""
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name != "utf-8"
