"""Reads who may ask: persons, each with a token of their own, from a file that is read again when it changes."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from vfs.contents.rights import Rights
from vfs.errors import OptionError, printable

MIN_TOKEN_LETTERS = 16
"""Fewest characters of a token that a user chooses."""
MAX_TOKEN_LETTERS = 4096
MAX_NAME_LETTERS = 64
MAX_FILE_BYTES = 1 << 20
"""Most bytes of a file of persons and their tokens."""
SECONDS = 1.0
"""Time between two looks whether that file has changed."""

NO_NAMES = frozenset(("", ".", ".."))
"""Parts that no path has."""
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


@dataclass(frozen=True)
class Person:
    """Somebody who may ask.

    Attributes:
        name: "" where a server has one token, which may be anybody's.
        token: "" for none.
        rights: what the person may see; None: all that is served.
        base: what paths of URLs begin with, as `/t/TOKEN/`.
    """

    name: str
    token: str = field(repr=False)
    rights: Rights | None = None
    base: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", f"/t/{self.token}/".encode() if self.token else b"/")


def text_of(wanted: str, several: bool, most: int) -> str:
    """Return the text of a file that only its owner may read.

    Args:
        wanted: its name.
        several: it is to hold several tokens, for messages.
        most: bytes that are read; of a longer file, one more.

    Raises:
        OptionError: it is not there, its bytes are not ASCII, or others may read it.
    """
    named = printable(wanted)
    what, these = ("names and tokens", "these tokens") if several else ("a token", "this token")
    try:
        with open(wanted, encoding="ascii") as file:
            open_to = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077
            text = file.read(most + 1)
    except OSError as error:
        raise OptionError(f"{named}: expected a file with {what}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError(f"{named}: expected a file with {what}: its bytes are not ASCII") from None
    except ValueError as error:  # the name has a null byte, or what no name can be written in
        raise OptionError(f"{named}: expected a file with {what}: {error}") from None
    if open_to:
        raise OptionError(f"{named}: others may read {these}; chmod 600 {named}")
    return text


def check_token(token: str, where: str) -> str:
    """Return a token.

    Args:
        where: the file that holds it, for the message.

    Raises:
        OptionError: it is too short, too long, or has other characters than those that URLs keep.
    """
    if not MIN_TOKEN_LETTERS <= len(token) <= MAX_TOKEN_LETTERS or not _LETTERS.issuperset(token):
        raise OptionError(
            f"{where}: expected a token of at least {MIN_TOKEN_LETTERS} letters, digits, or - _ . ~, found"
            f" {len(token)} characters"
        )
    return token


def read_persons(wanted: str) -> tuple[Person, ...]:
    """Read a file with a name and a token in each line, and perhaps folders; a line that begins with # is a comment.

    A name may come again, with another token. No message shows a token. Folders are those that the person may see; they
    are written as in URLs.

    Raises:
        OptionError: see `text_of`, `check_token` and `_rights`; or a line is none of these, a token comes twice, or
            there is none.
    """
    text = text_of(wanted, True, MAX_FILE_BYTES)
    named = printable(wanted)
    if len(text) > MAX_FILE_BYTES:
        raise OptionError(f"{named}: expected at most {MAX_FILE_BYTES:,} bytes of names and tokens")
    persons: dict[str, Person] = {}
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"{named}, line {number}"
        if len(words) < 2 or len(words[0]) > MAX_NAME_LETTERS or not words[0].isprintable():
            raise OptionError(
                f"{where}: expected a name of at most {MAX_NAME_LETTERS} characters, a space, and a token, perhaps"
                f" folders behind them; found {len(words)} words"
            )
        name, token = words[0], check_token(words[1], where)
        if token in persons:
            raise OptionError(f"{where}: expected a token of its own; it is that of {persons[token].name}, too")
        persons[token] = Person(name, token, _rights(words[2:], where))
    if not persons:
        raise OptionError(f"{named}: expected a name and a token in each line, found none; # begins a comment")
    return tuple(persons.values())


def _rights(folders: Sequence[str], where: str) -> Rights | None:
    """Return the rights of somebody who may see some folders; None where there are none, and all may be seen.

    Args:
        folders: their paths, as in URLs.
        where: the line that has them, for the message.

    Raises:
        OptionError: one is no path below the folder that is served.
    """
    paths = [os.fsdecode(unquote_to_bytes(folder)).strip("/") for folder in folders]
    for folder, path in zip(folders, paths, strict=True):
        if "#" in folder or "?" in folder or not NO_NAMES.isdisjoint(path.split("/")) or "\0" in path:
            raise OptionError(
                f"{where}: {printable(folder[:80])}: expected a folder below the one that is served, such as"
                " ada/2026, with %20 for a space"
            )
    return Rights(frozenset(paths)) if paths else None


class WatchedFile:
    """Looks at a file again and again, in a thread of its own: its file system may hang.

    Args:
        path: the file.
        changed: is called in the thread when it has changed.
    """

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        self._path = path
        self._changed = changed
        self._ended = threading.Event()
        self._state = self._look()
        threading.Thread(target=self._run, name="vfs-watch", daemon=True).start()

    def _look(self) -> tuple[int, ...]:
        """Return what tells one state of the file from another; nothing if it is not there."""
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns

    def _run(self) -> None:
        while not self._ended.wait(SECONDS):
            state, before = self._look(), self._state
            self._state = state
            if state != before:
                self._changed()

    def end(self) -> None:
        """Look no longer."""
        self._ended.set()
